//! Models kept along a recording, so that a seek folds from the nearest: as many as a budget of memory allows.

use std::sync::Arc;

use crate::model::Model;
use crate::units::Mono;

/// All of them together take about so many bytes at most.
pub const BUDGET: usize = 192 << 20;
/// They are no nearer to each other than so many events: folded in less than a frame takes.
const NEAREST: u64 = 25_000;

/// A model, and where in the file the events behind it begin.
#[derive(Clone, Debug)]
pub struct Keyframe {
    pub model: Arc<Model>,
    /// Byte of the chunk that comes next.
    pub next: u64,
    /// Events folded.
    pub events: u64,
    /// Judgements taken in.
    pub judged: usize,
    weight: usize,
}

impl Keyframe {
    /// `model` before the chunk at `next`.
    pub fn new(model: &Model, next: u64, events: u64, judged: usize) -> Self {
        let weight = model.weight();
        Self {
            model: Arc::new(model.clone()),
            next,
            events,
            judged,
            weight,
        }
    }
}

/// In the order of the file.
#[derive(Clone, Debug)]
pub struct Keyframes {
    kept: Vec<Keyframe>,
    budget: usize,
    spacing: u64,
    weight: usize,
}

impl Default for Keyframes {
    fn default() -> Self {
        Self::within(BUDGET)
    }
}

impl Keyframes {
    /// That take no more than `budget` bytes together.
    pub fn within(budget: usize) -> Self {
        Self {
            kept: Vec::new(),
            budget,
            spacing: NEAREST,
            weight: 0,
        }
    }

    /// Whether one is wanted after so many events.
    pub fn wants(&self, events: u64) -> bool {
        let last = self.kept.last().map_or(0, |frame| frame.events);
        events >= last.saturating_add(self.spacing)
    }

    /// Keeps it. Where all are too much, every second goes, and the next come at twice the distance.
    pub fn put(&mut self, frame: Keyframe) {
        self.weight += frame.weight;
        self.kept.push(frame);
        while self.weight > self.budget && !self.kept.is_empty() {
            let mut n = 0_usize;
            // The last of an even number stays; a lone one that is too large goes.
            let last = self.kept.len();
            self.kept.retain(|_| {
                n += 1;
                n.is_multiple_of(2) && last > 1
            });
            self.weight = self.kept.iter().map(|frame| frame.weight).sum();
            self.spacing = self.spacing.saturating_mul(2);
        }
    }

    /// The last that is no later than `time`.
    pub fn before(&self, time: Mono) -> Option<&Keyframe> {
        let at = self.kept.partition_point(|frame| frame.model.now() <= time);
        self.kept.get(at.checked_sub(1)?)
    }

    /// How many, and what they take.
    pub fn size(&self) -> (usize, usize) {
        (self.kept.len(), self.weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, Payload};

    fn model(time: u64) -> Model {
        let mut model = Model::default();
        model.apply(&Event {
            time: Mono(time),
            flow: None,
            payload: Payload::Tick,
        });
        model
    }

    #[test]
    fn the_budget_holds_and_they_stay_spread() {
        let one = model(0).weight();
        let mut frames = Keyframes::within(one * 10);
        let mut wanted = 0;
        for n in 1..=1000_u64 {
            let events = n * NEAREST;
            if frames.wants(events) {
                frames.put(Keyframe::new(&model(n), n, events, 0));
                wanted += 1;
            }
            assert!(frames.size().1 <= one * 10);
        }
        assert!(wanted < 100, "{wanted}");
        let (kept, _) = frames.size();
        assert!((4..=10).contains(&kept), "{kept}");
        assert!(frames.before(Mono(0)).is_none());
        let at = |time| frames.before(Mono(time)).map(|frame| frame.next);
        // Nowhere is one further from the next than a few parts of the whole.
        for time in 300..=1000 {
            assert!(
                at(time).is_some_and(|at| at <= time && time - at <= 260),
                "{time}"
            );
        }
    }

    #[test]
    fn what_is_too_large_is_not_kept() {
        let mut frames = Keyframes::within(10);
        frames.put(Keyframe::new(&model(5), 1, NEAREST, 0));
        assert_eq!(frames.size(), (0, 0));
        assert!(!frames.wants(NEAREST));
    }
}
