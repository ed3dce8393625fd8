//! The fold under load and under nonsense.

use std::net::SocketAddr;

use observer::event::*;
use observer::export::jsonl::{Context, derived_line, event_line, flow_object};
use observer::model::{Figures, KEEP_CLOSED_NS, LimitedBy, Model};
use observer::source::script;
use observer::units::{Limit, Mono};
use proptest::prelude::*;

fn sample(text: &str) -> Sample {
    let events = script::parse(&format!("sample 1 {text}")).expect("a sample");
    match events.into_iter().next().map(|e| e.payload) {
        Some(Payload::Sample(sample)) => *sample,
        other => panic!("no sample: {other:?}"),
    }
}

fn event(time: u64, cookie: u64, payload: Payload) -> Event {
    Event {
        time: Mono(time),
        flow: Some(FlowId { cookie, netns: 1 }),
        payload,
    }
}

fn opened() -> Payload {
    Payload::Opened(Opened {
        from_start: true,
        state: TcpState::SynSent,
        local: SocketAddr::from(([127, 0, 0, 1], 1)),
        remote: SocketAddr::from(([127, 0, 0, 1], 2)),
    })
}

#[test]
fn memory_returns_after_ten_thousand_short_flows() {
    let mut model = Model::default();
    let last = sample("bytes_acked=1000 state=UNCONN");
    for cookie in 0..10_000 {
        let time = cookie * 1_000_000;
        model.apply(&event(time, cookie, opened()));
        model.apply(&event(
            time,
            cookie,
            Payload::Sample(Box::new(last.clone())),
        ));
        model.apply(&event(time, cookie, Payload::Closed));
    }
    assert_eq!(model.open_flows(), 0);
    assert_eq!(model.flows().count(), 10_000);
    let end = 10_000 * 1_000_000 + KEEP_CLOSED_NS;
    model.apply(&Event {
        time: Mono(end),
        flow: None,
        payload: Payload::Tick,
    });
    assert_eq!(model.flows().count(), 0);
    assert_eq!(model.odd(), 0);
}

#[test]
fn a_busy_flow_takes_about_two_kilobytes() {
    let mut model = Model::default();
    model.apply(&event(0, 1, opened()));
    let mut sample = sample("bytes_acked=0 bytes_sent=0 srtt=300ms cc=bbr phase=PROBE_BW");
    for i in 1..100_000_u64 {
        sample.bytes_acked = Some(i * 1448);
        model.apply(&event(
            i * 1_000_000,
            1,
            Payload::Sample(Box::new(sample.clone())),
        ));
    }
    let flow = model.flows().next().expect("the flow");
    assert!(flow.footprint() <= 2800, "{} bytes", flow.footprint());
    // Thinned to a dozen readings, the rate is still exact.
    assert_eq!(model.throughput_bps(flow), Some(1448 * 8 * 1000));
}

#[test]
fn trap_07_time_stands_at_the_latest_event() {
    let mut model = Model::default();
    model.apply(&event(5_000, 1, opened()));
    model.apply(&event(4_000, 2, opened()));
    assert_eq!(model.now(), Mono(5_000));
    assert_eq!(model.flows().count(), 2);
}

#[test]
fn trap_35_samples_closer_than_a_jiffy_sum_up_to_the_same_share() {
    let mut model = Model::default();
    model.apply(&event(0, 1, opened()));
    let mut sample = sample("app_limited=yes packets_out=5 snd_wnd=65535");
    for ms in 0..1000_u64 {
        // HZ = 250: the clock moves every 4 ms.
        sample.clocks = Some(LimitClocks {
            busy_us: ms / 4 * 4000,
            ..LimitClocks::default()
        });
        sample.bytes_sent = Some(ms);
        model.apply(&event(
            ms * 1_000_000,
            1,
            Payload::Sample(Box::new(sample.clone())),
        ));
    }
    let flow = model.flows().next().expect("the flow");
    let figures = model.figures(flow);
    let shares = figures.limit_shares.expect("shares");
    assert!(shares.app > 0.98, "{shares:?}");
    assert_eq!(figures.limit, LimitedBy::App);
}

#[test]
fn derived_events_are_bounded_when_nobody_takes_them() {
    let mut model = Model::default();
    model.apply(&event(0, 1, opened()));
    let up = sample("cc=bbr phase=PROBE_BW/UP");
    let down = sample("cc=bbr phase=PROBE_BW/DOWN");
    for i in 0..70_000_u64 {
        let sample = if i % 2 == 0 { &up } else { &down };
        model.apply(&event(i, 1, Payload::Sample(Box::new(sample.clone()))));
    }
    assert_eq!(
        model.take_derived().len() as u64 + model.derived_dropped(),
        69_999
    );
    assert!(model.derived_dropped() > 0);
    assert!(model.take_derived().is_empty());
}

fn any_u64() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..2_000_u64,
        any::<u64>(),
        Just(u64::MAX),
        Just(u64::from(u32::MAX))
    ]
}

