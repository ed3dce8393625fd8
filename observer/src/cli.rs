//! The command line: what may be said, nothing of what it does.

mod lab;
mod record;
mod report;
mod trust;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::source::synthetic::SyntheticOptions;
use crate::tui::Place;
pub use lab::{EmulatorChoice, LabArgs, LabCommand, LabMatrixArgs, LabRunArgs};
pub use record::{ExportArgs, ExportFormat, ImportArgs, RecordArgs, ReplayArgs};
pub use report::{CompareArgs, ReportArgs, ReportFormat};
pub use trust::{CompletionsArgs, DoctorArgs, ManArgs, ServeArgs};

const EXIT_CODES: &str = "\
Exit codes: 0 done · 1 failed · 2 usage · 3 not permitted or not supported here (the message says what to do)
            4 with --strict: finished, but events were lost · 5 --fail-if is true · 130 interrupted where that is not the normal end";

/// A live TCP flow observer: cwnd, pacing rate, BtlBw, min RTT and retransmits of every flow, from the kernel.
#[derive(Debug, Parser)]
#[command(name = "observer", version, about, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Which flows: the words of ss, such as `dport = :443 and cc bbr` (dashboard)
    #[arg(value_name = "FILTER")]
    pub filter: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// The dashboard on a terminal (also without a subcommand)
    Live(FilterArgs),
    /// One snapshot of the flows
    List(ListArgs),
    /// Events, or flows at intervals, as JSON Lines
    Stream(StreamArgs),
    /// Record into a file, until told to end or a command has ended
    Record(RecordArgs),
    /// The dashboard over a recording
    Replay(ReplayArgs),
    /// The figures of recordings: per flow and in total
    Report(ReportArgs),
    /// Recordings in groups: the median and spread of repetitions, ranked
    Compare(CompareArgs),
    /// Convert a recording
    Export(ExportArgs),
    /// Make a recording of a packet capture (pcap or pcapng) that was taken on the sender
    Import(ImportArgs),
    /// A path with known truth, in network namespaces: send over it, record, report
    Lab(LabArgs),
    /// What this host lacks, and its settings judged for the flows that run; exit code 1 where something is wrong
    Doctor(DoctorArgs),
    /// Metrics for Prometheus over HTTP, on loopback
    Serve(ServeArgs),
    /// Completions for a shell
    Completions(CompletionsArgs),
    /// Man pages
    Man(ManArgs),
}

#[derive(Debug, Args)]
pub struct FilterArgs {
    /// Which flows: the words of ss, such as `dport = :443 and cc bbr`
    #[arg(value_name = "FILTER")]
    pub filter: Vec<String>,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    pub filter: FilterArgs,
    /// One JSON object per line instead of a table
    #[arg(long)]
    pub json: bool,
    /// Rates are measured over this long; 0 = a plain snapshot by socket-diag: rates, owners, device, qdisc, version
    /// and phase are unknown
    #[arg(long, value_name = "DUR", default_value = "1s", value_parser = duration)]
    pub window: Duration,
}

#[derive(Debug, Args)]
pub struct StreamArgs {
    #[command(flatten)]
    pub filter: FilterArgs,
    /// One object per flow and interval instead of every event
    #[arg(long, value_name = "DUR", value_parser = positive_duration)]
    pub every: Option<Duration>,
    /// End after this many seconds (or 500ms, 2m)
    #[arg(short = 't', long = "time", value_name = "SECS", value_parser = positive_duration)]
    pub time: Option<Duration>,
}

