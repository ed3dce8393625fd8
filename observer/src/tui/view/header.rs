//! The header: host, source, what was lost; per device the qdisc really attached; the defaults.

use std::collections::BTreeSet;

use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use crate::event::{Device, Origin, Qdisc};
use crate::model::Model;
use crate::tui::format::{cut, names, pack};
use crate::tui::state::group::Grouping;
use crate::tui::state::{Paused, ViewState};
use crate::units::{self, UNKNOWN, escape};

/// Devices are given at most so many lines.
const DEVICE_LINES: usize = 3;
/// So much of the host's name is kept beside a long kernel's.
const NAME: usize = 8;
const BETWEEN: &str = " · ";

/// The header's lines, at most `height` of them; over a recording where in it one is goes before all else.
pub fn lines(
    model: &Model,
    state: &ViewState,
    source: &str,
    width: usize,
    height: usize,
) -> Vec<Line<'static>> {
    let file = super::timeline::file(model, state, width, height == 1);
    let height = height.saturating_sub(usize::from(file.is_some()));
    let rest = present(model, state, source, width, height);
    file.into_iter().chain(rest).collect()
}

/// What is true now.
fn present(
    model: &Model,
    state: &ViewState,
    source: &str,
    width: usize,
    height: usize,
) -> Vec<Line<'static>> {
    let defaults = pack(defaults(model, state), BETWEEN, width);
    let room = height.saturating_sub(1 + defaults.len()).min(DEVICE_LINES);
    let mut lines = vec![identity(model, state, source, width)];
    lines.extend(
        devices(model, state, width, room)
            .into_iter()
            .map(Line::raw),
    );
    lines.extend(defaults.into_iter().map(Line::raw));
    lines.truncate(height);
    lines
}

/// `lab 6.18.0 eBPF  flows 3  events/s 310  CPU 0.2%  lost 0`. Where it is narrow the host's name is cut, then figures go,
/// the last first; what was lost stays.
fn identity(model: &Model, state: &ViewState, source: &str, width: usize) -> Line<'static> {
    let (open, shown) = (model.open_flows(), state.flows.open);
    let flows = if shown == open {
        format!("  flows {open}")
    } else {
        format!("  flows {shown} of {open}")
    };
    let cpu = state
        .own_cpu
        .map_or_else(|| UNKNOWN.to_owned(), units::percent);
    let figures = [
        flows,
        format!("  events/s {}", model.events_per_s()),
        format!("  CPU {cpu}{}", stretched(model)),
    ];
    let lost = match model.lost() {
        0 => Span::raw("lost 0"),
        lost => Span::styled(format!("LOST {lost}!"), state.theme.alarm),
    };
    let paused = state.paused.as_ref().map(paused);
    let running = state.recording.running.clone();
    let mut marks: Vec<Span> = Vec::new();
    for text in running.into_iter().chain(paused) {
        marks.extend([Span::styled(text, state.theme.alarm), Span::raw("  ")]);
    }
    let lost = [marks, vec![lost]].concat();
    let lost_width: usize = lost.iter().map(Span::width).sum();
    let host = model.host();
    let text = |value: Option<&str>| escape(value.filter(|v| !v.is_empty()).unwrap_or(UNKNOWN));
    let (name, kernel) = (
        text(host.map(|h| h.hostname.as_str())),
        text(host.map(|h| h.kernel.as_str())),
    );
    let left = |figures: &[String]| {
        let used: usize = figures.iter().map(|f| f.width()).sum();
        width.checked_sub(source.width() + used + 2 + lost_width)
    };
    // A kernel's version that is cut reads as another one: figures go before it does.
    let wants = name.width().min(NAME) + 1 + kernel.width() + 1;
    let fits = |least: usize| {
        let mut counts = (0..=figures.len()).rev();
        counts.find_map(|n| Some((n, left(&figures[..n]).filter(|room| *room >= least)?)))
    };
    let Some((n, room)) = fits(wants).or_else(|| fits(0)) else {
        return Line::from(lost);
    };
    // A long host name gives way to the kernel's.
    let name = cut(&name, room.saturating_sub(kernel.width() + 2).max(NAME));
    let names = cut(&format!("{name} {kernel}"), room.saturating_sub(1));
    let mut text = names + if room > 0 { " " } else { "" } + source;
    text.extend(figures.into_iter().take(n));
    let mut line = Line::raw(text + "  ");
    line.extend(lost);
    line
}

/// ` (every 40 ms)` while samples are taken less often than asked for, because of what they cost.
fn stretched(model: &Model) -> String {
    let cost = model.counters().and_then(|counters| counters.cost);
    match cost.filter(|cost| cost.stretched) {
        Some(cost) => {
            let us = |ns: u64| units::ms(ns / 1000);
            format!(
                " (samples every {} ms, with losses {})",
                us(cost.interval_ns),
                us(cost.close_ns)
            )
        }
        None => String::new(),
    }
}

/// `PAUSED 21:03:07, 12 s ago`; without a wall clock, by how long alone.
fn paused(paused: &Paused) -> String {
    let seconds = paused.ago / 1_000_000_000;
    match &paused.clock {
        Some(clock) => format!("PAUSED {clock}, {seconds} s ago"),
        None => format!("PAUSED {seconds} s ago"),
    }
}

