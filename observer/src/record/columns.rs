//! The columns of a sample: each quantity's number in `SamplePack`, how it is taken out of a sample and put back.
//!
//! One row of the table below a field of [`Sample`]; the numbers are those of `proto/recording.proto` (a test compares).

use super::quantity::{Algorithm, Cell, Quantity};
use crate::event::{
    CaState, Cause, CcState, LimitClocks, Origin, PacingStatus, Phase, Sample, SubPhase, TcpState,
};
use crate::units::Limit;

/// A quantity told by how far it is from what it moves with: that is mostly the same from row to row. 32 bits, wrapping.
fn less(value: Option<u32>, base: u32) -> Option<u32> {
    value.map(|value| value.wrapping_sub(base))
}

fn more(value: Option<u32>, base: u32) -> Option<u32> {
    value.map(|value| value.wrapping_add(base))
}

fn low(total: Option<u64>) -> u32 {
    total.unwrap_or(0) as u32
}

/// Bytes sent for the first time.
fn new_bytes(sample: &Sample) -> u32 {
    low(sample.bytes_sent).wrapping_sub(low(sample.bytes_retrans))
}

/// Where what was written ends.
fn queued(sample: &Sample) -> u32 {
    let next = sample.snd_nxt.unwrap_or(0);
    next.wrapping_add(sample.notsent_bytes.unwrap_or(0))
}

/// See [`Column::SET`].
pub type Setter = fn(&mut Sample, Cell) -> Option<()>;

/// See [`Column::CELL`].
pub type Getter = fn(&Sample) -> Cell;

/// One quantity of a sample.
pub trait Column {
    /// Its field in `SamplePack`.
    const NUMBER: u32;
    /// The columns that have to be put into a row before it.
    const RESTS_ON: &'static [u32];
    /// Putting it into a row changes nothing else there.
    const ALONE: bool;
    type Held: Quantity;
    /// Puts what a row holds into it; `None` = no such value: of a newer version, or damaged.
    const SET: Setter = |sample, cell| {
        Self::set(sample, Quantity::of(cell)?);
        Some(())
    };
    /// What a row holds.
    const CELL: Getter = |sample| Self::get(sample).cell();
    fn get(sample: &Sample) -> Self::Held;
    fn set(sample: &mut Sample, held: Self::Held);
}

macro_rules! column {
    ($number:literal $column:ident on $rests:expr, alone $alone:literal; $type:ty, $get:expr, $set:expr) => {
        #[derive(Clone, Copy, Debug)]
        pub struct $column;
        impl Column for $column {
            const NUMBER: u32 = $number;
            const RESTS_ON: &'static [u32] = &$rests;
            const ALONE: bool = $alone;
            type Held = $type;
            #[inline]
            fn get(sample: &Sample) -> $type {
                let get: fn(&Sample) -> $type = $get;
                get(sample)
            }
            #[inline]
            fn set(sample: &mut Sample, held: $type) {
                let set: fn(&mut Sample, $type) = $set;
                set(sample, held);
            }
        }
    };
}

macro_rules! table {
    (
        plain { $($number:literal $column:ident $field:ident $name:literal: $type:ty,)* }
        made { $($made_number:literal $made:ident on $rests:expr; $made_name:literal: $made_type:ty, $get:expr, $set:expr;)* }
        private { $($own_number:literal $own:ident $of:ident.$own_field:ident $own_name:literal: $own_type:ty,)* }
    ) => {
        $(column!($number $column on [], alone true; $type, |sample| sample.$field, |sample, held| sample.$field = held);)*
        $(column!($made_number $made on $rests, alone false; $made_type, $get, $set);)*
        $(column!($own_number $own on [AlgorithmColumn::NUMBER], alone true; Option<$own_type>,
            |sample| match &sample.cc { Some(CcState::$of(state)) => state.$own_field, _ => None },
            |sample, held| if let Some(CcState::$of(state)) = &mut sample.cc { state.$own_field = held; });)*

        /// Calls `$each!(Column)` for every column; what others rest on comes first.
        macro_rules! for_each_column {
            ($each:ident) => { $($each!($column);)* $($each!($made);)* $($each!($own);)* };
        }
        pub(super) use for_each_column;

        /// [`Column::CELL`] of each, by its number.
        pub static GETTERS: [Getter; END] = {
            let mut getters: [Getter; END] = [|_| Cell::Absent; END];
            $(getters[$number] = <$column as Column>::CELL;)*
            $(getters[$made_number] = <$made as Column>::CELL;)*
            $(getters[$own_number] = <$own as Column>::CELL;)*
            getters
        };

        /// Number and name of each.
        #[cfg(test)]
        pub const NAMES: &[(u32, &str)] = &[
            $(($number, $name),)* $(($made_number, $made_name),)* $(($own_number, $own_name),)*
        ];
    };
}

