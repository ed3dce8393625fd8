//! The pure parts of the kernel programs, compiled for the host too so that they have unit tests.
#![no_std]
#![expect(
    clippy::inline_always,
    reason = "a call costs registers and stack that the programs do not have"
)]

pub mod kind;
pub mod pace;
