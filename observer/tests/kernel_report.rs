//! The report of an iperf3 run against iperf3's own JSON: bytes, throughput, retransmitted segments, RTT by its definition.

mod common;
#[path = "common/sender.rs"]
mod sender;
#[path = "common/ss.rs"]
mod ss;

use std::process::{Child, Command, Stdio};

use common::{Netns, needs, wait_for};
use sender::Path;
use serde_json::Value;
use tempfile::TempDir;

const OBSERVER: &str = env!("CARGO_BIN_EXE_observer");
const SECONDS: u32 = 8;
/// When it read is known to so much.
const SLACK_NS: u64 = 50_000_000;

/// iperf3's server for one client; ended when dropped.
struct Server(Child);

impl Server {
    fn start(netns: &Netns) -> Self {
        let child = Command::new("ip")
            .args(["netns", "exec", &netns.name, "iperf3", "-s", "-1"])
            .stdout(Stdio::null())
            .spawn()
            .expect("iperf3 starts");
        wait_for("server", || {
            let listening = netns.run("ss", "-Hltn sport = :5201");
            (!listening.is_empty()).then_some(())
        });
        Self(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines of one of our commands over a file.
fn lines(arguments: &[&str]) -> Vec<Value> {
    let output = Command::new(OBSERVER)
        .args(arguments)
        .output()
        .expect("it starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {told}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Within a share of what it should be.
fn assert_near(what: &str, got: &Value, wanted: f64, share: f64) {
    let got = got.as_f64().unwrap_or_else(|| panic!("{what} is {got}"));
    let off = (got - wanted).abs() / wanted;
    assert!(
        off <= share,
        "{what}: {got} for {wanted}, {:.2} % off",
        off * 100.0
    );
}

/// Its mean RTT, from our samples: the mean of srtt as it was when iperf3 read it, at the end of every interval; and when it
/// read last. When its clock began is not told: within a tenth of a second after `start`, where its readings fit best.
fn mean_rtt(samples: &[(u64, f64)], start: u64, theirs: &Value) -> (f64, u64) {
    let intervals = theirs["intervals"].as_array().expect("intervals");
    let readings: Vec<(f64, f64)> = intervals
        .iter()
        .map(|interval| &interval["streams"][0])
        .filter_map(|stream| Some((stream["end"].as_f64()?, stream["rtt"].as_f64()?)))
        .collect();
    assert!(readings.len() > 50, "{} readings", readings.len());
    let srtt_at = |time: u64| {
        // A sample tells what held before its ACK.
        let at = samples.partition_point(|(sampled, _)| *sampled < time);
        samples[at.min(samples.len() - 1)].1
    };
    let at = |shift: u64, end: f64| srtt_at(start + shift + (end * 1e9) as u64);
    let misfit = |shift: u64| -> f64 {
        let off = readings
            .iter()
            .map(|(end, rtt)| (at(shift, *end) - rtt).abs());
        off.sum()
    };
    let shifts = (0..1000).map(|step| step * 100_000);
    let best = shifts.min_by(|a, b| misfit(*a).total_cmp(&misfit(*b)));
    let best = best.expect("some");
    let ours = readings.iter().map(|(end, _)| at(best, *end));
    let mean = ours.sum::<f64>() / readings.len() as f64;
    let last = readings.last().map_or(0.0, |(end, _)| *end);
    (mean, start + best + (last * 1e9) as u64)
}

/// iperf3 counts up to its last reading, we up to the end of the flow, which sends on until its buffer is empty: at some
/// moment about that reading our count was exactly its.
fn assert_counted(events: &[Value], counted: u64, total: u64, read: u64) {
    let mut sums = vec![(0, 0)];
    for event in events.iter().filter(|event| event["type"] == "retransmit") {
        let segments = event["segments"].as_u64().expect("a number");
        let (_, before) = sums[sums.len() - 1];
        sums.push((
            event["mono_ns"].as_u64().expect("a moment"),
            before + segments,
        ));
    }
    assert_eq!(
        sums.last().map(|(_, sum)| *sum),
        Some(total),
        "events add up"
    );
    let near = read.saturating_sub(SLACK_NS)..=read + SLACK_NS;
    let before = sums.iter().rev().find(|(time, _)| time < near.start());
    let about = sums.iter().filter(|(time, _)| near.contains(time));
    let possible: Vec<u64> = before
        .into_iter()
        .chain(about)
        .map(|(_, sum)| *sum)
        .collect();
    assert!(
        possible.contains(&counted),
        "{counted} retransmitted segments: {possible:?} of {total}"
    );
}

fn agrees(cc: &str) {
    let path = Path::new("50mbit", "60000");
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("run.mcap");
    let file = file.to_str().expect("text");
    let server = Server::start(&path.rcv);
    let iperf = format!(
        "iperf3 -c {} -t {SECONDS} -C {cc} -J -i 0.1",
        sender::RCV_V4
    );
    let output = path.snd.run(
        OBSERVER,
        &format!("record --source ebpf -o {file} -- {iperf}"),
    );
    drop(server);
    let theirs: Value = serde_json::from_str(&output).expect("iperf3's JSON");
    assert!(theirs["error"].is_null(), "{}", theirs["error"]);
    let stream = &theirs["end"]["streams"][0];
    let (sent, received) = (&stream["sender"], &stream["receiver"]);

    let ours = lines(&["report", file, "--format", "json"]);
    let port = &theirs["start"]["connected"][0]["local_port"];
    let local = format!("{}:{port}", sender::SND_V4);
    let flow = ours
        .iter()
        .find(|line| line["flow"]["local"] == local.as_str());
    let flow = flow.unwrap_or_else(|| panic!("no flow {local} in the report"));
    let report = &flow["report"];
    assert_eq!(flow["cc"]["name"], cc);
    assert_eq!(report["observed_from_start"], true);
    let number = |value: &Value| value.as_f64().expect("a number");
    assert_near(
        "bytes",
        &report["bytes_acked"],
        number(&received["bytes"]),
        0.01,
    );
    let bps = number(&received["bits_per_second"]);
    assert_near("throughput", &report["throughput_bps"], bps, 0.01);
    let kinds = report["retrans_by_kind"].as_object().expect("kinds");
    let kinds = kinds.iter().filter(|(kind, _)| *kind != "spurious");
    let sum: u64 = kinds.filter_map(|(_, segments)| segments.as_u64()).sum();
    assert_eq!(
        Some(sum),
        report["retrans_segments"].as_u64(),
        "kinds add up: {report}"
    );
    let peak = number(&sent["max_snd_cwnd"]);
    let cwnd = number(&report["cwnd_peak"]) * number(&flow["mss"]);
    assert!(cwnd >= peak, "the window's peak is seen: {cwnd} for {peak}");

    let events = lines(&["export", file, "--format", "jsonl"]);
    let of_flow = |line: &&Value| line["flow"]["id"] == flow["flow"]["id"];
    let events: Vec<Value> = events.iter().filter(of_flow).cloned().collect();
    let samples: Vec<(u64, f64)> = events
        .iter()
        .filter(|line| line["type"] == "sample")
        .filter_map(|line| Some((line["mono_ns"].as_u64()?, line["srtt_us"].as_f64()?)))
        .collect();
    let start = report["start_mono_ns"].as_u64().expect("a moment");
    let (mean, read) = mean_rtt(&samples, start, &theirs);
    let counted = sent["retransmits"].as_u64().expect("a number");
    let total = report["retrans_segments"].as_u64().expect("a number");
    assert_counted(&events, counted, total, read);
    assert_near(
        "mean RTT by its definition",
        &mean.into(),
        number(&sent["mean_rtt"]),
        0.02,
    );
    assert_near(
        "mean srtt",
        &report["mean_srtt_us"],
        number(&sent["mean_rtt"]),
        0.05,
    );
}

#[test]
fn the_report_of_a_cubic_run_agrees_with_iperf3() {
    needs!("ip", "tc", "ss", "iperf3");
    agrees("cubic");
}

#[test]
fn the_report_of_a_bbr_run_agrees_with_iperf3() {
    needs!("ip", "tc", "ss", "iperf3");
    agrees("bbr");
}
