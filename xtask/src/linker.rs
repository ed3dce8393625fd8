//! bpf-linker: the one this machine has, or a new one.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::checkout::Checkout;
use crate::machine;
use crate::step::{NotHere, read, run, say};

/// The version that is installed where none is. 0.10 reads bitcode of LLVM 22 and older; 0.11 wants LLVM 23.
const VERSION: &str = "0.10.3";
const SERIES: (u32, u32) = (0, 10);
/// The LLVM that series knows: a compiler with a newer one writes bitcode it may not read.
pub const LLVM_MAJOR: u32 = 22;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linker {
    pub path: PathBuf,
    pub version: String,
}

/// Finds a bpf-linker of the right series, or installs one.
pub fn ensure(checkout: &Checkout) -> Result<Linker> {
    let tools = checkout.own().join("tools");
    let ours = tools.join("bin/bpf-linker");
    let theirs = machine::find("bpf-linker");
    for path in [Some(ours.clone()), theirs.clone()].into_iter().flatten() {
        if let Some(linker) = look(&path).filter(|linker| fits(&linker.version)) {
            return Ok(linker);
        }
    }
    let mut command = checkout.cargo();
    command
        .args(["install", "bpf-linker", "--locked", "--version", VERSION])
        // Not the system's temporary directory: set-up writes to the checkout and cargo's own folders only.
        .arg("--target-dir")
        .arg(checkout.own().join("install"));
    if theirs.is_some() {
        say(format_args!(
            "installing bpf-linker {VERSION} into target/xtask: the one on this machine is of another series and stays as it is (about a minute)"
        ));
        command.arg("--root").arg(&tools);
    } else {
        say(format_args!(
            "installing bpf-linker {VERSION} by cargo: it turns rustc's bitcode into the eBPF object (about a minute)"
        ));
    }
    run(&mut command).map_err(|error| {
        NotHere(format!(
            "bpf-linker {VERSION} could not be installed ({error:#}); what to do: `cargo install bpf-linker --locked --version {VERSION}` and read its first error"
        ))
    })?;
    std::fs::remove_dir_all(checkout.own().join("install")).ok();
    let path = if theirs.is_some() {
        ours
    } else {
        machine::find("bpf-linker").context("cargo installed bpf-linker, but not where it is looked for: add cargo's bin directory to PATH")?
    };
    look(&path).context("the bpf-linker just installed does not run")
}

pub fn look(path: &Path) -> Option<Linker> {
    let version = read(Command::new(path).arg("--version")).ok()?;
    Some(Linker {
        path: path.to_owned(),
        version: version.trim().to_owned(),
    })
}

/// `bpf-linker 0.10.3` → is it of our series?
fn fits(version: &str) -> bool {
    let mut numbers = version
        .split_whitespace()
        .last()
        .unwrap_or_default()
        .split('.');
    let mut next = || numbers.next().and_then(|n| n.parse().ok());
    next().zip(next()) == Some(SERIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_series_that_knows_our_llvm_fits() {
        assert!(fits("bpf-linker 0.10.3"));
        assert!(fits("bpf-linker 0.10.0"));
        assert!(!fits("bpf-linker 0.11.0"));
        assert!(!fits("bpf-linker 0.9.15"));
        assert!(!fits("bpf-linker 1.0.10"));
        assert!(!fits("bpf-linker"));
        assert!(!fits(""));
    }
}
