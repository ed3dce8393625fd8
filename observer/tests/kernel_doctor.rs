//! The doctor over real paths: each wrong setting is found, a good one is left alone, and the ceiling told is the rate
//! measured. And its ladder: each need taken away is named, and it alone.

mod common;
#[path = "common/long.rs"]
mod long;
#[path = "common/sender.rs"]
mod sender;
#[path = "common/ss.rs"]
mod ss;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use common::{Netns, needs, skipped};
use long::{LONG_RCV, LONG_SND, LongPath};
use sender::{Flow, Make, Over, pair_between, set};
use serde_json::Value;

const OBSERVER: &str = env!("CARGO_BIN_EXE_observer");
const RATE: u64 = 100_000_000;

/// Paths of 100 Mbit/s in user space take a CPU: one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Of the RTT of 40 ms: a machine that adds more is no such path, and what is told of one cannot be checked on it.
const LATE_MS: f64 = 2.0;

/// A path of 100 Mbit/s, 40 ms and 40 ms of queue. What does not hold on it counts unless the machine held packets up.
fn on_a_path(check: impl FnOnce(&LongPath)) {
    let _alone = alone();
    let path = LongPath::new(RATE, 40, 40);
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&path))) else {
        return;
    };
    let late = path.late_ms();
    if late <= LATE_MS {
        resume_unwind(panic);
    }
    skipped(&format!("this machine held packets up by {late:.1} ms"));
}

fn lines(output: &Output) -> Vec<Value> {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("panicked"), "{stderr}");
    let stdout = String::from_utf8(output.stdout.clone()).expect("text");
    let read = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    stdout.lines().map(read).collect()
}

fn of<'a>(lines: &'a [Value], r#type: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == r#type).collect()
}

fn doctor(netns: &Netns, more: &[&str]) -> (Option<i32>, Vec<Value>) {
    let output = Command::new(OBSERVER)
        .args(["doctor", "--json", "-t", "3", "-N", &netns.name])
        .args(more)
        .output()
        .expect("observer runs");
    (output.status.code(), lines(&output))
}

/// A flow over the path that had time to find its rate.
fn flow(path: &LongPath, make: Make) -> Flow {
    let at = |ip: &str| (ip.parse::<std::net::IpAddr>().expect("an address"), 0).into();
    let (sender, receiver) = pair_between(&path.snd, at(LONG_SND), &path.rcv, at(LONG_RCV), &make);
    let flow = Flow::over(make, sender, receiver);
    thread::sleep(Duration::from_secs(3));
    flow
}

/// The findings about flows worse than information, and the baseline of the only flow.
fn judged(netns: &Netns, more: &[&str]) -> (Option<i32>, Vec<Value>, Value) {
    let (code, lines) = doctor(netns, more);
    let baselines = of(&lines, "baseline");
    assert_eq!(baselines.len(), 1, "{lines:?}");
    let findings = of(&lines, "finding");
    let findings = findings
        .into_iter()
        .filter(|f| f["flows"] != 0)
        .cloned()
        .collect();
    (code, findings, baselines[0].clone())
}

fn codes(findings: &[Value]) -> Vec<&str> {
    let bad = findings.iter().filter(|finding| finding["level"] != "info");
    bad.filter_map(|finding| finding["code"].as_str()).collect()
}

/// The ceiling told is within a tenth of what the flow got.
fn ceiling_holds(finding: &Value, measured: &Value) {
    let ceiling = finding["ceiling_bps"]
        .as_f64()
        .unwrap_or_else(|| panic!("{finding}"));
    let measured = measured.as_f64().expect("a rate");
    let off = ceiling / measured - 1.0;
    eprintln!(
        "{}: ceiling {ceiling:.0}, measured {measured:.0}, off by {:.1}%",
        finding["code"],
        off * 100.0
    );
    assert!(
        off.abs() <= 0.1,
        "ceiling {ceiling}, measured {measured}: {finding}"
    );
}

