//! `cargo xtask bench start`: from the start of the dashboard to the first flow on the screen.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures wall time")]

mod common;

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;

use common::process::OnTerminal;
use common::{Summary, bar, told};

#[derive(Debug, Parser)]
struct Args {
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// The observer to measure
    #[arg(long, default_value = env!("CARGO_BIN_EXE_observer"))]
    observer: PathBuf,
    /// What `cargo bench` passes
    #[arg(long, hide = true)]
    bench: bool,
}

/// SPEC §9.
const MOST_MS: f64 = 500.0;

fn main() -> Result<()> {
    let args = Args::parse();
    if !rustix::process::geteuid().is_root() {
        bail!("not root: cargo xtask bench start");
    }
    println!("start: {}", common::machine());
    common::enter_new_netns().context("no network namespace")?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let _held = listener.accept()?;
    let sign = client.local_addr()?.to_string();
    println!(
        "\nms until {sign} is on the screen, median of {}",
        args.rounds
    );
    for (source, name) in [("ebpf", "programs"), ("diag", "socket-diag")] {
        let mut times = Vec::new();
        for _ in 0..args.rounds {
            let mut command = Command::new(&args.observer);
            command.args(["--source", source]);
            let begun = Instant::now();
            let mut observer = OnTerminal::start(&mut command, &sign)?;
            observer.wait_for(Duration::from_secs(30))?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            observer.quit()?;
        }
        let times = Summary::of(times);
        println!("{name:<12} {times:.0}");
        if source == "ebpf" {
            bar(
                "start to the first flow on screen",
                times.median,
                MOST_MS,
                " ms",
            );
        } else {
            told("the same by socket-diag", times.median, " ms");
        }
    }
    Ok(())
}
