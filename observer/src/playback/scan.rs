//! One look through a whole recording in the background: the models to seek from, the moments to jump to, how it ends.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::judgements::Judgements;
use super::keyframes::{Keyframe, Keyframes};
use crate::model::{Fold, Judgement, Marks, Model};

use crate::record::{Ending, ReadError, Reader};
use crate::units::Mono;

/// The journal is asked for marks after so many events at most, before it forgets any.
const ASK_EVERY: usize = 256;

/// What was found so far.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub keyframes: Keyframes,
    pub marks: Marks,
    /// In the order of time.
    pub judgements: Judgements,
    /// Up to here.
    pub until: Mono,
    /// Bytes looked through, of how many.
    pub progress: (u64, u64),
    /// Once it is done: how the file ended, or why it could not be read to its end.
    pub ending: Option<Result<Ending, String>>,
}

/// The look, and what it found; it ends with this.
#[derive(Debug)]
pub struct Scan {
    found: Arc<Mutex<Found>>,
    unwanted: Arc<AtomicBool>,
}

impl Scan {
    /// Begins to look through the file at `path`, on a thread of its own.
    pub fn start(path: &Path, keyframes: Keyframes) -> Result<Self, ReadError> {
        let mut reader = Reader::open(path)?;
        let found = Found {
            keyframes,
            ..Found::default()
        };
        let scan = Self {
            found: Arc::new(Mutex::new(found)),
            unwanted: Arc::default(),
        };
        let (found, unwanted) = (Arc::clone(&scan.found), Arc::clone(&scan.unwanted));
        thread::Builder::new()
            .name("scan".to_owned())
            .spawn(move || {
                let ending = look(&mut reader, &found, &unwanted);
                lock(&found).ending = Some(ending.map_err(|error| error.to_string()));
            })?;
        Ok(scan)
    }

    /// What was found so far.
    pub fn found(&self) -> MutexGuard<'_, Found> {
        lock(&self.found)
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.unwanted.store(true, Ordering::Relaxed);
    }
}

/// A look that panicked has left what it found before.
fn lock(found: &Mutex<Found>) -> MutexGuard<'_, Found> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a part of the file came to.
fn take(found: &mut Found, model: &Model, judged: Vec<Arc<Judgement>>) {
    found.marks.follow(model);
    for judgement in judged {
        found.judgements.push(judgement);
    }
}

fn look<R: std::io::Read + std::io::Seek>(
    reader: &mut Reader<R>,
    found: &Mutex<Found>,
    unwanted: &AtomicBool,
) -> Result<Ending, ReadError> {
    let mut fold = Fold::default();
    let mut events = 0_u64;
    while let Some(batch) = reader.batch()? {
        for part in batch.chunks(ASK_EVERY) {
            let mut judged = Vec::new();
            for event in part {
                judged.extend(fold.apply(event));
            }
            take(&mut lock(found), fold.model(), judged);
        }
        drop(fold.model_mut().take_derived());
        events += batch.len() as u64;
        let progress = reader.progress();
        let (wants, judged) = {
            let mut found = lock(found);
            found.until = fold.model().now();
            found.progress = progress;
            (found.keyframes.wants(events), found.judgements.len())
        };
        if wants {
            // Cloned while nobody waits for it.
            let frame = Keyframe::new(fold.model(), progress.0, events, judged);
            lock(found).keyframes.put(frame);
        }
        if unwanted.load(Ordering::Relaxed) {
            return Ok(reader.ending().cloned().unwrap_or_default());
        }
    }
    Ok(reader.ending().cloned().unwrap_or_default())
}
