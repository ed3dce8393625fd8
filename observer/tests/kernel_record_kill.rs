//! A recorder killed at any moment leaves a file that is read to its last second, or is told to hold nothing.

mod common;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use common::{Netns, connect, needs, run, send, wait_for};
use observer::kernel::clock;
use observer::record::Reader;

const OBSERVER: &str = env!("CARGO_BIN_EXE_observer");

/// Rounds; the moments are spread over the first chunks, between which anything may be half written.
const KILLS: u64 = 12;

fn export(path: &Path) -> Output {
    Command::new(OBSERVER)
        .args(["export", "--format", "jsonl", "--strict"])
        .arg(path)
        .output()
        .expect("it starts")
}

/// The moment of the last event; `None` = the file holds none.
fn last_event(path: &Path) -> Option<u64> {
    let mut reader = Reader::open(path).ok()?;
    let mut last = None;
    while let Some(batch) = reader.batch().expect("readable") {
        last = last.max(batch.iter().map(|event| event.time.0).max());
    }
    let ending = reader.ending().expect("the end");
    assert!(
        !ending.is_complete() && ending.damaged.is_empty(),
        "{ending:?}"
    );
    last
}

#[test]
fn at_any_moment_less_than_a_second_is_lost() {
    needs!("ip", "kill");
    let ns = Netns::new();
    let dir = tempfile::tempdir().expect("a directory");
    let (client, server) = connect(&ns, &ns, "127.0.0.1");
    let (mut begun, mut empty) = (0, 0);
    for round in 0..KILLS {
        let path = dir.path().join(format!("{round}.mcap"));
        let mut child = Command::new("ip")
            .args(["netns", "exec", &ns.name, OBSERVER, "record", "-o"])
            .arg(&path)
            .args(["--interval", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        // Every other round once something is sealed; no two at the same place of a second.
        if round % 2 == 1 {
            wait_for("the first chunk", || {
                send(&client, &server, 100_000);
                let mut reader = Reader::open(&path).ok()?;
                reader.batch().ok()?
            });
        }
        let until = clock::now().0 + round * 150_000_000 + clock::now().0 % 50_000_000;
        while clock::now().0 < until {
            send(&client, &server, 100_000);
            std::thread::sleep(Duration::from_millis(2));
        }
        run("kill", &format!("-KILL {}", child.id()));
        let killed = clock::now().0;
        child.wait().expect("it is gone");
        if !path.exists() {
            empty += 1;
            continue;
        }
        let told = export(&path);
        let message = String::from_utf8_lossy(&told.stderr).into_owned();
        assert!(message.contains("cut off"), "{message}");
        if let Some(last) = last_event(&path) {
            begun += 1;
            let lost = killed.saturating_sub(last);
            assert!(
                lost < 1_000_000_000,
                "{} ms, round {round}",
                lost / 1_000_000
            );
            assert_eq!(told.status.code(), Some(4), "{message}");
            assert!(!told.stdout.is_empty());
        } else {
            // Killed before its first second was over: what is there says so.
            empty += 1;
            assert!(matches!(told.status.code(), Some(1 | 4)), "{message}");
        }
    }
    assert!(begun >= KILLS / 2, "{begun} began, {empty} did not");
}
