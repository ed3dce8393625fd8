//! The benchmarks: built as us, those that need root run through sudo where we are not root.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;

use crate::checkout::Checkout;
use crate::machine::{Machine, Privilege};
use crate::step::{NotHere, say};
use crate::{binary, object};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Bench {
    /// What the programs cost per ACK, part by part, and their share of CPU
    Kernel,
    /// `list` of 20,000 sockets against `ss`
    List,
    /// How fast recordings are written, read and folded, and what a sample takes; real flows too
    Record,
    /// One frame of the dashboard over 20,000 flows; needs no root
    Screen,
    /// The detectors against captures and recordings with known truth, and their cost; needs no root
    Verdicts,
}

impl Bench {
    fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::List => "list",
            Self::Record => "record",
            Self::Screen => "screen",
            Self::Verdicts => "verdicts",
        }
    }

    fn needs_root(self) -> bool {
        !matches!(self, Self::Screen | Self::Verdicts)
    }
}

/// Builds what the benchmark needs and runs it; its table goes to stdout.
pub fn run(
    checkout: &Checkout,
    machine: &Machine,
    bench: Bench,
    args: &[std::ffi::OsString],
) -> Result<()> {
    if bench.needs_root() {
        object::ensure(checkout, machine)?;
    }
    let parts = checkout.bpf().join("bench.o");
    if bench == Bench::Kernel {
        object::ensure_parts(checkout, machine, &parts)?;
    }
    let output = checkout
        .cargo()
        .args(["bench", "--no-run", "--locked", "--package", "observer"])
        .args(["--bench", bench.name()])
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("the benchmark does not build");
    }
    let driver = binary::executable_of(&String::from_utf8_lossy(&output.stdout), bench.name())
        .context("cargo named no benchmark")?;
    let mut command = if bench.needs_root() {
        if let Privilege::Sudo(_) = machine.privilege {
            say("running the benchmark through sudo: it loads eBPF programs and makes a namespace");
        }
        machine.as_root(&driver).ok_or_else(|| {
            NotHere("this benchmark needs root: neither root nor a sudo that works here".into())
        })?
    } else {
        Command::new(&driver)
    };
    if bench == Bench::Kernel {
        command.arg("--variants").arg(&parts);
    }
    let status = command
        .args(args)
        .status()
        .with_context(|| format!("cannot start {}", driver.display()))?;
    if !status.success() {
        bail!("bench {}: {status}", bench.name());
    }
    Ok(())
}
