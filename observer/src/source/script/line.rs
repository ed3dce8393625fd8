//! The grammar of a line: time, word, flow, pairs, text.

use super::NETNS;
use super::values::{FromText, Unit, nanoseconds};
use crate::event::FlowId;
use crate::units::Mono;

/// One line taken apart. Who reads it takes its pairs; [`Line::finish`] complains of what is left.
#[derive(Debug)]
pub(super) struct Line {
    pub time: Mono,
    pub word: String,
    pub flow: Option<FlowId>,
    pairs: Vec<(String, String)>,
    words: Vec<String>,
}

impl Line {
    /// `None` for a blank or a comment. `now` is the time of the line before.
    pub fn parse(text: &str, now: Mono) -> Result<Option<Self>, String> {
        let mut tokens = tokens(text)?.into_iter().peekable();
        let mut time = now;
        if let Some(token) = tokens.next_if(|t| t.starts_with(['+', '@'])) {
            let after = nanoseconds(&token[1..])?;
            time = if token.starts_with('+') {
                now.plus(after)
            } else {
                Mono(after)
            };
        }
        let Some(word) = tokens.next() else {
            return if time == now {
                Ok(None)
            } else {
                Err("a time without an event".to_owned())
            };
        };
        let flow = tokens
            .next_if(|t| word != "owners" && is_flow(t) || word == "owners" && !t.contains('/'))
            .map(|t| flow(&t))
            .transpose()?;
        let mut line = Self {
            time,
            word,
            flow,
            pairs: Vec::new(),
            words: Vec::new(),
        };
        for token in tokens {
            match token.split_once('=') {
                Some((key, value)) if is_key(key) => {
                    line.pairs.push((key.to_owned(), value.to_owned()));
                }
                _ => line.words.push(token),
            }
        }
        Ok(Some(line))
    }

    /// The flow, where there must be one.
    pub fn flow(&self) -> Result<FlowId, String> {
        self.flow
            .ok_or_else(|| format!("{:?} needs a flow: COOKIE or COOKIE:NETNS", self.word))
    }

    /// Takes the value of `key`.
    pub fn take(&mut self, key: &str) -> Option<String> {
        let at = self.pairs.iter().position(|(k, _)| k == key)?;
        Some(self.pairs.remove(at).1)
    }

    /// Puts the value of `key` into `target`, if the line has it.
    pub fn set<T: FromText>(
        &mut self,
        key: &str,
        unit: Unit,
        target: &mut T,
    ) -> Result<(), String> {
        if let Some(text) = self.take(key) {
            *target = T::from_text(&text, unit)
                .map_err(|expected| format!("{key}={text}: expected {expected}"))?;
        }
        Ok(())
    }

    /// The value of `key`, or `default`.
    pub fn get<T: FromText>(&mut self, key: &str, unit: Unit, default: T) -> Result<T, String> {
        let mut value = default;
        self.set(key, unit, &mut value)?;
        Ok(value)
    }

    /// Takes the pairs that are left.
    pub fn rest(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.pairs)
    }

    /// Takes the words that are no pairs.
    pub fn words(&mut self) -> Vec<String> {
        std::mem::take(&mut self.words)
    }

    /// Nothing may be left.
    pub fn finish(&self) -> Result<(), String> {
        if let Some((key, _)) = self.pairs.first() {
            return Err(format!("{:?} has no key {key:?}", self.word));
        }
        match self.words.first() {
            Some(word) => Err(format!("{word:?} is no KEY=VALUE")),
            None => Ok(()),
        }
    }
}

fn is_key(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

fn is_flow(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == ':')
}

fn flow(text: &str) -> Result<FlowId, String> {
    let wrong = |_| format!("{text:?} is no flow: COOKIE or COOKIE:NETNS");
    let (cookie, netns) = match text.split_once(':') {
        Some((cookie, netns)) => (cookie, netns.parse().map_err(wrong)?),
        None => (text, NETNS),
    };
    Ok(FlowId {
        cookie: cookie.parse().map_err(wrong)?,
        netns,
    })
}

/// Splits at blanks outside quotes; `#` at the start of a token ends the line.
fn tokens(text: &str) -> Result<Vec<String>, String> {
    let mut tokens = Vec::new();
    let mut token: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '#' if token.is_none() => break,
            '"' => quoted(&mut chars, token.get_or_insert_default())?,
            c if c.is_whitespace() => tokens.extend(token.take()),
            c => token.get_or_insert_default().push(c),
        }
    }
    tokens.extend(token);
    Ok(tokens)
}

fn quoted(chars: &mut std::str::Chars<'_>, out: &mut String) -> Result<(), String> {
    loop {
        match chars.next().ok_or("a quote is not closed")? {
            '"' => return Ok(()),
            '\\' => out.push(escaped(chars)?),
            c => out.push(c),
        }
    }
}

fn escaped(chars: &mut std::str::Chars<'_>) -> Result<char, String> {
    match chars.next() {
        Some('n') => Ok('\n'),
        Some('t') => Ok('\t'),
        Some('e') => Ok('\u{1b}'),
        Some(c @ ('"' | '\\')) => Ok(c),
        Some('u') => {
            let hex: String = chars.by_ref().skip(1).take_while(|&c| c != '}').collect();
            u32::from_str_radix(&hex, 16)
                .ok()
                .and_then(char::from_u32)
                .ok_or_else(|| format!("\\u{{{hex}}} is no character"))
        }
        other => Err(format!("no such escape: \\{}", other.unwrap_or(' '))),
    }
}
