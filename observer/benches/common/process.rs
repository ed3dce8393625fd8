//! An observer as a process of its own: in a terminal that nobody sees, with its CPU time by thread and its memory.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// A program that draws on a terminal.
#[derive(Debug)]
pub struct OnTerminal {
    child: Child,
    master: OwnedFd,
    /// The other end: as long as it is held, what is written can be read.
    _slave: OwnedFd,
    seen: Receiver<()>,
}

impl OnTerminal {
    /// Starts it, 120 columns by 40 lines; [`OnTerminal::wait_for`] waits for `sign` in what it draws.
    pub fn start(command: &mut Command, sign: &str) -> Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).context("no terminal")?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(name, flags, Mode::empty())?;
        let size = Winsize {
            ws_row: 40,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size)?;
        let (tell, seen) = mpsc::channel();
        let (mut from, sign) = (File::from(master.try_clone()?), sign.as_bytes().to_vec());
        thread::spawn(move || {
            let mut tail = Vec::new();
            let mut buffer = vec![0; 64 << 10];
            let mut told = sign.is_empty();
            while let Ok(read @ 1..) = from.read(&mut buffer) {
                if told {
                    continue;
                }
                tail.extend_from_slice(&buffer[..read]);
                if tail.windows(sign.len()).any(|part| part == sign) {
                    told = true;
                    let _ = tell.send(());
                } else {
                    tail.drain(..tail.len().saturating_sub(sign.len()));
                }
            }
        });
        let end = || slave.try_clone().map(Stdio::from);
        let child = command
            .env("TERM", "xterm-256color")
            .stdin(end()?)
            .stdout(end()?)
            .stderr(end()?)
            .spawn()
            .with_context(|| format!("{command:?} does not start"))?;
        Ok(Self {
            child,
            master,
            _slave: slave,
            seen,
        })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Until the sign was seen.
    pub fn wait_for(&mut self, most: Duration) -> Result<()> {
        if self.seen.recv_timeout(most).is_err() {
            bail!("what was waited for did not come on the screen within {most:?}");
        }
        Ok(())
    }

    /// Quits it by its key.
    pub fn quit(mut self) -> Result<ExitStatus> {
        File::from(self.master.try_clone()?).write_all(b"q")?;
        Ok(self.child.wait()?)
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        // It has ended already, or nobody needs it any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time, user and system, of all threads of a process but those of this name, in nanoseconds.
pub fn cpu_ns(pid: u32, but: &str) -> io::Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?.path();
        let of = |file: &str| fs::read_to_string(task.join(file));
        // A thread that ended meanwhile is no error.
        let (Ok(comm), Ok(spent)) = (of("comm"), of("schedstat")) else {
            continue;
        };
        if comm.trim_end() != but {
            sum += spent
                .split(' ')
                .next()
                .and_then(|ns| ns.parse::<u64>().ok())
                .unwrap_or(0);
        }
    }
    Ok(sum)
}

/// Resident memory now and at most, in kB.
pub fn memory_kb(pid: u32) -> io::Result<(u64, u64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().split(' ').next()?.parse().ok()
    };
    let read = || Some((field("VmRSS:")?, field("VmHWM:")?));
    read().ok_or_else(|| io::Error::other("no memory in /proc"))
}

/// Whether there is such a program on the search path.
pub fn found(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|dir| Path::new(&dir).join(program).is_file())
    })
}
