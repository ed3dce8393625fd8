//! Metrics for Prometheus (SPEC §10): the fold counted up, without a label of any flow.
//!
//! Counters grow by the differences of each flow's own counters, so they never fall when a flow ends. What a flow that is
//! older than us had counted before is not ours to count.

pub mod http;
mod metrics;
mod room;

use std::collections::{BTreeSet, HashMap};

use observer_common::wire::RetransmitKind;
use prometheus::proto::MetricFamily;

use crate::detect::{CLASSES, Class};
use crate::event::{Counters, Event, FlowId, KINDS, Payload, Retransmit, Sample, retransmit_kind};
use crate::model::{Flow, Fold, LimitedBy, Model, Prefix};
use crate::units::Mono;
use metrics::Metrics;
use room::{OTHER, Place, Room};

const SECOND_NS: u64 = 1_000_000_000;
/// Networks of peers that have series of their own. One has some 70 an algorithm, buckets of histograms for the most part.
const PREFIXES: usize = 100;
/// Devices that have series of their own: containers come with new names for ever.
const DEVICES: usize = 200;

/// A flow's counters as last counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    acked: u64,
    sent: u64,
    retrans: u64,
}

impl Totals {
    fn of(sample: &Sample) -> Self {
        Self {
            acked: sample.bytes_acked.unwrap_or(0),
            sent: sample.bytes_sent.unwrap_or(0),
            retrans: sample.bytes_retrans.unwrap_or(0),
        }
    }

    /// A counter that fell begins anew: the socket was used again.
    fn since(self, earlier: Self) -> Self {
        let rise = |now: u64, then: u64| now.checked_sub(then).unwrap_or(now);
        Self {
            acked: rise(self.acked, earlier.acked),
            sent: rise(self.sent, earlier.sent),
            retrans: rise(self.retrans, earlier.retrans),
        }
    }
}

/// What of the programs' counters was counted.
#[derive(Clone, Debug, Default)]
struct Programs {
    outcomes: [u64; OUTCOMES.len()],
    at: Option<Mono>,
}

/// Values of `outcome`.
const OUTCOMES: [&str; 6] = [
    "kept",
    "suppressed",
    "filtered",
    "failed",
    "dropped",
    "missed",
];

/// The fold and what was counted of it.
#[derive(Debug)]
pub struct Serve {
    fold: Fold,
    metrics: Metrics,
    counted: HashMap<FlowId, Totals>,
    peers: Option<Peers>,
    qdiscs: HashMap<(String, String, u32, u32), u64>,
    devices: Room,
    /// Of qdiscs, that any device had.
    kinds: BTreeSet<String>,
    programs: Programs,
    next: Option<Mono>,
}

/// Networks of peers, where they were asked for.
#[derive(Debug)]
struct Peers {
    room: Room,
    /// Algorithms and versions, that any flow had.
    versions: BTreeSet<(String, String)>,
}

impl Default for Serve {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Serve {
    /// With `peer_prefix` flows count by the network of their peer too.
    pub fn new(peer_prefix: bool) -> Self {
        Self {
            fold: Fold::default(),
            metrics: Metrics::new(peer_prefix),
            counted: HashMap::new(),
            peers: peer_prefix.then(|| Peers {
                room: Room::new(PREFIXES),
                versions: BTreeSet::new(),
            }),
            qdiscs: HashMap::new(),
            devices: Room::new(DEVICES),
            kinds: BTreeSet::new(),
            programs: Programs::default(),
            next: None,
        }
    }

    /// Where the metrics are read, by other threads too.
    pub fn registry(&self) -> prometheus::Registry {
        self.metrics.registry.clone()
    }

    /// All metrics as they are now.
    pub fn gather(&self) -> Vec<MetricFamily> {
        self.metrics.registry.gather()
    }

    pub fn model(&self) -> &Model {
        self.fold.model()
    }

    /// Takes an event in; counts once a second of event time.
    pub fn apply(&mut self, event: &Event) {
        self.fold.apply(event);
        match &event.payload {
            Payload::Retransmit(retransmit) => self.retransmit(retransmit),
            Payload::Counters(counters) => self.programs(event.time, counters),
            _ => {}
        }
        let now = self.fold.model().now();
        let next = *self.next.get_or_insert(now.plus(SECOND_NS));
        if now >= next {
            self.next = Some(next.plus(SECOND_NS).max(now));
            self.second();
        }
    }

