//! Metrics without a kernel: what is counted of a script's events, how many series there may be, and how peers that ask
//! badly, slowly or not at all are treated.

mod common;

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use observer::serve::Serve;
use observer::serve::http::Server;
use observer::source::script::parse;

fn apply(serve: &mut Serve, script: &str) {
    for event in parse(script).expect("a script") {
        serve.apply(&event);
    }
}

/// The series as text, `NAME{LABELS} VALUE` a line.
fn series(serve: &Serve) -> Vec<String> {
    let text = prometheus::TextEncoder::new().encode_to_string(&serve.gather());
    let text = text.expect("it encodes");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

fn of<'a>(series: &'a [String], name: &str) -> Vec<&'a str> {
    let lines = series.iter().map(String::as_str);
    let own = |line: &&str| line.split(['{', ' ']).next() == Some(name);
    lines.filter(own).collect()
}

/// A flow from its birth to one second later: so many bytes from a peer.
fn flow(at: u64, cookie: u64, remote: &str, bytes: u64) -> String {
    format!(
        "@{at}s opened {cookie} remote={remote} birth=yes state=ESTAB
+0 attributes {cookie} remote={remote} cc=bbr version=v1 dev=2
+0 sample {cookie} bytes_acked=0 bytes_sent=0 bytes_retrans=0 srtt=40ms rtt=41ms min_rtt=39ms delivery_rate=80mbit
+500ms sample {cookie} bytes_acked={bytes} bytes_sent={bytes} bytes_retrans=10
+0 tick\n"
    )
}

