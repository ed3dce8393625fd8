//! The flow table's columns: heading, width, what is in a cell, how it sorts, and which are worth having first.

use std::cmp::Ordering;
use std::net::SocketAddr;

use super::format::{cut_address, known};
use crate::event::{CcState, Sample, TcpState};
use crate::model::{Figures, Flow, LimitedBy, Model};
use crate::units::{self, Limit, UNKNOWN, UNLIMITED};

/// A column, in the order of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    State,
    Local,
    Remote,
    Process,
    Cc,
    Phase,
    Qdisc,
    Throughput,
    Cwnd,
    Inflight,
    Fill,
    Pacing,
    BtlBw,
    Rtt,
    RetransRate,
    Retrans,
    Limit,
}

/// Columns between two cells.
pub const GAP: usize = 1;
/// What marks a closed flow where the column of states has no room.
pub const CLOSED: &str = "×";

/// A column in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    pub column: Column,
    pub x: usize,
    pub width: usize,
}

impl Column {
    pub const ALL: [Self; 17] = [
        Self::State,
        Self::Local,
        Self::Remote,
        Self::Process,
        Self::Cc,
        Self::Phase,
        Self::Qdisc,
        Self::Throughput,
        Self::Cwnd,
        Self::Inflight,
        Self::Fill,
        Self::Pacing,
        Self::BtlBw,
        Self::Rtt,
        Self::RetransRate,
        Self::Retrans,
        Self::Limit,
    ];

    /// Which to have first when there is no room for all.
    const BY_WORTH: [Self; 17] = [
        Self::Remote,
        Self::Throughput,
        Self::Rtt,
        Self::RetransRate,
        Self::Cwnd,
        Self::Cc,
        Self::State,
        Self::Limit,
        Self::Process,
        Self::Pacing,
        Self::BtlBw,
        Self::Qdisc,
        Self::Fill,
        Self::Inflight,
        Self::Phase,
        Self::Retrans,
        Self::Local,
    ];

    /// The columns that fit into `width`, in the order of the screen. `first` (what is sorted by) has its place before
    /// the others. Where states have none, the leftmost screen column is left for [`CLOSED`].
    pub fn placed(width: usize, first: Self) -> Vec<Placed> {
        let (mut chosen, mut left) = Self::fitting(width, first);
        let mut x = 0;
        if !chosen.contains(&Self::State) {
            (chosen, left) = Self::fitting(width.saturating_sub(1), first);
            x = 1;
        }
        // Into the room that is left over, in this order.
        let mut wider = [
            (Self::Cc, 3),
            (Self::Remote, 26),
            (Self::Local, 26),
            (Self::Process, 12),
        ];
        for (column, more) in &mut wider {
            *more = if chosen.contains(column) {
                left.min(*more)
            } else {
                0
            };
            left -= *more;
        }
        chosen
            .into_iter()
            .map(|column| {
                let more = wider.iter().find(|w| w.0 == column).map_or(0, |w| w.1);
                let width = column.width() + more;
                let placed = Placed { column, x, width };
                x += width + GAP;
                placed
            })
            .collect()
    }

    /// What fits, and how many columns are left over.
    fn fitting(width: usize, first: Self) -> (Vec<Self>, usize) {
        let mut left = width;
        let mut chosen = Vec::new();
        let others = Self::BY_WORTH.into_iter().filter(|c| *c != first);
        for column in std::iter::once(first).chain(others) {
            let needs = column.width() + if chosen.is_empty() { 0 } else { GAP };
            if needs > left {
                break;
            }
            left -= needs;
            chosen.push(column);
        }
        chosen.sort_by_key(|column| *column as usize);
        (chosen, left)
    }

