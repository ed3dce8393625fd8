//! `report` and `compare`: what may be said.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::duration;
use crate::report::compare::Rule;
use crate::units::words;

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Recordings
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// How it is written; html is one page with charts that needs nothing else
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Leave out the first seconds of every flow (or 500ms, 2m)
    #[arg(long, value_name = "SECS", default_value = "0", value_parser = duration)]
    pub omit: Duration,
    /// Which flows: the words of ss, such as 'dport = :443 and cc bbr'
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// Where to; left out = standard output
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Overwrite OUT
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Recordings
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// What makes a group: cc (with its version), qdisc, hour (of the day, UTC), kernel, host, dev, remote, file, or labels
    #[arg(long, value_name = "KEYS", default_value = "cc,qdisc", value_delimiter = ',', value_parser = key)]
    pub by: Vec<String>,
    /// The group that others are compared with: cc=cubic
    #[arg(long, value_name = "KEY=V", value_parser = pair)]
    pub baseline: Option<(String, String)>,
    /// Exit with 5 when this is so for a group: 'throughput < -5%' (against the baseline), 'retrans_rate > 0.01' (the
    /// median itself, in the report's unit)
    #[arg(long, value_name = "KEY OP N[%]", value_parser = Rule::parse)]
    pub fail_if: Option<Rule>,
    /// How it is written
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Leave out the first seconds of every flow (or 500ms, 2m)
    #[arg(long, value_name = "SECS", default_value = "0", value_parser = duration)]
    pub omit: Duration,
    /// Which flows: the words of ss, such as 'dport = :443 and cc bbr'
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// Where to; left out = standard output
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Overwrite OUT
    #[arg(long)]
    pub force: bool,
    /// Average recordings of other paths or kernels, cut off or lossy ones too
    #[arg(long)]
    pub insist: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    Text,
    Markdown,
    Json,
    Csv,
    Html,
}

fn key(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("a key is missing: write --by cc,qdisc".to_owned()),
        key => Ok(key.to_owned()),
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err(format!("'{text}' names no group: write cc=cubic")),
    }
}

/// `100mbit`, `1gbit`: bits per second.
pub fn rate(text: &str) -> Result<u64, String> {
    words::rate(text).ok_or_else(|| format!("'{text}' is no rate: write 100mbit or 1gbit"))
}
