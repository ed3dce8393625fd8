//! All tests: which there are, how each kind runs, and what was skipped and why.

use std::fmt::{self, Display};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::checkout::Checkout;
use crate::machine::{Machine, Privilege};
use crate::step::{self, read, say};
use crate::{kernel, object, packages};

/// Integration tests whose name starts so need root and the kernel, and run one at a time.
const KERNEL: &str = "kernel";
/// Where a test that cannot run here says so: it appends a line `TEST: REASON` to the file this names, and passes.
const SKIPS: &str = "OBSERVER_TEST_SKIPS";

/// Sets up and runs everything; `skips` are those of the checks that went before.
pub fn run(checkout: &Checkout, machine: &Machine, skips: Vec<Skip>) -> Result<()> {
    object::ensure(checkout, machine)?;
    let mut skips = Skips(skips);
    for tool in packages::ensure(machine) {
        say(format_args!(
            "{} is missing ({}): tests that use it are skipped; it is in the package {}",
            tool.program, tool.why, tool.package
        ));
    }
    let log = checkout.own().join("skipped-tests");
    fs::remove_file(&log).ok();

    let targets = Targets::read(&read(checkout.cargo().args([
        "metadata",
        "--no-deps",
        "--locked",
        "--format-version=1",
    ]))?)?;
    let runner = Runner::choose(checkout);
    let mut failed = Vec::new();
    let mut go = |what: &'static str, command: &mut Command| {
        say(format_args!("running {what}"));
        if let Err(error) = run_tests(command, &log) {
            say(format_args!("{what}: {error:#}"));
            failed.push(what);
        }
    };

    let free = targets.root_free();
    let mut doc = checkout.cargo();
    doc.args(["test", "--workspace", "--doc", "--locked"]);
    go("the doc tests", &mut doc);
    go("the root-free tests", &mut runner.command(checkout, &free));
    skips.ignored(count(checkout, &free, &["--ignored"])?);

    let mut second = Vec::new();
    match kernel_tests(checkout, machine, &targets.kernel(), &log) {
        Ok(Kernel::Ran(names)) => second = names,
        Ok(Kernel::NotHere(count)) => skips.add(
            count,
            "kernel tests: neither root nor a sudo that works here",
        ),
        Err(error) => {
            say(format_args!("the kernel tests: {error:#}"));
            failed.push("the kernel tests");
        }
    }
    skips.read(&fs::read_to_string(&log).unwrap_or_default());

    if failed.is_empty() {
        let second = match second.len() {
            0 => String::new(),
            n => format!("; at a second try: {n} ({})", second.join(", ")),
        };
        say(format_args!("all tests passed; {skips}{second}"));
        Ok(())
    } else {
        say(skips);
        bail!("failed: {}", failed.join(", "))
    }
}

enum Kernel {
    /// The tests that passed only at the second try.
    Ran(Vec<String>),
    /// How many there are.
    NotHere(usize),
}

fn kernel_tests(
    checkout: &Checkout,
    machine: &Machine,
    binaries: &[String],
    log: &Path,
) -> Result<Kernel> {
    let sudo = match &machine.privilege {
        Privilege::Root => None,
        Privilege::Sudo(sudo) => {
            say(
                "the kernel tests are built as you and run through sudo: they load eBPF programs and make namespaces",
            );
            Some(through_sudo(sudo)?)
        }
        Privilege::None => {
            let mut selection = vec!["--package".to_owned(), "observer".to_owned()];
            selection.extend(
                binaries
                    .iter()
                    .flat_map(|t| ["--test".to_owned(), t.clone()]),
            );
            return Ok(Kernel::NotHere(count(checkout, &selection, &[])?));
        }
    };
    say("running the kernel tests");
    let dress = |command: &mut Command| {
        command.env(SKIPS, log).envs(sudo.clone());
    };
    Ok(Kernel::Ran(kernel::run(checkout, binaries, dress)?))
}

fn run_tests(command: &mut Command, log: &Path) -> Result<()> {
    step::run(command.env(SKIPS, log))
}

/// The variable by which cargo and nextest start test binaries through sudo.
fn through_sudo(sudo: &Path) -> Result<(String, String)> {
    let version = read(Command::new("rustc").arg("-vV"))?;
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("rustc names no host")?;
    let name = host.to_uppercase().replace(['-', '.'], "_");
    Ok((
        format!("CARGO_TARGET_{name}_RUNNER"),
        format!("{} --preserve-env", sudo.display()),
    ))
}

/// How many tests a selection has, by the harness's own list.
fn count(checkout: &Checkout, selection: &[String], which: &[&str]) -> Result<usize> {
    let list = read(
        checkout
            .cargo()
            .args(["test", "--locked"])
            .args(selection)
            .args(["--", "--list", "--format=terse"])
            .args(which),
    )?;
    Ok(list.lines().filter(|line| line.ends_with(": test")).count())
}

/// What there is to test, out of `cargo metadata`.
#[derive(Debug, Default)]
struct Targets {
    /// Binaries with tests of their own. observer's is thin, and its name is taken twice (the programs' crate).
    bins: Vec<String>,
    integration: Vec<String>,
}