fn any_u32() -> impl Strategy<Value = u32> {
    prop_oneof![0..2_000_u32, any::<u32>(), Just(u32::MAX)]
}

fn any_sample() -> impl Strategy<Value = Sample> {
    let levels = (
        any_u32(),
        any_u32(),
        any_u32(),
        any_u32(),
        any_u32(),
        any_u32(),
    );
    let totals = prop::collection::vec(prop::option::of(any_u64()), 7);
    let small = prop::collection::vec(prop::option::of(any_u32()), 8);
    let rates = (any_u64(), any_u64(), any::<u8>(), any_u64(), any::<bool>());
    (levels, totals, small, rates).prop_map(|(levels, totals, small, rates)| {
        let mut s = sample("");
        let cwnd;
        (
            cwnd,
            s.packets_out,
            s.sacked_out,
            s.lost_out,
            s.retrans_out,
            s.mss,
        ) = levels;
        s.cwnd = (rates.2 % 5 != 0).then_some(cwnd);
        (
            s.bytes_acked,
            s.bytes_sent,
            s.bytes_retrans,
            s.bytes_received,
        ) = (totals[0], totals[1], totals[2], totals[3]);
        s.delivery_rate = totals[4];
        s.clocks = totals[5].map(|busy_us| LimitClocks {
            busy_us,
            rwnd_limited_us: rates.1,
            sndbuf_limited_us: rates.3,
        });
        s.rto_us = totals[6];
        (s.srtt_us, s.rtt_us, s.min_rtt_us, s.notsent_bytes) =
            (small[0], small[1], small[2], small[3]);
        (s.snd_wnd_bytes, s.delivered, s.data_segs_out, s.segs_out) =
            (small[4], small[5], small[6], small[7]);
        s.pacing_rate = Some(Limit::from_kernel_rate(rates.0));
        s.ca_state = CaState::from_kernel(rates.2 % 7);
        s.state = TcpState::from_kernel(rates.2 % 16);
        s.origin = if rates.2 > 200 {
            Origin::Diag
        } else {
            Origin::Ebpf
        };
        s.app_limited = small[0].map(|n| n % 2 == 0);
        s.cc = (rates.2 % 3 == 0).then(|| {
            CcState::Bbr(Bbr {
                phase: rates.4.then_some(Phase::ProbeBw),
                btlbw: totals[4],
                full_bw_reached: Some(true),
                ..Bbr::default()
            })
        });
        s
    })
}

