//! What the screen says of verdicts: the table, the flow's page, the page of reasons, events. Verdicts are made by hand, so
//! that the pictures do not change with the detectors. Each snapshot was looked at before it was accepted.

use std::sync::Arc;

use observer::detect::{Class, Group, Rule, Scope, Verdict, guide};
use observer::event::FlowId;
use observer::model::{Judgement, Model};
use observer::source::script;
use observer::tui::{Key, Marker, Theme, ThemeName, ViewState, Wall, draw};
use observer::units::Mono;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Modifier;

const S: u64 = 1_000_000_000;

const FLOWS: &str = "\
@1s host hostname=lab kernel=6.18.0 hz=250 cpus=2 default_qdisc=fq_codel default_cc=cubic cc=cubic,bbr
+0 device index=2 name=eth0 up=yes
+0 qdisc index=2 kind=fq handle=8001: parent=root drops=0 backlog_bytes=0
+0 opened 7 local=10.0.0.1:43210 remote=10.0.0.2:5201 birth=yes
+0 attributes 7 local=10.0.0.1:43210 remote=10.0.0.2:5201 cc=bbr version=v1 dev=2
+0 owners 7 4711/iperf3
+0 sample 7 cwnd=690 mss=1448 srtt=41900us min_rtt=40100us rtt=42ms packets_out=350 pacing_rate=125mbit \
bytes_acked=0 bytes_sent=0 bytes_retrans=0
+0 opened 8 local=10.0.0.1:43211 remote=10.0.0.2:5201 birth=yes
+0 attributes 8 local=10.0.0.1:43211 remote=10.0.0.2:5201 cc=cubic dev=2
+0 sample 8 cwnd=40 mss=1448 srtt=41900us min_rtt=40100us rtt=42ms packets_out=40 bytes_acked=0 bytes_sent=0 bytes_retrans=0
+0 opened 9 local=10.0.0.1:443 remote=198.51.100.7:50412 birth=yes
+0 attributes 9 local=10.0.0.1:443 remote=198.51.100.7:50412 cc=cubic dev=2
+0 sample 9 cwnd=10 mss=1448 srtt=20ms min_rtt=20ms packets_out=0 bytes_acked=0 bytes_sent=0 bytes_retrans=0
+1s sample 7 bytes_acked=10000000 bytes_sent=10600000 bytes_retrans=56700 retrans=390
+0 sample 8 bytes_acked=1250000 bytes_sent=1260000 bytes_retrans=5670 retrans=39
+0 sample 9 bytes_acked=1000 bytes_sent=1000
+500ms tick
";

fn flow(cookie: u64, model: &Model) -> FlowId {
    let found = model.flows().find(|flow| flow.id().cookie == cookie);
    found.expect("it is there").id()
}

fn judgement(model: &Model, class: Class, cookies: &[u64]) -> Arc<Judgement> {
    let flows: Vec<FlowId> = cookies.iter().map(|cookie| flow(*cookie, model)).collect();
    let peer = model.flow(flows[0]).expect("a flow").remote().ip();
    let policer = class == Class::Policer;
    let evidence: &[&str] = match class {
        Class::Policer => &[
            "412 of 9800 packets lost (4.2 %) in 96 events, 31 more in start-up, over 12 s (300 RTT of 40.1 ms)",
            "RTT only 0.1 ms above the least before losses (threshold 1.2 ms): no queue stood there",
            "drops fit a bucket of 94 kB at 20.10 Mbit/s (J 0.95); delay explains 1.0 % of it",
        ],
        _ => &["to name a cause there is too little: 12 of 20 RTT of sending"],
    };
    let rate_bps = policer.then_some(20_100_000);
    Arc::new(Judgement {
        time: Mono(2 * S),
        since: Mono(2 * S),
        old: None,
        verdict: Verdict {
            class,
            confidence: if policer { 0.95 } else { 0.5 },
            rate_bps,
            depth_bytes: policer.then_some(94_000),
            buffer_bdp: None,
            random_loss: None,
            scope: if flows.len() > 1 {
                Scope::Group
            } else {
                Scope::Flow
            },
            group: Group::of_one(peer),
            peer,
            flows,
            rule: Rule::Numbered(2),
            evidence: evidence.iter().map(|line| (*line).to_owned()).collect(),
            advice: guide::advice(class, true, rate_bps, None),
        },
    })
}

fn model() -> Model {
    let mut model = Model::default();
    for event in script::parse(&FLOWS.replace("\\\n", "")).expect("a script") {
        model.apply(&event);
    }
    for judgement in [
        judgement(&model, Class::Policer, &[7, 8]),
        judgement(&model, Class::Insufficient, &[9]),
    ] {
        model.judge(&judgement);
    }
    model
}

