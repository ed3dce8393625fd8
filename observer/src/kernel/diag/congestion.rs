//! What a congestion control tells over inet_diag (include/uapi/linux/inet_diag.h, and BBRv3's patch of it).

use crate::event::{Bbr, CcState, Dctcp, Phase, SubPhase};
use crate::host::netlink::{u16_at, u32_at};
use crate::units::Limit;

/// `struct tcp_bbr_info` of mainline: five words. BBRv2 and v3 append to it and end at 52 bytes.
const BBR_V3: usize = 52;
/// `bbr_version`, «MUST be at this offset in struct».
const BBR_VERSION: usize = 39;

/// BBR's model. In mainline's five words `bbr_bw_hi` is the upper half of the bandwidth, not a bound (TRAPS 13).
pub(super) fn bbr(bytes: &[u8]) -> Option<CcState> {
    let bw = u64::from(u32_at(bytes, 4)?) << 32 | u64::from(u32_at(bytes, 0)?);
    let measured = |at| u32_at(bytes, at).filter(|value| *value != 0);
    let mut bbr = Bbr {
        // 0 and all ones stand for «not measured yet» (`bbr_init`; gains are set with the first ACK).
        btlbw: Some(bw).filter(|bw| *bw != 0),
        min_rtt_us: measured(8).filter(|us| *us != u32::MAX),
        pacing_gain_256: measured(12),
        cwnd_gain_256: measured(16),
        ..Bbr::default()
    };
    if bytes.len() >= BBR_V3 {
        let segments = |at| u32_at(bytes, at).map(limit(u32::MAX));
        let rate = |at| {
            // Two words that need not be aligned to eight bytes: the lower first, whatever the byte order.
            let (low, high) = (u32_at(bytes, at)?, u32_at(bytes, at + 4)?);
            let rate = u64::from(high) << 32 | u64::from(low);
            Some(limit(u64::MAX)(rate))
        };
        bbr.bw_hi = rate(20);
        bbr.bw_lo = rate(28);
        (bbr.phase, bbr.sub_phase) = phase(bytes[37]);
        bbr.inflight_lo = segments(40);
        bbr.inflight_hi = segments(44);
        bbr.extra_acked = u32_at(bytes, 48);
    }
    Some(CcState::Bbr(bbr))
}

/// `v2`, `v3` as the module says of itself. The five words of mainline do not say: `None`.
pub(super) fn bbr_version(bytes: &[u8]) -> Option<String> {
    if bytes.len() < BBR_V3 {
        return None;
    }
    match bytes[BBR_VERSION] {
        0 => None,
        version => Some(format!("v{version}")),
    }
}

/// `enum tcp_bbr_phase`.
fn phase(phase: u8) -> (Option<Phase>, Option<SubPhase>) {
    match phase {
        1 => (Some(Phase::Startup), None),
        2 => (Some(Phase::Drain), None),
        3 => (Some(Phase::ProbeRtt), None),
        4 => (Some(Phase::ProbeBw), Some(SubPhase::Up)),
        5 => (Some(Phase::ProbeBw), Some(SubPhase::Down)),
        6 => (Some(Phase::ProbeBw), Some(SubPhase::Cruise)),
        7 => (Some(Phase::ProbeBw), Some(SubPhase::Refill)),
        _ => (None, None),
    }
}

fn limit<T: PartialEq>(unlimited: T) -> impl Fn(T) -> Limit<T> {
    move |value| {
        if value == unlimited {
            Limit::Unlimited
        } else {
            Limit::Finite(value)
        }
    }
}

