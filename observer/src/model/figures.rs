//! The derived figures of a flow (SPEC §3), all from one reading of the model.

use super::Model;
use super::flow::Flow;
use super::limit::{self, Evidence, LimitShares, LimitedBy};
use super::rates::Interval;
use crate::event::{CcState, Sample};
use crate::units::Mono;

/// The bottleneck's bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BtlBw {
    /// Bytes per second.
    pub bytes_per_s: u64,
    /// Not the algorithm's own: the largest non-app-limited delivery rate of 10 RTTs.
    pub estimated: bool,
}

/// What follows from a flow's readings, now. `None` = unknown; rates are bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Age of the newest reading, µs; of a closed flow at its end.
    pub sample_age_us: Option<u64>,
    /// What the rates were measured over, ns.
    pub measured_ns: Option<u64>,
    /// Bytes newly acknowledged ÷ time.
    pub throughput_bps: Option<u64>,
    /// Bytes received in order ÷ time: the other direction.
    pub received_bps: Option<u64>,
    /// Bytes retransmitted ÷ bytes sent over the window; `None` when nothing was sent in it.
    pub retrans_rate: Option<f64>,
    /// Segments retransmitted ÷ segments sent with data, over the same window.
    pub retrans_rate_segments: Option<f64>,
    /// Bytes retransmitted ÷ bytes sent since birth.
    pub retrans_rate_life: Option<f64>,
    pub inflight_segments: Option<u32>,
    pub inflight_bytes: Option<u64>,
    pub btlbw: Option<BtlBw>,
    /// BtlBw × the kernel's min RTT.
    pub bdp_bytes: Option<u64>,
    /// inflight ÷ BDP; where the path's rate was stated, ÷ (that × min RTT).
    pub bdp_fill: Option<f64>,
    /// throughput ÷ the path's rate, where that was stated.
    pub utilisation: Option<f64>,
    pub queueing_delay_us: Option<u32>,
    /// An app-limited bubble is in flight; where that is not told, the last rate sample was app-limited.
    pub app_limited: Option<bool>,
    pub limit_shares: Option<LimitShares>,
    pub limit: LimitedBy,
}

impl Model {
    /// The moment that `flow`'s figures are of: now, or its end.
    fn moment(&self, flow: &Flow) -> Mono {
        flow.closed_at().map_or(self.now, |end| end.min(self.now))
    }

    /// What happened to `flow` over the last window: rates are made from this.
    pub fn interval(&self, flow: &Flow) -> Option<Interval> {
        flow.readings.over(self.window, self.moment(flow))
    }

    /// Bits newly acknowledged per second, over the window. Part of [`Model::figures`], alone for sorting.
    pub fn throughput_bps(&self, flow: &Flow) -> Option<u64> {
        let interval = self.interval(flow)?;
        Some(interval.bps(interval.acked?))
    }

    /// Until when `flow`'s figures stay as they are unless an event of it comes; `Mono::default()` = they change at
    /// every moment, because it is silent.
    pub fn figures_hold_until(&self, flow: &Flow) -> Mono {
        const EVER: Mono = Mono(u64::MAX);
        if flow.is_closed() {
            return EVER;
        }
        let now = self.now;
        let hz = self.host().and_then(|host| host.hz);
        let srtt_us = flow.sample().and_then(|s| s.srtt_us);
        let span = limit::span(self.window, srtt_us, hz);
        let Some(silent) = flow.readings.holds(span, now) else {
            return Mono::default();
        };
        let turns = limit::turns(flow)
            .into_iter()
            .chain([flow.max_rate.expires()]);
        let ahead = turns.flatten().filter(|turn| *turn >= now);
        ahead.fold(silent, Mono::min)
    }

    /// BBR's own estimate, or the windowed maximum of delivery rates.
    pub fn btlbw(&self, flow: &Flow) -> Option<BtlBw> {
        BtlBw::own(flow.sample()?).or_else(|| {
            let rate = flow.max_rate.get(self.moment(flow))?;
            Some(BtlBw::estimate(rate))
        })
    }

