//! One flow, folded: what a report says of it, in memory that does not grow with its length.
//!
//! Between two samples a quantity is what the newer one says: at an ACK that is the state that has held since the ACK
//! before (TRAPS 33). Where they are more than a second apart nothing happened in between (the sweep would have told), so
//! the older one holds until a second before the newer.

use super::course::{Course, Point, SecondsCourse, Weighted};
use super::sketch::Rtts;
use crate::event::{CcState, KINDS, LimitClocks, Origin, Phase, Retransmit, Sample};
use crate::model::{BtlBw, Burst, Spent, charged};
use crate::units::Mono;

/// Silence for longer means that nothing happened.
const SILENCE_NS: u64 = 1_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Bursts kept one by one; the largest.
pub const BURSTS: usize = 100;
/// Phases in the order of their shares.
pub const PHASES: [Phase; 4] = [
    Phase::Startup,
    Phase::Drain,
    Phase::ProbeBw,
    Phase::ProbeRtt,
];

/// Differences of a cumulative counter, added up. `None` until there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rise(Option<u64>);

impl Rise {
    fn add(&mut self, old: Option<u64>, new: Option<u64>) {
        if let (Some(old), Some(new)) = (old, new)
            && let Some(rise) = new.checked_sub(old)
        {
            self.raise(rise);
        }
    }

    /// Of a counter of 32 bits, which wraps (TRAPS 19).
    fn add_wrapping(&mut self, old: Option<u32>, new: Option<u32>) {
        if let (Some(old), Some(new)) = (old, new) {
            self.raise(u64::from(new.wrapping_sub(old)));
        }
    }

    fn raise(&mut self, by: u64) {
        self.0 = Some(self.0.unwrap_or(0).saturating_add(by));
    }

    pub fn get(self) -> Option<u64> {
        self.0
    }

    pub fn merge(&mut self, other: Self) {
        if let Some(by) = other.0 {
            self.raise(by);
        }
    }
}

/// What can be added up over flows.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    pub acked: Rise,
    pub sent: Rise,
    pub retrans_bytes: Rise,
    pub retrans_segments: Rise,
    pub data_segments: Rise,
    pub dsack: Rise,
    /// Segments by kind, in the order of [`KINDS`]; `None` = the source does not tell kinds.
    pub kinds: Option<[u64; KINDS.len()]>,
    /// Segments that never reached the wire.
    pub failed: u64,
    pub rtt: Weighted,
    pub srtt: Weighted,
    pub rtts: Rtts,
    pub min_rtt_us: Option<u32>,
    pub bbr_min_rtt_us: Option<u32>,
    /// Time in each of [`PHASES`], and in all, ns.
    pub phases: [u64; PHASES.len()],
    pub charged_ns: u64,
    pub bursts: u64,
    /// Records missing by the flow's numbers.
    pub gaps: u64,
}

impl Sums {
    pub fn merge(&mut self, other: &Self) {
        for (ours, theirs) in [
            (&mut self.acked, other.acked),
            (&mut self.sent, other.sent),
            (&mut self.retrans_bytes, other.retrans_bytes),
            (&mut self.retrans_segments, other.retrans_segments),
            (&mut self.data_segments, other.data_segments),
            (&mut self.dsack, other.dsack),
        ] {
            ours.merge(theirs);
        }
        if let Some(theirs) = &other.kinds {
            let ours = self.kinds.get_or_insert_default();
            for (ours, theirs) in ours.iter_mut().zip(theirs) {
                *ours = ours.saturating_add(*theirs);
            }
        }
        self.failed = self.failed.saturating_add(other.failed);
        self.rtt.merge(other.rtt);
        self.srtt.merge(other.srtt);
        self.rtts.merge(&other.rtts);
        least(&mut self.min_rtt_us, other.min_rtt_us);
        least(&mut self.bbr_min_rtt_us, other.bbr_min_rtt_us);
        for (ours, theirs) in self.phases.iter_mut().zip(other.phases) {
            *ours = ours.saturating_add(theirs);
        }
        // Shares of phases are of flows that have some.
        if other.phases.iter().any(|ns| *ns > 0) {
            self.charged_ns = self.charged_ns.saturating_add(other.charged_ns);
        }
        self.bursts = self.bursts.saturating_add(other.bursts);
        self.gaps = self.gaps.saturating_add(other.gaps);
    }
}

