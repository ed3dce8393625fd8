//! The past of flows: peaks are kept at any age, breaks are not bridged, memory has a bound.

use std::fmt::Write as _;
use std::net::SocketAddr;

use observer::event::*;
use observer::model::Model;
use observer::model::series::{BUDGET, Break, Column, Extent, Past, Quantity, Stage, Window};
use observer::source::script;
use observer::units::{Limit, Mono};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

fn fold(text: &str) -> Model {
    let mut model = Model::default();
    for event in script::parse(text).expect("a script") {
        model.apply(&event);
    }
    model
}

fn past(model: &Model) -> Past<'_> {
    model.past(model.flows().next().expect("a flow"))
}

/// Columns of `step` up to the end.
fn window(from: u64, step: u64, columns: usize) -> Window {
    Window {
        from: Mono(from),
        step,
        columns,
    }
}

fn ranges(columns: &[Option<Extent>]) -> Vec<Option<(u64, u64)>> {
    columns.iter().map(|c| c.and_then(|c| c.range)).collect()
}

/// A flow that is sampled every 100 ms, with cwnd as given.
fn flow(cwnds: impl IntoIterator<Item = u32>) -> String {
    let mut text = "@10s opened 1\n".to_owned();
    for (n, cwnd) in cwnds.into_iter().enumerate() {
        let step = if n == 0 { "+0" } else { "+100ms" };
        writeln!(text, "{step} sample 1 cwnd={cwnd}").expect("text");
    }
    text
}

#[test]
fn a_column_has_least_greatest_and_last_of_its_samples() {
    let model = fold(&flow([10, 30, 20, 40, 5]));
    let columns = past(&model).columns(Quantity::Cwnd, &window(10 * S, 300 * MS, 3));
    assert_eq!(ranges(&columns), [Some((10, 30)), Some((5, 40)), None]);
    let first = columns[0].expect("samples");
    assert_eq!(
        (first.last, first.held, first.joined),
        (Limit::Finite(20), false, false)
    );
    assert!(columns[1].expect("samples").joined);
}

#[test]
fn a_peak_is_a_peak_hours_later() {
    let mut text = flow((0..300).map(|n| if n == 123 { 5000 } else { 10 }));
    for _ in 0..7200 {
        text.push_str("+1s sample 1 cwnd=10\n");
    }
    let model = fold(&text);
    let past = past(&model);
    // In 10 s buckets by now: the seconds reach back a quarter of an hour only.
    assert_eq!(past.resolution(Mono(20 * S)), 10 * S);
    assert_eq!(past.from(), Some(Mono(10 * S)));
    assert_eq!(past.history().forgotten_before(), None);
    let columns = past.columns(Quantity::Cwnd, &window(20 * S, 10 * S, 2));
    let (least, greatest) = ranges(&columns)[0].expect("known");
    assert_eq!(least, 10);
    assert!(greatest.abs_diff(5000) <= 2, "{greatest}");
    assert_eq!(ranges(&columns)[1], Some((10, 10)));
    // The last seconds are still sample by sample.
    assert_eq!(past.resolution(Mono(model.now().0 - S)), 0);
}

#[test]
fn nothing_is_drawn_across_lost_records() {
    let lost = format!(
        "{}+0 gap 1 missing=7\n+400ms sample 1 cwnd=50\n+100ms sample 1 cwnd=60\n",
        flow([10, 20])
    );
    let model = fold(&lost);
    let past = past(&model);
    let w = window(10 * S, 100 * MS, 7);
    let columns = past.columns(Quantity::Cwnd, &w);
    let known = [Some(10), Some(20), None, None, None, Some(50), Some(60)];
    assert_eq!(ranges(&columns), known.map(|v| v.map(|v| (v, v))));
    assert!(!columns[5].expect("known").joined);
    assert!(columns[6].expect("known").joined);
    let stages = past.stages(&w);
    assert!(matches!(stages[3], Column::Unknown(b) if b.contains(Break::Lost)));
    assert!(matches!(stages[1], Column::Seen(s, b) if s.contains(Stage::Open) && b.is_empty()));
}

#[test]
fn after_lost_records_nothing_is_known_until_the_next_sample() {
    let model = fold(&format!("{}+0 gap 1\n+500ms tick\n", flow([10])));
    let w = window(10 * S, 100 * MS, 6);
    assert_eq!(
        ranges(&past(&model).columns(Quantity::Cwnd, &w))[1..],
        [None; 5]
    );
    assert!(matches!(past(&model).stages(&w)[5], Column::Unknown(_)));
}

