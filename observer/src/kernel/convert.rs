//! Kernel figures → domain figures: units, «unlimited», «unknown». Pure.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use observer_common::flow::FlowKey;
use observer_common::layout::{Field, Layout};
use observer_common::wire::{self, Header, RecordKind};

use crate::event::{
    Attributes, CaState, Cause, DeviceId, LimitClocks, Origin, PacingStatus, Process,
    RetransmitKind, Sample, TcpState, Wscale,
};
use crate::units::Limit;

/// A NUL-terminated kernel string.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// A process by its id and its (cut) name.
pub fn process(pid: u32, comm: &[u8; 16]) -> Process {
    Process {
        pid,
        comm: text(comm),
    }
}

fn endpoint(address: &[u8; 16], port: u16) -> SocketAddr {
    // v4-mapped is IPv4, whatever the socket's family (TRAPS 16).
    SocketAddr::new(IpAddr::V6(Ipv6Addr::from(*address)).to_canonical(), port)
}

/// Local and remote end.
pub fn endpoints(key: &FlowKey) -> (SocketAddr, SocketAddr) {
    let (mut local, remote) = (
        endpoint(&key.local, key.local_port),
        endpoint(&key.remote, key.remote_port),
    );
    if remote.is_ipv4() && local.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        // An IPv6 socket that connects to a mapped address has no source address yet.
        local.set_ip(IpAddr::from([0, 0, 0, 0]));
    }
    (local, remote)
}

/// An RTT of 0 µs means that there was no sample.
pub fn rtt(us: u32) -> Option<u32> {
    (us != 0).then_some(us)
}

/// `tcp_min_rtt()` starts at all ones.
pub fn min_rtt(us: u32) -> Option<u32> {
    (us != u32::MAX).then_some(us)
}

pub fn kind(kind: u8) -> RetransmitKind {
    match kind {
        0 => RetransmitKind::Fast,
        1 => RetransmitKind::Rto,
        2 => RetransmitKind::SlowStart,
        3 => RetransmitKind::Tlp,
        4 => RetransmitKind::Syn,
        5 => RetransmitKind::Synack,
        _ => RetransmitKind::Other,
    }
}

/// `tcp_compute_delivery_rate()` (`net/ipv4/tcp.c`): bytes per second.
fn delivery_rate(body: &wire::Body) -> Option<u64> {
    if body.rate_delivered == 0 || body.rate_interval_us == 0 {
        return None;
    }
    let bytes = u64::from(body.rate_delivered) * u64::from(body.mss_cache);
    Some(bytes.saturating_mul(1_000_000) / u64::from(body.rate_interval_us))
}

/// `tcp_get_info_chrono_stats()` (`net/ipv4/tcp.c`): the running segment included, in that function's own arithmetic.
fn clocks(hz: u32, header: &Header, body: &wire::Body) -> LimitClocks {
    let jiffy_us = u64::from(1_000_000 / hz);
    let part = |index: usize| {
        let mut jiffies = body.chrono_stat[index];
        if usize::from(body.chrono_type) == index + 1 {
            jiffies = jiffies.wrapping_add(header.jiffies.wrapping_sub(body.chrono_start));
        }
        u64::from(jiffies) * jiffy_us
    };
    let (busy, rwnd, sndbuf) = (part(0), part(1), part(2));
    LimitClocks {
        busy_us: busy + rwnd + sndbuf,
        rwnd_limited_us: rwnd,
        sndbuf_limited_us: sndbuf,
    }
}

fn pacing_status(status: u32) -> Option<PacingStatus> {
    match status {
        0 => Some(PacingStatus::None),
        1 => Some(PacingStatus::Internal),
        2 => Some(PacingStatus::Fq),
        _ => None,
    }
}

