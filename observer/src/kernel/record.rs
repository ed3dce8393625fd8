//! Bytes from the ring or the sweep → a wire record.

use observer_common::wire::{
    Brief, CongState, Full, Header, Owner, RecordKind, Retransmit, Sample, State, SynAck,
};

/// A record as the kernel wrote it.
#[derive(Clone, Copy, Debug)]
pub enum Record {
    Sample(Sample),
    Brief(Brief),
    /// A sample with attributes; the last record of its flow when `header.kind` is [`RecordKind::Close`].
    Full(Full),
    Retransmit(Retransmit),
    State(State),
    SynAck(SynAck),
    CongState(CongState),
}

/// Plain records.
///
/// # Safety
/// Every byte pattern is a value, and there is no padding (asserted in `wire.rs`).
pub unsafe trait Plain: Copy {}
// SAFETY: integers throughout, asserted in `wire.rs` to be without padding.
unsafe impl Plain for Header {}
// SAFETY: integers throughout, asserted in `wire.rs` to be without padding.
unsafe impl Plain for Sample {}
// SAFETY: integers throughout, asserted in `wire.rs` to be without padding.
unsafe impl Plain for Brief {}
// SAFETY: integers throughout, asserted in `wire.rs` to be without padding.
unsafe impl Plain for Full {}
// SAFETY: integers throughout, asserted in `wire.rs` to be without padding.
unsafe impl Plain for Retransmit {}
// SAFETY: integers throughout, asserted in `wire.rs` to be without padding.
unsafe impl Plain for State {}
// SAFETY: integers throughout, asserted in `wire.rs` to be without padding.
unsafe impl Plain for SynAck {}
// SAFETY: integers throughout, asserted in `wire.rs` to be without padding.
unsafe impl Plain for CongState {}
// SAFETY: integers throughout, asserted in `wire.rs` to be without padding.
unsafe impl Plain for Owner {}

fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: long enough; `Plain` types have no invalid bytes; the read does not ask for alignment.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// A record as bytes.
pub fn bytes<T: Plain>(record: &T) -> &[u8] {
    // SAFETY: a plain record without padding, borrowed as long as it is.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(record).cast(), size_of::<T>()) }
}

/// The header alone.
pub fn header(bytes: &[u8]) -> Option<Header> {
    read(bytes)
}

/// A record of the owners' walk.
pub fn owner(bytes: &[u8]) -> Option<Owner> {
    let owner: Owner = read(bytes)?;
    (owner.header.kind == RecordKind::Owner as u8).then_some(owner)
}

/// The whole record; `None` for a kind or length this version does not know.
pub fn parse(bytes: &[u8]) -> Option<Record> {
    const SAMPLE: u8 = RecordKind::Sample as u8;
    const ENDED: u8 = RecordKind::Ended as u8;
    const BRIEF: u8 = RecordKind::Brief as u8;
    const FULL: u8 = RecordKind::Full as u8;
    const CLOSE: u8 = RecordKind::Close as u8;
    const RETRANSMIT: u8 = RecordKind::Retransmit as u8;
    const STATE: u8 = RecordKind::State as u8;
    const SYNACK: u8 = RecordKind::SynAck as u8;
    const CONG_STATE: u8 = RecordKind::CongState as u8;
    Some(match header(bytes)?.kind {
        SAMPLE => Record::Sample(read(bytes)?),
        BRIEF => Record::Brief(read(bytes)?),
        FULL | CLOSE | ENDED => Record::Full(read(bytes)?),
        RETRANSMIT => Record::Retransmit(read(bytes)?),
        STATE => Record::State(read(bytes)?),
        SYNACK => Record::SynAck(read(bytes)?),
        CONG_STATE => Record::CongState(read(bytes)?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..800)) {
            let _ = parse(&bytes);
        }
    }

    #[test]
    fn a_short_record_is_none() {
        let mut bytes = [0_u8; size_of::<Sample>()];
        bytes[28] = RecordKind::Sample as u8;
        assert!(matches!(parse(&bytes), Some(Record::Sample(_))));
        assert!(parse(&bytes[..bytes.len() - 1]).is_none());
    }
}
