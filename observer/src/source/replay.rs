//! A recording as a source: the events of a file, as fast as they are asked for, or at the pace they happened.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use tokio::time::{Instant, sleep_until};

use super::{Info, Source, SourceError, SourceKind};
use crate::event::Event;
use crate::record::{Ending, Environment, ReadError, Reader};
use crate::units::{Mono, escape};

/// With a pace, events of so much of their time are handed on together.
const SLICE_NS: u64 = 20_000_000;

/// A file's events.
#[derive(Debug)]
pub struct Replay {
    info: Info,
    reader: Reader<BufReader<File>>,
    pace: Option<Pace>,
    waiting: VecDeque<Event>,
}

impl Replay {
    /// Opens a recording; its events come as fast as they are asked for.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let reader = Reader::open(path)?;
        let info = Info {
            kind: SourceKind::Replay,
            origin: None,
            name: escape(&path.file_name().unwrap_or_default().to_string_lossy()),
            wall_offset_ns: reader.environment().wall_offset_ns,
        };
        Ok(Self {
            info,
            reader,
            pace: None,
            waiting: VecDeque::new(),
        })
    }

    /// Hands events on at the pace they happened.
    #[must_use]
    pub fn at_pace(mut self, pace: Pace) -> Self {
        self.pace = Some(pace);
        self
    }

    pub fn environment(&self) -> &Environment {
        self.reader.environment()
    }

    /// How the file ended, once it did.
    pub fn ending(&self) -> Option<&Ending> {
        self.reader.ending()
    }

    fn read(&mut self) -> Result<bool, SourceError> {
        let batch = self.reader.batch().map_err(|error| SourceError::Io {
            what: self.info.name.clone(),
            error: std::io::Error::other(error),
        })?;
        let more = batch.is_some();
        self.waiting.extend(batch.unwrap_or_default());
        Ok(more)
    }

    /// Takes the events up to `until`, at least one.
    fn slice(&mut self, until: Mono) -> Vec<Event> {
        let count = self
            .waiting
            .iter()
            .position(|event| event.time > until)
            .unwrap_or(self.waiting.len());
        self.waiting.drain(..count.max(1)).collect()
    }
}

impl Source for Replay {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn next(&mut self) -> Result<Option<Vec<Event>>, SourceError> {
        if self.waiting.is_empty() && !self.read()? {
            return Ok(None);
        }
        let Some(first) = self.waiting.front().map(|event| event.time) else {
            return Ok(None);
        };
        let Some(pace) = &mut self.pace else {
            return Ok(Some(std::mem::take(&mut self.waiting).into()));
        };
        // Waits first and takes then: who drops this loses nothing.
        let until = first.plus(SLICE_NS);
        pace.wait(until).await;
        Ok(Some(self.slice(until)))
    }
}

/// How fast recorded time goes by: the only thing that waits in a replay.
#[derive(Clone, Debug)]
pub struct Pace {
    speed: f64,
    begun: Option<(Instant, Mono)>,
}

impl Pace {
    /// 1 = as it happened; 2 = twice as fast.
    pub fn new(speed: f64) -> Self {
        Self {
            speed: if speed.is_finite() {
                speed.clamp(0.001, 1e6)
            } else {
                1.0
            },
            begun: None,
        }
    }

    /// Waits until it is `time`; the first moment asked for is now.
    async fn wait(&mut self, time: Mono) {
        #[expect(clippy::disallowed_methods, reason = "a pace is kept by a clock")]
        let now = Instant::now();
        let (begun, first) = *self.begun.get_or_insert((now, time));
        let after = std::time::Duration::from_nanos(time.since(first)).as_secs_f64() / self.speed;
        let due = std::time::Duration::try_from_secs_f64(after)
            .ok()
            .and_then(|after| begun.checked_add(after));
        if let Some(due) = due {
            sleep_until(due).await;
        }
    }
}
