//! Filters against `ss`: two hundred made up of its words, over flows of many kinds, show the flows that `ss` shows. And
//! what `ss` does not know: processes, namespaces, and what is said where a fact is not to be had.

mod common;
#[path = "common/mixture.rs"]
mod mixture;

use std::collections::BTreeSet;
use std::process::{Command, Output};

use common::{Netns, needs, try_run};
use mixture::{DEV, Dice, Mixture, filter};
use observer::filter::{Facts, Filter};
use observer::model::Model;
use observer::source::facts::Wanted;
use observer::source::snapshot::snapshot;
use serde_json::Value;

const OBSERVER: &str = env!("CARGO_BIN_EXE_observer");
/// Of the filters; any will do.
const SEED: u64 = 0x6f62_7365_7276_6572;
const FILTERS: usize = 200;
/// How many of them are also given to the program.
const BY_THE_PROGRAM: usize = 20;

/// Cookies of the flows that `ss` shows; sockets of groups (`state all`) that are no flows left out.
fn by_ss(netns: &Netns, filter: &str) -> Result<BTreeSet<u64>, String> {
    // Not by `ip netns exec`, which mounts another /sys: `cgroup` needs ours.
    let text = netns.enter(|| try_run("ss", &format!("-tnHOe {filter}")))?;
    let no_flow = ["LISTEN", "TIME-WAIT", "SYN-RECV", "UNCONN"];
    let lines = text
        .lines()
        .filter(|line| !no_flow.iter().any(|state| line.starts_with(state)));
    let cookie = |line: &str| {
        let word = line.split_whitespace().find_map(|w| w.strip_prefix("sk:"));
        u64::from_str_radix(word.unwrap_or_else(|| panic!("no cookie: {line}")), 16).unwrap()
    };
    Ok(lines.map(cookie).collect())
}

fn folded(netns: &Netns) -> Model {
    let mut model = Model::default();
    let events = snapshot(&[netns.namespace()], Wanted::ALL).expect("a snapshot");
    for event in &events {
        model.apply(event);
    }
    assert_eq!(model.degraded(), []);
    model
}

fn by_library(model: &Model, filter: &Filter) -> BTreeSet<u64> {
    let shown = model
        .flows()
        .filter(|flow| filter.matches(&Facts::of(model, flow)));
    shown.map(|flow| flow.id().cookie).collect()
}

fn observer(arguments: &str) -> Output {
    Command::new(OBSERVER)
        .args(arguments.split_whitespace())
        .output()
        .expect("the program starts")
}

/// Rows of a list, and what it said beside.
fn rows(output: &Output) -> (Vec<Value>, String) {
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{message}");
    let lines = String::from_utf8_lossy(&output.stdout);
    let rows = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    (rows.collect(), message)
}

fn cookies(rows: &[Value]) -> BTreeSet<u64> {
    let cookie = |row: &Value| row["flow"]["cookie"].as_u64().unwrap();
    rows.iter().map(cookie).collect()
}

fn by_program(netns: &Netns, filter: &str) -> BTreeSet<u64> {
    let arguments = format!("list --json --window 0 -N {} {filter}", netns.name);
    cookies(&rows(&observer(&arguments)).0)
}

