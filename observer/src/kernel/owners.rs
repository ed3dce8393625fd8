//! Who holds a flow's socket: what a walk over all tasks' files found, and when to look again for whom it did not find.

use std::collections::HashMap;

use observer_common::flow::{AF_INET, FlowKey, V4_MAPPED};
use observer_common::wire;

use super::convert;
use crate::event::{FlowId, Process};
use crate::units::Mono;

/// Walks made for the sake of one flow: now, and after 1, 2, 4 and 8 s. A socket that waits to be accepted is found
/// soon; for one that nobody holds (closed and still sending, or the kernel's own) there is no end to looking.
const MAX_LOOKS: u8 = 5;
const FIRST_PAUSE_NS: u64 = 1_000_000_000;

/// Who holds what, by the task-file iterator.
#[derive(Debug, Default)]
pub struct Walk {
    holders: HashMap<FlowId, Vec<Process>>,
    listeners: HashMap<Port, Vec<Listener>>,
}

/// Namespace, family and port: a listener's connections have all three of it.
type Port = (u32, u16, u16);

#[derive(Debug)]
struct Listener {
    address: [u8; 16],
    processes: Vec<Process>,
}

impl Walk {
    /// Adds one descriptor. A process that holds a socket twice counts once.
    pub fn add(&mut self, owner: &wire::Owner) {
        const LISTEN: u8 = 10;
        if owner.pid == 0 {
            return;
        }
        let process = convert::process(owner.pid, &owner.comm);
        let holders = if owner.header.state == LISTEN {
            self.listening(owner.header.netns, &owner.key)
        } else if owner.header.cookie != 0 {
            let id = FlowId {
                cookie: owner.header.cookie,
                netns: owner.header.netns,
            };
            self.holders.entry(id).or_default()
        } else {
            return;
        };
        if !holders.contains(&process) {
            holders.push(process);
        }
    }

    fn listening(&mut self, netns: u32, key: &FlowKey) -> &mut Vec<Process> {
        let listeners = self
            .listeners
            .entry((netns, key.family, key.local_port))
            .or_default();
        let at = listeners
            .iter()
            .position(|listener| listener.address == key.local)
            .unwrap_or_else(|| {
                listeners.push(Listener {
                    address: key.local,
                    processes: Vec::new(),
                });
                listeners.len() - 1
            });
        &mut listeners[at].processes
    }

    /// Who holds the socket; `None` = nobody was seen to.
    pub fn holders(&self, id: &FlowId) -> Option<&[Process]> {
        self.holders.get(id).map(Vec::as_slice)
    }

    /// Who listens where this end of a flow is: at its address before those at all addresses, as the kernel chooses.
    fn listener(&self, netns: u32, key: &FlowKey) -> Option<&[Process]> {
        let mut any = [0; 16];
        if key.family == AF_INET {
            any[..V4_MAPPED.len()].copy_from_slice(&V4_MAPPED);
        }
        let listeners = self.listeners.get(&(netns, key.family, key.local_port))?;
        [key.local, any].iter().find_map(|address| {
            let found = listeners.iter().find(|l| l.address == *address)?;
            Some(found.processes.as_slice())
        })
    }
}

/// What is known of one flow's owners.
#[derive(Debug, Default)]
pub struct Owners {
    processes: Vec<Process>,
    /// The connecting task told, or a walk found the descriptor; else `processes` is the listener's, or empty.
    found: bool,
    /// It was seen to be born of a listener.
    pub accepted: bool,
    looks: u8,
    next: Mono,
}

/// The end of a flow for which a walk may know the listener.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    pub id: &'a FlowId,
    pub key: &'a FlowKey,
    /// The kernel's number.
    pub state: u8,
}

impl Owners {
    /// The connecting task.
    pub fn told(&mut self, process: Process) -> &[Process] {
        self.found = true;
        self.processes = vec![process];
        &self.processes
    }

