//! Recordings: what is written is what is read, whatever the events; torn, damaged, foreign and hostile files.

mod record_support;

use std::io::Cursor;
use std::path::Path;

use observer::event::{Event, Payload};
use observer::export::jsonl::{Context, derived_line, event_line, flow_object};
use observer::model::Model;
use observer::record::{How, Index, ReadError, Reader, SEAL_NS, Writer, proto};
use observer::source::script;
use observer::units::Mono;
use proptest::prelude::*;
use prost::Message as _;
use record_support::{Draw, difference, environment, read, written};

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_and_folds_the_same(seed in any::<u64>(), count in 0usize..400, step in 1u64..20_000_000) {
        let events = Draw::new(seed).events(count, step);
        let (back, ending) = read(&written(&events));
        prop_assert_eq!(difference(&back, &events), None);
        prop_assert!(ending.is_complete());
        prop_assert!(fold(&back) == fold(&events));
    }

    #[test]
    fn a_file_with_bytes_changed_is_read_without_panic(
        seed in any::<u64>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = written(&Draw::new(seed).events(60, 50_000_000));
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        survive(&bytes);
    }

    #[test]
    fn chunks_of_any_content_are_read_without_panic(
        seed in any::<u64>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        // Without compression and checksums: what is changed reaches the messages.
        let mut bytes = plain(&Draw::new(seed).events(60, 5_000_000));
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        survive(&bytes);
    }
}

/// All that the model tells of events: every line, what was derived, every flow at the end.
fn fold(events: &[Event]) -> Vec<String> {
    let (mut model, context) = (Model::default(), Context::default());
    let mut told = Vec::new();
    let mut tell = |line: serde_json::Result<String>| told.push(line.expect("JSON"));
    for event in events {
        model.apply(event);
        if let Some(line) = event_line(event, &model, &context) {
            tell(serde_json::to_string(&line));
        }
        for derived in model.take_derived() {
            tell(serde_json::to_string(&derived_line(
                &derived, &model, &context,
            )));
        }
    }
    for flow in model.flows() {
        tell(serde_json::to_string(&flow_object(&model, flow, &context)));
    }
    let totals = (model.lost(), model.gaps(), model.odd(), model.events());
    tell(Ok(format!("{:?} {totals:?}", model.counters())));
    told
}

/// Reads what can be read, index too.
fn survive(bytes: &[u8]) {
    let Ok(mut reader) = Reader::new(Cursor::new(bytes)) else {
        return;
    };
    let index = reader.index().expect("memory reads");
    let mut first = None;
    while let Ok(Some(events)) = reader.batch() {
        first = first.or(events.first().map(|event| event.time));
    }
    assert!(reader.ending().is_some());
    reader
        .seek(&index, first.unwrap_or_default())
        .expect("memory seeks");
    while let Ok(Some(_)) = reader.batch() {}
}

/// The same file, its chunks neither packed nor with checksums.
fn plain(events: &[Event]) -> Vec<u8> {
    let packed = written(events);
    let mut out = Vec::new();
    let options = mcap::WriteOptions::new()
        .profile("observer")
        .compression(None)
        .calculate_chunk_crcs(false)
        .emit_message_indexes(false);
    let mut writer = options.create(Cursor::new(&mut out)).expect("memory");
    for record in mcap::read::LinearReader::new(&packed).expect("MCAP") {
        match record.expect("whole") {
            mcap::records::Record::Metadata(metadata) => {
                writer.write_metadata(&metadata).expect("memory");
            }
            mcap::records::Record::Chunk { header, data } => {
                for inner in mcap::read::ChunkReader::new(header, &data).expect("a chunk") {
                    match inner.expect("whole") {
                        mcap::records::Record::Schema { header, data } => {
                            writer
                                .add_schema(&header.name, &header.encoding, &data)
                                .expect("memory");
                        }
                        mcap::records::Record::Channel(c) => {
                            writer
                                .add_channel(
                                    c.schema_id,
                                    &c.topic,
                                    &c.message_encoding,
                                    &c.metadata,
                                )
                                .expect("memory");
                        }
                        mcap::records::Record::Message { header, data } => {
                            writer
                                .write_to_known_channel(&header, &data)
                                .expect("memory");
                        }
                        _ => {}
                    }
                }
                writer.flush().expect("memory");
            }
            _ => {}
        }
    }
    writer.finish().expect("memory");
    drop(writer);
    out
}

#[test]
fn a_plain_file_of_another_writer_is_read_too() {
    let events = Draw::new(5).events(300, 5_000_000);
    let (back, ending) = read(&plain(&events));
    assert_eq!(ending.damaged, []);
    assert_eq!(difference(&back, &events), None);
}

