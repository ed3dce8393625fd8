//! Made-up flows at any rate, through all that user space does with the programs' records: what it costs, measured
//! without a kernel that would have to carry the traffic (`cargo xtask bench fold`, `soak`).

mod generator;

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc;

pub use generator::{Channel, Generator, Traffic};

use super::queue;
use super::records::Records;
use super::reorder::WINDOW_NS;
use super::{Info, Source, SourceError, SourceKind};
use crate::event::{Counters, Event, Origin, Payload, ProgramCounters};
use crate::host::cgroup::Cgroups;
use crate::host::{Roots, Watch, netns};
use crate::kernel::btf::Btf;
use crate::kernel::congestion::CcLayouts;
use crate::kernel::decode::Decoder;
use crate::kernel::owners::Walk;
use crate::kernel::{btf, clock, record};
use crate::units::Mono;

/// The name of the thread that makes the records: what it costs is not the observer's.
pub const GENERATOR: &str = "made-up-flows";

/// As the live source does it.
const DRAIN_EVERY: Duration = Duration::from_millis(10);
const TICK_EVERY_NS: u64 = 100_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// How often records are written.
const WRITE_EVERY: Duration = Duration::from_millis(2);

/// What to make up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntheticOptions {
    pub traffic: Traffic,
    /// Ends by itself after so long; 0 = never.
    pub time_ns: u64,
    /// Bytes of records that may wait; beyond this they are lost, and counted.
    pub ring_bytes: u32,
}

/// `flows=20000,rate=100000,churn=200,time=60`, all but `flows` optional.
impl FromStr for SyntheticOptions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut options = Self {
            traffic: Traffic {
                flows: 0,
                rate: 0,
                churn: 0,
            },
            time_ns: 0,
            ring_bytes: 8 << 20,
        };
        for part in text.split(',') {
            let wrong = || format!("{part:?}: flows=N, rate=N, churn=N (a second) or time=SECONDS");
            let (key, value) = part.split_once('=').ok_or_else(wrong)?;
            let number: u32 = value.parse().map_err(|_| wrong())?;
            match key {
                "flows" => options.traffic.flows = number,
                "rate" => options.traffic.rate = number,
                "churn" => options.traffic.churn = number,
                "time" => options.time_ns = u64::from(number) * SECOND_NS,
                _ => return Err(wrong()),
            }
        }
        if options.traffic.flows == 0 {
            return Err("say how many: flows=20000".to_owned());
        }
        Ok(options)
    }
}

/// Ends it from elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Handle(Arc<AtomicBool>);

