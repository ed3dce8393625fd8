//! Cells: text cut and padded by display columns, so that nothing leaves its place.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::units::{UNKNOWN, escape};

/// What stands where text was cut.
const CUT: char = '…';

/// `text` in exactly `width` columns, its control characters escaped (TRAPS 30).
pub fn cell(text: &str, width: usize, right: bool) -> String {
    let text = cut(&escape(text), width);
    let pad = " ".repeat(width.saturating_sub(text.width()));
    if right { pad + &text } else { text + &pad }
}

/// An unknown value is `—`.
pub fn known(text: Option<String>) -> String {
    text.unwrap_or_else(|| UNKNOWN.to_owned())
}

/// At most `width` columns; what is cut ends in `…`.
pub fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let columns = c.width().unwrap_or(0);
        if used + columns + 1 > width {
            break;
        }
        used += columns;
        out.push(c);
    }
    if width > 0 {
        out.push(CUT);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_their_width_whatever_is_in_them() {
        for text in [
            "",
            "a",
            "漢字漢字漢字",
            "e\u{301}e\u{301}e\u{301}e\u{301}",
            "\x1b[2J\x07",
            &"x".repeat(200),
        ] {
            for width in 0..12 {
                let cell = cell(text, width, false);
                assert_eq!(cell.width(), width, "{text:?} in {width}: {cell:?}");
                assert!(!cell.contains('\x1b'));
            }
        }
    }

    #[test]
    fn numbers_stand_right() {
        assert_eq!(cell("42", 5, true), "   42");
        assert_eq!(cell("iperf3-server", 6, false), "iperf…");
    }
}
