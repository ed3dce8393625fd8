//! The journal: what happened lately that a person wants to read, a bounded number of each kind.
//!
//! Kinds have their room each: phases that change all the time do not push out the qdisc that was replaced an hour ago.
//! Flows that entries tell of are kept as they ended, so that a filter still applies to them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::derived::{Derived, DerivedKind, OriginChange, PhaseChange};
use super::flow::Flow;
use super::judged::Judgement;
use super::losses::Burst;
use super::qdiscs::QdiscChange;
use crate::event::{Counters, DeviceId, FlowId, Note, NoteKind};
use crate::units::Mono;

/// Entries kept of each kind.
pub const ROOM: usize = 1000;
/// What goes on with pauses no longer than this is one entry.
const SAME_NS: u64 = 2_500_000_000;

/// Entries looked at for what goes on.
const LAST: usize = 16;

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    Burst,
    Phase,
    /// What was found of a path, and that it is over.
    Verdict,
    /// Opened and closed.
    Flow,
    Qdisc,
    /// Events lost.
    Lost,
    /// Degraded and other notes.
    Note,
    /// Retransmissions tried, not counted by the kernel (TRAPS 42).
    Attempt,
}

impl EntryKind {
    pub const ALL: [Self; 8] = [
        Self::Burst,
        Self::Phase,
        Self::Verdict,
        Self::Flow,
        Self::Qdisc,
        Self::Lost,
        Self::Note,
        Self::Attempt,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Burst => "burst",
            Self::Phase => "phase",
            Self::Verdict => "verdict",
            Self::Flow => "flow",
            Self::Qdisc => "qdisc",
            Self::Lost => "lost",
            Self::Note => "note",
            Self::Attempt => "attempt",
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    Burst(Burst),
    Phase(PhaseChange),
    Verdict(Arc<Judgement>),
    /// A flow whose birth was seen.
    Opened,
    Closed,
    /// Its samples come from elsewhere.
    Origin(OriginChange),
    /// A device by the name it had then.
    Qdisc {
        device: String,
        change: QdiscChange,
    },
    DeviceGone {
        device: String,
    },
    /// Runs of the programs that failed, records dropped, hooks missed.
    Lost {
        failed: u64,
        dropped: u64,
        missed: u64,
    },
    /// Records missing in a flow's numbering.
    Gap {
        missing: u64,
    },
    Note(Note),
}

impl What {
    pub fn kind(&self) -> EntryKind {
        match self {
            Self::Burst(_) => EntryKind::Burst,
            Self::Phase(_) => EntryKind::Phase,
            Self::Verdict(_) => EntryKind::Verdict,
            Self::Opened | Self::Closed | Self::Origin(_) => EntryKind::Flow,
            Self::Qdisc { .. } | Self::DeviceGone { .. } => EntryKind::Qdisc,
            Self::Lost { .. } | Self::Gap { .. } => EntryKind::Lost,
            Self::Note(note) if note.kind == NoteKind::Attempt => EntryKind::Attempt,
            Self::Note(_) => EntryKind::Note,
        }
    }

    /// Adds `other` where the two are one thing going on. False where they are not.
    fn absorb(&mut self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Lost {
                    failed,
                    dropped,
                    missed,
                },
                Self::Lost {
                    failed: f,
                    dropped: d,
                    missed: m,
                },
            ) => {
                *failed = failed.saturating_add(*f);
                *dropped = dropped.saturating_add(*d);
                *missed = missed.saturating_add(*m);
                true
            }
            (Self::Gap { missing }, Self::Gap { missing: more }) => {
                *missing = missing.saturating_add(*more);
                true
            }
            (
                Self::Qdisc { device, change },
                Self::Qdisc {
                    device: same,
                    change: more,
                },
            ) => device == same && absorb_drops(change, more),
            _ => false,
        }
    }
}

fn absorb_drops(change: &mut QdiscChange, more: &QdiscChange) -> bool {
    match (change, more) {
        (
            QdiscChange::Dropped {
                parent,
                handle,
                packets,
                ..
            },
            QdiscChange::Dropped {
                parent: same_parent,
                handle: same_handle,
                packets: more,
                ..
            },
        ) if parent == same_parent && handle == same_handle => {
            *packets = packets.saturating_add(*more);
            true
        }
        _ => false,
    }
}

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Grows by one from entry to entry: an entry's identity.
    pub serial: u64,
    /// When it happened; of a burst, its beginning.
    pub time: Mono,
    /// When it was last seen to go on.
    pub until: Mono,
    pub flow: Option<FlowId>,
    /// Where it is about a device.
    pub device: Option<DeviceId>,
    pub what: What,
}

