//! The fold: events in, what is true of flows, devices and the host now.
//!
//! [`Model::apply`] is the only mutation. It cannot fail: what does not fit is counted ([`Model::odd`]). The model
//! reads no clock; time is that of the events, carried forward by ticks.

mod btlbw;
pub mod container;
mod derived;
mod figures;
mod flow;
mod fold;
mod guide;
mod journal;
mod judged;
mod limit;
mod losses;
mod marks;
mod prefix;
mod qdiscs;
mod rates;
mod seconds;
pub mod series;
mod snapshot;
mod tally;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use derived::{Derived, DerivedKind, OriginChange, PhaseChange, PhasePair};
pub use figures::{BtlBw, Figures};
pub use flow::Flow;
pub use fold::{Fold, JUDGE_EVERY_NS};
pub use journal::{Entry, EntryKind, What};
pub use judged::{Group, Judgement, Part, Share, jain_index};
pub use limit::{LimitShares, LimitedBy, charged, shortest};
pub use losses::{Burst, RetransmitSums};
pub use marks::{Mark, MarkKind, Marks};
pub use prefix::Prefix;
pub use qdiscs::{HISTORY_S, Node, QdiscChange, QdiscHistory, READ_EVERY_NS, Rise, Second, tree};
pub use rates::{Interval, Spent};
pub use seconds::{FlowSecond, SECONDS};
pub use tally::Noted;

use crate::event::{
    Counters, Device, DeviceId, Elsewhere, Event, FlowId, Host, Opened, Payload, Qdisc, TcpState,
};
use crate::units::Mono;
use flow::Taken;

/// Rates are over this long unless said otherwise.
pub const WINDOW_NS: u64 = 1_000_000_000;
/// A closed flow stays visible for this long.
pub const KEEP_CLOSED_NS: u64 = 10_000_000_000;

/// Everything known now.
#[derive(Clone, Debug)]
pub struct Model {
    window: u64,
    path_rate_bps: Option<u64>,
    now: Mono,
    flows: BTreeMap<FlowId, Box<Flow>>,
    /// Closed flows in the order of their end.
    closed: VecDeque<(Mono, FlowId)>,
    /// Flows with retransmissions that may be a burst.
    bursting: BTreeSet<FlowId>,
    hosts: BTreeMap<u32, Host>,
    /// Namespace of the host told first: the one the observer runs in.
    home: Option<u32>,
    /// That host's: asked for at every sample.
    hz: Option<u32>,
    devices: BTreeMap<DeviceId, Device>,
    qdiscs: qdiscs::Qdiscs,
    elsewhere: Option<Elsewhere>,
    /// Of retransmissions that belong to no flow in view (SYN-ACKs of listeners).
    stray: RetransmitSums,
    /// Changes of flows so far: each change of a flow marks it with its number ([`Flow::changed`]).
    changes: u64,
    tally: tally::Tally,
    derived: derived::Queue,
    shelf: series::Shelf,
    journal: journal::Journal,
}

impl Default for Model {
    fn default() -> Self {
        Self::with_window(WINDOW_NS)
    }
}

/// Reading it.
impl Model {
    /// Rates over the last `window` nanoseconds.
    pub fn with_window(window: u64) -> Self {
        Self {
            window: window.max(rates::SHORTEST_NS),
            path_rate_bps: None,
            now: Mono::default(),
            flows: BTreeMap::new(),
            closed: VecDeque::new(),
            bursting: BTreeSet::new(),
            hosts: BTreeMap::new(),
            home: None,
            hz: None,
            devices: BTreeMap::new(),
            qdiscs: qdiscs::Qdiscs::default(),
            elsewhere: None,
            stray: RetransmitSums::default(),
            changes: 0,
            tally: tally::Tally::default(),
            derived: derived::Queue::default(),
            shelf: series::Shelf::default(),
            journal: journal::Journal::default(),
        }
    }

    /// The same, but no past of flows is kept: for those who draw no charts, in less time and a fraction of the memory.
    #[must_use]
    pub fn without_past() -> Self {
        Self {
            shelf: series::Shelf::bare(),
            ..Self::default()
        }
    }

    /// What the path carries is known: how full it is follows from that.
    #[must_use]
    pub fn of_path(mut self, rate_bps: Option<u64>) -> Self {
        self.path_rate_bps = rate_bps;
        self
    }

    /// The latest moment of any event.
    pub fn now(&self) -> Mono {
        self.now
    }

