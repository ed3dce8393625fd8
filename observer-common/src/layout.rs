//! The field table: every kernel field the programs read, one row each.
//!
//! User space resolves each row against the running kernel's BTF and writes the offsets into the programs' load
//! instructions before the kernel sees them ([`Standin`]): a field costs one instruction, as in C with `vmlinux.h`. To
//! add a field: a row here, a member in `wire.rs`, a read in `observer-ebpf`, a test against `ss` (see
//! `observer/docs/KERNELS.md`).
#![expect(
    clippy::inline_always,
    reason = "in the programs a stand-in has to be a constant"
)]

/// What a load of this row reads. The resolver refuses a kernel whose member is not of this shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    U8,
    U16,
    U32,
    U64,
    /// A kernel pointer, followed or compared, never shown.
    Pointer,
    /// A bit field inside one byte, or an integer whose low byte is all that is wanted (`u8` here, `u16` there).
    Bits,
    /// An array or structure of which only the place is wanted; at least this many bytes.
    Bytes(u16),
}

/// Whether the programs can do without the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Without it nothing loads: the error names it.
    Required,
    /// Without it the value is unknown (absent in JSON, `—` on screen), and `doctor` says so.
    Optional,
}

/// One row of the field table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub field: Field,
    /// The structure where `path` starts.
    pub root: &'static str,
    /// Members from the root, `.`-separated, array elements as `[N]`; anonymous structures and unions are looked
    /// through. Alternatives for other kernels after `|`, first match wins.
    pub path: &'static str,
    pub kind: Kind,
    pub need: Need,
}

