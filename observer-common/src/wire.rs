//! The records that cross from the programs to user space. They may change every commit and never reach a disk.
//!
//! Every run of a program leaves at most one record, so the counters of `outcome.rs` count records. Integers are in
//! the machine's order; units are the kernel's (jiffies, srtt times 8): user space converts.

use crate::flow::FlowKey;

/// Most words of `icsk_ca_priv` carried: BBRv3's kernels have 18.
pub const CA_WORDS: usize = 18;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// [`Sample`].
    Sample = 1,
    /// [`Full`]: a sample with attributes, when these are new or have changed.
    Full = 2,
    /// [`Full`]: the last record of a flow.
    Close = 3,
    /// [`Retransmit`].
    Retransmit = 4,
    /// [`State`].
    State = 5,
    /// [`SynAck`].
    SynAck = 6,
    /// [`CongState`].
    CongState = 7,
    /// [`Owner`]: of the task-file iterator; not numbered.
    Owner = 8,
    /// [`Brief`]: a sample between two whole ones.
    Brief = 9,
    /// [`Full`]: a sample at the change to CLOSE, which is before `tcp_disconnect` clears the counters; the state it
    /// leaves is the header's.
    Ended = 10,
}

/// The first 40 bytes of every record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// `SO_COOKIE`.
    pub cookie: u64,
    /// Runs over all records of `cookie` (of the listener for [`SynAck`]), from 0, without holes unless one was lost.
    pub number: u64,
    /// Inode number of the socket's network namespace.
    pub netns: u32,
    /// [`RecordKind`].
    pub kind: u8,
    /// [`crate::outcome::Program`].
    pub program: u8,
    /// `sk_state`.
    pub state: u8,
    /// `icsk_ca_state`.
    pub ca_state: u8,
    /// Bits of [`flags`].
    pub flags: u32,
    /// `tcp_jiffies32` when this was read, for the limit clocks (TRAPS 35).
    pub jiffies: u32,
}

/// Bits of [`Header::flags`].
pub mod flags {
    /// The flow's storage was made by this run: nothing of it was seen before.
    pub const FIRST: u32 = 1;
    /// `tcp_retransmit_skb` has an `err` argument here and [`super::Retransmit::err`] holds it.
    pub const HAS_ERR: u32 = 2;
}

/// The moving part of a socket. At `tcp_probe` it is the state *before* this ACK was processed, that is, after the
/// previous one (TRAPS 33).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Body {
    pub bytes_sent: u64,
    pub bytes_acked: u64,
    pub bytes_retrans: u64,
    pub bytes_received: u64,
    /// Bytes per second, all ones = unlimited.
    pub pacing_rate: u64,
    /// `icsk_ca_ops`, to find whose the private words are. Never shown.
    pub ca_ops: u64,
    pub cwnd: u32,
    pub ssthresh: u32,
    pub packets_out: u32,
    pub sacked_out: u32,
    pub lost_out: u32,
    pub retrans_out: u32,
    pub snd_una: u32,
    pub snd_nxt: u32,
    pub write_seq: u32,
    pub rcv_nxt: u32,
    pub snd_wnd: u32,
    pub max_window: u32,
    pub rcv_wnd: u32,
    /// Microseconds times 8.
    pub srtt_us8: u32,
    /// Microseconds times 4.
    pub mdev_us4: u32,
    /// All ones = no sample yet.
    pub min_rtt_us: u32,
    /// 0 = no sample yet.
    pub rack_rtt_us: u32,
    pub rcv_rtt_us8: u32,
    /// Jiffies.
    pub rto: u32,
    pub rate_delivered: u32,
    pub rate_interval_us: u32,
    pub app_limited: u32,
    pub delivered: u32,
    pub delivered_ce: u32,
    pub lost: u32,
    pub segs_out: u32,
    pub segs_in: u32,
    pub data_segs_out: u32,
    pub data_segs_in: u32,
    pub total_retrans: u32,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub reordering: u32,
    /// Jiffies: busy, rwnd-limited, sndbuf-limited; the running segment is not in them (TRAPS 35).
    pub chrono_stat: [u32; 3],
    pub chrono_start: u32,
    pub mss_cache: u32,
    pub sndbuf: u32,
    pub rcvbuf: u32,
    pub wmem_queued: u32,
    pub pacing_status: u32,
    pub chrono_type: u8,
    pub rate_app_limited: u8,
    pub is_cwnd_limited: u8,
    pub pending: u8,
    pub retransmits: u8,
    pub backoff: u8,
    pub probes_out: u8,
    pub reserved: [u8; 5],
    /// `icsk_ca_priv`, zero beyond `ProbeConfig::ca_words`.
    pub ca_priv: [u64; CA_WORDS],
}

