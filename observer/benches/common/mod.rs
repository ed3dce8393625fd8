//! What the benchmarks share: a namespace of their own, loopback flows, medians, and what the machine is.

// Each benchmark compiles this file and uses a part of it.
#![allow(dead_code)]

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

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

/// A line against a figure of the specification: reached, or missed by how much.
pub fn bar(what: &str, measured: f64, most: f64, unit: &str) {
    if measured <= most {
        println!("reached  {what}: {measured:.2}{unit}, at most {most:.2}{unit}");
    } else {
        println!(
            "MISSED   {what}: {measured:.2}{unit}, at most {most:.2}{unit}; missed by {:.2}{unit} ({:.0} %)",
            measured - most,
            (measured / most - 1.0) * 100.0
        );
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
