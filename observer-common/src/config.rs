//! What user space tells the programs: `ProbeConfig` before they are loaded, `Control` while they run.

/// The read-only global `CONFIG`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ProbeConfig {
    /// Only sockets of this network namespace; 0 = all.
    pub netns: u32,
    /// Words of `icsk_ca_priv` in this kernel, at most [`crate::wire::CA_WORDS`].
    pub ca_words: u32,
    /// Position of the `err` argument of `tcp_retransmit_skb`; 0 = this kernel has none.
    pub retransmit_err_arg: u32,
    /// Briefs that each CPU has room for: a power of two.
    pub briefs_per_cpu: u32,
    pub task: TaskPlaces,
}

/// Where the kernel keeps which process a task is of, in bytes. Beside the field table: what is read there is not typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TaskPlaces {
    /// 0 = the rest is not known.
    pub known: u32,
    /// `task_struct.group_leader`.
    pub leader: u32,
    /// `task_struct.thread_pid`.
    pub pid: u32,
    /// `pid.level`.
    pub level: u32,
    /// `pid.numbers`, one `struct upid` (16 bytes) a level.
    pub numbers: u32,
    pub reserved: u32,
}

impl TaskPlaces {
    pub const UNKNOWN: Self = Self {
        known: 0,
        leader: 0,
        pid: 0,
        level: 0,
        numbers: 0,
        reserved: 0,
    };
}

impl ProbeConfig {
    /// Every flow.
    pub const DEFAULT: Self = Self {
        netns: 0,
        ca_words: 0,
        retransmit_err_arg: 0,
        briefs_per_cpu: 1,
        task: TaskPlaces::UNKNOWN,
    };
}

/// Flows that can be looked at closely at the same time.
pub const FOCUS: usize = 8;

/// How closely to look; the only element of the map `CONTROL`, rewritten while the programs run. A torn reading costs
/// one sample more or less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Control {
    /// At least this long between two samples of a flow, µs; 0 = every ACK.
    pub interval_us: u64,
    /// The same for flows in `focus` and those with losses a moment ago.
    pub close_us: u64,
    /// At most this long between two whole samples of a flow that is sampled more often, µs.
    pub whole_us: u64,
    /// The sweep hands over unchanged flows too.
    pub sweep_all: u32,
    /// Number of the walk over tasks' files that runs or comes next; never 0.
    pub walk: u32,
    /// Whether anything is in `focus`.
    pub focused: u32,
    pub reserved: u32,
    /// Cookies of the flows that somebody looks at; 0 = none.
    pub focus: [u64; FOCUS],
}

impl Control {
    /// A flow with losses is sampled closely for this long after the last one.
    pub const CLOSE_AFTER_LOSS_US: u64 = 10_000_000;
    /// Longest interval: a year.
    pub const LONGEST_US: u64 = 366 * 24 * 3600 * 1_000_000;
}
