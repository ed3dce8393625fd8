//! One look at all sockets by socket-diag, with what it leaves out looked up as far as asked for.

use super::diag::OWNERS_DENIED;
use super::facts::{Lookup, Wanted};
use crate::event::{Device, Event, FlowId, Note, NoteKind, Opened, Payload};
use crate::host::netlink::NetlinkError;
use crate::host::netns::{self, Namespace, NetnsError};
use crate::host::{HostError, Roots, read_devices};
use crate::kernel::clock;
use crate::kernel::diag::{Diag, Families, Socket, States};
use crate::units::Mono;

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("the sockets cannot be listed: {0}")]
    Sockets(#[from] NetlinkError),
    #[error(transparent)]
    Namespace(#[from] NetnsError),
}

/// The events that tell it, in their order.
pub fn snapshot(namespaces: &[Namespace], wanted: Wanted) -> Result<Vec<Event>, SnapshotError> {
    let mut snapshot = Snapshot {
        lookup: Lookup::new(&Roots::default(), wanted),
        inodes: Vec::new(),
        events: Vec::new(),
    };
    for namespace in namespaces {
        let looked = netns::enter(namespace, || snapshot.look(namespace, wanted));
        match looked {
            Ok(found) => found?,
            // It went away with its sockets.
            Err(NetnsError::Gone { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(error) = snapshot.lookup.take_problem() {
        snapshot.degraded(format!("devices of flows are unknown: {error}"));
    }
    if wanted.owners {
        snapshot.owners();
    }
    Ok(snapshot.events)
}

struct Snapshot {
    lookup: Lookup,
    inodes: Vec<(FlowId, u32)>,
    events: Vec<Event>,
}

impl Snapshot {
    /// In the namespace.
    fn look(&mut self, namespace: &Namespace, wanted: Wanted) -> Result<(), NetlinkError> {
        if wanted.device {
            let devices = read_devices(namespace.inum);
            self.devices(devices);
        }
        let mut sockets = Vec::new();
        Diag::open(namespace.inum)?.dump(States::CONNECTED, Families::BOTH, |socket| {
            sockets.push((clock::now(), socket));
        })?;
        for (time, mut socket) in sockets {
            self.lookup.fill(&mut socket);
            self.socket(time, socket);
        }
        Ok(())
    }

    fn devices(&mut self, devices: Result<Vec<Device>, HostError>) {
        match devices {
            Ok(devices) => {
                for device in devices {
                    self.push(clock::now(), None, Payload::Device(Box::new(device)));
                }
            }
            Err(error) => self.degraded(error.to_string()),
        }
    }

    fn socket(&mut self, time: Mono, socket: Socket) {
        let flow = Some(socket.id);
        let opened = Opened {
            from_start: false,
            state: socket.state,
            local: socket.local,
            remote: socket.remote,
        };
        self.inodes.push((socket.id, socket.inode));
        self.push(time, flow, Payload::Opened(opened));
        if let Some(attributes) = socket.attributes {
            self.push(time, flow, Payload::Attributes(Box::new(attributes)));
        }
        if let Some(sample) = socket.sample {
            self.push(time, flow, Payload::Sample(Box::new(sample)));
        }
    }

    fn owners(&mut self) {
        let holders = self.lookup.owners();
        let mut unseen = false;
        for (id, inode) in std::mem::take(&mut self.inodes) {
            match holders.of(inode) {
                Some(owners) => {
                    self.push(clock::now(), Some(id), Payload::Owners(owners.to_vec()));
                }
                None => unseen = true,
            }
        }
        if unseen && holders.denied() > 0 {
            self.degraded(OWNERS_DENIED.to_owned());
        }
    }

    fn push(&mut self, time: Mono, flow: Option<FlowId>, payload: Payload) {
        self.events.push(Event {
            time,
            flow,
            payload,
        });
    }

    fn degraded(&mut self, text: String) {
        let kind = NoteKind::Degraded;
        self.push(clock::now(), None, Payload::Note(Note { kind, text }));
    }
}
