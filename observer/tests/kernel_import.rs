//! `observer import` against the kernel's own counters and tshark, on captures of flows over a tight bottleneck; and over
//! captures with known truth, where they are.

mod common;
#[path = "common/sender.rs"]
mod sender;
#[path = "common/ss.rs"]
mod ss;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path as FilePath, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{needs, send, skipped};
use sender::{Make, Over, Path, pair, wait_for_rest};
use serde_json::Value;
use ss::Info;

const OBSERVER: &str = env!("CARGO_BIN_EXE_observer");

/// A capture that is going on in the sender's namespace.
struct Dump {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
}

impl Dump {
    fn start(path: &Path, file: &FilePath, snaplen: u32) -> Self {
        let mut child = Command::new("ip")
            .args([
                "netns",
                "exec",
                &path.snd.name,
                "dumpcap",
                "-q",
                "-i",
                "v",
                "-B",
                "64",
                "-f",
                "tcp",
            ])
            .args(["-s", &snaplen.to_string()])
            .arg("-w")
            .arg(file)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("dumpcap");
        let mut errors = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        // Said once the socket is open.
        while !line.starts_with("File:") {
            line.clear();
            assert_ne!(
                errors.read_line(&mut line).expect("text"),
                0,
                "dumpcap ended"
            );
        }
        Self { child, errors }
    }

    fn stop(mut self) {
        // `ip netns exec` became dumpcap.
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("signal");
        let mut rest = String::new();
        self.errors.read_to_string(&mut rest).expect("text");
        assert!(self.child.wait().expect("ends").success(), "{rest}");
    }
}

fn import(capture: &FilePath, out: &FilePath) -> String {
    let done = Command::new(OBSERVER)
        .arg("import")
        .arg(capture)
        .arg("-o")
        .arg(out)
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{}: {text}", capture.display());
    text
}

