//! `cargo xtask bench soak`: the dashboard over 20,000 made-up flows of which 200 a second end and begin: is memory flat,
//! is anything lost.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

mod common;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Parser;
use observer::source::synthetic::GENERATOR;

use common::process::{OnTerminal, cpu_ns, memory_kb};
use common::{Summary, bar, told};

#[derive(Debug, Parser)]
struct Args {
    /// How long: `1h`, `90s`
    #[arg(long, default_value = "1m", value_parser = observer::cli::duration)]
    time: Duration,
    #[arg(long, default_value_t = 20_000)]
    flows: u32,
    /// Wire records a second
    #[arg(long, default_value_t = 40_000)]
    rate: u32,
    /// Flows that end and begin, a second
    #[arg(long, default_value_t = 200)]
    churn: u32,
    /// The observer to measure
    #[arg(long, default_value = env!("CARGO_BIN_EXE_observer"))]
    observer: PathBuf,
    /// What `cargo bench` passes
    #[arg(long, hide = true)]
    bench: bool,
}

/// SPEC §9.
const MOST_MB: f64 = 300.0;
/// Of the second half against the first, which begins after …
const MOST_GROWTH: f64 = 2.0;
/// … flows are as many as they will be: closed ones are kept for ten seconds.
const SETTLED: Duration = Duration::from_secs(20);

fn main() -> Result<()> {
    let args = Args::parse();
    if args.time < 2 * SETTLED {
        bail!("--time 40s at least: the first 20 s are warming up");
    }
    println!("soak: {}", common::machine());
    println!(
        "{} flows, {} records/s, {} flows/s end and begin, {:?}\n",
        args.flows, args.rate, args.churn, args.time
    );
    let what = format!(
        "flows={},rate={},churn={}",
        args.flows, args.rate, args.churn
    );
    let mut command = Command::new(&args.observer);
    command.args(["--strict", "--synthetic", &what]);
    let begun = Instant::now();
    let mut observer = OnTerminal::start(&mut command, "flows")?;
    observer.wait_for(Duration::from_secs(30))?;
    let mut looks = Vec::new();
    let every = (args.time / 60).max(Duration::from_secs(1));
    println!("{:>8} {:>8} {:>12}", "s", "RSS MB", "% of a core");
    let (mut last, mut spent) = (Instant::now(), cpu_ns(observer.id(), GENERATOR)?);
    while begun.elapsed() < args.time {
        std::thread::sleep(every);
        let (now, so_far) = (Instant::now(), cpu_ns(observer.id(), GENERATOR)?);
        let (resident, _) = memory_kb(observer.id())?;
        let wall = now.duration_since(last).as_nanos() as f64;
        let look = (
            begun.elapsed(),
            resident as f64 / 1000.0,
            (so_far - spent) as f64 / wall * 100.0,
        );
        (last, spent) = (now, so_far);
        println!(
            "{:>8.0} {:>8.1} {:>12.1}",
            look.0.as_secs_f64(),
            look.1,
            look.2
        );
        looks.push(look);
    }
    let (_, peak) = memory_kb(observer.id())?;
    let status = observer.quit()?;
    let lost = match status.code() {
        Some(0) => 0.0,
        Some(4) => 1.0,
        _ => bail!("the dashboard ended with {status}"),
    };
    let middle = SETTLED + args.time.saturating_sub(SETTLED) / 2;
    let memory = |from: Duration, to: Duration| {
        let within = looks.iter().filter(|look| look.0 >= from && look.0 < to);
        Summary::of(within.map(|look| look.1)).median
    };
    let growth = memory(middle, args.time * 2) / memory(SETTLED, middle) * 100.0 - 100.0;
    let cpu = Summary::of(looks.iter().skip(looks.len() / 3).map(|look| look.2));
    println!();
    bar(
        "soak: resident memory at most",
        peak as f64 / 1000.0,
        MOST_MB,
        " MB",
    );
    bar(
        "soak: growth from the first half to the second",
        growth,
        MOST_GROWTH,
        " %",
    );
    bar("soak: runs that lost events", lost, 0.0, "");
    told("soak: user CPU", cpu.median, " % of a core");
    Ok(())
}
