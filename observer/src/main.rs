//! The `observer` binary: parse, run, exit code.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    observer::commands::run(observer::cli::Cli::parse())
}
