//! What a running observer may still do: the capabilities of all its threads, no new privileges, never set-uid.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{Netns, needs, skipped, wait_for};

const OBSERVER: &str = env!("CARGO_BIN_EXE_observer");

const NET_ADMIN: u64 = 1 << 12;
const SYS_PTRACE: u64 = 1 << 19;
const DAC_READ_SEARCH: u64 = 1 << 2;
const SYS_ADMIN: u64 = 1 << 21;
const PERFMON: u64 = 1 << 38;
const BPF: u64 = 1 << 39;
const CHOWN: u64 = 1 << 0;
const DAC_OVERRIDE: u64 = 1 << 1;
const FOWNER: u64 = 1 << 3;
const OBSERVING: u64 = NET_ADMIN | SYS_PTRACE | DAC_READ_SEARCH | PERFMON | BPF;

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(arguments: &[&str]) -> Running {
    let mut command = Command::new(OBSERVER);
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Running(command.spawn().expect("it starts"))
}

fn field(status: &str, name: &str) -> u64 {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .expect(name);
    let radix = if name.starts_with("Cap") { 16 } else { 10 };
    u64::from_str_radix(line.trim(), radix).expect("a number")
}

/// Of every thread, once the kernel's thread is there.
fn holds_only(running: &Running, allowed: u64) {
    let tasks = format!("/proc/{}/task", running.0.id());
    let statuses = wait_for("threads", || {
        let tasks = fs::read_dir(&tasks).ok()?.flatten();
        let read = |task: fs::DirEntry| fs::read_to_string(task.path().join("status")).ok();
        let statuses: Vec<String> = tasks.filter_map(read).collect();
        statuses
            .iter()
            .any(|status| status.contains("observer-kernel"))
            .then_some(statuses)
    });
    for status in statuses {
        for set in ["CapEff:", "CapPrm:"] {
            assert_eq!(field(&status, set), allowed, "{set}\n{status}");
        }
        assert_eq!(field(&status, "CapInh:") | field(&status, "CapAmb:"), 0);
        assert_eq!(field(&status, "NoNewPrivs:"), 1);
    }
}

#[test]
fn running_commands_hold_what_is_documented() {
    needs!("ip");
    let ns = Netns::new();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("r.mcap");
    let file = file.to_str().expect("text");
    holds_only(&start(&["serve", "--listen", "127.0.0.1:0"]), OBSERVING);
    let named = ["serve", "--listen", "127.0.0.1:0", "-N", &ns.name];
    holds_only(&start(&named), OBSERVING | SYS_ADMIN);
    holds_only(&start(&["stream"]), OBSERVING | SYS_ADMIN);
    let recording = OBSERVING | SYS_ADMIN | CHOWN | DAC_OVERRIDE | FOWNER;
    holds_only(&start(&["record", "-o", file]), recording);
}

#[test]
fn a_command_that_is_recorded_keeps_its_rights() {
    needs!("ip");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("r.mcap");
    let output = Command::new(OBSERVER)
        .args([
            "record",
            "-o",
            file.to_str().expect("text"),
            "--",
            "cat",
            "/proc/self/status",
        ])
        .output()
        .expect("it runs");
    let status = String::from_utf8_lossy(&output.stdout);
    let own = fs::read_to_string("/proc/self/status").expect("readable");
    assert_eq!(field(&status, "CapEff:"), field(&own, "CapEff:"));
    assert_eq!(field(&status, "NoNewPrivs:"), field(&own, "NoNewPrivs:"));
}

/// Whether this kernel has Landlock: a thread of ours confined to nothing.
fn confines() -> bool {
    use observer::kernel::confine::{Allowed, Confined, confine};
    let tried = std::thread::spawn(|| confine(&Allowed::default()).expect("an answer"));
    tried.join().expect("no panic") != Confined::Not
}

/// Bytes over the loopback of `ns`, until dropped.
fn traffic(ns: &Netns) -> impl Drop {
    use std::io::{Read as _, Write as _};
    struct Traffic(std::net::TcpStream);
    impl Drop for Traffic {
        fn drop(&mut self) {
            let _ = self.0.shutdown(std::net::Shutdown::Both);
        }
    }
    let (mut from, mut to) = common::connect(ns, ns, "127.0.0.1");
    let held = from.try_clone().expect("a clone");
    std::thread::spawn(move || while from.write_all(&[7; 8192]).is_ok() {});
    std::thread::spawn(move || while to.read(&mut [0; 8192]).is_ok_and(|read| read > 0) {});
    Traffic(held)
}

/// A directory that is another one meanwhile (a link put in its place) gets no part of a recording.
#[test]
fn the_next_part_of_a_recording_is_written_nowhere_else() {
    needs!("ip");
    if !confines() {
        return skipped("no Landlock in this kernel");
    }
    let ns = Netns::new();
    let _traffic = traffic(&ns);
    let top = tempfile::tempdir().expect("a directory");
    let at = |name: &str| top.path().join(name);
    for dir in ["told", "elsewhere"] {
        fs::create_dir(at(dir)).expect("a directory");
    }
    let mut child = Command::new(OBSERVER)
        .args([
            "record",
            "--interval",
            "0",
            "--max-size",
            "256k",
            "-N",
            &ns.name,
        ])
        .args(["--max-cpu", "100", "-o"])
        .arg(at("told/r.mcap"))
        .stderr(Stdio::piped())
        .spawn()
        .map(Running)
        .expect("it starts");
    wait_for("the first part", || {
        at("told/r.mcap.1").exists().then_some(())
    });
    fs::rename(at("told"), at("moved")).expect("renamed");
    std::os::unix::fs::symlink(at("elsewhere"), at("told")).expect("a link");
    let status = wait_for("its end", || child.0.try_wait().expect("a child"));
    let mut said = String::new();
    let stderr = child.0.stderr.as_mut().expect("piped");
    std::io::Read::read_to_string(stderr, &mut said).expect("text");
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(
        said.contains("cannot create") && said.contains("ermission denied"),
        "{said}"
    );
    assert_eq!(
        fs::read_dir(at("elsewhere")).expect("a directory").count(),
        0
    );
}

fn copy_with(dir: &Path, mode: u32) -> std::path::PathBuf {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("ours");
    let copy = dir.join("observer");
    fs::copy(OBSERVER, &copy).expect("a copy");
    fs::set_permissions(&copy, fs::Permissions::from_mode(mode)).expect("ours");
    copy
}

#[test]
fn set_uid_is_refused() {
    needs!("ip");
    let dir = tempfile::tempdir().expect("a directory");
    for mode in [0o4755, 0o2755] {
        let copy = copy_with(dir.path(), mode);
        let mut command = Command::new(&copy);
        command
            .args(["list", "--window", "0"])
            .uid(65534)
            .gid(65534);
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("setcap"), "{said}");
        assert!(output.stdout.is_empty());
    }
    let copy = copy_with(dir.path(), 0o755);
    let mut command = Command::new(&copy);
    command
        .args(["list", "--window", "0"])
        .uid(65534)
        .gid(65534);
    assert!(command.output().expect("it runs").status.success());
}
