//! The flow table: which flows, in which order, and where the selection is.

mod arrange;
mod ledger;
mod search;

use std::collections::HashSet;

use ratatui::layout::Rect;

use super::chooser::{Chooser, Chosen};
use super::group::{Group, GroupName, Grouping, Groups};
use super::{Action, Move, movement};
use crate::event::FlowId;
use crate::filter::Filter;
use crate::tui::columns::{Choice, Column, Placed};
pub use arrange::Census;
use ledger::Ledger;
use search::Seek;
pub use search::contains;

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    Flow(FlowId),
    /// The totals of a group, by its place in [`FlowsState::groups`].
    Group(usize),
}

/// What the flow table remembers.
#[derive(Clone, Debug)]
pub struct FlowsState {
    pub columns: Choice,
    pub sort: Column,
    pub descending: bool,
    /// The selection is a flow, not a line: it stays through re-sorting, filtering and closing.
    pub selected: Option<FlowId>,
    /// The selection is the line of a group.
    pub selected_group: Option<GroupName>,
    /// First line shown.
    pub offset: usize,
    /// Lines of flows as last drawn.
    pub page: usize,
    /// As last drawn.
    pub lines: Vec<Line>,
    pub groups: Groups,
    pub grouping: Grouping,
    pub folded: HashSet<GroupName>,
    pub filter: Option<Filter>,
    pub search: String,
    /// The search found nothing.
    pub not_found: bool,
    /// Several keys may come between two frames.
    seek: Vec<Seek>,
    pub chooser: Option<Chooser>,
    pub census: Census,
    /// Flows shown that are not closed.
    pub open: usize,
    /// The view keeps to the selection; a wheel lets it go.
    following: bool,
    /// What is known of each flow from the frame before.
    ledger: Ledger,
    /// The table's place as last drawn, and its columns.
    pub area: Rect,
    pub placed: Vec<Placed>,
}

impl Default for FlowsState {
    fn default() -> Self {
        Self {
            columns: Choice::default(),
            sort: Column::Throughput,
            descending: true,
            selected: None,
            selected_group: None,
            offset: 0,
            page: 10,
            lines: Vec::new(),
            groups: Groups::default(),
            grouping: Grouping::None,
            folded: HashSet::new(),
            filter: None,
            search: String::new(),
            not_found: false,
            seek: Vec::new(),
            chooser: None,
            census: Census::default(),
            open: 0,
            following: true,
            ledger: Ledger::default(),
            area: Rect::default(),
            placed: Vec::new(),
        }
    }
}

/// Keys and mouse.
impl FlowsState {
    /// Which part of the table is in view in `area`, `page` lines of it.
    pub fn scroll(&mut self, area: Rect, page: usize) {
        self.area = area;
        self.placed = self.columns.placed(usize::from(area.width), self.sort);
        self.page = page.max(1);
        self.follow();
    }

    /// Line of the selection.
    fn line(&self) -> Option<usize> {
        self.lines.iter().position(|line| self.is_selected(*line))
    }

    pub fn is_selected(&self, line: Line) -> bool {
        match line {
            Line::Flow(id) => self.selected_group.is_none() && self.selected == Some(id),
            Line::Group(place) => {
                let selected = self.selected_group.as_ref();
                selected.is_some_and(|name| self.groups.get(place).is_some_and(|g| g.name == *name))
            }
        }
    }

    /// Whether `flow` has a line.
    pub fn is_shown(&self, flow: FlowId) -> bool {
        self.lines.contains(&Line::Flow(flow))
    }

    /// The group whose line is selected.
    pub fn group(&self) -> Option<&Group> {
        self.groups.named(self.selected_group.as_ref()?)
    }

    fn follow(&mut self) {
        let last = self.lines.len().saturating_sub(self.page);
        if self.following
            && let Some(line) = self.line()
        {
            let first = (line + 1).saturating_sub(self.page);
            self.offset = self.offset.clamp(first, line);
        }
        self.offset = self.offset.min(last);
    }

