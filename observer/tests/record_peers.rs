//! Other readers of our files: MCAP's Python reader with its protobuf support, DuckDB and Polars, Perfetto's own schema.

mod record_support;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use observer::event::{Event, Payload};
use observer::units::Limit;
use record_support::{Draw, written};

/// Packages of one environment, in the versions that were tried.
struct Packages {
    name: &'static str,
    packages: &'static [&'static str],
}

const MCAP: Packages = Packages {
    name: "mcap-python",
    packages: &["mcap==1.6.0", "mcap-protobuf-support==0.6.0"],
};
const TABLES: Packages = Packages {
    name: "tables-python",
    packages: &["duckdb==2.0.1", "polars==2.1.0"],
};
const PERFETTO: Packages = Packages {
    name: "perfetto-python",
    packages: &["perfetto==0.59.1"],
};

/// Decodes everything; prints channels, metadata, and for each topic messages and rows.
const MCAP_SCRIPT: &str = r#"
import sys
from mcap.reader import make_reader, NonSeekingReader
from mcap_protobuf.decoder import DecoderFactory

def rows(reader):
    counts = {}
    for schema, channel, message, decoded in reader.iter_decoded_messages():
        assert schema.name == decoded.DESCRIPTOR.full_name, schema.name
        count, total = counts.get(channel.topic, (0, 0))
        if channel.topic == "/samples":
            for field, values in decoded.ListFields():
                if field.name not in ("flow", "count", "marks"):
                    assert len(values) in (1, decoded.count), field.name
            total += decoded.count
        counts[channel.topic] = (count + 1, total)
    return counts

with open(sys.argv[1], "rb") as file:
    reader = make_reader(file, decoder_factories=[DecoderFactory()])
    summary = reader.get_summary()
    topics = sorted(channel.topic for channel in summary.channels.values())
    indexed = rows(reader)
    names = sorted(metadata.name for metadata in reader.iter_metadata())
with open(sys.argv[1], "rb") as file:
    assert rows(NonSeekingReader(file, decoder_factories=[DecoderFactory()])) == indexed
assert summary.statistics.message_count == sum(count for count, _ in indexed.values())
print("channels", len(topics))
print("metadata", *names)
for topic, (count, total) in sorted(indexed.items()):
    print(topic, count, total, sep="\t")
"#;

/// Decodes a plain export; prints for each table its messages, and of the samples what is known of `cwnd` and `rtt_us`.
const PLAIN_SCRIPT: &str = r#"
import math, sys
from mcap.reader import make_reader, NonSeekingReader
from mcap_protobuf.decoder import DecoderFactory

counts, cwnd, rtts, times = {}, 0, 0, {}
with open(sys.argv[1], "rb") as file:
    reader = make_reader(file, decoder_factories=[DecoderFactory()])
    for schema, channel, message, decoded in reader.iter_decoded_messages(log_time_order=False):
        table = channel.topic.rsplit("/", 1)[1]
        assert schema.name == "observer.plain." + table.capitalize(), schema.name
        for field in decoded.DESCRIPTOR.fields:
            # Flat, and nothing that a plotter takes for 0 because it is not set.
            assert field.type in (field.TYPE_DOUBLE, field.TYPE_STRING, field.TYPE_BOOL), field.name
        counts[table] = counts.get(table, 0) + 1
        if table == "samples":
            cwnd += 0 if math.isnan(decoded.cwnd) else int(decoded.cwnd)
            rtts += not math.isnan(decoded.rtt_us)
            # Unknown is NaN too.
            assert not decoded.ssthresh_unlimited or math.isnan(decoded.ssthresh)
            assert abs(message.log_time - decoded.time * 1e9) < 1000
    assert reader.get_summary().statistics.message_count == sum(counts.values())
with open(sys.argv[1], "rb") as file:
    again = NonSeekingReader(file, decoder_factories=[DecoderFactory()]).iter_decoded_messages(log_time_order=False)
    assert sum(1 for _ in again) == sum(counts.values())
