//! One algorithm's layout: which version its structure is, where the members are, and the reading of them.

use super::bbr;
use crate::event::{CcState, Cubic, Dctcp};
use crate::kernel::btf::{Btf, BtfError, Type};

/// What an algorithm's name allows it to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// `net/ipv4/tcp_bbr*.c`: `bbr`, and `bbr1`, `bbr2`, `bbr3`, `bbrplus` … as others register it.
    Bbr,
    /// `net/ipv4/tcp_cubic.c`.
    Cubic,
    /// `net/ipv4/tcp_dctcp.c`. Its fallback `dctcp-reno` leaves the words untouched and is none.
    Dctcp,
}

impl Family {
    /// The family that `tcp_congestion_ops.name` allows; `None` = nothing that is decoded.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "cubic" => Some(Self::Cubic),
            "dctcp" => Some(Self::Dctcp),
            _ if name.starts_with("bbr") => Some(Self::Bbr),
            _ => None,
        }
    }

    /// The name of the private structure.
    pub fn structure(self) -> &'static str {
        match self {
            Self::Bbr => "bbr",
            // tcp_bic.c has another one of this name, told apart by its members.
            Self::Cubic => "bictcp",
            Self::Dctcp => "dctcp",
        }
    }
}

/// Told by members, never by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    BbrV1,
    BbrV2,
    BbrV3,
    BbrPlus,
    Cubic,
    Dctcp,
}

impl Version {
    /// The word for the versions of one name; `None` where there is only one.
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Self::BbrV1 => Some("v1"),
            Self::BbrV2 => Some("v2"),
            Self::BbrV3 => Some("v3"),
            Self::BbrPlus => Some("bbrplus"),
            Self::Cubic | Self::Dctcp => None,
        }
    }

    /// Of the structure of a family.
    pub(super) fn of(family: Family, btf: &Btf, structure: Type<'_>) -> Option<Self> {
        let has = |member| btf.place_in(structure, member).is_ok();
        match family {
            Family::Cubic => has("bic_K").then_some(Self::Cubic),
            Family::Dctcp => has("dctcp_alpha").then_some(Self::Dctcp),
            Family::Bbr if !has("mode") || !has("min_rtt_us") => None,
            Family::Bbr if has("inflight_hi") => Some(if has("full_bw_now") {
                Self::BbrV3
            } else {
                Self::BbrV2
            }),
            Family::Bbr if has("cycle_len") => Some(Self::BbrPlus),
            Family::Bbr if has("lt_bw") => Some(Self::BbrV1),
            Family::Bbr => None,
        }
    }
}

/// The members that are read, as paths.
macro_rules! members {
    ($($member:ident = $path:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum CcMember { $($member),* }

        const MEMBERS: &[&str] = &[$($path),*];
    };
}

members! {
    Mode = "mode";
    CycleIdx = "cycle_idx";
    MinRttUs = "min_rtt_us";
    Bw = "bw.s[0].v";
    PacingGain = "pacing_gain";
    CwndGain = "cwnd_gain";
    FullBwReached = "full_bw_reached";
    LtBw = "lt_bw";
    LtUseBw = "lt_use_bw";
    BwHi0 = "bw_hi[0]";
    BwHi1 = "bw_hi[1]";
    BwLo = "bw_lo";
    InflightHi = "inflight_hi";
    InflightLo = "inflight_lo";
    ExtraAcked0 = "extra_acked[0]";
    ExtraAcked1 = "extra_acked[1]";
    LastMaxCwnd = "last_max_cwnd";
    LastCwnd = "last_cwnd";
    OriginPoint = "bic_origin_point";
    K = "bic_K";
    DelayMin = "delay_min";
    EpochStart = "epoch_start";
    Found = "found";
    Alpha = "dctcp_alpha";
    CeState = "ce_state";
    LossCwnd = "loss_cwnd";
}

/// Where a member's bits are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bits {
    first: u32,
    count: u8,
}

