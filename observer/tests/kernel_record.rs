//! `observer record` on the kernel: the flows of a command's process tree, every way to an end, a kill, a full disk.

mod common;

use std::io::Cursor;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use common::{Netns, connect, needs, run, send, veth, wait_for};
use observer::event::{Event, NoteKind, Payload};
use observer::kernel::clock;
use observer::model::Model;
use observer::record::{Ending, Environment, Reader, SEAL_NS};

const OBSERVER: &str = env!("CARGO_BIN_EXE_observer");

/// The program inside a namespace, by the programs only.
fn observer(ns: &Netns, arguments: &str) -> Command {
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", &ns.name, OBSERVER])
        .args(arguments.split_whitespace())
        .args(["--source", "ebpf"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

struct Recorded {
    events: Vec<Event>,
    ending: Ending,
    environment: Environment,
}

impl Recorded {
    fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).expect("the file is there");
        let mut reader = Reader::new(Cursor::new(bytes)).expect("a recording");
        let mut events = Vec::new();
        while let Some(batch) = reader.batch().expect("memory reads") {
            events.extend(batch);
        }
        Self {
            events,
            ending: reader.ending().expect("the end").clone(),
            environment: reader.environment().clone(),
        }
    }

    fn model(&self) -> Model {
        let mut model = Model::default();
        for event in &self.events {
            model.apply(event);
        }
        model
    }

    fn count(&self, is: impl Fn(&Payload) -> bool) -> usize {
        self.events.iter().filter(|e| is(&e.payload)).count()
    }
}

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A file in a directory of its own.
fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.mcap");
    (dir, path)
}

/// Ends what was started, also on panic.
struct Running(Child);

