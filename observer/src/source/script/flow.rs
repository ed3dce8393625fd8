//! Lines about flows.

use std::net::SocketAddr;

use super::Reader;
use super::line::Line;
use super::values::Unit::{Gain, Plain, Rate, Time};
use crate::event::{
    Attributes, Bbr, CaState, CaStateChange, Cause, CcState, Cubic, Dctcp, DeviceId, Gap,
    LimitClocks, Opened, Origin, Payload, Process, Retransmit, RetransmitKind, Sample, StateChange,
    TcpState,
};
use crate::units::Limit;

fn local() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 5201))
}

fn remote() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 40_000))
}

pub(super) fn opened(line: &mut Line) -> Result<Payload, String> {
    line.flow()?;
    Ok(Payload::Opened(Opened {
        from_start: line.get("birth", Plain, false)?,
        state: line.get("state", Plain, TcpState::Established)?,
        local: line.get("local", Plain, local())?,
        remote: line.get("remote", Plain, remote())?,
    }))
}

pub(super) fn retransmit(line: &mut Line) -> Result<Payload, String> {
    let segments = line.get("segments", Plain, 1)?;
    Ok(Payload::Retransmit(Retransmit {
        seq: line.get("seq", Plain, None)?,
        end_seq: line.get("end_seq", Plain, None)?,
        bytes: line.get("bytes", Plain, u64::from(segments) * 1448)?,
        segments,
        kind: line.get("kind", Plain, RetransmitKind::Fast)?,
        ca_state: line.get("ca", Plain, CaState::Recovery)?,
        failed: line.get("failed", Plain, false)?,
        rtt_us: line.get("rtt", Time, None)?,
        min_rtt_us: line.get("min_rtt", Time, None)?,
        cwnd: line.get("cwnd", Plain, None)?,
    }))
}

pub(super) fn state(line: &mut Line) -> Result<Payload, String> {
    line.flow()?;
    Ok(Payload::State(StateChange {
        old: line.get("old", Plain, TcpState::Established)?,
        new: line.get("new", Plain, TcpState::Established)?,
        local: line.get("local", Plain, local())?,
        remote: line.get("remote", Plain, remote())?,
    }))
}

pub(super) fn ca_state(line: &mut Line) -> Result<Payload, String> {
    line.flow()?;
    Ok(Payload::CaState(CaStateChange {
        old: line.get("old", Plain, CaState::Open)?,
        new: line.get("new", Plain, CaState::Open)?,
        cwnd: line.get("cwnd", Plain, 10)?,
        ssthresh: line.get("ssthresh", Plain, Limit::Unlimited)?,
        lost_out: line.get("lost_out", Plain, 0)?,
    }))
}

pub(super) fn owners(line: &mut Line) -> Result<Payload, String> {
    line.flow()?;
    let process = |word: String| {
        let (pid, comm) = word
            .split_once('/')
            .ok_or_else(|| format!("{word:?} is no PID/COMM"))?;
        Ok(Process {
            pid: pid.parse().map_err(|_| format!("{pid:?} is no PID"))?,
            comm: comm.to_owned(),
        })
    };
    let owners: Result<_, String> = line.words().into_iter().map(process).collect();
    Ok(Payload::Owners(owners?))
}

pub(super) fn gap(line: &mut Line) -> Result<Payload, String> {
    Ok(Payload::Gap(Gap {
        missing: line.get("missing", Plain, 1)?,
    }))
}