/// What of a [`Body`] moves from ACK to ACK: for flows that are sampled at every one. The rest of the body is as in the
/// flow's last whole sample, which is at most `Control::whole_us` older; so are the algorithm's own words. Every cache
/// line of a record costs about 20 ns, because the reader's core has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Brief {
    pub header: Header,
    pub bytes_sent: u64,
    pub bytes_acked: u64,
    pub bytes_retrans: u64,
    pub bytes_received: u64,
    pub pacing_rate: u64,
    pub cwnd: u32,
    pub ssthresh: u32,
    pub packets_out: u32,
    pub sacked_out: u32,
    pub lost_out: u32,
    pub retrans_out: u32,
    pub snd_una: u32,
    pub snd_nxt: u32,
    pub write_seq: u32,
    pub snd_wnd: u32,
    pub wmem_queued: u32,
    pub rto: u32,
    pub segs_in: u32,
    pub segs_out: u32,
    pub data_segs_in: u32,
    /// As [`Body::chrono_stat`].
    pub chrono_stat: [u32; 3],
    pub chrono_start: u32,
    pub srtt_us8: u32,
    pub mdev_us4: u32,
    pub min_rtt_us: u32,
    pub rack_rtt_us: u32,
    pub rate_delivered: u32,
    pub rate_interval_us: u32,
    pub app_limited: u32,
    pub delivered: u32,
    pub lost: u32,
    pub data_segs_out: u32,
    pub total_retrans: u32,
    pub reserved2: u32,
    pub rate_app_limited: u8,
    pub is_cwnd_limited: u8,
    pub chrono_type: u8,
    pub reserved: u8,
}

impl Brief {
    /// Brings `body`, the flow's last whole one, up to this moment.
    pub fn onto(&self, body: &mut Body) {
        macro_rules! take {
            ($($field:ident)*) => { $(body.$field = self.$field;)* };
        }
        take!(bytes_sent bytes_acked bytes_retrans bytes_received pacing_rate wmem_queued rto);
        take!(segs_in segs_out data_segs_in chrono_stat chrono_start chrono_type);
        take!(cwnd ssthresh packets_out sacked_out lost_out retrans_out snd_una snd_nxt write_seq snd_wnd);
        take!(srtt_us8 mdev_us4 min_rtt_us rack_rtt_us rate_delivered rate_interval_us app_limited);
        take!(delivered lost data_segs_out total_retrans rate_app_limited is_cwnd_limited);
    }
}

/// What changes rarely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Attributes {
    pub key: FlowKey,
    pub ca_ops: u64,
    /// `tcp_congestion_ops.name`.
    pub ca_name: [u8; 16],
    /// `tcp_congestion_ops.owner->name`, cut; empty = built into the kernel.
    pub ca_module: [u8; 32],
    /// Bytes per second, all ones = unlimited.
    pub max_pacing_rate: u64,
    /// Inode number of the cgroup v2 directory.
    pub cgroup: u64,
    /// Egress device of the cached route; 0 = no route cached.
    pub ifindex: u32,
    /// Namespace of that device.
    pub dev_netns: u32,
    pub cwnd_clamp: u32,
    pub notsent_lowat: u32,
    pub pmtu: u32,
    pub mss_clamp: u16,
    pub user_mss: u16,
    pub advmss: u16,
    pub rcv_mss: u16,
    pub user_locks: u8,
    pub wscale_ok: u8,
    pub snd_wscale: u8,
    pub rcv_wscale: u8,
    pub sack_ok: u8,
    pub tstamp_ok: u8,
    pub ecn_flags: u8,
    pub reserved: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sample {
    pub header: Header,
    pub body: Body,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Full {
    pub header: Header,
    pub body: Body,
    pub attributes: Attributes,
}

/// One firing of `tcp_retransmit_skb`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Retransmit {
    pub header: Header,
    pub key: FlowKey,
    /// `bytes_retrans` of the socket, this one included.
    pub bytes_retrans: u64,
    /// Rise of `bytes_retrans` since the last record that looked (TRAPS 3).
    pub bytes: u64,
    /// `total_retrans` of the socket, this one included.
    pub total_retrans: u32,
    /// Rise of `total_retrans` since the last record that looked; 0 = an attempt the kernel did not count (TRAPS 42).
    pub segments: u32,
    pub seq: u32,
    pub end_seq: u32,
    /// `skb->len`, `tcp_gso_segs`: what this one buffer holds.
    pub skb_len: u32,
    pub gso_segs: u32,
    /// The hook's third argument where it has one: 0, 1 (dropped by the local qdisc), negative errno.
    pub err: i32,
    pub snd_una: u32,
    pub cwnd: u32,
    pub ssthresh: u32,
    pub srtt_us8: u32,
    pub min_rtt_us: u32,
    pub rack_rtt_us: u32,
    /// [`RetransmitKind`].
    pub kind: u8,
    pub pending: u8,
    pub tcp_flags: u8,
    pub retransmits: u8,
}

