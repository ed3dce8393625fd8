//! `cargo xtask bench peers`: what others cost for the same flows: a figure of every ACK, or a look five times a second.
//!
//! Loopback connections carry messages at a steady rate; each observer looks at them in turn. Its CPU time is that of its
//! processes, user and system, and of its programs in the kernel where the kernel's statistics tell it; tracepoints
//! without programs (perf) cost in the time of whoever sends, which is told as the sender's.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

mod common;

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;
use rustix::process::{Pid, Signal, kill_process};

use common::process::found;
use common::sockets::{Holders, hold};
use common::{Summary, run_time, skipped, told};

#[derive(Debug, Parser)]
struct Args {
    /// Sockets, both ends counted
    #[arg(long, default_value_t = 200)]
    sockets: usize,
    /// Messages and answers a second, all together
    #[arg(long, default_value_t = 2000)]
    messages: u32,
    /// Seconds of each look
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The observer to measure
    #[arg(long, default_value = env!("CARGO_BIN_EXE_observer"))]
    observer: PathBuf,
    /// What `cargo bench` passes
    #[arg(long, hide = true)]
    bench: bool,
    /// Be a process that holds this many connections
    #[arg(long, hide = true)]
    hold: Option<usize>,
}

/// `USER_HZ`, what `/proc/PID/stat` counts in.
const TICKS: u64 = 100;

/// Who looks.
struct Peer {
    name: &'static str,
    /// Programs that have to be there.
    needs: &'static [&'static str],
    command: Vec<String>,
}

/// What is printed of every ACK, about as much as `ss -tin` has of a flow's figures.
const BPFTRACE: &str = "tracepoint:tcp:tcp_probe { printf(\"%d %d %d %d %d %d %d %d\\n\", args->sport, args->dport, args->snd_cwnd, \
                        args->ssthresh, args->snd_wnd, args->srtt, args->rcv_wnd, args->snd_una); }";

fn peers(observer: &Path) -> Vec<Peer> {
    let ours = observer.display();
    let shell = |text: String| vec!["sh".to_owned(), "-c".to_owned(), text];
    let peer = |name, needs, text: String| Peer {
        name,
        needs,
        command: shell(text),
    };
    vec![
        peer(
            "observer stream, every ACK",
            &[],
            format!("exec {ours} stream --source ebpf --interval 0 --max-cpu 100"),
        ),
        peer(
            "observer record, every ACK",
            &[],
            format!(
                "exec {ours} record --source ebpf --interval 0 --max-cpu 100 --force -o \"$OUT\""
            ),
        ),
        peer(
            "bpftrace on tcp_probe",
            &["bpftrace"],
            format!("exec bpftrace -e '{BPFTRACE}'"),
        ),
        peer(
            "perf trace -e tcp:tcp_probe",
            &["perf"],
            "exec perf trace -a -e tcp:tcp_probe".to_owned(),
        ),
        peer(
            "tcprtt-bpfcc (a histogram a second)",
            &["tcprtt-bpfcc"],
            "exec tcprtt-bpfcc -i 1".to_owned(),
        ),
        peer(
            "ss -tinH every 200 ms",
            &["ss"],
            "while :; do ss -tinH; sleep 0.2; done".to_owned(),
        ),
        peer(
            "observer record, by default (10 ms)",
            &[],
            format!("exec {ours} record --source ebpf --force -o \"$OUT\""),
        ),
        peer(
            "observer stream --every 200ms, by default",
            &[],
            format!("exec {ours} stream --source ebpf --every 200ms"),
        ),
    ]
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(connections) = args.hold {
        return hold(connections, args.messages);
    }
    if !rustix::process::geteuid().is_root() {
        bail!("not root: cargo xtask bench peers");
    }
    println!("peers: {}", common::machine());
    println!(
        "{} sockets, {} messages and answers a second, {} s each, median of {}\n",
        args.sockets, args.messages, args.seconds, args.rounds
    );
    common::enter_new_netns().context("no network namespace")?;
    let stats = statistics()?;
    let holders = Holders::start(args.sockets / 2, args.messages)?;
    let dir = tempfile::tempdir()?;
    let mut all = Vec::new();
    for peer in peers(&args.observer) {
        if let Some(missing) = peer.needs.iter().find(|program| !found(program)) {
            skipped(peer.name, &format!("no {missing} here"));
            continue;
        }
        all.push((peer, Vec::new()));
    }
    for _ in 0..args.rounds {
        for (peer, shares) in &mut all {
            shares.push(look(peer, dir.path(), args.seconds));
        }
    }
    drop(holders);
    drop(stats);
    println!("{:<44} {:>8}  min–max", "% of a core", "median");
    for (peer, shares) in all {
        match shares.into_iter().collect::<Result<Vec<f64>>>() {
            Ok(shares) => {
                let share = Summary::of(shares);
                println!("{:<44} {share:.2}", peer.name);
                told(peer.name, share.median, " % of a core");
            }
            Err(error) => skipped(peer.name, &format!("{error:#}")),
        }
    }
    Ok(())
}

/// The kernel counts the run time of programs as long as this is held.
fn statistics() -> Result<OwnedFd> {
    aya::sys::enable_stats(aya::sys::Stats::RunTime)
        .context("the kernel keeps no run times of programs")
}

/// Share of a core that this one takes.
fn look(peer: &Peer, dir: &Path, seconds: u64) -> Result<f64> {
    let mut child = Command::new(&peer.command[0])
        .args(&peer.command[1..])
        .env("OUT", dir.join("peer.mcap"))
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::from(fs::File::create("/dev/null")?))
        .stderr(Stdio::from(fs::File::create(dir.join("said"))?))
        .spawn()?;
    let id = child.id();
    let said = || fs::read_to_string(dir.join("said")).unwrap_or_default();
    // Until it has begun: what starting costs is not compared.
    std::thread::sleep(Duration::from_secs(3));
    if let Some(status) = child.try_wait()? {
        bail!("ended with {status}: {}", said().trim());
    }
    let (begun, before) = (Instant::now(), spent_ns(id)?);
    std::thread::sleep(Duration::from_secs(seconds));
    let (wall, after) = (begun.elapsed(), spent_ns(id)?);
    if let Some(pid) = Pid::from_raw(id.cast_signed()) {
        kill_process(pid, Signal::INT)?;
    }
    // A shell's loop does not end by an interrupt of its own alone.
    std::thread::sleep(Duration::from_millis(500));
    if child.try_wait()?.is_none() {
        child.kill()?;
    }
    child.wait()?;
    Ok(after.saturating_sub(before) as f64 / wall.as_nanos() as f64 * 100.0)
}

/// Of a process with its children that have ended, user and system, and of all programs in the kernel.
fn spent_ns(id: u32) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
    let fields: Vec<u64> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse().ok())
        .collect();
    if fields.len() != 4 {
        bail!("/proc/{id}/stat is not understood");
    }
    let ticks: u64 = fields.iter().sum();
    let mut programs = 0;
    for program in aya::programs::loaded_programs() {
        // One that is gone by now is no error.
        if let Ok(fd) = program.and_then(|program| program.fd()) {
            programs += run_time(fd)?.0;
        }
    }
    Ok(ticks * (1_000_000_000 / TICKS) + programs)
}
