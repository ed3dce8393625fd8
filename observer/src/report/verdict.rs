//! Verdicts over a whole recording: which one a flow has in the end, when it changed, and what flows that share a path
//! have in common.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::document::{Document, Part, Table};
use super::pages::or;
use super::{Block, FileReport, FlowReport};
use crate::detect::{Advice, Class, Group, Scope, Verdict};
use crate::export::jsonl::{Context, Time};
use crate::model::{Judgement, jain_index};
use crate::units::{Mono, UNKNOWN, percent, rate};

/// Changes kept of a flow.
const MOST: usize = 1000;
/// Of the time, by which a limit is the bottleneck where no verdict names one.
const LIMITS: f64 = 0.3;

/// What was judged of a flow so far.
#[derive(Clone, Debug, Default)]
pub struct Course {
    changes: Vec<(Mono, Class, f64)>,
    /// The latest of each class.
    latest: BTreeMap<Class, Arc<Judgement>>,
    last: Option<Arc<Judgement>>,
}

/// A verdict held for a while.
#[derive(Clone, Debug, Serialize)]
pub struct Span {
    pub start: Time,
    pub start_mono_ns: u64,
    pub end: Time,
    pub end_mono_ns: u64,
    /// From the block's start.
    pub after_s: f64,
    pub class: &'static str,
    /// When it was first told.
    pub confidence: f64,
}

impl Course {
    pub fn take(&mut self, judgement: &Arc<Judgement>) {
        let (class, sure) = (judgement.verdict.class, judgement.verdict.confidence);
        let changed = self.changes.last().map(|(_, class, _)| *class) != Some(class);
        if changed && self.changes.len() < MOST {
            self.changes.push((judgement.time, class, sure));
        }
        self.latest.insert(class, Arc::clone(judgement));
        self.last = Some(Arc::clone(judgement));
    }

    /// How long each class held, in the order of time.
    fn held(&self, end: Mono) -> impl Iterator<Item = (Mono, Mono, Class, f64)> {
        let ends = self.changes.iter().skip(1).map(|(time, ..)| *time);
        let ends = ends.chain(std::iter::once(end));
        let changes = self.changes.iter().zip(ends);
        changes.map(|((time, class, sure), end)| (*time, end.max(*time), *class, *sure))
    }

    /// What is said in the end, where that is a finding; else the finding that held longest.
    pub fn verdict(&self, end: Mono) -> Option<Arc<Judgement>> {
        let last = self.last.as_ref()?;
        if last.verdict.class.is_finding() {
            return Some(Arc::clone(last));
        }
        let mut longest = BTreeMap::new();
        for (from, to, class, _) in self.held(end).filter(|(.., class, _)| class.is_finding()) {
            *longest.entry(class).or_insert(0) += to.since(from);
        }
        let found = longest.into_iter().max_by_key(|(_, ns)| *ns);
        let found = found.and_then(|(class, _)| self.latest.get(&class));
        Some(Arc::clone(found.unwrap_or(last)))
    }

    /// When it changed.
    pub fn spans(&self, start: Mono, end: Mono, context: &Context) -> Vec<Span> {
        let span = |(from, to, class, confidence): (Mono, Mono, Class, f64)| Span {
            start: context.time(from),
            start_mono_ns: from.0,
            end: context.time(to),
            end_mono_ns: to.0,
            after_s: from.since(start) as f64 / 1e9,
            class: class.as_str(),
            confidence,
        };
        self.held(end).map(span).collect()
    }
}

/// What holds a flow back, in a word: what its verdict found, else what limited it most of the time.
pub fn bottleneck(verdict: Option<&Verdict>, block: &Block) -> &'static str {
    if let Some(class) = verdict.map(|v| v.class).filter(|class| class.is_finding()) {
        return class.as_str();
    }
    let limits = block.limited_by.map(|limits| {
        let by = [
            ("rwnd", limits.rwnd),
            ("sndbuf", limits.sndbuf),
            ("app", limits.app),
            ("loss", limits.recovery),
            ("path", limits.queued),
            ("pacing", limits.pacing),
            ("cwnd", limits.cwnd),
        ];
        by.into_iter().find(|(_, share)| *share >= LIMITS)
    });
    match limits.flatten() {
        Some((name, _)) => name,
        None => verdict.map_or(UNKNOWN, |verdict| verdict.class.as_str()),
    }
}

