//! The fold over one recording: its flows, its losses, its environment.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::Options;
use super::block::Block;
use super::flow::{FlowFold, Sums};
use super::verdict::{Course, Span, bottleneck};
use crate::event::{Counters, Device, Event, FlowId, Host, Payload};
use crate::export::jsonl::{Context, flow_object};
use crate::model::{self, DerivedKind, Flow, Judgement, KEEP_CLOSED_NS, Model};
use crate::record::{Ending, Environment};
use crate::units::Mono;

/// A closed flow is reported so long after its end: who held it may be found out late.
const LINGER_NS: u64 = KEEP_CLOSED_NS / 2;

/// What is reported beside the events.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The file, for people.
    pub name: String,
    pub environment: Environment,
    pub options: Options,
}

/// What of a flow is told in words.
#[derive(Clone, Debug)]
pub struct Who {
    pub id: FlowId,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// `None` = unknown.
    pub cc_name: Option<String>,
    pub cc_version: Option<String>,
    pub qdisc: Option<String>,
    pub device: Option<String>,
    /// `comm/pid` of each; not escaped.
    pub processes: Vec<String>,
}

impl Who {
    fn of(model: &Model, flow: &Flow) -> Self {
        let attributes = flow.attributes();
        let owners = flow.owners().unwrap_or_default().iter();
        Self {
            id: flow.id(),
            local: flow.local(),
            remote: flow.remote(),
            cc_name: attributes
                .map(|a| a.cc_name.clone())
                .filter(|name| !name.is_empty()),
            cc_version: attributes.and_then(|a| a.cc_version.clone()),
            qdisc: model.qdisc_of(flow).map(|qdisc| qdisc.kind),
            device: model.device_of(flow).map(|device| device.name.clone()),
            processes: owners
                .map(|owner| format!("{}/{}", owner.comm, owner.pid))
                .collect(),
        }
    }

    /// `bbr/v1`, `cubic`; `None` = unknown. Not escaped.
    pub fn cc(&self) -> Option<String> {
        let name = self.cc_name.as_deref()?;
        Some(match &self.cc_version {
            Some(version) => format!("{name}/{version}"),
            None => name.to_owned(),
        })
    }
}

/// One flow.
#[derive(Clone, Debug)]
pub struct FlowReport {
    pub who: Who,
    /// The flow object of SPEC §4 as it was last, in JSON.
    pub object: String,
    pub block: Block,
    pub sums: Sums,
    /// `None` = nothing was judged of it.
    pub judgement: Option<Arc<Judgement>>,
    /// When it changed.
    pub verdicts: Vec<Span>,
}

impl FlowReport {
    /// What holds it back, in a word.
    pub fn bottleneck(&self) -> &'static str {
        let verdict = self.judgement.as_ref();
        bottleneck(verdict.map(|judgement| &judgement.verdict), &self.block)
    }
}

/// What became of the runs of the programs (SPEC §8), all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Losses {
    pub attempted: u64,
    pub kept: u64,
    pub suppressed: u64,
    pub filtered: u64,
    pub failed: u64,
    pub dropped: u64,
    pub missed: u64,
}

impl Losses {
    fn of(counters: &Counters) -> Self {
        let mut sum = Self::default();
        for p in &counters.programs {
            for (all, one) in [
                (&mut sum.attempted, p.attempted),
                (&mut sum.kept, p.kept),
                (&mut sum.suppressed, p.suppressed),
                (&mut sum.filtered, p.filtered),
                (&mut sum.failed, p.failed),
                (&mut sum.dropped, p.dropped),
                (&mut sum.missed, p.missed),
            ] {
                *all = all.saturating_add(one);
            }
        }
        sum
    }

    pub fn lost(&self) -> u64 {
        let lost = self.failed.saturating_add(self.dropped);
        lost.saturating_add(self.missed)
    }
}

/// How the file was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub complete: bool,
    /// For people.
    pub missing: Vec<String>,
}

impl From<&Ending> for Reading {
    fn from(ending: &Ending) -> Self {
        Self {
            complete: ending.is_complete(),
            missing: ending.missing(),
        }
    }
}

/// One recording.
#[derive(Clone, Debug)]
pub struct FileReport {
    pub given: Given,
    pub context: Context,
    pub reading: Reading,
    /// First and last moment; `None` = no events.
    pub span: Option<(Mono, Mono)>,
    pub host: Option<Host>,
    pub devices: Vec<Device>,
    /// Algorithms of the flows: name, version, module.
    pub algorithms: BTreeSet<(String, Option<String>, Option<String>)>,
    /// `None` = the source counts none (polling).
    pub losses: Option<Losses>,
    /// Records missing by the flows' numbers.
    pub gaps: u64,
    /// Events lost, however that is known.
    pub lost: u64,
    pub events: u64,
    /// Events that did not fit.
    pub odd: u64,
    pub degraded: Vec<String>,
    /// The longest interval of sampling that was told, ns.
    pub interval_ns: Option<u64>,
    /// In the order of their beginning.
    pub flows: Vec<FlowReport>,
    /// Not asked for.
    pub left_out: u64,
    /// Over before what was omitted was.
    pub too_short: u64,
}

