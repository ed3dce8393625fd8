//! The events page: what happened lately, newest last.
//!
//! ```text
//! b burst 3  p phase 120  o flow 40  d qdisc 1  x lost 0  n note 2  t attempt 0
//! Time         Kind    Flow                  What
//! 21:00:00.123 burst   10.0.0.2:5201         39 seg in 120 ms: fast 39; RTT 4.20 ms above min
//! 21:00:01.002 qdisc   eth0                  fq 8001: took the place of pfifo_fast 0:
//! ```

mod what;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::put;
use crate::event::NoteKind;
use crate::model::{Entry, EntryKind, Model, What};
use crate::tui::format::{cell, cut, cut_address, names, wrap};
use crate::tui::keys::{Action, Context, Key};
use crate::tui::moment;
use crate::tui::page::Page;
use crate::tui::state::ViewState;

const KIND: usize = 7;
/// From this width on flow and process have columns of their own.
const WITH_FLOW: usize = 70;
const FLOW: usize = 21;
/// From this width on the process is told.
const WITH_PROCESS: usize = 110;
const PROCESS: usize = 18;
/// From this width on an address is told whole, and both ends.
const WITH_ENDS: usize = 180;
const ENDS: usize = 48;
/// From this height on the selected entry is told in full below the others.
const DETAILED: usize = 12;
const DETAIL: usize = 3;
/// Lines above the entries: the kinds, the heading.
const HEAD: usize = 2;

/// Takes in where one is and how many are seen.
pub fn arrange(model: &Model, state: &mut ViewState, area: Rect) {
    // First what is selected, then what is told of it.
    state.events.scroll(room(&[], area));
    let detail = detail(model, state, area);
    state.events.scroll(room(&detail, area));
}

/// Entries in view.
fn room(detail: &[String], area: Rect) -> usize {
    usize::from(area.height).saturating_sub(HEAD + detail.len())
}

/// What the selected entry says, where a line has no room for it.
fn detail(model: &Model, state: &ViewState, area: Rect) -> Vec<String> {
    let entry = state
        .events
        .selected
        .and_then(|serial| model.journal_entry(serial));
    let Some(entry) = entry.filter(|_| usize::from(area.height) >= DETAILED) else {
        return Vec::new();
    };
    let mut text = String::new();
    if let Some(whose) = whose(model, state, entry, true) {
        text = format!("{whose}  ");
    }
    if entry.flow.is_some() {
        text = format!("{text}{}  ", process(model, entry));
    }
    let said = wrap(
        &format!("{text}{}", what::text(model, entry)),
        usize::from(area.width),
    );
    said.into_iter().take(DETAIL).collect()
}

pub fn render(model: &Model, state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    let mut lines = vec![kinds(state, width), heading(state, width)];
    if state.events.rows.is_empty() {
        let text = empty(state);
        lines.extend(wrap(text, width).into_iter().map(Line::raw));
    }
    let detail = detail(model, state, area);
    let rows = state.events.rows.iter().skip(state.events.offset);
    for (serial, _) in rows.take(room(&detail, area)) {
        // Between arranging and drawing nothing is forgotten.
        let Some(entry) = model.journal_entry(*serial) else {
            continue;
        };
        let selected = state.events.selected == Some(*serial);
        lines.push(line(model, state, entry, width, selected));
    }
    put(lines, area, buffer);
    let height = u16::try_from(detail.len()).unwrap_or(u16::MAX);
    let below = Rect {
        y: area.bottom().saturating_sub(height),
        height,
        ..area
    };
    let style = state.theme.heading;
    let detail = detail.into_iter().map(|text| Line::styled(text, style));
    put(detail.collect(), below.intersection(area), buffer);
}

fn empty(state: &ViewState) -> &'static str {
    if state.events.counts.is_empty() {
        "Nothing happened yet: retransmit bursts, phase changes, flows that open and close, changes of qdiscs, losses and \
         notes come here."
    } else {
        "All that happened is of kinds that are hidden, or of flows that were not asked for."
    }
}

