//! Units and marks: the time base, «unlimited», and how quantities are written on screen (SPEC §3).

use std::fmt;

/// A moment on `CLOCK_MONOTONIC`, in nanoseconds. The only time base of the fold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(pub u64);

impl Mono {
    /// Nanoseconds since `earlier`; 0 when that is later.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This moment and `ns` nanoseconds.
    #[must_use]
    pub fn plus(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

/// A quantity that the kernel may leave without a bound. Unknown is `Option::None` around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit<T> {
    Finite(T),
    Unlimited,
}

impl<T: Copy> Limit<T> {
    /// The bound, if there is one.
    pub fn finite(self) -> Option<T> {
        match self {
            Self::Finite(value) => Some(value),
            Self::Unlimited => None,
        }
    }

    /// The same limit in another unit.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Limit<U> {
        match self {
            Self::Finite(value) => Limit::Finite(convert(value)),
            Self::Unlimited => Limit::Unlimited,
        }
    }
}

impl Limit<u64> {
    /// A kernel rate in bytes per second, where all ones mean unlimited (`sk_pacing_rate`, TRAPS 11).
    pub fn from_kernel_rate(bytes_per_s: u64) -> Self {
        if bytes_per_s == u64::MAX {
            Self::Unlimited
        } else {
            Self::Finite(bytes_per_s)
        }
    }
}

impl Limit<u32> {
    /// `snd_ssthresh`, where `TCP_INFINITE_SSTHRESH` (0x7fffffff) means not set (TRAPS 11).
    pub fn from_ssthresh(segments: u32) -> Self {
        if segments >= 0x7fff_ffff {
            Self::Unlimited
        } else {
            Self::Finite(segments)
        }
    }
}

/// What stands for an unknown value on screen.
pub const UNKNOWN: &str = "—";
/// What stands for «without a limit» on screen.
pub const UNLIMITED: &str = "∞";

/// Bytes per second to bits per second, saturating.
pub fn bits(bytes_per_s: u64) -> u64 {
    bytes_per_s.saturating_mul(8)
}

/// A number with three significant digits and its decimal prefix: `12.3 M`.
struct Scaled {
    value: f64,
    prefix: &'static str,
}

fn scaled(value: f64, step: f64) -> Scaled {
    const PREFIXES: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let mut value = value;
    let mut at = 0;
    // 999.5 would round to 1000 at three digits: it belongs to the next prefix.
    while value.abs() >= 999.5 && at + 1 < PREFIXES.len() {
        value /= step;
        at += 1;
    }
    Scaled {
        value,
        prefix: PREFIXES[at],
    }
}

impl fmt::Display for Scaled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.value.abs();
        let digits = if self.prefix.is_empty() && self.value.fract() == 0.0 || magnitude >= 99.95 {
            0
        } else if magnitude >= 9.995 {
            1
        } else {
            2
        };
        write!(f, "{:.*} {}", digits, self.value, self.prefix)
    }
}

/// A rate for the screen, decimal: `93.8 Mbit/s`; zero is `0 bit/s`.
pub fn rate(bits_per_s: u64) -> String {
    format!("{}bit/s", scaled(bits_per_s as f64, 1000.0))
}

/// A size in bytes for the screen, decimal: `1.45 kB`.
pub fn size(bytes: u64) -> String {
    format!("{}B", scaled(bytes as f64, 1000.0))
}

/// A count in at most `width` columns: exact where it fits, else with three digits and a prefix: `12.3M`.
pub fn count(n: u64, width: usize) -> String {
    let exact = n.to_string();
    if exact.len() <= width {
        exact
    } else {
        scaled(n as f64, 1000.0).to_string().replace(' ', "")
    }
}

/// Microseconds as milliseconds with three significant digits, without a unit: `40.3`, `0.042`.
pub fn ms(us: u64) -> String {
    let ms = us as f64 / 1000.0;
    if us == 0 {
        "0".to_owned()
    } else if ms < 1.0 {
        format!("{ms:.3}")
    } else if ms < 9.995 {
        format!("{ms:.2}")
    } else if ms < 99.95 {
        format!("{ms:.1}")
    } else {
        format!("{ms:.0}")
    }
}

/// A share as per cent: `0.42%`, `12%`; a rate that is not zero never prints as zero.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 {
        "0%".to_owned()
    } else if percent < 0.01 {
        "<0.01%".to_owned()
    } else if percent < 9.995 {
        format!("{percent:.2}%")
    } else if percent < 99.95 {
        format!("{percent:.1}%")
    } else {
        format!("{percent:.0}%")
    }
}

/// Text from outside made safe for a terminal: control characters, and the characters that turn the reading
/// direction, become `\u{..}` escapes (TRAPS 30).
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}') {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_keep_three_digits_and_never_round_to_four() {
        assert_eq!(rate(0), "0 bit/s");
        assert_eq!(rate(999), "999 bit/s");
        assert_eq!(rate(93_800_000), "93.8 Mbit/s");
        assert_eq!(rate(999_949_999), "1.00 Gbit/s");
        assert_eq!(rate(1_234_000), "1.23 Mbit/s");
        assert_eq!(size(1448), "1.45 kB");
    }

    #[test]
    fn counts_are_exact_as_long_as_they_fit() {
        assert_eq!(count(0, 6), "0");
        assert_eq!(count(999_999, 6), "999999");
        assert_eq!(count(12_345_678, 6), "12.3M");
        assert_eq!(count(u64::MAX, 6), "18447P");
    }

    #[test]
    fn small_times_and_shares_do_not_vanish() {
        assert_eq!(ms(0), "0");
        assert_eq!(ms(42), "0.042");
        assert_eq!(ms(40_312), "40.3");
        assert_eq!(ms(612_000), "612");
        assert_eq!(percent(0.000_01), "<0.01%");
        assert_eq!(percent(0.0), "0%");
        assert_eq!(percent(0.0042), "0.42%");
    }

    #[test]
    fn trap_11_all_ones_and_infinite_ssthresh_are_not_numbers() {
        assert_eq!(Limit::from_kernel_rate(u64::MAX), Limit::Unlimited);
        assert_eq!(Limit::from_ssthresh(0x7fff_ffff), Limit::Unlimited);
        assert_eq!(Limit::from_ssthresh(10), Limit::Finite(10));
    }

    #[test]
    fn trap_30_escape_sequences_are_defused() {
        assert_eq!(escape("a\x1b[2Jb\u{202e}c\n"), "a\\u{1b}[2Jb\\u{202e}c\\n");
        assert_eq!(escape("naïve 漢字"), "naïve 漢字");
    }
}
