//! What is drawn, a panel a file. Reads model and state, changes nothing.

pub mod detail;
pub mod flows;
pub mod header;
pub mod help;

use ratatui::style::{Modifier, Style};

/// For what a reader must not miss. The words say it too: meaning is never in colour alone.
pub fn alarm(colour: bool) -> Style {
    let style = Style::new().add_modifier(Modifier::BOLD | Modifier::REVERSED);
    if colour { style.red() } else { style }
}

/// For what stands back.
pub fn quiet(colour: bool) -> Style {
    if colour {
        Style::new().add_modifier(Modifier::DIM)
    } else {
        Style::new()
    }
}
