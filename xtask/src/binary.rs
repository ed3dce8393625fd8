//! The observer binary: building it, and becoming it.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Error, Result, bail};
use serde_json::Value;

use crate::checkout::Checkout;
use crate::machine::{Machine, Privilege};
use crate::step::{NotHere, say};

/// What cargo is told for an optimised binary, or for another.
pub fn optimised(release: bool) -> &'static [&'static str] {
    if release { &["--release"] } else { &[] }
}

/// Builds observer with these arguments and variables, and returns where cargo put it.
pub fn build(
    checkout: &Checkout,
    args: &[impl AsRef<OsStr>],
    env: &[(&str, String)],
) -> Result<PathBuf> {
    let mut command = checkout.cargo();
    command
        .args([
            "build",
            "--locked",
            "--package",
            "observer",
            "--bin",
            "observer",
        ])
        .arg("--message-format=json-render-diagnostics")
        .args(args)
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let output = command.output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("observer does not build");
    }
    executable_of(&String::from_utf8_lossy(&output.stdout), "observer")
        .context("cargo named no binary")
}

/// The path of the binary of this name in cargo's messages.
pub fn executable_of(messages: &str, target: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter(|message| message["target"]["name"] == target)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

/// Replaces this process by observer; returns only when that fails. The exit code, the terminal and
/// stdout are observer's alone.
pub fn start(machine: &Machine, binary: &Path, args: &[OsString]) -> Error {
    let mut command = match &machine.privilege {
        Privilege::Root => Command::new(binary),
        Privilege::Sudo(sudo) => {
            say("starting observer through sudo: loading eBPF programs needs root");
            let mut command = Command::new(sudo);
            command.arg("--").arg(binary);
            command
        }
        Privilege::None => {
            say("starting observer without root: there is no sudo that works here");
            Command::new(binary)
        }
    };
    let error = command.args(args).exec();
    NotHere(format!("cannot start {}: {error}", binary.display())).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_is_where_cargo_says() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"aya"},"executable":null}
not json
{"reason":"compiler-artifact","target":{"name":"observer"},"executable":"/t/release/observer"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(
            executable_of(messages, "observer"),
            Some("/t/release/observer".into())
        );
        assert_eq!(executable_of(messages, "kernel"), None);
        assert_eq!(executable_of("", "observer"), None);
    }
}
