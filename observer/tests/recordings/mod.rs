//! Recordings made of scripts, and the program run over them: what the tests of reports and comparisons share.

// Each test binary compiles this file and uses a part of it.
#![allow(dead_code)]

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Output};

use observer::event::Event;
use observer::record::{Environment, Writer};

/// The text of a script of `tests/report_scripts`.
pub fn events(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/report_scripts/{name}"));
    std::fs::read_to_string(path).expect("the script is there")
}

pub fn environment() -> Environment {
    Environment {
        tool: "0.1.0".to_owned(),
        wall_offset_ns: Some(1_764_000_000_000_000_000),
        source: "eBPF".to_owned(),
        interval_ns: Some(10_000_000),
        labels: [("site".to_owned(), "a<b".to_owned())].into(),
        ..Environment::default()
    }
}

/// Writes a recording.
pub fn record(path: &Path, environment: &Environment, events: &[Event]) {
    let file = BufWriter::new(File::create(path).expect("a file"));
    let mut writer = Writer::new(file, environment).expect("it writes");
    for event in events {
        writer.push(event).expect("it writes");
    }
    writer.finish().expect("it writes");
}

pub fn observer(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_observer"))
        .args(arguments)
        .output()
        .expect("the program starts")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Says that a test did not run, where `cargo xtask test` counts it.
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("?");
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
    if let Some(log) = std::env::var_os("OBSERVER_TEST_SKIPS")
        && let Ok(mut log) = File::options().create(true).append(true).open(log)
    {
        let _ = writeln!(log, "{test}: {reason}");
    }
}