/// The facts of a flow's section.
pub fn facts(flow: &FlowReport) -> Vec<(&'static str, String)> {
    let mut facts = vec![("bottleneck", flow.bottleneck().to_owned())];
    let Some(judgement) = &flow.judgement else {
        facts.push((
            "verdict",
            format!("{UNKNOWN} (nothing that could be judged was seen: no data sent, or no sequence numbers)"),
        ));
        return facts;
    };
    facts.push(("verdict", said(judgement)));
    // Of a group it is told once.
    if judgement.verdict.scope == Scope::Flow {
        facts.extend(reasons(&judgement.verdict, flow.who.device.as_deref()));
    }
    if flow.verdicts.len() > 1 {
        let spans = flow.verdicts.iter();
        let spans = spans.map(|span| format!("{} from {:.1} s", span.class, span.after_s));
        facts.push(("verdicts", spans.collect::<Vec<_>>().join(", ")));
    }
    facts
}

fn said(judgement: &Judgement) -> String {
    let verdict = &judgement.verdict;
    let sure = if verdict.class.is_finding() {
        format!(", {} sure", verdict.sure())
    } else {
        String::new()
    };
    let of = match judgement.group() {
        Some(peer) => format!("; of the {} flows to {peer} together", verdict.flows.len()),
        None => String::new(),
    };
    let about = verdict.class.about();
    format!("{}{sure}: {about}{of}", verdict.headline())
}

/// Evidence and advice, a line each.
fn reasons(verdict: &Verdict, device: Option<&str>) -> Vec<(&'static str, String)> {
    let evidence = verdict.evidence.iter();
    let mut facts: Vec<_> = evidence.map(|line| ("evidence", line.clone())).collect();
    let advice = verdict.advice.iter().map(|one| one.on(device));
    for Advice {
        what,
        command,
        check,
    } in advice
    {
        facts.push(("advice", what));
        facts.extend(command.map(|command| ("to run", command)));
        facts.extend(check.map(|check| ("helped if", check)));
    }
    facts
}

/// Flows of a file that were judged together.
struct Shared<'a> {
    judgement: &'a Arc<Judgement>,
    flows: Vec<&'a FlowReport>,
}

fn groups(file: &FileReport) -> Vec<Shared<'_>> {
    let mut groups: BTreeMap<Group, Shared<'_>> = BTreeMap::new();
    for flow in &file.flows {
        let judgement = flow.judgement.as_ref();
        let of_group = |judgement: &&Arc<Judgement>| judgement.verdict.scope == Scope::Group;
        let Some(judgement) = judgement.filter(of_group) else {
            continue;
        };
        let group = groups
            .entry(judgement.verdict.group)
            .or_insert_with(|| Shared {
                judgement,
                flows: Vec::new(),
            });
        if judgement.time > group.judgement.time {
            group.judgement = judgement;
        }
        group.flows.push(flow);
    }
    groups.into_values().collect()
}

/// A section for each group of flows.
pub fn sections(page: &mut Document, files: &[FileReport]) {
    for file in files {
        for group in groups(file) {
            let peer = group.judgement.group().unwrap_or_default();
            page.heading(format!("Flows to {peer}, judged together"));
            let mut facts = vec![("verdict", said(group.judgement))];
            let rates = group.flows.iter();
            let rates: Vec<f64> = rates
                .map(|flow| flow.block.throughput_bps.unwrap_or(0) as f64)
                .collect();
            let jain = or(jain_index(&rates), |jain| format!("{jain:.3}"));
            facts.push(("Jain index", format!("{jain} (1 = equal shares)")));
            let device = group
                .flows
                .iter()
                .find_map(|flow| flow.who.device.as_deref());
            facts.extend(reasons(&group.judgement.verdict, device));
            page.facts(facts);
            page.parts.push(Part::Table(shares(&group.flows, &rates)));
        }
    }
}

fn shares(flows: &[&FlowReport], rates: &[f64]) -> Table {
    let all: f64 = rates.iter().sum();
    let lost = |flow: &FlowReport| flow.block.retrans_segments.unwrap_or(0) as f64;
    let all_lost: f64 = flows.iter().map(|flow| lost(flow)).sum();
    let share = |part: f64, of: f64| or((of > 0.0).then(|| part / of), percent);
    let head = [
        "Local",
        "CC",
        "Throughput",
        "Share",
        "of retransmits",
        "BDP fill",
    ];
    let mut table = Table {
        head: head.map(str::to_owned).to_vec(),
        rows: Vec::new(),
        words: 2,
    };
    for (flow, bps) in flows.iter().zip(rates) {
        table.rows.push(vec![
            flow.who.local.to_string(),
            flow.who.cc().unwrap_or_else(|| UNKNOWN.to_owned()),
            or(flow.block.throughput_bps, rate),
            share(*bps, all),
            share(lost(flow), all_lost),
            or(flow.block.bdp_fill_mean, |fill| format!("{fill:.2}")),
        ]);
    }
    table
}