    /// Whether a walk now would be for this flow's sake.
    pub fn wanted(&self, now: Mono) -> bool {
        !self.found && self.looks < MAX_LOOKS && now >= self.next
    }

    /// Takes in what a walk knows; the new owners if that changes them.
    ///
    /// Who is not seen to hold it any more stays: the process is gone, and the socket is not somebody else's. A
    /// listener lends its name once, and only to what can be waiting in its queue or was seen to come from it: the
    /// port of a socket left behind may long be another's.
    pub fn walked(&mut self, now: Mono, end: End<'_>, walk: &Walk) -> Option<&[Process]> {
        const ESTABLISHED: u8 = 1;
        const SYN_RECV: u8 = 3;
        const CLOSE_WAIT: u8 = 8;
        let processes = if let Some(holders) = walk.holders(end.id) {
            self.found = true;
            holders
        } else {
            if self.found {
                return None;
            }
            let fresh = self.accepted && self.looks == 0;
            self.next = now.plus(FIRST_PAUSE_NS << self.looks.min(MAX_LOOKS));
            self.looks = self.looks.saturating_add(1);
            let waits = matches!(end.state, ESTABLISHED | SYN_RECV | CLOSE_WAIT);
            if !self.processes.is_empty() || !(fresh || waits) {
                return None;
            }
            walk.listener(end.id.netns, end.key)?
        };
        if self.processes == processes {
            return None;
        }
        self.processes = processes.to_vec();
        Some(&self.processes)
    }
}

#[cfg(test)]
mod tests {
    use observer_common::flow::AF_INET6;

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const ID: FlowId = FlowId {
        cookie: 7,
        netns: 1,
    };
    const ESTAB: u8 = 1;
    const FIN_WAIT1: u8 = 4;
    const LISTEN: u8 = 10;

    fn v4(last: u8) -> [u8; 16] {
        let mut address = [0; 16];
        address[..12].copy_from_slice(&V4_MAPPED);
        if last != 0 {
            address[12..].copy_from_slice(&[10, 0, 0, last]);
        }
        address
    }

    fn key(local: [u8; 16], family: u16) -> FlowKey {
        FlowKey {
            local,
            local_port: 80,
            family,
            ..FlowKey::default()
        }
    }

    fn held(pid: u32, cookie: u64, state: u8, key: FlowKey) -> wire::Owner {
        wire::Owner {
            header: wire::Header {
                cookie,
                netns: 1,
                state,
                ..wire::Header::default()
            },
            key,
            comm: *b"p\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            pid,
            reserved: 0,
        }
    }

    fn walk(owners: &[wire::Owner]) -> Walk {
        let mut walk = Walk::default();
        for owner in owners {
            walk.add(owner);
        }
        walk
    }

    fn pids(processes: Option<&[Process]>) -> Option<Vec<u32>> {
        Some(processes?.iter().map(|p| p.pid).collect())
    }

