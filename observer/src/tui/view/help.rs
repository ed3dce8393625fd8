//! The help page, made from the key table and the columns.

use std::fmt::Write as _;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::put;
use crate::model::Model;
use crate::tui::columns::{CLOSED, Column, SPIKE, UNSETTLED};
use crate::tui::format::{cell, cut, pack, wrap};
use crate::tui::keys::{Context, Row};
use crate::tui::state::ViewState;
use crate::tui::widget::chart::BEYOND;
use crate::units::escape;

/// From this width on, two entries share a line.
const TWO: usize = 80;

/// The lines in view.
pub fn render(model: &Model, state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let lines = lines(model, state, usize::from(area.width));
    let seen = lines.into_iter().skip(state.help.offset);
    put(seen.take(usize::from(area.height)).collect(), area, buffer);
}

/// Which lines of how many are seen, where not all are; for the footer.
pub fn place(model: &Model, state: &ViewState, area: Rect) -> Option<String> {
    let total = lines(model, state, usize::from(area.width)).len();
    let page = usize::from(area.height);
    let (first, last) = (state.help.offset + 1, (state.help.offset + page).min(total));
    let mut text = String::new();
    write!(text, "lines {first}–{last} of {total}").ok()?;
    (page < total).then_some(text)
}

/// All its lines; the screen shows those there is room for.
pub fn lines(model: &Model, state: &ViewState, width: usize) -> Vec<Line<'static>> {
    let title = |text: String| Line::styled(text, state.theme.heading);
    let mut lines = Vec::new();
    for context in Context::sections() {
        let rows = state.keys.rows().iter();
        let rows: Vec<String> = rows
            .filter(|row| row.binding.context == context && !row.keys.is_empty())
            .map(entry)
            .collect();
        if !rows.is_empty() {
            lines.push(title(context.title()));
            lines.extend(beside(&rows, width));
        }
    }
    lines.push(title("Columns".to_owned()));
    let columns = Column::ALL.map(|c| format!("{} {}", cell(c.heading(), 10, false), c.meaning()));
    lines.extend(beside(&columns, width));
    lines.push(title("Marks".to_owned()));
    let closed = format!("{CLOSED} closed: its last figures");
    let settled = format!("{UNSETTLED} not ESTAB");
    let spike = format!("{SPIKE} spike: ≥ 1% and 3 times the usual");
    let beyond = format!("{BEYOND} in a chart: beyond its scale");
    let marks = [
        "— unknown",
        "∞ unlimited",
        "0 zero",
        "est estimated",
        &closed,
        &settled,
        &spike,
        "_ none",
        &beyond,
    ];
    let lost = "LOST: events that did not reach the screen; the figures may be behind.";
    let room = width.saturating_sub(1);
    let mut text = pack(marks.map(str::to_owned), "   ", room);
    text.extend(wrap(lost, room));
    lines.extend(text.into_iter().map(|line| Line::raw(format!(" {line}"))));
    let degraded = model.degraded();
    if !degraded.is_empty() {
        lines.push(title(format!("Limitations here: {}", degraded.len())));
    }
    for noted in degraded {
        let text = wrap(&escape(&noted.note.text), width.saturating_sub(3));
        for (n, line) in text.iter().enumerate() {
            let mark = if n == 0 { '-' } else { ' ' };
            lines.push(Line::raw(format!(" {mark} {line}")));
        }
    }
    lines
}

/// Keys and what they do.
fn entry(row: &Row) -> String {
    let keys: Vec<String> = row.keys.iter().map(|key| key.text()).collect();
    format!("{} {}", cell(&keys.join(" "), 13, false), row.binding.help)
}

/// Entries in as many columns as the width has room for, read downwards.
fn beside(entries: &[String], width: usize) -> Vec<Line<'static>> {
    let columns = if width < TWO { 1 } else { 2 };
    let each = width / columns;
    let height = entries.len().div_ceil(columns);
    (0..height)
        .map(|y| {
            let mut line = String::new();
            for entry in entries.iter().skip(y).step_by(height) {
                line.push(' ');
                line += &cell(entry, each.saturating_sub(1), false);
            }
            Line::raw(cut(line.trim_end(), width))
        })
        .collect()
}
