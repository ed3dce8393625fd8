//! The course of a flow: cumulative figures at a bounded number of moments, so that the second half of a flow can be
//! told when it has ended, however long it was.

use crate::units::Mono;

/// Moments kept. Beyond twice as many every other one goes: the middle of a flow is then resolved to less than a
/// hundredth of its time, and interpolated between.
const KEPT: usize = 128;

/// A quantity weighted by the time it held.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weighted {
    sum: f64,
    ns: f64,
}

impl Weighted {
    pub fn add(&mut self, value: f64, ns: u64) {
        self.sum += value * ns as f64;
        self.ns += ns as f64;
    }

    pub fn merge(&mut self, other: Self) {
        self.sum += other.sum;
        self.ns += other.ns;
    }

    /// `None` while nothing was known.
    pub fn mean(self) -> Option<f64> {
        (self.ns > 0.0).then(|| self.sum / self.ns)
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            sum: self.sum - earlier.sum,
            ns: self.ns - earlier.ns,
        }
    }

    fn between(self, later: Self, share: f64) -> Self {
        Self {
            sum: self.sum + (later.sum - self.sum) * share,
            ns: self.ns + (later.ns - self.ns) * share,
        }
    }
}

/// Whole seconds: how many, bytes acknowledged in them, and the sum of the squares of these.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seconds {
    count: u64,
    sum: f64,
    squares: f64,
}

impl Seconds {
    fn since(self, earlier: Self) -> Self {
        Self {
            count: self.count.saturating_sub(earlier.count),
            sum: self.sum - earlier.sum,
            squares: self.squares - earlier.squares,
        }
    }

    /// Standard deviation of throughput, bits per second; of two seconds at least.
    pub fn deviation_bps(self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        let mean = self.sum / self.count as f64;
        let variance = self.squares / self.count as f64 - mean * mean;
        Some(variance.max(0.0).sqrt() * 8.0)
    }
}

/// The seconds of a flow: how their sums stood after every `stride`th.
#[derive(Clone, Debug)]
pub struct SecondsCourse {
    total: Seconds,
    /// The first is before any second.
    snapshots: Vec<Seconds>,
    stride: u64,
}

impl Default for SecondsCourse {
    fn default() -> Self {
        Self {
            total: Seconds::default(),
            snapshots: vec![Seconds::default()],
            stride: 1,
        }
    }
}

impl SecondsCourse {
    /// A second in which so many bytes were acknowledged.
    pub fn push(&mut self, bytes: f64) {
        self.total.sum += bytes;
        self.total.squares += bytes * bytes;
        self.pass(1);
    }

    /// Seconds in which nothing was.
    pub fn pass(&mut self, seconds: u64) {
        self.total.count += seconds;
        while self.snapshots.len() as u64 * self.stride <= self.total.count {
            if self.snapshots.len() >= 2 * KEPT {
                let mut at = 0;
                self.snapshots.retain(|_| {
                    at += 1;
                    at % 2 == 1
                });
                self.stride *= 2;
                continue;
            }
            let count = self.snapshots.len() as u64 * self.stride;
            self.snapshots.push(Seconds {
                count,
                ..self.total
            });
        }
    }

    /// Seconds that were whole.
    pub fn count(&self) -> u64 {
        self.total.count
    }

    /// All but the first `passed`; beyond 256 seconds a few more are left out.
    pub fn after(&self, passed: u64) -> Seconds {
        let at = passed.div_ceil(self.stride);
        let before = usize::try_from(at)
            .ok()
            .and_then(|at| self.snapshots.get(at));
        self.total.since(*before.unwrap_or(&self.total))
    }
}

/// What came about up to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    pub time: Mono,
    /// Bytes acknowledged since the beginning.
    pub acked: f64,
    /// Bytes in flight.
    pub inflight: Weighted,
    /// Bytes per second.
    pub btlbw: Weighted,
}

/// The points kept, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Course {
    points: Vec<Point>,
    /// Least time between two kept.
    spacing: u64,
}

impl Course {
    /// Adds a later point. The last one given is always there.
    pub fn push(&mut self, point: Point) {
        if let [.., before, last] = self.points.as_mut_slice()
            && last.time.since(before.time) < self.spacing
        {
            *last = point;
            return;
        }
        if self.points.len() >= 2 * KEPT {
            self.thin();
        }
        self.points.push(point);
    }

    fn thin(&mut self) {
        let (Some(first), Some(last)) = (self.points.first(), self.points.last().copied()) else {
            return;
        };
        self.spacing = (last.time.since(first.time) / KEPT as u64).max(1);
        let mut kept = *first;
        let spacing = self.spacing;
        let mut at = 0;
        self.points.retain(|point| {
            let keep = at == 0 || point.time.since(kept.time) >= spacing;
            at += 1;
            if keep {
                kept = *point;
            }
            keep
        });
        if self.points.last() != Some(&last) {
            self.points.push(last);
        }
    }

    pub fn last(&self) -> Option<&Point> {
        self.points.last()
    }

    /// How it stood at `time`, between two points in proportion.
    fn at(&self, time: Mono) -> Option<Point> {
        let after = self.points.partition_point(|point| point.time < time);
        let Some(later) = self.points.get(after) else {
            return self.points.last().copied();
        };
        let Some(earlier) = after.checked_sub(1).map(|at| self.points[at]) else {
            return Some(*later);
        };
        let share = time.since(earlier.time) as f64 / later.time.since(earlier.time) as f64;
        Some(Point {
            time,
            acked: earlier.acked + (later.acked - earlier.acked) * share,
            inflight: earlier.inflight.between(later.inflight, share),
            btlbw: earlier.btlbw.between(later.btlbw, share),
        })
    }

    /// What came about since `time`.
    pub fn since(&self, time: Mono) -> Option<Point> {
        let (earlier, last) = (self.at(time)?, self.points.last()?);
        Some(Point {
            time: last.time,
            acked: last.acked - earlier.acked,
            inflight: last.inflight.since(earlier.inflight),
            btlbw: last.btlbw.since(earlier.btlbw),
        })
    }
}
