//! What the flow page remembers: which part of the past is seen, the cursor, which chart is enlarged.

use ratatui::layout::{Position, Rect};

use crate::event::FlowId;
use crate::model::series::{Past, Window};
use crate::tui::keys::Action;
use crate::units::Mono;

const S: u64 = 1_000_000_000;

/// How much of the past is seen at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zoom {
    Second,
    Seconds5,
    Seconds10,
    #[default]
    Seconds30,
    Minute,
    Minutes5,
    All,
}

impl Zoom {
    const ALL: [Self; 7] = [
        Self::Second,
        Self::Seconds5,
        Self::Seconds10,
        Self::Seconds30,
        Self::Minute,
        Self::Minutes5,
        Self::All,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Second => "1 s",
            Self::Seconds5 => "5 s",
            Self::Seconds10 => "10 s",
            Self::Seconds30 => "30 s",
            Self::Minute => "1 min",
            Self::Minutes5 => "5 min",
            Self::All => "all",
        }
    }

    /// Nanoseconds; `all`: those that there are, rounded up so that the picture does not shrink with every frame.
    fn span(self, all: u64) -> u64 {
        const ROUND: [u64; 16] = [
            1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 21_600,
        ];
        match self {
            Self::Second => S,
            Self::Seconds5 => 5 * S,
            Self::Seconds10 => 10 * S,
            Self::Seconds30 => 30 * S,
            Self::Minute => 60 * S,
            Self::Minutes5 => 300 * S,
            Self::All => ROUND
                .into_iter()
                .map(|s| s * S)
                .find(|span| *span >= all)
                .unwrap_or_else(|| all.div_ceil(3600 * S) * 3600 * S),
        }
    }

    fn step(self, by: isize) -> Self {
        let at = (self as usize).saturating_add_signed(by);
        Self::ALL[at.min(Self::ALL.len() - 1)]
    }
}

/// The charts, from top to bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chart {
    Windows,
    Rates,
    Times,
    Retransmits,
}

impl Chart {
    pub const ALL: [Self; 4] = [Self::Windows, Self::Rates, Self::Times, Self::Retransmits];
}

/// The part of the past that is on the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    pub from: Mono,
    /// Nanoseconds of a cell.
    pub cell: u64,
    pub cells: usize,
    /// Columns of dots in a cell.
    pub across: usize,
    /// The oldest and the newest moment there is.
    pub oldest: Mono,
    pub newest: Mono,
}

impl View {
    /// By columns of dots.
    pub fn dots(&self) -> Window {
        Window {
            from: self.from,
            step: (self.cell / self.across.max(1) as u64).max(1),
            columns: self.cells * self.across,
        }
    }

    /// By cells.
    pub fn window(&self) -> Window {
        Window {
            from: self.from,
            step: self.cell.max(1),
            columns: self.cells,
        }
    }

    fn span(&self) -> u64 {
        self.cell.saturating_mul(self.cells as u64)
    }
}

#[derive(Clone, Debug, Default)]
pub struct FlowState {
    pub zoom: Zoom,
    /// Where the view ends; `None` = with the newest. Once it is scrolled back, what comes new does not move it.
    pub end: Option<Mono>,
    /// A moment, not a place on the screen.
    pub cursor: Option<Mono>,
    pub enlarged: Option<Chart>,
    /// As last drawn.
    pub view: View,
    /// Where the charts' cells are on the screen.
    pub cells: Rect,
    flow: Option<FlowId>,
}

impl FlowState {
    /// Takes in what there is to see of `flow`, and the room for it: `cells`, each of `across` columns of dots.
    pub fn arrange(&mut self, flow: FlowId, past: &Past, cells: Rect, across: usize) {
        self.cells = cells;
        let cells = usize::from(cells.width);
        if self.flow != Some(flow) {
            self.flow = Some(flow);
            self.end = None;
            self.cursor = None;
        }
        let newest = past.end();
        let oldest = past.from().unwrap_or(newest).min(newest);
        let across = across.max(1);
        let dots = (cells * across).max(1) as u64;
        let span = self.zoom.span(newest.since(oldest));
        // Whole columns of dots since the epoch: what is drawn does not flicker when time goes on.
        let cell = span.div_ceil(dots).max(1) * across as u64;
        let end = self.end.unwrap_or(newest);
        let end = (end.0 / cell + 1).saturating_mul(cell);
        self.view = View {
            from: Mono(end.saturating_sub(cell.saturating_mul(cells as u64))),
            cell,
            cells,
            across,
            oldest,
            newest,
        };
    }

