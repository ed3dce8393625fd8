//! Flows put together by what they have in common, with totals.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;

use crate::event::DeviceId;
use crate::model::container::{Container, Place, place};
use crate::model::{Flow, Model, Prefix};
use crate::units::{UNKNOWN, escape};

/// What flows are put together by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    #[default]
    None,
    Process,
    /// Container or pod; where the cgroup's path names none, the systemd unit.
    Container,
    Peer,
    /// The peer's /24 or /48.
    Prefix,
    Cc,
    Device,
}

impl Grouping {
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::Process,
        Self::Container,
        Self::Peer,
        Self::Prefix,
        Self::Cc,
        Self::Device,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Process => "process",
            Self::Container => "container",
            Self::Peer => "peer",
            Self::Prefix => "prefix",
            Self::Cc => "cc",
            Self::Device => "device",
        }
    }

    #[must_use]
    pub fn next(self) -> Self {
        let at = Self::ALL.iter().position(|g| *g == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    /// What `flow` has in common with others.
    pub fn key(self, flow: &Flow) -> GroupKey<'_> {
        let known = match self {
            Self::None => None,
            Self::Process => flow
                .owners()
                .and_then(|all| all.first())
                .map(|first| GroupKey::Name(&first.comm)),
            Self::Container => flow
                .attributes()
                .and_then(|a| a.cgroup.as_deref())
                .and_then(|path| {
                    let Place { container, unit } = place(path);
                    let container = container.map(GroupKey::Container);
                    container.or_else(|| unit.map(GroupKey::Unit))
                }),
            Self::Peer => Some(GroupKey::Peer(flow.remote().ip())),
            Self::Prefix => Some(GroupKey::Prefix(Prefix::of(flow.remote().ip()))),
            // The name does not say which BBR it is (TRAPS 15).
            Self::Cc => flow
                .attributes()
                .filter(|a| !a.cc_name.is_empty())
                .map(|a| GroupKey::Cc(&a.cc_name, a.cc_version.as_deref())),
            Self::Device => flow
                .attributes()
                .and_then(|a| a.device)
                .map(GroupKey::Device),
        };
        known.unwrap_or(GroupKey::Unknown)
    }
}

/// What the flows of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GroupKey<'a> {
    /// Of a process.
    Name(&'a str),
    Container(Container<'a>),
    Unit(Cow<'a, str>),
    /// Algorithm and version.
    Cc(&'a str, Option<&'a str>),
    Peer(IpAddr),
    Prefix(Prefix),
    Device(DeviceId),
    Unknown,
}

/// A group's name: stays the same from frame to frame, so that a line can be selected or folded by it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupName(pub String);

impl GroupKey<'_> {
    fn name(&self, model: &Model) -> GroupName {
        GroupName(match *self {
            Self::Name("") | Self::Cc("", _) | Self::Unknown => UNKNOWN.to_owned(),
            Self::Name(name) | Self::Cc(name, None) => escape(name),
            Self::Cc(name, Some(version)) => escape(&format!("{name}/{version}")),
            Self::Container(ref container) => escape(&container.to_string()),
            Self::Unit(ref unit) => escape(unit),
            Self::Peer(address) => address.to_string(),
            Self::Prefix(network) => network.to_string(),
            Self::Device(id) => model
                .device(id)
                .map_or_else(|| format!("device {}", id.ifindex), |d| escape(&d.name)),
        })
    }
}

/// Totals of a group: of its flows that are not closed.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub name: Option<GroupName>,
    pub open: usize,
    pub closed: usize,
    /// The sum of those that are known; `None` = none is.
    pub throughput_bps: Option<u64>,
    pub inflight_bytes: Option<u64>,
    /// Bytes over the window.
    retrans: u64,
    sent: u64,
}

impl Group {
    /// Bytes retransmitted ÷ bytes sent, all flows together; `None` when nothing was sent.
    pub fn retrans_rate(&self) -> Option<f64> {
        (self.sent > 0).then(|| self.retrans as f64 / self.sent as f64)
    }

    fn add(&mut self, model: &Model, flow: &Flow) {
        if flow.is_closed() {
            self.closed += 1;
            return;
        }
        self.open += 1;
        let sum = |total: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                *total = Some(total.unwrap_or(0).saturating_add(more));
            }
        };
        sum(&mut self.inflight_bytes, flow.inflight_bytes());
        let Some(interval) = model.interval(flow) else {
            return;
        };
        sum(
            &mut self.throughput_bps,
            interval.acked.map(|acked| interval.bps(acked)),
        );
        if let (Some(retrans), Some(sent)) = (interval.retrans, interval.sent) {
            self.retrans = self.retrans.saturating_add(retrans);
            self.sent = self.sent.saturating_add(sent);
        }
    }
}

/// Groups in the order in which they were met, and the group of each flow.
pub fn divide(model: &Model, by: Grouping, flows: &[&Flow]) -> (Vec<Group>, Vec<u32>) {
    let mut groups: Vec<Group> = Vec::new();
    let mut places: HashMap<GroupKey, u32> = HashMap::new();
    let of = flows
        .iter()
        .map(|flow| {
            let key = by.key(flow);
            let place = *places.entry(key).or_insert_with_key(|key| {
                groups.push(Group {
                    name: Some(key.name(model)),
                    ..Group::default()
                });
                (groups.len() - 1) as u32
            });
            groups[place as usize].add(model, flow);
            place
        })
        .collect();
    (groups, of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_grouping_has_its_turn() {
        let mut grouping = Grouping::None;
        for expected in Grouping::ALL.into_iter().skip(1) {
            grouping = grouping.next();
            assert_eq!(grouping, expected);
        }
        assert_eq!(grouping.next(), Grouping::None);
    }
}
