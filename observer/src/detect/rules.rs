//! From the figures to one verdict: the rules of DETECTION §2.2 and the confidence of §2.3.

use super::dose::{Answer, Dose};
use super::features::Features;
use super::tokens::Fit;

/// SPEC §4, `verdict.class`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    Policer,
    /// A tail-dropping queue of less than one BDP.
    QueueShallow,
    /// One to two BDP.
    Queue,
    /// More.
    QueueDeep,
    /// Only the overshoot of slow start was lost.
    QueueStartup,
    RandomLoss,
    BurstyLoss,
    /// Nothing wrong with loss or delay.
    None,
    /// Not enough was seen.
    Insufficient,
}

impl Class {
    /// The word of SPEC §4.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Policer => "policer",
            Self::QueueShallow => "queue_shallow",
            Self::Queue => "queue",
            Self::QueueDeep => "queue_deep",
            Self::QueueStartup => "queue_startup",
            Self::RandomLoss => "random_loss",
            Self::BurstyLoss => "bursty_loss",
            Self::None => "none",
            Self::Insufficient => "insufficient",
        }
    }

    /// Something to act on, or to know.
    pub fn is_finding(self) -> bool {
        !matches!(self, Self::None | Self::Insufficient)
    }

    pub fn is_queue(self) -> bool {
        matches!(self, Self::QueueShallow | Self::Queue | Self::QueueDeep)
    }
}

/// Which rule decided, as §2.2 numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Too few losses, or nothing to go by.
    Few,
    /// Nothing was lost that matters; the delay alone speaks.
    Delay,
    /// So few packets in flight that causes do not differ.
    Floor,
    /// The delay at the losses is less than what the batching of ACKs makes.
    Batched,
    Numbered(u8),
}

/// Below these nothing is said of a cause.
const MIN_LOSSES: usize = 5;
const MIN_RATE: f64 = 0.001;
pub const MIN_AFTER: usize = 10;
pub const MIN_EVENTS: usize = 3;
pub const MIN_ROUNDS: f64 = 20.0;
/// Delay explains so much of the depth, or the drops are no queue's.
const KAPPA: f64 = 0.15;
/// … or so little that the noise of the RTT does not matter.
const KAPPA_NONE: f64 = 0.1;
/// More than links lose by themselves.
const MUCH: f64 = 0.08;
/// A bucket explains clustered drops beside a noisy RTT from this J.
const CLUSTERED_J: f64 = 0.65;
/// Median of the delay at a queue's drops ÷ their 90th percentile, at least.
const TIGHT: f64 = 0.5;

/// What the rules ask, once.
#[derive(Clone, Copy, Debug)]
pub struct Signs {
    /// A delay below it is noise, seconds.
    pub threshold: f64,
    pub high: bool,
    /// A bucket explains the drops; or explains them so well that delays need not be asked.
    pub tok: bool,
    pub very_tok: bool,
    pub fit: Option<Fit>,
    /// Delay ÷ depth.
    pub kappa: Option<f64>,
    pub pin: bool,
    pub independent: bool,
    pub clustered: bool,
    pub dose: Option<Dose>,
    /// The RTT beside the drops is high, always about the same, and explains the bucket if there is one.
    pub overflows: bool,
    pub queue: bool,
    pub rank: bool,
    /// The RTT beside the drops is among the highest, and by how many standard errors above the middle.
    pub at_top: bool,
    pub rank_z: f64,
    /// Depth of the queue in base RTTs.
    pub beta: Option<f64>,
}