table! {
    plain {
        16 OriginColumn origin "origin": Origin,
        17 CauseColumn cause "cause": Cause,
        18 State state "state": TcpState,
        19 CaStateColumn ca_state "ca_state": CaState,
        20 Cwnd cwnd "cwnd": Option<u32>,
        21 Ssthresh ssthresh "ssthresh": Option<Limit<u32>>,
        22 PacketsOut packets_out "packets_out": u32,
        23 SackedOut sacked_out "sacked_out": u32,
        24 LostOut lost_out "lost_out": u32,
        25 RetransOut retrans_out "retrans_out": u32,
        30 Notsent notsent_bytes "notsent_bytes": Option<u32>,
        31 SndWnd snd_wnd_bytes "snd_wnd_bytes": Option<u32>,
        32 MaxWindow max_window_bytes "max_window_bytes": Option<u32>,
        33 RcvWnd rcv_wnd_bytes "rcv_wnd_bytes": Option<u32>,
        34 Rtt rtt_us "rtt_us": Option<u32>,
        35 Srtt srtt_us "srtt_us": Option<u32>,
        36 Rttvar rttvar_us "rttvar_us": Option<u32>,
        37 MinRtt min_rtt_us "min_rtt_us": Option<u32>,
        38 RcvRtt rcv_rtt_us "rcv_rtt_us": Option<u32>,
        39 Rto rto_us "rto_us": Option<u64>,
        40 DeliveryRate delivery_rate "delivery_rate_bytes_per_s": Option<u64>,
        41 RateAppLimited rate_app_limited "rate_app_limited": bool,
        42 AppLimited app_limited "app_limited": Option<bool>,
        43 PacingRate pacing_rate "pacing_rate_bytes_per_s": Option<Limit<u64>>,
        44 PacingStatusColumn pacing_status "pacing_status": Option<PacingStatus>,
        45 Mss mss "mss": u32,
        46 Delivered delivered "delivered": Option<u32>,
        47 DeliveredCe delivered_ce "delivered_ce": Option<u32>,
        48 LostTotal lost_total "lost_total": Option<u32>,
        49 BytesSent bytes_sent "bytes_sent": Option<u64>,
        50 BytesAcked bytes_acked "bytes_acked": Option<u64>,
        51 BytesRetrans bytes_retrans "bytes_retrans": Option<u64>,
        52 BytesReceived bytes_received "bytes_received": Option<u64>,
        53 SegsOut segs_out "segs_out": Option<u32>,
        54 SegsIn segs_in "segs_in": Option<u32>,
        57 Retrans retrans "retrans": u32,
        58 DsackDups dsack_dups "dsack_dups": Option<u32>,
        59 ReordSeen reord_seen "reord_seen": Option<u32>,
        60 RcvOoopack rcv_ooopack "rcv_ooopack": Option<u32>,
        61 Reordering reordering "reordering": Option<u32>,
        65 Sndbuf sndbuf_bytes "sndbuf_bytes": Option<u32>,
        66 Rcvbuf rcvbuf_bytes "rcvbuf_bytes": Option<u32>,
        67 WmemQueued wmem_queued_bytes "wmem_queued_bytes": Option<u32>,
        68 CwndLimited cwnd_limited "cwnd_limited": Option<bool>,
        69 Backoff backoff "backoff": Option<u8>,
    }
    made {
        26 SndUna on [BytesAcked::NUMBER]; "snd_una_less_acked": Option<u32>,
            |sample| less(sample.snd_una, low(sample.bytes_acked)),
            |sample, held| sample.snd_una = more(held, low(sample.bytes_acked));
        27 SndNxt on [BytesSent::NUMBER, BytesRetrans::NUMBER]; "snd_nxt_less_new": Option<u32>,
            |sample| less(sample.snd_nxt, new_bytes(sample)),
            |sample, held| sample.snd_nxt = more(held, new_bytes(sample));
        28 WriteSeq on [SndNxt::NUMBER, Notsent::NUMBER]; "write_seq_less_queued": Option<u32>,
            |sample| less(sample.write_seq, queued(sample)),
            |sample, held| sample.write_seq = more(held, queued(sample));
        29 RcvNxt on [BytesReceived::NUMBER]; "rcv_nxt_less_received": Option<u32>,
            |sample| less(sample.rcv_nxt, low(sample.bytes_received)),
            |sample, held| sample.rcv_nxt = more(held, low(sample.bytes_received));
        55 DataSegsOut on [SegsOut::NUMBER]; "data_segs_out_less_segs": Option<u32>,
            |sample| less(sample.data_segs_out, sample.segs_out.unwrap_or(0)),
            |sample, held| sample.data_segs_out = more(held, sample.segs_out.unwrap_or(0));
        56 DataSegsIn on [SegsIn::NUMBER]; "data_segs_in_less_segs": Option<u32>,
            |sample| less(sample.data_segs_in, sample.segs_in.unwrap_or(0)),
            |sample, held| sample.data_segs_in = more(held, sample.segs_in.unwrap_or(0));
        62 Busy on []; "busy_us": Option<u64>,
            |sample| sample.clocks.map(|clocks| clocks.busy_us),
            |sample, held| sample.clocks = held.map(|busy_us| LimitClocks { busy_us, ..LimitClocks::default() });
        63 RwndLimited on [Busy::NUMBER]; "rwnd_limited_us": Option<u64>,
            |sample| sample.clocks.map(|clocks| clocks.rwnd_limited_us),
            |sample, held| if let (Some(clocks), Some(held)) = (&mut sample.clocks, held) { clocks.rwnd_limited_us = held; };
        64 SndbufLimited on [Busy::NUMBER]; "sndbuf_limited_us": Option<u64>,
            |sample| sample.clocks.map(|clocks| clocks.sndbuf_limited_us),
            |sample, held| if let (Some(clocks), Some(held)) = (&mut sample.clocks, held) { clocks.sndbuf_limited_us = held; };
        80 AlgorithmColumn on []; "algorithm": Option<Algorithm>,
            |sample| sample.cc.as_ref().map(Algorithm::whose),
            |sample, held| sample.cc = held.map(Algorithm::empty);
    }
    private {
        81 BbrPhase Bbr.phase "bbr_phase": Phase,
        82 BbrSubPhase Bbr.sub_phase "bbr_sub_phase": SubPhase,
        83 BbrBtlbw Bbr.btlbw "bbr_btlbw_bytes_per_s": u64,
        84 BbrMinRtt Bbr.min_rtt_us "bbr_min_rtt_us": u32,
        85 BbrPacingGain Bbr.pacing_gain_256 "bbr_pacing_gain_256": u32,
        86 BbrCwndGain Bbr.cwnd_gain_256 "bbr_cwnd_gain_256": u32,
        87 BbrFullBw Bbr.full_bw_reached "bbr_full_bw_reached": bool,
        88 BbrLtBw Bbr.lt_bw "bbr_lt_bw_bytes_per_s": u64,
        89 BbrLtUseBw Bbr.lt_use_bw "bbr_lt_use_bw": bool,
        90 BbrBwHi Bbr.bw_hi "bbr_bw_hi_bytes_per_s": Limit<u64>,
        91 BbrBwLo Bbr.bw_lo "bbr_bw_lo_bytes_per_s": Limit<u64>,
        92 BbrInflightHi Bbr.inflight_hi "bbr_inflight_hi": Limit<u32>,
        93 BbrInflightLo Bbr.inflight_lo "bbr_inflight_lo": Limit<u32>,
        94 BbrExtraAcked Bbr.extra_acked "bbr_extra_acked": u32,
        100 CubicLastMaxCwnd Cubic.last_max_cwnd "cubic_last_max_cwnd": u32,
        101 CubicLastCwnd Cubic.last_cwnd "cubic_last_cwnd": u32,
        102 CubicOriginPoint Cubic.origin_point "cubic_origin_point": u32,
        103 CubicK Cubic.k "cubic_k": u32,
        104 CubicDelayMin Cubic.delay_min_us "cubic_delay_min_us": u32,
        105 CubicHystart Cubic.hystart_found "cubic_hystart_found": bool,
        110 DctcpAlpha Dctcp.alpha_1024 "dctcp_alpha_1024": u32,
        111 DctcpCeState Dctcp.ce_state "dctcp_ce_state": u32,
        112 DctcpLossCwnd Dctcp.loss_cwnd "dctcp_loss_cwnd": u32,
    }
}

