//! The reduced source: socket-diag, polled. The same events as the programs give, as far as polling can tell.
//!
//! What is missing: flows and retransmissions between two polls are seen late or not at all, retransmissions have no
//! kind and no sequence number, a flow's last figures are those of the last poll (TRAPS 17), and there is no unsmoothed RTT.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc;

use super::elsewhere;
use super::{Info, Source, SourceError, SourceKind};
use crate::event::{
    Attributes, Event, FlowId, Note, NoteKind, Opened, Origin, Payload, Process, Retransmit,
    RetransmitKind, Sample, StateChange, TcpState,
};
use crate::host::netns::{self, Namespace, NetnsError};
use crate::host::process::owners_by_inode;
use crate::host::{Roots, Watch};
use crate::kernel::clock;
use crate::kernel::diag::{Diag, Families, Socket, States};
use crate::units::Mono;

/// As often as people loop `ss`.
const POLL_EVERY: Duration = Duration::from_millis(200);
/// A poll may take at most one part in so many of the time, whatever the number of sockets.
const SHARE: u32 = 10;
/// Host, devices and owners.
const SECOND_NS: u64 = 1_000_000_000;
/// How long a stop may go unnoticed.
const NAP: Duration = Duration::from_millis(20);
const MAX_BATCHES: usize = 8;

/// What polling cannot tell, said once at the start.
pub const MISSING: &str = "socket-diag: polled; no events between polls, no kinds of retransmissions, no last figures, \
                           no unsmoothed RTT";

/// The host's flows by polling.
#[derive(Debug)]
pub struct Polled {
    info: Info,
    stop: Arc<AtomicBool>,
    batches: mpsc::Receiver<Vec<Event>>,
    thread: Option<JoinHandle<()>>,
}

impl Polled {
    /// Starts polling `namespaces` (`everywhere` = these are all); `reason` says why this source was taken.
    pub fn start(
        namespaces: Vec<Namespace>,
        everywhere: bool,
        reason: Option<String>,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, batches) = mpsc::channel(MAX_BATCHES);
        let poller = Poller::new(namespaces, everywhere, reason);
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("observer-diag".to_owned())
            .spawn(move || poller.run(&stopped, &sender))?;
        Ok(Self {
            info: Info {
                kind: SourceKind::Live,
                origin: Some(Origin::Diag),
                name: "socket-diag".to_owned(),
                wall_offset_ns: i64::try_from(clock::wall_offset_ns()).ok(),
            },
            stop,
            batches,
            thread: Some(thread),
        })
    }

    /// What ends it from elsewhere.
    pub fn stopper(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.batches.close();
        while self.batches.try_recv().is_ok() {}
        if let Some(thread) = self.thread.take() {
            // A panic over there was reported by its own hook.
            let _ = thread.join();
        }
    }
}

impl Source for Polled {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn next(&mut self) -> Result<Option<Vec<Event>>, SourceError> {
        Ok(self.batches.recv().await)
    }
}

/// A flow as last polled.
struct Known {
    round: u64,
    inode: u32,
    state: TcpState,
    attributes: Option<Attributes>,
    sample: Option<Sample>,
    owners: Option<Vec<Process>>,
}

struct Poller {
    roots: Roots,
    watches: Vec<(Namespace, Watch)>,
    known: HashMap<FlowId, Known>,
    round: u64,
    second: Option<Mono>,
    everywhere: bool,
    looked: Option<Mono>,
    events: Vec<Event>,
    degraded: Vec<String>,
}

impl Poller {
    fn new(namespaces: Vec<Namespace>, everywhere: bool, reason: Option<String>) -> Self {
        let mut poller = Self {
            roots: Roots::default(),
            watches: namespaces
                .into_iter()
                .map(|namespace| {
                    let watch = Watch::new(namespace.inum);
                    (namespace, watch)
                })
                .collect(),
            known: HashMap::new(),
            round: 0,
            second: None,
            everywhere,
            looked: None,
            events: Vec::new(),
            degraded: Vec::new(),
        };
        if let Some(reason) = reason {
            poller.degrade(&format!("no eBPF: {reason}"));
        }
        poller.degrade(MISSING);
        poller
    }

    fn run(mut self, stop: &AtomicBool, sender: &mpsc::Sender<Vec<Event>>) {
        while !stop.load(Ordering::Relaxed) {
            let begun = clock::now();
            self.poll(begun);
            if sender
                .blocking_send(std::mem::take(&mut self.events))
                .is_err()
            {
                return;
            }
            let took = Duration::from_nanos(clock::now().since(begun));
            let mut rest = POLL_EVERY.max(took * SHARE).saturating_sub(took);
            while !rest.is_zero() && !stop.load(Ordering::Relaxed) {
                let nap = rest.min(NAP);
                std::thread::sleep(nap);
                rest -= nap;
            }
        }
    }

