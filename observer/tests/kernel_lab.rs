//! The lab on this kernel: the path made is the path asked for, by somebody else's account too; what it made is gone
//! whatever ended it.

mod common;

use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::{needs, skipped};

/// Rates need the machine for themselves; and what is left over is looked for.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lab(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_observer"));
    command.args(["lab", "run", "--emulator", "user"]);
    command.args(arguments.split_whitespace());
    command
}

/// Runs it; `None` = this machine could not make the path now, which is said and no fault of the lab's.
fn run(arguments: &str) -> Option<Output> {
    let output = lab(arguments).output().expect("the binary runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) && stderr.contains("this machine cannot make the path now") {
        skipped(&format!("the machine is too busy: {stderr}"));
        return None;
    }
    Some(output)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What this process's child, or anybody's lab of number `pid`, has left.
fn left(pid: u32) -> Vec<String> {
    let netns = Command::new("ip")
        .args(["netns", "list"])
        .output()
        .expect("ip runs");
    let mine = format!("observer-lab-{pid}-");
    let mut left: Vec<String> = text(&netns.stdout)
        .lines()
        .filter(|line| line.starts_with(&mine))
        .map(str::to_owned)
        .collect();
    for ending in ["lock", "mcap"] {
        let path = format!("/run/observer/lab-{pid}.{ending}");
        if std::path::Path::new(&path).exists() {
            left.push(path);
        }
    }
    left
}

/// Waits until `done`, but not for ever.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("in vain: {what}");
}

/// A run that goes on, once its recording has begun.
fn going(arguments: &str) -> Child {
    let mut child = lab(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let recording = format!("/run/observer/lab-{}.mcap", child.id());
    until("the recording begins", || {
        let ended = child.try_wait().expect("it can be waited for");
        assert_eq!(ended, None, "it ended");
        std::path::Path::new(&recording).exists()
    });
    child
}

fn received_mbit(output: &Output) -> f64 {
    let stderr = text(&output.stderr);
    let mut lines = stderr.lines();
    let line = lines.find_map(|line| line.strip_prefix("truth: received "));
    let word = line.and_then(|line| line.split(' ').next());
    word.and_then(|word| word.parse().ok())
        .unwrap_or_else(|| panic!("{stderr}"))
}

#[test]
fn a_flow_gets_the_path_that_was_asked_for_and_each_loss_has_its_cause() {
    needs!("ip", "tc");
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (recording, truth) = (dir.path().join("a.mcap"), dir.path().join("truth.jsonl"));
    let arguments = format!(
        "--rate 20mbit --rtt 20ms --buffer 30p --loss 0.5% --cc cubic -t 4 -o {} --truth {} --label site=here",
        recording.display(),
        truth.display()
    );
    let Some(output) = run(&arguments) else {
        return;
    };
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let received = received_mbit(&output);
    // 1448 of 1514 bytes of a frame are payload; loss takes cubic some of the rest.
    assert!(received > 5.0 && received < 19.2, "{received} {stderr}");
    let lines: Vec<serde_json::Value> = std::fs::read_to_string(&truth)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(!lines.is_empty(), "{stderr}");
    assert!(
        lines
            .iter()
            .all(|line| ["random", "queue"].contains(&line["cause"].as_str().unwrap()))
    );
    assert!(
        lines
            .iter()
            .all(|line| line["dport"] == 5201 && line["seq"].is_u64())
    );
    // What was lost is what had to be sent again, bar what was under way at the end, and tail probes.
    let export = Command::new(env!("CARGO_BIN_EXE_observer"))
        .args(["export", "--format", "jsonl"])
        .arg(&recording)
        .output()
        .unwrap();
    let exported = text(&export.stdout);
    let retransmitted: u64 = exported
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|line| line["type"] == "retransmit" && line["kind"] != "syn")
        .map(|line| line["segments"].as_u64().unwrap())
        .sum();
    let lost = lines.iter().filter(|line| line["payload"] != 0).count() as u64;
    assert!(
        retransmitted.abs_diff(lost) <= 3 + lost / 5,
        "{retransmitted} retransmitted, {lost} lost\n{stderr}"
    );
}

