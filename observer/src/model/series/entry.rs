//! What is kept: samples, buckets of them, and marks between them.

use super::code::Code;
use crate::event::{CaState, CcState, KINDS, Phase, RetransmitKind, Sample, SubPhase};

/// What is charted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    /// Segments.
    Cwnd,
    CwndBytes,
    InflightBytes,
    /// BtlBw × the kernel's min RTT.
    BdpBytes,
    /// Rates are bytes per second.
    PacingRate,
    /// Of rate samples that were not app-limited.
    DeliveryRate,
    /// Of those that were: no measure of the path (TRAPS 9).
    AppLimitedRate,
    BtlBw,
    /// The latest unsmoothed RTT. Times are µs.
    Rtt,
    Srtt,
    MinRtt,
}

/// Quantities.
const N: usize = Quantity::ALL.len();

impl Quantity {
    pub const ALL: [Self; 11] = [
        Self::Cwnd,
        Self::CwndBytes,
        Self::InflightBytes,
        Self::BdpBytes,
        Self::PacingRate,
        Self::DeliveryRate,
        Self::AppLimitedRate,
        Self::BtlBw,
        Self::Rtt,
        Self::Srtt,
        Self::MinRtt,
    ];

    /// A level stands while nothing happens; what is measured by what happens does not.
    pub fn is_level(self) -> bool {
        !matches!(self, Self::DeliveryRate | Self::AppLimitedRate | Self::Rtt)
    }
}

/// One of each [`Quantity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) struct Values([Code; N]);

impl Values {
    /// `btlbw`: bytes per second, BBR's own or the estimate.
    pub fn of(sample: &Sample, btlbw: Option<u64>) -> Self {
        let mut values = [Code::UNKNOWN; N];
        let mut set = |quantity: Quantity, code| values[quantity as usize] = code;
        let min_rtt = sample.min_rtt_us;
        let bdp = btlbw.zip(min_rtt);
        let bdp = bdp.map(|(rate, us)| super::super::figures::bdp(rate, us));
        let rate = Code::option(sample.delivery_rate);
        let delivery = if sample.rate_app_limited {
            Quantity::AppLimitedRate
        } else {
            Quantity::DeliveryRate
        };
        set(Quantity::Cwnd, Code::option(sample.cwnd.map(u64::from)));
        set(Quantity::CwndBytes, Code::option(sample.cwnd_bytes()));
        set(Quantity::InflightBytes, Code::of(sample.inflight_bytes()));
        set(Quantity::BdpBytes, Code::option(bdp));
        let pacing = sample.pacing_rate.map_or(Code::UNKNOWN, Code::limit);
        set(Quantity::PacingRate, pacing);
        set(delivery, rate);
        set(Quantity::BtlBw, Code::option(btlbw));
        set(Quantity::Rtt, Code::option(sample.rtt_us.map(u64::from)));
        set(Quantity::Srtt, Code::option(sample.srtt_us.map(u64::from)));
        set(Quantity::MinRtt, Code::option(min_rtt.map(u64::from)));
        Self(values)
    }

    pub(super) fn get(&self, quantity: Quantity) -> Code {
        self.0[quantity as usize]
    }
}

/// The algorithm's phase (BBR), or the kernel's congestion state, which every algorithm has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    Startup,
    Drain,
    /// The part is not known.
    ProbeBw,
    ProbeBwUp,
    ProbeBwDown,
    ProbeBwCruise,
    ProbeBwRefill,
    ProbeRtt,
    Open,
    Disorder,
    Cwr,
    Recovery,
    Loss,
}

impl Stage {
    pub const ALL: [Self; 13] = [
        Self::Startup,
        Self::Drain,
        Self::ProbeBw,
        Self::ProbeBwUp,
        Self::ProbeBwDown,
        Self::ProbeBwCruise,
        Self::ProbeBwRefill,
        Self::ProbeRtt,
        Self::Open,
        Self::Disorder,
        Self::Cwr,
        Self::Recovery,
        Self::Loss,
    ];

    /// `None` for a state that this version does not know.
    pub fn of_ca(state: CaState) -> Option<Self> {
        Some(match state {
            CaState::Open => Self::Open,
            CaState::Disorder => Self::Disorder,
            CaState::Cwr => Self::Cwr,
            CaState::Recovery => Self::Recovery,
            CaState::Loss => Self::Loss,
            CaState::Unknown(_) => return None,
        })
    }

    fn of_phase(phase: Phase, part: Option<SubPhase>) -> Self {
        match (phase, part) {
            (Phase::Startup, _) => Self::Startup,
            (Phase::Drain, _) => Self::Drain,
            (Phase::ProbeBw, None) => Self::ProbeBw,
            (Phase::ProbeBw, Some(SubPhase::Up)) => Self::ProbeBwUp,
            (Phase::ProbeBw, Some(SubPhase::Down)) => Self::ProbeBwDown,
            (Phase::ProbeBw, Some(SubPhase::Cruise)) => Self::ProbeBwCruise,
            (Phase::ProbeBw, Some(SubPhase::Refill)) => Self::ProbeBwRefill,
            (Phase::ProbeRtt, _) => Self::ProbeRtt,
        }
    }

    /// A phase of BBR's; otherwise a congestion state.
    pub fn is_phase(self) -> bool {
        self <= Self::ProbeRtt
    }
}

