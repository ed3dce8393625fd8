//! Comparisons: recordings in groups, what the repetitions of a group have in common, and how groups differ.
//!
//! A run is what one recording has of one group: its flows with the same key that carry at least a hundredth of what the
//! recording delivered (the control connection of iperf3 does not). Runs are averaged only when they are alike.

mod metric;
mod pages;
mod rule;
mod unlike;
mod write;

use std::collections::BTreeMap;

pub use metric::{METRICS, Metric};
pub use pages::page;
pub use rule::{Outcome, Rule};
pub use write::{csv, json};

use super::{Block, FileReport, FlowReport, Options, total};
use crate::units::UNKNOWN;

/// A flow that carries less of what its recording delivered is none of the run's.
const SHARE: u64 = 100;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Keys to group by.
    pub by: Vec<String>,
    /// A key and its value.
    pub baseline: Option<(String, String)>,
    /// Average unlike things.
    pub insist: bool,
}

/// Why there is no comparison.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The question is wrong.
    #[error("{0}")]
    Usage(String),
    #[error("no flow delivered anything in these recordings: nothing to compare")]
    Nothing,
    #[error(
        "these are not alike, and an average of them means nothing:\n{}\ngroup by what differs (--by), leave files out, or --insist",
        .0.join("\n")
    )]
    Unlike(Vec<String>),
}

/// What one recording has of one group.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    pub file: &'a FileReport,
    pub flows: Vec<&'a FlowReport>,
    pub block: Block,
}

impl Run<'_> {
    /// Of its largest flow.
    pub fn bottleneck(&self) -> &'static str {
        let largest = self.flows.iter().max_by_key(|flow| flow.block.bytes_acked);
        largest.map_or(UNKNOWN, |flow| flow.bottleneck())
    }
}

impl Group<'_> {
    /// `policer`, or `policer 2/3, random_loss 1/3`.
    pub fn bottleneck(&self) -> String {
        match self.bottlenecks.as_slice() {
            [] => UNKNOWN.to_owned(),
            [(one, _)] => (*one).to_owned(),
            several => {
                let all = self.runs.len();
                let parts = several
                    .iter()
                    .map(|(name, runs)| format!("{name} {runs}/{all}"));
                parts.collect::<Vec<_>>().join(", ")
            }
        }
    }
}

/// Of the runs of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stat {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// Runs that know it.
    pub runs: usize,
}

impl Stat {
    /// Of two in the middle, the mean.
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let runs = values.len();
        Some(Self {
            median: f64::midpoint(values[(runs - 1) / 2], values[runs / 2]),
            min,
            max,
            runs,
        })
    }

    pub fn spread(&self) -> f64 {
        self.max - self.min
    }
}

/// Runs with the same key.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// Values in the order of the keys asked for.
    pub key: Vec<String>,
    pub runs: Vec<Run<'a>>,
    /// In the order of [`METRICS`].
    pub stats: Vec<Option<Stat>>,
    /// What held its runs back, with in how many of them, the most frequent first.
    pub bottlenecks: Vec<(&'static str, usize)>,
    /// From 1, by the median of throughput; `None` = unknown.
    pub rank: Option<usize>,
    /// The place of the group it is compared with; `None` = there is none, or it is one itself.
    pub baseline: Option<usize>,
}

/// Groups in the order of their ranks.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    pub by: Vec<String>,
    pub baseline: Option<(String, String)>,
    pub groups: Vec<Group<'a>>,
    /// Why these should not have been averaged: somebody insisted.
    pub insisted: Vec<String>,
    pub notes: Vec<String>,
}

impl Comparison<'_> {
    /// How the median of `metric` differs from the baseline's: in itself, and as a share of the baseline's.
    pub fn difference(&self, group: usize, metric: usize) -> Option<(f64, Option<f64>)> {
        let group = &self.groups[group];
        let ours = group.stats[metric]?.median;
        let base = self.groups[group.baseline?].stats[metric]?.median;
        let difference = ours - base;
        Some((difference, (base != 0.0).then(|| difference / base)))
    }

    /// `cc=bbr/v1 qdisc=fq`.
    pub fn name(&self, group: usize) -> String {
        let pairs = self.by.iter().zip(&self.groups[group].key);
        let pairs: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
        pairs.join(" ")
    }
}

