//! What a recording comes to: the table of SPEC §3 per flow and in total, and comparisons of recordings.
//!
//! ```text
//! Event → fold (flow, course, sketch: bounded per flow) → FileReport ─┬→ json, csv, text, markdown, html
//!                                                                      └→ compare: groups of runs
//! ```
//!
//! `docs/REPORT.md` has the formulas. Whoever reads files is not here: events come in, text goes out.

mod block;
pub mod chart;
pub mod compare;
mod course;
pub mod csv;
mod document;
mod flow;
mod fold;
pub mod html;
pub mod json;
pub mod markdown;
mod pages;
mod sketch;
pub mod text;
mod verdict;

pub use block::{Block, Kinds, LimitedBy, Timeline};
pub use document::{Document, Part, Table};
pub use flow::BURSTS;
pub use fold::{FileReport, FlowReport, Fold, Given, Losses, Reading, Total, Who, total};
pub use pages::{in_full, report};
pub use sketch::{RELATIVE_ERROR, THINNED_NS};
pub use verdict::{Span, bottleneck};

/// What the user says of the report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// Left out at the start of every flow, ns.
    pub omit_ns: u64,
    /// The rate of the path, bits per second.
    pub path_rate_bps: Option<u64>,
}
