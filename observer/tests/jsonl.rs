//! Lines as SPEC §4 promises them.

use std::sync::Arc;

use observer::export::jsonl::{Context, Namer, derived_line, event_line, flow_object};
use observer::model::Model;
use observer::source::script;
use serde_json::Value;

/// The flow object's keys as SPEC §4 lists them.
const KEYS: &[&str] = &[
    "schema",
    "type",
    "time",
    "mono_ns",
    "source",
    "sample_age_us",
    "flow",
    "flow.id",
    "flow.cookie",
    "flow.netns",
    "flow.family",
    "flow.local",
    "flow.remote",
    "state",
    "processes",
    "cgroup",
    "dev",
    "cc",
    "cc.name",
    "cc.version",
    "cc.phase",
    "cc.sub_phase",
    "cc.btlbw_bps",
    "cc.min_rtt_us",
    "cc.pacing_gain",
    "cc.cwnd_gain",
    "cc.lt_bw_bps",
    "cc.inflight_hi",
    "cc.inflight_lo",
    "cc.bw_hi_bps",
    "cc.bw_lo_bps",
    "qdisc",
    "qdisc.kind",
    "qdisc.handle",
    "qdisc.drops",
    "qdisc.backlog_bytes",
    "cwnd",
    "cwnd_bytes",
    "ssthresh",
    "mss",
    "inflight_bytes",
    "notsent_bytes",
    "rtt_us",
    "srtt_us",
    "rttvar_us",
    "min_rtt_us",
    "rto_us",
    "ca_state",
    "pacing_rate_bps",
    "max_pacing_rate_bps",
    "delivery_rate_bps",
    "app_limited",
    "btlbw_bps",
    "btlbw_estimated",
    "bytes_sent",
    "bytes_acked",
    "bytes_retrans",
    "bytes_received",
    "segs_out",
    "data_segs_out",
    "retrans",
    "retrans_out",
    "lost",
    "lost_total",
    "sacked",
    "dsack_dups",
    "reord_seen",
    "delivered",
    "delivered_ce",
    "snd_wnd_bytes",
    "rcv_wnd_bytes",
    "busy_us",
    "rwnd_limited_us",
    "sndbuf_limited_us",
    "throughput_bps",
    "retrans_rate",
    "bdp_bytes",
    "bdp_fill",
    "limit",
    "verdict",
];

/// Keys that hold a quantity of the flow: unknown until something told it.
const OBSERVED: &[&str] = &[
    "sample_age_us",
    "cwnd",
    "cwnd_bytes",
    "ssthresh",
    "mss",
    "inflight_bytes",
    "notsent_bytes",
    "rtt_us",
    "srtt_us",
    "rttvar_us",
    "min_rtt_us",
    "rto_us",
    "ca_state",
    "pacing_rate_bps",
    "max_pacing_rate_bps",
    "delivery_rate_bps",
    "app_limited",
    "btlbw_bps",
    "bytes_sent",
    "bytes_acked",
    "bytes_retrans",
    "bytes_received",
    "segs_out",
    "data_segs_out",
    "retrans",
    "retrans_out",
    "lost",
    "lost_total",
    "sacked",
    "dsack_dups",
    "reord_seen",
    "delivered",
    "delivered_ce",
    "snd_wnd_bytes",
    "rcv_wnd_bytes",
    "busy_us",
    "rwnd_limited_us",
    "sndbuf_limited_us",
    "throughput_bps",
    "retrans_rate",
    "bdp_bytes",
    "bdp_fill",
    "queueing_delay_us",
    "processes",
    "cgroup",
    "dev",
    "qdisc",
];

const FULL: &str = "
@1s host hostname=lab kernel=6.18.0 hz=250 cpus=2
+0 qdisc index=2 kind=fq handle=8001: drops=1 backlog_bytes=9
+0 opened 7 birth=yes state=SYN-SENT
+0 attributes 7 cc=bbr version=v3 dev=2 cgroup_id=42 cgroup=/user.slice max_pacing_rate=unlimited wscale=7/8
+0 owners 7 1/iperf3
+1s sample 7 cc=bbr phase=PROBE_BW/UP btlbw=100mbit bbr_min_rtt=40ms pacing_gain=1.25 cwnd_gain=2 bw_lo=unlimited inflight_hi=300
";

fn fold(text: &str) -> Model {
    let mut model = Model::default();
    for event in script::parse(text).expect("a script") {
        model.apply(&event);
    }
    model
}

fn context() -> Context {
    Context {
        wall_offset_ns: Some(1_796_000_000_123_456_789),
        ..Context::default()
    }
}

fn object_of(model: &Model) -> Value {
    let flow = model.flows().next().expect("a flow");
    serde_json::to_value(flow_object(model, flow, &context())).expect("an object")
}

