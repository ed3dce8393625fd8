//! Every field of a flow on the running kernel, against `ss` and the socket's own `TCP_INFO`.
//!
//! One run over a shaped path is shared by the tests of the fields: bulk flows of each algorithm over each family, half
//! of them older than the observer, first moving, then paused with everything acknowledged.

mod common;
#[path = "common/sender.rs"]
mod sender;
#[path = "common/ss.rs"]
mod ss;

use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::time::Duration;

use common::{Netns, needs, wait_for};
use observer::kernel::clock;
use sender::{
    Flow, Loop, Make, ODD_RCV, ODD_SND, OddPath, Over, Path, Stream, cookie, list, pair, row_of,
    set_cc, wait_for_rest,
};
use serde_json::Value;
use ss::{Info, Ss, SsReading, lowat_and_locks, order, ours, sequence, ss, ss_here};

/// One end of a flow.
#[derive(Debug)]
struct End {
    name: String,
    make: Make,
    is_sender: bool,
    /// As the sockets' own calls tell.
    local: String,
    remote: String,
}

/// What was read of one end at rest, all at the same moment.
#[derive(Debug)]
struct Standing {
    row: Value,
    ss: Ss,
    info: Info,
    write_seq: u32,
    rcv_nxt: u32,
    lowat: u32,
    locks: u32,
}

/// A socket's own reading and the time before and after it.
#[derive(Debug)]
struct Poll {
    begun: u64,
    ended: u64,
    info: Info,
}

/// What the run left; by cookie.
#[derive(Debug)]
struct Run {
    ends: BTreeMap<u64, End>,
    older: Vec<u64>,
    /// Rows of `list` while everything moved.
    rows: Vec<Value>,
    ss: Vec<SsReading>,
    /// Lines of `stream` at the senders.
    lines: Vec<Value>,
    polls: BTreeMap<u64, Vec<Poll>>,
    standing: BTreeMap<u64, Standing>,
    inum: u32,
}

const CUBIC_PORT: u16 = 40_001;

fn run() -> &'static Run {
    static RUN: OnceLock<Result<Run, String>> = OnceLock::new();
    let run = RUN.get_or_init(|| {
        catch_unwind(AssertUnwindSafe(perform)).map_err(|panic| match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(_) => "panicked".to_owned(),
        })
    });
    run.as_ref()
        .unwrap_or_else(|error| panic!("the run failed: {error}"))
}

/// Reads every sender's socket once.
fn poll(sockets: &[(u64, std::net::TcpStream)]) -> Vec<(u64, Poll)> {
    sockets
        .iter()
        .map(|(cookie, socket)| {
            let begun = clock::now().0;
            let info = Info::of(socket);
            let ended = clock::now().0;
            let poll = Poll { begun, ended, info };
            (*cookie, poll)
        })
        .collect()
}

#[expect(clippy::too_many_lines, reason = "one story")]
fn perform() -> Run {
    let path = Path::new("50mbit", "300000");
    let older = [
        Make {
            port: CUBIC_PORT,
            ..Make::new("cubic", Over::V4)
        },
        Make::new("bbr", Over::V4),
        Make::new("reno", Over::V6),
        Make::new("bbr", Over::Mapped),
        Make::new("cubic", Over::Mapped),
    ];
    let younger = [
        Make::new("bbr", Over::V6),
        // Locked buffers; the second is limited by its receiver's window.
        Make {
            sndbuf: Some(30_000),
            ..Make::new("cubic", Over::V6)
        },
        Make {
            rcvbuf: Some(6_000),
            sndbuf: Some(10_000),
            ..Make::new("reno", Over::V4)
        },
        Make {
            max_pacing: Some(125_000_000),
            ..Make::new("reno", Over::Mapped)
        },
    ];
    let mut flows: Vec<Flow> = older.map(|make| Flow::start(&path, make)).into();
    let older = flows.iter().flat_map(Flow::cookies).collect();
    let stream = Stream::start(&path.snd, "");
    let first = flows[0].cookies()[0];
    stream.wait_line("sample", |line| {
        line["type"] == "sample" && line["flow"]["cookie"] == first
    });
    // Born before the stream's eyes; they begin to send when the readers run.
    let younger = younger.map(|make| (make, pair(&path, &make)));

    // TCP_INFO of the flows' own descriptors takes microseconds where a call of `ss` takes milliseconds, in which many
    // ACKs pass: only it has readings that are neighbours of a sample.
    let senders = flows.iter().map(|flow| &flow.sender);
    let sockets: Vec<_> = senders
        .chain(younger.iter().map(|(_, (sender, _))| sender))
        .map(|socket| (cookie(socket), socket.try_clone().unwrap()))
        .collect();
    let polls = Loop::start(Duration::from_micros(200), move || poll(&sockets));
    let starts = younger.map(|(make, (sender, receiver))| Flow::over(make, sender, receiver));
    flows.extend(starts);
    wait_for("data on every flow", || {
        let begun = |flow: &Flow| order(&Info::of(&flow.sender).get("bytes_acked").unwrap()) > 1e5;
        flows.iter().all(begun).then_some(())
    });
    let loops = [&path.snd, &path.rcv].map(|netns| {
        let namespace = netns.namespace();
        Loop::start(Duration::from_millis(20), move || {
            observer::host::netns::enter(&namespace, ss_here).unwrap()
        })
    });
    let before = stream.count();
    let mut rows = Vec::new();
    for _ in 0..3 {
        std::thread::scope(|scope| {
            let both =
                [&path.snd, &path.rcv].map(|netns| scope.spawn(move || list(netns, "200ms")));
            for listed in both {
                rows.extend(listed.join().unwrap());
            }
        });
    }
    wait_for("samples", || (stream.count() > before + 1500).then_some(()));
    let ss_readings = loops.map(Loop::finish).into_iter().flatten().collect();
    let mut by_cookie = BTreeMap::<u64, Vec<Poll>>::new();
    for (cookie, poll) in polls.finish().into_iter().flatten() {
        by_cookie.entry(cookie).or_default().push(poll);
    }
    let lines = stream.finish();

    for flow in &flows {
        flow.pause();
    }
    let standing = at_rest(&path, &flows);
    let ends = flows.iter().flat_map(|flow| {
        let make = flow.make;
        let end = move |socket: &std::net::TcpStream, is_sender| {
            let text = |address: std::net::SocketAddr| {
                std::net::SocketAddr::new(address.ip().to_canonical(), address.port()).to_string()
            };
            let which = if is_sender { "sender" } else { "receiver" };
            let end = End {
                name: format!("{which} {} {:?}", make.cc, make.over),
                make,
                is_sender,
                local: text(socket.local_addr().unwrap()),
                remote: text(socket.peer_addr().unwrap()),
            };
            (cookie(socket), end)
        };
        [end(&flow.sender, true), end(&flow.receiver, false)]
    });
    Run {
        ends: ends.collect(),
        older,
        rows,
        ss: ss_readings,
        lines,
        polls: by_cookie,
        standing,
        inum: path.snd.inum(),
    }
}

