//! The file of a matrix: TOML with the words of `observer lab run`.

use std::collections::BTreeSet;

use serde::Deserialize;
use toml::{Table, Value};

use super::{Cell, Matrix, NO_QDISC, NO_SETTINGS, Wrong};
use crate::lab::namespaces::sysctl_path;

/// More runs than these are a slip of the pen.
const RUNS: usize = 10_000;
/// What a path may have beside flags of `lab run`: which cells it is crossed with, and what it is an example of.
const OWN_LISTS: [&str; 3] = ["cc", "qdisc", "flows"];
/// Kept as labels `truth.…` of its recordings.
const TRUTHS: [&str; 3] = ["cause", "class", "limit"];
/// Flags of `lab run` that the matrix gives by itself.
const TAKEN: [&str; 9] = [
    "cc", "qdisc", "flows", "time", "omit", "seed", "label", "output", "watch",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: Option<String>,
    #[serde(default = "three")]
    repetitions: u32,
    #[serde(default = "twenty_seconds")]
    time: String,
    #[serde(default = "no_time")]
    omit: String,
    #[serde(default = "one")]
    seed: u64,
    cc: Vec<String>,
    #[serde(default = "no_qdisc")]
    qdisc: Vec<String>,
    #[serde(default = "one_flow")]
    flows: Vec<u16>,
    #[serde(default)]
    sysctl: Vec<Table>,
    path: Vec<Table>,
}

fn three() -> u32 {
    3
}

fn twenty_seconds() -> String {
    "20s".to_owned()
}

fn no_time() -> String {
    "0s".to_owned()
}

fn one() -> u64 {
    1
}

fn no_qdisc() -> Vec<String> {
    vec![NO_QDISC.to_owned()]
}

fn one_flow() -> Vec<u16> {
    vec![1]
}

/// A path of the file: its flags, and what it is crossed with.
struct Path {
    name: String,
    arguments: Vec<String>,
    cc: Vec<String>,
    qdisc: Vec<String>,
    flows: Vec<u16>,
}

impl Matrix {
    pub fn read(name: &str, text: &str) -> Result<Self, Wrong> {
        let file: File =
            toml::from_str(text).map_err(|error| Wrong(error.to_string().trim().to_owned()))?;
        let settings = file
            .sysctl
            .iter()
            .map(settings)
            .collect::<Result<Vec<_>, _>>()?;
        let settings = if settings.is_empty() {
            vec![(NO_SETTINGS.to_owned(), Vec::new())]
        } else {
            settings
        };
        let mut cells = Vec::new();
        for table in &file.path {
            let path = path(&file, table)?;
            for (sysctl, values) in &settings {
                for qdisc in &path.qdisc {
                    for flows in &path.flows {
                        for cc in &path.cc {
                            let arguments = path.arguments.iter().chain(values).cloned();
                            cells.push(Cell {
                                path: path.name.clone(),
                                cc: cc.clone(),
                                qdisc: qdisc.clone(),
                                sysctl: sysctl.clone(),
                                flows: *flows,
                                arguments: arguments.collect(),
                            });
                        }
                    }
                }
            }
        }
        let runs = cells.len().saturating_mul(file.repetitions as usize);
        if runs == 0 || runs > RUNS {
            return Err(Wrong(format!(
                "it comes to {runs} runs: 1 to {RUNS} are possible"
            )));
        }
        let mut stems = BTreeSet::new();
        if let Some(twice) = cells.iter().find(|cell| !stems.insert(cell.stem())) {
            return Err(Wrong(format!(
                "'{}' is there twice: names must differ",
                twice.title()
            )));
        }
        Ok(Self {
            name: name.to_owned(),
            about: file.about,
            repetitions: file.repetitions,
            time: file.time,
            omit: file.omit,
            seed: file.seed,
            cells,
        })
    }
}

fn named(table: &Table, what: &str) -> Result<String, Wrong> {
    match table.get("name") {
        Some(Value::String(name)) if !name.is_empty() => Ok(name.clone()),
        _ => Err(Wrong(format!(
            "a [[{what}]] has no name: write name = \"…\""
        ))),
    }
}

