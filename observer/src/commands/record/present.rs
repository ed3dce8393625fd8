//! What is known now, as the events that tell it to somebody who has just come.

use crate::event::{Counters, Event, Opened, Payload, ProgramCounters};
use crate::model::{Flow, Model};

/// The host, its devices, what does not work, and every open flow; the flows' figures are for a look at all sockets to
/// bring. `counters`: those to count from.
pub fn events(model: &Model, counters: Option<&Counters>) -> Vec<Event> {
    let now = model.now();
    let of_host = |payload| Event {
        time: now,
        flow: None,
        payload,
    };
    let mut events = Vec::new();
    let home = model.host();
    // The one told first is where the observer runs.
    let others = model.hosts().values().filter(|host| home != Some(*host));
    for host in home.into_iter().chain(others) {
        events.push(of_host(Payload::Host(Box::new(host.clone()))));
    }
    for device in model.devices() {
        events.push(of_host(Payload::Device(Box::new(device.clone()))));
    }
    events.extend(model.elsewhere().map(Payload::Elsewhere).map(of_host));
    if let Some(counters) = counters {
        let begun = since(counters, Some(counters));
        events.push(of_host(Payload::Counters(Box::new(begun))));
    }
    for noted in model.degraded() {
        events.push(of_host(Payload::Note(noted.note.clone())));
    }
    for flow in model.flows().filter(|flow| !flow.is_closed()) {
        events.extend(of_flow(flow).map(|payload| Event {
            time: now,
            flow: Some(flow.id()),
            payload,
        }));
    }
    events
}

/// A flow that was there before.
fn of_flow(flow: &Flow) -> impl Iterator<Item = Payload> {
    let opened = Payload::Opened(Opened {
        from_start: false,
        state: flow.state(),
        local: flow.local(),
        remote: flow.remote(),
    });
    let attributes = flow.attributes().cloned().map(Box::new);
    let owners = flow.owners().map(<[_]>::to_vec);
    [
        Some(opened),
        attributes.map(Payload::Attributes),
        owners.map(Payload::Owners),
    ]
    .into_iter()
    .flatten()
}

/// What was counted since `base`.
pub fn since(counters: &Counters, base: Option<&Counters>) -> Counters {
    let base_of = |program: &str| {
        let mut programs = base.into_iter().flat_map(|base| &base.programs);
        programs.find(|old| old.program == program)
    };
    let programs = counters.programs.iter().map(|now| {
        let Some(old) = base_of(&now.program) else {
            return now.clone();
        };
        ProgramCounters {
            program: now.program.clone(),
            attempted: now.attempted.saturating_sub(old.attempted),
            kept: now.kept.saturating_sub(old.kept),
            suppressed: now.suppressed.saturating_sub(old.suppressed),
            filtered: now.filtered.saturating_sub(old.filtered),
            failed: now.failed.saturating_sub(old.failed),
            dropped: now.dropped.saturating_sub(old.dropped),
            missed: now.missed.saturating_sub(old.missed),
            run_time_ns: now
                .run_time_ns
                .map(|ns| ns.saturating_sub(old.run_time_ns.unwrap_or(0))),
        }
    });
    Counters {
        programs: programs.collect(),
        cost: counters.cost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::script;

    #[test]
    fn what_was_known_is_told_again() {
        let text = "@1s host hostname=lab kernel=6.18\n+0 device index=2 name=eth0\n\
             +0 opened 7 birth=yes local=10.0.0.1:1 remote=10.0.0.2:2\n+0 attributes 7 cc=bbr version=v1 dev=2\n\
             +0 owners 7 7/curl\n+0 opened 8\n+0 note kind=degraded \"no hook\"\n\
             +0 counters program=on_probe kept=5 dropped=2\n+1s closed 8\n+1s tick";
        let mut model = Model::default();
        for event in script::parse(text).unwrap() {
            model.apply(&event);
        }
        let told = events(&model, model.counters());
        assert!(matches!(told[0].payload, Payload::Host(_)));
        let mut anew = Model::default();
        for event in &told {
            assert_eq!(event.time, model.now());
            anew.apply(event);
        }
        assert_eq!(anew.odd(), 0);
        assert_eq!(anew.host(), model.host());
        assert_eq!((model.lost(), anew.lost()), (2, 0));
        assert_eq!(anew.degraded().len(), 1);
        let flows: Vec<_> = anew.flows().collect();
        assert_eq!(flows.len(), 1);
        let old = model.flow(flows[0].id()).unwrap();
        assert_eq!(flows[0].attributes(), old.attributes());
        assert_eq!(flows[0].owners(), old.owners());
        assert!(!flows[0].from_start(), "its birth is not in the recording");
    }
}
