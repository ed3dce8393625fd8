//! The Debian package, by cargo-deb: what is in it says `[package.metadata.deb]` of observer/Cargo.toml.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::checkout::Checkout;
use crate::machine;
use crate::step::{NotHere, read, run, say};

const VERSION: &str = "3.8.0";

/// Packs what was built and staged.
pub fn build(checkout: &Checkout, target: &str, dist: &Path) -> Result<()> {
    let tool = ensure(checkout)?;
    run(Command::new(tool)
        .current_dir(&checkout.root)
        .args(["--no-build", "--no-strip", "--quiet", "--profile=static"])
        .args(["--package", "observer", "--target", target, "--output"])
        .arg(dist))
}

/// The one on this machine, or one of our own.
fn ensure(checkout: &Checkout) -> Result<PathBuf> {
    let own = checkout.own().join("tools");
    let ours = own.join("bin/cargo-deb");
    let found = [machine::find("cargo-deb"), Some(ours.clone())];
    let fits = |tool: &PathBuf| {
        read(Command::new(tool).arg("--version")).is_ok_and(|said| is_series(&said))
    };
    if let Some(tool) = found.into_iter().flatten().find(fits) {
        return Ok(tool);
    }
    say(format_args!(
        "installing cargo-deb {VERSION} into target/xtask: it makes the Debian package (about a minute)"
    ));
    let mut install = checkout.cargo();
    install
        .args(["install", "cargo-deb", "--locked", "--version", VERSION])
        .arg("--target-dir")
        .arg(checkout.own().join("install"))
        .arg("--root")
        .arg(&own);
    run(&mut install).map_err(|error| {
        NotHere(format!(
            "cargo-deb {VERSION} could not be installed ({error:#}); what to do: `cargo install cargo-deb --locked --version {VERSION}` and read its first error"
        ))
    })?;
    std::fs::remove_dir_all(checkout.own().join("install")).ok();
    Ok(ours)
}

/// Its options are those we use since 3.
fn is_series(version: &str) -> bool {
    let number = version.split_whitespace().last().unwrap_or("");
    number.split('.').next() == VERSION.split('.').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_series_that_was_tried_is_used() {
        assert!(is_series("3.8.0\n"));
        assert!(is_series("cargo-deb 3.9.1"));
        assert!(!is_series("2.12.1"));
        assert!(!is_series(""));
    }
}
