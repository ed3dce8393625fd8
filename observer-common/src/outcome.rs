//! What became of a program's run: one counter each, so that nothing vanishes uncounted (SPEC §8).

/// The kernel programs, in the order of their counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Program {
    Probe = 0,
    Retransmit = 1,
    RetransmitSynack = 2,
    SetState = 3,
    Destroy = 4,
    CongState = 5,
    Sweep = 6,
    Owners = 7,
}

/// How many programs there are.
pub const PROGRAMS: usize = Program::ALL.len();

impl Program {
    pub const ALL: [Self; 8] = [
        Self::Probe,
        Self::Retransmit,
        Self::RetransmitSynack,
        Self::SetState,
        Self::Destroy,
        Self::CongState,
        Self::Sweep,
        Self::Owners,
    ];

    /// The program's name in the object file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Probe => "on_probe",
            Self::Retransmit => "on_retransmit",
            Self::RetransmitSynack => "on_synack",
            Self::SetState => "on_set_state",
            Self::Destroy => "on_destroy",
            Self::CongState => "on_cong_state",
            Self::Sweep => "on_sweep",
            Self::Owners => "on_owners",
        }
    }

    /// The hook it sits on: a BTF tracepoint, or the iterator's type.
    pub const fn hook(self) -> &'static str {
        match self {
            Self::Probe => "tcp_probe",
            Self::Retransmit => "tcp_retransmit_skb",
            Self::RetransmitSynack => "tcp_retransmit_synack",
            Self::SetState => "inet_sock_set_state",
            Self::Destroy => "tcp_destroy_sock",
            Self::CongState => "tcp_cong_state_set",
            Self::Sweep => "tcp",
            Self::Owners => "task_file",
        }
    }

    /// Whether it is run by reading an iterator rather than by a hook.
    pub const fn is_iterator(self) -> bool {
        matches!(self, Self::Sweep | Self::Owners)
    }

    /// Whether the tool is of use without it.
    pub const fn required(self) -> bool {
        !matches!(self, Self::CongState | Self::Owners)
    }
}

/// How one run of a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// A record was handed over.
    Kept = 0,
    /// Nothing to report yet: the flow's interval has not passed, or nothing changed since its last record.
    Suppressed = 1,
    /// Not asked for: another namespace, not TCP, never connected.
    Filtered = 2,
    /// The record could not be made: no socket storage.
    Failed = 3,
    /// The ring had no room.
    Dropped = 4,
}

/// Counters of one program on one CPU. `attempted` is raised on entry, one other at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters {
    pub attempted: u64,
    /// Indexed by [`Outcome`].
    pub outcome: [u64; 5],
    pub reserved: [u64; 2],
}

/// Counters of all programs, indexed by [`Program`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ProgramsCounters {
    pub program: [Counters; PROGRAMS],
}

/// What one CPU keeps for user space, which maps it into its own memory: the counters, and the two ends of the CPU's
/// briefs. The ends run freely; each has one writer and a cache line of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Cpu {
    pub counters: ProgramsCounters,
    /// Briefs written; only `on_probe` on this CPU writes it, which the kernel never runs twice at a time there.
    pub head: u64,
    pub apart: [u64; 7],
    /// Briefs taken; only user space writes it.
    pub tail: u64,
    pub apart2: [u64; 7],
}
