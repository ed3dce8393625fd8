//! `struct tcp_info` (include/uapi/linux/tcp.h), which grows at its end: what a kernel does not send is unknown.

use std::net::SocketAddr;

use crate::event::{Attributes, CaState, Cause, LimitClocks, Origin, Sample, TcpState, Wscale};
use crate::host::netlink::{u32_at, u64_at};
use crate::units::Limit;

/// Up to and with `tcpi_max_pacing_rate` (Linux 3.15): what a sample cannot do without.
const LEAST: usize = 120;

const OPT_TIMESTAMPS: u8 = 1;
const OPT_SACK: u8 = 2;
const OPT_WSCALE: u8 = 4;
const OPT_ECN: u8 = 8;

/// The bytes of a `struct tcp_info` of this kernel's length.
#[derive(Clone, Copy, Debug)]
pub(super) struct TcpInfo<'a>(&'a [u8]);

impl<'a> TcpInfo<'a> {
    /// `None` when it is too short to make a sample of.
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        (bytes.len() >= LEAST).then_some(Self(bytes))
    }

    /// A field within [`LEAST`].
    fn u32(self, at: usize) -> u32 {
        u32_at(self.0, at).unwrap_or_default()
    }

    /// As [`Self::u32`].
    fn u64(self, at: usize) -> u64 {
        u64_at(self.0, at).unwrap_or_default()
    }

    /// A level that is 0 while there is none.
    fn measured(self, at: usize) -> Option<u32> {
        u32_at(self.0, at).filter(|value| *value != 0)
    }

    /// `tcpi_snd_wscale` and `tcpi_rcv_wscale`, bit fields of four bits each.
    fn wscale(self) -> Wscale {
        let (low, high) = (self.0[6] & 0xf, self.0[6] >> 4);
        if cfg!(target_endian = "little") {
            Wscale {
                snd: low,
                rcv: high,
            }
        } else {
            Wscale {
                snd: high,
                rcv: low,
            }
        }
    }

    /// Without what lies outside `tcp_info`. Listeners and connects under way have agreed on nothing yet.
    pub(super) fn attributes(
        self,
        state: TcpState,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Attributes {
        let options = self.0[5];
        let agreed = !matches!(state, TcpState::Listen | TcpState::SynSent);
        let option = |bit| agreed.then_some(options & bit != 0);
        let mss = |at| self.measured(at).and_then(|mss| u16::try_from(mss).ok());
        Attributes {
            local,
            remote,
            cc_name: String::new(),
            cc_version: None,
            cc_module: None,
            max_pacing_rate: Some(Limit::from_kernel_rate(self.u64(112))),
            cgroup_id: None,
            cgroup: None,
            device: None,
            cwnd_clamp: None,
            notsent_lowat: None,
            pmtu: self.measured(60),
            mss_clamp: None,
            user_mss: None,
            advmss: mss(84),
            rcv_mss: mss(20),
            user_locks: None,
            wscale: option(OPT_WSCALE).map(|both| both.then(|| self.wscale())),
            sack: option(OPT_SACK),
            timestamps: option(OPT_TIMESTAMPS),
            ecn: option(OPT_ECN),
        }
    }

    /// Without what lies outside `tcp_info`.
    pub(super) fn sample(self, state: TcpState) -> Sample {
        let u32_past = |at| u32_at(self.0, at);
        let u64_past = |at| u64_at(self.0, at);
        // The mean deviation starts at a second before anything was measured.
        let srtt_us = self.measured(68);
        Sample {
            origin: Origin::Diag,
            cause: Cause::Sweep,
            state,
            ca_state: CaState::from_kernel(self.0[1]),
            cwnd: Some(self.u32(80)),
            ssthresh: Some(Limit::from_ssthresh(self.u32(76))),
            packets_out: self.u32(24),
            sacked_out: self.u32(28),
            lost_out: self.u32(32),
            retrans_out: self.u32(36),
            snd_una: None,
            snd_nxt: None,
            write_seq: None,
            rcv_nxt: None,
            notsent_bytes: u32_past(144),
            snd_wnd_bytes: u32_past(228),
            max_window_bytes: None,
            rcv_wnd_bytes: u32_past(232),
            rtt_us: None,
            srtt_us,
            rttvar_us: srtt_us.map(|_| self.u32(72)),
            min_rtt_us: self.measured(148).filter(|us| *us != u32::MAX),
            rcv_rtt_us: self.measured(92),
            rto_us: self.measured(8).map(u64::from),
            delivery_rate: u64_past(160).filter(|rate| *rate != 0),
            rate_app_limited: self.rate_app_limited(),
            app_limited: None,
            pacing_rate: Some(Limit::from_kernel_rate(self.u64(104))),
            pacing_status: None,
            mss: self.u32(16),
            delivered: u32_past(192),
            delivered_ce: u32_past(196),
            lost_total: None,
            bytes_sent: u64_past(200),
            bytes_acked: u64_past(120),
            bytes_retrans: u64_past(208),
            bytes_received: u64_past(128),
            segs_out: u32_past(136),
            segs_in: u32_past(140),
            data_segs_out: u32_past(156),
            data_segs_in: u32_past(152),
            retrans: self.u32(100),
            dsack_dups: u32_past(216),
            reord_seen: u32_past(220),
            rcv_ooopack: u32_past(224),
            reordering: Some(self.u32(88)),
            clocks: self.clocks(),
            sndbuf_bytes: None,
            rcvbuf_bytes: None,
            wmem_queued_bytes: None,
            cwnd_limited: None,
            backoff: Some(self.0[4]),
            cc: None,
        }
    }

    /// `tcpi_delivery_rate_app_limited`: the first bit of its byte.
    fn rate_app_limited(self) -> bool {
        let first = if cfg!(target_endian = "little") {
            1
        } else {
            0x80
        };
        self.0[7] & first != 0
    }

    fn clocks(self) -> Option<LimitClocks> {
        Some(LimitClocks {
            busy_us: u64_at(self.0, 168)?,
            rwnd_limited_us: u64_at(self.0, 176)?,
            sndbuf_limited_us: u64_at(self.0, 184)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct tcp_info` of 6.2 and later (with `tcpi_rcv_wnd`), each 32-bit word its own offset + 1000.
    fn full() -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..248u32)
            .step_by(4)
            .flat_map(|at| (at + 1000).to_ne_bytes())
            .collect();
        bytes[..8].copy_from_slice(&[1, 3, 0, 0, 2, OPT_SACK | OPT_WSCALE, 0x97, 1]);
        bytes
    }

    fn sample(bytes: &[u8]) -> Option<Sample> {
        Some(TcpInfo::new(bytes)?.sample(TcpState::Established))
    }

    fn word(at: u64) -> u64 {
        (at + 1004) << 32 | (at + 1000)
    }

    #[test]
    fn every_field_comes_from_its_own_place() {
        let s = sample(&full()).unwrap();
        assert_eq!((s.ca_state, s.backoff), (CaState::Recovery, Some(2)));
        assert!(s.rate_app_limited);
        assert_eq!((s.rto_us, s.mss), (Some(1008), 1016));
        let out = (s.packets_out, s.sacked_out, s.lost_out, s.retrans_out);
        assert_eq!(out, (1024, 1028, 1032, 1036));
        assert_eq!((s.srtt_us, s.rttvar_us), (Some(1068), Some(1072)));
        assert_eq!(
            (s.ssthresh, s.cwnd),
            (Some(Limit::Finite(1076)), Some(1080))
        );
        assert_eq!((s.reordering, s.rcv_rtt_us), (Some(1088), Some(1092)));
        assert_eq!((s.retrans, s.notsent_bytes), (1100, Some(1144)));
        assert_eq!(s.pacing_rate, Some(Limit::Finite(word(104))));
        assert_eq!(s.bytes_acked, Some(word(120)));
        assert_eq!(s.bytes_received, Some(word(128)));
        assert_eq!((s.segs_out, s.segs_in), (Some(1136), Some(1140)));
        assert_eq!(s.min_rtt_us, Some(1148));
        assert_eq!((s.data_segs_in, s.data_segs_out), (Some(1152), Some(1156)));
        assert_eq!(s.delivery_rate, Some(word(160)));
        let clocks = s.clocks.unwrap();
        assert_eq!(clocks.busy_us, word(168));
        assert_eq!(clocks.rwnd_limited_us, word(176));
        assert_eq!(clocks.sndbuf_limited_us, word(184));
        assert_eq!((s.delivered, s.delivered_ce), (Some(1192), Some(1196)));
        assert_eq!(s.bytes_sent, Some(word(200)));
        assert_eq!(s.bytes_retrans, Some(word(208)));
        assert_eq!((s.dsack_dups, s.reord_seen), (Some(1216), Some(1220)));
        assert_eq!((s.rcv_ooopack, s.snd_wnd_bytes), (Some(1224), Some(1228)));
        assert_eq!(s.rcv_wnd_bytes, Some(1232));
    }

    #[test]
    fn attributes_say_what_was_agreed() {
        let bytes = full();
        let info = TcpInfo::new(&bytes).unwrap();
        let at = "10.0.0.1:1".parse().unwrap();
        let a = info.attributes(TcpState::Established, at, at);
        assert_eq!(a.wscale, Some(Some(Wscale { snd: 7, rcv: 9 })));
        assert_eq!(
            (a.sack, a.timestamps, a.ecn),
            (Some(true), Some(false), Some(false))
        );
        assert_eq!(
            (a.pmtu, a.advmss, a.rcv_mss),
            (Some(1060), Some(1084), Some(1020))
        );
        let a = info.attributes(TcpState::SynSent, at, at);
        assert_eq!((a.sack, a.wscale), (None, None));
    }

    #[test]
    fn trap_24_what_an_older_kernel_lacks_is_unknown() {
        let bytes = full();
        // 5.15 ends with tcpi_snd_wnd.
        let s = sample(&bytes[..232]).unwrap();
        assert_eq!((s.snd_wnd_bytes, s.rcv_wnd_bytes), (Some(1228), None));
        let s = sample(&bytes[..LEAST]).unwrap();
        assert_eq!((s.bytes_acked, s.delivered, s.clocks), (None, None, None));
        assert_eq!(sample(&bytes[..LEAST - 1]), None);
    }

    #[test]
    fn trap_11_and_24_before_the_first_rtt_sample() {
        let mut bytes = full();
        bytes[68..72].fill(0);
        bytes[148..152].fill(0xff);
        bytes[104..112].fill(0xff);
        bytes[160..168].fill(0);
        bytes[76..80].copy_from_slice(&0x7fff_ffffu32.to_ne_bytes());
        let s = sample(&bytes).unwrap();
        assert_eq!((s.srtt_us, s.rttvar_us, s.min_rtt_us), (None, None, None));
        assert_eq!(s.pacing_rate, Some(Limit::Unlimited));
        assert_eq!(s.ssthresh, Some(Limit::Unlimited));
        assert_eq!(s.delivery_rate, None);
    }
}