#[test]
fn another_source_is_another_line() {
    let model = fold(&format!(
        "{}+100ms sample 1 origin=diag cwnd=9\n",
        flow([10, 20])
    ));
    let columns = past(&model).columns(Quantity::Cwnd, &window(10 * S, 100 * MS, 3));
    assert!(columns[1].expect("known").joined);
    assert!(!columns[2].expect("known").joined);
}

#[test]
fn idle_is_not_unknown() {
    // The source goes on: other flows, ticks.
    let mut text = flow([10]) + "+0 sample 1 rtt=40ms srtt=41ms delivery_rate=1mbit\n";
    for _ in 0..10 {
        text.push_str("+500ms tick\n");
    }
    text.push_str("+0 sample 1 cwnd=20\n");
    let model = fold(&text);
    let w = window(10 * S, S, 6);
    let cwnd = past(&model).columns(Quantity::Cwnd, &w);
    assert_eq!(ranges(&cwnd)[..5], [Some((10, 10)); 5], "a level stands");
    assert!(cwnd[2].expect("a level").held);
    assert!(cwnd[5].expect("a level").joined);
    for quantity in [Quantity::Rtt, Quantity::DeliveryRate] {
        let measured = past(&model).columns(quantity, &w);
        assert_eq!(
            measured[1..5],
            [None; 4],
            "{quantity:?}: nothing was measured"
        );
        assert!(!measured[5].expect("measured").joined);
    }
    assert_eq!(past(&model).stages(&w)[2], Column::Idle);
}

#[test]
fn when_the_source_does_not_speak_silence_says_nothing() {
    let model = fold(&format!("{}+5s sample 1 cwnd=20\n", flow([10])));
    let w = window(10 * S, S, 6);
    let columns = past(&model).columns(Quantity::Cwnd, &w);
    assert_eq!(ranges(&columns)[1..5], [None; 4]);
    assert!(!columns[5].expect("known").joined);
    assert!(matches!(past(&model).stages(&w)[2], Column::Unknown(b) if b.contains(Break::Blind)));
    // Also before the flow itself is heard of again.
    let model = fold(&format!("{}+5s tick\n", flow([10])));
    assert_eq!(
        ranges(&past(&model).columns(Quantity::Cwnd, &w))[2..],
        [None; 4]
    );
}

#[test]
fn unlimited_and_unknown_are_no_numbers() {
    let text = "\
@10s opened 1
+0 sample 1 pacing_rate=unlimited
+100ms sample 1 pacing_rate=1mbit
+100ms sample 1 pacing_rate=unlimited
";
    let model = fold(text);
    let pacing =
        |step, columns| past(&model).columns(Quantity::PacingRate, &window(10 * S, step, columns));
    assert_eq!(
        ranges(&pacing(100 * MS, 3)),
        [None, Some((124_992, 124_992)), None]
    );
    assert!(pacing(100 * MS, 3)[0].expect("known").unlimited);
    let all = pacing(S, 1)[0].expect("known");
    assert_eq!((all.unlimited, all.last), (true, Limit::Unlimited));
    assert!(
        all.range
            .is_some_and(|(least, greatest)| least == greatest && least.abs_diff(125_000) < 70)
    );
    assert_eq!(
        past(&model).columns(Quantity::Rtt, &window(10 * S, S, 1)),
        [None]
    );
}

#[test]
fn app_limited_delivery_is_apart() {
    let text = "\
@10s opened 1
+0 sample 1 delivery_rate=8mbit rate_app_limited=no
+100ms sample 1 delivery_rate=80kbit rate_app_limited=yes
";
    let model = fold(text);
    let of = |quantity| ranges(&past(&model).columns(quantity, &window(10 * S, 100 * MS, 2)));
    assert!(of(Quantity::DeliveryRate)[0].is_some());
    assert_eq!(of(Quantity::DeliveryRate)[1], None);
    assert_eq!(of(Quantity::AppLimitedRate)[0], None);
    assert!(of(Quantity::AppLimitedRate)[1].is_some());
}

