//! The kernel tests: one binary after the other, and a second try, named in the summary, for the few that failed.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::checkout::Checkout;
use crate::step::{self, say};

/// They measure a machine that does other things too, so a few get a second try. More than these and something is wrong.
const SECOND_TRIES: usize = 4;
/// One at a time: they look at one machine.
const HARNESS: [&str; 2] = ["--test-threads=1", "--include-ignored"];

/// Runs `binaries`, each command of cargo changed by `dress`; returns the tests that passed only at the second try.
pub fn run(
    checkout: &Checkout,
    binaries: &[String],
    dress: impl Fn(&mut Command),
) -> Result<Vec<String>> {
    let cargo = |binaries: &[String]| {
        let mut command = checkout.cargo();
        command.args(["test", "--locked", "--package", "observer"]);
        for binary in binaries {
            command.args(["--test", binary]);
        }
        dress(&mut command);
        command
    };
    step::run(cargo(binaries).arg("--no-run"))?;

    let (mut failed, mut crashed) = (BTreeMap::new(), Vec::new());
    for binary in binaries {
        // One process a binary: many tests look at one run of traffic, which nextest would repeat for each.
        let one = std::slice::from_ref(binary);
        match failures(cargo(one).arg("--").args(HARNESS)) {
            Ok(tests) if tests.is_empty() => {}
            Ok(tests) => drop(failed.insert(binary.clone(), tests)),
            Err(error) => crashed.push(format!("{binary}: {error:#}")),
        }
    }
    if !crashed.is_empty() {
        bail!("{}", crashed.join("; "));
    }
    let names = named(&failed);
    if names.len() > SECOND_TRIES {
        bail!("{} tests failed: {}", names.len(), names.join(", "));
    }
    for (binary, tests) in &mut failed {
        say(format_args!(
            "a second try for {binary}: {}",
            tests.join(", ")
        ));
        let one = std::slice::from_ref(binary);
        let mut again = cargo(one);
        again.arg("--").args(HARNESS).arg("--exact");
        *tests = failures(again.args(&*tests))?;
    }
    failed.retain(|_, tests| !tests.is_empty());
    if !failed.is_empty() {
        bail!("failed twice: {}", named(&failed).join(", "));
    }
    Ok(names)
}

fn named(failed: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let one = |(binary, tests): (&String, &Vec<String>)| {
        let name = |test: &String| format!("{binary}::{test}");
        tests.iter().map(name).collect::<Vec<_>>()
    };
    failed.iter().flat_map(one).collect()
}

/// Runs one binary's tests, its output shown as it comes; the names of those that failed. An error when it failed
/// without naming any: it crashed, or was not built.
fn failures(command: &mut Command) -> Result<Vec<String>> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let mut harness = Harness::default();
    let stdout = child.stdout.take().context("no output to read")?;
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line?;
        let mut err = io::stderr().lock();
        err.write_all(&line)?;
        err.write_all(b"\n")?;
        harness.read(&String::from_utf8_lossy(&line));
    }
    let status = child.wait()?;
    match (status.success(), harness.failed.is_empty()) {
        (true, _) => Ok(Vec::new()),
        (false, false) => Ok(harness.failed),
        (false, true) => bail!("a test binary ended without a verdict: {status}"),
    }
}

/// What the test harness prints at its end: a second list under `failures:`, names alone, two words in.
#[derive(Debug, Default)]
struct Harness {
    listing: bool,
    failed: Vec<String>,
}

impl Harness {
    fn read(&mut self, line: &str) {
        if line == "failures:" {
            self.listing = true;
            self.failed.clear();
        } else if self.listing {
            match line.strip_prefix("    ") {
                Some(name) if !name.contains(' ') => self.failed.push(name.to_owned()),
                _ if line.is_empty() => {}
                _ => self.listing = line.starts_with("---- "),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_harness_names_what_failed() {
        let mut harness = Harness::default();
        let text = "running 3 tests\ntest a ... ok\ntest b::c ... odd output\nFAILED\ntest d ... FAILED\n\nfailures:\n\n\
            ---- b::c stdout ----\n    indented\nthread 'b::c' panicked\n\n---- d stdout ----\n\nfailures:\n    b::c\n    d\n\n\
            test result: FAILED. 1 passed; 2 failed\n    late\n";
        for line in text.lines() {
            harness.read(line);
        }
        assert_eq!(harness.failed, ["b::c", "d"]);
    }

    #[test]
    fn a_binary_that_crashes_is_an_error() {
        let shell = |script: &str| failures(Command::new("/bin/sh").args(["-c", script]));
        assert!(shell("exit 101").is_err());
        assert_eq!(shell("true").unwrap(), Vec::<String>::new());
        let failed = shell("printf 'failures:\\n    a\\n\\ntest result\\n'; exit 101").unwrap();
        assert_eq!(failed, ["a"]);
    }
}