    /// CPU time of this process so far, which only its clock tells.
    pub fn cpu(&mut self, total_ns: u64) {
        let seconds = total_ns as f64 / 1e9;
        let counted = self.metrics.cpu_seconds.get();
        self.metrics
            .cpu_seconds
            .inc_by((seconds - counted).max(0.0));
    }

    /// Counts what happened since the last time, closed flows too: their last figures are final.
    pub fn second(&mut self) {
        self.metrics.flows.reset();
        self.metrics.limits.reset();
        for limit in LIMITS {
            self.metrics
                .limits
                .with_label_values(&[limit.as_str()])
                .set(0);
        }
        self.metrics.verdicts.reset();
        for class in CLASSES {
            self.metrics
                .verdicts
                .with_label_values(&[class.as_str()])
                .set(0);
        }
        let mut counted = std::mem::take(&mut self.counted);
        let mut peers = self.peers.take();
        for flow in self.fold.model().flows() {
            let prefix = peers.as_mut().map(|peers| self.prefix(flow, peers));
            self.flow(flow, prefix.as_deref(), &mut counted);
        }
        self.peers = peers;
        // Closed flows stay in the model for a while after they were counted to their end.
        counted.retain(|id, _| self.fold.model().flow(*id).is_some());
        self.counted = counted;
        self.devices();
    }

    /// The network of the flow's peer as it is counted.
    fn prefix(&self, flow: &Flow, peers: &mut Peers) -> String {
        let (cc, version) = algorithm(flow);
        let version = (cc.to_owned(), version.to_owned());
        peers.versions.insert(version);
        let prefix = Prefix::of(flow.remote().ip()).to_string();
        match peers.room.place(&prefix, self.fold.model().now()) {
            Place::Own => prefix,
            Place::InsteadOf(idle) => {
                self.metrics.forget_prefix(&idle, &peers.versions);
                prefix
            }
            Place::Other => OTHER.to_owned(),
        }
    }

    fn flow(&self, flow: &Flow, prefix: Option<&str>, counted: &mut HashMap<FlowId, Totals>) {
        let (cc, version) = algorithm(flow);
        let labels: Vec<&str> = [cc, version].into_iter().chain(prefix).collect();
        let open = !flow.is_closed();
        if open && flow.state().is_connected() {
            self.metrics.flows.with_label_values(&labels).inc();
            let limit = self.fold.model().figures(flow).limit.as_str();
            self.metrics.limits.with_label_values(&[limit]).inc();
            // Nothing said yet: not enough was seen.
            let class = flow
                .judgement()
                .map_or(Class::Insufficient, |judgement| judgement.verdict.class);
            let verdicts = &self.metrics.verdicts;
            verdicts.with_label_values(&[class.as_str()]).inc();
        }
        let Some(sample) = flow.sample() else { return };
        let now = Totals::of(sample);
        let before = counted.insert(flow.id(), now);
        let rise = match before {
            Some(before) => now.since(before),
            // Its birth was seen: all of it is ours.
            None if flow.from_start() => now,
            None => Totals::default(),
        };
        let metrics = &self.metrics;
        metrics.acked.with_label_values(&labels).inc_by(rise.acked);
        metrics.sent.with_label_values(&labels).inc_by(rise.sent);
        metrics
            .retransmitted
            .with_label_values(&labels)
            .inc_by(rise.retrans);
        // A flow at rest has no RTT of this second.
        if open && (rise.acked > 0 || rise.sent > 0) {
            let labels: Vec<&str> = [cc].into_iter().chain(prefix).collect();
            self.observe(sample, rise, &labels);
        }
    }

    /// One observation of each kind, as far as it is known.
    fn observe(&self, sample: &Sample, rise: Totals, labels: &[&str]) {
        let metrics = &self.metrics;
        if let Some(us) = sample.rtt_us.or(sample.srtt_us) {
            metrics
                .rtt
                .with_label_values(labels)
                .observe(f64::from(us) / 1e6);
        }
        if let (Some(srtt), Some(min)) = (sample.srtt_us, sample.min_rtt_us) {
            let us = srtt.saturating_sub(min);
            metrics
                .queueing
                .with_label_values(labels)
                .observe(f64::from(us) / 1e6);
        }
        if let Some(rate) = sample.delivery_rate.filter(|_| !sample.rate_app_limited) {
            metrics
                .delivery
                .with_label_values(labels)
                .observe(rate as f64);
        }
        if rise.sent > 0 {
            let ratio = rise.retrans as f64 / rise.sent as f64;
            metrics.ratio.with_label_values(labels).observe(ratio);
        }
    }