/// Compares.
pub fn compare<'a>(files: &'a [FileReport], asked: &Asked) -> Result<Comparison<'a>, Refusal> {
    known_keys(files, &asked.by)?;
    let mut groups: BTreeMap<Vec<String>, Vec<Run<'a>>> = BTreeMap::new();
    let mut small = 0;
    for file in files {
        let (runs, left) = runs(file, &asked.by);
        small += left;
        for (key, run) in runs {
            groups.entry(key).or_default().push(run);
        }
    }
    if groups.is_empty() {
        return Err(Refusal::Nothing);
    }
    let mut groups: Vec<Group<'a>> = groups
        .into_iter()
        .map(|(key, runs)| group(key, runs))
        .collect();
    rank(&mut groups);
    let mut unlike = Vec::new();
    for group in &groups {
        unlike.extend(unlike::within(&group.key.join(" "), &group.runs));
    }
    if !unlike.is_empty() && !asked.insist {
        return Err(Refusal::Unlike(unlike));
    }
    let mut notes = unlike::between(&groups);
    if small > 0 {
        let flows = if small == 1 { "flow" } else { "flows" };
        notes.push(format!(
            "{small} {flows} with less than 1 % of what the recording delivered left out"
        ));
    }
    set_baselines(&mut groups, asked)?;
    Ok(Comparison {
        by: asked.by.clone(),
        baseline: asked.baseline.clone(),
        groups,
        insisted: unlike,
        notes,
    })
}

/// Keys that are no labels.
const KEYS: [&str; 8] = [
    "cc", "qdisc", "hour", "kernel", "host", "dev", "remote", "file",
];

/// A label that no file has is a slip of the pen.
fn known_keys(files: &[FileReport], by: &[String]) -> Result<(), Refusal> {
    for key in by {
        let is_label = |file: &FileReport| file.given.environment.labels.contains_key(key);
        if KEYS.contains(&key.as_str()) || files.iter().any(is_label) {
            continue;
        }
        let labels = files
            .iter()
            .flat_map(|file| file.given.environment.labels.keys());
        let labels: std::collections::BTreeSet<&String> = labels.collect();
        let mut known: Vec<&str> = KEYS.to_vec();
        known.extend(labels.into_iter().map(String::as_str));
        return Err(Refusal::Usage(format!(
            "no recording has a label '{key}': --by takes {}",
            known.join(", ")
        )));
    }
    Ok(())
}

fn value(file: &FileReport, flow: &FlowReport, key: &str) -> String {
    let who = &flow.who;
    let value = match key {
        "cc" => who.cc(),
        "qdisc" => who.qdisc.clone(),
        "dev" => who.device.clone(),
        "remote" => Some(who.remote.ip().to_string()),
        "kernel" => file.host.as_ref().map(|host| host.kernel.clone()),
        "host" => file.host.as_ref().map(|host| host.hostname.clone()),
        "file" => Some(file.given.name.clone()),
        // Of the day, UTC: what a busy path is like depends on it.
        "hour" => flow
            .block
            .start
            .0
            .map(|time| time.strftime("%H").to_string()),
        label => file.given.environment.labels.get(label).cloned(),
    };
    value.unwrap_or_else(|| UNKNOWN.to_owned())
}

