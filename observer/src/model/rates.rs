//! A flow's recent readings of its cumulative counters, and what is measured between two of them.
//!
//! Every rate of the live views is a difference of two readings of the same counters. The newest reading is always
//! kept, older ones are thinned so that [`KEPT`] of them spread over the span somebody may ask for: memory per flow
//! does not depend on how often it is sampled.

use crate::event::Sample;
use crate::units::Mono;

/// Readings kept per flow: the span is resolved to about a tenth.
pub(super) const KEPT: usize = 12;
/// The sweep reads every flow that was active within this time (SPEC §8), so that silence for longer means that
/// nothing happened.
pub(super) const QUIET_NS: u64 = 1_000_000_000;
/// No rate is made from two readings closer than the default sampling interval: one burst of ACKs is not a rate.
pub(super) const SHORTEST_NS: u64 = 10_000_000;

/// A cumulative counter that may be unknown, in eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Total(u64);

impl Total {
    const UNKNOWN: Self = Self(u64::MAX);

    fn of(value: Option<u64>) -> Self {
        value.map_or(Self::UNKNOWN, Self)
    }

    /// The rise since `earlier`; `None` where either is unknown or it fell.
    fn since(self, earlier: Self) -> Option<u64> {
        if self == Self::UNKNOWN || earlier == Self::UNKNOWN {
            return None;
        }
        self.0.checked_sub(earlier.0)
    }
}

/// Busy time spent in conditions that only samples tell, µs since the flow came into view, wrapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Not for want of send buffer, with an app-limited bubble in flight.
    pub app: u32,
    /// `ca_state` Recovery or Loss.
    pub recovery: u32,
    /// The window is full.
    pub cwnd: u32,
    /// Data is waiting, and no window holds it.
    pub pacing: u32,
    /// The RTT is clearly above the minimum.
    pub queued: u32,
}

/// The kernel's limit clocks, µs, wrapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clocks {
    busy: u32,
    rwnd: u32,
    sndbuf: u32,
}

/// One reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reading {
    acked: Total,
    sent: Total,
    retrans: Total,
    received: Total,
    data_segs: Option<u32>,
    retrans_segs: u32,
    clocks: Option<Clocks>,
    spent: Spent,
}

impl Reading {
    pub fn of(sample: &Sample, spent: Spent) -> Self {
        Self {
            acked: Total::of(sample.bytes_acked),
            sent: Total::of(sample.bytes_sent),
            retrans: Total::of(sample.bytes_retrans),
            received: Total::of(sample.bytes_received),
            data_segs: sample.data_segs_out,
            retrans_segs: sample.retrans,
            clocks: sample.clocks.map(|c| Clocks {
                busy: c.busy_us as u32,
                rwnd: c.rwnd_limited_us as u32,
                sndbuf: c.sndbuf_limited_us as u32,
            }),
            spent,
        }
    }

    /// What every counter of a socket shows when it is made.
    pub fn birth() -> Self {
        Self {
            acked: Total(0),
            sent: Total(0),
            retrans: Total(0),
            received: Total(0),
            data_segs: Some(0),
            retrans_segs: 0,
            clocks: Some(Clocks {
                busy: 0,
                rwnd: 0,
                sndbuf: 0,
            }),
            spent: Spent::default(),
        }
    }
}

/// What happened between two readings. `None` = not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Nanoseconds between the readings, never 0.
    pub ns: u64,
    /// Bytes newly acknowledged.
    pub acked: Option<u64>,
    /// Bytes sent, retransmissions included.
    pub sent: Option<u64>,
    /// Bytes retransmitted.
    pub retrans: Option<u64>,
    /// Bytes received in order.
    pub received: Option<u64>,
    /// Segments with data sent, retransmissions included.
    pub data_segs: Option<u32>,
    /// Segments retransmitted.
    pub retrans_segs: u32,
    /// Rise of the limit clocks, µs.
    pub(super) clocks: Option<[u32; 3]>,
    pub(super) spent: Spent,
}

