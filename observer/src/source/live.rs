//! The live source: one thread that drains the ring, sweeps the sockets, watches the host, and hands over batches.
//!
//! The thread blocks when the fold is behind: then the ring is not drained and the kernel counts what it drops.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use aya::maps::{MapData, RingBuf};
use tokio::sync::mpsc;

use super::elsewhere;
use super::pacer::{Pacer, Spent, kernel_ns};
use super::queue;
use super::records::Records;
use super::reorder::WINDOW_NS;
use super::{Info, Source, SourceError, SourceKind};
use crate::event::{Event, Note, NoteKind, Origin, Payload};
use crate::host::cgroup::Cgroups;
use crate::host::netns::Namespace;
use crate::host::{Roots, Watch, netns};
use crate::kernel::congestion::CcLayouts;
use crate::kernel::decode::Decoder;
use crate::kernel::load::{LoadError, Options, Programs};
use crate::kernel::owners::Walk;
use crate::kernel::{clock, record};
use crate::units::Mono;

/// How often the ring is drained. Nobody is woken per record: at 8 MiB and 10 ms this carries 1.9 million samples/s.
const DRAIN_EVERY: Duration = Duration::from_millis(10);
/// How often flows without samples of their own are looked at (TRAPS 39).
const SWEEP_EVERY_NS: u64 = 1_000_000_000;
/// How often the sweep hands over all flows, to find those whose last record was lost.
const REAP_EVERY_NS: u64 = 30_000_000_000;
/// How often descriptors are looked at although all owners are known: sockets are passed on.
const OWNERS_EVERY_NS: u64 = 10_000_000_000;
/// Looking for owners of new flows may take at most one part in so many of a CPU, however many descriptors there are.
const OWNERS_SHARE: u64 = 50;
/// How often time is carried forward when nothing happens.
const TICK_EVERY_NS: u64 = 100_000_000;
/// Records taken from the ring before they are handed on.
const MAX_DRAIN: usize = 16_384;

/// What to observe.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    pub kernel: Options,
    /// The namespaces whose sockets and devices are looked at.
    pub namespaces: Vec<Namespace>,
    /// All namespaces are observed: none is elsewhere.
    pub everywhere: bool,
    /// What observing may cost, share of all cores, millionths.
    pub max_cpu_ppm: u64,
    /// Nanoseconds between sweeps; 0 = only at start and when asked ([`Handle::sweep`]).
    pub sweep_every_ns: u64,
}

impl Default for LiveOptions {
    fn default() -> Self {
        Self {
            kernel: Options::default(),
            namespaces: Vec::new(),
            everywhere: false,
            max_cpu_ppm: 50_000,
            sweep_every_ns: SWEEP_EVERY_NS,
        }
    }
}

/// Steers a running source from elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Handle {
    stop: Arc<AtomicBool>,
    sweep: Arc<AtomicBool>,
    focus: Arc<Mutex<Vec<u64>>>,
}

impl Handle {
    /// Has these flows, by their cookies, sampled at every ACK, and no others. The kernel side has room for a few.
    pub fn focus(&self, cookies: Vec<u64>) {
        *self.focus.lock().unwrap_or_else(PoisonError::into_inner) = cookies;
    }

