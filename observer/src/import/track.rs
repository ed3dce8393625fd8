//! One connection of the second pass: its segments into the events that a kernel's recording of its sender would have.

use std::net::SocketAddr;

use super::rtt::Rtt;
use super::segment::Segment;
use super::sent::{Again, Arrived, Flight};
use crate::event::{
    Attributes, CaState, Cause, FlowId, Opened, Origin, Payload, Retransmit, RetransmitKind,
    Sample, StateChange, TcpState, Wscale,
};

/// Sequence numbers are unwrapped to 64 bits from here, so that earlier ones stay positive.
const BASE: u64 = 1 << 32;

/// One end's SYN.
#[derive(Clone, Copy, Debug, Default)]
struct Handshake {
    seen: bool,
    count: u32,
    at: u64,
    isn: u32,
    mss: Option<u16>,
    wscale: Option<u8>,
    sack: bool,
    timestamps: bool,
    ecn: bool,
}

/// Totals that the levels of [`Flight`] do not have.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    bytes_retrans: u64,
    retrans: u32,
    segs_out: u32,
    segs_in: u32,
    data_segs_out: u32,
    data_segs_in: u32,
    dsack_dups: u32,
}

/// What a capture did not hold of this connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Bytes that were acknowledged though they were never seen to go.
    pub unseen_bytes: u64,
    /// Segments seen a second time, at another interface.
    pub twice: u64,
    pub crowded: bool,
}

/// The sender's side of one connection.
#[derive(Debug)]
pub struct Track {
    id: FlowId,
    local: SocketAddr,
    remote: SocketAddr,
    mss: u32,
    peer_mss: u32,
    /// Which end of [`super::table::Ends`] is local.
    local_end: usize,
    local_syn: Handshake,
    remote_syn: Handshake,
    from_start: bool,
    /// The local end opened it.
    active: bool,
    state: TcpState,
    flight: Option<Flight>,
    /// Where `bytes_acked` and `bytes_sent` count from.
    acked_from: u64,
    sent_from: u64,
    fin: Option<u64>,
    remote_fin: Option<u64>,
    /// Acknowledged by the local end, and where that began.
    received: Option<(u64, u64)>,
    /// Highest of the remote's payload.
    snd_wnd: Option<u32>,
    max_window: Option<u32>,
    rcv_wnd: Option<u32>,
    totals: Totals,
    rtt: Rtt,
    saw_sack: bool,
    saw_timestamps: bool,
    told: Option<Attributes>,
    pub missing: Missing,
    /// Something changed since the last sample.
    pub dirty: bool,
}

impl Track {
    pub fn new(id: FlowId, ends: [SocketAddr; 2], local_end: usize, mss: [u32; 2]) -> Self {
        Self {
            id,
            local: ends[local_end],
            remote: ends[1 - local_end],
            mss: mss[local_end],
            peer_mss: mss[1 - local_end],
            local_end,
            local_syn: Handshake::default(),
            remote_syn: Handshake::default(),
            from_start: false,
            active: false,
            state: TcpState::Close,
            flight: None,
            acked_from: 0,
            sent_from: 0,
            fin: None,
            remote_fin: None,
            received: None,
            snd_wnd: None,
            max_window: None,
            rcv_wnd: None,
            totals: Totals::default(),
            rtt: Rtt::default(),
            saw_sack: false,
            saw_timestamps: false,
            told: None,
            missing: Missing::default(),
            dirty: false,
        }
    }

    pub fn id(&self) -> FlowId {
        self.id
    }

    /// Takes the next segment, sent by `end`; the payloads of events go to `out`. False = the connection is over.
    pub fn take(
        &mut self,
        now: u64,
        end: usize,
        segment: &Segment,
        out: &mut Vec<Payload>,
    ) -> bool {
        let from_local = end == self.local_end;
        if self.state == TcpState::Close {
            self.open(from_local, segment, out);
        }
        self.saw_sack |= !segment.options.sack().is_empty();
        self.saw_timestamps |= segment.options.timestamps.is_some() && !segment.syn();
        if from_local {
            self.local(now, segment, out);
        } else {
            self.remote(now, segment, out);
        }
        self.dirty = true;
        self.tell_attributes(out);
        let over = segment.rst()
            || matches!(self.state, TcpState::TimeWait | TcpState::LastAck if self.is_done());
        if over {
            self.end(out);
        }
        !over
    }

