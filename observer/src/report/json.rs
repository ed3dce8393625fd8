//! JSON Lines: a line of each file, of each flow, and the total (SPEC §4).

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::block::Block;
use super::{FileReport, FlowReport, Losses, Span, Total};
use crate::event::{Device, Host};
use crate::export::jsonl::{SCHEMA, Time, device_object, host_object};

/// Everything, file lines first.
pub fn write(out: &mut impl Write, files: &[FileReport], total: &Total) -> io::Result<()> {
    for file in files {
        line(out, &FileLine::of(file))?;
    }
    for file in files {
        for flow in &file.flows {
            // The object as `list --json` has it, with keys of ours behind.
            let object = flow
                .object
                .strip_suffix('}')
                .unwrap_or("{\"type\":\"flow\"");
            out.write_all(object.as_bytes())?;
            out.write_all(b",\"file\":")?;
            serde_json::to_writer(&mut *out, &file.given.name)?;
            out.write_all(b",\"report\":")?;
            serde_json::to_writer(&mut *out, &Report::of(flow))?;
            out.write_all(b"}\n")?;
        }
    }
    line(
        out,
        &TotalLine {
            schema: SCHEMA,
            r#type: "total",
            files: files.len(),
            flows: total.flows,
            jain_index: total.jain_index,
            report: &total.block,
        },
    )
}

/// The report block of a flow.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    block: &'a Block,
    bottleneck: &'static str,
    verdicts: &'a [Span],
}

impl<'a> Report<'a> {
    fn of(flow: &'a FlowReport) -> Self {
        Self {
            block: &flow.block,
            bottleneck: flow.bottleneck(),
            verdicts: &flow.verdicts,
        }
    }
}

/// One object and the end of its line.
pub(super) fn line(out: &mut impl Write, object: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, object)?;
    out.write_all(b"\n")
}

#[derive(Serialize)]
struct TotalLine<'a> {
    schema: u32,
    r#type: &'static str,
    files: usize,
    flows: u64,
    jain_index: Option<f64>,
    report: &'a Block,
}

/// `type` `file`.
#[derive(Serialize)]
pub(super) struct FileLine<'a> {
    schema: u32,
    r#type: &'static str,
    file: &'a str,
    /// Nothing of the file is missing; what is, in words.
    complete: bool,
    missing: &'a [String],
    start: Time,
    end: Time,
    environment: EnvironmentKeys<'a>,
    /// `null` = the source counts none (polling).
    loss_of_events: Option<Losses>,
    lost: u64,
    gaps: u64,
    events: u64,
    odd: u64,
    degraded: &'a [String],
    flows: usize,
    flows_left_out: u64,
    flows_too_short: u64,
}

#[derive(Serialize)]
struct EnvironmentKeys<'a> {
    tool: &'a str,
    source: &'a str,
    interval_us: Option<u64>,
    /// The longest that samples were told to be apart.
    longest_interval_us: Option<u64>,
    filter: Option<&'a str>,
    command: Option<&'a str>,
    anonymized: bool,
    part: u32,
    labels: &'a BTreeMap<String, String>,
    kernel: Option<&'a str>,
    host: Option<serde_json::Value>,
    cc_modules: Vec<Algorithm<'a>>,
    devices: Vec<serde_json::Value>,
    /// By device.
    offloads: BTreeMap<&'a str, Option<BTreeMap<&'static str, bool>>>,
}

#[derive(Serialize)]
struct Algorithm<'a> {
    name: &'a str,
    version: Option<&'a str>,
    module: Option<&'a str>,
}

impl<'a> FileLine<'a> {
    pub fn of(file: &'a FileReport) -> Self {
        let given = &file.given.environment;
        let value = |object: serde_json::Result<serde_json::Value>| object.unwrap_or_default();
        let host = |host: &Host| value(serde_json::to_value(host_object(host)));
        let device = |device: &Device| value(serde_json::to_value(device_object(device)));
        let time = |at: Option<crate::units::Mono>| {
            at.map_or_else(Time::default, |at| file.context.time(at))
        };
        Self {
            schema: SCHEMA,
            r#type: "file",
            file: &file.given.name,
            complete: file.reading.complete,
            missing: &file.reading.missing,
            start: time(file.span.map(|(start, _)| start)),
            end: time(file.span.map(|(_, end)| end)),
            environment: EnvironmentKeys {
                tool: &given.tool,
                source: &given.source,
                interval_us: given.interval_ns.map(|ns| ns / 1000),
                longest_interval_us: file.interval_ns.map(|ns| ns / 1000),
                filter: given.filter.as_deref(),
                command: given.command.as_deref(),
                anonymized: given.anonymized,
                part: given.part,
                labels: &given.labels,
                kernel: file.host.as_ref().map(|host| host.kernel.as_str()),
                host: file.host.as_ref().map(host),
                cc_modules: file
                    .algorithms
                    .iter()
                    .map(|(name, version, module)| Algorithm {
                        name,
                        version: version.as_deref(),
                        module: module.as_deref(),
                    })
                    .collect(),
                devices: file.devices.iter().map(device).collect(),
                offloads: file
                    .devices
                    .iter()
                    .map(|device| {
                        let known = device.offloads.map(|o| o.named().into_iter().collect());
                        (device.name.as_str(), known)
                    })
                    .collect(),
            },
            loss_of_events: file.losses,
            lost: file.lost,
            gaps: file.gaps,
            events: file.events,
            odd: file.odd,
            degraded: &file.degraded,
            flows: file.flows.len(),
            flows_left_out: file.left_out,
            flows_too_short: file.too_short,
        }
    }
}
