//! Somebody else's sender and receiver, in the lab's namespaces.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::Failure;
use crate::lab::LabError;
use crate::lab::namespaces::Namespaces;

/// A server that does not listen after this long does not work.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);
/// LISTEN in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// A server, ended when dropped.
pub struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn inside(netns: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", netns]);
    command
}

/// Starts a server in the receiver's namespace, and waits until it listens.
pub async fn serve(namespaces: &Namespaces, line: &str) -> Result<Server, Failure> {
    let child = inside(namespaces.receiver())
        // The shell's place is the server's, so that ending it is ending the server.
        .args(["sh", "-c", &format!("exec {line}")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| LabError::System("cannot start the server", error))?;
    let mut server = Server(child);
    let mut waited = Duration::ZERO;
    loop {
        let ended = server.0.try_wait();
        if let Ok(Some(status)) = ended {
            return Err(
                LabError::Flow(format!("the server «{line}» ended at once ({status})")).into(),
            );
        }
        if namespaces.in_receiver(listens)? {
            return Ok(server);
        }
        if waited > PATIENCE {
            let text = format!(
                "the server «{line}» does not listen after {} s",
                PATIENCE.as_secs()
            );
            return Err(LabError::Flow(text).into());
        }
        waited += LOOK;
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether somebody listens in the calling thread's namespace.
fn listens() -> bool {
    ["tcp", "tcp6"].iter().any(|table| {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{table}"));
        let text = text.unwrap_or_default();
        text.lines()
            .any(|line| line.split_whitespace().nth(3) == Some(LISTEN))
    })
}

/// Runs a command in the sender's namespace to its end; its status as a shell has it. What is left of it goes with the
/// namespace. `quiet`: somebody else has the terminal.
pub async fn run(
    namespaces: &Namespaces,
    program: &Path,
    arguments: &[OsString],
    quiet: bool,
) -> Result<u8, Failure> {
    let mut command = inside(namespaces.sender());
    if quiet {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    let mut child = command
        .arg(program)
        .args(arguments)
        .env(
            "OBSERVER_LAB_RECEIVER",
            namespaces.addresses.receiver.to_string(),
        )
        .spawn()
        .map_err(|error| LabError::System("cannot start the command", error))?;
    let status = tokio::task::spawn_blocking(move || child.wait()).await;
    let status = status.map_err(anyhow::Error::from)?;
    Ok(code(status.map_err(anyhow::Error::from)?))
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