impl Handle {
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The source.
#[derive(Debug)]
pub struct Synthetic {
    info: Info,
    handle: Handle,
    batches: mpsc::Receiver<Vec<Event>>,
    threads: Vec<JoinHandle<()>>,
}

impl Synthetic {
    /// Starts with the flows that are there; needs no rights.
    pub fn start(options: SyntheticOptions) -> Result<Self, SourceError> {
        let io = |what: &str, error| SourceError::Io {
            what: what.to_owned(),
            error,
        };
        let handle = Handle::default();
        let (sender, batches) = queue::queue();
        let shared = Arc::new(Mutex::new(Waiting::default()));
        let worker = Worker::new(Arc::clone(&shared))?;
        let began = clock::now();
        let generator = Generator::new(options.traffic, worker.netns.inum, clock::hz(), began.0);
        let (its, stopped) = (handle.clone(), handle.clone());
        let spawn = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let making = spawn(GENERATOR)
            .spawn(move || make(generator, options, &shared, &stopped))
            .map_err(|error| io("no thread", error))?;
        let draining = spawn("observer-kernel")
            .spawn(move || worker.run(&its, &sender))
            .map_err(|error| io("no thread", error))?;
        Ok(Self {
            info: Info {
                kind: SourceKind::Live,
                origin: Some(Origin::Ebpf),
                name: "made up".to_owned(),
                wall_offset_ns: i64::try_from(clock::wall_offset_ns()).ok(),
            },
            handle,
            batches,
            threads: vec![making, draining],
        })
    }

    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

impl Drop for Synthetic {
    fn drop(&mut self) {
        self.handle.stop();
        self.batches.close();
        while self.batches.try_recv().is_ok() {}
        for thread in self.threads.drain(..) {
            // A panic over there was reported by its own hook.
            let _ = thread.join();
        }
    }
}

impl Source for Synthetic {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn next(&mut self) -> Result<Option<Vec<Event>>, SourceError> {
        Ok(self.batches.recv().await)
    }
}

/// A decoder that knows every field, and the algorithms as far as this kernel has type information.
pub fn decoder() -> Result<Decoder, SourceError> {
    let types = Btf::from_sys().map_err(|error| SourceError::Failed(error.to_string()))?;
    let resolved = btf::resolve(&types).map_err(|error| SourceError::Failed(error.to_string()))?;
    let cgroups = Cgroups::new(&Roots::default().proc.join("self/mountinfo"));
    let algorithms = CcLayouts::new(types);
    Ok(Decoder::new(
        resolved.layout,
        clock::hz(),
        algorithms,
        cgroups,
    ))
}

/// What was written and not yet taken.
#[derive(Debug, Default)]
struct Waiting {
    ring: Vec<u8>,
    /// Where each record of it ends.
    ends: Vec<usize>,
    sweep: Vec<u8>,
    walk: Vec<u8>,
    written: u64,
    dropped: u64,
    /// Everything up to this moment was written.
    until_ns: u64,
    ended: bool,
}

impl Waiting {
    fn take(&mut self, channel: Channel, bytes: &[u8], room: usize) {
        self.written += u64::from(channel != Channel::Walk);
        match channel {
            Channel::Ring if self.ring.len() + bytes.len() > room => self.dropped += 1,
            Channel::Ring => {
                self.ring.extend_from_slice(bytes);
                self.ends.push(self.ring.len());
            }
            Channel::Sweep => self.sweep.extend_from_slice(bytes),
            Channel::Walk => self.walk.extend_from_slice(bytes),
        }
    }
}

fn lock(shared: &Mutex<Waiting>) -> std::sync::MutexGuard<'_, Waiting> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes records as they become due.
fn make(
    mut generator: Generator,
    options: SyntheticOptions,
    shared: &Mutex<Waiting>,
    handle: &Handle,
) {
    let began = clock::now();
    let room = options.ring_bytes as usize;
    {
        let waiting = &mut *lock(shared);
        generator.begin(&mut |channel, bytes| waiting.take(channel, bytes, room));
    }
    loop {
        let now = clock::now();
        let over = options.time_ns != 0 && now.since(began) >= options.time_ns;
        let ended = over || handle.is_stopped();
        let waiting = &mut *lock(shared);
        generator.until(now.0, &mut |channel, bytes| {
            waiting.take(channel, bytes, room);
        });
        waiting.until_ns = now.0;
        waiting.ended = ended;
        if ended {
            return;
        }
        std::thread::sleep(WRITE_EVERY);
    }
}

/// What the live source's thread does, without programs.
struct Worker {
    shared: Arc<Mutex<Waiting>>,
    /// Given back to be written into again.
    taken: Waiting,
    records: Records,
    events: Vec<Event>,
    netns: netns::Namespace,
    roots: Roots,
    watch: Watch,
    last_tick: u64,
    last_second: Option<u64>,
}

impl Worker {
    fn new(shared: Arc<Mutex<Waiting>>) -> Result<Self, SourceError> {
        let roots = Roots::default();
        let netns = netns::own(&roots).map_err(|error| SourceError::Failed(error.to_string()))?;
        Ok(Self {
            shared,
            taken: Waiting::default(),
            records: Records::new(decoder()?),
            events: Vec::new(),
            watch: Watch::new(netns.inum),
            netns,
            roots,
            last_tick: 0,
            last_second: None,
        })
    }

