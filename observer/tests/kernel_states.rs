//! Flows outside ESTABLISHED, and flows that fall silent: the figures are those of `ss` within a second (TRAPS 39).

mod common;
#[path = "common/sender.rs"]
mod sender;
#[path = "common/ss.rs"]
mod ss;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use common::{needs, run, wait_for};
use observer::kernel::clock;
use sender::{Flow, Loop, Make, Over, Path, Stream, cookie, list, pair, wait_for_rest};
use serde_json::Value;
use ss::{Info, SsReading, order, ours, set_option, ss, ss_here};

/// What is compared: totals, and levels that tell a flow in flight from one at rest.
const TOTALS: [&str; 9] = [
    "bytes_sent",
    "bytes_acked",
    "bytes_retrans",
    "bytes_received",
    "segs_out",
    "segs_in",
    "data_segs_out",
    "retrans",
    "delivered",
];
const LEVELS: [&str; 10] = [
    "cwnd",
    "ssthresh",
    "packets_out",
    "inflight",
    "sacked",
    "lost",
    "notsent_bytes",
    "srtt_us",
    "pacing_rate_bps",
    "delivery_rate_bps",
];

/// The sweep's second, the window in which records are put in order, and a loaded machine.
const FRESH_NS: u64 = 1_400_000_000;

/// Rows of a flow among the lines.
fn rows_of(lines: &[Value], cookie: u64) -> Vec<&Value> {
    let of = |line: &&Value| line["type"] == "flow" && line["flow"]["cookie"] == cookie;
    lines.iter().filter(of).collect()
}

fn number(row: &Value, key: &str) -> u64 {
    row[key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key} of {row}"))
}

/// When the row's figures were read.
fn read_at(row: &Value) -> u64 {
    number(row, "mono_ns") - number(row, "sample_age_us") * 1000
}

/// A reading with the time before and after it.
#[derive(Debug)]
struct Timed<T> {
    begun: u64,
    ended: u64,
    value: T,
}

fn timed<T>(read: impl FnOnce() -> T) -> Timed<T> {
    let begun = clock::now().0;
    let value = read();
    let ended = clock::now().0;
    Timed {
        begun,
        ended,
        value,
    }
}

/// Every total of the row lies between the readings just before and just after it was taken. False where one of the two
/// is missing.
fn lies_between<T>(
    row: &Value,
    readings: &[Timed<T>],
    get: impl Fn(&T, &str) -> Option<Value>,
) -> bool {
    let time = read_at(row);
    let after = readings.partition_point(|reading| reading.begun < time + 1000);
    let before = readings[..after]
        .iter()
        .rposition(|reading| reading.ended + 1000 <= time);
    let (Some(before), Some(after)) = (before, readings.get(after)) else {
        return false;
    };
    let before = &readings[before];
    for key in TOTALS {
        let [low, high] =
            [before, after].map(|reading| order(&get(&reading.value, key).expect("known")));
        let at = order(ours(row, key));
        assert!(low <= at && at <= high, "{key}: {at} not in {low}..={high}");
    }
    true
}

/// Whether the row says what the socket says.
fn differences(row: &Value, info: &Info) -> Vec<String> {
    let keys = TOTALS.iter().chain(&LEVELS).chain(&["state", "busy_us"]);
    keys.filter_map(|key| {
        let theirs = info.get(key).expect("known");
        let ours = ours(row, key);
        (ours != &theirs).then(|| format!("{key}: {ours} and not {theirs}"))
    })
    .collect()
}

/// The flow has come to rest just now: a row says so within a second.
fn settles(stream: &Stream, sender: &TcpStream, receiver: &TcpStream) {
    let cookie = cookie(sender);
    let begun = clock::now().0;
    // The moment after which nothing changed any more.
    let quiet = wait_for("rest", || {
        let now = clock::now().0;
        let info = Info::of(sender);
        info.is_at_rest().then_some(now)
    });
    wait_for_rest(&[sender, receiver]);
    let info = Info::of(sender);
    let mut last = Vec::new();
    let row = wait_for("row that equals the socket", || {
        let lines = stream.since(0);
        let rows = rows_of(&lines, cookie);
        let row = rows.iter().find(|row| {
            last = differences(row, &info);
            number(row, "mono_ns") > begun && last.is_empty()
        });
        let late = clock::now().0 > quiet + 4_000_000_000;
        assert!(row.is_some() || !late, "4 s later still {last:?}");
        row.map(|row| (*row).clone())
    });
    let after = number(&row, "mono_ns").saturating_sub(quiet);
    assert!(after <= FRESH_NS, "only after {} ms", after / 1_000_000);
    // And it stays so.
    let newest = wait_for("later row", || {
        let lines = stream.since(0);
        let rows = rows_of(&lines, cookie);
        let newest = rows.last().copied()?;
        (number(newest, "mono_ns") > quiet + FRESH_NS).then(|| newest.clone())
    });
    assert_eq!(differences(&newest, &info), Vec::<String>::new());
}

