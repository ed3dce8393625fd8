//! `observer report`: recordings to figures, each file read once (HTML: twice, the second time for the charts).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::outfile::OutFile;
use super::{Failure, choose, output};
use crate::cli::{Common, ReportArgs, ReportFormat};
use crate::export::jsonl::Context;
use crate::model::{Flow, Model};
use crate::report::chart::{Chart, Charts};
use crate::report::{
    self, FileReport, FlowReport, Fold, Given, Options, Reading, csv, html, json, markdown, text,
};
use crate::source::Source as _;
use crate::source::replay::Replay;
use crate::units::{Mono, escape};

/// Flows with a chart: a page is to be opened by a browser at once.
const CHARTS: usize = 10;

/// Reads, then writes.
pub async fn run(common: &Common, args: &ReportArgs) -> Result<(), Failure> {
    let words: Vec<String> = args.filter.iter().cloned().collect();
    let choice = choose::Choice::new(common, &words)?;
    let options = Options {
        omit_ns: u64::try_from(args.omit.as_nanos()).unwrap_or(u64::MAX),
        path_rate_bps: common.path_rate,
    };
    let mut out = OutFile::create(args.output.as_deref(), args.force)?;
    let mut files = Vec::with_capacity(args.files.len());
    for path in &args.files {
        files.push(read(path, options, &choice).await?);
    }
    let flows: Vec<Vec<&FlowReport>> = files.iter().map(|f| f.flows.iter().collect()).collect();
    let context = match files.as_slice() {
        [one] => one.context.clone(),
        _ => Context::default(),
    };
    let total = report::total(&flows, options, &context);
    let page = || report::report(&files, &total, &|_, _| None);
    match args.format {
        ReportFormat::Json => json::write(&mut out, &files, &total)?,
        ReportFormat::Csv => csv::write(&mut out, &files, &total)?,
        ReportFormat::Text => text::write(&mut out, &page())?,
        ReportFormat::Markdown => markdown::write(&mut out, &page())?,
        ReportFormat::Html => {
            let charts = charts(&args.files, &files).await?;
            let chart = |file: usize, flow: usize| charts.get(&(file, flow)).cloned();
            html::write(&mut out, &report::report(&files, &total, &chart))?;
        }
    }
    out.finish()?;
    judge(common, &files)
}

/// One recording, whole.
pub async fn read(
    path: &Path,
    options: Options,
    choice: &choose::Choice,
) -> Result<FileReport, Failure> {
    let name = escape(&path.to_string_lossy());
    let mut source = Replay::open(path).map_err(|error| failed(&name, &error))?;
    let given = Given {
        name: name.clone(),
        environment: source.environment().clone(),
        options,
    };
    let shows = |model: &Model, flow: &Flow| choice.shows_event(model, flow);
    let mut fold = Fold::new(given, &shows);
    while let Some(batch) = source.next().await.map_err(|error| failed(&name, &error))? {
        for event in &batch {
            fold.apply(event);
        }
    }
    let reading = source.ending().map(Reading::from);
    Ok(fold.finish(reading.unwrap_or_default()))
}

/// The charts of the flows that are told first, by file and flow: their files are read once more, now that it is known
/// which they are and how long they lasted.
async fn charts(
    paths: &[PathBuf],
    files: &[FileReport],
) -> Result<BTreeMap<(usize, usize), String>, Failure> {
    let mut drawn: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (file, flow) in report::in_full(files).into_iter().take(CHARTS) {
        drawn.entry(file).or_default().push(flow);
    }
    let mut svgs = BTreeMap::new();
    for (file, flows) in drawn {
        let report = &files[file];
        let name = &report.given.name;
        let charts = flows.iter().map(|flow| {
            let flow = &report.flows[*flow];
            let (begin, end) = (flow.block.start_mono_ns, flow.block.end_mono_ns);
            Chart::new(flow.who.id, Mono(begin), Mono(end))
        });
        let mut charts = Charts::new(charts.collect());
        let mut source = Replay::open(&paths[file]).map_err(|error| failed(name, &error))?;
        while let Some(batch) = source.next().await.map_err(|error| failed(name, &error))? {
            for event in &batch {
                charts.apply(event);
            }
        }
        let places = flows.into_iter().map(|flow| (file, flow));
        svgs.extend(places.zip(charts.svgs()));
    }
    Ok(svgs)
}

fn failed(name: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::Failed(anyhow::anyhow!("{name}: {error}"))
}

/// Says what is missing; with `--strict` that is a failure.
pub fn judge(common: &Common, files: &[FileReport]) -> Result<(), Failure> {
    for file in files {
        for text in &file.reading.missing {
            output::message(&format!("observer: {}: {text}", file.given.name));
        }
    }
    let lost = files.iter().map(|file| file.lost);
    let lost = lost.fold(0, u64::saturating_add);
    if common.strict && files.iter().any(|file| !file.reading.complete) {
        return Err(Failure::Incomplete);
    }
    match (common.strict, lost) {
        (true, 1..) => Err(Failure::Lost(lost)),
        _ => Ok(()),
    }
}
