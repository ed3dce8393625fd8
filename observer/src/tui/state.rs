//! What the user is looking at: sort order, selection, pages. Pure: keys in, state and effects out.

use super::columns::{Column, Row};
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
    /// First line shown.
    pub offset: usize,
    /// Lines of flows as last drawn.
    pub page: usize,
    /// Order of the flows as last drawn.
    pub order: Vec<FlowId>,
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
            offset: 0,
            page: 10,
            order: Vec::new(),
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

    /// Takes the model in: which flows are shown, in which order, and which part of them.
    pub fn arrange(&mut self, model: &Model, shows: &Shows, page: usize) {
        let mut rows: Vec<Row> = model
            .flows()
            .filter(|flow| shows(model, flow))
            .map(|flow| Row::new(model, flow))
            .collect();
        rows.sort_by(|a, b| {
            let order = self.sort.compare(a, b);
            let order = if self.descending {
                order.reverse()
            } else {
                order
            };
            order.then_with(|| a.flow.id().cmp(&b.flow.id()))
        });
        self.order = rows.iter().map(|row| row.flow.id()).collect();
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

    /// Acts on a key.
    pub fn update(&mut self, action: Action) -> Option<Effect> {
        match action {
            Action::Quit => return Some(Effect::Quit),
            Action::Redraw => return Some(Effect::Redraw),
            Action::Suspend => return Some(Effect::Suspend),
            Action::Help => self.help = !self.help,
            Action::Close => self.help = false,
            Action::Up => self.step(-1),
            Action::Down => self.step(1),
            Action::PageUp => self.step(-self.pages(1)),
            Action::PageDown => self.step(self.pages(1)),
            Action::HalfUp => self.step(-self.pages(2)),
            Action::HalfDown => self.step(self.pages(2)),
            Action::First => self.select(0),
            Action::Last => self.select(self.order.len().saturating_sub(1)),
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
            Some(line) => line.saturating_add_signed(lines),
            // Nothing selected yet: the first key selects what is at the top.
            None => self.offset,
        };
        self.select(target);
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
