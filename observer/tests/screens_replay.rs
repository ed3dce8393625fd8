//! The screen over a recording, and scrolled back while live: drawn from scripts of events at fixed times. Each snapshot was
//! looked at before it was accepted.

use std::fmt::Write as _;

use observer::event::Event;
use observer::model::{Mark, MarkKind, Model};
use observer::source::script;
use observer::tui::{
    Action, Command, Direction, Effect, Key, Look, Marker, Paused, Speed, Theme, ThemeName,
    Timeline, Transport, ViewState, Wall, cells, draw,
};
use observer::units::Mono;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Modifier;

const S: u64 = 1_000_000_000;
/// 2026-11-30T21:00:00Z at the scripts' first second.
const OFFSET: i64 = (1_796_072_400 - 1) * S as i64;

const HOST: &str = "\
@1s host hostname=lab kernel=6.18.0 hz=250 default_qdisc=fq_codel default_cc=cubic cc=cubic,bbr
+0 device index=2 name=eth0 up=yes
+0 qdisc index=2 kind=fq handle=8001: parent=root drops=3 backlog_bytes=14480
+0 opened 7 local=10.0.0.1:43210 remote=10.0.0.2:5201 birth=yes
+0 attributes 7 local=10.0.0.1:43210 remote=10.0.0.2:5201 cc=bbr version=v1 dev=2
+0 owners 7 4711/iperf3
+0 sample 7 cwnd=690 mss=1448 srtt=41900us min_rtt=40100us rtt=42ms packets_out=350 pacing_rate=125mbit \
pacing_status=fq bytes_acked=0 bytes_sent=0 bytes_retrans=0 cc=bbr phase=STARTUP btlbw=100mbit bbr_min_rtt=40100us \
pacing_gain=2.89 cwnd_gain=2.89
";

/// A bulk flow of 40 s: acknowledged evenly, bursts of retransmissions at 10, 25 and 26 s.
fn events() -> Vec<Event> {
    let mut text = HOST.replace("\\\n", "");
    for tenth in 1..=400_u64 {
        let bytes = tenth * 1_250_000;
        let phase = if tenth < 20 { "STARTUP" } else { "PROBE_BW/UP" };
        writeln!(
            text,
            "+100ms sample 7 bytes_acked={bytes} bytes_sent={bytes} phase={phase}"
        )
        .expect("text");
        if [100, 250, 260].contains(&tenth) {
            for _ in 0..4 {
                text +=
                    "+0 retransmit 7 segments=1 bytes=1448 kind=fast rtt=44ms min_rtt=40100us\n";
            }
        }
    }
    script::parse(&text).expect("a script")
}

/// The model at `time`, and where a recording of all of it is then.
fn at(time: u64) -> (Model, ViewState) {
    let events = events();
    let mut model = Model::default();
    let last = events.last().expect("events").time;
    for event in events.iter().filter(|event| event.time.0 <= time) {
        model.apply(event);
    }
    let bursts = [11, 26, 27].map(|second| Mark {
        time: Mono(second * S),
        flow: None,
        kind: MarkKind::Burst,
    });
    let mut transport = Transport::file(Mono(S), last, Speed::default());
    transport.go(Mono(time));
    let state = ViewState {
        timeline: Some(Timeline {
            file: Some("path.mcap".to_owned()),
            transport,
            at: transport.at(),
            now: last,
            seeking: false,
            bursts: cells(&bursts, Mono(S), last),
            trouble: None,
        }),
        wall: Wall {
            offset_ns: Some(OFFSET),
            ..Wall::default()
        },
        own_cpu: Some(0.002),
        ..ViewState::default()
    };
    (model, state)
}

fn buffer(model: &Model, state: &mut ViewState, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("in memory");
    let drawn = terminal.draw(|frame| {
        state.prepare(model, &|_, _| true, frame.area());
        draw(model, state, "eBPF", frame);
    });
    drawn.expect("in memory").buffer.clone()
}

fn text(buffer: &Buffer) -> String {
    let area = buffer.area;
    (0..area.height)
        .map(|y| {
            let line = (0..area.width).map(|x| buffer[(x, y)].symbol());
            line.collect::<String>().trim_end().to_owned() + "\n"
        })
        .collect()
}

fn drawn(model: &Model, state: &mut ViewState, width: u16, height: u16) -> String {
    text(&buffer(model, state, width, height))
}

fn act(state: &mut ViewState, command: Command) {
    let timeline = state.timeline.as_mut().expect("a recording");
    timeline.transport.act(command);
}