    fn retransmit(&mut self, retransmit: &Retransmit) {
        let kind = retransmit_kind(retransmit.kind);
        let counter = self.metrics.retransmits.with_label_values(&[kind]);
        counter.inc_by(u64::from(retransmit.segments));
    }

    /// Their own totals are since they were attached.
    fn programs(&mut self, time: Mono, counters: &Counters) {
        let mut now = [0u64; OUTCOMES.len()];
        for program in &counters.programs {
            let of = [
                program.kept,
                program.suppressed,
                program.filtered,
                program.failed,
                program.dropped,
                program.missed,
            ];
            for (sum, count) in now.iter_mut().zip(of) {
                *sum = sum.saturating_add(count);
            }
        }
        for ((outcome, now), before) in OUTCOMES.iter().zip(now).zip(self.programs.outcomes) {
            let counter = self.metrics.events.with_label_values(&[outcome]);
            counter.inc_by(now.saturating_sub(before));
        }
        self.programs.outcomes = now;
        let before = self.programs.at.replace(time);
        let cpus = self.fold.model().host().map_or(0, |host| host.cpus);
        if let (Some(before), Some(cost)) = (before, counters.cost) {
            let wall = time.since(before) as f64 / 1e9;
            let seconds = wall * f64::from(cpus) * f64::from(cost.kernel_ppm) / 1e6;
            self.metrics.kernel_seconds.inc_by(seconds);
        }
    }

    /// Devices of one name (in several namespaces) count together.
    fn devices(&mut self) {
        self.metrics.backlog.reset();
        let devices: Vec<_> = self
            .fold
            .model()
            .devices()
            .filter_map(|device| Some((device.name.clone(), device.id, device.egress()?)))
            .collect();
        let mut seen = HashMap::new();
        for (name, id, qdisc) in devices {
            if !self.kinds.contains(&qdisc.kind) {
                self.kinds.insert(qdisc.kind.clone());
            }
            let own = match self.devices.place(&name, self.fold.model().now()) {
                Place::Own => true,
                Place::InsteadOf(idle) => {
                    self.metrics.forget_device(&idle, &self.kinds);
                    true
                }
                Place::Other => false,
            };
            let labels = [if own { name.as_str() } else { OTHER }, qdisc.kind.as_str()];
            let key = (name.clone(), qdisc.kind.clone(), id.netns, qdisc.handle);
            let before = self.qdiscs.get(&key).copied();
            let drops = self.metrics.drops.with_label_values(&labels);
            // What it dropped before we came is not ours.
            drops.inc_by(before.map_or(0, |before| qdisc.drops.saturating_sub(before)));
            let level = i64::try_from(qdisc.backlog_bytes).unwrap_or(i64::MAX);
            self.metrics.backlog.with_label_values(&labels).add(level);
            seen.insert(key, qdisc.drops);
        }
        self.qdiscs = seen;
    }
}

/// Name and version of a flow's algorithm as labels; a version is unknown where it is empty.
fn algorithm(flow: &Flow) -> (&str, &str) {
    let attributes = flow.attributes();
    let name = attributes
        .map(|a| a.cc_name.as_str())
        .filter(|name| !name.is_empty());
    let version = attributes.and_then(|a| a.cc_version.as_deref());
    (name.unwrap_or("unknown"), version.unwrap_or(""))
}

const LIMITS: [LimitedBy; 9] = [
    LimitedBy::Idle,
    LimitedBy::App,
    LimitedBy::Rwnd,
    LimitedBy::Sndbuf,
    LimitedBy::Pacing,
    LimitedBy::Cwnd,
    LimitedBy::Loss,
    LimitedBy::Path,
    LimitedBy::Unknown,
];

/// Every kind, so that each series is there from the start.
fn kinds() -> impl Iterator<Item = &'static str> {
    KINDS
        .into_iter()
        .map(|kind: RetransmitKind| retransmit_kind(kind))
}
