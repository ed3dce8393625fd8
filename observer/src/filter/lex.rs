//! From text to words and signs, each with its place. Never fails: what is odd is the parser's to judge.

use std::ops::Range;

use winnow::combinator::{alt, delimited, opt, preceded, repeat};
use winnow::prelude::*;
use winnow::stream::LocatingSlice;
use winnow::token::{none_of, one_of, take_while};

use super::expr::Op;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub kind: Kind,
    /// Bytes of the text.
    pub span: Range<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Open,
    Close,
    And,
    Or,
    Not,
    Op(Op),
    Word(Word),
}

/// A word with its quotes taken off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub text: String,
    /// Something in it was quoted or escaped: it is a value, never a keyword.
    pub quoted: bool,
    /// A quote was opened and not closed.
    pub unclosed: bool,
    /// Ends in a `*` that is not quoted.
    pub star: bool,
    /// A `*` that is not quoted stands before the end.
    pub inner_star: bool,
}

enum Piece<'t> {
    Plain(&'t str),
    Escaped(char),
    Quoted { text: String, closed: bool },
}

type Input<'t> = LocatingSlice<&'t str>;

pub(super) fn tokens(text: &str) -> Vec<Token> {
    let blank = || take_while(0.., char::is_whitespace);
    let token = delimited(blank(), alt((sign, word)).with_span(), blank());
    let mut tokens = repeat(0.., token.map(|(kind, span)| Token { kind, span }));
    let tokens: winnow::Result<Vec<Token>> = tokens.parse_next(&mut LocatingSlice::new(text));
    tokens.unwrap_or_default()
}

/// Ends a plain word.
fn is_special(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '(' | ')' | '=' | '<' | '>' | '!' | '&' | '|')
        || matches!(c, '"' | '\'' | '\\')
}

/// A sign; a backslash before it, left over from the shell, changes nothing.
fn sign(input: &mut Input<'_>) -> winnow::Result<Kind> {
    let joint = alt((
        '('.value(Kind::Open),
        ')'.value(Kind::Close),
        alt(("&&", "&")).value(Kind::And),
        alt(("||", "|")).value(Kind::Or),
    ));
    let comparison = alt((
        "!=".value(Kind::Op(Op::Ne)),
        '!'.value(Kind::Not),
        alt(("==", "=")).value(Kind::Op(Op::Eq)),
        "<=".value(Kind::Op(Op::Le)),
        '<'.value(Kind::Op(Op::Lt)),
        ">=".value(Kind::Op(Op::Ge)),
        '>'.value(Kind::Op(Op::Gt)),
    ));
    let sign = alt((joint, comparison));
    preceded(opt('\\'), sign).parse_next(input)
}

fn word(input: &mut Input<'_>) -> winnow::Result<Kind> {
    let word: Word = repeat(1.., alt((plain, quoted, escaped)))
        .fold(Word::default, add)
        .parse_next(input)?;
    let reserved = if word.quoted {
        None
    } else {
        reserved(&word.text)
    };
    Ok(reserved.unwrap_or(Kind::Word(word)))
}

fn add(mut word: Word, piece: Piece<'_>) -> Word {
    word.inner_star |= word.star;
    word.star = false;
    match piece {
        Piece::Plain(text) => {
            let before = text.strip_suffix('*');
            word.star = before.is_some();
            word.inner_star |= before.unwrap_or(text).contains('*');
            word.text.push_str(text);
        }
        Piece::Escaped(c) => {
            word.quoted = true;
            word.text.push(c);
        }
        Piece::Quoted { text, closed } => {
            word.quoted = true;
            word.unclosed |= !closed;
            word.text.push_str(&text);
        }
    }
    word
}

fn plain<'t>(input: &mut Input<'t>) -> winnow::Result<Piece<'t>> {
    take_while(1.., |c| !is_special(c))
        .map(Piece::Plain)
        .parse_next(input)
}

/// A backslash keeps what is special from being so; before anything else (`getty\x2dtty1`) it is itself.
fn escaped<'t>(input: &mut Input<'t>) -> winnow::Result<Piece<'t>> {
    preceded('\\', opt(one_of(|c| is_special(c) || c == '*')))
        .map(|c| Piece::Escaped(c.unwrap_or('\\')))
        .parse_next(input)
}

fn quoted<'t>(input: &mut Input<'t>) -> winnow::Result<Piece<'t>> {
    let quote = one_of(['"', '\'']).parse_next(input)?;
    let inside = alt((preceded('\\', one_of(['"', '\'', '\\'])), none_of(quote)));
    let text = repeat(0.., inside)
        .fold(String::new, |mut text, c| {
            text.push(c);
            text
        })
        .parse_next(input)?;
    let closed = opt(quote).parse_next(input)?.is_some();
    Ok(Piece::Quoted { text, closed })
}

fn reserved(word: &str) -> Option<Kind> {
    Some(match word {
        "and" => Kind::And,
        "or" => Kind::Or,
        "not" => Kind::Not,
        "eq" => Kind::Op(Op::Eq),
        "ne" | "neq" => Kind::Op(Op::Ne),
        "lt" => Kind::Op(Op::Lt),
        "le" | "leq" => Kind::Op(Op::Le),
        "gt" => Kind::Op(Op::Gt),
        "ge" | "geq" => Kind::Op(Op::Ge),
        _ => return None,
    })
}

/// Read as this very word when written without quotes.
pub(super) fn is_plain_word(text: &str) -> bool {
    let odd = |c: char| is_special(c) || c == '*' || c.is_control();
    !text.is_empty() && !text.contains(odd) && reserved(text).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        tokens(text).into_iter().map(|t| t.kind).collect()
    }

    fn word(text: &str) -> Kind {
        Kind::Word(Word {
            text: text.to_owned(),
            ..Word::default()
        })
    }

    #[test]
    fn blanks_are_not_needed_beside_signs() {
        let close = kinds("(dport>=:443&&!sport!=:80)");
        let apart = kinds("( dport >= :443 && ! sport != :80 )");
        assert_eq!(close, apart);
        assert_eq!(close[0..3], [Kind::Open, word("dport"), Kind::Op(Op::Ge)]);
        assert_eq!(kinds(r"\( src \)"), kinds("( src )"));
    }

    #[test]
    fn quotes_and_backslashes_make_values() {
        let [Kind::Word(w)] = &kinds(r#""Web Content"*"#)[..] else {
            panic!("one word");
        };
        assert_eq!(w.text, "Web Content*");
        assert!(w.star && w.quoted && !w.inner_star && !w.unclosed);
        let [Kind::Word(w)] = &kinds(r"a\x2d\*b\ c")[..] else {
            panic!("one word");
        };
        assert_eq!(w.text, r"a\x2d*b c");
        assert!(!w.star && !w.inner_star);
        let [Kind::Word(w)] = &kinds("'open")[..] else {
            panic!("one word");
        };
        assert!(w.unclosed);
    }

    #[test]
    fn places_are_bytes_of_the_text() {
        let spans: Vec<_> = tokens("  é = x").into_iter().map(|t| t.span).collect();
        assert_eq!(spans, [2..4, 5..6, 7..8]);
    }
}
