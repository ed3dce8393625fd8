//! The host as events: kernel and sysctls, devices and the qdiscs attached, namespaces, processes.
//!
//! Everything here is of the calling thread's network namespace; for another one, call it inside [`netns::enter`].

pub mod cgroup;
pub mod link;
pub mod names;
pub mod netlink;
pub mod netns;
pub mod offload;
mod options;
pub mod process;
pub mod qdisc;
pub mod route;
pub mod sysctl;
pub mod tree;
mod xstats;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use rustix::time::{ClockId, Timespec, clock_getres};
use thiserror::Error;

use crate::event::{Device, DeviceId, Event, Host, Offloads, Payload};
use crate::units::Mono;
use netlink::{Netlink, NetlinkError};

/// Where the host's files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
    /// Where `ip netns` keeps its names.
    pub netns: Vec<PathBuf>,
}

impl Default for Roots {
    fn default() -> Self {
        Self {
            proc: "/proc".into(),
            sys: "/sys".into(),
            netns: vec!["/run/netns".into(), "/var/run/netns".into()],
        }
    }
}

/// Every reader of netlink's replies over a datagram, whatever it is: for fuzzing.
#[doc(hidden)]
pub fn read_replies(datagram: &[u8]) {
    let _ = netlink::replies(datagram, |message| {
        let _ = (
            link::parse(message),
            route::parse(message),
            qdisc::read(message),
        );
        let _ = (offload::family(message), offload::device(message));
    });
}

/// Every reader of the host's texts over the same one, whatever it is: for fuzzing.
#[doc(hidden)]
pub fn read_texts(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = (
        count_cpus(&text),
        cgroup::mount_point(&text),
        tree::parent_in(bytes),
    );
    let _ = (
        process::socket_inode(bytes),
        tree::children_in(&text).count(),
    );
    assert_eq!(sysctl::normal(bytes).trim(), sysctl::normal(bytes));
}

/// How often what devices offload is read.
const OFFLOADS_EVERY_NS: u64 = 10_000_000_000;

