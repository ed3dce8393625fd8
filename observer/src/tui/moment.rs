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
        let timestamp = self.offset_ns.and_then(|offset| {
            let ns = i128::from(moment.0) + i128::from(offset);
            Timestamp::from_nanosecond(ns).ok()
        });
        match timestamp {
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
}
