//! The keys: what they are called, what they ask for, and what a person may put in their place.

mod table;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

pub use table::BINDINGS;

use super::page::Page;
use super::transport::Direction;
use crate::model::{EntryKind, MarkKind};

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Quit,
    Redraw,
    Suspend,
    /// To a page.
    Go(Page),
    /// To the page before.
    Back,
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
    /// Back in time, and forth.
    Earlier,
    Later,
    ZoomIn,
    ZoomOut,
    CursorLeft,
    CursorRight,
    /// The next chart, large.
    Enlarge,
    /// Looks for text in the table.
    Search,
    NextMatch,
    PreviousMatch,
    Filter,
    Group,
    Fold,
    FoldAll,
    /// Opens or closes the list of columns.
    Columns,
    Pause,
    /// Begins a recording, or ends it.
    Record,
    StepBack,
    StepForth,
    SkipBack,
    SkipForth,
    Slower,
    Faster,
    /// To the beginning of what there is to see, and to its end.
    Beginning,
    End,
    /// Asks for the moment to go to.
    GoTo,
    /// To the next moment of this kind, or the one before.
    Jump(Direction, MarkKind),
    /// Gives the mouse to the terminal, or takes it.
    Mouse,
    // Of the line one types in.
    Accept,
    Cancel,
    Erase,
    EraseWord,
    EraseAll,
    CursorStart,
    CursorEnd,
    // Of the list of columns.
    Toggle,
    ShiftUp,
    ShiftDown,
    SortByThis,
    Reset,
    /// What the line is about, on a page of its own.
    Open,
    /// Shows or hides what is of this kind.
    ToggleKind(EntryKind),
    AllKinds,
}

/// Where a key means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// On every page.
    Anywhere,
    /// On every page, too: through a recording, and back from what is live.
    Time,
    On(Page),
    /// In the line one types in: all other keys are text.
    Prompt,
    /// In the list of columns.
    Chooser,
}

impl Context {
    /// Where one can be.
    pub fn places() -> impl Iterator<Item = Self> {
        let pages = Page::ALL.into_iter().map(Self::On);
        pages.chain([Self::Chooser, Self::Prompt])
    }

    /// What the help page has a section of.
    pub fn sections() -> impl Iterator<Item = Self> {
        [Self::Anywhere, Self::Time]
            .into_iter()
            .chain(Self::places())
    }

    /// Whether a key of `row` means something here.
    pub fn takes(self, row: Self) -> bool {
        row == self || (row.is_of_every_page() && matches!(self, Self::On(_)))
    }

    fn is_of_every_page(self) -> bool {
        matches!(self, Self::Anywhere | Self::Time)
    }

    /// As the help page has it.
    pub fn title(self) -> String {
        match self {
            Self::Anywhere => "Keys".to_owned(),
            Self::Time => "Keys in time: of a recording, and back from what is live".to_owned(),
            Self::On(page) => format!("Keys on the page of {}", page.name()),
            Self::Prompt => "Keys while typing".to_owned(),
            Self::Chooser => "Keys in the list of columns".to_owned(),
        }
    }
}

/// A key as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Ctrl(char),
    Code(KeyCode),
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    pub context: Context,
    pub action: Action,
    /// What the config file calls the action.
    pub name: &'static str,
    /// The first is the one the footer names.
    pub keys: &'static [Key],
    pub help: &'static str,
    /// The word of the footer; neighbours with the same word share it.
    pub footer: Option<&'static str>,
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

    /// A key by the name that the help page has for it; one character is itself.
    pub fn named(name: &str) -> Option<Self> {
        let mut chars = name.chars();
        if let (Some(c), None) = (chars.next(), chars.next()) {
            return Some(Self::Char(c));
        }
        let all = BINDINGS.iter().flat_map(|binding| binding.keys);
        all.copied().find(|key| key.text() == name)
    }

    /// As the help page writes it.
    pub fn text(self) -> String {
        match self {
            Self::Char(' ') => "Space".to_owned(),
            Self::Char(c) => c.to_string(),
            Self::Ctrl(c) => format!("Ctrl-{}", c.to_ascii_uppercase()),
            Self::Code(KeyCode::F(n)) => format!("F{n}"),
            Self::Code(KeyCode::Up) => "↑".to_owned(),
            Self::Code(KeyCode::Down) => "↓".to_owned(),
            Self::Code(KeyCode::Left) => "←".to_owned(),
            Self::Code(KeyCode::Right) => "→".to_owned(),
            Self::Code(KeyCode::Backspace) => "BkSp".to_owned(),
            Self::Code(KeyCode::PageUp) => "PgUp".to_owned(),
            Self::Code(KeyCode::PageDown) => "PgDn".to_owned(),
            Self::Code(code) => format!("{code:?}"),
        }
    }
}

