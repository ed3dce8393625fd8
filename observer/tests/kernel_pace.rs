//! How closely the programs look, and at which flows: filters decided in the kernel, every ACK after losses and for a flow
//! looked at, longer intervals above the CPU budget.

mod common;

use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::{Netns, connect, needs, send, skipped};
use observer::event::{Counters, Event, FlowId, Payload};
use observer::filter::{Filter, Numbers};
use observer::kernel::load::Options;
use observer::source::Source as _;
use observer::source::live::{Handle, Live, LiveOptions};
use observer_common::filter::FilterProgram;
use observer_common::outcome::Program;

/// Nothing has a name here.
struct Nameless;

impl Numbers for Nameless {
    fn cgroup(&self, _: &str) -> Option<u64> {
        None
    }

    fn netns(&self, _: &str) -> Option<u32> {
        None
    }
}

fn filter(words: &str) -> FilterProgram {
    let filter = Filter::parse_str(words).expect("a filter");
    let program = filter.kernel_part(None, &Nameless);
    assert!(program.len > 0, "{words} says something to the kernel");
    program
}

/// A live source whose events are gathered beside the test.
struct Watching {
    handle: Handle,
    thread: thread::JoinHandle<Vec<Event>>,
}

impl Watching {
    fn start(ns: &Netns, change: impl FnOnce(&mut LiveOptions)) -> Self {
        let mut options = LiveOptions {
            kernel: Options {
                netns: Some(ns.inum()),
                ..Options::default()
            },
            namespaces: vec![ns.namespace()],
            ..LiveOptions::default()
        };
        change(&mut options);
        let mut live = Live::start(&options).expect("the programs load");
        let handle = live.handle();
        let (sender, first) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .expect("a runtime");
            let mut events = Vec::new();
            while let Some(batch) = runtime.block_on(live.next()).expect("live does not fail") {
                // The first batch comes when the hooks are on.
                let _ = sender.send(());
                events.extend(batch);
            }
            events
        });
        first
            .recv_timeout(Duration::from_secs(10))
            .expect("it starts");
        Self { handle, thread }
    }

    fn finish(self) -> Vec<Event> {
        self.handle.stop();
        self.thread.join().expect("the gatherer ends well")
    }
}

fn counters(events: &[Event]) -> &Counters {
    let last = events.iter().rev().find_map(|event| match &event.payload {
        Payload::Counters(counters) => Some(&**counters),
        _ => None,
    });
    last.expect("counters come last")
}

/// Samples of each flow.
fn samples(events: &[Event]) -> BTreeMap<FlowId, usize> {
    let mut samples = BTreeMap::new();
    for event in events {
        if let (Some(flow), Payload::Sample(_)) = (event.flow, &event.payload) {
            *samples.entry(flow).or_default() += 1;
        }
    }
    samples
}

fn cookie(stream: &TcpStream) -> u64 {
    rustix::net::sockopt::socket_cookie(stream).expect("SO_COOKIE")
}

