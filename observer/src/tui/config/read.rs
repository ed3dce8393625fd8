//! From the file's text to settings; what is wrong is told with its place.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Config;
use crate::filter::did_you_mean;
use crate::tui::columns::Column;
use crate::tui::keys::{BINDINGS, Key};
use crate::tui::state::group::Grouping;
use crate::tui::theme::{Marker, ThemeName};
use crate::units::escape;

/// The settings there are.
const SETTINGS: [&str; 8] = [
    "columns", "sort", "group", "refresh", "theme", "markers", "mouse", "keys",
];
/// Faster costs more than anybody sees; slower is not live any more.
const FASTEST: Duration = Duration::from_millis(50);
const SLOWEST: Duration = Duration::from_secs(10);

/// What is wrong, and where. Values of settings that are not ours are never told: the file may be another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// From 1.
    pub line: usize,
    pub column: usize,
    /// One line, safe for a terminal.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ConfigError {}

/// A mistake with its place in the text.
type Wrong = (Range<usize>, String);

pub(super) fn parse(text: &str) -> Result<Config, ConfigError> {
    let located = |(span, message): Wrong| {
        let before = text.get(..span.start).unwrap_or(text);
        let line = before.rsplit('\n').next().unwrap_or("");
        ConfigError {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            message: escape(&message),
        }
    };
    let table = DeTable::parse(text).map_err(|error| {
        let message = error.message().lines().collect::<Vec<_>>().join("; ");
        located((error.span().unwrap_or_default(), message))
    })?;
    read(table.get_ref()).map_err(located)
}

fn read(table: &DeTable) -> Result<Config, Wrong> {
    let mut config = Config::default();
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "columns" => {
                let names = list(value)?;
                let columns = names
                    .into_iter()
                    .map(column)
                    .collect::<Result<Vec<_>, _>>()?;
                if columns.is_empty() {
                    return Err(at(value, "name at least one column"));
                }
                config.columns = Some(columns);
            }
            "sort" => config.sort = Some(sort(value)?),
            "group" => config.group = Some(one_of(value, Grouping::ALL, Grouping::as_str)?),
            "refresh" => config.refresh = Some(refresh(value)?),
            "theme" => config.theme = Some(one_of(value, ThemeName::ALL, ThemeName::as_str)?),
            "markers" => config.markers = Some(one_of(value, Marker::ALL, Marker::as_str)?),
            "mouse" => match value.get_ref() {
                DeValue::Boolean(mouse) => config.mouse = Some(*mouse),
                _ => return Err(at(value, "true or false is wanted here")),
            },
            "keys" => keys(value, &mut config)?,
            other => return Err((key.span(), unknown("setting", other, SETTINGS))),
        }
    }
    Ok(config)
}

fn at<T>(value: &Spanned<T>, message: impl Into<String>) -> Wrong {
    (value.span(), message.into())
}

/// `there is no column 'rrt'; did you mean 'rtt'?`, or all there are.
fn unknown<'k>(what: &str, word: &str, known: impl IntoIterator<Item = &'k str> + Clone) -> String {
    let hint = did_you_mean(word, known.clone()).unwrap_or_else(|| {
        let all: Vec<&str> = known.into_iter().collect();
        format!("there are {}", all.join(", "))
    });
    format!("there is no {what} '{word}'; {hint}")
}

fn text<'t>(value: &'t Spanned<DeValue>) -> Result<&'t str, Wrong> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text),
        _ => Err(at(value, "a text in quotation marks is wanted here")),
    }
}

/// Texts, each with its place; a single one is a list of one.
fn list<'t>(value: &'t Spanned<DeValue<'t>>) -> Result<Vec<(&'t str, Range<usize>)>, Wrong> {
    let one = |value: &'t Spanned<DeValue<'t>>| Ok((text(value)?, value.span()));
    match value.get_ref() {
        DeValue::Array(all) => all.iter().map(one).collect(),
        DeValue::String(_) => Ok(vec![one(value)?]),
        _ => Err(at(value, "a list such as [\"a\", \"b\"] is wanted here")),
    }
}

fn one_of<T: Copy, const N: usize>(
    value: &Spanned<DeValue>,
    all: [T; N],
    name: fn(T) -> &'static str,
) -> Result<T, Wrong> {
    let word = text(value)?;
    all.into_iter()
        .find(|one| name(*one) == word)
        .ok_or_else(|| at(value, unknown("such choice as", word, all.map(name))))
}

fn column((name, span): (&str, Range<usize>)) -> Result<Column, Wrong> {
    Column::from_name(name)
        .ok_or_else(|| (span, unknown("column", name, Column::ALL.map(Column::name))))
}