/// What the table is narrowed and put together by; nothing where it is all flows, one by one.
pub fn modes(state: &ViewState, width: usize) -> Option<Line<'static>> {
    let flows = &state.flows;
    let mut parts = Vec::new();
    if flows.grouping != Grouping::None {
        parts.push(format!("by {}", flows.grouping.as_str()));
    }
    if !flows.search.is_empty() {
        let nowhere = if flows.not_found { ", nowhere" } else { "" };
        parts.push(format!("search {}{nowhere}", escape(&flows.search)));
    }
    if let Some(filter) = &flows.filter {
        parts.push(format!("filter {}", escape(&filter.to_string())));
    }
    (!parts.is_empty()).then(|| Line::styled(cut(&parts.join(BETWEEN), width), state.theme.warn))
}

/// `eth0 fq drops 3 backlog 0 B`: what is attached, children of mq summed (TRAPS 12).
fn device(device: &Device) -> String {
    let name = escape(&device.name);
    match device.egress() {
        Some(qdisc) => format!(
            "{name} {} drops {} backlog {}",
            escape(&qdisc.kind),
            qdisc.drops,
            units::size(qdisc.backlog_bytes)
        ),
        None => format!("{name} qdisc {UNKNOWN}"),
    }
}

/// Devices that flows leave by come first.
fn devices(model: &Model, state: &ViewState, width: usize, height: usize) -> Vec<String> {
    let used = &state.flows.census.devices;
    let mut all: Vec<&Device> = model.devices().filter(|d| d.up).collect();
    all.sort_by_key(|device| !used.contains(&device.id));
    // As many as there is room for, the number of the others with them. There may be thousands: those that cannot fit
    // are not tried.
    let count = all.len();
    let fits = |n: usize| {
        let parts = all[..n].iter().map(|d| device(d));
        let more = (n < count).then(|| format!("+{} devices", count - n));
        let lines = pack(parts.chain(more), BETWEEN, width);
        (lines.len() <= height).then_some(lines)
    };
    let mut lines = fits(0).unwrap_or_default();
    for n in 1..=count {
        match fits(n) {
            Some(more) => lines = more,
            // The last ones may fit where their number does not.
            None if n + 1 < count => break,
            None => {}
        }
    }
    lines
}

/// The defaults, and beside them what is at work instead.
fn defaults(model: &Model, state: &ViewState) -> Vec<String> {
    let host = model.host();
    let qdisc = host.and_then(|h| h.default_qdisc.as_deref());
    let cc = host.and_then(|h| h.default_cc.as_deref());
    let attached: Vec<Qdisc> = model
        .devices()
        .filter(|d| d.up)
        .filter_map(Device::egress)
        .collect();
    let attached: BTreeSet<&str> = attached
        .iter()
        .map(|q| q.kind.as_str())
        .filter(|kind| *kind != "noqueue" && Some(*kind) != qdisc)
        .collect();
    let ccs = &state.flows.census.ccs;
    let used: BTreeSet<&str> = ccs
        .iter()
        .map(String::as_str)
        .filter(|name| Some(*name) != cc)
        .collect();
    let part = |what: &str, default: Option<&str>, how: &str, others: BTreeSet<&str>| {
        let default = escape(default.unwrap_or(UNKNOWN));
        if others.is_empty() {
            format!("default {what} {default}")
        } else {
            format!("default {what} {default} ({how}: {})", names(others))
        }
    };
    let mut parts = vec![
        part("qdisc", qdisc, "attached", attached),
        part("cc", cc, "in use", used),
    ];
    if let Some(found) = model.elsewhere().filter(|found| found.flows > 0) {
        parts.push(format!(
            "+{} flows in other namespaces: -N all",
            found.flows
        ));
    }
    if let Some(found) = model.elsewhere().filter(|found| found.denied > 0) {
        let namespaces = match found.denied {
            1 => "1 namespace".to_owned(),
            more => format!("{more} namespaces"),
        };
        parts.push(format!("{namespaces} could not be looked into"));
    }
    parts
}

/// The line for what has just been recorded and for what does not work here; `None` when there is neither.
pub fn status(model: &Model, state: &ViewState, width: usize) -> Option<Line<'static>> {
    // Typing a time, it is told beside what is typed.
    if let Some(notice) = state.notice.as_ref().filter(|_| state.prompt.is_none()) {
        return Some(Line::styled(cut(notice, width), state.theme.warn));
    }
    let timeline = state.timeline.as_ref();
    if let Some(trouble) = timeline.and_then(|timeline| timeline.trouble.as_ref()) {
        return Some(Line::styled(cut(trouble, width), state.theme.alarm));
    }
    if let Some(notice) = &state.recording.notice {
        let style = if notice.alarm {
            state.theme.alarm
        } else {
            state.theme.key
        };
        return Some(Line::styled(cut(&notice.text, width), style));
    }
    let degraded = model.degraded();
    let last = escape(&degraded.last()?.note.text);
    let text = match degraded.len() {
        1 => format!("1 limitation here: {last}"),
        more => format!("{more} limitations here (? lists them), the last: {last}"),
    };
    Some(Line::styled(cut(&text, width), state.theme.quiet))
}

/// The source's name as it is shown.
pub fn source_name(origin: Option<Origin>) -> &'static str {
    match origin {
        Some(Origin::Ebpf) => "eBPF",
        Some(Origin::Diag) => "socket-diag",
        Some(Origin::Capture) => "capture",
        None => "script",
    }
}
