//! Exports: tables say what the lines say, cell by cell; files are refused, forced, cut and piped as documented.

mod record_support;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use observer::event::{Event, Payload};
use observer::export::Sink;
use observer::export::csv::Csv;
use observer::export::jsonl::{Context, derived_line, event_line, flow_object};
use observer::export::parquet::Parquet;
use observer::export::table::Table;
use observer::model::Model;
use observer::units::escape;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use proptest::prelude::*;
use record_support::{Draw, written};
use serde_json::Value;

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tables_say_what_the_lines_say(seed in any::<u64>(), count in 0usize..250, step in 1u64..20_000_000) {
        let events = Draw::new(seed).events(count, step);
        let lines = lines(&events);
        let csv = csv(&events);
        for table in Table::ALL {
            let wanted: Vec<Cells> = lines.iter().flat_map(|line| objects(table, line)).collect();
            let rows = &csv[&table];
            prop_assert_eq!(rows.len(), wanted.len(), "rows of {}", table.name());
            for (row, wanted) in rows.iter().zip(&wanted) {
                for (column, cell) in row {
                    let value = wanted.get(column).unwrap_or(&Value::Null);
                    prop_assert!(says(cell, value), "{} {column}: {cell:?} for {value}", table.name());
                }
            }
        }
    }

    #[test]
    fn parquet_says_what_csv_says(seed in any::<u64>(), count in 0usize..250) {
        let events = Draw::new(seed).events(count, 5_000_000);
        let csv = csv(&events);
        let dir = tempfile::tempdir().expect("a directory");
        for (table, bytes) in Table::ALL.into_iter().zip(through(&events, |tables| Parquet::new(tables).expect("memory takes it"))) {
            let path = dir.path().join(table.name());
            fs::write(&path, bytes).expect("written");
            let rows = parquet_rows(&path);
            prop_assert_eq!(rows.len(), csv[&table].len(), "rows of {}", table.name());
            for (row, wanted) in rows.iter().zip(&csv[&table]) {
                for (column, cell) in wanted.iter().filter(|(column, _)| !is_time(column)) {
                    prop_assert!(same(row, column, cell), "{} {column}: {:?} for {cell:?}", table.name(), row[column]);
                }
            }
        }
    }
}

type Cells = BTreeMap<String, Value>;
type Rows = Vec<BTreeMap<String, String>>;

/// Every line that `export --format jsonl` writes, and the flows that are open at the end.
fn lines(events: &[Event]) -> Vec<Value> {
    let (mut model, context) = (Model::default(), Context::default());
    let mut lines = Vec::new();
    for event in events {
        model.apply(event);
        if let Some(line) = event_line(event, &model, &context) {
            lines.push(serde_json::to_value(line).expect("JSON"));
        }
        for derived in model.take_derived() {
            let line = derived_line(&derived, &model, &context);
            lines.push(serde_json::to_value(line).expect("JSON"));
        }
    }
    for flow in model.flows().filter(|flow| !flow.is_closed()) {
        lines.push(serde_json::to_value(flow_object(&model, flow, &context)).expect("JSON"));
    }
    lines
}

/// What a sink makes of the same, table by table.
fn through<S: Sink<Vec<u8>>>(
    events: &[Event],
    sink: impl FnOnce(Vec<(Table, Vec<u8>)>) -> S,
) -> Vec<Vec<u8>> {
    let (mut model, context) = (Model::default(), Context::default());
    let mut sink = sink(Table::ALL.map(|table| (table, Vec::new())).into());
    for event in events {
        model.apply(event);
        if let Some(line) = event_line(event, &model, &context) {
            sink.line(&line).expect("memory takes it");
        }
        for derived in model.take_derived() {
            let line = derived_line(&derived, &model, &context);
            sink.line(&line).expect("memory takes it");
        }
    }
    for flow in model.flows().filter(|flow| !flow.is_closed()) {
        let object = flow_object(&model, flow, &context);
        sink.open_flow(&object).expect("memory takes it");
    }
    Box::new(sink).finish().expect("memory takes it")
}

fn csv(events: &[Event]) -> BTreeMap<Table, Rows> {
    let files = through(events, |tables| Csv::new(tables).expect("memory takes it"));
    let rows = files.iter().map(|bytes| {
        let mut reader = csv::Reader::from_reader(bytes.as_slice());
        let rows = reader.deserialize::<BTreeMap<String, String>>();
        rows.map(|row| row.expect("a row")).collect()
    });
    Table::ALL.into_iter().zip(rows).collect()
}

/// Notes with tables of their own.
const APART: [&str; 3] = ["counters", "owners", "attributes"];