for table, count in counts.items():
    print(table, count, sep="\t")
print("cwnd", cwnd, sep="\t")
print("rtts", rtts, sep="\t")
"#;

/// Prints sums and counts of the samples by DuckDB; Polars has to agree, and to read every table.
const TABLES_SCRIPT: &str = r#"
import glob, sys
import duckdb, polars

samples = sys.argv[1] + "/samples.parquet"
sums = "count(*), sum(bytes_acked), count(bytes_acked), sum(cwnd), count(rtt_us)"
row = duckdb.sql(f"select {sums}, count(*) filter (ssthresh_unlimited), count(ssthresh) from '{samples}'").fetchall()[0]
frame = polars.read_parquet(samples)
assert len(frame) == row[0] and frame["cwnd"].cast(polars.Int128).sum() == row[3], row
assert frame["bytes_acked"].count() == row[2]
assert frame.schema["time"] == polars.Datetime("ns", "UTC"), frame.schema["time"]
assert frame.schema["cwnd"] == polars.UInt32 and frame.schema["bytes_acked"] == polars.UInt64
assert frame.schema["app_limited"] == polars.Boolean
csv = duckdb.sql(f"select {sums} from read_csv('{sys.argv[2]}/samples.csv', all_varchar=false, types={{'bytes_acked': 'UBIGINT', 'cwnd': 'UBIGINT'}})").fetchall()[0]
assert csv == row[:5], (csv, row)
for path in glob.glob(sys.argv[1] + "/*.parquet"):
    assert polars.read_parquet(path).shape == (duckdb.sql(f"select count(*) from '{path}'").fetchall()[0][0], len(duckdb.sql(f"select * from '{path}'").columns))
print(*row, sep="\n")
"#;

/// Reads a trace by Perfetto's schema; prints what is in it.
const PERFETTO_SCRIPT: &str = r#"
import sys
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

trace = Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())

# No field but those that the schema has.
size = trace.ByteSize()
trace.DiscardUnknownFields()
assert trace.ByteSize() == size

tracks, depth = {}, {}
counts = {"instants": 0, "counters": 0, "slices": 0}
first = trace.packet[0]
assert first.clock_snapshot.primary_trace_clock == 3, "monotonic"
clocks = {clock.clock_id: clock.timestamp for clock in first.clock_snapshot.clocks}
assert clocks[1] - clocks[3] == int(sys.argv[2]), clocks
for packet in trace.packet[1:]:
    assert packet.trusted_packet_sequence_id == 1
    if packet.HasField("track_descriptor"):
        track = packet.track_descriptor
        assert track.uuid not in tracks, "described once"
        assert not track.parent_uuid or track.parent_uuid in tracks, "parents come first"
        assert track.name or track.HasField("process")
        tracks[track.uuid] = track
    elif packet.HasField("track_event"):
        event = packet.track_event
        track = tracks[event.track_uuid]
        assert packet.timestamp_clock_id == 3
        if event.type == TrackEvent.TYPE_COUNTER:
            assert track.HasField("counter") and track.counter.unit_name, track
            assert event.HasField("counter_value") or event.HasField("double_counter_value")
            counts["counters"] += 1
        elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
            assert event.name
            depth[event.track_uuid] = depth.get(event.track_uuid, 0) + 1
            counts["slices"] += 1
        elif event.type == TrackEvent.TYPE_SLICE_END:
            depth[event.track_uuid] -= 1
        else:
            assert event.type == TrackEvent.TYPE_INSTANT
            counts["instants"] += track.name == "retransmits"
    else:
        raise AssertionError(packet)
assert all(open == 0 for open in depth.values()), "slices end"
print(counts["instants"], counts["slices"] > 0, counts["counters"] > 0)
print(*sorted({track.name for track in tracks.values() if track.HasField("counter")}), sep=",")
"#;

