//! Many short flows: each opened once, closed once, with its final counters; memory returns (TRAPS 17, 31).

mod common;
#[path = "common/sender.rs"]
mod sender;
#[path = "common/ss.rs"]
mod ss;

use std::collections::HashMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::{Netns, needs, wait_for};
use observer::event::{Event, Payload};
use observer::model::Model;
use observer::source::script;
use sender::{Stream, cookie, set};
use serde_json::Value;

const CONNECTIONS: usize = 10_000;
const CLIENTS: usize = 4;
const CLOSED: &str = r#""type":"closed""#;

/// Bytes that connection `n` sends.
fn request(n: usize) -> usize {
    1000 + n % 7 * 100
}

/// Opens and closes `count` connections; (cookie of the client, of the server) → bytes sent. The server answers with
/// 100 bytes.
fn connections(ns: &Netns, count: usize) -> HashMap<u64, usize> {
    let listener = ns
        .enter(|| TcpListener::bind(("127.0.0.1", 0)))
        .expect("bind");
    let to: SocketAddr = listener.local_addr().expect("bound");
    thread::scope(|scope| {
        let serving: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let listener = listener.try_clone().expect("clone");
                scope.spawn(move || {
                    let mut cookies = HashMap::new();
                    for _ in 0..count / CLIENTS {
                        let (mut server, _) = listener.accept().expect("accept");
                        let mut got = Vec::new();
                        server.read_to_end(&mut got).expect("read");
                        server.write_all(&[1; 100]).expect("write");
                        cookies.insert(cookie(&server), got.len());
                    }
                    cookies
                })
            })
            .collect();
        let asking: Vec<_> = (0..CLIENTS)
            .map(|client| {
                scope.spawn(move || {
                    ns.enter(|| {
                        let mut cookies = HashMap::new();
                        for n in 0..count / CLIENTS {
                            let bytes = request(n * CLIENTS + client);
                            let mut socket = TcpStream::connect(to).expect("connect");
                            socket.write_all(&vec![2; bytes]).expect("write");
                            socket.shutdown(Shutdown::Write).expect("shutdown");
                            let mut answer = Vec::new();
                            socket.read_to_end(&mut answer).expect("read");
                            assert_eq!(answer.len(), 100);
                            cookies.insert(cookie(&socket), bytes);
                            // Some two thousand a second: ten times what a minute needs, and what a debug build can write.
                            thread::sleep(Duration::from_millis(2));
                        }
                        cookies
                    })
                })
            })
            .collect();
        let mut all = HashMap::new();
        for thread in asking.into_iter().chain(serving) {
            all.extend(thread.join().expect("it ends well"));
        }
        all
    })
}

fn rss_kb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("VmRSS");
    line.trim()
        .trim_end_matches(" kB")
        .parse()
        .expect("a number")
}

#[test]
fn trap_17_ten_thousand_short_connections() {
    needs!("ip");
    let ns = Netns::new();
    set(&ns, "ipv4/ip_local_port_range", "1024 65535");
    let stream = Stream::start(&ns, "");
    let truth = connections(&ns, CONNECTIONS);
    assert_eq!(truth.len(), 2 * CONNECTIONS);
    // Closing ends a moment after the program's own part.
    let (mut closed, mut seen) = (0, 0);
    wait_for("the last to close", || {
        let (more, lines) = stream.count_of(seen, CLOSED);
        closed += more;
        seen = lines;
        (closed >= truth.len()).then_some(())
    });
    let lines = stream.finish_with(&[CLOSED, r#""type":"opened""#, r#""type":"gap""#]);
    let mut opened: HashMap<u64, usize> = HashMap::new();
    let mut ends: HashMap<u64, Vec<&Value>> = HashMap::new();
    for line in &lines {
        let cookie = line["flow"]["cookie"].as_u64();
        match (line["type"].as_str(), cookie) {
            (Some("opened"), Some(cookie)) => *opened.entry(cookie).or_default() += 1,
            (Some("closed"), Some(cookie)) => ends.entry(cookie).or_default().push(line),
            (Some("gap"), _) => panic!("{line}"),
            _ => {}
        }
    }
    assert_eq!(opened.len(), truth.len());
    assert_eq!(ends.len(), truth.len());
    for (cookie, bytes) in &truth {
        assert_eq!(opened.get(cookie), Some(&1));
        let [end] = ends[cookie].as_slice() else {
            panic!("closed {} times", ends[cookie].len());
        };
        // A FIN counts as a byte in the kernel's bytes_acked and bytes_received, a SYN in bytes_acked.
        let of =
            |key: &str| usize::try_from(end[key].as_u64().expect("a final figure")).expect("small");
        let (sent, got) = (of("bytes_sent"), of("bytes_received"));
        let pair = if sent == *bytes {
            (*bytes, 100)
        } else {
            (100, *bytes)
        };
        assert_eq!(sent, pair.0, "{end}");
        assert!((pair.1..=pair.1 + 1).contains(&got), "{end}");
        assert!((pair.0..=pair.0 + 2).contains(&of("bytes_acked")), "{end}");
        assert_eq!(end["from_start"], true);
    }
}

/// The second ten thousand need no more memory than the first left behind.
#[test]
fn memory_returns() {
    needs!("ip");
    let ns = Netns::new();
    set(&ns, "ipv4/ip_local_port_range", "1024 65535");
    let mut child = Command::new(env!("CARGO_BIN_EXE_observer"))
        .args(["stream", "--every", "1s", "-N", &ns.name])
        .stdout(Stdio::null())
        .spawn()
        .expect("observer runs");
    let pid = child.id();
    let rounds: Vec<u64> = (0..4)
        .map(|round| {
            if round > 0 {
                connections(&ns, CONNECTIONS / 2);
            }
            // Closed flows are kept for ten seconds: what counts is that they do not add up.
            thread::sleep(Duration::from_secs(if round > 0 { 11 } else { 2 }));
            rss_kb(pid)
        })
        .collect();
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::INT,
    )
    .expect("our own child");
    assert!(child.wait().expect("it ends").success());
    assert!(
        rounds[3] < rounds[1] + rounds[1] / 5,
        "kB after each round: {rounds:?}"
    );
}

/// The fold lets closed flows go by itself.
#[test]
fn the_model_forgets() {
    let mut model = Model::default();
    for event in
        script::parse("@1s opened 1 birth=yes\n+0 sample 1\n+0 closed 1\n").expect("a script")
    {
        model.apply(&event);
    }
    assert_eq!(model.flows().count(), 1);
    model.apply(&Event {
        time: model.now().plus(20_000_000_000),
        flow: None,
        payload: Payload::Tick,
    });
    assert_eq!(model.flows().count(), 0);
}

#[test]
fn trap_31_listeners_requests_and_time_wait_are_no_flows() {
    needs!("ip");
    let ns = Netns::new();
    let listener = ns
        .enter(|| TcpListener::bind(("127.0.0.1", 0)))
        .expect("bind");
    let to = listener.local_addr().expect("bound");
    // The client closes first and stays in TIME-WAIT.
    let client = ns.enter(|| TcpStream::connect(to)).expect("connect");
    let (server, _) = listener.accept().expect("accept");
    drop(client);
    drop(server);
    let shown = ns.run("ss", "-tanH");
    assert!(
        shown.contains("LISTEN") && shown.contains("TIME-WAIT"),
        "{shown}"
    );
    assert!(sender::list(&ns, "200ms").is_empty());
    assert!(sender::list(&ns, "0").is_empty());
}
