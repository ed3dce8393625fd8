//! The two sources against each other: the same flows at the same time by the kernel programs and by polling socket-diag.
//!
//! In motion what a look tells lies among what the programs read at the ACKs around it; at rest the two say the same,
//! and what polling does not tell is exactly what is written here.

mod common;
#[path = "common/sender.rs"]
mod sender;
#[path = "common/ss.rs"]
mod ss;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::time::Duration;

use common::{needs, wait_for};
use observer::export::jsonl::{Context, flow_object};
use observer::host::netns::Namespace;
use observer::kernel::clock;
use observer::model::Model;
use observer::source::facts::Wanted;
use observer::source::snapshot::snapshot;
use sender::{Flow, Loop, Make, Over, Path, Stream, list, row_of, wait_for_rest};
use serde_json::Value;
use ss::{order, ours};

/// A look that took longer has too many samples around it to compare with.
const LONGEST_NS: u64 = 20_000_000;
/// Polls needed of each flow.
const POLLS: usize = 12;

/// Both sources' samples of a flow, in the order of time.
#[derive(Debug, Default)]
struct Samples {
    ebpf: Vec<(u64, Value)>,
    diag: Vec<(u64, Value)>,
    /// Rows of single looks, with the time before and after each.
    looks: Vec<(u64, u64, Value)>,
}

/// One look, and the rows it makes.
fn look(namespace: &Namespace) -> (u64, u64, Vec<Value>) {
    let begun = clock::now().0;
    let events = snapshot(std::slice::from_ref(namespace), Wanted::default()).expect("a snapshot");
    let ended = clock::now().0;
    let mut model = Model::default();
    for event in &events {
        model.apply(event);
    }
    let context = Context::default();
    let row = |flow| serde_json::to_value(flow_object(&model, flow, &context)).expect("a row");
    (begun, ended, model.flows().map(row).collect())
}

#[derive(Debug)]
struct Run {
    /// Of the senders, by cookie: algorithm and family, samples.
    moving: BTreeMap<u64, (String, Samples)>,
    /// At rest, of both ends: the row of the programs, the polled one.
    standing: Vec<(String, Value, Value)>,
}

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

fn perform() -> Run {
    let path = Path::new("50mbit", "300000");
    let makes = [
        Make::new("cubic", Over::V4),
        Make::new("bbr", Over::V4),
        Make::new("reno", Over::V4),
        Make::new("cubic", Over::V6),
        Make::new("bbr", Over::V6),
        Make::new("reno", Over::Mapped),
        Make::new("bbr", Over::Mapped),
    ];
    let flows = makes.map(|make| Flow::start(&path, make));
    let mut moving: BTreeMap<u64, (String, Samples)> = flows
        .iter()
        .map(|flow| {
            let name = format!("{} {:?}", flow.make.cc, flow.make.over);
            (flow.cookies()[0], (name, Samples::default()))
        })
        .collect();
    let ebpf = Stream::start(&path.snd, "--source ebpf --interval 0");
    let diag = Stream::start(&path.snd, "--source diag");
    let namespace = path.snd.namespace();
    let looks = Loop::start(Duration::from_millis(50), move || look(&namespace));
    wait_for("polls", || {
        let (samples, _) = diag.count_of(0, "\"type\":\"sample\"");
        (samples >= POLLS * moving.len()).then_some(())
    });
    // What the programs saw after the last poll.
    let (seen, at) = ebpf.count_of(0, "\"cause\":\"ack\"");
    assert!(seen > 0, "samples at ACKs");
    wait_for("ACKs after the polls", || {
        (ebpf.count_of(at, "\"cause\":\"ack\"").0 > 200).then_some(())
    });
    let looks = looks.finish();
    let polled = diag.finish_with(&["\"type\":\"sample\""]);
    let hooked = ebpf.finish_with(&["\"type\":\"sample\""]);
    for (lines, is_polled) in [(polled, true), (hooked, false)] {
        for line in lines {
            let cookie = line["flow"]["cookie"].as_u64().expect("a cookie");
            let time = line["mono_ns"].as_u64().expect("a time");
            assert_eq!(line["source"], if is_polled { "diag" } else { "ebpf" });
            let (_, samples) = moving.get_mut(&cookie).expect("only our flows");
            let its = if is_polled {
                &mut samples.diag
            } else {
                &mut samples.ebpf
            };
            its.push((time, line));
        }
    }
    for (begun, ended, rows) in looks {
        for row in rows {
            let (_, samples) = moving
                .get_mut(&row["flow"]["cookie"].as_u64().expect("a cookie"))
                .expect("ours");
            samples.looks.push((begun, ended, row));
        }
    }
    for flow in &flows {
        flow.pause();
    }
    Run {
        moving,
        standing: at_rest(&path, &flows),
    }
}