/// What holds for every command.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Only IPv4 (v4-mapped flows too)
    #[arg(short = '4', long, global = true, conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Only IPv6
    #[arg(short = '6', long, global = true)]
    pub ipv6: bool,
    /// Ports as numbers, also with -r; without -r addresses and ports are numbers anyway
    #[arg(short = 'n', long, global = true)]
    pub numeric: bool,
    /// Names of hosts (by the system's resolver) and of ports (/etc/services; not with -n) on screen and in the tables
    /// of people. Nothing waits for a resolver: a name is shown when it has come; `list` waits 1s at most. Piped tables and
    /// JSON keep the numbers and get local_name and remote_name beside them
    #[arg(short = 'r', long, global = true)]
    pub resolve: bool,
    /// The processes that hold a flow, before other columns where there is no room for all; and `list --window 0`, which
    /// tells of none by itself, looks for them in /proc
    #[arg(short = 'p', long, global = true)]
    pub processes: bool,
    /// Network namespace: a name of `ip netns`, a pid, or `all`
    #[arg(short = 'N', long, value_name = "NAME|PID|all", global = true)]
    pub netns: Option<String>,
    /// Only flows that leave by this device
    #[arg(long, value_name = "DEV", global = true)]
    pub dev: Option<String>,
    /// At least this long between two samples of a flow; 0 = every ACK. A flow looked at, or with losses in the last 10 s,
    /// is sampled at every ACK by itself
    #[arg(long, value_name = "DUR", default_value = "10ms", value_parser = duration, global = true)]
    pub interval: Duration,
    /// What observing may cost, percent of all cores, our process and the kernel programs together; above it the
    /// intervals stretch, and say so
    #[arg(long, value_name = "PCT", default_value = "5", value_parser = percent, global = true)]
    pub max_cpu: f64,
    /// What the path is known to carry: 100mbit, 1gbit. How full it is (BDP fill, utilisation) is then of that; doctor judges
    /// ceilings against it
    #[arg(long, value_name = "RATE", value_parser = report::rate, global = true)]
    pub path_rate: Option<u64>,
    /// Where figures come from: the kernel programs (ebpf), or polling by socket-diag (diag: reduced, and labelled so);
    /// auto = the programs, or polling where the kernel or our rights do not allow them
    #[arg(long, value_enum, default_value_t = SourceChoice::Auto, global = true)]
    pub source: SourceChoice,
    /// Bytes of the ring between the kernel and us
    #[arg(long, value_name = "SIZE", default_value = "8m", value_parser = size, global = true)]
    pub ring: u32,
    /// Colours
    #[arg(long, value_enum, default_value_t = Color::Auto, global = true)]
    pub color: Color,
    /// The dashboard's settings, instead of ~/.config/observer/config.toml
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Where the dashboard's key R puts its recordings
    #[arg(long, value_name = "DIR", global = true)]
    pub record_dir: Option<PathBuf>,
    /// Record addresses (prefixes stay prefixes) and names replaced by others
    #[arg(long, global = true)]
    pub anonymize: bool,
    /// Tells on standard error where figures come from, at what pace, and what the kernel filters
    #[arg(short = 'v', long, global = true)]
    pub verbose: bool,
    /// Exit with 4 when events were lost
    #[arg(long, global = true)]
    pub strict: bool,
    /// Events from this text instead of from the host, `-` = standard input (for developers: docs/SCRIPTS.md)
    #[arg(long, value_name = "FILE", global = true, hide = true, conflicts_with_all = ["netns", "source"])]
    pub script: Option<PathBuf>,
    /// Made-up flows instead of the host's: `flows=20000,rate=100000,churn=200,time=60` (for benchmarks)
    #[arg(long, value_name = "WHAT", global = true, hide = true, conflicts_with_all = ["netns", "source", "script"])]
    pub synthetic: Option<SyntheticOptions>,
    /// What the script says up to this moment
    #[arg(long, value_name = "TIME", value_parser = place, global = true, hide = true)]
    pub at: Option<Place>,
    /// Prints one screen of the dashboard as text
    #[arg(long, value_name = "COLUMNSxLINES", value_parser = screen_size, global = true, hide = true)]
    pub screen: Option<(u16, u16)>,
    /// Keys pressed before: `3jj<Enter>`
    #[arg(
        long,
        value_name = "KEYS",
        global = true,
        hide = true,
        requires = "screen"
    )]
    pub keys: Option<Keys>,
    /// The kernel's type information (for developers)
    #[arg(long, value_name = "DIR", default_value = crate::kernel::btf::SYS_KERNEL_BTF, global = true, hide = true)]
    pub btf: PathBuf,
}

/// Keys in the order in which they are pressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys(pub Vec<String>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SourceChoice {
    Auto,
    Ebpf,
    Diag,
}

/// `10ms`, `1s`, `2m`; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("'{text}' is no duration: write 10ms, 1s or 2m (a bare number is seconds)");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(wrong());
    }
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * factor)
        .ok()
        .filter(|d| *d <= Duration::from_hours(366 * 24))
        .ok_or_else(|| format!("'{text}' is too long"))
}

/// A time of a recording or of a script.
fn place(text: &str) -> Result<Place, String> {
    text.parse()
}

/// `80x24`.
fn screen_size(text: &str) -> Result<(u16, u16), String> {
    let size = text.split_once('x').and_then(|(columns, lines)| {
        let size: (u16, u16) = (columns.parse().ok()?, lines.parse().ok()?);
        // More is nobody's terminal.
        (size.0 <= 1000 && size.1 <= 1000).then_some(size)
    });
    size.ok_or_else(|| format!("'{text}' is no size of a screen: write 80x24"))
}

impl From<&str> for Keys {
    /// Characters as they are, other keys by their names in `<>`.
    fn from(text: &str) -> Self {
        let mut keys = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let named = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'));
            match named {
                Some((name, after)) if name.len() > 1 => {
                    keys.push(name.to_owned());
                    rest = after;
                }
                _ => {
                    keys.push(first.to_string());
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        Self(keys)
    }
}

fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be longer than 0".to_owned()),
        duration => Ok(duration),
    }
}

/// More than 0, at most 100.
fn percent(text: &str) -> Result<f64, String> {
    text.trim_end_matches('%')
        .parse()
        .ok()
        .filter(|percent| *percent > 0.0 && *percent <= 100.0)
        .ok_or_else(|| {
            format!("'{text}' is no share of the CPU: write a number of percent, such as 5")
        })
}

/// `64k`, `10m`: powers of 1024, as `tc` reads sizes.
fn size(text: &str) -> Result<u32, String> {
    let wrong = || format!("'{text}' is no size: write 64k or 10m");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number
        .checked_mul(1 << shift)
        .filter(|bytes| (4096..=1 << 30).contains(bytes))
        .and_then(|bytes| u32::try_from(bytes).ok())
        .ok_or_else(|| format!("'{text}' is not between 4k and 1g"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_in_the_contract() {
        assert_eq!(duration("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(duration("2m"), Ok(Duration::from_mins(2)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        for wrong in ["", "s", "-1s", "1x", "1e3", "99999999999h", "..", "é"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn screens_and_keys() {
        assert_eq!(screen_size("80x24"), Ok((80, 24)));
        for wrong in ["", "80", "80x", "x24", "80x99999", "-1x5"] {
            assert!(screen_size(wrong).is_err(), "{wrong}");
        }
        let read = Keys::from("3<Enter><<>j");
        assert_eq!(read.0, ["3", "Enter", "<", "<", ">", "j"]);
    }

    #[test]
    fn sizes_are_bounded() {
        assert_eq!(size("8m"), Ok(8 << 20));
        assert_eq!(size("64k"), Ok(64 << 10));
        for wrong in ["", "1", "9g", "k", "1z", "99999999999999999999"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