#[test]
fn one_flow_counts_once_everywhere() {
    let mut serve = Serve::new(false);
    apply(&mut serve, &flow(1, 7, "192.0.2.7:443", 1000));
    apply(
        &mut serve,
        "@1600ms retransmit 7 segments=3 bytes=30 kind=fast\n@3s tick",
    );
    let now = series(&serve);
    let labels = r#"{cc="bbr",cc_version="v1"}"#;
    for (name, value) in [
        ("observer_flows", "1"),
        ("observer_acked_bytes_total", "1000"),
        ("observer_sent_bytes_total", "1000"),
        ("observer_retransmitted_bytes_total", "10"),
    ] {
        assert_eq!(of(&now, name), [format!("{name}{labels} {value}")]);
    }
    for (name, sum) in [
        ("observer_rtt_seconds", "0.041"),
        ("observer_queueing_delay_seconds", "0.001"),
        ("observer_delivery_rate_bytes_per_second", "10000000"),
        ("observer_retransmit_ratio", "0.01"),
    ] {
        let summed = format!("{name}_sum");
        let counted = format!("{name}_count");
        assert_eq!(
            of(&now, &summed),
            [format!(r#"{summed}{{cc="bbr"}} {sum}"#)]
        );
        assert_eq!(
            of(&now, &counted),
            [format!(r#"{counted}{{cc="bbr"}} 1"#)],
            "a flow at rest was observed again"
        );
    }
    assert!(now.contains(&r#"observer_retransmits_total{kind="fast"} 3"#.to_owned()));
    assert!(now.contains(&r#"observer_retransmits_total{kind="rto"} 0"#.to_owned()));
    assert!(!now.iter().any(|line| line.contains("192.0.2")));

    // It ends, and leaves the model: what it counted stays.
    apply(
        &mut serve,
        "@4s sample 7 bytes_acked=1500 bytes_sent=1500\n+0 closed 7\n@5s tick\n@30s tick",
    );
    let end = series(&serve);
    assert!(of(&end, "observer_flows").is_empty());
    let acked = of(&end, "observer_acked_bytes_total");
    assert_eq!(
        acked,
        [r#"observer_acked_bytes_total{cc="bbr",cc_version="v1"} 1500"#]
    );
}

#[test]
fn peers_count_by_their_network_where_that_is_asked_for() {
    let mut serve = Serve::new(true);
    apply(&mut serve, &flow(1, 7, "192.0.2.7:443", 1000));
    apply(&mut serve, &flow(2, 8, "192.0.2.99:443", 500));
    apply(&mut serve, &flow(3, 9, "[2001:db8:1:2::3]:443", 70));
    apply(&mut serve, "@5s tick");
    let now = series(&serve);
    assert_eq!(
        of(&now, "observer_acked_bytes_total"),
        [
            r#"observer_acked_bytes_total{cc="bbr",cc_version="v1",peer_prefix="192.0.2.0/24"} 1500"#,
            r#"observer_acked_bytes_total{cc="bbr",cc_version="v1",peer_prefix="2001:db8:1::/48"} 70"#,
        ]
    );
    let rtt = of(&now, "observer_rtt_seconds_count");
    assert_eq!(
        rtt,
        [
            r#"observer_rtt_seconds_count{cc="bbr",peer_prefix="192.0.2.0/24"} 2"#,
            r#"observer_rtt_seconds_count{cc="bbr",peer_prefix="2001:db8:1::/48"} 1"#,
        ]
    );
}

#[test]
fn series_are_bounded_however_many_networks_and_devices_come() {
    let mut serve = Serve::new(true);
    let mut script = String::from("@0s tick\n");
    for n in 0u64..300 {
        let remote = format!("10.{}.{}.1:443", n / 250, n % 250);
        script += &flow(n + 1, n + 1, &remote, 100);
        writeln!(script, "+0 device index={} name=veth{n:04x}", n + 10).expect("text");
        let qdisc = format!("index={} parent=root kind=noqueue", n + 10);
        writeln!(script, "+0 qdisc {qdisc}\n+10ms qdisc {qdisc} drops=1").expect("text");
    }
    apply(&mut serve, &script);
    apply(&mut serve, "@302s tick\n@303s tick");
    let now = series(&serve);
    let acked = of(&now, "observer_acked_bytes_total");
    assert_eq!(acked.len(), 101);
    let other = acked.iter().find(|line| line.contains(r#""other""#));
    assert!(other.expect("the rest").ends_with(" 20000"), "{other:?}");
    let devices = of(&now, "observer_qdisc_drops_total");
    assert_eq!(devices.len(), 201, "{devices:?}");
    assert_eq!(of(&now, "observer_rtt_seconds_count").len(), 101);

    let mut script = String::from("@304s tick\n");
    for cookie in 1..=300 {
        writeln!(script, "+0 closed {cookie}").expect("text");
    }
    apply(&mut serve, &script);
    // After ten quiet minutes a newcomer has a place, and who left has none: histograms and all.
    apply(
        &mut serve,
        &flow(1000, 5000, "[2001:db8:1:2::3]:443", 4_000),
    );
    apply(&mut serve, "@1002s tick");
    let now = series(&serve);
    let new = now
        .iter()
        .filter(|line| line.contains("2001:db8:1::/48"))
        .count();
    assert!(new > 60, "{new}");
    assert_eq!(of(&now, "observer_acked_bytes_total").len(), 101);
    assert_eq!(of(&now, "observer_rtt_seconds_count").len(), 101);
}

/// Serves `serve` on a free port until the process ends.
fn listening(serve: &Serve) -> SocketAddr {
    let registry = serve.registry();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("bound");
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            listener.set_nonblocking(true).expect("a socket");
            let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
            let mut server = Server::new(registry);
            while let Ok((stream, _)) = listener.accept().await {
                server.serve(stream);
            }
        });
    });
    at
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).expect("it listens");
    // Long past what it takes: a test that waits for ever says nothing.
    stream
        .set_read_timeout(Some(Duration::from_mins(1)))
        .expect("a socket");
    stream
}

fn ask(to: SocketAddr, request: &str) -> String {
    let mut stream = connect(to);
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn bad_requests_are_answered_so() {
    let at = listening(&Serve::new(false));
    for (request, status) in [
        ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
        ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", "200"),
        ("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
        ("GET /../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "404"),
        (
            "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
            "405",
        ),
        ("GET\r\n\r\n", "400"),
        ("\0\x01\x02\r\n\r\n", "400"),
    ] {
        let answer = ask(at, request);
        let told = answer.split(' ').nth(1);
        assert_eq!(told, Some(status), "{request:?}: {answer}");
    }
    let head = ask(at, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(1_000_000));
    let mut stream = connect(at);
    // It may be cut off before all of it is written.
    let _ = stream.write_all(long.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.len() < 1000 && !answer.starts_with(b"HTTP/1.1 200"));
}

#[test]
fn who_says_nothing_keeps_nobody_out() {
    let at = listening(&Serve::new(false));
    let mut silent: Vec<_> = (0..200).map(|_| connect(at)).collect();
    for stream in &mut silent {
        // Half a request.
        let _ = stream.write_all(b"GET /metr");
    }
    let answer = ask(at, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // The last of them is let go too, after a time.
    let mut rest = Vec::new();
    let mut last = silent.pop().expect("200 of them");
    match last.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
}

#[test]
fn the_unit_is_sound_and_grants_little() {
    let dir = tempfile::tempdir().expect("a directory");
    let unit = dir.path().join("observer.service");
    let text = include_str!("../systemd/observer.service");
    // systemd looks whether the program is there.
    let here = text.replace("/usr/bin/observer", env!("CARGO_BIN_EXE_observer"));
    assert_ne!(here, text);
    std::fs::write(&unit, here).expect("writable");
    let analyze = |arguments: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        command.args(arguments).arg(&unit).output()
    };
    let Ok(verified) = analyze(&["verify", "--man=no"]) else {
        return common::skipped("no systemd-analyze");
    };
    let told = String::from_utf8_lossy(&verified.stderr).into_owned();
    let ours: Vec<_> = told
        .lines()
        .filter(|line| line.contains("observer.service"))
        .collect();
    assert!(ours.is_empty(), "{told}");
    // Of 10.0; a unit that grants everything has 9.6. Older ones cannot judge a file.
    let judged = analyze(&["security", "--offline=true", "--threshold=20"]);
    let judged = judged.expect("it ran a moment ago");
    let said = String::from_utf8_lossy(&judged.stderr);
    if said.contains("unrecognized option") {
        return common::skipped("systemd-analyze without --offline");
    }
    let table = String::from_utf8_lossy(&judged.stdout);
    assert!(judged.status.success(), "{said}{table}");
}
