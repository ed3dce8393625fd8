//! Verdicts: what causes the losses on the way to one peer. Pure: events in, verdicts out, nothing read but the events.
//!
//! Method, constants and their sources: `observer/docs/DETECT.md`. A verdict is derived and never recorded, so that
//! better detectors apply to old files.

mod clusters;
mod dose;
mod features;
mod packets;
mod rules;
mod stats;
mod tokens;
mod track;
mod words;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

pub use features::Features;
pub use rules::{Class, Rule};

use crate::event::{Event, FlowId, Payload};
use rules::Signs;
use track::Track;

/// Whose verdict it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One flow was all there was to that peer.
    Flow,
    /// Several flows to one peer, judged together.
    Group,
}

impl Scope {
    /// The word of SPEC §4.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::Group => "group",
        }
    }
}

/// One verdict on the way to one peer.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub class: Class,
    /// 0 to 0.99, in steps of 0.05: an evidence score.
    pub confidence: f64,
    /// The policer's rate, Ethernet frames as `tc` counts them.
    pub rate_bps: Option<u64>,
    /// The bucket's or the queue's depth, counted in the same way.
    pub depth_bytes: Option<u64>,
    /// The queue's depth in BDP.
    pub buffer_bdp: Option<f64>,
    /// Share of the packets that is lost whatever the load.
    pub random_loss: Option<f64>,
    pub scope: Scope,
    pub peer: IpAddr,
    pub flows: Vec<FlowId>,
    pub rule: Rule,
    pub evidence: Vec<String>,
    pub advice: Vec<String>,
}

/// Takes events in, in the order of time.
#[derive(Debug, Default)]
pub struct Detector {
    flows: HashMap<FlowId, Track>,
}

impl Detector {
    pub fn apply(&mut self, event: &Event) {
        let Some(id) = event.flow else { return };
        let time_ns = event.time.0;
        let track = self.flows.entry(id).or_default();
        match &event.payload {
            Payload::Opened(opened) => {
                track.opened(opened.from_start);
                track.remote = Some(opened.remote.ip().to_canonical());
            }
            Payload::Attributes(attributes) => track.attributes(attributes),
            Payload::Sample(sample) => track.sample(time_ns, sample),
            Payload::Retransmit(retransmit) => track.retransmit(time_ns, retransmit),
            Payload::Closed => track.closed = true,
            _ => {}
        }
    }

    /// Whether anything was sent by this flow that a verdict could be about.
    pub fn knows(&self, flow: FlowId) -> bool {
        self.flows
            .get(&flow)
            .is_some_and(|track| !track.points.is_empty())
    }

    /// A verdict for each peer, over all that is remembered; in the order of addresses.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let mut peers: BTreeMap<IpAddr, Vec<FlowId>> = BTreeMap::new();
        for (id, track) in &self.flows {
            if let Some(peer) = track.remote {
                peers.entry(peer).or_default().push(*id);
            }
        }
        peers
            .into_iter()
            .filter_map(|(peer, mut flows)| {
                flows.sort_unstable();
                let tracks: Vec<&Track> =
                    flows.iter().filter_map(|id| self.flows.get(id)).collect();
                let found = features::features(&tracks)?;
                Some(judged(&found, peer, flows))
            })
            .collect()
    }

    /// The figures behind the verdict on one peer.
    pub fn features(&self, peer: IpAddr) -> Option<Features> {
        let of_peer = self
            .flows
            .values()
            .filter(|track| track.remote == Some(peer));
        features::features(&of_peer.collect::<Vec<_>>())
    }
}

fn judged(f: &Features, peer: IpAddr, flows: Vec<FlowId>) -> Verdict {
    let signs = Signs::of(f);
    let (class, rule) = rules::decide(f, &signs);
    let confidence = rules::confidence(f, &signs, class, rule);
    let bits = |bytes_per_s: f64| (bytes_per_s * f.overhead * 8.0).round() as u64;
    let frames = |bytes: f64| (bytes * f.overhead).round() as u64;
    let (mut rate_bps, mut depth_bytes, mut buffer_bdp, mut random_loss) = (None, None, None, None);
    match class {
        Class::Policer => {
            rate_bps = Some(bits(signs.fit.map_or(f.goodput, |fit| fit.rate)));
            depth_bytes = signs.fit.map(|fit| frames(fit.depth));
        }
        Class::QueueShallow | Class::Queue | Class::QueueDeep => {
            buffer_bdp = signs.beta;
            depth_bytes = f
                .excess_p90
                .filter(|_| f.goodput > 0.0)
                .map(|excess| frames(excess * f.goodput));
            // What is lost without pushing.
            random_loss = signs
                .dose
                .filter(|dose| dose.low >= 0.2 * f.rate)
                .map(|dose| dose.low);
        }
        Class::QueueStartup => buffer_bdp = f.excess_startup.map(|excess| excess / f.base_rtt),
        Class::RandomLoss => random_loss = Some(f.rate),
        Class::BurstyLoss | Class::None | Class::Insufficient => {}
    }
    Verdict {
        class,
        confidence,
        rate_bps,
        depth_bytes,
        buffer_bdp,
        random_loss,
        scope: if f.flows > 1 {
            Scope::Group
        } else {
            Scope::Flow
        },
        peer,
        flows,
        rule,
        evidence: words::evidence(f, &signs, class, rule),
        advice: words::advice(class, f.bbr, rate_bps, buffer_bdp),
    }
}
