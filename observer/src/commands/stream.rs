//! `observer stream`: events, or flow objects at intervals, as JSON Lines.

use std::io::Write;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::ends::Ends;
use super::{Failure, choose, confine, lines, output};
use crate::cli::{Common, StreamArgs};
use crate::event::Event;
use crate::export::jsonl;
use crate::model::Fold;
use crate::source::{Info, Source};
use crate::units::Mono;

/// Runs until `-t`, Ctrl-C or SIGTERM (both exit 0), or until nobody reads.
pub async fn run(common: &Common, args: &StreamArgs) -> Result<(), Failure> {
    let choice = choose::Choice::new(common, &args.filter.filter)?;
    let mut source = choose::source(common, &choice, true)?;
    confine::while_observing(common, None)?;
    let stopper = source.stopper();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut writer = Writer::new(source.info(), common, args, choice, stopper.clone());
    writer.context.names = Ends::new(common).namer();
    loop {
        let batch = tokio::select! {
            batch = source.next() => batch.map_err(|error| Failure::Failed(error.into()))?,
            _ = interrupt.recv() => { stopper.stop(false); continue; }
            _ = terminate.recv() => { stopper.stop(false); continue; }
        };
        let Some(batch) = batch else { break };
        if writer.batch(&batch)? {
            stopper.stop(false);
        }
    }
    writer.finish()?;
    let lost = writer.fold.model().lost();
    if common.strict && lost > 0 {
        return Err(Failure::Lost(lost));
    }
    Ok(())
}

/// How long before an interval ends all flows are looked at.
const LOOK_AHEAD_NS: u64 = 60_000_000;

/// After so long the owners of flows that were there at the start are known, if they ever will be.
const SETTLED_NS: u64 = 1_500_000_000;

/// Folds what comes and writes what is asked for.
struct Writer {
    fold: Fold,
    context: jsonl::Context,
    choice: choose::Choice,
    stopper: choose::Stopper,
    /// All flows were asked for, so that the next rows are fresh.
    looked: bool,
    out: std::io::BufWriter<std::io::StdoutLock<'static>>,
    every_ns: Option<u64>,
    next: Option<Mono>,
    end_after_ns: Option<u64>,
    started: Option<Mono>,
    /// That there are flows elsewhere.
    told: bool,
    /// What is left out was told, if anything.
    told_left_out: bool,
    /// How many limitations were told on stderr.
    limitations: usize,
}

impl Writer {
    fn new(
        info: &Info,
        common: &Common,
        args: &StreamArgs,
        choice: choose::Choice,
        stopper: choose::Stopper,
    ) -> Self {
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let every_ns = args.every.map(ns);
        Self {
            fold: every_ns
                .map_or_else(Fold::default, Fold::with_window)
                .of_path(common.path_rate),
            context: jsonl::Context {
                wall_offset_ns: info.wall_offset_ns,
                ..jsonl::Context::default()
            },
            choice,
            stopper,
            looked: false,
            out: output::stdout(),
            every_ns,
            next: None,
            end_after_ns: args.time.map(ns),
            started: None,
            told: false,
            told_left_out: false,
            limitations: 0,
        }
    }

    /// Takes a batch; true when the time is up.
    fn batch(&mut self, batch: &[Event]) -> Result<bool, Failure> {
        for event in batch {
            self.fold.apply(event);
            if self.every_ns.is_none() {
                self.event(event)?;
            }
        }
        // Whole batches: what was read at one moment is shown together.
        self.at_intervals()?;
        self.out.flush()?;
        if !self.told && self.fold.model().elsewhere().is_some() {
            self.told = true;
            output::elsewhere(self.fold.model().elsewhere());
        }
        self.limitations = output::degraded(self.fold.model(), self.limitations);
        let started = *self.started.get_or_insert(self.fold.model().now());
        if !self.told_left_out && self.fold.model().now().since(started) >= SETTLED_NS {
            self.told_left_out = true;
            if let Some(text) = self.choice.left_out(self.fold.model()) {
                output::message(&format!("observer: {text}"));
            }
        }
        Ok(self
            .end_after_ns
            .is_some_and(|after| self.fold.model().now().since(started) >= after))
    }

    fn event(&mut self, event: &Event) -> Result<(), Failure> {
        let Self {
            fold,
            choice,
            context,
            out,
            ..
        } = self;
        Ok(lines::write(out, event, fold.model_mut(), choice, context)?)
    }

    /// One object per flow whenever an interval of event time has passed; also of flows that ended within it.
    fn at_intervals(&mut self) -> Result<(), Failure> {
        let Some(every) = self.every_ns else {
            return Ok(());
        };
        let now = self.fold.model().now();
        let next = *self.next.get_or_insert(now.plus(every));
        if !self.looked && now.plus(LOOK_AHEAD_NS.min(every / 2)) >= next {
            self.looked = true;
            self.stopper.look();
        }
        if now < next {
            return Ok(());
        }
        self.looked = false;
        self.next = Some(next.plus(every).max(now));
        self.rows(now.0.saturating_sub(every))
    }

    /// A row of every flow asked for that is open, or ended after `since_ns`.
    fn rows(&mut self, since_ns: u64) -> Result<(), Failure> {
        let model = self.fold.model();
        for flow in model.flows() {
            let shown = match flow.closed_at() {
                None => self.choice.shows(model, flow),
                Some(at) => at.0 > since_ns && self.choice.shows_event(model, flow),
            };
            if shown {
                let line = jsonl::flow_object(model, flow, &self.context);
                output::json(&mut self.out, &line)?;
            }
        }
        Ok(())
    }

    /// What is judged at the end is told too.
    fn finish(&mut self) -> Result<(), Failure> {
        self.fold.finish();
        if self.every_ns.is_none() {
            let Self {
                fold,
                choice,
                context,
                out,
                ..
            } = self;
            lines::derived(fold.model_mut(), choice, context, &mut |line| {
                output::json(out, line)
            })?;
        }
        self.out.flush()?;
        Ok(())
    }
}