    fn run(mut self, handle: &Handle, sender: &mpsc::Sender<Vec<Event>>) {
        loop {
            self.step();
            let ended = self.taken.ended;
            if !self.events.is_empty() {
                let next = Vec::with_capacity(self.events.len());
                let batch = std::mem::replace(&mut self.events, next);
                if queue::send(sender, batch).is_err() {
                    handle.stop();
                    return;
                }
            }
            if ended {
                return;
            }
            std::thread::sleep(DRAIN_EVERY);
        }
    }

    /// One round.
    fn step(&mut self) {
        let taken = &mut self.taken;
        taken.ring.clear();
        taken.ends.clear();
        taken.sweep.clear();
        taken.walk.clear();
        {
            let waiting = &mut *lock(&self.shared);
            (taken.written, taken.dropped) = (waiting.written, waiting.dropped);
            (taken.until_ns, taken.ended) = (waiting.until_ns, waiting.ended);
            std::mem::swap(waiting, taken);
            (waiting.written, waiting.dropped) = (taken.written, taken.dropped);
            (waiting.until_ns, waiting.ended) = (taken.until_ns, taken.ended);
        }
        let mut start = 0;
        for &end in &taken.ends {
            self.records.push(&taken.ring[start..end]);
            start = end;
        }
        self.records.push_sweep(&taken.sweep);
        let until = if taken.ended {
            u64::MAX
        } else {
            taken.until_ns.saturating_sub(WINDOW_NS)
        };
        self.records.release(until, &mut self.events);
        if taken.until_ns == 0 {
            return;
        }
        let settled = Mono(taken.until_ns.saturating_sub(WINDOW_NS));
        if !self.taken.walk.is_empty() {
            self.walk(settled);
        }
        if self
            .last_second
            .is_none_or(|last| settled.since(Mono(last)) >= SECOND_NS)
            || self.taken.ended
        {
            self.each_second(settled);
        }
        if settled.0.saturating_sub(self.last_tick) >= TICK_EVERY_NS {
            self.last_tick = settled.0;
            self.events.push(Event {
                time: settled,
                flow: None,
                payload: Payload::Tick,
            });
        }
    }

    fn walk(&mut self, now: Mono) {
        let mut walk = Walk::default();
        let size = size_of::<observer_common::wire::Owner>();
        for bytes in self.taken.walk.chunks(size) {
            match record::owner(bytes) {
                Some(owner) => walk.add(&owner),
                None => self.records.not_understood(),
            }
        }
        self.records.decoder.owners(now, &walk, &mut self.events);
    }

    fn each_second(&mut self, now: Mono) {
        self.last_second = Some(now.0);
        if let Ok(changed) = self.watch.poll(now, &self.roots) {
            self.events.extend(changed);
        }
        // What it costs to find that nobody's owner is to be looked for.
        let _ = self.records.decoder.wants_owners(now);
        let (attempted, dropped) = (self.taken.written, self.taken.dropped);
        let counters = Counters {
            programs: vec![ProgramCounters {
                program: "made up".to_owned(),
                attempted,
                kept: attempted - dropped,
                dropped,
                ..ProgramCounters::default()
            }],
            cost: None,
        };
        self.events.push(Event {
            time: now,
            flow: None,
            payload: Payload::Counters(Box::new(counters)),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_with_what_would_be_right() {
        let options: SyntheticOptions = "flows=10,rate=100,time=2".parse().expect("right");
        assert_eq!((options.traffic.flows, options.traffic.rate), (10, 100));
        assert_eq!(options.time_ns, 2 * SECOND_NS);
        for (text, told) in [
            ("rate=1", "flows=20000"),
            ("flows", "flows=N"),
            ("flows=x", "\"flows=x\""),
            ("flows=1,size=2", "\"size=2\""),
        ] {
            let error = text.parse::<SyntheticOptions>().expect_err("wrong");
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