/// The entries and the flows they tell of.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal {
    rings: BTreeMap<EntryKind, VecDeque<Entry>>,
    serial: u64,
    /// Entries of each flow.
    told: BTreeMap<FlowId, u32>,
    /// Flows out of view that entries tell of.
    past: BTreeMap<FlowId, Box<Flow>>,
    /// Failed, dropped, missed, as last told.
    lost: Option<[u64; 3]>,
}

impl Journal {
    /// All entries in the order of their time.
    pub fn entries(&self) -> Vec<&Entry> {
        let mut all: Vec<&Entry> = self.rings.values().flatten().collect();
        all.sort_unstable_by_key(|entry| (entry.time, entry.serial));
        all
    }

    pub fn entry(&self, serial: u64) -> Option<&Entry> {
        self.rings.values().find_map(|ring| {
            let at = ring.binary_search_by_key(&serial, |entry| entry.serial);
            ring.get(at.ok()?)
        })
    }

    /// Entries of all kinds.
    pub fn len(&self) -> usize {
        self.rings.values().map(VecDeque::len).sum()
    }

    /// What it told at `time`. What went on at that moment has the sum that it came to.
    pub fn until(&self, time: Mono) -> Self {
        let told = |entry: &&Entry| match &entry.what {
            // Told when it had ended.
            What::Burst(burst) => burst.end <= time,
            _ => entry.time <= time,
        };
        let rings = self
            .rings
            .iter()
            .map(|(kind, ring)| (*kind, ring.iter().filter(told).cloned().collect()));
        Self {
            rings: rings.collect(),
            ..self.clone()
        }
    }

    /// How many came about so far.
    pub fn count(&self) -> u64 {
        self.serial
    }

    pub fn past(&self, id: FlowId) -> Option<&Flow> {
        self.past.get(&id).map(|flow| &**flow)
    }

    /// A flow goes out of view.
    pub fn leave(&mut self, flow: Box<Flow>) {
        if self.told.contains_key(&flow.id()) {
            self.past.insert(flow.id(), flow);
        }
    }

    /// A flow comes into view, again perhaps.
    pub fn arrive(&mut self, id: FlowId) {
        self.past.remove(&id);
    }

    /// The parts of PROBE_BW are left out: on a short path they change so often that nothing else would be seen.
    pub fn derived(&mut self, derived: &Derived) {
        let (time, what) = match &derived.kind {
            DerivedKind::Phase(change) if change.old.0 == change.new.0 => return,
            DerivedKind::Verdict(judgement) if !judgement.is_news() => return,
            DerivedKind::Burst(burst) => (burst.start, What::Burst(*burst)),
            DerivedKind::Phase(change) => (derived.time, What::Phase(*change)),
            DerivedKind::Origin(change) => (derived.time, What::Origin(*change)),
            DerivedKind::Verdict(judgement) => (derived.time, What::Verdict(Arc::clone(judgement))),
        };
        self.write(time, Some(derived.flow), None, what);
    }

    pub fn flow(&mut self, time: Mono, flow: FlowId, what: What) {
        self.write(time, Some(flow), None, what);
    }

    pub fn device(&mut self, time: Mono, device: DeviceId, what: What) {
        self.write(time, None, Some(device), what);
    }

    pub fn note(&mut self, time: Mono, flow: Option<FlowId>, note: &Note) {
        self.write(time, flow, None, What::Note(note.clone()));
    }

    pub fn gap(&mut self, time: Mono, flow: Option<FlowId>, missing: u64) {
        self.write(time, flow, None, What::Gap { missing });
    }

    /// Takes the programs' totals: what was lost since they were last told.
    pub fn counters(&mut self, time: Mono, counters: &Counters) {
        let sum = counters.programs.iter().fold([0u64; 3], |sum, p| {
            [
                sum[0].saturating_add(p.failed),
                sum[1].saturating_add(p.dropped),
                sum[2].saturating_add(p.missed),
            ]
        });
        let before = self.lost.replace(sum).unwrap_or_default();
        let rise = |n: usize| sum[n].saturating_sub(before[n]);
        let (failed, dropped, missed) = (rise(0), rise(1), rise(2));
        if failed > 0 || dropped > 0 || missed > 0 {
            let what = What::Lost {
                failed,
                dropped,
                missed,
            };
            self.write(time, None, None, what);
        }
    }

