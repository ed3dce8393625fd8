//! `observer serve` scraped: by hand, by `promtool`, and by a real Prometheus server.

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Netns, connect, needs, send, veth, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A running program, ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts it on a free port of this namespace, observing `netns`; where it listens.
fn serve(netns: &Netns) -> (Running, SocketAddr) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_observer"))
        .args(["serve", "--listen", "127.0.0.1:0", "-N", &netns.name])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = BufReader::new(child.stderr.take().expect("piped"));
    let running = Running(child);
    let mut line = String::new();
    said.read_line(&mut line).expect("it says where");
    let address = line
        .split_once("http://")
        .and_then(|(_, rest)| rest.strip_suffix("/metrics\n"))
        .unwrap_or_else(|| panic!("{line}"));
    // The hooks come on a moment later; a flow that is older than they are is counted from when it is first seen.
    std::thread::sleep(Duration::from_secs(2));
    (running, address.parse().expect("an address"))
}

fn request(to: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(5)).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

fn get(to: SocketAddr, path: &str) -> String {
    request(
        to,
        &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
    )
}

fn metrics(to: SocketAddr) -> String {
    let answer = get(to, "/metrics");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    body.to_owned()
}

/// Sums over labels, by name.
fn sums(text: &str) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let name = series.split('{').next().expect("a name");
        *sums.entry(name.to_owned()).or_default() += value.parse::<f64>().expect("a number");
    }
    sums
}

/// Every name of SPEC §10.
const NAMES: [&str; 17] = [
    "observer_flows",
    "observer_acked_bytes_total",
    "observer_sent_bytes_total",
    "observer_retransmitted_bytes_total",
    "observer_retransmits_total",
    "observer_flow_limits",
    "observer_flow_verdicts",
    "observer_rtt_seconds_count",
    "observer_queueing_delay_seconds_count",
    "observer_delivery_rate_bytes_per_second_count",
    "observer_retransmit_ratio_count",
    "observer_qdisc_drops_total",
    "observer_qdisc_backlog_bytes",
    "observer_events_total",
    "observer_kernel_seconds_total",
    "observer_cpu_seconds_total",
    "observer_build_info",
];

fn pair() -> (Netns, Netns) {
    let (a, b) = (Netns::new(), Netns::new());
    veth(&a, "10.84.0.1", &b, "10.84.0.2");
    a.run(
        "tc",
        "qdisc replace dev v root tbf rate 50mbit burst 10kb limit 60000",
    );
    (a, b)
}

const BYTES: usize = 3_000_000;

/// What was sent; SYN and FIN count as a byte each at either end.
fn all_of_it(acked: f64) {
    let bytes = BYTES as f64;
    assert!((bytes..bytes + 5.0).contains(&acked), "{acked}");
}

#[test]
fn counters_count_what_was_sent_and_do_not_fall_when_flows_end() {
    needs!("ip", "tc");
    let (a, b) = pair();
    let (mut running, at) = serve(&a);
    let (client, server) = connect(&a, &b, "10.84.0.2");
    send(&client, &server, BYTES);
    let during = wait_for("the flow's bytes", || {
        let text = metrics(at);
        (sums(&text).get("observer_acked_bytes_total") >= Some(&(BYTES as f64))).then_some(text)
    });
    for name in NAMES {
        assert!(
            sums(&during).contains_key(name),
            "{name} is not in:\n{during}"
        );
    }
    for forbidden in ["10.84.0", "pid=", "port=", "cookie"] {
        assert!(!during.contains(forbidden), "{forbidden} in:\n{during}");
    }
    let of = |text: &str, name: &str| sums(text).get(name).copied().unwrap_or(0.0);
    all_of_it(of(&during, "observer_acked_bytes_total"));
    assert!(of(&during, "observer_flows") >= 1.0);
    let apart = of(&during, "observer_flows") - of(&during, "observer_flow_limits");
    assert!(apart.abs() < 0.5, "{during}");
    drop((client, server));
    // Closed flows leave the model after ten seconds: what they counted stays.
    let gone = wait_for("the end of the flow", || {
        let text = metrics(at);
        (of(&text, "observer_flows") == 0.0).then_some(text)
    });
    std::thread::sleep(Duration::from_secs(12));
    let after = metrics(at);
    for name in NAMES
        .iter()
        .filter(|name| name.ends_with("_total") || name.ends_with("_count"))
    {
        assert!(of(&gone, name) >= of(&during, name), "{name} fell");
        assert!(of(&after, name) >= of(&gone, name), "{name} fell");
    }
    all_of_it(of(&after, "observer_acked_bytes_total"));
    kill_process(Pid::from_child(&running.0), Signal::TERM).expect("it runs");
    assert_eq!(running.0.wait().expect("it ends").code(), Some(0));
}

#[test]
fn other_requests_are_refused() {
    needs!("ip", "tc");
    let (a, _b) = pair();
    let (_running, at) = serve(&a);
    assert!(at.ip().is_loopback());
    assert!(get(at, "/").starts_with("HTTP/1.1 200"));
    assert!(get(at, "/etc/passwd").starts_with("HTTP/1.1 404"));
    let post = request(
        at,
        "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    );
    assert!(post.starts_with("HTTP/1.1 405"), "{post}");
    assert!(request(at, "\x00\x01garbage\r\n\r\n").starts_with("HTTP/1.1 400"));
    // Still there.
    metrics(at);
    let again = Command::new(env!("CARGO_BIN_EXE_observer"))
        .args(["serve", "--listen", &at.to_string()])
        .output()
        .expect("it runs");
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("cannot listen"));
}

#[test]
fn promtool_finds_nothing_to_mend() {
    needs!("ip", "tc", "promtool");
    let (a, b) = pair();
    let (_running, at) = serve(&a);
    let (client, server) = connect(&a, &b, "10.84.0.2");
    send(&client, &server, BYTES);
    let text = wait_for("observations", || {
        let text = metrics(at);
        text.contains("observer_rtt_seconds_bucket").then_some(text)
    });
    let mut check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool");
    let mut stdin = check.stdin.take().expect("piped");
    stdin.write_all(text.as_bytes()).expect("it reads");
    drop(stdin);
    let output = check.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
}

#[test]
fn a_prometheus_server_scrapes_it() {
    needs!("ip", "tc", "prometheus");
    let (a, b) = pair();
    let (_running, at) = serve(&a);
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("prometheus.yml");
    let text = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: observer\n  static_configs:\n  - targets: ['{at}']\n"
    );
    std::fs::write(&config, text).expect("writable");
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .expect("a port");
    let _prometheus = Running(
        Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                dir.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={free}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus"),
    );
    let (client, server) = connect(&a, &b, "10.84.0.2");
    send(&client, &server, BYTES);
    let query = |what: &str| -> Option<f64> {
        TcpStream::connect(free).ok()?;
        let answer = get(free, &format!("/api/v1/query?query={what}"));
        let json = answer.split_once("\r\n\r\n")?.1;
        let from = json.find('{')?;
        let json: Value = serde_json::from_str(json.get(from..=json.rfind('}')?)?).ok()?;
        json["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    };
    let up = wait_for("a scrape", || query("up").filter(|up| *up > 0.0));
    assert!(up > 0.5, "{up}");
    let acked = wait_for("the bytes", || {
        query("sum(observer_acked_bytes_total)").filter(|bytes| *bytes >= BYTES as f64)
    });
    all_of_it(acked);
    let rtt = "histogram_quantile(0.5,sum(observer_rtt_seconds_bucket)by(le))";
    wait_for("a quantile", || query(rtt).filter(|seconds| *seconds > 0.0));
}
