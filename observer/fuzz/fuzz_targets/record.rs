//! Any bytes as a recording, and as what a chunk holds: no panic, no memory beyond the limits, an end.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use observer::record::Reader;

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    // A file whose header is right and whose only chunk is neither packed nor has a checksum: what is fuzzed reaches the
    // messages.
    let mut file = HEAD.to_vec();
    let content = (8 * 3 + 4 + 4 + 8 + bytes.len()) as u64;
    file.push(6);
    file.extend(content.to_le_bytes());
    file.extend([0; 16]);
    file.extend((bytes.len() as u64).to_le_bytes());
    file.extend([0; 8]);
    file.extend((bytes.len() as u64).to_le_bytes());
    file.extend(bytes);
    read(&file);
});

/// Magic, header, metadata, an empty set of labels, and the chunk with the channels, as 0.1.0 writes them.
const HEAD: &[u8] = include_bytes!("record.head");

fn read(bytes: &[u8]) {
    let Ok(mut reader) = Reader::new(Cursor::new(bytes)) else {
        return;
    };
    let index = reader.index().expect("memory reads");
    let mut first = None;
    while let Ok(Some(events)) = reader.batch() {
        first = first.or(events.first().map(|event| event.time));
    }
    assert!(reader.ending().is_some());
    if reader.seek(&index, first.unwrap_or_default()).is_ok() {
        while let Ok(Some(_)) = reader.batch() {}
    }
}
