//! What the benchmarks share: a namespace of their own, loopback flows, medians, and what the machine is.

// Each benchmark compiles this file and uses a part of it.
#![allow(dead_code)]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures time")]

pub mod process;
pub mod sockets;

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::Context as _;
use rustix::thread::UnshareFlags;

/// Moves this thread, and what it starts from now on, into a new network namespace with its loopback up. The
/// namespace goes with the process.
pub fn enter_new_netns() -> io::Result<()> {
    // SAFETY: the flag concerns the network namespace only, no memory and no descriptors.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET)? };
    let done = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status()?;
    if done.success() {
        Ok(())
    } else {
        Err(io::Error::other("ip link set lo up: failed"))
    }
}

/// Loopback flows that send as fast as they can until dropped.
#[derive(Debug)]
pub struct Flows {
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
    ends: Vec<TcpStream>,
}

impl Flows {
    pub fn start(count: usize) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut flows = Self {
            stop: Arc::default(),
            received: Arc::default(),
            threads: Vec::new(),
            ends: Vec::new(),
        };
        for _ in 0..count {
            let mut sender = TcpStream::connect(listener.local_addr()?)?;
            let (mut receiver, _) = listener.accept()?;
            flows.ends.push(sender.try_clone()?);
            let stop = Arc::clone(&flows.stop);
            flows.threads.push(thread::spawn(move || {
                let block = vec![0x5a; 128 << 10];
                while !stop.load(Ordering::Relaxed) && sender.write_all(&block).is_ok() {}
            }));
            let received = Arc::clone(&flows.received);
            flows.threads.push(thread::spawn(move || {
                let mut block = vec![0; 128 << 10];
                while let Ok(length @ 1..) = receiver.read(&mut block) {
                    received.fetch_add(length as u64, Ordering::Relaxed);
                }
            }));
        }
        Ok(flows)
    }

    /// Bytes received so far, all flows together.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for end in &self.ends {
            let _ = end.shutdown(std::net::Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Median and spread of what repeated rounds gave.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Summary {
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => values[middle],
            _ => f64::midpoint(values[middle - 1], values[middle]),
        };
        Self {
            median,
            min: values.first().copied().unwrap_or(f64::NAN),
            max: values.last().copied().unwrap_or(f64::NAN),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(0);
        let spread = format!("{:.digits$}–{:.digits$}", self.min, self.max);
        write!(f, "{:>8.digits$}  {spread:<14}", self.median)
    }
}

/// Where `cargo xtask bench all` wants the figures too: a file that takes a JSON object a line.
pub const FIGURES: &str = "OBSERVER_BENCH_FIGURES";

/// A figure of the specification.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Most(f64),
    Least(f64),
}

/// A line against a figure of the specification: reached, or missed by how much.
pub fn bar(what: &str, measured: f64, most: f64, unit: &str) {
    against(what, measured, Bound::Most(most), unit);
}

/// The same where more is better.
pub fn at_least(what: &str, measured: f64, least: f64, unit: &str) {
    against(what, measured, Bound::Least(least), unit);
}

fn against(what: &str, measured: f64, bound: Bound, unit: &str) {
    let (limit, words, reached) = match bound {
        Bound::Most(most) => (most, "at most", measured <= most),
        Bound::Least(least) => (least, "at least", measured >= least),
    };
    let word = if reached { "reached" } else { "MISSED " };
    let digits = if limit >= 1000.0 { 0 } else { 2 };
    let share = measured / limit * 100.0;
    println!(
        "{word}  {what}: {measured:.digits$}{unit}, {words} {limit:.digits$}{unit} ({share:.0} %)"
    );
    let key = if matches!(bound, Bound::Most(_)) {
        "most"
    } else {
        "least"
    };
    figure(&serde_json::json!({
        "what": what, "measured": measured, key: limit, "unit": unit.trim(), "reached": reached,
    }));
}

/// A figure without a bar, for whoever compares.
pub fn told(what: &str, measured: f64, unit: &str) {
    println!("         {what}: {measured:.2}{unit}");
    figure(&serde_json::json!({ "what": what, "measured": measured, "unit": unit.trim() }));
}

/// A part that could not be measured here, and why.
pub fn skipped(what: &str, why: &str) {
    println!("skipped  {what}: {why}");
    figure(&serde_json::json!({ "what": what, "skipped": why }));
}

fn figure(line: &serde_json::Value) {
    let Some(path) = std::env::var_os(FIGURES) else {
        return;
    };
    let file = fs::File::options().create(true).append(true).open(path);
    let written = file.and_then(|mut file| writeln!(file, "{line}"));
    if let Err(error) = written {
        eprintln!("{FIGURES}: {error}");
    }
}

/// Processors that run.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Processor, cores, kernel and load, one line.
pub fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu
        .lines()
        .find_map(|line| {
            line.strip_prefix("model name")?
                .split_once(": ")
                .map(|at| at.1)
        })
        .unwrap_or("processor unknown");
    let release = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    format!(
        "{model}, {} cores; Linux {}; load before the run {}",
        cores(),
        release.trim(),
        load.split(' ').next().unwrap_or("unknown")
    )
}

/// Time and runs, as the kernel counts them.
pub fn run_time(fd: impl AsFd) -> anyhow::Result<(u64, u64)> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd()))?;
    let field = |name: &str| -> anyhow::Result<u64> {
        info.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"))
            .with_context(|| format!("the kernel shows no {name}"))?
            .parse()
            .map_err(Into::into)
    };
    Ok((field("run_time_ns")?, field("run_cnt")?))
}
