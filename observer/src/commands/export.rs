//! `observer export`: a recording as something else, event by event.

use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::Path;

use anyhow::Context as _;

use super::outfile::OutFile;
use super::{Failure, choose, lines, output};
use crate::cli::{Common, ExportArgs, ExportFormat};
use crate::export::csv::Csv;
use crate::export::mcap::Mcap;
use crate::export::parquet::Parquet;
use crate::export::perfetto::Perfetto;
use crate::export::table::Table;
use crate::export::{Jsonl, Sink, jsonl};
use crate::model::Fold;
use crate::source::Source as _;
use crate::source::replay::Replay;
use crate::units::escape;

/// Reads the file once, from its beginning to its end.
pub async fn run(common: &Common, args: &ExportArgs) -> Result<(), Failure> {
    let words: Vec<String> = args.filter.iter().cloned().collect();
    let choice = choose::Choice::new(common, &words)?;
    let outputs = Outputs::of(args)?;
    let name = escape(&args.file.to_string_lossy());
    let failed =
        |error: &dyn std::fmt::Display| Failure::Failed(anyhow::anyhow!("{name}: {error}"));
    let mut source = Replay::open(&args.file).map_err(|error| failed(&error))?;
    let mut sink = outputs.open(args)?;
    let context = jsonl::Context {
        wall_offset_ns: source.info().wall_offset_ns,
        ..jsonl::Context::default()
    };
    let mut fold = Fold::default();
    while let Some(batch) = source.next().await.map_err(|error| failed(&error))? {
        sink.foresee(&batch);
        for event in &batch {
            fold.apply(event);
            lines::each(event, fold.model_mut(), &choice, &context, &mut |line| {
                sink.line(line)
            })?;
        }
        sink.flush()?;
    }
    fold.finish();
    lines::derived(fold.model_mut(), &choice, &context, &mut |line| {
        sink.line(line)
    })?;
    let model = fold.model();
    let open = model
        .flows()
        .filter(|flow| !flow.is_closed() && choice.shows_event(model, flow));
    for flow in open {
        sink.open_flow(&jsonl::flow_object(model, flow, &context))?;
    }
    for file in sink.finish()? {
        file.finish()?;
    }
    let whole = tell_missing(&name, &source);
    match (common.strict, model.lost()) {
        (true, _) if !whole => Err(Failure::Incomplete),
        (true, lost @ 1..) => Err(Failure::Lost(lost)),
        _ => Ok(()),
    }
}

/// Says what of the file could not be read; whether that is nothing.
fn tell_missing(name: &str, source: &Replay) -> bool {
    let Some(ending) = source.ending() else {
        return true;
    };
    for text in ending.missing() {
        output::message(&format!("observer: {name}: {text}"));
    }
    ending.is_complete()
}

/// What is to be written: one file, or a file a table.
enum Outputs {
    One,
    Table(Table),
    Tables,
}

impl Outputs {
    fn of(args: &ExportArgs) -> Result<Self, Failure> {
        let format = args.format;
        let tables = matches!(format, ExportFormat::Csv | ExportFormat::Parquet);
        let outputs = match &args.kind {
            Some(_) if !tables => {
                let text = "--kind is for csv and parquet: the other formats have no tables";
                return Err(Failure::Usage(text.to_owned()));
            }
            Some(kind) => Self::Table(Table::named(kind).ok_or_else(|| {
                let known = Table::ALL.map(Table::name).join(" ");
                Failure::Usage(format!("there is no table '{kind}': --kind knows {known}"))
            })?),
            None if tables && args.output.is_none() => {
                let text = "csv and parquet are several tables: -o DIR for all of them, or --kind samples for one";
                return Err(Failure::Usage(text.to_owned()));
            }
            None if tables => Self::Tables,
            None => Self::One,
        };
        let binary = !matches!(format, ExportFormat::Csv | ExportFormat::Jsonl);
        if binary && args.output.is_none() && io::stdout().is_terminal() {
            let text = "this format is not for a terminal: -o FILE, or a pipe";
            return Err(Failure::Usage(text.to_owned()));
        }
        Ok(outputs)
    }

    fn open(&self, args: &ExportArgs) -> Result<Box<dyn Sink<OutFile>>, Failure> {
        let one = || OutFile::create(args.output.as_deref(), args.force);
        let tables = || match (self, args.output.as_deref()) {
            (Self::Table(table), _) => Ok(vec![(*table, one()?)]),
            (_, Some(dir)) => all_tables(dir, args),
            (_, None) => Ok(Vec::new()),
        };
        Ok(match args.format {
            ExportFormat::Jsonl => Box::new(Jsonl(one()?)),
            ExportFormat::Csv => Box::new(Csv::new(tables()?)?),
            ExportFormat::Parquet => Box::new(Parquet::new(tables()?)?),
            ExportFormat::Perfetto => Box::new(Perfetto::new(one()?)),
            ExportFormat::Mcap => Box::new(Mcap::new(one()?)?),
        })
    }
}

/// A file a table in `dir`, which is made where it is not there.
fn all_tables(dir: &Path, args: &ExportArgs) -> Result<Vec<(Table, OutFile)>, Failure> {
    let suffix = match args.format {
        ExportFormat::Parquet => "parquet",
        _ => "csv",
    };
    match fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
        made => made.with_context(|| {
            let dir = escape(&dir.to_string_lossy());
            format!("cannot make the directory {dir} for the tables")
        })?,
    }
    Table::ALL
        .into_iter()
        .map(|table| {
            let path = dir.join(format!("{}.{suffix}", table.name()));
            OutFile::create(Some(&path), args.force).map(|file| (table, file))
        })
        .collect()
}