    fn write(&mut self, time: Mono, flow: Option<FlowId>, device: Option<DeviceId>, what: What) {
        let kind = what.kind();
        let ring = self.rings.entry(kind).or_default();
        // What goes on is among the last few; of the other kinds nothing goes on.
        let goes_on = matches!(kind, EntryKind::Qdisc | EntryKind::Lost);
        let last = if goes_on { LAST } else { 0 };
        let going_on = ring.iter_mut().rev().take(last).find(|entry| {
            entry.flow == flow && entry.device == device && time.since(entry.until) <= SAME_NS
        });
        if let Some(entry) = going_on
            && entry.what.absorb(&what)
        {
            entry.until = time;
            return;
        }
        let gone = if ring.len() == ROOM {
            ring.pop_front()
        } else {
            None
        };
        ring.push_back(Entry {
            serial: self.serial,
            time,
            until: time,
            flow,
            device,
            what,
        });
        self.serial += 1;
        if let Some(flow) = flow {
            *self.told.entry(flow).or_default() += 1;
        }
        if let Some(flow) = gone.and_then(|entry| entry.flow) {
            self.forget(flow);
        }
    }

    fn forget(&mut self, flow: FlowId) {
        let Some(told) = self.told.get_mut(&flow) else {
            return;
        };
        *told -= 1;
        if *told == 0 {
            self.told.remove(&flow);
            self.past.remove(&flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ProgramCounters;

    const ID: DeviceId = DeviceId {
        netns: 1,
        ifindex: 2,
    };

    fn flow(cookie: u64) -> FlowId {
        FlowId { cookie, netns: 1 }
    }

    fn drops(packets: u64) -> What {
        What::Qdisc {
            device: "eth0".to_owned(),
            change: QdiscChange::Dropped {
                parent: 1,
                kind: "fq".to_owned(),
                handle: 2,
                packets,
            },
        }
    }

    #[test]
    fn kinds_do_not_push_each_other_out() {
        let mut journal = Journal::default();
        journal.device(Mono(1), ID, drops(1));
        for n in 0..3 * ROOM as u64 {
            journal.flow(Mono(n), flow(n), What::Opened);
        }
        let entries = journal.entries();
        assert_eq!(entries.len(), ROOM + 1);
        assert_eq!(journal.entry(0), Some(entries[0]));
        assert_eq!(journal.entry(1), None, "pushed out");
        assert_eq!(entries[0].what, drops(1));
        assert!(entries.is_sorted_by_key(|entry| entry.serial));
        assert_eq!(
            journal.told.len(),
            ROOM,
            "flows nobody tells of are forgotten"
        );
        assert_eq!(journal.count(), 3 * ROOM as u64 + 1);
    }

    #[test]
    fn what_goes_on_is_one_entry() {
        let mut journal = Journal::default();
        let second = 1_000_000_000;
        for n in 0..10 {
            journal.device(Mono(n * second), ID, drops(5));
        }
        journal.device(Mono(60 * second), ID, drops(7));
        let entries = journal.entries();
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].what, drops(50));
        assert_eq!(
            (entries[0].time, entries[0].until),
            (Mono(0), Mono(9 * second))
        );
        assert_eq!(entries[1].what, drops(7));
    }

    #[test]
    fn losses_are_told_by_their_rise() {
        let mut journal = Journal::default();
        let counters = |dropped, missed| Counters {
            programs: vec![ProgramCounters {
                dropped,
                missed,
                ..ProgramCounters::default()
            }],
            cost: None,
        };
        journal.counters(Mono(0), &counters(0, 0));
        assert!(journal.entries().is_empty());
        journal.counters(Mono(1), &counters(37, 4));
        journal.counters(Mono(2), &counters(37, 4));
        let lost = What::Lost {
            failed: 0,
            dropped: 37,
            missed: 4,
        };
        assert_eq!(journal.entries()[0].what, lost);
        assert_eq!(journal.entries().len(), 1);
    }
}
