//! What flows are sorted by, column by column.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::Column;
use super::cell::{algorithm, container, phase, state, unit};
use crate::event::{Device, DeviceId};
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

/// What makes a key another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Ends, attributes, owners.
    Identity,
    /// Every event of the flow.
    Reading,
    /// Silence too.
    Time,
}

impl Column {
    /// Ascending, what is 0 comes behind what moves: who turns the order round looks for the slowest flow, not for those
    /// that rest.
    pub fn rests_last(self) -> bool {
        matches!(self, Self::Throughput | Self::Trend | Self::Inflight)
    }

    pub fn follows(self) -> Follows {
        match self {
            Self::Local
            | Self::Remote
            | Self::Process
            | Self::Container
            | Self::Unit
            | Self::Cc
            | Self::Qdisc
            | Self::Dev => Follows::Identity,
            Self::State
            | Self::Phase
            | Self::Cwnd
            | Self::Inflight
            | Self::Pacing
            | Self::Rtt
            | Self::Retrans => Follows::Reading,
            Self::Throughput
            | Self::Trend
            | Self::Fill
            | Self::BtlBw
            | Self::RetransRate
            | Self::RetransTrend
            | Self::Limit
            // It is told without a reading.
            | Self::Verdict => Follows::Time,
        }
    }
}

/// Keys of one column, for very many flows: what all of them share is looked up once.
#[derive(Debug)]
pub struct Keys<'a> {
    column: Column,
    model: &'a Model,
    /// Of each device the place of its name, or of its qdisc's kind, among all of them in their order.
    places: BTreeMap<DeviceId, usize>,
}

impl<'a> Keys<'a> {
    pub fn new(column: Column, model: &'a Model) -> Self {
        let text = |device: &Device| match column {
            Column::Qdisc => Some(device.egress()?.kind),
            Column::Dev => Some(device.name.clone()),
            _ => None,
        };
        let texts = model.devices().filter_map(|d| Some((d.id, text(d)?)));
        let texts: Vec<(DeviceId, String)> = texts.collect();
        let sorted: BTreeSet<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
        let place = |text: &str| sorted.range(..text).count();
        let places = texts.iter().map(|(id, text)| (*id, place(text))).collect();
        Self {
            column,
            model,
            places,
        }
    }

    /// Keys made with these do not compare with those made with others.
    pub fn places(&self) -> &BTreeMap<DeviceId, usize> {
        &self.places
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
            Column::Limit => match model.figures(flow).limit {
                LimitedBy::Unknown => return None,
                limit => Cow::Borrowed(limit.as_str()),
            },
            Column::Verdict => Cow::Borrowed(flow.judgement()?.verdict.class.as_str()),
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
            Column::Qdisc | Column::Dev => {
                let place = self.places.get(&flow.attributes()?.device?)?;
                Some(*place as f64)
            }
            _ => sample?.pacing_rate.map(|rate| match rate {
                Limit::Finite(rate) => rate as f64,
                Limit::Unlimited => f64::INFINITY,
            }),
        }
    }
}
