//! `observer export`: a recording as something else, event by event.

use std::io::Write as _;

use super::outfile::OutFile;
use super::{Failure, choose, lines, output};
use crate::cli::{Common, ExportArgs, ExportFormat};
use crate::export::jsonl;
use crate::model::Model;
use crate::source::Source as _;
use crate::source::replay::Replay;
use crate::units::escape;

/// Reads the file once, from its beginning to its end.
pub async fn run(common: &Common, args: &ExportArgs) -> Result<(), Failure> {
    let words: Vec<String> = args.filter.iter().cloned().collect();
    let choice = choose::Choice::new(common, &words)?;
    let name = escape(&args.file.to_string_lossy());
    let failed =
        |error: &dyn std::fmt::Display| Failure::Failed(anyhow::anyhow!("{name}: {error}"));
    let mut source = Replay::open(&args.file).map_err(|error| failed(&error))?;
    let mut out = OutFile::create(args.output.as_deref(), args.force)?;
    let ExportFormat::Jsonl = args.format;
    let context = jsonl::Context {
        wall_offset_ns: source.info().wall_offset_ns,
        ..jsonl::Context::default()
    };
    let mut model = Model::default();
    while let Some(batch) = source.next().await.map_err(|error| failed(&error))? {
        for event in &batch {
            model.apply(event);
            lines::write(&mut out, event, &mut model, &choice, &context)?;
        }
        out.flush()?;
    }
    out.finish()?;
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
