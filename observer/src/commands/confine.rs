//! Which rights each command keeps, and where it may still write: `SECURITY.md` in code.

use std::path::{Path, PathBuf};

use super::Failure;
use crate::cli::{Cli, Command, Common};
use crate::kernel::confine::{Allowed, Confined, confine, place_of};
use crate::kernel::rights::{self, Needed, RightsError};

/// Gives up what the command has no use for, while there is one thread.
pub fn at_start(cli: &Cli) -> Result<(), RightsError> {
    rights::refuse_set_uid()?;
    let (output, terminal) = match &cli.command {
        // What it runs is to run as it would without us.
        Some(Command::Record(args)) if !args.command.is_empty() => return Ok(()),
        Some(Command::Lab(_)) => return Ok(()),
        None | Some(Command::Live(_) | Command::Record(_)) => return observing(true),
        Some(Command::List(_) | Command::Stream(_) | Command::Doctor(_)) => {
            return observing(false);
        }
        // It listens first.
        Some(Command::Serve(_)) => return rights::no_new_privs(),
        Some(Command::Replay(_)) => (None, true),
        Some(Command::Report(args)) => (args.output.as_deref(), false),
        Some(Command::Compare(args)) => (args.output.as_deref(), false),
        Some(Command::Export(args)) => (args.output.as_deref(), false),
        Some(Command::Import(args)) => (Some(args.output.as_path()), false),
        Some(Command::Man(args)) => (args.output.as_deref(), false),
        Some(Command::Completions(_)) => (None, false),
    };
    rights::no_new_privs()?;
    let mut write: Vec<PathBuf> = output.map(place_of).into_iter().collect();
    if terminal {
        write.push(TERMINAL.into());
    }
    let connect = cli.common.resolve;
    confine(&Allowed { write, connect })?;
    Ok(())
}

/// The keyboard, where standard input is something else.
const TERMINAL: &str = "/dev/tty";

fn observing(recording: bool) -> Result<(), RightsError> {
    rights::no_new_privs()?;
    rights::keep(Needed {
        namespaces: true,
        recording,
    })
}

/// Once the source runs, on threads of its own: this one writes below `dir` from here on, and else nowhere.
pub fn while_observing(common: &Common, dir: Option<&Path>) -> Result<Confined, Failure> {
    let allowed = Allowed {
        write: dir.map(Path::to_owned).into_iter().collect(),
        connect: common.resolve,
    };
    Ok(confine(&allowed).map_err(RightsError::from)?)
}

/// The same for the dashboard, which has a terminal.
pub fn while_shown(common: &Common) -> Result<Confined, Failure> {
    let dir = common.record_dir.as_deref().unwrap_or(Path::new("."));
    let allowed = Allowed {
        write: vec![dir.to_owned(), TERMINAL.into()],
        connect: common.resolve,
    };
    Ok(confine(&allowed).map_err(RightsError::from)?)
}