    fn end(key: &FlowKey, state: u8) -> End<'_> {
        End {
            id: &ID,
            key,
            state,
        }
    }

    #[test]
    fn the_listener_is_the_one_the_kernel_chooses() {
        let any6 = [0; 16];
        let walk = walk(&[
            held(1, 0, LISTEN, key(v4(0), AF_INET)),
            held(2, 0, LISTEN, key(v4(1), AF_INET)),
            held(3, 0, LISTEN, key(any6, AF_INET6)),
            held(3, 0, LISTEN, key(any6, AF_INET6)),
            held(4, 0, LISTEN, key(any6, AF_INET6)),
        ]);
        let of = |netns, local, family| pids(walk.listener(netns, &key(local, family)));
        assert_eq!(of(1, v4(1), AF_INET), Some(vec![2]));
        assert_eq!(of(1, v4(2), AF_INET), Some(vec![1]));
        assert_eq!(of(1, v4(1), AF_INET6), Some(vec![3, 4]));
        assert_eq!(of(2, v4(1), AF_INET), None);
    }

    #[test]
    fn who_holds_it_comes_before_who_listens_and_stays_when_gone() {
        let local = key(v4(1), AF_INET);
        let listening = held(1, 0, LISTEN, key(v4(0), AF_INET));
        let mut owners = Owners::default();
        let queued = walk(&[listening]);
        assert_eq!(
            pids(owners.walked(Mono(0), end(&local, ESTAB), &queued)),
            Some(vec![1])
        );
        let accepted = walk(&[
            listening,
            held(2, 7, ESTAB, local),
            held(3, 7, ESTAB, local),
        ]);
        assert_eq!(
            pids(owners.walked(Mono(1), end(&local, ESTAB), &accepted)),
            Some(vec![2, 3])
        );
        assert_eq!(owners.walked(Mono(1), end(&local, ESTAB), &accepted), None);
        // Passed on.
        let passed = walk(&[listening, held(4, 7, ESTAB, local)]);
        assert_eq!(
            pids(owners.walked(Mono(2), end(&local, ESTAB), &passed)),
            Some(vec![4])
        );
        // Left behind, whoever listens.
        assert_eq!(
            owners.walked(Mono(3), end(&local, FIN_WAIT1), &queued),
            None
        );
        assert_eq!(pids(Some(&owners.processes)), Some(vec![4]));
    }

    #[test]
    fn what_was_left_behind_is_not_the_next_listeners() {
        let local = key(v4(1), AF_INET);
        let listening = walk(&[held(1, 0, LISTEN, local)]);
        let mut old = Owners::default();
        assert_eq!(
            old.walked(Mono(0), end(&local, FIN_WAIT1), &listening),
            None
        );
        // Seen to be accepted, it is that listener's: once.
        let mut short = Owners {
            accepted: true,
            ..Owners::default()
        };
        assert_eq!(
            pids(short.walked(Mono(0), end(&local, FIN_WAIT1), &listening)),
            Some(vec![1])
        );
        let next = walk(&[held(2, 0, LISTEN, local)]);
        assert_eq!(short.walked(Mono(1), end(&local, FIN_WAIT1), &next), None);
        let mut late = Owners {
            accepted: true,
            ..Owners::default()
        };
        assert_eq!(
            late.walked(Mono(0), end(&local, FIN_WAIT1), &walk(&[])),
            None
        );
        assert_eq!(late.walked(Mono(1), end(&local, FIN_WAIT1), &next), None);
    }

    #[test]
    fn nobody_is_looked_for_for_ever() {
        let local = key(v4(1), AF_INET);
        let nobody = walk(&[]);
        let mut owners = Owners::default();
        let looked: Vec<u64> = (0..3600)
            .filter(|second| {
                let now = Mono(100 * SECOND + second * SECOND);
                let wanted = owners.wanted(now);
                if wanted {
                    assert_eq!(owners.walked(now, end(&local, FIN_WAIT1), &nobody), None);
                }
                wanted
            })
            .collect();
        assert_eq!(looked, [0, 1, 3, 7, 15]);
        // Walks made for others count, too, and do no harm.
        for second in 0..1000 {
            owners.walked(Mono(second), end(&local, FIN_WAIT1), &nobody);
        }
        // Found by such a walk.
        let found = walk(&[held(2, 7, ESTAB, local)]);
        assert_eq!(
            pids(owners.walked(Mono(0), end(&local, ESTAB), &found)),
            Some(vec![2])
        );
    }

    #[test]
    fn told_by_the_connecting_task_nothing_is_to_be_looked_for() {
        let mut owners = Owners::default();
        assert!(owners.wanted(Mono(0)));
        let process = convert::process(9, b"client\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(owners.told(process)[0].pid, 9);
        assert!(!owners.wanted(Mono(u64::MAX)));
        let local = key(v4(1), AF_INET);
        let others = walk(&[held(1, 0, LISTEN, local)]);
        assert_eq!(owners.walked(Mono(0), end(&local, ESTAB), &others), None);
    }
}
