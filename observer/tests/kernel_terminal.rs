//! The dashboard in a pseudo-terminal: the terminal is as it was on every way out.

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use common::pty::{Program, Pty, wait};
use common::{Netns, connect, needs, wait_for};
use observer::event::{Event, Payload};
use observer::model::Model;
use observer::record::Reader;
use observer::source::{Info, Source, SourceError, SourceKind};
use observer::tui::{self, Options};
use rustix::process::{Pid, Signal, kill_process};

fn dashboard(pty: &Pty, ns: &Netns) -> Program {
    dashboard_with(pty, ns, &[])
}

fn dashboard_with(pty: &Pty, ns: &Netns, arguments: &[&str]) -> Program {
    let mut command = Command::new(env!("CARGO_BIN_EXE_observer"));
    let child = pty.start(command.args(["-N", &ns.name]).args(arguments));
    pty.wait_text("\x1b[?1049h");
    child
}

#[test]
fn a_key_ends_it() {
    needs!("ip");
    let ns = Netns::new();
    let (client, server) = connect(&ns, &ns, "127.0.0.1");
    let pty = Pty::new(80, 24);
    let mut child = dashboard(&pty, &ns);
    common::send(&client, &server, 1 << 20);
    pty.wait_redrawn("127.0.0.1:");
    pty.type_in("q");
    assert_eq!(wait(&mut child).code(), Some(0));
    pty.assert_sane();
}

#[test]
fn signals_end_it() {
    needs!("ip");
    let ns = Netns::new();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let pty = Pty::new(80, 24);
        let mut child = dashboard(&pty, &ns);
        pty.wait_text("quit");
        kill_process(Pid::from_child(&child), signal).expect("our own child");
        assert_eq!(wait(&mut child).code(), Some(0), "{signal:?}");
        pty.assert_sane();
    }
}

#[test]
fn a_closed_terminal_ends_it() {
    needs!("ip");
    let ns = Netns::new();
    let pty = Pty::new(80, 24);
    let mut child = dashboard(&pty, &ns);
    pty.wait_text("quit");
    pty.close();
    let status = wait(&mut child);
    // Nobody is left to be told: it ends by itself, neither by a panic (101) nor by a signal.
    assert!(matches!(status.code(), Some(0 | 1)), "{status:?}");
}

#[test]
fn a_resize_storm_does_no_harm() {
    needs!("ip");
    let ns = Netns::new();
    let pty = Pty::new(80, 24);
    let mut child = dashboard(&pty, &ns);
    for round in 0..200_u16 {
        pty.resize(1 + round * 7 % 300, 1 + round * 3 % 80);
        kill_process(Pid::from_child(&child), Signal::WINCH).expect("our own child");
    }
    pty.resize(80, 24);
    pty.type_in("?");
    pty.wait_redrawn("Keys on the page");
    pty.type_in("q");
    assert_eq!(wait(&mut child).code(), Some(0));
    pty.assert_sane();
}

#[test]
fn ctrl_z_gives_the_terminal_back_and_takes_it_again() {
    needs!("ip");
    let ns = Netns::new();
    let pty = Pty::new(80, 24);
    let mut child = dashboard(&pty, &ns);
    pty.wait_text("quit");
    pty.type_in("\x1a");
    let stat = format!("/proc/{}/stat", child.id());
    wait_for("the stop", || {
        let stat = std::fs::read_to_string(&stat).ok()?;
        stat.rsplit(')')
            .next()?
            .trim_start()
            .starts_with('T')
            .then_some(())
    });
    pty.assert_sane();
    let before = pty.text().len();
    kill_process(Pid::from_child(&child), Signal::CONT).expect("our own child");
    wait_for("the screen", || {
        pty.text()[before..].contains("quit").then_some(())
    });
    pty.type_in("q");
    assert_eq!(wait(&mut child).code(), Some(0));
    pty.assert_sane();
}

