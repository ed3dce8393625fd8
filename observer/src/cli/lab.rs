//! `lab`: what may be said.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::{ReportFormat, duration, positive_duration};
use crate::lab::path::{Buffer, Policer, buffer, burst_share, policer, rate, share, size};

#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    pub command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// One run over one path
    Run(Box<LabRunArgs>),
    /// Algorithms × qdiscs × settings × paths × flows, each several times: a recording a run, and a table a path
    Matrix(Box<LabMatrixArgs>),
}

#[derive(Debug, Args)]
pub struct LabMatrixArgs {
    /// One that comes with the program, or a file FILE.toml; left out = which there are
    #[arg(value_name = "NAME|FILE")]
    pub matrix: Option<String>,
    /// Where recordings, results and tables go; what is there already is not run again. Left out = lab-NAME
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// How long each run sends, after --omit, instead of what the matrix says
    #[arg(short = 't', long, value_name = "SECS", value_parser = positive_duration)]
    pub time: Option<Duration>,
    /// It sends this long before what the tables cover
    #[arg(long, value_name = "SECS", value_parser = duration)]
    pub omit: Option<Duration>,
    /// How often each cell runs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repetitions: Option<u32>,
    /// Of the order, and of random loss: repetition N has this + N - 1
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Only these cells, by path, cc, qdisc, sysctl, flows; may be given more than once
    #[arg(long, value_name = "KEY=V", value_parser = pair)]
    pub only: Vec<(String, String)>,
    /// As for `lab run`
    #[arg(long, value_enum)]
    pub emulator: Option<EmulatorChoice>,
    /// How the tables are written to standard output; DIR gets text, markdown, csv and json
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Print the commands of its runs, and run none
    #[arg(long)]
    pub dry_run: bool,
    /// Print the file of a matrix that comes with the program, to make another of it
    #[arg(long, requires = "matrix")]
    pub print: bool,
    /// Begin anew where DIR has runs
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct LabRunArgs {
    /// The bottleneck's rate
    #[arg(long, value_name = "RATE", default_value = "100mbit", value_parser = rate, help_heading = "Path")]
    pub rate: u64,
    /// Round trip without a queue
    #[arg(long, value_name = "DUR", default_value = "40ms", value_parser = path_duration, help_heading = "Path")]
    pub rtt: Duration,
    /// What may wait at the bottleneck: 1bdp, 0.2bdp, 331p (packets), 64k
    #[arg(long, value_name = "SIZE", default_value = "1bdp", value_parser = buffer, help_heading = "Path")]
    pub buffer: Buffer,
    /// Share of the packets toward the receiver that are lost, each by itself
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share, help_heading = "Path")]
    pub loss: f64,
    /// Share lost in bursts of about four packets, of which a burst loses 70%
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = burst_share, help_heading = "Path")]
    pub burst_loss: f64,
    /// The way back is longer or shorter by up to this
    #[arg(long, value_name = "DUR", default_value = "0", value_parser = path_duration, help_heading = "Path")]
    pub jitter: Duration,
    /// A token bucket before the bottleneck that drops: 10mbit/100k
    #[arg(long, value_name = "RATE/BURST", value_parser = policer, help_heading = "Path")]
    pub policer: Option<Policer>,
    /// ACKs arrive together, every so often
    #[arg(long, value_name = "DUR", default_value = "0", value_parser = path_duration, help_heading = "Path")]
    pub ack_batch: Duration,
    /// Both ends ask for ECN; random loss marks instead of dropping
    #[arg(long, help_heading = "Path")]
    pub ecn: bool,
    /// Of random loss and jitter, where our emulator makes them: the same seed, the same row
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Path")]
    pub seed: u64,
    /// What makes the path: the kernel's netem and police, or a relay of ours (auto: the kernel's where it has them)
    #[arg(long, value_enum, default_value_t = EmulatorChoice::Auto, help_heading = "Path")]
    pub emulator: EmulatorChoice,
    /// Flows of another receiver over the same bottleneck, not recorded
    #[arg(long, value_name = "FLOWS", default_value = "0", value_parser = clap::value_parser!(u16).range(0..=256), help_heading = "Path")]
    pub cross: u16,

    /// The congestion control, such as cubic, bbr; left out = the kernel's default
    #[arg(long, value_name = "NAME", help_heading = "Sender")]
    pub cc: Option<String>,
    /// The qdisc of the sender's device, in the words of tc: fq, 'pfifo limit 100'; left out = none
    #[arg(long, value_name = "QDISC", help_heading = "Sender")]
    pub qdisc: Option<String>,
    /// A setting inside the namespaces of sender and receiver; may be given more than once
    #[arg(long = "sysctl", value_name = "K=V", value_parser = setting, help_heading = "Sender")]
    pub sysctls: Vec<(String, String)>,
    /// Flows at once
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "Sender")]
    pub flows: u16,
    /// Largest segment, bytes
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(88..=32767), help_heading = "Sender")]
    pub mss: Option<u32>,
    /// Send buffer as given to setsockopt, which doubles it
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Sender")]
    pub sndbuf: Option<u64>,
    /// What the application writes, a flow
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Sender")]
    pub app_rate: Option<u64>,
    /// SO_MAX_PACING_RATE, a flow
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Sender")]
    pub max_pacing: Option<u64>,
    /// The built-in receiver's window is never larger
    #[arg(long, value_name = "SIZE", value_parser = window, conflicts_with = "server", help_heading = "Sender")]
    pub rwnd: Option<u32>,

    /// How long it sends, after --omit
    #[arg(short = 't', long, value_name = "SECS", default_value = "10", value_parser = positive_duration, help_heading = "Run")]
    pub time: Duration,
    /// It sends this long before what the report covers
    #[arg(long, value_name = "SECS", default_value = "0", value_parser = duration, help_heading = "Run")]
    pub omit: Duration,
    /// The dashboard over the run; q ends both. What CMD writes is not shown
    #[arg(long, help_heading = "Run")]
    pub watch: bool,
    /// Keep the recording
    #[arg(short, long, value_name = "FILE", help_heading = "Run")]
    pub output: Option<PathBuf>,
    /// Every packet lost, with its cause, as JSON Lines (our emulator only)
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    pub truth: Option<PathBuf>,
    /// Beside the recording, to group and compare by; may be given more than once
    #[arg(long = "label", value_name = "K=V", value_parser = super::record::label, help_heading = "Run")]
    pub labels: Vec<(String, String)>,
    /// Overwrite FILE
    #[arg(long, help_heading = "Run")]
    pub force: bool,
    /// In the receiver's namespace, for as long as the run: 'iperf3 -s' where CMD is iperf3
    #[arg(long, value_name = "CMD", requires = "command", help_heading = "Run")]
    pub server: Option<String>,
    /// Run this in the sender's namespace instead of the built-in sender; the receiver is 192.0.2.2 (2001:db8::2 with -6),
    /// where port 5201 takes all (without --server)
    #[arg(last = true, value_name = "CMD ARG", conflicts_with_all = ["flows", "mss", "sndbuf", "app_rate", "max_pacing"])]
    pub command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EmulatorChoice {
    Auto,
    Kernel,
    User,
}

