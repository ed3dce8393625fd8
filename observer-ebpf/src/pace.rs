//! Whether a flow should report now. Pure.

/// Whether `interval_ns` have passed between two readings of the socket's own clock (`tcp_mstamp`, microseconds, which
/// may be about one RTT old at `tcp_probe`: good enough to decide, never to date, TRAPS 40).
///
/// A clock that went back (a socket that reuses the memory of another) is due: better one sample too many.
#[inline(always)]
pub fn is_due(now_us: u64, last_us: u64, interval_ns: u64) -> bool {
    let elapsed_us = now_us.wrapping_sub(last_us);
    // A multiplication, where the interval in microseconds would take a division. Half a century is due, and cannot
    // overflow.
    elapsed_us >= 1 << 54 || elapsed_us * 1000 >= interval_ns
}

/// Mixes `value` into a signature. Not cryptographic: it only has to differ when a field does.
#[inline(always)]
pub fn mix(signature: u64, value: u64) -> u64 {
    // The multiplier of splitmix64 (Steele, Lea, Flood 2014); odd, so the map is a bijection.
    (signature ^ value)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trap_40_the_sockets_clock_only_decides() {
        assert!(!is_due(1_009_999, 1_000_000, 10_000_000));
        assert!(is_due(1_010_000, 1_000_000, 10_000_000));
        assert!(is_due(5, 5, 0), "interval 0 is every ACK");
        assert!(
            is_due(4, 1_000_000, 10_000_000),
            "a clock that went back is due"
        );
        assert!(!is_due(5, 4, u64::MAX), "never is never");
        assert!(is_due(u64::MAX, 0, u64::MAX), "nothing overflows");
    }

    #[test]
    fn neighbouring_values_differ_in_the_signature() {
        let one = mix(mix(1, 7), 8);
        assert_ne!(one, mix(mix(1, 8), 7));
        assert_ne!(one, mix(mix(1, 7), 9));
        assert_ne!(mix(1, 0), mix(2, 0));
    }
}
