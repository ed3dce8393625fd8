//! The domain's events: what every source yields, the model folds, and nothing else speaks.

mod flow;
mod host;
mod qdisc;

pub use flow::*;
pub use host::*;
pub use qdisc::*;

use crate::units::Mono;

/// One observation.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub time: Mono,
    /// The flow it is of; `None` for what concerns the host or the tool.
    pub flow: Option<FlowId>,
    pub payload: Payload,
}

/// What was observed.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    /// The first event of a flow. Its attributes follow as soon as they are known.
    Opened(Opened),
    /// What changes rarely, whole, whenever part of it changed.
    Attributes(Box<Attributes>),
    Sample(Box<Sample>),
    Retransmit(Retransmit),
    State(StateChange),
    CaState(CaStateChange),
    /// The last event of a flow; its final [`Sample`] came just before.
    Closed,
    /// Who holds the socket; empty = nobody any more.
    Owners(Vec<Process>),
    Host(Box<Host>),
    /// A device with the qdiscs really attached, whole, with counters.
    Device(Box<Device>),
    /// A device that is gone.
    DeviceGone(DeviceId),
    /// What is outside the namespaces observed.
    Elsewhere(Elsewhere),
    /// Events of a flow (or of unknown flows) that are known to have been lost.
    Gap(Gap),
    /// What became of the programs' runs so far.
    Counters(Box<Counters>),
    /// Carries time forward when nothing happens.
    Tick,
    Note(Note),
}

/// Holes in a flow's numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Records missing.
    pub missing: u64,
}

/// Totals since the programs were attached, per program (SPEC §8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub programs: Vec<ProgramCounters>,
    /// What observing cost since the last time this was told; `None` = not measured.
    pub cost: Option<Cost>,
}

/// What observing costs, and how closely flows are looked at for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// CPU time of this process, share of all cores, millionths.
    pub user_ppm: u32,
    /// CPU time of the programs: by the kernel's statistics while they are on, else runs × calibrated cost.
    pub kernel_ppm: u32,
    /// At least this long between two samples of a flow.
    pub interval_ns: u64,
    /// The same of flows that are looked at or have had losses a moment ago.
    pub close_ns: u64,
    /// The intervals are longer than asked for, to stay within the CPU budget.
    pub stretched: bool,
}

impl Cost {
    /// All of it, share of all cores.
    pub fn share(&self) -> f64 {
        (f64::from(self.user_ppm) + f64::from(self.kernel_ppm)) / 1e6
    }
}

/// `attempted = kept + suppressed + filtered + failed + dropped + missed`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramCounters {
    pub program: String,
    /// Own entry counter + `missed`.
    pub attempted: u64,
    pub kept: u64,
    pub suppressed: u64,
    pub filtered: u64,
    pub failed: u64,
    pub dropped: u64,
    /// The kernel's `recursion_misses`: no program can count these itself (TRAPS 29).
    pub missed: u64,
    /// `run_time_ns` of the kernel's statistics; `None` while they are off.
    pub run_time_ns: Option<u64>,
}

impl Counters {
    /// Events that should have come and did not: failed, dropped and missed.
    pub fn lost(&self) -> u64 {
        self.programs
            .iter()
            .flat_map(|p| [p.failed, p.dropped, p.missed])
            .fold(0, u64::saturating_add)
    }
}

/// Something a person should know that is no figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub kind: NoteKind,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoteKind {
    /// A retransmission attempt that the kernel did not count (TRAPS 42).
    Attempt,
    /// A part of the tool does not work here: hook missing, field absent, qdisc unreadable.
    Degraded,
    /// Anything else.
    Info,
}