/// The lines that a script's events give.
fn lines(text: &str) -> Vec<Value> {
    let mut model = Model::default();
    let mut lines = Vec::new();
    for event in script::parse(text).expect("a script") {
        model.apply(&event);
        let derived = model.take_derived();
        let context = context();
        lines.extend(
            event_line(&event, &model, &context).map(|l| serde_json::to_value(l).expect("a line")),
        );
        let derived = derived.iter().map(|d| derived_line(d, &model, &context));
        lines.extend(derived.map(|l| serde_json::to_value(l).expect("a line")));
    }
    lines
}

fn at<'a>(object: &'a Value, key: &str) -> Option<&'a Value> {
    object.pointer(&format!("/{}", key.replace('.', "/")))
}

#[test]
fn the_flow_object_has_every_key_of_the_contract() {
    let object = object_of(&fold(FULL));
    let missing: Vec<_> = KEYS
        .iter()
        .filter(|key| at(&object, key).is_none())
        .collect();
    assert!(missing.is_empty(), "{missing:?} in {object}");
    assert_eq!(object["schema"], 1);
    assert_eq!(object["type"], "flow");
    assert_eq!(object["time"], "2026-11-30T00:53:22.123456Z");
    assert_eq!(object["flow"]["id"], "7:4026531840");
    assert_eq!(object["cgroup"], "/user.slice");
    assert_eq!(object["dev"], "eth2");
    assert_eq!(object["qdisc"]["handle"], "8001:");
    assert_eq!(object["cc"]["pacing_gain"], 1.25);
    assert_eq!(object["processes"][0]["comm"], "iperf3");
}

