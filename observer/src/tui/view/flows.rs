//! The page of all flows: the table, and the selected one in full.

use std::fmt::Write as _;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{detail, put as put_lines, rect};
use crate::model::Model;
use crate::tui::columns::{CLOSED, Column, Placed, Row};
use crate::tui::format::{cell, wrap};
use crate::tui::layout::FlowsLayout;
use crate::tui::state::ViewState;

/// What stands where, and the lines on the selected flow.
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

/// The table, and the selected flow under it.
pub fn render(model: &Model, state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let (layout, detail) = plan(model, state, usize::from(buffer.area.height), area);
    table(model, state, rect(area, layout.table), buffer);
    put_lines(detail, rect(area, layout.detail), buffer);
}

/// Heading and the flows in view. Every cell has its own place: text cannot push its neighbours.
fn table(model: &Model, state: &ViewState, area: Rect, buffer: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let flows = &state.flows;
    let columns = Column::placed(usize::from(area.width), flows.sort);
    heading(state, &columns, area, buffer);
    if flows.order.is_empty() {
        empty(model, area, buffer);
        return;
    }
    let visible = flows.order.iter().skip(flows.offset);
    for (id, y) in visible.zip(area.top() + 1..area.bottom()) {
        // Between arranging and drawing nothing changes.
        let Some(flow) = model.flow(*id) else {
            continue;
        };
        let row = Row::new(model, flow);
        let mut style = Style::new();
        if flow.is_closed() {
            style = state.theme.quiet;
            if columns.first().is_some_and(|first| first.x > 0) {
                buffer.set_string(area.x, y, CLOSED, Style::new());
            }
        }
        for placed in &columns {
            let text = placed.column.cell(&row, placed.width);
            put(&text, placed, style, area, y, buffer);
        }
        if flows.selected == Some(*id) {
            let line = Rect::new(area.x, y, area.width, 1);
            buffer.set_style(line, state.theme.selected);
        }
    }
}

/// The sort column carries its direction.
fn heading(state: &ViewState, columns: &[Placed], area: Rect, buffer: &mut Buffer) {
    for placed in columns {
        let mut text = placed.column.heading().to_owned();
        let mut style = state.theme.heading;
        if placed.column == state.flows.sort {
            text.push(if state.flows.descending { '▼' } else { '▲' });
            style = state.theme.sorted;
        }
        put(&text, placed, style, area, area.y, buffer);
    }
}

fn put(text: &str, placed: &Placed, style: Style, area: Rect, y: u16, buffer: &mut Buffer) {
    let text = cell(text, placed.width, placed.column.right());
    // `placed` was reckoned within the width of `area`.
    let x = area.x + placed.x as u16;
    buffer.set_stringn(x, y, text, placed.width, style);
}

/// What is waited for.
fn empty(model: &Model, area: Rect, buffer: &mut Buffer) {
    let open = model.open_flows();
    let mut text = if open > 0 {
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
