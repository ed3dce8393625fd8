//! Verdicts: what causes the losses on the way to one peer. Pure: events in, verdicts out, nothing read but the events.
//!
//! Method, constants and their sources: `observer/docs/DETECT.md`. A verdict is derived and never recorded, so that
//! better detectors apply to old files.

mod clusters;
mod dose;
mod features;
pub mod guide;
mod packets;
mod peers;
mod rules;
mod stats;
mod tokens;
mod track;
mod verdict;
mod words;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::ops::Bound;

pub use features::Features;
pub use guide::{Advice, CLASSES};
pub use rules::{Class, Rule};
pub use verdict::{Group, Scope, Verdict};

use crate::event::{Event, FlowId, Payload};
use crate::units::Mono;
use peers::{HOLD_NS, Peer};
use track::{LEAST_POINTS, Track};

/// Points (64 bytes) for all flows with losses together, and for all without; the memory of the detectors.
const ROOM: usize = 400_000;
const MOST_POINTS: (usize, usize) = (65_536, 4096);
/// Points looked at in one call of [`Detector::judge`]: what is left over waits for the next.
const WORK: usize = 300_000;
/// A peer is judged again no sooner than this per point.
const PAUSE_NS: u64 = 25_000;
/// What is judged: so many RTTs back, within bounds …
const WINDOW_RTTS: u64 = 100;
const WINDOW_NS: (u64, u64) = (10_000_000_000, 60_000_000_000);
/// … or as far as it takes to have so many losses, within the memory.
const WINDOW_LOSSES: usize = 200;
const MEMORY_NS: u64 = 300_000_000_000;
/// Flows of a net that are judged together, at most, and no more often than this.
const MOST_NEAR: usize = 64;
const NET_NS: u64 = 10_000_000_000;
/// A closed flow without losses leaves after this.
const CLOSED_NS: u64 = 10_000_000_000;

/// The figures of nets, as far as they were asked for, and when.
type Nets = HashMap<Group, (u64, Option<Features>)>;

#[derive(Debug, Default)]
struct Watched {
    track: Track,
    closed_ns: Option<u64>,
}

/// Takes events in, in the order of time; its memory is bounded, whatever the number of flows.
#[derive(Debug, Default)]
pub struct Detector {
    flows: HashMap<FlowId, Watched>,
    peers: BTreeMap<IpAddr, Peer>,
    /// Points that a flow with losses may keep, and one without, as they were last shared out.
    room: Option<(usize, usize)>,
    /// Who was judged last.
    last: Option<IpAddr>,
    nets: Nets,
}

impl Detector {
    pub fn apply(&mut self, event: &Event) {
        let Some(id) = event.flow else { return };
        let time_ns = event.time.0;
        let watched = self.flows.entry(id).or_default();
        let track = &mut watched.track;
        let before = track.remote;
        let lossy = track.losses.len();
        match &event.payload {
            Payload::Opened(opened) => {
                track.opened(opened.from_start);
                track.remote = Some(opened.remote.ip().to_canonical());
            }
            Payload::Attributes(attributes) => track.attributes(attributes),
            Payload::Sample(sample) => {
                let (lossy, quiet) = self.room.unwrap_or(MOST_POINTS);
                track.room = if track.losses.is_empty() {
                    quiet
                } else {
                    lossy
                };
                track.sample(time_ns, sample);
            }
            Payload::Retransmit(retransmit) => track.retransmit(time_ns, retransmit),
            Payload::Closed => watched.closed_ns = Some(time_ns),
            _ => return,
        }
        let Some(remote) = track.remote else { return };
        let lost = track.losses.len() > lossy;
        let peer = self.peers.entry(remote).or_default();
        if before != Some(remote) {
            if let Some(old) = before {
                leave(&mut self.peers, old, id);
            }
            self.peers.entry(remote).or_default().flows.push(id);
        } else if lost {
            peer.lost(time_ns);
        } else {
            peer.sampled(time_ns);
        }
    }

