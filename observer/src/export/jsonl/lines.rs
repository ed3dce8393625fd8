//! Lines of events: which keys an event fills.

use serde::Serialize;

use super::cc::CcKeys;
use super::flow::{AttributeKeys, FlowKeys, object, processes};
use super::keys::{
    AttributeLine, Body, BurstKeys, CostKeys, DeviceKeys, EventKeys, HostKeys, Line, ProgramKeys,
    Rest, RetransmitKeys, SampleLine,
};
use super::options::PlacedQdisc;
use super::place::PlaceKeys;
use super::sample::SampleKeys;
use super::verdict::ChangeKeys;
use super::{Bound, Context, Head, Kinds, QdiscKeys, source};
use crate::event::{
    Attributes, Counters, Device, DeviceId, Elsewhere, Event, Host, NoteKind, Payload,
    ProgramCounters, Retransmit, SubPhase, retransmit_kind,
};
use crate::model::{Burst, Derived, DerivedKind, Model, PhaseChange};

/// The line of `event`; `model` has folded it already. Ticks give none.
pub fn event_line<'a>(
    event: &'a Event,
    model: &'a Model,
    context: &'a Context,
) -> Option<Line<'a>> {
    let flow = event.flow.and_then(|id| model.flow(id));
    if let (Payload::Closed, Some(flow)) = (&event.payload, flow) {
        let object = object("closed", model, flow, context);
        return Some(Line(Body::Closed(Box::new(object))));
    }
    let attributes = flow.and_then(|f| f.attributes());
    let (r#type, rest) = match &event.payload {
        Payload::Tick => return None,
        Payload::Closed => ("closed", gone_note()),
        Payload::Opened(o) => (
            "opened",
            Rest::Opened {
                from_start: o.from_start,
                state: o.state.as_str(),
            },
        ),
        Payload::Sample(s) => (
            "sample",
            Rest::Sample(Box::new(SampleLine {
                source: source(Some(s.origin)),
                state: s.state.as_str(),
                cc: CcKeys::of(attributes, Some(s)),
                keys: SampleKeys::from(&**s),
            })),
        ),
        Payload::Retransmit(r) => ("retransmit", Rest::Retransmit(retransmit(r))),
        Payload::State(s) => ("state", state("tcp", s.old.as_str(), s.new.as_str())),
        Payload::CaState(c) => (
            "state",
            Rest::CaState {
                of: "ca",
                old: c.old.as_str(),
                new: c.new.as_str(),
                cwnd: c.cwnd,
                ssthresh: Bound(c.ssthresh),
                lost: c.lost_out,
            },
        ),
        Payload::Attributes(a) => ("note", attribute_note(a, model)),
        Payload::Owners(owners) => (
            "note",
            Rest::Owners {
                kind: "owners",
                processes: processes(owners),
            },
        ),
        Payload::Host(h) => ("host", Rest::Host { host: host(h) }),
        Payload::Device(d) => ("qdisc", Rest::Qdisc(device(d))),
        Payload::DeviceGone(id) => ("qdisc", device_gone(*id)),
        Payload::Elsewhere(e) => ("note", elsewhere(*e)),
        Payload::Gap(g) => ("gap", Rest::Gap { missing: g.missing }),
        Payload::Counters(c) => ("note", counters(c)),
        Payload::Note(n) => (
            "note",
            Rest::Note {
                kind: note_kind(n.kind),
                text: &n.text,
            },
        ),
    };
    Some(Line(Body::Event(Box::new(EventKeys {
        head: Head::new(r#type, event.time, context),
        flow: event.flow.map(|id| FlowKeys::of(id, flow, context)),
        rest,
    }))))
}

/// The line of a derived event.
pub fn derived_line<'a>(derived: &Derived, model: &'a Model, context: &'a Context) -> Line<'a> {
    let (r#type, rest) = match &derived.kind {
        DerivedKind::Origin(change) => (
            "note",
            Rest::Source {
                kind: "source",
                source: change.new.as_str(),
                old_source: change.old.as_str(),
            },
        ),
        DerivedKind::Phase(change) => ("phase", phase(derived, change)),
        DerivedKind::Burst(b) => ("burst", Rest::Burst(burst(b, context))),
        DerivedKind::Verdict(judgement) => {
            let flow = model.flow(derived.flow);
            let device = flow.and_then(|flow| model.device_of(flow));
            let device = device.map(|device| device.name.as_str());
            let keys = ChangeKeys::of(judgement, device, context);
            ("verdict", Rest::Verdict(Box::new(keys)))
        }
    };
    Line(Body::Event(Box::new(EventKeys {
        head: Head::new(r#type, derived.time, context),
        flow: Some(FlowKeys::of(
            derived.flow,
            model.flow(derived.flow),
            context,
        )),
        rest,
    })))
}

fn phase(derived: &Derived, change: &PhaseChange) -> Rest<'static> {
    Rest::Phase {
        phase: change.new.0.as_str(),
        sub_phase: change.new.1.map(SubPhase::as_str),
        old_phase: change.old.0.as_str(),
        old_sub_phase: change.old.1.map(SubPhase::as_str),
        lasted_us: derived.time.since(change.since) / 1000,
    }
}

