//! What the detectors say, as the model keeps it: of each flow the verdict that holds, and since when.

use std::sync::Arc;

use super::Model;
use super::derived::{Derived, DerivedKind};
use super::flow::Flow;
use super::limit::LimitedBy;
use crate::detect::{Class, Scope, Verdict};
use crate::event::FlowId;
use crate::units::Mono;

/// A verdict as it was told.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// When it was told.
    pub time: Mono,
    /// Since when its class holds.
    pub since: Mono,
    /// What was said before; `None` = nothing.
    pub old: Option<Class>,
    pub verdict: Verdict,
}

impl Judgement {
    /// Another class than before; nothing said and not enough seen are the same.
    pub fn is_change(&self) -> bool {
        self.old.unwrap_or(Class::Insufficient) != self.verdict.class
    }

    /// A change that a person wants to read: something was found, or is over.
    pub fn is_news(&self) -> bool {
        let old = self.old.is_some_and(Class::is_finding);
        self.is_change() && (old || self.verdict.class.is_finding())
    }

    /// Whose flows were judged together, where they are several.
    pub fn group(&self) -> Option<String> {
        (self.verdict.scope == Scope::Group).then(|| self.verdict.group.to_string())
    }
}

/// The flows that share a path, and what was said of it.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    pub judgement: &'a Arc<Judgement>,
    /// In view, in the order of their birth.
    pub flows: Vec<&'a Flow>,
}

/// What a flow does to those that it shares a path with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Takes far more than its share …
    Pushes,
    /// … and who gets far less, though nothing of its own holds it back.
    Yields,
    Fair,
    /// Its application, or a window at an end, holds it back.
    Own(LimitedBy),
    Closed,
}

impl Part {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pushes => "pushes",
            Self::Yields => "yields",
            Self::Fair => "fair",
            Self::Own(limit) => limit.as_str(),
            Self::Closed => "closed",
        }
    }
}

/// What of a group's is one flow's; `None` = unknown.
#[derive(Clone, Copy, Debug)]
pub struct Share<'a> {
    pub flow: &'a Flow,
    pub throughput: Option<f64>,
    pub retransmits: Option<f64>,
    pub part: Part,
}

/// Of the fair share: more is pushed for, less is yielded.
const PUSHES: f64 = 1.5;
const YIELDS: f64 = 2.0 / 3.0;

impl Group<'_> {
    /// Who has what, the largest first. The fair share is that of those whom nothing of their own holds back.
    pub fn shares(&self, model: &Model) -> Vec<Share<'_>> {
        let own = |flow: &Flow| {
            use LimitedBy::{App, Idle, Rwnd, Sndbuf};
            let limit = model.figures(flow).limit;
            matches!(limit, App | Idle | Rwnd | Sndbuf).then_some(limit)
        };
        let rate = |flow: &Flow| {
            let bps = model.throughput_bps(flow).filter(|_| !flow.is_closed());
            bps.map(|bps| bps as f64)
        };
        let lost = |flow: &Flow| flow.sample().map(|sample| f64::from(sample.retrans));
        let sum = |of: &dyn Fn(&Flow) -> Option<f64>| {
            self.flows.iter().filter_map(|flow| of(flow)).sum::<f64>()
        };
        let (all, all_lost) = (sum(&rate), sum(&lost));
        let eager = |flow: &&&Flow| !flow.is_closed() && own(flow).is_none();
        let eager: Vec<f64> = self
            .flows
            .iter()
            .filter(eager)
            .filter_map(|f| rate(f))
            .collect();
        let fair = eager.iter().sum::<f64>() / eager.len().max(1) as f64;
        let share = |part: Option<f64>, of: f64| part.filter(|_| of > 0.0).map(|part| part / of);
        let mut shares: Vec<Share<'_>> = self
            .flows
            .iter()
            .map(|flow| Share {
                flow,
                throughput: share(rate(flow), all),
                retransmits: share(lost(flow), all_lost),
                part: match (own(flow), rate(flow)) {
                    _ if flow.is_closed() => Part::Closed,
                    (Some(limit), _) => Part::Own(limit),
                    (None, Some(bps)) if eager.len() > 1 && bps >= PUSHES * fair => Part::Pushes,
                    (None, Some(bps)) if eager.len() > 1 && bps <= YIELDS * fair => Part::Yields,
                    _ => Part::Fair,
                },
            })
            .collect();
        let key = |share: &Share<'_>| share.throughput.unwrap_or(-1.0);
        shares.sort_by(|a, b| key(b).total_cmp(&key(a)));
        shares
    }

    /// Of the throughputs of those that carry at least a hundredth of the largest; `None` = fewer than two do.
    pub fn jain_index(&self, model: &Model) -> Option<f64> {
        let rates = self.flows.iter().filter(|flow| !flow.is_closed());
        let rates: Vec<f64> = rates
            .filter_map(|flow| model.throughput_bps(flow))
            .map(|bps| bps as f64)
            .collect();
        jain_index(&rates)
    }
}

/// Jain's index over the rates of at least a hundredth of the largest; `None` = fewer than two.
pub fn jain_index(rates: &[f64]) -> Option<f64> {
    let most = rates.iter().copied().fold(0.0, f64::max);
    let counted = || {
        rates
            .iter()
            .filter(move |rate| **rate > 0.0 && **rate * 100.0 >= most)
    };
    let count = counted().count();
    if count < 2 {
        return None;
    }
    let sum: f64 = counted().sum();
    let squares: f64 = counted().map(|rate| rate * rate).sum();
    Some(sum * sum / (count as f64 * squares))
}

impl Model {
    /// Takes in what was judged of flows; what is news is told.
    pub fn judge(&mut self, judgement: &Arc<Judgement>) {
        let mut first = None;
        for id in &judgement.verdict.flows {
            // One that has the name of a flow that ended was not judged.
            let flow = self.flows.get_mut(id);
            if let Some(flow) = flow.filter(|flow| flow.opened_at() <= judgement.time) {
                flow.judgement = Some(Arc::clone(judgement));
                first = first.or(Some(*id));
            }
        }
        if let Some(flow) = first.filter(|_| judgement.is_change()) {
            let derived = Derived {
                time: judgement.time,
                flow,
                kind: DerivedKind::Verdict(Arc::clone(judgement)),
            };
            self.journal.derived(&derived);
            self.derived.push(derived);
        }
    }

    /// Groups of flows with a verdict, open ones first by what was found, in the order of their first flow.
    pub fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        let mut known = std::collections::HashMap::new();
        for flow in self.flows() {
            let Some(judgement) = flow.judgement() else {
                continue;
            };
            let at = *known.entry(judgement.verdict.group).or_insert(groups.len());
            match groups.get_mut(at) {
                Some(group) => {
                    // The newest speaks for all.
                    if judgement.time > group.judgement.time {
                        group.judgement = judgement;
                    }
                    group.flows.push(flow);
                }
                None => groups.push(Group {
                    judgement,
                    flows: vec![flow],
                }),
            }
        }
        groups
    }

    /// The group of a flow.
    pub fn group_of(&self, id: FlowId) -> Option<Group<'_>> {
        let judgement = self.flow(id)?.judgement()?;
        let same = |flow: &&Flow| {
            let other = flow.judgement();
            other.is_some_and(|other| other.verdict.group == judgement.verdict.group)
        };
        Some(Group {
            judgement,
            flows: self.flows().filter(same).collect(),
        })
    }
}

impl Flow {
    /// What was judged of it; `None` = nothing yet.
    pub fn judgement(&self) -> Option<&Arc<Judgement>> {
        self.judgement.as_ref()
    }
}
