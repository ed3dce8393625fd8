//! The flow page in all its states, drawn from scripts of events. Snapshots are text, at fixed times, without facts of
//! this host; each was looked at before it was accepted.

use std::fmt::Write as _;

use observer::event::FlowId;
use observer::model::Model;
use observer::source::script;
use observer::tui::{Action, Key, Marker, Page, Theme, ThemeName, ViewState, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};

const HOST: &str = "\
@100s host hostname=lab kernel=6.18.0 hz=250 cpus=2 default_qdisc=fq_codel default_cc=cubic
+0 device index=1 name=lo up=yes
+0 qdisc index=1 kind=noqueue handle=0: parent=root
+0 device index=2 name=eth0 up=yes
+0 qdisc index=2 kind=fq handle=8001: parent=root drops=3 backlog_bytes=14480
";

const CUBIC: &str = "\
+0 opened 7 birth=yes local=10.0.0.1:43210 remote=10.0.0.2:5201
+0 attributes 7 local=10.0.0.1:43210 remote=10.0.0.2:5201 cc=cubic dev=2 pmtu=1500 wscale=7/8 sack=yes timestamps=yes ecn=no cgroup=/user.slice/user-0.slice/session-4.scope
+0 owners 7 4711/iperf3
+0 sample 7 cwnd=10 mss=1448 srtt=40ms min_rtt=40ms rtt=40ms bytes_acked=0 bytes_sent=0 bytes_retrans=0 cc=cubic clocks=-
";

/// `seconds` of CUBIC filling a queue of one BDP at 100 Mbit/s and 40 ms, sampled every 20 ms.
fn cubic(seconds: u32) -> String {
    let mut text = CUBIC.to_owned();
    let (mut cwnd, mut acked, mut retrans) = (10.0_f64, 0.0_f64, 0_u32);
    let mut slow_start = true;
    let mut since_cut = 0.0_f64;
    for n in 0..seconds * 50 {
        // The queue: what does not fit the path.
        let queue = (cwnd - 345.0).max(0.0);
        let rtt = 40.0 + queue * 1448.0 * 8.0 / 100e6 * 1e3;
        let rate = (cwnd / (rtt / 1e3)).min(8632.0);
        acked += rate * 0.02 * 1448.0;
        since_cut += 0.02;
        if slow_start {
            cwnd *= 1.35;
        } else {
            // CUBIC's curve from 0.7 of the largest window.
            let k = 4.2_f64;
            cwnd = 690.0 + 2.8 * (since_cut - k).powi(3);
        }
        let state = if cwnd > 700.0 {
            slow_start = false;
            since_cut = 0.0;
            retrans += 12;
            writeln!(
                text,
                "+0 retransmit 7 segments=11 kind=fast\n+0 retransmit 7 segments=1 kind=tlp"
            )
            .expect("text");
            cwnd = 483.0;
            "Recovery"
        } else if since_cut < 0.1 && !slow_start {
            "Recovery"
        } else {
            "Open"
        };
        let jitter = f64::from(n * 7919 % 13) / 10.0;
        writeln!(
            text,
            "+20ms sample 7 cwnd={:.0} packets_out={:.0} srtt={:.0}us rtt={:.0}us ca_state={state} pacing_rate={:.0}B/s delivery_rate={:.0}B/s bytes_acked={acked:.0} bytes_sent={acked:.0} retrans={retrans} bytes_retrans={} data_segs_out={:.0} ssthresh=483 busy={}us",
            cwnd,
            cwnd.min(700.0) - 4.0,
            rtt * 1e3,
            (rtt + jitter) * 1e3,
            rate * 1448.0 * 1.2,
            rate * 1448.0,
            retrans * 1448,
            acked / 1448.0,
            (n + 1) * 20_000,
        )
        .expect("text");
    }
    text
}