/// `struct tcp_dctcp_info`; `None` while DCTCP acts as Reno because the peer does not do ECN.
pub(super) fn dctcp(bytes: &[u8]) -> Option<CcState> {
    if u16_at(bytes, 0)? == 0 {
        return None;
    }
    Some(CcState::Dctcp(Dctcp {
        alpha_1024: Some(u32_at(bytes, 4)?),
        ce_state: Some(u32::from(u16_at(bytes, 2)?)),
        loss_cwnd: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }

    fn model(bytes: &[u8]) -> Bbr {
        match bbr(bytes) {
            Some(CcState::Bbr(bbr)) => bbr,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn trap_13_bw_hi_is_the_upper_half_in_five_words() {
        let bytes = words(&[5, 1, 40_000, 320, 512]);
        let bbr = model(&bytes);
        assert_eq!(bbr.btlbw, Some(1 << 32 | 5));
        assert_eq!(bbr.min_rtt_us, Some(40_000));
        assert_eq!(bbr.pacing_gain_256, Some(320));
        assert_eq!(bbr.cwnd_gain_256, Some(512));
        assert_eq!((bbr.bw_hi, bbr.inflight_hi, bbr.phase), (None, None, None));
        assert_eq!(bbr_version(&bytes), None);
    }

    /// `struct tcp_bbr_info` as the patches of BBRv2 and v3 have it, member by member.
    #[repr(C)]
    struct TcpBbrInfo {
        bw_lsb: u32,
        bw_msb: u32,
        min_rtt: u32,
        pacing_gain: u32,
        cwnd_gain: u32,
        bw_hi_lsb: u32,
        bw_hi_msb: u32,
        bw_lo_lsb: u32,
        bw_lo_msb: u32,
        mode: u8,
        phase: u8,
        unused1: u8,
        version: u8,
        inflight_lo: u32,
        inflight_hi: u32,
        extra_acked: u32,
    }

    const V3: TcpBbrInfo = TcpBbrInfo {
        bw_lsb: 5,
        bw_msb: 0,
        min_rtt: 40_000,
        pacing_gain: 256,
        cwnd_gain: 512,
        bw_hi_lsb: 7,
        bw_hi_msb: 1,
        bw_lo_lsb: u32::MAX,
        bw_lo_msb: u32::MAX,
        mode: 2,
        phase: 6,
        unused1: 0,
        version: 3,
        inflight_lo: u32::MAX,
        inflight_hi: 90,
        extra_acked: 3,
    };

    impl TcpBbrInfo {
        /// As it lies in memory, where it has no padding.
        fn bytes(&self) -> Vec<u8> {
            assert_eq!(
                (size_of::<Self>(), std::mem::offset_of!(Self, version)),
                (BBR_V3, BBR_VERSION)
            );
            let rates = [
                self.bw_hi_lsb,
                self.bw_hi_msb,
                self.bw_lo_lsb,
                self.bw_lo_msb,
            ];
            let first = [
                self.bw_lsb,
                self.bw_msb,
                self.min_rtt,
                self.pacing_gain,
                self.cwnd_gain,
            ];
            let last = [self.inflight_lo, self.inflight_hi, self.extra_acked];
            let bytes = [self.mode, self.phase, self.unused1, self.version];
            [words(&first), words(&rates), bytes.to_vec(), words(&last)].concat()
        }
    }

    #[test]
    fn trap_13_and_15_v3_has_bounds_of_its_own_and_says_its_version() {
        let bytes = V3.bytes();
        let bbr = model(&bytes);
        assert_eq!(bbr.btlbw, Some(5));
        assert_eq!(bbr.min_rtt_us, Some(40_000));
        assert_eq!(
            (bbr.pacing_gain_256, bbr.cwnd_gain_256),
            (Some(256), Some(512))
        );
        assert_eq!(bbr.bw_hi, Some(Limit::Finite(1 << 32 | 7)));
        assert_eq!(bbr.bw_lo, Some(Limit::Unlimited));
        assert_eq!(bbr.inflight_lo, Some(Limit::Unlimited));
        assert_eq!(bbr.inflight_hi, Some(Limit::Finite(90)));
        assert_eq!(bbr.extra_acked, Some(3));
        assert_eq!(
            (bbr.phase, bbr.sub_phase),
            (Some(Phase::ProbeBw), Some(SubPhase::Cruise))
        );
        assert_eq!(bbr_version(&bytes).as_deref(), Some("v3"));
    }

    #[test]
    fn a_longer_one_of_the_future_is_read_as_far_as_it_is_known_and_a_cut_one_as_v1() {
        let mut bytes = V3.bytes();
        bytes.extend([7; 12]);
        assert_eq!(model(&bytes), model(&V3.bytes()));
        assert_eq!(bbr_version(&bytes).as_deref(), Some("v3"));
        for length in 20..BBR_V3 {
            let cut = &bytes[..length];
            assert_eq!(model(cut), model(&bytes[..20]), "{length}");
            assert_eq!(bbr_version(cut), None);
        }
        let v2 = TcpBbrInfo {
            version: 2,
            phase: 4,
            ..V3
        };
        let bytes = v2.bytes();
        assert_eq!(bbr_version(&bytes).as_deref(), Some("v2"));
        assert_eq!(model(&bytes).sub_phase, Some(SubPhase::Up));
        let unsaid = TcpBbrInfo {
            version: 0,
            phase: 0,
            ..V3
        }
        .bytes();
        assert_eq!((bbr_version(&unsaid), model(&unsaid).phase), (None, None));
    }

    #[test]
    fn nothing_measured_is_unknown_and_too_little_is_nothing() {
        let bbr = model(&words(&[0, 0, u32::MAX, 739, 739]));
        assert_eq!((bbr.btlbw, bbr.min_rtt_us), (None, None));
        assert_eq!(super::bbr(&[0; 7]), None);
        assert_eq!(dctcp(&words(&[0, 1024, 0, 0])), None);
    }

    #[test]
    fn dctcp_is_read() {
        let mut bytes = words(&[0, 512, 0, 0]);
        bytes[..4].copy_from_slice(&[1u16.to_ne_bytes(), 1u16.to_ne_bytes()].concat());
        let expected = Dctcp {
            alpha_1024: Some(512),
            ce_state: Some(1),
            loss_cwnd: None,
        };
        assert_eq!(dctcp(&bytes), Some(CcState::Dctcp(expected)));
    }
}
