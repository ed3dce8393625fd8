//! The page of all flows: the table, and the selected one in full.

use std::fmt::Write as _;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{chooser, detail, put as put_lines, rect};
use crate::event::TcpState;
use crate::model::Flow;
use crate::model::Model;
use crate::tui::columns::{CLOSED, Column, Placed, Row, SPIKE, UNSETTLED};
use crate::tui::format::{cell, cut, known, wrap};
use crate::tui::layout::FlowsLayout;
use crate::tui::state::ViewState;
use crate::tui::state::flows::{Line, contains};
use crate::tui::state::group::Group;
use crate::units;

/// What stands where, and the lines on what is selected.
pub fn plan(
    model: &Model,
    state: &ViewState,
    screen: usize,
    area: Rect,
) -> (FlowsLayout, Vec<ratatui::text::Line<'static>>) {
    let detail = detail::lines(model, state, usize::from(area.width));
    let layout = FlowsLayout::new(screen, usize::from(area.height), detail.len());
    (layout, detail)
}

/// The table, and what is selected under it.
pub fn render(model: &Model, state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let (layout, detail) = plan(model, state, usize::from(buffer.area.height), area);
    table(model, state, rect(area, layout.table), buffer);
    put_lines(detail, rect(area, layout.detail), buffer);
    if let Some(list) = state.flows.chooser {
        chooser::render(state, list, area, buffer);
    }
}

/// Heading and the flows in view. Every cell has its own place: text cannot push its neighbours.
fn table(model: &Model, state: &ViewState, area: Rect, buffer: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let flows = &state.flows;
    let table = Table {
        model,
        state,
        area,
        columns: flows.columns.placed(usize::from(area.width), flows.sort),
    };
    table.heading(buffer);
    if flows.lines.is_empty() {
        empty(model, state, area, buffer);
        return;
    }
    let visible = flows.lines.iter().skip(flows.offset);
    for (line, y) in visible.zip(area.top() + 1..area.bottom()) {
        match line {
            Line::Flow(id) => {
                // Between arranging and drawing nothing changes.
                if let Some(flow) = model.flow(*id) {
                    table.flow(flow, y, buffer);
                }
            }
            Line::Group(place) => {
                if let Some(group) = flows.groups.get(*place) {
                    table.group(group, y, buffer);
                }
            }
        }
        if flows.is_selected(*line) {
            let line = Rect::new(area.x, y, area.width, 1);
            buffer.set_style(line, state.theme.selected);
        }
    }
}

/// What lines are drawn with.
struct Table<'a> {
    model: &'a Model,
    state: &'a ViewState,
    area: Rect,
    columns: Vec<Placed>,
}

impl Table<'_> {
    /// The sort column carries its direction.
    fn heading(&self, buffer: &mut Buffer) {
        let (flows, theme) = (&self.state.flows, &self.state.theme);
        for placed in &self.columns {
            let mut text = placed.column.heading().to_owned();
            let mut style = theme.heading;
            if placed.column == flows.sort {
                text.push(if flows.descending { '▼' } else { '▲' });
                style = theme.sorted;
            }
            self.put(&text, placed, style, self.area.y, buffer);
        }
    }

    fn flow(&self, flow: &Flow, y: u16, buffer: &mut Buffer) {
        let theme = &self.state.theme;
        let row = Row::new(self.model, flow, theme.marker, &self.state.addresses);
        let base = if flow.is_closed() {
            theme.quiet
        } else {
            Style::new()
        };
        if self.columns.first().is_some_and(|first| first.x > 0) {
            let mark = match flow.state() {
                _ if flow.is_closed() => CLOSED,
                TcpState::Established => "",
                _ => UNSETTLED,
            };
            buffer.set_string(self.area.x, y, mark, Style::new());
        }
        for placed in &self.columns {
            let text = placed.column.cell(&row, placed.width);
            let mut style = base;
            if placed.column == Column::RetransRate && text.ends_with(SPIKE) {
                style = theme.warn;
            }
            if placed.column == Column::Verdict && !flow.is_closed() {
                let found = flow
                    .judgement()
                    .is_some_and(|j| j.verdict.class.is_finding());
                style = if found { theme.warn } else { theme.quiet };
            }
            // Text that is cut counts whole, as in the search itself.
            if contains(&text, &self.state.flows.search) {
                style = style.patch(theme.found);
            }
            self.put(&text, placed, style, y, buffer);
        }
    }

    /// Name and number of flows, then the sums each in its column.
    fn group(&self, group: &Group, y: u16, buffer: &mut Buffer) {
        let theme = &self.state.theme;
        let sums = self.columns.iter().filter_map(|placed| {
            let text = match placed.column {
                Column::Throughput => known(group.throughput_bps.map(units::rate)),
                Column::Inflight => known(group.inflight_bytes.map(units::size)),
                Column::RetransRate => {
                    format!("{} ", known(group.retrans_rate().map(units::percent)))
                }
                _ => return None,
            };
            Some((placed, text))
        });
        let sums: Vec<(&Placed, String)> = sums.collect();
        let (name, width) = (&group.name, usize::from(self.area.width));
        let folded = self.state.flows.folded.contains(name);
        let mut text = format!(
            "{} {}  {}",
            if folded { '+' } else { '-' },
            name.0,
            flows_of(group)
        );
        let room = sums
            .first()
            .map_or(width, |(placed, _)| placed.x.saturating_sub(1));
        text = cut(&text, room);
        let mut style = theme.group;
        if contains(&name.0, &self.state.flows.search) {
            style = style.patch(theme.found);
        }
        buffer.set_stringn(self.area.x, y, &text, room, style);
        for (placed, text) in sums {
            self.put(&text, placed, theme.group, y, buffer);
        }
    }

    fn put(&self, text: &str, placed: &Placed, style: Style, y: u16, buffer: &mut Buffer) {
        let text = cell(text, placed.width, placed.column.right());
        // `placed` was reckoned within the width of `area`.
        let x = self.area.x + placed.x as u16;
        buffer.set_stringn(x, y, text, placed.width, style);
    }
}

/// `3 flows`, `3 flows, 1 closed`.
pub fn flows_of(group: &Group) -> String {
    let mut text = match group.open {
        1 => "1 flow".to_owned(),
        more => format!("{more} flows"),
    };
    if group.closed > 0 {
        // Text has room for it.
        let _ = write!(text, ", {} closed", group.closed);
    }
    text
}

/// What is waited for.
fn empty(model: &Model, state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let open = model.open_flows();
    let mut text = if open > 0 && state.flows.filter.is_some() {
        format!("Flows here: {open}, none of them passes the filter (f changes it).")
    } else if open > 0 {
        format!("Flows here: {open}, none of them asked for (by filter, flags and states).")
    } else if model.events() == 0 {
        "Nothing was read yet: waiting for the first look at the sockets.".to_owned()
    } else {
        "No flows yet: waiting for a TCP connection.".to_owned()
    };
    if let Some(found) = model.elsewhere().filter(|found| found.flows > 0) {
        let flows = found.flows;
        let _ = write!(
            text,
            " {flows} flows are in other network namespaces: -N all shows them."
        );
    }
    let lines = wrap(&text, usize::from(area.width));
    for (line, y) in lines.iter().zip(area.top() + 2..area.bottom()) {
        buffer.set_stringn(area.x, y, line, usize::from(area.width), Style::new());
    }
}
