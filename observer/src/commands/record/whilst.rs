//! Recording while something else is done, with or without the dashboard over it.

use std::pin::Pin;

use super::{Recording, Stops, describe, target};
use crate::cli::{Common, RecordArgs};
use crate::commands::{Failure, choose, live};
use crate::event::Event;
use crate::model::{Fold, Model};
use crate::record::Files;
use crate::source::{Info, Source, SourceError};
use crate::tui::{self, config::Config};

/// What is told while it is recorded.
pub enum Telling {
    /// A line on a terminal, and a summary.
    Line,
    /// The line only: somebody else sums up.
    Quiet,
    /// The dashboard, by these settings.
    Dashboard(Box<Config>),
}

/// Records while `work` runs: it begins when the hooks are on and ends the recording when it is over, after a last look
/// at all flows; Ctrl-C and SIGTERM end both, also where they came before this was called, and so does who leaves the dashboard.
/// What was seen, and what the work came to; the file is whole in any case.
pub async fn whilst<W, T>(
    common: &Common,
    args: &RecordArgs,
    stops: &mut Stops,
    telling: Telling,
    work: impl FnOnce() -> W,
) -> Result<(Model, T), Failure>
where
    W: Future<Output = Result<T, Failure>>,
{
    let choice = choose::Choice::new(common, &args.filter.filter)?;
    let mut target = target(common, args);
    Files::check(&target)?;
    let source = choose::source(common, &choice, true)?;
    describe(&mut target.environment, source.info());
    let shown = choice.narrowed(None);
    let mut recording = Recording::new(args, choice, target, source.stopper())?;
    // There is one namespace here, of ours.
    recording.elsewhere_told = true;
    let options = match telling {
        Telling::Line => None,
        Telling::Quiet => {
            recording.progress.sum_up(false);
            None
        }
        Telling::Dashboard(config) => {
            recording.progress.hide();
            // The screen tells what does not work here.
            recording.degraded_told = usize::MAX;
            let stopper = source.stopper();
            Some(tui::Options {
                view: live::view(common, &config),
                refresh: config.refresh(),
                focus: Box::new(move |flows| stopper.focus(flows)),
                shows: Box::new(move |model, flow| shown.shows_live(model, flow)),
            })
        }
    };
    let mut both = Both {
        source,
        recording,
        stops,
        work: Box::pin(async { work().await }),
        begun: false,
        came_to: None,
        failed: None,
    };
    let mut seen = Ok(());
    if let Some(options) = &options {
        let fold = Fold::default().of_path(common.path_rate);
        seen = tui::run(&mut both, fold, options, None)
            .await
            .map(|_| ())
            .map_err(|error| Failure::Failed(error.into()));
        // Left before its end.
        both.end(Failure::Interrupted);
    }
    while seen.is_ok() {
        match both.next().await {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) => seen = Err(Failure::Failed(error.into())),
        }
    }
    let Both {
        source,
        mut recording,
        work,
        came_to,
        failed,
        ..
    } = both;
    drop(work);
    recording.stop();
    drop(source);
    seen?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    let model = recording.close()?;
    let came_to = came_to.unwrap_or(Err(Failure::Interrupted))?;
    Ok((model, came_to))
}

/// The source, whose events are recorded as they pass, and the work.
struct Both<'a, W, T> {
    source: choose::Observed,
    recording: Recording,
    stops: &'a mut Stops,
    work: Pin<Box<W>>,
    begun: bool,
    came_to: Option<Result<T, Failure>>,
    /// Why it cannot be recorded.
    failed: Option<Failure>,
}

impl<W, T> Both<'_, W, T> {
    /// Ends it where it has not ended.
    fn end(&mut self, why: Failure) {
        self.came_to.get_or_insert(Err(why));
        self.recording.stop();
    }
}

impl<W: Future<Output = Result<T, Failure>>, T> Source for Both<'_, W, T> {
    fn info(&self) -> &Info {
        self.source.info()
    }

    async fn next(&mut self) -> Result<Option<Vec<Event>>, SourceError> {
        loop {
            let batch = tokio::select! {
                batch = self.source.next() => batch?,
                result = &mut self.work, if self.begun && self.came_to.is_none() => {
                    self.came_to = Some(result);
                    self.recording.stop();
                    continue;
                }
                _ = self.stops.next() => {
                    self.end(Failure::Interrupted);
                    continue;
                }
            };
            let Some(batch) = batch else { return Ok(None) };
            if let Err(failure) = self.recording.batch(&batch) {
                self.failed = Some(failure);
                return Ok(None);
            }
            self.begun = true;
            return Ok(Some(batch));
        }
    }
}
