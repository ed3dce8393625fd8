//! Which process a task is of: its number in the observer's own PID namespace, and its name.
//!
//! `tgid` is the number in the first namespace, and a thread may have a name of its own; `/proc` and `ss` as the
//! observer's user sees them show neither. What is read here is not typed: its places are no rows of the field table.

use core::mem::MaybeUninit;

use aya_ebpf::helpers::{bpf_get_current_comm, bpf_get_current_pid_tgid, generated};
use observer_common::layout::{ABSENT, Field};

use crate::maps::OWN_PIDNS;
use crate::reader;

/// `struct upid`: a process's number in one namespace.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Upid {
    number: u32,
    padding: u32,
    namespace: u64,
}

/// Copies from a kernel address; a fault reads as 0.
#[inline(always)]
fn read<T: Copy + Default>(address: u64) -> T {
    let mut out = MaybeUninit::<T>::uninit();
    // SAFETY: the helper writes all of it or says that it could not.
    unsafe {
        let size = size_of::<T>() as u32;
        if generated::bpf_probe_read_kernel(out.as_mut_ptr().cast(), size, address as *const _) == 0
        {
            out.assume_init()
        } else {
            T::default()
        }
    }
}

/// The address of the task that runs.
#[inline(always)]
pub fn current() -> u64 {
    // SAFETY: no arguments.
    unsafe { generated::bpf_get_current_task() }
}

/// Notes which PID namespace the observer is in; to be called where the observer itself runs.
#[inline(always)]
pub fn remember_own() {
    let places = reader::task();
    // SAFETY: one iterator runs at a time, and the value written is always the same.
    unsafe {
        if places.known == 0 || OWN_PIDNS.namespace != 0 {
            return;
        }
        let pid: u64 = read(current() + u64::from(places.pid));
        let level: u32 = read(pid + u64::from(places.level));
        let own: Upid = read(pid + u64::from(places.numbers) + u64::from(level) * 16);
        OWN_PIDNS.level = level;
        OWN_PIDNS.namespace = own.namespace;
    }
}

/// Fills in the process of the task at `task`; 0 where the observer's namespace does not see it.
#[inline(always)]
pub fn fill(task: u64, tgid: u32, pid: &mut u32, comm: &mut [u8; 16]) {
    let places = reader::task();
    let leader: u64 = read(task + u64::from(places.leader));
    let name = reader::offset(Field::TaskComm);
    if name != ABSENT {
        *comm = read(leader + u64::from(name));
    }
    // SAFETY: written whole before the hooks are on.
    let (level, namespace) = unsafe { (OWN_PIDNS.level, OWN_PIDNS.namespace) };
    if level == 0 {
        *pid = tgid;
        return;
    }
    let its: u64 = read(leader + u64::from(places.pid));
    let deepest: u32 = read(its + u64::from(places.level));
    let seen: Upid = read(its + u64::from(places.numbers) + u64::from(level) * 16);
    *pid = if level <= deepest && seen.namespace == namespace {
        seen.number
    } else {
        0
    };
}

/// As [`fill`], of the task that runs.
#[inline(always)]
pub fn fill_current(pid: &mut u32, comm: &mut [u8; 16]) {
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    if reader::task().known != 0 {
        fill(current(), tgid, pid, comm);
        return;
    }
    *pid = tgid;
    if let Ok(name) = bpf_get_current_comm() {
        *comm = name;
    }
}
