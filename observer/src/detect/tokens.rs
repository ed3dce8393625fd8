//! The token-bucket fit: whether one (rate, depth) explains which packets were dropped (DETECTION §1 b).
//!
//! A bucket that is never empty remembers: over 100 s at 1.5 Mbit/s a rate that is 0.1 % off moves its level by 19 kB,
//! which is more than many buckets hold. So the rate is looked for as finely as the time that is seen asks for, about
//! what passed between drops: from one full bucket to the next as much passes as tokens came.

use super::stats::{quantile, sorted};

/// A packet as it was sent, in the order of sending.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Packet {
    /// When it left, ns; known to within two samples.
    pub time_ns: u64,
    /// Of the frame.
    pub bytes: u32,
    pub lost: bool,
    /// A retransmission, or one of start-up: it takes tokens, and is no evidence itself.
    pub again: bool,
}

/// The best fit; rates and depths of frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Youden's J: the share of the lost above the level, less that of the passed. 1 = every drop explained.
    pub j: f64,
    /// Bytes per second.
    pub rate: f64,
    /// Bytes.
    pub depth: f64,
    /// The bucket was seen full of tokens, so that its depth is known; otherwise it is at least that deep.
    pub anchored: bool,
}

/// Latest packets that are looked at; for the coarse grid, fewer.
pub const MOST: usize = 32_768;
const MOST_COARSE: usize = 8192;
/// Rates tried between these multiples of the goodput, each by so much above the one before: a small bucket, which is
/// empty of tokens or full of them most of the time, passes far less than its rate.
const GRID: (f64, f64, f64) = (0.95, 2.6, 1.02);
/// Packets that pass between two drops whose rate is taken.
const SPANS: [f64; 2] = [100.0, 1000.0];
const QUANTILES: [f64; 3] = [0.5, 0.75, 0.9];
/// The finest step moves the level by so many frames over the time that is seen.
const STEP_FRAMES: f64 = 2.0;
const STEPS: (f64, f64) = (0.000_05, 0.002);
/// Steps to each side: four times as wide ones first.
const WIDE: i32 = 30;
const NARROW: i32 = 8;
/// A bucket holds at least so many frames: what is smaller fits every push against a rate that is too high.
const LEAST_FRAMES: f64 = 3.0;
/// Differences in J that mean nothing.
const FLAT: f64 = 0.005;
/// Levels are told apart to such a part of the highest, less of few packets.
const BINS: (usize, usize) = (128, 2048);

/// Fits a bucket to `packets`; `goodput` is what got through in the lossy busy time, bytes per second; `fresh`: the
/// first packet met a full bucket. `None`: nothing lost, nothing passed, or no rate.
pub fn fit(packets: &[Packet], goodput: f64, fresh: bool) -> Option<Fit> {
    let cut = packets.len().saturating_sub(MOST);
    let fresh = fresh && cut == 0;
    let packets = &packets[cut..];
    if !goodput.is_finite() || goodput <= 0.0 {
        return None;
    }
    let frame = f64::from(packets.iter().map(|packet| packet.bytes).max()?);
    let mut bucket = Bucket {
        packets,
        frame,
        levels: Vec::with_capacity(packets.len()),
        bins: vec![(0, 0); (packets.len() / 2).clamp(BINS.0, BINS.1)],
    };
    let few = packets.len().saturating_sub(MOST_COARSE);
    let (from, to, factor) = GRID;
    let grid = std::iter::successors(Some(from), |at| Some(at * factor)).take_while(|at| *at < to);
    let coarse = grid.filter_map(|at| bucket.attempt(few, goodput * at));
    let coarse = middle(coarse.collect());
    let mut candidates = between_drops(packets, frame);
    candidates.extend(coarse.map(|fit| fit.rate));
    let whole = candidates
        .into_iter()
        .filter_map(|rate| bucket.attempt(0, rate));
    let mut best = middle(whole.collect())?;
    let (first, last) = (packets.first()?, packets.last()?);
    let seconds = last.time_ns.saturating_sub(first.time_ns) as f64 / 1e9;
    let step = (STEP_FRAMES * frame / (best.rate * seconds)).clamp(STEPS.0, STEPS.1);
    for (step, count) in [(4.0 * step, WIDE), (step, NARROW)] {
        let about = best.rate;
        let tried = (-count..=count)
            .filter_map(|at| bucket.attempt(0, about * (1.0 + f64::from(at) * step)));
        best = middle(tried.collect())?;
    }
    best.anchored = fresh || is_anchored(packets, &best);
    Some(best)
}

