//! The line one types in, and under it what is wrong with what was typed.

use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use crate::tui::format::cut;
use crate::tui::moment::PLACES;
use crate::tui::state::ViewState;
use crate::tui::state::prompt::{Prompt, Purpose};

/// Its lines: two for a filter, so that nothing jumps when a mistake comes and goes.
pub fn lines(state: &ViewState, width: usize) -> Vec<Line<'static>> {
    let Some(prompt) = &state.prompt else {
        return Vec::new();
    };
    let label = match prompt.purpose {
        Purpose::Search => "Search: ",
        Purpose::Filter => "Filter: ",
        Purpose::Time => "Go to: ",
    };
    let (left, right) = prompt.sides();
    // The cursor stays in view: what does not fit goes at the left.
    let room = width.saturating_sub(label.len() + 2);
    let (shown, gone) = fitting(&left, room);
    let mut after = right.chars();
    let under = after.next().map_or(' '.to_string(), String::from);
    let after = cut(
        after.as_str(),
        room.saturating_sub(shown.width() + under.as_str().width()),
    );
    let mut line = Line::from(vec![
        Span::styled(label, state.theme.heading),
        Span::raw(shown),
        Span::styled(under, state.theme.cursor),
        Span::raw(after),
    ]);
    let quiet = state.theme.quiet;
    match prompt.purpose {
        Purpose::Search => {
            if state.flows.not_found {
                line.push_span(Span::styled("  nowhere", state.theme.warn));
            }
            vec![line]
        }
        Purpose::Time => {
            let note = match &state.notice {
                Some(told) => Line::styled(cut(told, width), state.theme.warn),
                None => Line::styled(cut(PLACES, width), quiet),
            };
            vec![line, note]
        }
        Purpose::Filter => {
            let note = match mistake(prompt, label.len(), gone) {
                Some(text) => Line::styled(cut(&text, width), state.theme.warn),
                None => Line::styled(
                    cut(
                        "as on the command line: dst 10.0.0.0/8 and cc bbr, dport = :443, comm nginx",
                        width,
                    ),
                    quiet,
                ),
            };
            vec![line, note]
        }
    }
}

/// A caret under the place, and the message beside it, or before it where there is more room.
fn mistake(prompt: &Prompt, label: usize, gone: usize) -> Option<String> {
    let error = prompt.error.as_ref()?;
    let (at, len) = prompt.caret()?;
    let message = match &error.suggestion {
        Some(suggestion) => format!("{}; {suggestion}", error.message),
        None => error.message.clone(),
    };
    let at = (label + at).saturating_sub(gone);
    let before = message.width() + 1;
    Some(if before <= at {
        format!("{}{message} {}", " ".repeat(at - before), "^".repeat(len))
    } else {
        format!("{}{} {message}", " ".repeat(at), "^".repeat(len))
    })
}

/// The end of `text` that fits, and how many columns of it are gone.
fn fitting(text: &str, width: usize) -> (String, usize) {
    let mut rest = text;
    while rest.width() > width {
        let mut chars = rest.chars();
        if chars.next().is_none() {
            break;
        }
        rest = chars.as_str();
    }
    (rest.to_owned(), text.width() - rest.width())
}
