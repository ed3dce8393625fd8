//! Hands a record over, or counts why not: one outcome per run of a program.

use core::mem::MaybeUninit;

use aya_ebpf::bindings::{BPF_RB_NO_WAKEUP, BPF_SK_STORAGE_GET_F_CREATE};
use aya_ebpf::helpers::{bpf_ktime_get_ns, generated};
use observer_common::layout::Field;
use observer_common::outcome::{Counters, Cpu, Outcome, Program};
use observer_common::wire::{Full, Header, RecordKind, Sample, flags};

use crate::maps::{BRIEFS, CPUS, EVENTS, FLOWS, FlowState, LISTENER, SEEN};
use crate::reader::{self, Kernel};
use crate::{sock, tcp};

/// Runs a program's body and counts how it ended. Without counters (which cannot fail on an array map) nothing is
/// handed over either, so that the sums stay true.
#[inline(always)]
pub fn counted(program: Program, body: impl FnOnce() -> Outcome) -> i32 {
    let Some((_, cpu)) = cpu() else {
        return 0;
    };
    // SAFETY: a program runs once per CPU at a time (the kernel skips and counts the rest), so its counters have one
    // writer.
    let counters: *mut Counters = unsafe { &raw mut (*cpu).counters.program[program as usize] };
    // SAFETY: as above.
    unsafe { (*counters).attempted += 1 };
    let outcome = body();
    // SAFETY: as above.
    unsafe { (*counters).outcome[outcome as usize] += 1 };
    0
}

/// This CPU's number, and what it keeps.
#[inline(always)]
pub fn cpu() -> Option<(u32, *mut Cpu)> {
    // SAFETY: no arguments.
    let number = unsafe { generated::bpf_get_smp_processor_id() };
    Some((number, CPUS.get_ptr_mut(number)?))
}

/// The full TCP socket behind `sk`, if it is one: not a request, not in TIME-WAIT, not another protocol (TRAPS 31).
#[inline(always)]
pub fn tcp_sock(sk: Kernel) -> Option<Kernel> {
    // SAFETY: the helper checks what it is given.
    Kernel::new(unsafe { generated::bpf_skc_to_tcp_sock(sk.as_ptr()) } as *const u8)
}

/// The socket's state in our map, made when missing and `create` is set.
#[inline(always)]
pub fn flow_state(sk: Kernel, create: bool) -> Option<&'static mut FlowState> {
    let flags = if create {
        BPF_SK_STORAGE_GET_F_CREATE as u64
    } else {
        0
    };
    // SAFETY: the helper checks the socket; its answer is null or a value of the map's type that outlives this run.
    unsafe {
        generated::bpf_sk_storage_get(
            (&raw const FLOWS).cast_mut().cast(),
            sk.as_ptr(),
            core::ptr::null_mut(),
            flags,
        )
        .cast::<FlowState>()
        .as_mut()
    }
}

/// The socket's cookie, which stays as it is.
#[inline(always)]
pub fn cookie(sk: Kernel, state: &mut FlowState) -> u64 {
    if state.cookie == 0 {
        // SAFETY: the verifier knows `sk` for a socket.
        state.cookie = unsafe { generated::bpf_get_socket_cookie(sk.as_ptr()) };
    }
    state.cookie
}

/// Fills the header and takes the flow's next number.
#[inline(always)]
pub fn header(
    program: Program,
    kind: RecordKind,
    sk: Kernel,
    tp: Kernel,
    netns: u32,
    state: &mut FlowState,
) -> Header {
    let first = state.flags & SEEN == 0;
    state.flags |= SEEN;
    state.netns = netns;
    let number = state.number;
    state.number += 1;
    Header {
        // SAFETY: no arguments.
        time_ns: unsafe { bpf_ktime_get_ns() },
        cookie: cookie(sk, state),
        number,
        netns,
        kind: kind as u8,
        program: program as u8,
        state: tp.u8(Field::State),
        ca_state: tp.bits(Field::CaState),
        flags: if first { flags::FIRST } else { 0 },
        jiffies: jiffies(),
    }
}

/// `tcp_jiffies32`.
#[inline(always)]
pub fn jiffies() -> u32 {
    // SAFETY: no arguments.
    unsafe { generated::bpf_jiffies64() as u32 }
}

/// Reserves a `T` in the ring, fills it, hands it over. Nobody is woken: user space drains on a timer, which is far
/// cheaper than an interrupt per record.
#[inline(always)]
pub fn submit<T: 'static>(fill: impl FnOnce(&mut T)) -> Outcome {
    let Some(mut entry) = EVENTS.reserve_untyped::<T>(0) else {
        return Outcome::Dropped;
    };
    let record: &mut MaybeUninit<T> = &mut entry;
    // SAFETY: `fill` writes every byte of a plain record.
    fill(unsafe { record.assume_init_mut() });
    entry.submit(BPF_RB_NO_WAKEUP as u64);
    Outcome::Kept
}

