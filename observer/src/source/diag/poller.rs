//! The thread that polls: what it knows of each flow, and the events that a new dump makes of the difference.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;

use super::{Handle, MISSING, OWNERS_DENIED, PolledOptions};
use crate::event::{
    Attributes, Event, FlowId, Note, NoteKind, Opened, Payload, Process, Retransmit,
    RetransmitKind, Sample, StateChange, TcpState,
};
use crate::host::netns::{self, Namespace, NetnsError};
use crate::host::{Roots, Watch};
use crate::kernel::clock;
use crate::kernel::diag::{Diag, Families, Socket, States};
use crate::source::elsewhere;
use crate::source::facts::{Lookup, Wanted};
use crate::units::Mono;

/// As often as people loop `ss`.
const POLL_EVERY: Duration = Duration::from_millis(200);
/// Dumps may take at most one part in so many of the time, whatever the number of sockets.
const SHARE: u32 = 10;
/// Host, devices and owners.
const SECOND_NS: u64 = 1_000_000_000;
/// How often descriptors are looked at although all owners are known: sockets are passed on.
const OWNERS_EVERY_NS: u64 = 10_000_000_000;
/// How long a stop may go unnoticed.
const NAP: Duration = Duration::from_millis(20);

/// A flow as last polled.
struct Known {
    round: u64,
    inode: u32,
    state: TcpState,
    attributes: Option<Attributes>,
    sample: Option<Sample>,
    /// As last told.
    owners: Option<Vec<Process>>,
    /// The inode whose owners were last looked for: an accepted connection has one later.
    sought: Option<u32>,
}

impl Known {
    fn wants_owners(&self) -> bool {
        self.sought != Some(self.inode)
    }
}

pub(super) struct Poller {
    roots: Roots,
    lookup: Lookup,
    watches: Vec<(Namespace, Watch)>,
    known: HashMap<FlowId, Known>,
    round: u64,
    second: Option<Mono>,
    walked: Option<Mono>,
    everywhere: bool,
    looked: Option<Mono>,
    events: Vec<Event>,
    degraded: Vec<String>,
}

impl Poller {
    pub fn new(options: PolledOptions) -> Self {
        let roots = Roots::default();
        let mut poller = Self {
            lookup: Lookup::new(&roots, Wanted::ALL),
            roots,
            watches: options
                .namespaces
                .into_iter()
                .map(|namespace| {
                    let watch = Watch::new(namespace.inum);
                    (namespace, watch)
                })
                .collect(),
            known: HashMap::new(),
            round: 0,
            second: None,
            walked: None,
            everywhere: options.everywhere,
            looked: None,
            events: Vec::new(),
            degraded: Vec::new(),
        };
        poller.degrade(MISSING);
        // Last, where the screen's one line shows it: it has the next step.
        if let Some(reason) = options.reason {
            poller.degrade(&format!("no eBPF: {reason}"));
        }
        poller
    }

    pub fn run(mut self, handle: &Handle, sender: &mpsc::Sender<Vec<Event>>) {
        loop {
            // Before the poll: who asks while it runs gets another.
            handle.poll.store(false, Ordering::Relaxed);
            let begun = clock::now();
            let took = self.poll(begun);
            if sender
                .blocking_send(std::mem::take(&mut self.events))
                .is_err()
            {
                return;
            }
            let since = Duration::from_nanos(clock::now().since(begun));
            let mut rest = POLL_EVERY.max(took * SHARE).saturating_sub(since);
            while !rest.is_zero() && !handle.is_stopped() && !handle.is_asked() {
                let nap = rest.min(NAP);
                std::thread::sleep(nap);
                rest -= nap;
            }
            if handle.is_stopped() && !handle.is_asked() {
                return;
            }
        }
    }

    /// How long the dumps took.
    fn poll(&mut self, now: Mono) -> Duration {
        self.round += 1;
        self.lookup.next_round();
        if self.second.is_none_or(|last| now.since(last) >= SECOND_NS) {
            self.second = Some(now);
            self.host(now);
            self.elsewhere(now);
        }
        let mut complete = true;
        let mut took = Duration::ZERO;
        for at in 0..self.watches.len() {
            let before = clock::now();
            let namespace = self.watches[at].0.clone();
            let dumped = netns::enter(&namespace, || {
                let mut sockets = Vec::new();
                // Each at its own moment, as a dump of many takes a while; what takes longer comes after it.
                let dump =
                    Diag::open(namespace.inum)?.dump(States::CONNECTED, Families::BOTH, |socket| {
                        sockets.push((clock::now(), socket));
                    });
                took += Duration::from_nanos(clock::now().since(before));
                for (time, socket) in sockets {
                    self.socket(time, socket);
                }
                dump
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
        let after = clock::now();
        if complete {
            self.close_the_gone(after);
        }
        if let Some(error) = self.lookup.take_problem() {
            self.degrade(&format!("devices of flows are unknown: {error}"));
        }
        let stale = |last| after.since(last) >= OWNERS_EVERY_NS;
        if self.walked.is_none_or(stale) || self.known.values().any(Known::wants_owners) {
            self.walked = Some(after);
            self.owners(after);
        }
        self.push(clock::now(), None, Payload::Tick);
        took
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

    fn socket(&mut self, now: Mono, mut socket: Socket) {
        self.lookup.fill(&mut socket);
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
            sought: None,
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

    /// A flow that nobody holds any more keeps the owners it had.
    fn owners(&mut self, now: Mono) {
        let holders = self.lookup.owners();
        let mut unseen = false;
        for (id, known) in &mut self.known {
            known.sought = Some(known.inode);
            let Some(owners) = holders.of(known.inode) else {
                unseen = true;
                continue;
            };
            let held = known.owners.as_ref().is_some_and(|told| !told.is_empty());
            if known.owners.as_deref() == Some(owners) || owners.is_empty() && held {
                continue;
            }
            known.owners = Some(owners.to_vec());
            self.events.push(Event {
                time: now,
                flow: Some(*id),
                payload: Payload::Owners(owners.to_vec()),
            });
        }
        if unseen && holders.denied() > 0 {
            self.degrade(OWNERS_DENIED);
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
        cwnd: now.cwnd,
    })
}
