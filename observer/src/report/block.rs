//! The report block: every figure of SPEC §3 with its key of SPEC §4.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Options;
use super::flow::{FlowFold, Limits, PHASES, Sums};
use crate::event::{KINDS, Phase, retransmit_kind};
use crate::export::jsonl::{Context, Time};
use crate::model::{Burst, shortest};
use crate::units::{Mono, bits};

/// Figures of a flow, or of all. `None` = unknown. Rates are bits per second.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Block {
    pub start: Time,
    pub start_mono_ns: u64,
    pub end: Time,
    pub end_mono_ns: u64,
    pub duration_s: f64,
    /// Of a total: of all flows.
    pub observed_from_start: bool,
    pub omitted_s: f64,
    pub bytes_acked: Option<u64>,
    pub throughput_bps: Option<u64>,
    pub second_half_throughput_bps: Option<u64>,
    /// Only where the path's rate was stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
    pub bytes_sent: Option<u64>,
    pub bytes_retrans: Option<u64>,
    pub retrans_rate: Option<f64>,
    pub retrans_rate_segments: Option<f64>,
    pub retrans_segments: Option<u64>,
    pub data_segs_out: Option<u64>,
    pub retrans_by_kind: Kinds,
    pub retrans_failed: Option<u64>,
    pub phase_share: BTreeMap<&'static str, f64>,
    pub mean_rtt_us: Option<u64>,
    pub mean_srtt_us: Option<u64>,
    pub p50_rtt_us: Option<u64>,
    pub p95_rtt_us: Option<u64>,
    pub rtt_jitter_us: Option<u64>,
    pub rtt_stddev_us: Option<u64>,
    /// RTTs that jitter and percentiles are made of.
    pub rtt_samples: u64,
    /// Mean time between these, pauses left out.
    pub rtt_sample_interval_us: Option<u64>,
    pub throughput_jitter_bps: Option<u64>,
    pub min_rtt_us: Option<u32>,
    pub bbr_min_rtt_us: Option<u32>,
    pub queueing_delay_us: Option<u64>,
    pub btlbw_bps: Option<u64>,
    pub btlbw_estimated: Option<bool>,
    pub bdp_bytes: Option<u64>,
    pub peak_inflight_bytes: Option<u64>,
    pub mean_inflight_bytes: Option<u64>,
    pub bdp_fill_peak: Option<f64>,
    pub bdp_fill_mean: Option<f64>,
    pub cwnd_peak: Option<u32>,
    pub limited_by: Option<LimitedBy>,
    pub gaps: u64,
    pub bursts: u64,
    pub timeline: Vec<Timeline>,
}

/// Segments by kind; `spurious` are among them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Kinds {
    pub fast: Option<u64>,
    pub rto: Option<u64>,
    pub slow_start: Option<u64>,
    pub tlp: Option<u64>,
    pub syn: Option<u64>,
    pub synack: Option<u64>,
    pub other: Option<u64>,
    /// Told by the receiver to have been superfluous (DSACK).
    pub spurious: Option<u64>,
}

impl Kinds {
    fn of(sums: &Sums) -> Self {
        let [fast, rto, slow_start, tlp, syn, synack, other] = match sums.kinds {
            Some(kinds) => kinds.map(Some),
            None => [None; KINDS.len()],
        };
        Self {
            fast,
            rto,
            slow_start,
            tlp,
            syn,
            synack,
            other,
            spurious: sums.dsack.get(),
        }
    }

    /// Names and numbers in the order of SPEC §4.
    pub fn named(&self) -> [(&'static str, Option<u64>); 8] {
        let numbers = [
            self.fast,
            self.rto,
            self.slow_start,
            self.tlp,
            self.syn,
            self.synack,
            self.other,
        ];
        let mut named = [("spurious", self.spurious); 8];
        for (at, (kind, number)) in KINDS.into_iter().zip(numbers).enumerate() {
            named[at] = (retransmit_kind(kind), number);
        }
        named
    }
}

/// Shares of the time, as `limit_shares` of the flow object.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LimitedBy {
    pub idle: f64,
    pub app: f64,
    pub rwnd: f64,
    pub sndbuf: f64,
    pub pacing: f64,
    pub cwnd: f64,
    pub recovery: f64,
    pub queued: f64,
}

