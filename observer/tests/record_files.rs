//! The files of a recording, and what `export` makes of them: names, rights, rotation, exit codes.

mod record_support;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};

use observer::event::{Event, FlowId, Payload};
use observer::model::Model;
use observer::record::{Anonymizer, FileError, Files, Reader, Target, Totals};
use observer::source::replay::{Pace, Replay};
use observer::source::{Source as _, SourceKind, script};
use observer::units::Mono;
use record_support::{Draw, difference, environment, written};

fn target(path: &Path) -> Target {
    Target {
        path: path.to_owned(),
        force: false,
        owner: None,
        max_size: None,
        dir: None,
        environment: environment(),
    }
}

fn record(target: Target, events: &[Event]) -> Result<(Totals, u32), FileError> {
    let mut files = Files::create(target)?;
    for event in events {
        files.push(event)?;
    }
    let (_, parts) = files.totals();
    Ok((files.finish()?, parts))
}

fn events_of(path: &Path) -> Vec<Event> {
    let mut reader = Reader::open(path).expect("a recording");
    let mut events = Vec::new();
    while let Some(batch) = reader.batch().expect("readable") {
        events.extend(batch);
    }
    assert!(reader.ending().expect("the end").is_complete());
    events
}

#[test]
fn a_recording_is_the_users_alone_and_overwrites_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.mcap");
    let events = Draw::new(1).events(50, 10_000_000);
    let (totals, parts) = record(target(&path), &events).expect("recorded");
    let there = fs::metadata(&path).expect("there");
    assert_eq!(there.permissions().mode() & 0o7777, 0o600);
    assert_eq!((totals.bytes, parts), (there.len(), 1));
    assert_eq!(totals.events, 50);
    assert_eq!(difference(&events_of(&path), &events), None);

    let again = record(target(&path), &[]).expect_err("refused");
    assert!(matches!(again, FileError::Exists(_)));
    assert!(again.to_string().contains("--force"), "{again}");
    let forced = Target {
        force: true,
        ..target(&path)
    };
    record(forced.clone(), &[]).expect("overwritten");
    assert_eq!(events_of(&path), []);

    // Nothing but files is overwritten, and no link is followed.
    let link = dir.path().join("link.mcap");
    symlink(&path, &link).expect("a link");
    for other in [link.as_path(), dir.path(), Path::new("/dev/null")] {
        let forced = Target {
            path: other.to_owned(),
            ..forced.clone()
        };
        let error = Files::check(&forced).expect_err("refused");
        assert!(matches!(error, FileError::NotAFile(_)), "{error}");
    }
    let nowhere = target(&dir.path().join("no/such/a.mcap"));
    let error = record(nowhere, &[]).expect_err("refused");
    assert!(error.to_string().contains("cannot create"), "{error}");
}

const SAMPLES: u64 = 4000;

/// Three flows that go on; the first one's attributes, and the host, are told at the beginning only.
fn long_run() -> Vec<Event> {
    let mut draw = Draw::new(9);
    let mut events = script::parse(
        "@0 host hostname=h kernel=6.18\n+0 device index=2 name=v\n\
         +0 opened 1\n+0 attributes 1 cc=bbr version=v1 dev=2\n+0 owners 1 7/curl\n+0 opened 2\n+0 opened 3",
    )
    .expect("a script");
    let ids: Vec<FlowId> = events.iter().filter_map(|event| event.flow).collect();
    for n in 1..SAMPLES {
        events.push(Event {
            time: Mono(n * 5_000_000),
            flow: Some(ids[0]),
            payload: Payload::Sample(Box::new(draw.sample())),
        });
        if n == SAMPLES / 2 {
            events.push(Event {
                time: Mono(n * 5_000_000),
                flow: ids.last().copied(),
                payload: Payload::Closed,
            });
        }
    }
    events
}

