//! Every map, with the reason for its size.

use aya_ebpf::bindings::{BPF_F_MMAPABLE, BPF_F_NO_PREALLOC};
use aya_ebpf::btf_maps::{Array, HashMap, RingBuf, SkStorage};
use aya_ebpf::macros::btf_map;
use observer_common::config::Control;
use observer_common::outcome::Cpu;
use observer_common::wire::{Brief, Full, Owner};

/// What the programs remember of a socket. Lives and dies with it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct FlowState {
    /// The next record's number.
    pub number: u64,
    /// `SO_COOKIE`; 0 = not asked yet.
    pub cookie: u64,
    /// The next sample is due when `tcp_mstamp` gets there.
    pub due_us: u64,
    /// `tcp_mstamp` at the last whole sample.
    pub whole_us: u64,
    /// The flow has had losses until `tcp_mstamp` gets here: it is sampled closely.
    pub lossy_until_us: u64,
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
    /// Bits [`SEEN`], [`LISTENER`], [`WANTED`], [`UNWANTED`].
    pub flags: u32,
    /// As the filter was last asked with.
    pub holders: Holders,
    /// Of the socket, once it is [`SEEN`].
    pub netns: u32,
    pub reserved: u32,
}

/// Which of the processes that the filter names hold a socket, and the walk that found this; 0 = none came by.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Holders {
    pub processes: u32,
    pub walk: u32,
}

/// [`FlowState::flags`]: a record of this flow was made.
pub const SEEN: u32 = 1;
/// [`FlowState::flags`]: the state belongs to a listener and only numbers its SYN-ACKs.
pub const LISTENER: u32 = 2;

/// [`FlowState::flags`]: the filter was asked, and may pass it.
pub const WANTED: u32 = 4;
/// [`FlowState::flags`]: the filter was asked, and does not pass it.
pub const UNWANTED: u32 = 8;

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
    /// As [`FlowState::due_us`].
    pub due_us: u64,
}

pub const SLOTS: usize = 1024;

#[unsafe(no_mangle)]
pub static mut SLOT: [Slot; SLOTS] = [Slot { sk: 0, due_us: 0 }; SLOTS];

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

/// By a socket's address, while the filter names processes. The walk over files cannot use socket storage: newer kernels
/// (6.18.44) do not trust a socket that was found through a file. Where it is full, user space decides.
#[btf_map]
pub static HOLDERS: HashMap<u64, Holders, 65_536, { BPF_F_NO_PREALLOC as usize }> = HashMap::new();

#[btf_map]
pub static FLOWS: SkStorage<FlowState> = SkStorage::new();

/// 8 MiB by default: at 416 bytes a sample, half a second at 40,000 records/s. User space sets the size it was told.
#[btf_map]
pub static EVENTS: RingBuf<u64, { 8 << 20 }> = RingBuf::new();

/// One element a CPU: counters and the ends of its briefs, one lookup for both. User space sets the number.
#[btf_map]
pub static CPUS: Array<Cpu, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// Each CPU's briefs, one CPU behind the other: one writer and one reader, so no lock, and user space maps them, so
/// neither copies. User space sets the number (`ProbeConfig::briefs_per_cpu` times the CPUs).
#[btf_map]
pub static BRIEFS: Array<Brief, 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// How closely to look. One element.
#[btf_map]
pub static CONTROL: Array<Control, 1> = Array::new();
