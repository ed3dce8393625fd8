//! Lines about the host, its devices and the tool.

use super::line::Line;
use super::values::{FromText, Unit::Plain, Unit::Rate, nanoseconds};
use super::{NETNS, Reader};
use crate::event::{
    Device, DeviceId, Elsewhere, Note, NoteKind, Offloads, Payload, ProgramCounters, Qdisc,
    Setting, TC_H_INGRESS, TC_H_ROOT,
};
use crate::units::Limit;

/// Those that are on: `tso,gso`; `none`; `-` = not known.
fn offloads(text: &str) -> Result<Option<Offloads>, String> {
    if text == "-" {
        return Ok(None);
    }
    let mut told = Offloads::default();
    for word in text.split(',').filter(|word| *word != "none") {
        match word {
            "tso" => told.tso = true,
            "gso" => told.gso = true,
            "gro" => told.gro = true,
            "gro_hw" => told.gro_hw = true,
            "lro" => told.lro = true,
            _ => {
                return Err(format!(
                    "offloads={text}: expected tso, gso, gro, gro_hw, lro"
                ));
            }
        }
    }
    Ok(Some(told))
}

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
            offloads: None,
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
        if let Some(text) = line.take("offloads") {
            device.offloads = offloads(&text)?;
        }
        Ok(Payload::Device(Box::new(device.clone())))
    }

    pub(super) fn qdisc(&mut self, line: &mut Line) -> Result<Payload, String> {
        let device = self.known_device(line)?;
        let handle = line.take("handle").map(|text| handle(&text)).transpose()?;
        let parent = line.take("parent").map(|text| parent(&text)).transpose()?;
        let kind = line.take("kind");
        // A place holds one; without its place it is told by its handle, without either it is the first.
        let at = device.qdiscs.iter().position(|q| match (parent, handle) {
            (Some(parent), _) => q.parent == parent,
            (None, Some(handle)) => q.handle == handle,
            (None, None) => true,
        });
        let known = at.map(|at| &device.qdiscs[at]);
        let same = |q: &Qdisc| {
            handle.is_none_or(|handle| q.handle == handle)
                && kind.as_deref().is_none_or(|kind| q.kind == kind)
        };
        if !known.is_some_and(same) {
            let new = Qdisc {
                kind: kind.unwrap_or_else(|| "fq".to_owned()),
                handle: handle.unwrap_or(0x8001_0000),
                parent: parent.unwrap_or(TC_H_ROOT),
                ..Qdisc::default()
            };
            match at {
                Some(at) => device.qdiscs[at] = new,
                None => device.qdiscs.push(new),
            }
        }
        let at = at.unwrap_or(device.qdiscs.len() - 1);
        let qdisc = &mut device.qdiscs[at];
        line.set("bytes", Plain, &mut qdisc.bytes)?;
        line.set("packets", Plain, &mut qdisc.packets)?;
        line.set("drops", Plain, &mut qdisc.drops)?;
        line.set("overlimits", Plain, &mut qdisc.overlimits)?;
        line.set("requeues", Plain, &mut qdisc.requeues)?;
        line.set("backlog_bytes", Plain, &mut qdisc.backlog_bytes)?;
        line.set("backlog_packets", Plain, &mut qdisc.backlog_packets)?;
        for (key, value) in line.rest() {
            if let Some(name) = key.strip_prefix("option.") {
                set_option(qdisc, name, setting(&value)?);
                continue;
            }
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

pub(super) fn elsewhere(line: &mut Line) -> Result<Payload, String> {
    Ok(Payload::Elsewhere(Elsewhere {
        namespaces: line.get("namespaces", Plain, 1)?,
        flows: line.get("flows", Plain, 0)?,
        denied: line.get("denied", Plain, 0)?,
    }))
}

fn parent(text: &str) -> Result<u32, String> {
    match text {
        "root" => Ok(TC_H_ROOT),
        "ingress" => Ok(TC_H_INGRESS),
        other => handle(other),
    }
}

fn set_option(qdisc: &mut Qdisc, name: &str, setting: Setting) {
    match qdisc.options.iter_mut().find(|(known, _)| known == name) {
        Some((_, known)) => *known = setting,
        None => qdisc.options.push((name.to_owned(), setting)),
    }
}

/// What an option is set to, by its unit: `100p` `1514B` `50mbit` `unlimited` `5ms` `2%` `yes` `42`; else a word.
fn setting(text: &str) -> Result<Setting, String> {
    let number = |text: &str| u64::from_text(text, Plain).ok();
    let counted = |unit: &str| number(text.strip_suffix(unit)?);
    if let Some(packets) = counted("p") {
        return Ok(Setting::Packets(packets));
    }
    if let Some(bytes) = counted("B") {
        return Ok(Setting::Bytes(bytes));
    }
    if let Some(count) = number(text) {
        return Ok(Setting::Count(count));
    }
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f64 = percent
            .parse()
            .map_err(|_| format!("{text:?} is no share"))?;
        return Ok(Setting::Share(
            (percent / 100.0 * f64::from(u32::MAX)) as u32,
        ));
    }
    if let Ok(rate) = Limit::from_text(text, Rate) {
        return Ok(Setting::Rate(rate));
    }
    if let Ok(ns) = nanoseconds(text) {
        return Ok(Setting::Nanoseconds(ns));
    }
    Ok(match text {
        "yes" => Setting::Flag(true),
        "no" => Setting::Flag(false),
        word => Setting::Word(word.to_owned()),
    })
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
