//! One file per subcommand: glue between the command line, a source, the model and an output.

mod choose;
mod compare;
mod confine;
mod doctor;
mod ends;
mod export;
mod generated;
mod import;
mod lab;
mod lines;
mod list;
mod live;
mod outfile;
mod output;
mod record;
mod replay;
mod report;
mod serve;
mod stream;
mod table;
mod verbose;

use std::process::ExitCode;

use crate::cli::{Cli, Command, FilterArgs};
use crate::kernel::load::LoadError;
use crate::kernel::rights::RightsError;

/// How a command ended other than well.
#[derive(Debug)]
pub enum Failure {
    /// Exit code 2: the message says what to write instead.
    Usage(String),
    /// Exit code 3: not permitted or not supported here; the message says what to do.
    Unsupported(String),
    /// Exit code 3: a lab's path that this machine cannot make now; another time it may.
    NotHeld(String),
    /// Exit code 1.
    Failed(anyhow::Error),
    /// Exit code 4, with `--strict`: finished, but events were lost.
    Lost(u64),
    /// Exit code 5: what `--fail-if` asks is so.
    FailedIf(String),
    /// Exit code 130: interrupted where that is not the normal end.
    Interrupted,
    /// Exit code 4, with `--strict`: a recording is not whole.
    Incomplete,
    /// The status of a command that was run; everything is said.
    Exit(u8),
    /// The reader of our output is gone: end quietly.
    BrokenPipe,
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Self::Unsupported(error.to_string())
    }
}

impl From<RightsError> for Failure {
    fn from(error: RightsError) -> Self {
        Self::Unsupported(error.to_string())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Self::BrokenPipe
        } else {
            Self::Failed(anyhow::Error::new(error).context("cannot write the output"))
        }
    }
}

impl Failure {
    fn report(self) -> ExitCode {
        let (code, text) = match self {
            Self::Usage(text) => (2, text),
            Self::Unsupported(text) | Self::NotHeld(text) => (3, text),
            Self::Failed(error) => (1, format!("{error:#}")),
            Self::Lost(events) => (4, format!("{events} events were lost (--strict)")),
            Self::Incomplete => (4, "the recording is not whole (--strict)".to_owned()),
            Self::FailedIf(text) => (5, text),
            Self::Exit(code) => return ExitCode::from(code),
            Self::Interrupted => return ExitCode::from(130),
            Self::BrokenPipe => return ExitCode::SUCCESS,
        };
        output::message(&format!("observer: {text}"));
        ExitCode::from(code)
    }
}

/// Whether standard output is where the command's data go.
fn tells(command: Option<&Command>) -> bool {
    let output = match command {
        None
        | Some(
            Command::Live(_)
            | Command::Record(_)
            | Command::Replay(_)
            | Command::Serve(_)
            | Command::Import(_),
        ) => return false,
        Some(
            Command::List(_)
            | Command::Stream(_)
            | Command::Doctor(_)
            | Command::Completions(_)
            | Command::Lab(_),
        ) => return true,
        Some(Command::Report(args)) => &args.output,
        Some(Command::Compare(args)) => &args.output,
        Some(Command::Export(args)) => &args.output,
        Some(Command::Man(args)) => &args.output,
    };
    output.is_none()
}

/// Runs what the command line asks for.
pub fn run(cli: Cli) -> ExitCode {
    if let Err(error) = confine::at_start(&cli) {
        return Failure::from(error).report();
    }
    if output::is_closed() && tells(cli.command.as_ref()) {
        let text = "standard output is closed: there is nowhere to write to";
        return Failure::Failed(anyhow::anyhow!(text)).report();
    }
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            let error = anyhow::Error::new(error);
            return Failure::Failed(error.context("cannot begin to wait for events")).report();
        }
    };
    let common = cli.common;
    let dashboard = matches!(cli.command, None | Some(Command::Live(_)));
    if common.screen.is_some() && !dashboard && !matches!(cli.command, Some(Command::Replay(_))) {
        let text = "--screen draws the dashboard: leave the subcommand out";
        return Failure::Usage(text.to_owned()).report();
    }
    if common.anonymize && !dashboard && !matches!(cli.command, Some(Command::Record(_))) {
        let text = "--anonymize is of recordings: 'observer record', and the dashboard's key R";
        return Failure::Usage(text.to_owned()).report();
    }
    if common.at.is_some()
        && common.script.is_none()
        && !matches!(cli.command, Some(Command::Replay(_)))
    {
        let text = "--at is a time of a recording: 'observer replay FILE --at TIME'";
        return Failure::Usage(text.to_owned()).report();
    }
    let result = runtime.block_on(async {
        match cli.command {
            None => live::run(&common, &FilterArgs { filter: cli.filter }).await,
            Some(Command::Live(args)) => live::run(&common, &args).await,
            Some(Command::List(args)) => list::run(&common, &args).await,
            Some(Command::Stream(args)) => stream::run(&common, &args).await,
            Some(Command::Record(args)) => record::run(&common, &args).await,
            Some(Command::Replay(args)) => replay::run(&common, &args).await,
            Some(Command::Compare(args)) => compare::run(&common, &args).await,
            Some(Command::Report(args)) => report::run(&common, &args).await,
            Some(Command::Export(args)) => export::run(&common, &args).await,
            Some(Command::Import(args)) => import::run(&common, &args),
            Some(Command::Lab(args)) => lab::run(&common, &args).await,
            Some(Command::Doctor(args)) => doctor::run(&common, &args).await,
            Some(Command::Serve(args)) => serve::run(&common, &args).await,
            Some(Command::Completions(args)) => generated::completions(&args),
            Some(Command::Man(args)) => generated::man(&args),
        }
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
