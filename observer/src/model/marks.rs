//! Moments worth going to: retransmit bursts, changes of phase and of verdict, losses of events.

use std::collections::BTreeMap;

use super::derived::PhaseChange;
use super::journal::{Entry, What};
use super::{Flow, Model};
use crate::event::FlowId;
use crate::units::Mono;

/// What is at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MarkKind {
    Burst,
    Phase,
    Verdict,
    /// Events lost.
    Loss,
}

impl MarkKind {
    pub const ALL: [Self; 4] = [Self::Burst, Self::Phase, Self::Verdict, Self::Loss];

    /// As one is told that there is none.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Burst => "retransmit burst",
            Self::Phase => "phase change",
            Self::Verdict => "verdict change",
            Self::Loss => "loss of events",
        }
    }
}

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When it began.
    pub time: Mono,
    pub flow: Option<FlowId>,
    pub kind: MarkKind,
}

impl Mark {
    /// Parts of PROBE_BW follow each other by the round trip: only what changes the phase itself is a moment to go to.
    /// A verdict is one of each of its flows.
    fn of(entry: &Entry) -> Vec<Self> {
        let kind = match &entry.what {
            What::Burst(_) => MarkKind::Burst,
            What::Phase(PhaseChange { old, new, .. }) if old.0 != new.0 => MarkKind::Phase,
            What::Verdict(judgement) => {
                let flows = judgement.verdict.flows.iter();
                return flows
                    .map(|flow| Self {
                        time: entry.time,
                        flow: Some(*flow),
                        kind: MarkKind::Verdict,
                    })
                    .collect();
            }
            What::Lost { .. } | What::Gap { .. } => MarkKind::Loss,
            _ => return Vec::new(),
        };
        vec![Self {
            time: entry.time,
            flow: entry.flow,
            kind,
        }]
    }
}

/// Moments of one kind that are kept.
const MOST: usize = 1 << 18;
/// Flows that are known with them.
const MOST_FLOWS: usize = 1 << 14;

/// The moments of a model's past, as far as they were taken in.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// By kind, in the order of time.
    kinds: [Vec<Mark>; MarkKind::ALL.len()],
    flows: BTreeMap<FlowId, Box<Flow>>,
    /// Entries of the journal seen.
    seen: u64,
    /// Of one kind there were more than are kept.
    full: bool,
}

impl Marks {
    /// What `model`'s journal tells.
    pub fn of(model: &Model) -> Self {
        let mut marks = Self::default();
        model
            .journal()
            .into_iter()
            .flat_map(Mark::of)
            .for_each(|mark| marks.put(mark));
        marks
    }

    /// Takes in what `model`, which went on, has to tell since the last time. What its journal has forgotten meanwhile is
    /// lost: who wants all asks often.
    pub fn follow(&mut self, model: &Model) {
        for serial in self.seen..model.journal_count() {
            let marks = model.journal_entry(serial).map(Mark::of);
            for mark in marks.into_iter().flatten() {
                self.know(model, mark);
                self.put(mark);
            }
        }
        self.seen = model.journal_count();
    }

    /// Keeps what the mark's flow was then, so that a filter can be asked of it at any time.
    fn know(&mut self, model: &Model, mark: Mark) {
        let Some(id) = mark.flow else {
            return;
        };
        if self.flows.len() < MOST_FLOWS
            && !self.flows.contains_key(&id)
            && let Some(flow) = model.flow_told(id)
        {
            self.flows.insert(id, Box::new(flow.without_past()));
        }
    }

    /// A flow that a mark is of, as it was at its first mark; of very many flows not all are known.
    pub fn flow(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(&id).map(|flow| &**flow)
    }

    fn put(&mut self, mark: Mark) {
        let kept = &mut self.kinds[mark.kind as usize];
        if kept.len() >= MOST {
            self.full = true;
            return;
        }
        // Told when they have ended: nearly in order.
        let at = kept.partition_point(|other| other.time <= mark.time);
        kept.insert(at, mark);
    }

    /// Whether some of a kind were too many to be kept.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.kinds.iter().map(Vec::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those of a kind in the order of time.
    pub fn of_kind(&self, kind: MarkKind) -> &[Mark] {
        &self.kinds[kind as usize]
    }

    /// The first of `kind` after `time` that is `wanted`.
    pub fn after(
        &self,
        kind: MarkKind,
        time: Mono,
        mut wanted: impl FnMut(&Mark) -> bool,
    ) -> Option<Mark> {
        let kept = self.of_kind(kind);
        let at = kept.partition_point(|mark| mark.time <= time);
        kept[at..].iter().copied().find(|mark| wanted(mark))
    }

    /// The last of `kind` before `time` that is `wanted`.
    pub fn before(
        &self,
        kind: MarkKind,
        time: Mono,
        mut wanted: impl FnMut(&Mark) -> bool,
    ) -> Option<Mark> {
        let kept = self.of_kind(kind);
        let at = kept.partition_point(|mark| mark.time < time);
        kept[..at].iter().rev().copied().find(|mark| wanted(mark))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_found_in_both_directions() {
        let mut marks = Marks::default();
        let mark = |time, cookie| Mark {
            time: Mono(time),
            flow: Some(FlowId { cookie, netns: 1 }),
            kind: MarkKind::Burst,
        };
        for (time, cookie) in [(10, 1), (30, 2), (20, 1)] {
            marks.put(mark(time, cookie));
        }
        let any = |_: &Mark| true;
        let next = |time| marks.after(MarkKind::Burst, Mono(time), any);
        assert_eq!(next(0), Some(mark(10, 1)));
        assert_eq!(next(10), Some(mark(20, 1)));
        assert_eq!(next(30), None);
        let before = |time| marks.before(MarkKind::Burst, Mono(time), any);
        assert_eq!(before(31), Some(mark(30, 2)));
        assert_eq!(before(30), Some(mark(20, 1)));
        assert_eq!(before(10), None);
        let other = |mark: &Mark| mark.flow.is_some_and(|flow| flow.cookie == 2);
        assert_eq!(
            marks.after(MarkKind::Burst, Mono(0), other),
            Some(mark(30, 2))
        );
        assert_eq!(marks.after(MarkKind::Loss, Mono(0), any), None);
        assert_eq!((marks.len(), marks.is_full()), (3, false));
    }
}
