//! Standing at a moment of a recording.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::MutexGuard;

use super::keyframes::{BUDGET, Keyframes};
use super::scan::{Found, Scan};
use crate::event::Event;
use crate::model::Model;
use crate::record::{Environment, Index, ReadError, Reader};
use crate::units::Mono;

/// The first and the last moment of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub first: Mono,
    pub last: Mono,
}

/// See the module above.
#[derive(Debug)]
pub struct Player {
    reader: Reader<BufReader<File>>,
    scan: Scan,
    model: Model,
    /// Judgements that it has taken in.
    judged: usize,
    /// When the last of them was told.
    judged_at: Mono,
    /// It took some in after events that came later: a flow that had left the view by then was not judged.
    late: bool,
    path_rate_bps: Option<u64>,
    /// Of the chunk read last, what is not folded yet.
    waiting: VecDeque<Event>,
    /// All events are folded.
    at_end: bool,
    span: Span,
    /// The file had an index.
    indexed: bool,
}

impl Player {
    /// Opens a recording and stands before its first event; begins to look through it.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Self::within(path, BUDGET)
    }

    /// What the path is known to carry.
    #[must_use]
    pub fn of_path(mut self, rate_bps: Option<u64>) -> Self {
        self.path_rate_bps = rate_bps;
        self.model = self.model.of_path(rate_bps);
        self
    }

    /// As [`Player::open`]; models to seek from take no more than `budget` bytes.
    pub fn within(path: &Path, budget: usize) -> Result<Self, ReadError> {
        let mut reader = Reader::open(path)?;
        let index = reader.index()?;
        let span = span(&mut reader, &index)?;
        reader.rewind(0)?;
        Ok(Self {
            scan: Scan::start(path, Keyframes::within(budget))?,
            reader,
            model: Model::default(),
            judged: 0,
            judged_at: Mono::default(),
            late: false,
            path_rate_bps: None,
            waiting: VecDeque::new(),
            at_end: false,
            span,
            indexed: !index.rebuilt,
        })
    }

    pub fn environment(&self) -> &Environment {
        self.reader.environment()
    }

    pub fn span(&self) -> Span {
        self.span
    }

    /// Whether the file has its index: one that was cut off has none.
    pub fn is_indexed(&self) -> bool {
        self.indexed
    }

    /// What the look through the file has found so far. Not to be held on to.
    pub fn found(&self) -> MutexGuard<'_, Found> {
        self.scan.found()
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

    /// No event is left.
    pub fn is_at_end(&self) -> bool {
        self.at_end
    }

    /// Goes where `to` is reached soonest by [`Player::forward`].
    pub fn seek(&mut self, to: Mono) -> Result<(), ReadError> {
        let (frame, missed) = {
            let found = self.scan.found();
            let missed = found.judgements.after(self.judged, self.model.now());
            (
                found.keyframes.before(to).cloned(),
                missed
                    .iter()
                    .any(|judgement| judgement.time < self.model.now()),
            )
        };
        let at = self.model.now().max(self.judged_at);
        let whole = !self.late && !missed;
        let here = (whole && at <= to).then(|| self.model.events());
        // Ticks are no events to a model: at equal counts one is as good as the other.
        match (frame, here) {
            (Some(frame), here) if here.is_none_or(|here| frame.model.events() > here) => {
                self.model.clone_from(&frame.model);
                self.judged = frame.judged;
                self.judged_at = Mono::default();
                self.late = false;
                self.model = std::mem::take(&mut self.model).of_path(self.path_rate_bps);
                self.restart(frame.next)
            }
            (_, Some(_)) => Ok(()),
            (_, None) => {
                self.model = Model::default().of_path(self.path_rate_bps);
                self.judged = 0;
                self.judged_at = Mono::default();
                self.late = false;
                self.restart(0)
            }
        }
    }

    fn restart(&mut self, next: u64) -> Result<(), ReadError> {
        self.waiting.clear();
        self.at_end = false;
        self.reader.rewind(next)
    }

    /// Folds the events up to `to`, those of that moment too, but no more than about `most`. True when it is there.
    pub fn forward(&mut self, to: Mono, most: usize) -> Result<bool, ReadError> {
        let mut folded = 0;
        // What is not judged yet is taken in later.
        let judged = self.scan.found().judgements.after(self.judged, to).to_vec();
        let mut judged = judged.into_iter().peekable();
        let there = loop {
            let Some(event) = self.waiting.front() else {
                if self.at_end {
                    break true;
                }
                match self.reader.batch()? {
                    Some(batch) => self.waiting = batch.into(),
                    None => self.at_end = true,
                }
                continue;
            };
            if event.time > to {
                break true;
            }
            if folded >= most {
                break false;
            }
            while let Some(judgement) = judged.next_if(|judgement| judgement.time <= event.time) {
                self.late |= judgement.time < self.model.now();
                self.model.judge(&judgement);
                self.judged += 1;
                self.judged_at = judgement.time;
            }
            self.model.apply(event);
            self.waiting.pop_front();
            folded += 1;
        };
        if there {
            for judgement in judged {
                self.late |= judgement.time < self.model.now();
                self.model.judge(&judgement);
                self.judged += 1;
                self.judged_at = judgement.time;
            }
        }
        // Nobody asks a replay for them: the journal has what they tell.
        drop(self.model.take_derived());
        Ok(there)
    }
}

/// From the first event to the last of the last chunk that can be read.
fn span(reader: &mut Reader<BufReader<File>>, index: &Index) -> Result<Span, ReadError> {
    reader.rewind(0)?;
    let first = match reader.batch()? {
        Some(batch) => batch.first().map(|event| event.time),
        None => None,
    };
    let first = first.unwrap_or_default();
    let mut last = first;
    for entry in index.entries.iter().rev() {
        reader.rewind(entry.at)?;
        if let Some(batch) = reader.batch()? {
            let end = batch.iter().map(|event| event.time).max();
            last = last.max(end.unwrap_or_default());
            break;
        }
    }
    Ok(Span { first, last })
}
