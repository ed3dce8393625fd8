//! Events that no source observes: they follow from the fold.

use std::sync::Arc;

use super::judged::Judgement;
use super::losses::Burst;
use crate::event::{FlowId, Origin, Phase, SubPhase};
use crate::units::Mono;

/// Waiting for somebody to take them; beyond this the oldest go, counted.
const QUEUE: usize = 65_536;

/// A BBR phase with its part.
pub type PhasePair = (Phase, Option<SubPhase>);

/// BBR changed its phase, or the part of PROBE_BW.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseChange {
    pub old: PhasePair,
    /// When the old one was first seen.
    pub since: Mono,
    pub new: PhasePair,
}

/// The samples of a flow come from elsewhere from now on: nothing may be measured or drawn across this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginChange {
    pub old: Origin,
    pub new: Origin,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DerivedKind {
    Origin(OriginChange),
    Phase(PhaseChange),
    /// A burst, told when it has ended.
    Burst(Burst),
    /// Another verdict than before; [`Derived::flow`] is the first of its flows.
    Verdict(Arc<Judgement>),
}

/// One derived event.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    /// When it was told: for a burst that is after its end.
    pub time: Mono,
    pub flow: FlowId,
    pub kind: DerivedKind,
}

impl Derived {
    /// Whose it is: of a verdict, all flows that it is of.
    pub fn flows(&self) -> &[FlowId] {
        match &self.kind {
            DerivedKind::Verdict(judgement) => &judgement.verdict.flows,
            _ => std::slice::from_ref(&self.flow),
        }
    }
}

/// Derived events in the order in which they came about.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    waiting: std::collections::VecDeque<Derived>,
    dropped: u64,
}

impl Queue {
    pub fn push(&mut self, derived: Derived) {
        if self.waiting.len() == QUEUE {
            self.waiting.pop_front();
            self.dropped += 1;
        }
        self.waiting.push_back(derived);
    }

    pub fn take(&mut self) -> Vec<Derived> {
        std::mem::take(&mut self.waiting).into()
    }

    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}