fn least(known: &mut Option<u32>, new: Option<u32>) {
    if let Some(new) = new {
        *known = Some(known.map_or(new, |known| known.min(new)));
    }
}

/// Time by what held the flow back, µs; as [`crate::model::LimitShares`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Time of which the clocks told, ns.
    pub known_ns: u64,
    pub busy: u64,
    pub rwnd: u64,
    pub sndbuf: u64,
    pub app: u64,
    pub cwnd: u64,
    pub pacing: u64,
    pub recovery: u64,
    pub queued: u64,
}

/// A flow while its events come.
#[derive(Clone, Debug)]
pub struct FlowFold {
    pub from_start: bool,
    opened: Mono,
    /// What comes before is left out.
    pub begin: Mono,
    sample: Option<(Mono, Box<Sample>)>,
    btlbw: Option<BtlBw>,
    pub btlbw_estimated: Option<bool>,
    pub sums: Sums,
    pub limits: Limits,
    pub course: Course,
    pub seconds: SecondsCourse,
    point: Point,
    /// Bytes of the second that is not over.
    second: f64,
    pub cwnd_peak: Option<u32>,
    pub inflight_peak: Option<u64>,
    /// The largest, in the order of time.
    pub bursts: Vec<Burst>,
}

impl FlowFold {
    /// `opened` = when it came into view; its first `omit_ns` are left out.
    pub fn new(opened: Mono, from_start: bool, omit_ns: u64) -> Self {
        let begin = opened.plus(omit_ns);
        let mut fold = Self {
            from_start,
            opened,
            begin,
            sample: None,
            btlbw: None,
            btlbw_estimated: None,
            sums: Sums::default(),
            limits: Limits::default(),
            course: Course::default(),
            seconds: SecondsCourse::default(),
            point: Point::default(),
            second: 0.0,
            cwnd_peak: None,
            inflight_peak: None,
            bursts: Vec::new(),
        };
        fold.start(opened);
        fold
    }

    fn start(&mut self, time: Mono) {
        self.begin = self.begin.max(time);
        self.point.time = self.begin;
        self.course = Course::default();
        self.course.push(self.point);
    }

    /// A sample, after the model took it; `btlbw` is the model's.
    pub fn sample(&mut self, time: Mono, sample: &Sample, btlbw: Option<BtlBw>) {
        let before = self.sample.take();
        let birth = self.from_start && sample.origin != Origin::Diag;
        match &before {
            Some((last, _)) if time < *last => {
                // Late: the counters have passed it.
                self.sample = before;
                return;
            }
            Some((last, old)) if comparable(old, sample) => {
                self.step(*last, old, time, sample, btlbw);
            }
            // A new series: what came in between is not known.
            Some((last, old)) => self.hold(*last, old, time),
            None if birth => self.step_from_birth(time, sample, btlbw),
            None => self.start(time),
        }
        if time >= self.begin {
            self.note(time, sample);
        }
        self.btlbw = btlbw;
        if let Some(btlbw) = btlbw {
            self.btlbw_estimated = Some(btlbw.estimated);
        }
        self.keep(before, time, sample);
    }

    /// Keeps the sample in the memory of the one before.
    fn keep(&mut self, before: Option<(Mono, Box<Sample>)>, time: Mono, sample: &Sample) {
        let kept = match before {
            Some((_, mut kept)) => {
                (*kept).clone_from(sample);
                kept
            }
            None => Box::new(sample.clone()),
        };
        self.sample = Some((time, kept));
    }

