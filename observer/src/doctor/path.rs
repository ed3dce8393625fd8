//! One flow with all that is judged of it at hand, and what follows from its path: rate, RTT, BDP, ceilings.

use super::watch::{Baseline, Seen};
use crate::event::{Attributes, Device, Host, Sample};
use crate::model::{Figures, Flow, LimitShares, Model};
use crate::units::bits;

/// A receiver's estimate counts in ticks of the timestamps, 1 ms, rounded up: shorter ones are taken from the handshake.
const FINE_RCV_RTT_US: u64 = 10_000;

/// A flow and its path.
pub(super) struct Path<'a> {
    pub flow: &'a Flow,
    pub sample: &'a Sample,
    pub attributes: Option<&'a Attributes>,
    pub figures: Figures,
    pub device: Option<&'a Device>,
    pub seen: &'a Seen,
    host: Option<&'a Host>,
    path_rate_bps: Option<u64>,
}

impl<'a> Path<'a> {
    /// `None` before anything was read of the flow.
    pub fn new(
        model: &'a Model,
        flow: &'a Flow,
        seen: &'a Seen,
        path_rate_bps: Option<u64>,
    ) -> Option<Self> {
        let netns = flow.id().netns;
        Some(Self {
            flow,
            sample: flow.sample()?,
            attributes: flow.attributes(),
            figures: model.figures(flow),
            device: model.device_of(flow),
            seen,
            host: model.hosts().get(&netns).or_else(|| model.host()),
            path_rate_bps,
        })
    }

    pub fn name(&self) -> String {
        format!("{} → {}", self.flow.local(), self.flow.remote())
    }

    pub fn cc(&self) -> &str {
        self.attributes.map_or("", |a| a.cc_name.as_str())
    }

    pub fn is_bbr(&self) -> bool {
        self.cc().starts_with("bbr")
    }

    pub fn shares(&self) -> Option<LimitShares> {
        self.figures.limit_shares
    }

    /// It sends more than it receives.
    pub fn sends(&self) -> bool {
        self.seen.acked() >= self.seen.received()
    }

    pub fn sysctl(&self, name: &str) -> Option<&str> {
        self.host?.sysctls.get(name)?.as_deref()
    }

    /// `(6, 18)` of `6.18.0-foo`.
    pub fn kernel(&self) -> Option<(u32, u32)> {
        let mut numbers = self.host?.kernel.split(['.', '-']);
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }

    /// The `at`th word of a setting of several, such as the third of `tcp_wmem`.
    pub fn sysctl_word(&self, name: &str, at: usize) -> Option<u64> {
        self.sysctl(name)?.split(' ').nth(at)?.parse().ok()
    }

    /// The RTT that windows are divided by, µs: the mean of what was seen; least RTT where nothing was.
    pub fn rtt_us(&self) -> Option<u64> {
        let sent = self.seen.srtt_us.mean().filter(|us| *us > 0);
        let seen = match self.rcv_rtt_us() {
            Some(received) if received < FINE_RCV_RTT_US => {
                Some(sent.unwrap_or(received).min(received))
            }
            Some(received) => Some(received),
            None => sent,
        };
        seen.or(self.sample.min_rtt_us.map(u64::from))
            .filter(|us| *us > 0)
    }

    /// The receiver's estimate, where the flow receives.
    fn rcv_rtt_us(&self) -> Option<u64> {
        let received = || self.seen.rcv_rtt_us.mean().filter(|us| *us > 0);
        if self.sends() { None } else { received() }
    }

    /// What the path is known to carry, bits per second: what the user says, else the model's bandwidth.
    pub fn rate_bps(&self) -> Option<u64> {
        let model = self.figures.btlbw.map(|bw| bits(bw.bytes_per_s));
        self.path_rate_bps.or(model).filter(|rate| *rate > 0)
    }

    /// The same where somebody told it: a flow's own bandwidth is no more than what held it back.
    pub fn told_bps(&self) -> Option<u64> {
        self.path_rate_bps
    }

    /// Rate × least RTT, bytes.
    pub fn bdp(&self) -> Option<u64> {
        let rtt = u128::from(self.sample.min_rtt_us.filter(|us| *us > 0)?);
        let bytes = u128::from(self.rate_bps()?) * rtt / 8_000_000;
        u64::try_from(bytes).ok()
    }

    /// What a window of so many bytes lets through, bits per second.
    pub fn through(&self, window: u64) -> Option<u64> {
        let bps = u128::from(window) * 8_000_000 / u128::from(self.rtt_us()?);
        u64::try_from(bps).ok()
    }

    pub fn baseline(&self) -> Baseline {
        let version = self.attributes.and_then(|a| a.cc_version.as_deref());
        let cc = match version {
            Some(version) => format!("{}/{version}", self.cc()),
            None => self.cc().to_owned(),
        };
        Baseline {
            flow: self.flow.id().to_string(),
            local: self.flow.local().to_string(),
            remote: self.flow.remote().to_string(),
            cc: Some(cc).filter(|cc| !cc.is_empty()),
            dev: self.device.map(|device| device.name.clone()),
            srtt_us: self.seen.srtt_us.mean(),
            rcv_rtt_us: self.rcv_rtt_us(),
            min_rtt_us: self.sample.min_rtt_us,
            retrans_rate: self.seen.retrans_rate(),
            throughput_bps: self.figures.throughput_bps,
            received_bps: self.figures.received_bps,
            btlbw_bps: self.figures.btlbw.map(|bw| bits(bw.bytes_per_s)),
            bdp_bytes: self.bdp(),
            limit: self.figures.limit.as_str(),
        }
    }
}
