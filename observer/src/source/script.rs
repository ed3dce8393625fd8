//! Events as text, one per line: for tests, screens, and trying something out by hand.
//!
//! ```text
//! # comment
//! @1s    opened 7 local=10.0.0.1:5201 remote=10.0.0.2:40000 birth=yes
//! +0     attributes 7 cc=bbr version=v1 dev=2
//! +100ms sample 7 cwnd=10 srtt=40ms bytes_acked=14480
//! +100ms sample 7 bytes_acked=28960
//! +5ms   retransmit 7 segments=3 bytes=4344 kind=fast
//! +0     closed 7
//! ```
//!
//! The grammar, word by word, is `docs/SCRIPTS.md`; a test holds it to what is read here.

mod flow;
mod host;
mod line;
mod values;

use std::collections::BTreeMap;
use std::collections::VecDeque;

use super::{Info, Source, SourceError, SourceKind};
use crate::event::{Attributes, Counters, Device, DeviceId, Event, FlowId, Host, Payload, Sample};
use crate::units::Mono;
use line::Line;

/// The namespace meant when none is written: the first one's inode on every kernel.
pub const NETNS: u32 = 4_026_531_840;

/// The words a line may begin with, after its time.
pub const WORDS: [&str; 17] = [
    "opened",
    "attributes",
    "sample",
    "retransmit",
    "state",
    "ca",
    "closed",
    "owners",
    "host",
    "device",
    "qdisc",
    "device_gone",
    "counters",
    "elsewhere",
    "gap",
    "note",
    "tick",
];

/// A line that could not be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ScriptError {
    /// From 1.
    pub line: usize,
    pub problem: String,
}

/// Reads lines one after the other: each builds on those before.
#[derive(Debug, Default)]
pub struct Reader {
    now: Mono,
    line: usize,
    samples: BTreeMap<FlowId, Sample>,
    attributes: BTreeMap<FlowId, Attributes>,
    host: Host,
    devices: BTreeMap<DeviceId, Device>,
    counters: Counters,
}

impl Reader {
    /// The event of one line; `None` for a blank or a comment.
    pub fn line(&mut self, text: &str) -> Result<Option<Event>, ScriptError> {
        self.line += 1;
        self.event(text).map_err(|problem| ScriptError {
            line: self.line,
            problem,
        })
    }

    fn event(&mut self, text: &str) -> Result<Option<Event>, String> {
        let Some(mut line) = Line::parse(text, self.now)? else {
            return Ok(None);
        };
        self.now = line.time;
        let payload = self.payload(&mut line)?;
        line.finish()?;
        Ok(Some(Event {
            time: line.time,
            flow: line.flow,
            payload,
        }))
    }

    fn payload(&mut self, line: &mut Line) -> Result<Payload, String> {
        match line.word.as_str() {
            "opened" => flow::opened(line),
            "attributes" => self.attributes(line),
            "sample" => self.sample(line),
            "retransmit" => flow::retransmit(line),
            "state" => flow::state(line),
            "ca" => flow::ca_state(line),
            "closed" => line.flow().map(|_| Payload::Closed),
            "owners" => flow::owners(line),
            "host" => self.host(line),
            "device" => self.device(line),
            "qdisc" => self.qdisc(line),
            "device_gone" => host::device_id(line).map(Payload::DeviceGone),
            "counters" => self.counters(line),
            "elsewhere" => host::elsewhere(line),
            "gap" => flow::gap(line),
            "note" => host::note(line),
            "tick" => Ok(Payload::Tick),
            other => Err(format!(
                "no event is called {other:?}; events are {}",
                WORDS.join(" ")
            )),
        }
    }
}

/// All events of a text. A line that ends in `\` goes on in the next.
pub fn parse(text: &str) -> Result<Vec<Event>, ScriptError> {
    let mut reader = Reader::default();
    let mut events = Vec::new();
    let mut whole = String::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((n, line)) = lines.next() {
        if whole.is_empty() {
            reader.line = n;
        }
        if let Some(part) = line.strip_suffix('\\')
            && lines.peek().is_some()
        {
            whole.push_str(part);
            continue;
        }
        whole.push_str(line);
        events.extend(reader.line(&whole)?);
        whole.clear();
    }
    Ok(events)
}

/// A script as a source: a batch per moment.
#[derive(Debug)]
pub struct Script {
    info: Info,
    events: VecDeque<Event>,
    held: bool,
}

impl Script {
    /// Its origin is that of its samples, where they have one.
    pub fn new(name: &str, text: &str) -> Result<Self, ScriptError> {
        let events = parse(text)?;
        let mut origins = events.iter().filter_map(|event| match &event.payload {
            Payload::Sample(sample) => Some(sample.origin),
            _ => None,
        });
        let first = origins.next();
        Ok(Self {
            info: Info {
                kind: SourceKind::Script,
                origin: first.filter(|first| origins.all(|origin| origin == *first)),
                name: name.to_owned(),
                wall_offset_ns: None,
            },
            events: events.into(),
            held: false,
        })
    }

    /// What is so at `moment`: nothing of what comes later.
    #[must_use]
    pub fn until(mut self, moment: Mono) -> Self {
        self.events.retain(|event| event.time <= moment);
        self.events.push_back(Event {
            time: moment,
            flow: None,
            payload: Payload::Tick,
        });
        self
    }

    /// After its last event it does not end: whoever looks may go on looking.
    pub fn hold(&mut self) {
        self.held = true;
    }
}

impl Source for Script {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn next(&mut self) -> Result<Option<Vec<Event>>, SourceError> {
        let Some(first) = self.events.pop_front() else {
            if self.held {
                return std::future::pending().await;
            }
            return Ok(None);
        };
        let mut batch = vec![first];
        while let Some(event) = self.events.pop_front_if(|e| e.time == batch[0].time) {
            batch.push(event);
        }
        Ok(Some(batch))
    }
}
