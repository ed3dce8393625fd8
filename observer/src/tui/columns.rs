//! The flow table's columns: heading, width, what is in a cell, how it sorts, and which are worth having first.

use std::cmp::Ordering;

use super::format::known;
use crate::event::{CcState, Sample};
use crate::model::{Figures, Flow, Model};
use crate::units::{self, Limit, UNLIMITED};

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

    /// The columns that fit into `width`, in the order of the screen.
    pub fn fitting(width: usize) -> Vec<Self> {
        let mut left = width;
        let mut chosen = Vec::new();
        for column in Self::BY_WORTH {
            let needs = column.width() + if chosen.is_empty() { 0 } else { GAP };
            if needs > left {
                break;
            }
            left -= needs;
            chosen.push(column);
        }
        chosen.sort_by_key(|column| *column as usize);
        chosen
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

    /// Of the widest sensible cell, so that columns do not jump.
    pub fn width(self) -> usize {
        match self {
            // «closed» and FIN-WAIT-1.
            Self::State | Self::Qdisc => 10,
            Self::Local | Self::Remote => 21,
            Self::Process => 14,
            Self::Cc | Self::Inflight => 8,
            // «12.3 Mbit/s».
            Self::Throughput | Self::Pacing | Self::Rtt => 11,
            Self::Cwnd => 6,
            Self::Fill | Self::RetransRate | Self::Retrans | Self::Limit => 7,
            // «PROBE_BW:CRUISE», «12.3 Mbit/s est».
            Self::Phase | Self::BtlBw => 15,
        }
    }

    pub fn right(self) -> bool {
        self as usize >= Self::Throughput as usize && self != Self::Limit
    }

    /// What the cell says.
    pub fn cell(self, row: &Row) -> String {
        match self {
            Self::State => row.state(),
            Self::Local => row.flow.local().to_string(),
            Self::Remote => row.flow.remote().to_string(),
            Self::Process => known(row.process()),
            Self::Cc => known(row.algorithm()),
            Self::Phase => known(row.phase()),
            Self::Qdisc => known(row.model.qdisc_of(row.flow).map(|qdisc| qdisc.kind)),
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
            Self::Rtt => row.rtt(),
            Self::RetransRate => known(row.figures.retrans_rate.map(units::percent)),
            Self::Retrans => known(row.sample().map(|s| s.retrans.to_string())),
            Self::Limit => row.figures.limit.as_str().to_owned(),
        }
    }

    /// Ascending; unknown before everything known.
    pub fn compare(self, a: &Row, b: &Row) -> Ordering {
        let order = |x: Option<f64>, y: Option<f64>| match (x, y) {
            (Some(x), Some(y)) => x.total_cmp(&y),
            (x, y) => x.is_some().cmp(&y.is_some()),
        };
        match self {
            Self::Local => a.flow.local().cmp(&b.flow.local()),
            Self::Remote => a.flow.remote().cmp(&b.flow.remote()),
            _ => match (self.number(a), self.number(b)) {
                (None, None) if !self.right() => self.cell(a).cmp(&self.cell(b)),
                (x, y) => order(x, y),
            },
        }
    }

    /// Numbers sort as numbers (TRAPS 27).
    fn number(self, row: &Row) -> Option<f64> {
        let figures = &row.figures;
        match self {
            Self::Throughput => figures.throughput_bps.map(|v| v as f64),
            Self::Cwnd => row.sample().map(|s| f64::from(s.cwnd)),
            Self::Inflight => figures.inflight_bytes.map(|v| v as f64),
            Self::Fill => figures.bdp_fill,
            Self::Pacing => row.sample().map(|s| match s.pacing_rate {
                Limit::Finite(rate) => rate as f64,
                Limit::Unlimited => f64::INFINITY,
            }),
            Self::BtlBw => figures.btlbw.map(|b| b.bytes_per_s as f64),
            Self::Rtt => row.sample().and_then(|s| s.srtt_us).map(f64::from),
            Self::RetransRate => figures.retrans_rate,
            Self::Retrans => row.sample().map(|s| f64::from(s.retrans)),
            _ => None,
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

    fn state(&self) -> String {
        if self.flow.is_closed() {
            "closed".to_owned()
        } else {
            self.flow.state().as_str().to_owned()
        }
    }

    fn process(&self) -> Option<String> {
        let owners = self.flow.owners()?;
        let first = owners.first()?;
        Some(match owners.len() {
            1 => format!("{}/{}", first.comm, first.pid),
            more => format!("{}/{}+{}", first.comm, first.pid, more - 1),
        })
    }

    fn algorithm(&self) -> Option<String> {
        let attributes = self.flow.attributes()?;
        Some(match &attributes.cc_version {
            Some(version) => format!("{}/{version}", attributes.cc_name),
            None => attributes.cc_name.clone(),
        })
    }

    fn phase(&self) -> Option<String> {
        match self.sample()?.cc.as_ref()? {
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

    fn rtt(&self) -> String {
        let ms = |us: Option<u32>| known(us.map(|us| units::ms(us.into())));
        let sample = self.sample();
        format!(
            "{}/{}",
            ms(sample.and_then(|s| s.srtt_us)),
            ms(sample.and_then(|s| s.min_rtt_us))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_grows_with_the_width_and_keeps_the_order() {
        let mut before = 0;
        for width in 0..400 {
            let columns = Column::fitting(width);
            let used: usize = columns.iter().map(|c| c.width() + GAP).sum();
            assert!(used.saturating_sub(GAP) <= width);
            assert!(columns.len() >= before);
            assert!(columns.is_sorted_by_key(|c| *c as usize));
            before = columns.len();
        }
        assert_eq!(before, Column::ALL.len());
    }

    #[test]
    fn eighty_columns_show_what_matters_most() {
        use Column::{Cc, Cwnd, Remote, RetransRate, Rtt, State, Throughput};
        assert_eq!(
            Column::fitting(80),
            [State, Remote, Cc, Throughput, Cwnd, Rtt, RetransRate]
        );
    }
}
