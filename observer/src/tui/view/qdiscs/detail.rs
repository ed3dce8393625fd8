//! The selected qdisc: how it is set up, who uses it, what it counted, its last minutes.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::settings;
use super::spark::spark;
use super::table::{device_name, per_s};
use crate::event::{Device, FlowId, Nature, Qdisc, TC_H_ROOT, handle_text, nature};
use crate::model::{HISTORY_S, Model, QdiscHistory, Rise, Second};
use crate::tui::format::{cut, known, pack};
use crate::tui::state::ViewState;
use crate::tui::state::qdiscs::{Use, is_egress};
use crate::units::{self, escape};

/// What a line is about, in its first columns.
const LABEL: usize = 9;
const BETWEEN: &str = "  ";
/// Kept beside the bars for what they stand for.
const SAID: usize = 42;
/// From so many lines on there is room for bars of more than one.
const TALL: usize = 18;
const BARS: usize = 3;

/// A part with its lines; the lower its rank, the longer it stays where it is low.
struct Part {
    rank: usize,
    lines: Vec<Line<'static>>,
}

/// The lines of the selected qdisc, at most `room` of them.
pub(super) fn lines(
    model: &Model,
    state: &ViewState,
    width: usize,
    room: usize,
) -> Vec<Line<'static>> {
    let Some(row) = state.qdiscs.line().and_then(|at| state.qdiscs.rows.get(at)) else {
        return Vec::new();
    };
    let Some((device, qdisc)) = super::of(model, row) else {
        return Vec::new();
    };
    let history = row
        .parent
        .and_then(|parent| model.qdisc_history(row.device, parent));
    let mut parts = vec![Part {
        rank: 0,
        lines: vec![title(model, state, device, qdisc, history, width)],
    }];
    if let Some(qdisc) = qdisc {
        let rise = history.and_then(|history| history.rise(model.now()));
        parts.push(set_up(qdisc, width));
        if is_egress(row) {
            let used = state.qdiscs.uses.get(&row.device);
            let has_fq = device.qdiscs.iter().any(|qdisc| qdisc.kind == "fq");
            parts.push(flows(model, state, used, has_fq, width));
        }
        parts.push(counted(qdisc, rise.as_ref(), width));
        parts.push(levels(qdisc, width));
        if let Some(history) = history {
            let tall = room >= TALL;
            parts.extend(past(
                model,
                state,
                qdisc,
                history,
                rise.as_ref(),
                width,
                tall,
            ));
        }
    }
    fit(parts, room)
}

/// Parts go by their rank until the rest has room.
fn fit(mut parts: Vec<Part>, room: usize) -> Vec<Line<'static>> {
    parts.retain(|part| !part.lines.is_empty());
    let height = |parts: &[Part]| parts.iter().map(|part| part.lines.len()).sum::<usize>();
    while height(&parts) > room {
        let over = height(&parts) - room;
        let last = (0..parts.len()).max_by_key(|&at| parts[at].rank);
        let Some(last) = last else { break };
        // The beginning of a long part is better than nothing of it.
        let keep = parts[last].lines.len().saturating_sub(over);
        if keep == 0 {
            parts.remove(last);
        } else {
            parts[last].lines.truncate(keep);
        }
    }
    parts.into_iter().flat_map(|part| part.lines).collect()
}

/// `eth0 fq 8001: root · not the default (fq_codel) · 12 s ago in the place of pfifo_fast 0:`.
fn title(
    model: &Model,
    state: &ViewState,
    device: &Device,
    qdisc: Option<&Qdisc>,
    history: Option<&QdiscHistory>,
    width: usize,
) -> Line<'static> {
    let mut text = device_name(device);
    let Some(qdisc) = qdisc else {
        text.push_str(": no qdisc was told");
        return Line::styled(cut(&text, width), state.theme.heading);
    };
    text = format!(
        "{text} {} {} {}",
        escape(&qdisc.kind),
        qdisc.handle_text(),
        qdisc.parent_text()
    );
    let mut more = Vec::new();
    if qdisc.parent == TC_H_ROOT {
        more.extend(against_default(model, device));
    }
    if let Some((kind, handle)) = history.and_then(QdiscHistory::replaced) {
        let since = history.map_or(0, |history| model.now().since(history.since()));
        more.push(format!(
            "{} s ago in the place of {} {}",
            since / 1_000_000_000,
            escape(kind),
            handle_text(handle)
        ));
    }
    let mut rest = String::new();
    for more in more {
        rest.push_str(" · ");
        rest.push_str(&more);
    }
    let text = cut(&text, width);
    let left = width.saturating_sub(text.width());
    Line::from(vec![
        Span::styled(text, state.theme.heading),
        Span::raw(cut(&rest, left)),
    ])
}

