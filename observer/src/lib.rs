//! observer: a live TCP flow observer for Linux.

pub mod cli;
pub mod commands;
pub mod detect;
pub mod doctor;
pub mod event;
pub mod export;
pub mod filter;
pub mod host;
pub mod import;
pub mod kernel;
pub mod lab;
pub mod model;
pub mod playback;
pub mod record;
pub mod report;
pub mod serve;
pub mod source;
pub mod tui;
pub mod units;
