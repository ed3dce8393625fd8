//! The token-bucket fit: whether one (rate, depth) explains which packets were dropped (DETECTION §1 b).

/// A packet as it was sent, in the order of sending.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Packet {
    /// When it left, ns; known to within two samples.
    pub time_ns: u64,
    pub bytes: u32,
    pub lost: bool,
    /// A retransmission: it takes tokens, and is no evidence itself.
    pub again: bool,
}

/// The best fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Youden's J: the share of the lost above the level, less that of the passed. 1 = every drop explained.
    pub j: f64,
    /// Payload bytes per second.
    pub rate: f64,
    /// Payload bytes.
    pub depth: f64,
}

/// Latest packets that are looked at.
pub const MOST: usize = 8192;
/// Rates tried between these multiples of the goodput …
const GRID: (f64, f64, usize) = (0.95, 1.3, 25);
/// … and then about the best of them, to within 0.1 %: over 10 s at 10 Mbit/s a rate that is 1 % off moves the level by
/// 125 kB.
const FINE: (f64, usize) = (0.015, 31);
/// Differences in J that mean nothing.
const FLAT: f64 = 0.005;

/// Fits a bucket to `packets`; `goodput` is what got through in the lossy busy time, payload bytes per second. `None`:
/// nothing lost, nothing passed, or no rate.
pub fn fit(packets: &[Packet], goodput: f64) -> Option<Fit> {
    let packets = &packets[packets.len().saturating_sub(MOST)..];
    if !goodput.is_finite() || goodput <= 0.0 {
        return None;
    }
    let mut levels = Vec::with_capacity(packets.len());
    let mut attempt = |rate: f64| {
        fill(packets, rate, &mut levels);
        youden(&mut levels).map(|(j, depth)| Fit { j, rate, depth })
    };
    let between = |from: f64, to: f64, step: usize, steps: usize| {
        from + (to - from) * step as f64 / (steps - 1) as f64
    };
    let (from, to, steps) = GRID;
    let coarse = (0..steps).filter_map(|step| attempt(goodput * between(from, to, step, steps)));
    let about = middle(coarse.collect())?;
    let (width, steps) = FINE;
    let fine = (0..steps)
        .filter_map(|step| attempt(about.rate * between(1.0 - width, 1.0 + width, step, steps)));
    middle(fine.collect())
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

/// What was in the bucket when each packet came: it drains at `rate`, and what passes fills it.
fn fill(packets: &[Packet], rate: f64, levels: &mut Vec<(f64, bool)>) {
    levels.clear();
    let mut level = 0.0_f64;
    let mut last = packets.first().map_or(0, |packet| packet.time_ns);
    for packet in packets {
        level = (level - rate * packet.time_ns.saturating_sub(last) as f64 / 1e9).max(0.0);
        last = packet.time_ns.max(last);
        if !packet.again {
            levels.push((level, packet.lost));
        }
        if !packet.lost {
            level += f64::from(packet.bytes);
        }
    }
}

/// The threshold that parts the lost from the passed best, and how well.
fn youden(levels: &mut [(f64, bool)]) -> Option<(f64, f64)> {
    let lost = levels.iter().filter(|(_, lost)| *lost).count();
    let passed = levels.len() - lost;
    if lost == 0 || passed == 0 {
        return None;
    }
    levels.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let (mut above_lost, mut above_passed) = (0_usize, 0_usize);
    let mut best = (0.0, 0.0);
    let mut at = 0;
    while at < levels.len() {
        let level = levels[at].0;
        while at < levels.len() && levels[at].0 >= level {
            if levels[at].1 {
                above_lost += 1;
            } else {
                above_passed += 1;
            }
            at += 1;
        }
        let j = above_lost as f64 / lost as f64 - above_passed as f64 / passed as f64;
        if j > best.0 {
            best = (j, level);
        }
    }
    Some(best)
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
        let fit = fit(&packets, goodput(&packets)).unwrap();
        assert!(fit.j > 0.9, "{fit:?}");
        assert!((fit.rate / 1.0e6 - 1.0).abs() < 0.05, "{fit:?}");
        assert!((0.8..=1.05).contains(&(fit.depth / 60_000.0)), "{fit:?}");
    }

    #[test]
    fn what_is_lost_at_random_fits_none() {
        let mut seed = 7_u64;
        let mut packets = through(1.0e9, 1e9, |_| 1.0e6, 6000);
        for packet in &mut packets {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            packet.lost = (seed >> 33).is_multiple_of(100);
        }
        let fit = fit(&packets, goodput(&packets)).unwrap();
        assert!(fit.j < 0.4 || fit.depth < 3.0 * 1448.0, "{fit:?}");
    }

    #[test]
    fn nothing_lost_or_nothing_known_is_no_fit() {
        assert_eq!(fit(&[], 1.0), None);
        let packets = through(1e9, 1e9, |_| 1e6, 100);
        assert_eq!(fit(&packets, 1e6), None);
        assert_eq!(fit(&packets, 0.0), None);
        assert_eq!(fit(&packets, f64::NAN), None);
    }
}
