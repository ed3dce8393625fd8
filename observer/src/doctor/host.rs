//! Findings on the host: qdiscs really attached against the default, drops of its own, offloads, queues of drivers, settings
//! written but not in force.

use std::collections::BTreeSet;

use super::watch::Watch;
use super::{Finding, Level, Queues, Topic, Written, set};
use crate::event::{Device, DeviceId, TC_H_ROOT};
use crate::units::{percent, size};

/// Qdiscs that kernels attach by themselves: what a changed default would have replaced.
const DEFAULTS: [&str; 4] = ["pfifo_fast", "fq_codel", "fq", "fq_pie"];
/// Of a device's packets, dropped by its own qdisc: from here on worth a word.
const DROPS: f64 = 0.0001;

pub(super) fn judge(watch: &Watch, written: &[Written], queues: &[Queues], out: &mut Vec<Finding>) {
    let used: BTreeSet<DeviceId> = watch
        .judged()
        .filter_map(|(flow, _)| watch.model.device_of(flow).map(|device| device.id))
        .collect();
    for device in watch.model.devices().filter(|device| device.up) {
        let default = watch
            .model
            .hosts()
            .get(&device.id.netns)
            .and_then(|host| host.default_qdisc.as_deref());
        // Other namespaces do not tell the default, which is the machine's.
        let default = default.or_else(|| watch.model.host()?.default_qdisc.as_deref());
        out.extend(default.and_then(|default| not_attached(device, default)));
        if used.contains(&device.id) {
            out.extend(drops(watch, device));
            out.extend(offloads(device));
            out.extend(
                queues
                    .iter()
                    .filter(|of| of.dev == device.name)
                    .find_map(bql),
            );
        }
    }
    out.extend(written.iter().filter_map(in_force));
}

/// `fq` over the root of a device, `mq` with children of the default below a device of several queues.
pub(super) fn attach(finding: Finding, device: &Device, kind: &str) -> Finding {
    let dev = &device.name;
    let root = device.qdiscs.iter().find(|q| q.parent == TC_H_ROOT);
    let old = root.map_or("pfifo_fast", |root| root.kind.as_str());
    // What the kernel attached by itself has handle 0: the way back is to delete what was put over it.
    let by_kernel = root.is_none_or(|root| root.handle == 0);
    let undo = if by_kernel {
        format!(
            "tc qdisc del dev {dev} root (then {old} again, or what net.core.default_qdisc says by then)"
        )
    } else {
        format!("tc qdisc replace dev {dev} root {old} (with its options: tc qdisc show dev {dev})")
    };
    finding
        .command(format!("tc qdisc replace dev {dev} root {kind}"), undo)
        .read(format!("tc qdisc show dev {dev}"))
}

/// The default was changed after the device had got its qdisc.
fn not_attached(device: &Device, default: &str) -> Option<Finding> {
    let kind = device.egress()?.kind;
    if kind == default || !DEFAULTS.contains(&kind.as_str()) {
        return None;
    }
    let finding = Finding::new("default_qdisc", Topic::Qdisc, Level::Warn, &device.name)
        .what(format!("the default qdisc is {default}, but {} still has {kind}: a default counts for new devices only", device.name))
        .evidence(format!("net.core.default_qdisc = {default}, attached: {kind}"));
    Some(attach(finding, device, default))
}

/// The device's own queue drops: loss that is made at home.
fn drops(watch: &Watch, device: &Device) -> Option<Finding> {
    let (dropped, qdisc) = (watch.dropped(device), device.egress()?);
    let share = dropped as f64 / (qdisc.packets.max(1) as f64);
    (dropped > 0 && share >= DROPS).then(|| {
        Finding::new("qdisc_drops", Topic::Qdisc, Level::Warn, &device.name)
            .what(format!(
                "{} drops packets at home, in its own {}",
                device.name, qdisc.kind
            ))
            .evidence(format!(
                "{dropped} while watched ({} of all it passed), backlog {} bytes",
                percent(share),
                qdisc.backlog_bytes
            ))
            .read(format!("tc -s qdisc show dev {}", device.name))
    })
}

