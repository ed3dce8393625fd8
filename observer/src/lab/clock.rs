//! The lab's clock: the monotonic one, which recordings are dated by too.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// `CLOCK_MONOTONIC`, ns.
#[expect(
    clippy::disallowed_methods,
    reason = "packets are due by the machine's clock"
)]
pub fn now_ns() -> u64 {
    ns(clock_gettime(ClockId::Monotonic))
}

/// What the wall's clock, by which the kernel stamps packets, is ahead of the monotonic one, ns.
#[expect(
    clippy::disallowed_methods,
    reason = "stamps of packets are made comparable"
)]
pub fn wall_ahead_ns() -> u64 {
    let wall = ns(clock_gettime(ClockId::Realtime));
    wall.saturating_sub(now_ns())
}

fn ns(time: Timespec) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}
