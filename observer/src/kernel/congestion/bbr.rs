//! BBR's model as its own `bbr_get_info()` tells it, for all versions (`net/ipv4/tcp_bbr.c`; v2, v3: github.com/google/bbr).

use super::Version;
use super::layout::{CcMember, Words};
use crate::event::{Bbr, Phase, SubPhase};
use crate::units::Limit;

/// All ones: no bound, or no sample yet.
const NONE: u32 = u32::MAX;

/// Reads the words of a BBR. Rates are bytes per second.
pub(super) fn read(version: Version, words: Words<'_>, mss: u32) -> Bbr {
    let get = |member| words.get(member);
    let rate = |bw: u32| (bw != 0).then(|| bytes_per_second(version, bw, mss));
    let bound = |bw: u32| match bw {
        NONE => Some(Limit::Unlimited),
        bw => rate(bw).map(Limit::Finite),
    };
    let segments = |member| {
        get(member).map(|segments| match segments {
            NONE => Limit::Unlimited,
            segments => Limit::Finite(segments),
        })
    };
    let phase = get(CcMember::Mode).and_then(phase);
    let lt_use_bw = get(CcMember::LtUseBw).map(|used| used != 0);
    let bw_hi = both(words, CcMember::BwHi0, CcMember::BwHi1);
    Bbr {
        phase,
        sub_phase: get(CcMember::CycleIdx)
            .filter(|_| phase == Some(Phase::ProbeBw))
            .and_then(|index| sub_phase(version, index, lt_use_bw == Some(true))),
        btlbw: estimate(version, words).and_then(rate),
        min_rtt_us: get(CcMember::MinRttUs).filter(|&rtt| rtt != NONE),
        // Set with the first ACK; a gain of 0 would stop the flow.
        pacing_gain_256: words.nonzero(CcMember::PacingGain),
        cwnd_gain_256: words.nonzero(CcMember::CwndGain),
        full_bw_reached: get(CcMember::FullBwReached).map(|reached| reached != 0),
        lt_bw: get(CcMember::LtBw)
            .filter(|_| lt_use_bw == Some(true))
            .and_then(rate),
        lt_use_bw,
        bw_hi: bw_hi.and_then(bound),
        bw_lo: get(CcMember::BwLo).and_then(bound),
        inflight_hi: segments(CcMember::InflightHi),
        inflight_lo: segments(CcMember::InflightLo),
        extra_acked: both(words, CcMember::ExtraAcked0, CcMember::ExtraAcked1),
    }
}

/// `bbr_bw()`: packets per microsecond, shifted left by 24.
fn estimate(version: Version, words: Words<'_>) -> Option<u32> {
    match version {
        Version::BbrV2 | Version::BbrV3 => {
            let max = both(words, CcMember::BwHi0, CcMember::BwHi1)?;
            Some(max.min(words.get(CcMember::BwLo)?))
        }
        _ if words.get(CcMember::LtUseBw)? != 0 => words.get(CcMember::LtBw),
        // minmax_get(): the first of the three is the maximum.
        _ => words.get(CcMember::Bw),
    }
}

/// The larger of an array's two.
fn both(words: Words<'_>, first: CcMember, second: CcMember) -> Option<u32> {
    Some(words.get(first)?.max(words.get(second)?))
}

/// `bw * mss * USEC_PER_SEC >> BW_SCALE` in the kernel's own 64-bit arithmetic (TRAPS 14). v2 and v3 multiply by a
/// gain of 1 (256, shifted out again) on the way and never say 0.
fn bytes_per_second(version: Version, bw: u32, mss: u32) -> u64 {
    let rate = (u64::from(bw) * u64::from(mss)).wrapping_mul(1_000_000) >> 24;
    match version {
        Version::BbrV2 | Version::BbrV3 => rate.max(1),
        _ => rate,
    }
}

/// `enum bbr_mode`, the same in all versions.
fn phase(mode: u32) -> Option<Phase> {
    [
        Phase::Startup,
        Phase::Drain,
        Phase::ProbeBw,
        Phase::ProbeRtt,
    ]
    .get(mode as usize)
    .copied()
}

/// v1 walks through eight gains, of which the first is 1.25 and the second 0.75; bbrplus keeps to the first three of
/// them. While the long-term estimate is in use both pace at 1.0 whatever the index says.
fn sub_phase(version: Version, cycle_idx: u32, long_term: bool) -> Option<SubPhase> {
    match (version, cycle_idx) {
        (_, _) if long_term => Some(SubPhase::Cruise),
        (_, 0) => Some(SubPhase::Up),
        (_, 1) => Some(SubPhase::Down),
        (Version::BbrV2 | Version::BbrV3, 3) => Some(SubPhase::Refill),
        (Version::BbrV2 | Version::BbrV3, 4..) => None,
        _ => Some(SubPhase::Cruise),
    }
}