#[test]
fn a_full_file_is_followed_by_one_that_can_be_read_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.mcap");
    let most = 320 << 10;
    let events = long_run();
    let rotating = Target {
        max_size: Some(most),
        ..target(&path)
    };
    let (totals, parts) = record(rotating.clone(), &events).expect("recorded");
    assert!(parts >= 3, "{parts} files");
    let names: Vec<_> = (0..parts)
        .map(|part| match part {
            0 => path.clone(),
            part => dir.path().join(format!("a.mcap.{part}")),
        })
        .collect();
    assert_eq!(
        fs::read_dir(dir.path()).expect("there").count(),
        names.len()
    );
    let mut samples = 0;
    let mut bytes = 0;
    for (part, name) in names.iter().enumerate() {
        let length = fs::metadata(name).expect("there").len();
        assert!(length <= most, "{length} bytes");
        bytes += length;
        let reader = Reader::open(name).expect("a recording");
        assert_eq!(reader.environment().part as usize, part);
        assert_eq!(reader.environment().labels, environment().labels);
        let events = events_of(name);
        // The host comes first, and an open flow is whole.
        assert!(matches!(events[0].payload, Payload::Host(_)));
        let mut model = Model::default();
        for event in &events {
            model.apply(event);
        }
        let flow = model.flows().next().expect("the first flow");
        assert_eq!(flow.attributes().expect("told").cc_name, "bbr");
        assert_eq!(flow.owners().expect("told")[0].comm, "curl");
        assert_eq!(flow.opened_at(), Mono(0));
        assert!(model.device_of(flow).is_some());
        // One that is over is not told again.
        if part + 1 == names.len() {
            assert_eq!(model.open_flows(), 2);
        }
        samples += events
            .iter()
            .filter(|event| matches!(event.payload, Payload::Sample(_)))
            .count();
    }
    assert_eq!(totals.bytes, bytes);
    // The last sample of the flow is told again at the beginning of every file but the first.
    assert_eq!(samples, SAMPLES as usize - 1 + names.len() - 1);

    let error = record(rotating, &events).expect_err("refused");
    assert!(matches!(error, FileError::Exists(_)));
}

#[test]
fn an_anonymized_recording_has_no_address_and_no_name() {
    let events = script::parse(
        "@0 host hostname=secret-host kernel=6.18\n+0 device index=2 name=wg-secret\n\
         +0 opened 1 local=10.20.30.40:5201 remote=192.0.2.77:443\n\
         +0 attributes 1 local=10.20.30.40:5201 remote=192.0.2.77:443 cc=bbr version=v1 dev=2 cgroup=/user/secret.service\n\
         +0 owners 1 7/secretd\n+0 state 1 old=SYN-SENT new=ESTAB local=10.20.30.40:5201 remote=192.0.2.77:443\n\
         +0 opened 2 local=[2001:db8::5]:1 remote=[2001:db8::77]:443\n\
         +0 sample 1 cwnd=10\n+0 note kind=degraded \"cannot look into secret-netns\"",
    )
    .expect("a script");
    let mut anonymizer = Anonymizer::new().expect("a key");
    let replaced: Vec<Event> = events.iter().map(|event| anonymizer.event(event)).collect();
    assert_eq!(replaced.len(), events.len());
    // Looked for in what chunks hold, not in what zstd made of them.
    let mut bytes = Vec::new();
    for message in mcap::MessageStream::new(&written(&replaced)).expect("MCAP") {
        bytes.extend_from_slice(&message.expect("whole").data);
    }
    let forbidden: [&[u8]; 9] = [
        b"secret",
        b"10.20.30.40",
        b"192.0.2.77",
        &[10, 20, 30, 40],
        &[192, 0, 2, 77],
        &[0x20, 1, 0x0d, 0xb8, 0, 0],
        b"wg-",
        b"user",
        b"service",
    ];
    let found = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).any(|window| window == what);
    let mut plain = Vec::new();
    for message in mcap::MessageStream::new(&written(&events)).expect("MCAP") {
        plain.extend_from_slice(&message.expect("whole").data);
    }
    for what in forbidden {
        assert!(!found(&bytes, what), "{}", String::from_utf8_lossy(what));
    }
    assert!(
        found(&plain, b"secret") && found(&plain, &[192, 0, 2, 77]),
        "the search works"
    );
    // Flows stay apart, figures stay.
    let mut model = Model::default();
    for event in &replaced {
        model.apply(event);
    }
    let flows: Vec<_> = model.flows().collect();
    assert_eq!(flows.len(), 2);
    assert_ne!(flows[0].remote().ip(), flows[1].remote().ip());
    assert_eq!(flows[0].remote().port(), 443);
    assert_eq!(flows[0].sample().expect("told").cwnd, Some(10));
}

#[tokio::test(flavor = "current_thread")]
async fn a_recording_is_a_source_also_at_its_pace() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.mcap");
    let events = Draw::new(4).events(300, 10_000_000);
    record(target(&path), &events).expect("recorded");
    for pace in [None, Some(Pace::new(1000.0))] {
        let paced = pace.is_some();
        let mut source = Replay::open(&path).expect("a recording");
        if let Some(pace) = pace {
            source = source.at_pace(pace);
        }
        assert_eq!(source.info().kind, SourceKind::Replay);
        assert_eq!(source.info().name, "a.mcap");
        assert_eq!(source.info().wall_offset_ns, environment().wall_offset_ns);
        assert!(source.ending().is_none());
        let (mut got, mut batches) = (Vec::new(), 0);
        while let Some(batch) = source.next().await.expect("readable") {
            assert!(!batch.is_empty());
            got.extend(batch);
            batches += 1;
        }
        assert_eq!(difference(&got, &events), None);
        assert!(source.ending().expect("the end").is_complete());
        assert_eq!(batches > 30, paced, "{batches} batches");
    }
}

