//! What has to be told again where a reader begins anew: the host, its devices, and every open flow as last known. The
//! files of a rotated recording begin so, and so does a flow that is only found wanted after it was born.

use std::collections::{BTreeMap, HashMap};

use crate::event::{DeviceId, Event, FlowId, NoteKind, Payload};

/// Degraded notes kept: each is said once, so there are few.
const MAX_NOTES: usize = 64;

/// The latest events of each kind that still hold.
#[derive(Clone, Debug, Default)]
pub struct Known {
    hosts: BTreeMap<u32, Event>,
    /// The namespace told first comes first again: it is the observer's own.
    home: Option<u32>,
    devices: BTreeMap<DeviceId, Event>,
    elsewhere: Option<Event>,
    counters: Option<Event>,
    degraded: Vec<Event>,
    flows: HashMap<FlowId, Latest>,
}

/// Of one flow.
#[derive(Clone, Debug, Default)]
struct Latest {
    opened: Option<Event>,
    attributes: Option<Event>,
    owners: Option<Event>,
    sample: Option<Event>,
}

impl Known {
    /// Takes an event in.
    pub fn apply(&mut self, event: &Event) {
        let copy = || Some(event.clone());
        match (&event.payload, event.flow) {
            (Payload::Host(host), _) => {
                self.home.get_or_insert(host.netns);
                self.hosts.insert(host.netns, event.clone());
            }
            (Payload::Device(device), _) => {
                self.devices.insert(device.id, event.clone());
            }
            (Payload::DeviceGone(id), _) => {
                self.devices.remove(id);
            }
            (Payload::Elsewhere(_), _) => self.elsewhere = copy(),
            (Payload::Counters(_), _) => self.counters = copy(),
            (Payload::Note(note), None)
                if note.kind == NoteKind::Degraded && self.degraded.len() < MAX_NOTES =>
            {
                self.degraded.push(event.clone());
            }
            (Payload::Opened(_), Some(id)) => {
                let latest = Latest {
                    opened: copy(),
                    ..Latest::default()
                };
                self.flows.insert(id, latest);
            }
            (Payload::Closed, Some(id)) => {
                self.flows.remove(&id);
            }
            (payload, Some(id)) => {
                // Of flows that never opened, or are over, nothing is to be told again.
                let Some(latest) = self.flows.get_mut(&id) else {
                    return;
                };
                match payload {
                    Payload::Attributes(_) => latest.attributes = copy(),
                    Payload::Owners(_) => latest.owners = copy(),
                    Payload::Sample(sample) => match &mut latest.sample {
                        Some(Event {
                            time,
                            payload: Payload::Sample(kept),
                            ..
                        }) => {
                            *time = event.time;
                            kept.clone_from(sample);
                        }
                        none => *none = copy(),
                    },
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// What holds of the host and of the tool.
    pub fn host(&self) -> impl Iterator<Item = &Event> {
        let home = self.home.and_then(|netns| self.hosts.get(&netns));
        let others = self
            .hosts
            .iter()
            .filter(|(netns, _)| Some(**netns) != self.home);
        home.into_iter()
            .chain(others.map(|(_, event)| event))
            .chain(self.devices.values())
            .chain(&self.elsewhere)
            .chain(&self.counters)
            .chain(&self.degraded)
    }

    /// What holds of an open flow, its birth first.
    pub fn flow(&self, id: FlowId) -> impl Iterator<Item = &Event> {
        self.flows.get(&id).into_iter().flat_map(Latest::events)
    }

    /// What holds of all open flows.
    pub fn flows(&self) -> impl Iterator<Item = &Event> {
        self.flows.values().flat_map(Latest::events)
    }
}

impl Latest {
    fn events(&self) -> impl Iterator<Item = &Event> {
        let parts = [&self.opened, &self.attributes, &self.owners, &self.sample];
        parts.into_iter().flatten()
    }
}
