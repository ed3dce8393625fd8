//! What makes the path, behind one seam: the kernel's own qdiscs where it has them, else a relay of ours.

mod answers;
pub mod cells;
mod frame;
mod kernel;
pub mod truth;
mod user;

use super::LabError;
use super::namespaces::Namespaces;
use super::path::Path;
use truth::Counts;

pub use truth::Drop;

/// Which emulator is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The kernel's: netem, and police.
    Kernel,
    /// A relay in this process, with a log of every loss.
    User,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::User => "user",
        }
    }
}

/// A path that is made. Dropped, it is gone.
pub trait Emulator {
    fn kind(&self) -> Kind;
    /// Its parts, for people.
    fn description(&self) -> String;
    /// What it counts begins anew, and a policer's bucket is full.
    fn begin(&mut self) -> Result<(), LabError>;
    /// What happened since then.
    fn counts(&mut self) -> Result<Counts, LabError>;
    /// Every packet lost since then; `None` = this emulator does not know them one by one.
    fn losses(&mut self) -> Option<Vec<Drop>>;
}

/// Makes the path on the router: by the emulator wanted, else by the kernel's where it has all it takes, else by ours.
pub fn make(
    wanted: Option<Kind>,
    namespaces: &Namespaces,
    path: &Path,
) -> Result<Box<dyn Emulator>, LabError> {
    match wanted {
        Some(Kind::Kernel) => Ok(Box::new(kernel::Kernel::make(namespaces, path)?)),
        Some(Kind::User) => Ok(Box::new(user::Relay::make(namespaces, path)?)),
        None => match kernel::Kernel::make(namespaces, path) {
            Ok(kernel) => Ok(Box::new(kernel)),
            Err(LabError::Unsupported(_)) => Ok(Box::new(user::Relay::make(namespaces, path)?)),
            Err(error) => Err(error),
        },
    }
}
