//! Nothing vanishes uncounted (SPEC §8): `attempted = kept + suppressed + filtered + failed + dropped + missed`, to the last
//! event, against the kernel's own count of runs; dropped records are holes in the flows' numbers.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::{Netns, connect, needs, run, send, wait_for};
use observer::event::{Counters, Event, Payload, ProgramCounters, TcpState};
use observer::kernel::counters::kernel_counts;
use observer::kernel::load::{Options, Programs};
use observer::source::Source as _;
use observer::source::live::{Handle, Live, LiveOptions};
use observer_common::outcome::Program;
use std::os::fd::AsFd as _;

/// `kernel.bpf_stats_enabled` while it lives, as it was before afterwards.
struct Stats(String);

impl Stats {
    fn on() -> Self {
        let file = "/proc/sys/kernel/bpf_stats_enabled";
        let before = std::fs::read_to_string(file).expect("the sysctl");
        std::fs::write(file, "1").expect("set");
        Self(before)
    }
}

impl Drop for Stats {
    fn drop(&mut self) {
        let _ = std::fs::write("/proc/sys/kernel/bpf_stats_enabled", &self.0);
    }
}

/// A live source whose events are gathered beside the test.
struct Watching {
    handle: Handle,
    /// While set, nothing is gathered: the source waits, and the rings fill.
    held: Arc<AtomicBool>,
    thread: thread::JoinHandle<(Vec<Event>, Programs)>,
}

impl Watching {
    fn start(ns: &Netns, interval_ns: u64, ring_bytes: u32) -> Self {
        let options = LiveOptions {
            kernel: Options {
                interval_ns,
                netns: Some(ns.inum()),
                ring_bytes,
                ..Options::default()
            },
            namespaces: vec![ns.namespace()],
            ..LiveOptions::default()
        };
        let mut live = Live::start(&options).expect("the programs load");
        let handle = live.handle();
        let (sender, first) = std::sync::mpsc::channel();
        let held: Arc<AtomicBool> = Arc::default();
        let hold = Arc::clone(&held);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .expect("a runtime");
            let mut events = Vec::new();
            while let Some(batch) = runtime.block_on(live.next()).expect("live does not fail") {
                // The first batch comes when the hooks are on.
                let _ = sender.send(());
                events.extend(batch);
                while hold.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(5));
                }
            }
            (events, live.finish().expect("the thread ends well"))
        });
        first
            .recv_timeout(Duration::from_secs(10))
            .expect("it starts");
        Self {
            handle,
            held,
            thread,
        }
    }

    fn finish(self) -> (Vec<Event>, Programs) {
        self.handle.stop();
        self.thread.join().expect("the gatherer ends well")
    }
}

fn last_counters(events: &[Event]) -> &Counters {
    let counters = events.iter().rev().find_map(|event| match &event.payload {
        Payload::Counters(counters) => Some(&**counters),
        _ => None,
    });
    counters.expect("counters come last")
}

/// Runs of the program by `bpftool`: the kernel's own count.
fn run_cnt(id: u32) -> u64 {
    let json = run("bpftool", &format!("-j prog show id {id}"));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    // Left out while it is 0.
    json["run_cnt"].as_u64().unwrap_or(0)
}

fn check(counters: &Counters, programs: &Programs) {
    for program in programs.loaded() {
        let line: &ProgramCounters = counters
            .programs
            .iter()
            .find(|line| line.program == program.name())
            .expect("every program is counted");
        let sum =
            line.kept + line.suppressed + line.filtered + line.failed + line.dropped + line.missed;
        assert_eq!(line.attempted, sum, "{line:?}");
        let fd = programs.fd(*program).expect("it is loaded");
        let kernel = kernel_counts(fd.as_fd()).expect("fdinfo");
        assert_eq!(line.missed, kernel.recursion_misses, "{line:?}");
        assert_eq!(
            line.attempted,
            run_cnt(kernel.prog_id) + kernel.recursion_misses,
            "{line:?}"
        );
    }
}

