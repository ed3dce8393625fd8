//! Which events are recorded: those of flows that are asked for, from their birth on, although what is asked of a flow
//! (its owner, its algorithm) is often known only later.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::commands::choose::Choice;
use crate::event::{Event, FlowId, Payload, Process};
use crate::host::tree::Tree;
use crate::model::Model;
use crate::record::Known;
use crate::units::Mono;

/// So long a flow's events are kept while it is not known whether they are wanted: owners of accepted sockets are known
/// after a second.
const HOLD_NS: u64 = 3_000_000_000;
/// … and so many of all flows together.
const MAX_HELD: usize = 1 << 16;
/// Who held a short flow is often told after its end.
const LINGER_NS: u64 = 10_000_000_000;

/// Lets events pass.
pub struct Gate {
    choice: Choice,
    /// The processes whose flows are wanted; `None` = anybody's.
    tree: Option<Tree>,
    everything: bool,
    known: Known,
    wanted: HashSet<FlowId>,
    ended: VecDeque<(Mono, FlowId)>,
    held: HashMap<FlowId, Held>,
    held_events: usize,
    /// Flows whose owner was gone before it could be told whose child it was.
    untold: u64,
    /// Flows born here that nobody was seen to hold until they were forgotten.
    unowned: u64,
    /// Flows whose first events were no longer held when they were found wanted.
    late: u64,
}

/// Events of a flow that may be wanted.
struct Held {
    since: Mono,
    events: Vec<Event>,
    /// These are all there were. No longer, when it took too long or there were too many.
    whole: bool,
    /// It is the command's.
    ours: bool,
    /// It was born here, and nobody was seen to hold it yet.
    unowned: bool,
}

impl Gate {
    pub fn new(choice: Choice, tree: Option<Tree>) -> Self {
        Self {
            everything: choice.is_everything() && tree.is_none(),
            choice,
            tree,
            known: Known::default(),
            wanted: HashSet::new(),
            ended: VecDeque::new(),
            held: HashMap::new(),
            held_events: 0,
            untold: 0,
            unowned: 0,
            late: 0,
        }
    }

    /// Looks at who is who's child, before they are gone.
    pub fn look(&mut self) {
        if let Some(tree) = &mut self.tree {
            tree.look();
        }
    }

    /// Hands `event` on, or what has become wanted by it; `model` has folded it already.
    pub fn pass<E>(
        &mut self,
        model: &Model,
        event: &Event,
        mut write: impl FnMut(&Event) -> Result<(), E>,
    ) -> Result<(), E> {
        let id = match event.flow {
            Some(id) if !self.everything => id,
            // Gaps of unknown flows may be of any.
            _ => return write(event),
        };
        self.forget(event.time);
        if matches!(event.payload, Payload::Closed) {
            self.ended.push_back((event.time, id));
        }
        if self.wanted.contains(&id) {
            return write(event);
        }
        match &event.payload {
            Payload::Owners(owners) => {
                let ours = self.is_ours(owners);
                let held = self.held(id, event.time);
                held.ours = ours;
                held.unowned &= owners.is_empty();
            }
            Payload::Opened(opened) => self.held(id, event.time).unowned = opened.from_start,
            _ => {}
        }
        let ours = self.tree.is_none() || self.held(id, event.time).ours;
        let flow = model.flow(id).filter(|_| ours);
        if flow.is_some_and(|flow| self.choice.shows_event(model, flow)) {
            self.wanted.insert(id);
            self.admit(id, &mut write)?;
            return write(event);
        }
        self.hold(id, event);
        self.known.apply(event);
        Ok(())
    }

    /// Whether one of them belongs to the command.
    fn is_ours(&mut self, owners: &[Process]) -> bool {
        let Some(tree) = &mut self.tree else {
            return true;
        };
        let told: Vec<Option<bool>> = owners
            .iter()
            .map(|process| tree.holds(process.pid))
            .collect();
        if !told.is_empty() && told.iter().all(Option::is_none) {
            self.untold += 1;
        }
        told.contains(&Some(true))
    }

    fn held(&mut self, id: FlowId, since: Mono) -> &mut Held {
        self.held.entry(id).or_insert_with(|| Held {
            since,
            events: Vec::new(),
            whole: true,
            ours: false,
            unowned: false,
        })
    }

    /// Writes what came before: all of it where it was held, else what is known of the flow.
    fn admit<E>(
        &mut self,
        id: FlowId,
        write: &mut impl FnMut(&Event) -> Result<(), E>,
    ) -> Result<(), E> {
        let held = self.held.remove(&id);
        if let Some(held) = held.filter(|held| held.whole) {
            self.held_events -= held.events.len();
            return held.events.iter().try_for_each(write);
        }
        self.late += 1;
        self.known.flow(id).try_for_each(write)
    }

    fn hold(&mut self, id: FlowId, event: &Event) {
        let room = self.held_events < MAX_HELD;
        let held = self.held(id, event.time);
        if !held.whole {
            return;
        }
        if room && event.time.since(held.since) <= HOLD_NS {
            held.events.push(event.clone());
            self.held_events += 1;
        } else {
            held.whole = false;
            let dropped = std::mem::take(&mut held.events).len();
            self.held_events -= dropped;
        }
    }

    /// Drops what nobody can want any more.
    fn forget(&mut self, now: Mono) {
        while let Some(&(at, id)) = self.ended.front()
            && now.since(at) > LINGER_NS
        {
            self.ended.pop_front();
            self.wanted.remove(&id);
            if let Some(held) = self.held.remove(&id) {
                self.held_events -= held.events.len();
                self.unowned += u64::from(held.unowned);
            }
        }
    }

    /// What may be missing, for a person.
    pub fn left_out(&self) -> Option<String> {
        let mut parts = Vec::new();
        let still = self.held.values().filter(|held| held.unowned).count() as u64;
        let unowned = self.unowned + still;
        if self.tree.is_some() && unowned > 0 {
            parts.push(format!(
                "{unowned} flows were left out: nobody was seen to hold them before they or the recording ended"
            ));
        }
        if self.untold > 0 {
            parts.push(format!(
                "{} flows were left out: their process was gone before it could be told whose child it was",
                self.untold
            ));
        }
        if self.late > 0 {
            parts.push(format!(
                "of {} flows the events before they were found wanted are not recorded",
                self.late
            ));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}
