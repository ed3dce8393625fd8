//! The flow table.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::quiet;
use crate::model::Model;
use crate::tui::columns::{Column, GAP, Row};
use crate::tui::format::cell;
use crate::tui::state::ViewState;

/// Heading and the flows in view.
pub fn lines(model: &Model, state: &ViewState, width: usize, height: usize) -> Vec<Line<'static>> {
    let columns = Column::fitting(width);
    let mut lines = vec![heading(state, &columns)];
    if state.order.is_empty() {
        lines.push(Line::raw(""));
        lines.push(Line::raw(
            "No flows yet: waiting for a TCP connection in the namespaces and the",
        ));
        lines.push(Line::raw(
            "filter asked for. -N all looks into every network namespace.",
        ));
        return lines;
    }
    let visible = state
        .order
        .iter()
        .skip(state.offset)
        .take(height.saturating_sub(1));
    for id in visible {
        // Between arranging and drawing nothing changes.
        let Some(flow) = model.flow(*id) else {
            continue;
        };
        let row = Row::new(model, flow);
        let text = columns
            .iter()
            .map(|column| cell(&column.cell(&row), column.width(), column.right()))
            .collect::<Vec<_>>()
            .join(&" ".repeat(GAP));
        let mut style = if flow.is_closed() {
            quiet(state.colour)
        } else {
            Style::new()
        };
        if state.selected == Some(*id) {
            style = style.add_modifier(Modifier::REVERSED);
        }
        lines.push(Line::styled(text, style));
    }
    lines
}

/// The sort column carries its direction.
fn heading(state: &ViewState, columns: &[Column]) -> Line<'static> {
    let mut spans = Vec::new();
    for column in columns {
        if !spans.is_empty() {
            spans.push(Span::raw(" ".repeat(GAP)));
        }
        let mut text = column.heading().to_owned();
        let mut style = Style::new().add_modifier(Modifier::BOLD);
        if *column == state.sort {
            text.push(if state.descending { '▼' } else { '▲' });
            style = style.add_modifier(Modifier::UNDERLINED);
        }
        spans.push(Span::styled(
            cell(&text, column.width(), column.right()),
            style,
        ));
    }
    if !columns.contains(&state.sort) {
        // Sorted by what there is no room for: said all the same.
        let arrow = if state.descending { '▼' } else { '▲' };
        spans.push(Span::raw(format!(" {}{arrow}", state.sort.heading())));
    }
    Line::from(spans)
}
