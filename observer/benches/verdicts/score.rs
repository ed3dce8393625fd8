//! What a verdict is worth against the truth (DETECTION §3.3), and how sure the sums are.

use observer::detect::Class;

use crate::truth::Truth;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Score {
    Right,
    Wrong,
    Abstained,
    /// Fewer losses than a verdict needs, and none was given.
    TooFew,
}

/// Within so much of a boundary both neighbours are right.
const NEAR: f64 = 0.15;

pub fn score(truth: &Truth, called: Class, enough: bool) -> Score {
    let is_queue = truth.class.is_queue();
    if called == truth.class || near(truth, called) {
        return Score::Right;
    }
    match called {
        Class::QueueStartup if is_queue && !enough => Score::Right,
        // What overshoots before the cause shows is no wrong accusation.
        Class::QueueStartup if !enough => Score::TooFew,
        Class::Insufficient | Class::None | Class::QueueDeep
            if !enough && truth.class != Class::None =>
        {
            Score::TooFew
        }
        Class::Insufficient => Score::Abstained,
        Class::BurstyLoss if truth.class != Class::None => Score::Abstained,
        // Some of what is lost in bursts is lost alone.
        Class::RandomLoss if truth.class == Class::BurstyLoss => Score::Abstained,
        _ => Score::Wrong,
    }
}

fn near(truth: &Truth, called: Class) -> bool {
    let by = |boundary: f64| {
        truth
            .buffer_bdp
            .is_some_and(|bdp| (bdp / boundary - 1.0).abs() <= NEAR)
    };
    match (truth.class, called) {
        (Class::QueueShallow, Class::Queue) | (Class::Queue, Class::QueueShallow) => by(1.0),
        (Class::Queue, Class::QueueDeep) | (Class::QueueDeep, Class::Queue) => by(2.0),
        _ => false,
    }
}

/// Standard errors to each side of a 95 % interval.
const Z: f64 = 1.96;

/// A share with its 95 % interval (Wilson).
pub fn wilson(hits: usize, of: usize) -> String {
    if of == 0 {
        return "—".to_owned();
    }
    let n = of as f64;
    let p = hits as f64 / n;
    let centre = p + Z * Z / (2.0 * n);
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    format!(
        "{:.3} ({:.2}–{:.2})",
        p,
        ((centre - half) / scale).max(0.0),
        ((centre + half) / scale).min(1.0)
    )
}

/// Median, 90th percentile and the most, of how many.
pub fn spread(mut values: Vec<f64>) -> Option<(f64, f64, f64, usize)> {
    values.sort_unstable_by(f64::total_cmp);
    let at = |q: f64| {
        values
            .get(((values.len() - 1) as f64 * q).round() as usize)
            .copied()
    };
    let most = values.last().copied()?;
    Some((at(0.5)?, at(0.9)?, most, values.len()))
}
