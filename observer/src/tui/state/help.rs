//! The help page's place.

use super::{Action, movement};

/// What the help page remembers.
#[derive(Clone, Copy, Debug, Default)]
pub struct HelpState {
    /// First line shown.
    pub offset: usize,
    /// The last that may be the first.
    last: usize,
    /// Lines in view as last drawn.
    page: usize,
}

impl HelpState {
    /// Takes in how long the help is and how much of it is seen.
    pub fn arrange(&mut self, lines: usize, page: usize) {
        self.last = lines.saturating_sub(page);
        self.offset = self.offset.min(self.last);
        self.page = page;
    }

    pub fn update(&mut self, action: Action) {
        if let Some(to) = movement(action, self.page) {
            self.offset = to.from(self.offset).min(self.last);
        }
    }
}
