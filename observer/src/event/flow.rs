//! What is observed of a flow: identity, attributes, samples, retransmissions, state changes.

use std::fmt;
use std::net::SocketAddr;

pub use observer_common::wire::RetransmitKind;

use super::DeviceId;
use crate::units::Limit;

/// Identity: the tuple is an attribute, reused by later flows (TRAPS 18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId {
    /// `SO_COOKIE`.
    pub cookie: u64,
    /// Inode number of the network namespace.
    pub netns: u32,
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.cookie, self.netns)
    }
}

/// Where the figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    Ebpf,
    /// Socket-diag polling.
    Diag,
    /// A packet capture: what the packets show, and nothing of what the socket held.
    Capture,
}

impl Origin {
    /// The word of SPEC §4.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ebpf => "ebpf",
            Self::Diag => "diag",
            Self::Capture => "capture",
        }
    }
}

/// `include/net/tcp_states.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TcpState {
    Established,
    SynSent,
    SynRecv,
    FinWait1,
    FinWait2,
    TimeWait,
    Close,
    CloseWait,
    LastAck,
    Listen,
    Closing,
    NewSynRecv,
    BoundInactive,
    /// A number this version does not know.
    Unknown(u8),
}

impl TcpState {
    pub fn from_kernel(state: u8) -> Self {
        match state {
            1 => Self::Established,
            2 => Self::SynSent,
            3 => Self::SynRecv,
            4 => Self::FinWait1,
            5 => Self::FinWait2,
            6 => Self::TimeWait,
            7 => Self::Close,
            8 => Self::CloseWait,
            9 => Self::LastAck,
            10 => Self::Listen,
            11 => Self::Closing,
            12 => Self::NewSynRecv,
            13 => Self::BoundInactive,
            other => Self::Unknown(other),
        }
    }

    /// The word `ss` prints.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Established => "ESTAB",
            Self::SynSent => "SYN-SENT",
            Self::SynRecv | Self::NewSynRecv => "SYN-RECV",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::TimeWait => "TIME-WAIT",
            Self::Close | Self::BoundInactive => "UNCONN",
            Self::CloseWait => "CLOSE-WAIT",
            Self::LastAck => "LAST-ACK",
            Self::Listen => "LISTEN",
            Self::Closing => "CLOSING",
            Self::Unknown(_) => "UNKNOWN",
        }
    }

    /// Shown by `ss` without `-a`: neither listening, closed, TIME-WAIT nor SYN-RECV (`SS_CONN` in misc/ss.c).
    pub fn is_connected(self) -> bool {
        matches!(
            self,
            Self::Established
                | Self::SynSent
                | Self::FinWait1
                | Self::FinWait2
                | Self::CloseWait
                | Self::LastAck
                | Self::Closing
        )
    }
}

/// `enum tcp_ca_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CaState {
    Open,
    Disorder,
    Cwr,
    Recovery,
    Loss,
    Unknown(u8),
}

impl CaState {
    /// The source cannot tell: no kernel has so many.
    pub const UNTOLD: Self = Self::Unknown(u8::MAX);

    pub fn from_kernel(state: u8) -> Self {
        match state {
            0 => Self::Open,
            1 => Self::Disorder,
            2 => Self::Cwr,
            3 => Self::Recovery,
            4 => Self::Loss,
            other => Self::Unknown(other),
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "Open",
            Self::Disorder => "Disorder",
            Self::Cwr => "CWR",
            Self::Recovery => "Recovery",
            Self::Loss => "Loss",
            Self::Unknown(_) => "Unknown",
        }
    }

    /// The word of a state that has one.
    pub fn known(self) -> Option<&'static str> {
        (!matches!(self, Self::Unknown(_))).then(|| self.as_str())
    }
}

/// How a flow came into view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its birth was seen; otherwise it is older than the observer.
    pub from_start: bool,
    pub state: TcpState,
    /// v4-mapped addresses are shown as IPv4 (TRAPS 16). The local port of a connect is not known yet: 0.
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

/// `ipv4` or `ipv6` by the addresses a flow runs over (a v4-mapped one is `ipv4`).
pub fn family(addr: &SocketAddr) -> &'static str {
    if addr.is_ipv4() { "ipv4" } else { "ipv6" }
}

