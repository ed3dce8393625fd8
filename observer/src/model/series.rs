//! The past of a flow: what its samples said, finely for the last seconds, coarser the older it is, never bridged.
//!
//! A [`History`] keeps four resolutions side by side: every sample, and buckets of 100 ms, 1 s and 10 s with minimum,
//! maximum and last of each [`Quantity`], so that a peak stays a peak at any age. Reading ([`read`]) takes the finest
//! there is for each moment. Where records were lost, the source changed or did not speak ([`Break`]), nothing joins
//! what was before to what came after; silence of a flow that is observed means that nothing happened, and is told
//! apart from that.
//!
//! Memory is bounded for any sequence of events: by the number of flows alone follows the [`level`] at which each is
//! remembered. A bucket takes 104 bytes, a sample 32, so a flow takes at most 530 kB where there are few, and 2.8 kB
//! (14 s in seconds, two minutes in 10 s) where there are 20,000: 64 MB in all. Flows that somebody looks at
//! ([`FOCUSED`] of them) are remembered in full whatever the number of the others.

mod code;
mod entry;
mod history;
mod level;
mod pieces;
mod read;
mod ring;

pub use entry::{Break, Breaks, Quantity, Stage, Stages};
pub use history::History;
pub use level::{BUDGET, FOCUSED};
pub use read::{Column, Extent, Past, Window};

pub(super) use entry::Values;
pub(super) use level::Shelf;

/// The source is to speak at least once a second. Where it did not for so long, silence of a flow says nothing.
pub(super) const BLIND_NS: u64 = 3_000_000_000;
