//! The header: host, source, what was lost; per device the qdisc really attached; the defaults.

use ratatui::text::{Line, Span};

use super::{alarm, quiet};
use crate::event::{Device, Origin};
use crate::model::Model;
use crate::tui::format::cut;
use crate::tui::state::ViewState;
use crate::units::{self, UNKNOWN, escape};

/// Devices are given at most so many lines.
const DEVICE_LINES: usize = 3;

/// The header's lines for this width.
pub fn lines(model: &Model, state: &ViewState, source: &str, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![identity(model, state, source)];
    lines.extend(devices(model, width).into_iter().map(Line::raw));
    lines.push(defaults(model));
    lines
}

fn identity(model: &Model, state: &ViewState, source: &str) -> Line<'static> {
    let host = model.host();
    let text = |value: Option<&str>| escape(value.filter(|v| !v.is_empty()).unwrap_or(UNKNOWN));
    let cpu = state
        .own_cpu
        .map_or_else(|| UNKNOWN.to_owned(), units::percent);
    let lost = model.lost();
    let spans = vec![
        Span::raw(format!(
            "{} {} {source}  flows {}  events/s {:.0}  CPU {cpu}  ",
            text(host.map(|h| h.hostname.as_str())),
            text(host.map(|h| h.kernel.as_str())),
            model.open_flows(),
            model.events_per_s(),
        )),
        if lost > 0 {
            Span::styled(format!("LOST {lost}!"), alarm(state.colour))
        } else {
            Span::raw("lost 0")
        },
    ];
    Line::from(spans)
}

/// `eth0 fq drops 3 backlog 0 B`: what is attached, children of mq summed (TRAPS 12).
fn device(device: &Device) -> Option<String> {
    let qdisc = device.egress()?;
    Some(format!(
        "{} {} drops {} backlog {}",
        escape(&device.name),
        escape(&qdisc.kind),
        qdisc.drops,
        units::size(qdisc.backlog_bytes)
    ))
}

fn devices(model: &Model, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut left_out = 0;
    for part in model.devices().filter(|d| d.up).filter_map(device) {
        let room = lines
            .last()
            .is_some_and(|line| line.chars().count() + 3 + part.chars().count() <= width);
        if room && let Some(line) = lines.last_mut() {
            line.push_str(" · ");
            line.push_str(&part);
        } else if lines.len() < DEVICE_LINES {
            lines.push(part);
        } else {
            left_out += 1;
        }
    }
    if left_out > 0
        && let Some(line) = lines.last_mut()
    {
        *line = cut(line, width.saturating_sub(12));
        *line += " · +";
        *line += &left_out.to_string();
        *line += " more";
    }
    lines
}

/// The defaults, and where they are not what is at work.
fn defaults(model: &Model) -> Line<'static> {
    let Some(host) = model.host() else {
        return Line::raw(format!("default qdisc {UNKNOWN} · default cc {UNKNOWN}"));
    };
    let qdisc = host.default_qdisc.as_deref();
    let cc = host.default_cc.as_deref();
    let other_qdisc = model
        .devices()
        .filter(|d| d.up)
        .filter_map(Device::egress)
        .any(|q| q.kind != "noqueue" && Some(q.kind.as_str()) != qdisc);
    let other_cc = model
        .flows()
        .filter_map(|flow| flow.attributes())
        .any(|a| Some(a.cc_name.as_str()) != cc);
    let mark = |differs: bool| if differs { " (not everywhere)" } else { "" };
    let text = |value: Option<&str>| escape(value.unwrap_or(UNKNOWN));
    let elsewhere = match model.elsewhere() {
        Some(found) if found.flows > 0 => format!(" · +{} elsewhere: -N all", found.flows),
        _ => String::new(),
    };
    Line::raw(format!(
        "default qdisc {}{} · default cc {}{}{elsewhere}",
        text(qdisc),
        mark(other_qdisc),
        text(cc),
        mark(other_cc)
    ))
}

/// The line for what does not work here; `None` when everything does.
pub fn status(model: &Model, state: &ViewState) -> Option<Line<'static>> {
    let degraded: Vec<_> = model.degraded().iter().collect();
    let last = degraded.last()?;
    let style = quiet(state.colour);
    let text = format!(
        "{} limitation(s) here, the last: {}",
        degraded.len(),
        escape(&last.note.text)
    );
    Some(Line::styled(text, style))
}

/// The source's name as it is shown.
pub fn source_name(origin: Option<Origin>) -> &'static str {
    match origin {
        Some(Origin::Ebpf) => "eBPF",
        Some(Origin::Diag) => "socket-diag",
        None => "script",
    }
}
