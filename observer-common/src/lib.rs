//! The bytes that cross between the kernel programs and user space, and the table of the kernel fields they read.
#![no_std]

pub mod config;
pub mod flow;
pub mod layout;
pub mod outcome;
pub mod wire;
