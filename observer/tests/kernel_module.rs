//! BBR as a module: absent, loaded after the start (noticed within a second), unloaded and loaded again while observed.

mod common;
#[path = "common/sender.rs"]
mod sender;
#[path = "common/ss.rs"]
mod ss;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Netns, needs, run, skipped, try_run, veth, wait_for};
use sender::{Flow, Make, Over, Stream, list, pair_between, row_of};
use serde_json::Value;

const HERE: &str = "10.84.0.1";
const THERE: &str = "10.84.0.2";

fn available() -> String {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("readable")
}

fn has_bbr() -> bool {
    available().split_whitespace().any(|name| name == "bbr")
}

fn loaded() -> bool {
    Path::new("/sys/module/tcp_bbr/initstate").exists()
}

/// Why nothing can be loaded and unloaded here.
fn unfit() -> Option<&'static str> {
    if has_bbr() && !loaded() {
        return Some("bbr is built into this kernel");
    }
    (!loaded() && try_run("modprobe", "-n tcp_bbr").is_err()).then_some("no module tcp_bbr here")
}

fn flow(a: &Netns, b: &Netns, cc: &'static str) -> Flow {
    let at = |ip: &str| (ip.parse::<std::net::IpAddr>().expect("an address"), 0).into();
    let make = Make::new(cc, Over::V4);
    let (sender, receiver) = pair_between(a, at(HERE), b, at(THERE), &make);
    Flow::over(make, sender, receiver)
}

/// What the doctor says of BBR.
fn doctor() -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_observer"));
    let output = command.args(["doctor", "--json", "-t", "0.2"]).output();
    let text = String::from_utf8(output.expect("it runs").stdout).expect("text");
    let mut lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.find(|line| line["kind"] == "module").expect("a need")
}

/// The first sample of a flow that says which BBR it runs, with its time after the flow's first line.
fn told(stream: &Stream, flow: &Flow) -> (Value, u64) {
    let [cookie, _] = flow.cookies();
    let first = stream.wait_line("the flow", |line| line["flow"]["cookie"] == cookie);
    let sample = stream.wait_line("its BBR", |line| {
        line["type"] == "sample"
            && line["flow"]["cookie"] == cookie
            && line["cc"]["version"] == "v1"
    });
    let ns = |line: &Value| line["mono_ns"].as_u64().expect("a time");
    let after = ns(&sample).saturating_sub(ns(&first));
    (sample, after)
}

#[test]
fn bbr_comes_and_goes_while_it_is_observed() {
    needs!("ip", "modprobe", "rmmod");
    if let Some(why) = unfit() {
        return skipped(why);
    }
    let unload = || wait_for("bbr without users", || try_run("rmmod", "tcp_bbr").ok());
    if loaded() {
        unload();
    }
    let absent = doctor();
    assert_eq!(
        (&absent["state"], &absent["level"]),
        (&"missing".into(), &"info".into()),
        "{absent}"
    );
    let (a, b) = (Netns::new(), Netns::new());
    veth(&a, HERE, &b, THERE);
    a.run(
        "tc",
        "qdisc replace dev v root tbf rate 20mbit burst 10kb limit 60000",
    );
    let cubic = flow(&a, &b, "cubic");
    let [cubics, _] = cubic.cookies();
    let stream = Stream::start(&a, "");
    stream.wait_line("the flow of before", |line| {
        line["flow"]["cookie"] == cubics
    });

    run("modprobe", "tcp_bbr");
    let bbr = flow(&a, &b, "bbr");
    let (sample, after) = told(&stream, &bbr);
    assert!(after < 1_000_000_000, "noticed after {after} ns: {sample}");
    assert!(sample["cc"]["phase"].is_string(), "{sample}");
    let found = doctor();
    assert_eq!(found["state"], "found", "{found}");

    drop(bbr);
    unload();
    assert!(!has_bbr());
    let seen = stream.count();
    wait_for("samples of the other flow", || {
        let lines = stream.since(seen);
        let of = |line: &&Value| line["type"] == "sample" && line["flow"]["cookie"] == cubics;
        (lines.iter().filter(of).count() > 3).then_some(())
    });

    // Most likely at another address.
    run("modprobe", "tcp_bbr");
    let again = flow(&a, &b, "bbr");
    told(&stream, &again);
    // A start with it loaded.
    let rows = list(&a, "500ms");
    let row = row_of(&rows, again.cookies()[0]).expect("its row");
    assert_eq!(row["cc"]["version"], "v1", "{row}");
    stream.finish();
}