/// Whether what acts on the device's flows is what a new device would get (TRAPS 12).
fn against_default(model: &Model, device: &Device) -> Option<String> {
    let host = model.hosts().get(&device.id.netns)?;
    let default = host.default_qdisc.as_deref()?;
    let kind = device.egress()?.kind;
    Some(match kind.as_str() {
        // A device without a queue of its own gets none by default.
        "noqueue" => "no queue of its own".to_owned(),
        kind if kind == default => "the default".to_owned(),
        _ => format!("not the default ({})", escape(default)),
    })
}

/// `label` and what belongs to it, in as many lines as it needs.
fn labelled(
    label: &str,
    parts: impl IntoIterator<Item = String>,
    width: usize,
) -> Vec<Line<'static>> {
    let packed = pack(parts, BETWEEN, width.saturating_sub(LABEL));
    let line = |(n, text): (usize, String)| {
        let label = if n == 0 { label } else { "" };
        Line::raw(cut(&format!("{label:LABEL$}{text}"), width))
    };
    packed.into_iter().enumerate().map(line).collect()
}

fn set_up(qdisc: &Qdisc, width: usize) -> Part {
    let options = qdisc.options.iter();
    let said = options.filter_map(|(name, setting)| settings::option(name, setting));
    Part {
        rank: 3,
        lines: labelled("set up", said, width),
    }
}

/// Who uses the device, and who paces: since 4.13 TCP does so itself where fq does not, which is no fault.
fn flows(model: &Model, state: &ViewState, used: Option<&Use>, has_fq: bool, width: usize) -> Part {
    let parts = match used {
        None => vec!["none leaves by this device".to_owned()],
        Some(used) => {
            let rate = known(used.throughput_bps.map(units::rate));
            let mut parts = vec![
                format!("{}, {rate}", used.flows),
                format!("pacing: {}", pacing(used, has_fq)),
            ];
            let told = used.fastest.iter();
            parts.extend(told.filter_map(|&(bps, id)| flow(model, state, id, bps)));
            let more = used.flows - used.fastest.len().min(used.flows);
            if more > 0 {
                parts.push(format!("+{more}"));
            }
            parts
        }
    };
    let mut lines = labelled("flows", parts, width);
    // The fastest are many enough in two lines.
    lines.truncate(2);
    Part { rank: 1, lines }
}

/// A socket that met an fq leaves its pacing to fq for ever: also when that was taken away, or is on a device below.
fn pacing(used: &Use, has_fq: bool) -> String {
    let fq = if has_fq {
        "by fq"
    } else {
        "left to an fq that is not on this device"
    };
    let kinds = [
        (fq, used.paced_by_fq),
        ("by TCP", used.paced_by_tcp),
        ("none", used.not_paced),
        ("unknown", used.pacing_unknown),
    ];
    let some: Vec<_> = kinds.into_iter().filter(|(_, flows)| *flows > 0).collect();
    match some[..] {
        [] => "—".to_owned(),
        [(kind, _)] => kind.to_owned(),
        _ => {
            let some = some.iter().map(|(kind, flows)| format!("{kind} {flows}"));
            some.collect::<Vec<_>>().join(", ")
        }
    }
}

fn flow(model: &Model, state: &ViewState, id: FlowId, bps: u64) -> Option<String> {
    let remote = state.addresses.text(model.flow(id)?.remote());
    Some(format!("{remote} {}", units::rate(bps)))
}

/// Totals with their rates; what is zero is named together.
fn counted(qdisc: &Qdisc, rise: Option<&Rise>, width: usize) -> Part {
    let rate = |count: Option<u64>| match (rise, count) {
        (Some(rise), Some(count)) => format!("{}/s", per_s(rise, count)),
        _ => "—/s".to_owned(),
    };
    let mut parts = vec![format!(
        "sent {} {}p",
        units::size(qdisc.bytes),
        qdisc.packets
    )];
    let base = [
        ("drops", qdisc.drops, rise.map(|r| r.drops)),
        ("overlimits", qdisc.overlimits, rise.map(|r| r.overlimits)),
        ("requeues", qdisc.requeues, rise.map(|r| r.requeues)),
    ];
    let own = qdisc
        .extra
        .iter()
        .filter(|(name, _)| nature(&qdisc.kind, name) == Nature::Counter)
        .map(|(name, total)| {
            let risen = rise.and_then(|rise| rise.extra.get(name).copied());
            (name.as_str(), *total, risen)
        });
    let mut zero = Vec::new();
    for (name, total, risen) in base.into_iter().chain(own) {
        // Drops are asked after: their zero is said.
        if total == 0 && name != "drops" {
            zero.push(escape(name));
        } else {
            parts.push(format!("{} {total} ({})", escape(name), rate(risen)));
        }
    }
    if let Some(first) = zero.first_mut() {
        first.insert_str(0, "zero: ");
    }
    parts.extend(zero);
    Part {
        rank: 4,
        lines: labelled("counted", parts, width),
    }
}

