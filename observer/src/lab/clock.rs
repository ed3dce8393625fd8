//! The lab's clock: the monotonic one, which recordings are dated by too.

/// `CLOCK_MONOTONIC`, ns.
#[expect(
    clippy::disallowed_methods,
    reason = "packets are due by the machine's clock"
)]
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}