#[test]
fn trap_39_a_sender_in_close_wait_equals_ss() {
    needs!("ip", "tc", "ss");
    let path = Path::new("20mbit", "100000");
    let make = Make::new("cubic", Over::V4);
    let (sender, receiver) = pair(&path, &make);
    receiver.shutdown(Shutdown::Write).unwrap();
    wait_for("CLOSE-WAIT", || {
        (Info::of(&sender).get("state")? == "CLOSE-WAIT").then_some(())
    });
    let stream = Stream::start(&path.snd, "--every 200ms");
    let flow = Flow::over(make, sender, receiver);
    let reader = flow.sender.try_clone().unwrap();
    let readings = Loop::start(Duration::from_millis(1), move || {
        timed(|| Info::of(&reader))
    });
    let [cookie, _] = flow.cookies();
    let count = |stream: &Stream| {
        let lines = stream.since(0);
        let rows = rows_of(&lines, cookie);
        rows.iter()
            .filter(|row| order(&row["bytes_acked"]) > 1e5)
            .count()
    };
    // Some seconds of sending.
    wait_for("rows", || (count(&stream) >= 12).then_some(()));
    let sending = stream.count();
    flow.pause();
    settles(&stream, &flow.sender, &flow.receiver);
    let readings = readings.finish();
    let lines = stream.finish();
    let mut judged = std::collections::BTreeSet::new();
    for row in rows_of(&lines[..sending], cookie) {
        assert_eq!(row["state"], "CLOSE-WAIT");
        assert!(number(row, "sample_age_us") * 1000 <= FRESH_NS, "{row}");
        if lies_between(row, &readings, Info::get) {
            judged.insert(read_at(row));
        }
    }
    assert!(judged.len() >= 2, "{} sweeps only", judged.len());
}

const DRAIN: usize = 5_000_000;

#[test]
fn trap_39_five_megabytes_drain_after_close() {
    needs!("ip", "tc", "ss");
    let path = Path::new("20mbit", "100000");
    let make = Make {
        sndbuf: Some(16_000_000),
        ..Make::new("cubic", Over::V4)
    };
    let (mut sender, mut receiver) = pair(&path, &make);
    set_option(&sender, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 32_000_000);
    let cookie = cookie(&sender);
    let rows = Stream::start(&path.snd, "--every 200ms");
    let events = Stream::start(&path.snd, "");
    events.wait_line("flow", |line| line["flow"]["cookie"] == cookie);
    rows.wait_line("row", |line| line["flow"]["cookie"] == cookie);
    sender.set_nonblocking(true).unwrap();
    sender.write_all(&vec![7; DRAIN]).expect("room for all");
    let namespace = path.snd.namespace();
    let readings = Loop::start(Duration::from_millis(10), move || {
        observer::host::netns::enter(&namespace, ss_here).unwrap()
    });
    drop(sender);
    let all_read = std::thread::spawn(move || {
        let mut sink = Vec::new();
        receiver.read_to_end(&mut sink).map(|_| sink.len())
    });
    let closed = events.wait_line("end of the flow", |line| {
        line["type"] == "closed" && line["flow"]["cookie"] == cookie
    });
    assert_eq!(all_read.join().unwrap().unwrap(), DRAIN);
    // SYN and FIN count.
    assert_eq!(closed["bytes_acked"], DRAIN + 2);
    assert_eq!(closed["packets_out"], 0);
    let of_flow = |reading: SsReading| {
        let value = reading.sockets.get(&cookie)?.clone();
        let SsReading { begun, ended, .. } = reading;
        Some(Timed {
            begun,
            ended,
            value,
        })
    };
    let readings: Vec<_> = readings.finish().into_iter().filter_map(of_flow).collect();
    let lines = rows.finish();
    let mut judged = std::collections::BTreeSet::new();
    let mut fullest = 0.0;
    for row in rows_of(&lines, cookie) {
        if row["state"] != "FIN-WAIT-1" {
            continue;
        }
        assert!(number(row, "sample_age_us") * 1000 <= FRESH_NS, "{row}");
        fullest = order(&row["bytes_acked"]).max(fullest);
        if lies_between(row, &readings, ss::Ss::get) {
            judged.insert(read_at(row));
        }
    }
    assert!(judged.len() >= 2, "{} sweeps only", judged.len());
    assert!(fullest > 1e6, "{fullest}");
}

#[test]
fn trap_39_a_burst_then_idle_equals_ss() {
    needs!("ip", "tc", "ss");
    let path = Path::new("50mbit", "200000");
    for make in [Make::new("bbr", Over::V4), Make::new("cubic", Over::V6)] {
        let (sender, receiver) = pair(&path, &make);
        let stream = Stream::start(&path.snd, "--every 200ms");
        let cookie = cookie(&sender);
        stream.wait_line("row", |line| line["flow"]["cookie"] == cookie);
        for bytes in [700_000, 30_000] {
            common::send(&sender, &receiver, bytes);
            settles(&stream, &sender, &receiver);
        }
    }
}

