//! What the user is looking at: sort order, selection, pages. Pure: keys in, state and effects out.

use std::cmp::Ordering;

use super::columns::Column;
use super::keys::{Action, Context};
use crate::event::FlowId;
use crate::model::Model;

/// What only the loop can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Quit,
    Redraw,
    Suspend,
}

/// Whether a flow is shown.
pub type Shows = dyn Fn(&Model, &crate::model::Flow) -> bool;

/// The view's own state.
#[derive(Clone, Debug)]
pub struct ViewState {
    pub sort: Column,
    pub descending: bool,
    /// The selection is a flow, not a line: it stays through re-sorting and closing.
    pub selected: Option<FlowId>,
    pub help: bool,
    /// First line of the help page shown, and the last that may be.
    pub help_offset: usize,
    pub help_last: usize,
    /// First line shown.
    pub offset: usize,
    /// Lines of flows as last drawn.
    pub page: usize,
    /// Order of the flows as last drawn.
    pub order: Vec<FlowId>,
    /// How many of them are not closed.
    pub open: usize,
    pub colour: bool,
    /// Own CPU time, share of all cores; `None` = not measured yet.
    pub own_cpu: Option<f64>,
}

impl Default for ViewState {
    fn default() -> Self {
        Self {
            sort: Column::Throughput,
            descending: true,
            selected: None,
            help: false,
            help_offset: 0,
            help_last: 0,
            offset: 0,
            page: 10,
            order: Vec::new(),
            open: 0,
            colour: true,
            own_cpu: None,
        }
    }
}

impl ViewState {
    pub fn context(&self) -> Context {
        if self.help {
            Context::Help
        } else {
            Context::Flows
        }
    }

    /// Takes the model in: which flows are shown, in which order, and which part of them. What is unknown comes last in
    /// either direction; equal flows keep their order.
    pub fn arrange(&mut self, model: &Model, shows: &Shows, page: usize) {
        let shown = model.flows().filter(|flow| shows(model, flow));
        let mut open = 0;
        let mut rows: Vec<_> = shown
            .map(|flow| {
                open += usize::from(!flow.is_closed());
                (self.sort.key(model, flow), flow.id())
            })
            .collect();
        rows.sort_unstable_by(|(a, a_id), (b, b_id)| {
            let order = match (a, b) {
                (Some(a), Some(b)) if self.descending => b.compare(a),
                (Some(a), Some(b)) => a.compare(b),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => Ordering::Equal,
            };
            order.then_with(|| a_id.cmp(b_id))
        });
        self.open = open;
        self.order.clear();
        self.order.extend(rows.into_iter().map(|(_, id)| id));
        self.page = page.max(1);
        self.follow();
    }

    /// Takes in how long the help page is and how much of it is seen.
    pub fn arrange_help(&mut self, lines: usize, page: usize) {
        self.help_last = lines.saturating_sub(page);
        self.help_offset = self.help_offset.min(self.help_last);
        self.page = page.max(1);
    }

    /// Line of the selection.
    fn line(&self) -> Option<usize> {
        let selected = self.selected?;
        self.order.iter().position(|id| *id == selected)
    }

    fn follow(&mut self) {
        let last = self.order.len().saturating_sub(self.page);
        if let Some(line) = self.line() {
            self.offset = self
                .offset
                .clamp((line + 1).saturating_sub(self.page), line);
        }
        self.offset = self.offset.min(last);
    }

    /// Acts on a key.
    pub fn update(&mut self, action: Action) -> Option<Effect> {
        match action {
            Action::Quit => return Some(Effect::Quit),
            Action::Redraw => return Some(Effect::Redraw),
            Action::Suspend => return Some(Effect::Suspend),
            Action::Help => {
                self.help = !self.help;
                self.help_offset = 0;
            }
            Action::Close => self.help = false,
            Action::Up => self.step(-1),
            Action::Down => self.step(1),
            Action::PageUp => self.step(-self.pages(1)),
            Action::PageDown => self.step(self.pages(1)),
            Action::HalfUp => self.step(-self.pages(2)),
            Action::HalfDown => self.step(self.pages(2)),
            Action::First => self.jump(0),
            Action::Last => self.jump(usize::MAX),
            Action::SortLeft => self.sort_by(-1),
            Action::SortRight => self.sort_by(1),
            Action::Invert => self.descending = !self.descending,
        }
        None
    }

    fn pages(&self, part: usize) -> isize {
        isize::try_from((self.page / part).max(1)).unwrap_or(1)
    }

    fn step(&mut self, lines: isize) {
        let target = match self.line() {
            _ if self.help => self.help_offset.saturating_add_signed(lines),
            Some(line) => line.saturating_add_signed(lines),
            // Nothing selected yet: the first key selects what is at the top.
            None => self.offset,
        };
        self.jump(target);
    }

    fn jump(&mut self, line: usize) {
        if self.help {
            self.help_offset = line.min(self.help_last);
        } else {
            self.select(line);
        }
    }

    fn select(&mut self, line: usize) {
        let line = line.min(self.order.len().saturating_sub(1));
        self.selected = self.order.get(line).copied();
        self.follow();
    }

    fn sort_by(&mut self, columns: isize) {
        let at = (self.sort as usize).saturating_add_signed(columns);
        self.sort = Column::ALL[at.min(Column::ALL.len() - 1)];
        // Numbers are looked at from the top, names from A.
        self.descending = self.sort.right();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(n: u64) -> Vec<FlowId> {
        (0..n).map(|cookie| FlowId { cookie, netns: 1 }).collect()
    }

    fn with(order: Vec<FlowId>) -> ViewState {
        ViewState {
            order,
            ..ViewState::default()
        }
    }

    #[test]
    fn the_first_movement_selects_what_is_at_the_top() {
        let mut state = with(ids(40));
        state.offset = 5;
        assert_eq!(state.update(Action::Down), None);
        assert_eq!(state.selected, Some(ids(40)[5]));
        state.update(Action::PageDown);
        assert_eq!(state.selected, Some(ids(40)[15]));
        assert_eq!(state.offset, 6, "just so far that it is seen");
    }

    #[test]
    fn the_selection_is_a_flow_not_a_line() {
        let mut state = with(ids(40));
        state.update(Action::Last);
        let chosen = state.selected.expect("one");
        state.order.reverse();
        state.follow();
        assert_eq!((state.selected, state.offset), (Some(chosen), 0));
        // Gone: what is at the top is next.
        state.order.retain(|id| *id != chosen);
        state.update(Action::Up);
        assert_eq!(state.selected, Some(state.order[0]));
    }

    #[test]
    fn sorting_stops_at_the_ends_and_looks_at_numbers_from_the_top() {
        let mut state = ViewState::default();
        for _ in 0..40 {
            state.update(Action::SortRight);
        }
        assert_eq!(Some(&state.sort), Column::ALL.last());
        for _ in 0..40 {
            state.update(Action::SortLeft);
        }
        assert_eq!((state.sort, state.descending), (Column::State, false));
        state.update(Action::Invert);
        assert!(state.descending);
    }

    #[test]
    fn help_scrolls_and_leaves_the_flows_alone() {
        let mut state = with(ids(40));
        state.update(Action::Help);
        state.arrange_help(30, 10);
        state.update(Action::Last);
        assert_eq!(state.help_offset, 20);
        state.update(Action::PageUp);
        assert_eq!(state.help_offset, 10);
        assert_eq!(state.selected, None);
        state.update(Action::Close);
        assert_eq!(state.context(), Context::Flows);
    }
}