impl Targets {
    fn read(metadata: &str) -> Result<Self> {
        let metadata: Value = serde_json::from_str(metadata)?;
        let packages = metadata["packages"]
            .as_array()
            .context("cargo metadata names no packages")?;
        let mut targets = Self::default();
        for target in packages
            .iter()
            .filter_map(|package| package["targets"].as_array())
            .flatten()
            .filter(|target| target["test"] == true)
        {
            let (Some(kind), Some(name)) = (target["kind"][0].as_str(), target["name"].as_str())
            else {
                continue;
            };
            match kind {
                "bin" if name != "observer" => targets.bins.push(name.to_owned()),
                "test" => targets.integration.push(name.to_owned()),
                _ => {}
            }
        }
        Ok(targets)
    }

    /// Arguments that select everything but the kernel tests.
    fn root_free(&self) -> Vec<String> {
        let mut selection: Vec<String> = ["--workspace", "--lib"].map(String::from).into();
        for bin in &self.bins {
            selection.extend(["--bin".to_owned(), bin.clone()]);
        }
        for test in self.integration.iter().filter(|t| !t.starts_with(KERNEL)) {
            selection.extend(["--test".to_owned(), test.clone()]);
        }
        selection
    }

    /// The kernel tests' binaries.
    fn kernel(&self) -> Vec<String> {
        let kernel = self.integration.iter().filter(|t| t.starts_with(KERNEL));
        kernel.cloned().collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runner {
    Nextest,
    Cargo,
}

impl Runner {
    /// nextest where it is installed. Compiling it takes far longer than it saves in one run.
    fn choose(checkout: &Checkout) -> Self {
        if read(checkout.cargo().args(["nextest", "--version"])).is_ok() {
            return Self::Nextest;
        }
        say(
            "cargo-nextest is not installed: running by `cargo test` (no time limits, and a test that hangs is yours to stop)",
        );
        Self::Cargo
    }

    fn command(self, checkout: &Checkout, selection: &[String]) -> Command {
        let mut command = checkout.cargo();
        match self {
            Self::Nextest => command.args(["nextest", "run", "--no-tests=pass"]),
            Self::Cargo => command.arg("test"),
        };
        command.args(["--locked", "--no-fail-fast"]).args(selection);
        command
    }
}

/// Tests or checks that did not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    pub count: usize,
    pub why: String,
}

#[derive(Debug, Default)]
struct Skips(Vec<Skip>);

impl Skips {
    fn add(&mut self, count: usize, why: &str) {
        if count == 0 {
            return;
        }
        if let Some(skip) = self.0.iter_mut().find(|skip| skip.why == why) {
            skip.count += count;
        } else {
            let why = why.to_owned();
            self.0.push(Skip { count, why });
        }
    }

    fn ignored(&mut self, count: usize) {
        self.add(count, "marked #[ignore]");
    }

    /// What the tests wrote themselves: `TEST: REASON` a line, counted by reason.
    fn read(&mut self, log: &str) {
        for line in log.lines().filter(|line| !line.trim().is_empty()) {
            let why = line.split_once(": ").map_or(line, |(_, why)| why);
            self.add(1, why.trim());
        }
    }
}

impl Display for Skips {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: usize = self.0.iter().map(|skip| skip.count).sum();
        write!(f, "skipped: {total}")?;
        for (i, skip) in self.0.iter().enumerate() {
            let separator = if i == 0 { " (" } else { "; " };
            write!(f, "{separator}{} {}", skip.count, skip.why)?;
        }
        f.write_str(if self.0.is_empty() { "" } else { ")" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{"packages":[
        {"name":"observer","targets":[
            {"kind":["lib"],"name":"observer","test":true},
            {"kind":["bin"],"name":"observer","test":true},
            {"kind":["test"],"name":"cli","test":true},
            {"kind":["test"],"name":"kernel_loss","test":true},
            {"kind":["custom-build"],"name":"build-script-build","test":false}]},
        {"name":"observer-ebpf","targets":[{"kind":["bin"],"name":"observer","test":false}]},
        {"name":"xtask","targets":[{"kind":["bin"],"name":"xtask","test":true}]}]}"#;

    #[test]
    fn kernel_tests_are_told_from_the_others_by_their_name() {
        let targets = Targets::read(METADATA).unwrap();
        assert_eq!(
            targets.root_free(),
            ["--workspace", "--lib", "--bin", "xtask", "--test", "cli"]
        );
        assert_eq!(targets.kernel(), ["kernel_loss"]);
    }

    #[test]
    fn skips_are_counted_by_reason() {
        let mut skips = Skips::default();
        assert_eq!(skips.to_string(), "skipped: 0");
        skips.ignored(0);
        skips.ignored(2);
        skips.read("kernel_bbr::phases: no bbr here\nkernel_bbr::gain: no bbr here\n\nodd line\n");
        assert_eq!(
            skips.to_string(),
            "skipped: 5 (2 marked #[ignore]; 2 no bbr here; 1 odd line)"
        );
    }
}
