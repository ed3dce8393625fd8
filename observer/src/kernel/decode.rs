//! Wire records → events: what the flows' numbers, totals and attributes say, kept per flow.

use std::collections::HashMap;
use std::sync::Arc;

use observer_common::flow::FlowKey;
use observer_common::layout::{Field, Layout};
use observer_common::wire::{self, Header, RecordKind, flags};

use super::congestion::{CcLayout, CcLayouts};
use super::convert;
use super::owners::{End, Owners, Walk};
use super::record::Record;
use crate::event::{
    Attributes, CaState, CaStateChange, CcState, Event, FlowId, Gap, Note, NoteKind, Opened,
    Payload, Retransmit, RetransmitKind, StateChange, TcpState,
};
use crate::host::cgroup::Cgroups;
use crate::units::{Limit, Mono};

/// What is remembered of a flow between records.
#[derive(Debug, Default)]
struct Track {
    next_number: u64,
    opened: bool,
    last_ns: u64,
    state: u8,
    /// `total_retrans` and `bytes_retrans` up to the last record: what has been charged.
    charged: Option<(u32, u64)>,
    /// The newest whole sample's, brought up to the newest brief.
    body: Option<Box<wire::Body>>,
    ca_ops: u64,
    /// Layout of the private words, while `ca_ops` owns the socket.
    cc: Option<Arc<CcLayout>>,
    attributes: Option<Box<Attributes>>,
    key: FlowKey,
    owners: Owners,
}

/// SYN-ACKs sent again for requests that are no sockets yet; forgotten when there are too many (a SYN flood).
const MAX_REQUESTS: usize = 65_536;

/// Turns records into events. One per source; records must come in the order of their time.
pub struct Decoder {
    layout: Layout,
    hz: u32,
    algorithms: CcLayouts,
    cgroups: Cgroups,
    flows: HashMap<FlowId, Track>,
    listeners: HashMap<FlowId, u64>,
    requests: HashMap<FlowId, u32>,
    holes: u64,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder")
            .field("flows", &self.flows.len())
            .field("holes", &self.holes)
            .finish_non_exhaustive()
    }
}

impl Decoder {
    pub fn new(layout: Layout, hz: u32, algorithms: CcLayouts, cgroups: Cgroups) -> Self {
        Self {
            layout,
            hz: hz.max(1),
            algorithms,
            cgroups,
            flows: HashMap::new(),
            listeners: HashMap::new(),
            requests: HashMap::new(),
            holes: 0,
        }
    }

    /// Records missing from the flows' numbers so far.
    pub fn holes(&self) -> u64 {
        self.holes
    }

    /// Flows alive.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Decodes one record.
    pub fn decode(&mut self, record: &Record, out: &mut Vec<Event>) {
        match record {
            Record::Sample(r) => self.sample(&r.header, &r.body, None, out),
            Record::Brief(r) => self.brief(r, out),
            Record::Full(r) if r.header.kind == RecordKind::Ended as u8 => self.ended(r, out),
            Record::Full(r) => self.sample(&r.header, &r.body, Some(&r.attributes), out),
            Record::Retransmit(r) => self.retransmit(r, out),
            Record::State(r) => self.state(r, out),
            Record::SynAck(r) => self.synack(r, out),
            Record::CongState(r) => self.cong_state(r, out),
        }
    }