impl Running {
    fn signal(&self, name: &str) {
        run("kill", &format!("-{name} {}", self.0.id()));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A recording that has begun: its first chunk is in the file.
fn recording(ns: &Netns, path: &Path, arguments: &str) -> Running {
    let arguments = format!("record -o {} {arguments}", path.display());
    let running = Running(observer(ns, &arguments).spawn().expect("it starts"));
    wait_for("first chunk", || {
        let bytes = std::fs::read(path).ok()?;
        let mut reader = Reader::new(Cursor::new(bytes)).ok()?;
        reader.batch().ok()?
    });
    running
}

#[test]
fn a_commands_flows_are_recorded_and_no_others() {
    needs!("ip", "iperf3", "sh");
    let (ns, other) = (Netns::new(), Netns::new());
    veth(&ns, "10.7.0.1", &other, "10.7.0.2");
    let (_dir, path) = place();
    let (client, server) = connect(&ns, &other, "10.7.0.2");
    // A server whose parent ends, a client, another one's flow beside them.
    let script = "(iperf3 -s -1 -p 5300 >/dev/null 2>&1 &); while ! ss -ltnH 'sport = :5300' | grep -q .; do :; done; \
                  iperf3 -c 127.0.0.1 -p 5300 -n 20M -b 80M >/dev/null; exit 7";
    let output = std::thread::scope(|scope| {
        let record = scope.spawn(|| {
            observer(&ns, &format!("record -o {}", path.display()))
                .args(["--label", "site=x", "--", "sh", "-c", script])
                .output()
                .expect("it starts")
        });
        while !record.is_finished() {
            send(&client, &server, 10_000);
            std::thread::sleep(Duration::from_millis(20));
        }
        record.join().expect("no panic")
    });
    let told = message(&output);
    assert_eq!(output.status.code(), Some(7), "{told}");
    assert!(
        told.contains("recorded") && !told.contains("left out"),
        "{told}"
    );
    let recorded = Recorded::read(&path);
    assert!(recorded.ending.is_complete());
    let mode = std::fs::metadata(&path)
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o600);
    let environment = &recorded.environment;
    assert_eq!(environment.source, "eBPF");
    assert_eq!(environment.labels["site"], "x");
    assert!(
        environment
            .command
            .as_deref()
            .is_some_and(|command| command.starts_with("sh -c"))
    );
    assert!(environment.wall_offset_ns.is_some());
    assert!(matches!(recorded.events[0].payload, Payload::Host(_)));

    let model = recorded.model();
    let flows: Vec<_> = model.flows().collect();
    // iperf3's control connection and its stream, both ends of each.
    assert_eq!(flows.len(), 4, "{told}");
    for flow in &flows {
        assert!(flow.local().ip().is_loopback());
        assert!(flow.is_closed());
        assert!(flow.from_start());
    }
    let sent: u64 = flows
        .iter()
        .filter_map(|flow| flow.sample()?.bytes_acked)
        .max()
        .expect("sent");
    // iperf3 sends 20 MiB, and its server may close on the last of it.
    assert!((19 << 20..21 << 20).contains(&sent), "{sent}");
    assert!(recorded.count(|p| matches!(p, Payload::Counters(_))) > 0);
}

/// Who accepted is seen by a look every second: a command may be over before.
#[test]
fn flows_that_nobody_was_seen_to_hold_are_told() {
    needs!("ip", "iperf3", "sh", "ss");
    let ns = Netns::new();
    let (_dir, path) = place();
    let script = "(iperf3 -s -1 -p 5302 >/dev/null 2>&1 &); while ! ss -ltnH 'sport = :5302' | grep -q .; do :; done; \
                  iperf3 -c 127.0.0.1 -p 5302 -n 1M >/dev/null";
    let output = observer(&ns, &format!("record -o {}", path.display()))
        .args(["--", "sh", "-c", script])
        .output()
        .expect("it starts");
    let told = message(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let recorded = Recorded::read(&path).model().flows().count();
    let left_out = told
        .split(['\n', ';'])
        .filter(|part| part.contains("left out"))
        .filter_map(|part| part.split(' ').find_map(|word| word.parse::<usize>().ok()))
        .sum::<usize>();
    assert_eq!(recorded + left_out, 4, "{told}");
}

#[test]
fn statuses_of_commands_are_passed_on() {
    needs!("ip", "sh");
    let ns = Netns::new();
    for (script, status) in [("exit 0", 0), ("kill -TERM $$", 143)] {
        let (_dir, path) = place();
        let output = observer(&ns, &format!("record -o {}", path.display()))
            .args(["--", "sh", "-c", script])
            .output()
            .expect("it starts");
        assert_eq!(output.status.code(), Some(status), "{}", message(&output));
        assert!(Recorded::read(&path).ending.is_complete());
    }
}

#[test]
fn time_and_signals_end_a_recording_properly() {
    needs!("ip");
    let ns = Netns::new();
    for how in ["-t 500ms", "INT", "TERM"] {
        let (_dir, path) = place();
        let output = if how.starts_with('-') {
            observer(&ns, &format!("record -o {} {how}", path.display())).output()
        } else {
            let mut running = recording(&ns, &path, "");
            running.signal(how);
            let stderr = running.0.stderr.take();
            let status = running.0.wait().expect("it ends");
            let stderr = stderr.map_or_else(Vec::new, |mut pipe| {
                let mut told = Vec::new();
                let _ = std::io::Read::read_to_end(&mut pipe, &mut told);
                told
            });
            Ok(Output {
                status,
                stdout: Vec::new(),
                stderr,
            })
        };
        let output = output.expect("it starts");
        assert_eq!(output.status.code(), Some(0), "{how}: {}", message(&output));
        assert!(message(&output).contains("recorded"), "{how}");
        let recorded = Recorded::read(&path);
        assert!(recorded.ending.is_complete(), "{how}");
        assert!(recorded.count(|p| matches!(p, Payload::Tick)) >= 4, "{how}");
    }
}

#[test]
fn a_kill_loses_less_than_a_second() {
    needs!("ip");
    let ns = Netns::new();
    let (_dir, path) = place();
    let mut running = recording(&ns, &path, "");
    let listener = ns.enter(|| TcpListener::bind("127.0.0.1:0")).expect("bind");
    let to = listener.local_addr().expect("bound");
    let client = ns
        .enter(|| std::net::TcpStream::connect(to))
        .expect("connect");
    let (server, _) = listener.accept().expect("accept");
    let begun = clock::now();
    let length = || std::fs::metadata(&path).map_or(0, |there| there.len());
    let before = length();
    // Some way into a chunk that is not sealed.
    wait_for("another chunk and a half", || {
        send(&client, &server, 100_000);
        let sealed = length() > before;
        (sealed && clock::now().since(begun) > SEAL_NS * 2).then_some(())
    });
    running.signal("KILL");
    let killed = clock::now();
    running.0.wait().expect("it is gone");
    let recorded = Recorded::read(&path);
    assert!(!recorded.ending.is_complete());
    let last = recorded
        .events
        .iter()
        .map(|event| event.time)
        .max()
        .expect("events");
    let lost = killed.since(last);
    assert!(lost < 1_000_000_000, "{} ms", lost / 1_000_000);
    assert!(recorded.count(|p| matches!(p, Payload::Sample(_))) > 10);
}

#[test]
fn on_a_full_disk_what_was_written_stays_readable() {
    needs!("ip", "mount", "umount");
    let ns = Netns::new();
    let dir = tempfile::tempdir().expect("a directory");
    run(
        "mount",
        &format!("-t tmpfs -o size=128k tmpfs {}", dir.path().display()),
    );
    let mounted = Mounted(dir.path().to_owned());
    let path = dir.path().join("a.mcap");
    let (client, server) = {
        let listener = ns.enter(|| TcpListener::bind("127.0.0.1:0")).expect("bind");
        let to = listener.local_addr().expect("bound");
        let client = ns
            .enter(|| std::net::TcpStream::connect(to))
            .expect("connect");
        (client, listener.accept().expect("accept").0)
    };
    let arguments = format!("record -o {} --interval 0", path.display());
    let mut running = Running(observer(&ns, &arguments).spawn().expect("it starts"));
    let status = wait_for("its end", || {
        send(&client, &server, 2_000_000);
        running.0.try_wait().expect("it runs or has ended")
    });
    let mut told = String::new();
    let stderr = running.0.stderr.as_mut().expect("piped");
    std::io::Read::read_to_string(stderr, &mut told).expect("text");
    assert_eq!(status.code(), Some(1), "{told}");
    assert!(
        told.contains("No space left") && told.contains("can be read"),
        "{told}"
    );
    let recorded = Recorded::read(&path);
    assert!(!recorded.ending.is_complete());
    assert!(recorded.ending.damaged.is_empty());
    assert!(recorded.count(|p| matches!(p, Payload::Sample(_))) > 100);
    // It ends with a whole chunk.
    let at = match recorded.ending.how {
        observer::record::How::Truncated { at } => at,
        other => panic!("{other:?}"),
    };
    assert_eq!(at, std::fs::metadata(&path).expect("there").len());
    drop(mounted);
}

/// The command is the user's: what becomes of its recording does not end it.
#[test]
fn a_command_outlives_its_recording_on_a_full_disk() {
    needs!("ip", "iperf3", "sh", "ss", "mount", "umount");
    let ns = Netns::new();
    let dir = tempfile::tempdir().expect("a directory");
    let (full, go) = (dir.path().join("full"), dir.path().join("go"));
    std::fs::create_dir(&full).expect("made");
    run(
        "mount",
        &format!("-t tmpfs -o size=32k tmpfs {}", full.display()),
    );
    let mounted = Mounted(full.clone());
    let path = full.join("a.mcap");
    let script = format!(
        "iperf3 -s -p 5304 >/dev/null 2>&1 & while ! ss -ltnH 'sport = :5304' | grep -q .; do :; done; \
         while [ ! -e {} ]; do iperf3 -c 127.0.0.1 -p 5304 -n 1M >/dev/null; done; kill $!; exit 7",
        go.display()
    );
    let mut child = observer(&ns, &format!("record -o {} --interval 0", path.display()))
        .args(["--", "sh", "-c", &script])
        .spawn()
        .expect("it starts");
    let stderr = child.stderr.take().expect("piped");
    let mut told = String::new();
    let mut lines = std::io::BufReader::new(stderr);
    while !told.contains("goes on") {
        let read = std::io::BufRead::read_line(&mut lines, &mut told).expect("text");
        assert!(read > 0, "it ended: {told}");
    }
    assert!(told.contains("No space left"), "{told}");
    assert!(child.try_wait().expect("a child").is_none(), "it goes on");
    std::fs::write(&go, "").expect("written");
    assert_eq!(child.wait().expect("it ends").code(), Some(7));
    assert!(Recorded::read(&path).ending.damaged.is_empty());
    drop(mounted);
}

struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = common::try_run("umount", &self.0.display().to_string());
    }
}