#[test]
fn a_file_cut_at_any_byte_gives_a_prefix_and_says_so() {
    let events = Draw::new(11).events(24, 400_000_000);
    let bytes = written(&events);
    let mut most = 0;
    for length in 0..bytes.len() {
        let mut reader = match Reader::new(Cursor::new(&bytes[..length])) {
            Ok(reader) => reader,
            Err(ReadError::Headless) => {
                assert_eq!(most, 0, "a longer file could be read");
                continue;
            }
            Err(error) => panic!("{length}: {error}"),
        };
        let index = reader.index().expect("memory reads");
        let mut got = Vec::new();
        while let Some(batch) = reader.batch().expect("memory reads") {
            got.extend(batch);
        }
        assert!(events.starts_with(&got), "{length}");
        assert!(got.len() >= most, "{length}: fewer than in a shorter file");
        most = got.len();
        let ending = reader.ending().expect("the end");
        match ending.how {
            How::Truncated { at } => {
                assert!(at <= length as u64);
                assert!(!ending.is_complete());
                assert!(ending.missing()[0].contains("not closed"));
            }
            How::NoIndex { .. } => assert_eq!(difference(&got, &events), None, "{length}"),
            How::Complete => panic!("{length} of {} bytes are not complete", bytes.len()),
        }
        assert!(index.rebuilt, "{length}");
    }
    assert_eq!(most, events.len());
}

#[test]
fn a_damaged_chunk_is_left_out_and_said() {
    let events = Draw::new(3).events(200, 30_000_000);
    let mut bytes = written(&events);
    let mut reader = Reader::new(Cursor::new(&bytes)).expect("a recording");
    let index = reader.index().expect("memory reads");
    assert!(index.entries.len() >= 3);
    let victim = index.entries[1].at;
    // In the packed content, behind the head.
    bytes[victim as usize + 70] ^= 0x55;
    let (back, ending) = read(&bytes);
    assert!(back.len() < events.len() && !back.is_empty());
    assert_eq!(ending.how, How::Complete);
    assert_eq!(ending.damaged.len(), 1);
    assert_eq!(ending.damaged[0].at, victim);
    assert!(!ending.is_complete());
    assert!(
        ending.missing()[0].contains("damaged"),
        "{:?}",
        ending.missing()
    );
}

#[test]
fn the_index_is_the_same_read_or_made_and_seeking_misses_nothing() {
    let mut events = Draw::new(8).events(600, 30_000_000);
    // In order, as a source gives them.
    events.sort_by_key(|event| event.time);
    let bytes = written(&events);
    let mut reader = Reader::new(Cursor::new(&bytes)).expect("a recording");
    let index = reader.index().expect("memory reads");
    assert!(!index.rebuilt);
    let torn = &bytes[..bytes.len() - 1];
    let rebuilt = Reader::new(Cursor::new(torn))
        .and_then(|mut torn| torn.index())
        .expect("memory reads");
    assert!(rebuilt.rebuilt);
    assert_eq!(rebuilt.entries, index.entries);
    assert!(index.entries.len() > 5);
    let last = events.last().map_or(0, |event| event.time.0);
    let first = events[0].time.0;
    for at in (first - 5..last + 2_000_000_000).step_by(777_777_777) {
        reader.seek(&index, Mono(at)).expect("memory seeks");
        let mut got = Vec::new();
        while let Some(batch) = reader.batch().expect("memory reads") {
            got.extend(batch);
        }
        let skipped = events.len() - got.len();
        assert_eq!(difference(&got, &events[skipped..]), None);
        let wanted = events.iter().filter(|event| event.time.0 >= at).count();
        assert!(got.len() >= wanted, "{at}");
        // … and does not begin at the beginning for nothing.
        let early = got
            .first()
            .map_or(0, |event| at.saturating_sub(event.time.0));
        assert!(
            early < 3 * SEAL_NS + 2_000_000_000 || got.len() == wanted,
            "{early}"
        );
    }
    assert_eq!(Index::default().before(Mono(0)), None);
}

#[test]
fn chunks_are_sealed_by_time_also_of_one_flow_only() {
    let mut draw = Draw::new(1);
    let mut writer = Writer::new(Vec::new(), &environment()).expect("memory");
    for n in 0..=SEAL_NS / 10_000_000 {
        let event = Event {
            time: Mono(n * 10_000_000),
            flow: Some(draw.flow()),
            payload: Payload::Sample(Box::new(draw.sample())),
        };
        let sealed = writer.push(&event).expect("memory");
        assert_eq!(sealed, n == SEAL_NS / 10_000_000);
    }
    assert_eq!(writer.totals().chunks, 1);
    const { assert!(SEAL_NS < 1_000_000_000) }
}

