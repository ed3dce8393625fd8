//! The mouse: clicks, double clicks, the wheel.

use std::time::Duration;

use super::{Action, ViewState};
use crate::tui::page::Page;

/// Two clicks within this time on one place are a double click.
const DOUBLE: Duration = Duration::from_millis(400);
/// Lines a turn of the wheel moves the view by.
const WHEEL: isize = 3;

/// What the mouse did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mouse {
    Click { x: u16, y: u16 },
    WheelUp,
    WheelDown,
}

/// Clicks so far, and whether they come to us.
#[derive(Clone, Copy, Debug)]
pub struct Clicks {
    pub taken: bool,
    last: Option<(u16, Duration)>,
}

impl Default for Clicks {
    fn default() -> Self {
        Self {
            taken: true,
            last: None,
        }
    }
}

impl ViewState {
    /// Acts on the mouse; `at` is the time by any clock that goes on.
    pub fn mouse(&mut self, mouse: Mouse, at: Duration) {
        if self.prompt.is_some() || self.flows.chooser.is_some() {
            return;
        }
        match (self.page(), mouse) {
            (Page::Flows, Mouse::WheelUp) => self.flows.wheel(-WHEEL),
            (Page::Flows, Mouse::WheelDown) => self.flows.wheel(WHEEL),
            (Page::Flows, Mouse::Click { x, y }) => {
                self.flows.click(x, y);
                self.clicks.last = Some((y, at));
            }
            (_, Mouse::WheelUp) => self.turn(Action::Up),
            (_, Mouse::WheelDown) => self.turn(Action::Down),
            (_, Mouse::Click { .. }) => {}
        }
    }

    fn turn(&mut self, action: Action) {
        for _ in 0..WHEEL {
            self.update(action);
        }
    }

    /// Whether a click at this line is the second of two.
    pub fn is_double(&self, y: u16, at: Duration) -> bool {
        let last = self.clicks.last;
        last.is_some_and(|(line, then)| line == y && at.saturating_sub(then) <= DOUBLE)
    }
}