#[test]
fn a_good_path_has_no_findings() {
    needs!("ip");
    on_a_path(|path| {
        let _flow = flow(path, Make::new("cubic", Over::V4));
        let (_, findings, baseline) = judged(&path.snd, &["--path-rate", "100mbit"]);
        assert_eq!(codes(&findings), Vec::<&str>::new(), "{findings:?}");
        let throughput = baseline["throughput_bps"].as_f64().expect("known");
        if throughput < 50e6 {
            skipped(&format!("this machine carries {throughput:.0} bit/s only"));
        }
        let (_, findings, _) = judged(&path.rcv, &[]);
        assert_eq!(codes(&findings), Vec::<&str>::new(), "{findings:?}");
    });
}

#[test]
fn a_small_receive_buffer_is_found_from_both_ends() {
    needs!("ip");
    on_a_path(|path| {
        set(&path.rcv, "ipv4/tcp_rmem", "4096 65536 65536");
        let _flow = flow(path, Make::new("cubic", Over::V4));
        let (code, findings, baseline) = judged(&path.snd, &["--path-rate", "100mbit"]);
        assert_eq!(
            (code, codes(&findings)),
            (Some(1), vec!["receive_window"]),
            "{findings:?}"
        );
        ceiling_holds(&findings[0], &baseline["throughput_bps"]);
        let (ceiling, effect) = (
            findings[0]["ceiling_bps"].as_u64(),
            findings[0]["effect_bps"].as_u64(),
        );
        assert_eq!(
            effect,
            ceiling.map(|ceiling| RATE - ceiling),
            "{findings:?}"
        );
        let (_, findings, baseline) = judged(&path.rcv, &[]);
        assert_eq!(codes(&findings), ["receive_buffer"], "{findings:?}");
        ceiling_holds(&findings[0], &baseline["received_bps"]);
        assert_eq!(
            findings[0]["undo"],
            "sysctl -w 'net.ipv4.tcp_rmem=4096 65536 65536'"
        );
    });
}

#[test]
fn no_window_scaling_is_found() {
    needs!("ip");
    on_a_path(|path| {
        set(&path.snd, "ipv4/tcp_window_scaling", "0");
        let _flow = flow(path, Make::new("cubic", Over::V4));
        let (_, findings, baseline) = judged(&path.snd, &["--path-rate", "100mbit"]);
        assert_eq!(codes(&findings), ["window_scale"], "{findings:?}");
        ceiling_holds(&findings[0], &baseline["throughput_bps"]);
        assert_eq!(
            findings[0]["command"],
            "sysctl -w net.ipv4.tcp_window_scaling=1"
        );
    });
}

#[test]
fn a_small_send_buffer_is_found() {
    needs!("ip");
    on_a_path(|path| {
        set(&path.snd, "ipv4/tcp_wmem", "4096 16384 65536");
        // A segment once begun is filled whatever the buffer says: as long as the window is what holds the flow back, small
        // writes get past the buffer. So the window is large from the start, and segments are small.
        path.snd.run("ip", "link set v gso_max_size 16384");
        path.snd.run(
            "ip",
            &format!("route replace {LONG_RCV}/32 dev v initcwnd 600"),
        );
        let _flow = flow(path, Make::new("cubic", Over::V4));
        let (_, findings, baseline) = judged(&path.snd, &["--path-rate", "100mbit"]);
        let throughput = baseline["throughput_bps"].as_u64().expect("known");
        if throughput >= 30_000_000 {
            return skipped("the flow got past its buffer by writes that came late");
        }
        assert_eq!(codes(&findings), ["send_buffer"], "{findings:?}");
        ceiling_holds(&findings[0], &baseline["throughput_bps"]);
    });
}

#[test]
fn a_clamped_mss_is_found() {
    needs!("ip");
    on_a_path(|path| {
        path.rcv.run(
            "ip",
            &format!("route replace {LONG_SND}/32 dev v advmss 1000"),
        );
        let _flow = flow(path, Make::new("cubic", Over::V4));
        let (_, findings, _) = judged(&path.snd, &[]);
        assert_eq!(codes(&findings), ["mss"], "{findings:?}");
        assert!(
            findings[0]["effect_bps"]
                .as_u64()
                .is_some_and(|bps| bps > 0),
            "{findings:?}"
        );
        let evidence = findings[0]["evidence"].as_str().expect("text");
        assert!(evidence.contains("announced"), "{evidence}");
    });
}

