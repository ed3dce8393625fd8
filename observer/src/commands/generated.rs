//! `observer completions` and `observer man`: made from the definition of the command line.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context as _;
use clap::CommandFactory as _;

use super::{Failure, output};
use crate::cli::{Cli, CompletionsArgs, ManArgs};

/// Completions of a shell, to standard output.
pub fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "observer", &mut text);
    Ok(write_out(&text)?)
}

/// The page of the program to standard output, or a page a command into a directory.
pub fn man(args: &ManArgs) -> Result<(), Failure> {
    let mut command = Cli::command();
    command.build();
    let Some(dir) = &args.output else {
        let mut text = Vec::new();
        clap_mangen::Man::new(command).render(&mut text)?;
        return Ok(write_out(&text)?);
    };
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    page(dir, command.clone(), "observer", args.force)?;
    for sub in command
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help")
    {
        let name = format!("observer-{}", sub.get_name());
        page(dir, sub.clone(), &name, args.force)?;
    }
    Ok(())
}

fn page(dir: &Path, command: clap::Command, name: &str, force: bool) -> Result<(), Failure> {
    let path = dir.join(format!("{name}.1"));
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    let mut options = OpenOptions::new();
    options
        .write(true)
        .truncate(force)
        .create(force)
        .create_new(!force);
    let mut file = options.open(&path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::Usage(format!("{} exists: --force overwrites it", path.display()))
        }
        _ => Failure::Failed(
            anyhow::Error::new(error).context(format!("cannot write {}", path.display())),
        ),
    })?;
    file.write_all(&text)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

fn write_out(text: &[u8]) -> io::Result<()> {
    let mut out = output::stdout();
    out.write_all(text)?;
    out.flush()
}
