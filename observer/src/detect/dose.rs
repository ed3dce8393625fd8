//! Dose response: whether BBR loses more when it pushes harder (DETECTION §1 c).

/// Sent and lost in one gain cycle, packets: while the pacing gain was above 1, and while it was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cycle {
    pub sent_up: u32,
    pub lost_up: u32,
    pub sent_low: u32,
    pub lost_low: u32,
}

/// How losses answer to the push.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dose {
    /// Rate of loss in the pushing phases ÷ that in the others; ½ added to each count.
    pub ratio: f64,
    /// ln `ratio` ÷ its standard error by leaving out one cycle at a time.
    pub z: f64,
    pub cycles: usize,
    pub losses: u32,
    /// Rate of loss in the pushing phases.
    pub up: f64,
    /// In the others: what does not depend on the push.
    pub low: f64,
}

/// What the dose says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    LoadDependent,
    Independent,
    Undecided,
}

const MIN_CYCLES: usize = 4;
const MIN_LOSSES: u32 = 8;
/// Floor of the standard error.
const LEAST_ERROR: f64 = 0.05;

fn ratio(sum: Cycle) -> f64 {
    let up = (f64::from(sum.lost_up) + 0.5) / f64::from(sum.sent_up.max(1));
    let low = (f64::from(sum.lost_low) + 0.5) / f64::from(sum.sent_low.max(1));
    up / low
}

/// `None`: too few cycles or losses.
pub fn dose(cycles: &[Cycle]) -> Option<Dose> {
    let whole: Vec<Cycle> = cycles
        .iter()
        .filter(|cycle| cycle.sent_up > 0 && cycle.sent_low > 0)
        .copied()
        .collect();
    let sum = whole.iter().fold(Cycle::default(), |sum, cycle| Cycle {
        sent_up: sum.sent_up + cycle.sent_up,
        lost_up: sum.lost_up + cycle.lost_up,
        sent_low: sum.sent_low + cycle.sent_low,
        lost_low: sum.lost_low + cycle.lost_low,
    });
    let losses = sum.lost_up + sum.lost_low;
    if whole.len() < MIN_CYCLES || losses < MIN_LOSSES {
        return None;
    }
    let count = whole.len() as f64;
    let without: Vec<f64> = whole
        .iter()
        .map(|cycle| {
            ratio(Cycle {
                sent_up: sum.sent_up - cycle.sent_up,
                lost_up: sum.lost_up - cycle.lost_up,
                sent_low: sum.sent_low - cycle.sent_low,
                lost_low: sum.lost_low - cycle.lost_low,
            })
            .ln()
        })
        .collect();
    let mean = without.iter().sum::<f64>() / count;
    let squares = without.iter().map(|value| (value - mean).powi(2));
    let error = (squares.sum::<f64>() * (count - 1.0) / count).sqrt();
    let ratio = ratio(sum);
    Some(Dose {
        ratio,
        z: ratio.ln() / error.max(LEAST_ERROR),
        cycles: whole.len(),
        losses,
        up: f64::from(sum.lost_up) / f64::from(sum.sent_up),
        low: f64::from(sum.lost_low) / f64::from(sum.sent_low),
    })
}

impl Dose {
    pub fn answer(&self) -> Answer {
        if self.z >= 2.5 && self.ratio >= 1.3 {
            Answer::LoadDependent
        } else if self.z < 2.0 {
            Answer::Independent
        } else {
            Answer::Undecided
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle(lost_up: u32, lost_low: u32) -> Cycle {
        Cycle {
            sent_up: 100,
            lost_up,
            sent_low: 700,
            lost_low,
        }
    }

    #[test]
    fn a_queue_answers_to_the_push_and_chance_does_not() {
        let queue: Vec<_> = (0..10).map(|at| cycle(10 + at % 3, 0)).collect();
        assert_eq!(dose(&queue).unwrap().answer(), Answer::LoadDependent);
        let chance: Vec<_> = (0..10).map(|at| cycle(at % 3, 6 + at % 4)).collect();
        assert_eq!(dose(&chance).unwrap().answer(), Answer::Independent);
    }

    #[test]
    fn one_burst_in_one_push_proves_nothing() {
        let mut cycles = vec![cycle(0, 2); 10];
        cycles[3].lost_up = 40;
        assert_ne!(dose(&cycles).unwrap().answer(), Answer::LoadDependent);
    }

    #[test]
    fn too_little_is_no_dose() {
        assert_eq!(dose(&[cycle(10, 0); 3]), None);
        assert_eq!(dose(&[cycle(1, 0); 5]), None);
        let never_up = Cycle {
            sent_low: 10,
            lost_low: 3,
            ..Cycle::default()
        };
        assert_eq!(dose(&[never_up; 10]), None);
    }
}