/// `rtt`, `rtt ascending`, `rtt descending`.
fn sort(value: &Spanned<DeValue>) -> Result<(Column, bool), Wrong> {
    let said = text(value)?;
    let (name, order) = said.split_once(' ').unwrap_or((said, ""));
    let column = column((name, value.span()))?;
    let descending = match order.trim() {
        "" => column.right(),
        "ascending" => false,
        "descending" => true,
        other => {
            return Err(at(
                value,
                unknown("order", other, ["ascending", "descending"]),
            ));
        }
    };
    Ok((column, descending))
}

fn refresh(value: &Spanned<DeValue>) -> Result<Duration, Wrong> {
    let said = text(value)?;
    let wrong = || {
        at(
            value,
            format!("'{said}' is no duration: write \"250ms\" or \"1s\""),
        )
    };
    let digits = said.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u32 = digits.parse().map_err(|_| wrong())?;
    let duration = match &said[digits.len()..] {
        "ms" => Duration::from_millis(number.into()),
        "s" => Duration::from_secs(number.into()),
        _ => return Err(wrong()),
    };
    if (FASTEST..=SLOWEST).contains(&duration) {
        Ok(duration)
    } else {
        Err(at(value, "between \"50ms\" and \"10s\" is wanted here"))
    }
}

/// `[keys]`: action = its keys, in place of those of the table.
fn keys(value: &Spanned<DeValue>, config: &mut Config) -> Result<(), Wrong> {
    let DeValue::Table(table) = value.get_ref() else {
        return Err(at(value, "a table [keys] is wanted here: quit = [\"q\"]"));
    };
    for (name, value) in table {
        let action = name.get_ref().as_ref();
        if !BINDINGS.iter().any(|row| row.name == action) {
            let names = BINDINGS.iter().map(|row| row.name);
            return Err((name.span(), unknown("action", action, names)));
        }
        let mut found = Vec::new();
        for (key, span) in list(value)? {
            let wrong = || {
                let like = "write a character, or Ctrl-x, F5, Enter, Space, Up, PgDn";
                (span, format!("'{key}' is no key: {like}"))
            };
            found.push(Key::parse(key).ok_or_else(wrong)?);
        }
        if found.is_empty() && action == "quit" {
            return Err(at(value, "there has to be a key to quit with"));
        }
        config.override_keys(action, &found);
    }
    let conflicts = config.keys.as_ref().map(super::Keymap::conflicts);
    match conflicts.unwrap_or_default().first() {
        Some(conflict) => Err(at(
            value,
            format!("{conflict}: one key, two actions in one place; give one of them another"),
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        parse(text).expect_err("it is wrong").to_string()
    }

    #[test]
    fn a_mistake_is_told_with_its_place_and_what_was_meant() {
        assert_eq!(
            wrong("theme = \"dark\"\ncolums = []\n"),
            "2:1: there is no setting 'colums'; did you mean 'columns'?"
        );
        assert_eq!(
            wrong("columns = [\"remote\",\n  \"rrt\"]"),
            "2:3: there is no column 'rrt'; did you mean 'rtt'?"
        );
        assert_eq!(
            wrong("theme = \"drak\""),
            "1:9: there is no such choice as 'drak'; did you mean 'dark'?"
        );
        assert_eq!(
            wrong("[keys]\nqit = \"x\""),
            "2:1: there is no action 'qit'; did you mean 'quit'?"
        );
        assert!(wrong("[keys]\nquit = [\"Strg-x\"]").starts_with("2:9: 'Strg-x' is no key: write"));
        assert!(wrong("sort = \"rtt up\"").contains("ascending"));
        assert!(wrong("mouse = 1").contains("true or false"));
        assert!(wrong("columns = []").contains("at least one"));
        assert!(wrong("refresh = \"1\"").contains("250ms"));
        assert!(wrong("refresh = \"1ms\"").contains("50ms"));
        assert!(wrong("keys = 1").contains("[keys]"));
        assert!(wrong("[keys]\nquit = []").contains("quit"));
    }

    #[test]
    fn a_key_for_two_things_is_told() {
        let told = wrong("[keys]\npause = \"g\"\n");
        assert!(
            told.contains("g: ") && told.contains("pause") && told.contains("group"),
            "{told}"
        );
        assert!(parse("[keys]\npause = \"g\"\ngroup = \"Space\"\n").is_ok());
    }

    #[test]
    fn no_toml_is_told_on_one_line() {
        for text in [
            "theme = ",
            "= 1",
            "[keys",
            "a = \"\\q\"",
            "\u{0}",
            "theme = \"dark\"\ntheme = \"dark\"",
        ] {
            let told = wrong(text);
            assert!(told.starts_with(|c: char| c.is_ascii_digit()), "{told}");
            assert!(!told.contains('\n') && !told.contains('\u{0}'), "{told:?}");
        }
    }
}