impl Reader {
    pub(super) fn attributes(&mut self, line: &mut Line) -> Result<Payload, String> {
        let id = line.flow()?;
        let known = self.attributes.get(&id).cloned();
        let mut a = known.unwrap_or_else(default_attributes);
        line.set("local", Plain, &mut a.local)?;
        line.set("remote", Plain, &mut a.remote)?;
        line.set("cc", Plain, &mut a.cc_name)?;
        line.set("version", Plain, &mut a.cc_version)?;
        line.set("module", Plain, &mut a.cc_module)?;
        line.set("max_pacing_rate", Rate, &mut a.max_pacing_rate)?;
        line.set("cgroup_id", Plain, &mut a.cgroup_id)?;
        line.set("cgroup", Plain, &mut a.cgroup)?;
        line.set("cwnd_clamp", Plain, &mut a.cwnd_clamp)?;
        line.set("notsent_lowat", Plain, &mut a.notsent_lowat)?;
        line.set("pmtu", Plain, &mut a.pmtu)?;
        line.set("mss_clamp", Plain, &mut a.mss_clamp)?;
        line.set("user_mss", Plain, &mut a.user_mss)?;
        line.set("advmss", Plain, &mut a.advmss)?;
        line.set("rcv_mss", Plain, &mut a.rcv_mss)?;
        line.set("user_locks", Plain, &mut a.user_locks)?;
        line.set("sack", Plain, &mut a.sack)?;
        line.set("timestamps", Plain, &mut a.timestamps)?;
        line.set("ecn", Plain, &mut a.ecn)?;
        let mut dev = a.device.map(|d| d.ifindex);
        line.set("dev", Plain, &mut dev)?;
        a.device = dev.map(|ifindex| DeviceId {
            netns: id.netns,
            ifindex,
        });
        match line.take("wscale").as_deref() {
            None => {}
            Some("-") => a.wscale = None,
            Some("none") => a.wscale = Some(None),
            Some(text) => {
                let shifts = super::values::FromText::from_text(text, Plain);
                a.wscale = Some(Some(
                    shifts.map_err(|e| format!("wscale={text}: expected {e}"))?,
                ));
            }
        }
        self.attributes.insert(id, a.clone());
        Ok(Payload::Attributes(Box::new(a)))
    }

    pub(super) fn sample(&mut self, line: &mut Line) -> Result<Payload, String> {
        let id = line.flow()?;
        let known = self.samples.get(&id).cloned();
        let mut sample = known.unwrap_or_else(default_sample);
        line.set("origin", Plain, &mut sample.origin)?;
        line.set("cause", Plain, &mut sample.cause)?;
        line.set("state", Plain, &mut sample.state)?;
        line.set("ca_state", Plain, &mut sample.ca_state)?;
        windows(line, &mut sample)?;
        times_and_rates(line, &mut sample)?;
        totals(line, &mut sample)?;
        clocks(line, &mut sample)?;
        congestion(line, &mut sample)?;
        self.samples.insert(id, sample.clone());
        Ok(Payload::Sample(Box::new(sample)))
    }
}

/// `key` is the field's name unless it is written out.
macro_rules! set {
    ($line:ident, $target:ident, $unit:ident: $($field:ident $(as $key:literal)?),* $(,)?) => {
        $(
            #[allow(unused_mut, unused_assignments)]
            let mut key = stringify!($field);
            $(key = $key;)?
            $line.set(key, $unit, &mut $target.$field)?;
        )*
    };
}

fn windows(line: &mut Line, sample: &mut Sample) -> Result<(), String> {
    set!(line, sample, Plain:
        cwnd, ssthresh, packets_out, sacked_out, lost_out, retrans_out, snd_una, snd_nxt, write_seq, rcv_nxt,
        notsent_bytes as "notsent", snd_wnd_bytes as "snd_wnd", max_window_bytes as "max_window",
        rcv_wnd_bytes as "rcv_wnd", sndbuf_bytes as "sndbuf", rcvbuf_bytes as "rcvbuf",
        wmem_queued_bytes as "wmem_queued", mss, cwnd_limited, backoff, reordering, pacing_status,
        app_limited, rate_app_limited,
    );
    Ok(())
}

fn times_and_rates(line: &mut Line, sample: &mut Sample) -> Result<(), String> {
    set!(line, sample, Time:
        rtt_us as "rtt", srtt_us as "srtt", rttvar_us as "rttvar", min_rtt_us as "min_rtt",
        rcv_rtt_us as "rcv_rtt", rto_us as "rto",
    );
    set!(line, sample, Rate: delivery_rate, pacing_rate);
    Ok(())
}

