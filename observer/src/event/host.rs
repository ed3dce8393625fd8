//! What is observed of the host: kernel, sysctls, devices and the qdiscs really attached.

use std::collections::BTreeMap;

use super::{Qdisc, TC_H_ROOT};

/// A device: indexes are per network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    /// Inode number of the namespace.
    pub netns: u32,
    pub ifindex: u32,
}

/// The machine, as far as it bears on TCP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    pub hostname: String,
    /// `uname -r`.
    pub kernel: String,
    /// Namespace the sysctls were read in.
    pub netns: u32,
    /// Ticks per second of the kernel, which user space is not told (TRAPS 41).
    pub hz: Option<u32>,
    /// CPUs online.
    pub cpus: u32,
    /// `net.core.default_qdisc`: what a new device gets, not what is attached (TRAPS 12).
    pub default_qdisc: Option<String>,
    /// `net.ipv4.tcp_congestion_control`.
    pub default_cc: Option<String>,
    pub available_cc: Vec<String>,
    /// Dotted name to value; `None` = this kernel has no such setting, or it cannot be read.
    pub sysctls: BTreeMap<String, Option<String>>,
}

/// Flows that are not observed because they live in other network namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// Namespaces with such flows.
    pub namespaces: u32,
    /// Their flows, as `ss` without `-a` would count them.
    pub flows: u64,
    /// Namespaces that could not be looked into.
    pub denied: u32,
}

/// What a device cuts and joins on TCP's behalf, by `ethtool`'s words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Segments cut by the device.
    pub tso: bool,
    /// … by the stack, just before it.
    pub gso: bool,
    /// Segments joined by the stack, so that they are acknowledged together.
    pub gro: bool,
    /// … by the device.
    pub gro_hw: bool,
    pub lro: bool,
}

impl Offloads {
    /// By name.
    pub fn named(&self) -> [(&'static str, bool); 5] {
        [
            ("tso", self.tso),
            ("gso", self.gso),
            ("gro", self.gro),
            ("gro_hw", self.gro_hw),
            ("lro", self.lro),
        ]
    }
}

/// A network device and its qdiscs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    pub id: DeviceId,
    pub name: String,
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// `IFLA_LINKINFO` kind (`veth`, `bridge`); `None` for plain ones.
    pub kind: Option<String>,
    pub tx_queues: u32,
    /// `None` = not known.
    pub offloads: Option<Offloads>,
    /// All qdiscs of the device in the kernel's order, root first.
    pub qdiscs: Vec<Qdisc>,
}

impl Device {
    /// The root qdisc as it acts on flows: for `mq`, whose own counters may be empty, its children summed, under the
    /// children's kind when they agree (TRAPS 12). `None` when nothing is attached (`noqueue` is something).
    pub fn egress(&self) -> Option<Qdisc> {
        let root = self.qdiscs.iter().find(|q| q.parent == TC_H_ROOT)?;
        if root.kind != "mq" && root.kind != "mqprio" {
            return Some(root.clone());
        }
        let major = root.handle >> 16;
        let children: Vec<&Qdisc> = self
            .qdiscs
            .iter()
            .filter(|q| q.parent >> 16 == major && q.parent & 0xffff != 0)
            .collect();
        let Some(first) = children.first() else {
            return Some(root.clone());
        };
        let mut sum = Qdisc {
            kind: if children.iter().all(|q| q.kind == first.kind) {
                first.kind.clone()
            } else {
                root.kind.clone()
            },
            handle: root.handle,
            parent: TC_H_ROOT,
            ..Qdisc::default()
        };
        for child in children {
            sum.add(child);
        }
        Some(sum)
    }
}
