//! Moments of the events as a person reads them: wall time where the source tells how its clock stands to it.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::units::Mono;

/// How the events' clock stands to the wall's.
#[derive(Clone, Debug)]
pub struct Wall {
    /// Nanoseconds since 1970 at moment 0; `None` = not known.
    pub offset_ns: Option<i64>,
    pub zone: TimeZone,
}

impl Default for Wall {
    fn default() -> Self {
        Self {
            offset_ns: None,
            zone: TimeZone::UTC,
        }
    }
}

/// Columns of a moment.
pub const WIDTH: usize = 12;

impl Wall {
    /// `21:00:00.123`; without wall time seconds since the clock's 0: `1234.567 s`.
    pub fn text(&self, moment: Mono) -> String {
        match self.timestamp(moment) {
            Some(timestamp) => {
                let time = timestamp.to_zoned(self.zone.clone()).time();
                let ms = time.subsec_nanosecond() / 1_000_000;
                format!("{}.{ms:03}", time.strftime("%H:%M:%S"))
            }
            None => format!("{:.3} s", moment.0 as f64 / 1e9),
        }
    }
}

/// `250 ms`, `12.3 s`, `4 min 5 s`, `2 h 4 min`.
pub fn duration(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0 => format!("{} ms", crate::units::ms(ns / 1000)),
        // As milliseconds are written, a thousand times larger.
        1..60 => format!("{} s", crate::units::ms(ns / 1_000_000)),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// A place in recorded time as a person writes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// `21:00:05`, by the wall's clock there.
    Clock(jiff::civil::Time),
    /// `2026-11-30T21:00:05Z` (RFC 3339).
    Instant(Timestamp),
    /// `+90s` after the beginning, ns.
    After(u64),
    /// `-30s` before the end, ns.
    Before(u64),
    /// `50%` of the whole.
    Percent(f64),
}

/// What may be written.
pub const PLACES: &str = "21:00:05, 2026-11-30T21:00:05Z, +90s, -30s or 50%";

impl std::str::FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let wrong = || {
            format!(
                "'{}' is no time: write {PLACES}",
                crate::units::escape(text)
            )
        };
        if let Some(number) = text.strip_suffix('%') {
            let number: f64 = number.trim_end().parse().map_err(|_| wrong())?;
            return (0.0..=100.0)
                .contains(&number)
                .then_some(Self::Percent(number))
                .ok_or_else(|| {
                    format!(
                        "'{}' is not between 0% and 100%",
                        crate::units::escape(text)
                    )
                });
        }
        if let Some(rest) = text.strip_prefix('+') {
            return span_ns(rest).map(Self::After).ok_or_else(wrong);
        }
        if let Some(rest) = text.strip_prefix('-') {
            return span_ns(rest).map(Self::Before).ok_or_else(wrong);
        }
        if let Some(ns) = span_ns(text) {
            return Ok(Self::After(ns));
        }
        if let Ok(instant) = text.parse::<Timestamp>() {
            return Ok(Self::Instant(instant));
        }
        // jiff would take a date, or a time without colons, too.
        let clock = text.contains(':')
            && text
                .bytes()
                .all(|b| b.is_ascii_digit() || b":.".contains(&b));
        match text.parse::<jiff::civil::Time>() {
            Ok(time) if clock => Ok(Self::Clock(time)),
            _ => Err(wrong()),
        }
    }
}

/// `90s`, `1.5m`, `250ms`; a bare number is seconds.
fn span_ns(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let ns = match &text[digits.len()..] {
        "us" => 1e3,
        "ms" => 1e6,
        "" | "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        _ => return None,
    };
    let valid = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number: f64 = valid.then(|| digits.parse().ok()).flatten()?;
    Some((number * ns).round() as u64)
}

impl Wall {
    /// The moment that `place` is, in what goes from `first` to `last`. `Err` = why there is none, for a person.
    pub fn moment(&self, place: Place, first: Mono, last: Mono) -> Result<Mono, String> {
        let beyond = || {
            let (from, to) = (self.text(first), self.text(last));
            format!("that is outside: what there is goes from {from} to {to}")
        };
        let within = |at: Mono| {
            // What is written has whole seconds, or milliseconds.
            let (first_ms, at_ms, last_ms) = (first.0 / MS, at.0 / MS, last.0 / MS);
            let near = at_ms + 1000 > first_ms && at_ms < last_ms + 1000;
            let at = at.max(first).min(last);
            near.then_some(at).ok_or_else(beyond)
        };
        let unknown = || {
            "what was recorded does not tell the time of day: write +90s, -30s or 50%".to_owned()
        };
        match place {
            Place::After(ns) => within(first.plus(ns)),
            Place::Before(ns) => within(Mono(last.0.checked_sub(ns).ok_or_else(beyond)?)),
            Place::Percent(part) => {
                let ns = last.since(first) as f64 * part / 100.0;
                Ok(first.plus(ns.round() as u64).min(last))
            }
            Place::Instant(at) => {
                within(mono(at, self.offset_ns.ok_or_else(unknown)?).ok_or_else(beyond)?)
            }
            Place::Clock(time) => {
                let offset = self.offset_ns.ok_or_else(unknown)?;
                let begin = self.timestamp(first).ok_or_else(unknown)?;
                let day = begin.to_zoned(self.zone.clone()).date();
                // Of the first day, or of any after it that has such a moment.
                let days = last.since(first) / (24 * 3600 * 1_000_000_000) + 1;
                let on = |date: jiff::civil::Date| {
                    let at = date.to_datetime(time).to_zoned(self.zone.clone()).ok()?;
                    within(mono(at.timestamp(), offset)?).ok()
                };
                let mut date = Some(day);
                for _ in 0..=days.min(400) {
                    if let Some(at) = date.and_then(on) {
                        return Ok(at);
                    }
                    date = date.and_then(|date| date.tomorrow().ok());
                }
                Err(beyond())
            }
        }
    }

