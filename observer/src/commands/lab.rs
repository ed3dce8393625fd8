//! `observer lab`: one run, or a matrix of them.

mod command;
mod matrix;
mod run;
mod summary;
mod work;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::outfile::OutFile;
use super::{Failure, live, output, record, report};
use crate::cli::{Common, LabArgs, LabCommand, LabRunArgs, ReportArgs, ReportFormat};
use crate::lab::LabError;
use crate::lab::emulator::truth;
use record::Telling;

pub async fn run(common: &Common, args: &LabArgs) -> Result<(), Failure> {
    if common.netns.is_some() || common.dev.is_some() || common.script.is_some() {
        return Err(Failure::Usage(
            "a lab has its own namespaces, devices and flows: leave -N, --dev and --script out"
                .to_owned(),
        ));
    }
    match &args.command {
        LabCommand::Run(args) => Box::pin(one(common, args)).await,
        LabCommand::Matrix(args) => Box::pin(matrix::run(common, args)).await,
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Unsupported(text) => Self::Unsupported(text),
            error @ LabError::NotHeld(_) => Self::NotHeld(error.to_string()),
            other => Self::Failed(other.into()),
        }
    }
}

/// What would end the process with its namespaces still there.
struct Ends {
    stops: record::Stops,
    hangup: Signal,
}

impl Ends {
    /// From here on these signals end nothing by themselves.
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            stops: record::Stops::new()?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Whether one came meanwhile.
    async fn check(&mut self) -> Result<(), Failure> {
        // Those that came are told at the next turn of the runtime.
        tokio::task::yield_now().await;
        tokio::select! {
            biased;
            _ = self.stops.next() => Err(Failure::Interrupted),
            _ = self.hangup.recv() => Err(Failure::Interrupted),
            () = tokio::time::sleep(std::time::Duration::from_millis(1)) => Ok(()),
        }
    }
}

/// A run, the truth of it, and the report of what was recorded.
async fn one(common: &Common, args: &LabRunArgs) -> Result<(), Failure> {
    if args.watch && !crate::tui::is_terminal() {
        return Err(Failure::Usage(
            "--watch needs a terminal: without it the run says what it is doing".to_owned(),
        ));
    }
    let program = match args.command.first() {
        Some(program) => Some(record::child::find(program)?),
        None => None,
    };
    let mut truth_out = match &args.truth {
        Some(file) => Some(OutFile::create(Some(file), args.force)?),
        None => None,
    };
    let mut ends = Ends::new()?;
    let telling = if args.watch {
        Telling::Dashboard(Box::new(live::settings(common)?))
    } else {
        Telling::Line
    };
    let done = Box::pin(run::carry_out(
        common,
        args,
        &mut ends,
        program,
        telling,
        &mut output::message,
    ))
    .await?;
    if let (Some(out), Some(losses)) = (&mut truth_out, &done.losses) {
        truth::write(out, losses)?;
    }
    if let Some(out) = truth_out {
        out.finish()?;
    }
    for text in summary::truth(&done.path, &done.counts, done.received) {
        output::message(&text);
    }
    for text in summary::remarks(&done.path, &done.counts) {
        output::message(&format!("observer: {text}"));
    }
    report(common, args, &done).await?;
    match done.status {
        0 if common.strict && done.lost > 0 => Err(Failure::Lost(done.lost)),
        0 => Ok(()),
        code => Err(Failure::Exit(code)),
    }
}

async fn report(common: &Common, args: &LabRunArgs, done: &run::Done) -> Result<(), Failure> {
    let report_args = ReportArgs {
        files: vec![done.recording.clone()],
        format: ReportFormat::Text,
        omit: args.omit,
        filter: None,
        output: None,
        force: false,
    };
    report::run(common, &report_args).await
}