/// A flow that closed without ever having been in view has no figures.
fn gone_note() -> Rest<'static> {
    Rest::Note {
        kind: note_kind(NoteKind::Info),
        text: "not in view",
    }
}

fn state(of: &'static str, old: &'static str, new: &'static str) -> Rest<'static> {
    Rest::State { of, old, new }
}

fn retransmit(r: &Retransmit) -> RetransmitKeys {
    RetransmitKeys {
        seq: r.seq,
        end_seq: r.end_seq,
        bytes: r.bytes,
        segments: r.segments,
        kind: retransmit_kind(r.kind),
        ca_state: r.ca_state.known(),
        failed: r.failed,
        rtt_us: r.rtt_us,
        min_rtt_us: r.min_rtt_us,
        cwnd: r.cwnd,
    }
}

fn burst(b: &Burst, context: &Context) -> BurstKeys {
    BurstKeys {
        start: context.time(b.start),
        start_mono_ns: b.start.0,
        end: context.time(b.end),
        end_mono_ns: b.end.0,
        segments: b.sums.segments,
        bytes: b.sums.bytes,
        by_kind: Kinds(b.sums),
        failed: b.sums.failed,
        rtt_above_min_us: b.rtt_above_min_us,
    }
}

fn elsewhere(elsewhere: Elsewhere) -> Rest<'static> {
    Rest::Elsewhere {
        kind: "elsewhere",
        namespaces: elsewhere.namespaces,
        flows: elsewhere.flows,
        denied: elsewhere.denied,
    }
}

fn attribute_note<'a>(attributes: &'a Attributes, model: &'a Model) -> Rest<'a> {
    let device = attributes.device.and_then(|id| model.device(id));
    Rest::Attributes(Box::new(AttributeLine {
        kind: "attributes",
        cc: CcKeys::of(Some(attributes), None),
        dev: device.map(|d| d.name.as_str()),
        cgroup: attributes.cgroup.as_deref(),
        place: PlaceKeys::of(attributes.cgroup.as_deref()),
        keys: AttributeKeys::from(attributes),
    }))
}

fn device(device: &Device) -> DeviceKeys<'_> {
    DeviceKeys {
        netns: device.id.netns,
        ifindex: device.id.ifindex,
        dev: &device.name,
        mtu: device.mtu,
        up: device.up,
        dev_kind: device.kind.as_deref(),
        tx_queues: device.tx_queues,
        offloads: device.offloads.map(|o| o.named().into()),
        qdisc: device.egress().map(QdiscKeys::from),
        qdiscs: device.qdiscs.iter().map(PlacedQdisc::from).collect(),
    }
}

/// The `host` object of a `host` line.
pub fn host_object(host: &Host) -> impl Serialize {
    self::host(host)
}

/// The keys of a device as `qdisc` lines have them.
pub fn device_object(device: &Device) -> impl Serialize {
    self::device(device)
}

fn device_gone(id: DeviceId) -> Rest<'static> {
    Rest::DeviceGone {
        netns: id.netns,
        ifindex: id.ifindex,
        dev: None,
        gone: true,
    }
}

fn host(h: &Host) -> HostKeys<'_> {
    HostKeys {
        hostname: &h.hostname,
        kernel: &h.kernel,
        netns: h.netns,
        hz: h.hz,
        cpus: h.cpus,
        default_qdisc: h.default_qdisc.as_deref(),
        default_cc: h.default_cc.as_deref(),
        available_cc: &h.available_cc,
        sysctls: &h.sysctls,
    }
}

fn counters(counters: &Counters) -> Rest<'_> {
    Rest::Counters {
        kind: "counters",
        lost: counters.lost(),
        cost: counters.cost.map(|cost| CostKeys {
            user: f64::from(cost.user_ppm) / 1e6,
            kernel: f64::from(cost.kernel_ppm) / 1e6,
            interval_us: cost.interval_ns / 1000,
            close_interval_us: cost.close_ns / 1000,
            stretched: cost.stretched,
        }),
        programs: counters.programs.iter().map(program).collect(),
    }
}

fn program(p: &ProgramCounters) -> ProgramKeys<'_> {
    ProgramKeys {
        program: &p.program,
        attempted: p.attempted,
        kept: p.kept,
        suppressed: p.suppressed,
        filtered: p.filtered,
        failed: p.failed,
        dropped: p.dropped,
        missed: p.missed,
        run_time_ns: p.run_time_ns,
    }
}

fn note_kind(kind: NoteKind) -> &'static str {
    match kind {
        NoteKind::Attempt => "attempt",
        NoteKind::Degraded => "degraded",
        NoteKind::Info => "info",
    }
}