impl Interval {
    /// `ns`: from the older to the end of the interval.
    fn between(older: &Reading, newer: &Reading, ns: u64) -> Option<Self> {
        if ns == 0 {
            return None;
        }
        Some(Self {
            ns,
            acked: newer.acked.since(older.acked),
            sent: newer.sent.since(older.sent),
            retrans: newer.retrans.since(older.retrans),
            received: newer.received.since(older.received),
            data_segs: newer
                .data_segs
                .zip(older.data_segs)
                .map(|(new, old)| new.wrapping_sub(old)),
            retrans_segs: newer.retrans_segs.wrapping_sub(older.retrans_segs),
            clocks: newer.clocks.zip(older.clocks).map(|(new, old)| {
                [
                    new.busy.wrapping_sub(old.busy),
                    new.rwnd.wrapping_sub(old.rwnd),
                    new.sndbuf.wrapping_sub(old.sndbuf),
                ]
            }),
            spent: Spent {
                app: newer.spent.app.wrapping_sub(older.spent.app),
                recovery: newer.spent.recovery.wrapping_sub(older.spent.recovery),
                cwnd: newer.spent.cwnd.wrapping_sub(older.spent.cwnd),
                pacing: newer.spent.pacing.wrapping_sub(older.spent.pacing),
                queued: newer.spent.queued.wrapping_sub(older.spent.queued),
            },
        })
    }

    /// `bytes` of this interval as bits per second.
    pub fn bps(&self, bytes: u64) -> u64 {
        let bits = u128::from(bytes) * 8 * 1_000_000_000;
        u64::try_from(bits / u128::from(self.ns)).unwrap_or(u64::MAX)
    }

    /// Bytes retransmitted ÷ bytes sent (retransmissions counted in both); `None` when nothing was sent.
    pub fn retrans_rate(&self) -> Option<f64> {
        ratio(self.retrans?, self.sent?)
    }

    /// Segments retransmitted ÷ segments sent with data; `None` when none was sent.
    pub fn retrans_rate_segments(&self) -> Option<f64> {
        ratio(u64::from(self.retrans_segs), u64::from(self.data_segs?))
    }
}

/// `part ÷ whole`; `None` when there is no whole.
pub(super) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The readings, oldest first. When each was made stands apart from what it said: a sample is to touch few lines of memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Readings {
    len: u8,
    /// Where in `kept` each of them is.
    places: [u8; KEPT],
    times: [u64; KEPT],
    /// In no order, some of them out of use.
    kept: Vec<Reading>,
}

impl Readings {
    /// Forgets everything: what follows cannot be compared with what was.
    pub fn restart(&mut self) {
        self.len = 0;
    }

    fn times(&self) -> &[u64] {
        &self.times[..usize::from(self.len)]
    }

    fn get(&self, at: usize) -> &Reading {
        &self.kept[usize::from(self.places[at])]
    }

    /// Adds the newest reading; `span` nanoseconds before it have to stay measurable.
    pub fn push(&mut self, time: Mono, reading: Reading, span: u64) {
        if let Some(last) = usize::from(self.len).checked_sub(1)
            && self.times[last] == time.0
        {
            self.kept[usize::from(self.places[last])] = reading;
            return;
        }
        let past = time.0.saturating_sub(span);
        let stale = self.times().windows(2).take_while(|w| w[1] <= past);
        let stale = stale.count();
        self.remove(0, stale);
        if usize::from(self.len) == KEPT {
            self.thin();
        }
        let at = usize::from(self.len);
        self.times[at] = time.0;
        self.places[at] = self.keep(reading);
        self.len += 1;
    }

    /// Puts a reading where none in use is.
    fn keep(&mut self, reading: Reading) -> u8 {
        let used = &self.places[..usize::from(self.len)];
        let used = used.iter().fold(0_u32, |set, place| set | 1 << place);
        let place = used.trailing_ones() as usize;
        if let Some(free) = self.kept.get_mut(place) {
            *free = reading;
        } else {
            if self.kept.len() == self.kept.capacity() {
                self.kept.reserve_exact(4);
            }
            self.kept.push(reading);
        }
        place as u8
    }

    /// Takes `count` from the order, from `at` on.
    fn remove(&mut self, at: usize, count: usize) {
        if count > 0 {
            let len = usize::from(self.len);
            self.times.copy_within(at + count..len, at);
            self.places.copy_within(at + count..len, at);
            self.len -= count as u8;
        }
    }

