//! What a socket-diag dump leaves out of a socket and others tell: its device, its cgroup's path, its owners.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::event::{DeviceId, Process};
use crate::host::Roots;
use crate::host::cgroup::Cgroups;
use crate::host::netlink::NetlinkError;
use crate::host::process::{Owners, owners_by_inode};
use crate::host::route::Routes;
use crate::kernel::diag::Socket;

/// Routes and what was not found are looked for anew after so many rounds: ten seconds of polling.
const RENEW_ROUNDS: u32 = 50;
/// Pairs of addresses whose route is remembered.
const MAX_ROUTES: usize = 65_536;

/// What is to be looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub owners: bool,
    pub device: bool,
    pub cgroup: bool,
}

impl Wanted {
    pub const ALL: Self = Self {
        owners: true,
        device: true,
        cgroup: true,
    };
}

/// Looks up, and remembers.
#[derive(Debug)]
pub struct Lookup {
    roots: Roots,
    wanted: Wanted,
    round: u32,
    cgroups: Cgroups,
    /// Paths by number; where none was found, the round of the last search.
    paths: HashMap<u64, Result<String, u32>>,
    /// A search is a walk over the tree: one in vain is enough for a round.
    searched_in_vain: bool,
    /// By namespace; `None` = cannot be asked.
    routes: HashMap<u32, Option<Routes>>,
    devices: HashMap<(u32, IpAddr, IpAddr), Option<u32>>,
    renewed: u32,
    problem: Option<NetlinkError>,
}

impl Lookup {
    pub fn new(roots: &Roots, wanted: Wanted) -> Self {
        Self {
            roots: roots.clone(),
            wanted,
            round: 0,
            cgroups: Cgroups::new(&roots.proc.join("self/mountinfo")),
            paths: HashMap::new(),
            searched_in_vain: false,
            routes: HashMap::new(),
            devices: HashMap::new(),
            renewed: 0,
            problem: None,
        }
    }

    /// A new round of dumps begins.
    pub fn next_round(&mut self) {
        self.round = self.round.wrapping_add(1);
        self.searched_in_vain = false;
        if self.round.wrapping_sub(self.renewed) >= RENEW_ROUNDS || self.devices.len() > MAX_ROUTES
        {
            self.renewed = self.round;
            self.devices.clear();
            // Namespaces go, and sockets keep them alive.
            self.routes.clear();
        }
    }

    /// Why devices stay unknown, once.
    pub fn take_problem(&mut self) -> Option<NetlinkError> {
        self.problem.take()
    }

    /// Fills in the device and the cgroup's path, as far as wanted; in the socket's network namespace.
    pub fn fill(&mut self, socket: &mut Socket) {
        let device = self.wanted.device.then(|| self.device(socket)).flatten();
        let Some(attributes) = &mut socket.attributes else {
            return;
        };
        attributes.device = device.map(|ifindex| DeviceId {
            netns: socket.id.netns,
            ifindex,
        });
        if self.wanted.cgroup {
            attributes.cgroup = attributes.cgroup_id.and_then(|id| self.path(id));
        }
    }

    /// The one it was bound to, else the one that the route to its other end leaves by.
    fn device(&mut self, socket: &Socket) -> Option<u32> {
        if let Some(bound) = socket.bound_ifindex {
            return Some(bound);
        }
        let key = (socket.id.netns, socket.local.ip(), socket.remote.ip());
        if let Some(known) = self.devices.get(&key) {
            return *known;
        }
        let routes = self.routes.entry(socket.id.netns).or_insert_with(|| {
            Routes::open()
                .map_err(|error| self.problem = Some(error))
                .ok()
        });
        let found = match routes.as_mut()?.device(key.1, key.2) {
            Ok(found) => found,
            Err(error) => {
                // The answer may still come: this socket is not to be asked again.
                *routes = None;
                self.problem = Some(error);
                None
            }
        };
        self.devices.insert(key, found);
        found
    }

    fn path(&mut self, id: u64) -> Option<String> {
        match self.paths.get(&id) {
            Some(Ok(path)) => return Some(path.clone()),
            Some(Err(round)) if self.round.wrapping_sub(*round) < RENEW_ROUNDS => return None,
            _ if self.searched_in_vain => return None,
            _ => {}
        }
        let found = self.cgroups.path(id).map(str::to_owned);
        self.searched_in_vain = found.is_none();
        let known = found.clone().ok_or(self.round);
        self.paths.insert(id, known);
        found
    }

    /// Who holds the sockets now: one walk over all processes.
    pub fn owners(&self) -> Holders {
        Holders(owners_by_inode(&self.roots.proc))
    }
}

/// What a walk over all processes found.
#[derive(Debug)]
pub struct Holders(Owners);

impl Holders {
    /// Of the socket with this inode. `None` = not known: held by a process that may not be looked into, or in another
    /// PID namespace. A socket without an inode has no descriptor: nobody holds it (yet, or any more).
    pub fn of(&self, inode: u32) -> Option<&[Process]> {
        if inode == 0 {
            return Some(&[]);
        }
        self.0.by_inode.get(&inode).map(Vec::as_slice)
    }

    /// Processes that may not be looked into.
    pub fn denied(&self) -> u32 {
        self.0.denied
    }
}