/// `[[sysctl]]`: a name, and settings of the network.
fn settings(table: &Table) -> Result<(String, Vec<String>), Wrong> {
    let name = named(table, "sysctl")?;
    let mut arguments = Vec::new();
    for (key, value) in table.iter().filter(|(key, _)| *key != "name") {
        sysctl_path(key).map_err(|why| Wrong(format!("sysctl '{name}': {why}")))?;
        let value = word(value)
            .ok_or_else(|| Wrong(format!("sysctl '{name}': {key} is no text and no number")))?;
        arguments.extend(["--sysctl".to_owned(), format!("{key}={value}")]);
    }
    Ok((name, arguments))
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

/// `[[path]]`: a name, and flags of `observer lab run` without their dashes; `true` where a flag takes no value.
fn path(file: &File, table: &Table) -> Result<Path, Wrong> {
    let name = named(table, "path")?;
    let wrong = |key: &str, why: &str| Wrong(format!("path '{name}': {key} {why}"));
    let mut arguments = Vec::new();
    for (key, value) in table {
        if key == "name" || OWN_LISTS.contains(&key.as_str()) {
            continue;
        }
        if TRUTHS.contains(&key.as_str()) {
            let value = word(value).ok_or_else(|| wrong(key, "is no text"))?;
            arguments.extend(["--label".to_owned(), format!("truth.{key}={value}")]);
            continue;
        }
        let flag = key.replace('_', "-");
        if TAKEN.contains(&flag.as_str()) {
            return Err(wrong(key, "belongs to the head of the file, not to a path"));
        }
        match value {
            Value::Boolean(true) => arguments.push(format!("--{flag}")),
            Value::Boolean(false) => {}
            Value::Array(values) => {
                for value in values {
                    let value = word(value).ok_or_else(|| wrong(key, "is no list of texts"))?;
                    arguments.extend([format!("--{flag}"), value]);
                }
            }
            value => {
                let value =
                    word(value).ok_or_else(|| wrong(key, "is no text, number, list or true"))?;
                arguments.extend([format!("--{flag}"), value]);
            }
        }
    }
    let words = |key: &str, otherwise: &[String]| match table.get(key) {
        None => Ok(otherwise.to_vec()),
        Some(Value::Array(values)) => {
            let words = values.iter().map(|value| value.as_str().map(str::to_owned));
            words
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| wrong(key, "is no list of texts"))
        }
        Some(_) => Err(wrong(key, "is no list: write [\"…\"]")),
    };
    let flows = match table.get("flows") {
        None => file.flows.clone(),
        Some(Value::Array(values)) => {
            let numbers = values
                .iter()
                .map(|value| value.as_integer().and_then(|n| u16::try_from(n).ok()));
            numbers
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| wrong("flows", "is no list of numbers"))?
        }
        Some(_) => return Err(wrong("flows", "is no list: write [1]")),
    };
    Ok(Path {
        cc: words("cc", &file.cc)?,
        qdisc: words("qdisc", &file.qdisc)?,
        flows,
        arguments,
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_crossed_with_what() {
        let text = r#"
            about = "two paths"
            cc = ["cubic", "bbr"]
            qdisc = ["fq"]
            [[sysctl]]
            name = "small"
            "net.ipv4.tcp_wmem" = "4096 16384 262144"
            [[sysctl]]
            name = "large"
            [[path]]
            name = "a"
            cause = "app"
            app_rate = "6mbit"
            ecn = true
            flows = [1, 8]
            [[path]]
            name = "b"
            cc = ["reno"]
            cross = 2
        "#;
        let matrix = Matrix::read("m", text).unwrap();
        assert_eq!((matrix.repetitions, matrix.time.as_str()), (3, "20s"));
        assert_eq!(matrix.cells.len(), 2 * 2 * 2 + 2);
        let first = &matrix.cells[0];
        assert_eq!(first.title(), "a cubic fq small");
        assert_eq!(
            first.arguments.join(" "),
            "--app-rate 6mbit --label truth.cause=app --ecn --sysctl net.ipv4.tcp_wmem=4096 16384 262144"
        );
        let last = matrix.cells.last().unwrap();
        assert_eq!((last.cc.as_str(), last.sysctl.as_str()), ("reno", "large"));
        assert_eq!(last.arguments, ["--cross", "2"]);
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        let told = |text: &str| Matrix::read("m", text).unwrap_err().to_string();
        let path = "cc = [\"cubic\"]\n[[path]]\nname = \"a\"\n";
        for (text, said) in [
            ("", "missing field"),
            ("cc = []\n[[path]]\nname = \"a\"", "0 runs"),
            ("cc = [\"cubic\"]\npath = []", "0 runs"),
            (
                "cc = [\"cubic\"]\n[[path]]\nrate = \"1mbit\"",
                "has no name",
            ),
            (
                "cc = [\"cubic\"]\nspeed = 1\n[[path]]\nname = \"a\"",
                "unknown field",
            ),
            (&format!("{path}[[path]]\nname = \"a\""), "twice"),
            (&format!("{path}time = \"3s\""), "head of the file"),
            (&format!("{path}rtt = {{}}"), "no text"),
            (&format!("{path}flows = 3"), "no list"),
            (&format!("{path}flows = [-1]"), "no list of numbers"),
            (
                &format!("{path}[[sysctl]]\nname = \"x\"\n\"vm.swappiness\" = 1"),
                "no setting of a network namespace",
            ),
            (
                "repetitions = 100000\ncc = [\"cubic\"]\n[[path]]\nname = \"a\"",
                "100000 runs",
            ),
        ] {
            assert!(told(text).contains(said), "{text}: {}", told(text));
        }
    }
}
