//! The selected flow: both ends in full and every figure that has no room in the table.

use ratatui::text::Line;
use unicode_width::UnicodeWidthStr as _;

use super::flows::flows_of;
use crate::model::Model;
use crate::tui::columns::{Choice, Row};
use crate::tui::format::{cell, cut, cut_address, pack};
use crate::tui::state::ViewState;

/// Between two figures.
const BETWEEN: &str = "  ";

/// Its lines; none where nothing is selected. Their number depends on the width alone, so that the table stays put.
pub fn lines(model: &Model, state: &ViewState, width: usize) -> Vec<Line<'static>> {
    if let Some(group) = state.flows.group() {
        let by = state.flows.grouping.as_str();
        let text = format!(
            "{by} {}: {}, folded and unfolded by -",
            group.name.0,
            flows_of(group)
        );
        return vec![Line::styled(cut(&text, width), state.theme.heading)];
    }
    let Some(flow) = state.flows.selected.and_then(|id| model.flow(id)) else {
        return Vec::new();
    };
    let row = Row::new(model, flow, state.theme.marker, &state.addresses);
    let (local, remote) = (
        state.addresses.text(flow.local()),
        state.addresses.text(flow.remote()),
    );
    let mut title = format!("{local} → {remote}");
    if title.width() > width {
        let each = width.saturating_sub(3) / 2;
        let (local, remote) = (cut_address(&local, each), cut_address(&remote, each));
        title = format!("{local} → {remote}");
    }
    if !state.flows.is_shown(flow.id()) {
        title += " (not in the table)";
    }
    let mut lines = vec![Line::styled(cut(&title, width), state.theme.heading)];
    let placed = state.flows.columns.placed(width, state.flows.sort);
    let figures = Choice::left_out(&placed).map(|column| {
        let text = column.cell(&row, column.width());
        let heading = column.heading();
        let place = heading.width() + 1 + column.width();
        cell(&format!("{heading} {}", text.trim_end()), place, false)
    });
    lines.extend(pack(figures, BETWEEN, width).into_iter().map(Line::raw));
    lines
}