/// Takes the events of one recording.
pub struct Fold<'a> {
    given: Given,
    context: Context,
    shows: &'a dyn Fn(&Model, &Flow) -> bool,
    fold: model::Fold,
    flows: HashMap<FlowId, FlowFold>,
    judged: HashMap<FlowId, Course>,
    /// Closed, in the order of their end.
    closed: VecDeque<(Mono, FlowId)>,
    done: Vec<FlowReport>,
    first: Option<Mono>,
    algorithms: BTreeSet<(String, Option<String>, Option<String>)>,
    devices: BTreeMap<crate::event::DeviceId, Device>,
    interval_ns: Option<u64>,
    left_out: u64,
    too_short: u64,
}

impl fmt::Debug for Fold<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fold")
            .field("flows", &self.flows.len())
            .finish_non_exhaustive()
    }
}

impl<'a> Fold<'a> {
    /// `shows` is asked at the end of each flow.
    pub fn new(given: Given, shows: &'a dyn Fn(&Model, &Flow) -> bool) -> Self {
        let context = Context {
            wall_offset_ns: given.environment.wall_offset_ns,
            ..Context::default()
        };
        Self {
            interval_ns: given.environment.interval_ns,
            given,
            context,
            shows,
            fold: model::Fold::default(),
            flows: HashMap::new(),
            judged: HashMap::new(),
            closed: VecDeque::new(),
            done: Vec::new(),
            first: None,
            algorithms: BTreeSet::new(),
            devices: BTreeMap::new(),
            left_out: 0,
            too_short: 0,
        }
    }

    /// Takes one event.
    pub fn apply(&mut self, event: &Event) {
        self.first.get_or_insert(event.time);
        while let Some(&(end, id)) = self.closed.front()
            && event.time.since(end) >= LINGER_NS
        {
            self.closed.pop_front();
            // Unless another flow of this name came since.
            if self.fold.model().flow(id).is_some_and(Flow::is_closed) {
                self.report(id);
            }
        }
        if let (Payload::Opened(_), Some(id)) = (&event.payload, event.flow) {
            self.report(id);
        }
        let judged = self.fold.apply(event);
        self.judge(&judged);
        match &event.payload {
            Payload::Device(device) => {
                self.devices.insert(device.id, (**device).clone());
            }
            Payload::Counters(counters) => {
                let told = counters.cost.map(|cost| cost.interval_ns);
                self.interval_ns = self.interval_ns.max(told);
            }
            _ => {
                if let Some(id) = event.flow {
                    self.apply_to_flow(id, event);
                }
            }
        }
        for derived in self.fold.model_mut().take_derived() {
            if let DerivedKind::Burst(burst) = derived.kind
                && let Some(flow) = self.flows.get_mut(&derived.flow)
            {
                flow.burst(&burst);
            }
        }
    }

    fn apply_to_flow(&mut self, id: FlowId, event: &Event) {
        let Some(known) = self.fold.model().flow(id) else {
            return;
        };
        let omit_ns = self.given.options.omit_ns;
        let flow = match self.flows.get_mut(&id) {
            Some(flow) => flow,
            // Reported already.
            None if known.is_closed() && !matches!(event.payload, Payload::Closed) => return,
            None => {
                let new = FlowFold::new(known.opened_at(), known.from_start(), omit_ns);
                self.flows.entry(id).or_insert(new)
            }
        };
        match &event.payload {
            Payload::Sample(sample) if !known.is_closed() => {
                flow.sample(event.time, sample, self.fold.model().btlbw(known));
            }
            Payload::Retransmit(retransmit) if !known.is_closed() => {
                flow.retransmit(event.time, retransmit);
            }
            Payload::Gap(gap) => flow.gap(gap.missing),
            Payload::Closed => {
                let end = known.closed_at().unwrap_or(event.time);
                self.closed.push_back((end, id));
            }
            Payload::Attributes(a) if !a.cc_name.is_empty() => {
                let algorithm = (a.cc_name.clone(), a.cc_version.clone(), a.cc_module.clone());
                self.algorithms.insert(algorithm);
            }
            _ => {}
        }
    }