fn any_payload() -> impl Strategy<Value = Payload> {
    let retransmit = (any_u64(), any_u32(), 0..7_usize, any::<bool>(), any_u32());
    let retransmit = retransmit.prop_map(|(bytes, segments, kind, failed, rtt)| {
        Payload::Retransmit(Retransmit {
            seq: None,
            end_seq: None,
            bytes,
            segments,
            kind: KINDS[kind],
            ca_state: CaState::Open,
            failed,
            rtt_us: Some(rtt),
            min_rtt_us: Some(1000),
            cwnd: None,
        })
    });
    let counters = (any_u64(), any_u64()).prop_map(|(dropped, missed)| {
        let program = ProgramCounters {
            dropped,
            missed,
            ..ProgramCounters::default()
        };
        Payload::Counters(Box::new(Counters {
            programs: vec![program],
            cost: None,
        }))
    });
    let lines = [
        "attributes 1 cc=bbr dev=2 cgroup_id=7",
        "owners 1 7/a 8/b",
        "state 1 new=CLOSE-WAIT",
        "ca 1 new=Loss",
        "qdisc drops=3",
        "device_gone",
        "note kind=attempt x",
        "note kind=degraded y",
        "tick",
    ];
    let simple = prop::sample::select(lines.to_vec())
        .prop_map(|line| script::parse(line).expect("a line")[0].payload.clone());
    prop_oneof![
        2 => Just(opened()),
        8 => any_sample().prop_map(|s| Payload::Sample(Box::new(s))),
        3 => retransmit,
        1 => Just(Payload::Closed),
        1 => any_u64().prop_map(|missed| Payload::Gap(Gap { missing: missed })),
        1 => counters,
        1 => prop::option::of(any_u32()).prop_map(|hz| {
            Payload::Host(Box::new(Host { hz, ..Host::default() }))
        }),
        4 => simple,
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    let time = prop_oneof![6 => 0..30_000_000_000_u64, 1 => any_u64()];
    (time, prop::option::weighted(0.95, 0..4_u64), any_payload()).prop_map(
        |(time, cookie, payload)| Event {
            time: Mono(time),
            flow: cookie.map(|cookie| FlowId { cookie, netns: 1 }),
            payload,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Nothing makes the fold, its figures or its lines fail; no figure is infinite or not a number.
    #[test]
    fn any_sequence_of_events_folds(
        events in prop::collection::vec(any_event(), 1..80),
        in_order in any::<bool>(),
        wall in prop::option::of(any::<i64>()),
    ) {
        let mut events = events;
        if in_order {
            events.sort_by_key(|e| e.time);
        }
        let context = Context { wall_offset_ns: wall, ..Context::default() };
        let mut model = Model::default();
        for event in &events {
            model.apply(event);
            if let Some(line) = event_line(event, &model, &context) {
                serde_json::to_string(&line).expect("a line");
            }
            for derived in model.take_derived() {
                serde_json::to_string(&derived_line(&derived, &model, &context)).expect("a line");
            }
            for flow in model.flows() {
                let f = model.figures(flow);
                let shares = f.limit_shares.map(|s| {
                    [s.idle, s.app, s.rwnd, s.sndbuf, s.cwnd, s.pacing, s.recovery, s.queued]
                });
                for share in shares.into_iter().flatten() {
                    prop_assert!((0.0..=1.0).contains(&share), "share {share}");
                }
                for ratio in [f.retrans_rate, f.retrans_rate_life, f.bdp_fill].into_iter().flatten() {
                    prop_assert!(ratio.is_finite() && ratio >= 0.0);
                }
                serde_json::to_string(&flow_object(&model, flow, &context)).expect("an object");
            }
            prop_assert!(model.open_flows() <= model.flows().count());
        }
    }

    /// What is true now does not depend on whether the past is kept.
    #[test]
    fn a_model_without_past_says_the_same(events in prop::collection::vec(any_event(), 1..80)) {
        let context = Context::default();
        let (mut whole, mut bare) = (Model::default(), Model::without_past());
        for event in &events {
            whole.apply(event);
            bare.apply(event);
            prop_assert_eq!(whole.take_derived(), bare.take_derived());
        }
        let lines = |model: &Model| -> Vec<String> {
            let objects = model.flows().map(|flow| flow_object(model, flow, &context));
            objects.map(|object| serde_json::to_string(&object).expect("an object")).collect()
        };
        prop_assert_eq!(lines(&whole), lines(&bare));
        prop_assert!(bare.flows().all(observer::model::Flow::past_is_empty));
    }

    /// Samples that come late change nothing: the state is that of the newest.
    #[test]
    fn trap_26_the_newest_sample_stands(times in prop::collection::vec(0..1000_u64, 1..50)) {
        let mut model = Model::default();
        model.apply(&event(0, 1, opened()));
        let mut newest = 0;
        for &time in &times {
            let mut s = sample("");
            s.cwnd = Some(time as u32);
            s.bytes_acked = Some(time);
            model.apply(&event(time, 1, Payload::Sample(Box::new(s))));
            newest = newest.max(time);
        }
        let flow = model.flows().next().expect("the flow");
        prop_assert_eq!(flow.sampled_at(), Some(Mono(newest)));
        prop_assert_eq!(flow.sample().and_then(|s| s.cwnd).map(u64::from), Some(newest));
    }
}

proptest! {
    /// `list --window 0` makes lines without a model: they say what the model would.
    #[test]
    fn one_reading_alone_says_what_a_model_of_one_reading_says(
        state in prop_oneof![Just(TcpState::Established), Just(TcpState::FinWait2), Just(TcpState::CloseWait)],
        cwnd in 0_u32..2000,
        packets_out in 0_u32..2000,
        gone in 0_u32..2000,
        mss in prop_oneof![Just(0_u32), Just(1448)],
        windows in (proptest::option::of(0_u32..5000), proptest::option::of(0_u32..2)),
        rtts in (proptest::option::of(1_u32..1_000_000), proptest::option::of(1_u32..1_000_000)),
        rate in (proptest::option::of(any::<u64>()), any::<bool>()),
        bytes in (proptest::option::of(any::<u64>()), proptest::option::of(any::<u64>())),
        btlbw in proptest::option::of(proptest::option::of(any::<u64>())),
        path in proptest::option::of(any::<u64>()),
    ) {
        let reading = Sample {
            origin: Origin::Diag,
            cause: Cause::Sweep,
            state,
            cwnd: Some(cwnd),
            packets_out,
            sacked_out: gone,
            mss,
            snd_wnd_bytes: windows.0,
            notsent_bytes: windows.1,
            srtt_us: rtts.0,
            min_rtt_us: rtts.1,
            delivery_rate: rate.0,
            rate_app_limited: rate.1,
            bytes_sent: bytes.0,
            bytes_retrans: bytes.1,
            cc: btlbw.map(|btlbw| CcState::Bbr(Bbr { btlbw, ..Bbr::default() })),
            ..sample("")
        };
        let mut model = Model::default().of_path(path);
        let born = Opened {
            from_start: false,
            state,
            local: SocketAddr::from(([127, 0, 0, 1], 1)),
            remote: SocketAddr::from(([127, 0, 0, 1], 2)),
        };
        let time = 5_000_000_000;
        model.apply(&event(time, 1, Payload::Opened(born)));
        model.apply(&event(time, 1, Payload::Sample(Box::new(reading.clone()))));
        let flow = model.flows().next().expect("the flow");
        prop_assert_eq!(Figures::of_one(&reading, path), model.figures(flow));
    }
}
