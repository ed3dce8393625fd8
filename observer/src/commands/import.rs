//! `observer import`: a packet capture becomes a recording.

use std::cell::RefCell;
use std::fs::File;
use std::io::IsTerminal as _;
use std::os::unix::fs::chown;

use anyhow::Context as _;

use super::outfile::OutFile;
use super::{Failure, output, record};
use crate::cli::{Common, ImportArgs};
use crate::import::{Capture, ImportError, Summary};
use crate::record::{Anonymizer, Environment, Totals, WriteError, Writer};
use crate::units::{escape, size};

/// Reads the capture twice: who sends, and by what segments, is known only at its end.
pub fn run(common: &Common, args: &ImportArgs) -> Result<(), Failure> {
    let name = escape(&args.capture.to_string_lossy());
    let told = |error: ImportError| Failure::Failed(anyhow::anyhow!("{name}: {error}"));
    let file = File::open(&args.capture).with_context(|| format!("cannot open {name}"))?;
    let kind = file
        .metadata()
        .with_context(|| format!("cannot open {name}"))?;
    if !kind.is_file() {
        let text = format!(
            "{name} is no regular file: it is read twice, so a pipe cannot be; write the capture to a file first"
        );
        return Err(Failure::Usage(text));
    }
    let mut out = OutFile::private(&args.output, args.force)?;
    if std::io::stderr().is_terminal() {
        output::message(&format!("observer: reading {name}"));
    }
    let capture = Capture::survey(file).map_err(told)?;
    let environment = environment(args, capture.summary());
    let (summary, totals) = write(capture, &mut out, &environment).map_err(told)?;
    out.finish()?;
    if let Some((user, group)) = record::owner(|name| std::env::var(name).ok()) {
        chown(&args.output, Some(user), Some(group)).context("cannot give the recording to you")?;
    }
    say(args, &summary, totals);
    let lost = summary.cut.is_some() || summary.dropped > 0 || summary.unseen_bytes > 0;
    if common.strict && lost {
        return Err(Failure::Incomplete);
    }
    Ok(())
}

fn environment(args: &ImportArgs, summary: &Summary) -> Environment {
    Environment {
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        wall_offset_ns: i64::try_from(summary.first_wall_ns).ok(),
        source: "capture".to_owned(),
        interval_ns: Some(0),
        anonymized: args.anonymize,
        labels: args.labels.iter().cloned().collect(),
        ..Environment::default()
    }
}

fn write(
    capture: Capture,
    out: &mut OutFile,
    environment: &Environment,
) -> Result<(Summary, Totals), ImportError> {
    let sink = |error: WriteError| ImportError::Sink(Box::new(error));
    let mut anonymizer = if environment.anonymized {
        Some(Anonymizer::new().map_err(|error| ImportError::Sink(error.into()))?)
    } else {
        None
    };
    let writer = RefCell::new(Writer::new(out, environment).map_err(sink)?);
    let summary = capture.events(|event| {
        let mut writer = writer.borrow_mut();
        match &mut anonymizer {
            Some(anonymizer) => writer.push(&anonymizer.event(event)),
            None => writer.push(event),
        }
        .map(drop)
    })?;
    let totals = writer.into_inner().finish().map_err(sink)?;
    Ok((summary, totals))
}

fn say(args: &ImportArgs, summary: &Summary, totals: Totals) {
    let name = escape(&args.output.to_string_lossy());
    output::message(&format!(
        "observer: {name}: {} connections, {} TCP packets, {:.1} s, {} samples, {}",
        summary.connections,
        summary.segments,
        summary.span_ns as f64 / 1e9,
        totals.samples,
        size(totals.bytes)
    ));
    for text in summary.limitations().into_iter().chain(summary.remarks()) {
        output::message(&format!("observer: {text}"));
    }
}
