//! `observer record`: what happens into a file, until it is told to end, or a command has ended.

pub mod by_key;
pub(super) mod child;
mod gate;
mod present;
mod progress;
mod sink;
mod whilst;

use std::path::Path;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Failure, choose, confine, output};
use crate::cli::{Common, RecordArgs};
use crate::event::Event;
use crate::host::tree::Tree;
use crate::kernel::confine::place_of;
use crate::model::Model;
use crate::record::{Environment, FileError, Files, Target};
use crate::source::{Info, Source};
use crate::units::Mono;
use child::{Child, Ended};
use progress::Progress;
use sink::Sink;
pub(super) use whilst::{Telling, whilst};

/// Runs until `-t`, Ctrl-C, SIGTERM, or the end of the command.
pub async fn run(common: &Common, args: &RecordArgs) -> Result<(), Failure> {
    let choice = choose::Choice::new(common, &args.filter.filter)?;
    let program = match args.command.first() {
        Some(program) => Some(child::find(program)?),
        None => None,
    };
    let mut target = target(common, args);
    Files::check(&target)?;
    let mut source = choose::source(common, &choice, true)?;
    describe(&mut target.environment, source.info());
    let mut recording = Recording::new(args, choice, target, source.stopper())?;
    // The file is open; only one that follows it has to be made.
    let further = args.max_size.map(|_| place_of(&args.output));
    if program.is_none() {
        confine::while_observing(common, further.as_deref())?;
    }
    let mut stops = Stops::new()?;
    let mut child = None;
    let mut status = None;
    let result = loop {
        let batch = tokio::select! {
            batch = source.next() => batch.map_err(|error| Failure::Failed(error.into()))?,
            end = ended(&mut child), if child.is_some() && status.is_none() => {
                status = Some(end);
                recording.stop();
                continue;
            }
            by_hand = stops.next() => {
                recording.told_to_stop(child.as_ref().filter(|_| status.is_none()), by_hand);
                continue;
            }
        };
        let Some(batch) = batch else { break Ok(()) };
        if let Err(error) = recording.batch(&batch) {
            break Err(error);
        }
        // The hooks are on and what there was before is known: now it may begin.
        if let (Some(program), None) = (&program, &child) {
            child = Some(Child::start(program, &args.command[1..])?);
            confine::while_observing(common, further.as_deref())?;
        }
    };
    recording.stop();
    drop(source);
    match (result, child.filter(|_| status.is_none())) {
        (Ok(()), child) => recording.finish(common.strict, child, status).await,
        (Err(Failure::Failed(error)), Some(child)) => {
            recording.progress.clear();
            Err(outlived(&error, child, &mut stops).await)
        }
        (Err(failure), _) => Err(failure),
    }
}

/// The recording is over before its command, by a full disk: the command is the user's and goes on to its end. Its status
/// tells of the command, or of the recording where the command has nothing to tell.
async fn outlived(error: &anyhow::Error, mut child: Child, stops: &mut Stops) -> Failure {
    output::message(&format!(
        "observer: {error:#}; the command goes on and is no longer recorded"
    ));
    loop {
        tokio::select! {
            end = child.ended() => match end.code() {
                0 => return Failure::Exit(1),
                code => return Failure::Exit(code),
            },
            by = stops.next() => if by == By::Terminate {
                child.terminate();
            },
        }
    }
}

/// When the command is over; never, where there is none.
async fn ended(child: &mut Option<Child>) -> Ended {
    match child {
        Some(child) => child.ended().await,
        None => std::future::pending().await,
    }
}

/// Ctrl-C and SIGTERM, which end nothing by themselves from here on.
pub(super) struct Stops {
    interrupt: Signal,
    terminate: Signal,
}

/// What told us to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// Ctrl-C: the command has got it too.
    Keyboard,
    Terminate,
}

impl Stops {
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    pub(super) async fn next(&mut self) -> By {
        tokio::select! {
            _ = self.interrupt.recv() => By::Keyboard,
            _ = self.terminate.recv() => By::Terminate,
        }
    }
}

fn target(common: &Common, args: &RecordArgs) -> Target {
    let told = |words: &[String]| (!words.is_empty()).then(|| words.join(" "));
    let command: Vec<String> = args
        .command
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    // Both may name hosts.
    let (filter, command) = if common.anonymize {
        (None, None)
    } else {
        (told(&args.filter.filter), told(&command))
    };
    Target {
        path: args.output.clone(),
        dir: None,
        force: args.force,
        owner: owner(|name| std::env::var(name).ok()),
        max_size: args.max_size,
        environment: Environment {
            filter,
            command,
            labels: args.labels.iter().cloned().collect(),
            ..environment(common)
        },
    }
}