/// Column numbers are below this.
pub const END: usize = 128;

/// A sample of which nothing is known: what columns are put into.
pub fn blank() -> Sample {
    Sample {
        origin: Origin::Ebpf,
        cause: Cause::Ack,
        state: TcpState::Unknown(0),
        ca_state: CaState::Unknown(0),
        cwnd: None,
        ssthresh: None,
        packets_out: 0,
        sacked_out: 0,
        lost_out: 0,
        retrans_out: 0,
        snd_una: None,
        snd_nxt: None,
        write_seq: None,
        rcv_nxt: None,
        notsent_bytes: None,
        snd_wnd_bytes: None,
        max_window_bytes: None,
        rcv_wnd_bytes: None,
        rtt_us: None,
        srtt_us: None,
        rttvar_us: None,
        min_rtt_us: None,
        rcv_rtt_us: None,
        rto_us: None,
        delivery_rate: None,
        rate_app_limited: false,
        app_limited: None,
        pacing_rate: None,
        pacing_status: None,
        mss: 0,
        delivered: None,
        delivered_ce: None,
        lost_total: None,
        bytes_sent: None,
        bytes_acked: None,
        bytes_retrans: None,
        bytes_received: None,
        segs_out: None,
        segs_in: None,
        data_segs_out: None,
        data_segs_in: None,
        retrans: 0,
        dsack_dups: None,
        reord_seen: None,
        rcv_ooopack: None,
        reordering: None,
        clocks: None,
        sndbuf_bytes: None,
        rcvbuf_bytes: None,
        wmem_queued_bytes: None,
        cwnd_limited: None,
        backoff: None,
        cc: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_the_schemas() {
        let text = include_str!("../../proto/recording.proto");
        let pack = text
            .split("message SamplePack {")
            .nth(1)
            .and_then(|rest| rest.split("\n}").next())
            .expect("the message");
        let mut schema: Vec<(u32, &str)> = pack
            .lines()
            .filter_map(|line| line.trim().strip_prefix("repeated sint64 "))
            .filter_map(|rest| rest.split(';').next()?.split_once(" = "))
            .map(|(name, number)| (number.parse().expect("a number"), name))
            .filter(|(number, _)| *number >= 16)
            .collect();
        let mut ours = NAMES.to_vec();
        schema.sort_unstable();
        ours.sort_unstable();
        assert_eq!(ours, schema);
        assert!(ours.iter().all(|(number, _)| (*number as usize) < END));
    }
}
