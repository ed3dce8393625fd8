//! The help page, made from the key table and the columns.

use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use crate::tui::keys::{BINDINGS, Context};

/// Its lines; the screen shows as many as there is room for.
pub fn lines() -> Vec<Line<'static>> {
    let strong = Style::new().add_modifier(Modifier::BOLD);
    let mut lines = vec![Line::styled("Keys", strong)];
    for binding in BINDINGS {
        let keys: Vec<String> = binding.keys.iter().map(|key| key.text()).collect();
        let place = match binding.context {
            Context::Help => " (here)",
            Context::Anywhere | Context::Flows => "",
        };
        lines.push(Line::raw(format!(
            "  {:<16} {}{place}",
            keys.join(" "),
            binding.help
        )));
    }
    lines.push(Line::styled("Marks", strong));
    lines.push(Line::raw(
        "  — unknown   ∞ unlimited   0 zero   est estimated   closed: its last figures",
    ));
    lines.push(Line::raw(
        "  Throughput: newly acknowledged, per second.  Retr%: bytes sent again ÷ sent",
    ));
    lines.push(Line::raw(
        "  LOST: events that did not reach the screen; the figures may be behind.",
    ));
    lines
}