    /// Drops the inner reading whose neighbours are closest together.
    fn thin(&mut self) {
        let times = self.times();
        let closest =
            (1..times.len() - 1).min_by_key(|&i| times[i + 1].saturating_sub(times[i - 1]));
        if let Some(at) = closest {
            self.remove(at, 1);
        }
    }

    /// What happened over the last `window` nanoseconds: from the reading nearest to that long ago to the newest,
    /// as at `now`. The newest still holds after it was not followed by another for [`QUIET_NS`].
    pub fn over(&self, window: u64, now: Mono) -> Option<Interval> {
        let times = self.times();
        let newest = *times.last()?;
        let end = newest.max(now.0.saturating_sub(QUIET_NS));
        let start = end.saturating_sub(window);
        // Silence continues the series: after it, the newest reading is one to measure from, and alone it tells that
        // nothing happened once the whole window is silent.
        let older = match times.len() {
            1 if end - newest < window.max(1) => return None,
            _ if end > newest => times,
            n => &times[..n - 1],
        };
        // In the order of time: of the two around `start` the nearer, the earlier when both are as near.
        let after = older.partition_point(|time| *time < start);
        let nearest = match (after.checked_sub(1), older.get(after)) {
            (Some(before), Some(next))
                if start.saturating_sub(older[before]) <= next.saturating_sub(start) =>
            {
                before
            }
            (_, Some(_)) => after,
            (Some(before), None) => before,
            (None, None) => return None,
        };
        let ns = end.saturating_sub(older[nearest]);
        if ns < SHORTEST_NS {
            return None;
        }
        Interval::between(self.get(nearest), self.get(times.len() - 1), ns)
    }

    /// Until when [`Readings::over`] tells the same of any window up to `span`, but for its length when nothing happened
    /// in it; `None` = it changes at every moment.
    pub fn holds(&self, span: u64, now: Mono) -> Option<Mono> {
        const EVER: Mono = Mono(u64::MAX);
        let Some(&newest) = self.times().last() else {
            return Some(EVER);
        };
        let quiet = Mono(newest).plus(QUIET_NS);
        if now <= quiet {
            return Some(quiet);
        }
        (now > quiet.plus(span)).then_some(EVER)
    }

    /// Bytes on the heap.
    pub fn heap(&self) -> usize {
        self.kept.capacity() * size_of::<Reading>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same without thrift: all in the order of time.
    #[derive(Default)]
    struct Plain(Vec<(u64, u64)>);

    impl Plain {
        fn push(&mut self, time: u64, acked: u64, span: u64) {
            if let Some(last) = self.0.last_mut()
                && last.0 == time
            {
                last.1 = acked;
                return;
            }
            let past = time.saturating_sub(span);
            while self.0.len() > 1 && self.0[1].0 <= past {
                self.0.remove(0);
            }
            if self.0.len() == KEPT {
                let closest =
                    (1..KEPT - 1).min_by_key(|&i| self.0[i + 1].0.saturating_sub(self.0[i - 1].0));
                self.0.remove(closest.expect("some are inside"));
            }
            self.0.push((time, acked));
        }
    }

    fn acked(acked: u64) -> Reading {
        Reading {
            acked: Total(acked),
            ..Reading::birth()
        }
    }

    proptest! {
        #[test]
        fn readings_are_those_that_a_plain_list_would_keep(
            steps in proptest::collection::vec((0_u64..50, 1_u64..600, prop::bool::weighted(0.02)), 0..200),
        ) {
            let (mut readings, mut plain) = (Readings::default(), Plain::default());
            let mut time = 1000;
            for (n, (step, span, restart)) in steps.into_iter().enumerate() {
                if restart {
                    readings.restart();
                    plain.0.clear();
                }
                time += step;
                readings.push(Mono(time), acked(n as u64), span);
                plain.push(time, n as u64, span);
                let kept: Vec<(u64, u64)> = readings
                    .times()
                    .iter()
                    .enumerate()
                    .map(|(at, time)| (*time, readings.get(at).acked.0))
                    .collect();
                prop_assert_eq!(&kept, &plain.0);
                prop_assert!(readings.kept.len() <= KEPT);
            }
        }
    }
}