/// Reads all ends at rest, with all readers saying the same before and after ours.
fn at_rest(path: &Path, flows: &[Flow]) -> BTreeMap<u64, Standing> {
    let sockets: Vec<_> = flows
        .iter()
        .flat_map(|flow| [&flow.sender, &flow.receiver])
        .collect();
    wait_for("standing figures", || {
        wait_for_rest(&sockets);
        let infos = || -> Vec<Info> { sockets.iter().map(|socket| Info::of(socket)).collect() };
        let read = || (infos(), ss(&path.snd).sockets, ss(&path.rcv).sockets);
        let before = read();
        let mut rows = list(&path.snd, "10ms");
        rows.extend(list(&path.rcv, "10ms"));
        if before != read() {
            return None;
        }
        let (infos, mut ss, others) = before;
        ss.extend(others);
        let standing = std::iter::zip(&sockets, infos).map(|(socket, info)| {
            let cookie = cookie(socket);
            let (write_seq, rcv_nxt) = sequence(socket);
            let (lowat, locks) = lowat_and_locks(socket);
            let row = row_of(&rows, cookie).expect("in the list").clone();
            let ss = ss[&cookie].clone();
            let standing = Standing {
                row,
                ss,
                info,
                write_seq,
                rcv_nxt,
                lowat,
                locks,
            };
            (cookie, standing)
        });
        Some(standing.collect())
    })
}

/// Equal, as far as the reader is exact: `ss` cuts clocks to ms and gains to six digits.
fn agrees(key: &str, ours: &Value, theirs: &Value, is_ss: bool) -> bool {
    match key {
        "busy_us" | "rwnd_limited_us" | "sndbuf_limited_us" if is_ss => ours
            .as_u64()
            .is_some_and(|us| Some(us / 1000 * 1000) == theirs.as_u64()),
        "cc.pacing_gain" | "cc.cwnd_gain" if is_ss => match (ours.as_f64(), theirs.as_f64()) {
            (Some(ours), Some(theirs)) => (ours - theirs).abs() < 1e-4,
            (ours, theirs) => ours == theirs,
        },
        _ => ours == theirs,
    }
}

