//! What is told while it records: one line on a terminal that is written over, and a summary.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::commands::output;
use crate::record::Totals;
use crate::units::{escape, size};

/// How often the line is written anew, of recorded time.
const EVERY: Duration = Duration::from_millis(200);

/// The line, and where it stands.
pub struct Progress {
    path: PathBuf,
    shown: bool,
    last: Option<Duration>,
    standing: bool,
    sums_up: bool,
}

impl Progress {
    /// `wanted` = nobody else writes on the terminal.
    pub fn new(path: &Path, wanted: bool) -> Self {
        Self {
            path: path.to_owned(),
            shown: wanted && std::io::stderr().is_terminal(),
            last: None,
            standing: false,
            sums_up: true,
        }
    }

    /// Somebody else has the terminal.
    pub fn hide(&mut self) {
        self.shown = false;
    }

    /// Whether the end is told.
    pub fn sum_up(&mut self, wanted: bool) {
        self.sums_up = wanted;
    }

    /// Writes the line anew when it is time.
    pub fn show(&mut self, span: Duration, totals: &(Totals, u32), lost: u64) {
        let due = self
            .last
            .is_none_or(|last| span.saturating_sub(last) >= EVERY);
        if !self.shown || !due {
            return;
        }
        self.last = Some(span);
        self.standing = true;
        let line = figures(span, totals, lost);
        // That it cannot be written is no reason to stop recording.
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
    }

    /// Takes the line away, for something else to be said.
    pub fn clear(&mut self) {
        if self.standing {
            self.standing = false;
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    /// What was recorded in the end.
    pub fn summary(&self, span: Duration, totals: &(Totals, u32), lost: u64) {
        if !self.sums_up {
            return;
        }
        let path = escape(&self.path.to_string_lossy());
        let files = match totals.1 {
            1 => String::new(),
            parts => format!(" and {path}.1 to .{} ({parts} files)", parts - 1),
        };
        output::message(&format!(
            "recorded {path}{files}: {}",
            figures(span, totals, lost)
        ));
    }
}

/// Time, flows, samples, bytes, lost.
pub fn figures(span: Duration, (totals, _): &(Totals, u32), lost: u64) -> String {
    format!(
        "{:.1} s  flows {}  samples {}  {}  lost {lost}",
        span.as_secs_f64(),
        totals.flows,
        totals.samples,
        size(totals.bytes)
    )
}