    /// Nanoseconds that rates are measured over.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// All flows in view by cookie, which is about the order of their birth; closed ones for [`KEEP_CLOSED_NS`].
    pub fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.flows.values().map(|flow| &**flow)
    }

    pub fn flow(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(&id).map(|flow| &**flow)
    }

    /// Flows that are not closed.
    pub fn open_flows(&self) -> usize {
        self.flows.len() - self.closed.len()
    }

    /// Of the namespace the observer runs in.
    pub fn host(&self) -> Option<&Host> {
        self.hosts.get(&self.home?)
    }

    /// By namespace.
    pub fn hosts(&self) -> &BTreeMap<u32, Host> {
        &self.hosts
    }

    /// Flows in other network namespaces; `None` = not looked for.
    pub fn elsewhere(&self) -> Option<Elsewhere> {
        self.elsewhere
    }

    /// All devices, by namespace and index.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.devices.values()
    }

    pub fn device(&self, id: DeviceId) -> Option<&Device> {
        self.devices.get(&id)
    }

    /// The device that `flow` leaves by.
    pub fn device_of(&self, flow: &Flow) -> Option<&Device> {
        self.device(flow.attributes()?.device?)
    }

    /// The qdisc that acts on `flow`: of its own egress device, mq's children summed (TRAPS 12).
    pub fn qdisc_of(&self, flow: &Flow) -> Option<Qdisc> {
        self.device_of(flow)?.egress()
    }

    /// What became of the qdisc in the place `parent` of a device.
    pub fn qdisc_history(&self, device: DeviceId, parent: u32) -> Option<&QdiscHistory> {
        self.qdiscs.of(device, parent)
    }

    /// What happened lately, in the order of time.
    pub fn journal(&self) -> Vec<&Entry> {
        self.journal.entries()
    }

    /// The entry of this serial, unless it was forgotten.
    pub fn journal_entry(&self, serial: u64) -> Option<&Entry> {
        self.journal.entry(serial)
    }

    /// Entries of the journal so far, those that are gone too.
    pub fn journal_count(&self) -> u64 {
        self.journal.count()
    }

    /// A flow in view, or one out of view that the journal still tells of.
    pub fn flow_told(&self, id: FlowId) -> Option<&Flow> {
        self.flow(id).or_else(|| self.journal.past(id))
    }

    /// The programs' totals as last told.
    pub fn counters(&self) -> Option<&Counters> {
        self.tally.counters.as_ref()
    }

    /// Events known to be lost: failed + dropped + missed, or the holes in the flows' numbers where these are more
    /// (a dropped record is such a hole: adding both would count it twice).
    pub fn lost(&self) -> u64 {
        self.tally.lost()
    }

    /// Records missing by the flows' numbers.
    pub fn gaps(&self) -> u64 {
        self.tally.gaps
    }

    /// Events over the last second of event time, ticks left out.
    pub fn events_per_s(&self) -> u64 {
        self.tally.per_s()
    }

    /// Events folded, ticks left out.
    pub fn events(&self) -> u64 {
        self.tally.events
    }

    /// Events that did not fit: older than what is known, of flows not in view, counters that fell.
    pub fn odd(&self) -> u64 {
        self.tally.odd
    }

    /// The latest notes, oldest first.
    pub fn notes(&self) -> impl DoubleEndedIterator<Item = &Noted> {
        self.tally.notes.iter()
    }

    /// What does not work here, one of each.
    pub fn degraded(&self) -> &[Noted] {
        &self.tally.degraded
    }

    /// Retransmissions tried that the kernel did not count (TRAPS 42).
    pub fn attempts(&self) -> u64 {
        self.tally.attempts
    }

    /// Retransmissions of no flow in view: SYN-ACKs of listeners.
    pub fn stray_retransmits(&self) -> &RetransmitSums {
        &self.stray
    }

    /// The past of `flow`, up to now or its end.
    pub fn past<'a>(&self, flow: &'a Flow) -> series::Past<'a> {
        series::Past {
            history: &flow.history,
            end: flow.closed_at().unwrap_or(self.now),
            blind: self.shelf.is_blind_since(flow.sampled_at()),
        }
    }

    /// Derived events that nobody took in time.
    pub fn derived_dropped(&self) -> u64 {
        self.derived.dropped()
    }
}