    /// Everything derived of `flow`.
    pub fn figures(&self, flow: &Flow) -> Figures {
        let now = self.moment(flow);
        let interval = self.interval(flow);
        let btlbw = self.btlbw(flow);
        let inflight_bytes = flow.inflight_bytes();
        let bdp_bytes = btlbw.and_then(|bw| bw.bdp(flow.sample()?));
        let bdp_fill = fill(inflight_bytes, bdp_bytes);
        let throughput_bps = interval.and_then(|i| Some(i.bps(i.acked?)));
        let hz = self.hz;
        let limit_shares = limit::shares(flow, self.window, hz, now);
        let evidence = Evidence {
            shares: limit_shares,
            throughput_bps,
            bdp_fill,
        };
        let pipe = pipe(self.path_rate_bps, bdp_bytes, flow.sample());
        Figures {
            sample_age_us: flow.sampled_at().map(|at| now.since(at) / 1000),
            measured_ns: interval.map(|i| i.ns),
            throughput_bps,
            received_bps: interval.and_then(|i| Some(i.bps(i.received?))),
            retrans_rate: interval.and_then(|i| i.retrans_rate()),
            retrans_rate_segments: interval.and_then(|i| i.retrans_rate_segments()),
            retrans_rate_life: flow.retrans_rate_life(),
            inflight_segments: flow.inflight_segments(),
            inflight_bytes,
            btlbw,
            bdp_bytes,
            bdp_fill: fill(inflight_bytes, pipe),
            utilisation: throughput_bps
                .zip(self.path_rate_bps)
                .and_then(|(bps, of)| super::rates::ratio(bps, of)),
            queueing_delay_us: flow.queueing_delay_us(),
            app_limited: flow.sample().and_then(Sample::is_app_limited),
            limit_shares,
            limit: limit::decide(flow, now, evidence),
        }
    }
}

impl BtlBw {
    /// What the algorithm says of itself.
    fn own(sample: &Sample) -> Option<Self> {
        match &sample.cc {
            Some(CcState::Bbr(bbr)) => Some(Self {
                bytes_per_s: bbr.btlbw?,
                estimated: false,
            }),
            _ => None,
        }
    }

    fn estimate(bytes_per_s: u64) -> Self {
        Self {
            bytes_per_s,
            estimated: true,
        }
    }

    /// With the kernel's min RTT.
    fn bdp(self, sample: &Sample) -> Option<u64> {
        Some(bdp(self.bytes_per_s, sample.min_rtt_us?))
    }
}

/// What the pipe holds: by the stated rate, else the BDP.
fn pipe(rate_bps: Option<u64>, bdp_bytes: Option<u64>, sample: Option<&Sample>) -> Option<u64> {
    match rate_bps {
        Some(bps) => Some(bdp(bps / 8, sample?.min_rtt_us?)),
        None => bdp_bytes,
    }
}

fn fill(inflight_bytes: Option<u64>, bdp_bytes: Option<u64>) -> Option<f64> {
    super::rates::ratio(inflight_bytes?, bdp_bytes?)
}

impl Figures {
    /// Of one polled reading alone, without a model: what takes two (rates, shares, how long it was quiet) is unknown.
    pub fn of_one(sample: &Sample, path_rate_bps: Option<u64>) -> Self {
        let btlbw = BtlBw::own(sample).or_else(|| {
            let rate = sample.delivery_rate.filter(|_| !sample.rate_app_limited)?;
            Some(BtlBw::estimate(rate))
        });
        let inflight_bytes = Some(sample.inflight_bytes());
        let bdp_bytes = btlbw.and_then(|bw| bw.bdp(sample));
        let life = sample.bytes_retrans.zip(sample.bytes_sent);
        Self {
            sample_age_us: Some(0),
            retrans_rate_life: life.and_then(|(again, sent)| super::rates::ratio(again, sent)),
            inflight_segments: Some(sample.inflight_segments()),
            inflight_bytes,
            btlbw,
            bdp_bytes,
            bdp_fill: fill(inflight_bytes, pipe(path_rate_bps, bdp_bytes, Some(sample))),
            queueing_delay_us: sample
                .srtt_us
                .zip(sample.min_rtt_us)
                .map(|(srtt, min)| srtt.saturating_sub(min)),
            app_limited: sample.is_app_limited(),
            limit: limit::of_one(sample),
            ..Self::default()
        }
    }
}

/// Bytes: rate (bytes per second) × time (µs).
pub(super) fn bdp(bytes_per_s: u64, us: u32) -> u64 {
    // 128 bits are divided by a loop.
    if let Some(product) = bytes_per_s.checked_mul(u64::from(us)) {
        return product / 1_000_000;
    }
    let bytes = u128::from(bytes_per_s) * u128::from(us) / 1_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