#[test]
fn a_filter_takes_a_flow_from_its_birth_although_it_is_decided_later() {
    needs!("ip", "iperf3", "sh");
    let ns = Netns::new();
    let (_dir, path) = place();
    let mut running = recording(&ns, &path, "comm iperf3 and dport = :5301");
    ns.run("sh", "-c true");
    let server = Running(
        Command::new("ip")
            .args([
                "netns", "exec", &ns.name, "iperf3", "-s", "-1", "-p", "5301",
            ])
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts"),
    );
    wait_for("listener", || {
        let listing = ns.run("ss", "-ltnH");
        listing.contains(":5301").then_some(())
    });
    ns.run("iperf3", "-c 127.0.0.1 -p 5301 -n 1M");
    drop(server);
    running.signal("INT");
    assert!(running.0.wait().expect("it ends").success());
    let recorded = Recorded::read(&path);
    let model = recorded.model();
    let flows: Vec<_> = model.flows().collect();
    assert_eq!(flows.len(), 2, "the control connection and the stream");
    for flow in flows {
        assert_eq!(flow.remote().port(), 5301);
        assert!(flow.from_start());
    }
    let births = recorded.count(|p| matches!(p, Payload::Opened(o) if o.from_start));
    assert_eq!(births, 2);
    assert_eq!(
        recorded.environment.filter.as_deref(),
        Some("comm iperf3 and dport = :5301")
    );
    assert_eq!(
        recorded.count(|p| matches!(p, Payload::Note(n) if n.kind == NoteKind::Degraded)),
        0
    );
}

