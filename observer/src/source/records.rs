//! Records of all channels → events in the order of time: what every source of wire records does with them.

use super::reorder::Reorder;
use crate::event::Event;
use crate::kernel::decode::Decoder;
use crate::kernel::record;

/// Records on their way to being events.
#[derive(Debug)]
pub struct Records {
    reorder: Reorder,
    pub decoder: Decoder,
    unknown: u64,
}

impl Records {
    pub fn new(decoder: Decoder) -> Self {
        Self {
            reorder: Reorder::default(),
            decoder,
            unknown: 0,
        }
    }

    /// Takes a record in.
    pub fn push(&mut self, bytes: &[u8]) {
        match record::header(bytes) {
            Some(header) => self.reorder.push(header.time_ns, bytes),
            None => self.unknown += 1,
        }
    }

    /// Takes in what an iterator over sockets wrote: whole samples, one after the other.
    pub fn push_sweep(&mut self, buffer: &[u8]) {
        let size = size_of::<observer_common::wire::Full>();
        for bytes in buffer.chunks(size) {
            if bytes.len() == size {
                self.push(bytes);
            } else {
                self.unknown += 1;
            }
        }
    }

    /// Decodes what is older than `until_ns`.
    pub fn release(&mut self, until_ns: u64, events: &mut Vec<Event>) {
        let Self {
            reorder,
            decoder,
            unknown,
        } = self;
        reorder.release(until_ns, |bytes| match record::parse(bytes) {
            Some(record) => decoder.decode(&record, events),
            None => *unknown += 1,
        });
    }

    /// Counts a record of another kind that was not understood.
    pub fn not_understood(&mut self) {
        self.unknown += 1;
    }

    /// Records that were not understood.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }
}