/// What changes rarely.
#[derive(Clone, Debug, PartialEq)]
pub struct Attributes {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Empty = not known.
    pub cc_name: String,
    /// `v1`, `v3`, `bbrplus` …, told from the code's type information, never from its name (TRAPS 15).
    pub cc_version: Option<String>,
    /// The module that holds the algorithm; `None` = built in, or not known (socket-diag).
    pub cc_module: Option<String>,
    /// Bytes per second.
    pub max_pacing_rate: Option<Limit<u64>>,
    /// Inode number of the cgroup v2 directory.
    pub cgroup_id: Option<u64>,
    /// Its path below the cgroup v2 mount, as in `/proc/PID/cgroup`; `None` = gone, or not visible here.
    pub cgroup: Option<String>,
    /// The device of the cached route.
    pub device: Option<DeviceId>,
    pub cwnd_clamp: Option<Limit<u32>>,
    /// `None` = the sysctl applies.
    pub notsent_lowat: Option<u32>,
    pub pmtu: Option<u32>,
    pub mss_clamp: Option<u16>,
    pub user_mss: Option<u16>,
    pub advmss: Option<u16>,
    pub rcv_mss: Option<u16>,
    /// `SOCK_SNDBUF_LOCK` (1), `SOCK_RCVBUF_LOCK` (2) …
    pub user_locks: Option<u8>,
    /// Shifts, when both ends agreed on window scaling; `Some(None)` = they did not.
    pub wscale: Option<Option<Wscale>>,
    pub sack: Option<bool>,
    pub timestamps: Option<bool>,
    pub ecn: Option<bool>,
}

/// Window scale shifts (RFC 7323).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wscale {
    pub snd: u8,
    pub rcv: u8,
}

/// Why a sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// An incoming segment; the state is that *before* it was processed (TRAPS 33).
    Ack,
    /// The sweep over all sockets, or a socket-diag poll.
    Sweep,
    /// The socket is being destroyed.
    Close,
}

/// The moving part of a flow. `None` = unknown.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub origin: Origin,
    pub cause: Cause,
    pub state: TcpState,
    pub ca_state: CaState,
    /// Segments.
    pub cwnd: Option<u32>,
    pub ssthresh: Option<Limit<u32>>,
    /// Segments.
    pub packets_out: u32,
    pub sacked_out: u32,
    pub lost_out: u32,
    pub retrans_out: u32,
    pub snd_una: Option<u32>,
    pub snd_nxt: Option<u32>,
    pub write_seq: Option<u32>,
    pub rcv_nxt: Option<u32>,
    pub notsent_bytes: Option<u32>,
    pub snd_wnd_bytes: Option<u32>,
    pub max_window_bytes: Option<u32>,
    pub rcv_wnd_bytes: Option<u32>,
    /// The latest unsmoothed RTT.
    pub rtt_us: Option<u32>,
    pub srtt_us: Option<u32>,
    pub rttvar_us: Option<u32>,
    /// The kernel's windowed minimum.
    pub min_rtt_us: Option<u32>,
    pub rcv_rtt_us: Option<u32>,
    pub rto_us: Option<u64>,
    /// Bytes per second: `tcp_compute_delivery_rate()`; `None` before the first rate sample.
    pub delivery_rate: Option<u64>,
    /// That rate sample was app-limited (`rate_app_limited`).
    pub rate_app_limited: bool,
    /// An app-limited bubble is in flight (`tcp_sock.app_limited` ≠ 0).
    pub app_limited: Option<bool>,
    /// Bytes per second.
    pub pacing_rate: Option<Limit<u64>>,
    pub pacing_status: Option<PacingStatus>,
    pub mss: u32,
    pub delivered: Option<u32>,
    pub delivered_ce: Option<u32>,
    /// Segments ever marked lost (`tcp_sock.lost`).
    pub lost_total: Option<u32>,
    pub bytes_sent: Option<u64>,
    pub bytes_acked: Option<u64>,
    pub bytes_retrans: Option<u64>,
    pub bytes_received: Option<u64>,
    pub segs_out: Option<u32>,
    pub segs_in: Option<u32>,
    pub data_segs_out: Option<u32>,
    pub data_segs_in: Option<u32>,
    /// `total_retrans`: segments.
    pub retrans: u32,
    pub dsack_dups: Option<u32>,
    pub reord_seen: Option<u32>,
    pub rcv_ooopack: Option<u32>,
    pub reordering: Option<u32>,
    pub clocks: Option<LimitClocks>,
    pub sndbuf_bytes: Option<u32>,
    pub rcvbuf_bytes: Option<u32>,
    pub wmem_queued_bytes: Option<u32>,
    pub cwnd_limited: Option<bool>,
    pub backoff: Option<u8>,
    pub cc: Option<CcState>,
}

impl Sample {
    /// Segments in flight (SPEC §3): `packets_out − (sacked_out + lost_out) + retrans_out`.
    pub fn inflight_segments(&self) -> u32 {
        let outstanding = u64::from(self.packets_out) + u64::from(self.retrans_out);
        let gone = u64::from(self.sacked_out) + u64::from(self.lost_out);
        outstanding.saturating_sub(gone).min(u64::from(u32::MAX)) as u32
    }

    /// The bubble, or where it is not told the rate sample; packets tell neither.
    pub fn is_app_limited(&self) -> Option<bool> {
        let rated = (self.origin != Origin::Capture).then_some(self.rate_app_limited);
        self.app_limited.or(rated)
    }