    /// The tuple was used again: it is over, whatever the packets of its end.
    pub fn end(&mut self, out: &mut Vec<Payload>) {
        out.push(Payload::Sample(Box::new(self.sample(Cause::Close))));
        self.change(TcpState::Close, out);
        out.push(Payload::Closed);
        self.flight = None;
    }

    fn is_done(&self) -> bool {
        self.state == TcpState::TimeWait || self.fin_acked()
    }

    fn fin_acked(&self) -> bool {
        let una = self.flight.as_ref().map(|flight| flight.una);
        self.fin.is_some_and(|fin| una.is_some_and(|una| una > fin))
    }

    fn open(&mut self, from_local: bool, segment: &Segment, out: &mut Vec<Payload>) {
        self.from_start = segment.syn() && !segment.has_ack();
        self.active = segment.syn() && (from_local != segment.has_ack());
        self.state = match (segment.syn(), self.active) {
            (true, true) => TcpState::SynSent,
            (true, false) => TcpState::SynRecv,
            (false, _) => TcpState::Established,
        };
        out.push(Payload::Opened(Opened {
            from_start: self.from_start,
            state: self.state,
            local: self.local,
            remote: self.remote,
        }));
    }

    fn change(&mut self, new: TcpState, out: &mut Vec<Payload>) {
        let old = std::mem::replace(&mut self.state, new);
        if old != new {
            out.push(Payload::State(StateChange {
                old,
                new,
                local: self.local,
                remote: self.remote,
            }));
        }
    }

    fn flight(&mut self, start: u64) -> &mut Flight {
        let mss = self.mss;
        if self.flight.is_none() {
            (self.acked_from, self.sent_from) = (start, start);
        }
        self.flight.get_or_insert_with(|| Flight::new(start, mss))
    }

    fn unwrap(&self, seq: u32) -> u64 {
        unwrap(
            self.flight
                .as_ref()
                .map_or(BASE + u64::from(seq), |f| f.una),
            seq,
        )
    }

    fn local(&mut self, now: u64, segment: &Segment, out: &mut Vec<Payload>) {
        let scale = self.scale(self.local_syn, segment.syn());
        self.rcv_wnd = scale
            .map(|scale| u32::from(segment.window) << scale)
            .or(self.rcv_wnd);
        if segment.syn() {
            self.local_syn(now, segment, out);
        }
        if segment.has_ack() && !segment.rst() {
            self.acknowledges(segment.ack);
        }
        let begin = self
            .unwrap(segment.seq)
            .saturating_add(segment.syn().into());
        let end = begin + u64::from(segment.len);
        if segment.len > 0 {
            self.sends(now, (begin, end), segment, out);
        } else if !segment.syn() {
            self.totals.segs_out = self.totals.segs_out.saturating_add(1);
            self.flight(begin);
        }
        if segment.fin() && self.fin.is_none() {
            self.fin = Some(end);
            let flight = self.flight(end);
            flight.nxt = flight.nxt.max(end + 1);
            match self.state {
                TcpState::CloseWait => self.change(TcpState::LastAck, out),
                TcpState::Established | TcpState::SynRecv => self.change(TcpState::FinWait1, out),
                _ => {}
            }
        }
    }

    /// The local end says what it has received.
    fn acknowledges(&mut self, ack: u32) {
        let begin = if self.remote_syn.seen {
            BASE + u64::from(self.remote_syn.isn) + 1
        } else {
            BASE + u64::from(ack)
        };
        let (begin, before) = self.received.unwrap_or((begin, begin));
        let new = unwrap(before, ack);
        self.received = Some((begin, before.max(new)));
    }

    fn local_syn(&mut self, now: u64, segment: &Segment, out: &mut Vec<Payload>) {
        let again = self.local_syn.seen;
        self.local_syn.take(now, segment);
        let isn = BASE + u64::from(segment.seq);
        self.totals.segs_out = self.totals.segs_out.saturating_add(1);
        if !again {
            let active = self.active;
            let flight = self.flight(isn + 1);
            (flight.una, flight.nxt) = (isn + u64::from(!active), isn + 1);
            // As the kernel counts: the SYN of who opens is one byte.
            self.acked_from = isn + u64::from(!active);
            self.sent_from = isn + 1;
            return;
        }
        let kind = if segment.has_ack() {
            RetransmitKind::Synack
        } else {
            RetransmitKind::Syn
        };
        self.totals.retrans = self.totals.retrans.saturating_add(1);
        let again = Again {
            begin: isn,
            end: isn + 1,
            kind,
        };
        out.push(self.retransmit(again, 0, 1));
    }