    fn focused(&self) -> Vec<u64> {
        self.focus
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Detach, drain, read the counters, end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Sweep now, unchanged flows too.
    pub fn sweep(&self) {
        self.sweep.store(true, Ordering::Relaxed);
    }
}

/// The host's flows, live.
#[derive(Debug)]
pub struct Live {
    info: Info,
    handle: Handle,
    batches: mpsc::Receiver<Vec<Event>>,
    thread: Option<JoinHandle<Programs>>,
}

impl Live {
    /// Loads the programs and starts. Errors here are final: nothing runs.
    pub fn start(options: &LiveOptions) -> Result<Self, LoadError> {
        let programs = Programs::load(&options.kernel)?;
        let handle = Handle::default();
        let (sender, batches) = queue::queue();
        let worker = Worker::new(programs, options.clone(), handle.clone(), sender)?;
        let info = Info {
            kind: SourceKind::Live,
            origin: Some(Origin::Ebpf),
            name: "eBPF".to_owned(),
            wall_offset_ns: i64::try_from(clock::wall_offset_ns()).ok(),
        };
        let thread = std::thread::Builder::new()
            .name("observer-kernel".to_owned())
            .spawn(move || worker.run())
            .map_err(LoadError::Thread)?;
        Ok(Self {
            info,
            handle,
            batches,
            thread: Some(thread),
        })
    }

    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Ends the source and gives the programs back, detached but still loaded: their counters can be read against
    /// the kernel's. Batches not yet taken are lost; take them first.
    pub fn finish(mut self) -> Option<Programs> {
        self.handle.stop();
        self.batches.close();
        while self.batches.blocking_recv().is_some() {}
        self.thread.take()?.join().ok()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.handle.stop();
        self.batches.close();
        while self.batches.try_recv().is_ok() {}
        if let Some(thread) = self.thread.take() {
            // A panic over there was reported by its own hook.
            let _ = thread.join();
        }
    }
}

impl Source for Live {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn next(&mut self) -> Result<Option<Vec<Event>>, SourceError> {
        Ok(self.batches.recv().await)
    }
}

/// What the thread owns.
struct Worker {
    programs: Programs,
    ring: RingBuf<MapData>,
    records: Records,
    options: LiveOptions,
    handle: Handle,
    sender: mpsc::Sender<Vec<Event>>,
    roots: Roots,
    watches: Vec<(Namespace, Watch)>,
    events: Vec<Event>,
    buffer: Vec<u8>,
    last_sweep: Option<u64>,
    last_reap: u64,
    last_owners: u64,
    owners_cost: u64,
    last_elsewhere: u64,
    last_tick: u64,
    last_second: Option<u64>,
    pacer: Pacer,
    focus: Vec<u64>,
    degraded: Vec<String>,
}

impl Worker {
    fn new(
        mut programs: Programs,
        options: LiveOptions,
        handle: Handle,
        sender: mpsc::Sender<Vec<Event>>,
    ) -> Result<Self, LoadError> {
        let ring = programs.take_ring()?;
        let pacer = Pacer::new(options.kernel.interval_ns, options.max_cpu_ppm);
        let roots = Roots::default();
        let cgroups = Cgroups::new(&roots.proc.join("self/mountinfo"));
        let algorithms = CcLayouts::in_dir(programs.types(), &options.kernel.btf);
        let decoder = Decoder::new(*programs.layout(), programs.hz(), algorithms, cgroups);
        let watches = options
            .namespaces
            .iter()
            .map(|namespace| (namespace.clone(), Watch::new(namespace.inum)))
            .collect();
        Ok(Self {
            programs,
            ring,
            records: Records::new(decoder),
            options,
            handle,
            sender,
            roots,
            watches,
            events: Vec::new(),
            buffer: Vec::new(),
            last_sweep: None,
            last_reap: 0,
            last_owners: 0,
            owners_cost: 0,
            last_elsewhere: 0,
            last_tick: 0,
            last_second: None,
            pacer,
            focus: Vec::new(),
            degraded: Vec::new(),
        })
    }

    fn run(mut self) -> Programs {
        self.begin();
        while !self.handle.stop.load(Ordering::Relaxed) {
            let busy = self.step();
            if self.send().is_err() {
                break;
            }
            if !busy {
                std::thread::sleep(DRAIN_EVERY);
            }
        }
        self.end();
        self.programs
    }

    /// Sockets first, hooks then: what exists is known before it speaks, and its totals are a base to count from.
    fn begin(&mut self) {
        let start = clock::now();
        self.last_reap = start.0;
        if self.options.kernel.filter.pids > 0 {
            // The filter asks who holds what: the walk tells the programs before they decide. The records come again.
            let mut unread = Vec::new();
            if let Err(error) = self.programs.owners(&mut unread) {
                self.degrade(&error.to_string());
            }
        }
        self.each_second(start);
        self.sweep(true);
        if let Err(error) = self.programs.attach() {
            self.degrade(&error.to_string());
        }
        for text in self.programs.degraded() {
            self.events.push(note(start, NoteKind::Degraded, text));
        }
        // Sockets born between the two are found by a second look.
        self.last_sweep = None;
        self.release(u64::MAX);
        self.owners(clock::now());
    }

