//! A path with known truth: three network namespaces, a bottleneck on the router, a bulk flow over it. The lab makes the
//! path and says what it made; what is observed of it is the business of everybody else.
//!
//! ```text
//!   sender ── snd0 ═══ r-snd ── router: loss, policer, rate + buffer ──▶ r-rcv ═══ rcv0 ── receiver
//!                            ◀── delay, jitter, ACKs gathered ──
//! ```

pub mod clock;
pub mod emulator;
pub mod matrix;
pub mod namespaces;
pub mod path;
mod shell;
mod sys;
pub mod traffic;
pub mod verify;

use std::path::PathBuf;

/// What keeps the lab from running, for the next action.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Not permitted or not there on this host.
    #[error("{0}")]
    Unsupported(String),
    #[error("{command}: {message}")]
    Command { command: String, message: String },
    #[error("{0}")]
    File(PathBuf, #[source] std::io::Error),
    #[error("{0}")]
    System(&'static str, #[source] std::io::Error),
    /// The path made is not the path asked for.
    #[error(
        "this machine cannot make the path now: {0}. Ask for less (--rate, --rtt), or let other work end first"
    )]
    NotHeld(String),
    /// A flow of the lab did not do what it was to do.
    #[error("{0}")]
    Flow(String),
}

/// Turns errors of the system into the lab's, with what was tried.
trait Tried<T> {
    fn tried(self, what: &'static str) -> Result<T, LabError>;
}

impl<T, E: Into<std::io::Error>> Tried<T> for Result<T, E> {
    fn tried(self, what: &'static str) -> Result<T, LabError> {
        self.map_err(|error| LabError::System(what, error.into()))
    }
}