impl LimitedBy {
    /// Names and shares in the order of SPEC §4.
    pub fn named(&self) -> [(&'static str, f64); 8] {
        [
            ("idle", self.idle),
            ("app", self.app),
            ("rwnd", self.rwnd),
            ("sndbuf", self.sndbuf),
            ("pacing", self.pacing),
            ("cwnd", self.cwnd),
            ("recovery", self.recovery),
            ("queued", self.queued),
        ]
    }

    /// The clocks tick in jiffies: nothing is told of a time under 25 of them (TRAPS 35).
    fn of(limits: &Limits, hz: Option<u32>) -> Option<Self> {
        if limits.known_ns < shortest(hz) {
            return None;
        }
        let share = |us: u64| (us as f64 * 1000.0 / limits.known_ns as f64).min(1.0);
        let idle = 1.0 - share(limits.busy);
        Some(Self {
            idle,
            app: (idle + share(limits.app)).min(1.0),
            rwnd: share(limits.rwnd),
            sndbuf: share(limits.sndbuf),
            pacing: share(limits.pacing),
            cwnd: share(limits.cwnd),
            recovery: share(limits.recovery),
            queued: share(limits.queued),
        })
    }
}

/// A retransmit burst.
#[derive(Clone, Debug, Serialize)]
pub struct Timeline {
    pub r#type: &'static str,
    pub start: Time,
    pub start_mono_ns: u64,
    pub end: Time,
    pub end_mono_ns: u64,
    /// From the block's start.
    pub after_s: f64,
    pub segments: u64,
    pub bytes: u64,
    pub by_kind: BTreeMap<&'static str, u32>,
    pub failed: u64,
    pub rtt_above_min_us: Option<u32>,
}

impl Timeline {
    fn of(burst: &Burst, start: Mono, context: &Context) -> Self {
        let kinds = burst.sums.kinds();
        Self {
            r#type: "burst",
            start: context.time(burst.start),
            start_mono_ns: burst.start.0,
            end: context.time(burst.end),
            end_mono_ns: burst.end.0,
            after_s: seconds(burst.start.since(start)),
            segments: burst.sums.segments,
            bytes: burst.sums.bytes,
            by_kind: kinds
                .map(|(kind, segments)| (retransmit_kind(kind), segments))
                .collect(),
            failed: burst.sums.failed,
            rtt_above_min_us: burst.rtt_above_min_us,
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Bytes in a time as bits per second.
fn bps(bytes: f64, ns: u64) -> Option<u64> {
    (ns > 0).then(|| (bytes * 8e9 / ns as f64).round() as u64)
}

fn round(value: Option<f64>) -> Option<u64> {
    value.map(|value| value.round() as u64)
}

fn ratio(part: Option<u64>, whole: Option<u64>) -> Option<f64> {
    let (part, whole) = (part?, whole.filter(|whole| *whole > 0)?);
    Some(part as f64 / whole as f64)
}

/// Bits per second × µs, in bytes.
fn bdp(bps: u64, us: u32) -> u64 {
    let bytes = u128::from(bps) * u128::from(us) / 8_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl Block {
    /// What can be added up, over a time.
    pub fn of_sums(
        sums: &Sums,
        (start, end): (Mono, Mono),
        options: Options,
        context: &Context,
    ) -> Self {
        let ns = end.since(start);
        let acked = sums.acked.get();
        let throughput_bps = acked.and_then(|acked| bps(acked as f64, ns));
        let mean_srtt_us = round(sums.srtt.mean());
        let rtts = &sums.rtts;
        Self {
            start: context.time(start),
            start_mono_ns: start.0,
            end: context.time(end),
            end_mono_ns: end.0,
            duration_s: seconds(ns),
            omitted_s: seconds(options.omit_ns),
            bytes_acked: acked,
            throughput_bps,
            utilisation: ratio(throughput_bps, options.path_rate_bps),
            bytes_sent: sums.sent.get(),
            bytes_retrans: sums.retrans_bytes.get(),
            retrans_rate: ratio(sums.retrans_bytes.get(), sums.sent.get()),
            retrans_rate_segments: ratio(sums.retrans_segments.get(), sums.data_segments.get()),
            retrans_segments: sums.retrans_segments.get(),
            data_segs_out: sums.data_segments.get(),
            retrans_by_kind: Kinds::of(sums),
            retrans_failed: sums.kinds.map(|_| sums.failed),
            phase_share: phase_share(sums),
            mean_rtt_us: round(sums.rtt.mean()),
            mean_srtt_us,
            p50_rtt_us: rtts.quantile_us(0.5),
            p95_rtt_us: rtts.quantile_us(0.95),
            rtt_jitter_us: round(rtts.jitter_us()),
            rtt_stddev_us: round(rtts.deviation_us()),
            rtt_samples: rtts.count(),
            rtt_sample_interval_us: rtts.pace_ns().map(|ns| ns / 1000),
            min_rtt_us: sums.min_rtt_us,
            bbr_min_rtt_us: sums.bbr_min_rtt_us,
            queueing_delay_us: mean_srtt_us
                .zip(sums.min_rtt_us)
                .map(|(srtt, min)| srtt.saturating_sub(u64::from(min))),
            gaps: sums.gaps,
            bursts: sums.bursts,
            ..Self::default()
        }
    }

    /// Of a flow that is over at `end`.
    pub fn of_flow(
        flow: &FlowFold,
        end: Mono,
        hz: Option<u32>,
        options: Options,
        context: &Context,
    ) -> Self {
        let ns = end.since(flow.begin);
        let half = ns - ns / 2;
        let steady = flow.course.since(flow.begin.plus(ns / 2));
        let passed = (ns / 2).div_ceil(1_000_000_000);
        let deviation = flow.seconds.after(passed).deviation_bps();
        let known = flow.sums.acked.get().is_some();
        let btlbw = round(steady.and_then(|steady| steady.btlbw.mean())).map(bits);
        let inflight = round(steady.and_then(|steady| steady.inflight.mean()));
        let min = flow.sums.min_rtt_us;
        // With a stated rate the pipe is as wide as that.
        let bdp_bytes = btlbw.zip(min).map(|(bps, us)| bdp(bps, us));
        let pipe = match options.path_rate_bps {
            Some(rate) => min.map(|us| bdp(rate, us)),
            None => bdp_bytes,
        };
        let timeline = flow.bursts.iter();
        Self {
            observed_from_start: flow.from_start,
            second_half_throughput_bps: steady
                .filter(|_| known)
                .and_then(|steady| bps(steady.acked, half)),
            throughput_jitter_bps: round(deviation.filter(|_| known)),
            btlbw_bps: btlbw,
            btlbw_estimated: flow.btlbw_estimated.filter(|_| btlbw.is_some()),
            bdp_bytes,
            peak_inflight_bytes: flow.inflight_peak,
            mean_inflight_bytes: inflight,
            bdp_fill_peak: ratio(flow.inflight_peak, pipe),
            bdp_fill_mean: ratio(inflight, pipe),
            cwnd_peak: flow.cwnd_peak,
            limited_by: LimitedBy::of(&flow.limits, hz),
            timeline: timeline
                .map(|burst| Timeline::of(burst, flow.begin, context))
                .collect(),
            ..Self::of_sums(&flow.sums, (flow.begin, end), options, context)
        }
    }
}

/// Of all the time: a flow that had another algorithm for a while has less than 1 together.
fn phase_share(sums: &Sums) -> BTreeMap<&'static str, f64> {
    let told = sums.phases.iter().any(|ns| *ns > 0);
    let share = |ns: u64| ns as f64 / sums.charged_ns as f64;
    PHASES
        .iter()
        .zip(sums.phases)
        .filter(|_| told)
        .map(|(phase, ns)| (Phase::as_str(*phase), share(ns)))
        .collect()
}