/// Whether a bucket that was out of tokens at the first packet was full of them again before half of the drops: then
/// it does not matter how it began.
fn is_anchored(packets: &[Packet], fit: &Fit) -> bool {
    let drops = packets.iter().filter(|packet| packet.lost).count();
    let mut seen = 0;
    let mut level = fit.depth;
    for pair in packets.windows(2) {
        let [packet, next] = pair else { continue };
        if packet.lost {
            seen += 1;
        } else {
            level = (level + f64::from(packet.bytes)).min(fit.depth);
        }
        level -= fit.rate * next.time_ns.saturating_sub(packet.time_ns) as f64 / 1e9;
        if level <= 0.0 {
            return seen * 2 <= drops;
        }
    }
    false
}

/// What passed between drops ÷ the time: the bucket's rate, where it was never empty between them.
fn between_drops(packets: &[Packet], frame: f64) -> Vec<f64> {
    let mut passed = 0.0;
    let mut drops = Vec::new();
    for packet in packets {
        if packet.lost {
            drops.push((packet.time_ns, passed));
        } else {
            passed += f64::from(packet.bytes);
        }
    }
    let mut rates = Vec::new();
    for span in SPANS {
        let mut later = drops.iter();
        let slopes = drops.iter().filter_map(|(time_ns, passed)| {
            let enough = |drop: &&(u64, f64)| drop.1 - passed >= span * frame;
            let (end_ns, end) = later.as_slice().iter().find(enough)?;
            while later.as_slice().first().is_some_and(|drop| drop.1 < *end) {
                later.next();
            }
            let seconds = end_ns.saturating_sub(*time_ns) as f64 / 1e9;
            (seconds > 0.0).then(|| (end - passed) / seconds)
        });
        let slopes = sorted(slopes.collect());
        rates.extend(QUANTILES.iter().filter_map(|q| quantile(&slopes, *q)));
    }
    rates
}

/// Of neighbouring rates that explain about as much, the one in the middle.
fn middle(fits: Vec<Fit>) -> Option<Fit> {
    let best = fits
        .iter()
        .map(|fit| fit.j)
        .fold(f64::NEG_INFINITY, f64::max);
    let as_good: Vec<Fit> = fits
        .into_iter()
        .filter(|fit| fit.j >= best - FLAT)
        .collect();
    as_good.get(as_good.len() / 2).copied()
}

struct Bucket<'a> {
    packets: &'a [Packet],
    frame: f64,
    /// What was in the bucket when each packet came that is evidence, and whether it was lost.
    levels: Vec<(f64, bool)>,
    /// Lost and passed, by level.
    bins: Vec<(u32, u32)>,
}

