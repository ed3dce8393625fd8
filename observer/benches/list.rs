//! `cargo xtask bench list`: `observer list --window 0` against `ss -tinH`, 20,000 established sockets, text to text.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures wall time")]

mod common;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Parser;

use common::sockets::{Holders, hold};
use common::{Summary, bar};

#[derive(Debug, Parser)]
struct Args {
    /// Established sockets, both ends counted
    #[arg(long, default_value_t = 20_000)]
    sockets: usize,
    /// Runs of each
    #[arg(long, default_value_t = 11)]
    pairs: usize,
    /// The observer to measure
    #[arg(long, default_value = env!("CARGO_BIN_EXE_observer"))]
    observer: PathBuf,
    /// What `cargo bench` passes
    #[arg(long, hide = true)]
    bench: bool,
    /// Be a process that holds this many connections
    #[arg(long, hide = true)]
    hold: Option<usize>,
    /// With so many messages a second
    #[arg(long, hide = true)]
    messages: Option<u32>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(connections) = args.hold {
        return hold(connections, 0);
    }
    if !rustix::process::geteuid().is_root() {
        bail!("not root: cargo xtask bench list");
    }
    println!("list: {}", common::machine());
    common::enter_new_netns().context("no network namespace")?;
    let holders = Holders::start(args.sockets / 2, 0)?;

    let mut observer = Command::new(&args.observer);
    observer.args(["list", "--window", "0"]);
    let mut ss = Command::new("ss");
    ss.arg("-tinH");
    // Once each beforehand, for the caches; and to see that both tell of all sockets.
    for command in [&mut observer, &mut ss] {
        let (_, text) = timed(command)?;
        let told = String::from_utf8_lossy(&text).matches("ESTAB").count();
        if told < args.sockets {
            bail!("{command:?} tells of {told} sockets of {}", args.sockets);
        }
    }
    let mut runs = Vec::new();
    for pair in 0..args.pairs {
        // Neither always comes second.
        let ours_first = pair % 2 == 0;
        let first = timed(if ours_first { &mut observer } else { &mut ss })?.0;
        let second = timed(if ours_first { &mut ss } else { &mut observer })?.0;
        runs.push(if ours_first {
            (first, second)
        } else {
            (second, first)
        });
    }
    drop(holders);

    println!(
        "\nms, {} established sockets, median of {} pairs",
        args.sockets, args.pairs
    );
    println!("{:<24} {:>8}  min–max", "command", "median");
    let ours = Summary::of(runs.iter().map(|run| run.0));
    let theirs = Summary::of(runs.iter().map(|run| run.1));
    let ratio = Summary::of(runs.iter().map(|run| run.0 / run.1));
    println!("{:<24} {ours:.1}", "observer list --window 0");
    println!("{:<24} {theirs:.1}", "ss -tinH");
    println!("{:<24} {ratio:.2}\n", "ratio, pair by pair");
    bar("list --window 0 to ss -tinH", ratio.median, 1.0 / 3.0, " ×");
    Ok(())
}

/// Wall time in milliseconds and what was written to a pipe that is read.
fn timed(command: &mut Command) -> Result<(f64, Vec<u8>)> {
    let start = Instant::now();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{command:?} does not start"))?;
    let wall = start.elapsed().as_secs_f64() * 1000.0;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}: {words}", output.status);
    }
    Ok((wall, output.stdout))
}