    /// Gives up the flows that a complete sweep begun at `begun_ns` did not list and that sent no record since:
    /// their last record was lost. A closed socket that is still held is in no table, so it may stay.
    pub fn reap(&mut self, begun_ns: u64, out: &mut Vec<Event>) {
        const CLOSE: u8 = 7;
        let gone: Vec<FlowId> = self
            .flows
            .iter()
            .filter(|(_, track)| track.last_ns < begun_ns && track.state != CLOSE)
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            self.flows.remove(&id);
            self.holes += 1;
            let time = Mono(begun_ns);
            out.push(event(time, id, Payload::Gap(Gap { missing: 1 })));
            out.push(event(time, id, Payload::Closed));
        }
    }

    /// Whether there are flows whose owner is to be looked for now.
    pub fn wants_owners(&self, now: Mono) -> bool {
        self.flows.values().any(|track| track.owners.wanted(now))
    }

    /// Takes in a walk over all tasks' files.
    pub fn owners(&mut self, now: Mono, walk: &Walk, out: &mut Vec<Event>) {
        for (id, track) in &mut self.flows {
            let Track {
                owners, key, state, ..
            } = track;
            let end = End {
                id,
                key,
                state: *state,
            };
            if let Some(owners) = owners.walked(now, end, walk) {
                out.push(event(now, *id, Payload::Owners(owners.to_vec())));
            }
        }
    }

    /// Looks the flow up, notes holes in its numbers, and says whether it is new.
    fn enter(&mut self, header: &Header, out: &mut Vec<Event>) -> FlowId {
        let id = id_of(header);
        let track = self.flows.entry(id).or_default();
        let missing = header.number.saturating_sub(track.next_number);
        if missing > 0 {
            self.holes += missing;
            out.push(event(
                Mono(header.time_ns),
                id,
                Payload::Gap(Gap { missing }),
            ));
        }
        track.next_number = header.number + 1;
        track.last_ns = track.last_ns.max(header.time_ns);
        track.state = header.state;
        id
    }

    fn open(
        &mut self,
        id: FlowId,
        header: &Header,
        key: &FlowKey,
        from_start: bool,
        out: &mut Vec<Event>,
    ) {
        let Some(track) = self.flows.get_mut(&id) else {
            return;
        };
        if track.opened {
            return;
        }
        track.opened = true;
        track.key = *key;
        let (local, remote) = convert::endpoints(key);
        out.push(event(
            Mono(header.time_ns),
            id,
            Payload::Opened(Opened {
                from_start,
                state: TcpState::from_kernel(header.state),
                local,
                remote,
            }),
        ));
    }

    /// Charges what the totals rose beyond what events told (TRAPS 3): retransmissions without a hook, or whose
    /// record was lost.
    fn reconcile(
        &mut self,
        id: FlowId,
        header: &Header,
        total: u32,
        bytes: u64,
        out: &mut Vec<Event>,
    ) {
        let Some(track) = self.flows.get_mut(&id) else {
            return;
        };
        let born = header.flags & flags::FIRST != 0;
        let (charged_total, charged_bytes) = *track.charged.get_or_insert((total, bytes));
        let (segments, rose) = (
            total.wrapping_sub(charged_total),
            bytes.wrapping_sub(charged_bytes),
        );
        // A total that fell back (a socket used anew after disconnect) starts a new count.
        track.charged = Some((total, bytes));
        if born || total < charged_total || bytes < charged_bytes || (segments == 0 && rose == 0) {
            return;
        }
        out.push(event(
            Mono(header.time_ns),
            id,
            Payload::Retransmit(Retransmit {
                seq: None,
                end_seq: None,
                bytes: rose,
                segments,
                kind: RetransmitKind::Other,
                ca_state: CaState::from_kernel(header.ca_state),
                failed: false,
                rtt_us: None,
                min_rtt_us: None,
                cwnd: None,
            }),
        ));
    }

    fn sample(
        &mut self,
        header: &Header,
        body: &wire::Body,
        attributes: Option<&wire::Attributes>,
        out: &mut Vec<Event>,
    ) {
        let id = self.enter(header, out);
        let time = Mono(header.time_ns);
        let kept = self.flows.get(&id).and_then(|track| track.body.as_deref());
        if header.kind == RecordKind::Close as u8 && kept.is_some_and(|kept| is_cleared(body, kept))
        {
            // The last figures are those at the change to CLOSE.
            self.flows.remove(&id);
            out.push(event(time, id, Payload::Closed));
            return;
        }
        if let Some(wire) = attributes {
            self.open(id, header, &wire.key, false, out);
            let mut attributes = convert::attributes(&self.layout, wire);
            let cc = self
                .algorithms
                .layout(
                    wire.ca_ops,
                    &attributes.cc_name,
                    attributes.cc_module.as_deref(),
                )
                .ok();
            attributes.cc_version = cc
                .as_ref()
                .and_then(|layout| layout.version().as_str())
                .map(str::to_owned);
            attributes.cgroup = attributes
                .cgroup_id
                .and_then(|id| self.cgroups.path(id))
                .map(str::to_owned);
            if let Some(track) = self.flows.get_mut(&id) {
                track.ca_ops = wire.ca_ops;
                track.cc = cc;
                if track.attributes.as_deref() != Some(&attributes) {
                    track.attributes = Some(Box::new(attributes.clone()));
                    out.push(event(time, id, Payload::Attributes(Box::new(attributes))));
                }
            }
        }
        self.reconcile(id, header, body.total_retrans, body.bytes_retrans, out);
        if let Some(track) = self.flows.get_mut(&id) {
            match &mut track.body {
                Some(kept) => **kept = *body,
                None => track.body = Some(Box::new(*body)),
            }
        }
        let mut sample = convert::sample(&self.layout, self.hz, header, body);
        sample.cc = self.private(id, body);
        out.push(event(time, id, Payload::Sample(Box::new(sample))));
        if header.kind == RecordKind::Close as u8 {
            self.flows.remove(&id);
            out.push(event(time, id, Payload::Closed));
        }
    }

    /// The change to CLOSE, with the figures up to it.
    fn ended(&mut self, r: &wire::Full, out: &mut Vec<Event>) {
        const CLOSE: u8 = 7;
        self.sample(&r.header, &r.body, Some(&r.attributes), out);
        let id = id_of(&r.header);
        if let Some(track) = self.flows.get_mut(&id) {
            track.state = CLOSE;
        }
        let (local, remote) = convert::endpoints(&r.attributes.key);
        let change = StateChange {
            old: TcpState::from_kernel(r.header.state),
            new: TcpState::Close,
            local,
            remote,
        };
        out.push(event(Mono(r.header.time_ns), id, Payload::State(change)));
    }

    /// A sample between two whole ones: the last whole one, with what has moved since.
    fn brief(&mut self, brief: &wire::Brief, out: &mut Vec<Event>) {
        let id = self.enter(&brief.header, out);
        let time = Mono(brief.header.time_ns);
        let Some(body) = self.flows.get_mut(&id).and_then(|track| {
            let body = track.body.as_deref_mut()?;
            brief.onto(body);
            Some(*body)
        }) else {
            // Of a flow that was given up: without a whole one there is nothing to show.
            self.holes += 1;
            out.push(event(time, id, Payload::Gap(Gap { missing: 1 })));
            return;
        };
        self.reconcile(
            id,
            &brief.header,
            body.total_retrans,
            body.bytes_retrans,
            out,
        );
        let mut sample = convert::sample(&self.layout, self.hz, &brief.header, &body);
        sample.cc = self.private(id, &body);
        out.push(event(time, id, Payload::Sample(Box::new(sample))));
    }

    /// The algorithm's private words, only while the ops pointer is the one whose name and home are known (TRAPS 34).
    fn private(&mut self, id: FlowId, body: &wire::Body) -> Option<CcState> {
        if !self.layout.has(Field::CaPriv) {
            return None;
        }
        let track = self.flows.get(&id)?;
        if track.ca_ops != body.ca_ops || body.ca_ops == 0 {
            return None;
        }
        track.cc.as_ref()?.decode(&body.ca_priv, body.mss_cache)
    }

    fn retransmit(&mut self, r: &wire::Retransmit, out: &mut Vec<Event>) {
        let id = self.enter(&r.header, out);
        self.open(id, &r.header, &r.key, false, out);
        // What this one does not account for was lost or had no hook.
        let before = (
            r.total_retrans.wrapping_sub(r.segments),
            r.bytes_retrans.wrapping_sub(r.bytes),
        );
        self.reconcile(id, &r.header, before.0, before.1, out);
        if let Some(track) = self.flows.get_mut(&id) {
            track.charged = Some((r.total_retrans, r.bytes_retrans));
        }
        let time = Mono(r.header.time_ns);
        let has_err = r.header.flags & flags::HAS_ERR != 0;
        if r.segments == 0 {
            let why = if has_err {
                format!("err {}", r.err)
            } else {
                "no error told".to_owned()
            };
            let text = format!(
                "retransmission attempt not counted by the kernel: seq {} ({} bytes), {why}",
                r.seq, r.skb_len
            );
            let kind = NoteKind::Attempt;
            out.push(event(time, id, Payload::Note(Note { kind, text })));
            return;
        }
        out.push(event(
            time,
            id,
            Payload::Retransmit(Retransmit {
                seq: Some(r.seq),
                end_seq: Some(r.end_seq),
                bytes: r.bytes,
                segments: r.segments,
                kind: convert::kind(r.kind),
                ca_state: CaState::from_kernel(r.header.ca_state),
                failed: has_err && r.err != 0,
                rtt_us: convert::rtt(r.rack_rtt_us).or_else(|| convert::rtt(r.srtt_us8 >> 3)),
                min_rtt_us: convert::min_rtt(r.min_rtt_us),
                cwnd: Some(r.cwnd),
            }),
        ));
    }

    fn state(&mut self, r: &wire::State, out: &mut Vec<Event>) {
        let id = self.enter(&r.header, out);
        let (old, new) = (TcpState::from_kernel(r.old), TcpState::from_kernel(r.new));
        let first = r.header.flags & flags::FIRST != 0;
        let from_start = first && matches!(old, TcpState::SynRecv)
            || matches!((old, new), (TcpState::Close, TcpState::SynSent));
        if from_start && let Some(track) = self.flows.get_mut(&id) {
            // Born before our eyes: all it counts from here is to be charged; SYN-ACKs sent again have been.
            let answered = self.requests.remove(&id).unwrap_or(0);
            track.charged.get_or_insert((answered, 0));
            track.owners.accepted = old == TcpState::SynRecv;
        }
        self.open(id, &r.header, &r.key, from_start, out);
        if let Some(track) = self.flows.get_mut(&id) {
            track.state = r.new;
        }
        let header = Header {
            flags: 0,
            ..r.header
        };
        self.reconcile(id, &header, r.total_retrans, r.bytes_retrans, out);
        if r.pid != 0
            && let Some(track) = self.flows.get_mut(&id)
        {
            let owners = track.owners.told(convert::process(r.pid, &r.comm));
            out.push(event(
                Mono(r.header.time_ns),
                id,
                Payload::Owners(owners.to_vec()),
            ));
        }
        let (local, remote) = convert::endpoints(&r.key);
        out.push(event(
            Mono(r.header.time_ns),
            id,
            Payload::State(StateChange {
                old,
                new,
                local,
                remote,
            }),
        ));
    }

    fn synack(&mut self, r: &wire::SynAck, out: &mut Vec<Event>) {
        let id = id_of(&r.header);
        let listener = FlowId {
            cookie: r.listener,
            netns: r.header.netns,
        };
        let next = self.listeners.entry(listener).or_default();
        let missing = r.header.number.saturating_sub(*next);
        *next = r.header.number + 1;
        let time = Mono(r.header.time_ns);
        if missing > 0 {
            self.holes += missing;
            out.push(event(time, listener, Payload::Gap(Gap { missing })));
        }
        if self.requests.len() >= MAX_REQUESTS {
            self.requests.clear();
        }
        *self.requests.entry(id).or_default() += 1;
        out.push(event(
            time,
            id,
            Payload::Retransmit(Retransmit {
                seq: None,
                end_seq: None,
                bytes: 0,
                segments: 1,
                kind: RetransmitKind::Synack,
                ca_state: CaState::Open,
                failed: false,
                rtt_us: None,
                min_rtt_us: None,
                cwnd: None,
            }),
        ));
    }

    fn cong_state(&mut self, r: &wire::CongState, out: &mut Vec<Event>) {
        let id = self.enter(&r.header, out);
        out.push(event(
            Mono(r.header.time_ns),
            id,
            Payload::CaState(CaStateChange {
                old: CaState::from_kernel(r.header.ca_state),
                new: CaState::from_kernel(r.new),
                cwnd: r.cwnd,
                ssthresh: Limit::from_ssthresh(r.ssthresh),
                lost_out: r.lost_out,
            }),
        ));
    }
}

/// Whether `tcp_disconnect` has cleared a socket's counters since `kept`.
fn is_cleared(body: &wire::Body, kept: &wire::Body) -> bool {
    body.bytes_sent < kept.bytes_sent
        || body.bytes_acked < kept.bytes_acked
        || body.bytes_received < kept.bytes_received
}

fn id_of(header: &Header) -> FlowId {
    FlowId {
        cookie: header.cookie,
        netns: header.netns,
    }
}

fn event(time: Mono, flow: FlowId, payload: Payload) -> Event {
    Event {
        time,
        flow: Some(flow),
        payload,
    }
}
