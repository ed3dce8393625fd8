//! The last minute of a flow, second by second: bytes acknowledged and the share of bytes sent again. For sparklines and
//! the mark of a spike.
//!
//! Bounded: [`Seconds`] takes 304 bytes a flow, whatever happens.

use super::Model;
use super::flow::Flow;
use super::rates::{QUIET_NS, ratio};
use crate::event::Sample;
use crate::units::Mono;

/// Seconds kept: a spike is judged against the median of so many (SPEC §3).
pub const SECONDS: usize = 60;
const SECOND_NS: u64 = 1_000_000_000;
/// A spike is at least this share …
const SPIKE_SHARE: f64 = 0.01;
/// … and so many times the median.
const SPIKE_TIMES: f64 = 3.0;

/// A number of 16 bits that keeps its size to half a per cent: the upper half of an `f32`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Half(u16);

impl Half {
    const UNKNOWN: Self = Self(u16::MAX);

    fn of(value: Option<f64>) -> Self {
        value.map_or(Self::UNKNOWN, |v| Self(((v as f32).to_bits() >> 16) as u16))
    }

    fn get(self) -> Option<f64> {
        (self != Self::UNKNOWN).then(|| f64::from(f32::from_bits(u32::from(self.0) << 16)))
    }
}

/// One second. `None` = unknown, or nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowSecond {
    /// Bytes newly acknowledged.
    pub acked: Option<u64>,
    /// Bytes retransmitted ÷ bytes sent.
    pub retrans_rate: Option<f64>,
}

impl FlowSecond {
    const UNKNOWN: Self = Self {
        acked: None,
        retrans_rate: None,
    };
    /// Nothing happened.
    const QUIET: Self = Self {
        acked: Some(0),
        retrans_rate: None,
    };
}

/// Rises of counters. `None` = unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rise {
    acked: Option<u64>,
    sent: Option<u64>,
    retrans: Option<u64>,
}

impl Rise {
    fn between(old: Option<&Sample>, new: &Sample) -> Self {
        // Without an older reading every counter began at 0.
        let rise = |read: fn(&Sample) -> Option<u64>| {
            let old = old.map_or(Some(0), read);
            read(new)?.checked_sub(old?)
        };
        Self {
            acked: rise(|s| s.bytes_acked),
            sent: rise(|s| s.bytes_sent),
            retrans: rise(|s| s.bytes_retrans),
        }
    }

    /// The part that fell into `part` of `whole` nanoseconds, and the rest.
    fn split(self, part: u64, whole: u64) -> (Self, Self) {
        let share = |rise: u64| (u128::from(rise) * u128::from(part) / u128::from(whole)) as u64;
        let first = Self {
            acked: self.acked.map(share),
            sent: self.sent.map(share),
            retrans: self.retrans.map(share),
        };
        let rest = |all: Option<u64>, first: Option<u64>| Some(all? - first?);
        let rest = Self {
            acked: rest(self.acked, first.acked),
            sent: rest(self.sent, first.sent),
            retrans: rest(self.retrans, first.retrans),
        };
        (first, rest)
    }

    /// Both; what is unknown of one is unknown of both.
    fn add(&mut self, other: Self) {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        *self = Self {
            acked: sum(self.acked, other.acked),
            sent: sum(self.sent, other.sent),
            retrans: sum(self.retrans, other.retrans),
        };
    }

    fn second(self) -> FlowSecond {
        let rate = self.retrans.zip(self.sent);
        FlowSecond {
            acked: self.acked,
            retrans_rate: rate.and_then(|(retrans, sent)| ratio(retrans, sent)),
        }
    }
}

/// No rise.
const NONE: Rise = Rise {
    acked: Some(0),
    sent: Some(0),
    retrans: Some(0),
};

/// The last minute.
#[derive(Clone, Debug)]
pub(super) struct Seconds {
    /// The first second that anything is known of.
    first: u64,
    /// The one being filled.
    at: u64,
    /// What fell into it so far.
    now: Rise,
    /// Those before it, each at its number modulo [`SECONDS`].
    ring: [[Half; 2]; SECONDS],
}

impl Default for Seconds {
    fn default() -> Self {
        Self {
            first: u64::MAX,
            at: 0,
            now: NONE,
            ring: [[Half::UNKNOWN; 2]; SECONDS],
        }
    }
}