#[test]
fn keys_come_once_and_in_a_readable_order() {
    let model = fold(FULL);
    let flow = model.flows().next().expect("a flow");
    let text = serde_json::to_string(&flow_object(&model, flow, &context())).expect("text");
    assert!(
        text.starts_with(r#"{"schema":1,"type":"flow","time":"#),
        "{text}"
    );
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let keys = value.as_object().expect("an object");
    for key in keys.keys() {
        let inner = keys.values().filter(|v| v.get(key).is_some()).count();
        let written = text.matches(&format!("\"{key}\":")).count();
        assert!(
            written <= 1 + inner,
            "{key} is written {written} times: {text}"
        );
    }
    assert!(!text.contains('\n'));
}

#[test]
fn trap_11_unlimited_is_a_word() {
    let object = object_of(&fold(FULL));
    assert_eq!(object["ssthresh"], "unlimited");
    assert_eq!(object["pacing_rate_bps"], "unlimited");
    assert_eq!(object["max_pacing_rate_bps"], "unlimited");
    assert_eq!(object["cc"]["bw_lo_bps"], "unlimited");
    assert_eq!(object["cc"]["inflight_hi"], 300);
    assert!(object["cc"]["bw_hi_bps"].is_null());
}

#[test]
fn trap_21_rates_near_a_gigabit_are_whole_numbers() {
    let model = fold(
        "@1s opened 7
         +0 sample 7 bytes_acked=0 delivery_rate=125000001B/s
         +1s sample 7 bytes_acked=125000001",
    );
    let object = object_of(&model);
    assert_eq!(object["throughput_bps"].to_string(), "1000000008");
    assert_eq!(object["delivery_rate_bps"].to_string(), "1000000008");
}

#[test]
fn trap_24_unknown_is_null_and_never_zero() {
    let object = object_of(&fold("@1s opened 7"));
    for key in OBSERVED {
        assert_eq!(at(&object, key), Some(&Value::Null), "{key}");
    }
    assert_eq!(object["limit"], "unknown");
}

#[test]
fn trap_25_nanoseconds_are_integers_after_two_hundred_days() {
    let model = fold(
        "@17280000s opened 7 birth=yes
         +1ns tick
         +100ms sample 7 bytes_acked=1000",
    );
    let object = object_of(&model);
    assert_eq!(object["mono_ns"].to_string(), "17280000100000001");
    assert_eq!(object["opened_mono_ns"].to_string(), "17280000000000000");
    assert_eq!(object["throughput_bps"], 79_999);
}

#[test]
fn trap_30_names_are_plain_escaped_data() {
    let model = fold("opened 7\nowners 7 \"9/\\e[2J\\\"x\\n\"");
    let flow = model.flows().next().expect("a flow");
    let text = serde_json::to_string(&flow_object(&model, flow, &context())).expect("text");
    assert!(text.contains(r#""comm":"\u001b[2J\"x\n""#), "{text}");
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn an_ipv6_flow_says_so() {
    let model = fold("opened 7 local=[2001:db8::1]:443 remote=[2001:db8::2]:5000");
    let object = object_of(&model);
    assert_eq!(object["flow"]["family"], "ipv6");
    assert_eq!(object["flow"]["remote"], "[2001:db8::2]:5000");
}

#[test]
fn every_event_but_a_tick_has_a_line_of_its_type() {
    let text = format!(
        "{FULL}
        +0 retransmit 7 seq=100 segments=3 kind=rto ca=Loss
        +0 state 7 old=ESTAB new=FIN-WAIT-1
        +0 ca 7 old=Open new=Recovery
        +1ms sample 7 phase=PROBE_BW/DOWN
        +1s tick
        +0 gap 7 missing=2
        +0 counters dropped=2
        +0 note kind=degraded \"no hook\"
        +0 device_gone index=2
        +0 sample 7 bytes_acked=5000
        +0 closed 7"
    );
    let lines = lines(&text);
    let types: Vec<&str> = lines.iter().filter_map(|l| l["type"].as_str()).collect();
    assert_eq!(
        types,
        [
            "host",
            "qdisc",
            "opened",
            "note",
            "note",
            "sample",
            "retransmit",
            "state",
            "state",
            "sample",
            "phase",
            "burst",
            "gap",
            "note",
            "note",
            "qdisc",
            "sample",
            "closed",
        ]
    );
    for line in &lines {
        assert_eq!(line["schema"], 1, "{line}");
        assert!(
            line["mono_ns"].is_u64() && line["time"].is_string(),
            "{line}"
        );
        if !matches!(line["type"].as_str(), Some("host" | "qdisc" | "note")) {
            assert_eq!(line["flow"]["local"], "10.0.0.1:5201", "{line}");
        }
    }
    for key in ["seq", "bytes", "segments", "kind", "ca_state", "failed"] {
        assert!(lines[6].get(key).is_some(), "{key}");
    }
    assert_eq!(
        (&lines[7]["of"], &lines[8]["of"]),
        (&"tcp".into(), &"ca".into())
    );
    assert_eq!(lines[17]["bytes_acked"], 5000);
    assert_eq!(lines[17]["retrans_by_kind"]["rto"], 3);
}

#[test]
fn a_wrong_line_is_named() {
    for (text, problem) in [
        (
            "tick\nsample 7 cwnd=x",
            "line 2: cwnd=x: expected a whole number",
        ),
        (
            "sample cwnd=1",
            "line 1: \"sample\" needs a flow: COOKIE or COOKIE:NETNS",
        ),
        ("sample 7 cwmd=1", "line 1: \"sample\" has no key \"cwmd\""),
        (
            "\n\nsimple 7",
            "line 3: no event is called \"simple\"; events are opened attributes sample retransmit state ca closed owners \
             host device qdisc device_gone counters elsewhere gap note tick",
        ),
        ("+10x tick", "line 1: \"10x\" is no duration (100ms, 2s)"),
        (
            "sample 7 ca_state=Bad",
            "line 1: ca_state=Bad: expected one of Open Disorder CWR Recovery Loss",
        ),
        ("note \"open", "line 1: a quote is not closed"),
    ] {
        assert_eq!(script::parse(text).expect_err(text).to_string(), problem);
    }
}

#[test]
fn names_stand_beside_the_addresses_and_only_where_asked_for() {
    let model = fold("opened 7 local=10.0.0.1:443 remote=10.0.0.2:5000");
    let plain = object_of(&model);
    assert!(plain["flow"].get("remote_name").is_none());
    let local = model.flows().next().expect("a flow").local().ip();
    let named = Context {
        names: Some(Namer(Arc::new(move |address| {
            (address == local).then(|| Arc::from("host.example"))
        }))),
        ..context()
    };
    let flow = model.flows().next().expect("a flow");
    let object = serde_json::to_value(flow_object(&model, flow, &named)).expect("an object");
    assert_eq!(object["flow"]["local_name"], "host.example");
    assert_eq!(object["flow"]["local"], plain["flow"]["local"]);
    assert!(
        object["flow"].get("remote_name").is_none(),
        "unknown is absent"
    );
}

#[test]
fn a_device_s_line_says_where_each_qdisc_hangs_and_how_it_is_set_up() {
    let text = "\
@1s device index=2 name=eth0
+0 qdisc index=2 kind=tbf handle=1: parent=root option.rate=50mbit option.burst=10240B option.limit=30000B
+0 qdisc index=2 kind=fq handle=10: parent=1:1 option.limit=100p option.maxrate=unlimited option.horizon=10s \\
   option.pacing=yes throttled=4
";
    let mut model = Model::default();
    let mut last = Value::Null;
    for event in script::parse(text).expect("a script") {
        model.apply(&event);
        let context = Context::default();
        let line = event_line(&event, &model, &context).expect("a line");
        last = serde_json::to_value(line).expect("JSON");
    }
    let [tbf, fq] = [&last["qdiscs"][0], &last["qdiscs"][1]];
    assert_eq!(tbf["parent"], "root");
    let options =
        serde_json::json!({"rate_bps": 50_000_000, "burst_bytes": 10240, "limit_bytes": 30000});
    assert_eq!(tbf["options"], options);
    assert_eq!(
        (&fq["parent"], &fq["handle"]),
        (&"1:1".into(), &"10:".into())
    );
    let options = serde_json::json!({
        "limit_packets": 100, "maxrate_bps": "unlimited", "horizon_ns": 10_000_000_000_u64, "pacing": true,
    });
    assert_eq!(fq["options"], options);
    assert_eq!(fq["extra"]["throttled"], 4);
}