    /// Those that are not in `placed`, the worthiest first: told of the selected flow.
    pub fn left_out(placed: &[Placed]) -> impl Iterator<Item = Self> + '_ {
        Self::BY_WORTH
            .into_iter()
            .filter(|c| !matches!(c, Self::Local | Self::Remote))
            .filter(|c| placed.iter().all(|p| p.column != *c))
    }

    /// With units where the cell has none.
    pub fn heading(self) -> &'static str {
        match self {
            Self::State => "State",
            Self::Local => "Local",
            Self::Remote => "Remote",
            Self::Process => "Process",
            Self::Cc => "CC",
            Self::Phase => "Phase",
            Self::Qdisc => "Qdisc",
            Self::Throughput => "Throughput",
            Self::Cwnd => "cwnd",
            Self::Inflight => "Inflight",
            Self::Fill => "BDPfill",
            Self::Pacing => "Pacing",
            Self::BtlBw => "BtlBw",
            Self::Rtt => "RTT/min ms",
            Self::RetransRate => "Retr%",
            Self::Retrans => "Retrans",
            Self::Limit => "Limit",
        }
    }

    /// For the help page.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::State => "as ss has it, or «closed»",
            Self::Local => "this end",
            Self::Remote => "the other end",
            Self::Process => "name/pid, +others holding it",
            Self::Cc => "algorithm it runs / version",
            Self::Phase => "BBR's, with part of PROBE_BW",
            Self::Qdisc => "of its own egress device",
            Self::Throughput => "newly acknowledged",
            Self::Cwnd => "congestion window, segments",
            Self::Inflight => "sent, not known to be gone",
            Self::Fill => "inflight ÷ (BtlBw×minRTT)",
            Self::Pacing => "rate it may send at",
            Self::BtlBw => "bottleneck; est: not BBR's",
            Self::Rtt => "smoothed / windowed minimum",
            Self::RetransRate => "bytes sent again ÷ sent",
            Self::Retrans => "segments sent again, total",
            Self::Limit => "what holds it back",
        }
    }

    /// Of the widest sensible cell and the heading with its arrow, so that columns do not jump.
    pub fn width(self) -> usize {
        match self {
            // «closed» and FIN-WAIT-1; pfifo_fast.
            Self::State | Self::Qdisc => 10,
            Self::Local | Self::Remote => 21,
            Self::Process => 14,
            Self::Inflight => 9,
            // «12.3 Mbit/s»; «0.042/0.038».
            Self::Throughput | Self::Pacing | Self::Rtt => 11,
            // «<0.01%».
            Self::Cwnd | Self::RetransRate => 6,
            Self::Cc | Self::Fill | Self::Retrans => 8,
            Self::Limit => 7,
            // «PROBE_BW:CRUISE», «12.3 Mbit/s est».
            Self::Phase | Self::BtlBw => 15,
        }
    }

    pub fn right(self) -> bool {
        self as usize >= Self::Throughput as usize && self != Self::Limit
    }

    /// What the cell says.
    pub fn cell(self, row: &Row, width: usize) -> String {
        match self {
            Self::State => state(row.flow),
            Self::Local => cut_address(&row.flow.local().to_string(), width),
            Self::Remote => cut_address(&row.flow.remote().to_string(), width),
            Self::Process => known(process(row.flow)),
            Self::Cc => known(algorithm(row.flow)),
            Self::Phase => known(phase(row.flow)),
            Self::Qdisc => known(qdisc(row.model, row.flow)),
            Self::Throughput => known(row.figures.throughput_bps.map(units::rate)),
            Self::Cwnd => known(row.sample().map(|s| s.cwnd.to_string())),
            Self::Inflight => known(row.figures.inflight_bytes.map(units::size)),
            Self::Fill => known(row.figures.bdp_fill.map(units::percent)),
            Self::Pacing => known(row.sample().map(|s| match s.pacing_rate {
                Limit::Finite(rate) => units::rate(units::bits(rate)),
                Limit::Unlimited => UNLIMITED.to_owned(),
            })),
            Self::BtlBw => known(row.figures.btlbw.map(|b| {
                let rate = units::rate(units::bits(b.bytes_per_s));
                // Room for the mark also where there is none: rates stand under each other.
                if b.estimated {
                    format!("{rate} est")
                } else {
                    format!("{rate}    ")
                }
            })),
            Self::Rtt => rtt(row.flow),
            Self::RetransRate => known(row.figures.retrans_rate.map(units::percent)),
            Self::Retrans => known(row.sample().map(|s| s.retrans.to_string())),
            Self::Limit => match row.figures.limit {
                LimitedBy::Unknown => UNKNOWN.to_owned(),
                limit => limit.as_str().to_owned(),
            },
        }
    }

    /// What `flow` is sorted by; `None` = unknown. Figures are made only where they are needed.
    pub fn key<'a>(self, model: &Model, flow: &'a Flow) -> Option<SortKey<'a>> {
        // Numbers sort as numbers (TRAPS 27).
        let whole = |value: Option<u64>| value.map(|v| v as f64);
        let row = || Row::new(model, flow);
        let text = match self {
            Self::Local => return Some(SortKey::Address(flow.local())),
            Self::Remote => return Some(SortKey::Address(flow.remote())),
            Self::State => Some(state(flow)),
            Self::Process => {
                let first = flow.owners()?.first()?;
                return Some(SortKey::Process(&first.comm, first.pid));
            }
            Self::Cc => algorithm(flow),
            Self::Phase => phase(flow),
            Self::Qdisc => qdisc(model, flow),
            Self::Limit => Some(self.cell(&row(), 0)),
            _ => {
                let sample = flow.sample();
                let number = match self {
                    Self::Throughput => whole(model.throughput_bps(flow)),
                    Self::Inflight => whole(flow.inflight_bytes()),
                    Self::BtlBw => whole(model.btlbw(flow).map(|b| b.bytes_per_s)),
                    Self::Fill => row().figures.bdp_fill,
                    Self::RetransRate => row().figures.retrans_rate,
                    Self::Cwnd => sample.map(|s| f64::from(s.cwnd)),
                    Self::Rtt => sample.and_then(|s| s.srtt_us).map(f64::from),
                    Self::Retrans => sample.map(|s| f64::from(s.retrans)),
                    _ => sample.map(|s| match s.pacing_rate {
                        Limit::Finite(rate) => rate as f64,
                        Limit::Unlimited => f64::INFINITY,
                    }),
                };
                return number.map(SortKey::Number);
            }
        };
        text.filter(|text| text != UNKNOWN).map(SortKey::Text)
    }
}

