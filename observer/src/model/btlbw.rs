//! The bandwidth estimate for algorithms that keep none: the windowed maximum of non-app-limited delivery rates.

use crate::units::Mono;

/// SPEC §3: the maximum over this many RTTs.
const RTTS: u64 = 10;
/// The estimate is forgotten when no delivery rate confirmed it for so long: a rate is stale when idle (TRAPS 9).
const FORGET_NS: u64 = 10_000_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Best {
    time: Mono,
    bytes_per_s: u64,
}

/// Kathleen Nichols' filter, as `lib/win_minmax.c` has it: the best, second and third best of a moving window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxRate {
    best: Option<[Best; 3]>,
    /// Of the last rate taken in.
    updated: Mono,
}

impl MaxRate {
    pub fn restart(&mut self) {
        self.best = None;
    }

    /// A non-app-limited delivery rate, bytes per second.
    pub fn take(&mut self, time: Mono, bytes_per_s: u64, srtt_us: u32) {
        let new = Best { time, bytes_per_s };
        let window = u64::from(srtt_us) * 1000 * RTTS;
        self.updated = time;
        let Some(best) = &mut self.best else {
            self.best = Some([new; 3]);
            return;
        };
        if new.bytes_per_s >= best[0].bytes_per_s || time.since(best[2].time) > window {
            *best = [new; 3];
            return;
        }
        if new.bytes_per_s >= best[1].bytes_per_s {
            best[1] = new;
            best[2] = new;
        } else if new.bytes_per_s >= best[2].bytes_per_s {
            best[2] = new;
        }
        Self::age(best, new, window);
    }

    /// `minmax_subwin_update()`.
    fn age(best: &mut [Best; 3], new: Best, window: u64) {
        let age = new.time.since(best[0].time);
        if age > window {
            *best = [best[1], best[2], new];
            if new.time.since(best[0].time) > window {
                *best = [best[1], best[2], new];
            }
        } else if best[1].time == best[0].time && age > window / 4 {
            best[1] = new;
            best[2] = new;
        } else if best[2].time == best[1].time && age > window / 2 {
            best[2] = new;
        }
    }

    /// The last moment of what [`MaxRate::get`] tells now.
    pub fn expires(&self) -> Option<Mono> {
        self.best.map(|_| self.updated.plus(FORGET_NS))
    }

    /// Bytes per second.
    pub fn get(&self, now: Mono) -> Option<u64> {
        let best = self.best.as_ref()?;
        (now.since(self.updated) <= FORGET_NS).then_some(best[0].bytes_per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_maximum_lives_for_ten_round_trips() {
        let mut max = MaxRate::default();
        max.take(Mono(0), 1000, 10_000);
        for i in 1..=10 {
            max.take(Mono(i * 10 * MS), 500, 10_000);
            assert_eq!(max.get(Mono(i * 10 * MS)), Some(1000), "after {i} RTTs");
        }
        max.take(Mono(110 * MS), 500, 10_000);
        assert_eq!(max.get(Mono(110 * MS)), Some(500));
    }

    #[test]
    fn trap_09_an_estimate_nobody_confirmed_is_forgotten() {
        let mut max = MaxRate::default();
        max.take(Mono(0), 1000, 10_000);
        assert_eq!(max.get(Mono(FORGET_NS)), Some(1000));
        assert_eq!(max.get(Mono(FORGET_NS + 1)), None);
    }
}