#[test]
fn an_anonymized_recording_of_real_flows_names_nobody() {
    needs!("ip", "sh");
    let (ns, other) = (Netns::new(), Netns::new());
    veth(&ns, "198.51.100.17", &other, "198.51.100.99");
    let (_dir, path) = place();
    let (client, server) = connect(&ns, &other, "198.51.100.99");
    let mut running = recording(&ns, &path, "--anonymize");
    send(&client, &server, 1_000_000);
    running.signal("INT");
    assert!(running.0.wait().expect("it ends").success());
    let file = std::fs::read(&path).expect("there");
    let mut bytes = file.clone();
    for message in mcap::MessageStream::new(&file).expect("MCAP") {
        bytes.extend_from_slice(&message.expect("whole").data);
    }
    let host = std::fs::read("/proc/sys/kernel/hostname")
        .expect("a name")
        .trim_ascii()
        .to_vec();
    let us = std::env::current_exe().expect("a name");
    let comm: Vec<u8> = us.file_name().expect("a name").as_encoded_bytes()[..15].to_vec();
    let forbidden: [&[u8]; 5] = [
        &[198, 51, 100, 17],
        &[198, 51, 100, 99],
        b"198.51.100",
        &host,
        &comm,
    ];
    for what in forbidden {
        // A name of two letters is found anywhere.
        if what.len() < 4 {
            continue;
        }
        let found = bytes.windows(what.len()).any(|window| window == what);
        assert!(!found, "{}", String::from_utf8_lossy(what));
    }
    let recorded = Recorded::read(&path);
    assert!(recorded.environment.anonymized);
    let model = recorded.model();
    let flow = model.flows().next().expect("the flow");
    assert!(flow.sample().expect("told").bytes_acked >= Some(1_000_000));
}
