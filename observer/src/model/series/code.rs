//! A whole number in two bytes: exact below 2048, to 11 significant bits (0.05 %) above; unknown and unlimited apart.

use crate::units::Limit;

/// Ordered as the numbers are, with «unlimited» above them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Code(u16);

/// Bits behind the leading one.
const BITS: u32 = 10;

impl Code {
    pub const UNKNOWN: Self = Self(u16::MAX);
    pub const UNLIMITED: Self = Self(u16::MAX - 1);

    /// The code nearest to `value`.
    pub fn of(value: u64) -> Self {
        if value < 2 << BITS {
            return Self(value as u16);
        }
        let mut shift = value.ilog2() - BITS;
        // Rounded: a bit more than is kept, and half of the last place.
        let mut kept = (((value >> (shift - 1)) + 1) >> 1) as u32;
        if kept == 2 << BITS {
            if shift == u64::BITS - 1 - BITS {
                kept -= 1;
            } else {
                shift += 1;
                kept = 1 << BITS;
            }
        }
        Self(((shift << BITS) + kept) as u16)
    }

    pub fn limit(value: Limit<u64>) -> Self {
        match value {
            Limit::Finite(value) => Self::of(value),
            Limit::Unlimited => Self::UNLIMITED,
        }
    }

    pub fn option(value: Option<u64>) -> Self {
        value.map_or(Self::UNKNOWN, Self::of)
    }

    pub fn is_known(self) -> bool {
        self != Self::UNKNOWN
    }

    /// `None` = unknown.
    pub fn value(self) -> Option<Limit<u64>> {
        match self {
            Self::UNKNOWN => None,
            Self::UNLIMITED => Some(Limit::Unlimited),
            Self(code) if code < 2 << BITS => Some(Limit::Finite(u64::from(code))),
            Self(code) => {
                let shift = (code >> BITS) - 1;
                let kept = (1 << BITS) + u64::from(code & ((1 << BITS) - 1));
                Some(Limit::Finite(kept << shift))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn back(value: u64) -> u64 {
        Code::of(value)
            .value()
            .and_then(Limit::finite)
            .expect("a number")
    }

    #[test]
    fn small_numbers_are_exact_and_the_ends_hold() {
        for value in 0..=2048 {
            assert_eq!(back(value), value);
        }
        assert!(back(u64::MAX) >= u64::MAX - (u64::MAX >> 11));
        assert!(Code::of(u64::MAX) < Code::UNLIMITED);
        assert_eq!(Code::UNKNOWN.value(), None);
        assert_eq!(Code::UNLIMITED.value(), Some(Limit::Unlimited));
    }

    proptest! {
        #[test]
        fn large_numbers_keep_three_digits_and_their_order(a: u64, shift in 0_u32..64, b: u64) {
            let a = a >> shift;
            prop_assert!(back(a).abs_diff(a) <= a / 2000);
            prop_assert_eq!(Code::of(back(a)), Code::of(a));
            prop_assert!(a > b || Code::of(a) <= Code::of(b));
        }
    }
}
