//! The keys of events' lines, by type.

use std::collections::BTreeMap;

use serde::Serialize;

use super::cc::CcKeys;
use super::flow::{AttributeKeys, FlowKeys, FlowObject, ProcessKeys};
use super::options::PlacedQdisc;
use super::place::PlaceKeys;
use super::sample::SampleKeys;
use super::verdict::ChangeKeys;
use super::{Bound, Head, Kinds, QdiscKeys, Time};
use crate::export::table::{fields, json_fields};

/// One line of `stream`.
#[derive(Clone, Debug, Serialize)]
pub struct Line<'a>(pub(super) Body<'a>);

#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Body<'a> {
    Closed(Box<FlowObject<'a>>),
    Event(Box<EventKeys<'a>>),
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct EventKeys<'a> {
    #[serde(flatten)]
    pub head: Head,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowKeys>,
    #[serde(flatten)]
    pub rest: Rest<'a>,
}

/// The keys by type.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Rest<'a> {
    Elsewhere {
        kind: &'static str,
        namespaces: u32,
        flows: u64,
        denied: u32,
    },
    Opened {
        from_start: bool,
        state: &'static str,
    },
    Sample(Box<SampleLine<'a>>),
    Retransmit(RetransmitKeys),
    State {
        of: &'static str,
        old: &'static str,
        new: &'static str,
    },
    CaState {
        of: &'static str,
        old: &'static str,
        new: &'static str,
        cwnd: u32,
        ssthresh: Bound<u32>,
        lost: u32,
    },
    Source {
        kind: &'static str,
        source: &'static str,
        old_source: &'static str,
    },
    Phase {
        phase: &'static str,
        sub_phase: Option<&'static str>,
        old_phase: &'static str,
        old_sub_phase: Option<&'static str>,
        lasted_us: u64,
    },
    Burst(BurstKeys),
    Verdict(Box<ChangeKeys>),
    Qdisc(DeviceKeys<'a>),
    DeviceGone {
        netns: u32,
        ifindex: u32,
        dev: Option<&'a str>,
        gone: bool,
    },
    Host {
        host: HostKeys<'a>,
    },
    Gap {
        missing: u64,
    },
    Note {
        kind: &'static str,
        text: &'a str,
    },
    Attributes(Box<AttributeLine<'a>>),
    Owners {
        kind: &'static str,
        processes: Vec<ProcessKeys<'a>>,
    },
    Counters {
        kind: &'static str,
        lost: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        cost: Option<CostKeys>,
        programs: Vec<ProgramKeys<'a>>,
    },
}

/// What observing costs, shares of all cores.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct CostKeys {
    pub user: f64,
    pub kernel: f64,
    pub interval_us: u64,
    /// Of flows looked at or with losses.
    pub close_interval_us: u64,
    pub stretched: bool,
}
fields!(CostKeys: user, kernel, interval_us, close_interval_us, stretched);

#[derive(Clone, Debug, Serialize)]
pub(super) struct SampleLine<'a> {
    pub source: Option<&'static str>,
    pub state: &'static str,
    pub cc: CcKeys<'a>,
    #[serde(flatten)]
    pub keys: SampleKeys,
}
fields!(SampleLine<'_>: source, state, cc; flat keys);

#[derive(Clone, Debug, Serialize)]
pub(super) struct AttributeLine<'a> {
    pub kind: &'static str,
    pub cc: CcKeys<'a>,
    pub dev: Option<&'a str>,
    pub cgroup: Option<&'a str>,
    #[serde(flatten)]
    pub place: PlaceKeys,
    #[serde(flatten)]
    pub keys: AttributeKeys,
}
fields!(AttributeLine<'_>: kind, cc, dev, cgroup; flat place, keys);

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct RetransmitKeys {
    pub seq: Option<u32>,
    pub end_seq: Option<u32>,
    pub bytes: u64,
    pub segments: u32,
    pub kind: &'static str,
    pub ca_state: Option<&'static str>,
    pub failed: bool,
    pub rtt_us: Option<u32>,
    pub min_rtt_us: Option<u32>,
    pub cwnd: Option<u32>,
}
fields!(RetransmitKeys: seq, end_seq, bytes, segments, kind, ca_state, failed, rtt_us, min_rtt_us, cwnd);

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct BurstKeys {
    pub start: Time,
    pub start_mono_ns: u64,
    pub end: Time,
    pub end_mono_ns: u64,
    pub segments: u64,
    pub bytes: u64,
    pub by_kind: Kinds,
    pub failed: u64,
    pub rtt_above_min_us: Option<u32>,
}
fields!(BurstKeys: start, start_mono_ns, end, end_mono_ns, segments, bytes, by_kind, failed, rtt_above_min_us);

#[derive(Clone, Debug, Serialize)]
pub(super) struct DeviceKeys<'a> {
    pub netns: u32,
    pub ifindex: u32,
    pub dev: &'a str,
    pub mtu: u32,
    pub up: bool,
    pub dev_kind: Option<&'a str>,
    pub tx_queues: u32,
    pub offloads: Option<BTreeMap<&'static str, bool>>,
    /// As it acts on flows.
    pub qdisc: Option<QdiscKeys>,
    /// All, each for itself.
    pub qdiscs: Vec<PlacedQdisc>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct HostKeys<'a> {
    pub hostname: &'a str,
    pub kernel: &'a str,
    pub netns: u32,
    pub hz: Option<u32>,
    pub cpus: u32,
    pub default_qdisc: Option<&'a str>,
    pub default_cc: Option<&'a str>,
    pub available_cc: &'a [String],
    pub sysctls: &'a BTreeMap<String, Option<String>>,
}
json_fields!(&[String], &BTreeMap<String, Option<String>>);
fields!(HostKeys<'_>: hostname, kernel, netns, hz, cpus, default_qdisc, default_cc, available_cc, sysctls);

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ProgramKeys<'a> {
    pub program: &'a str,
    pub attempted: u64,
    pub kept: u64,
    pub suppressed: u64,
    pub filtered: u64,
    pub failed: u64,
    pub dropped: u64,
    pub missed: u64,
    pub run_time_ns: Option<u64>,
}
fields!(ProgramKeys<'_>: program, attempted, kept, suppressed, filtered, failed, dropped, missed, run_time_ns);
