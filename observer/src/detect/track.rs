//! What a flow did, as far as a verdict needs it: when which bytes left, what was lost, the RTT beside it.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use crate::event::{
    Attributes, CaState, Cause, CcState, Phase, Retransmit, RetransmitKind, Sample,
};

/// Losses kept of a flow, and retransmissions, at least and at most; between, half as many as points.
const LOSSES: (usize, usize) = (64, 8192);
/// Retransmissions among which the same range is looked for.
const LOOK_BACK: usize = 512;
/// Before anything is lost so much is kept, or so many RTTs.
const QUIET_NS: u64 = 10_000_000_000;
const QUIET_RTTS: u64 = 20;
/// Without room for more, so many points are kept: what is in flight can still be told when it left.
pub const LEAST_POINTS: usize = 32;
/// BBR's private words are read this often: phases that are not several times longer are not told apart.
const WHOLE_NS: u64 = 10_000_000;
/// RTTs after PROBE_BW was reached that still count as start-up, and after the first loss for other algorithms.
const BBR_SETTLE: u64 = 2;
const OTHER_SETTLE: u64 = 3;

/// Header bytes of a segment on Ethernet with IPv4, TCP and timestamps, as `tc` counts it; more with IPv6.
const HEADERS: u32 = 66;
const IPV6_MORE: u32 = 20;

/// How hard BBR pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// No BBR, or not known.
    Unknown,
    /// PROBE_BW with a pacing gain above 1.
    Up,
    /// PROBE_BW otherwise.
    Low,
    /// Any other phase.
    Other,
}

/// The state at one sample.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub time_ns: u64,
    /// Sequence numbers, unwrapped.
    pub una: u64,
    pub nxt: u64,
    pub rtt_us: Option<u32>,
    /// Something new was delivered, outside of recovery: the RTT is one of its own.
    pub fresh: bool,
    pub inflight: u32,
    pub cwnd: Option<u32>,
    pub push: Push,
    pub app_limited: bool,
    pub long_term: bool,
    /// By an ACK, and no segment came since the sample before that was not sampled.
    pub next_ack: bool,
}

/// A range that was sent again because it was taken for lost.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// When it was sent again.
    pub time_ns: u64,
    pub seq: u64,
    pub end: u64,
    pub segments: u32,
}

/// A retransmission: it takes room, and is no evidence.
#[derive(Clone, Copy, Debug)]
pub struct Again {
    pub time_ns: u64,
    pub bytes: u32,
    pub segments: u32,
    seq: Option<u64>,
    /// It had to be sent once more.
    pub lost: bool,
}

/// One flow.
#[derive(Debug, Default)]
pub struct Track {
    pub remote: Option<IpAddr>,
    pub bbr: Option<bool>,
    pub mss: u32,
    pub min_rtt_us: Option<u32>,
    pub points: VecDeque<Point>,
    /// In the order they were found.
    pub losses: VecDeque<Loss>,
    pub agains: VecDeque<Again>,
    /// Segments whose retransmission the peer reported as needless.
    pub spurious: u32,
    pub retransmitted: u64,
    /// By which bytes of the past are known to have been lost; start → end.
    ranges: BTreeMap<u64, u64>,
    dsack: Option<u32>,
    delivered: Option<u32>,
    segs_in: Option<u32>,
    reordered: Option<u32>,
    pub reorderings: u32,
    from_start: bool,
    /// Until when losses count as start-up; `None`: it is not over yet, or there is nothing to wait for.
    settled_ns: Option<u64>,
    /// Some of its packets are not remembered any more.
    forgot: bool,
    /// Points that may be kept.
    pub room: usize,
}

impl Track {
    pub fn opened(&mut self, from_start: bool) {
        self.from_start = from_start;
    }

    pub fn attributes(&mut self, attributes: &Attributes) {
        self.remote = Some(attributes.remote.ip().to_canonical());
        let name = &attributes.cc_name;
        self.bbr = (!name.is_empty()).then(|| name.contains("bbr"));
    }

    /// Bytes of a frame that are no payload.
    pub fn headers(&self) -> u32 {
        let ipv6 = self.remote.is_some_and(|ip| ip.is_ipv6());
        HEADERS + if ipv6 { IPV6_MORE } else { 0 }
    }

    /// Its first packet is among what is remembered since `from_ns`.
    pub fn is_whole(&self, from_ns: u64) -> bool {
        self.from_start && !self.forgot && self.since(from_ns) == 0
    }

    /// Nanoseconds, at least 1.
    pub fn rtt_ns(&self) -> u64 {
        u64::from(self.min_rtt_us.unwrap_or(0)).max(1) * 1000
    }