    fn sends(
        &mut self,
        now: u64,
        (begin, end): (u64, u64),
        segment: &Segment,
        out: &mut Vec<Payload>,
    ) {
        let (rto_ns, srtt_us) = (self.rtt.rto_ns(), self.rtt.srtt_us().unwrap_or(0));
        let tsval = segment.options.timestamps.map(|(value, _)| value);
        let flight = self.flight(begin);
        // One byte before all that is acknowledged, and nothing in flight: it asks whether somebody is there.
        let keepalive = segment.len == 1 && end == flight.una && flight.is_empty();
        let went = if keepalive {
            super::sent::Went::default()
        } else {
            flight.sent(
                now,
                (begin, end),
                tsval,
                segment.id,
                rto_ns,
                u64::from(srtt_us) * 1000,
            )
        };
        if went.twice {
            self.missing.twice += 1;
            return;
        }
        let count = flight.segments(u64::from(segment.len));
        let totals = &mut self.totals;
        totals.segs_out = totals.segs_out.saturating_add(count);
        if keepalive {
            return;
        }
        totals.data_segs_out = totals.data_segs_out.saturating_add(count);
        if let Some(again) = went.again {
            let bytes = again.end - again.begin;
            let segments = self.flight(begin).segments(bytes);
            self.totals.bytes_retrans += bytes;
            self.totals.retrans = self.totals.retrans.saturating_add(segments);
            out.push(self.retransmit(again, bytes, segments));
        }
    }

    fn retransmit(&self, again: Again, bytes: u64, segments: u32) -> Payload {
        Payload::Retransmit(Retransmit {
            seq: Some(again.begin as u32),
            end_seq: Some(again.end as u32),
            bytes,
            segments,
            kind: again.kind,
            ca_state: CaState::UNTOLD,
            failed: false,
            rtt_us: self.rtt.latest_us,
            min_rtt_us: self.rtt.min_us(),
            cwnd: None,
        })
    }

    fn remote(&mut self, now: u64, segment: &Segment, out: &mut Vec<Payload>) {
        if !segment.syn() && !segment.rst() && self.flight.is_some() {
            // As the kernel's: the state before the segment is taken in (TRAPS 33).
            out.push(Payload::Sample(Box::new(self.sample(Cause::Ack))));
        }
        let count = segment.len.div_ceil(self.peer_mss.max(1));
        self.totals.segs_in = self.totals.segs_in.saturating_add(count.max(1));
        self.totals.data_segs_in = self.totals.data_segs_in.saturating_add(count);
        if segment.syn() {
            self.remote_syn.take(now, segment);
        }
        if segment.has_ack() && !segment.rst() {
            self.acked(now, segment, out);
        }
        if segment.fin() && self.remote_fin.is_none() {
            self.remote_fin = Some(u64::from(segment.seq));
            match self.state {
                TcpState::Established | TcpState::SynRecv => self.change(TcpState::CloseWait, out),
                TcpState::FinWait1 => self.change(TcpState::Closing, out),
                TcpState::FinWait2 => self.change(TcpState::TimeWait, out),
                _ => {}
            }
        }
    }