#[test]
fn retransmissions_are_counted_once_at_every_resolution() {
    let mut text = flow([10]);
    for n in 0..20_000 {
        let kind = ["fast", "rto", "tlp"][n % 3];
        writeln!(text, "+5ms retransmit 1 segments=2 kind={kind}").expect("text");
        if n % 10 == 0 {
            text.push_str("+0 sample 1 cwnd=10\n");
        }
    }
    let model = fold(&text);
    for step in [S, 10 * S, 100 * S] {
        let step = step.max(past(&model).resolution(Mono(10 * S)));
        let w = window(
            10 * S,
            step,
            11 * usize::try_from(10 * S / step + 1).expect("few"),
        );
        let columns = past(&model).retransmits(&w);
        let mut sums = [0_u64; 7];
        for column in columns {
            for (sum, count) in sums.iter_mut().zip(column) {
                *sum += u64::from(count);
            }
        }
        let [fast, rto, _, tlp, ..] = sums;
        assert_eq!([fast, rto, tlp], [13_334, 13_334, 13_332], "{step}");
    }
}

#[test]
fn a_recovery_between_two_samples_is_seen() {
    let text = flow([10])
        + "+10ms ca 1 old=Open new=Recovery\n+20ms ca 1 old=Recovery new=Open\n+70ms sample 1 cwnd=9\n";
    let model = fold(&text);
    for (step, columns) in [(10 * MS, 11), (S, 1)] {
        let stages = past(&model).stages(&window(10 * S, step, columns));
        let seen =
            |column: &Column| matches!(column, Column::Seen(s, _) if s.contains(Stage::Recovery));
        assert!(stages.iter().any(seen), "{stages:?}");
    }
}

#[test]
fn what_is_forgotten_is_told() {
    let mut text = flow([10]);
    for _ in 0..30_000 {
        text.push_str("+1s sample 1 cwnd=10\n");
    }
    let model = fold(&text);
    let from = past(&model)
        .history()
        .forgotten_before()
        .expect("forgotten");
    assert_eq!(Some(from), past(&model).from());
    assert!(model.now().since(from) >= 5 * 3600 * S);
    assert!(from.0 > 10 * S);
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
        state: TcpState::Established,
        local: SocketAddr::from(([127, 0, 0, 1], 1)),
        remote: SocketAddr::from(([127, 0, 0, 1], 2)),
    })
}

fn a_sample() -> Sample {
    match script::parse("sample 1")
        .expect("a sample")
        .remove(0)
        .payload
    {
        Payload::Sample(sample) => *sample,
        other => panic!("no sample: {other:?}"),
    }
}

fn heap(model: &Model) -> usize {
    model
        .flows()
        .map(|flow| model.past(flow).history().heap())
        .sum()
}

#[test]
fn twenty_thousand_busy_flows_stay_within_the_budget_and_keep_two_minutes() {
    let mut model = Model::default();
    let flows = 20_000;
    let sample = Box::new(a_sample());
    for cookie in 0..flows {
        model.apply(&event(S, cookie, opened()));
    }
    let looked_at = [FlowId {
        cookie: 3,
        netns: 1,
    }];
    model.focus(&looked_at);
    for second in 1..200 {
        // All of them at first, then those that are looked into below.
        let some = if second < 30 { flows } else { 10 };
        for cookie in 0..some {
            model.apply(&event(second * S, cookie, Payload::Sample(sample.clone())));
        }
    }
    assert!(heap(&model) <= BUDGET, "{}", heap(&model));
    for flow in model.flows().take(10) {
        let past = model.past(flow);
        let kept = model.now().since(past.from().expect("a past"));
        let floor = if flow.id() == looked_at[0] { 190 } else { 105 };
        assert!(kept >= floor * S, "{kept}");
        let heap = past.history().heap();
        assert!(
            heap <= if floor == 190 { 530_000 } else { 2808 },
            "{heap} {:?}",
            flow.id()
        );
    }
    // The level rises again when flows go.
    for cookie in 50..flows {
        model.apply(&event(200 * S, cookie, Payload::Closed));
    }
    for n in 0..20 {
        model.apply(&event(
            211 * S + n * 50 * MS,
            0,
            Payload::Sample(sample.clone()),
        ));
    }
    assert_eq!(model.flows().count(), 50);
    let past = model.past(model.flows().next().expect("a flow"));
    assert_eq!(
        past.resolution(Mono(211 * S + 200 * MS)),
        0,
        "samples are kept again"
    );
}

#[test]
fn a_closed_flow_stays_while_it_is_looked_at() {
    let mut model = fold(&format!("{}+0 closed 1\n", flow([10])));
    let id = model.flows().next().expect("a flow").id();
    model.focus(&[id]);
    let tick = |s| Event {
        time: Mono(s * S),
        flow: None,
        payload: Payload::Tick,
    };
    model.apply(&tick(100));
    assert_eq!(model.open_flows(), 0);
    assert_eq!(
        model.past(model.flow(id).expect("kept")).end(),
        Mono(10 * S)
    );
    model.focus(&[]);
    model.apply(&tick(200));
    assert!(model.flow(id).is_none());
}

