//! Reads the moving part of a socket.

use observer_common::layout::Field;
use observer_common::wire::{Body, Brief};

use crate::congestion::fill_private;
use crate::pace::mix;
use crate::reader::Kernel;

/// Everything that moves. The time of reading and the jiffies are the header's.
#[inline(always)]
pub fn fill_body(out: &mut Body, tp: Kernel) {
    fill_windows(out, tp);
    fill_times(out, tp);
    fill_totals(out, tp);
    fill_limits(out, tp);
    fill_private(out, tp);
}

/// What moves from ACK to ACK.
#[inline(always)]
pub fn fill_brief(out: &mut Brief, tp: Kernel) {
    out.bytes_sent = tp.u64(Field::BytesSent);
    out.bytes_acked = tp.u64(Field::BytesAcked);
    out.bytes_retrans = tp.u64(Field::BytesRetrans);
    out.bytes_received = tp.u64(Field::BytesReceived);
    out.pacing_rate = tp.u64(Field::PacingRate);
    out.wmem_queued = tp.u32(Field::WmemQueued);
    out.rto = tp.u32(Field::Rto);
    out.segs_in = tp.u32(Field::SegsIn);
    out.segs_out = tp.u32(Field::SegsOut);
    out.data_segs_in = tp.u32(Field::DataSegsIn);
    out.chrono_type = tp.bits(Field::ChronoType);
    out.chrono_start = tp.u32(Field::ChronoStart);
    out.chrono_stat[0] = tp.u32_at(Field::ChronoStat, 0);
    out.chrono_stat[1] = tp.u32_at(Field::ChronoStat, 1);
    out.chrono_stat[2] = tp.u32_at(Field::ChronoStat, 2);
    out.cwnd = tp.u32(Field::Cwnd);
    out.ssthresh = tp.u32(Field::Ssthresh);
    out.packets_out = tp.u32(Field::PacketsOut);
    out.sacked_out = tp.u32(Field::SackedOut);
    out.lost_out = tp.u32(Field::LostOut);
    out.retrans_out = tp.u32(Field::RetransOut);
    out.snd_una = tp.u32(Field::SndUna);
    out.snd_nxt = tp.u32(Field::SndNxt);
    out.write_seq = tp.u32(Field::WriteSeq);
    out.snd_wnd = tp.u32(Field::SndWnd);
    out.srtt_us8 = tp.u32(Field::Srtt);
    out.mdev_us4 = tp.u32(Field::Mdev);
    out.min_rtt_us = tp.u32(Field::MinRtt);
    out.rack_rtt_us = tp.u32(Field::RackRtt);
    out.rate_delivered = tp.u32(Field::RateDelivered);
    out.rate_interval_us = tp.u32(Field::RateInterval);
    out.app_limited = tp.u32(Field::AppLimited);
    out.delivered = tp.u32(Field::Delivered);
    out.lost = tp.u32(Field::Lost);
    out.data_segs_out = tp.u32(Field::DataSegsOut);
    out.total_retrans = tp.u32(Field::TotalRetrans);
    out.rate_app_limited = tp.bits(Field::RateAppLimited);
    out.is_cwnd_limited = tp.bits(Field::CwndLimited);
    out.reserved = 0;
    out.reserved2 = 0;
}

#[inline(always)]
fn fill_windows(out: &mut Body, tp: Kernel) {
    out.cwnd = tp.u32(Field::Cwnd);
    out.ssthresh = tp.u32(Field::Ssthresh);
    out.packets_out = tp.u32(Field::PacketsOut);
    out.sacked_out = tp.u32(Field::SackedOut);
    out.lost_out = tp.u32(Field::LostOut);
    out.retrans_out = tp.u32(Field::RetransOut);
    out.snd_una = tp.u32(Field::SndUna);
    out.snd_nxt = tp.u32(Field::SndNxt);
    out.write_seq = tp.u32(Field::WriteSeq);
    out.rcv_nxt = tp.u32(Field::RcvNxt);
    out.snd_wnd = tp.u32(Field::SndWnd);
    out.max_window = tp.u32(Field::MaxWindow);
    out.rcv_wnd = tp.u32(Field::RcvWnd);
    out.reordering = tp.u32(Field::Reordering);
    out.mss_cache = tp.u32(Field::MssCache);
    out.is_cwnd_limited = tp.bits(Field::CwndLimited);
}