/// Rows of both ends by both sources, with nothing happening between.
fn at_rest(path: &Path, flows: &[Flow]) -> Vec<(String, Value, Value)> {
    let sockets: Vec<_> = flows
        .iter()
        .flat_map(|flow| [&flow.sender, &flow.receiver])
        .collect();
    wait_for_rest(&sockets);
    let rows = |source: &str| {
        // Long enough for a second sweep on a busy machine: without one no rate is known.
        let window = format!("300ms --source {source}");
        let mut rows = list(&path.snd, &window);
        rows.extend(list(&path.rcv, &window));
        rows
    };
    let (hooked, polled) = (rows("ebpf"), rows("diag"));
    let row = |rows: &[Value], cookie| row_of(rows, cookie).expect("in the list").clone();
    let ends = flows.iter().flat_map(|flow| {
        let name = format!("{} {:?}", flow.make.cc, flow.make.over);
        let [sender, receiver] = flow.cookies();
        [
            (format!("sender {name}"), sender),
            (format!("receiver {name}"), receiver),
        ]
    });
    ends.map(|(name, cookie)| (name, row(&hooked, cookie), row(&polled, cookie)))
        .collect()
}

/// The programs' samples while a look went on and `margin` nanoseconds around it, and two on each side.
fn around(samples: &Samples, begun: u64, ended: u64, margin: u64) -> Option<&[(u64, Value)]> {
    let before = |at: u64| samples.ebpf.partition_point(|(time, _)| *time < at);
    let first = before(begun.saturating_sub(margin)).checked_sub(2)?;
    samples.ebpf.get(first..before(ended + margin) + 2)
}

/// The algorithm's own state is read every 10 ms, whatever the interval.
const CC_MARGIN_NS: u64 = 20_000_000;

/// A total is between what the programs read before the poll and after it, always. The last sure moment before it is that
/// of the poll before.
fn total(key: &str) {
    let (mut judged, mut rose) = (0, 0);
    for (name, samples) in run().moving.values() {
        for polls in samples.diag.windows(2) {
            let [(since, _), (time, line)] = polls else {
                continue;
            };
            let before = samples.ebpf.partition_point(|(at, _)| at <= since);
            let after = samples.ebpf.partition_point(|(at, _)| at < time);
            let (Some(before), Some((_, after))) = (before.checked_sub(1), samples.ebpf.get(after))
            else {
                continue;
            };
            let [low, at, high] =
                [&samples.ebpf[before].1, line, after].map(|row| order(ours(row, key)));
            assert!(low >= 0.0, "{name} {key} is unknown");
            assert!(
                low <= at && at <= high,
                "{name} {key}: {at} not in {low}..={high}"
            );
            judged += 1;
            rose += usize::from(low < high);
        }
    }
    eprintln!("{key}: {judged}, rose {rose} times");
    assert!(judged >= POLLS * 4, "{key}: {judged} polls only");
    let may_stand = ["sndbuf_limited_us", "rwnd_limited_us"];
    assert!(rose > 0 || may_stand.contains(&key), "{key} never rose");
}

/// Between two ACKs, when nobody but a poll reads, some of what was acknowledged is not yet replaced, or more is sent.
fn slack(key: &str) -> f64 {
    match key {
        "inflight" | "packets_out" => 4.0,
        "wmem_queued_bytes" => 4.0 * 4096.0,
        // One write of the application.
        "notsent_bytes" => 32.0 * 1024.0,
        _ => 0.0,
    }
}

/// A level lies among those around it, 19 times of 20.
fn level(key: &str) {
    let (mut judged, mut within) = (0u32, 0u32);
    let mut wrong = Vec::new();
    let margin = if key.starts_with("cc.") {
        CC_MARGIN_NS
    } else {
        0
    };
    for (name, samples) in run().moving.values() {
        if key.starts_with("cc.") && !name.starts_with("bbr") {
            continue;
        }
        for (begun, ended, line) in &samples.looks {
            assert_eq!(line["source"], "diag");
            let near =
                around(samples, *begun, *ended, margin).filter(|_| ended - begun < LONGEST_NS);
            let Some(near) = near else {
                continue;
            };
            let values = near.iter().map(|(_, row)| order(ours(row, key)));
            let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| {
                (low.min(at), high.max(at))
            });
            let at = order(ours(line, key));
            judged += 1;
            if low - slack(key) <= at && at <= high + slack(key) {
                within += 1;
            } else {
                wrong.push(format!("{name}: {at} not in {low}..={high}"));
            }
        }
    }
    eprintln!("{key}: {within} of {judged}");
    assert!(judged >= 20, "{key}: {judged} polls only");
    wrong.truncate(20);
    assert!(
        f64::from(within) >= 0.95 * f64::from(judged),
        "{key}: {within} of {judged}\n{}",
        wrong.join("\n")
    );
}