impl Key {
    /// As the config file writes it: a character, `Ctrl-x`, `F5`, `Enter`, `↑` or `Up`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut chars = text.chars();
        if let (Some(c), None) = (chars.next(), chars.next()) {
            let arrow = match c {
                '↑' => KeyCode::Up,
                '↓' => KeyCode::Down,
                '←' => KeyCode::Left,
                '→' => KeyCode::Right,
                c => return (!c.is_control()).then_some(Self::Char(c)),
            };
            return Some(Self::Code(arrow));
        }
        let lower = text.to_ascii_lowercase();
        if let Some(rest) = lower.strip_prefix("ctrl-") {
            let mut chars = rest.chars();
            return match (chars.next(), chars.next()) {
                (Some(c), None) if c.is_ascii_graphic() => Some(Self::Ctrl(c)),
                _ => None,
            };
        }
        if let Some(number) = lower.strip_prefix('f') {
            let number = number.parse().ok()?;
            return (1..=24)
                .contains(&number)
                .then_some(Self::Code(KeyCode::F(number)));
        }
        Some(Self::Code(match lower.as_str() {
            "space" => return Some(Self::Char(' ')),
            "enter" => KeyCode::Enter,
            "esc" => KeyCode::Esc,
            "tab" => KeyCode::Tab,
            "backtab" => KeyCode::BackTab,
            "bksp" | "backspace" => KeyCode::Backspace,
            "up" => KeyCode::Up,
            "down" => KeyCode::Down,
            "left" => KeyCode::Left,
            "right" => KeyCode::Right,
            "pgup" | "pageup" => KeyCode::PageUp,
            "pgdn" | "pagedown" => KeyCode::PageDown,
            "home" => KeyCode::Home,
            "end" => KeyCode::End,
            "insert" => KeyCode::Insert,
            "delete" => KeyCode::Delete,
            _ => return None,
        }))
    }
}

/// A row of the table with the keys in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub binding: Binding,
    pub keys: Vec<Key>,
}

/// The keys in force: the table's, or a person's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Keymap {
    rows: Vec<Row>,
}

impl Default for Keymap {
    fn default() -> Self {
        let row = |binding: &Binding| Row {
            binding: *binding,
            keys: binding.keys.to_vec(),
        };
        Self {
            rows: BINDINGS.iter().map(row).collect(),
        }
    }
}

impl Keymap {
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Gives the action of that name other keys, wherever it is. Plain characters stay text where one types.
    pub fn set(&mut self, name: &str, keys: &[Key]) {
        for row in self.rows.iter_mut().filter(|row| row.binding.name == name) {
            let typing = row.binding.context == Context::Prompt;
            let usable = keys
                .iter()
                .filter(|key| !(typing && matches!(key, Key::Char(_))));
            row.keys = usable.copied().collect();
        }
    }

    /// The key that the footer would name for `action` in `context`.
    pub fn key_of(&self, action: Action, context: Context) -> Option<Key> {
        let rows = self.rows.iter();
        let rows =
            rows.filter(|row| row.binding.action == action && context.takes(row.binding.context));
        // The place's own goes before one that works anywhere.
        let row = rows.min_by_key(|row| row.binding.context != context)?;
        row.keys.first().copied()
    }

    /// What `key` does in `context`.
    pub fn action(&self, key: Key, context: Context) -> Option<Action> {
        self.rows
            .iter()
            .find(|row| context.takes(row.binding.context) && row.keys.contains(&key))
            .map(|row| row.binding.action)
    }

    /// The keys that mean two things in one place.
    pub fn conflicts(&self) -> Vec<String> {
        let mut found = Vec::new();
        for context in Context::places() {
            let mut seen: Vec<(Key, &str)> = Vec::new();
            for row in &self.rows {
                if !context.takes(row.binding.context) {
                    continue;
                }
                for key in &row.keys {
                    if let Some((_, other)) = seen.iter().find(|(k, _)| k == key) {
                        let text = format!("{}: {other}, {}", key.text(), row.binding.name);
                        if !found.contains(&text) {
                            found.push(text);
                        }
                    }
                    seen.push((*key, row.binding.name));
                }
            }
        }
        found
    }

