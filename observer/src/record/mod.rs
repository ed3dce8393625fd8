//! Bytes on disk: what happened, kept so that it can be looked at again. `docs/FORMAT.md` describes the file.
//!
//! ```text
//! Event → codec (a message each) ─┐
//!       → pack  (samples by flow) ┴→ writer: chunks → MCAP
//! Event ← chunk: codec, unpack ← reader ← container: framing, checksums, zstd; bounded, whatever the bytes
//! ```

mod anonymize;
mod channel;
mod chunk;
mod codec;
mod columns;
mod container;
mod environment;
mod file;
mod index;
mod known;
mod pack;
mod quantity;
mod reader;
mod unpack;
mod varint;
mod writer;

pub use anonymize::Anonymizer;
pub use container::Damage;
pub use environment::{Environment, FORMAT};
pub use file::{FileError, Files, SMALLEST, Target};
pub use index::{Entry, Index};
pub use known::Known;
pub use reader::{Ending, How, ReadError, Reader};
pub use writer::{SEAL_NS, Totals, WriteError, Writer};

/// The messages of `proto/recording.proto`, and their schemas.
#[allow(
    clippy::all,
    clippy::pedantic,
    missing_debug_implementations,
    reason = "generated"
)]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/observer.v1.rs"));
    include!(concat!(env!("OUT_DIR"), "/schemas.rs"));
}

/// What a file stays below when it is written, and what is refused beyond when it is read: a hostile file cannot
/// make the reader allocate without bound.
pub mod limits {
    /// Events in a chunk; a row of a pack is one.
    pub const EVENTS: usize = 1 << 17;
    /// Bytes of a chunk, unpacked.
    pub const CHUNK: usize = 64 << 20;
    /// Bytes of any other record.
    pub const RECORD: usize = 8 << 20;
    /// Chunks in a file's index.
    pub const CHUNKS: usize = 1 << 22;
}
