//! The checks beside the tests: format, lints, dependency policy.

use anyhow::Result;

use crate::checkout::Checkout;
use crate::machine::Machine;
use crate::object;
use crate::step::{self, read, say};
use crate::suite::Skip;

/// Runs them all and returns those this machine has no program for.
pub fn run(checkout: &Checkout, machine: &Machine) -> Result<Vec<Skip>> {
    // First, so that the lints see the binary that is tested, and nothing is built twice.
    object::ensure(checkout, machine)?;
    let mut skips = Vec::new();
    let mut skip = |why: &str| {
        say(format_args!("skipped: {why}"));
        skips.push(Skip {
            count: 1,
            why: why.to_owned(),
        });
    };
    let has = |subcommand: &str| read(checkout.cargo().args([subcommand, "--version"])).is_ok();

    if has("fmt") {
        say("checking the format");
        step::run(checkout.cargo().args(["fmt", "--all", "--check"]))?;
    } else {
        skip("format check: no rustfmt (`rustup component add rustfmt`)");
    }

    if has("clippy") {
        say("checking the lints");
        let deny = ["--", "--deny", "warnings"];
        step::run(
            checkout
                .cargo()
                .args(["clippy", "--locked", "--workspace", "--all-targets"])
                .args(["--exclude", "observer-ebpf"])
                .args(deny),
        )?;
        step::run(
            checkout
                .cargo()
                .args(["clippy", "--locked", "--package", "observer-ebpf", "--lib"])
                .args(deny),
        )?;
        match object::clippy(checkout, machine)? {
            Some(mut clippy) => step::run(&mut clippy)?,
            None => skip("lints of the eBPF programs: their compiler has no clippy"),
        }
    } else {
        skip("lints: no clippy (`rustup component add clippy`)");
    }

    if has("deny") {
        say("checking licences, bans and sources of the dependencies");
        // Not advisories: their database is no package registry.
        step::run(checkout.cargo().args([
            "deny",
            "--locked",
            "--offline",
            "check",
            "licenses",
            "bans",
            "sources",
        ]))?;
    } else {
        skip("dependency policy: no cargo-deny (`cargo install cargo-deny --locked`)");
    }
    Ok(skips)
}
