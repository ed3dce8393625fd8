//! What the tests use that is not Rust: programs, and the packages they come in.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::machine::{self, Machine};
use crate::step::{run_within, say};

/// A program the tests call, and the Debian package it is in.
#[derive(Debug, PartialEq, Eq)]
pub struct Tool {
    pub program: &'static str,
    pub package: &'static str,
    pub why: &'static str,
}

pub const TOOLS: [Tool; 6] = [
    Tool {
        program: "ip",
        package: "iproute2",
        why: "namespaces and links of the kernel tests",
    },
    Tool {
        program: "ss",
        package: "iproute2",
        why: "the reader our fields are compared with",
    },
    Tool {
        program: "tc",
        package: "iproute2",
        why: "queues of the kernel tests",
    },
    Tool {
        program: "iperf3",
        package: "iperf3",
        why: "senders, and a second count of retransmits",
    },
    Tool {
        program: "tshark",
        package: "tshark",
        why: "retransmits counted from packets",
    },
    Tool {
        program: "bpftool",
        package: "bpftool",
        why: "the kernel's own run time of our programs",
    },
];

const UPDATE_LIMIT: Duration = Duration::from_mins(3);
const INSTALL_LIMIT: Duration = Duration::from_mins(10);

/// Installs what is missing where that is possible, and returns what still is.
pub fn ensure(machine: &Machine) -> Vec<&'static Tool> {
    let missing = missing();
    if missing.is_empty() {
        return missing;
    }
    let packages = packages(&missing);
    let programs: Vec<_> = missing.iter().map(|tool| tool.program).collect();
    say(format_args!(
        "installing {}: the tests use {}",
        packages.join(" "),
        programs.join(", ")
    ));
    if let Err(error) = install(machine, &packages) {
        say(format_args!("that did not work: {error:#}"));
    }
    self::missing()
}

fn missing() -> Vec<&'static Tool> {
    TOOLS
        .iter()
        .filter(|tool| machine::find(tool.program).is_none())
        .collect()
}

/// The packages of `tools`, each once, in their order.
fn packages(tools: &[&Tool]) -> Vec<&'static str> {
    let mut packages: Vec<&'static str> = Vec::new();
    for tool in tools {
        if !packages.contains(&tool.package) {
            packages.push(tool.package);
        }
    }
    packages
}

/// Installs Debian packages, fetching the package lists only when the ones here do not do.
pub fn install(machine: &Machine, packages: &[&str]) -> Result<()> {
    let apt = |words: &[&str]| {
        let apt = machine
            .apt
            .as_ref()
            .ok_or_else(|| anyhow::anyhow!("this is no Debian (no apt-get)"))?;
        // `env` inside sudo, which drops variables by itself. Nothing may ask: tshark's package would.
        let mut command: Command = machine
            .as_root("env")
            .ok_or_else(|| anyhow::anyhow!("neither root nor a sudo that works here"))?;
        command
            .arg("DEBIAN_FRONTEND=noninteractive")
            .arg(apt)
            .args(["-qq", "-o=Dpkg::Use-Pty=0"])
            .args(words);
        Ok::<_, anyhow::Error>(command)
    };
    let mut words = vec!["install", "--yes", "--no-install-recommends"];
    words.extend(packages);
    if run_within(&mut apt(&words)?, INSTALL_LIMIT).is_ok() {
        return Ok(());
    }
    say("fetching Debian's package lists: the ones here do not have it");
    run_within(&mut apt(&["update"])?, UPDATE_LIMIT)?;
    run_within(&mut apt(&words)?, INSTALL_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_once() {
        let all: Vec<_> = TOOLS.iter().collect();
        assert_eq!(packages(&all), ["iproute2", "iperf3", "tshark", "bpftool"]);
        assert_eq!(packages(&[]), [""; 0]);
    }
}
