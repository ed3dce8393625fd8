//! `ProbeConfig`: what user space tells the programs before they are loaded.

/// The read-only global `CONFIG`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ProbeConfig {
    /// At least this long between two samples of a flow; 0 = every ACK.
    pub interval_ns: u64,
    /// Only sockets of this network namespace; 0 = all.
    pub netns: u32,
    /// Words of `icsk_ca_priv` in this kernel, at most [`crate::wire::CA_WORDS`].
    pub ca_words: u32,
    /// Position of the `err` argument of `tcp_retransmit_skb`; 0 = this kernel has none.
    pub retransmit_err_arg: u32,
    pub reserved: u32,
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
    /// Every ACK of every flow.
    pub const DEFAULT: Self = Self {
        interval_ns: 0,
        netns: 0,
        ca_words: 0,
        retransmit_err_arg: 0,
        reserved: 0,
        task: TaskPlaces::UNKNOWN,
    };
}