fn observer(arguments: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_observer"))
        .args(arguments)
        .current_dir(dir)
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn export_writes_the_lines_of_stream_and_says_what_is_missing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.mcap");
    let events = long_run();
    record(target(&path), &events).expect("recorded");
    let done = observer(&["export", "a.mcap", "--format", "jsonl"], dir.path());
    assert!(done.status.success());
    assert_eq!(text(&done.stderr), "");
    let lines: Vec<serde_json::Value> = text(&done.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let of = |kind: &str| lines.iter().filter(|line| line["type"] == kind).count();
    assert_eq!(
        (of("sample"), of("opened"), of("closed"), of("host")),
        (SAMPLES as usize - 1, 3, 1, 1)
    );
    assert!(
        lines[0]["time"]
            .as_str()
            .expect("a wall time")
            .starts_with("2025-")
    );

    let arguments = ["export", "a.mcap", "--format", "jsonl", "-o", "a.jsonl"];
    assert!(observer(&arguments, dir.path()).status.success());
    let file = fs::read(dir.path().join("a.jsonl")).expect("there");
    assert!(file == done.stdout, "the same as on standard output");
    let again = observer(&arguments, dir.path());
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("--force"));
    assert!(
        observer(&[&arguments[..], &["--force"]].concat(), dir.path())
            .status
            .success()
    );
    assert_eq!(
        fs::read_dir(dir.path()).expect("there").count(),
        2,
        "no file is left over"
    );
    // A name that is no file's stays what it is.
    let link = dir.path().join("link.jsonl");
    symlink("a.jsonl", &link).expect("a link");
    let arguments = ["export", "a.mcap", "--format", "jsonl", "--force", "-o"];
    let refused = observer(&[&arguments[..], &["link.jsonl"]].concat(), dir.path());
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("no regular file"));
    assert!(link.is_symlink());
    fs::remove_file(&link).expect("removed");

    let filtered = observer(
        &[
            "export", "a.mcap", "--format", "jsonl", "--filter", "cc cubic",
        ],
        dir.path(),
    );
    assert!(filtered.status.success());
    assert!(!text(&filtered.stdout).contains("\"sample\""));

    // Torn: said, and an error where that is asked for.
    let whole = fs::read(&path).expect("there");
    fs::write(&path, &whole[..whole.len() / 2]).expect("written");
    let torn = observer(&["export", "a.mcap", "--format", "jsonl"], dir.path());
    assert_eq!(torn.status.code(), Some(0));
    assert!(
        text(&torn.stderr).contains("cut off"),
        "{}",
        text(&torn.stderr)
    );
    assert!(text(&torn.stdout).contains("\"sample\""));
    let strict = observer(
        &["export", "a.mcap", "--format", "jsonl", "--strict"],
        dir.path(),
    );
    assert_eq!(strict.status.code(), Some(4));
    assert!(text(&strict.stderr).contains("not whole"));
}

#[test]
fn wrong_files_and_words_are_refused_with_their_exit_codes() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("text.mcap"), "hello, hello, hello").expect("written");
    fs::write(dir.path().join("there.mcap"), "").expect("written");
    let refused = |arguments: &[&str], code: i32, word: &str| {
        let output = observer(arguments, dir.path());
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        assert!(message.contains(word), "{arguments:?}: {message}");
        assert!(!message.contains("panicked"), "{message}");
        assert_eq!(text(&output.stdout), "");
    };
    refused(&["export", "text.mcap", "--format", "jsonl"], 1, "MCAP");
    refused(
        &["export", "no.mcap", "--format", "jsonl"],
        1,
        "No such file",
    );
    refused(&["export", ".", "--format", "jsonl"], 1, "regular file");
    refused(&["export", "text.mcap"], 2, "--format");
    refused(&["export", "text.mcap", "--format", "xml"], 2, "jsonl");
    refused(
        &["export", "text.mcap", "--format", "jsonl", "--filter", "(("],
        2,
        "^",
    );
    refused(&["record"], 2, "--output");
    refused(&["record", "-o", "there.mcap"], 1, "--force");
    refused(&["record", "-o", "a.mcap", "frobnicate"], 2, "^");
    refused(&["record", "-o", "a.mcap", "--label", "x"], 2, "KEY=VALUE");
    refused(&["record", "-o", "a.mcap", "--max-size", "1k"], 2, "256k");
    refused(
        &["record", "-o", "a.mcap", "-t", "1", "--max-time", "1"],
        2,
        "--max-time",
    );
    refused(
        &["record", "-o", "a.mcap", "--", "/no/such/program"],
        127,
        "no such file",
    );
    refused(
        &["record", "-o", "a.mcap", "--", "/etc/passwd"],
        126,
        "not executable",
    );
    assert!(!dir.path().join("a.mcap").exists(), "nothing was begun");
}