    /// What the last line says in `context`, keys and word: the way out and to the help, the place's own, what works anywhere.
    /// Of the keys that move in time pausing and stepping go before the place's own while one is `in_time`, the others
    /// behind them; else Space is all there is.
    pub fn footer(&self, context: Context, in_time: bool) -> Vec<(String, &'static str)> {
        let rank = |row: &Row| {
            let binding = &row.binding;
            let time = binding.context == Context::Time;
            Some(match binding.action {
                Action::Quit | Action::Go(Page::Help) if binding.context != context => 0,
                Action::Pause | Action::StepBack | Action::StepForth if in_time => 1,
                _ if binding.context == context => 2,
                _ if time && in_time => 3,
                _ if !time || binding.action == Action::Pause => 4,
                _ => return None,
            })
        };
        let rows = self.rows.iter();
        let rows = rows.filter(|row| context.takes(row.binding.context));
        let mut rows: Vec<(u8, &Row)> = rows.filter_map(|row| Some((rank(row)?, row))).collect();
        rows.sort_by_key(|(rank, _)| *rank);
        let mut words: Vec<(Vec<Key>, &'static str)> = Vec::new();
        for (_, row) in rows {
            let (Some(word), Some(key)) = (row.binding.footer, row.keys.first()) else {
                continue;
            };
            match words.last_mut() {
                Some((keys, last)) if *last == word => keys.push(*key),
                _ => words.push((vec![*key], word)),
            }
        }
        let words = words.into_iter();
        words.map(|(keys, word)| (together(&keys), word)).collect()
    }
}

/// Keys that share a word: `< >`; digits in a row as `1–5`.
fn together(keys: &[Key]) -> String {
    let follows = |pair: &[Key]| match pair {
        [Key::Char(a), Key::Char(b)] => {
            a.is_ascii_digit() && b.is_ascii_digit() && u32::from(*b) == u32::from(*a) + 1
        }
        _ => false,
    };
    match keys {
        [first, .., last] if keys.len() > 2 && keys.windows(2).all(follows) => {
            format!("{}–{}", first.text(), last.text())
        }
        _ => keys
            .iter()
            .map(|key| key.text())
            .collect::<Vec<_>>()
            .join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_means_two_things_in_one_place() {
        assert_eq!(Keymap::default().conflicts(), [""; 0]);
    }

    #[test]
    fn every_row_has_keys_a_name_and_words() {
        for row in BINDINGS {
            assert!(!row.keys.is_empty() && !row.help.is_empty());
            assert!(
                row.name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b"-0123456789".contains(&b))
            );
            let same = BINDINGS.iter().filter(|other| other.name == row.name);
            assert!(
                same.clone().all(|other| other.action == row.action),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn a_key_is_read_as_it_is_written() {
        for row in BINDINGS {
            for key in row.keys {
                assert_eq!(Key::parse(&key.text()), Some(*key), "{}", key.text());
            }
        }
        assert_eq!(Key::parse("ctrl-C"), Some(Key::Ctrl('c')));
        assert_eq!(Key::parse("Up"), Some(Key::Code(KeyCode::Up)));
        assert_eq!(Key::parse("é"), Some(Key::Char('é')));
        for wrong in [
            "", "Ctrl-", "Ctrl-ab", "F0", "F99", "Strg-x", "ab", "\u{1b}",
        ] {
            assert_eq!(Key::parse(wrong), None, "{wrong:?}");
        }
    }

    /// `docs/KEYS.md` says what the table says; `OBSERVER_WRITE_DOCS=1` writes it.
    #[test]
    fn the_docs_say_what_the_table_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/KEYS.md");
        let text = table::markdown();
        if std::env::var_os("OBSERVER_WRITE_DOCS").is_some() {
            std::fs::write(path, &text).expect("written");
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(
            kept, text,
            "OBSERVER_WRITE_DOCS=1 cargo test writes docs/KEYS.md anew"
        );
    }

    #[test]
    fn keys_are_told_by_context() {
        let keys = Keymap::default();
        let (flows, help) = (Context::On(Page::Flows), Context::On(Page::Help));
        assert_eq!(keys.action(Key::Char('j'), flows), Some(Action::Down));
        assert_eq!(keys.action(Key::Char('j'), help), Some(Action::Down));
        assert_eq!(keys.action(Key::Char('I'), help), None);
        assert_eq!(keys.action(Key::Ctrl('c'), help), Some(Action::Quit));
    }

    #[test]
    fn the_footer_names_what_works_here() {
        let keys = Keymap::default();
        let words = |page| {
            let parts = keys.footer(Context::On(page), false).into_iter();
            parts
                .map(|(keys, word)| format!("{keys} {word}"))
                .collect::<Vec<_>>()
        };
        let flows = words(Page::Flows);
        assert_eq!(flows[..2], ["q quit", "? help"]);
        assert!(flows.contains(&"< > sort".to_owned()), "{flows:?}");
        assert!(!words(Page::Help).contains(&"< > sort".to_owned()));
        assert!(flows.contains(&"1–5 pages".to_owned()), "{flows:?}");
    }

    #[test]
    fn in_time_the_footer_keeps_the_places_own_keys() {
        let parts = Keymap::default().footer(Context::On(Page::Flow), true);
        let words: Vec<&str> = parts.iter().map(|(_, word)| *word).collect();
        let expected = [
            "quit", "help", "pause", "step", "why", "zoom", "time", "cursor", "enlarge", "skip",
        ];
        assert_eq!(words[..expected.len()], expected);
    }

    #[test]
    fn digits_in_a_row_are_told_as_such() {
        let mut keys = Keymap::default();
        let pages = |keys: &Keymap| {
            let parts = keys.footer(Context::On(Page::Help), false);
            let part = parts.into_iter().find(|(_, word)| *word == "pages");
            part.expect("a word").0
        };
        assert_eq!(pages(&keys), "1–5");
        keys.set("host", &[Key::Char('H')]);
        assert_eq!(pages(&keys), "1 2 3 H 5");
    }
}
