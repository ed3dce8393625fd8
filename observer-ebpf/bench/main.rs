//! The parts of `on_probe`, one program each, for `cargo xtask bench kernel`: what each costs above an empty program
//! on the same events. They are the observer's own functions wherever there is one. Never part of the observer.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
// The one exchange in emit.rs; the build sets RUSTC_BOOTSTRAP for `build-std` anyway.
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]
#![cfg_attr(
    target_arch = "bpf",
    expect(
        dead_code,
        reason = "the programs' modules, of which this uses the parts"
    ),
    expect(
        clippy::inline_always,
        clippy::needless_pass_by_value,
        reason = "registers and stack are few; the macro calls with a value"
    )
)]

#[cfg(target_arch = "bpf")]
#[path = "../src/congestion.rs"]
mod congestion;
#[cfg(target_arch = "bpf")]
#[path = "../src/emit.rs"]
mod emit;
#[cfg(target_arch = "bpf")]
#[path = "../src/filter.rs"]
mod filter;
#[cfg(target_arch = "bpf")]
#[path = "../src/maps.rs"]
mod maps;
#[cfg(target_arch = "bpf")]
#[path = "../src/reader.rs"]
mod reader;
#[cfg(target_arch = "bpf")]
#[path = "../src/sock.rs"]
mod sock;
#[cfg(target_arch = "bpf")]
#[path = "../src/tcp.rs"]
mod tcp;

#[cfg(target_arch = "bpf")]
pub(crate) use observer_ebpf::pace;

#[cfg(target_arch = "bpf")]
mod variants {
    use aya_ebpf::EbpfContext;
    use aya_ebpf::bindings::BPF_RB_NO_WAKEUP;
    use aya_ebpf::helpers::{bpf_ktime_get_ns, generated};
    use aya_ebpf::macros::btf_tracepoint;
    use aya_ebpf::programs::BtfTracePointContext;
    use observer_common::layout::Field;
    use observer_common::outcome::{Outcome, Program};
    use observer_common::wire::{Body, Brief, Sample};

    use crate::emit::{self, counted, flow_state, jiffies, tcp_sock};
    use crate::maps::{EVENTS, SLOT, SLOTS, Slot};
    use crate::pace::is_due;
    use crate::reader::{Kernel, object};
    use crate::{sock, tcp};

    const HOUR_US: u64 = 3_600_000_000;

    /// Where a result goes that must not be optimised away.
    #[unsafe(no_mangle)]
    static mut SINK: u64 = 0;

    #[unsafe(no_mangle)]
    static mut SCRATCH: Body = {
        // SAFETY: integers only, all zero is a value.
        unsafe { core::mem::zeroed() }
    };

    #[unsafe(no_mangle)]
    static mut SCRATCH_BRIEF: Brief = {
        // SAFETY: integers only, all zero is a value.
        unsafe { core::mem::zeroed() }
    };

    fn keep(value: u64) {
        // SAFETY: written by whoever comes, read by nobody.
        unsafe { (&raw mut SINK).write_volatile(value) };
    }

    fn sk(context: &BtfTracePointContext) -> Option<Kernel> {
        object(context.as_ptr().cast(), 0)
    }

    fn tp(context: &BtfTracePointContext) -> Option<Kernel> {
        tcp_sock(sk(context)?)
    }

    #[btf_tracepoint(function = "tcp_probe")]
    pub fn empty(_context: BtfTracePointContext) -> i32 {
        0
    }

    /// The per-CPU counters: one lookup, two additions.
    #[btf_tracepoint(function = "tcp_probe")]
    pub fn counters(_context: BtfTracePointContext) -> i32 {
        counted(Program::Probe, || Outcome::Suppressed)
    }

    /// `bpf_skc_to_tcp_sock`.
    #[btf_tracepoint(function = "tcp_probe")]
    pub fn cast(context: BtfTracePointContext) -> i32 {
        i32::from(tp(&context).is_none())
    }