fn export(recording: &FilePath) -> Vec<Value> {
    let done = Command::new(OBSERVER)
        .args(["export", "--format", "jsonl"])
        .arg(recording)
        .output()
        .expect("runs");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let text = String::from_utf8(done.stdout).expect("text");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn of_type<'a>(lines: &'a [Value], name: &'a str) -> impl Iterator<Item = &'a Value> {
    lines.iter().filter(move |line| line["type"] == name)
}

/// Bytes of the frames that Wireshark takes for repeated, and their number.
fn tshark(capture: &FilePath) -> (u64, u64) {
    let repeated = "tcp.analysis.retransmission or tcp.analysis.fast_retransmission or \
                    tcp.analysis.spurious_retransmission or tcp.analysis.out_of_order";
    let out = Command::new("tshark")
        .arg("-r")
        .arg(capture)
        .args([
            "-Y",
            &format!("({repeated}) and tcp.len > 0"),
            "-T",
            "fields",
            "-e",
            "tcp.len",
        ])
        .output()
        .expect("tshark");
    assert!(out.status.success());
    let text = String::from_utf8(out.stdout).expect("text");
    let lengths: Vec<u64> = text
        .lines()
        .map(|line| line.parse().expect("a number"))
        .collect();
    (lengths.iter().sum(), lengths.len() as u64)
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

fn compare(cc: &'static str, over: Over, snaplen: u32) {
    let dir = tempfile::tempdir().expect("a directory");
    let (capture, recording) = (dir.path().join("c.pcapng"), dir.path().join("r.mcap"));
    let path = Path::new("20mbit", "60kb");
    let dump = Dump::start(&path, &capture, snaplen);
    let (sender, receiver) = pair(&path, &Make::new(cc, over));
    send(&sender, &receiver, 6_000_000);
    wait_for_rest(&[&sender, &receiver]);
    let info = Info::of(&sender);
    // What is on its way into the capture's ring.
    std::thread::sleep(std::time::Duration::from_millis(500));
    dump.stop();
    let told = import(&capture, &recording);
    assert!(
        !told.contains("lost") && !told.contains("missing"),
        "{told}"
    );
    let lines = export(&recording);
    let last = of_type(&lines, "sample").last().expect("a sample");
    let kernel = |key: &str| number(&info.get(key).expect("the kernel tells"));
    assert!(kernel("retrans") > 0, "nothing was lost");
    for key in [
        "retrans",
        "bytes_acked",
        "bytes_sent",
        "bytes_retrans",
        "data_segs_out",
        "segs_out",
        "mss",
        "packets_out",
        "dsack_dups",
    ] {
        let (ours, theirs) = (number(&last[key]), kernel(key));
        assert_eq!(ours, theirs, "{cc} {over:?}: {key}");
    }
    // The kernel counts the SYN too; and after needless retransmissions it was seen to count 33 of 4,178 more.
    let (ours, theirs) = (number(&last["delivered"]), kernel("delivered"));
    assert!(
        ours < theirs && theirs - ours <= 1 + theirs / 50,
        "{cc} {over:?}: delivered {ours}, by the kernel {theirs}"
    );
    let (ours, theirs) = (number(&last["min_rtt_us"]), kernel("min_rtt_us"));
    assert!(
        ours.abs_diff(theirs) <= (theirs / 20).max(100),
        "min RTT {ours}, by the kernel {theirs}"
    );
    let (ours, theirs) = (number(&last["srtt_us"]), kernel("srtt_us"));
    assert!(
        ours.abs_diff(theirs) <= (theirs / 10).max(200),
        "srtt {ours}, by the kernel {theirs}"
    );
    assert!(
        last["cwnd"].is_null() && last["pacing_rate_bps"].is_null() && last["ca_state"].is_null()
    );
    assert_eq!(last["source"], "capture");
    let events: u64 = of_type(&lines, "retransmit")
        .map(|line| number(&line["segments"]))
        .sum();
    assert_eq!(events, kernel("retrans"), "one event or more for each");
    let (bytes, _) = tshark(&capture);
    assert_eq!(
        bytes,
        kernel("bytes_retrans"),
        "Wireshark sees the same bytes again"
    );
}

#[test]
fn counters_are_the_kernels_and_wiresharks() {
    needs!("ip", "tc", "dumpcap", "tshark");
    compare("cubic", Over::V4, 262_144);
    compare("bbr", Over::V6, 96);
}

/// Where captures with known truth are: beside the checkout, or named.
fn captures() -> Option<PathBuf> {
    let beside =
        FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/policed-captures");
    let named = std::env::var_os("OBSERVER_CAPTURES").map(PathBuf::from);
    Some(named.unwrap_or(beside)).filter(|dir| dir.join("truth.csv").is_file())
}

#[test]
fn captures_with_known_truth_are_read_whole() {
    let Some(dir) = captures() else {
        skipped("no captures with known truth (OBSERVER_CAPTURES names their directory)");
        return;
    };
    let out = tempfile::tempdir().expect("a directory");
    let truth = std::fs::read_to_string(dir.join("truth.csv")).expect("the truth");
    let mut seen = 0;
    // All of them where somebody names them; else every fifth, for they take minutes.
    let step = match std::env::var_os("OBSERVER_CAPTURES") {
        Some(_) => 1,
        None => 5,
    };
    for row in truth.lines().skip(1).step_by(step) {
        let name = row.split(',').next().expect("a file");
        let recording = out.path().join("r.mcap");
        let told = import(&dir.join(name), &recording);
        let lines = export(&recording);
        std::fs::remove_file(&recording).expect("removed");
        let segments: u64 = of_type(&lines, "retransmit")
            .map(|line| number(&line["segments"]))
            .sum();
        let rtts: Vec<u64> = of_type(&lines, "sample")
            .filter_map(|line| line["min_rtt_us"].as_u64())
            .collect();
        let least = rtts.iter().min().expect("an RTT");
        assert!(
            (95_000..130_000).contains(least),
            "{name}: min RTT {least} of 100 ms; {told}"
        );
        if row.contains("policer") {
            assert!(segments > 0, "{name}: nothing was retransmitted");
        }
        seen += 1;
    }
    assert!(seen > 0, "truth.csv is empty");
}