impl Signs {
    pub fn of(f: &Features) -> Self {
        let threshold = (0.3e-3_f64).max(0.03 * f.base_rtt);
        let high = f.excess_median.is_some_and(|excess| excess >= threshold);
        let fit = f.fit;
        // Few drops fit some bucket by chance: about 1.6 ÷ √n of J.
        let chance = 0.45 + 1.0 / (f.losses_after.max(1) as f64).sqrt();
        let tok = fit.is_some_and(|fit| fit.j >= chance.max(0.6));
        let very_tok = fit.is_some_and(|fit| fit.j >= (chance + 0.05).max(0.7));
        let kappa = fit
            .zip(f.excess_median)
            .map(|(fit, excess)| excess * fit.rate / fit.depth);
        let pin = !f.bbr
            && f.rate >= 0.01
            && f.pin
                .is_some_and(|(cv, windows)| cv <= 0.15 && windows >= 6);
        let psi = f.psi.unwrap_or(0.0);
        // A queue drops when it is full: the RTT beside its drops is always about the same.
        let tight = f
            .excess_median
            .zip(f.excess_p90)
            .is_some_and(|(median, p90)| median >= TIGHT * p90);
        let explained = kappa.is_some_and(|kappa| kappa >= KAPPA);
        let overflows = high && tight && (!very_tok || explained);
        let queue = overflows && psi >= 0.4;
        let rank_z = f
            .rank
            .map_or(0.0, |rank| (rank - 0.5) * (12.0 * f.events as f64).sqrt());
        // BBR flows stand in the queue that they overflow: only the very top of it tells.
        let top = if f.bbr { 0.8 } else { 0.7 };
        let at_top = f.rank.is_some_and(|rank| rank >= top) && rank_z >= 4.0;
        let rank = tight && psi >= 0.6 && at_top;
        Self {
            threshold,
            high,
            tok,
            very_tok,
            fit,
            kappa,
            pin,
            independent: f.clusters.is_some_and(|clusters| clusters.independent()),
            clustered: f.clusters.is_some_and(|clusters| clusters.clustered()),
            dose: f.dose,
            overflows,
            queue,
            rank,
            at_top,
            rank_z,
            beta: f.depth_delay().map(|delay| delay / f.base_rtt),
        }
    }

    fn answer(&self) -> Answer {
        self.dose.map_or(Answer::Undecided, |dose| dose.answer())
    }
}

/// Class and the rule that gave it.
pub fn decide(f: &Features, s: &Signs) -> (Class, Rule) {
    let lossy = f.losses >= MIN_LOSSES && f.losses as f64 / (f.packets.max(1) as f64) >= MIN_RATE;
    if !lossy {
        return without_loss(f);
    }
    if f.losses_after < MIN_AFTER || f.events < MIN_EVENTS {
        let overshoot = f.losses_startup >= MIN_LOSSES
            && f.excess_startup.is_some_and(|excess| excess >= s.threshold);
        let class = if overshoot {
            Class::QueueStartup
        } else {
            Class::Insufficient
        };
        return (class, Rule::Few);
    }
    if f.rounds < MIN_ROUNDS {
        return (Class::Insufficient, Rule::Few);
    }
    let floor = if f.bbr { 8.0 } else { 4.0 };
    if f.rate >= 0.05 && f.cwnd.is_some_and(|cwnd| cwnd <= floor) {
        return (Class::Insufficient, Rule::Floor);
    }
    // With packets in hand by handfuls, the delay at a loss is that of the handful.
    let batched = s.high
        && !(s.overflows && s.at_top)
        && f.batch
            .zip(f.excess_median)
            .is_some_and(|(batch, excess)| batch >= excess);
    if batched {
        return batched_class(f, s);
    }
    cause(f, s)
}

