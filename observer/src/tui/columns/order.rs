//! What flows are sorted by, column by column.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::Column;
use super::cell::{algorithm, container, phase, state, unit};
use crate::event::DeviceId;
use crate::model::{Flow, LimitedBy, Model};
use crate::units::{Limit, UNKNOWN};

/// What rows are ordered by.
#[derive(Clone, Debug, PartialEq)]
pub enum SortKey<'a> {
    Number(f64),
    /// By name, then by number.
    Process(&'a str, u32),
    Text(Cow<'a, str>),
    Address(SocketAddr),
}

impl SortKey<'_> {
    /// Ascending. Keys of one column are of one kind.
    pub fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.total_cmp(b),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Process(a, a_pid), Self::Process(b, b_pid)) => a.cmp(b).then(a_pid.cmp(b_pid)),
            (Self::Address(a), Self::Address(b)) => a.cmp(b),
            _ => Ordering::Equal,
        }
    }
}

/// What is unknown comes last in either direction.
pub fn compare(a: Option<&SortKey>, b: Option<&SortKey>, descending: bool) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) if descending => b.compare(a),
        (Some(a), Some(b)) => a.compare(b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

/// Keys of one column, for very many flows: what all of them share is looked up once.
#[derive(Debug)]
pub struct Keys<'a> {
    column: Column,
    model: &'a Model,
    /// Place of a device's qdisc among all kinds in their order.
    kinds: BTreeMap<DeviceId, f64>,
}

impl<'a> Keys<'a> {
    pub fn new(column: Column, model: &'a Model) -> Self {
        let mut kinds = BTreeMap::new();
        if column == Column::Qdisc {
            let attached = model
                .devices()
                .filter_map(|d| Some((d.id, d.egress()?.kind)));
            let attached: Vec<(DeviceId, String)> = attached.collect();
            let names: BTreeSet<&str> = attached.iter().map(|(_, kind)| kind.as_str()).collect();
            for (id, kind) in &attached {
                let place = names.range(..kind.as_str()).count();
                kinds.insert(*id, place as f64);
            }
        }
        Self {
            column,
            model,
            kinds,
        }
    }

    /// What `flow` is sorted by; `None` = unknown. Only what is needed is reckoned.
    pub fn of(&self, flow: &'a Flow) -> Option<SortKey<'a>> {
        let model = self.model;
        let text: Cow<'a, str> = match self.column {
            Column::Local => return Some(SortKey::Address(flow.local())),
            Column::Remote => return Some(SortKey::Address(flow.remote())),
            Column::Process => {
                let first = flow.owners()?.first()?;
                return Some(SortKey::Process(&first.comm, first.pid));
            }
            Column::State => Cow::Borrowed(state(flow)),
            Column::Container => Cow::Owned(container(flow)?),
            Column::Unit => unit(flow)?,
            Column::Cc => algorithm(flow)?,
            Column::Phase => phase(flow)?,
            Column::Dev => Cow::Borrowed(&model.device_of(flow)?.name),
            Column::Limit => match model.figures(flow).limit {
                LimitedBy::Unknown => return None,
                limit => Cow::Borrowed(limit.as_str()),
            },
            _ => return self.number(flow).map(SortKey::Number),
        };
        (text != UNKNOWN).then_some(SortKey::Text(text))
    }

    /// Numbers sort as numbers (TRAPS 27).
    fn number(&self, flow: &Flow) -> Option<f64> {
        let model = self.model;
        let whole = |value: Option<u64>| value.map(|v| v as f64);
        let sample = flow.sample();
        match self.column {
            Column::Throughput | Column::Trend => whole(model.throughput_bps(flow)),
            Column::Inflight => whole(flow.inflight_bytes()),
            Column::BtlBw => whole(model.btlbw(flow).map(|b| b.bytes_per_s)),
            Column::Fill => model.figures(flow).bdp_fill,
            Column::RetransRate | Column::RetransTrend => model.interval(flow)?.retrans_rate(),
            Column::Cwnd => sample.and_then(|s| s.cwnd).map(f64::from),
            Column::Rtt => sample.and_then(|s| s.srtt_us).map(f64::from),
            Column::Retrans => sample.map(|s| f64::from(s.retrans)),
            Column::Qdisc => self.kinds.get(&flow.attributes()?.device?).copied(),
            _ => sample?.pacing_rate.map(|rate| match rate {
                Limit::Finite(rate) => rate as f64,
                Limit::Unlimited => f64::INFINITY,
            }),
        }
    }
}
