//! A comparison as data: JSON Lines and CSV.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::{Comparison, Group, METRICS};
use crate::export::jsonl::SCHEMA;
use crate::report::json::{FileLine, line};
use crate::units::escape;

#[derive(Serialize)]
struct Head<'a> {
    schema: u32,
    r#type: &'static str,
    by: &'a [String],
    baseline: Option<BTreeMap<&'a str, &'a str>>,
    insisted: &'a [String],
    notes: &'a [String],
}

#[derive(Serialize)]
struct GroupLine<'a> {
    schema: u32,
    r#type: &'static str,
    key: BTreeMap<&'a str, &'a str>,
    rank: Option<usize>,
    bottlenecks: BTreeMap<&'static str, usize>,
    runs: usize,
    files: Vec<&'a str>,
    figures: BTreeMap<&'static str, Option<Figures>>,
}

#[derive(Clone, Copy, Serialize)]
struct Figures {
    runs: usize,
    median: f64,
    min: f64,
    max: f64,
    spread: f64,
    difference: Option<f64>,
    /// Of the baseline's median.
    difference_share: Option<f64>,
}

fn figures(comparison: &Comparison<'_>, group: usize, metric: usize) -> Option<Figures> {
    let stat = comparison.groups[group].stats[metric]?;
    let difference = comparison.difference(group, metric);
    Some(Figures {
        runs: stat.runs,
        median: stat.median,
        min: stat.min,
        max: stat.max,
        spread: stat.spread(),
        difference: difference.map(|(difference, _)| difference),
        difference_share: difference.and_then(|(_, share)| share),
    })
}

/// A line of the files each, of what was asked, and of the groups in the order of their ranks.
pub fn json(
    out: &mut impl Write,
    files: &[crate::report::FileReport],
    comparison: &Comparison<'_>,
) -> io::Result<()> {
    for file in files {
        line(out, &FileLine::of(file))?;
    }
    let baseline = comparison.baseline.as_ref();
    line(
        out,
        &Head {
            schema: SCHEMA,
            r#type: "comparison",
            by: &comparison.by,
            baseline: baseline.map(|(key, value)| [(key.as_str(), value.as_str())].into()),
            insisted: &comparison.insisted,
            notes: &comparison.notes,
        },
    )?;
    for (at, group) in comparison.groups.iter().enumerate() {
        let key = comparison.by.iter().zip(&group.key);
        let all = METRICS.iter().enumerate();
        line(
            out,
            &GroupLine {
                schema: SCHEMA,
                r#type: "group",
                key: key
                    .map(|(key, value)| (key.as_str(), value.as_str()))
                    .collect(),
                rank: group.rank,
                bottlenecks: group.bottlenecks.iter().copied().collect(),
                runs: group.runs.len(),
                files: names(group),
                figures: all
                    .map(|(place, metric)| (metric.key, figures(comparison, at, place)))
                    .collect(),
            },
        )?;
    }
    Ok(())
}

fn names<'a>(group: &'a Group<'_>) -> Vec<&'a str> {
    let names = group.runs.iter().map(|run| run.file.given.name.as_str());
    names.collect()
}

/// A row of each group and figure.
pub fn csv(out: &mut impl Write, comparison: &Comparison<'_>) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    let columns = [
        "rank",
        "figure",
        "runs",
        "median",
        "min",
        "max",
        "spread",
        "difference",
        "difference_share",
    ];
    let keys = comparison.by.iter().map(|key| escape(key));
    csv.write_record(keys.chain(columns.map(str::to_owned)))?;
    let known = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for (at, group) in comparison.groups.iter().enumerate() {
        for (place, metric) in METRICS.iter().enumerate() {
            let f = figures(comparison, at, place);
            let cells = [
                group.rank.map_or_else(String::new, |rank| rank.to_string()),
                metric.key.to_owned(),
                f.map_or(0, |f| f.runs).to_string(),
                known(f.map(|f| f.median)),
                known(f.map(|f| f.min)),
                known(f.map(|f| f.max)),
                known(f.map(|f| f.spread)),
                known(f.and_then(|f| f.difference)),
                known(f.and_then(|f| f.difference_share)),
            ];
            csv.write_record(group.key.iter().map(|value| escape(value)).chain(cells))?;
        }
    }
    csv.flush()
}