    fn select(&mut self, line: usize) {
        match self.lines.get(line) {
            Some(Line::Flow(id)) => {
                self.selected = Some(*id);
                self.selected_group = None;
            }
            Some(Line::Group(place)) => {
                self.selected = None;
                self.selected_group = self.groups.get(*place).map(|g| g.name.clone());
            }
            None => {
                self.selected = None;
                self.selected_group = None;
            }
        }
        self.following = true;
        self.follow();
    }

    /// Gives a selection back.
    pub fn reselect(&mut self, flow: Option<FlowId>) {
        self.selected = flow;
        self.selected_group = None;
        self.following = true;
    }

    pub fn update(&mut self, action: Action) {
        if let Some(mut chooser) = self.chooser.take() {
            let seen: Vec<Column> = self.placed.iter().map(|p| p.column).collect();
            match chooser.update(action, &mut self.columns, &seen) {
                Chosen::Close => return,
                Chosen::SortBy(column) => self.sort_by(column),
                Chosen::Nothing => {}
            }
            self.chooser = Some(chooser);
            return;
        }
        match action {
            Action::SortLeft => self.sort_by(self.columns.beside(self.sort, -1)),
            Action::SortRight => self.sort_by(self.columns.beside(self.sort, 1)),
            Action::Invert => self.descending = !self.descending,
            Action::Columns => self.chooser = Some(Chooser::default()),
            Action::NextMatch => self.look_for(Seek::Next),
            Action::PreviousMatch => self.look_for(Seek::Previous),
            Action::Group => self.group_by(self.grouping.next()),
            Action::Fold => self.fold(),
            Action::FoldAll => self.fold_all(),
            action => {
                if let Some(to) = movement(action, self.page) {
                    self.step(to);
                }
            }
        }
    }

    fn look_for(&mut self, seek: Seek) {
        // What is typed anew takes the place of what was typed before.
        if seek == Seek::Here {
            self.seek.clear();
        }
        self.seek.push(seek);
    }

    /// Searches from the selection on, as one types.
    pub fn search_for(&mut self, text: &str) {
        text.clone_into(&mut self.search);
        self.not_found = false;
        self.look_for(Seek::Here);
    }

    pub fn group_by(&mut self, grouping: Grouping) {
        self.grouping = grouping;
        self.selected_group = None;
        self.folded.clear();
        self.following = true;
    }

    /// Folds or unfolds the group that the selection is in.
    fn fold(&mut self) {
        let Some(line) = self.line() else {
            return;
        };
        let above = self.lines[..=line].iter().rev();
        let place = above.filter_map(|line| match line {
            Line::Group(place) => Some(*place),
            Line::Flow(_) => None,
        });
        let Some(name) = place
            .into_iter()
            .next()
            .and_then(|place| Some(self.groups.get(place)?.name.clone()))
        else {
            return;
        };
        if !self.folded.remove(&name) {
            self.folded.insert(name.clone());
        }
        self.selected = None;
        self.selected_group = Some(name);
    }

    /// Folds all groups, or unfolds them when all are folded.
    fn fold_all(&mut self) {
        let names = self.groups.iter().map(|group| group.name.clone());
        let names: HashSet<GroupName> = names.collect();
        if names.is_empty() {
            return;
        }
        if names.is_subset(&self.folded) {
            self.folded.clear();
        } else {
            self.folded = names;
            // A flow whose line went is not what the next key starts from.
            self.selected = None;
        }
    }

    fn step(&mut self, to: Move) {
        let line = match (to, self.line()) {
            (to, Some(line)) => to.from(line),
            (Move::To(line), None) => line,
            // Nothing selected yet: the first key selects what is at the top.
            (Move::By(_), None) => self.offset,
        };
        self.select(line.min(self.lines.len().saturating_sub(1)));
    }