fn levels(qdisc: &Qdisc, width: usize) -> Part {
    let own = qdisc.extra.iter().filter_map(|(name, value)| {
        let measure = match nature(&qdisc.kind, name) {
            Nature::Counter => return None,
            Nature::Level(measure) | Nature::Gauge(measure) => measure,
        };
        Some(format!(
            "{} {}",
            escape(name),
            settings::level(*value, measure)
        ))
    });
    Part {
        rank: 5,
        lines: labelled("now", own, width),
    }
}

/// Backlog and drops of the last minutes, a column a second.
fn past(
    model: &Model,
    state: &ViewState,
    qdisc: &Qdisc,
    history: &QdiscHistory,
    rise: Option<&Rise>,
    width: usize,
    tall: bool,
) -> [Part; 2] {
    let room = width.saturating_sub(LABEL + BETWEEN.len() + SAID);
    let seconds = history.seconds(model.now(), room.min(HISTORY_S));
    let seen = seconds.iter().flatten().count();
    let height = if tall { BARS } else { 1 };
    let bars = |value: fn(&Second) -> u64| {
        let values: Vec<_> = seconds.iter().map(|s| s.as_ref().map(value)).collect();
        spark(&values, values.len(), height, state.theme.marker)
    };
    let all = || seconds.iter().flatten();
    let most = all().map(|second| second.backlog_bytes).max();
    let drops: u64 = all().map(|second| second.drops).sum();
    let backlog = format!(
        "{} {}p, at most {} in {seen} s",
        units::size(qdisc.backlog_bytes),
        qdisc.backlog_packets,
        known(most.map(units::size))
    );
    let rate = known(rise.map(|rise| per_s(rise, rise.drops)));
    let dropped = format!("{rate}/s, {drops} in {seen} s");
    let part = |label, bars: Vec<String>, said: String, style| Part {
        rank: 2,
        lines: barred(label, bars, &said, style, width),
    };
    let style = if rise.is_some_and(|rise| rise.drops > 0) {
        state.theme.warn
    } else {
        Style::new()
    };
    [
        part(
            "backlog",
            bars(|s| s.backlog_bytes),
            backlog,
            state.theme.series[0],
        ),
        part("drops", bars(|s| s.drops), dropped, style),
    ]
}

/// Bars with their label before the last line of them, and what they stand for behind it.
fn barred(
    label: &str,
    bars: Vec<String>,
    said: &str,
    style: Style,
    width: usize,
) -> Vec<Line<'static>> {
    let last = bars.len().saturating_sub(1);
    let line = |(n, bars): (usize, String)| {
        let (label, said) = if n == last { (label, said) } else { ("", "") };
        let left = width.saturating_sub(LABEL + bars.width() + BETWEEN.len());
        Line::from(vec![
            Span::raw(format!("{label:LABEL$}")),
            Span::styled(bars, style),
            Span::raw(format!("{BETWEEN}{}", cut(said, left))),
        ])
    };
    bars.into_iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_give_way_by_their_rank() {
        let part = |rank: usize, lines: usize| Part {
            rank,
            lines: vec![Line::raw(rank.to_string()); lines],
        };
        let said = |room| {
            let lines = fit(vec![part(0, 1), part(4, 3), part(2, 2)], room);
            lines.iter().map(ToString::to_string).collect::<String>()
        };
        assert_eq!(said(9), "044422");
        assert_eq!(said(4), "0422");
        assert_eq!(said(2), "02");
        assert_eq!(said(0), "");
    }

    #[test]
    fn pacing_by_tcp_is_told_as_what_it_is() {
        let used = |fq, tcp| Use {
            paced_by_fq: fq,
            paced_by_tcp: tcp,
            ..Use::default()
        };
        assert_eq!(pacing(&used(3, 0), true), "by fq");
        assert_eq!(pacing(&used(0, 2), false), "by TCP");
        assert_eq!(pacing(&used(1, 2), true), "by fq 1, by TCP 2");
        assert_eq!(pacing(&used(0, 0), true), "—");
        assert_eq!(
            pacing(&used(1, 0), false),
            "left to an fq that is not on this device"
        );
    }
}
