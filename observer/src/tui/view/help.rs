//! The help page, made from the key table and the columns.

use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use crate::model::Model;
use crate::tui::columns::{CLOSED, Column};
use crate::tui::format::{cell, cut, pack, wrap};
use crate::tui::keys::{BINDINGS, Context};
use crate::units::escape;

/// From this width on, two entries share a line.
const TWO: usize = 80;

/// All its lines; the screen shows those there is room for.
pub fn lines(model: &Model, width: usize) -> Vec<Line<'static>> {
    let title = |text: String| Line::styled(text, Style::new().add_modifier(Modifier::BOLD));
    let mut lines = vec![title("Keys".to_owned())];
    let keys = BINDINGS.iter().map(|binding| {
        let keys: Vec<String> = binding.keys.iter().map(|key| key.text()).collect();
        let place = match binding.context {
            Context::Help => " (here)",
            Context::Anywhere | Context::Flows => "",
        };
        let keys = cell(&keys.join(" "), 13, false);
        format!("{keys} {}{place}", binding.help)
    });
    lines.extend(beside(&keys.collect::<Vec<_>>(), width));
    lines.push(title("Columns".to_owned()));
    let columns = Column::ALL.map(|c| format!("{} {}", cell(c.heading(), 10, false), c.meaning()));
    lines.extend(beside(&columns, width));
    lines.push(title("Marks".to_owned()));
    let closed = format!("{CLOSED} closed: its last figures");
    let marks = [
        "— unknown",
        "∞ unlimited",
        "0 zero",
        "est estimated",
        &closed,
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