macro_rules! fields {
    ($($(#[doc = $doc:literal])* $field:ident = $root:literal $path:literal $kind:expr, $need:ident;)*) => {
        /// A row of the field table, usable as an index into [`Layout`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Field { $($(#[doc = $doc])* $field),* }

        /// The field table, in the order of [`Field`].
        pub const FIELDS: &[Row] = &[$(Row {
            field: Field::$field,
            root: $root,
            path: $path,
            kind: $kind,
            need: Need::$need,
        }),*];
    };
}

use Kind::{Bits, Bytes, Pointer, U8, U16, U32, U64};

fields! {
    // Identity. `sock_common` lies at offset 0 of `sock`, `inet_sock`, `inet_connection_sock` and `tcp_sock`.
    Family = "sock_common" "skc_family" U16, Required;
    State = "sock_common" "skc_state" U8, Required;
    Hash = "sock_common" "skc_hash" U32, Required;
    /// Network order.
    RemotePort = "sock_common" "skc_dport" U16, Required;
    /// Host order; 0 once the port was given back.
    LocalPort = "sock_common" "skc_num" U16, Required;
    /// Network order; outlives `skc_num` at close.
    SourcePort = "inet_sock" "inet_sport" U16, Required;
    RemoteV4 = "sock_common" "skc_daddr" U32, Required;
    LocalV4 = "sock_common" "skc_rcv_saddr" U32, Required;
    RemoteV6 = "sock_common" "skc_v6_daddr" Bytes(16), Optional;
    LocalV6 = "sock_common" "skc_v6_rcv_saddr" Bytes(16), Optional;
    BoundDev = "sock_common" "skc_bound_dev_if" U32, Optional;
    Net = "sock_common" "skc_net.net" Pointer, Required;
    NetInum = "net" "ns.inum" U32, Required;
    // Path.
    DstCache = "sock" "sk_dst_cache" Pointer, Optional;
    DstDev = "dst_entry" "dev" Pointer, Optional;
    DevIfindex = "net_device" "ifindex" U32, Optional;
    DevNet = "net_device" "nd_net.net" Pointer, Optional;
    // Owner.
    Cgroup = "sock" "sk_cgrp_data.cgroup" Pointer, Optional;
    CgroupNode = "cgroup" "kn" Pointer, Optional;
    NodeId = "kernfs_node" "id" U64, Optional;
    // Buffers and pacing.
    SndBuf = "sock" "sk_sndbuf" U32, Optional;
    RcvBuf = "sock" "sk_rcvbuf" U32, Optional;
    WmemQueued = "sock" "sk_wmem_queued" U32, Optional;
    UserLocks = "sock" "sk_userlocks" Bits, Optional;
    PacingRate = "sock" "sk_pacing_rate" U64, Required;
    MaxPacingRate = "sock" "sk_max_pacing_rate" U64, Optional;
    PacingStatus = "sock" "sk_pacing_status" U32, Optional;
    // Congestion control.
    CaOps = "inet_connection_sock" "icsk_ca_ops" Pointer, Required;
    CaState = "inet_connection_sock" "icsk_ca_state" Bits, Required;
    /// The algorithm's private words, sent raw; their count is `ProbeConfig::ca_words`.
    CaPriv = "inet_connection_sock" "icsk_ca_priv" Bytes(64), Optional;
    CaName = "tcp_congestion_ops" "name" Bytes(16), Required;
    CaOwner = "tcp_congestion_ops" "owner" Pointer, Optional;
    ModuleName = "module" "name" Bytes(32), Optional;
    // Timers.
    Pending = "inet_connection_sock" "icsk_pending" Bits, Required;
    Retransmits = "inet_connection_sock" "icsk_retransmits" Bits, Optional;
    Backoff = "inet_connection_sock" "icsk_backoff" Bits, Optional;
    ProbesOut = "inet_connection_sock" "icsk_probes_out" Bits, Optional;
    /// Jiffies.
    Rto = "inet_connection_sock" "icsk_rto" U32, Required;
    Pmtu = "inet_connection_sock" "icsk_pmtu_cookie" U32, Optional;
    RcvMss = "inet_connection_sock" "icsk_ack.rcv_mss" U16, Optional;
    // Windows and flight.
    Cwnd = "tcp_sock" "snd_cwnd" U32, Required;
    Ssthresh = "tcp_sock" "snd_ssthresh" U32, Required;
    CwndClamp = "tcp_sock" "snd_cwnd_clamp" U32, Optional;
    CwndLimited = "tcp_sock" "is_cwnd_limited" Bits, Optional;
    PacketsOut = "tcp_sock" "packets_out" U32, Required;
    SackedOut = "tcp_sock" "sacked_out" U32, Required;
    LostOut = "tcp_sock" "lost_out" U32, Required;
    RetransOut = "tcp_sock" "retrans_out" U32, Required;
    SndWnd = "tcp_sock" "snd_wnd" U32, Required;
    MaxWindow = "tcp_sock" "max_window" U32, Optional;
    RcvWnd = "tcp_sock" "rcv_wnd" U32, Optional;
    Reordering = "tcp_sock" "reordering" U32, Optional;
    // Sequence space.
    SndUna = "tcp_sock" "snd_una" U32, Required;
    SndNxt = "tcp_sock" "snd_nxt" U32, Required;
    WriteSeq = "tcp_sock" "write_seq" U32, Required;
    RcvNxt = "tcp_sock" "rcv_nxt" U32, Optional;
    CopiedSeq = "tcp_sock" "copied_seq" U32, Optional;
    // Round trips, microseconds; srtt is stored times 8, the deviation times 4.
    Srtt = "tcp_sock" "srtt_us" U32, Required;
    Mdev = "tcp_sock" "mdev_us" U32, Required;
    /// The windowed minimum: `tcp_min_rtt()` reads `rtt_min.s[0].v`.
    MinRtt = "tcp_sock" "rtt_min.s[0].v" U32, Required;
    /// The latest unsmoothed RTT.
    RackRtt = "tcp_sock" "rack.rtt_us" U32, Optional;
    RcvRtt = "tcp_sock" "rcv_rtt_est.rtt_us" U32, Optional;
    /// The kernel's cached clock of this socket; decides suppression, never dates a record.
    Mstamp = "tcp_sock" "tcp_mstamp" U64, Required;
    // Rate sample.
    RateDelivered = "tcp_sock" "rate_delivered" U32, Required;
    RateInterval = "tcp_sock" "rate_interval_us" U32, Required;
    RateAppLimited = "tcp_sock" "rate_app_limited" Bits, Required;
    AppLimited = "tcp_sock" "app_limited" U32, Required;
    Delivered = "tcp_sock" "delivered" U32, Required;
    DeliveredCe = "tcp_sock" "delivered_ce" U32, Optional;
    // Totals.
    BytesSent = "tcp_sock" "bytes_sent" U64, Required;
    BytesAcked = "tcp_sock" "bytes_acked" U64, Required;
    BytesRetrans = "tcp_sock" "bytes_retrans" U64, Required;
    BytesReceived = "tcp_sock" "bytes_received" U64, Required;
    SegsOut = "tcp_sock" "segs_out" U32, Required;
    SegsIn = "tcp_sock" "segs_in" U32, Required;
    DataSegsOut = "tcp_sock" "data_segs_out" U32, Required;
    DataSegsIn = "tcp_sock" "data_segs_in" U32, Optional;
    TotalRetrans = "tcp_sock" "total_retrans" U32, Required;
    Lost = "tcp_sock" "lost" U32, Required;
    DsackDups = "tcp_sock" "dsack_dups" U32, Optional;
    ReordSeen = "tcp_sock" "reord_seen" U32, Optional;
    RcvOoopack = "tcp_sock" "rcv_ooopack" U32, Optional;
    // Limit clocks, jiffies.
    ChronoType = "tcp_sock" "chrono_type" Bits, Optional;
    ChronoStart = "tcp_sock" "chrono_start" U32, Optional;
    ChronoStat = "tcp_sock" "chrono_stat" Bytes(12), Optional;
    // Negotiated.
    MssCache = "tcp_sock" "mss_cache" U32, Required;
    Advmss = "tcp_sock" "advmss" U16, Optional;
    MssClamp = "tcp_sock" "rx_opt.mss_clamp" U16, Optional;
    UserMss = "tcp_sock" "rx_opt.user_mss" U16, Optional;
    WscaleOk = "tcp_sock" "rx_opt.wscale_ok" Bits, Optional;
    SndWscale = "tcp_sock" "rx_opt.snd_wscale" Bits, Optional;
    RcvWscale = "tcp_sock" "rx_opt.rcv_wscale" Bits, Optional;
    SackOk = "tcp_sock" "rx_opt.sack_ok" Bits, Optional;
    TstampOk = "tcp_sock" "rx_opt.tstamp_ok" Bits, Optional;
    EcnFlags = "tcp_sock" "ecn_flags" Bits, Optional;
    NotsentLowat = "tcp_sock" "notsent_lowat" U32, Optional;
    // The retransmitted segment.
    SkbLen = "sk_buff" "len" U32, Required;
    SkbCb = "sk_buff" "cb" Bytes(48), Required;
    CbSeq = "tcp_skb_cb" "seq" U32, Required;
    CbEndSeq = "tcp_skb_cb" "end_seq" U32, Required;
    CbGsoSegs = "tcp_skb_cb" "tcp_gso_segs" U16, Required;
    CbFlags = "tcp_skb_cb" "tcp_flags" Bits, Required;
    // The request of a connection not yet accepted.
    ReqNumRetrans = "request_sock" "num_retrans" Bits, Optional;
    ReqNumTimeout = "request_sock" "num_timeout" Bits, Optional;
    // The owner.
    /// 0 until somebody asked for it.
    Cookie = "sock_common" "skc_cookie" U64, Optional;
    SocketSk = "socket" "sk" Pointer, Optional;
    /// The whole number: `IPPROTO_MPTCP` ends in the bits of `IPPROTO_TCP`.
    Protocol = "sock" "sk_protocol" U16, Optional;
    TaskTgid = "task_struct" "tgid" U32, Optional;
    TaskComm = "task_struct" "comm" Bytes(16), Optional;
}

/// Rows in the field table.
pub const FIELD_COUNT: usize = FIELDS.len();

/// The offset that says «this kernel has no such field».
pub const ABSENT: u16 = u16::MAX;

/// The resolved field table, handed to the programs as the read-only global `LAYOUT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Layout {
    /// Bytes from the start of the row's root, [`ABSENT`] where there is no such field.
    pub offset: [u16; FIELD_COUNT],
    /// For [`Kind::Bits`]: how far to shift the byte right …
    pub shift: [u8; FIELD_COUNT],
    /// … and what to keep of it.
    pub mask: [u8; FIELD_COUNT],
}

impl Layout {
    /// A kernel without any field.
    pub const EMPTY: Self = Self {
        offset: [ABSENT; FIELD_COUNT],
        shift: [0; FIELD_COUNT],
        mask: [0xff; FIELD_COUNT],
    };

    /// Whether this kernel has the field.
    pub const fn has(&self, field: Field) -> bool {
        self.offset[field as usize] != ABSENT
    }
}

/// What stands in the place of an offset in the object's loads until user space writes the kernel's own. No structure
/// of ours is so large that a load of its own could look like one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standin {
    /// A load of the field at this index, plus so many times four bytes.
    Load(usize, u16),
    /// A load of the field inside [`Field::SkbCb`].
    InCb(usize),
    /// Not a load: how far the field's byte is to be shifted.
    Shift(usize),
    /// Not a load: which bits of it count then.
    Mask(usize),
}

