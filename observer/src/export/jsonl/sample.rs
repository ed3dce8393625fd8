//! The keys that a sample fills, the same in the flow object and in a sample's line.

use serde::Serialize;

use super::{Bound, bps};
use crate::event::{Cause, Origin, PacingStatus, Sample};
use crate::export::table::fields;
use crate::units::bits;

/// One row a key: name, type, and how it comes from the sample `s`. All are null without a sample.
macro_rules! keys {
    ($s:ident: $($key:ident: $type:ty = $value:expr;)*) => {
        #[derive(Clone, Copy, Debug, Default, Serialize)]
        pub(super) struct SampleKeys {
            $(pub $key: $type,)*
        }

        fields!(SampleKeys: $($key),*);

        impl From<&Sample> for SampleKeys {
            fn from($s: &Sample) -> Self {
                Self { $($key: $value,)* }
            }
        }
    };
}

keys! { s:
    cause: Option<&'static str> = Some(cause(s.cause));
    ca_state: Option<&'static str> = s.ca_state.known();
    cwnd: Option<u32> = s.cwnd;
    cwnd_bytes: Option<u64> = s.cwnd_bytes();
    ssthresh: Option<Bound<u32>> = s.ssthresh.map(Bound);
    mss: Option<u32> = Some(s.mss);
    inflight: Option<u32> = Some(s.inflight_segments());
    inflight_bytes: Option<u64> = Some(s.inflight_bytes());
    packets_out: Option<u32> = Some(s.packets_out);
    notsent_bytes: Option<u32> = s.notsent_bytes;
    rtt_us: Option<u32> = s.rtt_us;
    srtt_us: Option<u32> = s.srtt_us;
    rttvar_us: Option<u32> = s.rttvar_us;
    min_rtt_us: Option<u32> = s.min_rtt_us;
    rcv_rtt_us: Option<u32> = s.rcv_rtt_us;
    rto_us: Option<u64> = s.rto_us;
    pacing_rate_bps: Option<Bound<u64>> = s.pacing_rate.map(bps);
    pacing_status: Option<&'static str> = s.pacing_status.map(pacing);
    delivery_rate_bps: Option<u64> = s.delivery_rate.map(bits);
    app_limited: Option<bool> = s.is_app_limited();
    rate_app_limited: Option<bool> = rate_app_limited(s);
    cwnd_limited: Option<bool> = s.cwnd_limited;
    bytes_sent: Option<u64> = s.bytes_sent;
    bytes_acked: Option<u64> = s.bytes_acked;
    bytes_retrans: Option<u64> = s.bytes_retrans;
    bytes_received: Option<u64> = s.bytes_received;
    segs_out: Option<u32> = s.segs_out;
    segs_in: Option<u32> = s.segs_in;
    data_segs_out: Option<u32> = s.data_segs_out;
    data_segs_in: Option<u32> = s.data_segs_in;
    retrans: Option<u32> = Some(s.retrans);
    retrans_out: Option<u32> = Some(s.retrans_out);
    lost: Option<u32> = Some(s.lost_out);
    lost_total: Option<u32> = s.lost_total;
    sacked: Option<u32> = Some(s.sacked_out);
    dsack_dups: Option<u32> = s.dsack_dups;
    reord_seen: Option<u32> = s.reord_seen;
    rcv_ooopack: Option<u32> = s.rcv_ooopack;
    reordering: Option<u32> = s.reordering;
    delivered: Option<u32> = s.delivered;
    delivered_ce: Option<u32> = s.delivered_ce;
    snd_una: Option<u32> = s.snd_una;
    snd_nxt: Option<u32> = s.snd_nxt;
    write_seq: Option<u32> = s.write_seq;
    rcv_nxt: Option<u32> = s.rcv_nxt;
    snd_wnd_bytes: Option<u32> = s.snd_wnd_bytes;
    max_window_bytes: Option<u32> = s.max_window_bytes;
    rcv_wnd_bytes: Option<u32> = s.rcv_wnd_bytes;
    sndbuf_bytes: Option<u32> = s.sndbuf_bytes;
    rcvbuf_bytes: Option<u32> = s.rcvbuf_bytes;
    wmem_queued_bytes: Option<u32> = s.wmem_queued_bytes;
    backoff: Option<u8> = s.backoff;
    busy_us: Option<u64> = s.clocks.map(|c| c.busy_us);
    rwnd_limited_us: Option<u64> = s.clocks.map(|c| c.rwnd_limited_us);
    sndbuf_limited_us: Option<u64> = s.clocks.map(|c| c.sndbuf_limited_us);
}

/// Packets do not tell whether the application had nothing to send.
fn rate_app_limited(s: &Sample) -> Option<bool> {
    (s.origin != Origin::Capture).then_some(s.rate_app_limited)
}

pub(super) fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Ack => "ack",
        Cause::Sweep => "sweep",
        Cause::Close => "close",
    }
}

fn pacing(status: PacingStatus) -> &'static str {
    match status {
        PacingStatus::None => "none",
        PacingStatus::Internal => "internal",
        PacingStatus::Fq => "fq",
    }
}
