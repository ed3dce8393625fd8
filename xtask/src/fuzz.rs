//! `cargo xtask fuzz`: libFuzzer over each parser, from the seeds that the tests use; how often each was run.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::checkout::Checkout;
use crate::machine;
use crate::step::{NotHere, read, run, say};

/// What is installed where there is none.
const VERSION: &str = "0.13.2";
const STAT: &str = "stat::number_of_executed_units:";

#[derive(Debug, clap::Args)]
pub struct Fuzz {
    /// Parsers; none named = all
    targets: Vec<String>,
    /// Seconds for each
    #[arg(long, value_name = "SECS", default_value_t = 60)]
    time: u64,
    /// Ends a parser earlier: after so many executions
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// As cargo-fuzz has it: address needs an unstable compiler and halves the speed
    #[arg(long, value_name = "SANITIZER", default_value = "none")]
    sanitizer: String,
}

/// Fails where one parser does; the input is kept in `observer/fuzz/artifacts`.
pub fn run_all(checkout: &Checkout, fuzz: &Fuzz) -> Result<()> {
    let dir = checkout.root.join("observer/fuzz");
    let cargo_fuzz = ensure(checkout)?;
    let known = targets(&dir)?;
    if let Some(wrong) = fuzz.targets.iter().find(|target| !known.contains(target)) {
        bail!("no parser «{wrong}»; there are: {}", known.join(", "));
    }
    let chosen = if fuzz.targets.is_empty() {
        &known
    } else {
        &fuzz.targets
    };
    // The same versions as everywhere else.
    fs::copy(checkout.root.join("Cargo.lock"), dir.join("Cargo.lock"))?;
    let corpus = dir.join("corpus");
    say("writing the tests' seeds into observer/fuzz/corpus");
    run(checkout
        .cargo()
        .args([
            "test",
            "--locked",
            "-p",
            "observer",
            "--test",
            "fuzz",
            "seeds_are_good_input",
        ])
        .env("OBSERVER_FUZZ_CORPUS", &corpus))?;
    let ledger = checkout.own().join("fuzz-executions");
    let mut fallen = Vec::new();
    for target in chosen {
        let mut command = Command::new(&cargo_fuzz);
        command
            .args(["fuzz", "run", "--sanitizer", &fuzz.sanitizer, target])
            .args([
                "--",
                "-timeout=10",
                "-rss_limit_mb=1024",
                "-print_final_stats=1",
            ])
            .args(["-verbosity=0", &format!("-max_total_time={}", fuzz.time)])
            .current_dir(&dir);
        if let Some(runs) = fuzz.runs {
            command.arg(format!("-runs={runs}"));
        }
        if fuzz.sanitizer != "none" {
            command.env("RUSTC_BOOTSTRAP", "1");
        }
        say(format_args!("fuzzing {target} for {} s", fuzz.time));
        let (executions, well) = one(&mut command)?;
        let total = add(&ledger, target, executions)?;
        say(format_args!(
            "{target}: {executions} executions, {total} in this checkout so far"
        ));
        if !well {
            fallen.push(target.as_str());
        }
    }
    if !fallen.is_empty() {
        bail!(
            "fell: {}; what they died of is in observer/fuzz/artifacts",
            fallen.join(", ")
        );
    }
    Ok(())
}

/// cargo-fuzz of this machine, or a new one below `target/xtask`.
fn ensure(checkout: &Checkout) -> Result<PathBuf> {
    let ours = checkout.own().join("tools/bin/cargo-fuzz");
    for path in [Some(ours.clone()), machine::find("cargo-fuzz")]
        .into_iter()
        .flatten()
    {
        if read(Command::new(&path).args(["fuzz", "--version"])).is_ok() {
            return Ok(path);
        }
    }
    say(format_args!(
        "installing cargo-fuzz {VERSION} into target/xtask: it builds parsers with libFuzzer"
    ));
    let mut install = checkout.cargo();
    install
        .args([
            "install",
            "cargo-fuzz",
            "--locked",
            "--version",
            VERSION,
            "--root",
        ])
        .arg(checkout.own().join("tools"));
    run(&mut install).map_err(|error| {
        NotHere(format!("cargo-fuzz could not be installed ({error:#}); what to do: `cargo install cargo-fuzz --locked`"))
    })?;
    Ok(ours)
}

/// The parsers, by the sources there are.
fn targets(dir: &Path) -> Result<Vec<String>> {
    let entries =
        fs::read_dir(dir.join("fuzz_targets")).context("no fuzz targets in this checkout")?;
    let mut names: Vec<String> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// Runs it with its words passed on; how often it ran, and whether nothing was found.
fn one(command: &mut Command) -> Result<(u64, bool)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cargo-fuzz cannot be started")?;
    let stderr = child.stderr.take().context("no stderr")?;
    let mut executions = 0;
    for line in BufReader::new(stderr).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        match executed(&line) {
            Some(count) => executions = count,
            None if line.starts_with("stat::") => {}
            None => eprintln!("{line}"),
        }
    }
    Ok((executions, child.wait()?.success()))
}

fn executed(line: &str) -> Option<u64> {
    line.strip_prefix(STAT)?.trim().parse().ok()
}

/// Adds to what this checkout's runs came to; the new sum.
fn add(ledger: &Path, target: &str, executions: u64) -> Result<u64> {
    let old = fs::read_to_string(ledger).unwrap_or_default();
    let mut sums: Vec<(String, u64)> = old
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, sum)| Some((name.to_owned(), sum.parse().ok()?)))
        .collect();
    let at = sums
        .iter()
        .position(|(name, _)| name == target)
        .unwrap_or_else(|| {
            sums.push((target.to_owned(), 0));
            sums.len() - 1
        });
    sums[at].1 += executions;
    let lines: Vec<String> = sums
        .iter()
        .map(|(name, sum)| format!("{name} {sum}"))
        .collect();
    if let Some(dir) = ledger.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::write(ledger, lines.join("\n") + "\n")?;
    Ok(sums[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_read_and_summed() {
        assert_eq!(executed("stat::number_of_executed_units: 1234"), Some(1234));
        assert_eq!(executed("stat::peak_rss_mb: 1"), None);
        let ledger = std::env::temp_dir().join(format!("xtask-fuzz-{}/sums", std::process::id()));
        assert_eq!(add(&ledger, "a", 5).unwrap(), 5);
        assert_eq!(add(&ledger, "b", 1).unwrap(), 1);
        assert_eq!(add(&ledger, "a", 2).unwrap(), 7);
        fs::remove_dir_all(ledger.parent().unwrap()).unwrap();
    }
}
