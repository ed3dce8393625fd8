//! Looking for text in the table.

use super::{FlowsState, Line};
use crate::model::Model;
use crate::tui::address::Addresses;
use crate::tui::columns::{Column, Row};
use crate::tui::theme::Marker;

/// A search that waits for the flows to be in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seek {
    /// The selected line itself, or the next one.
    Here,
    Next,
    Previous,
}

impl FlowsState {
    /// Goes to what is searched for, if that was asked.
    pub fn seek(&mut self, model: &Model, marker: Marker, addresses: &Addresses) {
        for seek in std::mem::take(&mut self.seek) {
            self.seek_once(seek, model, marker, addresses);
        }
    }

    fn seek_once(&mut self, seek: Seek, model: &Model, marker: Marker, addresses: &Addresses) {
        self.not_found = false;
        let total = self.lines.len();
        if self.search.is_empty() || total == 0 {
            return;
        }
        let from = self.line().unwrap_or(self.offset).min(total - 1);
        // From here on, round the end, back to here.
        let matching = |line: &usize| self.matches(model, *line, marker, addresses);
        let found = match seek {
            Seek::Here => (0..total).map(|n| (from + n) % total).find(matching),
            Seek::Next => (1..=total).map(|n| (from + n) % total).find(matching),
            Seek::Previous => (1..=total)
                .map(|n| (from + total - n) % total)
                .find(matching),
        };
        match found {
            Some(line) => self.select(line),
            None => self.not_found = true,
        }
    }

    /// Whether any text of the line that is shown has what is searched for, whatever the case. Text that is cut on the
    /// screen counts whole.
    fn matches(&self, model: &Model, line: usize, marker: Marker, addresses: &Addresses) -> bool {
        match self.lines.get(line) {
            Some(Line::Group(place)) => {
                let group = self.groups.get(*place);
                group.is_some_and(|group| contains(&group.name.0, &self.search))
            }
            Some(Line::Flow(id)) => {
                let Some(flow) = model.flow(*id) else {
                    return false;
                };
                let row = Row::new(model, flow, marker, addresses);
                self.placed
                    .iter()
                    .filter(|p| !matches!(p.column, Column::Trend | Column::RetransTrend))
                    .any(|p| contains(&p.column.cell(&row, usize::MAX), &self.search))
            }
            None => false,
        }
    }
}

/// Whether `text` has `part`, whatever the case.
pub fn contains(text: &str, part: &str) -> bool {
    !part.is_empty() && text.to_lowercase().contains(&part.to_lowercase())
}
