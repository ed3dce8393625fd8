//! Values: integers with units, limits, unknowns, words.

use std::net::SocketAddr;

use crate::event::KINDS;
use crate::event::{
    CaState, Cause, NoteKind, Origin, PacingStatus, Phase, RetransmitKind, SubPhase, TcpState,
    Wscale,
};
use crate::units::Limit;

/// What an integer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Plain,
    /// Microseconds.
    Time,
    /// Bytes per second.
    Rate,
    /// 256ths.
    Gain,
}

/// Errors say what was expected.
pub(super) trait FromText: Sized {
    fn from_text(text: &str, unit: Unit) -> Result<Self, String>;
}

/// `NUMBER UNIT` with units' sizes; `bare` is the size where none is written.
fn measure(text: &str, units: &[(&str, f64)], bare: f64) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let size = if unit.is_empty() {
        bare
    } else {
        units.iter().find(|(name, _)| *name == unit)?.1
    };
    // Whole numbers stay exact: f64 does not hold every u64.
    match number.parse::<u64>() {
        Ok(whole) if size >= 1.0 => whole.checked_mul(size as u64),
        _ => Some((number.parse::<f64>().ok()? * size).round() as u64),
    }
}

/// A duration in nanoseconds; `0` needs no unit.
pub(super) fn nanoseconds(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    let units = [
        ("ns", 1.0),
        ("us", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("m", 60e9),
    ];
    measure(text, &units, f64::NAN)
        .filter(|_| text.ends_with(['s', 'm']))
        .ok_or_else(|| format!("{text:?} is no duration (100ms, 2s)"))
}

fn integer(text: &str, unit: Unit) -> Result<u64, String> {
    let (units, expected): (&[(&str, f64)], _) = match unit {
        Unit::Plain => (&[], "a whole number"),
        Unit::Time => (
            &[
                ("ns", 1e-3),
                ("us", 1.0),
                ("ms", 1e3),
                ("s", 1e6),
                ("m", 60e6),
            ],
            "a time (250us, 40ms)",
        ),
        Unit::Rate => (
            &[
                ("bit", 0.125),
                ("kbit", 125.0),
                ("mbit", 125e3),
                ("gbit", 125e6),
                ("B/s", 1.0),
            ],
            "a rate (100mbit, 125000B/s)",
        ),
        Unit::Gain => (&[], "a gain (1.25)"),
    };
    let bare = if unit == Unit::Gain { 256.0 } else { 1.0 };
    measure(text, units, bare)
        .filter(|_| unit != Unit::Plain || !text.contains('.'))
        .ok_or_else(|| expected.to_owned())
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl FromText for $type {
            fn from_text(text: &str, unit: Unit) -> Result<Self, String> {
                let value = integer(text, unit)?;
                Self::try_from(value).map_err(|_| format!("at most {}", Self::MAX))
            }
        }
    )*};
}
integers!(u8, u16, u32, u64);

impl<T: FromText> FromText for Option<T> {
    fn from_text(text: &str, unit: Unit) -> Result<Self, String> {
        if text == "-" {
            return Ok(None);
        }
        T::from_text(text, unit).map(Some)
    }
}

impl<T: FromText> FromText for Limit<T> {
    fn from_text(text: &str, unit: Unit) -> Result<Self, String> {
        if text == "unlimited" {
            return Ok(Self::Unlimited);
        }
        T::from_text(text, unit).map(Self::Finite)
    }
}

impl FromText for String {
    fn from_text(text: &str, _: Unit) -> Result<Self, String> {
        Ok(text.to_owned())
    }
}

impl FromText for SocketAddr {
    fn from_text(text: &str, _: Unit) -> Result<Self, String> {
        text.parse().map_err(|_| "ADDRESS:PORT".to_owned())
    }
}

/// The one of `values` whose word `text` is.
fn choose<T: Copy>(
    text: &str,
    values: &[T],
    word: impl Fn(T) -> &'static str,
) -> Result<T, String> {
    let same = |value: &&T| word(**value).eq_ignore_ascii_case(text);
    values.iter().find(same).copied().ok_or_else(|| {
        let words: Vec<&str> = values.iter().map(|&v| word(v)).collect();
        format!("one of {}", words.join(" "))
    })
}

macro_rules! words {
    ($($type:ty: $word:expr, [$($value:expr),* $(,)?];)*) => {$(
        impl FromText for $type {
            fn from_text(text: &str, _: Unit) -> Result<Self, String> {
                choose(text, &[$($value),*], $word)
            }
        }
    )*};
}

words! {
    bool: |b| if b { "yes" } else { "no" }, [true, false];
    Origin: Origin::as_str, [Origin::Ebpf, Origin::Diag, Origin::Capture];
    Cause: cause, [Cause::Ack, Cause::Sweep, Cause::Close];
    TcpState: TcpState::as_str, [
        TcpState::Established, TcpState::SynSent, TcpState::SynRecv, TcpState::FinWait1, TcpState::FinWait2,
        TcpState::TimeWait, TcpState::Close, TcpState::CloseWait, TcpState::LastAck, TcpState::Listen,
        TcpState::Closing,
    ];
    CaState: CaState::as_str, [
        CaState::Open, CaState::Disorder, CaState::Cwr, CaState::Recovery, CaState::Loss,
    ];
    PacingStatus: pacing, [PacingStatus::None, PacingStatus::Internal, PacingStatus::Fq];
    Phase: Phase::as_str, [Phase::Startup, Phase::Drain, Phase::ProbeBw, Phase::ProbeRtt];
    SubPhase: SubPhase::as_str, [SubPhase::Up, SubPhase::Down, SubPhase::Cruise, SubPhase::Refill];
    NoteKind: note, [NoteKind::Attempt, NoteKind::Degraded, NoteKind::Info];
}

impl FromText for RetransmitKind {
    fn from_text(text: &str, _: Unit) -> Result<Self, String> {
        choose(text, &KINDS, crate::event::retransmit_kind)
    }
}

fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Ack => "ack",
        Cause::Sweep => "sweep",
        Cause::Close => "close",
    }
}

fn pacing(status: PacingStatus) -> &'static str {
    match status {
        PacingStatus::None => "none",
        PacingStatus::Internal => "internal",
        PacingStatus::Fq => "fq",
    }
}

fn note(kind: NoteKind) -> &'static str {
    match kind {
        NoteKind::Attempt => "attempt",
        NoteKind::Degraded => "degraded",
        NoteKind::Info => "info",
    }
}

/// A phase with or without its part: `PROBE_BW/UP`.
impl FromText for (Phase, Option<SubPhase>) {
    fn from_text(text: &str, unit: Unit) -> Result<Self, String> {
        match text.split_once('/') {
            Some((phase, part)) => Ok((
                Phase::from_text(phase, unit)?,
                Some(SubPhase::from_text(part, unit)?),
            )),
            None => Ok((Phase::from_text(text, unit)?, None)),
        }
    }
}

/// Shifts, sending before receiving: `7/8`.
impl FromText for Wscale {
    fn from_text(text: &str, unit: Unit) -> Result<Self, String> {
        let (snd, rcv) = text.split_once('/').ok_or("two shifts (7/8)")?;
        Ok(Self {
            snd: u8::from_text(snd, unit)?,
            rcv: u8::from_text(rcv, unit)?,
        })
    }
}
