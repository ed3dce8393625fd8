//! One screen as text, without a terminal: for documents and trials.

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::keys::Key;
use super::state::{Shows, ViewState};
use super::{draw, view};
use crate::event::Origin;
use crate::model::Model;

/// What is on the screen of `columns` × `lines` after `keys` were pressed; blanks at the ends of lines are left out.
/// `Err`: a key that means nothing there.
pub fn still(
    model: &Model,
    mut state: ViewState,
    origin: Option<Origin>,
    shows: &Shows,
    (columns, lines): (u16, u16),
    keys: &[Key],
) -> Result<String, Key> {
    let source = view::header::source_name(origin);
    // A backend in memory does not fail.
    let Ok(mut terminal) = Terminal::new(TestBackend::new(columns, lines));
    let mut frame = |state: &mut ViewState| {
        let Ok(_) = terminal.draw(|frame| {
            state.prepare(model, shows, frame.area());
            draw(model, state, source, frame);
        });
        terminal.backend().buffer().clone()
    };
    let mut buffer = frame(&mut state);
    for key in keys {
        if state.key(*key).is_none() {
            return Err(*key);
        }
        buffer = frame(&mut state);
    }
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let cells = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol());
        text.push_str(cells.collect::<String>().trim_end());
        text.push('\n');
    }
    Ok(text)
}