/// The objects of a line that are rows of `table`, flattened.
fn objects(table: Table, line: &Value) -> Vec<Cells> {
    let (kind, own) = (line["type"].as_str(), line["kind"].as_str());
    let name = match (kind, own) {
        (Some("sample"), _) => "samples",
        (Some("retransmit"), _) => "retransmits",
        (Some("burst"), _) => "bursts",
        (Some("state"), _) => "states",
        (Some("phase"), _) => "phases",
        // Of a flow that never was in view there is a note only.
        (Some("closed" | "note"), Some(kind)) if !APART.contains(&kind) => "notes",
        (Some("flow" | "closed"), _) => "flows",
        (Some("gap"), _) => "gaps",
        (Some("host"), _) => "hosts",
        (Some("qdisc"), _) if table == Table::Qdiscs => return parts(line, "qdiscs"),
        (Some("qdisc"), _) => "devices",
        (Some("note"), Some("counters")) if table == Table::Counters => {
            return parts(line, "programs");
        }
        (Some("note"), Some("counters")) => "costs",
        (Some("note"), Some("owners")) => {
            return if table == Table::Owners {
                parts(line, "processes")
            } else {
                Vec::new()
            };
        }
        (Some("note"), Some("attributes")) => "attributes",
        _ => return Vec::new(),
    };
    if name != table.name() {
        return Vec::new();
    }
    let mut cells = Cells::new();
    flatten("", line, &mut cells);
    if table == Table::Hosts {
        flatten("", &line["host"], &mut cells);
    }
    cells.entry("gone".to_owned()).or_insert(Value::Bool(false));
    vec![cells]
}

/// A row for each of the objects under `key`, with what the line says of all of them.
fn parts(line: &Value, key: &str) -> Vec<Cells> {
    let mut common = Cells::new();
    flatten("", line, &mut common);
    let parts = line[key].as_array().cloned().unwrap_or_default();
    let mut rows: Vec<Cells> = parts
        .iter()
        .map(|part| {
            let mut cells = common.clone();
            flatten("", part, &mut cells);
            cells
        })
        .collect();
    // That nobody holds a flow any more is said.
    if rows.is_empty() && key == "processes" {
        rows.push(common);
    }
    rows
}

fn flatten(prefix: &str, value: &Value, out: &mut Cells) {
    let Value::Object(keys) = value else { return };
    for (key, value) in keys {
        let name = if prefix.is_empty() {
            key.clone()
        } else {
            format!("{prefix}_{key}")
        };
        flatten(&name, value, out);
        out.insert(name, value.clone());
    }
}

/// Whether a cell of CSV is this value of JSON.
fn says(cell: &str, value: &Value) -> bool {
    match value {
        // A line leaves an empty map out.
        Value::Null => cell.is_empty() || cell == "{}",
        Value::Bool(yes) => cell == yes.to_string(),
        Value::Number(number) => match number.as_u64() {
            Some(number) => cell == number.to_string(),
            None => cell.parse::<f64>().ok() == number.as_f64(),
        },
        Value::String(text) => cell == escape(text),
        // Both through text: reading it is not exact to the last bit.
        Value::Array(_) | Value::Object(_) => {
            let read = |text: &str| serde_json::from_str::<Value>(text).ok();
            let said = read(cell);
            said.is_some() && said == read(&value.to_string())
        }
    }
}

fn is_time(column: &str) -> bool {
    matches!(column, "time" | "start" | "end")
}

fn parquet_rows(path: &Path) -> Vec<BTreeMap<String, Field>> {
    let file = fs::File::open(path).expect("there");
    let reader = SerializedFileReader::new(file).expect("Parquet");
    let rows = reader.get_row_iter(None).expect("rows");
    rows.map(|row| {
        let row = row.expect("a row");
        row.get_column_iter()
            .map(|(name, field)| (name.clone(), field.clone()))
            .collect()
    })
    .collect()
}

/// Whether the column of a row of Parquet, and the flag beside it, are this cell of CSV.
fn same(row: &BTreeMap<String, Field>, column: &str, cell: &str) -> bool {
    let unlimited = row.get(&format!("{column}_unlimited"));
    match &row[column] {
        Field::Null => match unlimited {
            Some(Field::Bool(true)) => cell == "unlimited",
            Some(Field::Bool(false)) => false,
            _ => cell.is_empty(),
        },
        _ if unlimited.is_some_and(|flag| *flag != Field::Bool(false)) => false,
        Field::UInt(number) => cell == number.to_string(),
        Field::ULong(number) => cell == number.to_string(),
        Field::Double(number) => cell == number.to_string(),
        Field::Bool(yes) => cell == yes.to_string(),
        Field::Str(text) => cell == escape(text),
        _ => false,
    }
}

/// A recording of made-up events on disk.
fn recording(dir: &Path) -> (String, Vec<Event>) {
    let events = Draw::new(5).events(2000, 2_000_000);
    let path = dir.join("a.mcap");
    fs::write(&path, written(&events)).expect("written");
    (path.to_string_lossy().into_owned(), events)
}

