//! A program in a pseudo-terminal: what it writes, what is typed, and whether the terminal is as it was afterwards.

// Each test binary compiles this file and uses a part of it.
#![allow(dead_code)]

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};

use super::wait_for;

/// A terminal nobody sees: our end, the program's end, and what was written to it.
pub struct Pty {
    pub master: OwnedFd,
    pub slave: OwnedFd,
    written: Arc<Mutex<Vec<u8>>>,
    before: Termios,
    /// Our end is let go.
    closing: Arc<AtomicBool>,
    reader: thread::JoinHandle<()>,
}

impl Pty {
    pub fn new(columns: u16, rows: u16) -> Self {
        // Not for the program: it would keep its own terminal from being closed.
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).expect("a terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let name = ptsname(&master, Vec::new()).expect("its name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave =
            rustix::fs::open(name, flags, rustix::fs::Mode::empty()).expect("its other end");
        let (written, closing) = (
            Arc::<Mutex<Vec<u8>>>::default(),
            Arc::<AtomicBool>::default(),
        );
        let to = (Arc::clone(&written), Arc::clone(&closing));
        let mut from = File::from(master.try_clone().expect("clone"));
        let reader = thread::spawn(move || {
            let (written, closing) = to;
            let mut buffer = [0; 4096];
            let patience = Timespec::try_from(Duration::from_millis(50)).expect("short");
            while !closing.load(Ordering::Relaxed) {
                let mut wait = [PollFd::new(&from, PollFlags::IN)];
                if poll(&mut wait, Some(&patience)).expect("waited") == 0 {
                    continue;
                }
                let Ok(read) = from.read(&mut buffer) else {
                    break;
                };
                written
                    .lock()
                    .expect("lock")
                    .extend_from_slice(&buffer[..read]);
            }
        });
        let pty = Self {
            before: tcgetattr(&slave).expect("modes"),
            written,
            master,
            slave,
            closing,
            reader,
        };
        pty.resize(columns, rows);
        pty
    }

    /// The window is closed: both of the terminal's ends are gone but for the program's.
    pub fn close(self) {
        self.closing.store(true, Ordering::Relaxed);
        self.reader.join().expect("it ends");
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.master, size).expect("resized");
    }

    pub fn start(&self, command: &mut Command) -> Program {
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

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().expect("lock")).into_owned()
    }

    pub fn wait_text(&self, what: &str) {
        wait_for(what, || self.text().contains(what).then_some(()));
    }

    /// As [`Pty::wait_text`], drawing anew (Ctrl-L) until it is there: a frame writes only what changed, so a word may
    /// come in pieces.
    pub fn wait_redrawn(&self, what: &str) {
        wait_for(what, || {
            self.type_in("\x0c");
            thread::sleep(Duration::from_millis(50));
            self.text().contains(what).then_some(())
        });
    }

    /// Waits until the screen as it is drawn anew has this text, whatever its colours and the blanks in it.
    pub fn wait_shown(&self, what: &str) {
        let wanted: String = what.split_whitespace().collect();
        wait_for(what, || {
            let from = self.written.lock().expect("lock").len();
            self.type_in("\x0c");
            thread::sleep(std::time::Duration::from_millis(100));
            let written = self.written.lock().expect("lock")[from..].to_vec();
            plain(&String::from_utf8_lossy(&written))
                .contains(&wanted)
                .then_some(())
        });
    }

    pub fn type_in(&self, keys: &str) {
        rustix::io::write(&self.master, keys.as_bytes()).expect("typed");
    }

    /// The program is gone: modes, screen and cursor are as before.
    pub fn assert_sane(&self) {
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

/// Without control sequences and blanks.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            // CSI, up to its last character.
            '\x1b' if chars.next() == Some('[') => {
                chars.find(|c| ('@'..='~').contains(c));
            }
            c if c.is_control() || c.is_whitespace() => {}
            c => plain.push(c),
        }
    }
    plain
}

/// A program in the terminal: ended with the test, also when that failed.
pub struct Program(Child);

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

pub fn wait(Program(child): &mut Program) -> ExitStatus {
    wait_for("the end", || child.try_wait().expect("waited"))
}
