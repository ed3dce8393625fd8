//! What holds a flow back: shares of the last window, and the decision made from them (DETECTION §1 d).
//!
//! Without hysteresis: it is what the last window says. Where the samples do not carry what a step of the decision
//! needs, the answer is `unknown`.

use super::flow::Flow;
use super::rates::{Interval, Spent};
use crate::event::{CcState, LimitClocks, Phase, Sample, TcpState};
use crate::units::{Limit, Mono};

/// The clocks tick in jiffies: no share from a window under so many (TRAPS 35).
pub(super) const JIFFIES: u64 = 25;
/// Where HZ is not known, the slowest usual one (100) is assumed.
pub(super) const SHORTEST_UNKNOWN_HZ_NS: u64 = 250_000_000;
/// The shares are over at least this many RTTs (DETECTION §1 d) …
const RTTS: u64 = 8;
/// … but over no more than this, so that a satellite's flow shows a change in time.
const LONGEST_NS: u64 = 5_000_000_000;

/// SPEC §4, `limit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitedBy {
    /// Nothing sent and nothing to send.
    Idle,
    /// The application gives no data.
    App,
    /// The peer's receive window.
    Rwnd,
    /// The send buffer.
    Sndbuf,
    /// The pacing rate.
    Pacing,
    /// The congestion window.
    Cwnd,
    /// Recovery, and windows cut by losses.
    Loss,
    /// The path's bottleneck: a queue stands, or the model's bandwidth is reached.
    Path,
    /// Not enough is known.
    #[default]
    Unknown,
}

impl LimitedBy {
    /// The word of SPEC §4.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::App => "app",
            Self::Rwnd => "rwnd",
            Self::Sndbuf => "sndbuf",
            Self::Pacing => "pacing",
            Self::Cwnd => "cwnd",
            Self::Loss => "loss",
            Self::Path => "path",
            Self::Unknown => "unknown",
        }
    }
}

/// Shares of a window's time, 0 to 1. They overlap; all but `idle` and its part of `app` are of the time in which the
/// flow was busy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitShares {
    /// Length of the window, ns.
    pub window_ns: u64,
    /// Nothing to send and nothing outstanding (1 − busy).
    pub idle: f64,
    /// Idle, or an app-limited bubble in flight that the send buffer did not cause.
    pub app: f64,
    pub rwnd: f64,
    pub sndbuf: f64,
    /// The congestion window was full.
    pub cwnd: f64,
    /// Data was waiting and no window held it back.
    pub pacing: f64,
    /// Recovery or Loss.
    pub recovery: f64,
    /// The RTT was clearly above the minimum.
    pub queued: f64,
}

impl LimitShares {
    fn of(interval: &Interval) -> Option<Self> {
        let [busy, rwnd, sndbuf] = interval.clocks?;
        let share = |us: u32| (f64::from(us) * 1000.0 / interval.ns as f64).min(1.0);
        let Spent {
            app,
            recovery,
            cwnd,
            pacing,
            queued,
        } = interval.spent;
        let idle = 1.0 - share(busy);
        Some(Self {
            window_ns: interval.ns,
            idle,
            app: (idle + share(app)).min(1.0),
            rwnd: share(rwnd),
            sndbuf: share(sndbuf),
            cwnd: share(cwnd),
            pacing: share(pacing),
            recovery: share(recovery),
            queued: share(queued),
        })
    }
}

/// The shortest time that the clocks allow to speak of, ns.
pub fn shortest(hz: Option<u32>) -> u64 {
    match hz {
        Some(hz) if hz > 0 => JIFFIES * 1_000_000_000 / u64::from(hz),
        _ => SHORTEST_UNKNOWN_HZ_NS,
    }
}

/// The window of the shares, ns: `window`, 8 RTTs (within bounds), 25 jiffies.
pub(super) fn span(window: u64, srtt_us: Option<u32>, hz: Option<u32>) -> u64 {
    let rtts = u64::from(srtt_us.unwrap_or(0)) * 1000 * RTTS;
    window.max(rtts.min(LONGEST_NS)).max(shortest(hz))
}