fn refusal(bytes: &[u8]) -> String {
    match Reader::new(Cursor::new(bytes)) {
        Ok(_) => panic!("was read"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_is_no_recording_is_refused_with_the_reason() {
    assert!(refusal(b"").contains("nothing was recorded"));
    assert!(refusal(b"not an mcap file at all").contains("MCAP"));
    assert!(refusal(&[0; 4096]).contains("MCAP"));
    let mut foreign = Vec::new();
    mcap::WriteOptions::new()
        .profile("ros2\x1b[2J")
        .create(Cursor::new(&mut foreign))
        .and_then(|mut writer| writer.finish())
        .expect("memory");
    let reason = refusal(&foreign);
    assert!(
        reason.contains("ros2") && !reason.contains('\x1b'),
        "{reason}"
    );
    let mut newer = written(&[]);
    let key = b"format\x01\0\0\x001";
    let at = newer
        .windows(key.len())
        .position(|window| window == key)
        .expect("the key");
    newer[at + key.len() - 1] = b'2';
    let reason = refusal(&newer);
    assert!(
        reason.contains("format 2") && reason.contains("0.1.0"),
        "{reason}"
    );
}

#[test]
fn the_environment_comes_back() {
    let bytes = written(&[]);
    let reader = Reader::new(Cursor::new(&bytes)).expect("a recording");
    assert_eq!(reader.environment(), &environment());
}

/// Another reader (the mcap crate's) and another decoder (prost's) agree with ours about every pack.
#[test]
fn packs_mean_what_the_schema_says() {
    let events = Draw::new(21).events(500, 3_000_000);
    let bytes = written(&events);
    let mut rows = 0;
    for message in mcap::MessageStream::new(&bytes).expect("MCAP") {
        let message = message.expect("whole");
        assert_eq!(message.channel.message_encoding, "protobuf");
        let schema = message.channel.schema.as_ref().expect("a schema");
        assert_eq!(schema.encoding, "protobuf");
        if message.channel.topic != "/samples" {
            continue;
        }
        assert_eq!(schema.name, "observer.v1.SamplePack");
        let pack = proto::SamplePack::decode(&*message.data).expect("protobuf");
        let sums = |column: &[i64]| -> Vec<i64> {
            column
                .iter()
                .scan(0i64, |sum, difference| {
                    *sum = sum.wrapping_add(*difference);
                    Some(*sum)
                })
                .collect()
        };
        let (places, times) = (sums(&pack.sequence), sums(&pack.time_ns));
        assert_eq!(places.len(), pack.count as usize);
        let (cwnd, mss, state) = (sums(&pack.cwnd), sums(&pack.mss), sums(&pack.state));
        let una = sums(&pack.snd_una_less_acked);
        let at = |column: &[i64], row: usize| column.get(row).or(column.first()).copied();
        for (row, time) in times.iter().enumerate() {
            let found = events.iter().any(|event| {
                let Payload::Sample(sample) = &event.payload else {
                    return false;
                };
                event.time.0 == *time as u64
                    && sample
                        .cwnd
                        .is_none_or(|known| at(&cwnd, row) == Some(i64::from(known)))
                    && at(&state, row).is_some()
                    && at(&mss, row) == Some(i64::from(sample.mss))
                    && sample.snd_una.is_none_or(|known| {
                        let acked = sample.bytes_acked.unwrap_or(0) as u32;
                        at(&una, row) == Some(i64::from(known.wrapping_sub(acked)))
                    })
            });
            assert!(found, "row {row} of {pack:?}");
            rows += 1;
        }
    }
    let samples = events
        .iter()
        .filter(|event| matches!(event.payload, Payload::Sample(_)))
        .count();
    assert_eq!(rows, samples);
    assert!(rows > 100);
}

/// One file of each released format; beside it, as a script, what it holds.
#[test]
fn old_files_hold_what_they_held() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let mut files = 0;
    for entry in std::fs::read_dir(&dir).expect("there").flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "mcap") {
            continue;
        }
        files += 1;
        let text = std::fs::read_to_string(path.with_extension("txt")).expect("its script");
        let events = script::parse(&text).expect("a script");
        let (back, ending) = read(&std::fs::read(&path).expect("there"));
        assert_eq!(difference(&back, &events), None, "{}", path.display());
        assert!(ending.is_complete());
        let reader = Reader::open(&path).expect("a recording");
        assert_eq!(reader.environment(), &environment());
        let index = Reader::open(&path).and_then(|mut reader| reader.index());
        assert!(index.is_ok_and(|index| index.entries.len() > 1 && !index.rebuilt));
    }
    assert!(files >= 1);
}
