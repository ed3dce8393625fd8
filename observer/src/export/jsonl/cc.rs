//! The `cc` object.

use serde::Serialize;

use super::{Bound, bps};
use crate::event::{Attributes, Bbr, CcState, Phase, Sample, SubPhase};
use crate::export::table::fields;
use crate::units::bits;

/// Keys of SPEC §4 always, further ones where the algorithm has them.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct CcKeys<'a> {
    name: Option<&'a str>,
    version: Option<&'a str>,
    phase: Option<&'static str>,
    sub_phase: Option<&'static str>,
    btlbw_bps: Option<u64>,
    min_rtt_us: Option<u32>,
    pacing_gain: Option<f64>,
    cwnd_gain: Option<f64>,
    lt_bw_bps: Option<u64>,
    inflight_hi: Option<Bound<u32>>,
    inflight_lo: Option<Bound<u32>>,
    bw_hi_bps: Option<Bound<u64>>,
    bw_lo_bps: Option<Bound<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    full_bw_reached: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lt_use_bw: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_acked: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_max_cwnd: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_cwnd: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin_point: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_min_us: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hystart_found: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alpha: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ce_state: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss_cwnd: Option<u32>,
}

fields!(CcKeys<'_>: name, version, phase, sub_phase, btlbw_bps, min_rtt_us, pacing_gain, cwnd_gain, lt_bw_bps, inflight_hi, inflight_lo, bw_hi_bps, bw_lo_bps, module, full_bw_reached, lt_use_bw, extra_acked, last_max_cwnd, last_cwnd, origin_point, k, delay_min_us, hystart_found, alpha, ce_state, loss_cwnd);

fn gain(in_256ths: Option<u32>) -> Option<f64> {
    in_256ths.map(|gain| f64::from(gain) / 256.0)
}

impl<'a> CcKeys<'a> {
    pub fn of(attributes: Option<&'a Attributes>, sample: Option<&Sample>) -> Self {
        let mut keys = Self {
            name: attributes
                .map(|a| a.cc_name.as_str())
                .filter(|name| !name.is_empty()),
            version: attributes.and_then(|a| a.cc_version.as_deref()),
            module: attributes.and_then(|a| a.cc_module.as_deref()),
            ..Self::default()
        };
        match sample.and_then(|s| s.cc.as_ref()) {
            None => {}
            Some(CcState::Bbr(bbr)) => keys.set_bbr(bbr),
            Some(CcState::Cubic(cubic)) => {
                keys.last_max_cwnd = cubic.last_max_cwnd;
                keys.last_cwnd = cubic.last_cwnd;
                keys.origin_point = cubic.origin_point;
                keys.k = cubic.k;
                keys.delay_min_us = cubic.delay_min_us;
                keys.hystart_found = cubic.hystart_found;
            }
            Some(CcState::Dctcp(dctcp)) => {
                keys.alpha = dctcp.alpha_1024.map(|alpha| f64::from(alpha) / 1024.0);
                keys.ce_state = dctcp.ce_state;
                keys.loss_cwnd = dctcp.loss_cwnd;
            }
        }
        keys
    }

    fn set_bbr(&mut self, bbr: &Bbr) {
        self.phase = bbr.phase.map(Phase::as_str);
        self.sub_phase = bbr.sub_phase.map(SubPhase::as_str);
        self.btlbw_bps = bbr.btlbw.map(bits);
        self.min_rtt_us = bbr.min_rtt_us;
        self.pacing_gain = gain(bbr.pacing_gain_256);
        self.cwnd_gain = gain(bbr.cwnd_gain_256);
        self.lt_bw_bps = bbr.lt_bw.map(bits);
        self.inflight_hi = bbr.inflight_hi.map(Bound);
        self.inflight_lo = bbr.inflight_lo.map(Bound);
        self.bw_hi_bps = bbr.bw_hi.map(bps);
        self.bw_lo_bps = bbr.bw_lo.map(bps);
        self.full_bw_reached = bbr.full_bw_reached;
        self.lt_use_bw = bbr.lt_use_bw;
        self.extra_acked = bbr.extra_acked;
    }
}
