//! What the screen knows of a recording begun by a key: somebody takes the events in, and says how it stands.

use crate::event::Event;
use crate::filter::Filter;
use crate::model::Model;
use crate::units::Mono;

/// Takes what happens into a file, while it is asked to.
pub trait Recorder {
    /// Begins a recording of what is shown, which `typed` narrows, or ends the one that runs.
    fn toggle(&mut self, model: &Model, typed: Option<&Filter>);
    /// An event that `model` has folded.
    fn take(&mut self, model: &Model, event: &Event);
    /// How it stands.
    fn told(&self, now: Mono) -> Told;
}

/// How a recording stands, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// While one runs.
    pub running: Option<String>,
    /// What has just become of one.
    pub notice: Option<Notice>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub text: String,
    /// Something went wrong.
    pub alarm: bool,
}
