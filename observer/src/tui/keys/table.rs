//! The table of keys, of htop, less and vim: dispatch, footer, help page and `docs/KEYS.md` all read it.

use crossterm::event::KeyCode;

use super::Key::{Char, Code, Ctrl};
use super::{Action, Binding, Context, Key};
use crate::tui::page::Page;

use Context::Anywhere;
const FLOWS: Context = Context::On(Page::Flows);

/// All keys.
pub const BINDINGS: &[Binding] = &[
    row(Anywhere, Action::Quit, "quit")
        .on(&[Char('q'), Code(KeyCode::F(10)), Ctrl('c')], "quit")
        .footer("quit"),
    row(Anywhere, Action::Go(Page::Help), "help")
        .on(&[Char('?'), Char('h'), Code(KeyCode::F(1))], "this page")
        .footer("help"),
    row(Anywhere, Action::Back, "back").on(
        &[Code(KeyCode::Esc), Code(KeyCode::Backspace)],
        "back to where one was",
    ),
    row(Anywhere, Action::Go(Page::Flows), "flows").on(&[Char('1')], "the flows"),
    row(FLOWS, Action::SortLeft, "sort-left")
        .on(&[Char('<'), Code(KeyCode::Left)], "sort by column left")
        .footer("sort"),
    row(FLOWS, Action::SortRight, "sort-right")
        .on(
            &[Char('>'), Code(KeyCode::Right), Code(KeyCode::F(6))],
            "sort by column right",
        )
        .footer("sort"),
    row(FLOWS, Action::Invert, "invert")
        .on(&[Char('I')], "turn the order round")
        .footer("invert"),
    row(Anywhere, Action::Up, "up")
        .on(&[Code(KeyCode::Up), Char('k')], "one line up")
        .footer("move"),
    row(Anywhere, Action::Down, "down")
        .on(&[Code(KeyCode::Down), Char('j')], "one line down")
        .footer("move"),
    row(Anywhere, Action::PageUp, "page-up").on(&[Code(KeyCode::PageUp), Ctrl('b')], "one page up"),
    row(Anywhere, Action::PageDown, "page-down")
        .on(&[Code(KeyCode::PageDown), Ctrl('f')], "one page down"),
    row(Anywhere, Action::HalfUp, "half-up").on(&[Ctrl('u')], "half a page up"),
    row(Anywhere, Action::HalfDown, "half-down").on(&[Ctrl('d')], "half a page down"),
    row(Anywhere, Action::First, "first").on(&[Code(KeyCode::Home)], "to the first"),
    row(Anywhere, Action::Last, "last").on(&[Code(KeyCode::End), Char('G')], "to the last"),
    row(Anywhere, Action::Redraw, "redraw").on(&[Ctrl('l')], "draw anew"),
    row(Anywhere, Action::Suspend, "suspend").on(&[Ctrl('z')], "to the shell"),
];

const fn row(context: Context, action: Action, name: &'static str) -> Binding {
    Binding {
        context,
        action,
        name,
        keys: &[],
        help: "",
        footer: None,
    }
}

impl Binding {
    const fn on(self, keys: &'static [Key], help: &'static str) -> Self {
        Self { keys, help, ..self }
    }

    const fn footer(self, word: &'static str) -> Self {
        Self {
            footer: Some(word),
            ..self
        }
    }
}
