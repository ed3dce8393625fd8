//! The events page: which kinds are shown, where one is.

use std::collections::{BTreeMap, BTreeSet};

use super::{Action, Move, movement};
use crate::event::FlowId;
use crate::model::{EntryKind, Flow, Model};

/// What the page remembers.
#[derive(Clone, Debug, Default)]
pub struct EventsState {
    pub hidden: BTreeSet<EntryKind>,
    /// Serial of an entry; `None` = the newest are followed.
    pub selected: Option<u64>,
    /// Serials of the entries shown with the flows they are of, oldest first.
    pub rows: Vec<(u64, Option<FlowId>)>,
    /// How many there are of each kind, by the filter, hidden ones too.
    pub counts: BTreeMap<EntryKind, usize>,
    /// First row in view.
    pub offset: usize,
    /// Rows in view as last drawn.
    pub page: usize,
}

impl EventsState {
    /// Takes the journal in: entries of the flows asked for, and those of no flow.
    pub fn arrange(&mut self, model: &Model, shows: &dyn Fn(&Model, &Flow) -> bool) {
        self.rows.clear();
        self.counts.clear();
        for entry in model.journal() {
            let wanted = match entry.flow {
                None => true,
                // Nothing is known of it that a filter could ask for.
                Some(id) => model.flow_told(id).is_none_or(|flow| shows(model, flow)),
            };
            if !wanted {
                continue;
            }
            let kind = entry.what.kind();
            *self.counts.entry(kind).or_default() += 1;
            if !self.hidden.contains(&kind) {
                self.rows.push((entry.serial, entry.flow));
            }
        }
        // The journal forgets: what came next is as good.
        if let Some(serial) = self.selected {
            let next = self.rows.iter().find(|(row, _)| *row >= serial);
            let same = self.rows.iter().find(|(row, _)| *row == serial);
            self.selected = same.or(next).map(|&(row, _)| row);
        }
    }

    /// Which part of the rows is in view.
    pub fn scroll(&mut self, page: usize) {
        self.page = page.max(1);
        let last = self.rows.len().saturating_sub(self.page);
        self.offset = match self.line() {
            None => last,
            Some(line) => {
                let first = (line + 1).saturating_sub(self.page);
                self.offset.clamp(first, line).min(last)
            }
        };
    }

    /// Row of the selection.
    pub fn line(&self) -> Option<usize> {
        let selected = self.selected?;
        self.rows.iter().position(|(row, _)| *row == selected)
    }

    /// The flow that the selected entry is of.
    pub fn flow(&self) -> Option<FlowId> {
        self.rows.get(self.line()?)?.1
    }

    pub fn update(&mut self, action: Action) {
        match action {
            Action::ToggleKind(kind) => {
                if !self.hidden.remove(&kind) {
                    self.hidden.insert(kind);
                }
            }
            Action::AllKinds => self.hidden.clear(),
            action => {
                if let Some(to) = movement(action, self.page) {
                    self.step(to);
                }
            }
        }
    }

    /// Beyond the newest one follows again.
    fn step(&mut self, to: Move) {
        let newest = self.rows.len().checked_sub(1);
        let target = match (to, self.line(), newest) {
            (_, _, None) => return,
            // From following, the first step up is to the newest.
            (Move::By(lines), None, Some(newest)) if lines < 0 => {
                newest.saturating_add_signed(lines + 1)
            }
            (to, line, Some(newest)) => to.from(line.unwrap_or(newest)),
        };
        self.selected = self.rows.get(target).map(|&(row, _)| row);
        self.scroll(self.page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(rows: std::ops::Range<u64>) -> EventsState {
        let mut state = EventsState {
            rows: rows.map(|serial| (serial, None)).collect(),
            ..EventsState::default()
        };
        state.scroll(10);
        state
    }

    #[test]
    fn the_newest_are_followed_until_one_goes_up() {
        let mut state = with(0..40);
        assert_eq!(state.offset, 30);
        state.rows.push((40, None));
        state.scroll(10);
        assert_eq!(state.offset, 31);
        state.update(Action::Up);
        assert_eq!(state.selected, Some(40));
        state.rows.extend((41..50).map(|serial| (serial, None)));
        state.scroll(10);
        assert_eq!((state.selected, state.offset), (Some(40), 31), "it stays");
        state.update(Action::PageUp);
        assert_eq!(state.selected, Some(30));
        state.update(Action::Last);
        assert_eq!((state.selected, state.offset), (None, 40));
        state.update(Action::First);
        assert_eq!((state.selected, state.offset), (Some(0), 0));
        for _ in 0..50 {
            state.update(Action::Down);
        }
        assert_eq!(state.selected, None);
    }

    #[test]
    fn nothing_to_go_through_is_survived() {
        let mut state = with(0..0);
        for action in [Action::Up, Action::Down, Action::First, Action::Last] {
            state.update(action);
            assert_eq!((state.selected, state.offset), (None, 0));
        }
    }

    #[test]
    fn kinds_come_and_go() {
        let mut state = EventsState::default();
        state.update(Action::ToggleKind(EntryKind::Phase));
        assert!(state.hidden.contains(&EntryKind::Phase));
        state.update(Action::ToggleKind(EntryKind::Phase));
        state.update(Action::ToggleKind(EntryKind::Note));
        state.update(Action::AllKinds);
        assert!(state.hidden.is_empty());
    }
}
