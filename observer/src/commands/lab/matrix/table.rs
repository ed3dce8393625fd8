//! The tables of a matrix, one a path: cells by what the receiver got, beside what was observed of the sender.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

use super::result::{Book, Outcome, RunResult};
use crate::cli::{Common, LabMatrixArgs, ReportFormat};
use crate::commands::outfile::OutFile;
use crate::commands::{Failure, choose, output, report};
use crate::export::jsonl::SCHEMA;
use crate::lab::matrix::{Cell, Matrix, NO_QDISC, NO_SETTINGS, Run};
use crate::report::compare::{Asked, METRICS, Metric, Stat, compare};
use crate::report::{Document, Options, Part, Table, markdown, text};
use crate::units::{UNKNOWN, rate};

/// Figures of the table; data has all.
const SHOWN: [&str; 7] = [
    "second_half_throughput",
    "retrans_rate",
    "mean_rtt",
    "p95_rtt",
    "bdp_fill_mean",
    "cwnd_peak",
    "btlbw",
];

/// A cell, with what its repetitions came to.
struct Row<'a> {
    cell: &'a Cell,
    rank: Option<usize>,
    runs: Vec<&'a RunResult>,
    received: Option<Received>,
    /// In the order of [`METRICS`].
    figures: Vec<Option<Stat>>,
    remarks: Vec<String>,
}

/// Bits per second of payload at the receiver, over the repetitions.
#[derive(Clone, Copy, Serialize)]
struct Received {
    mean: f64,
    median: f64,
    min: f64,
    max: f64,
}

impl Received {
    fn of(mut values: Vec<u64>) -> Option<Self> {
        values.sort_unstable();
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = [values[(values.len() - 1) / 2], values[values.len() / 2]];
        Some(Self {
            mean: values.iter().sum::<u64>() as f64 / values.len() as f64,
            median: f64::midpoint(middle[0] as f64, middle[1] as f64),
            min: min as f64,
            max: max as f64,
        })
    }
}

