//! Copies the congestion control's private words, raw, beside the ops pointer that says whose they are.

use observer_common::layout::Field;
use observer_common::wire::{Body, CA_WORDS};

use crate::reader::{self, Kernel};

/// User space decodes them under the layout of the code that owns the ops (TRAPS 34): nothing is interpreted here.
#[inline(always)]
pub fn fill_private(out: &mut Body, tp: Kernel) {
    out.ca_ops = tp.address(Field::CaOps);
    let words = reader::ca_words() as usize;
    macro_rules! word {
        ($($index:literal)*) => {
            $(out.ca_priv[$index] = if $index < words { tp.u64_at(Field::CaPriv, $index) } else { 0 };)*
        };
    }
    word!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17);
    const { assert!(CA_WORDS == 18) };
}