    fn timestamp(&self, moment: Mono) -> Option<Timestamp> {
        let ns = i128::from(moment.0) + i128::from(self.offset_ns?);
        Timestamp::from_nanosecond(ns).ok()
    }

    /// `21:00:00`; without wall time as [`Wall::text`].
    pub fn seconds(&self, moment: Mono) -> String {
        match self.timestamp(moment) {
            Some(at) => at
                .to_zoned(self.zone.clone())
                .strftime("%H:%M:%S")
                .to_string(),
            None => self.text(moment),
        }
    }
}

const MS: u64 = 1_000_000;

fn mono(at: Timestamp, offset_ns: i64) -> Option<Mono> {
    let ns = at.as_nanosecond() - i128::from(offset_ns);
    u64::try_from(ns).ok().map(Mono)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_wall_time_where_that_is_known() {
        let moment = Mono(1_234_567_890_123);
        let mut wall = Wall::default();
        assert_eq!(wall.text(moment), "1234.568 s");
        // 2026-11-30T21:00:00Z
        wall.offset_ns = Some(1_796_072_400_000_000_000 - 1_234_567_890_123 + 5_000_000);
        assert_eq!(wall.text(moment), "21:00:00.005");
        wall.offset_ns = Some(i64::MAX);
        assert!(!wall.text(Mono(u64::MAX)).is_empty());
    }

    #[test]
    fn durations_have_the_unit_they_need() {
        assert_eq!(duration(0), "0 ms");
        assert_eq!(duration(250_000_000), "250 ms");
        assert_eq!(duration(12_340_000_000), "12.3 s");
        assert_eq!(duration(245_000_000_000), "4 min 5 s");
        assert_eq!(duration(7_440_000_000_000), "2 h 4 min");
    }

    #[test]
    fn places_are_read_as_people_write_them() {
        let read = |text: &str| text.parse::<Place>();
        let time = jiff::civil::time;
        assert_eq!(read("21:00:05"), Ok(Place::Clock(time(21, 0, 5, 0))));
        assert_eq!(read("21:00"), Ok(Place::Clock(time(21, 0, 0, 0))));
        assert_eq!(
            read("21:00:05.25"),
            Ok(Place::Clock(time(21, 0, 5, 250_000_000)))
        );
        let instant = Timestamp::from_second(1_796_072_405).expect("a time");
        assert_eq!(read("2026-11-30T21:00:05Z"), Ok(Place::Instant(instant)));
        assert_eq!(
            read("2026-11-30T22:00:05+01:00"),
            Ok(Place::Instant(instant))
        );
        assert_eq!(read("+90s"), Ok(Place::After(90_000_000_000)));
        assert_eq!(read("90"), Ok(Place::After(90_000_000_000)));
        assert_eq!(read("+1.5m"), Ok(Place::After(90_000_000_000)));
        assert_eq!(read("-250ms"), Ok(Place::Before(250_000_000)));
        assert_eq!(read(" 50% "), Ok(Place::Percent(50.0)));
        for wrong in [
            "",
            "%",
            "-",
            "+",
            "101%",
            "-1%",
            "nan%",
            "25:00:00",
            "2026-11-30",
            "x",
            "+5x",
            "..",
            "21",
            "é",
        ] {
            let read = read(wrong);
            assert!(read.is_err() || wrong == "21", "{wrong:?} {read:?}");
        }
    }

    #[test]
    fn a_place_is_a_moment_of_what_there_is() {
        const S: u64 = 1_000_000_000;
        // 2026-11-30T23:59:00Z, for two minutes.
        let (first, last) = (Mono(100 * S), Mono(220 * S));
        let wall = Wall {
            offset_ns: Some((1_796_083_140 - 100) * S as i64),
            zone: TimeZone::UTC,
        };
        assert_eq!(wall.seconds(first), "23:59:00");
        let at = |text: &str| wall.moment(text.parse().expect(text), first, last);
        assert_eq!(at("23:59:30"), Ok(Mono(130 * S)));
        assert_eq!(at("00:00:30"), Ok(Mono(190 * S)), "the day after");
        assert_eq!(at("2026-12-01T00:00:00Z"), Ok(Mono(160 * S)));
        assert_eq!(at("+90s"), Ok(Mono(190 * S)));
        assert_eq!(at("-20s"), Ok(Mono(200 * S)));
        assert_eq!(at("50%"), Ok(Mono(160 * S)));
        assert_eq!(at("100%"), Ok(last));
        for outside in [
            "12:00:00",
            "+10m",
            "-10m",
            "2026-11-30T21:00:00Z",
            "1970-01-01T00:00:00Z",
        ] {
            let told = at(outside).expect_err(outside);
            assert!(told.contains("23:59:00.000 to 00:01:00.000"), "{told}");
        }
        let silent = Wall::default();
        let told = silent.moment(Place::Clock(jiff::civil::time(1, 0, 0, 0)), first, last);
        assert!(told.is_err_and(|told| told.contains("+90s")));
        assert_eq!(silent.moment(Place::Percent(0.0), first, last), Ok(first));
    }
}