/// Where the members of one algorithm's private structure are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CcLayout {
    version: Version,
    bits: [Option<Bits>; MEMBERS.len()],
}

impl CcLayout {
    /// Of a structure; `None` = of no version that is known.
    pub(super) fn new(
        family: Family,
        btf: &Btf,
        structure: Type<'_>,
    ) -> Result<Option<Self>, BtfError> {
        let Some(version) = Version::of(family, btf, structure) else {
            return Ok(None);
        };
        let mut bits = [None; MEMBERS.len()];
        for (bits, path) in bits.iter_mut().zip(MEMBERS) {
            let Ok(place) = btf.place_in(structure, path) else {
                continue;
            };
            let count = match place.bit_size {
                0 => btf.size(place.type_id)?.saturating_mul(8).min(255) as u8,
                bits => bits,
            };
            // Wider ones are not what these names stand for.
            *bits = (1..=32).contains(&count).then_some(Bits {
                first: place.bit_offset,
                count,
            });
        }
        Ok(Some(Self { version, bits }))
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// Reads the words, as many as this kernel has (`ProbeConfig::ca_words`), with the MSS of the same moment
    /// (`tp->mss_cache`).
    ///
    /// `None` = the algorithm has not begun: the kernel clears the words when it is chosen and sets them up when the
    /// connection is established. A timeout before (of the SYN) writes some of BBR's (`bbr_set_state`), but its least
    /// RTT is 0 only until `bbr_init`.
    pub fn decode(&self, words: &[u64], mss: u32) -> Option<CcState> {
        if words.iter().all(|&word| word == 0) {
            return None;
        }
        let words = Words {
            layout: self,
            words,
        };
        if words.get(CcMember::MinRttUs) == Some(0) {
            return None;
        }
        Some(match self.version {
            Version::Cubic => CcState::Cubic(cubic(words)),
            Version::Dctcp => CcState::Dctcp(dctcp(words)),
            version => CcState::Bbr(bbr::read(version, words, mss)),
        })
    }
}

/// Words under a layout.
#[derive(Clone, Copy)]
pub(super) struct Words<'a> {
    layout: &'a CcLayout,
    words: &'a [u64],
}

impl Words<'_> {
    /// The member's value; `None` = no such member, or beyond the words at hand.
    pub(super) fn get(self, member: CcMember) -> Option<u32> {
        let Bits { first, count } = self.layout.bits[member as usize]?;
        let (at, shift) = ((first / 64) as usize, first % 64);
        let low = *self.words.get(at)? >> shift;
        let value = if shift + u32::from(count) > 64 {
            low | *self.words.get(at + 1)? << (64 - shift)
        } else {
            low
        };
        Some((value & ((1_u64 << count) - 1)) as u32)
    }

    /// The member's value where 0 says «not yet».
    pub(super) fn nonzero(self, member: CcMember) -> Option<u32> {
        self.get(member).filter(|&value| value != 0)
    }
}

/// `bictcp_reset()` sets everything to 0; what has not been measured since is unknown.
fn cubic(words: Words<'_>) -> Cubic {
    // Without an epoch (right after a loss) the curve is still that of the last one.
    let epoch = words.get(CcMember::EpochStart) != Some(0);
    Cubic {
        last_max_cwnd: words.nonzero(CcMember::LastMaxCwnd),
        last_cwnd: words.nonzero(CcMember::LastCwnd),
        origin_point: words.nonzero(CcMember::OriginPoint).filter(|_| epoch),
        k: words.get(CcMember::K).filter(|_| epoch),
        // Microseconds since 5.5 (`bictcp_clock_us()`).
        delay_min_us: words.nonzero(CcMember::DelayMin),
        hystart_found: words.get(CcMember::Found).map(|found| found != 0),
    }
}

fn dctcp(words: Words<'_>) -> Dctcp {
    Dctcp {
        alpha_1024: words.get(CcMember::Alpha),
        ce_state: words.get(CcMember::CeState),
        loss_cwnd: words.nonzero(CcMember::LossCwnd),
    }
}