/// The numbered rules, in order.
fn cause(f: &Features, s: &Signs) -> (Class, Rule) {
    let queue = || depth(s);
    let rule = Rule::Numbered;
    let unexplained = s.kappa.is_some_and(|kappa| kappa < KAPPA_NONE);
    if s.high && s.rank {
        return (queue(), rule(0));
    }
    if s.pin
        && s.tok
        && s.fit.is_some_and(|fit| fit.j >= 0.9)
        && s.kappa.is_some_and(|kappa| kappa < KAPPA)
    {
        return (Class::Policer, rule(0));
    }
    let answer = s.answer();
    // Bursts that fall into a few pushes by chance look like an answer to them.
    let chance = s.clustered && !s.tok && !s.rank && s.dose.is_some_and(|dose| dose.z < 4.0);
    if answer == Answer::LoadDependent && !chance {
        return (by_load(f, s), rule(1));
    }
    let by_bucket = f.long_term >= 0.25 || s.very_tok || (s.clustered && (s.tok || s.pin));
    let fair = s.clustered && s.tok && s.fit.is_some_and(|fit| fit.j >= CLUSTERED_J);
    if (!s.high && by_bucket) || (unexplained && (s.very_tok || fair)) {
        return (Class::Policer, rule(2));
    }
    let steady = f.pin.is_some_and(|(cv, _)| cv <= 0.15);
    if !s.high && f.bbr && f.flows > 1 && s.clustered && f.rate >= 0.05 && steady {
        return (Class::Policer, rule(3));
    }
    if answer == Answer::Independent {
        // Many BBR flows keep a queue full all the time, and lose more than links do.
        let full = s.overflows && f.flows > 1 && f.rate >= MUCH;
        let class = if full {
            queue()
        } else if s.independent {
            Class::RandomLoss
        } else if s.queue && f.flows > 1 && f.rate >= 0.05 {
            queue()
        } else {
            Class::BurstyLoss
        };
        return (class, rule(4));
    }
    if s.independent && !s.tok && !s.pin {
        // Chance does not choose its moments.
        let chosen = s.at_top && s.rank_z >= 8.0;
        let class = if chosen {
            Class::BurstyLoss
        } else {
            Class::RandomLoss
        };
        return (class, rule(5));
    }
    if s.queue {
        // A queue that stands is no queue that overflows: then losses come at any length of it.
        // BBR flows that fill it together lose at its top all the time, and much.
        let little = !f.bbr || f.rate < 0.05;
        let anywhere = little && f.events >= MIN_AFTER && f.rank.is_some_and(|rank| rank < 0.6);
        let class = if anywhere { Class::BurstyLoss } else { queue() };
        return (class, rule(6));
    }
    if s.independent {
        let policer = !s.high && (s.tok || s.pin);
        return (
            if policer {
                Class::Policer
            } else {
                Class::RandomLoss
            },
            rule(7),
        );
    }
    if !s.high && (s.tok || s.pin) {
        return (Class::Policer, rule(8));
    }
    (Class::BurstyLoss, rule(9))
}

/// Losses that answer to the push are a full queue's or a bucket's; a bucket's come at any RTT.
fn by_load(f: &Features, s: &Signs) -> Class {
    let any_delay = f.rank.is_none_or(|rank| rank < 0.6);
    if s.overflows {
        depth(s)
    } else if any_delay || s.very_tok {
        Class::Policer
    } else {
        Class::BurstyLoss
    }
}

/// Without the delay: the bucket, the kernel's own estimate, or nothing.
fn batched_class(f: &Features, s: &Signs) -> (Class, Rule) {
    let bucket = s.tok && s.kappa.is_some_and(|kappa| kappa < KAPPA);
    let class = if bucket || f.long_term >= 0.25 {
        Class::Policer
    } else if s.independent && !s.tok && !s.pin {
        Class::RandomLoss
    } else {
        Class::Insufficient
    };
    (class, Rule::Batched)
}

fn depth(s: &Signs) -> Class {
    match s.beta {
        Some(beta) if beta < 1.0 => Class::QueueShallow,
        Some(beta) if beta <= 2.0 => Class::Queue,
        Some(_) => Class::QueueDeep,
        None => Class::Queue,
    }
}