/// The runs of a recording, and how many flows are too small for any.
fn runs<'a>(file: &'a FileReport, by: &[String]) -> (Vec<(Vec<String>, Run<'a>)>, usize) {
    let acked = |flow: &FlowReport| flow.block.bytes_acked.unwrap_or(0);
    let all = file.flows.iter().map(acked).fold(0, u64::saturating_add);
    let mut flows: BTreeMap<Vec<String>, Vec<&'a FlowReport>> = BTreeMap::new();
    let mut small = 0;
    for flow in &file.flows {
        if all == 0 || acked(flow) < all.div_ceil(SHARE) {
            small += 1;
            continue;
        }
        let key = by.iter().map(|key| value(file, flow, key)).collect();
        flows.entry(key).or_default().push(flow);
    }
    let run = |(key, flows): (Vec<String>, Vec<&'a FlowReport>)| {
        let block = match flows.as_slice() {
            [one] => one.block.clone(),
            several => {
                let options: Options = file.given.options;
                total(&[several.to_vec()], options, &file.context).block
            }
        };
        (key, Run { file, flows, block })
    };
    (flows.into_iter().map(run).collect(), small)
}

fn group(key: Vec<String>, runs: Vec<Run<'_>>) -> Group<'_> {
    let stats = METRICS.iter().map(|metric| {
        let values = runs.iter().filter_map(|run| (metric.of)(&run.block));
        Stat::of(values.collect())
    });
    let mut bottlenecks = BTreeMap::new();
    for run in &runs {
        *bottlenecks.entry(run.bottleneck()).or_insert(0) += 1;
    }
    let mut bottlenecks: Vec<_> = bottlenecks.into_iter().collect();
    bottlenecks.sort_by_key(|(_, runs)| std::cmp::Reverse(*runs));
    Group {
        stats: stats.collect(),
        bottlenecks,
        key,
        runs,
        rank: None,
        baseline: None,
    }
}

/// The fastest first.
fn rank(groups: &mut [Group<'_>]) {
    let median = |group: &Group<'_>| group.stats[metric::THROUGHPUT].map(|stat| stat.median);
    groups.sort_by(|a, b| {
        let (a, b) = (median(a), median(b));
        let known = b.is_some().cmp(&a.is_some());
        known.then(b.unwrap_or(0.0).total_cmp(&a.unwrap_or(0.0)))
    });
    for (at, group) in groups.iter_mut().enumerate() {
        group.rank = median(group).map(|_| at + 1);
    }
}

/// Whether a group's value is the one named: `cc=bbr` is any version of it.
fn is_value(value: &str, named: &str) -> bool {
    value == named || value.split_once('/').is_some_and(|(name, _)| name == named)
}

/// A group is compared with the one that has the baseline's value and is the same in everything else.
fn set_baselines(groups: &mut [Group<'_>], asked: &Asked) -> Result<(), Refusal> {
    let Some((key, named)) = &asked.baseline else {
        return Ok(());
    };
    let Some(at) = asked.by.iter().position(|by| by == key) else {
        return Err(Refusal::Usage(format!(
            "--baseline {key}={named}: groups are made by {}, not by {key}",
            asked.by.join(",")
        )));
    };
    let is_base = |group: &Group<'_>| is_value(&group.key[at], named);
    if !groups.iter().any(is_base) {
        let mut values: Vec<&str> = groups.iter().map(|group| group.key[at].as_str()).collect();
        values.sort_unstable();
        values.dedup();
        return Err(Refusal::Usage(format!(
            "--baseline {key}={named}: no group has that; there is {}",
            values.join(", ")
        )));
    }
    for place in 0..groups.len() {
        if is_base(&groups[place]) {
            continue;
        }
        let same = |other: &Group<'_>| {
            let pairs = other.key.iter().zip(&groups[place].key).enumerate();
            is_base(other) && pairs.into_iter().all(|(i, (a, b))| i == at || a == b)
        };
        let mut bases = groups.iter().enumerate().filter(|(_, other)| same(other));
        let base = bases.next().map(|(place, _)| place);
        if bases.next().is_some() {
            return Err(Refusal::Usage(format!(
                "--baseline {key}={named} is more than one group: name the version too, as in {key}={}",
                groups[base.unwrap_or(place)].key[at]
            )));
        }
        groups[place].baseline = base;
    }
    Ok(())
}
