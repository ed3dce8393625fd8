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
    time: Mono,
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
    pub fn of(time: Mono, sample: &Sample, spent: Spent) -> Self {
        Self {
            time,
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
    pub fn birth(time: Mono) -> Self {
        Self {
            time,
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
    fn between(older: &Reading, newer: &Reading, end: Mono) -> Option<Self> {
        let ns = end.since(older.time);
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

/// The readings, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Readings {
    kept: Vec<Reading>,
}

impl Readings {
    /// Forgets everything: what follows cannot be compared with what was.
    pub fn restart(&mut self) {
        self.kept.clear();
    }

    /// Adds the newest reading; `span` nanoseconds before it have to stay measurable.
    pub fn push(&mut self, reading: Reading, span: u64) {
        if let Some(last) = self.kept.last_mut()
            && last.time == reading.time
        {
            *last = reading;
            return;
        }
        let past = Mono(reading.time.0.saturating_sub(span));
        let stale = self.kept.windows(2).take_while(|w| w[1].time <= past);
        let stale = stale.count();
        self.kept.drain(..stale);
        if self.kept.len() == KEPT {
            self.thin();
        } else if self.kept.len() == self.kept.capacity() {
            self.kept.reserve_exact(4);
        }
        self.kept.push(reading);
    }

    /// Drops the inner reading whose neighbours are closest together.
    fn thin(&mut self) {
        let closest = (1..self.kept.len() - 1)
            .min_by_key(|&i| self.kept[i + 1].time.since(self.kept[i - 1].time));
        if let Some(at) = closest {
            self.kept.remove(at);
        }
    }

    /// What happened over the last `window` nanoseconds: from the reading nearest to that long ago to the newest,
    /// as at `now`. The newest still holds after it was not followed by another for [`QUIET_NS`].
    pub fn over(&self, window: u64, now: Mono) -> Option<Interval> {
        let newest = self.kept.last()?;
        let end = newest.time.max(Mono(now.0.saturating_sub(QUIET_NS)));
        let start = Mono(end.0.saturating_sub(window));
        // Silence continues the series: after it, the newest reading is one to measure from, and alone it tells that
        // nothing happened once the whole window is silent.
        let older = match self.kept.len() {
            1 if end.since(newest.time) < window.max(1) => return None,
            _ if end > newest.time => &self.kept[..],
            n => &self.kept[..n - 1],
        };
        // In the order of time: of the two around `start` the nearer, the earlier when both are as near.
        let after = older.partition_point(|r| r.time < start);
        let nearest = match (after.checked_sub(1), older.get(after)) {
            (Some(before), Some(after)) => {
                let before = &older[before];
                if start.since(before.time) <= after.time.since(start) {
                    before
                } else {
                    after
                }
            }
            (Some(before), None) => &older[before],
            (None, after) => after?,
        };
        if end.since(nearest.time) < SHORTEST_NS {
            return None;
        }
        Interval::between(nearest, newest, end)
    }

    /// Until when [`Readings::over`] tells the same of any window up to `span`, but for its length when nothing happened
    /// in it; `None` = it changes at every moment.
    pub fn holds(&self, span: u64, now: Mono) -> Option<Mono> {
        const EVER: Mono = Mono(u64::MAX);
        let Some(newest) = self.kept.last() else {
            return Some(EVER);
        };
        let quiet = newest.time.plus(QUIET_NS);
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
