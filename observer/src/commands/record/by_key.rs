//! Recordings begun and ended by a key of the dashboard: what is shown, from here on, as `record` would write it.

use std::fmt::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use super::progress::figures;
use super::sink::Sink;
use super::{describe, environment, owner, present};
use crate::cli::Common;
use crate::commands::Failure;
use crate::commands::choose::{Choice, Stopper};
use crate::event::{Counters, Event, Payload};
use crate::filter::Filter;
use crate::model::Model;
use crate::record::{FileError, Target};
use crate::source::Info;
use crate::tui::{Notice, Recorder, Told};
use crate::units::{Mono, escape, size};

/// What became of a recording is told so long; what went wrong until the key is pressed again.
const TELL_NS: u64 = 15_000_000_000;
/// So long after it was told to end, a recording has taken in a last look at all flows.
const LAST_LOOK_NS: u64 = 300_000_000;
/// Recordings of one second.
const MAX_SAME_NAME: u32 = 99;

/// Begins and ends recordings.
pub struct ByKey {
    dir: Result<Arc<OwnedFd>, String>,
    choice: Choice,
    /// Of each recording, but for name and filter.
    target: Target,
    stopper: Stopper,
    running: Option<Running>,
    last: Option<(Mono, Notice)>,
}

struct Running {
    sink: Sink,
    path: PathBuf,
    begun: Mono,
    /// Losses before are not this recording's.
    lost_before: u64,
    counters_before: Option<Counters>,
    /// It was told to end then, and takes a last look at all flows.
    ending: Option<Mono>,
}

impl ByKey {
    /// Opens the directory; one that was named must be there.
    pub fn new(
        common: &Common,
        choice: Choice,
        info: &Info,
        stopper: Stopper,
    ) -> Result<Self, Failure> {
        let path = common.record_dir.as_deref();
        let dir = open(path.unwrap_or(Path::new(".")));
        if let (Some(_), Err(why)) = (path, &dir) {
            return Err(Failure::Usage(why.clone()));
        }
        let mut environment = environment(common);
        describe(&mut environment, info);
        Ok(Self {
            dir,
            choice,
            target: Target {
                path: path.unwrap_or(Path::new("")).to_owned(),
                dir: None,
                force: false,
                owner: owner(|name| std::env::var(name).ok()),
                max_size: None,
                environment,
            },
            stopper,
            running: None,
            last: None,
        })
    }

    fn begin(&self, model: &Model, typed: Option<&Filter>) -> Result<Running, String> {
        let dir = self.dir.clone()?;
        let mut target = self.target.clone();
        target.dir = Some(dir);
        let choice = self.choice.narrowed(typed);
        // It may name hosts.
        target.environment.filter = choice.text().filter(|_| !target.environment.anonymized);
        let stem = stem(model.now(), target.environment.wall_offset_ns);
        let mut same = 1;
        let (mut sink, path) = loop {
            let suffix = if same > 1 {
                format!("-{same}")
            } else {
                String::new()
            };
            target.path = self.target.path.join(format!("{stem}{suffix}.mcap"));
            match Sink::new(choice.narrowed(None), None, target.clone()) {
                Ok(sink) => break (sink, target.path),
                Err(FileError::Exists(_)) if same < MAX_SAME_NAME => same += 1,
                Err(error) => return Err(error.to_string()),
            }
        };
        let counters_before = model.counters().cloned();
        for event in present::events(model, counters_before.as_ref()) {
            let done = sink.take(model, &event);
            done.map_err(|error| error.to_string())?;
        }
        // The flows' figures as they are now.
        self.stopper.look();
        Ok(Running {
            sink,
            path,
            begun: model.now(),
            lost_before: model.lost(),
            counters_before,
            ending: None,
        })
    }

    /// Ends the recording that runs after a last look at all flows; at once, where there is none to take, or when it is
    /// told so again.
    fn end(&mut self, model: &Model) {
        if let Some(running) = &mut self.running
            && running.ending.is_none()
            && self.stopper.looks()
        {
            running.ending = Some(model.now());
            self.stopper.look();
        } else if let Some(said) = self.finish(model) {
            self.say(model.now(), said);
        }
    }

    /// Ends the recording that runs, if one does; what there is to say of it.
    pub fn finish(&mut self, model: &Model) -> Option<Result<String, String>> {
        let running = self.running.take()?;
        let left_out = running.sink.left_out();
        let span = Duration::from_nanos(model.now().since(running.begun));
        let lost = model.lost().saturating_sub(running.lost_before);
        let done = running.sink.finish().map_err(|error| error.to_string());
        Some(done.map(|totals| {
            let path = escape(&running.path.to_string_lossy());
            let mut text = format!("recorded {path}: {}", figures(span, &totals, lost));
            if let Some(left_out) = left_out {
                let _ = write!(text, "; {left_out}");
            }
            text
        }))
    }

    fn say(&mut self, now: Mono, said: Result<String, String>) {
        let alarm = said.is_err();
        let text = said.unwrap_or_else(|why| why);
        self.last = Some((now, Notice { text, alarm }));
    }
}

impl Recorder for ByKey {
    fn toggle(&mut self, model: &Model, typed: Option<&Filter>) {
        self.last = None;
        if self.running.is_some() {
            self.end(model);
            return;
        }
        match self.begin(model, typed) {
            Ok(running) => self.running = Some(running),
            Err(why) => self.say(model.now(), Err(why)),
        }
    }

    fn take(&mut self, model: &Model, event: &Event) {
        let Some(running) = &mut self.running else {
            return;
        };
        let done = match &event.payload {
            Payload::Counters(counters) => {
                let counted = present::since(counters, running.counters_before.as_ref());
                let payload = Payload::Counters(Box::new(counted));
                running.sink.take(model, &Event { payload, ..*event })
            }
            _ => running.sink.take(model, event),
        };
        if let Err(error) = done {
            self.running = None;
            self.say(model.now(), Err(error.to_string()));
            return;
        }
        let looked = |since| event.time.since(since) >= LAST_LOOK_NS;
        if running.ending.is_some_and(looked) {
            self.end(model);
        }
    }

    fn told(&self, now: Mono) -> Told {
        let running = self.running.as_ref().map(|running| {
            let seconds = now.since(running.begun) / 1_000_000_000;
            let (totals, _) = running.sink.totals();
            format!("REC {seconds} s {}", size(totals.bytes))
        });
        let last = self.last.as_ref();
        let last = last.filter(|(at, notice)| notice.alarm || now.since(*at) < TELL_NS);
        Told {
            running,
            notice: last.map(|(_, notice)| notice.clone()),
        }
    }
}

/// A directory, for later.
fn open(path: &Path) -> Result<Arc<OwnedFd>, String> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(path, flags, Mode::empty());
    let why = |error| format!("--record-dir {}: {error}", escape(&path.to_string_lossy()));
    dir.map(Arc::new).map_err(why)
}

/// `observer-20261201-131502`, by the clock on the wall here; where that is not known by the seconds of the events.
fn stem(now: Mono, wall_offset_ns: Option<i64>) -> String {
    let wall = wall_offset_ns.and_then(|offset| {
        let ns = i128::from(now.0) + i128::from(offset);
        jiff::Timestamp::from_nanosecond(ns).ok()
    });
    match wall {
        Some(wall) => {
            let here = wall.to_zoned(jiff::tz::TimeZone::system());
            here.strftime("observer-%Y%m%d-%H%M%S").to_string()
        }
        None => format!("observer-{}s", now.0 / 1_000_000_000),
    }
}