/// What rows are ordered by.
#[derive(Clone, Debug, PartialEq)]
pub enum SortKey<'a> {
    Number(f64),
    /// By name, then by number.
    Process(&'a str, u32),
    Text(String),
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

/// A flow with its figures.
#[derive(Debug)]
pub struct Row<'a> {
    pub model: &'a Model,
    pub flow: &'a Flow,
    pub figures: Figures,
}

impl<'a> Row<'a> {
    pub fn new(model: &'a Model, flow: &'a Flow) -> Self {
        Self {
            model,
            flow,
            figures: model.figures(flow),
        }
    }

    fn sample(&self) -> Option<&Sample> {
        self.flow.sample()
    }
}

fn state(flow: &Flow) -> String {
    match flow.state() {
        _ if flow.is_closed() => "closed".to_owned(),
        // Its first event was lost.
        TcpState::Unknown(_) => UNKNOWN.to_owned(),
        state => state.as_str().to_owned(),
    }
}

fn qdisc(model: &Model, flow: &Flow) -> Option<String> {
    model.qdisc_of(flow).map(|qdisc| qdisc.kind)
}

fn process(flow: &Flow) -> Option<String> {
    let owners = flow.owners()?;
    let first = owners.first()?;
    Some(match owners.len() {
        1 => format!("{}/{}", first.comm, first.pid),
        more => format!("{}/{}+{}", first.comm, first.pid, more - 1),
    })
}

fn algorithm(flow: &Flow) -> Option<String> {
    let attributes = flow.attributes()?;
    Some(match &attributes.cc_version {
        Some(version) => format!("{}/{version}", attributes.cc_name),
        None => attributes.cc_name.clone(),
    })
}

fn phase(flow: &Flow) -> Option<String> {
    match flow.sample()?.cc.as_ref()? {
        CcState::Bbr(bbr) => {
            let phase = bbr.phase?.as_str();
            Some(match bbr.sub_phase {
                Some(sub) => format!("{phase}:{}", sub.as_str()),
                None => phase.to_owned(),
            })
        }
        CcState::Cubic(_) | CcState::Dctcp(_) => None,
    }
}

fn rtt(flow: &Flow) -> String {
    let ms = |us: Option<u32>| known(us.map(|us| units::ms(us.into())));
    match flow.sample().map(|s| (s.srtt_us, s.min_rtt_us)) {
        None | Some((None, None)) => UNKNOWN.to_owned(),
        Some((srtt, min)) => format!("{}/{}", ms(srtt), ms(min)),
    }
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    fn columns(width: usize, first: Column) -> Vec<Column> {
        let placed = Column::placed(width, first);
        placed.iter().map(|p| p.column).collect()
    }

    #[test]
    fn what_fits_grows_with_the_width_and_keeps_the_order() {
        for first in Column::ALL {
            let mut before = 0;
            for width in 0..400 {
                let placed = Column::placed(width, first);
                assert!(placed.len() >= before);
                assert!(placed.is_sorted_by(|a, b| a.x + a.width + GAP == b.x));
                assert!(placed.is_sorted_by_key(|p| p.column as usize));
                if let Some(last) = placed.last() {
                    assert!(last.x + last.width <= width);
                    assert!(columns(width, first).contains(&first), "{first:?} is seen");
                }
                before = placed.len();
            }
            assert_eq!(before, Column::ALL.len());
        }
    }

    #[test]
    fn eighty_columns_show_what_matters_most() {
        use Column::{Cc, Cwnd, Inflight, Remote, RetransRate, Rtt, State, Throughput};
        let at_80 = [State, Remote, Cc, Throughput, Cwnd, Rtt, RetransRate];
        assert_eq!(columns(80, Throughput), at_80);
        let at_60 = [Remote, Throughput, Cwnd, Rtt, RetransRate];
        assert_eq!(columns(60, Throughput), at_60);
        assert!(columns(80, Inflight).contains(&Inflight));
    }

    #[test]
    fn a_heading_has_room_for_its_arrow() {
        for column in Column::ALL {
            let heading = column.heading().width();
            assert!(heading < column.width(), "{column:?}");
        }
    }
}