    /// As it is now, queues included.
    fn latest_rtt_ns(&self) -> u64 {
        let latest = self.points.iter().rev().find_map(|point| point.rtt_us);
        u64::from(latest.unwrap_or(0)) * 1000 + self.rtt_ns()
    }

    /// Whether what left at `time_ns` belongs to start-up.
    pub fn in_startup(&self, time_ns: u64) -> bool {
        match self.settled_ns {
            Some(settled) => time_ns < settled,
            // Without a loss there is nothing to mask.
            None => self.bbr == Some(true) || self.from_start,
        }
    }

    /// Whether the phases of its gain cycle are long enough to be told apart.
    pub fn shows_phases(&self) -> bool {
        self.rtt_ns() >= 3 * WHOLE_NS
    }

    pub fn sample(&mut self, time_ns: u64, sample: &Sample) {
        let (Some(una), Some(nxt)) = (sample.snd_una, sample.snd_nxt) else {
            return;
        };
        if sample.mss > 0 {
            self.mss = sample.mss;
        }
        let measured = [sample.min_rtt_us, sample.rtt_us]
            .into_iter()
            .flatten()
            .filter(|us| *us > 0)
            .min();
        if let Some(us) = measured {
            self.min_rtt_us = Some(self.min_rtt_us.map_or(us, |least| least.min(us)));
        }
        self.needless(sample);
        if let (Some(before), Some(now)) = (self.reordered, sample.reord_seen) {
            self.reorderings = self.reorderings.saturating_add(now.saturating_sub(before));
        }
        self.reordered = sample.reord_seen.or(self.reordered);
        let (push, long_term) = self.phase(time_ns, sample);
        let advanced = sample.delivered != self.delivered;
        self.delivered = sample.delivered;
        // With room below the first for what is older.
        let near = self
            .points
            .back()
            .map_or((1 << 32) + u64::from(una), |last| last.una);
        let una = unwrapped(near, una).max(near);
        let sent = self.points.back().map_or(una, |last| last.nxt);
        let nxt = unwrapped(sent, nxt).max(sent);
        let next = self.segs_in.zip(sample.segs_in);
        let next_ack = sample.cause == Cause::Ack
            && next.is_some_and(|(before, now)| now.wrapping_sub(before) == 1);
        self.segs_in = sample.segs_in;
        self.points.push_back(Point {
            time_ns,
            una,
            nxt,
            rtt_us: sample.rtt_us.filter(|us| *us > 0),
            fresh: advanced
                && !matches!(
                    sample.ca_state,
                    CaState::Cwr | CaState::Recovery | CaState::Loss
                ),
            inflight: sample.inflight_segments(),
            cwnd: sample.cwnd,
            push,
            app_limited: sample.app_limited == Some(true) || sample.rate_app_limited,
            long_term,
            next_ack,
        });
        let surplus = self
            .points
            .len()
            .saturating_sub(self.room.max(LEAST_POINTS));
        if surplus > 0 {
            self.points.drain(..surplus);
            self.forgot = true;
            self.forget_before(0);
        }
        if self.losses.is_empty() {
            self.forget_before(time_ns.saturating_sub(QUIET_NS.max(QUIET_RTTS * self.rtt_ns())));
        }
    }

    /// What the peer reports as received twice was not lost: the latest are taken back.
    fn needless(&mut self, sample: &Sample) {
        if let (Some(before), Some(now)) = (self.dsack, sample.dsack_dups) {
            let mut count = now.saturating_sub(before);
            self.spurious = self.spurious.saturating_add(count);
            while count > 0 {
                let Some(last) = self.losses.back_mut() else {
                    break;
                };
                let taken = last.segments.min(count);
                count -= taken;
                last.segments -= taken;
                last.end = last
                    .end
                    .saturating_sub(u64::from(taken) * u64::from(self.mss))
                    .max(last.seq);
                if last.segments == 0 {
                    self.losses.pop_back();
                }
            }
        }
        self.dsack = sample.dsack_dups.or(self.dsack);
    }

    /// BBR's push, and where its start-up ends.
    fn phase(&mut self, time_ns: u64, sample: &Sample) -> (Push, bool) {
        let Some(CcState::Bbr(bbr)) = &sample.cc else {
            return (Push::Unknown, false);
        };
        self.bbr = Some(true);
        let push = match (bbr.phase, bbr.pacing_gain_256) {
            (Some(Phase::ProbeBw), Some(gain)) if gain > 256 => Push::Up,
            (Some(Phase::ProbeBw), Some(_)) => Push::Low,
            (Some(_), _) => Push::Other,
            (None, _) => Push::Unknown,
        };
        if self.settled_ns.is_none() && bbr.phase == Some(Phase::ProbeBw) {
            let settle = if self.from_start {
                BBR_SETTLE * self.rtt_ns()
            } else {
                0
            };
            self.settled_ns = Some(time_ns.saturating_add(settle));
        }
        (push, bbr.lt_use_bw == Some(true))
    }

