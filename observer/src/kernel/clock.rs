//! The kernel's clocks: the monotonic base of all events, its offset to wall time, and the length of a jiffy.

#![expect(
    clippy::disallowed_methods,
    reason = "the one place that reads clocks for the kernel's sources"
)]

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

use crate::units::Mono;

fn nanoseconds(time: Timespec) -> i128 {
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// `CLOCK_MONOTONIC`, as `bpf_ktime_get_ns()` reads it.
pub fn now() -> Mono {
    Mono(u64::try_from(nanoseconds(clock_gettime(ClockId::Monotonic))).unwrap_or(0))
}

/// CPU time of the calling thread, in nanoseconds: what something costs, whatever else runs.
pub fn spent_ns() -> u64 {
    u64::try_from(nanoseconds(clock_gettime(ClockId::ThreadCPUTime))).unwrap_or(0)
}

/// Nanoseconds to add to a [`Mono`] for wall time (since 1970, UTC): the tightest of a few paired readings.
pub fn wall_offset_ns() -> i128 {
    (0..5)
        .map(|_| {
            let before = nanoseconds(clock_gettime(ClockId::Monotonic));
            let wall = nanoseconds(clock_gettime(ClockId::Realtime));
            let after = nanoseconds(clock_gettime(ClockId::Monotonic));
            (after - before, wall - i128::midpoint(before, after))
        })
        .min()
        .map_or(0, |(_, offset)| offset)
}

/// Ticks per second of the kernel. `sysconf(_SC_CLK_TCK)` says 100 whatever the kernel runs at; the coarse clock's
/// resolution is one jiffy (`KTIME_LOW_RES`, `kernel/time/posix-timers.c`). Checked against `bpf_jiffies64` by a test
/// (TRAPS 41).
pub fn hz() -> u32 {
    let tick = nanoseconds(clock_getres(ClockId::MonotonicCoarse)).max(1);
    u32::try_from((1_000_000_000 + tick / 2) / tick).unwrap_or(u32::MAX)
}

/// CPU time of this process, all its threads, ns.
pub fn own_cpu_ns() -> u64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let (seconds, ns) = (spent.tv_sec, spent.tv_nsec);
    u64::try_from(seconds * 1_000_000_000 + ns).unwrap_or(0)
}
