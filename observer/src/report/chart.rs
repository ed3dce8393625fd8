//! Charts of a flow as SVG: a bounded number of columns over the flow's time, each with the least and the greatest of
//! what fell into it, so that no peak is lost; all panels on one time axis.

mod svg;

use crate::event::{CcState, Event, FlowId, KINDS, Payload, Phase, Retransmit, Sample};
use crate::model::{BtlBw, Model};
use crate::units::{Limit, Mono, bits};

pub use svg::nice;

/// Columns of a chart.
const COLUMNS: usize = 400;
/// Throughput is drawn over so many parts of the time, none shorter than [`SHORTEST_NS`].
const PARTS: u64 = 100;
const SHORTEST_NS: u64 = 100_000_000;

/// Lines that are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Cwnd,
    Inflight,
    Bdp,
    Pacing,
    Delivery,
    Btlbw,
    Rtt,
    Srtt,
    MinRtt,
}

const LINES: [Line; 9] = [
    Line::Cwnd,
    Line::Inflight,
    Line::Bdp,
    Line::Pacing,
    Line::Delivery,
    Line::Btlbw,
    Line::Rtt,
    Line::Srtt,
    Line::MinRtt,
];

/// What fell into a column of one line.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    first: f64,
    min: f64,
    max: f64,
    last: f64,
}

/// What a column says of the algorithm's phase.
#[derive(Clone, Copy, Debug, Default)]
enum Told {
    /// Nothing: the one before goes on.
    #[default]
    Nothing,
    /// The algorithm has none, or it is not known.
    NoPhase,
    Phase(Phase),
}

#[derive(Clone, Debug, Default)]
struct Column {
    lines: [Option<Range>; LINES.len()],
    retransmits: [u64; KINDS.len()],
    /// The last that was told.
    phase: Told,
}

/// One flow's.
#[derive(Clone, Debug)]
pub struct Chart {
    id: FlowId,
    begin: Mono,
    end: Mono,
    columns: Vec<Column>,
    /// Bytes acknowledged by the end of each part.
    acked: Vec<Option<u64>>,
    part_ns: u64,
}

impl Chart {
    pub fn new(id: FlowId, begin: Mono, end: Mono) -> Self {
        let ns = end.since(begin).max(1);
        let part_ns = (ns / PARTS).max(SHORTEST_NS).min(ns);
        Self {
            id,
            begin,
            end,
            columns: vec![Column::default(); COLUMNS],
            acked: vec![None; ns.div_ceil(part_ns) as usize + 1],
            part_ns,
        }
    }

    fn column(&mut self, time: Mono) -> Option<&mut Column> {
        if time < self.begin || time > self.end {
            return None;
        }
        let ns = u128::from(self.end.since(self.begin).max(1));
        let at = u128::from(time.since(self.begin)) * COLUMNS as u128 / ns;
        self.columns.get_mut((at as usize).min(COLUMNS - 1))
    }

    fn sample(&mut self, time: Mono, sample: &Sample, btlbw: Option<BtlBw>) {
        let part = time.since(self.begin) / self.part_ns;
        if time >= self.begin
            && let Some(acked) = self.acked.get_mut(part as usize)
        {
            *acked = sample.bytes_acked.or(*acked);
        }
        let Some(column) = self.column(time) else {
            return;
        };
        for (at, line) in LINES.into_iter().enumerate() {
            let Some(value) = value(line, sample, btlbw) else {
                continue;
            };
            let range = column.lines[at].get_or_insert(Range {
                first: value,
                min: value,
                max: value,
                last: value,
            });
            range.min = range.min.min(value);
            range.max = range.max.max(value);
            range.last = value;
        }
        column.phase = match &sample.cc {
            Some(CcState::Bbr(bbr)) => bbr.phase.map_or(Told::NoPhase, Told::Phase),
            _ => Told::NoPhase,
        };
    }

    fn retransmit(&mut self, time: Mono, retransmit: &Retransmit) {
        let kind = KINDS.iter().position(|kind| *kind == retransmit.kind);
        if let (Some(column), Some(kind)) = (self.column(time), kind) {
            let sum = &mut column.retransmits[kind];
            *sum = sum.saturating_add(u64::from(retransmit.segments));
        }
    }
}

fn value(line: Line, sample: &Sample, btlbw: Option<BtlBw>) -> Option<f64> {
    let rate = |bytes_per_s: u64| bits(bytes_per_s) as f64;
    match line {
        Line::Cwnd => sample.cwnd_bytes().map(|bytes| bytes as f64),
        Line::Inflight => Some(sample.inflight_bytes() as f64),
        Line::Bdp => {
            let (btlbw, min) = (btlbw?.bytes_per_s as f64, f64::from(sample.min_rtt_us?));
            Some(btlbw * min / 1e6)
        }
        Line::Pacing => match sample.pacing_rate {
            Some(Limit::Finite(bytes_per_s)) => Some(rate(bytes_per_s)),
            Some(Limit::Unlimited) | None => None,
        },
        Line::Delivery => sample.delivery_rate.map(rate),
        Line::Btlbw => btlbw.map(|btlbw| rate(btlbw.bytes_per_s)),
        Line::Rtt => sample.rtt_us.map(|us| f64::from(us) / 1e3),
        Line::Srtt => sample.srtt_us.map(|us| f64::from(us) / 1e3),
        Line::MinRtt => sample.min_rtt_us.map(|us| f64::from(us) / 1e3),
    }
}

/// The charts of a recording's flows, made when it is read once more.
#[derive(Debug)]
pub struct Charts {
    model: Model,
    charts: Vec<Chart>,
}

impl Charts {
    pub fn new(charts: Vec<Chart>) -> Self {
        Self {
            model: Model::default(),
            charts,
        }
    }

    /// Takes one event.
    pub fn apply(&mut self, event: &Event) {
        self.model.apply(event);
        self.model.take_derived();
        let Some(id) = event.flow else {
            return;
        };
        for chart in self.charts.iter_mut().filter(|chart| chart.id == id) {
            match &event.payload {
                Payload::Sample(sample) => {
                    let btlbw = self.model.flow(id).and_then(|flow| self.model.btlbw(flow));
                    chart.sample(event.time, sample, btlbw);
                }
                Payload::Retransmit(retransmit) => chart.retransmit(event.time, retransmit),
                _ => {}
            }
        }
    }

    /// In the order in which they were asked for.
    pub fn svgs(&self) -> Vec<String> {
        self.charts.iter().map(Chart::svg).collect()
    }
}
