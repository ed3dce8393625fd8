//! The bytes that cross between the kernel programs and user space, and the table of the kernel fields they read.
#![no_std]

pub mod config;
pub mod filter;
pub mod flow;
pub mod layout;
pub mod outcome;
pub mod wire;

#[cfg(feature = "user")]
mod pod {
    use crate::{
        config::{Control, ProbeConfig},
        filter::FilterProgram,
        layout::Layout,
    };

    // SAFETY: `repr(C)`, integers only, no implicit padding (asserted below).
    unsafe impl aya::Pod for Layout {}
    // SAFETY: as above.
    unsafe impl aya::Pod for ProbeConfig {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Control {}
    // SAFETY: as above.
    unsafe impl aya::Pod for FilterProgram {}

    const _: () = {
        assert!(size_of::<Layout>() == crate::layout::FIELD_COUNT * 4);
        assert!(size_of::<ProbeConfig>() == 40);
        assert!(size_of::<Control>() == 3 * 8 + 4 * 4 + crate::config::FOCUS * 8);
        assert!(
            size_of::<FilterProgram>()
                == 8 + crate::filter::MAX_PIDS * 4 + crate::filter::MAX_STEPS * 24
        );
    };
}