/// `seconds` of BBR: start-up, drain, gain cycles, a PROBE_RTT at 5 s and every 10 s after.
fn bbr(seconds: u32) -> String {
    let mut text = "\
+0 opened 7 birth=yes local=10.0.0.1:43210 remote=10.0.0.2:5201
+0 attributes 7 local=10.0.0.1:43210 remote=10.0.0.2:5201 cc=bbr version=v1 dev=2 pmtu=1500 wscale=7/8 sack=yes timestamps=yes ecn=no cgroup=/user.slice
+0 owners 7 4711/iperf3
+0 sample 7 cwnd=10 mss=1448 srtt=40ms min_rtt=40ms rtt=40ms bytes_acked=0 bytes_sent=0 bytes_retrans=0 cc=bbr phase=STARTUP bbr_min_rtt=40ms btlbw=3mbit pacing_gain=2.89 cwnd_gain=2.89
"
    .to_owned();
    let mut acked = 0_u64;
    for n in 0..seconds * 50 {
        let ms = n * 20;
        let cycle = [
            "UP", "DOWN", "CRUISE", "CRUISE", "CRUISE", "CRUISE", "CRUISE", "CRUISE",
        ];
        let part = cycle[(ms / 40 % 8) as usize];
        let (phase, gain, inflight, mbit) = match ms {
            0..300 => ("STARTUP".to_owned(), "2.89", 20 + ms * 3, 10 + ms / 3),
            300..420 => ("DRAIN".to_owned(), "0.35", 900 - (ms - 300) * 4, 98),
            _ if ms % 10_000 >= 5000 && ms % 10_000 < 5200 => ("PROBE_RTT".to_owned(), "1", 4, 98),
            _ => {
                let (gain, inflight) = match part {
                    "UP" => ("1.25", 430),
                    "DOWN" => ("0.75", 330),
                    _ => ("1", 345),
                };
                (format!("PROBE_BW/{part}"), gain, inflight, 97 + n % 2)
            }
        };
        let cwnd = if phase == "PROBE_RTT" {
            4
        } else {
            690.min(20 + ms * 3)
        };
        let inflight = inflight.min(cwnd);
        let rtt = 40_000 + inflight.saturating_sub(345) * 116;
        acked += u64::from(mbit) * 2500;
        writeln!(
            text,
            "+20ms sample 7 cwnd={cwnd} packets_out={inflight} rtt={rtt}us srtt={}us phase={phase} pacing_gain={gain} cwnd_gain=2 btlbw={}mbit pacing_rate={}mbit delivery_rate={mbit}mbit bytes_acked={acked} bytes_sent={acked} busy={}us",
            40_000 + (rtt - 40_000) / 3,
            mbit.min(98),
            f64::from(mbit) * gain.parse::<f64>().expect("a gain"),
            (n + 1) * 20_000,
        )
        .expect("text");
    }
    text
}

fn fold(parts: &[&str]) -> Model {
    let mut model = Model::default();
    for event in script::parse(&parts.concat()).expect("a script") {
        model.apply(&event);
    }
    model
}

const ID: FlowId = FlowId {
    cookie: 7,
    netns: script::NETNS,
};

fn opened() -> ViewState {
    let mut state = ViewState {
        own_cpu: Some(0.002),
        ..ViewState::default()
    };
    state.flows.selected = Some(ID);
    state.update(Action::Go(Page::Flow));
    state
}

fn screen(model: &Model, state: &mut ViewState, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a backend");
    terminal
        .draw(|frame| {
            state.prepare(model, &|_, _| true, frame.area());
            draw(model, state, "eBPF", frame);
        })
        .expect("drawn");
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let row = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol());
        out.push_str(row.collect::<String>().trim_end());
        out.push('\n');
    }
    out
}

fn shown(parts: &[&str], width: u16, height: u16) -> String {
    text(&screen(&fold(parts), &mut opened(), width, height))
}

#[test]
fn cubic_at_80() {
    insta::assert_snapshot!(shown(&[HOST, &cubic(20)], 80, 24));
}

#[test]
fn cubic_in_ascii() {
    let mut state = opened();
    state.theme = Theme::new(ThemeName::None, Marker::Ascii);
    let page = text(&screen(&fold(&[HOST, &cubic(20)]), &mut state, 80, 24));
    let charts: String = page.lines().skip(6).take(16).collect();
    assert!(charts.is_ascii(), "{charts}");
    insta::assert_snapshot!(page);
}

#[test]
fn bbr_at_80() {
    insta::assert_snapshot!(shown(&[HOST, &bbr(8)], 80, 24));
}

#[test]
fn bbr_phases_at_one_second() {
    let mut state = opened();
    for _ in 0..3 {
        state.update(Action::ZoomIn);
    }
    insta::assert_snapshot!(text(&screen(&fold(&[HOST, &bbr(8)]), &mut state, 80, 24)));
}