    /// Whether anything was sent by this flow that a verdict could be about.
    pub fn knows(&self, flow: FlowId) -> bool {
        self.flows
            .get(&flow)
            .is_some_and(|watched| !watched.track.points.is_empty())
    }

    /// Judges the peers of whom there is new evidence, as far as the work allows, over the last window; gives the
    /// verdicts that hold for them. A verdict has to be found several times in a row before it holds, and more often
    /// to displace another. To be called about twice a second of the events' time.
    pub fn judge(&mut self, now: Mono) -> Vec<Verdict> {
        self.tidy(now.0);
        let mut work = WORK;
        let mut told = Vec::new();
        let mut nets = std::mem::take(&mut self.nets);
        nets.retain(|_, (at, _)| now.0.saturating_sub(*at) < NET_NS);
        for address in self.due(now.0) {
            let Some(peer) = self.peers.get(&address) else {
                continue;
            };
            let tracks = self.tracks(&peer.flows);
            let from_ns = window(&tracks, now.0);
            let points: usize = tracks
                .iter()
                .map(|track| track.points.len() - track.since(from_ns))
                .sum();
            if points > work && work < WORK {
                break;
            }
            work = work.saturating_sub(points.max(1));
            let verdict = self.judged(address, &peer.flows, (from_ns, now.0), &mut nets);
            self.last = Some(address);
            let Some(peer) = self.peers.get_mut(&address) else {
                continue;
            };
            peer.judging(now.0, points as u64 * PAUSE_NS);
            if let Some(verdict) = verdict {
                told.extend(peer.found(verdict, now.0).cloned());
            }
        }
        self.nets = nets;
        told
    }

    /// Peers to judge, from the one after the last: none waits for ever.
    fn due(&self, now_ns: u64) -> Vec<IpAddr> {
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let later = self.peers.range((after, Bound::Unbounded));
        let rest = self.last.map(|last| self.peers.range(..=last));
        later
            .chain(rest.into_iter().flatten())
            .filter(|(_, peer)| peer.is_due(now_ns))
            .map(|(address, _)| *address)
            .collect()
    }

    /// The verdict that holds for the flows to a peer, as of the last [`Detector::judge`].
    pub fn holds(&self, peer: IpAddr) -> Option<&Verdict> {
        self.peers.get(&peer)?.held()
    }