/// Why a segment was sent again, told at the hook (TRAPS 43, TECHNIQUES §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RetransmitKind {
    /// ca_state Recovery.
    Fast = 0,
    /// The retransmission timer's own segment.
    Rto = 1,
    /// Re-sent after a timeout.
    SlowStart = 2,
    /// Tail loss probe.
    Tlp = 3,
    Syn = 4,
    Synack = 5,
    Other = 6,
}

/// One firing of `inet_sock_set_state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct State {
    pub header: Header,
    pub key: FlowKey,
    pub old: u8,
    pub new: u8,
    pub reserved: [u8; 2],
    pub total_retrans: u32,
    pub bytes_retrans: u64,
    /// Who connects (CLOSE → SYN-SENT runs in the caller's context): the process's name; empty at every other change,
    /// where the current task is anybody (TRAPS 5).
    pub comm: [u8; 16],
    /// Process id in the observer's PID namespace; 0 = not known, or not seen from there.
    pub pid: u32,
    pub reserved2: u32,
}

/// One firing of `tcp_retransmit_synack`: one segment. `header.cookie` is the request's, which the accepted socket
/// inherits; the number is the listener's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SynAck {
    pub header: Header,
    pub key: FlowKey,
    pub listener: u64,
    pub num_retrans: u8,
    pub num_timeout: u8,
    pub reserved: [u8; 6],
}

/// A descriptor of a TCP socket, found by walking all tasks' files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Owner {
    pub header: Header,
    pub key: FlowKey,
    pub comm: [u8; 16],
    /// Process id in the observer's PID namespace; 0 = not seen from there.
    pub pid: u32,
    pub reserved: u32,
}

/// One firing of `tcp_cong_state_set`; `header.ca_state` is the old state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CongState {
    pub header: Header,
    pub new: u8,
    pub reserved: [u8; 3],
    pub cwnd: u32,
    pub ssthresh: u32,
    pub lost_out: u32,
}

// No implicit padding: user space reads these bytes as they are.
const _: () = {
    assert!(size_of::<Header>() == 40);
    assert!(size_of::<FlowKey>() == 40);
    assert!(size_of::<Body>() == 6 * 8 + 43 * 4 + 12 + CA_WORDS * 8);
    assert!(size_of::<Attributes>() == 40 + 8 + 16 + 32 + 16 + 20 + 8 + 8 + 4);
    assert!(size_of::<Brief>() == 40 + 5 * 8 + 30 * 4 + 4 + 4);
    assert!(size_of::<Brief>().is_multiple_of(8));
    assert!(size_of::<Sample>().is_multiple_of(8));
    assert!(size_of::<Full>().is_multiple_of(8));
    assert!(size_of::<Retransmit>() == 40 + 40 + 16 + 13 * 4 + 4);
    assert!(size_of::<State>() == 120);
    assert!(size_of::<Owner>() == 104);
    assert!(size_of::<SynAck>() == 96);
    assert!(size_of::<CongState>() == 56);
};
