//! What the screen shows, something live or a recording: both can be gone through in time.

use std::future::Future;

use super::recorder::Told;
use super::run::TuiError;
use super::transport::{Command, Kind, Transport};
use crate::event::FlowId;
use crate::filter::Filter;
use crate::model::{Flow, Mark, Model};
use crate::units::Mono;

/// What came of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fed {
    /// There is something new: to be drawn when it is time to.
    More,
    /// What somebody asked for is there: to be drawn at once.
    Now,
    End,
}

/// Whether a moment of this flow is one to jump to; the flow itself as far as it is known.
pub type Wanted<'a> = dyn Fn(&Model, FlowId, Option<&Flow>) -> bool + 'a;

/// A model that goes on, and can be gone back in.
pub trait Feed {
    /// Who tells: `eBPF`, or the file.
    fn source(&self) -> String;

    /// Nanoseconds since 1970 at moment 0; `None` = the wall clock is not known.
    fn wall_offset_ns(&self) -> Option<i64>;

    /// Waits for something new. Dropping the future loses nothing.
    fn next(&mut self) -> impl Future<Output = Result<Fed, TuiError>>;

    /// Takes in which flows are looked at.
    fn focus(&mut self, flows: &[FlowId]);

    /// What is drawn.
    fn shown(&self) -> &Model;

    /// Acts on a key. What could not be done is told, for a person.
    fn act(&mut self, command: Command, wanted: &Wanted<'_>) -> Result<Option<String>, TuiError>;

    /// Where in time one is.
    fn timeline(&mut self) -> Timeline;

    /// Begins a recording of what is shown, which `typed` narrows, or ends the one that runs. What could not be done is told.
    fn record(&mut self, typed: Option<&Filter>) -> Option<String> {
        let _ = typed;
        Some("this is recorded already: copy the file to keep it".to_owned())
    }

    /// How recordings begun here stand.
    fn recording(&self) -> Told {
        Told::default()
    }

    /// The newest there is, in the end.
    fn into_model(self) -> Model;
}

/// Cells that a timeline's moments are told by.
pub const CELLS: usize = 256;

/// Where in time one is, as it is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// Of the file, safe for a terminal; `None` = it is live.
    pub file: Option<String>,
    pub transport: Transport,
    /// The moment shown.
    pub at: Mono,
    /// The newest moment there is.
    pub now: Mono,
    /// On the way to the moment asked for.
    pub seeking: bool,
    /// What of the whole has retransmit bursts, by cells.
    pub bursts: Vec<bool>,
    /// What is not as it should be with the file.
    pub trouble: Option<String>,
}

impl Timeline {
    /// It stands still.
    pub fn is_still(&self) -> bool {
        !self.transport.is_going()
    }

    pub fn is_file(&self) -> bool {
        self.transport.kind() == Kind::File
    }

    /// Share of the way from beginning to end.
    pub fn share(&self) -> f64 {
        let (first, last) = (self.transport.first(), self.transport.last());
        let all = last.since(first);
        if all == 0 {
            return 1.0;
        }
        let at = self.transport.at().max(first).min(last);
        at.since(first) as f64 / all as f64
    }
}

/// The cells that `marks` fall into.
pub fn cells(marks: &[Mark], first: Mono, last: Mono) -> Vec<bool> {
    let mut cells = vec![false; CELLS];
    let all = last.since(first).max(1) as f64;
    for mark in marks {
        if mark.time >= first && mark.time <= last {
            let at = (mark.time.since(first) as f64 / all * CELLS as f64) as usize;
            cells[at.min(CELLS - 1)] = true;
        }
    }
    cells
}