#[test]
fn playing() {
    let (model, mut state) = at(15 * S);
    act(&mut state, Command::Faster);
    insta::assert_snapshot!("playing_80", drawn(&model, &mut state, 80, 24));
    insta::assert_snapshot!("playing_120", drawn(&model, &mut state, 120, 40));
}

#[test]
fn paused() {
    let (model, mut state) = at(27 * S);
    act(&mut state, Command::Toggle);
    state.update(Action::Down);
    insta::assert_snapshot!("paused_80", drawn(&model, &mut state, 80, 24));
    state.key(Key::named("Enter").expect("a key"));
    insta::assert_snapshot!("paused_flow_80", drawn(&model, &mut state, 80, 24));
    insta::assert_snapshot!("paused_flow_120", drawn(&model, &mut state, 120, 40));
}

#[test]
fn at_its_end() {
    let (model, mut state) = at(41 * S);
    insta::assert_snapshot!("end_80", drawn(&model, &mut state, 80, 24));
    state.notice = Some("this is the end".to_owned());
    insta::assert_snapshot!("end_120", drawn(&model, &mut state, 120, 40));
}

#[test]
fn torn() {
    let (model, mut state) = at(30 * S);
    let timeline = state.timeline.as_mut().expect("a recording");
    timeline.trouble = Some(
        "torn at byte 4711: it was not closed, or was cut off; what came after is missing"
            .to_owned(),
    );
    insta::assert_snapshot!("torn_80", drawn(&model, &mut state, 80, 24));
    insta::assert_snapshot!("torn_120", drawn(&model, &mut state, 120, 40));
}

#[test]
fn a_time_is_asked_for_told_when_wrong_and_gone_to() {
    let (model, mut state) = at(15 * S);
    for key in [":", "9", "x"] {
        state.key(Key::named(key).expect("a key"));
    }
    assert_eq!(state.update(Action::Accept), None);
    insta::assert_snapshot!("wrong_time_80", drawn(&model, &mut state, 80, 24));
    state.update(Action::Cancel);
    assert!(state.prompt.is_none());
    for (typed, moment) in [("21:00:30", 31), ("50%", 21), ("+5s", 6), ("-10s", 31)] {
        state.key(Key::named(":").expect("a key"));
        for key in typed.chars() {
            state.key(Key::Char(key));
        }
        let asked = state.update(Action::Accept);
        assert_eq!(
            asked,
            Some(Effect::Time(Command::To(Mono(moment * S)))),
            "{typed}"
        );
        assert!(state.prompt.is_none());
    }
}

#[test]
fn the_words_stand_without_colour_at_every_width() {
    let (model, mut state) = at(15 * S);
    for (theme, ascii) in [(Marker::Braille, false), (Marker::Ascii, true)] {
        state.theme = Theme::new(ThemeName::None, theme);
        act(&mut state, Command::Toggle);
        for width in [20, 40, 60, 80, 200, 300] {
            let buffer = buffer(&model, &mut state, width, 24);
            let first = text(&buffer).lines().next().expect("a line").to_owned();
            let word = if ascii { "PLAYING" } else { "PAUSED" };
            assert!(first.contains(word), "{width}: {first:?}");
            assert!(width < 40 || first.contains("21:00:14.000"), "{first:?}");
            assert!(!ascii || !first.contains('━'), "{first:?}");
        }
    }
    act(&mut state, Command::Toggle);
    let buffer = buffer(&model, &mut state, 80, 24);
    let x = 11;
    assert_eq!(buffer[(x, 0)].symbol(), "P");
    assert!(buffer[(x, 0)].modifier.contains(Modifier::REVERSED));
}

#[test]
fn on_a_low_screen_what_was_lost_is_told_beside_the_time() {
    let (mut model, mut state) = at(15 * S);
    for event in script::parse("@15s gap 7 missing=41\n").expect("a script") {
        model.apply(&event);
    }
    let low = drawn(&model, &mut state, 80, 8);
    assert!(
        low.lines()
            .next()
            .is_some_and(|line| line.contains("LOST 41!")),
        "{low}"
    );
    assert!(low.contains("21:00:14.000"), "{low}");
}

/// What is live, its last seconds kept.
fn live(until: u64) -> (Model, Look) {
    let (mut model, mut look) = (Model::default(), Look::default());
    for event in events().iter().filter(|event| event.time.0 <= until) {
        model.apply(event);
        drop(model.take_derived());
        look.keep(&mut model);
    }
    (model, look)
}

fn acked(model: &Model) -> Option<u64> {
    model.flows().next()?.sample()?.bytes_acked
}

