//! The line one types in: for a search, and for a filter.

use unicode_width::UnicodeWidthStr as _;

use super::Action;
use crate::event::FlowId;
use crate::filter::{Filter, FilterError};
use crate::units::escape;

/// More is not taken: nobody types it, and a paste may be anything.
const LONGEST: usize = 1000;

/// What the line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Search,
    Filter,
    /// The moment to go to.
    Time,
}

/// The line, with what is to come back when it is given up.
#[derive(Clone, Debug)]
pub struct Prompt {
    pub purpose: Purpose,
    pub text: String,
    /// Byte the next character goes to.
    cursor: usize,
    /// Why the filter typed so far cannot be used.
    pub error: Option<FilterError>,
    pub before: Before,
}

/// What was in force before the line was opened.
#[derive(Clone, Debug, Default)]
pub struct Before {
    pub search: String,
    pub filter: Option<Filter>,
    pub selected: Option<FlowId>,
}

impl Prompt {
    pub fn new(purpose: Purpose, text: String, before: Before) -> Self {
        let cursor = text.len();
        Self {
            purpose,
            text,
            cursor,
            error: None,
            before,
        }
    }

    pub fn type_in(&mut self, c: char) {
        if self.text.len() < LONGEST && !c.is_control() {
            self.text.insert(self.cursor, c);
            self.cursor += c.len_utf8();
        }
    }

    /// Editing. False when the action is none.
    pub fn edit(&mut self, action: Action) -> bool {
        match action {
            Action::Erase => {
                let from = self.before_cursor();
                self.text.drain(from..self.cursor);
                self.cursor = from;
            }
            Action::EraseWord => {
                let kept = self.text[..self.cursor].trim_end();
                let from = kept.rfind(char::is_whitespace).map_or(0, |at| at + 1);
                self.text.drain(from..self.cursor);
                self.cursor = from;
            }
            Action::EraseAll => {
                self.text.drain(..self.cursor);
                self.cursor = 0;
            }
            Action::CursorLeft => self.cursor = self.before_cursor(),
            Action::CursorRight => {
                let next = self.text[self.cursor..].chars().next();
                self.cursor += next.map_or(0, char::len_utf8);
            }
            Action::CursorStart => self.cursor = 0,
            Action::CursorEnd => self.cursor = self.text.len(),
            _ => return false,
        }
        true
    }

    fn before_cursor(&self) -> usize {
        let before = self.text[..self.cursor].chars().next_back();
        self.cursor - before.map_or(0, char::len_utf8)
    }

    /// What is left and right of the cursor, safe for a terminal.
    pub fn sides(&self) -> (String, String) {
        let (left, right) = self.text.split_at(self.cursor);
        (escape(left), escape(right))
    }

    /// Columns before the mistake, and columns of it, in the line as it is shown.
    pub fn caret(&self) -> Option<(usize, usize)> {
        let error = self.error.as_ref()?;
        let (before, rest) = self.text.split_at_checked(error.at)?;
        let wrong = rest.get(..error.len).unwrap_or(rest);
        let columns = |text: &str| escape(text).as_str().width();
        Some((columns(before), columns(wrong).max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(text: &str) -> Prompt {
        Prompt::new(Purpose::Filter, text.to_owned(), Before::default())
    }

    #[test]
    fn a_line_is_edited_as_in_a_shell() {
        let mut line = prompt("dst 漢é");
        line.edit(Action::CursorLeft);
        line.edit(Action::Erase);
        line.type_in('x');
        assert_eq!(line.text, "dst xé");
        assert_eq!(line.sides(), ("dst x".to_owned(), "é".to_owned()));
        line.edit(Action::CursorStart);
        line.edit(Action::Erase);
        line.edit(Action::CursorLeft);
        line.edit(Action::CursorEnd);
        line.edit(Action::CursorRight);
        line.edit(Action::EraseWord);
        assert_eq!(line.text, "dst ");
        line.edit(Action::EraseWord);
        assert_eq!(line.text, "");
        line.edit(Action::EraseWord);
        line.type_in('\x1b');
        assert_eq!(line.text, "");
        assert!(!line.edit(Action::Quit));
    }

    #[test]
    fn a_paste_without_end_ends() {
        let mut line = prompt("");
        for _ in 0..5000 {
            line.type_in('漢');
        }
        assert!(line.text.len() < LONGEST + 4);
    }
}