    /// The next flow up or down, over the lines of groups.
    pub fn neighbour(&mut self, action: Action) {
        let before = self.selected;
        let mut line = self.line();
        loop {
            self.update(action);
            if self.selected.is_some() {
                return;
            }
            let now = self.line();
            if now == line {
                self.reselect(before);
                return;
            }
            line = now;
        }
    }

    fn sort_by(&mut self, column: Column) {
        self.sort = column;
        // Numbers are looked at from the top, names from A.
        self.descending = column.right();
    }

    /// Whether a line of the table is at this line of the screen.
    pub fn has_line(&self, y: u16) -> bool {
        let below = self
            .area
            .contains(ratatui::layout::Position::new(self.area.x, y))
            .then(|| usize::from(y - self.area.y));
        below.is_some_and(|y| y > 0 && self.offset + y - 1 < self.lines.len())
    }

    /// A click on the table: a heading sorts, a line is selected.
    pub fn click(&mut self, x: u16, y: u16) {
        if y < self.area.y || y >= self.area.bottom() {
            return;
        }
        let (x, y) = (
            usize::from(x.saturating_sub(self.area.x)),
            usize::from(y - self.area.y),
        );
        if y > 0 {
            let line = self.offset + y - 1;
            if line < self.lines.len() {
                self.select(line);
            }
            return;
        }
        let hit = self
            .placed
            .iter()
            .find(|p| (p.x..p.x + p.width).contains(&x));
        match hit.map(|p| p.column) {
            Some(column) if column == self.sort => self.descending = !self.descending,
            Some(column) => self.sort_by(column),
            None => {}
        }
    }

    /// The wheel moves the view; the selection stays where it is.
    pub fn wheel(&mut self, lines: isize) {
        self.following = false;
        self.offset = self.offset.saturating_add_signed(lines);
        self.follow();
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
            lines: order.into_iter().map(Line::Flow).collect(),
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
        state.lines.reverse();
        state.follow();
        assert_eq!((state.selected, state.offset), (Some(chosen), 0));
        // Gone: what is at the top is next.
        state.lines.retain(|line| *line != Line::Flow(chosen));
        state.update(Action::Up);
        assert_eq!(state.selected, Some(ids(40)[38]));
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

    #[test]
    fn a_wheel_leaves_the_selection_and_a_key_comes_back_to_it() {
        let mut state = with(ids(40));
        state.update(Action::Down);
        for _ in 0..3 {
            state.wheel(7);
        }
        assert_eq!((state.offset, state.selected), (21, Some(ids(40)[0])));
        state.wheel(100);
        assert_eq!(state.offset, 30, "not beyond the end");
        state.update(Action::Down);
        assert_eq!((state.offset, state.selected), (1, Some(ids(40)[1])));
    }

    #[test]
    fn a_click_hits_what_is_under_it() {
        let mut state = with(ids(40));
        state.scroll(Rect::new(0, 4, 80, 11), 10);
        state.offset = 3;
        state.click(10, 4 + 1);
        assert_eq!(state.selected, Some(ids(40)[3]));
        state.click(10, 4 + 10);
        assert_eq!(state.selected, Some(ids(40)[12]));
        state.click(10, 4 + 11);
        state.click(10, 3);
        assert_eq!(state.selected, Some(ids(40)[12]), "outside");
        let at = |column| {
            let placed = Choice::default().placed(80, Column::Throughput);
            let place = placed.iter().find(|p| p.column == column).expect("seen");
            u16::try_from(place.x + 1).expect("narrow")
        };
        state.click(at(Column::Cwnd), 4);
        assert_eq!((state.sort, state.descending), (Column::Cwnd, true));
        state.click(at(Column::Cwnd), 4);
        assert!(!state.descending);
        state.click(at(Column::Remote), 4);
        assert_eq!((state.sort, state.descending), (Column::Remote, false));
    }
}
