//! Events other than samples ↔ messages.

mod flow;
mod host;

use prost::Message;

use super::channel::Channel;
use super::proto;
use super::quantity::{from_number, to_number};
use crate::event::{Event, FlowId, Gap, Note, Payload};
use crate::units::Mono;

/// Appends the message of `event`; its channel. `None` = a sample: those are packed.
pub fn encode(event: &Event, out: &mut Vec<u8>) -> Option<Channel> {
    let flow = event.flow.map(flow::id);
    let channel = match &event.payload {
        Payload::Sample(_) => return None,
        Payload::Opened(o) => put(Channel::Opened, &flow::opened(flow, o), out),
        Payload::Attributes(a) => put(Channel::Attributes, &flow::attributes(flow, a), out),
        Payload::Retransmit(r) => put(Channel::Retransmit, &flow::retransmit(flow, r), out),
        Payload::State(s) => put(Channel::State, &flow::state(flow, s), out),
        Payload::CaState(c) => put(Channel::CaState, &flow::ca_state(flow, c), out),
        Payload::Closed => put(Channel::Closed, &proto::Closed { flow }, out),
        Payload::Owners(o) => put(Channel::Owners, &flow::owners(flow, o), out),
        Payload::Host(h) => put(Channel::Host, &host::host(h), out),
        Payload::Device(d) => put(Channel::Device, &host::device(d), out),
        Payload::DeviceGone(id) => {
            let id = Some(host::device_id(*id));
            put(Channel::DeviceGone, &proto::DeviceGone { id }, out)
        }
        Payload::Elsewhere(e) => put(Channel::Elsewhere, &host::elsewhere(*e), out),
        Payload::Gap(gap) => {
            let missing = gap.missing;
            put(Channel::Gap, &proto::Gap { flow, missing }, out)
        }
        Payload::Counters(c) => put(Channel::Counters, &host::counters(c), out),
        Payload::Tick => put(Channel::Tick, &proto::Tick { flow }, out),
        Payload::Note(n) => {
            let note = proto::Note {
                flow,
                kind: to_number(n.kind),
                text: n.text.clone(),
            };
            put(Channel::Note, &note, out)
        }
    };
    Some(channel)
}

fn put(channel: Channel, message: &impl Message, out: &mut Vec<u8>) -> Channel {
    out.reserve(message.encoded_len());
    // A vector has room for what fits into memory.
    let _ = message.encode(out);
    channel
}

/// The event of a message. `None` = damaged, or of a version with values unknown here.
pub fn decode(channel: Channel, time: Mono, bytes: &[u8]) -> Option<Event> {
    let event = |flow: Option<proto::Flow>, payload: Payload| Event {
        time,
        flow: flow.map(|flow| FlowId {
            cookie: flow.cookie,
            netns: flow.netns,
        }),
        payload,
    };
    Some(match channel {
        Channel::Samples => return None,
        Channel::Opened => {
            let m: proto::Opened = get(bytes)?;
            event(m.flow, Payload::Opened(flow::from_opened(&m)?))
        }
        Channel::Attributes => {
            let m: proto::Attributes = get(bytes)?;
            event(
                m.flow,
                Payload::Attributes(Box::new(flow::from_attributes(m)?)),
            )
        }
        Channel::Retransmit => {
            let m: proto::Retransmit = get(bytes)?;
            event(m.flow, Payload::Retransmit(flow::from_retransmit(&m)?))
        }
        Channel::State => {
            let m: proto::StateChange = get(bytes)?;
            event(m.flow, Payload::State(flow::from_state(&m)?))
        }
        Channel::CaState => {
            let m: proto::CaStateChange = get(bytes)?;
            event(m.flow, Payload::CaState(flow::from_ca_state(&m)?))
        }
        Channel::Closed => event(get::<proto::Closed>(bytes)?.flow, Payload::Closed),
        Channel::Owners => {
            let m: proto::Owners = get(bytes)?;
            event(m.flow, Payload::Owners(flow::from_owners(m.processes)))
        }
        Channel::Tick => event(get::<proto::Tick>(bytes)?.flow, Payload::Tick),
        Channel::Gap => {
            let m: proto::Gap = get(bytes)?;
            let missing = m.missing;
            event(m.flow, Payload::Gap(Gap { missing }))
        }
        Channel::Note => {
            let m: proto::Note = get(bytes)?;
            let kind = from_number(m.kind)?;
            let text = m.text;
            event(m.flow, Payload::Note(Note { kind, text }))
        }
        Channel::Host => event(None, Payload::Host(Box::new(host::from_host(get(bytes)?)))),
        Channel::Device => event(
            None,
            Payload::Device(Box::new(host::from_device(get(bytes)?)?)),
        ),
        Channel::DeviceGone => {
            let id = host::from_device_id(get::<proto::DeviceGone>(bytes)?.id?);
            event(None, Payload::DeviceGone(id))
        }
        Channel::Elsewhere => event(None, Payload::Elsewhere(host::from_elsewhere(&get(bytes)?))),
        Channel::Counters => event(
            None,
            Payload::Counters(Box::new(host::from_counters(get(bytes)?))),
        ),
    })
}

fn get<M: Message + Default>(bytes: &[u8]) -> Option<M> {
    M::decode(bytes).ok()
}
