//! What this host lacks and what it is set to, judged: the ladder of needs, and findings on the flows that run.
//!
//! Needs are read here from the kernel and the host; findings are made from the fold alone, so that a script of events
//! gives the same ones. Conditions are those of DETECTION §1 f; nothing here changes anything.

mod capacity;
mod files;
mod flow;
mod host;
mod needs;
mod path;
mod queues;
mod watch;

use serde::Serialize;

pub use files::{Written, settings, written};
pub use needs::{Need, NeedState, Places, confinement, needs, programs};
pub use queues::{Queues, queues};
pub use watch::{Baseline, Watch};

/// How bad it is. `Info` alone is no reason for another exit code than 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Info,
    Warn,
    Error,
}

impl Level {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// What a finding is about, in the order in which a field engineer looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    Loss,
    ReceiveWindow,
    SendBuffer,
    Pacing,
    Qdisc,
    Mss,
    Options,
    Application,
    Algorithm,
    Settings,
}

impl Topic {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::ReceiveWindow => "receive window",
            Self::SendBuffer => "send buffer",
            Self::Pacing => "pacing",
            Self::Qdisc => "qdisc",
            Self::Mss => "MSS",
            Self::Options => "TCP options",
            Self::Application => "application",
            Self::Algorithm => "algorithm",
            Self::Settings => "settings",
        }
    }
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable, for scripts.
    pub code: &'static str,
    pub topic: Topic,
    pub level: Level,
    /// The flow, device or setting it was seen at; of several flows the one that loses most.
    pub subject: String,
    /// Flows it concerns; 0 = the host.
    pub flows: u32,
    pub what: String,
    pub evidence: String,
    /// No more than this gets through while it is so, bits of payload per second.
    pub ceiling_bps: Option<u64>,
    /// What it costs, bits of payload per second, where the path is known to carry more.
    pub effect_bps: Option<u64>,
    /// What mends it, and what takes that back; `None` = not to be mended on this host by a command.
    pub command: Option<String>,
    pub undo: Option<String>,
    /// What shows the value.
    pub read: Option<String>,
}

impl Finding {
    fn new(code: &'static str, topic: Topic, level: Level, subject: impl Into<String>) -> Self {
        Self {
            code,
            topic,
            level,
            subject: subject.into(),
            flows: 0,
            what: String::new(),
            evidence: String::new(),
            ceiling_bps: None,
            effect_bps: None,
            command: None,
            undo: None,
            read: None,
        }
    }

    fn what(mut self, text: impl Into<String>) -> Self {
        self.what = text.into();
        self
    }

    fn evidence(mut self, text: impl Into<String>) -> Self {
        self.evidence = text.into();
        self
    }

    fn command(mut self, command: impl Into<String>, undo: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self.undo = Some(undo.into());
        self
    }

    fn read(mut self, command: impl Into<String>) -> Self {
        self.read = Some(command.into());
        self
    }

    /// A ceiling, and what it costs where the path carries more by `known` (bits per second).
    fn ceiling(mut self, ceiling_bps: Option<u64>, known: Option<u64>) -> Self {
        self.ceiling_bps = ceiling_bps;
        self.effect_bps = ceiling_bps
            .zip(known)
            .map(|(ceiling, known)| known.saturating_sub(ceiling))
            .filter(|effect| *effect > 0);
        self
    }
}

/// A sysctl's new value with the way back: `sysctl -w name=new`, `sysctl -w name=old`.
fn set(finding: Finding, name: &str, new: &str, old: &str) -> Finding {
    let write = |value: &str| {
        let quote = if value.contains(' ') { "'" } else { "" };
        format!("sysctl -w {quote}{name}={value}{quote}")
    };
    finding
        .command(write(new), write(old))
        .read(format!("sysctl {name}"))
}

/// One finding a code and level: of many flows the one that loses most, with their number. In the engineer's order.
fn merged(findings: Vec<Finding>) -> Vec<Finding> {
    let mut merged: Vec<Finding> = Vec::new();
    for finding in findings {
        let known = merged.iter_mut().find(|known| {
            known.code == finding.code
                && known.flows > 0
                && finding.flows > 0
                && known.command == finding.command
        });
        let Some(known) = known else {
            merged.push(finding);
            continue;
        };
        let flows = known.flows + finding.flows;
        let weight = |f: &Finding| (f.level, f.effect_bps, std::cmp::Reverse(f.ceiling_bps));
        if weight(&finding) > weight(known) {
            *known = finding;
        }
        known.flows = flows;
    }
    merged.sort_by_key(|f| (f.topic, std::cmp::Reverse(f.level)));
    merged
}