#[test]
fn busy_at_60() {
    insta::assert_snapshot!(shown(&[HOST, &bbr(8)], 60, 15));
}

#[test]
fn busy_at_120() {
    insta::assert_snapshot!(shown(&[HOST, &bbr(28)], 120, 40));
}

#[test]
fn busy_at_300() {
    insta::assert_snapshot!(shown(&[HOST, &cubic(28)], 300, 80));
}

#[test]
fn just_opened() {
    let opened = "+0 opened 7 birth=yes state=SYN-SENT local=10.0.0.1:0 remote=10.0.0.2:5201\n";
    insta::assert_snapshot!(shown(&[HOST, opened], 80, 24));
}

#[test]
fn closed() {
    let gone = "+0 closed 7\n+5s tick\n";
    insta::assert_snapshot!(shown(&[HOST, &cubic(20), gone], 80, 24));
}

/// Lost records, then silence that is none, then idleness.
#[test]
fn gaps_and_idleness() {
    let mut text = cubic(8);
    text += "+0 gap 7 missing=120\n+1s tick\n+1s tick\n+2s tick\n";
    text += "+0 sample 7 packets_out=300\n+20ms sample 7 packets_out=0\n";
    text.push_str(&"+500ms tick\n".repeat(12));
    text += "+0 sample 7 cwnd=10 packets_out=10\n+20ms sample 7 cwnd=20 packets_out=20\n+2s tick\n";
    insta::assert_snapshot!(shown(&[HOST, &text], 80, 24));
}

/// The source changes: what polling does not tell is not there.
#[test]
fn degraded() {
    let mut text = cubic(8);
    text += "+0 note kind=degraded no eBPF: not permitted\n";
    for n in 0..30 {
        writeln!(
            text,
            "+200ms sample 7 origin=diag cause=Sweep rtt=- cc=- cwnd={}",
            500 + n
        )
        .expect("text");
    }
    insta::assert_snapshot!(shown(&[HOST, &text], 80, 24));
}

#[test]
fn with_a_cursor() {
    let model = fold(&[HOST, &cubic(20)]);
    let mut state = opened();
    screen(&model, &mut state, 80, 24);
    for _ in 0..20 {
        state.update(Action::CursorLeft);
        screen(&model, &mut state, 80, 24);
    }
    insta::assert_snapshot!(text(&screen(&model, &mut state, 80, 24)));
}

#[test]
fn enlarged() {
    let model = fold(&[HOST, &cubic(20)]);
    let mut state = opened();
    for _ in 0..3 {
        state.key(Key::Code(crossterm::event::KeyCode::Tab));
    }
    insta::assert_snapshot!(text(&screen(&model, &mut state, 80, 24)));
}

#[test]
fn an_unlimited_rate_and_an_old_flow() {
    let text = "\
+0 opened 7
+0 attributes 7 cc=reno
+0 sample 7 cwnd=10 pacing_rate=unlimited srtt=300us min_rtt=300us packets_out=3
+1s sample 7 cwnd=11 packets_out=8
";
    insta::assert_snapshot!(shown(&[HOST, text], 80, 24));
}