#[test]
fn a_policer_lets_its_rate_through_and_the_flow_is_of_the_sixth_version() {
    needs!("ip", "tc");
    let _alone = alone();
    let Some(output) =
        run("-6 --rate 50mbit --rtt 10ms --policer 10mbit/50k --cc reno -t 3 --omit 1")
    else {
        return;
    };
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let received = received_mbit(&output);
    assert!(received > 6.0 && received < 9.8, "{received} {stderr}");
    assert!(stderr.contains("lost: policer "), "{stderr}");
    assert!(
        text(&output.stdout).contains("[2001:db8::1]"),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn limits_of_the_sender_and_the_receiver_hold() {
    needs!("ip", "tc");
    let _alone = alone();
    let Some(output) = run("--rate 50mbit --rtt 20ms --app-rate 4mbit -t 2 --flows 2") else {
        return;
    };
    let received = received_mbit(&output);
    assert!((received / 8.0 - 1.0).abs() < 0.1, "{received}");
    // 32 KiB a round trip of 20 ms is 13 Mbit/s.
    let Some(output) = run("--rate 50mbit --rtt 20ms --rwnd 32k -t 2") else {
        return;
    };
    let received = received_mbit(&output);
    assert!(received > 5.0 && received < 13.5, "{received}");
}

#[test]
fn what_cannot_be_is_refused_and_leaves_nothing() {
    needs!("ip", "tc");
    let _alone = alone();
    let refused = |arguments: &str, code: i32, said: &str| {
        let child = lab(arguments)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id();
        let output = child.wait_with_output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments}: {stderr}");
        assert!(stderr.contains(said), "{arguments}: {stderr}");
        assert_eq!(left(pid), Vec::<String>::new(), "{arguments}");
    };
    refused("--cc nosuch", 3, "no congestion control «nosuch»");
    refused("--qdisc nosuch", 3, "modprobe sch_nosuch");
    refused(
        "--sysctl kernel.panic=1",
        2,
        "no setting of a network namespace",
    );
    refused("--sysctl net.ipv4.tcp_nosuch=1", 1, "tcp_nosuch");
    refused("--rate 1", 2, "is no rate");
    refused("--burst-loss 80%", 2, "too much");
    refused("-N all", 2, "leave -N");
    refused("-- no-such-program-anywhere", 127, "no such program");
    refused("-t 1 -- false", 1, "");
}

#[test]
fn a_command_whose_default_algorithm_is_not_allowed_names_the_setting() {
    needs!("ip", "tc");
    let _alone = alone();
    let read = |name: &str| {
        let path = format!("/proc/sys/net/ipv4/tcp_{name}_congestion_control");
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let (there, allowed) = (read("available"), read("allowed"));
    let mut names = there.split_whitespace();
    let Some(name) = names.find(|name| !allowed.split_whitespace().any(|other| other == *name))
    else {
        skipped("every algorithm is allowed here");
        return;
    };
    let output = lab(&format!("--cc {name} -- true")).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("tcp_allowed_congestion_control"),
        "{stderr}"
    );
}

#[test]
fn another_sender_is_recorded_and_its_status_is_ours() {
    needs!("ip", "tc", "iperf3");
    let _alone = alone();
    let mut command = lab("--rate 20mbit --rtt 20ms --server");
    command.args([
        "iperf3 -s",
        "--",
        "iperf3",
        "-c",
        "192.0.2.2",
        "-t",
        "2",
        "-J",
    ]);
    let output = command.output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    if output.status.code() == Some(3) {
        skipped(&stderr);
        return;
    }
    assert!(output.status.success(), "{stderr}");
    let end = stdout.find("\n}\n").expect("iperf3's JSON") + 3;
    let json: serde_json::Value = serde_json::from_str(&stdout[..end]).unwrap();
    let bps = json["end"]["sum_received"]["bits_per_second"]
        .as_f64()
        .unwrap();
    assert!(bps > 10e6 && bps < 19.3e6, "{bps}");
    assert!(stdout[end..].contains("192.0.2.1:"), "{}", &stdout[end..]);
}

#[test]
fn whatever_ends_it_nothing_stays_and_a_neighbour_goes_on() {
    needs!("ip", "tc");
    let _alone = alone();
    let mut neighbour = going("--rate 5mbit --rtt 10ms -t 60");
    // Ctrl-C.
    let child = going("--rate 5mbit --rtt 10ms -t 60");
    let pid = child.id();
    assert_eq!(left(pid).len(), 5, "three namespaces, two files");
    signal(pid, rustix::process::Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert_eq!(left(pid), Vec::<String>::new());
    // kill -9: the next run cleans up.
    let mut child = going("--rate 5mbit --rtt 10ms -t 60");
    let killed = child.id();
    signal(killed, rustix::process::Signal::KILL);
    child.wait().unwrap();
    assert_eq!(left(killed).len(), 5);
    let child = going("--rate 5mbit --rtt 10ms -t 60");
    let pid = child.id();
    assert_eq!(left(killed), Vec::<String>::new());
    assert_eq!(
        left(neighbour.id()).len(),
        5,
        "a lab that lives is left alone"
    );
    assert_eq!(neighbour.try_wait().unwrap(), None);
    for (pid, child) in [(pid, child), (neighbour.id(), neighbour)] {
        signal(pid, rustix::process::Signal::TERM);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
        assert_eq!(left(pid), Vec::<String>::new());
    }
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}
