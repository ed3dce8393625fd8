//! observer: a live TCP flow observer for Linux.

pub mod event;
pub mod host;
pub mod model;
pub mod units;