/// The recordings in a directory, in the order of their names.
fn recordings(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("there").flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[test]
fn a_key_records_what_is_shown_from_here() {
    needs!("ip");
    let ns = Netns::new();
    let (client, server) = connect(&ns, &ns, "127.0.0.1");
    let (other, other_server) = connect(&ns, &ns, "127.0.0.1");
    let port = server.local_addr().expect("bound").port();
    let dir = tempfile::tempdir().expect("a directory");
    let place = dir.path().to_str().expect("UTF-8");
    let pty = Pty::new(120, 24);
    let filter = format!("sport = :{port} or dport = :{port}");
    let mut child = dashboard_with(&pty, &ns, &["--record-dir", place, &filter]);
    common::send(&client, &server, 300_000);
    pty.wait_redrawn("127.0.0.1:");
    pty.type_in("R");
    pty.wait_redrawn("REC ");
    common::send(&client, &server, 500_000);
    common::send(&other, &other_server, 500_000);
    // All sockets are looked at once more: a sample at an ACK is the state before it.
    pty.type_in("R");
    pty.wait_redrawn("recorded ");
    let first = recordings(dir.path());
    assert_eq!(first.len(), 1, "{first:?}");
    // One that still runs is closed at the end.
    pty.type_in("R");
    thread::sleep(std::time::Duration::from_secs(1));
    pty.type_in("q");
    assert_eq!(wait(&mut child).code(), Some(0));
    pty.assert_sane();
    let paths = recordings(dir.path());
    assert_eq!(paths.len(), 2, "{paths:?}");
    for path in &paths {
        let mode = std::fs::metadata(path).expect("there").permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        let mut reader = Reader::open(path).expect("a recording");
        let (mut model, mut first) = (Model::default(), None);
        while let Some(batch) = reader.batch().expect("readable") {
            for event in &batch {
                first.get_or_insert_with(|| event.clone());
                model.apply(event);
            }
        }
        assert!(reader.ending().expect("the end").is_complete());
        let environment = reader.environment();
        assert_eq!(environment.source, "eBPF");
        assert!(environment.wall_offset_ns.is_some());
        let said = environment.filter.as_deref().expect("the filter");
        assert!(said.contains(&format!(":{port}")), "{said}");
        let first = first.expect("events");
        assert!(matches!(first.payload, Payload::Host(_)), "{first:?}");
        assert!(model.counters().is_some() && model.lost() == 0);
        let flows: Vec<_> = model.flows().collect();
        assert_eq!(flows.len(), 2, "both ends of the one");
        let sent = flows.iter().filter_map(|flow| flow.sample()?.bytes_acked);
        assert!((800_000..810_000).contains(&sent.max().expect("sampled")));
        for flow in flows {
            assert!(!flow.from_start(), "its birth was before");
            assert!(flow.opened_at() >= first.time && flow.attributes().is_some());
        }
    }
}

#[test]
fn a_recording_that_fails_is_told_and_the_dashboard_stays() {
    needs!("ip", "mount", "umount");
    let ns = Netns::new();
    let _flow = connect(&ns, &ns, "127.0.0.1");
    let dir = tempfile::tempdir().expect("a directory");
    let place = dir.path().to_str().expect("UTF-8").to_owned();
    common::run("mount", &format!("-t tmpfs -o size=8k tmpfs {place}"));
    let pty = Pty::new(120, 24);
    let mut child = dashboard_with(&pty, &ns, &["--record-dir", &place]);
    pty.type_in("R");
    pty.wait_redrawn("No space left on device");
    pty.type_in("q");
    let status = wait(&mut child);
    common::run("umount", &place);
    assert_eq!(status.code(), Some(0));
    pty.assert_sane();
    // A directory that is not there is told before.
    let mut child = pty.start(
        Command::new(env!("CARGO_BIN_EXE_observer")).args(["--record-dir", "/no/such/place"]),
    );
    assert_eq!(wait(&mut child).code(), Some(2));
    pty.wait_text("--record-dir /no/such/place");
}

#[test]
fn a_click_selects_and_the_mouse_is_given_back() {
    needs!("ip");
    let ns = Netns::new();
    let (client, server) = connect(&ns, &ns, "127.0.0.1");
    let pty = Pty::new(80, 24);
    let mut child = dashboard(&pty, &ns);
    common::send(&client, &server, 1 << 20);
    pty.wait_redrawn("127.0.0.1:");
    // The wheel and drags do no harm; then a click on each line of the table: one of them is a flow's.
    pty.type_in("\x1b[<64;10;8M\x1b[<65;10;8M\x1b[<32;11;9M");
    for line in 4..9 {
        pty.type_in(&format!("\x1b[<0;10;{line}M\x1b[<0;10;{line}m"));
    }
    pty.wait_redrawn(" → ");
    // Taken back, and left alone when the terminal was the shell's in between.
    assert!(pty.text().contains("\x1b[?1000h"));
    pty.type_in("m");
    wait_for("the mouse given back", || {
        let text = pty.text();
        (text.rfind("\x1b[?1000l") > text.rfind("\x1b[?1000h")).then_some(())
    });
    let before = pty.text().len();
    kill_process(Pid::from_child(&child), Signal::CONT).expect("our own child");
    wait_for("the screen", || {
        pty.text()[before..].contains("quit").then_some(())
    });
    assert!(!pty.text()[before..].contains("\x1b[?1000h"));
    pty.type_in("q");
    assert_eq!(wait(&mut child).code(), Some(0));
    pty.assert_sane();
}

#[test]
fn a_wrong_config_file_is_told_before_the_terminal_is_taken() {
    let dir = tempfile::tempdir().expect("a place");
    let path = dir.path().join("config.toml");
    std::fs::write(&path, "theme = \"dark\"\ncolums = []\n").expect("written");
    let pty = Pty::new(80, 24);
    let mut child = pty.start(
        Command::new(env!("CARGO_BIN_EXE_observer"))
            .arg("--config")
            .arg(&path),
    );
    assert_eq!(wait(&mut child).code(), Some(2));
    pty.wait_text("config.toml:2:1: there is no setting 'colums'; did you mean 'columns'?");
    assert!(!pty.text().contains("\x1b[?1049h"));
}

/// A source that breaks while the screen is up.
struct Breaking(Info, u32);

impl Source for Breaking {
    fn info(&self) -> &Info {
        &self.0
    }

    async fn next(&mut self) -> Result<Option<Vec<Event>>, SourceError> {
        self.1 += 1;
        assert!(self.1 < 2, "breaking on purpose");
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        Ok(Some(Vec::new()))
    }
}

const CHILD: &str = "OBSERVER_TEST_BREAKING";

#[test]
fn a_panic_gives_the_terminal_back_first() {
    if std::env::var_os(CHILD).is_some() {
        let info = Info {
            kind: SourceKind::Script,
            origin: None,
            name: "breaking".to_owned(),
            wall_offset_ns: None,
        };
        let options = Options {
            view: tui::ViewState::default(),
            refresh: std::time::Duration::from_millis(250),
            focus: Box::new(|_| ()),
            shows: Box::new(|_, _| true),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let _ = runtime.block_on(tui::run(
            &mut Breaking(info, 0),
            observer::model::Fold::default(),
            &options,
            None,
        ));
        unreachable!("it breaks");
    }
    let pty = Pty::new(80, 24);
    let mut child = pty.start(
        Command::new(std::env::current_exe().expect("this test"))
            .args([
                "--exact",
                "a_panic_gives_the_terminal_back_first",
                "--nocapture",
            ])
            .env(CHILD, "1"),
    );
    assert!(!wait(&mut child).success());
    pty.assert_sane();
    pty.wait_text("breaking on purpose");
    let text = pty.text();
    let message = text
        .find("breaking on purpose")
        .expect("the message is shown");
    assert!(
        message > text.rfind("\x1b[?1049l").expect("left"),
        "on the normal screen"
    );
}
