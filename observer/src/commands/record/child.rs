//! The command whose flows are recorded: found, started, waited for.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};
use tokio::sync::oneshot;

use crate::commands::{Failure, output};
use crate::units::escape;

/// As shells have it.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Code(u8),
    Signal(u8),
    /// The kernel did not tell.
    Unknown,
}

impl Ended {
    fn of(status: WaitStatus) -> Self {
        let byte = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Self::Code(byte(code)),
            (_, Some(signal)) => Self::Signal(byte(signal)),
            _ => Self::Unknown,
        }
    }

    /// The status that a shell would give it.
    pub fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128u8.saturating_add(signal),
            Self::Unknown => 1,
        }
    }
}

/// The program that a shell would run.
pub fn find(program: &OsStr) -> Result<PathBuf, Failure> {
    let refuse = |code, why: &str| {
        let name = escape(&program.to_string_lossy());
        output::message(&format!("observer: cannot run {name}: {why}"));
        Err(Failure::Exit(code))
    };
    if program.as_bytes().contains(&b'/') {
        let path = PathBuf::from(program);
        return match usable(&path) {
            Some(true) => Ok(path),
            Some(false) => refuse(NOT_EXECUTABLE, "it is not executable"),
            None => refuse(NOT_FOUND, "there is no such file"),
        };
    }
    let dirs = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let mut found = None;
    for dir in std::env::split_paths(&dirs) {
        let path = dir.join(program);
        match usable(&path) {
            Some(true) => return Ok(path),
            Some(false) => found = Some(path),
            None => {}
        }
    }
    match found {
        Some(_) => refuse(NOT_EXECUTABLE, "it is not executable"),
        None => refuse(NOT_FOUND, "there is no such program in the PATH"),
    }
}

/// Whether a file can be executed; `None` = there is none.
fn usable(path: &Path) -> Option<bool> {
    let there = std::fs::metadata(path).ok()?;
    Some(there.is_file() && access(path, Access::EXEC_OK).is_ok())
}

/// It runs.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    end: oneshot::Receiver<Ended>,
}

impl Child {
    pub fn start(program: &Path, arguments: &[OsString]) -> Result<Self, Failure> {
        let child = std::process::Command::new(program)
            .args(arguments)
            .spawn()
            .map_err(|error| {
                let name = escape(&program.to_string_lossy());
                output::message(&format!("observer: cannot run {name}: {error}"));
                Failure::Exit(NOT_EXECUTABLE)
            })?;
        let pid = Pid::from_child(&child);
        let (sender, end) = oneshot::channel();
        std::thread::Builder::new()
            .name("observer-child".to_owned())
            .spawn(move || {
                let mut sender = Some(sender);
                // Children of children that ended are ours too: all are waited for, so that none stays a zombie.
                loop {
                    match wait(WaitOptions::empty()) {
                        Ok(Some((ended, status))) if ended == pid => {
                            if let Some(sender) = sender.take() {
                                let _ = sender.send(Ended::of(status));
                            }
                        }
                        Ok(_) | Err(rustix::io::Errno::INTR) => {}
                        Err(_) => return,
                    }
                }
            })?;
        Ok(Self { pid, end })
    }

    /// When it is over; may be asked again only before.
    pub async fn ended(&mut self) -> Ended {
        (&mut self.end).await.unwrap_or(Ended::Unknown)
    }

    /// Passes on that an end is wanted. That it is gone already is no matter.
    pub fn terminate(&self) {
        let _ = kill_process(self.pid, Signal::TERM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let code = |program: &str| match find(OsStr::new(program)) {
            Ok(path) => {
                assert!(path.is_absolute());
                0
            }
            Err(Failure::Exit(code)) => code,
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(code("sh"), 0);
        assert_eq!(code("/bin/sh"), 0);
        assert_eq!(code("/"), 126);
        assert_eq!(code("/etc/passwd"), 126);
        assert_eq!(code("/no/such/file"), 127);
        assert_eq!(code("no-such-program-anywhere"), 127);
    }

    #[test]
    fn a_signal_is_told_as_a_shell_tells_it() {
        assert_eq!(Ended::Code(7).code(), 7);
        assert_eq!(Ended::Signal(15).code(), 143);
    }
}
