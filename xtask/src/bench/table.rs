//! The table of all benchmarks' figures: as text, and as JSON for whoever compares runs.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

/// One figure, or why there is none.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    bench: &'static str,
    figure: Value,
}

impl Row {
    pub fn failed(bench: &'static str, why: &str) -> Self {
        Self {
            bench,
            figure: json!({ "what": "(the benchmark failed)", "skipped": why }),
        }
    }

    fn word(&self) -> &'static str {
        if self.figure["skipped"].is_string() {
            return "skipped";
        }
        match self.figure["reached"].as_bool() {
            Some(true) => "reached",
            Some(false) => "MISSED",
            None => "",
        }
    }

    /// `12.3 %, at most 30`.
    fn measured(&self) -> String {
        if let Some(why) = self.figure["skipped"].as_str() {
            return why.to_owned();
        }
        let unit = self.figure["unit"].as_str().unwrap_or("");
        let number = |key: &str| self.figure[key].as_f64().map(number);
        let mut text = number("measured").unwrap_or_else(|| "—".to_owned());
        if !unit.is_empty() {
            text.push(' ');
            text.push_str(unit);
        }
        for (key, words) in [("most", "at most"), ("least", "at least")] {
            if let Some(limit) = number(key) {
                let _ = write!(text, ", {words} {limit}");
            }
        }
        text
    }
}

/// What a benchmark wrote of its figures; what is no such line is left out.
pub fn read(bench: &'static str, file: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .map(|figure| Row { bench, figure })
        .collect()
}

/// Three significant digits at least; whole numbers from a thousand on.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

pub fn text(rows: &[Row]) -> String {
    let what = |row: &Row| row.figure["what"].as_str().unwrap_or("").to_owned();
    let width = rows.iter().map(|row| what(row).chars().count()).max();
    let width = width.unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let _ = writeln!(
            text,
            "{:<8} {:<8} {:<width$}  {}",
            row.word(),
            row.bench,
            what(row),
            row.measured()
        );
    }
    let count = |word: &str| rows.iter().filter(|row| row.word() == word).count();
    let _ = writeln!(
        text,
        "{} reached, {} missed, {} skipped",
        count("reached"),
        count("MISSED"),
        count("skipped")
    );
    text
}

pub fn json(rows: &[Row]) -> String {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            let mut figure = row.figure.clone();
            figure["bench"] = row.bench.into();
            figure
        })
        .collect();
    let mut text = format!("{:#}", json!({ "schema": 1, "figures": rows }));
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |bench, figure| Row { bench, figure };
        vec![
            row(
                "fold",
                json!({ "what": "CPU", "measured": 12.34, "most": 30.0, "unit": "%", "reached": true }),
            ),
            row(
                "record",
                json!({ "what": "events/s", "measured": 1_500_000.4, "least": 2e6, "unit": "", "reached": false }),
            ),
            row(
                "peers",
                json!({ "what": "bpftrace", "skipped": "not installed" }),
            ),
            row(
                "peers",
                json!({ "what": "ss", "measured": 1.5, "unit": "%" }),
            ),
        ]
    }

    #[test]
    fn every_figure_has_its_line_and_its_verdict() {
        let text = text(&rows());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "reached  fold     CPU       12.3 %, at most 30.0");
        assert_eq!(
            lines[1],
            "MISSED   record   events/s  1500000, at least 2000000"
        );
        assert_eq!(lines[2], "skipped  peers    bpftrace  not installed");
        assert_eq!(lines[3], "         peers    ss        1.50 %");
        assert_eq!(lines[4], "1 reached, 1 missed, 1 skipped");
    }

    #[test]
    fn json_names_the_benchmark_of_each() {
        let value: Value = serde_json::from_str(&json(&rows())).unwrap();
        assert_eq!(value["figures"][1]["bench"], "record");
        assert_eq!(value["figures"][2]["skipped"], "not installed");
    }
}
