//! Options and levels of a qdisc as a person reads them.

use crate::event::{Measure, Setting};
use crate::units::{self, Limit, UNLIMITED, bits, escape};

/// `limit 10000p`, `rate 50.0 Mbit/s`, `ecn`; `None` for a flag that is off.
pub fn option(name: &str, setting: &Setting) -> Option<String> {
    let value = match setting {
        Setting::Count(count) => count.to_string(),
        Setting::Packets(packets) => format!("{packets}p"),
        Setting::Bytes(bytes) => units::size(*bytes),
        Setting::Rate(Limit::Unlimited) => UNLIMITED.to_owned(),
        Setting::Rate(Limit::Finite(rate)) => units::rate(bits(*rate)),
        Setting::Nanoseconds(ns) => time(*ns),
        Setting::Share(share) => units::percent(f64::from(*share) / f64::from(u32::MAX)),
        Setting::Signed(number) => number.to_string(),
        Setting::Flag(true) => return Some(escape(name)),
        Setting::Flag(false) if name == "pacing" => "off".to_owned(),
        Setting::Flag(false) => return None,
        Setting::Word(word) => escape(word),
    };
    Some(format!("{} {value}", escape(name)))
}

/// A level of the kind's own.
pub fn level(value: u64, measure: Measure) -> String {
    match measure {
        Measure::Count => value.to_string(),
        Measure::Bytes => units::size(value),
        Measure::Rate => units::rate(bits(value)),
        Measure::Nanoseconds => time(value),
        Measure::Microseconds => time(value.saturating_mul(1000)),
        Measure::Probability => units::percent(value as f64 / u64::MAX as f64),
    }
}

/// `10 µs`, `4.99 ms`, `10.0 s`.
fn time(ns: u64) -> String {
    match ns {
        0 => "0 ms".to_owned(),
        1..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", units::ms(ns)),
        1_000_000..1_000_000_000 => format!("{} ms", units::ms(ns / 1000)),
        _ => format!("{} s", units::ms(ns / 1_000_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_read_as_words() {
        let said = |name, setting| option(name, &setting).unwrap_or_default();
        assert_eq!(said("limit", Setting::Packets(1000)), "limit 1000p");
        assert_eq!(
            said("maxrate", Setting::Rate(Limit::Unlimited)),
            "maxrate ∞"
        );
        assert_eq!(
            said("rate", Setting::Rate(Limit::Finite(6_250_000))),
            "rate 50.0 Mbit/s"
        );
        assert_eq!(
            said("target", Setting::Nanoseconds(4_999_000)),
            "target 5.00 ms"
        );
        assert_eq!(
            said("timer_slack", Setting::Nanoseconds(10_000)),
            "timer_slack 10.0 µs"
        );
        assert_eq!(
            said("horizon", Setting::Nanoseconds(10_000_000_000)),
            "horizon 10.0 s"
        );
        assert_eq!(said("loss", Setting::Share(85_899_345)), "loss 2.00%");
        assert_eq!(said("ecn", Setting::Flag(true)), "ecn");
        assert_eq!(option("ecn", &Setting::Flag(false)), None);
    }
}