/// A Python with the packages, made once below the build's own directory; `Err` = why not.
fn python(wanted: &Packages) -> Result<PathBuf, String> {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(wanted.name);
    let python = dir.join("bin/python");
    let ready = dir.join("ready");
    let packages = wanted.packages.join(" ");
    // Tests that use the same one may run at once, in processes of their own.
    fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
    let lock = fs::File::create(dir.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    if fs::read_to_string(&ready).is_ok_and(|there| there == packages) {
        return Ok(python);
    }
    let run = |command: &mut Command, why: &str| match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(why.to_owned()),
    };
    run(
        Command::new("python3").args(["-m", "venv"]).arg(&dir),
        "no python3 with venv",
    )?;
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ];
    run(
        Command::new(&python).args(pip).args(wanted.packages),
        &format!("pip cannot install {packages}"),
    )?;
    fs::write(&ready, packages).map_err(|error| error.to_string())?;
    Ok(python)
}

/// Says that a test did not run; `cargo xtask test` counts it.
fn skipped(test: &str, reason: &str) {
    let test = format!("record_peers::{test}");
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
    if let Some(log) = std::env::var_os("OBSERVER_TEST_SKIPS")
        && let Ok(mut log) = fs::OpenOptions::new().create(true).append(true).open(log)
    {
        let _ = writeln!(log, "{test}: {reason}");
    }
}

/// What the script prints.
fn told(python: &Path, script: &str, args: &[&str]) -> String {
    let output = Command::new(python)
        .args(["-c", script])
        .args(args)
        .output()
        .expect("it starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

/// Events, a recording of them, and what `export` makes of it.
struct Made {
    dir: tempfile::TempDir,
    events: Vec<Event>,
}

impl Made {
    fn new() -> Self {
        let events = Draw::new(77).events(1500, 5_000_000);
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("a.mcap"), written(&events)).expect("written");
        Self { dir, events }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_string_lossy().into_owned()
    }

    fn export(&self, format: &str) -> String {
        let out = self.path(&format!("export.{format}"));
        let made = Command::new(env!("CARGO_BIN_EXE_observer"))
            .args([
                "export",
                &self.path("a.mcap"),
                "--format",
                format,
                "-o",
                &out,
            ])
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{said}");
        out
    }

    fn count(&self, is: fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|event| is(event)).count()
    }
}

fn is_sample(event: &Event) -> bool {
    matches!(event.payload, Payload::Sample(_))
}

#[test]
fn the_python_reader_decodes_every_message() {
    let python = match python(&MCAP) {
        Ok(python) => python,
        Err(reason) => return skipped("the_python_reader_decodes_every_message", &reason),
    };
    let made = Made::new();
    let told = told(&python, MCAP_SCRIPT, &[&made.path("a.mcap")]);
    let mut lines = told.lines();
    assert_eq!(lines.next(), Some("channels 16"));
    assert_eq!(lines.next(), Some("metadata host labels observer"));
    let counts: BTreeMap<&str, (usize, usize)> = lines
        .map(|line| {
            let mut words = line.split('\t');
            let topic = words.next().expect("a topic");
            let mut number = || words.next().and_then(|n| n.parse().ok()).expect("a number");
            (topic, (number(), number()))
        })
        .collect();
    assert_eq!(counts["/samples"].1, made.count(is_sample));
    for (topic, is) in [
        (
            "/note",
            (|e| matches!(e.payload, Payload::Note(_))) as fn(&Event) -> bool,
        ),
        ("/tick", |e| matches!(e.payload, Payload::Tick)),
        ("/opened", |e| matches!(e.payload, Payload::Opened(_))),
    ] {
        assert_eq!(counts[topic].0, made.count(is), "{topic}");
    }
    assert_eq!(counts.len(), 16);
}