    /// Figures of a moment.
    fn note(&mut self, time: Mono, sample: &Sample) {
        let sums = &mut self.sums;
        least(&mut sums.min_rtt_us, sample.min_rtt_us);
        if let Some(CcState::Bbr(bbr)) = &sample.cc {
            least(&mut sums.bbr_min_rtt_us, bbr.min_rtt_us);
        }
        if sample.origin != Origin::Diag {
            sums.kinds.get_or_insert_default();
        }
        if let Some(rtt) = sample.rtt_us {
            sums.rtts.take(time.0, rtt);
        }
        self.cwnd_peak = self.cwnd_peak.max(sample.cwnd);
        self.inflight_peak = self.inflight_peak.max(Some(sample.inflight_bytes()));
    }

    /// Every counter of a socket is 0 when it is made; its state is not known before the first sample.
    fn step_from_birth(&mut self, time: Mono, sample: &Sample, btlbw: Option<BtlBw>) {
        let born = Sample {
            bytes_acked: Some(0),
            bytes_sent: Some(0),
            bytes_retrans: Some(0),
            data_segs_out: Some(0),
            dsack_dups: Some(0),
            retrans: 0,
            clocks: Some(LimitClocks::default()),
            ..sample.clone()
        };
        self.step(self.opened.min(time), &born, time, sample, btlbw);
    }

    /// From one sample to the next.
    fn step(&mut self, last: Mono, old: &Sample, time: Mono, new: &Sample, btlbw: Option<BtlBw>) {
        if time <= self.begin {
            return;
        }
        let turn = Mono(time.0.saturating_sub(SILENCE_NS)).max(last);
        self.hold(last, old, turn);
        self.count(old, new, time.since(last.max(self.begin)));
        let acked = old.bytes_acked.zip(new.bytes_acked);
        let rise = acked.map_or(0, |(old, new)| new.saturating_sub(old));
        // Of what was acknowledged between the two the part after the beginning.
        let since = time.since(turn.max(self.begin));
        let share = match time.since(turn) {
            0 => 1.0,
            whole => since as f64 / whole as f64,
        };
        let rise = rise as f64 * share;
        if acked.is_some() {
            self.sums.acked.raise(rise.round() as u64);
        }
        self.btlbw = btlbw;
        self.charge(new, since);
        self.advance(time, rise);
    }

    /// Nothing changes until `until`.
    fn hold(&mut self, last: Mono, old: &Sample, until: Mono) {
        let from = last.max(self.begin);
        if until <= from {
            return;
        }
        self.charge(old, until.since(from));
        self.advance(until, 0.0);
    }

    /// Counters that rose.
    fn count(&mut self, old: &Sample, new: &Sample, ns: u64) {
        let sums = &mut self.sums;
        sums.sent.add(old.bytes_sent, new.bytes_sent);
        sums.retrans_bytes.add(old.bytes_retrans, new.bytes_retrans);
        sums.retrans_segments
            .add_wrapping(Some(old.retrans), Some(new.retrans));
        sums.data_segments
            .add_wrapping(old.data_segs_out, new.data_segs_out);
        sums.dsack.add_wrapping(old.dsack_dups, new.dsack_dups);
        let Some((before, after)) = old.clocks.zip(new.clocks) else {
            return;
        };
        let limits = &mut self.limits;
        limits.known_ns = limits.known_ns.saturating_add(ns);
        let rise = |new: u64, old: u64| new.saturating_sub(old);
        for (sum, us) in [
            (&mut limits.busy, rise(after.busy_us, before.busy_us)),
            (
                &mut limits.rwnd,
                rise(after.rwnd_limited_us, before.rwnd_limited_us),
            ),
            (
                &mut limits.sndbuf,
                rise(after.sndbuf_limited_us, before.sndbuf_limited_us),
            ),
        ] {
            *sum = sum.saturating_add(us);
        }
        let Spent {
            app,
            recovery,
            cwnd,
            pacing,
            queued,
        } = charged(new, before);
        for (sum, us) in [
            (&mut limits.app, app),
            (&mut limits.recovery, recovery),
            (&mut limits.cwnd, cwnd),
            (&mut limits.pacing, pacing),
            (&mut limits.queued, queued),
        ] {
            *sum = sum.saturating_add(u64::from(us));
        }
    }