#[test]
fn bbr_without_fq_and_missing_options_are_found() {
    needs!("ip");
    on_a_path(|path| {
        set(&path.snd, "ipv4/tcp_sack", "0");
        set(&path.snd, "ipv4/tcp_timestamps", "0");
        let _flow = flow(path, Make::new("bbr", Over::V4));
        let (_, findings, _) = judged(&path.snd, &[]);
        assert_eq!(
            codes(&findings),
            ["no_sack", "no_timestamps"],
            "{findings:?}"
        );
        assert!(
            findings
                .iter()
                .any(|f| f["code"] == "bbr_without_fq" && f["level"] == "info"),
            "{findings:?}"
        );
    });
}

#[test]
fn a_target_is_judged_by_its_handshake() {
    needs!("ip");
    on_a_path(|path| {
        set(&path.snd, "ipv4/tcp_wmem", "4096 16384 131072");
        let listener = path
            .rcv
            .enter(|| std::net::TcpListener::bind((LONG_RCV, 5201)))
            .expect("bind");
        let target = format!("{LONG_RCV}:5201");
        let (code, lines) = doctor(&path.snd, &["--target", &target, "--path-rate", "100mbit"]);
        drop(listener);
        let told = of(&lines, "target")[0];
        let rtt = told["rtt_us"].as_u64().expect("known");
        assert!(rtt >= 39_000, "{told}");
        let findings: Vec<Value> = of(&lines, "finding")
            .into_iter()
            .filter(|f| f["flows"] != 0)
            .cloned()
            .collect();
        assert_eq!(
            (code, codes(&findings)),
            (Some(1), vec!["send_buffer"]),
            "{findings:?}"
        );
        let (code, _) = doctor(&path.snd, &["--target", "10.83.0.2:9"]);
        assert_eq!(code, Some(1), "nobody listens there");
    });
}

/// Needs missing that matter, of a run with something taken away.
fn missing(command: &mut Command) -> (Option<i32>, Vec<String>) {
    let output = command.output().expect("it runs");
    let lines = lines(&output);
    let bad = of(&lines, "need");
    let bad = bad
        .into_iter()
        .filter(|need| need["state"] == "missing" && need["level"] != "info");
    (
        output.status.code(),
        bad.map(|need| need["name"].as_str().expect("named").to_owned())
            .collect(),
    )
}

fn run_it() -> Command {
    let mut command = Command::new(OBSERVER);
    command.args(["doctor", "--json", "-t", "0.2"]);
    command
}

#[test]
fn each_capability_taken_away_is_named_alone() {
    needs!("ip", "setpriv");
    assert_eq!(missing(&mut run_it()).1, Vec::<String>::new());
    for cap in ["bpf", "perfmon"] {
        let drop = format!("-{cap},-sys_admin");
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", &drop, "--inh-caps", &drop, OBSERVER]);
        command.args(["doctor", "--json", "-t", "0.2"]);
        let (code, names) = missing(&mut command);
        assert_eq!(code, Some(1));
        assert_eq!(names, [format!("CAP_{}", cap.to_uppercase())]);
    }
}

#[test]
fn views_taken_away_are_named_alone() {
    needs!("ip", "unshare");
    let hidden = |what: &str| {
        let mut command = Command::new("unshare");
        let script = format!("{what} && exec {OBSERVER} doctor --json -t 0.2");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
        missing(&mut command).1
    };
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("readable");
    let cgroups = mounts.lines().filter(|line| line.contains(" - cgroup2 "));
    let points: Vec<&str> = cgroups.filter_map(|line| line.split(' ').nth(4)).collect();
    assert_eq!(
        hidden(&format!("umount -l {}", points.join(" "))),
        ["cgroup v2"]
    );
    // What securityfs would say: the programs load all the same, and nothing else is named.
    let security = "mount -t tmpfs none /sys/kernel/security";
    let locked = "echo 'none integrity [confidentiality]' > /sys/kernel/security/lockdown";
    assert_eq!(
        hidden(&format!("{security} && {locked}")),
        ["kernel lockdown below confidentiality"]
    );
    let empty = tempfile::tempdir().expect("a directory");
    let mut command = run_it();
    command.arg("--btf").arg(empty.path());
    let (code, names) = missing(&mut command);
    assert_eq!(
        (code, names),
        (
            Some(1),
            vec!["type information of the kernel (BTF)".to_owned()]
        )
    );
}
