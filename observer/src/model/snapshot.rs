//! What was true at a moment, small enough to be kept by the hundred: the past of flows and the journal are left to a later
//! model, which has them too, and are lent when the moment is looked at.

use super::{Flow, Model};
use crate::event::{Attributes, FlowId, Sample};

/// What a flow takes on the heap beside its sample, its attributes and its past: about.
const FLOW_REST: usize = 512;
/// A device with its qdiscs and their last minutes: about.
const DEVICE: usize = 16 << 10;
/// An entry of the journal, and the flow that only it tells of: about.
const ENTRY: usize = 512;

impl Model {
    /// What is true now, without what led to it. (The past is put aside for a moment: it is the bulk of a model.)
    #[must_use]
    pub fn snapshot(&mut self) -> Self {
        let journal = std::mem::take(&mut self.journal);
        let derived = std::mem::take(&mut self.derived);
        let mut pasts = Vec::with_capacity(self.flows.len());
        for flow in self.flows.values_mut() {
            pasts.push(std::mem::take(&mut flow.history));
        }
        let moment = self.clone();
        for (flow, past) in self.flows.values_mut().zip(pasts) {
            flow.history = past;
        }
        self.journal = journal;
        self.derived = derived;
        moment
    }

    /// Lends this moment the past of `flows` and the journal, as far as they were, of a model that went on.
    pub fn recall(&mut self, later: &Self, flows: &[FlowId]) {
        for id in flows {
            if let Some(flow) = self.flows.get_mut(id)
                && let Some(same) = later.flows.get(id)
                && same.opened_at() == flow.opened_at()
            {
                flow.history.clone_from(&same.history);
            }
        }
        self.journal = later.journal.until(self.now);
    }

    /// Bytes that it takes, about: to bound what is kept of it.
    pub fn weight(&self) -> usize {
        let pasts: usize = self.flows().map(|flow| flow.history.heap()).sum();
        pasts + self.journal.len() * ENTRY + self.snapshot_weight()
    }

    /// The same of a [`Model::snapshot`], without making one.
    pub fn snapshot_weight(&self) -> usize {
        let flow = size_of::<Flow>() + size_of::<Sample>() + size_of::<Attributes>() + FLOW_REST;
        self.flows.len() * flow + self.devices.len() * DEVICE + size_of::<Self>()
    }
}
