//! What must not be averaged: runs over another path, on another kernel, cut off, or with events lost.

use std::collections::BTreeMap;

use super::{Group, Run};
use crate::units::UNKNOWN;

/// Lost events beyond this share of those attempted make a recording a lossy one.
const LOSSY: f64 = 0.001;

/// Where the flows of a run went: address to address, by a device.
fn path(run: &Run<'_>) -> String {
    let mut paths: Vec<String> = run
        .flows
        .iter()
        .map(|flow| {
            let who = &flow.who;
            let device = who.device.as_deref().unwrap_or(UNKNOWN);
            format!("{} → {} by {device}", who.local.ip(), who.remote.ip())
        })
        .collect();
    paths.sort();
    paths.dedup();
    paths.join(", ")
}

fn kernel(run: &Run<'_>) -> String {
    let host = run.file.host.as_ref();
    host.map_or_else(|| UNKNOWN.to_owned(), |host| host.kernel.clone())
}

/// Why the runs of a group cannot be averaged; empty = they can.
pub fn within(group: &str, runs: &[Run<'_>]) -> Vec<String> {
    let mut reasons = Vec::new();
    // One recording is no average.
    if runs.len() > 1 {
        for (what, of) in [
            ("paths", path as fn(&Run<'_>) -> String),
            ("kernels", kernel),
        ] {
            reasons.extend(differ(what, runs, of).map(|text| format!("{group}: {text}")));
        }
    }
    for run in runs {
        let name = &run.file.given.name;
        if !run.file.reading.complete {
            reasons.push(format!(
                "{group}: {name} is not whole: {}",
                run.file.reading.missing.join("; ")
            ));
        }
        reasons.extend(lossy(run).map(|text| format!("{group}: {name} is lossy: {text}")));
    }
    reasons
}

/// What runs of a group do not have in common, with a file of each.
fn differ(what: &str, runs: &[Run<'_>], of: fn(&Run<'_>) -> String) -> Option<String> {
    let mut values: BTreeMap<String, &str> = BTreeMap::new();
    for run in runs {
        values.entry(of(run)).or_insert(&run.file.given.name);
    }
    if values.len() < 2 {
        return None;
    }
    let told = values
        .iter()
        .map(|(value, file)| format!("{value} ({file})"));
    Some(format!(
        "different {what}: {}",
        told.collect::<Vec<_>>().join("; ")
    ))
}

/// By the programs' counters; where there are none, by holes in the numbers of the run's flows.
fn lossy(run: &Run<'_>) -> Option<String> {
    if let Some(losses) = run.file.losses.filter(|losses| losses.attempted > 0) {
        let lost = losses.lost().max(run.file.gaps);
        let share = lost as f64 / losses.attempted as f64;
        return (share > LOSSY).then(|| {
            format!(
                "{lost} of {} events lost ({:.1} %)",
                losses.attempted,
                share * 100.0
            )
        });
    }
    let gaps = run.flows.iter().map(|flow| flow.sums.gaps);
    let gaps = gaps.fold(0, u64::saturating_add);
    (gaps > 0).then(|| format!("{gaps} records missing"))
}

/// What groups do not have in common, though each is compared with others.
pub fn between(groups: &[Group<'_>]) -> Vec<String> {
    let runs: Vec<Run<'_>> = groups
        .iter()
        .flat_map(|group| group.runs.iter().cloned())
        .collect();
    let mut notes: Vec<String> = [
        ("paths", path as fn(&Run<'_>) -> String),
        ("kernels", kernel),
        ("sources", |run: &Run<'_>| {
            run.file.given.environment.source.clone()
        }),
        ("sampling intervals, ns", |run: &Run<'_>| {
            format!(
                "{:?}",
                run.file.given.environment.interval_ns.unwrap_or_default()
            )
        }),
    ]
    .into_iter()
    .filter_map(|(what, of)| differ(what, &runs, of))
    .collect();
    if let (Some(least), Some(most)) = (
        groups.iter().map(|group| group.runs.len()).min(),
        groups.iter().map(|group| group.runs.len()).max(),
    ) && least != most
    {
        notes.push(format!("groups have between {least} and {most} runs"));
    }
    notes
}