    pub fn update(&mut self, action: Action) {
        let span = self.view.span();
        match action {
            Action::Earlier => self.scroll(-i128::from(span / 4)),
            Action::Later => self.scroll(i128::from(span / 4)),
            Action::PageUp => self.scroll(-i128::from(span)),
            Action::PageDown => self.scroll(i128::from(span)),
            Action::HalfUp => self.scroll(-i128::from(span / 2)),
            Action::HalfDown => self.scroll(i128::from(span / 2)),
            Action::First => self.scroll(i128::MIN),
            Action::Last => {
                self.end = None;
                self.cursor = None;
            }
            Action::ZoomIn => self.zoom_by(-1),
            Action::ZoomOut => self.zoom_by(1),
            Action::CursorLeft => self.move_cursor(-1),
            Action::CursorRight => self.move_cursor(1),
            Action::Enlarge => self.enlarge(),
            _ => {}
        }
    }

    /// The cell that the cursor is in, where it is in view.
    pub fn cursor_cell(&self) -> Option<Window> {
        let window = self.view.window();
        let cell = window.column(self.cursor?.0)?;
        let before = window.step.saturating_mul(cell as u64);
        Some(Window {
            from: window.from.plus(before),
            step: window.step,
            columns: 1,
        })
    }

    fn end(&self) -> Mono {
        self.end.unwrap_or(self.view.newest)
    }

    /// Moves the end by nanoseconds, no further than there is something to see.
    fn scroll(&mut self, by: i128) {
        let View { oldest, newest, .. } = self.view;
        let first = oldest.plus(self.view.span()).min(newest);
        let to = i128::from(self.end().0).saturating_add(by);
        let to = to.clamp(i128::from(first.0), i128::from(newest.0)) as u64;
        self.end = (to < newest.0 || self.cursor.is_some()).then_some(Mono(to));
    }

    /// The cursor stays where it is on the screen; without one the end does.
    fn zoom_by(&mut self, steps: isize) {
        let before = self.view.span();
        self.zoom = self.zoom.step(steps);
        let Some(cursor) = self.cursor else {
            return;
        };
        let View { oldest, newest, .. } = self.view;
        let after = self.zoom.span(newest.since(oldest));
        let behind = u128::from(self.end().since(cursor)) * u128::from(after);
        let behind = behind / u128::from(before.max(1));
        let end = cursor.plus(u64::try_from(behind).unwrap_or(u64::MAX));
        self.end = Some(end.min(newest));
    }

    /// Sets the cursor, and with it the view stands still.
    fn move_cursor(&mut self, cells: i64) {
        let View {
            oldest,
            newest,
            from,
            cell,
            ..
        } = self.view;
        let end = self.end();
        let at = match self.cursor {
            None => end,
            Some(at) if cells < 0 => Mono(at.0.saturating_sub(cell)),
            Some(at) => at.plus(cell),
        };
        let at = at.max(oldest).min(newest);
        self.cursor = Some(at);
        self.end = Some(end);
        if at < from {
            self.scroll(-i128::from(from.since(at)));
        } else if at > end {
            self.scroll(i128::from(at.since(end)));
        }
    }

    /// A click on the charts sets the cursor.
    pub fn click(&mut self, x: u16, y: u16) {
        if !self.cells.contains(Position::new(x, y)) {
            return;
        }
        let View {
            oldest,
            newest,
            from,
            cell,
            ..
        } = self.view;
        let cells = u64::from(x - self.cells.x);
        let at = from.plus(cells.saturating_mul(cell).saturating_add(cell / 2));
        self.end = Some(self.end());
        self.cursor = Some(at.max(oldest).min(newest));
    }

