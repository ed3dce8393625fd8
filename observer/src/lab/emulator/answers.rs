//! When a frame would have arrived that answers one which left late.
//!
//! A frame that is sent out by a veth is taken in by the other end before the call is over, and what TCP answers comes back at
//! once: an ACK to data, data to an ACK. So what arrives shortly after a frame left is its answer, and is as much too late as that was.

use std::collections::VecDeque;

/// What comes later than this is no answer to the frame that left last, but comes by itself: data that a timer paced, a delayed
/// ACK. Long enough for an interrupted call.
const ANSWER_NS: u64 = 300_000;
/// Frames remembered that nothing has answered yet.
const REMEMBERED: usize = 4096;

/// One side's frames that left, and what comes in from there.
#[derive(Debug, Default)]
pub struct Answers {
    /// When a frame left, and how late that was, ns.
    left: VecDeque<(u64, u64)>,
    last_ns: u64,
}

impl Answers {
    /// A frame leaves toward this side.
    pub fn left(&mut self, at_ns: u64, late_ns: u64) {
        if self.left.len() == REMEMBERED {
            self.left.pop_front();
        }
        self.left.push_back((at_ns, late_ns));
    }

    /// The moment by which the path goes for a frame that comes in from this side; never before the one before it.
    pub fn date(&mut self, arrived_ns: u64) -> u64 {
        while self
            .left
            .get(1)
            .is_some_and(|(left, _)| *left <= arrived_ns)
        {
            self.left.pop_front();
        }
        let late = match self.left.front() {
            Some((left, late)) if (*left..*left + ANSWER_NS).contains(&arrived_ns) => *late,
            _ => 0,
        };
        self.last_ns = arrived_ns.saturating_sub(late).max(self.last_ns);
        self.last_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn answers_are_as_far_apart_as_what_they_answer_was_to_be() {
        let mut answers = Answers::default();
        // Due at 10, 11, 12 ms; the thread came at 15.
        let mut dated = Vec::new();
        for (due, left) in [
            (10 * MS, 15 * MS),
            (11 * MS, 15 * MS + 5000),
            (12 * MS, 15 * MS + 9000),
        ] {
            answers.left(left, left - due);
        }
        for arrived in [15 * MS + 3000, 15 * MS + 7000, 15 * MS + 11_000] {
            dated.push(answers.date(arrived));
        }
        assert_eq!(dated, [10 * MS + 3000, 11 * MS + 2000, 12 * MS + 2000]);
        // What comes by itself is dated when it came.
        assert_eq!(answers.date(16 * MS), 16 * MS);
    }

    #[test]
    fn time_never_goes_back() {
        let mut answers = Answers::default();
        assert_eq!(answers.date(20 * MS), 20 * MS);
        answers.left(21 * MS, 5 * MS);
        assert_eq!(answers.date(21 * MS + 10), 20 * MS);
        for at in 0..10_000 {
            answers.left(22 * MS + at, 0);
        }
        assert_eq!(answers.left.len(), REMEMBERED);
        assert_eq!(answers.date(30 * MS), 30 * MS);
    }
}
