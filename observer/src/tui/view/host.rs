//! The host page: kernel, algorithms, settings that matter, what became of the programs' runs, limitations.

mod algorithms;
mod programs;
mod sysctls;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::put;
use crate::model::Model;
use crate::tui::format::{cut, pack, wrap};
use crate::tui::state::ViewState;
use crate::tui::theme::Theme;
use crate::units::{UNKNOWN, escape};

const BETWEEN: &str = "  ";

/// All its lines; the screen shows those there is room for.
pub fn lines(model: &Model, state: &ViewState, width: usize) -> Vec<Line<'static>> {
    let theme = &state.theme;
    let mut lines = host(model, theme, width);
    lines.extend(algorithms::lines(model, theme, width));
    lines.extend(sysctls::lines(model, theme, width));
    lines.extend(programs::lines(model, theme, width));
    lines.extend(limitations(model, theme, width));
    lines
}

/// Takes in how much there is to see and the room for it.
pub fn arrange(model: &Model, state: &mut ViewState, area: Rect) {
    let lines = lines(model, state, usize::from(area.width)).len();
    state.host.arrange(lines, usize::from(area.height));
}

pub fn render(model: &Model, state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let lines = lines(model, state, usize::from(area.width));
    let seen = lines.into_iter().skip(state.host.offset);
    put(seen.take(usize::from(area.height)).collect(), area, buffer);
}

/// Which lines are seen, where not all are.
pub fn place(model: &Model, state: &ViewState, area: Rect) -> Option<String> {
    let all = lines(model, state, usize::from(area.width)).len();
    let seen = usize::from(area.height).min(all.saturating_sub(state.host.offset));
    (seen < all).then(|| {
        let first = state.host.offset + 1;
        format!("lines {first}–{} of {all}", state.host.offset + seen)
    })
}

fn title(theme: &Theme, text: &str, width: usize) -> Line<'static> {
    Line::styled(cut(text, width), theme.heading)
}

fn host(model: &Model, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![title(theme, "Host", width)];
    let Some(host) = model.host() else {
        lines.push(Line::raw(cut(
            " Nothing was read yet: the host is read every second.",
            width,
        )));
        return lines;
    };
    let text = |value: &str| match value {
        "" => UNKNOWN.to_owned(),
        value => escape(value),
    };
    let number = |value: Option<u32>| value.map_or_else(|| UNKNOWN.to_owned(), |n| n.to_string());
    let default = |value: Option<&str>| escape(value.unwrap_or(UNKNOWN));
    let parts = [
        format!("name {}", text(&host.hostname)),
        format!("kernel {}", text(&host.kernel)),
        format!("CPUs {}", number(Some(host.cpus).filter(|&cpus| cpus > 0))),
        format!("HZ {}", number(host.hz)),
        format!("default qdisc {}", default(host.default_qdisc.as_deref())),
        format!("default cc {}", default(host.default_cc.as_deref())),
        format!("network namespace {}", host.netns),
    ];
    lines.extend(indented(parts, width));
    lines
}

/// Parts under a title, a column in.
fn indented(parts: impl IntoIterator<Item = String>, width: usize) -> Vec<Line<'static>> {
    let packed = pack(parts, BETWEEN, width.saturating_sub(1));
    packed
        .into_iter()
        .map(|line| Line::raw(cut(&format!(" {line}"), width)))
        .collect()
}

fn limitations(model: &Model, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let degraded = model.degraded();
    if degraded.is_empty() {
        return vec![title(theme, "Limitations here: none", width)];
    }
    let text = format!("Limitations here: {}", degraded.len());
    let mut lines = vec![title(theme, &text, width)];
    for noted in degraded {
        let text = wrap(&escape(&noted.note.text), width.saturating_sub(3));
        lines.extend(text.iter().enumerate().map(|(n, line)| {
            let mark = if n == 0 { '-' } else { ' ' };
            Line::raw(cut(&format!(" {mark} {line}"), width))
        }));
    }
    lines
}
