//! The list one chooses columns from, over the table.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Widget as _};

use super::put;
use crate::tui::format::{cell, cut};
use crate::tui::state::ViewState;
use crate::tui::state::chooser::Chooser;

/// Columns of the list with its frame.
const WIDTH: u16 = 56;

/// Drawn at the right edge: the table's first columns stay in sight.
pub fn render(state: &ViewState, chooser: Chooser, area: Rect, buffer: &mut Buffer) {
    let order = state.flows.columns.order();
    let height = u16::try_from(order.len() + 2).unwrap_or(u16::MAX);
    let (width, height) = (WIDTH.min(area.width), height.min(area.height));
    let place = Rect::new(area.right() - width, area.y, width, height);
    let block = Block::bordered()
        .border_style(state.theme.axis)
        .title_style(state.theme.heading)
        .title(format!(" Columns {} of {} ", chooser.line + 1, order.len()));
    let inner = block.inner(place);
    Clear.render(place, buffer);
    block.render(place, buffer);
    let rows = usize::from(inner.height);
    let first = (chooser.line + 1).saturating_sub(rows);
    let lines = order.iter().enumerate().skip(first).take(rows);
    let lines = lines.map(|(place, column)| {
        let on = state.flows.columns.is_on(*column);
        let seen = state.flows.placed.iter().any(|p| p.column == *column);
        let (mark, note) = match (on, seen) {
            (true, true) => ('x', ""),
            (true, false) => ('-', "no room: "),
            (false, _) => (' ', ""),
        };
        let heading = cell(column.heading(), 10, false);
        let text = format!("[{mark}] {heading} {note}{}", column.meaning());
        let text = cell(
            &cut(&text, usize::from(inner.width)),
            usize::from(inner.width),
            false,
        );
        let style = match (place == chooser.line, seen) {
            (true, _) => state.theme.selected,
            (false, true) => ratatui::style::Style::new(),
            (false, false) => state.theme.quiet,
        };
        Line::styled(text, style)
    });
    put(lines.collect(), inner, buffer);
}
