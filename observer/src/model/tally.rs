//! What is counted over all flows: events and their pace, losses of events, notes, odd input.

use std::collections::VecDeque;

use crate::event::{Counters, FlowId, Note, NoteKind};
use crate::units::Mono;

/// Notes kept.
const NOTES: usize = 256;
/// Distinct complaints kept.
const DEGRADED: usize = 64;
/// The pace is counted over `BUCKETS` × `BUCKET_NS` = 1 s.
const BUCKETS: usize = 10;
const BUCKET_NS: u64 = 100_000_000;

/// A note with its moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    pub time: Mono,
    pub flow: Option<FlowId>,
    pub note: Note,
}

/// Events of the last second.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// Number of the newest bucket.
    at: u64,
    counts: [u32; BUCKETS],
}

impl Pace {
    fn advance(&mut self, now: Mono) {
        let at = now.0 / BUCKET_NS;
        let passed = at.saturating_sub(self.at).min(BUCKETS as u64);
        for i in 0..passed {
            self.counts[((at - i) % BUCKETS as u64) as usize] = 0;
        }
        self.at = self.at.max(at);
    }

    fn count(&mut self) {
        let bucket = &mut self.counts[(self.at % BUCKETS as u64) as usize];
        *bucket = bucket.saturating_add(1);
    }

    fn per_s(&self) -> u64 {
        self.counts.iter().map(|&n| u64::from(n)).sum()
    }
}

/// Totals over all flows.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pace: Pace,
    pub events: u64,
    pub odd: u64,
    pub gaps: u64,
    pub attempts: u64,
    pub counters: Option<Counters>,
    pub notes: VecDeque<Noted>,
    pub degraded: Vec<Noted>,
}

impl Tally {
    pub fn advance(&mut self, now: Mono) {
        self.pace.advance(now);
    }

    pub fn event(&mut self) {
        self.events += 1;
        self.pace.count();
    }

    pub fn per_s(&self) -> u64 {
        self.pace.per_s()
    }

    /// Kernel-side losses, or the holes seen when these are more. A record that the ring had no room for is both
    /// `dropped` and a hole in its flow's numbers: the sum would count it twice.
    pub fn lost(&self) -> u64 {
        let counted = self.counters.as_ref().map_or(0, Counters::lost);
        counted.max(self.gaps)
    }

    pub fn note(&mut self, noted: Noted) {
        match noted.note.kind {
            NoteKind::Attempt => self.attempts += 1,
            NoteKind::Degraded => self.complain(&noted),
            NoteKind::Info => {}
        }
        if self.notes.len() == NOTES {
            self.notes.pop_front();
        }
        self.notes.push_back(noted);
    }

    /// Keeps one of each text, with its latest moment.
    fn complain(&mut self, noted: &Noted) {
        let known = self
            .degraded
            .iter_mut()
            .find(|d| d.note.text == noted.note.text);
        if let Some(known) = known {
            known.time = noted.time;
        } else if self.degraded.len() < DEGRADED {
            self.degraded.push(noted.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_of_the_last_second_and_falls_to_zero() {
        let mut tally = Tally::default();
        for i in 0..100 {
            tally.advance(Mono(5_000_000_000 + i * 10_000_000));
            tally.event();
        }
        assert_eq!(tally.per_s(), 100);
        tally.advance(Mono(6_450_000_000));
        assert_eq!(tally.per_s(), 50);
        tally.advance(Mono(60_000_000_000));
        assert_eq!(tally.per_s(), 0);
    }
}