#[test]
fn what_comes_new_does_not_move_a_view_scrolled_back() {
    let before = fold(&[HOST, &cubic(60)]);
    let after = fold(&[
        HOST,
        &cubic(60),
        "+100ms sample 7 cwnd=1000 packets_out=999\n+2s tick\n",
    ]);
    let mut state = opened();
    screen(&before, &mut state, 80, 24);
    for action in [Action::Earlier, Action::Earlier] {
        state.update(action);
    }
    let charts = |text: &str| {
        text.lines()
            .skip(6)
            .filter(|l| !l.contains("cwnd"))
            .take(3)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let old = text(&screen(&before, &mut state, 80, 24));
    let new = text(&screen(&after, &mut state, 80, 24));
    assert_eq!(charts(&old), charts(&new));
    state.update(Action::Last);
    let new = text(&screen(&after, &mut state, 80, 24));
    assert_ne!(charts(&old), charts(&new));
}

#[test]
fn another_flow_is_a_key_away() {
    let other = "+0 opened 9\n+0 sample 9 cwnd=3 bytes_acked=0\n";
    let model = fold(&[HOST, &cubic(3), other]);
    let mut state = opened();
    screen(&model, &mut state, 80, 24);
    state.update(Action::CursorLeft);
    state.update(Action::Down);
    state.update(Action::Up);
    state.update(Action::Down);
    assert_ne!(state.flows.selected, Some(ID));
    assert_eq!(state.page(), Page::Flow);
    screen(&model, &mut state, 80, 24);
    assert_eq!((state.flow.cursor, state.flow.end), (None, None));
    assert_eq!(state.focus(), vec![FlowId { cookie: 9, ..ID }]);
}

#[test]
fn enter_opens_what_is_selected_or_what_is_at_the_top() {
    let model = fold(&[HOST, &cubic(1)]);
    let mut state = ViewState::default();
    screen(&model, &mut state, 80, 24);
    state.key(Key::Code(crossterm::event::KeyCode::Enter));
    assert_eq!((state.page(), state.flows.selected), (Page::Flow, Some(ID)));
    state.key(Key::Code(crossterm::event::KeyCode::Esc));
    assert_eq!(state.page(), Page::Flows);
    // With nothing to open the page says so.
    let mut state = ViewState::default();
    state.key(Key::Code(crossterm::event::KeyCode::Enter));
    let page = text(&screen(&fold(&[HOST]), &mut state, 80, 24));
    assert!(page.contains("No flow is selected"), "{page}");
    state.flows.selected = Some(ID);
    let page = text(&screen(&fold(&[HOST]), &mut state, 80, 24));
    assert!(page.contains("no longer kept"), "{page}");
}

#[test]
fn lines_are_told_apart_without_colour() {
    let model = fold(&[HOST, &bbr(8)]);
    for marker in Marker::ALL {
        let mut state = opened();
        state.theme = Theme::new(ThemeName::None, marker);
        let buffer = screen(&model, &mut state, 80, 24);
        assert!(
            buffer
                .content()
                .iter()
                .all(|c| c.fg == Color::Reset && c.bg == Color::Reset)
        );
        let page = text(&buffer);
        let legend = page
            .lines()
            .find(|l| l.contains("cwnd") && l.contains("inflight"))
            .expect("a legend");
        let signs: Vec<&str> = ["cwnd", "inflight", "BDP"]
            .iter()
            .map(|name| legend.split(name).next().expect("before it").trim_end())
            .map(|before| before.rsplit("  ").next().expect("a sign"))
            .collect();
        assert!(signs[0] != signs[1] && signs[1] != signs[2], "{signs:?}");
    }
}

#[test]
fn a_cursor_is_seen_without_colour() {
    let model = fold(&[HOST, &bbr(8)]);
    let mut state = opened();
    state.theme = Theme::new(ThemeName::None, Marker::Braille);
    screen(&model, &mut state, 80, 24);
    state.update(Action::CursorLeft);
    let buffer = screen(&model, &mut state, 80, 24);
    let reversed = buffer
        .content()
        .iter()
        .filter(|c| c.modifier.contains(Modifier::REVERSED));
    assert!(reversed.count() > 8);
}

#[test]
fn trap_30_nothing_leaves_its_cell() {
    let evil = "+0 owners 7 1/\"\\e[2J\\e[1;31m漢字漢字漢字漢字漢字\"\n";
    let name = "x".repeat(200);
    let more = format!("+0 attributes 7 cgroup=/{name}\n");
    for (width, height) in [(80, 24), (120, 40), (300, 80)] {
        let page = shown(&[HOST, &cubic(2), evil, &more], width, height);
        assert!(!page.contains('\x1b'));
        // What stands beside the facts stands where it stood.
        let clean = shown(&[HOST, &cubic(2), &more], width, height);
        let last = |page: &str| {
            page.lines()
                .rev()
                .skip(1)
                .take(8)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        if width == 80 {
            assert_eq!(last(&page), last(&clean));
        }
    }
}

#[test]
fn any_size_is_drawn() {
    let bbr = bbr(3);
    let model = fold(&[HOST, &bbr, "+0 note kind=degraded x\n"]);
    for actions in [
        &[][..],
        &[Action::CursorLeft, Action::ZoomIn],
        &[Action::Enlarge, Action::First],
    ] {
        for width in (0..40).step_by(3).chain([60, 80, 300]) {
            for height in (0..20).chain([24, 80]) {
                let mut state = opened();
                screen(&model, &mut state, width, height);
                for action in actions {
                    state.update(*action);
                    screen(&model, &mut state, width, height);
                }
            }
        }
    }
}