/// A queue that nobody overflows may still be too deep.
fn without_loss(f: &Features) -> (Class, Rule) {
    if f.rounds < MIN_ROUNDS {
        return (Class::Insufficient, Rule::Few);
    }
    let deep = f
        .delay_median
        .is_some_and(|delay| delay > f.base_rtt.max(0.03));
    let own = f.own_queue.is_some_and(|correlation| correlation >= 0.5);
    let class = match f.delay_p95 {
        Some(delay) if deep && own && delay <= 2.0 * f.base_rtt => Class::Queue,
        Some(_) if deep && own => Class::QueueDeep,
        _ => Class::None,
    };
    (class, Rule::Delay)
}

/// How sure the verdict is: log-odds added up, at most 0.99, in steps of 0.05. An evidence score until it is calibrated.
pub fn confidence(f: &Features, s: &Signs, class: Class, rule: Rule) -> f64 {
    let mut score = 0.0;
    if s.dose
        .is_some_and(|dose| dose.z >= 4.0 || (dose.z.abs() < 1.0 && dose.losses >= 30))
    {
        score += 1.5;
    }
    if let Some(excess) = f.excess_median
        && (excess >= 3.0 * s.threshold || excess <= s.threshold / 3.0)
    {
        score += 1.0;
    }
    let consistent = s.kappa.is_some_and(|kappa| {
        (class.is_queue() && kappa >= 0.5) || (class == Class::Policer && kappa <= 0.2)
    });
    if s.fit.is_some_and(|fit| fit.j >= 0.85) && consistent {
        score += 1.0;
    }
    if class.is_queue() && estimates_agree(f, s) {
        score += 1.0;
    }
    if s.pin {
        score += 0.7;
    }
    if f.long_term >= 0.25 && !s.high {
        score += 1.0;
    }
    if s.independent && f.losses_after >= 50 {
        score += 1.0;
    }
    score += (0.5 * (f.losses_after as f64 / 20.0).log2()).clamp(0.0, 1.5);
    if matches!(rule, Rule::Numbered(3 | 7 | 8 | 9) | Rule::Batched) {
        score -= 1.0;
    }
    if f.app_limited > 0.3 {
        score -= 1.0;
    }
    if f.disorder > 0.1 {
        score -= 1.0;
    }
    let sure = 1.0 / (1.0 + f64::exp(-score));
    let most = if rule == Rule::Batched { 0.6 } else { 0.99 };
    ((sure * 20.0).round() / 20.0).clamp(0.0, most)
}

/// The delay at the losses and the bucket's depth tell the same size within 30 %.
fn estimates_agree(f: &Features, s: &Signs) -> bool {
    s.fit.zip(f.excess_p90).is_some_and(|(fit, excess)| {
        let by_delay = excess * fit.rate;
        by_delay > 0.0 && (0.7..=1.3).contains(&(fit.depth / by_delay))
    })
}

#[cfg(test)]
mod tests {
    use super::super::clusters::Clusters;
    use super::*;

    /// 40 ms, 20 Mbit/s, 1,000 losses of 50,000 packets.
    fn lossy() -> Features {
        Features {
            flows: 1,
            packets: 50_000,
            losses: 1000,
            losses_after: 1000,
            events: 200,
            rate: 0.02,
            base_rtt: 0.04,
            rounds: 700.0,
            seconds: 28.0,
            goodput: 2.4e6,
            mss: 1448.0,
            frame: 1514.0,
            cwnd: Some(60.0),
            ..Features::default()
        }
    }

    fn clusters(burst_ratio: f64, z: f64, dispersion: f64) -> Clusters {
        Clusters {
            burst_ratio,
            z,
            dispersion: Some(dispersion),
        }
    }

    fn judged(f: &Features) -> (Class, Rule, f64) {
        let signs = Signs::of(f);
        let (class, rule) = decide(f, &signs);
        (class, rule, confidence(f, &signs, class, rule))
    }

