//! `cargo xtask bench fold`: what user space costs with many flows: made-up records through decoder, model and dashboard.
//!
//! Part by part in one thread, by its CPU time; then the real dashboard in a process of its own, all its threads but the
//! one that makes the records. `--curves`: against flows and rates. `--real`: real sockets instead of made-up ones.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

mod common;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;
use observer::event::Event;
use observer::model::Model;
use observer::source::records::Records;
use observer::source::synthetic::{Channel, GENERATOR, Generator, Traffic, decoder};
use observer::tui::{Look, ViewState, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use common::process::{OnTerminal, cpu_ns, memory_kb};
use common::sockets::{Holders, hold};
use common::{Summary, bar, skipped, told};

#[derive(Debug, Parser)]
struct Args {
    #[arg(long, default_value_t = 20_000)]
    flows: u32,
    /// Wire records a second
    #[arg(long, default_value_t = 100_000)]
    rate: u32,
    /// Flows that end and begin, a second
    #[arg(long, default_value_t = 0)]
    churn: u32,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Measurements of the dashboard
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Other numbers of flows and rates too
    #[arg(long)]
    curves: bool,
    /// Real sockets in several processes, through the programs; needs root
    #[arg(long)]
    real: bool,
    /// Only part by part, in this thread, without a clock: what valgrind counts instructions of
    #[arg(long, hide = true)]
    parts: bool,
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
    #[arg(long, hide = true, default_value_t = 0)]
    messages: u32,
}

/// SPEC §9.
const MOST_CPU: f64 = 30.0;
const MOST_MB: f64 = 300.0;
/// As often as the dashboard draws by default.
const FRAME_NS: u64 = 250_000_000;
const DRAIN_NS: u64 = 10_000_000;
const SECOND_NS: u64 = 1_000_000_000;

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(connections) = args.hold {
        return hold(connections, args.messages);
    }
    let traffic = Traffic {
        flows: args.flows,
        rate: args.rate,
        churn: args.churn,
    };
    if args.parts {
        return parts(traffic, args.seconds, |work| {
            work();
            0.0
        })
        .map(drop);
    }
    println!("fold: {}\n", common::machine());
    if args.real {
        return real(&args);
    }
    println!(
        "{:>7} {:>9} {:>7}  {:>9} {:>9} {:>9} {:>12}",
        "flows", "records/s", "ends/s", "decode ns", "fold ns", "frame ms", "% of a core"
    );
    let mut whole = Vec::new();
    for traffic in with_curves(traffic, args.curves) {
        let parts = parts(traffic, args.seconds, core_s)?;
        parts.print(traffic);
        whole.push((traffic, parts));
    }
    instructions()?;
    println!(
        "\nthe dashboard, {} s after {} s of warming up, median of {} with its spread",
        args.seconds,
        WARM.as_secs(),
        args.rounds
    );
    println!(
        "{:>7} {:>9} {:>7}  {:>24} {:>8} {:>8}",
        "flows", "records/s", "ends/s", "% of a core", "RSS MB", "peak MB"
    );
    let mut bars = None;
    for (traffic, _) in whole {
        let measured = dashboards(&args, traffic)?;
        bars.get_or_insert(measured);
    }
    println!();
    if let Some((cpu, peak)) = bars {
        bar("user CPU of the dashboard", cpu, MOST_CPU, " % of a core");
        bar("resident memory at most", peak, MOST_MB, " MB");
    }
    Ok(())
}

/// The one asked for first; then others, one thing changed at a time.
fn with_curves(asked: Traffic, curves: bool) -> Vec<Traffic> {
    let mut all = vec![asked];
    if curves {
        all.extend([10, 100, 1000, 5000, 20_000].map(|flows| Traffic {
            flows,
            rate: 50_000,
            churn: 0,
        }));
        all.extend([1000, 10_000, 200_000, 400_000].map(|rate| Traffic {
            rate,
            flows: 20_000,
            churn: 0,
        }));
        all.extend([200, 2000].map(|churn| Traffic {
            churn,
            flows: 20_000,
            rate: 20_000,
        }));
    }
    all
}

/// CPU time of the parts.
#[derive(Debug, Default)]
struct Parts {
    records: u64,
    decode_s: f64,
    fold_s: f64,
    frames: u64,
    frame_s: f64,
    seconds: u64,
}

