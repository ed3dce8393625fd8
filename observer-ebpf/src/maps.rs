//! Every map, with the reason for its size.

use aya_ebpf::btf_maps::{Array, PerCpuArray, RingBuf, SkStorage};
use aya_ebpf::macros::btf_map;
use observer_common::outcome::ProgramsCounters;
use observer_common::wire::{Full, Owner};

/// What the programs remember of a socket. Lives and dies with it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct FlowState {
    /// The next record's number.
    pub number: u64,
    /// `tcp_mstamp` at the last sample.
    pub mstamp: u64,
    /// Signature of the attributes last handed over.
    pub attributes: u64,
    /// `icsk_ca_ops` last handed over.
    pub ca_ops: u64,
    /// Signature of the state last handed over by the sweep; 0 = a sample came since, taken before its ACK was
    /// processed, so that the sweep must look again.
    pub swept: u64,
    /// Totals at the last record that carried them.
    pub bytes_retrans: u64,
    pub total_retrans: u32,
    /// Bits [`SEEN`], [`LISTENER`].
    pub flags: u32,
}

/// [`FlowState::flags`]: a record of this flow was made.
pub const SEEN: u32 = 1;
/// [`FlowState::flags`]: the state belongs to a listener and only numbers its SYN-ACKs.
pub const LISTENER: u32 = 2;

/// In front of socket storage: which socket gave the last sample, by its kernel-made hash. A hit is decided without a
/// helper call; a collision costs the storage lookup, nothing else.
///
/// 1,024 slots of 16 bytes: a map of at most 32 KiB lies in the kernel's direct mapping, a larger one in pages of 4 KiB
/// whose translation is as often missed as not (65,536 slots cost 10 ns more per event here, `cargo xtask bench
/// kernel`). With more busy flows than slots most are decided by storage.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Slot {
    pub sk: u64,
    pub mstamp: u64,
}

pub const SLOTS: usize = 1024;

#[unsafe(no_mangle)]
pub static mut SLOT: [Slot; SLOTS] = [Slot { sk: 0, mstamp: 0 }; SLOTS];

/// The sweep's record: too large for the stack. One iterator runs at a time, so one buffer.
#[unsafe(no_mangle)]
pub static mut SWEEP_RECORD: Full = ZERO;

const ZERO: Full = {
    // SAFETY: integers only, all zero is a value.
    unsafe { core::mem::zeroed() }
};

/// The owners' record: one iterator runs at a time.
#[unsafe(no_mangle)]
pub static mut OWNER_RECORD: Owner = {
    // SAFETY: integers only, all zero is a value.
    unsafe { core::mem::zeroed() }
};

/// The observer's own PID namespace: how deep it is, and its address; 0 = not known yet.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct PidNamespace {
    pub namespace: u64,
    pub level: u32,
    pub reserved: u32,
}

#[unsafe(no_mangle)]
pub static mut OWN_PIDNS: PidNamespace = PidNamespace {
    namespace: 0,
    level: 0,
    reserved: 0,
};

#[btf_map]
pub static FLOWS: SkStorage<FlowState> = SkStorage::new();

/// 8 MiB by default: at 416 bytes a sample, half a second at 40,000 records/s. User space sets the size it was told.
#[btf_map]
pub static EVENTS: RingBuf<u64, { 8 << 20 }> = RingBuf::new();

/// One element holds all programs' counters, so that a run pays one lookup.
#[btf_map]
pub static COUNTERS: PerCpuArray<ProgramsCounters, 1> = PerCpuArray::new();

/// Element 0: whether the sweep hands over unchanged flows too.
#[btf_map]
pub static CONTROL: Array<u32, 1> = Array::new();