/// Segments cut and joined one by one: CPU, where the device or the stack could do many at once.
fn offloads(device: &Device) -> Option<Finding> {
    let on = device.offloads?;
    let off: Vec<&str> = [("tso", on.tso), ("gso", on.gso), ("gro", on.gro)]
        .into_iter()
        .filter_map(|(name, on)| (!on).then_some(name))
        .collect();
    if off.is_empty() {
        return None;
    }
    let dev = &device.name;
    let each = |state: &str| {
        let words: Vec<String> = off.iter().map(|name| format!("{name} {state}")).collect();
        format!("ethtool -K {dev} {}", words.join(" "))
    };
    let finding = Finding::new("offloads_off", Topic::Settings, Level::Info, dev)
        .what(format!("{dev} has {} off: every segment passes the stack by itself, which costs CPU at high rates", off.join(", ")))
        .evidence(format!("{}: off", off.join(", ")))
        .read(format!("ethtool -k {dev}"));
    Some(finding.command(each("on"), each("off")))
}

/// What the driver holds below the qdisc.
fn bql(queues: &Queues) -> Option<Finding> {
    let Queues { dev, count, .. } = queues;
    let files = format!("/sys/class/net/{dev}/queues/tx-*/byte_queue_limits");
    if let Some(max) = queues.capped {
        let write = |value: u64| format!("for f in {files}/limit_max; do echo {value} > $f; done");
        return Some(
            Finding::new("bql_capped", Topic::Qdisc, Level::Warn, dev)
                .what(format!(
                    "the driver's queue of {dev} is held to {} by limit_max",
                    size(max)
                ))
                .evidence(format!(
                    "limit has reached limit_max = {max} in one of {count} transmit queues"
                ))
                .command(write(u64::from(u32::MAX) >> 1), write(max))
                .read(format!("grep . {files}/limit*")),
        );
    }
    (!queues.counted).then(|| {
        Finding::new("no_bql", Topic::Qdisc, Level::Info, dev)
            .what(format!("the driver of {dev} has no byte queue limits: it may hold a queue that no qdisc sees or keeps short"))
            .evidence(format!("limit is 0 in all of {count} transmit queues"))
            .read(format!("grep . {files}/limit; ethtool -g {dev}"))
    })
}

/// Settings that are still recommended, and what became of them.
const OF_OLD: [(&str, &str); 7] = [
    (
        "net.ipv4.tcp_tw_recycle",
        "it broke peers behind NAT, and was removed in 4.12",
    ),
    (
        "net.ipv4.tcp_fack",
        "forward acknowledgement gave way to RACK in 4.15",
    ),
    (
        "net.ipv4.tcp_low_latency",
        "it has had no effect since 4.14",
    ),
    (
        "net.ipv4.tcp_abc",
        "appropriate byte counting was removed in 3.9",
    ),
    (
        "net.ipv4.tcp_frto_response",
        "F-RTO was written anew in 3.10",
    ),
    (
        "net.ipv4.tcp_cookie_size",
        "TCP cookie transactions were removed in 3.10",
    ),
    ("net.ipv4.tcp_thin_dupack", "RACK took its place in 4.18"),
];

fn of_old(name: &str) -> Option<&'static str> {
    OF_OLD
        .iter()
        .find(|(old, _)| *old == name)
        .map(|(_, why)| *why)
}

/// What a file sets, and the kernel does not have, or has otherwise.
fn in_force(written: &Written) -> Option<Finding> {
    let Written {
        name,
        value,
        file,
        now,
    } = written;
    let file = file.display();
    match now {
        None => Some(
            Finding::new("no_such_setting", Topic::Settings, Level::Info, name)
                .what(match of_old(name) {
                    Some(why) => format!("{name} has no effect: {why}"),
                    None => format!("this kernel has no setting {name}: the line has no effect"),
                })
                .evidence(format!("{file}: {name} = {value}"))
                .read(format!("sysctl {name}")),
        ),
        Some(now) if of_old(name).is_some() => Some(
            Finding::new("no_effect", Topic::Settings, Level::Info, name)
                .what(format!(
                    "{name} has no effect: {}",
                    of_old(name).unwrap_or_default()
                ))
                .evidence(format!("{file}: {name} = {value}; in force: {now}"))
                .read(format!("sysctl {name}")),
        ),
        Some(now) if now != value => Some(set(
            Finding::new("not_in_force", Topic::Settings, Level::Warn, name)
                .what(format!(
                    "{file} says {name} = {value}, but {now} is in force"
                ))
                .evidence(format!("{name} = {now}")),
            name,
            value,
            now,
        )),
        Some(_) => None,
    }
}