#[inline(always)]
fn fill_times(out: &mut Body, tp: Kernel) {
    out.srtt_us8 = tp.u32(Field::Srtt);
    out.mdev_us4 = tp.u32(Field::Mdev);
    out.min_rtt_us = tp.u32(Field::MinRtt);
    out.rack_rtt_us = tp.u32(Field::RackRtt);
    out.rcv_rtt_us8 = tp.u32(Field::RcvRtt);
    out.rto = tp.u32(Field::Rto);
    out.pending = tp.bits(Field::Pending);
    out.retransmits = tp.bits(Field::Retransmits);
    out.backoff = tp.bits(Field::Backoff);
    out.probes_out = tp.bits(Field::ProbesOut);
    out.rate_delivered = tp.u32(Field::RateDelivered);
    out.rate_interval_us = tp.u32(Field::RateInterval);
    out.rate_app_limited = tp.bits(Field::RateAppLimited);
    out.app_limited = tp.u32(Field::AppLimited);
    out.pacing_rate = tp.u64(Field::PacingRate);
    out.pacing_status = tp.u32(Field::PacingStatus);
}

#[inline(always)]
fn fill_totals(out: &mut Body, tp: Kernel) {
    out.bytes_sent = tp.u64(Field::BytesSent);
    out.bytes_acked = tp.u64(Field::BytesAcked);
    out.bytes_retrans = tp.u64(Field::BytesRetrans);
    out.bytes_received = tp.u64(Field::BytesReceived);
    out.delivered = tp.u32(Field::Delivered);
    out.delivered_ce = tp.u32(Field::DeliveredCe);
    out.lost = tp.u32(Field::Lost);
    out.segs_out = tp.u32(Field::SegsOut);
    out.segs_in = tp.u32(Field::SegsIn);
    out.data_segs_out = tp.u32(Field::DataSegsOut);
    out.data_segs_in = tp.u32(Field::DataSegsIn);
    out.total_retrans = tp.u32(Field::TotalRetrans);
    out.dsack_dups = tp.u32(Field::DsackDups);
    out.reord_seen = tp.u32(Field::ReordSeen);
    out.rcv_ooopack = tp.u32(Field::RcvOoopack);
}

#[inline(always)]
fn fill_limits(out: &mut Body, tp: Kernel) {
    out.chrono_type = tp.bits(Field::ChronoType);
    out.chrono_start = tp.u32(Field::ChronoStart);
    out.chrono_stat[0] = tp.u32_at(Field::ChronoStat, 0);
    out.chrono_stat[1] = tp.u32_at(Field::ChronoStat, 1);
    out.chrono_stat[2] = tp.u32_at(Field::ChronoStat, 2);
    out.sndbuf = tp.u32(Field::SndBuf);
    out.rcvbuf = tp.u32(Field::RcvBuf);
    out.wmem_queued = tp.u32(Field::WmemQueued);
    out.reserved = [0; 5];
}

/// Differs when a reader would see another figure. A running limit clock moves by itself: then it is never the same.
#[inline(always)]
pub fn signature(tp: Kernel, jiffies: u32) -> u64 {
    let mut s = 1;
    s = mix(s, pair(tp, Field::SndUna, Field::SndNxt));
    s = mix(s, pair(tp, Field::WriteSeq, Field::RcvNxt));
    s = mix(s, pair(tp, Field::SegsIn, Field::SegsOut));
    s = mix(s, pair(tp, Field::Delivered, Field::TotalRetrans));
    s = mix(s, pair(tp, Field::Cwnd, Field::Ssthresh));
    s = mix(s, pair(tp, Field::LostOut, Field::RetransOut));
    s = mix(s, pair(tp, Field::SackedOut, Field::PacketsOut));
    s = mix(s, pair(tp, Field::SndWnd, Field::RcvWnd));
    s = mix(s, pair(tp, Field::Srtt, Field::Mdev));
    s = mix(s, pair(tp, Field::MinRtt, Field::Rto));
    s = mix(s, pair(tp, Field::SndBuf, Field::RcvBuf));
    s = mix(s, pair(tp, Field::WmemQueued, Field::AppLimited));
    s = mix(s, pair(tp, Field::MssCache, Field::DsackDups));
    s = mix(s, tp.u64(Field::PacingRate));
    s = mix(
        s,
        u64::from(tp.u8(Field::State)) << 24
            | u64::from(tp.bits(Field::CaState)) << 16
            | u64::from(tp.bits(Field::Backoff)) << 8
            | u64::from(tp.bits(Field::ProbesOut)),
    );
    if tp.bits(Field::ChronoType) != 0 {
        s = mix(s, u64::from(jiffies));
    }
    s | 1
}

#[inline(always)]
fn pair(tp: Kernel, one: Field, other: Field) -> u64 {
    u64::from(tp.u32(one)) << 32 | u64::from(tp.u32(other))
}