    fn poll(&mut self, now: Mono) {
        self.round += 1;
        if self.second.is_none_or(|last| now.since(last) >= SECOND_NS) {
            self.second = Some(now);
            self.host(now);
            self.elsewhere(now);
        }
        let mut complete = true;
        for at in 0..self.watches.len() {
            let namespace = self.watches[at].0.clone();
            let dumped = netns::enter(&namespace, || {
                Diag::open(namespace.inum)?.dump(States::CONNECTED, Families::BOTH, |socket| {
                    self.socket(now, socket);
                })
            });
            match dumped {
                // A namespace that went away took its sockets with it.
                Ok(Ok(())) | Err(NetnsError::Gone { .. }) => {}
                Ok(Err(error)) => {
                    complete = false;
                    self.degrade(&format!("the sockets cannot be listed: {error}"));
                }
                Err(error) => {
                    complete = false;
                    self.degrade(&error.to_string());
                }
            }
        }
        if complete {
            self.close_the_gone(now);
        }
        if self.known.values().any(|known| known.owners.is_none()) {
            self.owners(now);
        }
        self.push(now, None, Payload::Tick);
    }

    fn push(&mut self, time: Mono, flow: Option<FlowId>, payload: Payload) {
        self.events.push(Event {
            time,
            flow,
            payload,
        });
    }

    fn host(&mut self, now: Mono) {
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
                Err(NetnsError::Gone { .. }) => {}
                Err(error) => problems.push(error.to_string()),
            }
        }
        for problem in problems {
            self.degrade(&problem);
        }
    }

    /// Namespaces come and go: with all of them asked for, new ones are taken in; else their flows are counted.
    fn elsewhere(&mut self, now: Mono) {
        if self
            .looked
            .is_some_and(|last| now.since(last) < elsewhere::EVERY_NS)
        {
            return;
        }
        self.looked = Some(now);
        if self.everywhere {
            elsewhere::take_in(&self.roots, &mut self.watches);
            return;
        }
        let observed: Vec<Namespace> = self
            .watches
            .iter()
            .map(|(namespace, _)| namespace.clone())
            .collect();
        if let Some(found) = elsewhere::count(&self.roots, &observed) {
            self.push(now, None, Payload::Elsewhere(found));
        }
    }

    fn socket(&mut self, now: Mono, socket: Socket) {
        let (id, round) = (socket.id, self.round);
        let flow = Some(id);
        let new = !self.known.contains_key(&id);
        let known = self.known.entry(id).or_insert_with(|| Known {
            round,
            inode: socket.inode,
            state: socket.state,
            attributes: None,
            sample: None,
            owners: None,
        });
        known.round = round;
        known.inode = if socket.inode == 0 {
            known.inode
        } else {
            socket.inode
        };
        let old = std::mem::replace(&mut known.state, socket.state);
        let attributes = socket
            .attributes
            .filter(|new| known.attributes.as_ref() != Some(new));
        let before = known
            .sample
            .as_ref()
            .map(|old| (old.retrans, old.bytes_retrans));
        // Also when nothing moved: that is what a rate of 0 is made of.
        let sample = socket.sample;
        if attributes.is_some() {
            known.attributes.clone_from(&attributes);
        }
        if sample.is_some() {
            known.sample.clone_from(&sample);
        }
        if new {
            self.push(
                now,
                flow,
                Payload::Opened(Opened {
                    from_start: false,
                    state: socket.state,
                    local: socket.local,
                    remote: socket.remote,
                }),
            );
        } else if old != socket.state {
            let change = StateChange {
                old,
                new: socket.state,
                local: socket.local,
                remote: socket.remote,
            };
            self.push(now, flow, Payload::State(change));
        }
        if let Some(attributes) = attributes {
            self.push(now, flow, Payload::Attributes(Box::new(attributes)));
        }
        if let Some(sample) = sample {
            if let Some(rise) = before.and_then(|before| rise(before, &sample)) {
                self.push(now, flow, Payload::Retransmit(rise));
            }
            self.push(now, flow, Payload::Sample(Box::new(sample)));
        }
    }

    fn close_the_gone(&mut self, now: Mono) {
        let gone: Vec<FlowId> = self
            .known
            .iter()
            .filter(|(_, known)| known.round != self.round)
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            self.known.remove(&id);
            self.push(now, Some(id), Payload::Closed);
        }
    }

    fn owners(&mut self, now: Mono) {
        let walk = owners_by_inode(&self.roots.proc);
        for (id, known) in &mut self.known {
            if known.owners.is_some() {
                continue;
            }
            let owners = walk.by_inode.get(&known.inode).cloned().unwrap_or_default();
            if !owners.is_empty() {
                self.events.push(Event {
                    time: now,
                    flow: Some(*id),
                    payload: Payload::Owners(owners.clone()),
                });
            }
            known.owners = Some(owners);
        }
    }

    /// Says once what does not work.
    fn degrade(&mut self, text: &str) {
        if self.degraded.iter().any(|known| known == text) {
            return;
        }
        self.degraded.push(text.to_owned());
        let note = Note {
            kind: NoteKind::Degraded,
            text: text.to_owned(),
        };
        self.push(clock::now(), None, Payload::Note(note));
    }
}

/// What was retransmitted between two polls: how much, not what or why.
fn rise((segments, bytes): (u32, Option<u64>), now: &Sample) -> Option<Retransmit> {
    let segments = now.retrans.checked_sub(segments).filter(|rise| *rise > 0)?;
    let bytes = now.bytes_retrans?.checked_sub(bytes?)?;
    Some(Retransmit {
        seq: None,
        end_seq: None,
        bytes,
        segments,
        kind: RetransmitKind::Other,
        ca_state: now.ca_state,
        failed: false,
        rtt_us: now.srtt_us,
        min_rtt_us: now.min_rtt_us,
        cwnd: Some(now.cwnd),
    })
}