    #[test]
    fn the_scales_of_section_7_fall_where_they_belong() {
        let random = Features {
            excess_median: Some(0.0004),
            excess_p90: Some(0.001),
            psi: Some(0.3),
            clusters: Some(clusters(1.0, 0.3, 1.0)),
            ..lossy()
        };
        assert_eq!(judged(&random).0, Class::RandomLoss);
        let policer = Features {
            excess_median: Some(0.0003),
            excess_p90: Some(0.0006),
            psi: Some(0.3),
            clusters: Some(clusters(3.0, 40.0, 20.0)),
            fit: Some(Fit {
                j: 0.95,
                rate: 2.4e6,
                depth: 100_000.0,
                anchored: true,
            }),
            ..lossy()
        };
        let (class, _, sure) = judged(&policer);
        assert_eq!(class, Class::Policer);
        assert!(sure >= 0.9, "{sure}");
        let queue = Features {
            excess_median: Some(0.0195),
            excess_p90: Some(0.02),
            psi: Some(0.95),
            clusters: Some(clusters(2.0, 20.0, 15.0)),
            fit: Some(Fit {
                j: 0.9,
                rate: 2.4e6,
                depth: 48_000.0,
                anchored: true,
            }),
            ..lossy()
        };
        let (class, _, sure) = judged(&queue);
        assert_eq!(class, Class::QueueShallow);
        assert!(sure >= 0.9, "{sure}");
        let deep = Features {
            excess_median: Some(0.11),
            excess_p90: Some(0.12),
            ..queue.clone()
        };
        assert_eq!(judged(&deep).0, Class::QueueDeep);
        // Bursts without a rise of the RTT and without a bucket accuse nobody.
        let bursty = Features {
            excess_median: Some(0.001),
            psi: Some(0.3),
            clusters: Some(clusters(4.0, 100.0, 8.0)),
            fit: Some(Fit {
                j: 0.4,
                rate: 2.4e6,
                depth: 10_000.0,
                anchored: true,
            }),
            ..lossy()
        };
        assert_eq!(judged(&bursty).0, Class::BurstyLoss);
    }

    #[test]
    fn little_is_not_enough() {
        let few = Features {
            losses: 3,
            losses_after: 3,
            events: 2,
            rate: 0.00006,
            ..lossy()
        };
        assert_eq!(judged(&few).0, Class::None, "three of 50,000");
        let short = Features {
            rounds: 10.0,
            ..lossy()
        };
        assert_eq!(judged(&short).0, Class::Insufficient);
        let quiet = Features {
            losses: 0,
            losses_after: 0,
            rounds: 5.0,
            ..lossy()
        };
        assert_eq!(judged(&quiet).0, Class::Insufficient);
        let floor = Features {
            rate: 0.06,
            cwnd: Some(4.0),
            ..lossy()
        };
        assert_eq!(
            decide(&floor, &Signs::of(&floor)),
            (Class::Insufficient, Rule::Floor)
        );
        let overshoot = Features {
            losses: 60,
            losses_startup: 58,
            losses_after: 2,
            events: 1,
            excess_startup: Some(0.02),
            packets: 5000,
            ..lossy()
        };
        assert_eq!(judged(&overshoot).0, Class::QueueStartup);
    }

    #[test]
    fn batched_acks_make_no_queue() {
        let batched = Features {
            excess_median: Some(0.003),
            excess_p90: Some(0.004),
            psi: Some(0.9),
            batch: Some(0.004),
            clusters: Some(clusters(3.0, 40.0, 20.0)),
            ..lossy()
        };
        assert_eq!(judged(&batched).0, Class::Insufficient);
        let bucket = Features {
            fit: Some(Fit {
                j: 0.95,
                rate: 2.4e6,
                depth: 1e6,
                anchored: true,
            }),
            ..batched
        };
        let (class, _, sure) = judged(&bucket);
        assert_eq!(class, Class::Policer);
        assert!(sure <= 0.6);
    }
}
