//! The fold with its detectors: what is true now, and what it is judged to mean.
//!
//! Verdicts are asked for at fixed moments of the events' time, so that live, replay and report come to the same.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::Model;
use super::judged::Judgement;
use crate::detect::{Class, Detector, Verdict};
use crate::event::Event;
use crate::units::Mono;

/// Verdicts are asked for so often.
pub const JUDGE_EVERY_NS: u64 = 500_000_000;
/// What did not change is told again no sooner than this.
const AGAIN_NS: u64 = 5_000_000_000;

/// What was last told of a peer.
#[derive(Debug)]
struct Told {
    time: Mono,
    since: Mono,
    class: Class,
    confidence: f64,
    flows: usize,
}

/// See the module above.
#[derive(Debug, Default)]
pub struct Fold {
    model: Model,
    detector: Detector,
    due: Option<Mono>,
    told: BTreeMap<IpAddr, Told>,
}

impl Fold {
    /// Rates over the last `window` nanoseconds.
    pub fn with_window(window: u64) -> Self {
        Self {
            model: Model::with_window(window),
            ..Self::default()
        }
    }

    /// As [`Model::of_path`].
    #[must_use]
    pub fn of_path(mut self, rate_bps: Option<u64>) -> Self {
        self.model = self.model.of_path(rate_bps);
        self
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    pub fn model_mut(&mut self) -> &mut Model {
        &mut self.model
    }

    pub fn into_model(self) -> Model {
        self.model
    }

    /// Takes one event in; judges first when it is time to. Gives what was judged.
    pub fn apply(&mut self, event: &Event) -> Vec<Arc<Judgement>> {
        let judged = self.judge_until(event.time);
        self.model.apply(event);
        self.detector.apply(event);
        judged
    }

    /// Judges where it is time to by `time`, before which nothing more comes.
    pub fn judge_until(&mut self, time: Mono) -> Vec<Arc<Judgement>> {
        let due = *self.due.get_or_insert(next(time));
        if time < due {
            return Vec::new();
        }
        self.due = Some(next(time));
        self.judge(due, false)
    }

    /// Nothing more comes: judges a last time.
    pub fn finish(&mut self) -> Vec<Arc<Judgement>> {
        self.judge(self.model.now(), true)
    }

    fn judge(&mut self, time: Mono, last: bool) -> Vec<Arc<Judgement>> {
        let mut judged = Vec::new();
        let verdicts = if last {
            self.detector.verdicts()
        } else {
            self.detector.judge(time)
        };
        for verdict in verdicts {
            if let Some(judgement) = self.judgement(time, last, verdict) {
                let judgement = Arc::new(judgement);
                self.model.judge(&judgement);
                judged.push(judgement);
            }
        }
        judged
    }

    /// What there is to tell of it, if anything.
    fn judgement(&mut self, time: Mono, last: bool, verdict: Verdict) -> Option<Judgement> {
        let before = self.told.get(&verdict.peer);
        let old = before.map(|told| told.class);
        let since = before
            .filter(|told| told.class == verdict.class)
            .map_or(time, |told| told.since);
        let same = before.is_some_and(|told| {
            told.class == verdict.class
                && told.flows == verdict.flows.len()
                && (told.confidence - verdict.confidence).abs() < 0.01
                && time.since(told.time) < AGAIN_NS
        });
        if same && !last {
            return None;
        }
        let told = Told {
            time,
            since,
            class: verdict.class,
            confidence: verdict.confidence,
            flows: verdict.flows.len(),
        };
        self.told.insert(verdict.peer, told);
        Some(Judgement {
            time,
            since,
            old,
            verdict,
        })
    }
}

/// The next moment to judge at.
fn next(time: Mono) -> Mono {
    Mono((time.0 / JUDGE_EVERY_NS + 1).saturating_mul(JUDGE_EVERY_NS))
}
