//! One step of work: a command, run with one line on what it does and why.

use std::fmt::{self, Display};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// All of xtask's own words go to stderr: stdout belongs to the program it starts.
pub fn say(line: impl Display) {
    eprintln!("xtask: {line}");
}

/// What was asked cannot be done on this machine; the text says what to do.
#[derive(Debug)]
pub struct NotHere(pub String);

impl Display for NotHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotHere {}

/// Runs `command`, its stdout moved to stderr, and fails when it does.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    let status = to_stderr(command)
        .status()
        .with_context(|| format!("cannot start `{shown}`"))?;
    check(&shown, status)
}

/// As `run`, but gives up after `limit`: for downloads that may hang where there is no network.
pub fn run_within(command: &mut Command, limit: Duration) -> Result<()> {
    const TURN: Duration = Duration::from_millis(100);
    let shown = shown(command);
    let mut child = to_stderr(command)
        .spawn()
        .with_context(|| format!("cannot start `{shown}`"))?;
    let turns = limit.as_millis() / TURN.as_millis();
    for _ in 0..turns {
        if let Some(status) = child.try_wait()? {
            return check(&shown, status);
        }
        thread::sleep(TURN);
    }
    child.kill()?;
    child.wait()?;
    bail!("`{shown}` did not end within {} s", limit.as_secs())
}

/// Runs `command` and returns its stdout; its stderr is shown only in the error.
pub fn read(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("`{shown}`: {}: {}", output.status, stderr.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` did not print text"))
}

fn to_stderr(command: &mut Command) -> &mut Command {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::from(std::io::stderr()))
}

fn check(shown: &str, status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("`{shown}`: {status}");
    }
    Ok(())
}

/// The command as one would type it, shortened to what identifies it.
fn shown(command: &Command) -> String {
    let mut words = vec![
        std::path::Path::new(command.get_program())
            .file_name()
            .unwrap_or(command.get_program())
            .to_string_lossy()
            .into_owned(),
    ];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_step_names_its_command() {
        let error = run(Command::new("/bin/sh").args(["-c", "exit 7"])).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c exit 7`: exit status: 7");
    }

    #[test]
    fn a_hanging_step_is_given_up() {
        let error = run_within(
            Command::new("/bin/sleep").arg("60"),
            Duration::from_millis(200),
        )
        .unwrap_err();
        assert!(error.to_string().contains("did not end"), "{error}");
    }

    #[test]
    fn reading_keeps_stdout_and_reports_stderr() {
        assert_eq!(read(Command::new("echo").arg("x")).unwrap(), "x\n");
        let error = read(Command::new("/bin/sh").args(["-c", "echo why >&2; exit 1"])).unwrap_err();
        assert!(error.to_string().ends_with("why"), "{error}");
    }
}
