//! Units and marks: the time base, «unlimited», and how quantities are written on screen (SPEC §3).

pub mod words;

use std::fmt;

use unicode_width::UnicodeWidthChar as _;

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

/// Combining marks on one character: more of them reach into the lines above and below.
const MARKS: usize = 2;

/// Text from outside made safe for a terminal (TRAPS 30): control characters, characters that turn the reading direction
/// or are not seen, those of which terminals make one wide or narrow glyph at will, and heaps of combining marks become
/// `\u{..}` escapes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // A mark at the beginning would go on what stands before.
    let mut marks = MARKS;
    for c in text.chars() {
        if c.is_ascii_graphic() || c == ' ' {
            marks = 0;
            out.push(c);
            continue;
        }
        let mark = c.width() == Some(0);
        if c.is_control() || is_treacherous(c) || (mark && marks >= MARKS) {
            marks = 0;
            out.extend(c.escape_default());
        } else {
            marks = if mark { marks + 1 } else { 0 };
            out.push(c);
        }
    }
    out
}

/// Separators of lines, turners of direction, what is not seen, and what joins others into one glyph: variation
/// selectors, skin tones, flags.
fn is_treacherous(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{11ff}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{d7b0}'..='\u{d7ff}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{1f1e6}'..='\u{1f1ff}' | '\u{1f3fb}'..='\u{1f3ff}' | '\u{e0000}'..='\u{e0fff}')
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
    fn trap_30_what_a_terminal_may_draw_elsewhere_is_escaped() {
        for plain in [
            "nginx: worker",
            "漢字",
            "e\u{301}",
            "a\u{301}\u{302}b\u{303}",
            "α-β",
            "🦀",
        ] {
            assert_eq!(escape(plain), plain);
        }
        assert_eq!(escape("\x1b[2J\x07"), "\\u{1b}[2J\\u{7}");
        assert_eq!(escape("\u{301}a"), "\\u{301}a", "not on what stands before");
        assert_eq!(escape("a\u{301}\u{301}\u{301}"), "a\u{301}\u{301}\\u{301}");
        for c in [
            "\u{9b}",
            "\u{202e}",
            "\u{200d}",
            "\u{fe0f}",
            "\u{2028}",
            "\u{e0041}",
            "\u{1f3fb}",
        ] {
            assert!(escape(&format!("a{c}b")).is_ascii(), "{c:?}");
        }
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