#[test]
fn live_is_gone_back_in_and_come_back_to() {
    let (mut model, mut look) = live(30 * S);
    let any = |_: &Model, _, _: Option<&observer::model::Flow>| true;
    let now = acked(&model);
    // Standing still, what goes on is not seen.
    assert_eq!(look.act(Command::Toggle, &model, &any), None);
    for event in events()
        .iter()
        .filter(|event| event.time.0 > 30 * S && event.time.0 <= 35 * S)
    {
        model.apply(event);
        look.keep(&mut model);
    }
    assert_eq!(acked(look.at(&model)), now);
    for _ in 0..3 {
        look.act(Command::Step(Direction::Back), &model, &any);
    }
    let shown = look.at(&model);
    assert_eq!(shown.now(), Mono(27 * S));
    assert_eq!(acked(shown), Some(260 * 1_250_000));
    // The past of a flow that is looked at is there, up to that moment.
    let id = shown.flows().next().expect("a flow").id();
    look.focus(&model, &[id]);
    let shown = look.at(&model);
    let past = shown.past(shown.flow(id).expect("it"));
    assert_eq!((past.from(), past.end()), (Some(Mono(S)), Mono(27 * S)));
    // What its events page tells is what had happened.
    let bursts = shown
        .journal()
        .into_iter()
        .filter(|entry| entry.what.kind().as_str() == "burst");
    assert_eq!(bursts.count(), 3);
    assert_eq!(
        look.act(
            Command::Jump(Direction::Back, MarkKind::Burst),
            &model,
            &any
        ),
        None
    );
    assert_eq!(look.at(&model).now(), Mono(26 * S));
    assert_eq!(
        look.act(
            Command::Jump(Direction::Back, MarkKind::Burst),
            &model,
            &any
        ),
        None
    );
    assert_eq!(look.at(&model).now(), Mono(11 * S));
    let told = look.act(
        Command::Jump(Direction::Back, MarkKind::Burst),
        &model,
        &any,
    );
    assert_eq!(told.as_deref(), Some("no retransmit burst before this"));
    let told = look.act(
        Command::Jump(Direction::Forth, MarkKind::Verdict),
        &model,
        &any,
    );
    assert!(told.is_some_and(|told| told.starts_with("no verdict change after")));
    look.act(Command::First, &model, &any);
    assert_eq!(look.at(&model).now(), Mono(S));
    let told = look.act(Command::Step(Direction::Back), &model, &any);
    assert_eq!(told.as_deref(), Some("nothing earlier is kept"));
    look.act(Command::Last, &model, &any);
    assert_eq!(look.at(&model).now(), Mono(35 * S));
    assert!(!look.timeline(&model).is_still());
}

#[test]
fn live_scrolled_back() {
    let (model, mut look) = live(35 * S);
    let any = |_: &Model, _, _: Option<&observer::model::Flow>| true;
    look.act(Command::Skip(Direction::Back), &model, &any);
    let timeline = look.timeline(&model);
    let mut state = at(S).1;
    state.paused = Some(Paused {
        at: timeline.at,
        clock: Some("21:00:24".to_owned()),
        ago: timeline.now.since(timeline.at),
    });
    state.timeline = Some(timeline);
    let shown = look.at(&model);
    insta::assert_snapshot!("live_back_80", drawn(shown, &mut state, 80, 24));
    insta::assert_snapshot!("live_back_120", drawn(shown, &mut state, 120, 40));
}

#[test]
fn what_is_kept_of_what_is_live_is_bounded() {
    let (mut model, mut look) = (Model::default(), Look::default());
    let mut text = String::from("@1s host hostname=lab\n");
    for flow in 0..500 {
        let port = flow + 1;
        writeln!(
            text,
            "+0 opened {flow} local=10.0.0.1:1 remote=10.0.0.2:{port}"
        )
        .expect("text");
    }
    for event in script::parse(&text).expect("a script") {
        model.apply(&event);
    }
    for second in 2..1500_u64 {
        for event in script::parse(&format!("@{second}s tick\n")).expect("a script") {
            model.apply(&event);
        }
        look.keep(&mut model);
        let (moments, bytes) = look.size();
        assert!(bytes <= 32 << 20, "{moments} {bytes}");
    }
    let (moments, bytes) = look.size();
    assert!(moments > 10, "{moments}");
    // The README says from how many flows on there is no going back: that is where a moment takes 4 MiB.
    let flow = bytes / moments / 500;
    assert!((1500..2600).contains(&flow), "{flow}");
    let reach = model.now().since(look.timeline(&model).transport.first());
    assert!(reach > 500 * S && reach <= 600 * S, "{reach}");
}