    /// A flow is over, or the recording is.
    fn report(&mut self, id: FlowId) {
        let course = self.judged.remove(&id).unwrap_or_default();
        let model = self.fold.model();
        let (Some(mut fold), Some(flow)) = (self.flows.remove(&id), model.flow(id)) else {
            return;
        };
        if !(self.shows)(model, flow) {
            self.left_out += 1;
            return;
        }
        let end = flow.closed_at().unwrap_or(model.now());
        fold.finish(end);
        // One that goes on ends with the recording.
        if let Some(burst) = flow.burst().filter(|_| !flow.is_closed()) {
            fold.burst(burst);
        }
        if end <= fold.begin && self.given.options.omit_ns > 0 {
            self.too_short += 1;
            return;
        }
        let hz = model.host().and_then(|host| host.hz);
        let judgement = course.verdict(end);
        let object = flow_object(model, flow, &self.context);
        let object = object.judged(judgement.as_deref(), &self.context);
        self.done.push(FlowReport {
            who: Who::of(model, flow),
            object: serde_json::to_string(&object).unwrap_or_default(),
            block: Block::of_flow(&fold, end, hz, self.given.options, &self.context),
            verdicts: course.spans(fold.begin, end, &self.context),
            judgement,
            sums: fold.sums,
        });
    }

    fn judge(&mut self, judged: &[Arc<Judgement>]) {
        for judgement in judged {
            for id in &judgement.verdict.flows {
                // One that was reported is done with.
                if self.flows.contains_key(id) {
                    self.judged.entry(*id).or_default().take(judgement);
                }
            }
        }
    }

    /// The recording is over.
    pub fn finish(mut self, reading: Reading) -> FileReport {
        let judged = self.fold.finish();
        self.judge(&judged);
        let mut open: Vec<FlowId> = self.flows.keys().copied().collect();
        open.sort_unstable();
        for id in open {
            self.report(id);
        }
        let mut flows = self.done;
        let model = self.fold.model();
        flows.sort_by_key(|flow| (flow.block.start_mono_ns, flow.who.id));
        let degraded = model.degraded().iter();
        let counters = model.counters();
        FileReport {
            reading,
            span: self.first.map(|first| (first, model.now())),
            host: model.host().cloned(),
            devices: self.devices.into_values().collect(),
            algorithms: self.algorithms,
            losses: counters.map(Losses::of),
            gaps: model.gaps(),
            lost: model.lost(),
            events: model.events(),
            odd: model.odd(),
            degraded: degraded.map(|noted| noted.note.text.clone()).collect(),
            interval_ns: self.interval_ns,
            flows,
            left_out: self.left_out,
            too_short: self.too_short,
            given: self.given,
            context: self.context,
        }
    }
}

/// All flows together.
#[derive(Clone, Debug)]
pub struct Total {
    pub flows: u64,
    pub block: Block,
    /// Of the throughputs of all flows that carried at least a hundredth of the largest, where all go to one address:
    /// no more is known of who shares a bottleneck.
    pub jain_index: Option<f64>,
}

/// Adds up the flows of each file, from the first beginning to the last end; files count one after the other.
pub fn total(files: &[Vec<&FlowReport>], options: Options, context: &Context) -> Total {
    let flows = || files.iter().flatten().copied();
    let mut sums = Sums::default();
    for flow in flows() {
        sums.merge(&flow.sums);
    }
    let spans: Vec<(Mono, Mono)> = files.iter().filter_map(|file| span(file)).collect();
    let mut block = match spans.as_slice() {
        [span] => Block::of_sums(&sums, *span, options, context),
        spans => {
            // Clocks of several files have no common beginning.
            let ns = spans.iter().map(|(start, end)| end.since(*start));
            let ns = ns.fold(0, u64::saturating_add);
            Block::of_sums(&sums, (Mono(0), Mono(ns)), options, &Context::default())
        }
    };
    let blocks = || flows().map(|flow| &flow.block);
    let count = blocks().count() as u64;
    block.observed_from_start = count > 0 && blocks().all(|block| block.observed_from_start);
    block.second_half_throughput_bps = blocks()
        .filter_map(|block| block.second_half_throughput_bps)
        .reduce(u64::saturating_add)
        .filter(|_| files.len() == 1);
    Total {
        flows: count,
        block,
        jain_index: jain(flows()),
    }
}

fn span(flows: &[&FlowReport]) -> Option<(Mono, Mono)> {
    let start = flows.iter().map(|flow| flow.block.start_mono_ns).min()?;
    let end = flows.iter().map(|flow| flow.block.end_mono_ns).max()?;
    Some((Mono(start), Mono(end)))
}

fn jain<'f>(flows: impl Iterator<Item = &'f FlowReport>) -> Option<f64> {
    let (rates, peers): (Vec<f64>, Vec<IpAddr>) = flows
        .filter_map(|flow| Some((flow.block.throughput_bps? as f64, flow.who.remote.ip())))
        .unzip();
    let most = rates.iter().copied().fold(0.0, f64::max);
    let counted = rates.iter().zip(&peers);
    let mut counted = counted.filter(|(rate, _)| **rate > 0.0 && **rate * 100.0 >= most);
    let (_, first) = counted.next()?;
    counted
        .all(|(_, peer)| peer == first)
        .then(|| model::jain_index(&rates))
        .flatten()
}