/// At rest, the field of every end equals what each reader says.
fn standing(key: &str) {
    let mut compared = 0;
    let mut told = 0;
    let mut wrong = Vec::new();
    for (cookie, at) in &run().standing {
        let ours = ours(&at.row, key);
        let from_ss = at.ss.get(key).map(|value| ("ss", value));
        let from_info = at.info.get(key).map(|value| ("TCP_INFO", value));
        for (reader, theirs) in from_ss.into_iter().chain(from_info) {
            compared += 1;
            told += usize::from(order(&theirs) > 0.0);
            if !agrees(key, ours, &theirs, reader == "ss") {
                let name = &run().ends[cookie].name;
                wrong.push(format!("{name}: {ours}, {reader}: {theirs}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{key}:\n{}", wrong.join("\n"));
    assert!(compared >= 9, "{key}: compared {compared} times only");
    // Of what is never 0 at rest some value is needed; levels of flight are 0 there and tested in motion.
    let zero_at_rest = [
        "retrans_out",
        "lost",
        "sacked",
        "packets_out",
        "inflight",
        "notsent_bytes",
        "wmem_queued_bytes",
        "backoff",
        "ecn",
        "dsack_dups",
        "reord_seen",
        "delivered_ce",
        "sndbuf_limited_us",
    ];
    assert!(told > 0 || zero_at_rest.contains(&key), "{key} is nowhere");
}

/// Our rows while all moved: their time and the two readings of `ss` around them.
fn between(key: &str) {
    let run = run();
    let mut rose = 0;
    let mut judged = 0;
    for row in &run.rows {
        let cookie = row["flow"]["cookie"].as_u64().unwrap();
        let end = &run.ends[&cookie];
        assert_eq!(row["source"], "ebpf", "{}", end.name);
        let age_us = row["sample_age_us"].as_u64().unwrap();
        let time = row["mono_ns"].as_u64().unwrap() - age_us * 1000;
        let readings = || run.ss.iter().filter(|r| r.sockets.contains_key(&cookie));
        // The age is cut to µs.
        let before = readings()
            .filter(|r| r.ended <= time - 1000)
            .max_by_key(|r| r.ended);
        let after = readings()
            .filter(|r| r.begun >= time)
            .min_by_key(|r| r.begun);
        let (Some(before), Some(after)) = (before, after) else {
            continue;
        };
        let [low, high] = [before, after].map(|r| order(&r.sockets[&cookie].get(key).unwrap()));
        let mut at = order(ours(row, key));
        if key.ends_with("_us") {
            at = (at / 1000.0).floor() * 1000.0;
        }
        judged += 1;
        rose += usize::from(low < high);
        assert!(
            low <= at && at <= high,
            "{} {key}: {at} not in {low}..={high}",
            end.name
        );
    }
    assert!(judged >= 36, "{key}: {judged} rows only");
    // Tests of their own make these rise.
    let may_stand = [
        "dsack_dups",
        "reord_seen",
        "delivered_ce",
        "sndbuf_limited_us",
        "rwnd_limited_us",
    ];
    assert!(rose > 0 || may_stand.contains(&key), "{key} never rose");
}

/// How far the readings beside a sample may be: without a neighbour there is nothing to compare with. Far enough for an
/// idle machine's readings; on a busy one the reader is often not let run.
const NEAR_NS: u64 = 3_000_000;

/// The samples of the stream that a sender's own readings surround: the row and those readings, two on each side. One
/// more than the neighbours, because a sample at an ACK is the state before it (TRAPS 33).
fn surrounded() -> impl Iterator<Item = (&'static End, &'static Value, &'static [Poll])> {
    let run = run();
    let samples = run.lines.iter().filter(|line| line["type"] == "sample");
    samples.filter_map(|line| {
        let cookie = line["flow"]["cookie"].as_u64()?;
        let time = line["mono_ns"].as_u64()?;
        let polls = run.polls.get(&cookie)?;
        let after = polls.partition_point(|poll| poll.begun < time);
        let before = polls[..after].iter().rposition(|poll| poll.ended <= time)?;
        let around = polls.get(before.checked_sub(1)?..=after + 1)?;
        let near = time - polls[before].ended < NEAR_NS && polls[after].begun - time < NEAR_NS;
        near.then_some((&run.ends[&cookie], line, around))
    })
}

/// How far above all readings a sample may lie. The bottleneck's queue answers in the same softirq as the send that made
/// it move: an ACK often follows a send of two segments within microseconds, in which nobody else can read. The hook sees
/// that crest every time.
fn crest(key: &str) -> f64 {
    match key {
        "inflight" | "packets_out" => 2.0,
        // What two segments cost in memory.
        "wmem_queued_bytes" => 4096.0,
        _ => 0.0,
    }
}

/// The samples at least 10 ms apart, as the interval alone gives them. A flow with losses is sampled at every ACK, and of
/// several ACKs between two readings those in the middle lie anywhere: only the kernel saw them.
fn apart<'a>(
    samples: impl Iterator<Item = (&'static End, &'static Value, &'a [Poll])>,
) -> impl Iterator<Item = (&'static End, &'static Value, &'a [Poll])> {
    let mut last = BTreeMap::new();
    samples.filter(move |(_, line, _)| {
        let cookie = line["flow"]["cookie"].as_u64();
        let time = line["mono_ns"].as_u64().unwrap();
        let due = last
            .get(&cookie)
            .is_none_or(|last| time - last >= 10_000_000);
        if due {
            last.insert(cookie, time);
        }
        due
    })
}

/// In motion, at least 95 % of the samples lie in the range of the readings around them; a total always does, at every
/// ACK.
fn moving(key: &str, share: f64) {
    let mut judged = 0u32;
    let mut within = 0u32;
    let mut values = std::collections::BTreeSet::new();
    let mut wrong = Vec::new();
    let samples: Box<dyn Iterator<Item = _>> = if share < 1.0 {
        Box::new(apart(surrounded()))
    } else {
        Box::new(surrounded())
    };
    for (end, line, around) in samples {
        if key.starts_with("cc.") && end.make.cc != "bbr" {
            continue;
        }
        let range = around
            .iter()
            .map(|poll| order(&poll.info.get(key).unwrap()));
        let (low, high) = range.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| {
            (low.min(at), high.max(at))
        });
        let at = order(ours(line, key));
        judged += 1;
        values.insert(at.to_bits());
        if low <= at && at <= high + crest(key) {
            within += 1;
        } else {
            wrong.push(format!("{}: {at} not in {low}..={high}", end.name));
        }
    }
    let got = f64::from(within) / f64::from(judged);
    eprintln!("{key}: {within} of {judged}, {} values", values.len());
    assert!(judged >= 200, "{key}: {judged} samples only");
    wrong.truncate(20);
    assert!(
        got >= share,
        "{key}: {within} of {judged}\n{}",
        wrong.join("\n")
    );
    let may_stand = [
        "ssthresh",
        "rcv_wnd_bytes",
        "mss",
        "reordering",
        "sndbuf_limited_us",
        "rwnd_limited_us",
    ];
    assert!(
        values.len() > 1 || may_stand.contains(&key),
        "{key} never moved"
    );
}

/// A test per field.
macro_rules! fields {
    ($module:ident: $check:expr; $($name:ident = $key:literal)*) => {
        mod $module {
            use super::*;
            $(
                #[test]
                fn $name() {
                    needs!("ip", "tc", "ss");
                    $check($key);
                }
            )*
        }
    };
}

fields! { at_rest_equals: standing;
    state = "state"
    trap_02_local_address_and_port = "flow.local"
    trap_02_remote_address_and_port = "flow.remote"
    cc_name = "cc.name"
    cwnd = "cwnd"
    cwnd_bytes = "cwnd_bytes"
    ssthresh = "ssthresh"
    mss = "mss"
    trap_01_srtt = "srtt_us"
    trap_01_rttvar = "rttvar_us"
    min_rtt = "min_rtt_us"
    rcv_rtt = "rcv_rtt_us"
    trap_41_rto = "rto_us"
    ca_state = "ca_state"
    pacing_rate = "pacing_rate_bps"
    max_pacing_rate = "max_pacing_rate_bps"
    delivery_rate = "delivery_rate_bps"
    rate_app_limited = "rate_app_limited"
    bytes_sent = "bytes_sent"
    bytes_acked = "bytes_acked"
    bytes_retrans = "bytes_retrans"
    bytes_received = "bytes_received"
    segs_out = "segs_out"
    segs_in = "segs_in"
    data_segs_out = "data_segs_out"
    data_segs_in = "data_segs_in"
    retrans = "retrans"
    retrans_out = "retrans_out"
    lost = "lost"
    sacked = "sacked"
    packets_out = "packets_out"
    inflight = "inflight"
    dsack_dups = "dsack_dups"
    reord_seen = "reord_seen"
    rcv_ooopack = "rcv_ooopack"
    reordering = "reordering"
    delivered = "delivered"
    delivered_ce = "delivered_ce"
    snd_wnd = "snd_wnd_bytes"
    rcv_wnd = "rcv_wnd_bytes"
    notsent = "notsent_bytes"
    busy = "busy_us"
    rwnd_limited = "rwnd_limited_us"
    sndbuf_limited = "sndbuf_limited_us"
    wscale = "wscale"
    wscale_ok = "wscale_ok"
    sack = "sack"
    timestamps = "timestamps"
    ecn = "ecn"
    pmtu = "pmtu"
    advmss = "advmss"
    rcv_mss = "rcv_mss"
    backoff = "backoff"
    sndbuf = "sndbuf_bytes"
    rcvbuf = "rcvbuf_bytes"
    wmem_queued = "wmem_queued_bytes"
    trap_14_bbr_bw = "cc.btlbw_bps"
    bbr_min_rtt = "cc.min_rtt_us"
    bbr_pacing_gain = "cc.pacing_gain"
    bbr_cwnd_gain = "cc.cwnd_gain"
}

fields! { in_motion_lies_between_ss: between;
    bytes_sent = "bytes_sent"
    bytes_acked = "bytes_acked"
    bytes_retrans = "bytes_retrans"
    bytes_received = "bytes_received"
    segs_out = "segs_out"
    segs_in = "segs_in"
    data_segs_out = "data_segs_out"
    data_segs_in = "data_segs_in"
    retrans = "retrans"
    delivered = "delivered"
    delivered_ce = "delivered_ce"
    dsack_dups = "dsack_dups"
    reord_seen = "reord_seen"
    rcv_ooopack = "rcv_ooopack"
    busy = "busy_us"
    rwnd_limited = "rwnd_limited_us"
    sndbuf_limited = "sndbuf_limited_us"
}

fields! { total_lies_between_its_neighbours: |key| moving(key, 1.0);
    bytes_sent = "bytes_sent"
    bytes_acked = "bytes_acked"
    bytes_retrans = "bytes_retrans"
    segs_out = "segs_out"
    segs_in = "segs_in"
    data_segs_out = "data_segs_out"
    retrans = "retrans"
    delivered = "delivered"
    busy = "busy_us"
    rwnd_limited = "rwnd_limited_us"
    sndbuf_limited = "sndbuf_limited_us"
}

fields! { level_lies_among_its_neighbours: |key| moving(key, 0.95);
    cwnd = "cwnd"
    ssthresh = "ssthresh"
    mss = "mss"
    srtt = "srtt_us"
    rttvar = "rttvar_us"
    min_rtt = "min_rtt_us"
    rto = "rto_us"
    sacked = "sacked"
    lost = "lost"
    retrans_out = "retrans_out"
    packets_out = "packets_out"
    inflight = "inflight"
    reordering = "reordering"
    pacing_rate = "pacing_rate_bps"
    delivery_rate = "delivery_rate_bps"
    snd_wnd = "snd_wnd_bytes"
    rcv_wnd = "rcv_wnd_bytes"
    notsent = "notsent_bytes"
    sndbuf = "sndbuf_bytes"
    wmem_queued = "wmem_queued_bytes"
    bbr_bw = "cc.btlbw_bps"
    bbr_min_rtt = "cc.min_rtt_us"
    bbr_pacing_gain = "cc.pacing_gain"
    bbr_cwnd_gain = "cc.cwnd_gain"
}

fn each_standing(check: impl Fn(&End, &Standing)) {
    for (cookie, at) in &run().standing {
        check(&run().ends[cookie], at);
    }
}

#[test]
fn at_rest_equals_lowat_locks_and_sequence_numbers() {
    needs!("ip", "tc", "ss");
    each_standing(|end, at| {
        let name = &end.name;
        assert_eq!(at.row["write_seq"], at.write_seq, "{name}");
        assert_eq!(at.row["snd_nxt"], at.write_seq, "{name}");
        assert_eq!(at.row["snd_una"], at.write_seq, "{name}");
        assert_eq!(at.row["rcv_nxt"], at.rcv_nxt, "{name}");
        let lowat = ours(&at.row, "notsent_lowat").as_u64().unwrap_or(0);
        assert_eq!(lowat, u64::from(at.lowat), "{name}");
        // SOCK_SNDBUF_LOCK 1, SOCK_RCVBUF_LOCK 2.
        assert_eq!(
            at.row["user_locks"].as_u64().unwrap() & 3,
            u64::from(at.locks),
            "{name}"
        );
        let locked = u32::from(end.is_sender && end.make.sndbuf.is_some())
            | u32::from(!end.is_sender && end.make.rcvbuf.is_some()) << 1;
        assert_eq!(at.locks, locked, "{name}");
    });
}

#[test]
fn trap_02_ports_of_both_ends_are_right() {
    needs!("ip", "tc", "ss");
    let mut known = 0;
    each_standing(|end, at| {
        assert_eq!(at.row["flow"]["local"], end.local, "{}", end.name);
        assert_eq!(at.row["flow"]["remote"], end.remote, "{}", end.name);
    });
    for at in run().standing.values() {
        let port = format!("10.81.1.1:{CUBIC_PORT}");
        known += usize::from(at.row["flow"]["local"] == port);
        known += usize::from(at.row["flow"]["remote"] == port);
    }
    assert_eq!(known, 2, "once at each end");
}

#[test]
fn trap_16_a_v4_mapped_flow_is_one_ipv4_flow() {
    needs!("ip", "tc", "ss");
    for cookie in run().ends.keys() {
        let rows = run()
            .rows
            .iter()
            .filter(|row| row["flow"]["cookie"] == *cookie);
        assert_eq!(rows.count(), 3, "once in each list");
    }
    each_standing(|end, at| {
        let family = if end.make.over == Over::V6 {
            "ipv6"
        } else {
            "ipv4"
        };
        assert_eq!(at.row["flow"]["family"], family, "{}", end.name);
    });
    let mut tuples: Vec<_> = run()
        .standing
        .values()
        .map(|at| at.row["flow"]["local"].to_string())
        .collect();
    tuples.sort_unstable();
    tuples.dedup();
    assert_eq!(tuples.len(), run().standing.len());
}

#[test]
fn trap_47_rows_come_from_the_programs() {
    needs!("ip", "tc", "ss");
    let run = run();
    let standing = run.standing.values().map(|at| &at.row);
    for row in run.rows.iter().chain(standing) {
        assert_eq!(row["source"], "ebpf");
        assert_eq!(row["gaps"], 0);
    }
    assert!(run.standing.values().all(|at| at.row["cause"] == "sweep"));
    let samples = || run.lines.iter().filter(|line| line["type"] == "sample");
    assert!(samples().all(|line| line["source"] == "ebpf"));
    assert!(samples().filter(|line| line["cause"] == "ack").count() > 500);
}

#[test]
fn identity_and_birth() {
    needs!("ip", "tc", "ss");
    each_standing(|_, at| {
        assert_eq!(
            at.row["flow"]["id"],
            format!("{}:{}", at.row["flow"]["cookie"], at.row["flow"]["netns"])
        );
    });
    let opened: BTreeMap<u64, bool> = run()
        .lines
        .iter()
        .filter(|line| line["type"] == "opened")
        .map(|line| {
            (
                line["flow"]["cookie"].as_u64().unwrap(),
                line["from_start"] == true,
            )
        })
        .collect();
    for (cookie, end) in run().ends.iter().filter(|(_, end)| end.is_sender) {
        assert_eq!(run().standing[cookie].row["flow"]["netns"], run().inum);
        // The namespace asked for is the senders': all of them came into view, the younger ones by their birth.
        let older = run().older.contains(cookie);
        assert_eq!(opened.get(cookie), Some(&!older), "{}", end.name);
    }
}

#[test]
fn trap_34_only_bbr_flows_have_bbr_fields() {
    needs!("ip", "tc", "ss");
    let run = run();
    let lines = run.lines.iter().filter(|line| line["type"] == "sample");
    let standing = run.standing.values().map(|at| &at.row);
    let (mut bbr, mut others) = (0, 0);
    for row in lines.chain(&run.rows).chain(standing) {
        let name = row["cc"]["name"].as_str().unwrap();
        let end = &run.ends[&row["flow"]["cookie"].as_u64().unwrap()];
        assert_eq!(
            name,
            if end.is_sender { end.make.cc } else { "cubic" },
            "{}",
            end.name
        );
        if name == "bbr" {
            bbr += 1;
            assert!(has_bbr_fields(row), "{row}");
            assert!(row["cc"].get("last_max_cwnd").is_none(), "{row}");
        } else {
            others += 1;
            assert!(!has_any_bbr_field(row), "{row}");
        }
    }
    assert!(bbr > 200 && others > 200, "{bbr} {others}");
}

const BBR_FIELDS: [&str; 6] = [
    "phase",
    "btlbw_bps",
    "min_rtt_us",
    "pacing_gain",
    "cwnd_gain",
    "lt_bw_bps",
];

fn has_any_bbr_field(row: &Value) -> bool {
    let more = [
        "sub_phase",
        "inflight_hi",
        "inflight_lo",
        "bw_hi_bps",
        "bw_lo_bps",
        "full_bw_reached",
        "lt_use_bw",
    ];
    BBR_FIELDS
        .iter()
        .chain(&more)
        .any(|field| !ours(&row["cc"], field).is_null())
}

/// Those that every BBR has once data was acknowledged.
fn has_bbr_fields(row: &Value) -> bool {
    ["phase", "pacing_gain", "cwnd_gain"]
        .iter()
        .all(|field| !row["cc"][field].is_null())
}

/// The algorithm is changed under way, both ways, twenty times. Each sample of every ACK is decoded as what the socket
/// runs at that moment.
#[test]
fn trap_34_a_switched_algorithm_is_never_read_as_the_other() {
    needs!("ip", "tc", "ss");
    let path = Path::new("50mbit", "100000");
    let flow = Flow::start(&path, Make::new("cubic", Over::V4));
    let stream = Stream::start(&path.snd, "--interval 0");
    let [cookie, _] = flow.cookies();
    stream.wait_line("sample", |line| {
        line["type"] == "sample" && line["flow"]["cookie"] == cookie
    });
    // From when it surely ran what, and since when it may run the next.
    let mut spans = Vec::new();
    let mut since = clock::now().0;
    for at in 0..20 {
        let [now, next] = if at % 2 == 0 {
            ["cubic", "bbr"]
        } else {
            ["bbr", "cubic"]
        };
        let delivered = || order(&Info::of(&flow.sender).get("delivered").unwrap());
        let goal = delivered() + 60.0;
        wait_for("progress", || (delivered() > goal).then_some(()));
        spans.push((since, clock::now().0, now));
        set_cc(&flow.sender, next);
        since = clock::now().0;
    }
    let lines = stream.finish();
    let mut judged = BTreeMap::<&str, u32>::new();
    let mut begun = std::collections::BTreeSet::new();
    for line in lines
        .iter()
        .filter(|line| line["type"] == "sample" && line["flow"]["cookie"] == cookie)
    {
        let time = line["mono_ns"].as_u64().unwrap();
        let Some((since, _, cc)) = spans
            .iter()
            .find(|(from, to, _)| *from <= time && time <= *to)
        else {
            continue;
        };
        assert_eq!(line["cc"]["name"], *cc, "{line}");
        *judged.entry(cc).or_default() += 1;
        if *cc == "bbr" {
            // BBR sets its gains when it sees its first ACK: the hook comes before.
            assert!(!line["cc"]["phase"].is_null(), "{line}");
            assert!(has_bbr_fields(line) || !begun.contains(since), "{line}");
            begun.insert(*since);
            assert!(line["cc"].get("last_max_cwnd").is_none(), "{line}");
        } else {
            assert!(!has_any_bbr_field(line), "{line}");
        }
    }
    assert!(
        judged.len() == 2 && judged.values().all(|count| *count >= 200),
        "{judged:?}"
    );
}

/// Throughput of the senders' rows against the sockets' own count of acknowledged bytes over the same time.
#[test]
fn throughput_is_acknowledged_bytes_over_time() {
    needs!("ip", "tc", "ss");
    let run = run();
    let mut judged = 0;
    for row in &run.rows {
        let cookie = row["flow"]["cookie"].as_u64().unwrap();
        let Some(polls) = run.polls.get(&cookie) else {
            continue;
        };
        let name = &run.ends[&cookie].name;
        let measured = row["measured_us"].as_u64().unwrap() * 1000;
        let end = row["mono_ns"].as_u64().unwrap() - row["sample_age_us"].as_u64().unwrap() * 1000;
        // The readings just before and just after a moment.
        let around = |time: u64| {
            let after = polls.partition_point(|poll| poll.begun < time + 1000);
            let before = polls[..after]
                .iter()
                .rposition(|poll| poll.ended <= time - 1000)?;
            let acked = |poll: &Poll| order(&poll.info.get("bytes_acked").unwrap());
            Some((acked(&polls[before]), acked(polls.get(after)?)))
        };
        let (Some(first), Some(last)) = (around(end - measured), around(end)) else {
            continue;
        };
        let bps = |bytes: f64| bytes * 8e9 / measured as f64;
        let (low, high) = (bps(last.0 - first.1), bps(last.1 - first.0));
        let at = order(&row["throughput_bps"]);
        assert!(
            low * 0.999 <= at && at <= high * 1.001 + 1.0,
            "{name}: {at} not in {low}..={high}"
        );
        judged += 1;
    }
    assert!(judged >= 15, "{judged} rows only");
}

#[test]
fn trap_28_a_receivers_row_says_so() {
    needs!("ip", "tc", "ss");
    let run = run();
    let mut heard = BTreeMap::<&str, f64>::new();
    for row in &run.rows {
        let end = &run.ends[&row["flow"]["cookie"].as_u64().unwrap()];
        let [sent, received] = ["throughput_bps", "received_bps"].map(|key| order(&row[key]));
        if end.is_sender {
            assert!(received <= 0.0, "{} {row}", end.name);
        } else {
            assert!(sent <= 0.0, "{} {row}", end.name);
            // One that waits for a timeout may have received nothing in 200 ms.
            heard
                .entry(&end.name)
                .and_modify(|sum| *sum += received)
                .or_insert(received);
            assert_eq!(row["bytes_sent"], 0, "{}", end.name);
            assert!(order(&row["data_segs_in"]) > 0.0, "{}", end.name);
        }
    }
    assert_eq!(heard.len(), 9);
    assert!(heard.values().all(|sum| *sum > 10_000.0), "{heard:?}");
}

#[test]
fn trap_11_no_bound_is_unlimited_and_no_sample_is_null() {
    needs!("ip", "tc", "ss");
    let path = Path::new("50mbit", "100000");
    // Somebody who does not answer.
    common::run(
        "ip",
        &format!(
            "-n {} neigh add 10.81.1.99 lladdr 02:00:00:00:00:99 dev v",
            path.snd.name
        ),
    );
    let to: std::net::SocketAddr = ([10, 81, 1, 99], 7).into();
    let sockets = ["cubic", "bbr"].map(|cc| {
        path.snd.enter(|| {
            let socket = sender::socket(cc, (sender::SND_V4, 0).into());
            rustix::io::ioctl_fionbio(&socket, true).unwrap();
            let connected = rustix::net::connect(&socket, &to);
            assert_eq!(connected, Err(rustix::io::Errno::INPROGRESS));
            std::net::TcpStream::from(socket)
        })
    });
    let rows = list(&path.snd, "10ms");
    for (socket, cc) in std::iter::zip(&sockets, ["cubic", "bbr"]) {
        let row = row_of(&rows, cookie(socket)).unwrap();
        assert_eq!(row["state"], "SYN-SENT");
        assert_eq!(row["cc"]["name"], cc);
        assert_eq!(row["flow"]["remote"], "10.81.1.99:7");
        for key in ["pacing_rate_bps", "max_pacing_rate_bps", "cwnd_clamp"] {
            assert_eq!(row[key], "unlimited", "{cc} {key}");
        }
        // After a second the SYN is sent again, and a threshold is set.
        if row["retrans"] == 0 {
            assert_eq!(row["ssthresh"], "unlimited", "{cc}");
        }
        for key in [
            "srtt_us",
            "min_rtt_us",
            "rtt_us",
            "rttvar_us",
            "rcv_rtt_us",
            "delivery_rate_bps",
        ] {
            assert!(row[key].is_null(), "{cc} {key}: {}", row[key]);
        }
        for key in BBR_FIELDS {
            assert!(
                row["cc"][key].is_null(),
                "{cc} cc.{key}: {}",
                row["cc"][key]
            );
        }
        let info = Info::of(socket);
        for key in ["rto_us", "cwnd", "mss", "retrans", "min_rtt_us", "ssthresh"] {
            assert_eq!(info.get(key).as_ref(), Some(&row[key]), "{cc} {key}");
        }
    }
}

#[test]
fn trap_19_counters_go_beyond_4_gib() {
    const BYTES: u64 = (1 << 32) + (64 << 20);
    const CHUNK: usize = 4 << 20;
    needs!("ip");
    let netns = Netns::new();
    let local = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let make = Make::new("cubic", Over::V4);
    let (from, to) = sender::pair_between(&netns, local(0), &netns, local(0), &make);
    // Pages of a file are sent and thrown away on arrival: nothing is copied.
    let file = rustix::fs::memfd_create("zeros", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, CHUNK as u64).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut left = BYTES;
            while left > 0 {
                let mut offset = 0;
                left -=
                    rustix::fs::sendfile(&from, &file, Some(&mut offset), CHUNK.min(left as usize))
                        .unwrap() as u64;
            }
        });
        let mut buffer = vec![0; CHUNK];
        let mut got = 0;
        while got < BYTES {
            let (_, read) =
                rustix::net::recv(&to, &mut buffer[..], rustix::net::RecvFlags::TRUNC).unwrap();
            assert!(read > 0, "ended after {got}");
            got += read as u64;
        }
    });
    wait_for_rest(&[&from, &to]);
    let rows = list(&netns, "10ms");
    let row = |socket| row_of(&rows, cookie(socket)).unwrap();
    assert_eq!(row(&from)["bytes_acked"], BYTES + 1, "the SYN counts");
    assert_eq!(row(&to)["bytes_received"], BYTES);
    for socket in [&from, &to] {
        let info = Info::of(socket);
        for key in ["bytes_sent", "bytes_acked", "bytes_received"] {
            assert_eq!(info.get(key).as_ref(), Some(&row(socket)[key]), "{key}");
        }
    }
}

