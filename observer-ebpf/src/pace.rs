//! Whether a flow should report now, and whether what it has to tell is new. Pure.

/// Whether the moment `due_us` has come by the socket's own clock (`tcp_mstamp`, microseconds, which may be about one
/// RTT old at `tcp_probe`: good enough to decide, never to date, TRAPS 40).
#[inline(always)]
pub fn is_due(now_us: u64, due_us: u64) -> bool {
    now_us.wrapping_sub(due_us) as i64 >= 0
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
        assert!(!is_due(1_009_999, 1_010_000));
        assert!(is_due(1_010_000, 1_010_000));
        assert!(is_due(1_010_001, 1_010_000));
        assert!(is_due(5, 0), "nothing was said yet");
        assert!(!is_due(0, 1 << 62), "far off is not due");
    }

    #[test]
    fn neighbouring_values_differ_in_the_signature() {
        let one = mix(mix(1, 7), 8);
        assert_ne!(one, mix(mix(1, 8), 7));
        assert_ne!(one, mix(mix(1, 7), 9));
        assert_ne!(mix(1, 0), mix(2, 0));
    }
}
