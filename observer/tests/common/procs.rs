//! Processes of the test's own making, told what to do one step at a time, and control groups that go away again.

// Each test binary compiles this file and uses a part of it.
#![allow(dead_code)]

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use observer::kernel::clock;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::common::Netns;

/// A forked process; it ends when this is dropped, or when the test's process ends.
#[derive(Debug)]
pub struct Proc {
    pub pid: u32,
    pub name: String,
    line: UnixStream,
    over: bool,
}

/// The process's end of the line to the test.
#[derive(Debug)]
pub struct Line(UnixStream);

impl Line {
    /// Tells the test a number.
    pub fn tell(&mut self, number: u64) {
        self.0
            .write_all(&number.to_ne_bytes())
            .expect("the test listens");
    }

    /// Waits for the next step; ends the process when there is none.
    pub fn wait(&mut self) -> u8 {
        let mut step = [0];
        match self.0.read_exact(&mut step) {
            Ok(()) => step[0],
            // SAFETY: ends the process without its parent's exit handlers.
            Err(_) => unsafe { libc::_exit(0) },
        }
    }

    /// Whether the test has gone on, or away.
    pub fn is_called(&mut self) -> bool {
        self.0.set_nonblocking(true).expect("nonblocking");
        let read = self.0.read(&mut [0]);
        self.0.set_nonblocking(false).expect("blocking");
        !matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

impl Proc {
    /// Forks a process of this name (`comm`). It has no descriptors of the test's but standard ones, its line, and
    /// `keep`; it ends when `body` returns. A body that makes threads owns what it uses: they get the stacks of the test's
    /// threads.
    pub fn fork(name: &str, keep: &[RawFd], body: impl FnOnce(&mut Line)) -> Self {
        let (line, its) = UnixStream::pair().expect("a pair");
        line.set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a limit");
        let comm = format!("{name}\0");
        assert!(comm.len() <= 16, "{name} is too long for a comm");
        // SAFETY: the child runs on a copy of this thread's stack; glibc keeps malloc usable in it.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
        if pid == 0 {
            let code = catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: a string with its end.
                unsafe { libc::prctl(libc::PR_SET_NAME, comm.as_ptr()) };
                let mut kept = [keep, &[its.as_raw_fd()]].concat();
                kept.sort_unstable();
                close_others(&kept);
                body(&mut Line(its));
            }))
            .map_or(1, |()| 0);
            // SAFETY: ends the process without its parent's exit handlers.
            unsafe { libc::_exit(code) }
        }
        Self {
            pid: pid as u32,
            name: name.to_owned(),
            line,
            over: false,
        }
    }

    /// As [`Proc::fork`], inside a network namespace.
    pub fn fork_in(
        netns: &Netns,
        name: &str,
        keep: &[RawFd],
        body: impl FnOnce(&mut Line) + Send,
    ) -> Self {
        netns.enter(|| Self::fork(name, keep, body))
    }

    /// As [`Proc::fork_in`], the first process of a PID namespace of its own. `pid` is the one outside.
    pub fn fork_in_pidns(netns: &Netns, name: &str, body: impl FnOnce(&mut Line) + Send) -> Self {
        netns.enter(|| {
            // This thread makes no other after it: its children live in the new namespace.
            // SAFETY: no memory is passed.
            let unshared = unsafe { libc::unshare(libc::CLONE_NEWPID) };
            assert_eq!(unshared, 0, "{}", std::io::Error::last_os_error());
            Self::fork(name, &[], body)
        })
    }

    /// The next number it tells.
    pub fn hear(&mut self) -> u64 {
        let mut number = [0; 8];
        let heard = self.line.read_exact(&mut number);
        heard.unwrap_or_else(|error| panic!("{} said nothing: {error}", self.name));
        u64::from_ne_bytes(number)
    }

    /// Lets it take its next step.
    pub fn step(&mut self) {
        self.line.write_all(&[1]).expect("it waits");
    }

    /// Waits until it has ended by itself, well.
    pub fn finish(mut self) {
        let start = clock::now();
        while !self.has_ended() {
            let since = clock::now().since(start);
            assert!(since < 30_000_000_000, "{} does not end", self.name);
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it and waits until it is gone.
    pub fn kill(mut self) {
        self.end();
    }

    fn id(&self) -> Pid {
        Pid::from_raw(self.pid as i32).expect("not 0")
    }

    fn has_ended(&mut self) -> bool {
        if self.over {
            return true;
        }
        let waited = waitpid(Some(self.id()), WaitOptions::NOHANG).expect("our own child");
        if let Some((_, status)) = waited {
            self.over = true;
            assert_eq!(status.exit_status(), Some(0), "{} failed", self.name);
        }
        self.over
    }

    fn end(&mut self) {
        if !self.over {
            self.over = true;
            let _ = kill_process(self.id(), Signal::KILL);
            let _ = waitpid(Some(self.id()), WaitOptions::empty());
        }
    }
}

impl Drop for Proc {
    fn drop(&mut self) {
        self.end();
    }
}

/// Closes all descriptors above the standard ones that are not in `kept`, which is sorted.
fn close_others(kept: &[RawFd]) {
    let mut from = 3;
    for fd in kept.iter().copied().chain([RawFd::MAX]) {
        if from < fd {
            // SAFETY: nothing in this process uses them any more: it only runs what it was forked for.
            unsafe { libc::syscall(libc::SYS_close_range, from, fd - 1, 0) };
        }
        from = fd.saturating_add(1);
    }
}

/// A directory in the cgroup v2 tree, with those made for it above; removed when dropped.
#[derive(Debug)]
pub struct Cgroup {
    dir: PathBuf,
    /// Those above that this one made, innermost first.
    above: Vec<PathBuf>,
    /// As programs show it: below the mount.
    pub path: String,
}

/// Where cgroup v2 is mounted.
pub fn cgroup_mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let dir = words.nth(1)?;
        (words.next() == Some("cgroup2")).then(|| dir.into())
    })
}

impl Cgroup {
    /// Makes `path` (without a leading `/`).
    pub fn new(path: &str) -> Self {
        let mount = cgroup_mount().expect("cgroup v2");
        let dir = mount.join(path);
        let above: Vec<PathBuf> = dir
            .ancestors()
            .skip(1)
            .take_while(|dir| **dir != mount)
            .filter(|dir| !dir.exists())
            .map(Path::to_owned)
            .collect();
        fs::create_dir_all(&dir).expect("root may");
        Self {
            dir,
            above,
            path: format!("/{path}"),
        }
    }

    /// Takes the calling process in.
    pub fn join(&self) {
        fs::write(self.dir.join("cgroup.procs"), "0").expect("root may");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for dir in std::iter::once(&self.dir).chain(&self.above) {
            // Busy until its last process is reaped.
            for _ in 0..200 {
                match fs::remove_dir(dir) {
                    Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                        thread::sleep(Duration::from_millis(5));
                    }
                    _ => break,
                }
            }
        }
    }
}
