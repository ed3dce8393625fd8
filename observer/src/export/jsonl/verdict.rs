//! `verdict` of the flow object, and the line of a change.

use serde::Serialize;

use super::{Context, Time};
use crate::detect::Class;
use crate::export::table::{fields, json_fields};
use crate::model::Judgement;

/// The object of SPEC §4.
#[derive(Clone, Debug, Serialize)]
pub struct VerdictKeys {
    class: &'static str,
    confidence: f64,
    rate_bps: Option<u64>,
    depth_bytes: Option<u64>,
    buffer_bdp: Option<f64>,
    random_loss: Option<f64>,
    scope: &'static str,
    group: Option<String>,
    since: Time,
    since_mono_ns: u64,
    evidence: Vec<String>,
    advice: Vec<String>,
}
fields!(VerdictKeys: class, confidence, rate_bps, depth_bytes, buffer_bdp, random_loss, scope, group, since, since_mono_ns, evidence, advice);
json_fields!(Vec<String>);

impl VerdictKeys {
    /// `device`: the one that the flow leaves by, for the commands of the advice.
    pub fn of(judgement: &Judgement, device: Option<&str>, context: &Context) -> Self {
        let verdict = &judgement.verdict;
        let advice = verdict.advice.iter();
        Self {
            class: verdict.class.as_str(),
            confidence: verdict.confidence,
            rate_bps: verdict.rate_bps,
            depth_bytes: verdict.depth_bytes,
            buffer_bdp: verdict.buffer_bdp,
            random_loss: verdict.random_loss,
            scope: verdict.scope.as_str(),
            group: judgement.group(),
            since: context.time(judgement.since),
            since_mono_ns: judgement.since.0,
            evidence: verdict.evidence.clone(),
            advice: advice.map(|one| one.on(device).to_string()).collect(),
        }
    }
}

/// A change: whose, from what, to what.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ChangeKeys {
    old_class: Option<&'static str>,
    /// All flows that it is of.
    flows: Vec<String>,
    verdict: VerdictKeys,
}
fields!(ChangeKeys: old_class, flows, verdict);

impl ChangeKeys {
    pub fn of(judgement: &Judgement, device: Option<&str>, context: &Context) -> Self {
        let flows = judgement.verdict.flows.iter();
        Self {
            old_class: judgement.old.map(Class::as_str),
            flows: flows.map(ToString::to_string).collect(),
            verdict: VerdictKeys::of(judgement, device, context),
        }
    }
}