/// One byte at a time over an idle connection: the smoothed RTT moves by an eighth towards the latest one, so the latest
/// one follows from two readings, to the bits that the readings cut off.
#[test]
fn trap_01_the_latest_rtt_is_what_moved_the_smoothed_one() {
    needs!("ip", "tc", "ss");
    let path = Path::new("50mbit", "100000");
    let (sender, receiver) = pair(&path, &Make::new("cubic", Over::V4));
    let srtt = || Info::of(&sender).get("srtt_us").unwrap();
    let mut moved = 0;
    for _ in 0..5 {
        wait_for_rest(&[&sender, &receiver]);
        let before = srtt();
        (&sender).write_all(&[1]).unwrap();
        wait_for_rest(&[&sender, &receiver]);
        let after = srtt();
        let rows = list(&path.snd, "10ms");
        let row = row_of(&rows, cookie(&sender)).unwrap();
        assert_eq!(row["srtt_us"], after);
        // new8 = old8 - old8/8 + m
        let m = order(&after) * 8.0 - order(&before) * 7.0;
        let rtt = order(&row["rtt_us"]);
        assert!(
            (rtt - m).abs() <= 8.0,
            "{rtt} and not {m} ± 8: {before} → {after}"
        );
        moved += u32::from(before != after);
    }
    assert!(moved > 0);
}