/// The states of all sockets that `ss` shows figures of, by cookie. Without figures are the small sockets that stand for
/// closed ones: TIME-WAIT, and FIN-WAIT-2 without a holder (TRAPS 31).
fn states(netns: &common::Netns) -> BTreeMap<u64, Value> {
    let sockets = ss(netns).sockets;
    let full = sockets
        .iter()
        .filter(|(_, socket)| socket.get("cc.name").is_some());
    let state = |socket: &ss::Ss| socket.get("state").expect("known");
    full.map(|(cookie, socket)| (*cookie, state(socket)))
        .collect()
}

/// Neither listeners nor TIME-WAIT nor what was never connected (TRAPS 31), but half-closed flows and those that nobody
/// holds any more.
#[test]
fn trap_31_list_shows_the_flows_that_ss_shows_in_its_states() {
    needs!("ip", "tc", "ss");
    let path = Path::new("50mbit", "200000");
    let make = Make::new("cubic", Over::V4);
    let _listener = path
        .snd
        .enter(|| std::net::TcpListener::bind("0.0.0.0:0"))
        .unwrap();
    let _bound = path
        .snd
        .enter(|| sender::socket("cubic", (sender::SND_V4, 0).into()));
    let _established = pair(&path, &make);
    // FIN-WAIT-2 here, CLOSE-WAIT there.
    let half = pair(&path, &make);
    half.0.shutdown(Shutdown::Write).unwrap();
    // The same without a holder is but the memory of a flow.
    let (orphan, _peer) = pair(&path, &make);
    drop(orphan);
    // FIN-WAIT-1: the other end does not read and its window is closed.
    let narrow = Make {
        rcvbuf: Some(4_000),
        sndbuf: Some(100_000),
        ..make
    };
    let stuck = pair(&path, &narrow);
    stuck.0.set_nonblocking(true).unwrap();
    while (&stuck.0).write(&[7; 8192]).is_ok() {}
    stuck.0.shutdown(Shutdown::Write).unwrap();
    // TIME-WAIT: gone.
    let (done, mut peer) = pair(&path, &make);
    drop(done);
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
    drop(peer);
    // SYN-SENT: nobody is there.
    run(
        "ip",
        &format!(
            "-n {} neigh add 10.81.1.99 lladdr 02:00:00:00:00:99 dev v",
            path.snd.name
        ),
    );
    let _calling = path.snd.enter(|| {
        let socket = sender::socket("cubic", (sender::SND_V4, 0).into());
        rustix::io::ioctl_fionbio(&socket, true).unwrap();
        let to: std::net::SocketAddr = ([10, 81, 1, 99], 7).into();
        let _ = rustix::net::connect(&socket, &to);
        socket
    });
    for (netns, wanted) in [
        (
            &path.snd,
            &["ESTAB", "FIN-WAIT-1", "FIN-WAIT-2", "SYN-SENT"][..],
        ),
        (&path.rcv, &["CLOSE-WAIT", "ESTAB"][..]),
    ] {
        let theirs = wait_for("states", || {
            let before = states(netns);
            let mut names: Vec<_> = before.values().filter_map(Value::as_str).collect();
            names.sort_unstable();
            names.dedup();
            if names != wanted {
                return None;
            }
            let rows = list(netns, "10ms");
            let ours: BTreeMap<u64, Value> = rows
                .iter()
                .map(|row| (number(&row["flow"], "cookie"), row["state"].clone()))
                .collect();
            if before != states(netns) {
                return None;
            }
            Some((before, ours))
        });
        assert_eq!(theirs.0, theirs.1);
    }
    drop((half, stuck));
}

/// `connect(AF_UNSPEC)` clears a socket's counters and leaves it open: its last figures are those before.
#[test]
fn a_disconnect_does_not_take_the_last_figures_with_it() {
    needs!("ip");
    let ns = common::Netns::new();
    let (client, server) = common::connect(&ns, &ns, "127.0.0.1");
    let stream = Stream::start(&ns, "");
    common::send(&client, &server, 300_000);
    wait_for_rest(&[&client, &server]);
    let (id, before) = (cookie(&client), Info::of(&client));
    rustix::net::connect_unspec(&client).expect("disconnected");
    let cleared = order(&Info::of(&client).get("bytes_acked").expect("known"));
    assert!(cleared < 1000.0, "the kernel clears: {cleared}");
    drop(client);
    let closed = stream.wait_line("its end", |line| {
        line["type"] == "closed" && line["flow"]["cookie"] == id
    });
    for key in ["bytes_sent", "bytes_acked", "segs_out", "delivered"] {
        let theirs = before.get(key).expect("known");
        assert!(
            order(ours(&closed, key)) >= order(&theirs),
            "{key}: {} after {theirs}",
            ours(&closed, key)
        );
    }
    let states: Vec<Value> = stream
        .finish()
        .into_iter()
        .filter(|line| line["type"] == "state" && line["flow"]["cookie"] == id)
        .collect();
    assert_eq!(states.len(), 1, "{states:?}");
}