    /// The cast and a decision by the direct-mapped array.
    #[btf_tracepoint(function = "tcp_probe")]
    pub fn cast_slot(context: BtfTracePointContext) -> i32 {
        let (Some(sk), Some(tp)) = (sk(&context), tp(&context)) else {
            return 0;
        };
        let index = tp.u32(Field::Hash) as usize & (SLOTS - 1);
        // SAFETY: the index is masked to the array.
        let slot = unsafe { (&raw mut SLOT).cast::<Slot>().add(index) };
        let (me, now) = (sk.as_ptr() as u64, tp.u64(Field::Mstamp));
        // SAFETY: inside the array.
        let (owner, due) = unsafe { ((*slot).sk, (*slot).due_us) };
        if owner != me || is_due(now, due) {
            // SAFETY: as above.
            unsafe {
                (*slot).sk = me;
                (*slot).due_us = now + HOUR_US;
            }
        }
        0
    }

    /// The cast and a decision by socket storage.
    #[btf_tracepoint(function = "tcp_probe")]
    pub fn cast_storage(context: BtfTracePointContext) -> i32 {
        let (Some(sk), Some(tp)) = (sk(&context), tp(&context)) else {
            return 0;
        };
        let now = tp.u64(Field::Mstamp);
        if let Some(state) = flow_state(sk, true)
            && is_due(now, state.due_us)
        {
            state.due_us = now + HOUR_US;
        }
        0
    }

    /// `bpf_ktime_get_ns`.
    #[btf_tracepoint(function = "tcp_probe")]
    pub fn clock(_context: BtfTracePointContext) -> i32 {
        // SAFETY: no arguments.
        keep(unsafe { bpf_ktime_get_ns() });
        0
    }

    /// `bpf_jiffies64`.
    #[btf_tracepoint(function = "tcp_probe")]
    pub fn tick(_context: BtfTracePointContext) -> i32 {
        keep(u64::from(jiffies()));
        0
    }

    /// `bpf_get_socket_cookie`.
    #[btf_tracepoint(function = "tcp_probe")]
    pub fn cookie(context: BtfTracePointContext) -> i32 {
        if let Some(sk) = sk(&context) {
            // SAFETY: the verifier knows `sk` for a socket.
            keep(unsafe { generated::bpf_get_socket_cookie(sk.as_ptr()) });
        }
        0
    }

    /// The cast and all loads of a sample's body, into memory of ours.
    #[btf_tracepoint(function = "tcp_probe")]
    pub fn cast_loads(context: BtfTracePointContext) -> i32 {
        if let Some(tp) = tp(&context) {
            let scratch: *mut Body = &raw mut SCRATCH;
            // SAFETY: a place to write to, read by nobody.
            tcp::fill_body(unsafe { &mut *scratch }, tp);
        }
        0
    }

    /// The cast and all loads of a brief, into memory of ours.
    #[btf_tracepoint(function = "tcp_probe")]
    pub fn cast_brief(context: BtfTracePointContext) -> i32 {
        if let Some(tp) = tp(&context) {
            let scratch: *mut Brief = &raw mut SCRATCH_BRIEF;
            // SAFETY: a place to write to, read by nobody.
            tcp::fill_brief(unsafe { &mut *scratch }, tp);
        }
        0
    }

    /// The cast, socket storage, and a brief handed over; no decision.
    #[btf_tracepoint(function = "tcp_probe")]
    pub fn brief(context: BtfTracePointContext) -> i32 {
        let (Some(sk), Some(tp)) = (sk(&context), tp(&context)) else {
            return 0;
        };
        if let Some(state) = flow_state(sk, true) {
            emit::brief(Program::Probe, sk, tp, 1, state);
        }
        0
    }

    /// The cast and the look whether attributes have changed.
    #[btf_tracepoint(function = "tcp_probe")]
    pub fn cast_attributes(context: BtfTracePointContext) -> i32 {
        if let Some(tp) = tp(&context) {
            keep(sock::attributes_signature(tp));
        }
        0
    }

    /// A sample's room in the ring, reserved and given back unread.
    #[btf_tracepoint(function = "tcp_probe")]
    pub fn ring(_context: BtfTracePointContext) -> i32 {
        if let Some(entry) = EVENTS.reserve_untyped::<Sample>(0) {
            entry.discard(BPF_RB_NO_WAKEUP as u64);
        }
        0
    }

    #[panic_handler]
    fn panic(_info: &core::panic::PanicInfo) -> ! {
        loop {}
    }

    #[unsafe(link_section = "license")]
    #[unsafe(no_mangle)]
    static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
}

#[cfg(not(target_arch = "bpf"))]
fn main() {}