impl Parts {
    fn print(&self, traffic: Traffic) {
        let each = |s: f64| s * 1e9 / self.records as f64;
        let share = (self.decode_s + self.fold_s + self.frame_s) / self.seconds as f64;
        println!(
            "{:>7} {:>9} {:>7}  {:>9.0} {:>9.0} {:>9.2} {:>12.1}",
            traffic.flows,
            traffic.rate,
            traffic.churn,
            each(self.decode_s),
            each(self.fold_s),
            self.frame_s * 1e3 / self.frames as f64,
            share * 100.0
        );
    }
}

/// Seconds of made-up time through decoder, model and screen, one after the other; `timed` says how long each takes.
fn parts(traffic: Traffic, seconds: u64, timed: impl Fn(&mut dyn FnMut()) -> f64) -> Result<Parts> {
    let mut now = SECOND_NS * 100;
    let mut generator = Generator::new(traffic, 1, 250, now);
    let mut records = Records::new(decoder()?);
    let (mut model, mut look, mut state) =
        (Model::default(), Look::default(), ViewState::default());
    let mut terminal = Terminal::new(TestBackend::new(120, 40))?;
    let mut events: Vec<Event> = Vec::new();
    let (mut waiting, mut ends) = (Vec::new(), Vec::new());
    let mut parts = Parts {
        seconds,
        ..Parts::default()
    };
    let warm = now + WARM.as_nanos() as u64;
    let end = warm + seconds * SECOND_NS;
    let mut drawn = now;
    let mut first = true;
    while now < end {
        now += DRAIN_NS;
        waiting.clear();
        ends.clear();
        let mut take = |channel: Channel, bytes: &[u8]| {
            if channel != Channel::Walk {
                waiting.extend_from_slice(bytes);
                ends.push(waiting.len());
            }
        };
        if std::mem::take(&mut first) {
            generator.begin(&mut take);
        }
        generator.until(now, &mut take);
        let counts = now > warm;
        let decoded = timed(&mut || decode(&mut records, &waiting, &ends, now, &mut events));
        let folded = timed(&mut || fold(&mut model, &mut look, &mut events));
        if counts {
            parts.records += ends.len() as u64;
            parts.decode_s += decoded;
            parts.fold_s += folded;
        }
        if now - drawn >= FRAME_NS {
            drawn = now;
            let mut drawing = Ok(());
            let framed = timed(&mut || drawing = frame(&mut terminal, &model, &mut state));
            drawing?;
            if counts {
                parts.frames += 1;
                parts.frame_s += framed;
            }
        }
    }
    if model.lost() > 0 || model.odd() > 0 {
        bail!("{} events lost, {} odd", model.lost(), model.odd());
    }
    Ok(parts)
}

#[inline(never)]
fn decode(
    records: &mut Records,
    waiting: &[u8],
    ends: &[usize],
    now: u64,
    events: &mut Vec<Event>,
) {
    let mut start = 0;
    for &end in ends {
        records.push(&waiting[start..end]);
        start = end;
    }
    records.release(now + 1, events);
}

#[inline(never)]
fn fold(model: &mut Model, look: &mut Look, events: &mut Vec<Event>) {
    for event in events.iter() {
        model.apply(event);
    }
    // As in the program: a batch is let go when it was folded.
    drop(std::mem::take(events));
    drop(model.take_derived());
    look.keep(model);
}

#[inline(never)]
fn frame(terminal: &mut Terminal<TestBackend>, model: &Model, state: &mut ViewState) -> Result<()> {
    terminal.draw(|frame| {
        state.prepare(model, &|_, _| true, frame.area());
        draw(model, state, "eBPF", frame);
    })?;
    Ok(())
}

/// CPU time of this thread.
fn core_s(work: &mut dyn FnMut()) -> f64 {
    let clock = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let begun = clock();
    work();
    clock() - begun
}

const WARM: Duration = Duration::from_secs(5);

