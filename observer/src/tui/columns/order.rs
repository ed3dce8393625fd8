//! What flows are sorted by, column by column.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::net::SocketAddr;

use super::Column;
use super::cell::{algorithm, phase, state};
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

impl Column {
    /// What `flow` is sorted by; `None` = unknown. Only what is needed is reckoned: there may be very many flows.
    pub fn key<'a>(self, model: &'a Model, flow: &'a Flow) -> Option<SortKey<'a>> {
        let text: Cow<'a, str> = match self {
            Self::Local => return Some(SortKey::Address(flow.local())),
            Self::Remote => return Some(SortKey::Address(flow.remote())),
            Self::Process => {
                let first = flow.owners()?.first()?;
                return Some(SortKey::Process(&first.comm, first.pid));
            }
            Self::State => Cow::Borrowed(state(flow)),
            Self::Cc => algorithm(flow)?,
            Self::Phase => phase(flow)?,
            Self::Dev => Cow::Borrowed(&model.device_of(flow)?.name),
            Self::Qdisc => Cow::Owned(model.qdisc_of(flow)?.kind),
            Self::Limit => match model.figures(flow).limit {
                LimitedBy::Unknown => return None,
                limit => Cow::Borrowed(limit.as_str()),
            },
            _ => return self.number(model, flow).map(SortKey::Number),
        };
        (text != UNKNOWN).then_some(SortKey::Text(text))
    }

    /// Numbers sort as numbers (TRAPS 27).
    fn number(self, model: &Model, flow: &Flow) -> Option<f64> {
        let whole = |value: Option<u64>| value.map(|v| v as f64);
        let sample = flow.sample();
        match self {
            Self::Throughput | Self::Trend => whole(model.throughput_bps(flow)),
            Self::Inflight => whole(flow.inflight_bytes()),
            Self::BtlBw => whole(model.btlbw(flow).map(|b| b.bytes_per_s)),
            Self::Fill => model.figures(flow).bdp_fill,
            Self::RetransRate | Self::RetransTrend => model.interval(flow)?.retrans_rate(),
            Self::Cwnd => sample.map(|s| f64::from(s.cwnd)),
            Self::Rtt => sample.and_then(|s| s.srtt_us).map(f64::from),
            Self::Retrans => sample.map(|s| f64::from(s.retrans)),
            _ => sample.map(|s| match s.pacing_rate {
                Limit::Finite(rate) => rate as f64,
                Limit::Unlimited => f64::INFINITY,
            }),
        }
    }
}
