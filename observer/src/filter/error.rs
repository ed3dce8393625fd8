//! A wrong filter: what is wrong, where, and what was meant.

use std::error::Error;
use std::fmt;
use std::ops::Range;

use unicode_width::UnicodeWidthStr as _;

use crate::units::escape;

/// Columns of the text shown before, under and after the place: a long filter is cut.
const BEFORE: usize = 40;
const MARKED: usize = 40;
const AFTER: usize = 30;

/// Its `Display` is several lines: the message, the text, a caret under the place, the suggestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// The words, joined.
    pub text: String,
    /// Byte of the text where the mistake begins.
    pub at: usize,
    /// Bytes of it; 0 = something is missing there.
    pub len: usize,
    /// One line, safe for a terminal.
    pub message: String,
    /// What was probably meant, one line, safe for a terminal.
    pub suggestion: Option<String>,
}

impl FilterError {
    pub(super) fn new(text: &str, span: Range<usize>, problem: Problem) -> Self {
        Self {
            text: text.to_owned(),
            at: span.start,
            len: span.len(),
            message: problem.message,
            suggestion: problem.suggestion,
        }
    }
}

/// A mistake whose place is still to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    message: String,
    suggestion: Option<String>,
}

impl Problem {
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            suggestion: None,
        }
    }

    pub fn hint(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }

    pub fn maybe(mut self, suggestion: Option<String>) -> Self {
        self.suggestion = suggestion;
        self
    }
}

/// A word of the user's within a message: escaped, and cut when long.
pub(super) fn shown(word: &str) -> String {
    let (text, whole) = head(word, MARKED);
    if whole { text } else { format!("{text}…") }
}

/// The first columns of `text`, escaped, and whether that is all of it.
fn head(text: &str, columns: usize) -> (String, bool) {
    let (mut out, mut width) = (String::new(), 0);
    for c in text.chars() {
        let piece = escape(c.encode_utf8(&mut [0; 4]));
        width += piece.width();
        if width > columns {
            return (out, false);
        }
        out.push_str(&piece);
    }
    (out, true)
}

/// The last columns of `text`, escaped, and whether that is all of it.
fn tail(text: &str, columns: usize) -> (String, bool) {
    let (mut pieces, mut width) = (Vec::new(), 0);
    let mut whole = true;
    for c in text.chars().rev() {
        let piece = escape(c.encode_utf8(&mut [0; 4]));
        width += piece.width();
        if width > columns {
            whole = false;
            break;
        }
        pieces.push(piece);
    }
    pieces.reverse();
    (pieces.concat(), whole)
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (left, rest) = self
            .text
            .split_at_checked(self.at)
            .unwrap_or((&self.text, ""));
        let (place, right) = rest.split_at_checked(self.len).unwrap_or((rest, ""));
        let (before, from_start) = tail(left, BEFORE);
        let (marked, all_marked) = head(place, MARKED);
        let (after, to_end) = head(right, if all_marked { AFTER } else { 0 });
        let lead = if from_start { "" } else { "…" };
        let trail = if all_marked && to_end { "" } else { "…" };
        writeln!(f, "{}", self.message)?;
        writeln!(f, "  {lead}{before}{marked}{after}{trail}")?;
        let indent = lead.width() + before.as_str().width();
        let carets = "^".repeat(marked.as_str().width().max(1));
        write!(f, "  {}{carets}", " ".repeat(indent))?;
        if let Some(suggestion) = &self.suggestion {
            write!(f, "\n  {suggestion}")?;
        }
        Ok(())
    }
}

impl Error for FilterError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str, span: Range<usize>) -> String {
        FilterError::new(text, span, Problem::new("wrong").hint("did you mean 'x'?")).to_string()
    }

    #[test]
    fn the_caret_stands_by_columns() {
        assert_eq!(
            error("漢 ab", 4..6),
            "wrong\n  漢 ab\n     ^^\n  did you mean 'x'?"
        );
        assert_eq!(
            error("\x1b[2J ab", 5..7),
            "wrong\n  \\u{1b}[2J ab\n            ^^\n  did you mean 'x'?"
        );
        assert_eq!(error("ab", 2..2), "wrong\n  ab\n    ^\n  did you mean 'x'?");
    }

    #[test]
    fn long_text_is_cut_around_the_place() {
        let text = format!("{} here {}", "a".repeat(1000), "b".repeat(1000));
        let lines: Vec<String> = error(&text, 1001..1005)
            .lines()
            .map(str::to_owned)
            .collect();
        assert!(lines[1].contains(" here ") && lines[1].width() < 120);
        let at = lines[2].find('^').expect("a caret");
        assert_eq!(
            lines[1].chars().skip(at).take(4).collect::<String>(),
            "here"
        );
        assert_eq!(lines[2].matches('^').count(), 4);
    }

    #[test]
    fn a_place_outside_the_text_does_no_harm() {
        assert!(error("é", 1..9).contains("wrong"));
    }
}
