//! The words of limits for people: what each means, and what a field engineer would do. Those of verdicts are in
//! [`crate::detect::guide`].

use super::limit::LimitedBy;

impl LimitedBy {
    /// What it means, in a line.
    pub fn about(self) -> &'static str {
        match self {
            Self::Idle => "nothing is sent and nothing waits to be",
            Self::App => "the application gives too little data",
            Self::Rwnd => "the peer's receive window is full",
            Self::Sndbuf => "the send buffer is full while the windows are open",
            Self::Pacing => "the pacing rate holds data back",
            Self::Cwnd => "the congestion window is full and grows",
            Self::Loss => "losses keep the window small",
            Self::Path => "the path carries no more: a queue stands, or BBR's bandwidth is reached",
            Self::Unknown => "not enough is known",
        }
    }

    /// What one would look at next.
    pub fn next(self) -> Option<&'static str> {
        match self {
            Self::App => Some("profile the sender: disk, upstream, CPU, writes too small"),
            Self::Rwnd => Some(
                "the receiver reads slowly or its buffer is too small: there 'sysctl net.ipv4.tcp_rmem', twice the BDP",
            ),
            Self::Sndbuf => Some(
                "'sysctl net.ipv4.tcp_wmem' below twice the BDP, or SO_SNDBUF set by the application",
            ),
            Self::Pacing => Some("SO_MAX_PACING_RATE, or fq's maxrate: 'tc qdisc show'"),
            Self::Cwnd => {
                Some("wait until it has grown; if it never does: losses, or a clamp on the route")
            }
            Self::Loss => Some("the verdict says what causes them, once there are enough"),
            Self::Path => Some("more only by a better path; a long queue is told as queue_deep"),
            Self::Idle | Self::Unknown => None,
        }
    }
}