/// A sample without the congestion control's private state.
pub fn sample(layout: &Layout, hz: u32, header: &Header, body: &wire::Body) -> Sample {
    let has = |field: Field| layout.has(field);
    let word = |field: Field, value: u32| has(field).then_some(value);
    let cause = if header.kind == RecordKind::Close as u8 {
        Cause::Close
    } else if header.program == observer_common::outcome::Program::Sweep as u8 {
        Cause::Sweep
    } else {
        Cause::Ack
    };
    let chronos = has(Field::ChronoStat) && has(Field::ChronoStart) && has(Field::ChronoType);
    Sample {
        origin: Origin::Ebpf,
        cause,
        state: TcpState::from_kernel(header.state),
        ca_state: CaState::from_kernel(header.ca_state),
        cwnd: Some(body.cwnd),
        ssthresh: Some(Limit::from_ssthresh(body.ssthresh)),
        packets_out: body.packets_out,
        sacked_out: body.sacked_out,
        lost_out: body.lost_out,
        retrans_out: body.retrans_out,
        snd_una: Some(body.snd_una),
        snd_nxt: Some(body.snd_nxt),
        write_seq: Some(body.write_seq),
        rcv_nxt: word(Field::RcvNxt, body.rcv_nxt),
        notsent_bytes: Some(
            body.write_seq
                .wrapping_sub(body.snd_nxt)
                .cast_signed()
                .max(0)
                .cast_unsigned(),
        ),
        snd_wnd_bytes: Some(body.snd_wnd),
        max_window_bytes: word(Field::MaxWindow, body.max_window),
        rcv_wnd_bytes: word(Field::RcvWnd, body.rcv_wnd),
        rtt_us: word(Field::RackRtt, body.rack_rtt_us).and_then(rtt),
        srtt_us: rtt(body.srtt_us8 >> 3),
        rttvar_us: (body.srtt_us8 != 0).then_some(body.mdev_us4 >> 2),
        min_rtt_us: min_rtt(body.min_rtt_us),
        rcv_rtt_us: word(Field::RcvRtt, body.rcv_rtt_us8 >> 3).and_then(rtt),
        rto_us: Some(u64::from(body.rto) * 1_000_000 / u64::from(hz)),
        delivery_rate: delivery_rate(body),
        rate_app_limited: body.rate_app_limited != 0,
        app_limited: Some(body.app_limited != 0),
        pacing_rate: Some(Limit::from_kernel_rate(body.pacing_rate)),
        pacing_status: word(Field::PacingStatus, body.pacing_status).and_then(pacing_status),
        mss: body.mss_cache,
        delivered: Some(body.delivered),
        delivered_ce: word(Field::DeliveredCe, body.delivered_ce),
        lost_total: Some(body.lost),
        bytes_sent: Some(body.bytes_sent),
        bytes_acked: Some(body.bytes_acked),
        bytes_retrans: Some(body.bytes_retrans),
        bytes_received: Some(body.bytes_received),
        segs_out: Some(body.segs_out),
        segs_in: Some(body.segs_in),
        data_segs_out: Some(body.data_segs_out),
        data_segs_in: word(Field::DataSegsIn, body.data_segs_in),
        retrans: body.total_retrans,
        dsack_dups: word(Field::DsackDups, body.dsack_dups),
        reord_seen: word(Field::ReordSeen, body.reord_seen),
        rcv_ooopack: word(Field::RcvOoopack, body.rcv_ooopack),
        reordering: word(Field::Reordering, body.reordering),
        clocks: chronos.then(|| clocks(hz, header, body)),
        sndbuf_bytes: word(Field::SndBuf, body.sndbuf),
        rcvbuf_bytes: word(Field::RcvBuf, body.rcvbuf),
        wmem_queued_bytes: word(Field::WmemQueued, body.wmem_queued),
        cwnd_limited: has(Field::CwndLimited).then_some(body.is_cwnd_limited != 0),
        backoff: has(Field::Backoff).then_some(body.backoff),
        cc: None,
    }
}

/// Attributes without the algorithm's version and the cgroup's path.
pub fn attributes(layout: &Layout, wire: &wire::Attributes) -> Attributes {
    let has = |field: Field| layout.has(field);
    let (local, remote) = endpoints(&wire.key);
    let module = text(&wire.ca_module);
    let scaling = has(Field::WscaleOk) && has(Field::SndWscale) && has(Field::RcvWscale);
    Attributes {
        local,
        remote,
        cc_name: text(&wire.ca_name),
        cc_version: None,
        cc_module: (!module.is_empty()).then_some(module),
        max_pacing_rate: has(Field::MaxPacingRate)
            .then(|| Limit::from_kernel_rate(wire.max_pacing_rate)),
        cgroup_id: (wire.cgroup != 0).then_some(wire.cgroup),
        cgroup: None,
        device: (wire.ifindex != 0).then_some(DeviceId {
            netns: wire.dev_netns,
            ifindex: wire.ifindex,
        }),
        cwnd_clamp: has(Field::CwndClamp).then_some(match wire.cwnd_clamp {
            u32::MAX => Limit::Unlimited,
            segments => Limit::Finite(segments),
        }),
        notsent_lowat: (wire.notsent_lowat != 0).then_some(wire.notsent_lowat),
        pmtu: (wire.pmtu != 0).then_some(wire.pmtu),
        mss_clamp: (wire.mss_clamp != 0).then_some(wire.mss_clamp),
        user_mss: (wire.user_mss != 0).then_some(wire.user_mss),
        advmss: (wire.advmss != 0).then_some(wire.advmss),
        rcv_mss: (wire.rcv_mss != 0).then_some(wire.rcv_mss),
        user_locks: has(Field::UserLocks).then_some(wire.user_locks),
        wscale: scaling.then(|| {
            (wire.wscale_ok != 0).then_some(Wscale {
                snd: wire.snd_wscale,
                rcv: wire.rcv_wscale,
            })
        }),
        sack: has(Field::SackOk).then_some(wire.sack_ok != 0),
        timestamps: has(Field::TstampOk).then_some(wire.tstamp_ok != 0),
        ecn: has(Field::EcnFlags).then_some(wire.ecn_flags & 1 != 0),
    }
}
