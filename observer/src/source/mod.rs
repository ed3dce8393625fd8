//! Where events come from. Live, replay and script differ only here: who folds them cannot tell.

pub mod diag;
mod elsewhere;
pub mod facts;
pub mod live;
pub mod pacer;
mod queue;
pub mod records;
pub mod reorder;
pub mod replay;
pub mod script;
pub mod snapshot;
pub mod synthetic;

use std::future::Future;

use crate::event::{Event, Origin};

/// What a source is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    pub kind: SourceKind,
    /// Who gives the samples; `None` where that changes, or is not known before they come.
    pub origin: Option<Origin>,
    /// A file's name, a host's; for people.
    pub name: String,
    /// Nanoseconds since 1970 at moment 0 of the events' clock; `None` = the wall clock is not known.
    pub wall_offset_ns: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    Live,
    Replay,
    Script,
}

/// Why no more events come, other than the end.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The text of a script is wrong.
    #[error(transparent)]
    Script(#[from] script::ScriptError),
    #[error("{what}: {error}")]
    Io { what: String, error: std::io::Error },
    /// Anything else, told so that a person knows what to do next.
    #[error("{0}")]
    Failed(String),
}

/// A supply of events in the order of their time.
pub trait Source {
    fn info(&self) -> &Info;

    /// The next batch, never empty; `None` at the end.
    ///
    /// Dropping the future loses no event.
    fn next(&mut self) -> impl Future<Output = Result<Option<Vec<Event>>, SourceError>>;
}