    pub fn retransmit(&mut self, time_ns: u64, retransmit: &Retransmit) {
        use RetransmitKind::{Syn, Synack, Tlp};
        if retransmit.failed || matches!(retransmit.kind, Syn | Synack) {
            return;
        }
        self.retransmitted += u64::from(retransmit.segments);
        let near = self.points.back().map(|last| last.una);
        let seq = near
            .zip(retransmit.seq)
            .map(|(near, seq)| unwrapped(near, seq));
        let earlier = self.agains.iter_mut().rev().take(LOOK_BACK);
        if let Some(again) = earlier
            .into_iter()
            .find(|again| seq.is_some() && again.seq == seq)
        {
            again.lost = true;
        }
        self.agains.push_back(Again {
            time_ns,
            bytes: u32::try_from(retransmit.bytes).unwrap_or(u32::MAX),
            segments: retransmit.segments,
            seq,
            lost: false,
        });
        let most = (self.room / 2).clamp(LOSSES.0, LOSSES.1);
        while self.agains.len() > most {
            self.agains.pop_front();
        }
        let (Some(seq), Some(end)) = (seq, retransmit.end_seq) else {
            return;
        };
        // A probe of the tail says nothing of a loss.
        if retransmit.kind == Tlp {
            return;
        }
        let end = unwrapped(seq, end);
        if end <= seq || self.is_known(seq, end) {
            return;
        }
        self.ranges.insert(seq, end);
        if self.settled_ns.is_none() && self.bbr != Some(true) {
            let settle = if self.from_start {
                OTHER_SETTLE * self.latest_rtt_ns()
            } else {
                0
            };
            self.settled_ns = Some(time_ns.saturating_add(settle));
        }
        self.losses.push_back(Loss {
            time_ns,
            seq,
            end,
            segments: retransmit.segments.max(1),
        });
        while self.losses.len() > most {
            self.losses.pop_front();
        }
    }

    /// Keeps to `room`.
    fn fit_in(&mut self) {
        let surplus = self
            .points
            .len()
            .saturating_sub(self.room.max(LEAST_POINTS));
        if surplus > 0 {
            self.points.drain(..surplus);
            self.forgot = true;
            self.forget_before(0);
        }
    }

    /// Keeps to a new `room`, and gives memory back.
    pub fn shrink(&mut self, room: usize) {
        self.room = room;
        self.fit_in();
        if self.points.capacity() > 4 * self.points.len().max(LEAST_POINTS) {
            self.points.shrink_to(2 * self.points.len());
        }
        if self.losses.is_empty() {
            self.losses.shrink_to_fit();
        }
    }

    /// The first point at or after `time_ns`.
    pub fn since(&self, time_ns: u64) -> usize {
        self.points.partition_point(|point| point.time_ns < time_ns)
    }

    /// Whether some of it was lost before.
    fn is_known(&self, seq: u64, end: u64) -> bool {
        let before = self.ranges.range(..end).next_back();
        before.is_some_and(|(_, known_end)| *known_end > seq)
    }

    /// Drops what is older, and what was lost of it.
    pub fn forget_before(&mut self, time_ns: u64) {
        while self.points.len() > 2 && self.points[1].time_ns < time_ns {
            self.points.pop_front();
            self.forgot = true;
        }
        let Some(first) = self.points.front().copied() else {
            return;
        };
        while self.losses.front().is_some_and(|loss| loss.seq < first.una) {
            self.losses.pop_front();
        }
        while self
            .agains
            .front()
            .is_some_and(|again| again.time_ns < first.time_ns)
        {
            self.agains.pop_front();
        }
        while let Some(range) = self.ranges.first_entry()
            && *range.get() <= first.una
        {
            range.remove();
        }
    }
}

/// `seq` as the number next to `near`.
fn unwrapped(near: u64, seq: u32) -> u64 {
    let distance = seq.wrapping_sub(near as u32) as i32;
    near.saturating_add_signed(i64::from(distance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap() {
        let near = (1 << 32) + 0xffff_ff00;
        assert_eq!(unwrapped(near, 0x10), near + 0x110);
        assert_eq!(unwrapped(near, 0xffff_fe00), near - 0x100);
        assert_eq!(unwrapped(5, 0xffff_ffff), 0, "before the beginning");
    }
}
