//! `ip` and `tc`, which make namespaces, devices and qdiscs.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use super::LabError;

/// Runs a command, arguments separated by spaces; what it wrote.
pub fn run(program: &str, arguments: &str) -> Result<String, LabError> {
    let output = Command::new(program)
        .args(arguments.split_whitespace())
        .stdin(Stdio::null())
        .output();
    finish(program, arguments, output)
}

/// Several lines of `ip` or `tc` at once; the first that fails ends it.
pub fn batch(program: &str, options: &str, lines: &str) -> Result<(), LabError> {
    let mut child = Command::new(program)
        .args(options.split_whitespace())
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| missing(program, &error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // Where it fails early, what it says is the better message.
        let _ = stdin.write_all(lines.as_bytes());
    }
    finish(program, options, child.wait_with_output()).map(|_| ())
}

fn finish(
    program: &str,
    arguments: &str,
    output: std::io::Result<Output>,
) -> Result<String, LabError> {
    let output = output.map_err(|error| missing(program, &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(LabError::Command {
        command: format!("{program} {arguments}"),
        message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

fn missing(program: &str, error: &std::io::Error) -> LabError {
    LabError::Unsupported(format!(
        "cannot run {program} ({error}): the lab needs it; install the package iproute2"
    ))
}
