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
//! A line is `[TIME] WORD [FLOW] [KEY=VALUE…] [TEXT…]`.
//!
//! - TIME: `+DUR` after the line before (the first: after 0), `@DUR` from 0; left out = the time of the line before.
//! - FLOW: `COOKIE` or `COOKIE:NETNS`; NETNS is 4026531840 unless said otherwise.
//! - A value holds as it is written; `-` = unknown, `unlimited`, `yes`/`no`. Where it is a time it takes `ns us ms s m`
//!   (bare: µs), where it is a rate `bit kbit mbit gbit` or `B/s` (bare: bytes per second). `"…"` keeps blanks together
//!   and knows `\n \t \e \" \\ \u{…}`.
//!
//! Keys not given keep the value of the line before of the same word and flow (device, program); first lines have
//! modest defaults. So a line says what changed.
//!
//! | word | of | keys |
//! |---|---|---|
//! | `opened` | flow | `birth state local remote` |
//! | `attributes` | flow | `local remote cc version module max_pacing_rate cgroup_id cgroup dev cwnd_clamp notsent_lowat pmtu mss_clamp user_mss advmss rcv_mss user_locks wscale` (`7/8`, `none`) `sack timestamps ecn` |
//! | `sample` | flow | the fields of [`crate::event::Sample`] without `_us` and `_bytes`; `clocks=-`; the clocks as `busy rwnd_limited sndbuf_limited`; `cc=bbr\|cubic\|dctcp\|-` with `phase` (`PROBE_BW/UP`) `btlbw bbr_min_rtt pacing_gain cwnd_gain full_bw lt_bw lt_use_bw bw_hi bw_lo inflight_hi inflight_lo extra_acked`, `last_max_cwnd last_cwnd origin_point k delay_min hystart_found`, `alpha` `ce_state loss_cwnd` |
//! | `retransmit` | flow or none | `kind segments bytes seq end_seq ca failed rtt min_rtt cwnd` (kept from no line before) |
//! | `state` | flow | `old new local remote` |
//! | `ca` | flow | `old new cwnd ssthresh lost_out` |
//! | `closed` | flow | |
//! | `owners` | flow | words `PID/COMM`; none = nobody |
//! | `host` | | `hostname kernel netns hz cpus default_qdisc default_cc cc` (commas), any key with a dot is a sysctl |
//! | `device` | | `index netns name mtu up kind queues` |
//! | `qdisc` | | `index netns handle parent` (`root`, `ingress`, `MAJ:MIN`) `kind bytes packets drops overlimits requeues backlog_bytes backlog_packets`, any other key is an extra counter; the device comes whole |
//! | `device_gone` | | `index netns` |
//! | `counters` | | `program kept suppressed filtered failed dropped missed run_time_ns`; `attempted` is their sum; all programs come |
//! | `gap` | flow or none | `missing` |
//! | `note` | flow or none | `kind=info\|degraded\|attempt`, TEXT |
//! | `tick` | | |

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
            "gap" => flow::gap(line),
            "note" => host::note(line),
            "tick" => Ok(Payload::Tick),
            other => Err(format!("no event is called {other:?}")),
        }
    }
}

/// All events of a text.
pub fn parse(text: &str) -> Result<Vec<Event>, ScriptError> {
    let mut reader = Reader::default();
    let mut events = Vec::new();
    for line in text.lines() {
        events.extend(reader.line(line)?);
    }
    Ok(events)
}

/// A script as a source: a batch per moment.
#[derive(Debug)]
pub struct Script {
    info: Info,
    events: VecDeque<Event>,
}

impl Script {
    pub fn new(name: &str, text: &str) -> Result<Self, ScriptError> {
        Ok(Self {
            info: Info {
                kind: SourceKind::Script,
                origin: None,
                name: name.to_owned(),
                wall_offset_ns: None,
            },
            events: parse(text)?.into(),
        })
    }
}

impl Source for Script {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn next(&mut self) -> Result<Option<Vec<Event>>, SourceError> {
        let Some(first) = self.events.pop_front() else {
            return Ok(None);
        };
        let mut batch = vec![first];
        while let Some(event) = self.events.pop_front_if(|e| e.time == batch[0].time) {
            batch.push(event);
        }
        Ok(Some(batch))
    }
}
