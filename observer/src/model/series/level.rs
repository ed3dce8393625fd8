//! How much is remembered of a flow, by the number of flows.

use super::BLIND_NS;
use super::history::History;
use crate::event::FlowId;
use crate::units::Mono;

/// All histories together take at most this much (SPEC §9).
pub const BUDGET: usize = 64_000_000;
/// So many flows that somebody looks at are remembered in full.
pub const FOCUSED: usize = 4;

/// Entries of each resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) struct Caps {
    pub samples: usize,
    /// Retransmissions and changes between samples, at the resolution of samples.
    pub marks: usize,
    /// Buckets of 100 ms, 1 s, 10 s.
    pub tiers: [usize; 3],
}

const fn caps(samples: usize, marks: usize, tiers: [usize; 3]) -> Caps {
    Caps {
        samples,
        marks,
        tiers,
    }
}

/// A minute in 100 ms, a quarter of an hour in seconds, six hours in 10 s.
const FULL: Caps = caps(4096, 1024, [600, 900, 2160]);

/// From «few flows» to «too many».
pub(super) static LEVELS: [Caps; 11] = [
    FULL,
    caps(2048, 512, [300, 600, 1080]),
    caps(1024, 256, [200, 300, 540]),
    caps(512, 128, [100, 180, 360]),
    caps(256, 64, [50, 120, 180]),
    caps(0, 0, [50, 60, 90]),
    caps(0, 0, [0, 60, 30]),
    caps(0, 0, [0, 14, 13]),
    caps(0, 0, [0, 6, 6]),
    caps(0, 0, [0, 2, 2]),
    caps(0, 0, [0, 0, 0]),
];

impl Caps {
    /// Bytes on the heap, at most.
    pub const fn bytes(&self) -> usize {
        let buckets = self.tiers[0] + self.tiers[1] + self.tiers[2];
        self.samples * History::SAMPLE + self.marks * History::MARK + buckets * History::BUCKET
    }
}

/// Without what is set aside for flows looked at.
const SHARED: usize = BUDGET - FOCUSED * FULL.bytes();

/// The finest level that so many flows can have.
fn finest(flows: usize) -> usize {
    LEVELS
        .iter()
        .position(|caps| caps.bytes().saturating_mul(flows) <= SHARED)
        .unwrap_or(LEVELS.len() - 1)
}

/// What concerns all histories: the level, the flows looked at, when the source did not speak.
#[derive(Clone, Debug, Default)]
pub(in crate::model) struct Shelf {
    /// Nothing is remembered of any flow.
    bare: bool,
    level: usize,
    focus: Vec<FlowId>,
    /// Since when the source has spoken without a pause.
    spoken_since: Mono,
}

impl Shelf {
    /// Remembers nothing.
    pub fn bare() -> Self {
        Self {
            bare: true,
            ..Self::default()
        }
    }

    /// Takes in how many flows there are. True when the level is another one now.
    pub fn fit(&mut self, flows: usize) -> bool {
        // Back to a finer one only when there is a quarter to spare: not to and fro.
        let level = finest(flows).max(finest(flows + flows / 3).min(self.level));
        let changed = level != self.level;
        self.level = level;
        changed
    }

    pub(in crate::model) fn caps(&self, flow: FlowId) -> &'static Caps {
        let level = if self.bare {
            LEVELS.len() - 1
        } else if self.focus.contains(&flow) {
            0
        } else {
            self.level
        };
        &LEVELS[level]
    }

    /// Whom somebody looks at; the first [`FOCUSED`] count. Returns who is concerned by the change.
    pub fn focus(&mut self, flows: &[FlowId]) -> Vec<FlowId> {
        let flows = &flows[..flows.len().min(FOCUSED)];
        if self.focus == flows {
            return Vec::new();
        }
        let mut concerned = std::mem::replace(&mut self.focus, flows.to_vec());
        concerned.extend_from_slice(flows);
        concerned
    }

    /// Carries time forward, from the newest event to the next.
    pub fn advance(&mut self, from: Mono, to: Mono) {
        if to.since(from) >= BLIND_NS {
            self.spoken_since = to;
        }
    }

    /// The source did not speak for a while since `time`.
    pub fn is_blind_since(&self, time: Option<Mono>) -> bool {
        time.is_some_and(|time| time < self.spoken_since)
    }

    pub fn is_focused(&self, flow: FlowId) -> bool {
        self.focus.contains(&flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_flows_fits_the_budget() {
        for flows in (0..1_000_000).step_by(97) {
            let bytes = LEVELS[finest(flows)].bytes() * flows;
            assert!(bytes + FOCUSED * LEVELS[0].bytes() <= BUDGET, "{flows}");
        }
        assert!(LEVELS.is_sorted_by(|a, b| a.bytes() > b.bytes()));
        assert!(LEVELS[0].bytes() <= 530_000);
    }

    #[test]
    fn twenty_thousand_flows_keep_two_minutes_each() {
        let caps = LEVELS[finest(20_000)];
        assert!(caps.tiers[2] * 10 >= 120, "{caps:?}");
        assert!(caps.bytes() <= 2808);
        assert_eq!(finest(100), 0);
    }

    #[test]
    fn the_level_does_not_swing() {
        let mut shelf = Shelf::default();
        let edge = (1..1000).find(|n| finest(*n) == 1).expect("a number");
        assert!(shelf.fit(edge));
        for flows in [edge - 1, edge, edge - 1, edge] {
            assert!(!shelf.fit(flows));
        }
        assert!(shelf.fit(edge / 2));
        assert_eq!(shelf.level, 0);
    }
}
