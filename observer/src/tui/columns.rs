//! The flow table's columns: what they are called, how wide they are, what they mean.

mod cell;
mod choice;
mod order;
mod trend;

pub use cell::Row;
pub use choice::{Choice, Placed};
pub use order::{Follows, Keys, SortKey};

/// A column, in the order of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    State,
    Local,
    Remote,
    Process,
    Container,
    Unit,
    Cc,
    Phase,
    Qdisc,
    Dev,
    Throughput,
    /// The last seconds of throughput.
    Trend,
    Cwnd,
    Inflight,
    Fill,
    Pacing,
    BtlBw,
    Rtt,
    RetransRate,
    /// The last seconds of the retransmit rate.
    RetransTrend,
    Retrans,
    Limit,
    Verdict,
}

/// Columns between two cells.
pub const GAP: usize = 1;
/// What marks a closed flow where the column of states has no room.
pub const CLOSED: &str = "×";
/// The same for an open one that is not established.
pub const UNSETTLED: &str = "~";
/// What marks a spike of retransmissions.
pub const SPIKE: char = '!';

impl Column {
    pub const ALL: [Self; 23] = [
        Self::State,
        Self::Local,
        Self::Remote,
        Self::Process,
        Self::Container,
        Self::Unit,
        Self::Cc,
        Self::Phase,
        Self::Qdisc,
        Self::Dev,
        Self::Throughput,
        Self::Trend,
        Self::Cwnd,
        Self::Inflight,
        Self::Fill,
        Self::Pacing,
        Self::BtlBw,
        Self::Rtt,
        Self::RetransRate,
        Self::RetransTrend,
        Self::Retrans,
        Self::Limit,
        Self::Verdict,
    ];

    /// What the config file calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Local => "local",
            Self::Remote => "remote",
            Self::Process => "process",
            Self::Container => "container",
            Self::Unit => "unit",
            Self::Cc => "cc",
            Self::Phase => "phase",
            Self::Qdisc => "qdisc",
            Self::Dev => "dev",
            Self::Throughput => "throughput",
            Self::Trend => "trend",
            Self::Cwnd => "cwnd",
            Self::Inflight => "inflight",
            Self::Fill => "bdp-fill",
            Self::Pacing => "pacing",
            Self::BtlBw => "btlbw",
            Self::Rtt => "rtt",
            Self::RetransRate => "retrans-rate",
            Self::RetransTrend => "retrans-trend",
            Self::Retrans => "retrans",
            Self::Limit => "limit",
            Self::Verdict => "verdict",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.name() == name)
    }

    /// With units where the cell has none.
    pub fn heading(self) -> &'static str {
        match self {
            Self::State => "State",
            Self::Local => "Local",
            Self::Remote => "Remote",
            Self::Process => "Process",
            Self::Container => "Container",
            Self::Unit => "Unit",
            Self::Cc => "CC",
            Self::Phase => "Phase",
            Self::Qdisc => "Qdisc",
            Self::Dev => "Dev",
            Self::Throughput => "Throughput",
            Self::Trend => "Trend",
            Self::Cwnd => "cwnd",
            Self::Inflight => "Inflight",
            Self::Fill => "BDPfill",
            Self::Pacing => "Pacing",
            Self::BtlBw => "BtlBw",
            Self::Rtt => "RTT/min ms",
            Self::RetransRate => "Retr%",
            Self::RetransTrend => "RTrend",
            Self::Retrans => "Retrans",
            Self::Limit => "Limit",
            Self::Verdict => "Verdict",
        }
    }

    /// For the help page.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::State => "as ss has it, or «closed»",
            Self::Local => "this end",
            Self::Remote => "the other end",
            Self::Process => "name/pid, +others holding it",
            Self::Container => "or pod, by its cgroup's path",
            Self::Unit => "systemd's, by the same path",
            Self::Cc => "algorithm it runs / version",
            Self::Phase => "BBR's, with part of PROBE_BW",
            Self::Qdisc => "of its own egress device",
            Self::Dev => "the device it leaves by",
            Self::Throughput => "newly acknowledged",
            Self::Trend => "its last seconds, own scale",
            Self::Cwnd => "congestion window, segments",
            Self::Inflight => "sent, not known to be gone",
            Self::Fill => "inflight ÷ (BtlBw×minRTT)",
            Self::Pacing => "rate it may send at",
            Self::BtlBw => "bottleneck; est: not BBR's",
            Self::Rtt => "smoothed / windowed minimum",
            Self::RetransRate => "bytes sent again ÷ sent",
            Self::RetransTrend => "its last seconds, to 30%",
            Self::Retrans => "segments sent again, total",
            Self::Limit => "what holds it back",
            Self::Verdict => "on its path; w says why",
        }
    }

    /// Of the widest sensible cell and the heading with its arrow, so that columns do not jump.
    pub fn width(self) -> usize {
        match self {
            // «closed» and FIN-WAIT-1; pfifo_fast.
            Self::State | Self::Qdisc => 10,
            Self::Local | Self::Remote => 21,
            Self::Process => 14,
            // «containerd:0123456789ab»; «user@1000.service».
            Self::Container => 23,
            Self::Unit => 17,
            Self::Inflight => 9,
            // «12.3 Mbit/s»; «0.042/0.038».
            Self::Throughput | Self::Pacing | Self::Rtt => 11,
            // «<.01%» and the mark of a spike.
            Self::Cwnd | Self::RetransRate => 6,
            Self::Limit => 7,
            // «queue_shallow».
            Self::Verdict => 13,
            Self::Cc
            | Self::Fill
            | Self::Retrans
            | Self::Dev
            | Self::Trend
            | Self::RetransTrend => 8,
            // «PROBE_BW:CRUISE», «12.3 Mbit/s est».
            Self::Phase | Self::BtlBw => 15,
        }
    }

    pub fn right(self) -> bool {
        matches!(
            self,
            Self::Throughput
                | Self::Trend
                | Self::Cwnd
                | Self::Inflight
                | Self::Fill
                | Self::Pacing
                | Self::BtlBw
                | Self::Rtt
                | Self::RetransRate
                | Self::RetransTrend
                | Self::Retrans
        )
    }
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    #[test]
    fn a_heading_has_room_for_its_arrow() {
        for column in Column::ALL {
            let heading = column.heading().width();
            assert!(heading < column.width(), "{column:?}");
        }
    }

    #[test]
    fn names_are_names() {
        for (place, column) in Column::ALL.into_iter().enumerate() {
            assert_eq!(column as usize, place);
            assert_eq!(Column::from_name(column.name()), Some(column));
        }
        assert_eq!(Column::from_name("State"), None);
    }
}