/// A set of stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages(u16);

impl Stages {
    pub(in crate::model) fn of(sample: &Sample) -> Self {
        let phase = match &sample.cc {
            Some(CcState::Bbr(bbr)) => bbr.phase.map(|p| Stage::of_phase(p, bbr.sub_phase)),
            _ => None,
        };
        phase
            .into_iter()
            .chain(Stage::of_ca(sample.ca_state))
            .collect()
    }

    pub fn contains(self, stage: Stage) -> bool {
        self.0 & 1 << stage as u16 != 0
    }

    pub fn iter(self) -> impl Iterator<Item = Stage> {
        Stage::ALL.into_iter().filter(move |s| self.contains(*s))
    }

    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl FromIterator<Stage> for Stages {
    fn from_iter<I: IntoIterator<Item = Stage>>(stages: I) -> Self {
        Self(stages.into_iter().fold(0, |set, s| set | 1 << s as u16))
    }
}

/// Why what came before does not continue in what came after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Break {
    /// Records were lost.
    Lost,
    /// The figures are another source's now, or the socket was used anew.
    Switched,
    /// The source did not speak.
    Blind,
}

/// A set of breaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breaks(u8);

impl Breaks {
    pub const ALL: [Break; 3] = [Break::Lost, Break::Switched, Break::Blind];

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn contains(self, of: Break) -> bool {
        self.0 & 1 << of as u8 != 0
    }

    pub(in crate::model) fn add(&mut self, of: Break) {
        self.0 |= 1 << of as u8;
    }

    #[must_use]
    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A sample as it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw {
    pub time: u64,
    pub values: Values,
    /// [`Stages`] in the lower 13 bits, [`Breaks`] before it in the upper three.
    packed: u16,
}

/// [`Raw::packed`].
const STAGE_BITS: u32 = Stage::ALL.len() as u32;

impl Raw {
    pub fn new(time: u64, values: Values, stages: Stages, before: Breaks) -> Self {
        Self {
            time,
            values,
            packed: stages.0 | u16::from(before.0) << STAGE_BITS,
        }
    }

    pub fn stages(&self) -> Stages {
        Stages(self.packed & ((1 << STAGE_BITS) - 1))
    }

    pub fn before(&self) -> Breaks {
        Breaks((self.packed >> STAGE_BITS) as u8)
    }
}

/// What happened between samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub time: u64,
    pub segments: u32,
    pub what: What,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// Of the kind at this place in [`KINDS`].
    Retransmit(u8),
    Stage(Stage),
}

/// The place of `kind` in [`KINDS`].
pub(super) fn place(kind: RetransmitKind) -> u8 {
    let at = KINDS.iter().position(|&k| k == kind);
    at.unwrap_or(KINDS.len() - 1) as u8
}

/// Everything that happened within a bucket's width.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    /// Its time ÷ its width.
    pub at: u32,
    /// Segments by kind.
    pub retransmits: [u32; KINDS.len()],
    /// Over samples; where there is none, unknown.
    min: Values,
    max: Values,
    last: Values,
    pub stages: Stages,
    /// Between the last sample before this bucket and its first.
    pub before: Breaks,
    /// Between samples of it.
    pub inside: Breaks,
    pub sampled: bool,
}

impl Bucket {
    pub fn new(at: u32) -> Self {
        let nothing = Values([Code::UNKNOWN; N]);
        Self {
            at,
            retransmits: [0; KINDS.len()],
            min: nothing,
            max: nothing,
            last: nothing,
            stages: Stages::default(),
            before: Breaks::default(),
            inside: Breaks::default(),
            sampled: false,
        }
    }

    pub fn sample(&mut self, values: &Values, stages: Stages, before: Breaks) {
        let breaks = if self.sampled {
            &mut self.inside
        } else {
            &mut self.before
        };
        *breaks = breaks.and(before);
        self.sampled = true;
        self.stages = self.stages.and(stages);
        self.last = *values;
        for (i, &code) in values.0.iter().enumerate() {
            // Unknown is above everything: the least of known and unknown is the known.
            self.min.0[i] = self.min.0[i].min(code);
            let max = &mut self.max.0[i];
            if code.is_known() && (!max.is_known() || *max < code) {
                *max = code;
            }
        }
    }

    /// Least, greatest and last of its samples that told `quantity`; the last may be unknown.
    pub fn get(&self, quantity: Quantity) -> [Code; 3] {
        let i = quantity as usize;
        [self.min.0[i], self.max.0[i], self.last.0[i]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_the_size_that_the_docs_say() {
        assert_eq!(size_of::<Raw>(), 32);
        assert_eq!(size_of::<Mark>(), 16);
        assert_eq!(size_of::<Bucket>(), 104);
    }

    #[test]
    fn stages_and_breaks_share_a_word() {
        let mut before = Breaks::default();
        before.add(Break::Blind);
        let stages: Stages = [Stage::Startup, Stage::Loss].into_iter().collect();
        let nothing = Values([Code::UNKNOWN; N]);
        let raw = Raw::new(1, nothing, stages, before);
        assert_eq!((raw.stages(), raw.before()), (stages, before));
        assert_eq!(
            raw.stages().iter().collect::<Vec<_>>(),
            [Stage::Startup, Stage::Loss]
        );
    }
}