impl EmulatorChoice {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Kernel => "kernel",
            Self::User => "user",
        }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=');
    let (key, value) = pair.ok_or_else(|| format!("'{text}' is no pair: write cc=bbr"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// A path is not longer than this.
fn path_duration(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|duration| {
        if duration <= Duration::from_secs(10) {
            Ok(duration)
        } else {
            Err("no path is longer than 10s".to_owned())
        }
    })
}

/// What the kernel takes for a window.
fn window(text: &str) -> Result<u32, String> {
    let bytes = size(text)?;
    u32::try_from(bytes)
        .ok()
        .filter(|bytes| (4096..=1 << 30).contains(bytes))
        .ok_or_else(|| format!("'{text}' is no window: 4k to 1g"))
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| {
        format!("'{text}' is no setting: write net.ipv4.tcp_wmem='4096 16384 4194304'")
    })?;
    crate::lab::namespaces::sysctl_path(key)?;
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_lengths_of_paths() {
        let read = setting("net.ipv4.tcp_wmem=1 2 3").unwrap();
        assert_eq!(read, ("net.ipv4.tcp_wmem".to_owned(), "1 2 3".to_owned()));
        assert!(setting("kernel.panic=1").is_err() && setting("net.ipv4.x").is_err());
        assert!(path_duration("11s").is_err());
        assert_eq!(path_duration("600ms"), Ok(Duration::from_millis(600)));
    }
}
