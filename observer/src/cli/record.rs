//! `record`, `replay`, `export` and `import`: what may be said.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{FilterArgs, place, positive_duration};
use crate::record::SMALLEST;
use crate::tui::{Place, Speed};
use crate::units::words;

#[derive(Debug, Args)]
pub struct RecordArgs {
    #[command(flatten)]
    pub filter: FilterArgs,
    /// The file to record into
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// End after this many seconds (or 500ms, 2m)
    #[arg(short = 't', long = "time", value_name = "SECS", value_parser = positive_duration)]
    pub time: Option<Duration>,
    /// Beside the recording, to group and compare by; may be given more than once
    #[arg(long = "label", value_name = "K=V", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// A file that would become larger is ended; the recording goes on in FILE.1, FILE.2 …
    #[arg(long, value_name = "SIZE", value_parser = file_size)]
    pub max_size: Option<u64>,
    /// End after this long, as -t
    #[arg(long, value_name = "DUR", value_parser = positive_duration, conflicts_with = "time")]
    pub max_time: Option<Duration>,
    /// Overwrite FILE
    #[arg(long)]
    pub force: bool,
    /// Run this, record the flows of it and of what it starts, end when it ends, exit with its status
    #[arg(last = true, value_name = "CMD ARG")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// A recording
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How fast its time goes by: 0.1 to 100
    #[arg(long, value_name = "N", default_value = "1", value_parser = speed)]
    pub speed: Speed,
    /// Where to begin: 21:00:05 or 2026-11-30T21:00:05Z, +90s after its beginning, -30s before its end, 50%
    #[arg(long, value_name = "TIME", value_parser = place, allow_hyphen_values = true)]
    pub at: Option<Place>,
    /// Which flows: the words of ss, such as 'dport = :443 and cc bbr'
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// A recording
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// What to make of it
    #[arg(long, value_enum)]
    pub format: ExportFormat,
    /// Where to: a file, or for csv and parquet without --kind a directory, which gets a file a table; left out = standard
    /// output
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Of csv and parquet only this table: samples, retransmits, bursts, states, phases, flows, attributes, owners, devices,
    /// qdiscs, hosts, counters, costs, gaps, notes
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// Overwrite OUT, in a directory the files of the same names
    #[arg(long)]
    pub force: bool,
    /// Which flows: the words of ss, such as 'dport = :443 and cc bbr'
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// A pcap or pcapng file, plain, .xz, .gz or .zst
    #[arg(value_name = "CAPTURE")]
    pub capture: PathBuf,
    /// The recording to make
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Beside the recording, to group and compare by; may be given more than once
    #[arg(long = "label", value_name = "K=V", value_parser = label)]
    pub labels: Vec<(String, String)>,
    /// Overwrite FILE
    #[arg(long)]
    pub force: bool,
    /// Replace addresses (prefixes stay prefixes)
    #[arg(long)]
    pub anonymize: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// The lines of `stream`
    Jsonl,
    /// A table a kind of line
    Csv,
    /// The same, typed
    Parquet,
    /// A trace for ui.perfetto.dev
    Perfetto,
    /// A message a sample, for PlotJuggler, Foxglove and Lichtblick
    Mcap,
}

/// `2`, `0.5`, `10x`.
fn speed(text: &str) -> Result<Speed, String> {
    let number = text.trim_end_matches(['x', '×']).parse().ok();
    number.and_then(Speed::new).ok_or_else(|| {
        format!(
            "'{text}' is no speed: write a number from {} to {}",
            Speed::SLOWEST,
            Speed::FASTEST
        )
    })
}

pub(super) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("'{text}' is no label: write KEY=VALUE")),
    }
}

/// `1m`, `2g`: powers of 1024.
fn file_size(text: &str) -> Result<u64, String> {
    let bytes = words::size(text).ok_or_else(|| format!("'{text}' is no size: write 10m or 2g"))?;
    if bytes < SMALLEST {
        return Err(format!("'{text}' is less than {}k", SMALLEST >> 10));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_sizes_are_read_or_refused() {
        let pair = |k: &str, v: &str| Ok((k.to_owned(), v.to_owned()));
        assert_eq!(label("site=a=b"), pair("site", "a=b"));
        assert_eq!(label("empty="), pair("empty", ""));
        assert!(label("=x").is_err() && label("x").is_err());
        assert_eq!(file_size("1m"), Ok(1 << 20));
        assert_eq!(file_size("2g"), Ok(2 << 30));
        for wrong in ["", "1", "255k", "k", "1x", "99999999999999999999t"] {
            assert!(file_size(wrong).is_err(), "{wrong}");
        }
    }
}
