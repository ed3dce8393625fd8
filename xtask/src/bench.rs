//! The benchmarks: built as us, those that need root run through sudo where we are not root.

mod table;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;

use crate::checkout::Checkout;
use crate::machine::{Machine, Privilege};
use crate::step::{NotHere, say};
use crate::{binary, object};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Bench {
    /// Every one below, and one table of their figures
    All,
    /// What the programs cost per ACK, part by part, and their share of CPU
    Kernel,
    /// `list` of 20,000 sockets against `ss`
    List,
    /// What user space costs with 20,000 flows; `-- --curves`, `-- --real`; needs no root without it
    Fold,
    /// One frame of the dashboard over 20,000 flows; needs no root
    Screen,
    /// The detectors against captures and recordings with known truth, and their cost; needs no root
    Verdicts,
    /// From the start to the first flow on the screen
    Start,
    /// How fast recordings are written, read and folded, and what a sample takes; real flows too
    Record,
    /// What others cost for the same flows: ss, bpftrace, perf trace, bcc's tools
    Peers,
    /// Memory and losses over time: `-- --time 1h`; needs no root
    Soak,
}

/// In the order of the table of SPEC §9.
const EACH: [Bench; 9] = [
    Bench::Kernel,
    Bench::List,
    Bench::Fold,
    Bench::Screen,
    Bench::Start,
    Bench::Record,
    Bench::Peers,
    Bench::Verdicts,
    Bench::Soak,
];

/// Where a benchmark writes its figures too, an object a line (`observer/benches/common`).
const FIGURES: &str = "OBSERVER_BENCH_FIGURES";

impl Bench {
    fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Kernel => "kernel",
            Self::List => "list",
            Self::Fold => "fold",
            Self::Screen => "screen",
            Self::Start => "start",
            Self::Record => "record",
            Self::Peers => "peers",
            Self::Soak => "soak",
            Self::Verdicts => "verdicts",
        }
    }

    fn needs_root(self, args: &[OsString]) -> bool {
        match self {
            Self::Fold => args.iter().any(|arg| arg == "--real"),
            Self::Screen | Self::Soak | Self::Verdicts => false,
            _ => true,
        }
    }
}

/// Builds what is asked for and runs it; tables go to stdout.
pub fn run(checkout: &Checkout, machine: &Machine, bench: Bench, args: &[OsString]) -> Result<()> {
    let benches: &[Bench] = match bench {
        Bench::All => &EACH,
        _ => &[bench],
    };
    if bench == Bench::All && !args.is_empty() {
        bail!("arguments are of one benchmark: name it");
    }
    object::ensure(checkout, machine)?;
    let parts = checkout.bpf().join("bench.o");
    if benches.contains(&Bench::Kernel) {
        object::ensure_parts(checkout, machine, &parts)?;
    }
    let built = build(checkout, benches)?;
    let start = |bench: Bench, driver: &Path, figures: Option<&Path>| {
        let mut command = command(machine, bench, driver, figures, args)?;
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
    };
    if bench != Bench::All {
        return start(bench, &built[0], None);
    }
    let figures = checkout.own().join("bench");
    let _ = std::fs::remove_dir_all(&figures);
    std::fs::create_dir_all(&figures)?;
    let mut rows = Vec::new();
    for (bench, driver) in EACH.into_iter().zip(&built) {
        say(format_args!("bench {}", bench.name()));
        let file = figures.join(bench.name()).with_extension("jsonl");
        let ended = start(bench, driver, Some(&file));
        println!();
        rows.extend(table::read(bench.name(), &file));
        if let Err(error) = ended {
            // The others tell something all the same.
            rows.push(table::Row::failed(bench.name(), &format!("{error:#}")));
        }
    }
    print!("{}", table::text(&rows));
    let all = figures.join("all.json");
    std::fs::write(&all, table::json(&rows))?;
    say(format_args!("written: {}", checkout.shown(&all).display()));
    Ok(())
}

/// Where cargo put each of them.
fn build(checkout: &Checkout, benches: &[Bench]) -> Result<Vec<PathBuf>> {
    let mut cargo = checkout.cargo();
    cargo.args(["bench", "--no-run", "--locked", "--package", "observer"]);
    for bench in benches {
        cargo.args(["--bench", bench.name()]);
    }
    let output = cargo
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("the benchmark does not build");
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    benches
        .iter()
        .map(|bench| {
            binary::executable_of(&messages, bench.name()).context("cargo named no benchmark")
        })
        .collect()
}

/// As root where it needs to be.
fn command(
    machine: &Machine,
    bench: Bench,
    driver: &Path,
    figures: Option<&Path>,
    args: &[OsString],
) -> Result<Command> {
    if !bench.needs_root(args) {
        let mut command = Command::new(driver);
        if let Some(figures) = figures {
            command.env(FIGURES, figures);
        }
        return Ok(command);
    }
    if let Privilege::Sudo(_) = machine.privilege {
        say("running the benchmark through sudo: it loads eBPF programs and makes a namespace");
    }
    let refused =
        || NotHere("this benchmark needs root: neither root nor a sudo that works here".into());
    let Some(figures) = figures else {
        return Ok(machine.as_root(driver).ok_or_else(refused)?);
    };
    // sudo hands no variables on.
    let mut command = machine.as_root("env").ok_or_else(refused)?;
    let mut variable = OsString::from(format!("{FIGURES}="));
    variable.push(figures);
    command.arg(variable).arg(driver);
    Ok(command)
}
