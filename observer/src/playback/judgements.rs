//! What was judged along a recording: looked up where one stands, so that only one fold of the file has detectors.

use std::sync::Arc;

use crate::model::Judgement;
use crate::units::Mono;

/// Changes are kept to this many, …
const MOST: usize = 1 << 16;
/// … what only brings a verdict up to date while they are fewer than this.
const MOST_UPDATES: usize = 1 << 14;

/// In the order of time.
#[derive(Clone, Debug, Default)]
pub struct Judgements {
    kept: Vec<Arc<Judgement>>,
}

impl Judgements {
    pub fn push(&mut self, judgement: Arc<Judgement>) {
        let most = if judgement.is_change() {
            MOST
        } else {
            MOST_UPDATES
        };
        if self.kept.len() < most {
            self.kept.push(judgement);
        }
    }

    pub fn len(&self) -> usize {
        self.kept.len()
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Those after the first `taken`, up to `time`.
    pub fn after(&self, taken: usize, time: Mono) -> &[Arc<Judgement>] {
        let rest = self.kept.get(taken..).unwrap_or_default();
        &rest[..rest.partition_point(|judgement| judgement.time <= time)]
    }
}
