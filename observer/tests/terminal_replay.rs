//! `observer replay` in a pseudo-terminal: it plays, is gone through, ends, and leaves the terminal as it was. Needs no root.

mod common;
mod record_support;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use common::pty::{Program, Pty, wait};
use observer::record::How;
use observer::source::script;
use record_support::{read, written};
use rustix::process::{Pid, Signal, kill_process};

/// 40 s of a flow, a burst of retransmissions in the 20th.
fn bytes() -> Vec<u8> {
    let mut text = String::from(
        "@1s host hostname=lab kernel=6.18.0\n\
         +0 opened 7 local=10.0.0.1:43210 remote=10.0.0.2:5201 birth=yes\n\
         +0 sample 7 cwnd=10 mss=1448 srtt=40ms min_rtt=40ms bytes_acked=0 bytes_sent=0\n",
    );
    for tenth in 1..=400_u32 {
        let bytes = tenth * 125_000;
        writeln!(
            text,
            "+100ms sample 7 bytes_acked={bytes} bytes_sent={bytes}"
        )
        .expect("text");
        if tenth == 200 {
            text += &"+0 retransmit 7 segments=1 bytes=1448 kind=fast\n".repeat(4);
        }
    }
    written(&script::parse(&text).expect("a script"))
}

fn file(dir: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join("path\u{1b}[2J.mcap");
    std::fs::write(&path, bytes).expect("written");
    path
}

fn replay(path: &PathBuf, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_observer"));
    command.arg("replay").arg(path).args(args);
    // As nobody's settings and nobody's zone are.
    command
        .env("TZ", "UTC")
        .env("XDG_CONFIG_HOME", path.parent().expect("a place"));
    command
}

fn playing(pty: &Pty, path: &PathBuf, args: &[&str]) -> Program {
    let child = pty.start(&mut replay(path, args));
    pty.wait_text("\x1b[?1049h");
    child
}

#[test]
fn a_recording_is_played_gone_through_and_left() {
    let dir = tempfile::tempdir().expect("a place");
    let path = file(&dir, &bytes());
    let pty = Pty::new(100, 24);
    let mut child = playing(&pty, &path, &["--at", "50%", "--speed", "0.1"]);
    pty.wait_shown("PLAYING 0.1×");
    pty.wait_shown("10.0.0.2:5201");
    assert!(!pty.text().contains("\x1b[2J.mcap"), "the name is escaped");
    pty.type_in(" ");
    pty.wait_shown("PAUSED 0.1×");
    // To the burst, by name of the moment, and back beyond the beginning.
    pty.type_in("^");
    pty.wait_shown("16:00:01.000");
    pty.type_in("e");
    pty.wait_shown("16:00:21.000");
    pty.type_in("e");
    pty.wait_shown("no retransmit burst after this");
    pty.type_in(":16:00:05\r");
    pty.wait_shown("16:00:05.000");
    pty.type_in(".");
    pty.wait_shown("16:00:05.010");
    pty.type_in("}}}},");
    pty.wait_shown("16:00:04.810");
    pty.type_in(":77%x\r");
    pty.wait_shown("is no time");
    pty.type_in("\x03v");
    pty.wait_shown("no verdict change after this");
    pty.type_in("}}}}}");
    pty.wait_shown("PAUSED 100×");
    pty.type_in(" ");
    pty.wait_shown("END 100×");
    pty.wait_shown("16:00:41.000");
    pty.type_in("q");
    assert_eq!(wait(&mut child).code(), Some(0));
    pty.assert_sane();
}

#[test]
fn a_torn_recording_says_so() {
    let dir = tempfile::tempdir().expect("a place");
    let bytes = bytes();
    // The end of a file this small is schemas and index: where less of it is there, events are missing.
    let torn = |cut: &usize| matches!(read(&bytes[..*cut]).1.how, How::Truncated { .. });
    let cut = (1..bytes.len())
        .rev()
        .step_by(200)
        .find(torn)
        .expect("somewhere");
    let path = file(&dir, &bytes[..cut]);
    let pty = Pty::new(100, 24);
    let mut child = playing(&pty, &path, &[]);
    pty.wait_shown("torn at byte");
    pty.type_in("$");
    pty.wait_shown("END");
    kill_process(Pid::from_child(&child), Signal::TERM).expect("our own child");
    assert_eq!(wait(&mut child).code(), Some(0));
    pty.assert_sane();
}

#[test]
fn flows_that_are_not_asked_for_are_not_shown() {
    let dir = tempfile::tempdir().expect("a place");
    let path = file(&dir, &bytes());
    let pty = Pty::new(100, 24);
    let mut child = playing(&pty, &path, &["--filter", "dport = :443", "--at", "+10s"]);
    pty.wait_shown("flows 0 of 1");
    pty.type_in("e");
    pty.wait_shown("no retransmit burst after this");
    assert!(!pty.text().contains("10.0.0.2:5201"));
    pty.type_in("q");
    assert_eq!(wait(&mut child).code(), Some(0));
}

#[test]
fn what_cannot_be_played_is_told_before_the_terminal_is_taken() {
    let dir = tempfile::tempdir().expect("a place");
    let path = file(&dir, &bytes());
    let none = dir.path().join("none.mcap");
    let text = dir.path().join("text");
    std::fs::write(&text, "no recording\n").expect("written");
    let cases: [(&PathBuf, &[&str], i32, &str); 7] = [
        (
            &path,
            &["--at", "12:00:00"],
            2,
            "goes from 16:00:01.000 to 16:00:41.000",
        ),
        (&path, &["--at", "soon"], 2, "write 21:00:05"),
        (&path, &["--speed", "0"], 2, "from 0.1 to 100"),
        (&path, &["--filter", "dprot = :1"], 2, "dprot"),
        (&none, &[], 1, "No such file"),
        (&text, &[], 1, "this is no recording"),
        (&path, &["--script", "x"], 2, "shows a script"),
    ];
    for (path, args, code, told) in cases {
        let pty = Pty::new(200, 24);
        let mut child = pty.start(&mut replay(path, args));
        assert_eq!(wait(&mut child).code(), Some(code), "{args:?}");
        pty.wait_text(told);
        assert!(!pty.text().contains("\x1b[?1049h"), "{args:?}");
    }
}

#[test]
fn without_a_terminal_it_names_what_does_without() {
    let dir = tempfile::tempdir().expect("a place");
    let path = file(&dir, &bytes());
    let mut command = replay(&path, &[]);
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("export") && told.contains("report"), "{told}");
    assert!(output.stdout.is_empty());
    let live = Command::new(env!("CARGO_BIN_EXE_observer"))
        .args(["list", "--at", "5s"])
        .output()
        .expect("it runs");
    assert_eq!(live.status.code(), Some(2));
}
