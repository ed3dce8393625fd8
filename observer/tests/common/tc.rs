//! Ours against a row of `tc -s -j qdisc`: every counter and every option.

#![allow(dead_code)]

use observer::event::{Qdisc, Setting, TC_H_INGRESS, TC_H_ROOT};
use observer::units::Limit;
use serde_json::Value;

/// `8001:4` or `8001:` or `:4` as `tc` writes handles.
pub fn handle(text: &str) -> u32 {
    let (major, minor) = text.split_once(':').expect("a handle");
    let part = |text: &str| u32::from_str_radix(if text.is_empty() { "0" } else { text }, 16);
    part(major).expect("hexadecimal") << 16 | part(minor).expect("hexadecimal")
}

/// Keys of a row that are no counters of the kind's own.
const HEAD: [&str; 14] = [
    "kind",
    "handle",
    "root",
    "parent",
    "dev",
    "refcnt",
    "options",
    "bytes",
    "packets",
    "drops",
    "overlimits",
    "requeues",
    "backlog",
    "qlen",
];
/// What `tc` prints and we do not show, by kind.
const NOT_SHOWN: [(&str, &str); 11] = [
    // A moment, not a count.
    ("fq", "next_packet_delay"),
    // Sizes of packets seen.
    ("cake", "min_network_size"),
    ("cake", "max_network_size"),
    ("cake", "min_adj_size"),
    ("cake", "max_adj_size"),
    ("cake", "avg_hdr_offset"),
    ("cake", "tins"),
    // The state of its control law.
    ("codel", "drop_next"),
    ("codel", "dropping"),
    ("fq_codel", "qdisc"),
    ("", "rate"),
];

/// Panics unless all of `ours` is what `row` says, and all that `row` says is in `ours`.
pub fn assert_equal(ours: &Qdisc, row: &Value, text: &str) {
    head(ours, row);
    extra(ours, row, text);
    options(ours, &row["options"]);
}

fn head(ours: &Qdisc, row: &Value) {
    let number = |name: &str| row[name].as_u64().expect("a number");
    let parent = match row["parent"].as_str() {
        Some("ffff:fff1") => TC_H_INGRESS,
        Some(parent) => handle(parent),
        None => TC_H_ROOT,
    };
    let head = Qdisc {
        extra: std::collections::BTreeMap::new(),
        options: Vec::new(),
        ..ours.clone()
    };
    let theirs = Qdisc {
        kind: row["kind"].as_str().expect("a kind").to_owned(),
        handle: handle(row["handle"].as_str().expect("a handle")),
        parent,
        bytes: number("bytes"),
        packets: number("packets"),
        drops: number("drops"),
        overlimits: number("overlimits"),
        requeues: number("requeues"),
        backlog_bytes: number("backlog"),
        backlog_packets: number("qlen"),
        ..Qdisc::default()
    };
    assert_eq!(head, theirs, "{row}");
}

/// The kind's own numbers.
fn extra(ours: &Qdisc, row: &Value, text: &str) {
    for (name, &value) in &ours.extra {
        let (kind, name) = (ours.kind.as_str(), name.as_str());
        let theirs = match (kind, name) {
            // JSON has `throttled` twice; the text has this one before the others.
            ("fq", "throttled_flows") => after(text, " throttled "),
            ("htb", "direct_packets_stat") => row["options"][name].as_u64(),
            ("pie", "prob") => {
                let theirs = row[name].as_f64().expect("a share");
                let share = value as f64 / u64::MAX as f64;
                assert!((share - theirs).abs() < 1e-6, "{share} {theirs}");
                continue;
            }
            ("cake", name) if row[name].is_null() => Some(tins(row, name)),
            _ => row[name].as_u64(),
        };
        // What is 0 is often left out by `tc`.
        assert_eq!(value, theirs.unwrap_or(0), "{kind} {name}: {row}");
    }
    for (name, value) in row.as_object().expect("an object") {
        let known = HEAD.contains(&name.as_str())
            || ours.extra.contains_key(name)
            // `tc` prints 0 for what an older kernel does not tell.
            || (ours.kind == "fq" && name.starts_with("band") && *value == 0)
            || NOT_SHOWN
                .iter()
                .any(|(kind, not)| (kind.is_empty() || *kind == ours.kind) && not == name);
        assert!(known, "{} has {name}={value}, not read", ours.kind);
    }
}

fn tins(row: &Value, name: &str) -> u64 {
    let tins = row["tins"].as_array().expect("tins");
    tins.iter()
        .map(|tin| tin[name].as_u64().expect("a number"))
        .sum()
}