/// Folding.
impl Model {
    /// Phase changes and retransmit bursts since the last call.
    pub fn take_derived(&mut self) -> Vec<Derived> {
        self.derived.take()
    }

    /// Tells which flows somebody looks at. Of these the past is kept in full, and once closed they stay as long as
    /// somebody does. Of what is true now it changes nothing.
    pub fn focus(&mut self, flows: &[FlowId]) {
        for id in self.shelf.focus(flows) {
            if let Some(flow) = self.flows.get_mut(&id) {
                flow.history.limit(self.shelf.caps(id));
            }
        }
    }

    /// Takes one event in.
    pub fn apply(&mut self, event: &Event) {
        self.advance(event.time);
        if !matches!(event.payload, Payload::Tick) {
            self.tally.event();
        }
        let fits = match &event.payload {
            Payload::Tick => true,
            Payload::Host(host) => {
                self.home.get_or_insert(host.netns);
                self.hosts.insert(host.netns, (**host).clone());
                self.hz = self.host().and_then(|host| host.hz);
                true
            }
            Payload::Device(device) => {
                self.take_device(event.time, device);
                true
            }
            Payload::DeviceGone(id) => self.remove_device(event.time, *id),
            Payload::Elsewhere(elsewhere) => {
                self.elsewhere = Some(*elsewhere);
                true
            }
            Payload::Counters(counters) => {
                self.journal.counters(event.time, counters);
                self.tally.counters = Some((**counters).clone());
                true
            }
            Payload::Note(note) => {
                self.journal.note(event.time, event.flow, note);
                self.tally.note(Noted {
                    time: event.time,
                    flow: event.flow,
                    note: note.clone(),
                });
                true
            }
            Payload::Gap(gap) => {
                self.journal.gap(event.time, event.flow, gap.missing);
                self.tally.gaps = self.tally.gaps.saturating_add(gap.missing);
                if let Some(flow) = event.flow.and_then(|id| self.flows.get_mut(&id)) {
                    flow.take_gap(gap.missing);
                }
                true
            }
            Payload::Opened(opened) => event
                .flow
                .is_some_and(|id| self.open(event.time, id, opened)),
            _ => self.apply_to_flow(event),
        };
        if !fits {
            self.tally.odd += 1;
        }
    }

    /// A device with its qdiscs as they are now.
    fn take_device(&mut self, time: Mono, device: &Device) {
        let old = self.devices.get(&device.id);
        for change in self.qdiscs.take(time, old, device) {
            let what = What::Qdisc {
                device: device.name.clone(),
                change,
            };
            self.journal.device(time, device.id, what);
        }
        self.devices.insert(device.id, device.clone());
    }

    /// False when it was not known.
    fn remove_device(&mut self, time: Mono, id: DeviceId) -> bool {
        self.qdiscs.gone(id);
        let Some(device) = self.devices.remove(&id) else {
            return false;
        };
        let device = device.name;
        self.journal.device(time, id, What::DeviceGone { device });
        true
    }

    /// Events of one flow. False when the event does not fit.
    fn apply_to_flow(&mut self, event: &Event) -> bool {
        let (time, window) = (event.time, self.window);
        let hz = self.hz;
        self.meet(event);
        let change = self.change();
        let flow = event.flow.and_then(|id| self.flows.get_mut(&id));
        let Some(flow) = flow else {
            return self.apply_stray(&event.payload);
        };
        let (mut derived, mut closed) = (None, false);
        let fits = match &event.payload {
            // Who held a short flow is often found out after its end.
            Payload::Owners(owners) => {
                flow.take_owners(owners);
                true
            }
            Payload::Attributes(attributes) => {
                flow.take_attributes(attributes);
                true
            }
            _ if flow.is_closed() => false,
            Payload::Sample(sample) => {
                let span = limit::span(window, sample.srtt_us, hz);
                if self.shelf.is_blind_since(flow.sampled_at()) {
                    flow.history.interrupt(series::Break::Blind);
                }
                let (taken, change) = flow.take_sample(time, sample, span);
                derived = change;
                taken == Taken::InOrder
            }
            Payload::Retransmit(retransmit) => {
                derived = flow.take_retransmit(time, retransmit);
                if flow.bursts.pending() {
                    self.bursting.insert(flow.id());
                }
                true
            }
            Payload::State(change) => {
                flow.take_tuple(change.local, change.remote);
                flow.take_state(time, change.new)
            }
            Payload::CaState(change) => {
                flow.history.ca_state(time, change.new);
                flow.take_ca_state(time, change.new)
            }
            Payload::Closed => {
                derived = flow.close(time);
                self.bursting.remove(&flow.id());
                self.closed.push_back((time, flow.id()));
                closed = true;
                true
            }
            _ => false,
        };
        let identifies = matches!(
            event.payload,
            Payload::Owners(_) | Payload::Attributes(_) | Payload::State(_)
        );
        flow.mark(change, identifies);
        let flow = flow.id();
        if let Some(kind) = derived {
            let derived = Derived { time, flow, kind };
            self.journal.derived(&derived);
            self.derived.push(derived);
        }
        if closed {
            self.journal.flow(time, flow, What::Closed);
        }
        fits
    }

