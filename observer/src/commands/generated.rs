//! `observer completions` and `observer man`: made from the definition of the command line.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context as _;
use clap::CommandFactory as _;

use super::{Failure, output};
use crate::cli::{Cli, CompletionsArgs, ManArgs};

const SECTIONS: &str = include_str!("generated/sections.roff");

/// Completions of a shell, to standard output.
pub fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "observer", &mut text);
    Ok(write_out(&text)?)
}

/// The page of the program to standard output, or a page a command into a directory.
pub fn man(args: &ManArgs) -> Result<(), Failure> {
    // A page of `help` would say what these pages say.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let Some(dir) = &args.output else {
        return Ok(write_out(&render(command)?)?);
    };
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    pages(dir, &command, "observer", args.force)
}

/// A page for the command, and one for each below it.
fn pages(dir: &Path, command: &clap::Command, name: &str, force: bool) -> Result<(), Failure> {
    page(dir, command.clone(), name, force)?;
    for sub in command.get_subcommands() {
        pages(dir, sub, &format!("{name}-{}", sub.get_name()), force)?;
    }
    Ok(())
}

/// A page in roff. That of the program has what the commands have in common.
fn render(command: clap::Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let program = command.get_name() == "observer";
    if !program {
        clap_mangen::Man::new(command).render(&mut text)?;
        return Ok(text);
    }
    let man = clap_mangen::Man::new(command);
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    man.render_subcommands_section(&mut text)?;
    text.extend_from_slice(SECTIONS.as_bytes());
    man.render_version_section(&mut text)?;
    Ok(text)
}

fn page(dir: &Path, command: clap::Command, name: &str, force: bool) -> Result<(), Failure> {
    let path = dir.join(format!("{name}.1"));
    let text = render(command)?;
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
