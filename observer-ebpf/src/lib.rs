//! The pure parts of the kernel programs, compiled for the host too so that they have unit tests.
#![no_std]

pub mod kind;
pub mod pace;
