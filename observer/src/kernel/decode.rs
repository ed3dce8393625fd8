//! Wire records → events: what the flows' numbers, totals and attributes say, kept per flow.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
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
    /// As they came, and as they were told.
    attributes: Option<Box<(wire::Attributes, Attributes)>>,
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
    /// Looked up once a record: the hash is to be cheap, and the numbers are the kernel's.
    flows: HashMap<FlowId, Track, RandomState>,
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
            flows: HashMap::default(),
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

    fn sample(
        &mut self,
        header: &Header,
        body: &wire::Body,
        attributes: Option<&wire::Attributes>,
        out: &mut Vec<Event>,
    ) {
        let id = id_of(header);
        let track = self.flows.entry(id).or_default();
        self.holes += track.enter(id, header, out);
        let time = Mono(header.time_ns);
        let closes = header.kind == RecordKind::Close as u8;
        let kept = track.body.as_deref();
        if closes && kept.is_some_and(|kept| is_cleared(body, kept)) {
            // The last figures are those at the change to CLOSE.
            self.flows.remove(&id);
            out.push(event(time, id, Payload::Closed));
            return;
        }
        if let Some(wire) = attributes {
            track.open(id, header, &wire.key, false, out);
            if !track.knows(wire) {
                let told =
                    attributes_of(&self.layout, &mut self.algorithms, &mut self.cgroups, wire);
                track.take_attributes(id, time, wire, told, out);
            }
        }
        track.reconcile(id, header, body.total_retrans, body.bytes_retrans, out);
        match &mut track.body {
            Some(kept) => **kept = *body,
            None => track.body = Some(Box::new(*body)),
        }
        let mut sample = Box::new(convert::sample(&self.layout, self.hz, header, body));
        sample.cc = track.private(&self.layout, body);
        out.push(event(time, id, Payload::Sample(sample)));
        if closes {
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
        let header = &brief.header;
        let id = id_of(header);
        let track = self.flows.entry(id).or_default();
        self.holes += track.enter(id, header, out);
        let time = Mono(header.time_ns);
        let Some(mut body) = track.body.take() else {
            // Of a flow that was given up: without a whole one there is nothing to show.
            self.holes += 1;
            out.push(event(time, id, Payload::Gap(Gap { missing: 1 })));
            return;
        };
        brief.onto(&mut body);
        track.reconcile(id, header, body.total_retrans, body.bytes_retrans, out);
        let mut sample = Box::new(convert::sample(&self.layout, self.hz, header, &body));
        sample.cc = track.private(&self.layout, &body);
        track.body = Some(body);
        out.push(event(time, id, Payload::Sample(sample)));
    }

    fn retransmit(&mut self, r: &wire::Retransmit, out: &mut Vec<Event>) {
        let id = id_of(&r.header);
        let track = self.flows.entry(id).or_default();
        self.holes += track.enter(id, &r.header, out);
        track.open(id, &r.header, &r.key, false, out);
        // What this one does not account for was lost or had no hook.
        let before = (
            r.total_retrans.wrapping_sub(r.segments),
            r.bytes_retrans.wrapping_sub(r.bytes),
        );
        track.reconcile(id, &r.header, before.0, before.1, out);
        track.charged = Some((r.total_retrans, r.bytes_retrans));
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
        let id = id_of(&r.header);
        let track = self.flows.entry(id).or_default();
        self.holes += track.enter(id, &r.header, out);
        let (old, new) = (TcpState::from_kernel(r.old), TcpState::from_kernel(r.new));
        let first = r.header.flags & flags::FIRST != 0;
        let from_start = first && matches!(old, TcpState::SynRecv)
            || matches!((old, new), (TcpState::Close, TcpState::SynSent));
        if from_start {
            // Born before our eyes: all it counts from here is to be charged; SYN-ACKs sent again have been.
            let answered = self.requests.remove(&id).unwrap_or(0);
            track.charged.get_or_insert((answered, 0));
            track.owners.accepted = old == TcpState::SynRecv;
        }
        track.open(id, &r.header, &r.key, from_start, out);
        track.state = r.new;
        let header = Header {
            flags: 0,
            ..r.header
        };
        track.reconcile(id, &header, r.total_retrans, r.bytes_retrans, out);
        let time = Mono(r.header.time_ns);
        if r.pid != 0 {
            let owners = track.owners.told(convert::process(r.pid, &r.comm));
            out.push(event(time, id, Payload::Owners(owners.to_vec())));
        }
        let (local, remote) = convert::endpoints(&r.key);
        let change = StateChange {
            old,
            new,
            local,
            remote,
        };
        out.push(event(time, id, Payload::State(change)));
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
        let id = id_of(&r.header);
        let track = self.flows.entry(id).or_default();
        self.holes += track.enter(id, &r.header, out);
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

impl Track {
    /// Notes holes in the flow's numbers: how many records are missing.
    fn enter(&mut self, id: FlowId, header: &Header, out: &mut Vec<Event>) -> u64 {
        let missing = header.number.saturating_sub(self.next_number);
        if missing > 0 {
            let time = Mono(header.time_ns);
            out.push(event(time, id, Payload::Gap(Gap { missing })));
        }
        self.next_number = header.number + 1;
        self.last_ns = self.last_ns.max(header.time_ns);
        self.state = header.state;
        missing
    }

    fn open(
        &mut self,
        id: FlowId,
        header: &Header,
        key: &FlowKey,
        from_start: bool,
        out: &mut Vec<Event>,
    ) {
        if self.opened {
            return;
        }
        self.opened = true;
        self.key = *key;
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

    /// Whether these attributes were told: what they are called does not change afterwards.
    fn knows(&self, wire: &wire::Attributes) -> bool {
        self.attributes
            .as_deref()
            .is_some_and(|(known, _)| known == wire)
    }

    fn take_attributes(
        &mut self,
        id: FlowId,
        time: Mono,
        wire: &wire::Attributes,
        (new, cc): (Attributes, Option<Arc<CcLayout>>),
        out: &mut Vec<Event>,
    ) {
        self.ca_ops = wire.ca_ops;
        self.cc = cc;
        match &mut self.attributes {
            Some(known) if known.1 == new => known.0 = *wire,
            _ => {
                self.attributes = Some(Box::new((*wire, new.clone())));
                out.push(event(time, id, Payload::Attributes(Box::new(new))));
            }
        }
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
        let born = header.flags & flags::FIRST != 0;
        let (charged_total, charged_bytes) = *self.charged.get_or_insert((total, bytes));
        let (segments, rose) = (
            total.wrapping_sub(charged_total),
            bytes.wrapping_sub(charged_bytes),
        );
        // A total that fell back (a socket used anew after disconnect) starts a new count.
        self.charged = Some((total, bytes));
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

    /// The algorithm's private words, only while the ops pointer is the one whose name and home are known (TRAPS 34).
    fn private(&self, layout: &Layout, body: &wire::Body) -> Option<CcState> {
        if !layout.has(Field::CaPriv) || self.ca_ops != body.ca_ops || body.ca_ops == 0 {
            return None;
        }
        self.cc.as_ref()?.decode(&body.ca_priv, body.mss_cache)
    }
}

/// With the algorithm's version and the cgroup's path; and the layout of the algorithm's words.
fn attributes_of(
    layout: &Layout,
    algorithms: &mut CcLayouts,
    cgroups: &mut Cgroups,
    wire: &wire::Attributes,
) -> (Attributes, Option<Arc<CcLayout>>) {
    let mut told = convert::attributes(layout, wire);
    let module = told.cc_module.as_deref();
    let cc = algorithms.layout(wire.ca_ops, &told.cc_name, module).ok();
    let version = cc.as_ref().and_then(|layout| layout.version().as_str());
    told.cc_version = version.map(str::to_owned);
    let path = told.cgroup_id.and_then(|id| cgroups.path(id));
    told.cgroup = path.map(str::to_owned);
    (told, cc)
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