    fn acked(&mut self, now: u64, segment: &Segment, out: &mut Vec<Payload>) {
        let ack = self.unwrap(segment.ack);
        self.flight(ack);
        let scale = self.scale(self.remote_syn, segment.syn());
        let flight = self.flight(ack);
        let una = flight.una;
        if ack >= una
            && let Some(scale) = scale
        {
            let window = u32::from(segment.window) << scale;
            self.snd_wnd = Some(window);
            self.max_window = self.max_window.max(Some(window));
        }
        let opening = matches!(self.state, TcpState::SynSent | TcpState::SynRecv);
        let dsack = self.dsack(segment, ack);
        let blocks = segment.options.sack();
        let rest = if dsack.is_some() {
            &blocks[1..]
        } else {
            blocks
        };
        let mut sacked = [(0, 0); 4];
        for (slot, (begin, end)) in sacked.iter_mut().zip(rest) {
            *slot = (self.unwrap(*begin), self.unwrap(*end));
        }
        self.totals.dsack_dups = self.totals.dsack_dups.saturating_add(dsack.unwrap_or(0));
        let echo = segment.options.timestamps.map(|(_, echo)| echo);
        let min = self.rtt.min_us();
        // Half the number space away is nonsense of a damaged capture.
        let sane = ack.abs_diff(una) < u64::from(u32::MAX >> 2);
        let flight = self.flight(ack);
        let arrived = if sane {
            flight.acked(now, ack, sacked.into_iter().take(rest.len()), echo, min)
        } else {
            Arrived::default()
        };
        self.missing.crowded |= flight.crowded;
        self.missing.unseen_bytes += arrived.unseen_bytes;
        self.time(now, &arrived);
        if opening {
            self.established(now, segment, out);
        }
        if self.fin_acked() {
            match self.state {
                TcpState::FinWait1 => self.change(TcpState::FinWait2, out),
                TcpState::Closing => self.change(TcpState::TimeWait, out),
                _ => {}
            }
        }
    }

    fn time(&mut self, now: u64, arrived: &Arrived) {
        let us = |at: u64| u32::try_from(now.saturating_sub(at) / 1000).unwrap_or(u32::MAX);
        if let Some(at) = arrived.newest {
            self.rtt.latest_us = Some(us(at));
        }
        if let Some(at) = arrived.smoothed() {
            self.rtt.smooth(us(at));
        }
        if let Some(at) = arrived.last_once {
            self.rtt.lower(now, us(at));
        }
    }

    /// The handshake is over, and was the first round trip, unless part of it was repeated.
    fn established(&mut self, now: u64, segment: &Segment, out: &mut Vec<Payload>) {
        if self.state == TcpState::SynSent && !segment.syn() {
            return;
        }
        if self.local_syn.seen && self.local_syn.count == 1 {
            let us = now.saturating_sub(self.local_syn.at) / 1000;
            let us = u32::try_from(us).unwrap_or(u32::MAX);
            self.rtt.latest_us.get_or_insert(us);
            if self.rtt.srtt_us().is_none() {
                self.rtt.smooth(us);
            }
            self.rtt.lower(now, us);
        }
        self.change(TcpState::Established, out);
    }

    /// Segments that arrived twice (RFC 2883, `tcp_check_dsack`); `None` = the first block is no DSACK.
    fn dsack(&self, segment: &Segment, ack: u64) -> Option<u32> {
        let blocks = segment.options.sack();
        let (begin, end) = blocks.first()?;
        let (begin, end) = (self.unwrap(*begin), self.unwrap(*end));
        let within =
            |outer: &(u32, u32)| begin >= self.unwrap(outer.0) && end <= self.unwrap(outer.1);
        let twice = begin < end && (end <= ack || blocks.get(1).is_some_and(within));
        let bytes = end.saturating_sub(begin);
        twice.then(|| bytes.div_ceil(self.mss.max(1).into()).clamp(1, 1 << 16) as u32)
    }

    /// By how much an end's windows are shifted; `None` = its SYN was not captured.
    fn scale(&self, syn: Handshake, of_syn: bool) -> Option<u8> {
        match (of_syn, self.local_syn.seen && self.remote_syn.seen) {
            // The window of a SYN is never scaled.
            (true, _) => Some(0),
            (false, true) => Some(self.wscale()?.map_or(0, |_| syn.wscale.unwrap_or(0))),
            (false, false) => None,
        }
    }

    /// `None` = the handshake was not captured.
    #[allow(clippy::option_option, reason = "as in the attributes")]
    fn wscale(&self) -> Option<Option<Wscale>> {
        let (local, remote) = (self.local_syn, self.remote_syn);
        let both = local.seen && remote.seen;
        both.then(|| {
            Some(Wscale {
                snd: remote.wscale?,
                rcv: local.wscale?,
            })
        })
    }