    fn enlarge(&mut self) {
        let at = self.enlarged.map_or(0, |chart| chart as usize + 1);
        self.enlarged = Chart::ALL.get(at).copied();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(state: &mut FlowState, oldest: u64, newest: u64) {
        // As `arrange` does with a past that reaches so far.
        let across = 2;
        let cells = 70;
        let span = state.zoom.span(newest - oldest);
        let cell = span.div_ceil(140).max(1) * across as u64;
        let end = state.end.unwrap_or(Mono(newest));
        let end = (end.0 / cell + 1).saturating_mul(cell);
        state.view = View {
            from: Mono(end.saturating_sub(cell * cells as u64)),
            cell,
            cells,
            across,
            oldest: Mono(oldest),
            newest: Mono(newest),
        };
    }

    #[test]
    fn what_comes_new_does_not_move_a_view_that_is_scrolled_back() {
        let mut state = FlowState::default();
        at(&mut state, 100 * S, 300 * S);
        let following = state.view.from;
        at(&mut state, 100 * S, 301 * S);
        assert!(state.view.from > following);
        state.update(Action::Earlier);
        at(&mut state, 100 * S, 301 * S);
        let from = state.view.from;
        at(&mut state, 100 * S, 400 * S);
        assert_eq!(state.view.from, from);
        state.update(Action::Last);
        assert_eq!(state.end, None);
        state.update(Action::First);
        at(&mut state, 100 * S, 400 * S);
        assert!(state.view.from.0.abs_diff(100 * S) <= 2 * state.view.cell);
    }

    #[test]
    fn the_end_follows_again_when_it_is_reached() {
        let mut state = FlowState::default();
        at(&mut state, 0, 300 * S);
        state.update(Action::Earlier);
        assert!(state.end.is_some());
        state.update(Action::Later);
        assert_eq!(state.end, None);
    }

    #[test]
    fn the_cursor_is_a_moment() {
        let mut state = FlowState::default();
        at(&mut state, 0, 300 * S);
        state.update(Action::CursorLeft);
        state.update(Action::CursorLeft);
        let cursor = state.cursor.expect("set");
        assert_eq!(cursor, Mono(300 * S - state.view.cell));
        at(&mut state, 0, 400 * S);
        assert_eq!(state.end, Some(Mono(300 * S)), "the view stands still");
        // Zooming keeps it in view.
        for action in [Action::ZoomIn, Action::ZoomIn, Action::ZoomOut] {
            state.update(action);
            at(&mut state, 0, 400 * S);
            assert!(state.view.window().column(cursor.0).is_some(), "{state:?}");
        }
        state.update(Action::Last);
        assert_eq!((state.cursor, state.end), (None, None));
    }

    #[test]
    fn a_click_on_the_charts_sets_the_cursor_where_it_was() {
        let mut state = FlowState {
            cells: Rect::new(7, 4, 70, 12),
            ..FlowState::default()
        };
        at(&mut state, 0, 300 * S);
        state.click(7 + 35, 6);
        let cell = state.view.window().column(state.cursor.expect("set").0);
        assert_eq!(cell, Some(35));
        assert_eq!(state.end, Some(Mono(300 * S)), "the view stands still");
        for (x, y) in [(6, 6), (20, 3), (20, 16), (77, 6)] {
            let before = state.cursor;
            state.click(x, y);
            assert_eq!(state.cursor, before, "not on the charts");
        }
    }

    #[test]
    fn zoom_stops_at_its_ends() {
        let mut state = FlowState::default();
        for _ in 0..9 {
            state.update(Action::ZoomIn);
        }
        assert_eq!(state.zoom, Zoom::Second);
        for _ in 0..9 {
            state.update(Action::ZoomOut);
        }
        assert_eq!(state.zoom, Zoom::All);
    }

    proptest! {
        #[test]
        fn no_sequence_of_keys_leaves_the_past(
            actions in proptest::collection::vec(0_usize..9, 0..80),
            oldest in 0_u64..1000,
            length in 0_u64..100_000,
        ) {
            let all = [
                Action::Earlier, Action::Later, Action::First, Action::Last, Action::ZoomIn,
                Action::ZoomOut, Action::CursorLeft, Action::CursorRight, Action::PageUp,
            ];
            let mut state = FlowState::default();
            let (oldest, newest) = (oldest * S, (oldest + length) * S);
            at(&mut state, oldest, newest);
            for action in actions {
                state.update(all[action]);
                at(&mut state, oldest, newest);
                prop_assert!(state.end().0 <= newest);
                let seen = state.view.window();
                prop_assert!(seen.end().0 > oldest, "{state:?}");
                if let Some(cursor) = state.cursor {
                    prop_assert!((oldest..=newest).contains(&cursor.0));
                }
            }
        }
    }
}