/// Sends for about a second, a little at a time.
fn busy(client: &TcpStream, server: &TcpStream) {
    for _ in 0..100 {
        send(client, server, 64 << 10);
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_filter_of_ports_leaves_the_others_in_the_kernel() {
    needs!("ip");
    let ns = Netns::new();
    let (wanted, other) = (connect(&ns, &ns, "127.0.0.1"), connect(&ns, &ns, "::1"));
    let port = wanted.1.local_addr().expect("an address").port();
    let program = filter(&format!("dport = :{port} and dst 127.0.0.0/8"));
    let watching = Watching::start(&ns, |options| *options.kernel.filter = program);
    busy(&wanted.0, &wanted.1);
    busy(&other.0, &other.1);
    let id = cookie(&wanted.0);
    // Its end is told, the others' is not.
    drop(wanted);
    drop(other);
    thread::sleep(Duration::from_millis(300));
    let events = watching.finish();
    let seen: Vec<u64> = samples(&events).keys().map(|flow| flow.cookie).collect();
    assert_eq!(seen, [id]);
    let flows: Vec<u64> = events.iter().filter_map(|e| Some(e.flow?.cookie)).collect();
    assert!(flows.iter().all(|flow| *flow == id), "{flows:?}");
    let closed = |event: &&Event| matches!(event.payload, Payload::Closed);
    assert_eq!(events.iter().filter(closed).count(), 1);
    let counters = counters(&events);
    let probe = &counters.programs[Program::Probe as usize];
    assert!(probe.filtered > 0 && probe.kept > 0, "{probe:?}");
    for line in &counters.programs {
        let sum =
            line.kept + line.suppressed + line.filtered + line.failed + line.dropped + line.missed;
        assert_eq!(line.attempted, sum, "{line:?}");
    }
}

#[test]
fn a_filter_of_processes_is_asked_of_the_walk() {
    needs!("ip");
    let ns = Netns::new();
    let pair = connect(&ns, &ns, "127.0.0.1");
    // Ours holds both ends; nobody is process 1 here but somebody else.
    for (pid, expected) in [(std::process::id(), 2), (1, 0)] {
        let program = filter(&format!("pid {pid}"));
        let watching = Watching::start(&ns, |options| *options.kernel.filter = program);
        busy(&pair.0, &pair.1);
        let events = watching.finish();
        assert_eq!(samples(&events).len(), expected, "pid {pid}");
    }
    // One that comes while we look, by its connecting task.
    let program = filter("pid 1");
    let watching = Watching::start(&ns, |options| *options.kernel.filter = program);
    let late = connect(&ns, &ns, "127.0.0.1");
    busy(&late.0, &late.1);
    let id = cookie(&late.0);
    let events = watching.finish();
    let told: Vec<&Event> = events
        .iter()
        .filter(|event| event.flow.is_some_and(|flow| flow.cookie == id))
        .collect();
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn a_flow_looked_at_is_sampled_at_every_ack() {
    needs!("ip");
    let ns = Netns::new();
    let (near, far) = (
        connect(&ns, &ns, "127.0.0.1"),
        connect(&ns, &ns, "127.0.0.1"),
    );
    // So long that by itself it gives a sample or two.
    let watching = Watching::start(&ns, |options| {
        options.kernel.interval_ns = 500_000_000;
        options.max_cpu_ppm = 1_000_000;
    });
    let id = cookie(&near.0);
    watching.handle.focus(vec![id]);
    thread::scope(|scope| {
        scope.spawn(|| busy(&near.0, &near.1));
        scope.spawn(|| busy(&far.0, &far.1));
    });
    let other = cookie(&far.0);
    let events = watching.finish();
    let samples = samples(&events);
    let of = |cookie: u64| {
        let flow = samples.keys().find(|flow| flow.cookie == cookie);
        flow.map_or(0, |flow| samples[flow])
    };
    let (near, far) = (of(id), of(other));
    assert!(near > 80, "{near} samples of the flow looked at");
    let lost = events.iter().any(|event| {
        matches!(event.payload, Payload::Retransmit(_))
            && event.flow.is_some_and(|flow| flow.cookie == other)
    });
    if lost {
        // What loses is sampled closely by itself.
        skipped("the machine is so busy that a flow over loopback sends again");
    } else {
        assert!(far < 20, "{far} samples of the other");
    }
    let samples = events
        .iter()
        .filter(|event| event.flow.is_some_and(|flow| flow.cookie == id))
        .filter_map(|event| match &event.payload {
            Payload::Sample(sample) => Some(sample.bytes_acked),
            _ => None,
        });
    let acked: Vec<_> = samples.collect();
    assert!(acked.is_sorted(), "samples of both kinds are in order");
}

#[test]
fn above_the_budget_intervals_stretch_and_say_so() {
    needs!("ip");
    let ns = Netns::new();
    let pair = connect(&ns, &ns, "127.0.0.1");
    let watching = Watching::start(&ns, |options| {
        options.kernel.interval_ns = 0;
        // A ten-thousandth of the cores.
        options.max_cpu_ppm = 100;
    });
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                send(&pair.0, &pair.1, 1 << 20);
            }
        });
        thread::sleep(Duration::from_secs(4));
        stop.store(true, Ordering::Relaxed);
    });
    let events = watching.finish();
    let costs: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.payload {
            Payload::Counters(counters) => counters.cost,
            _ => None,
        })
        .collect();
    assert!(!costs.is_empty(), "the cost is told");
    assert!(costs.iter().any(|cost| cost.kernel_ppm > 0), "{costs:?}");
    let last = costs.last().expect("some");
    assert!(last.stretched && last.interval_ns > 0, "{costs:?}");
    assert!(
        costs
            .windows(2)
            .all(|pair| pair[0].interval_ns <= pair[1].interval_ns),
        "{costs:?}"
    );
}

/// A socket that is being connected has no port yet: it may get the one asked for, so user space decides about it.
#[test]
fn what_the_kernel_cannot_know_yet_it_leaves_to_user_space() {
    needs!("ip");
    let ns = Netns::new();
    let listener: TcpListener = ns.enter(|| TcpListener::bind("127.0.0.1:0").expect("a listener"));
    let port = listener.local_addr().expect("an address").port();
    let program = filter(&format!("sport = :{port}"));
    let watching = Watching::start(&ns, |options| *options.kernel.filter = program);
    let client = ns.enter(|| TcpStream::connect(("127.0.0.1", port)).expect("a connection"));
    let (server, _) = listener.accept().expect("accepted");
    busy(&client, &server);
    let (client, server) = (cookie(&client), cookie(&server));
    let seen = samples(&watching.finish());
    let seen: Vec<u64> = seen.keys().map(|flow| flow.cookie).collect();
    assert!(seen.contains(&server), "{seen:?}");
    // The listener itself is no flow.
    assert!(
        seen.iter().all(|flow| [client, server].contains(flow)),
        "{seen:?}"
    );
}
