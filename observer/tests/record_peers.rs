//! Other readers of our files: MCAP's Python reader with its protobuf support lists the channels and decodes every message.

mod record_support;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use observer::event::Payload;
use record_support::{Draw, written};

/// The versions that were tried.
const PACKAGES: [&str; 2] = ["mcap==1.6.0", "mcap-protobuf-support==0.6.0"];

/// Decodes everything; prints channel, messages, rows.
const SCRIPT: &str = r#"
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
    print(topic, count, total)
"#;

/// A Python with the packages, made once below the build's own directory; `Err` = why not.
fn python() -> Result<PathBuf, String> {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mcap-python");
    let python = dir.join("bin/python");
    let ready = dir.join("ready");
    if fs::read_to_string(&ready).is_ok_and(|packages| packages == PACKAGES.join(" ")) {
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
    run(
        Command::new(&python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .args(PACKAGES),
        "mcap's Python packages cannot be installed",
    )?;
    fs::write(&ready, PACKAGES.join(" ")).map_err(|error| error.to_string())?;
    Ok(python)
}

/// Says that the test did not run; `cargo xtask test` counts it.
fn skipped(reason: &str) {
    let test = "record_peers::the_python_reader_decodes_every_message";
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
    if let Some(log) = std::env::var_os("OBSERVER_TEST_SKIPS")
        && let Ok(mut log) = fs::OpenOptions::new().create(true).append(true).open(log)
    {
        let _ = writeln!(log, "{test}: {reason}");
    }
}

#[test]
fn the_python_reader_decodes_every_message() {
    let python = match python() {
        Ok(python) => python,
        Err(reason) => return skipped(&reason),
    };
    let events = Draw::new(77).events(1500, 5_000_000);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.mcap");
    fs::write(&path, written(&events)).expect("written");
    let output = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(&path)
        .output()
        .expect("it starts");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut lines = told.lines();
    assert_eq!(lines.next(), Some("channels 16"));
    assert_eq!(lines.next(), Some("metadata labels observer"));
    let counts: BTreeMap<&str, (usize, usize)> = lines
        .map(|line| {
            let mut words = line.split(' ');
            let topic = words.next().expect("a topic");
            let mut number = || words.next().and_then(|n| n.parse().ok()).expect("a number");
            (topic, (number(), number()))
        })
        .collect();
    let count = |is: fn(&Payload) -> bool| events.iter().filter(|e| is(&e.payload)).count();
    assert_eq!(
        counts["/samples"].1,
        count(|p| matches!(p, Payload::Sample(_)))
    );
    assert_eq!(counts["/note"].0, count(|p| matches!(p, Payload::Note(_))));
    assert_eq!(counts["/tick"].0, count(|p| matches!(p, Payload::Tick)));
    assert_eq!(
        counts["/opened"].0,
        count(|p| matches!(p, Payload::Opened(_)))
    );
    assert_eq!(counts.len(), 16);
}