fn totals(line: &mut Line, sample: &mut Sample) -> Result<(), String> {
    set!(line, sample, Plain:
        delivered, delivered_ce, lost_total, bytes_sent, bytes_acked, bytes_retrans, bytes_received, segs_out,
        segs_in, data_segs_out, data_segs_in, retrans, dsack_dups, reord_seen, rcv_ooopack,
    );
    Ok(())
}

fn clocks(line: &mut Line, sample: &mut Sample) -> Result<(), String> {
    if let Some(text) = line.take("clocks") {
        if text != "-" {
            return Err(
                "clocks=- makes them unknown; busy= rwnd_limited= sndbuf_limited= set them"
                    .to_owned(),
            );
        }
        sample.clocks = None;
        return Ok(());
    }
    let mut clocks = sample.clocks.unwrap_or_default();
    set!(line, clocks, Time:
        busy_us as "busy", rwnd_limited_us as "rwnd_limited", sndbuf_limited_us as "sndbuf_limited",
    );
    if clocks != LimitClocks::default() {
        sample.clocks = Some(clocks);
    }
    Ok(())
}

fn congestion(line: &mut Line, sample: &mut Sample) -> Result<(), String> {
    match line.take("cc").as_deref() {
        None => {}
        Some("-") => sample.cc = None,
        Some("bbr") => sample.cc = Some(CcState::Bbr(Bbr::default())),
        Some("cubic") => sample.cc = Some(CcState::Cubic(Cubic::default())),
        Some("dctcp") => sample.cc = Some(CcState::Dctcp(Dctcp::default())),
        Some(other) => return Err(format!("cc={other}: expected one of bbr cubic dctcp -")),
    }
    match &mut sample.cc {
        None => {}
        Some(CcState::Bbr(b)) => {
            let mut phase = b.phase.map(|phase| (phase, b.sub_phase));
            line.set("phase", Plain, &mut phase)?;
            b.phase = phase.map(|(phase, _)| phase);
            b.sub_phase = phase.and_then(|(_, part)| part);
            set!(line, b, Rate: btlbw, lt_bw, bw_hi, bw_lo);
            set!(line, b, Time: min_rtt_us as "bbr_min_rtt");
            set!(line, b, Gain: pacing_gain_256 as "pacing_gain", cwnd_gain_256 as "cwnd_gain");
            set!(line, b, Plain: full_bw_reached as "full_bw", lt_use_bw, inflight_hi, inflight_lo, extra_acked);
        }
        Some(CcState::Cubic(c)) => {
            set!(line, c, Plain: last_max_cwnd, last_cwnd, origin_point, k, hystart_found);
            set!(line, c, Time: delay_min_us as "delay_min");
        }
        Some(CcState::Dctcp(d)) => {
            set!(line, d, Plain: alpha_1024 as "alpha", ce_state, loss_cwnd);
        }
    }
    Ok(())
}

fn default_attributes() -> Attributes {
    Attributes {
        local: local(),
        remote: remote(),
        cc_name: "cubic".to_owned(),
        cc_version: None,
        cc_module: None,
        max_pacing_rate: Some(Limit::Unlimited),
        cgroup_id: None,
        cgroup: None,
        device: None,
        cwnd_clamp: None,
        notsent_lowat: None,
        pmtu: None,
        mss_clamp: None,
        user_mss: None,
        advmss: None,
        rcv_mss: None,
        user_locks: None,
        wscale: None,
        sack: None,
        timestamps: None,
        ecn: None,
    }
}

/// An established flow of which nothing but the levels is known.
fn default_sample() -> Sample {
    Sample {
        origin: Origin::Ebpf,
        cause: Cause::Ack,
        state: TcpState::Established,
        ca_state: CaState::Open,
        cwnd: Some(10),
        ssthresh: Some(Limit::Unlimited),
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
        pacing_rate: Some(Limit::Unlimited),
        pacing_status: None,
        mss: 1448,
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
