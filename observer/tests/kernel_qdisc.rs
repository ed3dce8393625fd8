//! Every counter and option of every kind of qdisc that this kernel has, against `tc -s -j qdisc`, at rest after
//! traffic. What a kernel lacks is skipped; The same binary runs in guests that have the others (docs/KERNELS.md).
//!
//! With `OBSERVER_QDISC_FIXTURES=DIR` the raw answers are written there, for `tests/qdisc.rs`.

mod common;
#[path = "common/tc.rs"]
mod tc;

use std::fmt::Write as _;
use std::net::{TcpStream, UdpSocket};

use common::{Netns, connect, needs, run, send, skipped, veth, wait_for};
use observer::event::{Device, Qdisc};
use observer::host::netlink::Netlink;
use observer::host::{qdisc, read_devices};
use serde_json::Value;

const A: &str = "10.78.0.1";
const B: &str = "10.78.0.2";

/// Where each is attached: alone, or under a shaper, so that it has a queue of its own.
const KINDS: &[(&str, &[&str])] = &[
    ("pfifo", &["root handle 1: pfifo limit 100"]),
    ("bfifo", &["root handle 1: bfifo limit 40000"]),
    ("pfifo_fast", &["root handle 1: pfifo_fast"]),
    (
        "tbf",
        &["root handle 1: tbf rate 50mbit burst 10kb limit 30000"],
    ),
    (
        "tbf-peak",
        &["root handle 1: tbf rate 40mbit burst 20kb latency 50ms peakrate 80mbit minburst 1540"],
    ),
    ("htb", &["root handle 1: htb default 0 r2q 20"]),
    (
        "mq",
        &["root handle 1: mq", "parent 1:2 handle 20: pfifo limit 200"],
    ),
    ("prio", &["root handle 1: prio bands 4"]),
    (
        "fq",
        &["root handle 1: fq limit 200 flow_limit 20 maxrate 40mbit quantum 3000 buckets 64"],
    ),
    ("fq-default", &["root handle 1: fq"]),
    (
        "fq_codel",
        &[
            SHAPER,
            "parent 1:1 handle 10: fq_codel limit 40 flows 64 target 2ms interval 50ms ecn",
        ],
    ),
    (
        "codel",
        &[
            SHAPER,
            "parent 1:1 handle 10: codel limit 40 target 2ms interval 50ms",
        ],
    ),
    (
        "pie",
        &[
            SHAPER,
            "parent 1:1 handle 10: pie limit 40 target 5ms tupdate 10ms ecn",
        ],
    ),
    (
        "pie-estimator",
        &[
            SHAPER,
            "parent 1:1 handle 10: pie limit 40 dq_rate_estimator",
        ],
    ),
    (
        "fq_pie",
        &[
            SHAPER,
            "parent 1:1 handle 10: fq_pie limit 40 flows 64 target 5ms memory_limit 1mb",
        ],
    ),
    (
        "cake",
        &["root handle 1: cake bandwidth 40mbit rtt 30ms diffserv4 nat ack-filter memlimit 100kb"],
    ),
    ("cake-default", &["root handle 1: cake"]),
    (
        "netem",
        &[
            "root handle 1: netem limit 60 delay 3ms 1ms loss 2% duplicate 1% reorder 5% 50% rate 40mbit",
        ],
    ),
    (
        "red",
        &[
            SHAPER,
            "parent 1:1 handle 10: red limit 60000 min 5000 max 15000 avpkt 1500 burst 5 bandwidth 40mbit ecn",
        ],
    ),
    ("sfq", &["root handle 1: sfq perturb 10 limit 60"]),
    ("noqueue", &["root noqueue"]),
];
const SHAPER: &str = "root handle 1: tbf rate 40mbit burst 20kb limit 200000";

