//! The flow table's order and selection.

use std::cmp::Ordering;

use super::{Action, Move, Shows, movement};
use crate::event::FlowId;
use crate::model::Model;
use crate::tui::columns::Column;

/// What the flow table remembers.
#[derive(Clone, Debug)]
pub struct FlowsState {
    pub sort: Column,
    pub descending: bool,
    /// The selection is a flow, not a line: it stays through re-sorting and closing.
    pub selected: Option<FlowId>,
    /// First line shown.
    pub offset: usize,
    /// Lines of flows as last drawn.
    pub page: usize,
    /// Order of the flows as last drawn.
    pub order: Vec<FlowId>,
    /// How many of them are not closed.
    pub open: usize,
}

impl Default for FlowsState {
    fn default() -> Self {
        Self {
            sort: Column::Throughput,
            descending: true,
            selected: None,
            offset: 0,
            page: 10,
            order: Vec::new(),
            open: 0,
        }
    }
}

impl FlowsState {
    /// Takes the model in: which flows are shown, in which order. What is unknown comes last in either direction; equal
    /// flows keep their order.
    pub fn arrange(&mut self, model: &Model, shows: &Shows) {
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
    }

    /// Which part of the flows is in view.
    pub fn scroll(&mut self, page: usize) {
        self.page = page.max(1);
        self.follow();
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

    pub fn update(&mut self, action: Action) {
        match action {
            Action::SortLeft => self.sort_by(-1),
            Action::SortRight => self.sort_by(1),
            Action::Invert => self.descending = !self.descending,
            action => {
                if let Some(to) = movement(action, self.page) {
                    self.step(to);
                }
            }
        }
    }

    fn step(&mut self, to: Move) {
        let line = match (to, self.line()) {
            (to, Some(line)) => to.from(line),
            (Move::To(line), None) => line,
            // Nothing selected yet: the first key selects what is at the top.
            (Move::By(_), None) => self.offset,
        };
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

    fn with(order: Vec<FlowId>) -> FlowsState {
        FlowsState {
            order,
            ..FlowsState::default()
        }
    }

    #[test]
    fn the_first_movement_selects_what_is_at_the_top() {
        let mut state = with(ids(40));
        state.offset = 5;
        state.update(Action::Down);
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
        let mut state = FlowsState::default();
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
}
