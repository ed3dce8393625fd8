//! Everything that needs the running kernel: its types, loading, reading.

pub mod btf;
pub mod caps;
pub mod clock;
pub mod confine;
pub mod congestion;
mod convert;
pub mod counters;
pub mod decode;
pub mod diag;
pub mod load;
pub mod object;
pub mod owners;
pub mod patch;
pub mod record;
pub mod rights;
pub mod shared;
mod task;