fn tc_json(netns: &Netns) -> Vec<Value> {
    let text = netns.run("tc", "-s -j qdisc show dev v");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn device(netns: &Netns) -> Device {
    let inum = netns.inum();
    let all = netns.enter(|| read_devices(inum)).expect("readable");
    all.into_iter().find(|d| d.name == "v").expect("v is there")
}

/// One reading of everything, when nothing moves any more.
struct Rest {
    ours: Vec<Qdisc>,
    rows: Vec<Value>,
    text: String,
    raw: Vec<Vec<u8>>,
}

fn at_rest(netns: &Netns) -> Rest {
    wait_for("rest", || {
        let rows = tc_json(netns);
        // A parent may count what is long gone: older codel and fq_codel told it of packets dropped at the dequeue that
        // emptied them only with the next packet (net/sched/sch_codel.c, «Defer it for next round»).
        let is_parent = |row: &Value| {
            let major = row["handle"].as_str().expect("a handle");
            let mut parents = rows.iter().filter_map(|row| row["parent"].as_str());
            parents.any(|parent| major != "0:" && parent.starts_with(major))
        };
        let idle = rows
            .iter()
            .all(|row| is_parent(row) || (row["qlen"] == 0 && row["backlog"] == 0));
        let rest = Rest {
            ours: device(netns).qdiscs,
            text: netns.run("tc", "-s qdisc show dev v"),
            raw: raw(netns),
            rows,
        };
        (idle && rest.rows == tc_json(netns)).then_some(rest)
    })
}

fn raw(netns: &Netns) -> Vec<Vec<u8>> {
    let index = device(netns).id.ifindex;
    netns.enter(|| {
        let mut netlink = Netlink::open(None).expect("a socket");
        let copy = |message: observer::host::netlink::Message<'_>| {
            let (ifindex, _) = qdisc::read(message)?;
            (ifindex == index).then(|| message.body.to_vec())
        };
        netlink
            .collect(qdisc::RTM_GETQDISC, &[0; qdisc::TCMSG], copy)
            .expect("a dump")
    })
}

/// Bulk flows, short ones and datagrams: several flows for the kinds that tell flows apart.
fn traffic(a: &Netns, b: &Netns) {
    let flows: Vec<(TcpStream, TcpStream)> = (0..3).map(|_| connect(a, b, B)).collect();
    std::thread::scope(|scope| {
        for (client, server) in &flows {
            scope.spawn(|| send(client, server, 300_000));
        }
    });
    let socket = a.enter(|| UdpSocket::bind((A, 0))).expect("bind");
    for _ in 0..100 {
        // A full queue refuses some.
        let _ = socket.send_to(&[0; 1200], (B, 9));
    }
}

fn write_fixture(name: &str, commands: &[&str], rest: &Rest) {
    let Some(dir) = std::env::var_os("OBSERVER_QDISC_FIXTURES") else {
        return;
    };
    let release = run("uname", "-r");
    let version: Vec<&str> = release.split(['.', '-']).take(2).collect();
    let mut text = format!("# Linux {release}");
    for command in commands {
        writeln!(text, "# tc qdisc replace dev v {command}").expect("text");
    }
    for message in &rest.raw {
        text.push_str("netlink ");
        for byte in message {
            write!(text, "{byte:02x}").expect("text");
        }
        text.push('\n');
    }
    for row in &rest.rows {
        writeln!(text, "tc {row}").expect("text");
    }
    for line in rest.text.lines() {
        writeln!(text, "text {line}").expect("text");
    }
    let file = format!("{}-{name}.txt", version.join("."));
    std::fs::write(std::path::Path::new(&dir).join(file), text).expect("writable");
}

/// Returns why it was skipped.
fn check(name: &str, commands: &[&str]) -> Result<(), String> {
    let (a, b) = (Netns::new(), Netns::new());
    veth(&a, A, &b, B);
    for command in commands {
        a.try_run("tc", &format!("qdisc replace dev v {command}"))?;
    }
    traffic(&a, &b);
    let rest = at_rest(&a);
    assert_eq!(rest.ours.len(), rest.rows.len(), "{name}");
    for (ours, row) in rest.ours.iter().zip(&rest.rows) {
        // The part of the text that is about this one.
        let head = format!("qdisc {} {} ", ours.kind, ours.handle_text());
        let from = rest
            .text
            .find(&head)
            .unwrap_or_else(|| panic!("{head:?} in {}", rest.text));
        tc::assert_equal(ours, row, &rest.text[from..]);
    }
    write_fixture(name, commands, &rest);
    Ok(())
}

#[test]
fn every_counter_and_option_equals_tc() {
    needs!("ip", "tc");
    let (mut missing, mut wrong) = (Vec::new(), Vec::new());
    let mut seen = 0;
    for (name, commands) in KINDS {
        // All of them are looked at, whatever one of them says.
        match std::panic::catch_unwind(|| check(name, commands)) {
            Ok(Ok(())) => seen += 1,
            Ok(Err(error)) if error.contains("kind is unknown") => missing.push(*name),
            Ok(Err(error)) => wrong.push(format!("{name}: {error}")),
            Err(_) => wrong.push(format!("{name}: see above")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen >= 4, "only {seen}; without {missing:?}");
    if !missing.is_empty() {
        skipped(&format!("this kernel has no {}", missing.join(", ")));
    }
}
