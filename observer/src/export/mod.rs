//! What leaves the program as data.

pub mod jsonl;