impl Bucket<'_> {
    /// How well a bucket of this rate explains the packets from number `from` on.
    fn attempt(&mut self, from: usize, rate: f64) -> Option<Fit> {
        self.fill(from, rate);
        let (j, level) = self.youden()?;
        Some(Fit {
            j,
            rate,
            // A packet is dropped where it finds no room.
            depth: level + self.frame,
            anchored: false,
        })
    }

    /// The bucket drains at `rate`, and what passes fills it.
    fn fill(&mut self, from: usize, rate: f64) {
        self.levels.clear();
        let packets = &self.packets[from..];
        let mut level = 0.0_f64;
        let mut last = packets.first().map_or(0, |packet| packet.time_ns);
        for packet in packets {
            let drained = rate * packet.time_ns.saturating_sub(last) as f64 / 1e9;
            level = (level - drained).max(0.0);
            last = packet.time_ns.max(last);
            if !packet.again {
                self.levels.push((level, packet.lost));
            }
            if !packet.lost {
                level += f64::from(packet.bytes);
            }
        }
    }

    /// How well, and where, one level parts the lost from the passed best.
    fn youden(&mut self) -> Option<(f64, f64)> {
        let lost = self.levels.iter().filter(|(_, lost)| *lost).count();
        let passed = self.levels.len() - lost;
        if lost == 0 || passed == 0 {
            return None;
        }
        let top = self
            .levels
            .iter()
            .map(|(level, _)| *level)
            .fold(0.0, f64::max);
        let width = (top / (self.bins.len() - 1) as f64).max(1.0);
        self.bins.fill((0, 0));
        for (level, lost) in &self.levels {
            let bin = &mut self.bins[(level / width) as usize];
            bin.0 += u32::from(*lost);
            bin.1 += u32::from(!*lost);
        }
        let (mut above_lost, mut above_passed) = (0, 0);
        let mut best = None;
        let mut most = 0.0;
        for (at, bin) in self.bins.iter().enumerate().rev() {
            above_lost += bin.0;
            above_passed += bin.1;
            if (at as f64) * width < LEAST_FRAMES * self.frame {
                break;
            }
            let j = f64::from(above_lost) / lost as f64 - f64::from(above_passed) / passed as f64;
            if j > most {
                most = j;
                best = Some((j, at as f64 * width));
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of 1,448 bytes sent at `load` bytes per second through a bucket.
    fn through(rate: f64, depth: f64, load: impl Fn(usize) -> f64, count: usize) -> Vec<Packet> {
        let (mut level, mut time) = (0.0_f64, 0.0_f64);
        (0..count)
            .map(|at| {
                let gap = 1448.0 / load(at);
                time += gap;
                level = (level - rate * gap).max(0.0);
                let lost = level + 1448.0 > depth;
                if !lost {
                    level += 1448.0;
                }
                Packet {
                    time_ns: (time * 1e9) as u64,
                    bytes: 1448,
                    lost,
                    again: false,
                }
            })
            .collect()
    }

    fn goodput(packets: &[Packet]) -> f64 {
        let span = packets.last().unwrap().time_ns - packets[0].time_ns;
        let passed = packets.iter().filter(|packet| !packet.lost).count();
        passed as f64 * 1448.0 / (span as f64 / 1e9)
    }

    #[test]
    fn a_bucket_is_found_again() {
        // Waves of load around the rate, as probing makes them.
        let load = |at: usize| {
            if (at / 200).is_multiple_of(3) {
                1.6e6
            } else {
                0.9e6
            }
        };
        let packets = through(1.0e6, 60_000.0, load, 6000);
        assert!(packets.iter().filter(|packet| packet.lost).count() > 50);
        let fit = fit(&packets, goodput(&packets), true).unwrap();
        assert!(fit.j > 0.9, "{fit:?}");
        assert!((fit.rate / 1.0e6 - 1.0).abs() < 0.01, "{fit:?}");
        assert!((0.93..=1.07).contains(&(fit.depth / 60_000.0)), "{fit:?}");
    }

    #[test]
    fn what_is_lost_at_random_fits_none() {
        let mut seed = 7_u64;
        let mut packets = through(1.0e9, 1e9, |_| 1.0e6, 6000);
        for packet in &mut packets {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            packet.lost = (seed >> 33).is_multiple_of(100);
        }
        let fit = fit(&packets, goodput(&packets), true).unwrap();
        assert!(fit.j < 0.4 || fit.depth < 3.0 * 1448.0, "{fit:?}");
    }

    #[test]
    fn nothing_lost_or_nothing_known_is_no_fit() {
        assert_eq!(fit(&[], 1.0, true), None);
        let packets = through(1e9, 1e9, |_| 1e6, 100);
        assert_eq!(fit(&packets, 1e6, true), None);
        assert_eq!(fit(&packets, 0.0, true), None);
        assert_eq!(fit(&packets, f64::NAN, true), None);
    }
}
