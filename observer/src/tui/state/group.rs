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

/// What a flow adds to its group. `None` = unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    throughput_bps: Option<u64>,
    inflight_bytes: Option<u64>,
    /// Bytes over the window.
    retrans: Option<u64>,
    sent: Option<u64>,
}

impl Sums {
    pub fn of(model: &Model, flow: &Flow) -> Self {
        let interval = model.interval(flow);
        Self {
            throughput_bps: interval.and_then(|i| Some(i.bps(i.acked?))),
            inflight_bytes: flow.inflight_bytes(),
            retrans: interval.and_then(|i| i.retrans),
            sent: interval.and_then(|i| i.sent),
        }
    }
}

/// Totals of a group: of its flows that are not closed.
#[derive(Clone, Debug)]
pub struct Group {
    pub name: GroupName,
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
    fn new(name: GroupName) -> Self {
        Self {
            name,
            open: 0,
            closed: 0,
            throughput_bps: None,
            inflight_bytes: None,
            retrans: 0,
            sent: 0,
        }
    }

    /// Flows shown of it.
    pub fn flows(&self) -> usize {
        self.open + self.closed
    }

    /// Bytes retransmitted ÷ bytes sent, all flows together; `None` when nothing was sent.
    pub fn retrans_rate(&self) -> Option<f64> {
        (self.sent > 0).then(|| self.retrans as f64 / self.sent as f64)
    }

    /// Takes a flow in; `None` = a closed one.
    fn add(&mut self, flow: Option<&Sums>) {
        let Some(flow) = flow else {
            self.closed += 1;
            return;
        };
        self.open += 1;
        let sum = |total: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                *total = Some(total.unwrap_or(0).saturating_add(more));
            }
        };
        sum(&mut self.throughput_bps, flow.throughput_bps);
        sum(&mut self.inflight_bytes, flow.inflight_bytes);
        if let (Some(retrans), Some(sent)) = (flow.retrans, flow.sent) {
            self.retrans = self.retrans.saturating_add(retrans);
            self.sent = self.sent.saturating_add(sent);
        }
    }
}

/// All groups met so far. A group keeps its place while anything else does: what flows are in is known by it.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    places: HashMap<GroupName, u32>,
    all: Vec<Group>,
}

impl Groups {
    /// The place of the group that `flow` is in.
    pub fn place(&mut self, model: &Model, by: Grouping, flow: &Flow) -> u32 {
        let name = by.key(flow).name(model);
        if let Some(place) = self.places.get(&name) {
            return *place;
        }
        let place = self.all.len() as u32;
        self.places.insert(name.clone(), place);
        self.all.push(Group::new(name));
        place
    }

    /// Empties all of them, to be added up anew.
    pub fn empty(&mut self) {
        for group in &mut self.all {
            let name = std::mem::take(&mut group.name.0);
            *group = Group::new(GroupName(name));
        }
    }

    /// Takes a flow into a group, which has so many then; `None` = a closed one.
    pub fn add(&mut self, place: u32, flow: Option<&Sums>) -> usize {
        let group = &mut self.all[place as usize];
        group.add(flow);
        group.flows()
    }

    /// Places given so far.
    pub fn places(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Places that nobody is in are most of them: it is time to begin anew.
    pub fn is_wasteful(&self) -> bool {
        let used = self.iter().count();
        self.all.len() > 2 * used + 64
    }

    pub fn get(&self, place: usize) -> Option<&Group> {
        self.all.get(place)
    }

    pub fn named(&self, name: &GroupName) -> Option<&Group> {
        let place = self.places.get(name)?;
        self.get(*place as usize).filter(|group| group.flows() > 0)
    }

    /// Those that flows are in.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.all.iter().filter(|group| group.flows() > 0)
    }
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
