//! The keys: one table that dispatch and the help page both read.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Quit,
    Help,
    Close,
    Redraw,
    Suspend,
    Up,
    Down,
    PageUp,
    PageDown,
    HalfUp,
    HalfDown,
    First,
    Last,
    SortLeft,
    SortRight,
    Invert,
}

/// Where a key means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    Anywhere,
    Flows,
    Help,
}

/// A key as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Ctrl(char),
    Code(KeyCode),
}

/// One row: keys, where, what, and the words of the help page.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    pub keys: &'static [Key],
    pub context: Context,
    pub action: Action,
    pub help: &'static str,
}

use Key::{Char, Code, Ctrl};

/// All keys; of htop, less and vim.
pub const BINDINGS: &[Binding] = &[
    bind(
        &[Char('q'), Code(KeyCode::F(10)), Ctrl('c')],
        Context::Anywhere,
        Action::Quit,
        "quit",
    ),
    bind(
        &[Char('?'), Char('h'), Code(KeyCode::F(1))],
        Context::Anywhere,
        Action::Help,
        "this page",
    ),
    bind(
        &[Code(KeyCode::Esc)],
        Context::Help,
        Action::Close,
        "back to the flows",
    ),
    bind(
        &[Char('k'), Code(KeyCode::Up)],
        Context::Anywhere,
        Action::Up,
        "one line up",
    ),
    bind(
        &[Char('j'), Code(KeyCode::Down)],
        Context::Anywhere,
        Action::Down,
        "one line down",
    ),
    bind(
        &[Code(KeyCode::PageUp), Ctrl('b')],
        Context::Anywhere,
        Action::PageUp,
        "one page up",
    ),
    bind(
        &[Code(KeyCode::PageDown), Ctrl('f')],
        Context::Anywhere,
        Action::PageDown,
        "one page down",
    ),
    bind(
        &[Ctrl('u')],
        Context::Anywhere,
        Action::HalfUp,
        "half a page up",
    ),
    bind(
        &[Ctrl('d')],
        Context::Anywhere,
        Action::HalfDown,
        "half a page down",
    ),
    bind(
        &[Char('g'), Code(KeyCode::Home)],
        Context::Anywhere,
        Action::First,
        "to the first",
    ),
    bind(
        &[Char('G'), Code(KeyCode::End)],
        Context::Anywhere,
        Action::Last,
        "to the last",
    ),
    bind(
        &[Char('<'), Code(KeyCode::Left)],
        Context::Flows,
        Action::SortLeft,
        "sort by column left",
    ),
    bind(
        &[Char('>'), Code(KeyCode::Right), Code(KeyCode::F(6))],
        Context::Flows,
        Action::SortRight,
        "sort by column right",
    ),
    bind(
        &[Char('I')],
        Context::Flows,
        Action::Invert,
        "turn the order round",
    ),
    bind(&[Ctrl('l')], Context::Anywhere, Action::Redraw, "draw anew"),
    bind(
        &[Ctrl('z')],
        Context::Anywhere,
        Action::Suspend,
        "to the shell",
    ),
];

const fn bind(
    keys: &'static [Key],
    context: Context,
    action: Action,
    help: &'static str,
) -> Binding {
    Binding {
        keys,
        context,
        action,
        help,
    }
}

impl Key {
    /// The key behind a terminal's event.
    pub fn of(event: KeyEvent) -> Self {
        match event.code {
            KeyCode::Char(c) if event.modifiers.contains(KeyModifiers::CONTROL) => {
                Self::Ctrl(c.to_ascii_lowercase())
            }
            KeyCode::Char(c) => Self::Char(c),
            code => Self::Code(code),
        }
    }

    /// As the help page writes it.
    pub fn text(self) -> String {
        match self {
            Self::Char(c) => c.to_string(),
            Self::Ctrl(c) => format!("Ctrl-{}", c.to_ascii_uppercase()),
            Self::Code(KeyCode::F(n)) => format!("F{n}"),
            Self::Code(KeyCode::Up) => "↑".to_owned(),
            Self::Code(KeyCode::Down) => "↓".to_owned(),
            Self::Code(KeyCode::Left) => "←".to_owned(),
            Self::Code(KeyCode::Right) => "→".to_owned(),
            Self::Code(KeyCode::PageUp) => "PgUp".to_owned(),
            Self::Code(KeyCode::PageDown) => "PgDn".to_owned(),
            Self::Code(code) => format!("{code:?}"),
        }
    }
}

/// What `key` does in `context`.
pub fn action(key: Key, context: Context) -> Option<Action> {
    BINDINGS
        .iter()
        .find(|binding| {
            (binding.context == Context::Anywhere || binding.context == context)
                && binding.keys.contains(&key)
        })
        .map(|binding| binding.action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_means_two_things_in_one_place() {
        for context in [Context::Flows, Context::Help] {
            let mut seen = Vec::new();
            for binding in BINDINGS {
                if binding.context != Context::Anywhere && binding.context != context {
                    continue;
                }
                for key in binding.keys {
                    assert!(!seen.contains(key), "{} twice", key.text());
                    seen.push(*key);
                }
            }
        }
    }

    #[test]
    fn keys_are_told_by_context() {
        assert_eq!(action(Key::Char('j'), Context::Flows), Some(Action::Down));
        assert_eq!(action(Key::Char('j'), Context::Help), Some(Action::Down));
        assert_eq!(action(Key::Char('I'), Context::Help), None);
        assert_eq!(action(Key::Code(KeyCode::Esc), Context::Flows), None);
        assert_eq!(action(Key::Ctrl('c'), Context::Help), Some(Action::Quit));
    }
}