    /// A verdict for each peer, over all that is remembered and without regard to what held before; in the order of
    /// addresses. For the end of a recording.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let mut nets = Nets::default();
        self.peers
            .iter()
            .filter_map(|(address, peer)| self.judged(*address, &peer.flows, (0, 0), &mut nets))
            .collect()
    }

    /// Samples that are remembered, of all flows.
    pub fn points(&self) -> usize {
        self.flows
            .values()
            .map(|watched| watched.track.points.len())
            .sum()
    }

    /// The figures behind the verdict on one peer.
    pub fn features(&self, peer: IpAddr) -> Option<Features> {
        features::features(&self.tracks(&self.peers.get(&peer)?.flows), 0)
    }

    fn tracks(&self, flows: &[FlowId]) -> Vec<&Track> {
        flows
            .iter()
            .filter_map(|id| self.flows.get(id))
            .map(|watched| &watched.track)
            .collect()
    }

    /// By the flows to one address, or where they lost too little by those to its neighbours with them.
    fn judged(
        &self,
        address: IpAddr,
        flows: &[FlowId],
        (from_ns, now_ns): (u64, u64),
        nets: &mut Nets,
    ) -> Option<Verdict> {
        let mut ids = flows.to_vec();
        ids.sort_unstable();
        let found = features::features(&self.tracks(&ids), from_ns)?;
        let verdict = Verdict::of(&found, Group::of_one(address), address, ids);
        if verdict.class != Class::Insufficient || found.losses == 0 {
            return Some(verdict);
        }
        let net = Group::around(address);
        let (_, near) = nets
            .entry(net)
            .or_insert_with(|| (now_ns, self.neighbours(net, from_ns)));
        let Some(near) = near.as_ref().filter(|near| near.flows > found.flows) else {
            return Some(verdict);
        };
        let by_net = Verdict::of(near, net, address, verdict.flows.clone());
        if by_net.class == Class::Insufficient {
            return Some(verdict);
        }
        Some(by_net)
    }

    /// The figures of the flows with losses to a net; `None` = there is too little.
    fn neighbours(&self, net: Group, from_ns: u64) -> Option<Features> {
        let near = self.peers.range(net.first()..=net.last());
        let ids = near.flat_map(|(_, peer)| peer.flows.iter().copied());
        let mut lossy: Vec<&Track> = self.tracks(&ids.collect::<Vec<_>>());
        lossy.retain(|track| !track.losses.is_empty());
        lossy.truncate(MOST_NEAR);
        let losses = lossy.iter().flat_map(|track| &track.losses);
        let losses = losses.filter(|loss| loss.time_ns >= from_ns).count();
        if losses < rules::MIN_AFTER {
            return None;
        }
        features::features(&lossy, from_ns)
    }

    /// Shares the room out, and lets go of what is closed or too old.
    fn tidy(&mut self, now_ns: u64) {
        let lossy = |watched: &&Watched| !watched.track.losses.is_empty();
        let lossy = self.flows.values().filter(lossy).count();
        let quiet = self.flows.len() - lossy;
        let share = |among: usize, most: usize| (ROOM / among.max(1)).clamp(LEAST_POINTS, most);
        let (lossy, quiet) = (share(lossy, MOST_POINTS.0), share(quiet, MOST_POINTS.1));
        self.room = Some((lossy, quiet));
        let peers = &mut self.peers;
        self.flows.retain(|id, watched| {
            let track = &mut watched.track;
            track.forget_before(now_ns.saturating_sub(MEMORY_NS));
            let (room, keep) = if track.losses.is_empty() {
                (quiet, CLOSED_NS)
            } else {
                (lossy, MEMORY_NS)
            };
            track.shrink(room);
            let over = watched
                .closed_ns
                .is_some_and(|closed| now_ns.saturating_sub(closed) > keep);
            if over && let Some(remote) = track.remote {
                leave(peers, remote, *id);
            }
            !over
        });
    }
}

/// Where what is judged begins.
fn window(tracks: &[&Track], now_ns: u64) -> u64 {
    let rtt_ns = tracks.iter().map(|track| track.rtt_ns()).min().unwrap_or(0);
    let window = (WINDOW_RTTS * rtt_ns).clamp(WINDOW_NS.0, WINDOW_NS.1);
    let recent = now_ns.saturating_sub(window);
    let last = tracks.iter().filter_map(|track| track.losses.back());
    if last.map(|loss| loss.time_ns).max() < Some(now_ns.saturating_sub(HOLD_NS)) {
        return recent;
    }
    let mut losses: Vec<u64> = tracks
        .iter()
        .flat_map(|track| track.losses.iter().rev().take(WINDOW_LOSSES))
        .map(|loss| loss.time_ns)
        .collect();
    losses.sort_unstable();
    let enough = losses.len().saturating_sub(WINDOW_LOSSES);
    // What was lost left an RTT before it was sent again, and what filled the path before that.
    let back = losses
        .get(enough)
        .map_or(now_ns, |at| at.saturating_sub(10 * rtt_ns));
    recent.min(back).max(now_ns.saturating_sub(MEMORY_NS))
}

fn leave(peers: &mut BTreeMap<IpAddr, Peer>, address: IpAddr, id: FlowId) {
    if let Some(peer) = peers.get_mut(&address) {
        peer.flows.retain(|flow| *flow != id);
        if peer.flows.is_empty() {
            peers.remove(&address);
        }
    }
}