impl Seconds {
    /// Takes a reading in. `old`: the one before, or the flow's birth; `None` = nothing to compare with.
    pub fn take(&mut self, old: Option<(Mono, Option<&Sample>)>, time: Mono, new: &Sample) {
        let Some((since, old)) = old else {
            // From here on it is known; what was before in this second is not.
            self.start(time.0 / SECOND_NS + 1);
            return;
        };
        // The sweep reads what was active within a second: silence before that is silence.
        // A sample may be dated before its flow was opened: another CPU's clock.
        let since = since.0.max(time.0.saturating_sub(QUIET_NS)).min(time.0);
        if self.first == u64::MAX {
            self.start(since / SECOND_NS);
        }
        let rise = Rise::between(old, new);
        let (begin, end) = (since / SECOND_NS, time.0 / SECOND_NS);
        self.advance(begin);
        if begin == end {
            self.add(begin, rise);
            return;
        }
        let (first, rest) = rise.split(end * SECOND_NS - since, time.0 - since);
        self.add(begin, first);
        self.advance(end);
        self.add(end, rest);
    }

    /// What fell into a second that nothing is known of otherwise is left out.
    fn add(&mut self, second: u64, rise: Rise) {
        if second == self.at {
            self.now.add(rise);
        }
    }

    fn start(&mut self, second: u64) {
        *self = Self {
            first: second,
            at: second,
            ..Self::default()
        };
    }

    /// Seconds end; those in which nothing was read were quiet.
    fn advance(&mut self, to: u64) {
        if to <= self.at {
            return;
        }
        // Older ones would be overwritten.
        let from = self.at.max(to.saturating_sub(SECONDS as u64));
        for second in from..to {
            let FlowSecond {
                acked,
                retrans_rate,
            } = self.get(second);
            let acked = acked.map(|acked| acked as f64);
            self.ring[(second % SECONDS as u64) as usize] =
                [Half::of(acked), Half::of(retrans_rate)];
        }
        self.at = to;
        self.now = NONE;
    }

    fn get(&self, second: u64) -> FlowSecond {
        if second < self.first || self.at.saturating_sub(second) > SECONDS as u64 {
            return FlowSecond::UNKNOWN;
        }
        match second.cmp(&self.at) {
            std::cmp::Ordering::Greater => FlowSecond::QUIET,
            std::cmp::Ordering::Equal => self.now.second(),
            std::cmp::Ordering::Less => {
                let [acked, rate] = self.ring[(second % SECONDS as u64) as usize];
                FlowSecond {
                    acked: acked.get().map(|acked| acked as u64),
                    retrans_rate: rate.get(),
                }
            }
        }
    }
}

impl Model {
    /// The last `count` seconds of `flow`, oldest first, without the one that has not ended yet. Of a closed flow the
    /// last ones of its life.
    pub fn seconds(&self, flow: &Flow, count: usize) -> impl Iterator<Item = FlowSecond> + Clone {
        let end = match flow.closed_at() {
            Some(end) => end.min(self.now()).0 / SECOND_NS + 1,
            None => self.now().0 / SECOND_NS,
        };
        let past = (1..=count as u64).rev();
        past.map(move |back| {
            end.checked_sub(back)
                .map_or(FlowSecond::UNKNOWN, |second| flow.seconds.get(second))
        })
    }

    /// The last second's retransmit rate is at least 1 % and three times the median of the minute before (SPEC §3).
    /// Without anything to compare with it is none.
    pub fn is_spike(&self, flow: &Flow) -> bool {
        if flow.is_closed() {
            return false;
        }
        let last = flow.readings.over(SECOND_NS, self.now());
        let Some(rate) = last.and_then(|i| i.retrans_rate()) else {
            return false;
        };
        rate >= SPIKE_SHARE
            && self
                .usual_retrans_rate(flow)
                .is_some_and(|usual| rate >= SPIKE_TIMES * usual)
    }

    /// The median of the seconds in which something was sent, the last one left out.
    fn usual_retrans_rate(&self, flow: &Flow) -> Option<f64> {
        let seconds = self.seconds(flow, SECONDS).take(SECONDS - 1);
        let mut rates: Vec<f64> = seconds.filter_map(|s| s.retrans_rate).collect();
        if rates.is_empty() {
            return None;
        }
        let middle = rates.len() / 2;
        Some(*rates.select_nth_unstable_by(middle, f64::total_cmp).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_large_as_it_says() {
        assert_eq!(size_of::<Seconds>(), 304);
    }

    #[test]
    fn numbers_keep_their_size() {
        for value in [0.0, 0.004, 1.0, 93.8e6, 1e12] {
            let back = Half::of(Some(value)).get().expect("known");
            assert!((value - back).abs() <= value * 0.01, "{value} {back}");
        }
        assert_eq!(Half::of(None).get(), None);
    }
}
