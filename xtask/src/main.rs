//! The commands: what `cargo xtask …` offers, and the exit code each ends with.

mod bench;
mod binary;
mod checkout;
mod checks;
mod dist;
mod fuzz;
mod kernel;
mod lab;
mod linker;
mod machine;
mod object;
mod packages;
mod step;
mod suite;
mod toolchain;
mod vm;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::checkout::Checkout;
use crate::machine::Machine;
use crate::step::{NotHere, say};

/// Sets up, builds, runs and checks observer.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install what building needs: a compiler that can target BPF and bpf-linker
    Setup,
    /// Build the eBPF object and the observer binary that embeds it
    Build {
        /// Optimised; leaves target/release/observer
        #[arg(long)]
        release: bool,
    },
    /// Set up, build, and start observer (through sudo when not root); release unless --debug
    Run {
        /// Start the unoptimised build
        #[arg(long)]
        debug: bool,
        /// What observer is started with; nothing is the dashboard
        #[arg(last = true)]
        args: Vec<OsString>,
    },
    /// Set up, install what the tests use, and run every test, the kernel ones included
    Test,
    /// Build and run a benchmark; those of the kernel need root (through sudo when not root)
    Bench {
        what: bench::Bench,
        /// What the benchmark is started with
        #[arg(last = true)]
        args: Vec<OsString>,
    },
    /// Run the lab's matrices, all of them where none is named (hours), or `leak`: whether a hundred runs leave anything behind
    Lab {
        /// clean, shallow, lossy, long, qdisc-sysctl, verdicts, a file FILE.toml; or leak
        what: Vec<String>,
        /// For `observer lab matrix`
        #[arg(last = true)]
        args: Vec<OsString>,
    },
    /// Make what is shipped, in target/dist: a static binary with man pages and completions, a Debian package, checksums
    Dist,
    /// Run libFuzzer over the parsers, from the seeds that the tests use
    Fuzz(fuzz::Fuzz),
    /// Run kernel tests in guests of other kernels (QEMU), and make the table in docs/KERNELS.md of what came out
    Vm(vm::Vm),
    /// Everything a change has to pass: format, lints, dependency policy, then `test`
    Ci,
}

fn main() -> ExitCode {
    match dispatch(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("error: {error:#}"));
            // The codes observer itself uses: 3 is "not permitted or not supported here".
            ExitCode::from(if error.is::<NotHere>() { 3 } else { 1 })
        }
    }
}

fn dispatch(command: Command) -> anyhow::Result<()> {
    let checkout = Checkout::find()?;
    let machine = Machine::look()?;
    match command {
        Command::Setup => {
            let ready = toolchain::ensure(&checkout, &machine)?;
            say(format_args!("ready: {ready}"));
            Ok(())
        }
        Command::Build { release } => {
            object::ensure(&checkout, &machine)?;
            let binary = binary::build(&checkout, binary::optimised(release), &[])?;
            say(format_args!("built {}", checkout.shown(&binary).display()));
            Ok(())
        }
        Command::Run { debug, args } => {
            object::ensure(&checkout, &machine)?;
            if debug {
                say("building unoptimised, as --debug asks");
            } else {
                say("building for release, as observer is meant to run (--debug: unoptimised)");
            }
            let binary = binary::build(&checkout, binary::optimised(!debug), &[])?;
            Err(binary::start(&machine, &binary, &args))
        }
        Command::Bench { what, args } => bench::run(&checkout, &machine, what, &args),
        Command::Lab { what, args } => lab::run(&checkout, &machine, &what, &args),
        Command::Dist => dist::make(&checkout, &machine),
        Command::Fuzz(fuzz) => fuzz::run_all(&checkout, &fuzz),
        Command::Vm(vm) => vm::run_all(&checkout, &machine, &vm),
        Command::Test => suite::run(&checkout, &machine, Vec::new()),
        Command::Ci => {
            let skips = checks::run(&checkout, &machine)?;
            suite::run(&checkout, &machine, skips)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn run_passes_everything_after_the_dashes() {
        let cli =
            Cli::try_parse_from(["xtask", "run", "--", "list", "--json", "dst:10.0.0.1"]).unwrap();
        let Command::Run { debug, args } = cli.command else {
            panic!("not run: {cli:?}");
        };
        assert!(!debug);
        assert_eq!(args, ["list", "--json", "dst:10.0.0.1"]);
    }

    #[test]
    fn run_without_dashes_is_the_dashboard() {
        let cli = Cli::try_parse_from(["xtask", "run"]).unwrap();
        assert!(matches!(cli.command, Command::Run { args, .. } if args.is_empty()));
    }
}