    fn tell_attributes(&mut self, out: &mut Vec<Payload>) {
        let both = self.local_syn.seen && self.remote_syn.seen;
        let agreed = |of: fn(&Handshake) -> bool, seen: bool| {
            let agreed = both && of(&self.local_syn) && of(&self.remote_syn);
            if both {
                Some(agreed)
            } else {
                seen.then_some(true)
            }
        };
        let attributes = Attributes {
            local: self.local,
            remote: self.remote,
            cc_name: String::new(),
            cc_version: None,
            cc_module: None,
            max_pacing_rate: None,
            cgroup_id: None,
            cgroup: None,
            device: None,
            cwnd_clamp: None,
            notsent_lowat: None,
            pmtu: None,
            mss_clamp: self.remote_syn.mss,
            user_mss: None,
            advmss: self.local_syn.mss,
            rcv_mss: None,
            user_locks: None,
            wscale: self.wscale(),
            sack: agreed(|syn| syn.sack, self.saw_sack),
            timestamps: agreed(|syn| syn.timestamps, self.saw_timestamps),
            ecn: agreed(|syn| syn.ecn, false),
        };
        if self.told.as_ref() != Some(&attributes) {
            out.push(Payload::Attributes(Box::new(attributes.clone())));
            self.told = Some(attributes);
        }
    }

    /// What is known now.
    pub fn sample(&mut self, cause: Cause) -> Sample {
        self.dirty = false;
        let flight = self.flight.as_ref();
        let levels = flight.map(Flight::levels).unwrap_or_default();
        let low = |at: u64| at as u32;
        let new = flight.map(|flight| {
            let end = self.fin.unwrap_or(flight.nxt).min(flight.nxt);
            end.saturating_sub(self.sent_from)
        });
        let received = self.received;
        let totals = self.totals;
        Sample {
            origin: Origin::Capture,
            cause,
            state: self.state,
            ca_state: CaState::UNTOLD,
            cwnd: None,
            ssthresh: None,
            packets_out: levels.packets_out,
            sacked_out: levels.sacked_out,
            lost_out: levels.lost_out,
            retrans_out: levels.retrans_out,
            snd_una: flight.map(|f| low(f.una)),
            snd_nxt: flight.map(|f| low(f.nxt)),
            write_seq: None,
            rcv_nxt: received.map(|(_, at)| low(at)),
            notsent_bytes: None,
            snd_wnd_bytes: self.snd_wnd,
            max_window_bytes: self.max_window,
            rcv_wnd_bytes: self.rcv_wnd,
            rtt_us: self.rtt.latest_us,
            srtt_us: self.rtt.srtt_us(),
            rttvar_us: self.rtt.rttvar_us(),
            min_rtt_us: self.rtt.min_us(),
            rcv_rtt_us: None,
            rto_us: None,
            delivery_rate: flight.and_then(|f| f.rate),
            rate_app_limited: false,
            app_limited: None,
            pacing_rate: None,
            pacing_status: None,
            mss: self.mss,
            delivered: flight.map(|f| f.delivered),
            delivered_ce: None,
            lost_total: None,
            bytes_sent: new.map(|new| new + totals.bytes_retrans),
            bytes_acked: flight.map(|f| f.una.saturating_sub(self.acked_from)),
            bytes_retrans: Some(totals.bytes_retrans),
            bytes_received: received.map(|(begin, at)| at - begin),
            segs_out: Some(totals.segs_out),
            segs_in: Some(totals.segs_in),
            data_segs_out: Some(totals.data_segs_out),
            data_segs_in: Some(totals.data_segs_in),
            retrans: totals.retrans,
            dsack_dups: Some(totals.dsack_dups),
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
}

impl Handshake {
    fn take(&mut self, now: u64, segment: &Segment) {
        let options = &segment.options;
        *self = Self {
            seen: true,
            count: self.count.saturating_add(1),
            at: now,
            isn: segment.seq,
            mss: options.mss,
            wscale: options.wscale,
            sack: options.sack_permitted,
            timestamps: options.timestamps.is_some(),
            ecn: segment.ecn(),
        };
    }
}

/// The 64-bit number next to `near` that ends in `seq`.
fn unwrap(near: u64, seq: u32) -> u64 {
    near.saturating_add_signed(i64::from(seq.wrapping_sub(near as u32) as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unwrapped_across_the_end() {
        let near = (3 << 32) - 5;
        assert_eq!(unwrap(near, 7), (3 << 32) + 7);
        assert_eq!(unwrap(near, u32::MAX - 9), (3 << 32) - 10);
        assert_eq!(unwrap((3 << 32) + 7, u32::MAX), (3 << 32) - 1);
    }
}