/// The kinds with their keys and numbers; hidden ones in brackets.
fn kinds(state: &ViewState, width: usize) -> Line<'static> {
    let context = Context::On(Page::Events);
    let mut line = Line::default();
    let mut left = width;
    for kind in EntryKind::ALL {
        let count = state.events.counts.get(&kind).copied().unwrap_or(0);
        let hidden = state.events.hidden.contains(&kind);
        let text = if hidden {
            format!(" ({} {count})  ", kind.as_str())
        } else {
            format!(" {} {count}  ", kind.as_str())
        };
        let key = state.keys.key_of(Action::ToggleKind(kind), context);
        let key = key.map(Key::text).unwrap_or_default();
        let needs = key.width() + text.width();
        if needs > left + 2 {
            break;
        }
        left = left.saturating_sub(needs);
        let style = if hidden {
            state.theme.quiet
        } else {
            Style::new()
        };
        line.push_span(Span::styled(key, state.theme.key));
        line.push_span(Span::styled(text, style));
    }
    line
}

fn heading(state: &ViewState, width: usize) -> Line<'static> {
    let mut text = format!(
        "{} {}",
        cell("Time", moment::WIDTH, false),
        cell("Kind", KIND, false)
    );
    if width >= WITH_ENDS {
        text = format!("{text} {}", cell("Flow", ENDS, false));
    } else if width >= WITH_FLOW {
        text = format!("{text} {}", cell("Flow", FLOW, false));
    }
    if width >= WITH_PROCESS {
        text = format!("{text} {}", cell("Process", PROCESS, false));
    }
    text.push_str(" What");
    if let Some(filter) = &state.flows.filter {
        text = format!("{text} (of flows: {filter})");
    }
    Line::styled(cut(&text, width), state.theme.heading)
}

fn line(
    model: &Model,
    state: &ViewState,
    entry: &Entry,
    width: usize,
    selected: bool,
) -> Line<'static> {
    let kind = entry.what.kind();
    let mut text = format!(
        "{} {} ",
        cell(&state.wall.text(entry.time), moment::WIDTH, false),
        cell(kind.as_str(), KIND, false)
    );
    let whose = whose(model, state, entry, width >= WITH_ENDS);
    let column = match width {
        WITH_ENDS.. => ENDS,
        WITH_FLOW.. => FLOW,
        _ => 0,
    };
    if column > 0 {
        let whose = whose.as_deref().unwrap_or_default();
        text = format!(
            "{text}{} ",
            cell(&cut_address(whose, column), column, false)
        );
        if width >= WITH_PROCESS {
            text = format!("{text}{} ", cell(&process(model, entry), PROCESS, false));
        }
    } else if let Some(whose) = whose {
        text = format!("{text}{whose} ");
    }
    let said = what::text(model, entry);
    let text = cut(&format!("{text}{said}"), width);
    let style = if selected {
        state.theme.selected
    } else {
        style(state, entry)
    };
    // The whole line is marked, not its text alone.
    let pad = if selected {
        width.saturating_sub(text.width())
    } else {
        0
    };
    Line::styled(text + &" ".repeat(pad), style)
}

/// The flow or the device.
fn whose(model: &Model, state: &ViewState, entry: &Entry, ends: bool) -> Option<String> {
    if let Some(id) = entry.flow {
        return Some(match model.flow_told(id) {
            Some(flow) if ends => format!(
                "{} → {}",
                state.addresses.text(flow.local()),
                state.addresses.text(flow.remote())
            ),
            Some(flow) => state.addresses.text(flow.remote()),
            None => format!("socket {id}"),
        });
    }
    what::device(entry)
}

fn process(model: &Model, entry: &Entry) -> String {
    let flow = entry.flow.and_then(|id| model.flow_told(id));
    let owners = flow
        .and_then(crate::model::Flow::owners)
        .unwrap_or_default();
    names(owners.iter().map(|process| process.comm.as_str()))
}

fn style(state: &ViewState, entry: &Entry) -> Style {
    match (&entry.what, entry.what.kind()) {
        (_, EntryKind::Lost) => state.theme.alarm,
        (What::Note(note), _) if note.kind == NoteKind::Degraded => state.theme.warn,
        (_, EntryKind::Burst | EntryKind::Qdisc) => state.theme.warn,
        (_, EntryKind::Phase) => state.theme.quiet,
        _ => Style::new(),
    }
}

/// Whether the newest are followed, for the last line of the screen.
pub fn place(state: &ViewState) -> Option<String> {
    match state.events.line() {
        None if state.events.rows.is_empty() => None,
        None => Some("following".to_owned()),
        Some(line) => Some(format!("{} of {}", line + 1, state.events.rows.len())),
    }
}