    /// The congestion window, × MSS.
    pub fn cwnd_bytes(&self) -> Option<u64> {
        Some(u64::from(self.cwnd?) * u64::from(self.mss))
    }

    /// [`Sample::inflight_segments`], × MSS.
    pub fn inflight_bytes(&self) -> u64 {
        u64::from(self.inflight_segments()) * u64::from(self.mss)
    }
}

/// `sk_pacing_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacingStatus {
    None,
    /// The socket's own timer.
    Internal,
    /// The fq qdisc does it.
    Fq,
}

/// The kernel's limit clocks since birth, the running segment included (`tcp_get_info_chrono_stats`); they tick in
/// jiffies (TRAPS 35).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitClocks {
    /// All three together, as `ss` counts it.
    pub busy_us: u64,
    pub rwnd_limited_us: u64,
    pub sndbuf_limited_us: u64,
}

/// What the congestion control's private words say.
#[derive(Clone, Debug, PartialEq)]
pub enum CcState {
    Bbr(Bbr),
    Cubic(Cubic),
    Dctcp(Dctcp),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

impl Phase {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "STARTUP",
            Self::Drain => "DRAIN",
            Self::ProbeBw => "PROBE_BW",
            Self::ProbeRtt => "PROBE_RTT",
        }
    }
}

/// The part of PROBE_BW.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubPhase {
    Up,
    Down,
    Cruise,
    Refill,
}

impl SubPhase {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Up => "UP",
            Self::Down => "DOWN",
            Self::Cruise => "CRUISE",
            Self::Refill => "REFILL",
        }
    }
}

/// BBR's model. Rates are bytes per second as `bbr_get_info()` computes them, with the MSS of the moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bbr {
    pub phase: Option<Phase>,
    pub sub_phase: Option<SubPhase>,
    pub btlbw: Option<u64>,
    pub min_rtt_us: Option<u32>,
    /// In 256ths, as the kernel holds it.
    pub pacing_gain_256: Option<u32>,
    pub cwnd_gain_256: Option<u32>,
    pub full_bw_reached: Option<bool>,
    /// The long-term (policer) estimate, while it is in use (v1).
    pub lt_bw: Option<u64>,
    pub lt_use_bw: Option<bool>,
    pub bw_hi: Option<Limit<u64>>,
    pub bw_lo: Option<Limit<u64>>,
    /// Segments.
    pub inflight_hi: Option<Limit<u32>>,
    pub inflight_lo: Option<Limit<u32>>,
    pub extra_acked: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cubic {
    /// Segments.
    pub last_max_cwnd: Option<u32>,
    pub last_cwnd: Option<u32>,
    pub origin_point: Option<u32>,
    pub k: Option<u32>,
    pub delay_min_us: Option<u32>,
    /// HyStart ended slow start.
    pub hystart_found: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dctcp {
    /// In 1024ths.
    pub alpha_1024: Option<u32>,
    pub ce_state: Option<u32>,
    pub loss_cwnd: Option<u32>,
}

/// One event of retransmission. Summed per flow, `segments` is the rise of `total_retrans` and `bytes` that of
/// `bytes_retrans` (TRAPS 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retransmit {
    /// `None` where no hook fired: the rise was found by a later reading.
    pub seq: Option<u32>,
    pub end_seq: Option<u32>,
    pub bytes: u64,
    pub segments: u32,
    pub kind: RetransmitKind,
    pub ca_state: CaState,
    /// Counted by the kernel, not on the wire (dropped by the local qdisc).
    pub failed: bool,
    pub rtt_us: Option<u32>,
    pub min_rtt_us: Option<u32>,
    pub cwnd: Option<u32>,
}

/// Kinds in the order of SPEC §4.
pub const KINDS: [RetransmitKind; 7] = [
    RetransmitKind::Fast,
    RetransmitKind::Rto,
    RetransmitKind::SlowStart,
    RetransmitKind::Tlp,
    RetransmitKind::Syn,
    RetransmitKind::Synack,
    RetransmitKind::Other,
];

/// The word of SPEC §4.
pub fn retransmit_kind(kind: RetransmitKind) -> &'static str {
    match kind {
        RetransmitKind::Fast => "fast",
        RetransmitKind::Rto => "rto",
        RetransmitKind::SlowStart => "slow_start",
        RetransmitKind::Tlp => "tlp",
        RetransmitKind::Syn => "syn",
        RetransmitKind::Synack => "synack",
        RetransmitKind::Other => "other",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateChange {
    pub old: TcpState,
    pub new: TcpState,
    /// The tuple as it is known now.
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaStateChange {
    pub old: CaState,
    pub new: CaState,
    pub cwnd: u32,
    pub ssthresh: Limit<u32>,
    pub lost_out: u32,
}

/// A process that holds a socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    pub pid: u32,
    /// As the kernel has it: escape before showing (TRAPS 30).
    pub comm: String,
}