/// The three clocks while they run: the segment that is running counts.
#[test]
fn trap_35_clocks_include_the_running_segment() {
    needs!("ip", "tc", "ss");
    let path = Path::new("20mbit", "240000");
    // Others' queue makes the way long (100 KB, 40 ms), without a loss that would keep the window small. What is written
    // at once, 32 KB, is paced over 16 ms: the small buffer empties while the application waits for room.
    let others = Make {
        sndbuf: Some(80_000),
        ..Make::new("cubic", Over::V4)
    };
    let _others = Flow::start(&path, others);
    let small = Make {
        sndbuf: Some(4_000),
        max_pacing: Some(2_000_000),
        ..Make::new("cubic", Over::V4)
    };
    // Nobody reads: the window closes.
    let make = Make {
        rcvbuf: Some(20_000),
        ..Make::new("cubic", Over::V6)
    };
    let (stalled, _reader) = pair(&path, &make);
    stalled.set_nonblocking(true).unwrap();
    let chunk = [7; 4096];
    wait_for("closed window", || {
        let _ = (&stalled).write(&chunk);
        let info = Info::of(&stalled);
        let [out, waiting, limited] = ["packets_out", "notsent_bytes", "rwnd_limited_us"]
            .map(|key| order(&info.get(key).unwrap()));
        (out == 0.0 && waiting > 0.0 && limited > 300_000.0).then_some(())
    });
    let mut rose = [0; 2];
    for round in 0..12 {
        // A new one every time: later they may settle where something else limits them.
        let sndbuf = Flow::start(&path, small);
        wait_for("flow limited by its send buffer", || {
            let limited = order(&Info::of(&sndbuf.sender).get("sndbuf_limited_us").unwrap());
            (limited > 40_000.0).then_some(())
        });
        let cases = [
            (&sndbuf.sender, "sndbuf_limited_us"),
            (&stalled, "rwnd_limited_us"),
        ];
        let before = cases.map(|(socket, _)| Info::of(socket));
        let rows = list(&path.snd, "100ms");
        let after = cases.map(|(socket, _)| Info::of(socket));
        for (at, (socket, clock)) in cases.iter().enumerate() {
            let row = row_of(&rows, cookie(socket)).unwrap();
            for key in [*clock, "busy_us"] {
                let [low, high] =
                    [&before[at], &after[at]].map(|info| order(&info.get(key).unwrap()));
                let ours = order(&row[key]);
                assert!(
                    low <= ours && ours <= high,
                    "{round} {key}: {ours} not in {low}..={high}"
                );
                if key == *clock {
                    rose[at] += u32::from(low < high);
                }
                if key == "rwnd_limited_us" {
                    // One segment that runs all the time, and the list's last look is towards its end.
                    assert!(
                        ours > low + (high - low) * 0.2,
                        "{round}: {ours} of {low}..={high}"
                    );
                }
            }
        }
        if rose.iter().all(|times| *times >= 3) {
            return;
        }
    }
    panic!("clocks rose {rose:?} times");
}

