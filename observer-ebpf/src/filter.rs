//! Which flows are asked for, as far as the kernel can tell.

use core::ptr::read_volatile;

use observer_common::filter::{FilterProgram, Known, MAX_PIDS, MAX_STEPS, Stack, Step, step};
use observer_common::flow::FlowKey;

use crate::maps::{FlowState, HOLDERS, Holders, SEEN, UNWANTED, WANTED};
use crate::reader::{self, Kernel};
use crate::sock;

#[unsafe(no_mangle)]
static FILTER: FilterProgram = FilterProgram::EVERYTHING;

/// Steps of the filter; the verifier knows the value, and drops all of this when there are none.
#[inline(always)]
fn len() -> usize {
    // SAFETY: a valid static; volatile, because user space writes it before load.
    unsafe { read_volatile(&raw const FILTER.len) as usize }
}

/// Whether the filter names processes.
#[inline(always)]
pub fn names_processes() -> bool {
    // SAFETY: as in `len`.
    unsafe { read_volatile(&raw const FILTER.pids) != 0 }
}

/// Whether user space asked for this namespace.
#[inline(always)]
pub fn is_wanted_netns(netns: u32) -> bool {
    let wanted = reader::netns();
    wanted == 0 || wanted == netns
}

/// Whether the flow may be one asked for. Once it was reported it stays so: its end is owed.
#[inline(always)]
pub fn is_wanted(tp: Kernel, netns: u32, state: &mut FlowState) -> bool {
    if len() == 0 || state.flags & SEEN != 0 {
        return true;
    }
    if names_processes() {
        let holders = holders(tp);
        if holders != state.holders {
            state.holders = holders;
            // To be asked anew.
            state.flags &= !(WANTED | UNWANTED);
        }
    }
    if state.flags & (WANTED | UNWANTED) != 0 {
        return state.flags & WANTED != 0;
    }
    let may_pass = ask(tp, netns, state.holders.processes, state.holders.walk != 0);
    state.flags |= if may_pass { WANTED } else { UNWANTED };
    may_pass
}

/// The same of a request, which has no state.
#[inline(always)]
pub fn is_wanted_request(req: Kernel, netns: u32) -> bool {
    len() == 0 || ask_request(req, netns)
}

/// Who was found to hold the socket. The walk's number is left at one, so that two equal findings are equal.
#[inline(always)]
fn holders(sk: Kernel) -> Holders {
    let address = sk.as_ptr() as u64;
    // SAFETY: a torn reading is corrected by the next.
    match unsafe { HOLDERS.get(address) } {
        Some(found) => Holders {
            processes: found.processes,
            walk: 1,
        },
        None => Holders::default(),
    }
}

/// Notes that the process `pid` holds the socket, as far as the filter asks. The socket need not be trusted.
#[inline(always)]
pub fn note_holder(sk: Kernel, walk: u32, pid: u32) {
    let mut bit = 0;
    for at in 0..MAX_PIDS {
        // SAFETY: `at` is within the array; volatile as in `len`.
        let (count, asked) = unsafe {
            (
                read_volatile(&raw const FILTER.pids) as usize,
                read_volatile((&raw const FILTER.pid).cast::<u32>().add(at)),
            )
        };
        if at >= count {
            break;
        }
        bit |= u32::from(asked == pid) << at;
    }
    let address = sk.as_ptr() as u64;
    // SAFETY: only a walk and a connecting task write, seldom; a lost bit is found by the next walk.
    let before = match unsafe { HOLDERS.get(address) } {
        Some(found) if found.walk == walk => found.processes,
        _ => 0,
    };
    let found = Holders {
        processes: before | bit,
        walk,
    };
    // Full: user space decides.
    let _ = HOLDERS.insert(address, found, 0);
}

/// Forgets a socket: its address will be another's.
#[inline(always)]
pub fn forget_holders(sk: Kernel) {
    if names_processes() {
        let _ = HOLDERS.remove(sk.as_ptr() as u64);
    }
}

#[inline(never)]
fn ask(tp: Kernel, netns: u32, holders: u32, walked: bool) -> bool {
    let mut key = FlowKey::default();
    sock::fill_key(&mut key, tp, true);
    evaluate(&key, netns, sock::cgroup(tp), holders, walked)
}

#[inline(never)]
fn ask_request(req: Kernel, netns: u32) -> bool {
    let mut key = FlowKey::default();
    sock::fill_key(&mut key, req, false);
    evaluate(&key, netns, 0, 0, false)
}

#[inline(always)]
fn evaluate(key: &FlowKey, netns: u32, cgroup: u64, holders: u32, walked: bool) -> bool {
    let known = Known {
        local: words(&key.local),
        remote: words(&key.remote),
        local_port: key.local_port,
        remote_port: key.remote_port,
        netns,
        cgroup,
        holders,
        walked,
    };
    let mut stack = Stack::default();
    let len = len();
    for at in 0..MAX_STEPS - 1 {
        if at >= len {
            break;
        }
        let (this, next) = (read(at), read(at + 1));
        step(&mut stack, &known, &this, &next);
    }
    !stack.is_false()
}

#[inline(always)]
fn read(at: usize) -> Step {
    // SAFETY: `at` is within the array.
    unsafe { read_volatile((&raw const FILTER.steps).cast::<Step>().add(at)) }
}

#[inline(always)]
fn words(bytes: &[u8; 16]) -> [u32; 4] {
    // SAFETY: same size; read without asking for alignment.
    unsafe { bytes.as_ptr().cast::<[u32; 4]>().read_unaligned() }
}