    /// One round; says whether there is more to do at once.
    fn step(&mut self) -> bool {
        let now = clock::now();
        let more = self.drain() >= MAX_DRAIN;
        self.look_closely();
        let asked = self.handle.sweep.swap(false, Ordering::Relaxed);
        let due = match self.last_sweep {
            None => true,
            Some(last) => {
                self.options.sweep_every_ns != 0
                    && now.0.saturating_sub(last) >= self.options.sweep_every_ns
            }
        };
        if asked || due {
            let reap = now.0.saturating_sub(self.last_reap) >= REAP_EVERY_NS;
            let complete = self.sweep(asked || reap);
            self.drain();
            if reap && complete {
                self.last_reap = now.0;
                self.release(u64::MAX);
                self.records.decoder.reap(now.0, &mut self.events);
            }
        }
        self.release(now.0.saturating_sub(WINDOW_NS));
        // Nothing earlier can come: the fold's clock may stand there.
        let settled = Mono(now.0.saturating_sub(WINDOW_NS));
        if self
            .last_second
            .is_none_or(|last| settled.since(Mono(last)) >= 1_000_000_000)
        {
            self.each_second(settled);
        }
        if now.0 - self.last_tick >= TICK_EVERY_NS {
            self.last_tick = now.0;
            self.events.push(Event {
                time: settled,
                flow: None,
                payload: Payload::Tick,
            });
        }
        more
    }

    /// Passes on which flows somebody looks at.
    fn look_closely(&mut self) {
        let wanted = self.handle.focused();
        if wanted != self.focus {
            if let Err(error) = self.programs.focus(&wanted) {
                self.degrade(&error.to_string());
            }
            self.focus = wanted;
        }
    }

    /// Hooks off, then everything that is still on its way, then the counters: they are final.
    fn end(&mut self) {
        if self.handle.sweep.swap(false, Ordering::Relaxed) {
            self.sweep(true);
        }
        self.programs.detach();
        self.drain_all();
        self.release(u64::MAX);
        self.count(clock::now());
        let _ = self.send();
    }

    fn send(&mut self) -> Result<(), ()> {
        if self.events.is_empty() {
            return if self.sender.is_closed() {
                Err(())
            } else {
                Ok(())
            };
        }
        // The next batch is about as large.
        let next = Vec::with_capacity(self.events.len());
        queue::send(&self.sender, std::mem::replace(&mut self.events, next))
    }

    fn drain(&mut self) -> usize {
        let mut taken = 0;
        while taken < MAX_DRAIN {
            let Some(item) = self.ring.next() else {
                break;
            };
            taken += 1;
            self.records.push(&item);
        }
        let Self {
            programs, records, ..
        } = self;
        let briefs = programs.shared().drain(MAX_DRAIN as u64, |brief| {
            records.push(record::bytes(brief));
        });
        taken + briefs as usize
    }

    fn drain_all(&mut self) {
        while self.drain() > 0 {}
    }

    fn release(&mut self, until_ns: u64) {
        self.records.release(until_ns, &mut self.events);
    }

