//! Messages of the host and of the tool itself.

use super::super::proto;
use super::super::proto::option::Setting as Told;
use crate::event::{
    Cost, Counters, Device, DeviceId, Elsewhere, Host, Offloads, ProgramCounters, Qdisc, Setting,
};
use crate::units::Limit;

pub fn device_id(id: DeviceId) -> proto::DeviceId {
    proto::DeviceId {
        netns: id.netns,
        ifindex: id.ifindex,
    }
}

pub fn from_device_id(id: proto::DeviceId) -> DeviceId {
    DeviceId {
        netns: id.netns,
        ifindex: id.ifindex,
    }
}

pub fn host(h: &Host) -> proto::Host {
    let sysctls = h.sysctls.iter().map(|(name, value)| proto::Sysctl {
        name: name.clone(),
        value: value.clone(),
    });
    proto::Host {
        hostname: h.hostname.clone(),
        kernel: h.kernel.clone(),
        netns: h.netns,
        hz: h.hz,
        cpus: h.cpus,
        default_qdisc: h.default_qdisc.clone(),
        default_cc: h.default_cc.clone(),
        available_cc: h.available_cc.clone(),
        sysctls: sysctls.collect(),
    }
}

pub fn from_host(m: proto::Host) -> Host {
    let sysctls = m.sysctls.into_iter().map(|s| (s.name, s.value));
    Host {
        hostname: m.hostname,
        kernel: m.kernel,
        netns: m.netns,
        hz: m.hz,
        cpus: m.cpus,
        default_qdisc: m.default_qdisc,
        default_cc: m.default_cc,
        available_cc: m.available_cc,
        sysctls: sysctls.collect(),
    }
}

pub fn device(d: &Device) -> proto::Device {
    proto::Device {
        id: Some(device_id(d.id)),
        name: d.name.clone(),
        mtu: d.mtu,
        up: d.up,
        kind: d.kind.clone(),
        tx_queues: d.tx_queues,
        qdiscs: d.qdiscs.iter().map(qdisc).collect(),
        offloads: d.offloads.map(|o| proto::Offloads {
            tso: o.tso,
            gso: o.gso,
            gro: o.gro,
            gro_hw: o.gro_hw,
            lro: o.lro,
        }),
    }
}

pub fn from_device(m: proto::Device) -> Option<Device> {
    Some(Device {
        id: from_device_id(m.id?),
        name: m.name,
        mtu: m.mtu,
        up: m.up,
        kind: m.kind,
        tx_queues: m.tx_queues,
        qdiscs: m
            .qdiscs
            .into_iter()
            .map(from_qdisc)
            .collect::<Option<_>>()?,
        offloads: m.offloads.map(|o| Offloads {
            tso: o.tso,
            gso: o.gso,
            gro: o.gro,
            gro_hw: o.gro_hw,
            lro: o.lro,
        }),
    })
}

fn qdisc(q: &Qdisc) -> proto::Qdisc {
    let extra = q.extra.iter().map(|(name, value)| proto::Counter {
        name: name.clone(),
        value: *value,
    });
    let options = q.options.iter().map(|(name, setting)| proto::Option {
        name: name.clone(),
        setting: Some(told(setting)),
    });
    proto::Qdisc {
        kind: q.kind.clone(),
        handle: q.handle,
        parent: q.parent,
        bytes: q.bytes,
        packets: q.packets,
        drops: q.drops,
        overlimits: q.overlimits,
        requeues: q.requeues,
        backlog_bytes: q.backlog_bytes,
        backlog_packets: q.backlog_packets,
        extra: extra.collect(),
        options: options.collect(),
    }
}

fn from_qdisc(m: proto::Qdisc) -> Option<Qdisc> {
    let options = m
        .options
        .into_iter()
        .map(|option| Some((option.name, from_told(option.setting?))));
    Some(Qdisc {
        kind: m.kind,
        handle: m.handle,
        parent: m.parent,
        bytes: m.bytes,
        packets: m.packets,
        drops: m.drops,
        overlimits: m.overlimits,
        requeues: m.requeues,
        backlog_bytes: m.backlog_bytes,
        backlog_packets: m.backlog_packets,
        extra: m.extra.into_iter().map(|c| (c.name, c.value)).collect(),
        options: options.collect::<Option<_>>()?,
    })
}

fn told(setting: &Setting) -> Told {
    match setting {
        Setting::Count(value) => Told::Count(*value),
        Setting::Packets(value) => Told::Packets(*value),
        Setting::Bytes(value) => Told::Bytes(*value),
        Setting::Rate(limit) => Told::RateBytesPerS(proto::Limit {
            unlimited: *limit == Limit::Unlimited,
            value: limit.finite().unwrap_or(0),
        }),
        Setting::Nanoseconds(value) => Told::Nanoseconds(*value),
        Setting::Share(value) => Told::Share(*value),
        Setting::Signed(value) => Told::Signed(*value),
        Setting::Flag(value) => Told::Flag(*value),
        Setting::Word(value) => Told::Word(value.clone()),
    }
}

fn from_told(told: Told) -> Setting {
    match told {
        Told::Count(value) => Setting::Count(value),
        Told::Packets(value) => Setting::Packets(value),
        Told::Bytes(value) => Setting::Bytes(value),
        Told::RateBytesPerS(limit) => Setting::Rate(if limit.unlimited {
            Limit::Unlimited
        } else {
            Limit::Finite(limit.value)
        }),
        Told::Nanoseconds(value) => Setting::Nanoseconds(value),
        Told::Share(value) => Setting::Share(value),
        Told::Signed(value) => Setting::Signed(value),
        Told::Flag(value) => Setting::Flag(value),
        Told::Word(value) => Setting::Word(value),
    }
}

pub fn elsewhere(e: Elsewhere) -> proto::Elsewhere {
    proto::Elsewhere {
        namespaces: e.namespaces,
        flows: e.flows,
        denied: e.denied,
    }
}

pub fn from_elsewhere(m: &proto::Elsewhere) -> Elsewhere {
    Elsewhere {
        namespaces: m.namespaces,
        flows: m.flows,
        denied: m.denied,
    }
}

pub fn counters(c: &Counters) -> proto::Counters {
    let programs = c.programs.iter().map(|p| proto::Program {
        name: p.program.clone(),
        attempted: p.attempted,
        kept: p.kept,
        suppressed: p.suppressed,
        filtered: p.filtered,
        failed: p.failed,
        dropped: p.dropped,
        missed: p.missed,
        run_time_ns: p.run_time_ns,
    });
    proto::Counters {
        programs: programs.collect(),
        cost: c.cost.map(|cost| proto::Cost {
            user_ppm: cost.user_ppm,
            kernel_ppm: cost.kernel_ppm,
            interval_ns: cost.interval_ns,
            close_ns: cost.close_ns,
            stretched: cost.stretched,
        }),
    }
}

pub fn from_counters(m: proto::Counters) -> Counters {
    let programs = m.programs.into_iter().map(|p| ProgramCounters {
        program: p.name,
        attempted: p.attempted,
        kept: p.kept,
        suppressed: p.suppressed,
        filtered: p.filtered,
        failed: p.failed,
        dropped: p.dropped,
        missed: p.missed,
        run_time_ns: p.run_time_ns,
    });
    Counters {
        programs: programs.collect(),
        cost: m.cost.map(|cost| Cost {
            user_ppm: cost.user_ppm,
            kernel_ppm: cost.kernel_ppm,
            interval_ns: cost.interval_ns,
            close_ns: cost.close_ns,
            stretched: cost.stretched,
        }),
    }
}
