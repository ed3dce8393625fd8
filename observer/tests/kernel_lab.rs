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

/// What a busy machine makes a run say that is no fault of the lab's.
const BUSY: [&str; 3] = [
    "this machine cannot make the path now",
    "no connection over the path within",
    "does not listen after",
];

/// Runs it; `None` = this machine could not make the path now, which is told.
fn run(arguments: &str) -> Option<Output> {
    able(lab(arguments).output().expect("the binary runs"))
}

fn able(output: Output) -> Option<Output> {
    let stderr = text(&output.stderr);
    if !output.status.success() && BUSY.iter().any(|said| stderr.contains(said)) {
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

/// A run that goes on, once its recording has begun; ended with the test. `None` as of [`run`].
fn going(arguments: &str) -> Option<Going> {
    let child = lab(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let recording = format!("/run/observer/lab-{}.mcap", child.id());
    let mut going = Going(Some(child));
    loop {
        // Looked at first: what has ended has removed it.
        let there = std::path::Path::new(&recording).exists();
        let child = going.0.as_mut().expect("it runs");
        if child.try_wait().expect("it can be waited for").is_some() {
            let output = going.output();
            assert!(
                able(output.clone()).is_none(),
                "it ended: {}",
                text(&output.stderr)
            );
            return None;
        }
        if there {
            return Some(going);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A child that does not outlive its test.
struct Going(Option<Child>);

impl Going {
    fn pid(&self) -> u32 {
        self.0.as_ref().expect("it runs").id()
    }

    fn runs(&mut self) -> bool {
        let child = self.0.as_mut().expect("it runs");
        child.try_wait().expect("it can be waited for").is_none()
    }

    /// Waits for its end.
    fn output(&mut self) -> Output {
        let child = self.0.take().expect("it ran");
        child.wait_with_output().expect("it can be waited for")
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            signal(child.id(), rustix::process::Signal::INT);
            let _ = child.wait();
        }
    }
}

/// The number that follows `before` in what the run said.
fn number_after(output: &Output, before: &str) -> Option<f64> {
    let stderr = text(&output.stderr);
    let (_, rest) = stderr.split_once(before)?;
    rest.split(' ').next()?.parse().ok()
}

fn received_mbit(output: &Output) -> f64 {
    number_after(output, "truth: received ").unwrap_or_else(|| panic!("{}", text(&output.stderr)))
}

/// The sequence numbers of lost data.
fn lost_data(lines: &[serde_json::Value]) -> Vec<u32> {
    let data = lines.iter().filter(|line| line["payload"] != 0);
    data.map(|line| u32::try_from(line["seq"].as_u64().unwrap()).unwrap())
        .collect()
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
    // 1448 of 1514 bytes of a frame are payload; how much less it is, is the machine's.
    let received = received_mbit(&output);
    assert!(received < 20.0, "{received} {stderr}");
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
    let export = Command::new(env!("CARGO_BIN_EXE_observer"))
        .args(["export", "--format", "jsonl"])
        .arg(&recording)
        .output()
        .unwrap();
    let exported = text(&export.stdout);
    let sent_again: Vec<(u32, u32)> = exported
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|line| line["type"] == "retransmit" && line["kind"] != "syn")
        .map(|line| {
            let number = |key: &str| u32::try_from(line[key].as_u64().unwrap()).unwrap();
            (number("seq"), number("bytes"))
        })
        .collect();
    if stderr
        .lines()
        .any(|line| line.contains("  lost ") && !line.ends_with("  lost 0"))
    {
        skipped("events were lost");
        return;
    }
    // Each that was lost is sent again, but what was under way at the end: that is beyond all that was.
    let Some(last) = sent_again.iter().map(|(seq, _)| *seq).reduce(|last, seq| {
        if (seq.wrapping_sub(last)).cast_signed() > 0 {
            seq
        } else {
            last
        }
    }) else {
        panic!("{} lost, nothing sent again\n{stderr}", lines.len());
    };
    for seq in lost_data(&lines) {
        let again = sent_again
            .iter()
            .any(|(from, bytes)| seq.wrapping_sub(*from) < *bytes);
        let at_the_end = seq.wrapping_sub(last).cast_signed() > -100_000;
        assert!(again || at_the_end, "{seq} was lost for ever\n{stderr}");
    }
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
    // 1428 of 1514 bytes are payload; the bucket's depth comes on top, and what a thread that was kept away let pile up.
    let received = received_mbit(&output);
    assert!(received < 11.0, "{received} {stderr}");
    if !stderr.contains("lost: policer ") {
        assert!(received < 9.0, "{received} and nothing policed: {stderr}");
        skipped("the machine was too busy for the policer's rate");
    }
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
    assert!(received > 0.0 && received < 8.8, "{received}");
    // 32 KiB a round trip of 20 ms is 13 Mbit/s.
    let Some(output) = run("--rate 50mbit --rtt 20ms --rwnd 32k -t 2") else {
        return;
    };
    let received = received_mbit(&output);
    assert!(received > 0.0 && received < 13.5, "{received}");
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
        assert_eq!(left(pid), Vec::<String>::new(), "{arguments}");
        let Some(output) = able(output) else { return };
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments}: {stderr}");
        assert!(stderr.contains(said), "{arguments}: {stderr}");
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
    let Some(output) = able(command.output().unwrap()) else {
        return;
    };
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    let end = stdout.find("\n}\n").expect("iperf3's JSON") + 3;
    let json: serde_json::Value = serde_json::from_str(&stdout[..end]).unwrap();
    let bps = json["end"]["sum_received"]["bits_per_second"]
        .as_f64()
        .unwrap();
    assert!(bps > 0.0 && bps < 20e6, "{bps}");
    assert!(stdout[end..].contains("192.0.2.1:"), "{}", &stdout[end..]);
}

#[test]
fn a_matrix_runs_what_is_there_tells_what_is_not_and_goes_on_where_it_was_left() {
    needs!("ip", "tc");
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("own.toml");
    let words = r#"
        repetitions = 1
        time = "1s"
        cc = ["cubic", "nosuch"]
        [[path]]
        name = "short"
        cause = "none"
        rate = "10mbit"
        rtt = "10ms"
    "#;
    std::fs::write(&file, words).unwrap();
    let out = dir.path().join("out");
    let matrix = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_observer"));
        command
            .args(["lab", "matrix"])
            .arg(&file)
            .arg("-o")
            .arg(&out);
        command.args(["--emulator", "user"]).args(arguments);
        command.output().unwrap()
    };
    let Some(first) = able(matrix(&["--format", "json"])) else {
        return;
    };
    assert!(first.status.success(), "{}", text_of(&first));
    let lines: Vec<serde_json::Value> = text(&first.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["matrix"], "own");
    let cell = |cc: &str| lines.iter().find(|line| line["cc"] == cc).unwrap();
    assert_eq!(
        (&cell("cubic")["rank"], &cell("cubic")["runs"]),
        (&1.into(), &1.into())
    );
    assert!(cell("cubic")["received_bps"]["mean"].as_f64().unwrap() > 0.0);
    assert!(cell("nosuch")["rank"].is_null());
    let remark = cell("nosuch")["remarks"][0].as_str().unwrap();
    assert!(
        remark.contains("no congestion control «nosuch»"),
        "{remark}"
    );
    for ending in ["txt", "md", "csv", "jsonl"] {
        let table = std::fs::read_to_string(out.join(format!("table.{ending}"))).unwrap();
        assert!(table.contains("nosuch"), "{table}");
    }
    // What is there does not run again; one more repetition does.
    let recording = out.join("short,cubic,none,default,1,r1.mcap");
    let made = std::fs::metadata(&recording).unwrap().modified().unwrap();
    let Some(second) = able(matrix(&["--repetitions", "2", "--only", "cc=cubic"])) else {
        return;
    };
    assert!(second.status.success(), "{}", text_of(&second));
    assert!(text(&second.stderr).contains("1 of 2 runs are there already"));
    assert_eq!(
        std::fs::metadata(&recording).unwrap().modified().unwrap(),
        made
    );
    assert!(out.join("short,cubic,none,default,1,r2.mcap").exists());
    // Other flags are another matrix.
    let other = matrix(&["-t", "2"]);
    assert_eq!(other.status.code(), Some(2), "{}", text_of(&other));
}

fn text_of(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn whatever_ends_it_nothing_stays_and_a_neighbour_goes_on() {
    needs!("ip", "tc");
    let _alone = alone();
    let long = "--rate 5mbit --rtt 10ms -t 900";
    let Some(mut neighbour) = going(long) else {
        return;
    };
    // Ctrl-C.
    let Some(mut child) = going(long) else { return };
    let pid = child.pid();
    assert_eq!(left(pid).len(), 5, "three namespaces, two files");
    signal(pid, rustix::process::Signal::INT);
    let output = child.output();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert_eq!(left(pid), Vec::<String>::new());
    // kill -9: the next run cleans up.
    let Some(mut child) = going(long) else { return };
    let killed = child.pid();
    signal(killed, rustix::process::Signal::KILL);
    child.output();
    assert_eq!(left(killed).len(), 5);
    let next = going(long);
    assert_eq!(left(killed), Vec::<String>::new());
    let neighbours = left(neighbour.pid());
    assert_eq!(neighbours.len(), 5, "a lab that lives is left alone");
    assert!(neighbour.runs());
    for mut child in next.into_iter().chain([neighbour]) {
        let pid = child.pid();
        signal(pid, rustix::process::Signal::TERM);
        let output = child.output();
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
        assert_eq!(left(pid), Vec::<String>::new());
    }
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}
