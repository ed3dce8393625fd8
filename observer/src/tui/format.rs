//! Cells: text cut and padded by display columns, so that nothing leaves its place.

use unicode_width::UnicodeWidthStr as _;

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
    if width == 0 {
        return out;
    }
    for c in text.chars() {
        out.push(c);
        // Of the whole, not of its characters: a variation selector widens the one before.
        if out.width() >= width {
            out.pop();
            break;
        }
    }
    out.push(CUT);
    out
}

/// An address in at most `width` columns: the middle goes, network and port stay.
pub fn cut_address(text: &str, width: usize) -> String {
    // Digits, letters, colons, brackets: a column each.
    if text.len() <= width || !text.is_ascii() {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let (head, tail) = (kept / 2, kept - kept / 2);
    format!("{}{CUT}{}", &text[..head], &text[text.len() - tail..])
}

/// Parts put one after another with `between`, in as few lines of `width` columns as take them; a part that is wider
/// than a line is cut.
pub fn pack(parts: impl IntoIterator<Item = String>, between: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.width() + between.width() + part.width() <= width => {
                line.push_str(between);
                line.push_str(&part);
            }
            _ => lines.push(cut(&part, width)),
        }
    }
    lines
}

/// Text in lines of `width` columns, broken between words.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    pack(text.split_whitespace().map(str::to_owned), " ", width)
}

/// The first two names and how many more there are: `bbr, reno +2`.
pub fn names<'a>(all: impl IntoIterator<Item = &'a str>) -> String {
    let all: Vec<String> = all.into_iter().map(escape).collect();
    let (first, more) = all.split_at(all.len().min(2));
    let mut text = first.join(", ");
    if !more.is_empty() {
        text += " +";
        text += &more.len().to_string();
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cells_have_their_width_whatever_is_in_them() {
        for text in [
            "",
            "a",
            "漢字漢字漢字",
            "e\u{301}e\u{301}e\u{301}e\u{301}",
            "❤\u{fe0f}❤\u{fe0f}❤\u{fe0f}❤\u{fe0f}❤\u{fe0f}",
            "👩\u{200d}🔬👩\u{200d}🔬👩\u{200d}🔬",
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

    proptest! {
        #[test]
        fn any_text_fits_its_cell(text in ".{0,40}", width in 0_usize..30, right: bool) {
            let cell = cell(&text, width, right);
            prop_assert!(cell.width() <= width.max(1));
            prop_assert!(!cell.chars().any(char::is_control));
        }
    }

    #[test]
    fn numbers_stand_right() {
        assert_eq!(cell("42", 5, true), "   42");
        assert_eq!(cell("iperf3-server", 6, false), "iperf…");
    }

    #[test]
    fn an_address_keeps_network_and_port() {
        let long = "[2001:db8:1:2:3:4:5:6789]:65535";
        assert_eq!(cut_address(long, 21), "[2001:db8:…789]:65535");
        assert_eq!(cut_address("10.0.0.1:80", 21), "10.0.0.1:80");
        for width in 0..40 {
            assert!(cut_address(long, width).width() <= width.max(1));
        }
    }

    #[test]
    fn parts_share_lines_as_far_as_they_fit() {
        let parts = ["aaaa", "bbb", "cc", "dddddddddddd"].map(str::to_owned);
        assert_eq!(pack(parts, " · ", 10), ["aaaa · bbb", "cc", "ddddddddd…"]);
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(names(["bbr", "reno", "cubic", "dctcp"]), "bbr, reno +2");
    }
}
