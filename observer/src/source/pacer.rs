//! The CPU budget: how closely to look, given what looking has cost. Pure: costs in, intervals out.

use crate::event::{Cost, Counters};

/// What one run of a program costs where the kernel's own statistics are off, by how it ended: `cargo xtask bench kernel`
/// on the development machine, entry and exit included, rounded up.
const KEPT_NS: u64 = 450;
const OTHER_NS: u64 = 100;
/// The first step from «every ACK».
const FIRST_NS: u64 = 100_000;
/// Never less often than this.
const LONGEST_NS: u64 = 1_000_000_000;
/// So many seconds below half the budget before one looks more closely again.
const PATIENCE: u32 = 5;

/// Nanoseconds that the programs ran, since they were loaded.
pub fn kernel_ns(counters: &Counters) -> u64 {
    let of = |program: &crate::event::ProgramCounters| {
        let others = program.attempted.saturating_sub(program.kept);
        let calibrated = program
            .kept
            .saturating_mul(KEPT_NS)
            .saturating_add(others.saturating_mul(OTHER_NS));
        program.run_time_ns.unwrap_or(calibrated)
    };
    counters
        .programs
        .iter()
        .map(of)
        .fold(0, u64::saturating_add)
}

/// Intervals between samples: ordinary ones, and those of flows looked at or with losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    pub interval_ns: u64,
    pub close_ns: u64,
}

/// Stretches the intervals while the cost is above the budget.
#[derive(Clone, Debug)]
pub struct Pacer {
    asked_ns: u64,
    /// Share of all cores, millionths.
    budget_ppm: u64,
    steps: u32,
    calm: u32,
    last: Option<Spent>,
}

/// CPU time up to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// When, by the monotonic clock.
    pub at_ns: u64,
    /// Of this process, all its threads.
    pub user_ns: u64,
    /// Of the programs, in whoever's time they ran.
    pub kernel_ns: u64,
}

impl Pacer {
    pub fn new(asked_ns: u64, budget_ppm: u64) -> Self {
        Self {
            asked_ns,
            budget_ppm,
            steps: 0,
            calm: 0,
            last: None,
        }
    }

    /// What holds now.
    pub fn pace(&self) -> Pace {
        let close_ns = match self.steps {
            0 => 0,
            steps => (FIRST_NS << (steps - 1).min(20)).min(LONGEST_NS),
        };
        Pace {
            interval_ns: self.asked_ns.max(close_ns),
            close_ns: close_ns.min(self.asked_ns.max(close_ns)),
        }
    }

    /// Takes in what was spent up to now on `cores`; to be called about once a second. `None` the first time, when
    /// there is nothing to compare with.
    pub fn spend(&mut self, spent: Spent, cores: u64) -> Option<Cost> {
        let before = self.last.replace(spent)?;
        let available = u128::from(spent.at_ns.saturating_sub(before.at_ns)) * u128::from(cores);
        if available == 0 {
            return None;
        }
        let ppm = |now: u64, then: u64| {
            let share = u128::from(now.saturating_sub(then)) * 1_000_000 / available;
            u32::try_from(share).unwrap_or(u32::MAX)
        };
        let user_ppm = ppm(spent.user_ns, before.user_ns);
        let kernel_ppm = ppm(spent.kernel_ns, before.kernel_ns);
        self.step(u64::from(user_ppm) + u64::from(kernel_ppm));
        let pace = self.pace();
        Some(Cost {
            user_ppm,
            kernel_ppm,
            interval_ns: pace.interval_ns,
            close_ns: pace.close_ns,
            stretched: self.steps > 0,
        })
    }

    fn step(&mut self, ppm: u64) {
        if ppm > self.budget_ppm {
            self.calm = 0;
            // Further at once where it is far above.
            let steps = (ppm / self.budget_ppm.max(1)).max(1).ilog2() + 1;
            let end = (LONGEST_NS / FIRST_NS).ilog2() + 2;
            self.steps = (self.steps + steps).min(end);
        } else if self.steps > 0 && ppm * 2 < self.budget_ppm {
            self.calm += 1;
            if self.calm >= PATIENCE {
                self.calm = 0;
                self.steps -= 1;
            }
        } else {
            self.calm = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A second in which `percent` of two cores were used.
    fn second(pacer: &mut Pacer, percent: u64) -> Cost {
        let last = pacer.last.unwrap_or_default();
        let next = Spent {
            at_ns: last.at_ns + 1000 * MS,
            user_ns: last.user_ns + percent * 20 * MS,
            kernel_ns: last.kernel_ns,
        };
        pacer.spend(next, 2).expect("not the first")
    }

    fn pacer(asked_ns: u64) -> Pacer {
        let mut pacer = Pacer::new(asked_ns, 50_000);
        assert_eq!(pacer.spend(Spent::default(), 2), None);
        pacer
    }

    #[test]
    fn within_the_budget_nothing_changes() {
        let mut pacer = pacer(10 * MS);
        for _ in 0..100 {
            let cost = second(&mut pacer, 5);
            assert_eq!((cost.interval_ns, cost.close_ns), (10 * MS, 0));
            assert!(!cost.stretched);
            assert_eq!((cost.user_ppm, cost.kernel_ppm), (50_000, 0));
        }
    }

    #[test]
    fn above_it_close_looks_go_first_and_come_back_last() {
        let mut pacer = pacer(10 * MS);
        let cost = second(&mut pacer, 6);
        assert_eq!((cost.interval_ns, cost.close_ns), (10 * MS, MS / 10));
        assert!(cost.stretched);
        for _ in 0..7 {
            second(&mut pacer, 6);
        }
        let cost = second(&mut pacer, 6);
        assert_eq!(cost.interval_ns, cost.close_ns, "{cost:?}");
        assert!(cost.interval_ns > 10 * MS && cost.interval_ns < 100 * MS);
        for _ in 0..60 {
            second(&mut pacer, 0);
        }
        let cost = second(&mut pacer, 0);
        assert_eq!(
            (cost.interval_ns, cost.close_ns, cost.stretched),
            (10 * MS, 0, false)
        );
    }

    #[test]
    fn every_ack_is_stretched_too_and_there_is_an_end() {
        let mut pacer = pacer(0);
        for _ in 0..100 {
            let cost = second(&mut pacer, 100);
            assert!(cost.interval_ns <= 1000 * MS && cost.close_ns <= cost.interval_ns);
        }
        assert_eq!(second(&mut pacer, 100).interval_ns, 1000 * MS);
        // A longer interval than that was asked for by name.
        assert_eq!(
            super::Pacer::new(5000 * MS, 1).pace().interval_ns,
            5000 * MS
        );
    }

    #[test]
    fn the_kernels_statistics_are_taken_where_they_are() {
        let program = crate::event::ProgramCounters {
            attempted: 10,
            kept: 4,
            suppressed: 6,
            ..Default::default()
        };
        let mut counters = Counters {
            programs: vec![program],
            cost: None,
        };
        assert_eq!(kernel_ns(&counters), 4 * KEPT_NS + 6 * OTHER_NS);
        counters.programs[0].run_time_ns = Some(77);
        assert_eq!(kernel_ns(&counters), 77);
    }
}