/// The number that follows the first `words` in a text.
fn after(text: &str, words: &str) -> Option<u64> {
    let rest = &text[text.find(words)? + words.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

fn options(ours: &Qdisc, theirs: &Value) {
    let kind = &ours.kind;
    for (name, setting) in &ours.options {
        // Some keys of `tc` end in a blank.
        let there = match &theirs[name.as_str()] {
            Value::Null => &theirs[format!("{name} ")],
            there => there,
        };
        let what = format!("{kind} {name} {setting:?}: {theirs}");
        match setting {
            // Reckoned back from a time, which `tc` before 6.12 cuts to whole microseconds.
            Setting::Bytes(n) if matches!(name.as_str(), "burst" | "minburst") => {
                let Some(Setting::Rate(Limit::Finite(rate))) = ours.option("rate") else {
                    panic!("{what}");
                };
                let theirs = there.as_u64().expect("a size");
                let microsecond = 4 * rate / 1_000_000 + 1;
                assert!(n.abs_diff(theirs) <= microsecond, "{what}");
            }
            // Not in JSON.
            Setting::Rate(_) if name == "peakrate" && there.is_null() => {}
            Setting::Count(n) | Setting::Packets(n) | Setting::Bytes(n) => match there.as_u64() {
                Some(theirs) => assert_eq!(*n, theirs, "{what}"),
                None => assert!(left_out(kind, name, *n), "{what}"),
            },
            Setting::Rate(Limit::Finite(rate)) => {
                let there = if there.is_object() {
                    &there["rate"]
                } else {
                    there
                };
                assert_eq!(Some(*rate), there.as_u64(), "{what}");
            }
            Setting::Rate(Limit::Unlimited) => {
                assert!(there.is_null() || there == "unlimited", "{what}");
            }
            Setting::Nanoseconds(ns) => nanoseconds(*ns, name, theirs, &what),
            Setting::Share(share) => {
                let there = if there.is_null() {
                    &theirs[format!("{name}-random")]
                } else {
                    there
                };
                let theirs = there[name.as_str()].as_f64().expect("a share");
                let share = f64::from(*share) / f64::from(u32::MAX);
                assert!((share - theirs).abs() < 1e-6, "{what}");
            }
            Setting::Signed(n) => assert_eq!(Some(*n), there.as_i64(), "{what}"),
            Setting::Flag(on) => assert_eq!(*on, flag(name, theirs), "{what}"),
            Setting::Word(word) => match there.as_array() {
                Some(list) => {
                    let list: Vec<String> = list.iter().map(Value::to_string).collect();
                    assert_eq!(*word, list.join(" "), "{what}");
                }
                None => assert_eq!(there.as_str(), Some(word.as_str()), "{what}"),
            },
        }
    }
    complete(ours, theirs);
}

/// `tc` does not print these, or this value of them.
fn left_out(kind: &str, name: &str, value: u64) -> bool {
    matches!(
        (kind, name, value),
        ("tbf", "limit", _) | ("fq_codel", "drop_batch", _) | ("htb", "direct_qlen", _)
    )
}

fn nanoseconds(ns: u64, name: &str, theirs: &Value, what: &str) {
    if matches!(name, "delay" | "jitter") {
        // In seconds, as text has it.
        let theirs = theirs["delay"][name].as_f64().expect("seconds");
        assert!((ns as f64 / 1e9 - theirs).abs() < 1e-9, "{what}");
        return;
    }
    let unit = match name {
        "timer_slack" => 1,
        "perturb" => 1_000_000_000,
        _ => 1000,
    };
    match theirs[name].as_u64() {
        Some(theirs) => assert_eq!(ns, theirs * unit, "{what}"),
        // Newer than this `tc`.
        None => assert!(name == "offload_horizon", "{what}"),
    }
}

/// `tc` writes a flag that is set as `true` or `null`, and leaves it out otherwise; save for `pacing`.
fn flag(name: &str, theirs: &Value) -> bool {
    let found = theirs.get(name);
    match name {
        "pacing" => found.is_none(),
        _ => found.is_some_and(|value| *value != false),
    }
}

/// All that `tc` says of the options is among ours.
fn complete(ours: &Qdisc, theirs: &Value) {
    // A moment of our `horizon_drop`, `peakrate`'s latency, what a later one says.
    const NOT_SHOWN: [&str; 16] = [
        "horizon_cap",
        "lat",
        "latency",
        "direct_packets_stat",
        "bands",
        "priomap",
        "ver",
        "fwmark",
        "mpu",
        "loss-random",
        "multiqueue",
        "queues",
        "mode",
        "shaper",
        "ce_threshold_selector",
        "seed",
    ];
    let Some(theirs) = theirs.as_object() else {
        return;
    };
    for (name, value) in theirs {
        let name = name.trim_end();
        let known = *value == false || ours.option(name).is_some() || NOT_SHOWN.contains(&name);
        assert!(known, "{} option {name}={value} is not read", ours.kind);
    }
}