    /// A flow whose first event was lost is met by any event that tells its tuple.
    fn meet(&mut self, event: &Event) {
        let (local, remote, state) = match &event.payload {
            Payload::Attributes(a) => (a.local, a.remote, TcpState::Unknown(0)),
            Payload::State(s) => (s.local, s.remote, s.new),
            _ => return,
        };
        let Some(id) = event.flow.filter(|id| !self.flows.contains_key(id)) else {
            return;
        };
        self.tally.odd += 1;
        let opened = Opened {
            from_start: false,
            state,
            local,
            remote,
        };
        self.insert(Flow::new(id, event.time, &opened));
    }

    /// All histories have their share of the memory anew when their number changes much.
    fn insert(&mut self, mut flow: Flow) -> Option<Box<Flow>> {
        let id = flow.id();
        flow.mark(self.change(), true);
        flow.history.limit(self.shelf.caps(id));
        let known = self.flows.insert(id, Box::new(flow));
        self.fit_histories();
        known
    }

    fn fit_histories(&mut self) {
        if self.shelf.fit(self.flows.len()) {
            for (id, flow) in &mut self.flows {
                flow.history.limit(self.shelf.caps(*id));
            }
        }
    }

    /// The number of a change that is made now.
    fn change(&mut self) -> u64 {
        self.changes += 1;
        self.changes
    }

    /// Events of flows that are not in view.
    fn apply_stray(&mut self, payload: &Payload) -> bool {
        match payload {
            Payload::Retransmit(retransmit) => {
                self.stray.add(retransmit);
                true
            }
            // A listener's changes concern no flow of ours.
            _ => false,
        }
    }

    /// A new flow; one that was closed, or opened twice, starts anew.
    fn open(&mut self, time: Mono, id: FlowId, opened: &Opened) -> bool {
        self.journal.arrive(id);
        if opened.from_start {
            self.journal.flow(time, id, What::Opened);
        }
        let Some(known) = self.insert(Flow::new(id, time, opened)) else {
            return true;
        };
        if known.is_closed() {
            self.closed.retain(|&(_, closed)| closed != id);
        }
        self.bursting.remove(&id);
        false
    }

    /// Closed flows go, but those somebody looks at.
    fn drop_closed(&mut self) {
        let before = self.flows.len();
        while let Some(&(at, id)) = self.closed.front()
            && self.now.since(at) > KEEP_CLOSED_NS
        {
            self.closed.pop_front();
            if self.shelf.is_focused(id) {
                self.closed.push_back((self.now, id));
            } else if let Some(mut flow) = self.flows.remove(&id) {
                // The journal keeps what it was, not its past.
                flow.history = series::History::default();
                self.journal.leave(flow);
            }
        }
        if self.flows.len() < before {
            self.fit_histories();
        }
    }

    /// Carries time forward: bursts end, closed flows go.
    fn advance(&mut self, time: Mono) {
        if time <= self.now {
            return;
        }
        self.shelf.advance(self.now, time);
        self.now = time;
        self.tally.advance(time);
        self.drop_closed();
        if self.bursting.is_empty() {
            return;
        }
        let (flows, derived, journal) = (&mut self.flows, &mut self.derived, &mut self.journal);
        let changes = &mut self.changes;
        self.bursting.retain(|id| {
            let Some(flow) = flows.get_mut(id) else {
                return false;
            };
            if let Some(kind) = flow.expire_burst(time) {
                *changes += 1;
                flow.mark(*changes, false);
                let told = Derived {
                    time,
                    flow: *id,
                    kind,
                };
                journal.derived(&told);
                derived.push(told);
            }
            flow.bursts.pending()
        });
    }
}
