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
                // The first click selected the line.
                let double = self.is_double(y, at) && self.flows.has_line(y);
                self.clicks.last = (!double).then_some((y, at));
                if double {
                    self.update(Action::Go(Page::Flow));
                } else {
                    self.flows.click(x, y);
                }
            }
            (Page::Flow, Mouse::WheelUp) => {
                self.update(Action::ZoomIn);
            }
            (Page::Flow, Mouse::WheelDown) => {
                self.update(Action::ZoomOut);
            }
            (Page::Flow, Mouse::Click { x, y }) => self.flow.click(x, y),
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
    fn is_double(&self, y: u16, at: Duration) -> bool {
        let last = self.clicks.last;
        last.is_some_and(|(line, then)| line == y && at.saturating_sub(then) <= DOUBLE)
    }
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;

    use super::*;
    use crate::event::FlowId;
    use crate::tui::state::flows::Line;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn two_clicks_on_a_flow_open_it() {
        let click = |y| Mouse::Click { x: 3, y };
        let mut state = ViewState::default();
        let id = |cookie| FlowId { cookie, netns: 1 };
        state.flows.lines = (0..5).map(|n| Line::Flow(id(n))).collect();
        state.flows.scroll(Rect::new(0, 4, 80, 10), 9);
        state.mouse(click(6), at(0));
        state.mouse(click(6), at(401));
        assert_eq!(state.page(), Page::Flows, "too slow");
        state.mouse(click(7), at(500));
        assert_eq!(state.page(), Page::Flows, "another line");
        assert_eq!(state.flows.selected, Some(id(2)));
        state.mouse(click(4), at(600));
        state.mouse(click(4), at(700));
        state.mouse(click(12), at(800));
        state.mouse(click(12), at(900));
        assert_eq!(
            state.page(),
            Page::Flows,
            "a heading, and nothing, are no flows"
        );
        state.mouse(click(7), at(1000));
        state.mouse(click(7), at(1100));
        assert_eq!(
            (state.page(), state.flows.selected),
            (Page::Flow, Some(id(2)))
        );
    }
}