/// A brief in this CPU's own ring. Only `on_probe` may call it: a second program that interrupts the first would write
/// into the same place.
#[inline(always)]
pub fn brief(
    program: Program,
    sk: Kernel,
    tp: Kernel,
    netns: u32,
    state: &mut FlowState,
) -> Outcome {
    let header = header(program, RecordKind::Brief, sk, tp, netns, state);
    state.swept = 0;
    reconcile(state, tp);
    let Some((number, cpu)) = cpu() else {
        return Outcome::Failed;
    };
    // SAFETY: `head` has one writer, this program on this CPU; `tail` may be older than it is, which is safe.
    let (head, tail) = unsafe {
        (
            (&raw const (*cpu).head).read_volatile(),
            (&raw const (*cpu).tail).read_volatile(),
        )
    };
    let room = reader::briefs_per_cpu();
    if head.wrapping_sub(tail) >= u64::from(room) {
        return Outcome::Dropped;
    }
    let place = number * room + (head as u32 & (room - 1));
    let Some(record) = BRIEFS.get_ptr_mut(place) else {
        return Outcome::Dropped;
    };
    // SAFETY: user space does not read between `head` and `tail + room`.
    let record = unsafe { &mut *record };
    record.header = header;
    tcp::fill_brief(record, tp);
    // SAFETY: aligned, inside the map's value.
    unsafe { publish(&raw mut (*cpu).head, head + 1) };
    Outcome::Kept
}

/// Stores `value` so that who sees it sees everything written before: the kernel's exchange is a full barrier on every
/// machine. rustc offers no atomics for this target, and a release store would need kernel 6.15. Where stores keep
/// their order anyway user space makes it a plain one (`kernel/patch.rs`): the barrier waits for every line of the record.
///
/// # Safety
/// `place` is aligned and inside a map's value.
#[inline(always)]
unsafe fn publish(place: *mut u64, value: u64) {
    // SAFETY: as the caller promises.
    unsafe {
        core::arch::asm!(
            "{value} = xchg_64({place} + 0, {value})",
            place = in(reg) place,
            value = inout(reg) value => _,
        );
    }
}

/// What the record tells about retransmissions need not be charged again.
#[inline(always)]
fn reconcile(state: &mut FlowState, tp: Kernel) {
    state.total_retrans = tp.u32(Field::TotalRetrans);
    state.bytes_retrans = tp.u64(Field::BytesRetrans);
}

/// A sample, with attributes when these are new, have changed, or this is the last record.
#[inline(always)]
pub fn sample(
    program: Program,
    sk: Kernel,
    tp: Kernel,
    netns: u32,
    state: &mut FlowState,
    close: bool,
) -> Outcome {
    let attributes = sock::attributes_signature(tp);
    let ca_ops = tp.address(Field::CaOps);
    let changed = attributes != state.attributes || ca_ops != state.ca_ops;
    state.swept = 0;
    reconcile(state, tp);
    let outcome = if close || changed {
        let kind = if close {
            RecordKind::Close
        } else {
            RecordKind::Full
        };
        let header = header(program, kind, sk, tp, netns, state);
        let outcome = submit::<Full>(|record| {
            record.header = header;
            tcp::fill_body(&mut record.body, tp);
            sock::fill_attributes(&mut record.attributes, tp);
        });
        if matches!(outcome, Outcome::Kept) {
            state.attributes = attributes;
            state.ca_ops = ca_ops;
        }
        outcome
    } else {
        let header = header(program, RecordKind::Sample, sk, tp, netns, state);
        submit::<Sample>(|record| {
            record.header = header;
            tcp::fill_body(&mut record.body, tp);
        })
    };
    if matches!(outcome, Outcome::Kept) {
        // A brief is read onto a whole one that got through. An algorithm that has just been set has nothing to tell
        // before its first ACK: the next one is whole as well.
        state.whole_us = if changed { 0 } else { tp.u64(Field::Mstamp) };
    }
    outcome
}

/// A whole sample at the change to CLOSE.
#[inline(always)]
pub fn ended(sk: Kernel, tp: Kernel, netns: u32, state: &mut FlowState) -> Outcome {
    let header = header(Program::SetState, RecordKind::Ended, sk, tp, netns, state);
    reconcile(state, tp);
    submit::<Full>(|record| {
        record.header = header;
        tcp::fill_body(&mut record.body, tp);
        sock::fill_attributes(&mut record.attributes, tp);
    })
}

/// Marks the state of a listener, which numbers its SYN-ACKs and is no flow.
#[inline(always)]
pub fn is_listener(state: &FlowState) -> bool {
    state.flags & LISTENER != 0
}
