//! What is drawn, a page or a panel a file. Reads model and state, changes nothing.

pub mod chooser;
pub mod detail;
pub mod events;
pub mod flow;
pub mod flows;
pub mod header;
pub mod help;
pub mod host;
pub mod prompt;
pub mod qdiscs;
pub mod timeline;
pub mod why;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Widget as _};

use crate::model::Model;
use crate::tui::layout::Band;
use crate::tui::page::Page;
use crate::tui::state::ViewState;

/// The page in its place.
pub fn page(model: &Model, state: &ViewState, area: Rect, buffer: &mut Buffer) {
    match state.page() {
        Page::Flows => flows::render(model, state, area, buffer),
        Page::Flow => flow::render(model, state, area, buffer),
        Page::Qdiscs => qdiscs::render(model, state, area, buffer),
        Page::Host => host::render(model, state, area, buffer),
        Page::Why => why::render(model, state, area, buffer),
        Page::Events => events::render(model, state, area, buffer),
        Page::Help => help::render(model, state, area, buffer),
    }
}

/// The band's place within `area`, as far as it is there.
pub fn rect(area: Rect, band: Band) -> Rect {
    let clamp = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let top = area.y.saturating_add(clamp(band.at));
    Rect::new(area.x, top, area.width, clamp(band.height)).intersection(area)
}

/// Lines of text, cut at the edges.
pub fn put(lines: Vec<Line<'_>>, area: Rect, buffer: &mut Buffer) {
    Paragraph::new(lines).render(area, buffer);
}
