//! Everything that needs the running kernel: its types, loading, reading.

pub mod btf;