    /// Time in a state.
    fn charge(&mut self, sample: &Sample, ns: u64) {
        self.sums.charged_ns = self.sums.charged_ns.saturating_add(ns);
        if let Some(rtt) = sample.rtt_us {
            self.sums.rtt.add(f64::from(rtt), ns);
        }
        if let Some(srtt) = sample.srtt_us {
            self.sums.srtt.add(f64::from(srtt), ns);
        }
        if let Some(CcState::Bbr(bbr)) = &sample.cc
            && let Some(phase) = bbr.phase
            && let Some(at) = PHASES.iter().position(|known| *known == phase)
        {
            let phase = &mut self.sums.phases[at];
            *phase = phase.saturating_add(ns);
        }
        self.point.inflight.add(sample.inflight_bytes() as f64, ns);
        if let Some(btlbw) = self.btlbw {
            self.point.btlbw.add(btlbw.bytes_per_s as f64, ns);
        }
    }

    /// Goes on to `time`, with `rise` bytes acknowledged evenly on the way.
    fn advance(&mut self, time: Mono, rise: f64) {
        let from = self.point.time;
        let ns = time.since(from);
        let done = |at: Mono| at.since(self.begin) / SECOND_NS;
        let (before, after) = (done(from), done(time));
        if after > before {
            let per_ns = if ns == 0 { 0.0 } else { rise / ns as f64 };
            let edge = |second: u64| self.begin.plus(second.saturating_mul(SECOND_NS));
            let first = edge(before + 1).since(from) as f64 * per_ns;
            self.seconds.push(self.second + first);
            if rise > 0.0 {
                for _ in before + 1..after {
                    self.seconds.push(SECOND_NS as f64 * per_ns);
                }
            } else {
                self.seconds.pass(after - before - 1);
            }
            self.second = time.since(edge(after)) as f64 * per_ns;
        } else {
            self.second += rise;
        }
        self.point.time = time.max(from);
        self.point.acked += rise;
        self.course.push(self.point);
    }

    pub fn retransmit(&mut self, time: Mono, retransmit: &Retransmit) {
        if time < self.begin {
            return;
        }
        let segments = u64::from(retransmit.segments);
        let kinds = self.sums.kinds.get_or_insert_default();
        if let Some(at) = KINDS.iter().position(|kind| *kind == retransmit.kind) {
            kinds[at] = kinds[at].saturating_add(segments);
        }
        if retransmit.failed {
            self.sums.failed = self.sums.failed.saturating_add(segments);
        }
    }

    pub fn burst(&mut self, burst: &Burst) {
        if burst.start < self.begin {
            return;
        }
        self.sums.bursts += 1;
        let at = self.bursts.partition_point(|b| b.start <= burst.start);
        self.bursts.insert(at, *burst);
        if self.bursts.len() > BURSTS {
            let least = (0..self.bursts.len()).min_by_key(|&at| self.bursts[at].sums.segments);
            self.bursts.remove(least.unwrap_or(0));
        }
    }

    pub fn gap(&mut self, missing: u64) {
        self.sums.gaps = self.sums.gaps.saturating_add(missing);
    }

    /// Nothing more comes, up to `end`.
    pub fn finish(&mut self, end: Mono) {
        if let Some((last, sample)) = self.sample.take() {
            let known = sample.clocks.is_some();
            self.hold(last, &sample, end);
            if known && end > self.begin {
                let ns = end.since(last.max(self.begin));
                self.limits.known_ns = self.limits.known_ns.saturating_add(ns);
            }
        }
    }
}

/// Whether counters of the two can be subtracted: of one origin, and none fell (a socket that was disconnected and
/// used again).
fn comparable(old: &Sample, new: &Sample) -> bool {
    let fell =
        |old: Option<u64>, new: Option<u64>| old.zip(new).is_some_and(|(old, new)| new < old);
    old.origin == new.origin
        && !fell(old.bytes_acked, new.bytes_acked)
        && !fell(old.bytes_sent, new.bytes_sent)
        && !fell(old.bytes_retrans, new.bytes_retrans)
}