/// Reads the recordings, and writes the tables: as asked for, and in every format into the directory.
pub async fn tell(
    common: &Common,
    args: &LabMatrixArgs,
    matrix: &Matrix,
    dir: &Path,
    book: &Book,
) -> Result<(), Failure> {
    let mut paths: Vec<(&str, Vec<Row<'_>>)> = Vec::new();
    for (place, cell) in matrix.cells.iter().enumerate() {
        let row = row(common, matrix, place, dir, book).await?;
        match paths.iter_mut().find(|(path, _)| *path == cell.path) {
            Some((_, rows)) => rows.push(row),
            None => paths.push((&cell.path, vec![row])),
        }
    }
    for (_, rows) in &mut paths {
        rank(rows);
    }
    let page = page(matrix, &paths);
    for (format, ending) in [
        (ReportFormat::Text, "txt"),
        (ReportFormat::Markdown, "md"),
        (ReportFormat::Csv, "csv"),
        (ReportFormat::Json, "jsonl"),
    ] {
        let mut out = OutFile::create(Some(&dir.join(format!("table.{ending}"))), true)?;
        write(&mut out, format, matrix, &paths, &page)?;
        out.finish()?;
    }
    let mut out = output::stdout();
    write(&mut out, args.format, matrix, &paths, &page)?;
    Ok(out.flush()?)
}

fn write(
    out: &mut impl Write,
    format: ReportFormat,
    matrix: &Matrix,
    paths: &[(&str, Vec<Row<'_>>)],
    page: &Document,
) -> Result<(), Failure> {
    match format {
        ReportFormat::Text => text::write(out, page)?,
        ReportFormat::Markdown => markdown::write(out, page)?,
        ReportFormat::Csv => csv(out, paths)?,
        ReportFormat::Json => json(out, matrix, paths)?,
        ReportFormat::Html => {
            return Err(Failure::Usage(
                "a matrix has no page: 'observer compare --format html DIR/*.mcap' makes one"
                    .to_owned(),
            ));
        }
    }
    Ok(())
}

async fn row<'a>(
    common: &Common,
    matrix: &'a Matrix,
    place: usize,
    dir: &Path,
    book: &'a Book,
) -> Result<Row<'a>, Failure> {
    let cell = &matrix.cells[place];
    let results = (1..=matrix.repetitions).filter_map(|repetition| {
        let run = Run {
            cell: place,
            repetition,
        };
        book.of(&matrix.stem(run))
    });
    let (runs, others): (Vec<&RunResult>, Vec<&RunResult>) =
        results.partition(|result| result.outcome == Outcome::Done);
    let choice = choose::Choice::new(common, &[])?;
    let mut files = Vec::new();
    for run in &runs {
        let Some(recording) = &run.recording else {
            continue;
        };
        let options = Options {
            omit_ns: omit_ns(matrix),
            // The user has said it.
            path_rate_bps: run.rate_bps,
        };
        files.push(report::read(&dir.join(recording), options, &choice).await?);
    }
    let asked = Asked {
        by: Vec::new(),
        baseline: None,
        insist: true,
    };
    let mut remarks: Vec<String> = Vec::new();
    let figures = match compare(&files, &asked) {
        Ok(comparison) => {
            remarks.extend(comparison.insisted.iter().cloned());
            comparison
                .groups
                .into_iter()
                .next()
                .map(|group| group.stats)
        }
        Err(_) => None,
    };
    remarks.extend(others.iter().filter_map(|result| result.reason.clone()));
    let off = runs.iter().filter(|run| !run.held).count();
    if off > 0 {
        remarks.push(format!(
            "this machine could not hold the path in {off} of {} runs",
            runs.len()
        ));
        remarks.extend(runs.iter().flat_map(|run| {
            let remark = |text: &String| format!("run {}: {text}", run.repetition);
            run.remarks.iter().map(remark)
        }));
    }
    remarks.dedup();
    Ok(Row {
        cell,
        rank: None,
        received: Received::of(runs.iter().filter_map(|run| run.received_bps).collect()),
        runs,
        figures: figures.unwrap_or_else(|| vec![None; METRICS.len()]),
        remarks,
    })
}

fn omit_ns(matrix: &Matrix) -> u64 {
    let omit = crate::cli::duration(&matrix.omit).unwrap_or_default();
    u64::try_from(omit.as_nanos()).unwrap_or(u64::MAX)
}

/// By the mean of what the receiver got, the most first.
fn rank(rows: &mut [Row<'_>]) {
    rows.sort_by(|a, b| {
        let mean = |row: &Row<'_>| row.received.map_or(-1.0, |received| received.mean);
        mean(b).total_cmp(&mean(a))
    });
    for (at, row) in rows.iter_mut().enumerate() {
        row.rank = row.received.map(|_| at + 1);
    }
}

/// A key of cells, and how a cell's value is had.
type Key = (&'static str, fn(&Cell) -> String);

/// What differs between the cells of the matrix, and how a cell is named by it.
fn keys(matrix: &Matrix) -> Vec<Key> {
    let cells = &matrix.cells;
    let mut keys: Vec<Key> = vec![("cc", |cell| cell.cc.clone())];
    if cells.iter().any(|cell| cell.qdisc != NO_QDISC) {
        keys.push(("qdisc", |cell| cell.qdisc.clone()));
    }
    if cells.iter().any(|cell| cell.sysctl != NO_SETTINGS) {
        keys.push(("sysctl", |cell| cell.sysctl.clone()));
    }
    if cells.iter().any(|cell| cell.flows != 1) {
        keys.push(("flows", |cell| cell.flows.to_string()));
    }
    keys
}

fn page(matrix: &Matrix, paths: &[(&str, Vec<Row<'_>>)]) -> Document {
    let mut page = Document::new(format!("Lab matrix {}", matrix.name));
    let keys = keys(matrix);
    let places: Vec<usize> = SHOWN
        .iter()
        .filter_map(|name| Metric::place(name))
        .collect();
    for (path, rows) in paths {
        let made = rows
            .iter()
            .flat_map(|row| &row.runs)
            .find_map(|run| run.path_made.clone());
        let emulator = rows
            .iter()
            .flat_map(|row| &row.runs)
            .find_map(|run| run.emulator.clone());
        page.heading(match (made, emulator) {
            (Some(made), Some(emulator)) => format!("{path}: {made}, emulator {emulator}"),
            _ => (*path).to_owned(),
        });
        let mut head = vec!["Rank".to_owned()];
        head.extend(keys.iter().map(|(key, _)| (*key).to_owned()));
        for title in ["Runs", "Received, mean", "Min", "Median", "Max"] {
            head.push(title.to_owned());
        }
        head.extend(places.iter().map(|place| METRICS[*place].title.to_owned()));
        let table = Table {
            head,
            rows: rows.iter().map(|row| line(row, &keys, &places)).collect(),
            words: 1 + keys.len(),
        };
        page.parts.push(Part::Table(table));
        let remarks = rows.iter().flat_map(|row| {
            let title = row.cell.title();
            row.remarks
                .iter()
                .map(move |remark| format!("{title}: {remark}"))
        });
        page.warnings(remarks.collect());
    }
    page.notes(vec![
        format!(
            "Received: payload per second at the receiver, {} after {} that is left out. Other figures are of the sender: medians \
             of the runs.",
            matrix.time, matrix.omit
        ),
        "A row without figures has not run here: why is said below its table.".to_owned(),
    ]);
    page
}

fn line(row: &Row<'_>, keys: &[Key], places: &[usize]) -> Vec<String> {
    let unknown = || UNKNOWN.to_owned();
    let mut cells = vec![row.rank.map_or_else(unknown, |rank| rank.to_string())];
    cells.extend(keys.iter().map(|(_, of)| of(row.cell)));
    // A mark that there is something to be read below.
    let marked = if row.remarks.is_empty() { "" } else { "!" };
    cells.push(format!("{}{marked}", row.runs.len()));
    let bps = |of: fn(&Received) -> f64| {
        row.received
            .as_ref()
            .map_or_else(unknown, |received| rate(of(received).round() as u64))
    };
    cells.extend([
        bps(|r| r.mean),
        bps(|r| r.min),
        bps(|r| r.median),
        bps(|r| r.max),
    ]);
    cells.extend(places.iter().map(|place| {
        row.figures[*place].map_or_else(unknown, |stat| (METRICS[*place].show)(stat.median))
    }));
    cells
}

/// A row a cell; unknown is an empty cell.
fn csv(out: &mut impl Write, paths: &[(&str, Vec<Row<'_>>)]) -> Result<(), Failure> {
    let mut csv = csv::Writer::from_writer(out);
    let mut head: Vec<&str> = vec![
        "path",
        "rank",
        "cc",
        "qdisc",
        "sysctl",
        "flows",
        "runs",
        "held_runs",
        "received_mean_bps",
        "received_min_bps",
        "received_median_bps",
        "received_max_bps",
    ];
    head.extend(METRICS.iter().map(|metric| metric.key));
    head.push("remarks");
    let failed = |error: csv::Error| Failure::from(std::io::Error::other(error));
    csv.write_record(&head).map_err(failed)?;
    for row in paths.iter().flat_map(|(_, rows)| rows) {
        let cell = row.cell;
        let mut line = vec![
            cell.path.clone(),
            row.rank.map(|rank| rank.to_string()).unwrap_or_default(),
            cell.cc.clone(),
            cell.qdisc.clone(),
            cell.sysctl.clone(),
            cell.flows.to_string(),
            row.runs.len().to_string(),
            row.runs.iter().filter(|run| run.held).count().to_string(),
        ];
        let of: [fn(&Received) -> f64; 4] = [|r| r.mean, |r| r.min, |r| r.median, |r| r.max];
        line.extend(of.map(|of| {
            row.received
                .as_ref()
                .map(|r| of(r).round().to_string())
                .unwrap_or_default()
        }));
        line.extend(
            row.figures
                .iter()
                .map(|stat| stat.map(|stat| stat.median.to_string()).unwrap_or_default()),
        );
        line.push(row.remarks.join("; "));
        csv.write_record(&line).map_err(failed)?;
    }
    csv.flush()?;
    Ok(())
}

#[derive(Serialize)]
struct Head<'a> {
    schema: u32,
    r#type: &'static str,
    matrix: &'a str,
    about: Option<&'a str>,
    time: &'a str,
    omit: &'a str,
    repetitions: u32,
    seed: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    schema: u32,
    r#type: &'static str,
    path: &'a str,
    path_made: Option<&'a str>,
    emulator: Option<&'a str>,
    rank: Option<usize>,
    cc: &'a str,
    qdisc: &'a str,
    sysctl: &'a str,
    flows: u16,
    runs: usize,
    held_runs: usize,
    recordings: Vec<&'a str>,
    received_bps: Option<Received>,
    figures: serde_json::Map<String, serde_json::Value>,
    remarks: &'a [String],
}

/// A line of the matrix, and one a cell.
fn json(
    out: &mut impl Write,
    matrix: &Matrix,
    paths: &[(&str, Vec<Row<'_>>)],
) -> Result<(), Failure> {
    let head = Head {
        schema: SCHEMA,
        r#type: "matrix",
        matrix: &matrix.name,
        about: matrix.about.as_deref(),
        time: &matrix.time,
        omit: &matrix.omit,
        repetitions: matrix.repetitions,
        seed: matrix.seed,
    };
    output::json(out, &head)?;
    for row in paths.iter().flat_map(|(_, rows)| rows) {
        let figures = METRICS.iter().zip(&row.figures).map(|(metric, stat)| {
            let value = stat.map_or(serde_json::Value::Null, |stat| {
                serde_json::json!({"median": stat.median, "min": stat.min, "max": stat.max, "runs": stat.runs})
            });
            (metric.key.to_owned(), value)
        });
        let line = Line {
            schema: SCHEMA,
            r#type: "cell",
            path: &row.cell.path,
            path_made: row.runs.first().and_then(|run| run.path_made.as_deref()),
            emulator: row.runs.first().and_then(|run| run.emulator.as_deref()),
            rank: row.rank,
            cc: &row.cell.cc,
            qdisc: &row.cell.qdisc,
            sysctl: &row.cell.sysctl,
            flows: row.cell.flows,
            runs: row.runs.len(),
            held_runs: row.runs.iter().filter(|run| run.held).count(),
            recordings: row
                .runs
                .iter()
                .filter_map(|run| run.recording.as_deref())
                .collect(),
            received_bps: row.received,
            figures: figures.collect(),
            remarks: &row.remarks,
        };
        output::json(out, &line)?;
    }
    Ok(())
}