#[test]
fn the_flows_shown_are_those_of_ss() {
    needs!("ip", "ss");
    let mixture = Mixture::new();
    let netns = &mixture.near;
    let model = folded(netns);
    let all = by_ss(netns, "").expect("ss");
    assert!(all.len() >= 50, "{} flows", all.len());
    let states: BTreeSet<&str> = model.flows().map(|flow| flow.state().as_str()).collect();
    assert_eq!(
        states.into_iter().collect::<Vec<_>>(),
        [
            "CLOSE-WAIT",
            "ESTAB",
            "FIN-WAIT-1",
            "FIN-WAIT-2",
            "LAST-ACK",
            "SYN-SENT"
        ]
    );
    let mut dice = Dice(SEED);
    let mut telling = 0;
    let mut wrong = Vec::new();
    for number in 0..FILTERS {
        let text = filter(&mut dice, mixture.cgroup.as_deref());
        let parsed = Filter::parse_str(&text).unwrap_or_else(|error| panic!("{number}: {error}"));
        let theirs = by_ss(netns, &text).unwrap_or_else(|error| panic!("{number}: {error}"));
        let ours = by_library(&model, &parsed);
        telling += usize::from(!theirs.is_empty() && theirs != all);
        if ours != theirs {
            let name = |cookies: Vec<u64>| -> Vec<String> {
                let flow = |cookie| {
                    let flow = model.flows().find(|flow| flow.id().cookie == cookie);
                    flow.map_or_else(
                        || "?".to_owned(),
                        |f| format!("{} {} {}", f.state().as_str(), f.local(), f.remote()),
                    )
                };
                cookies.into_iter().map(flow).collect()
            };
            wrong.push(format!(
                "{number}: {text}\n  only ours: {:?}\n  only of ss: {:?}",
                name(ours.difference(&theirs).copied().collect()),
                name(theirs.difference(&ours).copied().collect())
            ));
        }
        if number % (FILTERS / BY_THE_PROGRAM) == 0 {
            assert_eq!(by_program(netns, &text), theirs, "{number}: {text}");
        }
    }
    assert_eq!(by_ss(netns, "").expect("ss"), all, "the flows stood still");
    assert!(
        wrong.is_empty(),
        "seed {SEED:#x}, {} of {FILTERS}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(telling * 2 > FILTERS, "{telling} of {FILTERS} chose some");
}

/// Where ours means something else, as the documentation of `observer::filter` says.
#[test]
fn what_differs_from_ss_differs_as_written() {
    needs!("ip", "ss");
    let mixture = Mixture::new();
    let netns = &mixture.near;
    let model = folded(netns);
    let ours = |text: &str| by_library(&model, &Filter::parse_str(text).expect(text));
    let theirs = |text: &str| by_ss(netns, text).expect(text);

    // The device a flow leaves by, where ss knows the one it was bound to.
    assert_eq!(theirs("dev v"), BTreeSet::new());
    let routed = ours("dev v");
    assert!(routed.len() > 30);
    let over = |net: &str| ours(&format!("src {net}"));
    assert!(over("10.7.0.0/24").is_subset(&routed));
    assert!(over("127.0.0.0/8").is_subset(&ours("dev lo")));
    assert_eq!(ours(&format!("dev {DEV}")), theirs(&format!("dev {DEV}")));

    // v4-mapped is IPv4.
    let mapped = theirs("dst [::ffff:0.0.0.0/96]");
    assert!(!mapped.is_empty());
    assert_eq!(ours("dst [::ffff:0.0.0.0/96]"), theirs("dst 0.0.0.0/0"));
    assert!(mapped.is_subset(&theirs("dst [::/0]")));
    assert!(mapped.is_disjoint(&ours("dst [::/0]")));

    // Addresses of one family are never in a prefix of the other.
    let v6 = ours("src [::/0]");
    assert!(!v6.is_empty());
    assert_eq!(ours("not src 0.0.0.0/0"), v6);
    assert_eq!(theirs("not src 0.0.0.0/0"), BTreeSet::new());
    assert!(v6.is_disjoint(&theirs("src 0.0.0.0/0")));

    // What is no flow.
    for state in ["listening", "time-wait"] {
        let text = netns.run("ss", &format!("-tnHO state {state}"));
        assert!(!text.is_empty(), "ss has some in {state}");
        let error = Filter::parse_str(&format!("state {state}")).expect_err(state);
        assert!(error.message.contains("is no flow"), "{error}");
        for group in ["all", "connected"] {
            let text = format!("state {group}");
            assert_eq!(ours(&text), theirs(&text));
        }
    }
}

#[test]
fn a_plain_list_looks_up_what_is_asked_for() {
    needs!("ip", "ss");
    let mixture = Mixture::new();
    let netns = &mixture.near;
    let all = by_ss(netns, "").expect("ss");
    let own = std::process::id();
    let comm = std::fs::read_to_string("/proc/self/comm").expect("comm");
    let comm = comm.trim_end();
    let shown = |filter: &str| by_program(netns, filter);
    // This process made and holds them all.
    assert_eq!(shown(&format!("pid {own}")), all);
    assert_eq!(shown(&format!("comm {comm}")), all);
    assert_eq!(shown("pid 1"), BTreeSet::new());
    assert_eq!(shown("not pid 1"), all);
    // Several names, the inode number, and others.
    assert_eq!(shown(&format!("netns {}", netns.name)), all);
    assert_eq!(shown(&format!("netns {}", netns.inum())), all);
    let far = &mixture.far;
    assert_eq!(shown(&format!("not netns {}", far.name)), all);
    assert_eq!(shown(&format!("netns {}", far.inum())), BTreeSet::new());
    // Devices by name and by index, also as a flag, also while polling.
    let bound = by_ss(netns, &format!("dev {DEV}")).expect("ss");
    assert!(!bound.is_empty());
    assert_eq!(shown(&format!("dev {DEV}")), bound);
    assert_eq!(shown(&format!("--dev {DEV}")), bound);
    assert_eq!(shown(&format!("not dev {DEV}")), &all - &bound);
    let polled = format!(
        "list --json --source diag --window 50ms -N {} dev {DEV} pid {own}",
        netns.name
    );
    let (rows, _) = rows(&observer(&polled));
    assert_eq!(cookies(&rows), bound);
    for row in &rows {
        assert_eq!((&row["source"], &row["dev"]), (&"diag".into(), &DEV.into()));
        assert_eq!(row["processes"][0]["pid"], own);
        assert_eq!(row["qdisc"]["kind"], "noqueue", "{row}");
    }
    if let Some(cgroup) = &mixture.cgroup {
        let inside = by_ss(netns, &format!("cgroup {cgroup}")).expect("ss");
        assert!(!inside.is_empty() && inside != all);
        assert_eq!(shown(&format!("cgroup {cgroup}")), inside);
        assert_eq!(shown(&format!("not cgroup {cgroup}")), &all - &inside);
    }
}

/// A user who may not look into others' processes is told how many flows that costs.
#[test]
fn what_cannot_be_known_is_counted_and_told() {
    needs!("ip", "setpriv");
    let (near, far) = (Netns::new(), Netns::new());
    common::veth(&near, "10.7.0.1", &far, "10.7.0.2");
    let (_client, _server) = common::connect(&near, &far, "10.7.0.2");
    let place = tempfile::Builder::new()
        .prefix("observer-")
        .tempdir()
        .expect("a directory");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.path(), open).expect("opened");
    let copy = place.path().join("observer");
    std::fs::copy(OBSERVER, &copy).expect("copied");
    let as_nobody = |filter: &str| {
        let words = format!(
            "netns exec {} setpriv --reuid=65534 --regid=65534 --clear-groups {} list --json --window 0 {filter}",
            near.name,
            copy.display()
        );
        Command::new("ip")
            .args(words.split_whitespace())
            .output()
            .expect("ip runs")
    };
    for filter in ["comm observer", "not comm observer", "pid 1 or pid != 1"] {
        let (rows, message) = rows(&as_nobody(filter));
        assert_eq!(rows, Vec::<Value>::new());
        assert!(
            message.contains("1 flow left out") && message.contains("CAP_SYS_PTRACE"),
            "{filter}: {message}"
        );
    }
    // What decides without the owner is shown, and what is not asked for is not missed.
    for filter in ["comm observer or dst 10.7.0.2", "dev v", "dst 10.7.0.2", ""] {
        let (rows, message) = rows(&as_nobody(filter));
        assert_eq!(rows.len(), 1, "{filter}: {message}");
        assert!(!message.contains("left out"), "{filter}: {message}");
    }
    // A device that no route leads to any more is not known, whichever is asked for.
    near.run("ip", "route del 10.7.0.0/24");
    assert!(try_run("ip", &format!("-n {} route get 10.7.0.2", near.name)).is_err());
    for filter in ["dev v", "dev != v", "--dev v"] {
        let arguments = format!("list --json --window 0 -N {} {filter}", near.name);
        let (rows, message) = rows(&observer(&arguments));
        assert_eq!(rows, Vec::<Value>::new());
        assert!(
            message.contains("1 flow left out, not known: device"),
            "{filter}: {message}"
        );
    }
}
