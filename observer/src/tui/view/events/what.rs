//! What an entry of the journal says.

use std::fmt::Write as _;

use crate::detect::Class;
use crate::event::{SubPhase, TC_H_ROOT, handle_text, retransmit_kind};
use crate::model::{Burst, Entry, Judgement, Model, PhaseChange, PhasePair, QdiscChange, What};
use crate::tui::moment::duration;
use crate::units::{self, escape};

/// The device that it is about.
pub fn device(entry: &Entry) -> Option<String> {
    match &entry.what {
        What::Qdisc { device, .. } | What::DeviceGone { device } => Some(escape(device)),
        _ => None,
    }
}

/// In words, on one line.
pub fn text(model: &Model, entry: &Entry) -> String {
    let lasted = entry.until.since(entry.time);
    match &entry.what {
        What::Burst(burst) => self::burst(burst),
        What::Phase(change) => phase(entry, change),
        What::Verdict(judgement) => verdict(judgement),
        What::Opened => "opened".to_owned(),
        What::Closed => closed(model, entry),
        What::Origin(change) => format!(
            "samples come from {} now, not from {}: nothing is measured across this",
            change.new.as_str(),
            change.old.as_str()
        ),
        What::Qdisc { change, .. } => qdisc(change, lasted),
        What::DeviceGone { .. } => "the device is gone".to_owned(),
        What::Lost {
            failed,
            dropped,
            missed,
        } => lost(*failed, *dropped, *missed),
        What::Gap { missing } => format!("{missing} records are missing"),
        What::Note(note) => escape(&note.text),
    }
}

fn burst(burst: &Burst) -> String {
    let kinds = burst.sums.kinds();
    let kinds: Vec<String> = kinds
        .map(|(kind, segments)| format!("{} {segments}", retransmit_kind(kind)))
        .collect();
    let lasted = match burst.end.since(burst.start) {
        0 => String::new(),
        ns => format!(" in {}", duration(ns)),
    };
    let mut text = format!("{} seg{lasted}: {}", burst.sums.segments, kinds.join(", "));
    if burst.sums.failed > 0 {
        let _ = write!(text, "; {} not on the wire", burst.sums.failed);
    }
    if let Some(above) = burst.rtt_above_min_us {
        let _ = write!(text, "; RTT {} ms above min", units::ms(above.into()));
    }
    text
}

fn phase(entry: &Entry, change: &PhaseChange) -> String {
    let name = |(phase, sub): PhasePair| match sub.map(SubPhase::as_str) {
        Some(sub) => format!("{}/{sub}", phase.as_str()),
        None => phase.as_str().to_owned(),
    };
    format!(
        "{} → {} after {}",
        name(change.old),
        name(change.new),
        duration(entry.time.since(change.since))
    )
}

fn verdict(judgement: &Judgement) -> String {
    let verdict = &judgement.verdict;
    let old = judgement.old.map_or("", Class::as_str);
    let from = if old.is_empty() {
        String::new()
    } else {
        format!("{old} → ")
    };
    let of = match judgement.group() {
        Some(peer) => format!("{} flows to {peer}: ", verdict.flows.len()),
        None => String::new(),
    };
    let sure = if verdict.class.is_finding() {
        format!(", {} sure", verdict.sure())
    } else {
        String::new()
    };
    format!(
        "{of}{from}{}{sure}: {}",
        verdict.headline(),
        verdict.class.about()
    )
}

fn closed(model: &Model, entry: &Entry) -> String {
    let flow = entry.flow.and_then(|id| model.flow_told(id));
    let Some(flow) = flow else {
        return "closed".to_owned();
    };
    let age = duration(entry.time.since(flow.opened_at()));
    let seen = if flow.from_start() {
        "after"
    } else {
        "in view for"
    };
    let mut text = format!("closed, {seen} {age}");
    if let Some(acked) = flow.sample().and_then(|sample| sample.bytes_acked) {
        let _ = write!(text, ": {} acked", units::size(acked));
    }
    let retransmits = flow.sample().map(|sample| sample.retrans);
    if let Some(retransmits) = retransmits.filter(|segments| *segments > 0) {
        let _ = write!(text, ", {retransmits} segments retransmitted");
    }
    text
}

fn qdisc(change: &QdiscChange, lasted: u64) -> String {
    let named = |kind: &str, handle: u32| format!("{} {}", escape(kind), handle_text(handle));
    let place = |parent: u32| match parent {
        TC_H_ROOT => String::new(),
        parent => format!("{} ", handle_text(parent)),
    };
    match change {
        QdiscChange::Replaced { parent, old, new } => format!(
            "{}{} took the place of {}",
            place(*parent),
            named(&new.0, new.1),
            named(&old.0, old.1)
        ),
        QdiscChange::Dropped {
            parent,
            kind,
            handle,
            packets,
        } => {
            let during = if lasted > 0 {
                format!(" in {}", duration(lasted))
            } else {
                String::new()
            };
            let packets = match packets {
                1 => "1 packet".to_owned(),
                packets => format!("{packets} packets"),
            };
            format!(
                "{}{} dropped {packets}{during}",
                place(*parent),
                named(kind, *handle)
            )
        }
    }
}

fn lost(failed: u64, dropped: u64, missed: u64) -> String {
    let parts = [
        (dropped, "dropped, the ring was full"),
        (missed, "missed, the hook was busy"),
        (failed, "failed"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("{count} {why}"))
        .collect();
    format!("events lost: {}", parts.join("; "))
}