impl Standin {
    const LOAD: u16 = 0x4000;
    const IN_CB: u16 = 0x6000;
    const SHIFT: u16 = 0x6100;
    const MASK: u16 = 0x6200;
    const END: u16 = 0x6300;
    /// Places inside one field that a load can name.
    pub const INDEXES: u16 = 64;

    #[inline(always)]
    pub const fn load(field: Field, index: usize) -> usize {
        Self::LOAD as usize + field as usize * Self::INDEXES as usize + index
    }

    #[inline(always)]
    pub const fn in_cb(field: Field) -> usize {
        Self::IN_CB as usize + field as usize
    }

    #[inline(always)]
    pub const fn shift(field: Field) -> usize {
        Self::SHIFT as usize + field as usize
    }

    #[inline(always)]
    pub const fn mask(field: Field) -> usize {
        Self::MASK as usize + field as usize
    }

    /// What an instruction's offset stands for; `None` = it means itself.
    pub fn of(offset: u16) -> Option<Self> {
        let field = |base: u16| {
            let field = usize::from(offset - base);
            (field < FIELD_COUNT).then_some(field)
        };
        match offset {
            Self::LOAD..Self::IN_CB => {
                let at = offset - Self::LOAD;
                let field = usize::from(at / Self::INDEXES);
                (field < FIELD_COUNT).then_some(Self::Load(field, at % Self::INDEXES))
            }
            Self::IN_CB..Self::SHIFT => field(Self::IN_CB).map(Self::InCb),
            Self::SHIFT..Self::MASK => field(Self::SHIFT).map(Self::Shift),
            Self::MASK..Self::END => field(Self::MASK).map(Self::Mask),
            _ => None,
        }
    }
}

const _: () = {
    assert!(FIELD_COUNT <= 128);
    assert!(
        Standin::LOAD as usize + FIELD_COUNT * (Standin::INDEXES as usize)
            <= Standin::IN_CB as usize
    );
};
