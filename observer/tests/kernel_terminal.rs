//! The dashboard in a pseudo-terminal: the terminal is as it was on every way out.

mod common;

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use common::{Netns, connect, needs, wait_for};
use observer::event::Event;
use observer::source::{Info, Source, SourceError, SourceKind};
use observer::tui::{self, Options};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};

/// A terminal nobody sees: our end, the program's end, and what was written to it.
struct Pty {
    master: OwnedFd,
    slave: OwnedFd,
    written: Arc<Mutex<Vec<u8>>>,
    before: Termios,
}

impl Pty {
    fn new(columns: u16, rows: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let name = ptsname(&master, Vec::new()).expect("its name");
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
        let slave =
            rustix::fs::open(name, flags, rustix::fs::Mode::empty()).expect("its other end");
        let pty = Self {
            before: tcgetattr(&slave).expect("modes"),
            written: Arc::default(),
            master,
            slave,
        };
        pty.resize(columns, rows);
        let written = Arc::clone(&pty.written);
        let mut reader = File::from(pty.master.try_clone().expect("clone"));
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read) = reader.read(&mut buffer) {
                written
                    .lock()
                    .expect("lock")
                    .extend_from_slice(&buffer[..read]);
            }
        });
        pty
    }

    fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.master, size).expect("resized");
    }

    fn start(&self, command: &mut Command) -> Program {
        let end = || Stdio::from(self.slave.try_clone().expect("clone"));
        let child = command
            // A group of its own with its parent outside, as a shell does it: else the kernel ignores SIGTSTP.
            .process_group(0)
            .env("TERM", "xterm-256color")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("it starts");
        Program(child)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().expect("lock")).into_owned()
    }

    fn wait_text(&self, what: &str) {
        wait_for(what, || self.text().contains(what).then_some(()));
    }

    /// As [`Pty::wait_text`], drawing anew (Ctrl-L) until it is there: a frame writes only what changed, so a word may
    /// come in pieces.
    fn wait_redrawn(&self, what: &str) {
        wait_for(what, || {
            self.type_in("\x0c");
            thread::sleep(std::time::Duration::from_millis(50));
            self.text().contains(what).then_some(())
        });
    }

    fn type_in(&self, keys: &str) {
        rustix::io::write(&self.master, keys.as_bytes()).expect("typed");
    }

    /// The program is gone: modes, screen and cursor are as before.
    fn assert_sane(&self) {
        wait_for("the normal screen", || {
            self.text().contains("\x1b[?1049l").then_some(())
        });
        let text = self.text();
        let (left, taken) = (text.rfind("\x1b[?1049l"), text.rfind("\x1b[?1049h"));
        assert!(left > taken, "the alternate screen was left last");
        assert!(
            text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l"),
            "the cursor is there"
        );
        for mode in ["1000", "1002", "1003", "1006", "2004"] {
            let (on, off) = (format!("\x1b[?{mode}h"), format!("\x1b[?{mode}l"));
            assert!(
                text.rfind(&off) >= text.rfind(&on),
                "mode {mode} is as it was: mouse and paste are the terminal's"
            );
        }
        let now = tcgetattr(self.slave.as_fd()).expect("modes");
        assert_eq!(now.local_modes, self.before.local_modes);
        assert!(
            now.local_modes
                .contains(LocalModes::ICANON | LocalModes::ECHO)
        );
        assert_eq!(now.input_modes, self.before.input_modes);
        assert_eq!(now.output_modes, self.before.output_modes);
    }
}

/// A program in the terminal: ended with the test, also when that failed.
struct Program(Child);

impl std::ops::Deref for Program {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Of one that ended this says so, and no more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait(Program(child): &mut Program) -> ExitStatus {
    wait_for("the end", || child.try_wait().expect("waited"))
}

fn dashboard(pty: &Pty, ns: &Netns) -> Program {
    let child = pty.start(Command::new(env!("CARGO_BIN_EXE_observer")).args(["-N", &ns.name]));
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
        let _ = runtime.block_on(tui::run(&mut Breaking(info, 0), &options));
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
