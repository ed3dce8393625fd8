//! The bytes that cross between the kernel programs and user space, and the table of the kernel fields they read.
#![no_std]

pub mod config;
pub mod flow;
pub mod layout;
pub mod outcome;
pub mod wire;

#[cfg(feature = "user")]
mod pod {
    use crate::{config::ProbeConfig, layout::Layout, outcome::ProgramsCounters};

    // SAFETY: `repr(C)`, integers only, no implicit padding (asserted below).
    unsafe impl aya::Pod for Layout {}
    // SAFETY: as above.
    unsafe impl aya::Pod for ProbeConfig {}
    // SAFETY: as above.
    unsafe impl aya::Pod for ProgramsCounters {}

    const _: () = {
        assert!(size_of::<Layout>() == crate::layout::FIELD_COUNT * 4);
        assert!(size_of::<ProbeConfig>() == 48);
    };
}