/// Which part of the host cannot be read.
#[derive(Debug, Error)]
pub enum HostError {
    #[error("devices cannot be listed: {0}")]
    Links(#[source] NetlinkError),
    #[error("qdiscs cannot be listed: {0}")]
    Qdiscs(#[source] NetlinkError),
}

/// Reads the host, its sysctls as the calling thread's namespace (of inode number `netns`) has them. What cannot be
/// read is empty or `None`.
pub fn read_host(roots: &Roots, netns: u32) -> Host {
    let sysctls = roots.proc.join("sys");
    let kernel = |name| sysctl::read(&sysctls, name).unwrap_or_default();
    let sysctls_read = sysctl::read_all(&sysctls);
    let value = |name: &str| sysctls_read.get(name).cloned().flatten();
    Host {
        hostname: kernel("kernel.hostname"),
        kernel: kernel("kernel.osrelease"),
        netns,
        hz: hz(clock_getres(ClockId::MonotonicCoarse)),
        cpus: fs::read_to_string(roots.sys.join("devices/system/cpu/online"))
            .ok()
            .and_then(|list| count_cpus(&list))
            .unwrap_or_default(),
        default_qdisc: value("net.core.default_qdisc"),
        default_cc: value("net.ipv4.tcp_congestion_control"),
        available_cc: value("net.ipv4.tcp_available_congestion_control")
            .map(|names| names.split(' ').map(str::to_owned).collect())
            .unwrap_or_default(),
        sysctls: sysctls_read,
    }
}

/// Reads the devices of the calling thread's namespace (of inode number `netns`) with the qdiscs attached, by index.
pub fn read_devices(netns: u32) -> Result<Vec<Device>, HostError> {
    let mut netlink = Netlink::open(None).map_err(HostError::Links)?;
    let links = link::links(&mut netlink).map_err(HostError::Links)?;
    let qdiscs = qdisc::qdiscs(&mut netlink).map_err(HostError::Qdiscs)?;
    let mut devices: Vec<Device> = links
        .into_iter()
        .map(|link| Device {
            id: DeviceId {
                netns,
                ifindex: link.ifindex,
            },
            name: link.name,
            mtu: link.mtu,
            up: link.up,
            kind: link.kind,
            tx_queues: link.tx_queues,
            offloads: None,
            qdiscs: Vec::new(),
        })
        .collect();
    for (ifindex, qdisc) in qdiscs {
        // A device made between the two dumps is left to the next reading.
        if let Ok(at) = devices.binary_search_by_key(&ifindex, |d| d.id.ifindex) {
            devices[at].qdiscs.push(qdisc);
        }
    }
    Ok(devices)
}

/// Says of one namespace only what changed since it was last said.
#[derive(Clone, Debug)]
pub struct Watch {
    netns: u32,
    host: Option<Host>,
    devices: BTreeMap<DeviceId, Device>,
    /// By index; when they were read.
    offloads: BTreeMap<u32, Offloads>,
    offloads_read: Option<Mono>,
}

impl Watch {
    /// Watches the namespace of inode number `netns`.
    pub fn new(netns: u32) -> Self {
        Self {
            netns,
            host: None,
            devices: BTreeMap::new(),
            offloads: BTreeMap::new(),
            offloads_read: None,
        }
    }

    /// Devices with what was last read of their offloads: they change rarely, and telling them takes the kernel longer
    /// than all the rest.
    fn read_devices(&mut self, now: Mono) -> Result<Vec<Device>, HostError> {
        let mut devices = read_devices(self.netns)?;
        let known = |device: &Device| self.devices.contains_key(&device.id);
        let due = self
            .offloads_read
            .is_none_or(|read| now.since(read) >= OFFLOADS_EVERY_NS);
        if due || !devices.iter().all(known) {
            self.offloads_read = Some(now);
            // A kernel without ethtool's netlink tells none.
            self.offloads = offload::offloads().unwrap_or_default();
        }
        for device in &mut devices {
            device.offloads = self.offloads.get(&device.id.ifindex).copied();
        }
        Ok(devices)
    }

    /// Reads host and devices, in the calling thread's namespace, which must be the one watched. When the devices
    /// cannot be read, the host's change is said at the next call.
    pub fn poll(&mut self, now: Mono, roots: &Roots) -> Result<Vec<Event>, HostError> {
        let devices = self.read_devices(now)?;
        let host = read_host(roots, self.netns);
        Ok(self.compare(now, host, devices))
    }

    /// Reads the devices only: their counters move, while sysctls rarely do.
    pub fn poll_devices(&mut self, now: Mono) -> Result<Vec<Event>, HostError> {
        let devices = self.read_devices(now)?;
        let mut events = Vec::new();
        self.compare_devices(now, devices, &mut events);
        Ok(events)
    }

    /// The events that lead from what was last said to `host` and `devices`.
    pub fn compare(&mut self, now: Mono, host: Host, devices: Vec<Device>) -> Vec<Event> {
        let mut events = Vec::new();
        if self.host.as_ref() != Some(&host) {
            events.push(event(now, Payload::Host(Box::new(host.clone()))));
            self.host = Some(host);
        }
        self.compare_devices(now, devices, &mut events);
        events
    }

    fn compare_devices(&mut self, now: Mono, devices: Vec<Device>, events: &mut Vec<Event>) {
        let mut gone = std::mem::take(&mut self.devices);
        for device in devices {
            if gone.remove(&device.id).as_ref() != Some(&device) {
                events.push(event(now, Payload::Device(Box::new(device.clone()))));
            }
            self.devices.insert(device.id, device);
        }
        events.extend(
            gone.into_keys()
                .map(|id| event(now, Payload::DeviceGone(id))),
        );
    }
}

fn event(time: Mono, payload: Payload) -> Event {
    Event {
        time,
        flow: None,
        payload,
    }
}

/// Ticks per second from the resolution of a coarse clock, which is one tick (TRAPS 41).
fn hz(resolution: Timespec) -> Option<u32> {
    let ns = u64::try_from(resolution.tv_sec).ok()? * 1_000_000_000
        + u64::try_from(resolution.tv_nsec).ok()?;
    // Kernels tick at 24 (m68k) to 1200 Hz; a finer «coarse» clock is somebody's emulation.
    let hz = (1_000_000_000 + ns / 2).checked_div(ns)?;
    (10..=10_000).contains(&hz).then_some(hz as u32)
}

/// The CPUs in a list such as `0-3,8`.
fn count_cpus(list: &str) -> Option<u32> {
    list.trim().split(',').try_fold(0u32, |sum, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Qdisc, TC_H_ROOT};

    fn device(ifindex: u32, packets: u64) -> Device {
        Device {
            id: DeviceId { netns: 1, ifindex },
            name: format!("v{ifindex}"),
            mtu: 1500,
            up: true,
            kind: Some("veth".to_owned()),
            tx_queues: 1,
            offloads: None,
            qdiscs: vec![Qdisc {
                kind: "tbf".to_owned(),
                parent: TC_H_ROOT,
                packets,
                ..Qdisc::default()
            }],
        }
    }

    #[test]
    fn only_what_changed_is_said() {
        let mut watch = Watch::new(1);
        let host = Host::default();
        let first = watch.compare(Mono(1), host.clone(), vec![device(1, 0), device(2, 0)]);
        assert_eq!(first.len(), 3);
        assert!(matches!(first[0].payload, Payload::Host(_)));
        let again = watch.compare(Mono(2), host.clone(), vec![device(1, 0), device(2, 0)]);
        assert_eq!(again, []);
        let moved = watch.compare(Mono(3), host.clone(), vec![device(1, 5)]);
        let expected = [
            event(Mono(3), Payload::Device(Box::new(device(1, 5)))),
            event(
                Mono(3),
                Payload::DeviceGone(DeviceId {
                    netns: 1,
                    ifindex: 2,
                }),
            ),
        ];
        assert_eq!(moved, expected);
        assert_eq!(watch.compare(Mono(4), host, vec![device(1, 5)]), []);
    }

    #[test]
    fn trap_41_ticks_come_from_the_coarse_clock() {
        let resolution = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
        assert_eq!(hz(resolution(4_000_000)), Some(250));
        assert_eq!(hz(resolution(10_000_000)), Some(100));
        assert_eq!(hz(resolution(3_333_333)), Some(300));
        assert_eq!(hz(resolution(999_848)), Some(1000));
        assert_eq!(hz(resolution(1)), None);
        assert_eq!(hz(resolution(0)), None);
    }

    #[test]
    fn cpu_lists_are_counted() {
        assert_eq!(count_cpus("0-1\n"), Some(2));
        assert_eq!(count_cpus("0,2-3,8\n"), Some(4));
        assert_eq!(count_cpus("\n"), None);
        assert_eq!(count_cpus("0-4294967295"), None);
    }

    #[test]
    fn a_host_without_files_is_empty_not_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: dir.path().into(),
            sys: dir.path().into(),
            netns: Vec::new(),
        };
        let host = read_host(&roots, 3);
        assert_eq!(host.default_qdisc, None);
        assert_eq!(host.available_cc, Vec::<String>::new());
        assert_eq!(host.cpus, 0);
    }
}