/// Shares of the last window, when enough of it was seen.
pub(super) fn shares(flow: &Flow, window: u64, hz: Option<u32>, now: Mono) -> Option<LimitShares> {
    let srtt = flow.sample().and_then(|s| s.srtt_us);
    let interval = flow.readings.over(span(window, srtt, hz), now)?;
    if interval.ns < shortest(hz) {
        return None;
    }
    LimitShares::of(&interval)
}

/// Fewer free segments than these count as a full window.
const CWND_SLACK: u32 = 2;

fn cwnd_full(sample: &Sample) -> bool {
    let inflight = sample.inflight_segments();
    let full = |cwnd: u32| inflight >= cwnd - CWND_SLACK.min(cwnd / 2);
    inflight > 0 && (sample.cwnd_limited == Some(true) || sample.cwnd.is_some_and(full))
}

/// Data waits although neither window is full.
fn pacing_waits(sample: &Sample) -> bool {
    let unsent = sample.notsent_bytes.unwrap_or(0);
    let flying = sample.inflight_bytes();
    let open = sample
        .snd_wnd_bytes
        .is_none_or(|wnd| flying + u64::from(sample.mss) <= u64::from(wnd));
    sample.mss > 0 && unsent >= sample.mss && open && !cwnd_full(sample)
}

/// The RTT stands at least 2 ms and a tenth above the minimum.
fn queued(sample: &Sample) -> bool {
    let rtt = sample.rtt_us.or(sample.srtt_us);
    rtt.zip(sample.min_rtt_us)
        .is_some_and(|(rtt, min)| rtt.saturating_sub(min) >= 2000.max(min / 10))
}

/// Charges the time in which the flow was busy between two samples with the newer one's state: at an ACK that is the
/// state which has held since the ACK before (TRAPS 33).
///
/// The clocks stand still between jiffies (TRAPS 35): a sample that sees them move is charged with all of it, so that
/// samples closer than a jiffy sum up to the same.
pub(super) fn spend(spent: &mut Spent, sample: &Sample, before: Option<LimitClocks>) {
    let Some((new, old)) = sample.clocks.zip(before) else {
        return;
    };
    let busy = new.busy_us.saturating_sub(old.busy_us);
    let sndbuf = new.sndbuf_limited_us.saturating_sub(old.sndbuf_limited_us);
    let charge = |counter: &mut u32, condition: bool, us: u64| {
        if condition {
            *counter = counter.wrapping_add(us as u32);
        }
    };
    let app = sample.app_limited.unwrap_or(sample.rate_app_limited);
    charge(&mut spent.app, app, busy.saturating_sub(sndbuf));
    charge(&mut spent.recovery, in_recovery(sample), busy);
    charge(&mut spent.cwnd, cwnd_full(sample), busy);
    charge(&mut spent.pacing, pacing_waits(sample), busy);
    charge(&mut spent.queued, queued(sample), busy);
}

/// What [`spend`] charges for one sample.
pub fn charged(sample: &Sample, before: LimitClocks) -> Spent {
    let mut spent = Spent::default();
    spend(&mut spent, sample, Some(before));
    spent
}

fn in_recovery(sample: &Sample) -> bool {
    use crate::event::CaState::{Loss, Recovery};
    matches!(sample.ca_state, Recovery | Loss)
}

/// What the decision rests on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    pub shares: Option<LimitShares>,
    pub throughput_bps: Option<u64>,
    pub bdp_fill: Option<f64>,
}

/// What one reading tells by itself: whether the receiver's window is shut.
pub(super) fn of_one(sample: &Sample) -> LimitedBy {
    let waiting = sample.notsent_bytes.unwrap_or(0) > 0;
    let outstanding = sample.packets_out > 0;
    let sends = matches!(
        sample.state,
        TcpState::Established
            | TcpState::CloseWait
            | TcpState::FinWait1
            | TcpState::LastAck
            | TcpState::Closing
    );
    let shut = sample
        .snd_wnd_bytes
        .is_some_and(|wnd| u64::from(wnd) < 2 * u64::from(sample.mss));
    if sends && shut && (waiting || outstanding) {
        LimitedBy::Rwnd
    } else {
        LimitedBy::Unknown
    }
}