/// What a well-behaved path leaves at 0: reordering, duplicates told by the receiver, marks.
#[test]
fn an_odd_paths_counters_equal_ss() {
    needs!("ip", "ss");
    if !std::path::Path::new("/dev/net/tun").exists() {
        return common::skipped("no /dev/net/tun");
    }
    let path = OddPath::new();
    let make = Make::new("cubic", Over::V6);
    let (local, remote) = ((ODD_SND, 0).into(), (ODD_RCV, 0).into());
    let (sender, receiver) = sender::pair_between(&path.snd, local, &path.rcv, remote, &make);
    common::send(&sender, &receiver, 4_000_000);
    wait_for_rest(&[&sender, &receiver]);
    let keys = [
        "dsack_dups",
        "reord_seen",
        "reordering",
        "delivered",
        "delivered_ce",
        "ecn",
        "retrans",
        "bytes_retrans",
        "rcv_ooopack",
        "ssthresh",
        "cwnd",
        "ca_state",
    ];
    for (netns, socket) in [(&path.snd, &sender), (&path.rcv, &receiver)] {
        let rows = list(netns, "10ms");
        let row = row_of(&rows, cookie(socket)).unwrap();
        let (info, shown) = (Info::of(socket), ss(netns).sockets[&cookie(socket)].clone());
        for key in keys {
            assert_eq!(Some(&row[key]), info.get(key).as_ref(), "{key}");
            assert!(
                shown.get(key).is_none_or(|theirs| theirs == row[key]),
                "{key}"
            );
        }
        assert_eq!(row["ecn"], true);
        let wanted = if socket.peer_addr().unwrap().ip() == ODD_RCV {
            &["dsack_dups", "reord_seen", "delivered_ce"][..]
        } else {
            &["rcv_ooopack"]
        };
        for key in wanted {
            assert!(order(&row[*key]) > 0.0, "{key} is {}", row[*key]);
        }
    }
}