/// A test per field.
macro_rules! fields {
    ($module:ident: $check:ident; $($name:ident = $key:literal)*) => {
        mod $module {
            use super::*;
            $(
                #[test]
                fn $name() {
                    needs!("ip", "tc");
                    $check($key);
                }
            )*
        }
    };
}

fields! { total_lies_between_the_programs_readings: total;
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

fields! { level_lies_among_the_programs_readings: level;
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

/// What the programs tell and polling does not. `observer::source::diag::MISSING` says it in words.
const MISSING: &[&str] = &[
    "cc.module",
    "cc.version",
    "cc.phase",
    "cc.sub_phase",
    "cc.full_bw_reached",
    "cc.lt_use_bw",
    "cc.lt_bw_bps",
    "cc.extra_acked",
    "cc.last_max_cwnd",
    "cc.last_cwnd",
    "cc.origin_point",
    "cc.k",
    "cc.delay_min_us",
    "cc.hystart_found",
    "rtt_us",
    "lost_total",
    "cwnd_limited",
    "pacing_status",
    "max_window_bytes",
    "snd_una",
    "snd_nxt",
    "write_seq",
    "rcv_nxt",
    "cwnd_clamp",
    "mss_clamp",
    "user_mss",
    "user_locks",
    "notsent_lowat",
    "retrans_by_kind.fast",
    "retrans_by_kind.rto",
    "retrans_by_kind.slow_start",
    "retrans_by_kind.tlp",
    "retrans_by_kind.syn",
    "retrans_by_kind.synack",
    "retrans_by_kind.other",
    "retrans_failed",
    "gaps",
];

/// Of the moment of reading, not of the flow.
const OF_THE_READING: &[&str] = &[
    "time",
    "mono_ns",
    "source",
    "sample_age_us",
    "opened_mono_ns",
    "measured_us",
    "limit_shares",
    "limit",
];

/// Every value of an object by its path; what is unknown left out.
fn flat(prefix: &str, value: &Value, out: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if prefix.is_empty() {
                    key.clone()
                } else {
                    format!("{prefix}.{key}")
                };
                if !OF_THE_READING.contains(&path.as_str()) {
                    flat(&path, value, out);
                }
            }
        }
        Value::Null => {}
        known => {
            out.insert(prefix.to_owned(), known.clone());
        }
    }
}

#[test]
fn at_rest_every_key_is_equal_or_known_to_be_missing() {
    needs!("ip", "tc");
    let run = run();
    assert_eq!(run.standing.len(), 14);
    let mut missing = BTreeSet::new();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (name, hooked, polled) in &run.standing {
        assert_eq!(
            (&hooked["source"], &polled["source"]),
            (&"ebpf".into(), &"diag".into())
        );
        let [hooked, polled] = [hooked, polled].map(|row| {
            let mut all = BTreeMap::new();
            flat("", row, &mut all);
            all
        });
        for (key, value) in &polled {
            compared += 1;
            if hooked.get(key) != Some(value) {
                wrong.push(format!(
                    "{name} {key}: polled {value}, programs {:?}",
                    hooked.get(key)
                ));
            }
        }
        missing.extend(hooked.into_keys().filter(|key| !polled.contains_key(key)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 14 * 50, "{compared} values only");
    // Some stand only where an algorithm or a socket has them.
    let unwritten: Vec<_> = missing
        .iter()
        .filter(|key| !MISSING.contains(&key.as_str()))
        .collect();
    assert_eq!(unwritten, Vec::<&String>::new());
    for key in [
        "rtt_us",
        "lost_total",
        "gaps",
        "cc.phase",
        "cc.version",
        "snd_una",
    ] {
        assert!(missing.contains(key), "{key} is told by polling");
    }
}

#[test]
fn bbr_is_told_by_both() {
    needs!("ip", "tc");
    let mut told = 0;
    for (name, samples) in run().moving.values() {
        for (_, line) in samples.diag.iter().chain(&samples.ebpf) {
            let bandwidth = &line["cc"]["btlbw_bps"];
            if name.starts_with("bbr") {
                told += usize::from(bandwidth.is_u64());
            } else {
                assert!(bandwidth.is_null(), "{name}: {line}");
            }
        }
        let last = samples.diag.last().expect("polled");
        assert_eq!(
            last.1["cc"]["btlbw_bps"].is_u64(),
            name.starts_with("bbr"),
            "{name}"
        );
        // Polling cannot tell BBRv1's phase: unknown, not made up.
        assert!(
            samples
                .diag
                .iter()
                .all(|(_, line)| line["cc"]["phase"].is_null())
        );
    }
    assert!(told >= POLLS * 3);
}
