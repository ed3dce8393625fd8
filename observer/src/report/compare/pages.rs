//! A comparison for people.

use super::{Comparison, METRICS, Metric};
use crate::report::document::{Document, Part, Table};
use crate::units::UNKNOWN;

/// Figures of the first table.
const FIRST: [&str; 8] = [
    "throughput",
    "second_half_throughput",
    "throughput_jitter",
    "retrans_rate",
    "mean_rtt",
    "p95_rtt",
    "rtt_jitter",
    "bdp_fill_mean",
];

/// The ranking first, then every figure.
pub fn page(comparison: &Comparison<'_>, chart: Option<String>) -> Document {
    let mut page = Document::new("TCP comparison");
    let insisted = comparison.insisted.iter();
    page.warnings(
        insisted
            .map(|reason| format!("averaged all the same: {reason}"))
            .collect(),
    );
    page.parts.push(Part::Table(ranking(comparison)));
    page.parts.extend(chart.map(Part::Chart));
    let mut notes = vec!["Medians of the runs. Ranked by throughput.".to_owned()];
    if let Some((key, value)) = &comparison.baseline {
        notes.push(format!("Differences are to {key}={value}."));
    }
    notes.extend(comparison.notes.iter().cloned());
    page.notes(notes);
    for at in 0..comparison.groups.len() {
        page.heading(comparison.name(at));
        page.parts.push(Part::Table(every(comparison, at)));
        let files = comparison.groups[at].runs.iter();
        let files: Vec<&str> = files.map(|run| run.file.given.name.as_str()).collect();
        page.notes(vec![format!("Runs: {}", files.join(", "))]);
    }
    page
}

fn share(value: f64) -> String {
    format!("{:+.1}%", value * 100.0)
}

fn ranking(comparison: &Comparison<'_>) -> Table {
    let mut head = vec!["Rank".to_owned()];
    head.extend(comparison.by.iter().cloned());
    head.push("Bottleneck".to_owned());
    head.push("Runs".to_owned());
    let places: Vec<usize> = FIRST
        .iter()
        .filter_map(|name| Metric::place(name))
        .collect();
    head.extend(places.iter().map(|at| METRICS[*at].title.to_owned()));
    head.insert(comparison.by.len() + 4, "Min – max".to_owned());
    if comparison.baseline.is_some() {
        head.insert(comparison.by.len() + 5, "Difference".to_owned());
    }
    let rows = (0..comparison.groups.len()).map(|at| {
        let group = &comparison.groups[at];
        let mut row = vec![group.rank.map_or_else(unknown, |rank| rank.to_string())];
        row.extend(group.key.iter().cloned());
        row.push(group.bottleneck());
        row.push(group.runs.len().to_string());
        for place in &places {
            let (stat, show) = (group.stats[*place], METRICS[*place].show);
            row.push(stat.map_or_else(unknown, |stat| show(stat.median)));
            if *place == super::metric::THROUGHPUT {
                row.push(stat.map_or_else(unknown, |stat| {
                    format!("{} – {}", show(stat.min), show(stat.max))
                }));
                if comparison.baseline.is_some() {
                    let difference = comparison.difference(at, *place);
                    row.push(difference.and_then(|(_, d)| d).map_or_else(unknown, share));
                }
            }
        }
        row
    });
    Table {
        rows: rows.collect(),
        head,
        words: comparison.by.len() + 2,
    }
}

fn unknown() -> String {
    UNKNOWN.to_owned()
}

/// Every figure of a group that some run knows.
fn every(comparison: &Comparison<'_>, at: usize) -> Table {
    let mut table = Table {
        head: [
            "Figure",
            "Runs",
            "Median",
            "Min",
            "Max",
            "Spread",
            "Difference",
            "Share",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: Vec::new(),
        words: 1,
    };
    for (place, metric) in METRICS.iter().enumerate() {
        let Some(stat) = comparison.groups[at].stats[place] else {
            continue;
        };
        let show = metric.show;
        let difference = comparison.difference(at, place);
        table.rows.push(vec![
            metric.title.to_owned(),
            stat.runs.to_string(),
            show(stat.median),
            show(stat.min),
            show(stat.max),
            show(stat.spread()),
            difference.map_or_else(unknown, |(difference, _)| show(difference)),
            difference.and_then(|(_, d)| d).map_or_else(unknown, share),
        ]);
    }
    table
}