#[test]
fn the_python_reader_decodes_every_message_of_a_plain_export() {
    let python = match python(&MCAP) {
        Ok(python) => python,
        Err(reason) => {
            return skipped(
                "the_python_reader_decodes_every_message_of_a_plain_export",
                &reason,
            );
        }
    };
    let made = Made::new();
    let told = told(&python, PLAIN_SCRIPT, &[&made.export("mcap")]);
    let numbers: BTreeMap<&str, u64> = told
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, number)| (name, number.parse().expect("a number")))
        .collect();
    assert_eq!(numbers["samples"], made.count(is_sample) as u64);
    assert_eq!(
        numbers["retransmits"],
        made.count(|e| matches!(e.payload, Payload::Retransmit(_))) as u64
    );
    assert_eq!(
        numbers["gaps"],
        made.count(|e| matches!(e.payload, Payload::Gap(_))) as u64
    );
    let samples = made.events.iter().filter_map(|event| match &event.payload {
        Payload::Sample(sample) => Some(sample),
        _ => None,
    });
    let cwnd: u64 = samples
        .clone()
        .filter_map(|sample| sample.cwnd)
        .map(u64::from)
        .sum();
    assert_eq!(numbers["cwnd"], cwnd);
    let known = samples.filter(|sample| sample.rtt_us.is_some()).count();
    assert_eq!(numbers["rtts"], known as u64);
}

#[test]
fn duckdb_and_polars_sum_to_the_same() {
    let python = match python(&TABLES) {
        Ok(python) => python,
        Err(reason) => return skipped("duckdb_and_polars_sum_to_the_same", &reason),
    };
    let made = Made::new();
    let told = told(
        &python,
        TABLES_SCRIPT,
        &[&made.export("parquet"), &made.export("csv")],
    );
    let samples: Vec<_> = made
        .events
        .iter()
        .filter_map(|event| match &event.payload {
            Payload::Sample(sample) => Some(sample),
            _ => None,
        })
        .collect();
    let acked: Vec<_> = samples
        .iter()
        .filter_map(|sample| sample.bytes_acked)
        .collect();
    let unlimited = samples
        .iter()
        .filter(|s| s.ssthresh == Some(Limit::Unlimited))
        .count();
    let bounded = samples
        .iter()
        .filter(|s| matches!(s.ssthresh, Some(Limit::Finite(_))))
        .count();
    let wanted = [
        samples.len().to_string(),
        acked
            .iter()
            .copied()
            .map(u128::from)
            .sum::<u128>()
            .to_string(),
        acked.len().to_string(),
        samples
            .iter()
            .filter_map(|s| s.cwnd)
            .map(u64::from)
            .sum::<u64>()
            .to_string(),
        samples
            .iter()
            .filter(|s| s.rtt_us.is_some())
            .count()
            .to_string(),
        unlimited.to_string(),
        bounded.to_string(),
    ];
    assert_eq!(told.lines().collect::<Vec<_>>(), wanted);
}

#[test]
fn perfettos_schema_reads_the_trace() {
    let python = match python(&PERFETTO) {
        Ok(python) => python,
        Err(reason) => return skipped("perfettos_schema_reads_the_trace", &reason),
    };
    let made = Made::new();
    let offset = record_support::environment().wall_offset_ns.expect("known");
    let told = told(
        &python,
        PERFETTO_SCRIPT,
        &[&made.export("perfetto"), &offset.to_string()],
    );
    let mut lines = told.lines();
    let retransmits =
        made.count(|e| e.flow.is_some() && matches!(e.payload, Payload::Retransmit(_)));
    assert_eq!(
        lines.next(),
        Some(format!("{retransmits} True True").as_str())
    );
    let counters = lines.next().unwrap_or_default();
    for name in ["cwnd", "BtlBw", "min rtt", "pacing rate", "srtt"] {
        assert!(counters.split(',').any(|c| c == name), "{name}: {counters}");
    }
}