/// One step of a flow's life.
#[derive(Clone, Debug)]
enum Step {
    Sample(u32),
    Gap,
    Switch,
    Retransmit(u32),
    Ca,
    Tick,
    Focus(bool),
    Others(u64),
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let step = prop_oneof![
        8 => (0_u32..100_000).prop_map(Step::Sample),
        1 => Just(Step::Gap),
        1 => Just(Step::Switch),
        2 => (1_u32..5).prop_map(Step::Retransmit),
        1 => Just(Step::Ca),
        2 => Just(Step::Tick),
        1 => any::<bool>().prop_map(Step::Focus),
        1 => (0_u64..400).prop_map(Step::Others),
    ];
    let pause = prop_oneof![
        4 => 0_u64..20 * MS,
        2 => 0_u64..900 * MS,
        1 => 0_u64..30 * S,
    ];
    proptest::collection::vec((pause, step), 1..300)
}

/// What happened, as simply as can be: a sample (time, cwnd), or a break.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    Sample(u64, u64),
    Break,
}

struct Life {
    model: Model,
    seen: Vec<Seen>,
    retransmitted: u64,
}

fn live(steps: &[(u64, Step)]) -> Life {
    let mut model = Model::default();
    let mut sample = a_sample();
    let mut time = 10 * S;
    let mut life = Vec::new();
    let mut retransmitted = 0;
    let mut others = 0;
    let mut told = None;
    model.apply(&event(time, 1, opened()));
    for (pause, step) in steps {
        if *pause >= 3 * S {
            life.push(Seen::Break);
        }
        time += pause;
        let payload = match step {
            Step::Sample(cwnd) => {
                sample.cwnd = Some(*cwnd);
                if told
                    .replace(sample.origin)
                    .is_some_and(|old| old != sample.origin)
                {
                    life.push(Seen::Break);
                }
                life.push(Seen::Sample(time, u64::from(*cwnd)));
                Payload::Sample(Box::new(sample.clone()))
            }
            Step::Gap => {
                life.push(Seen::Break);
                Payload::Gap(Gap { missing: 1 })
            }
            Step::Switch => {
                sample.origin = match sample.origin {
                    Origin::Ebpf => Origin::Diag,
                    Origin::Diag | Origin::Capture => Origin::Ebpf,
                };
                Payload::Tick
            }
            Step::Retransmit(segments) => {
                retransmitted += u64::from(*segments);
                Payload::Retransmit(Retransmit {
                    seq: None,
                    end_seq: None,
                    bytes: 1,
                    segments: *segments,
                    kind: RetransmitKind::Fast,
                    ca_state: CaState::Open,
                    failed: false,
                    rtt_us: None,
                    min_rtt_us: None,
                    cwnd: None,
                })
            }
            Step::Ca => Payload::CaState(CaStateChange {
                old: CaState::Open,
                new: CaState::Recovery,
                cwnd: 1,
                ssthresh: Limit::Unlimited,
                lost_out: 0,
            }),
            Step::Tick => Payload::Tick,
            Step::Focus(on) => {
                let id = [FlowId {
                    cookie: 1,
                    netns: 1,
                }];
                model.focus(if *on { &id } else { &[] });
                Payload::Tick
            }
            Step::Others(n) => {
                // Others come and make everybody's history shorter.
                for _ in 0..*n {
                    others += 1;
                    model.apply(&event(time, 1000 + others, opened()));
                }
                Payload::Tick
            }
        };
        model.apply(&event(time, 1, payload));
    }
    Life {
        model,
        seen: life,
        retransmitted,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever the resolution, a column that lies where all is known has the least and the greatest of its samples.
    #[test]
    fn columns_have_the_extremes_of_their_samples(steps in steps(), step in 1_u64..12, fine: bool) {
        let life = live(&steps);
        let past = life.model.past(life.model.flow(FlowId { cookie: 1, netns: 1 }).expect("open"));
        let Some(from) = past.from() else { return Ok(()); };
        // Columns are as wide as the coarsest bucket, and more, so that each bucket lies in one.
        let unit = past.resolution(from).max(if fine { 100 * MS } else { 10 * S });
        let step = unit * step;
        let start = from.0.div_ceil(step) * step;
        let columns = usize::try_from((life.model.now().0.saturating_sub(start)) / step + 1).expect("few");
        let w = window(start, step, columns.min(5000));
        for (i, column) in past.columns(Quantity::Cwnd, &w).iter().enumerate() {
            let (a, b) = (start + i as u64 * step, start + (i as u64 + 1) * step);
            let inside = life.seen.iter().filter_map(|seen| match seen {
                Seen::Sample(time, cwnd) if (a..b).contains(time) => Some(*cwnd),
                _ => None,
            });
            let near = |x: u64, y: u64| x.abs_diff(y) <= y / 2000;
            let (least, greatest) = (inside.clone().min(), inside.max());
            match (least, greatest, column) {
                (Some(least), Some(greatest), Some(Extent { range: Some((lo, hi)), held: false, .. })) => {
                    prop_assert!(near(*lo, least), "{lo} {least}");
                    prop_assert!(near(*hi, greatest), "{hi} {greatest}");
                }
                (None, None, None | Some(Extent { held: true, .. })) => {}
                other => prop_assert!(false, "column {i}: {other:?}"),
            }
        }
    }

    /// Two columns are joined only where no break lies between the last sample of one and the first of the other.
    #[test]
    fn breaks_are_never_bridged(steps in steps(), step in 1_u64..400) {
        let life = live(&steps);
        let past = life.model.past(life.model.flow(FlowId { cookie: 1, netns: 1 }).expect("open"));
        let step = step * 25 * MS;
        let start = 10 * S;
        let columns = usize::try_from((life.model.now().0 - start) / step + 2).expect("few");
        let w = window(start, step, columns);
        let columns = past.columns(Quantity::Cwnd, &w);
        for pair in life.seen.windows(2).collect::<Vec<_>>().iter().filter(|p| p[1] == Seen::Break) {
            // From the sample before the break to the next one after it.
            let Seen::Sample(before, _) = pair[0] else { continue };
            let at = life.seen.iter().position(|s| *s == pair[0]).expect("there");
            let next = life.seen[at..].iter().find_map(|s| match s {
                Seen::Sample(time, _) if *time > before => Some(*time),
                _ => None,
            });
            let Some(next) = next else { continue };
            // Buckets that reach over the break show that they were parted.
            let unit = past.resolution(Mono(before)).max(1);
            if before / unit == next / unit {
                continue;
            }
            // What is drawn of a bucket is drawn over its whole width.
            let column = |time: u64| w.column(time).unwrap_or(w.columns - 1);
            let (a, b) = (column(before / unit * unit + unit - 1), column(next / unit * unit));
            let between = (a + 1)..=b;
            let all_joined = a < b && between.clone().all(|i| columns[i].is_some_and(|c| c.joined));
            prop_assert!(!all_joined, "{before} {next} {:?}", &columns[a..=b]);
        }
    }

    /// Memory is bounded, and no retransmission is counted twice or lost while it is remembered.
    #[test]
    fn memory_is_bounded_and_counts_are_exact(steps in steps()) {
        let life = live(&steps);
        prop_assert!(heap(&life.model) <= BUDGET);
        let past = life.model.past(life.model.flow(FlowId { cookie: 1, netns: 1 }).expect("open"));
        if past.history().forgotten_before().is_some() || past.from().is_none() {
            return Ok(());
        }
        let step = 10 * S;
        let columns = usize::try_from(life.model.now().0 / step + 1).expect("few");
        let counted = past.retransmits(&window(0, step, columns));
        let sum: u64 = counted.iter().flatten().map(|n| u64::from(*n)).sum();
        prop_assert_eq!(sum, life.retransmitted);
    }

    /// Any window can be asked for.
    #[test]
    fn any_window_is_answered(steps in steps(), from: u64, step in 1_u64.., columns in 0_usize..300) {
        let life = live(&steps);
        let past = life.model.past(life.model.flow(FlowId { cookie: 1, netns: 1 }).expect("open"));
        for from in [from, from % (100 * S)] {
            let w = window(from, step, columns);
            prop_assert_eq!(past.columns(Quantity::Rtt, &w).len(), columns);
            prop_assert_eq!(past.stages(&w).len(), columns);
            prop_assert_eq!(past.retransmits(&w).len(), columns);
        }
    }
}

#[test]
fn the_budget_sets_something_aside_for_flows_looked_at() {
    let mut model = Model::default();
    for cookie in 0..200_000 {
        model.apply(&event(S, cookie, opened()));
    }
    let sample = Box::new(a_sample());
    for second in 1..30 {
        for cookie in 0..1000 {
            model.apply(&event(second * S, cookie, Payload::Sample(sample.clone())));
        }
    }
    assert!(heap(&model) <= BUDGET);
}
