//! What is observed of a qdisc: what it is, what it counted, how it is set up.

use std::collections::BTreeMap;

use crate::units::Limit;

/// One qdisc as `tc -s -d qdisc` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qdisc {
    pub kind: String,
    /// `major:minor`, 16 bits each.
    pub handle: u32,
    /// `TC_H_ROOT` = 0xffffffff, `TC_H_INGRESS`/`TC_H_CLSACT` = 0xfffffff1.
    pub parent: u32,
    pub bytes: u64,
    pub packets: u64,
    pub drops: u64,
    pub overlimits: u64,
    pub requeues: u64,
    /// Levels.
    pub backlog_bytes: u64,
    pub backlog_packets: u64,
    /// Kind-specific counters by `tc`'s names (`throttled`, `flows_plimit`, `ecn_mark` …); [`nature`] says what each is.
    pub extra: BTreeMap<String, u64>,
    /// How it is set up, by `tc`'s names and in its order. What the kernel did not tell is absent.
    pub options: Vec<(String, Setting)>,
}

/// What an option is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    Count(u64),
    Packets(u64),
    Bytes(u64),
    /// Bytes per second.
    Rate(Limit<u64>),
    Nanoseconds(u64),
    /// In parts of 2³² − 1, as the kernel holds it.
    Share(u32),
    Signed(i64),
    Flag(bool),
    Word(String),
}

/// What a kind-specific number is (TRAPS 23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// It only grows: shown as a total and as a rate.
    Counter,
    /// How much there is now; children are added up.
    Level(Measure),
    /// How much there is now, which cannot be added up: of children the largest is told.
    Gauge(Measure),
}

/// What a level is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    Count,
    Bytes,
    /// Bytes per second.
    Rate,
    Nanoseconds,
    Microseconds,
    /// In parts of 2⁶⁴.
    Probability,
}

/// What the number `name` of a qdisc of `kind` is; what is not known here counts.
pub fn nature(kind: &str, name: &str) -> Nature {
    match (kind, name) {
        (
            "fq",
            "flows" | "inactive" | "throttled_flows" | "band0_pkts" | "band1_pkts" | "band2_pkts",
        )
        | ("fq_codel" | "fq_pie", "new_flows_len" | "old_flows_len")
        | ("cake", "sparse_flows" | "bulk_flows" | "unresponsive_flows")
        | ("codel", "count" | "lastcount") => Nature::Level(Measure::Count),
        ("pie", "maxq") => Nature::Gauge(Measure::Count),
        ("fq_codel" | "codel", "maxpacket") => Nature::Gauge(Measure::Bytes),
        (_, "memory_used" | "memory_limit") => Nature::Level(Measure::Bytes),
        ("fq", "latency") => Nature::Gauge(Measure::Nanoseconds),
        ("codel", "ldelay") | ("pie", "delay") => Nature::Gauge(Measure::Microseconds),
        ("pie", "avg_dq_rate") => Nature::Gauge(Measure::Rate),
        ("cake", "capacity_estimate") => Nature::Level(Measure::Rate),
        ("pie", "prob") => Nature::Gauge(Measure::Probability),
        _ => Nature::Counter,
    }
}

/// `TC_H_ROOT`.
pub const TC_H_ROOT: u32 = 0xffff_ffff;
/// `TC_H_INGRESS`, `TC_H_CLSACT`.
pub const TC_H_INGRESS: u32 = 0xffff_fff1;

/// A handle as `tc` writes it: `8001:`, `1:10`, `:1`.
pub fn handle_text(handle: u32) -> String {
    let (major, minor) = (handle >> 16, handle & 0xffff);
    match (major, minor) {
        (0, 0) => "0:".to_owned(),
        (_, 0) => format!("{major:x}:"),
        (0, _) => format!(":{minor:x}"),
        _ => format!("{major:x}:{minor:x}"),
    }
}

impl Qdisc {
    /// `8001:` as `tc` writes it.
    pub fn handle_text(&self) -> String {
        handle_text(self.handle)
    }

    /// `root`, `ingress`, or the parent's handle, as `tc` writes it.
    pub fn parent_text(&self) -> String {
        match self.parent {
            TC_H_ROOT => "root".to_owned(),
            TC_H_INGRESS => "ingress".to_owned(),
            parent => handle_text(parent),
        }
    }

    /// The option `name`.
    pub fn option(&self, name: &str) -> Option<&Setting> {
        let found = self.options.iter().find(|(known, _)| known == name);
        found.map(|(_, setting)| setting)
    }

    /// Adds what a sibling counted.
    pub(super) fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.packets += other.packets;
        self.drops += other.drops;
        self.overlimits += other.overlimits;
        self.requeues += other.requeues;
        self.backlog_bytes += other.backlog_bytes;
        self.backlog_packets += other.backlog_packets;
        for (name, value) in &other.extra {
            let sum = self.extra.entry(name.clone()).or_default();
            *sum = match nature(&other.kind, name) {
                Nature::Gauge(_) => (*sum).max(*value),
                Nature::Counter | Nature::Level(_) => sum.saturating_add(*value),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_written_as_tc_does() {
        assert_eq!(handle_text(0), "0:");
        assert_eq!(handle_text(0x8001_0000), "8001:");
        assert_eq!(handle_text(0x0001_0010), "1:10");
        assert_eq!(handle_text(2), ":2");
        let root = Qdisc {
            parent: TC_H_ROOT,
            ..Qdisc::default()
        };
        assert_eq!(root.parent_text(), "root");
    }

    #[test]
    fn what_cannot_be_added_up_is_the_largest() {
        let fq = |latency, throttled| Qdisc {
            kind: "fq".to_owned(),
            extra: [("latency", latency), ("throttled", throttled)]
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
            ..Qdisc::default()
        };
        let mut sum = Qdisc::default();
        sum.add(&fq(9000, 5));
        sum.add(&fq(7000, 6));
        assert_eq!(sum.extra["latency"], 9000);
        assert_eq!(sum.extra["throttled"], 11);
    }
}