fn export(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_observer"));
    command
        .arg("export")
        .args(args)
        .output()
        .expect("it starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_directory_gets_a_file_a_table_and_nothing_is_overwritten() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, events) = recording(dir.path());
    for format in ["csv", "parquet"] {
        let out = dir.path().join(format);
        let args = [&file, "--format", format, "-o", &out.to_string_lossy()];
        let first = export(&args);
        assert_eq!(first.status.code(), Some(0), "{}", said(&first));
        let mut names: Vec<_> = fs::read_dir(&out)
            .expect("there")
            .map(|entry| {
                entry
                    .expect("there")
                    .file_name()
                    .into_string()
                    .expect("text")
            })
            .collect();
        names.sort();
        let mut wanted = Table::ALL.map(|table| format!("{}.{format}", table.name()));
        wanted.sort();
        assert_eq!(names, wanted, "and no temporary file");

        let again = export(&args);
        assert_eq!(again.status.code(), Some(1));
        assert!(said(&again).contains("--force"), "{}", said(&again));
        let mut forced = args.to_vec();
        forced.push("--force");
        assert_eq!(export(&forced).status.code(), Some(0));
    }
    let text = fs::read_to_string(dir.path().join("csv/samples.csv")).expect("there");
    let samples = events
        .iter()
        .filter(|event| event.flow.is_some() && matches!(event.payload, Payload::Sample(_)))
        .count();
    assert!(text.lines().count() > samples, "{samples} and the names");
}

#[test]
fn one_table_goes_where_it_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, _) = recording(dir.path());
    let piped = export(&[&file, "--format", "csv", "--kind", "retransmits"]);
    assert_eq!(piped.status.code(), Some(0), "{}", said(&piped));
    let text = String::from_utf8(piped.stdout).expect("text");
    assert!(text.starts_with("time,mono_ns,flow_id,"), "{text}");
    let out = dir.path().join("r.csv");
    let args = [
        &file,
        "--format",
        "csv",
        "--kind",
        "retransmits",
        "-o",
        &out.to_string_lossy(),
    ];
    assert_eq!(export(&args).status.code(), Some(0));
    assert_eq!(fs::read_to_string(&out).expect("there"), text);

    let parquet = export(&[&file, "--format", "parquet", "--kind", "flows"]);
    assert!(parquet.stdout.starts_with(b"PAR1") && parquet.stdout.ends_with(b"PAR1"));
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_to_write() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, _) = recording(dir.path());
    for (args, code, word) in [
        (&["--format", "csv"][..], 2, "-o DIR"),
        (&["--format", "csv", "--kind", "sample"], 2, "samples"),
        (&["--format", "mcap", "--kind", "samples"], 2, "--kind"),
        (&["--format", "csv", "-o", &file], 1, "directory"),
        (&["--format", "mcap", "-o", &file], 1, "--force"),
        (
            &["--format", "csv", "-o", "/nonexistent/a/b"],
            1,
            "/nonexistent",
        ),
    ] {
        let mut all = vec![file.as_str()];
        all.extend(args);
        let output = export(&all);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{args:?}: {}",
            said(&output)
        );
        assert!(said(&output).contains(word), "{args:?}: {}", said(&output));
    }
}

#[test]
fn torn_and_foreign_files_end_as_documented() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, _) = recording(dir.path());
    let bytes = fs::read(&file).expect("there");
    let torn = dir.path().join("torn.mcap");
    fs::write(&torn, &bytes[..bytes.len() / 2]).expect("written");
    let torn = torn.to_string_lossy();
    // Our own plain MCAP is no recording.
    let plain = dir.path().join("plain.mcap");
    let made = export(&[&file, "--format", "mcap", "-o", &plain.to_string_lossy()]);
    assert_eq!(made.status.code(), Some(0), "{}", said(&made));
    for format in ["csv", "parquet", "perfetto", "mcap", "jsonl"] {
        let out = dir.path().join(format!("torn-{format}"));
        let out = out.to_string_lossy();
        let output = export(&[&torn, "--format", format, "-o", &out]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert!(said(&output).contains("cut off"), "{}", said(&output));
        let strict = export(&[&torn, "--format", format, "-o", &out, "--force", "--strict"]);
        assert_eq!(strict.status.code(), Some(4), "{}", said(&strict));

        let out = dir.path().join(format!("foreign-{format}"));
        for foreign in [plain.as_path(), Path::new("/etc/hostname"), dir.path()] {
            let args = [
                &foreign.to_string_lossy(),
                "--format",
                format,
                "-o",
                &out.to_string_lossy(),
            ];
            let output = export(&args);
            assert_eq!(output.status.code(), Some(1), "{}", said(&output));
            assert!(!out.exists(), "nothing is left behind");
        }
    }
}

#[test]
fn a_reader_that_goes_ends_it_quietly() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.mcap");
    fs::write(&path, written(&Draw::new(9).events(30_000, 2_000_000))).expect("written");
    let file = path.to_string_lossy();
    let csv = ["--format", "csv", "--kind", "samples"];
    let parquet = ["--format", "parquet", "--kind", "samples"];
    for format in [
        &csv[..],
        &parquet,
        &["--format", "mcap"],
        &["--format", "perfetto"],
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_observer"))
            .args(["export", &file])
            .args(format)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut out = child.stdout.take().expect("piped");
        out.read_exact(&mut [0; 4]).expect("some bytes");
        drop(out);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(
            output.status.code(),
            Some(0),
            "{format:?}: {}",
            said(&output)
        );
        assert_eq!(said(&output), "", "{format:?}");
    }
}