/// What the flags say of a recording.
fn environment(common: &Common) -> Environment {
    Environment {
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        interval_ns: u64::try_from(common.interval.as_nanos()).ok(),
        anonymized: common.anonymize,
        ..Environment::default()
    }
}

/// The user that called `sudo`: the recording shall be theirs.
pub(super) fn owner(variable: impl Fn(&str) -> Option<String>) -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let id = |name: &str| variable(name)?.parse().ok();
    Some((id("SUDO_UID")?, id("SUDO_GID")?))
}

fn describe(environment: &mut Environment, info: &Info) {
    environment.source.clone_from(&info.name);
    environment.wall_offset_ns = info.wall_offset_ns;
}

/// Takes events in and writes those that are asked for.
struct Recording {
    model: Model,
    sink: Sink,
    progress: Progress,
    stopper: choose::Stopper,
    stopping: bool,
    end_after: Option<Duration>,
    begun: Option<Mono>,
    elsewhere_told: bool,
    degraded_told: usize,
    of_command: bool,
}

impl Recording {
    fn new(
        args: &RecordArgs,
        choice: choose::Choice,
        target: Target,
        stopper: choose::Stopper,
    ) -> Result<Self, Failure> {
        let of_command = !args.command.is_empty();
        let tree = if of_command {
            crate::host::tree::adopt()?;
            Some(Tree::new(Path::new("/proc"), std::process::id()))
        } else {
            None
        };
        Ok(Self {
            model: Model::without_past(),
            progress: Progress::new(&target.path, !of_command),
            sink: Sink::new(choice, tree, target)?,
            stopper,
            stopping: false,
            end_after: args.time.or(args.max_time),
            begun: None,
            elsewhere_told: false,
            degraded_told: 0,
            of_command,
        })
    }

    fn batch(&mut self, batch: &[Event]) -> Result<(), Failure> {
        self.sink.look();
        for event in batch {
            self.model.apply(event);
            // Nobody takes them; they would pile up.
            self.model.take_derived();
            self.sink.take(&self.model, event)?;
        }
        let now = self.model.now();
        let begun = *self.begun.get_or_insert(now);
        let span = Duration::from_nanos(now.since(begun));
        if self.model.degraded().len() > self.degraded_told {
            self.progress.clear();
            self.degraded_told = output::degraded(&self.model, self.degraded_told);
        }
        if !self.elsewhere_told && !self.of_command && self.model.elsewhere().is_some() {
            self.elsewhere_told = true;
            self.progress.clear();
            output::elsewhere(self.model.elsewhere());
        }
        self.progress
            .show(span, &self.sink.totals(), self.model.lost());
        if self.end_after.is_some_and(|after| span >= after) {
            self.stop();
        }
        Ok(())
    }

    /// Ends the source after a last look at all flows.
    fn stop(&mut self) {
        if !self.stopping {
            self.stopping = true;
            self.stopper.stop(true);
        }
    }

    /// Somebody wants an end: the command's, where it runs still, which is the recording's then.
    fn told_to_stop(&mut self, child: Option<&Child>, by: By) {
        let Some(child) = child else {
            self.stop();
            return;
        };
        if by == By::Terminate {
            child.terminate();
        }
    }

    /// Ends the files, and says what is in them.
    fn close(mut self) -> Result<Model, Failure> {
        let now = self.model.now();
        let span = Duration::from_nanos(now.since(self.begun.unwrap_or(now)));
        self.progress.clear();
        let left_out = self.sink.left_out();
        let totals = self.sink.finish()?;
        self.progress.summary(span, &totals, self.model.lost());
        if let Some(text) = left_out {
            output::message(&format!("observer: {text}"));
        }
        Ok(self.model)
    }

    async fn finish(
        self,
        strict: bool,
        child: Option<Child>,
        status: Option<Ended>,
    ) -> Result<(), Failure> {
        let lost = self.close()?.lost();
        let status = match (status, child) {
            (Some(ended), _) => ended.code(),
            // `-t` came first: the recording is closed, the command goes on.
            (None, Some(mut child)) => child.ended().await.code(),
            (None, None) => 0,
        };
        match status {
            0 if strict && lost > 0 => Err(Failure::Lost(lost)),
            0 => Ok(()),
            code => Err(Failure::Exit(code)),
        }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::Failed(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn under_sudo_the_file_is_the_callers() {
        let variable = |name: &str| match name {
            "SUDO_UID" => Some("1000".to_owned()),
            "SUDO_GID" => Some("100".to_owned()),
            _ => None,
        };
        let root = rustix::process::geteuid().is_root();
        assert_eq!(owner(variable), root.then_some((1000, 100)));
        assert_eq!(owner(|_| None), None);
        assert_eq!(owner(|_| Some("x".to_owned())), None);
    }
}