    /// Looks at all sockets of the namespaces asked for; says whether all of them could be looked at.
    fn sweep(&mut self, all: bool) -> bool {
        let mut complete = true;
        self.buffer.clear();
        for at in 0..self.watches.len() {
            let Self {
                watches,
                programs,
                buffer,
                ..
            } = self;
            let (namespace, _) = &watches[at];
            // The kernel lists the namespace of the thread that makes the iterator.
            match netns::enter(namespace, || programs.sweep(all, buffer)) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    complete = false;
                    self.degrade(&error.to_string());
                }
                // A namespace that went away took its sockets with it.
                Err(netns::NetnsError::Gone { .. }) => complete = false,
                Err(error) => {
                    complete = false;
                    self.degrade(&error.to_string());
                }
            }
        }
        self.records.push_sweep(&self.buffer);
        self.last_sweep = Some(clock::now().0);
        complete
    }

    /// Host, devices, qdiscs and the programs' counters.
    fn each_second(&mut self, now: Mono) {
        self.last_second = Some(now.0);
        let mut problems = Vec::new();
        let Self {
            watches,
            roots,
            events,
            ..
        } = self;
        for (namespace, watch) in watches {
            match netns::enter(namespace, || watch.poll(now, roots)) {
                Ok(Ok(changed)) => events.extend(changed),
                Ok(Err(error)) => problems.push(error.to_string()),
                Err(netns::NetnsError::Gone { .. }) => {}
                Err(error) => problems.push(error.to_string()),
            }
        }
        for problem in problems {
            self.degrade(&problem);
        }
        self.owners(now);
        self.elsewhere(now);
        self.count(now);
    }

    /// Namespaces come and go: with all of them asked for, new ones are taken in; else their flows are counted.
    fn elsewhere(&mut self, now: Mono) {
        if now.since(Mono(self.last_elsewhere)) < elsewhere::EVERY_NS {
            return;
        }
        self.last_elsewhere = now.0;
        if self.options.everywhere {
            elsewhere::take_in(&self.roots, &mut self.watches);
            return;
        }
        if let Some(found) = elsewhere::count(&self.roots, &self.options.namespaces) {
            self.events.push(Event {
                time: now,
                flow: None,
                payload: Payload::Elsewhere(found),
            });
        }
    }

    /// Who holds which socket: when flows of unknown owner have come, and now and then for sockets passed on.
    fn owners(&mut self, now: Mono) {
        let since = now.since(Mono(self.last_owners));
        let rested = since >= self.owners_cost.saturating_mul(OWNERS_SHARE);
        let due = since >= OWNERS_EVERY_NS || rested && self.records.decoder.wants_owners(now);
        if !due || self.records.decoder.flows() == 0 {
            return;
        }
        self.last_owners = now.0;
        self.buffer.clear();
        let spent = clock::spent_ns();
        let walked = self.programs.owners(&mut self.buffer);
        self.owners_cost = clock::spent_ns().saturating_sub(spent);
        if let Err(error) = walked {
            self.degrade(&error.to_string());
            return;
        }
        let mut walk = Walk::default();
        for bytes in self
            .buffer
            .chunks(size_of::<observer_common::wire::Owner>())
        {
            match record::owner(bytes) {
                Some(owner) => walk.add(&owner),
                None => self.records.not_understood(),
            }
        }
        self.records.decoder.owners(now, &walk, &mut self.events);
    }

    fn count(&mut self, now: Mono) {
        let mut counters = self.programs.counters();
        let spent = Spent {
            at_ns: clock::now().0,
            user_ns: clock::own_cpu_ns(),
            kernel_ns: kernel_ns(&counters),
        };
        let before = self.pacer.pace();
        counters.cost = self.pacer.spend(spent, cores());
        let pace = self.pacer.pace();
        if pace != before
            && let Err(error) = self.programs.pace(pace.interval_ns, pace.close_ns)
        {
            self.degrade(&error.to_string());
        }
        self.events.push(Event {
            time: now,
            flow: None,
            payload: Payload::Counters(Box::new(counters)),
        });
        let unknown = self.records.unknown();
        if unknown > 0 {
            let text = format!("{unknown} records were not understood");
            self.degrade(&text);
        }
    }

    /// Says once what does not work.
    fn degrade(&mut self, text: &str) {
        if self.degraded.iter().any(|known| known == text) {
            return;
        }
        self.degraded.push(text.to_owned());
        self.events
            .push(note(clock::now(), NoteKind::Degraded, text.to_owned()));
    }
}

/// CPUs that we may run on.
fn cores() -> u64 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64)
}

fn note(time: Mono, kind: NoteKind, text: String) -> Event {
    Event {
        time,
        flow: None,
        payload: Payload::Note(Note { kind, text }),
    }
}