fn holes(events: &[Event]) -> u64 {
    events
        .iter()
        .map(|event| match event.payload {
            Payload::Gap(gap) => gap.missing,
            _ => 0,
        })
        .sum()
}

/// Records that the events stand for, to hold against `kept`: a sample each, and so on.
fn dropped(counters: &Counters) -> u64 {
    counters.programs.iter().map(|line| line.dropped).sum()
}

fn saturate(ns: &Netns, flows: usize, bytes: usize) {
    let pairs: Vec<_> = (0..flows).map(|_| connect(ns, ns, "127.0.0.1")).collect();
    thread::scope(|scope| {
        for (client, server) in &pairs {
            scope.spawn(move || send(client, server, bytes));
        }
    });
}

#[test]
fn trap_29_the_sums_are_the_kernels_to_the_last_event() {
    needs!("ip", "bpftool");
    let _stats = Stats::on();
    let ns = Netns::new();
    let watching = Watching::start(&ns, 1_000_000, 16 << 20);
    saturate(&ns, 4, 400 << 20);
    let (events, programs) = watching.finish();
    let counters = last_counters(&events);
    check(counters, &programs);
    let probe = &counters.programs[Program::Probe as usize];
    assert!(
        probe.attempted > 1000 && probe.kept > 50 && probe.suppressed > 100,
        "{probe:?}"
    );
    assert_eq!((dropped(counters), holes(&events)), (0, 0));
    let samples = events
        .iter()
        .filter(|e| matches!(e.payload, Payload::Sample(_)))
        .count() as u64;
    let sampling = [Program::Probe, Program::Destroy, Program::Sweep]
        .map(|program| counters.programs[program as usize].kept)
        .iter()
        .sum::<u64>();
    // The change to CLOSE carries a sample as well.
    let ended = events
        .iter()
        .filter(|e| matches!(&e.payload, Payload::State(change) if change.new == TcpState::Close))
        .count() as u64;
    assert!(ended > 0);
    assert_eq!(samples, sampling + ended, "every record kept is an event");
}

#[test]
fn rings_that_overflow_leave_as_many_holes_as_drops() {
    needs!("ip", "bpftool");
    let _stats = Stats::on();
    let ns = Netns::new();
    let watching = Watching::start(&ns, 0, 16 << 10);
    let pairs: Vec<_> = (0..4).map(|_| connect(&ns, &ns, "127.0.0.1")).collect();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for (client, server) in &pairs {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    send(client, server, 8 << 20);
                }
            });
        }
        watching.held.store(true, Ordering::Relaxed);
        thread::sleep(Duration::from_secs(2));
        stop.store(true, Ordering::Relaxed);
    });
    watching.held.store(false, Ordering::Relaxed);
    // The rings have room again: the last records of the flows, by the sweep, are not lost, so every hole shows.
    watching.handle.sweep();
    thread::sleep(Duration::from_millis(300));
    let (events, programs) = watching.finish();
    let counters = last_counters(&events);
    check(counters, &programs);
    assert!(dropped(counters) > 1000, "{counters:?}");
    assert_eq!(holes(&events), dropped(counters));
}

/// The source gives its programs back; without it nothing stays in the kernel.
#[test]
fn nothing_is_left_behind() {
    needs!("ip", "bpftool");
    let ns = Netns::new();
    let watching = Watching::start(&ns, 0, 1 << 20);
    let (_, programs) = watching.finish();
    let ids: Vec<u32> = programs
        .loaded()
        .iter()
        .filter_map(|program| Some(kernel_counts(programs.fd(*program)?.as_fd())?.prog_id))
        .collect();
    assert_eq!(ids.len(), programs.loaded().len());
    drop(programs);
    wait_for("the programs to go", || {
        let shown = run("bpftool", "-j prog show");
        let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
        let left = shown
            .as_array()
            .expect("a list")
            .iter()
            .any(|prog| ids.iter().any(|id| prog["id"] == *id));
        (!left).then_some(())
    });
}
