//! RTTs of a flow in bounded memory: percentiles with a stated error, jitter and deviation.

use sketches_ddsketch::{Config, DDSketch};

/// A percentile is off by no more than this share of itself.
pub const RELATIVE_ERROR: f64 = 0.005;
/// Enough for every RTT that 32 bits of µs hold.
const BINS: u32 = 2560;
/// Of the kernel's RTTs none is shorter, µs.
const SHORTEST_US: f64 = 1.0;

/// Jitter and percentiles use at most one sample in so long (TRAPS 46).
pub const THINNED_NS: u64 = 10_000_000;
/// Longer between two samples is a pause of the flow, not the pace of sampling.
const PAUSE_NS: u64 = 1_000_000_000;

/// RTTs, thinned.
#[derive(Clone)]
pub struct Rtts {
    sketch: Option<Box<DDSketch>>,
    count: u64,
    mean: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
    /// Of consecutive ones: sum of absolute differences, and how many.
    steps: (f64, u64),
    /// Of consecutive ones that no pause parts: time between them, and how many.
    paces: (u64, u64),
    last: Option<(u64, u32)>,
}

impl std::fmt::Debug for Rtts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rtts")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl Default for Rtts {
    fn default() -> Self {
        Self {
            sketch: None,
            count: 0,
            mean: 0.0,
            squares: 0.0,
            steps: (0.0, 0),
            paces: (0, 0),
            last: None,
        }
    }
}

impl Rtts {
    /// An RTT at a moment; left out when it comes too soon after the one before.
    pub fn take(&mut self, time_ns: u64, rtt_us: u32) {
        if let Some((time, rtt)) = self.last {
            let since = time_ns.saturating_sub(time);
            if since < THINNED_NS {
                return;
            }
            self.steps.0 += f64::from(rtt.abs_diff(rtt_us));
            self.steps.1 += 1;
            if since <= PAUSE_NS {
                self.paces.0 += since;
                self.paces.1 += 1;
            }
        }
        self.last = Some((time_ns, rtt_us));
        self.count += 1;
        let distance = f64::from(rtt_us) - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (f64::from(rtt_us) - self.mean);
        self.sketch().add(f64::from(rtt_us));
    }

    fn sketch(&mut self) -> &mut DDSketch {
        self.sketch.get_or_insert_with(|| {
            let config = Config::new(RELATIVE_ERROR, BINS, SHORTEST_US);
            Box::new(DDSketch::new(config))
        })
    }

    /// Adds those of another flow.
    pub fn merge(&mut self, other: &Self) {
        let Some(theirs) = &other.sketch else {
            return;
        };
        // Two of the same configuration merge.
        let _ = self.sketch().merge(theirs);
        let (ours, theirs) = (self.count as f64, other.count as f64);
        let distance = other.mean - self.mean;
        self.count += other.count;
        self.mean += distance * theirs / (ours + theirs);
        self.squares += other.squares + distance * distance * ours * theirs / (ours + theirs);
        self.steps.0 += other.steps.0;
        self.steps.1 += other.steps.1;
        self.paces.0 += other.paces.0;
        self.paces.1 += other.paces.1;
    }

    /// How many were taken.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The value below which this share of the samples lies, µs.
    pub fn quantile_us(&self, share: f64) -> Option<u64> {
        let sketch = self.sketch.as_ref()?;
        let value = sketch.quantile(share).ok()??;
        Some(value.clamp(sketch.min()?, sketch.max()?).round() as u64)
    }

    /// Mean absolute difference of consecutive ones, µs.
    pub fn jitter_us(&self) -> Option<f64> {
        (self.steps.1 > 0).then(|| self.steps.0 / self.steps.1 as f64)
    }

    /// Standard deviation, µs.
    pub fn deviation_us(&self) -> Option<f64> {
        (self.count > 1).then(|| (self.squares.max(0.0) / self.count as f64).sqrt())
    }

    /// Mean time between two, pauses left out, ns.
    pub fn pace_ns(&self) -> Option<u64> {
        self.paces.0.checked_div(self.paces.1)
    }
}