/// Instructions of each part, by valgrind: the same on a machine however busy.
fn instructions() -> Result<()> {
    const FLOWS: u32 = 1000;
    const RATE: u32 = 5000;
    const SECONDS: u64 = 5;
    const PARTS: [(&str, &str); 3] = [
        ("fold::decode", "instructions to decode a record"),
        ("fold::fold", "instructions to fold a record"),
        ("fold::frame", "instructions of a frame over 1,000 flows"),
    ];
    if !common::process::found("valgrind") {
        skipped("instruction counts", "no valgrind here");
        return Ok(());
    }
    println!();
    let dir = tempfile::tempdir()?;
    let out = dir.path().join("callgrind.out");
    let mut valgrind = Command::new("valgrind");
    valgrind
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", out.display()));
    let ran = valgrind
        .arg(std::env::current_exe()?)
        .args([
            "--parts",
            "--flows",
            &FLOWS.to_string(),
            "--rate",
            &RATE.to_string(),
        ])
        .args(["--seconds", &SECONDS.to_string()])
        .output()?;
    if !ran.status.success() {
        bail!("valgrind: {}", String::from_utf8_lossy(&ran.stderr));
    }
    let told = Command::new("callgrind_annotate")
        .args(["--inclusive=yes", "--threshold=100"])
        .arg(&out)
        .output()?;
    let text = String::from_utf8_lossy(&told.stdout);
    let seconds = SECONDS + WARM.as_secs();
    let records = (u64::from(RATE) * seconds + u64::from(FLOWS)) as f64;
    let frames = (seconds * SECOND_NS / FRAME_NS) as f64;
    for (function, what) in PARTS {
        // `12,345 (6.7%)  ???:fold::decode [fold]`
        let line = text.lines().find(|line| {
            line.split_whitespace()
                .any(|word| word.ends_with(&format!(":{function}")))
        });
        let count = line
            .and_then(|line| line.split_whitespace().next())
            .and_then(|count| count.replace(',', "").parse::<f64>().ok());
        let each = if function == "fold::frame" {
            frames
        } else {
            records
        };
        match count {
            Some(count) => told_of(what, count / each),
            None => skipped(what, "valgrind told nothing of it"),
        }
    }
    Ok(())
}

fn told_of(what: &str, count: f64) {
    told(what, count.round(), "");
}

/// CPU and peak memory of the dashboard over made-up flows: medians.
fn dashboards(args: &Args, traffic: Traffic) -> Result<(f64, f64)> {
    let (mut cpu, mut resident, mut peak) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        let mut command = Command::new(&args.observer);
        let Traffic { flows, rate, churn } = traffic;
        let what = format!("flows={flows},rate={rate},churn={churn}");
        command.args(["--strict", "--synthetic", &what]);
        let (share, [now, most]) = dashboard(&mut command, args.seconds)?;
        cpu.push(share);
        resident.push(now);
        peak.push(most);
    }
    let [cpu, resident, peak] = [cpu, resident, peak].map(Summary::of);
    println!(
        "{:>7} {:>9} {:>7}  {cpu:.1} {:>8.0} {:>8.0}",
        traffic.flows, traffic.rate, traffic.churn, resident.median, peak.max
    );
    Ok((cpu.median, peak.max))
}

/// Share of a core, and megabytes now and at most, of a dashboard that loses nothing.
fn dashboard(command: &mut Command, seconds: u64) -> Result<(f64, [f64; 2])> {
    let mut observer = OnTerminal::start(command, "flows")?;
    observer.wait_for(Duration::from_secs(30))?;
    std::thread::sleep(WARM);
    let (begun, before) = (Instant::now(), cpu_ns(observer.id(), GENERATOR)?);
    std::thread::sleep(Duration::from_secs(seconds));
    let (wall, after) = (begun.elapsed(), cpu_ns(observer.id(), GENERATOR)?);
    let (resident, peak) = memory_kb(observer.id())?;
    let status = observer.quit()?;
    match status.code() {
        Some(0) => {}
        Some(4) => bail!("events were lost"),
        _ => bail!("the dashboard ended with {status}"),
    }
    let share = (after - before) as f64 / wall.as_nanos() as f64 * 100.0;
    Ok((share, [resident, peak].map(|kb| kb as f64 / 1000.0)))
}

/// The dashboard over real sockets.
fn real(args: &Args) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("not root: real sockets are looked at by the programs");
    }
    common::enter_new_netns().context("no network namespace")?;
    // Four segments with data or acknowledgements a message and its answer.
    let holders = Holders::start(args.flows as usize / 2, args.rate / 4)?;
    let mut command = Command::new(&args.observer);
    command.args(["--strict", "--source", "ebpf"]);
    let (share, [resident, peak]) = dashboard(&mut command, args.seconds)?;
    drop(holders);
    println!(
        "{} real sockets, about {} ACKs/s, nothing lost",
        args.flows, args.rate
    );
    told(
        "user CPU of the dashboard, real sockets",
        share,
        " % of a core",
    );
    told("resident memory, real sockets", resident, " MB");
    told("resident memory at most, real sockets", peak, " MB");
    Ok(())
}