/// The screen after `keys`.
fn screen(keys: &str, (width, height): (u16, u16), theme: ThemeName) -> Buffer {
    let model = model();
    let mut state = ViewState {
        theme: Theme::new(theme, Marker::Braille),
        wall: Wall {
            offset_ns: Some(1_796_072_399 * S as i64),
            zone: jiff::tz::TimeZone::UTC,
        },
        ..ViewState::default()
    };
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("in memory");
    let mut frame = |state: &mut ViewState| {
        terminal
            .draw(|frame| {
                state.prepare(&model, &|_, _| true, frame.area());
                draw(&model, state, "eBPF", frame);
            })
            .expect("in memory");
        terminal.backend().buffer().clone()
    };
    let mut buffer = frame(&mut state);
    for key in keys.chars() {
        assert!(state.key(Key::Char(key)).is_some(), "{key} means something");
        buffer = frame(&mut state);
    }
    buffer
}

fn text(buffer: &Buffer) -> String {
    let area = buffer.area;
    let line = |y: u16| -> String {
        let cells = (0..area.width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..area.height).map(|y| line(y) + "\n").collect()
}

fn shown(keys: &str, size: (u16, u16)) -> String {
    text(&screen(keys, size, ThemeName::None))
}

#[test]
fn the_table_names_them() {
    insta::assert_snapshot!("table_at_160", shown("", (160, 14)));
}

#[test]
fn reasons_at_80_and_120() {
    insta::assert_snapshot!("why_at_80", shown("jw", (80, 24)));
    insta::assert_snapshot!("why_at_120", shown("jw", (120, 50)));
    insta::assert_snapshot!("why_not_enough_at_80", shown("jjjw", (80, 24)));
}

#[test]
fn reasons_scroll_to_their_end() {
    let end = shown("jwG", (80, 24));
    assert!(end.contains("Jain index"), "{end}");
    assert!(end.contains("pushes") && end.contains("yields"), "{end}");
}

#[test]
fn the_flows_page_has_a_place_for_it() {
    let open = |size| {
        let model = model();
        let mut state = ViewState {
            theme: Theme::new(ThemeName::None, Marker::Braille),
            ..ViewState::default()
        };
        state.flows.selected = Some(flow(7, &model));
        state.update(observer::tui::Action::Go(observer::tui::Page::Flow));
        let mut terminal = Terminal::new(TestBackend::new(size, 40)).expect("in memory");
        terminal
            .draw(|frame| {
                state.prepare(&model, &|_, _| true, frame.area());
                draw(&model, &state, "eBPF", frame);
            })
            .expect("in memory");
        text(terminal.backend().buffer())
    };
    for width in [80, 120] {
        let page = open(width);
        assert!(page.contains("verdict policer 20.1 Mbit/s"), "{page}");
        assert!(page.contains("95 % sure"), "{page}");
    }
    insta::assert_snapshot!("flow_at_120", open(120));
}

#[test]
fn events_tell_what_was_found_and_not_what_is_missing() {
    let page = shown("5", (140, 20));
    assert!(page.contains("2 flows to 10.0.0.2: policer"), "{page}");
    assert!(!page.contains("insufficient"), "{page}");
    assert!(page.contains("verdict 1"), "{page}");
    assert!(!shown("5w", (140, 20)).contains("2 flows to"), "hidden");
}

/// The cell in which `word` begins.
fn cell_of(buffer: &Buffer, word: &str) -> (u16, u16) {
    for y in 0..buffer.area.height {
        for x in 0..buffer.area.width {
            let rest: String = (x..buffer.area.width)
                .map(|x| buffer[(x, y)].symbol())
                .collect();
            if rest.starts_with(word) {
                return (x, y);
            }
        }
    }
    panic!("no {word} on the screen:\n{}", text(buffer));
}

#[test]
fn a_finding_stands_out_also_without_colour() {
    for theme in ThemeName::ALL {
        let buffer = screen("", (200, 14), theme);
        let style = buffer[cell_of(&buffer, "policer")].style();
        assert!(style.add_modifier.contains(Modifier::BOLD), "{theme:?}");
        let quiet = buffer[cell_of(&buffer, "insufficient")].style();
        assert!(!quiet.add_modifier.contains(Modifier::BOLD), "{theme:?}");
    }
    let why = screen("jw", (80, 24), ThemeName::None);
    let style = why[cell_of(&why, "verdict policer")].style();
    assert!(style.add_modifier.contains(Modifier::BOLD));
}
