//! Lines about the host, its devices and the tool.

use super::line::Line;
use super::values::{FromText, Unit::Plain};
use super::{NETNS, Reader};
use crate::event::{
    Device, DeviceId, Note, NoteKind, Payload, ProgramCounters, Qdisc, TC_H_INGRESS, TC_H_ROOT,
};

/// `index` and `netns`.
pub(super) fn device_id(line: &mut Line) -> Result<DeviceId, String> {
    Ok(DeviceId {
        netns: line.get("netns", Plain, NETNS)?,
        ifindex: line.get("index", Plain, 2)?,
    })
}

pub(super) fn note(line: &mut Line) -> Result<Payload, String> {
    Ok(Payload::Note(Note {
        kind: line.get("kind", Plain, NoteKind::Info)?,
        text: line.words().join(" "),
    }))
}

impl Reader {
    pub(super) fn host(&mut self, line: &mut Line) -> Result<Payload, String> {
        let host = &mut self.host;
        if host.netns == 0 {
            host.netns = NETNS;
        }
        line.set("hostname", Plain, &mut host.hostname)?;
        line.set("kernel", Plain, &mut host.kernel)?;
        line.set("netns", Plain, &mut host.netns)?;
        line.set("hz", Plain, &mut host.hz)?;
        line.set("cpus", Plain, &mut host.cpus)?;
        line.set("default_qdisc", Plain, &mut host.default_qdisc)?;
        line.set("default_cc", Plain, &mut host.default_cc)?;
        if let Some(names) = line.take("cc") {
            host.available_cc = names.split(',').map(str::to_owned).collect();
        }
        for (key, value) in line.rest() {
            if !key.contains('.') {
                return Err(format!("\"host\" has no key {key:?}"));
            }
            host.sysctls.insert(key, Some(value).filter(|v| v != "-"));
        }
        Ok(Payload::Host(Box::new(host.clone())))
    }

    fn known_device(&mut self, line: &mut Line) -> Result<&mut Device, String> {
        let id = device_id(line)?;
        Ok(self.devices.entry(id).or_insert_with(|| Device {
            id,
            name: format!("eth{}", id.ifindex),
            mtu: 1500,
            up: true,
            kind: None,
            tx_queues: 1,
            qdiscs: Vec::new(),
        }))
    }

    pub(super) fn device(&mut self, line: &mut Line) -> Result<Payload, String> {
        let device = self.known_device(line)?;
        line.set("name", Plain, &mut device.name)?;
        line.set("mtu", Plain, &mut device.mtu)?;
        line.set("up", Plain, &mut device.up)?;
        line.set("kind", Plain, &mut device.kind)?;
        line.set("queues", Plain, &mut device.tx_queues)?;
        Ok(Payload::Device(Box::new(device.clone())))
    }

    pub(super) fn qdisc(&mut self, line: &mut Line) -> Result<Payload, String> {
        let device = self.known_device(line)?;
        let handle = match line.take("handle") {
            Some(text) => handle(&text)?,
            None => device.qdiscs.first().map_or(0x8001_0000, |q| q.handle),
        };
        let at = device.qdiscs.iter().position(|q| q.handle == handle);
        let at = at.unwrap_or_else(|| {
            device.qdiscs.push(Qdisc {
                kind: "fq".to_owned(),
                handle,
                parent: TC_H_ROOT,
                ..Qdisc::default()
            });
            device.qdiscs.len() - 1
        });
        let qdisc = &mut device.qdiscs[at];
        if let Some(text) = line.take("parent") {
            qdisc.parent = match text.as_str() {
                "root" => TC_H_ROOT,
                "ingress" => TC_H_INGRESS,
                other => self::handle(other)?,
            };
        }
        line.set("kind", Plain, &mut qdisc.kind)?;
        line.set("bytes", Plain, &mut qdisc.bytes)?;
        line.set("packets", Plain, &mut qdisc.packets)?;
        line.set("drops", Plain, &mut qdisc.drops)?;
        line.set("overlimits", Plain, &mut qdisc.overlimits)?;
        line.set("requeues", Plain, &mut qdisc.requeues)?;
        line.set("backlog_bytes", Plain, &mut qdisc.backlog_bytes)?;
        line.set("backlog_packets", Plain, &mut qdisc.backlog_packets)?;
        for (key, value) in line.rest() {
            let count = u64::from_text(&value, Plain)
                .map_err(|e| format!("{key}={value}: expected {e}"))?;
            qdisc.extra.insert(key, count);
        }
        Ok(Payload::Device(Box::new(device.clone())))
    }

    pub(super) fn counters(&mut self, line: &mut Line) -> Result<Payload, String> {
        let name = line.get("program", Plain, "tcp_probe".to_owned())?;
        let programs = &mut self.counters.programs;
        let at = programs.iter().position(|p| p.program == name);
        let at = at.unwrap_or_else(|| {
            programs.push(ProgramCounters {
                program: name,
                ..ProgramCounters::default()
            });
            programs.len() - 1
        });
        let p = &mut programs[at];
        line.set("kept", Plain, &mut p.kept)?;
        line.set("suppressed", Plain, &mut p.suppressed)?;
        line.set("filtered", Plain, &mut p.filtered)?;
        line.set("failed", Plain, &mut p.failed)?;
        line.set("dropped", Plain, &mut p.dropped)?;
        line.set("missed", Plain, &mut p.missed)?;
        line.set("run_time_ns", Plain, &mut p.run_time_ns)?;
        let mut cost = self.counters.cost.unwrap_or_default();
        line.set("user_ppm", Plain, &mut cost.user_ppm)?;
        line.set("kernel_ppm", Plain, &mut cost.kernel_ppm)?;
        line.set("interval_ns", Plain, &mut cost.interval_ns)?;
        line.set("close_ns", Plain, &mut cost.close_ns)?;
        line.set("stretched", Plain, &mut cost.stretched)?;
        if cost != crate::event::Cost::default() {
            self.counters.cost = Some(cost);
        }
        p.attempted = p.kept + p.suppressed + p.filtered + p.failed + p.dropped + p.missed;
        Ok(Payload::Counters(Box::new(self.counters.clone())))
    }
}

/// `8001:` or `8001:2`, hexadecimal as `tc` writes it.
fn handle(text: &str) -> Result<u32, String> {
    let part = |text: &str| match text {
        "" => Ok(0),
        text => u16::from_str_radix(text, 16),
    };
    let wrong = || format!("{text:?} is no handle (8001:, 1:2)");
    let (major, minor) = text.split_once(':').ok_or_else(wrong)?;
    let major = part(major).map_err(|_| wrong())?;
    let minor = part(minor).map_err(|_| wrong())?;
    Ok(u32::from(major) << 16 | u32::from(minor))
}