/// DETECTION §1 d, in its order.
pub(super) fn decide(flow: &Flow, now: Mono, evidence: Evidence) -> LimitedBy {
    let Some(sample) = flow.sample() else {
        return LimitedBy::Unknown;
    };
    let waiting = sample.notsent_bytes.unwrap_or(0) > 0;
    let outstanding = sample.packets_out > 0;
    let srtt_ns = u64::from(sample.srtt_us.unwrap_or(0)) * 1000;
    let quiet = flow
        .quiet_since()
        .is_some_and(|since| now.since(since) > quiet_ns(srtt_ns));
    if quiet && !outstanding && !waiting {
        return LimitedBy::Idle;
    }
    let first = of_one(sample);
    if first != LimitedBy::Unknown {
        return first;
    }
    let Some(shares) = evidence.shares else {
        return LimitedBy::Unknown;
    };
    if shares.rwnd >= 0.3 && !starting(flow, now, srtt_ns) {
        return LimitedBy::Rwnd;
    }
    let lowat = flow.attributes().is_some_and(|a| a.notsent_lowat.is_some());
    if shares.sndbuf >= if lowat { 0.1 } else { 0.3 } {
        return LimitedBy::Sndbuf;
    }
    if shares.app >= 0.5 {
        return LimitedBy::App;
    }
    network(flow, sample, now, &shares, evidence)
}

/// Nothing was sent for longer: idle.
fn quiet_ns(srtt_ns: u64) -> u64 {
    1_000_000_000.max(4 * srtt_ns)
}

/// The last moments at which the decision is what it is by the flow's age, its silence and its last cut.
pub(super) fn turns(flow: &Flow) -> [Option<Mono>; 3] {
    let srtt_us = flow.sample().and_then(|s| s.srtt_us);
    let srtt_ns = u64::from(srtt_us.unwrap_or(0)) * 1000;
    let started = flow.from_start().then(|| {
        let age = 1_000_000_000.min(10 * srtt_ns);
        flow.opened_at().plus(age.saturating_sub(1))
    });
    [
        started,
        flow.quiet_since().map(|at| at.plus(quiet_ns(srtt_ns))),
        flow.cut_at().map(|at| at.plus(10 * srtt_ns)),
    ]
}

/// Receive windows grow in the first RTTs: no verdict from them before a second.
fn starting(flow: &Flow, now: Mono, srtt_ns: u64) -> bool {
    let age = now.since(flow.opened_at());
    flow.from_start() && age < 1_000_000_000 && age < 10 * srtt_ns
}

/// The network's side: busy, and neither the application nor a buffer is to blame.
fn network(
    flow: &Flow,
    sample: &Sample,
    now: Mono,
    shares: &LimitShares,
    evidence: Evidence,
) -> LimitedBy {
    // Where the kernel does not say whether the application is to blame, only a full window or waiting data does.
    if sample.app_limited.is_none() && shares.cwnd + shares.pacing < 0.5 {
        return LimitedBy::Unknown;
    }
    if shares.queued > 0.5 || bbr_at_bandwidth(sample, evidence.throughput_bps) {
        return LimitedBy::Path;
    }
    let ten_rtts = u64::from(sample.srtt_us.unwrap_or(0)) * 1000 * 10;
    let cut = flow.cut_at().is_some_and(|at| now.since(at) <= ten_rtts);
    if shares.recovery >= 0.1 || (cut && evidence.bdp_fill.is_some_and(|fill| fill < 0.8)) {
        return LimitedBy::Loss;
    }
    let paced = matches!(sample.pacing_rate, Some(Limit::Finite(_)));
    if shares.pacing > shares.cwnd && paced {
        LimitedBy::Pacing
    } else if shares.cwnd >= 0.1 {
        LimitedBy::Cwnd
    } else {
        LimitedBy::Unknown
    }
}

/// BBR probes for bandwidth, has filled the pipe, and delivers what its model says.
fn bbr_at_bandwidth(sample: &Sample, throughput_bps: Option<u64>) -> bool {
    let Some(CcState::Bbr(bbr)) = &sample.cc else {
        return false;
    };
    bbr.phase == Some(Phase::ProbeBw)
        && bbr.full_bw_reached == Some(true)
        && throughput_bps
            .zip(bbr.btlbw)
            .is_some_and(|(bps, bw)| bw > 0 && bps as f64 / 8.0 >= 0.85 * bw as f64)
}
