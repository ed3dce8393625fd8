//! The screen in all its states, drawn from scripts of events. Snapshots are text, at fixed times, without facts of this
//! host; each was looked at before it was accepted.

use std::fmt::Write as _;

use observer::event::{Elsewhere, Event, FlowId, Payload};
use observer::model::Model;
use observer::source::script;
use observer::tui::columns::Column;
use observer::tui::{
    Action, Effect, Grouping, Key, Marker, Page, Paused, TableLine, Theme, ThemeName, ViewState,
    draw,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Modifier;

const HOST: &str = "\
@1s host hostname=lab kernel=6.18.0 hz=250 cpus=2 default_qdisc=fq_codel default_cc=cubic
+0 device index=1 name=lo up=yes
+0 qdisc index=1 kind=noqueue handle=0: parent=root
+0 device index=2 name=eth0 up=yes
+0 qdisc index=2 kind=fq handle=8001: parent=root drops=3 backlog_bytes=14480
";

/// A bulk BBR flow: two readings a second apart, 100 Mbit/s.
const ONE: &str = "\
+0 opened 7 local=10.0.0.1:43210 remote=10.0.0.2:5201
+0 attributes 7 local=10.0.0.1:43210 remote=10.0.0.2:5201 cc=bbr version=v1 dev=2
+0 owners 7 4711/iperf3
+0 sample 7 cwnd=690 mss=1448 srtt=41900us min_rtt=40100us rtt=42ms packets_out=350 pacing_rate=125mbit bytes_acked=0 bytes_sent=0 bytes_retrans=0 cc=bbr phase=PROBE_BW/UP btlbw=100mbit bbr_min_rtt=40100us pacing_gain=1.25 cwnd_gain=2
+1s sample 7 bytes_acked=12500000 bytes_sent=12600000 bytes_retrans=56700 retrans=39
";

fn fold(parts: &[&str]) -> Model {
    let mut model = Model::default();
    for event in script::parse(&parts.concat()).expect("a script") {
        model.apply(&event);
    }
    model
}

/// Many flows of several kinds.
fn many(flows: u32) -> String {
    let mut text = String::new();
    for n in 0..flows {
        let id = 100 + n;
        let cc = ["cubic", "bbr", "reno"][n as usize % 3];
        let remote = if n % 4 == 3 {
            format!("[2001:db8::{n:x}]:443")
        } else {
            format!("192.0.2.{}:{}", n % 250, 443 + n)
        };
        let local = if n % 4 == 3 {
            "[2001:db8::1]:50000"
        } else {
            "198.51.100.1:50000"
        };
        writeln!(text, "+0 opened {id} local={local} remote={remote}").expect("text");
        writeln!(
            text,
            "+0 attributes {id} local={local} remote={remote} cc={cc} dev=2"
        )
        .expect("text");
        writeln!(text, "+0 owners {id} {}/nginx {}/nginx", 900 + n, 901 + n).expect("text");
        writeln!(text, "+0 sample {id} cwnd={} srtt={}ms min_rtt=20ms bytes_acked=0 bytes_sent=0 bytes_retrans=0", 10 + n, 20 + n).expect("text");
        writeln!(text, "+0 tick").expect("text");
    }
    for n in 0..flows {
        let step = if n == 0 { "+1s" } else { "+0" };
        let sent = u64::from(n) * 1_000_000;
        let id = 100 + n;
        writeln!(
            text,
            "{step} sample {id} bytes_acked={sent} bytes_sent={sent} bytes_retrans={}",
            sent / 300
        )
        .expect("text");
    }
    text
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

/// The flows of the table, in its order.
fn flows(state: &ViewState) -> Vec<FlowId> {
    let lines = state.flows.lines.iter();
    lines
        .filter_map(|line| match line {
            TableLine::Flow(id) => Some(*id),
            TableLine::Group(_) => None,
        })
        .collect()
}

fn typed(state: &mut ViewState, text: &str) {
    for c in text.chars() {
        state.key(Key::Char(c));
    }
}

fn text(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let line: String = (0..buffer.area.width)
            .map(|x| buffer[(x, y)].symbol())
            .collect();
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn shown(parts: &[&str], width: u16, height: u16) -> String {
    let mut state = ViewState {
        own_cpu: Some(0.002),
        ..ViewState::default()
    };
    text(&screen(&fold(parts), &mut state, width, height))
}

#[test]
fn before_anything_came() {
    insta::assert_snapshot!(shown(&[], 80, 24));
}

#[test]
fn empty() {
    insta::assert_snapshot!(shown(&[HOST], 80, 24));
}

#[test]
fn one() {
    insta::assert_snapshot!(shown(&[HOST, ONE], 80, 24));
}

#[test]
fn closed() {
    insta::assert_snapshot!(shown(&[HOST, ONE, "+1ms closed 7\n+1s tick\n"], 80, 24));
}

#[test]
fn lossy() {
    let lost = "+0 counters program=on_probe kept=900 suppressed=5000 dropped=37 missed=4\n";
    insta::assert_snapshot!(shown(&[HOST, ONE, lost], 80, 24));
}

#[test]
fn degraded() {
    let note = "+0 note kind=degraded this kernel has no tcp_sock.delivered_ce\n";
    insta::assert_snapshot!(shown(&[HOST, ONE, note], 80, 24));
}

#[test]
fn many_at_80() {
    insta::assert_snapshot!(shown(&[HOST, ONE, &many(40)], 80, 24));
}

#[test]
fn many_at_60() {
    insta::assert_snapshot!(shown(&[HOST, ONE, &many(40)], 60, 15));
}

#[test]
fn many_at_120() {
    insta::assert_snapshot!(shown(&[HOST, ONE, &many(40)], 120, 40));
}

#[test]
fn many_at_300() {
    insta::assert_snapshot!(shown(&[HOST, ONE, &many(40)], 300, 80));
}

#[test]
fn help() {
    let mut state = ViewState::default();
    state.update(Action::Go(Page::Help));
    // All of it: as on a screen high enough.
    let page = text(&screen(&fold(&[HOST]), &mut state, 80, 84));
    assert!(!page.contains('…'), "nothing of it is cut:\n{page}");
    insta::assert_snapshot!(page);
    let first = text(&screen(&fold(&[HOST]), &mut state, 80, 24));
    assert!(first.contains("lines 1–23 of"), "{first}");
}

#[test]
fn trap_30_nothing_leaves_its_cell() {
    let evil = "+0 owners 7 1/\"\\e[2J\\e[1;31m漢字漢字漢字漢字漢字\"\n";
    let shown = shown(&[HOST, ONE, evil], 300, 24);
    assert!(!shown.contains('\x1b'));
    let row = shown
        .lines()
        .find(|line| line.contains("10.0.0.2:5201"))
        .expect("the flow");
    let clean = self::shown(&[HOST, ONE], 300, 24);
    let before = clean
        .lines()
        .find(|line| line.contains("10.0.0.2:5201"))
        .expect("the flow");
    // What stands right of the process stands where it stood.
    let tail = |line: &str| line[line.find("bbr/v1").expect("cc")..].to_owned();
    assert_eq!(tail(row), tail(before));
}

#[test]
fn losses_are_told_by_a_word_and_stand_out_without_colour() {
    let lost = "+0 counters program=on_probe kept=1 dropped=37\n";
    let closed = "+1ms closed 7\n+1s tick\n";
    let mut state = ViewState {
        theme: Theme::new(ThemeName::None, Marker::default()),
        ..ViewState::default()
    };
    let buffer = screen(&fold(&[HOST, ONE, lost, closed]), &mut state, 80, 24);
    let reset = ratatui::style::Color::Reset;
    let plain = buffer.content().iter();
    assert!(plain.clone().all(|c| c.fg == reset && c.bg == reset));
    let line: String = (0..80).map(|x| buffer[(x, 0)].symbol()).collect();
    let at = line.find("LOST 37!").expect("the word");
    let at = u16::try_from(line[..at].chars().count()).expect("narrow");
    assert!(buffer[(at, 0)].modifier.contains(Modifier::REVERSED));
    assert_eq!(buffer[(at, 0)].fg, ratatui::style::Color::Reset);
}

#[test]
fn the_selection_stays_on_its_flow() {
    let model = fold(&[HOST, ONE, &many(40)]);
    let mut state = ViewState::default();
    screen(&model, &mut state, 80, 24);
    for _ in 0..5 {
        state.update(Action::Down);
    }
    let chosen = state.flows.selected.expect("one is selected");
    for action in [
        Action::SortRight,
        Action::Invert,
        Action::SortLeft,
        Action::SortLeft,
    ] {
        state.update(action);
        let buffer = screen(&model, &mut state, 80, 24);
        assert_eq!(state.flows.selected, Some(chosen));
        let line = flows(&state)
            .iter()
            .position(|id| *id == chosen)
            .expect("still there");
        assert!(
            (state.flows.offset..state.flows.offset + state.flows.page).contains(&line),
            "it is in view"
        );
        let reversed = (0..24)
            .filter(|y| buffer[(0, *y)].modifier.contains(Modifier::REVERSED))
            .count();
        assert_eq!(reversed, 1);
    }
    let model = fold(&[
        HOST,
        ONE,
        &many(40),
        &format!("+1ms closed {}\n", chosen.cookie),
    ]);
    screen(&model, &mut state, 80, 24);
    assert_eq!(state.flows.selected, Some(chosen));
}

#[test]
fn trap_27_numbers_sort_as_numbers() {
    let model = fold(&[HOST, &many(40)]);
    let mut state = ViewState::default();
    state.flows.sort = Column::Cwnd;
    screen(&model, &mut state, 80, 24);
    let cwnd = |id| model.flow(id).and_then(|f| f.sample()).and_then(|s| s.cwnd);
    let order: Vec<_> = flows(&state).iter().map(|id| cwnd(*id)).collect();
    assert!(order.is_sorted_by(|a, b| a >= b), "{order:?}");
    // Process numbers 900 to 939 and 1000.
    let model = fold(&[HOST, &many(40), "+0 owners 100 1000/nginx\n"]);
    state.flows.sort = Column::Process;
    screen(&model, &mut state, 80, 24);
    assert_eq!(flows(&state).first().map(|id| id.cookie), Some(100));
}

#[test]
fn any_size_is_drawn() {
    let parts = [HOST, ONE, "+0 note kind=degraded x\n"];
    let model = fold(&parts);
    for actions in [
        &[][..],
        &[Action::Down],
        &[Action::Go(Page::Help), Action::Last],
    ] {
        for width in (0..40).chain([60, 80, 300]) {
            for height in (0..16).chain([24, 80]) {
                let mut state = ViewState::default();
                screen(&model, &mut state, width, height);
                for action in actions {
                    state.update(*action);
                    screen(&model, &mut state, width, height);
                }
            }
        }
    }
}

#[test]
fn selected() {
    let mut state = ViewState::default();
    let model = fold(&[HOST, ONE, &many(40)]);
    state.flows.selected = model
        .flows()
        .find(|flow| flow.id().cookie == 7)
        .map(observer::model::Flow::id);
    insta::assert_snapshot!(text(&screen(&model, &mut state, 80, 24)));
}

#[test]
fn selected_at_60() {
    let mut state = ViewState::default();
    let model = fold(&[HOST, ONE, &many(40)]);
    state.flows.selected = model
        .flows()
        .find(|flow| flow.id().cookie == 7)
        .map(observer::model::Flow::id);
    insta::assert_snapshot!(text(&screen(&model, &mut state, 60, 15)));
}

#[test]
fn closed_at_60() {
    insta::assert_snapshot!(shown(&[HOST, ONE, "+1ms closed 7\n+1s tick\n"], 60, 15));
}

/// Long names, many devices, defaults that are not what is at work, flows elsewhere: nothing of it may push away what
/// matters.
#[test]
fn crowded() {
    let mut host = HOST.replace("hostname=lab", &format!("hostname={}", "x".repeat(64)));
    host = host.replace("kernel=6.18.0", "kernel=6.12.48+deb13-cloud-amd64");
    for index in 3..20 {
        writeln!(host, "+0 device index={index} name=veth{index} up=yes").expect("text");
        let kind = ["fq_codel", "pfifo_fast", "noqueue"][index % 3];
        writeln!(
            host,
            "+0 qdisc index={index} kind={kind} handle=0: parent=root"
        )
        .expect("text");
    }
    let more = "\
+0 opened 8 local=[2001:db8:1:2:3:4:5:6]:43210 remote=[2001:db8:1234:5678:9abc:def0:1234:5678]:65535
+0 counters program=on_probe kept=900 suppressed=5000 dropped=37 missed=4
+0 note kind=degraded hook tcp_cong_state_set is missing: cwnd cuts are seen at the next ACK only, not when they happen
+0 note kind=degraded this kernel has no tcp_sock.delivered_ce
";
    let mut model = fold(&[&host, ONE, &many(3), more]);
    // Scripts have no word for it.
    model.apply(&Event {
        time: model.now(),
        flow: None,
        payload: Payload::Elsewhere(Elsewhere {
            namespaces: 3,
            flows: 12,
            denied: 0,
        }),
    });
    let shown = |width| {
        let mut state = ViewState::default();
        text(&screen(&model, &mut state, width, 24))
    };
    insta::assert_snapshot!(shown(80));
    for width in [20, 40, 60, 80, 300] {
        let shown = shown(width);
        let first = shown.lines().next().expect("a line");
        assert!(first.ends_with("LOST 41!"), "{width}: {first:?}");
    }
    for width in [60, 80, 300] {
        assert!(shown(width).contains("-N all"), "{width}");
    }
}

#[test]
fn nothing_that_was_asked_for() {
    let model = fold(&[HOST, ONE]);
    let mut state = ViewState::default();
    let mut terminal = Terminal::new(TestBackend::new(60, 15)).expect("a backend");
    terminal
        .draw(|frame| {
            state.prepare(&model, &|_, _| false, frame.area());
            draw(&model, &state, "socket-diag", frame);
        })
        .expect("drawn");
    insta::assert_snapshot!(text(terminal.backend().buffer()));
}

#[test]
fn help_at_60_scrolls_to_what_does_not_work() {
    let note = "+0 note kind=degraded this kernel has no tcp_sock.delivered_ce\n";
    let model = fold(&[HOST, note]);
    let mut state = ViewState::default();
    state.update(Action::Go(Page::Help));
    screen(&model, &mut state, 60, 15);
    state.update(Action::Last);
    insta::assert_snapshot!(text(&screen(&model, &mut state, 60, 15)));
}

#[test]
fn what_is_sorted_by_is_seen_and_marked() {
    let model = fold(&[HOST, ONE, &many(40)]);
    for width in [60, 80, 120, 300] {
        for sort in Column::ALL {
            for (descending, arrow) in [(true, '▼'), (false, '▲')] {
                let mut state = ViewState::default();
                (state.flows.sort, state.flows.descending) = (sort, descending);
                let shown = text(&screen(&model, &mut state, width, 24));
                let heading = format!("{}{arrow}", sort.heading());
                assert!(shown.contains(&heading), "{heading} at {width}:\n{shown}");
            }
        }
    }
}

#[test]
fn what_is_unknown_comes_last_either_way() {
    let model = fold(&[HOST, ONE, &many(2)]);
    for descending in [true, false] {
        let mut state = ViewState::default();
        (state.flows.sort, state.flows.descending) = (Column::Fill, descending);
        screen(&model, &mut state, 80, 24);
        assert_eq!(flows(&state).first().map(|id| id.cookie), Some(7));
    }
}

#[test]
fn keys_without_flows_do_nothing_bad() {
    let model = fold(&[]);
    let mut state = ViewState::default();
    for action in [
        Action::Up,
        Action::Down,
        Action::PageDown,
        Action::First,
        Action::Last,
        Action::HalfUp,
    ] {
        screen(&model, &mut state, 80, 24);
        assert_eq!(state.update(action), None);
        assert_eq!(state.flows.selected, None);
    }
    assert_eq!(state.update(Action::Quit), Some(Effect::Quit));
}

/// Rates over 20 s, a burst of retransmissions in the last one.
fn busy_seconds() -> String {
    let mut text = String::new();
    let (mut acked, mut retrans) = (12_500_000_u64, 56_700_u64);
    for n in 0..20_u64 {
        acked += 2_000_000 * (n % 7 + 1);
        retrans += if n == 19 { 400_000 } else { 0 };
        let sent = acked + 100_000 + retrans;
        writeln!(
            text,
            "+1s sample 7 bytes_acked={acked} bytes_sent={sent} bytes_retrans={retrans}"
        )
        .expect("text");
    }
    text
}

#[test]
fn trends_and_a_spike() {
    let model = fold(&[HOST, ONE, &busy_seconds()]);
    let mut state = ViewState::default();
    let buffer = screen(&model, &mut state, 200, 24);
    let page = text(&buffer);
    assert!(page.contains("3.23%!"), "{page}");
    insta::assert_snapshot!(page);
    // The mark stands out, in a theme without colour too.
    state.theme = Theme::new(ThemeName::None, Marker::Ascii);
    let buffer = screen(&model, &mut state, 200, 24);
    let (x, y) = place(&buffer, "3.23%!");
    assert!(buffer[(x, y)].modifier.contains(Modifier::BOLD));
    assert!(text(&buffer).is_ascii() || !text(&buffer).contains('▁'));
}

/// Where `what` begins on the screen.
fn place(buffer: &Buffer, what: &str) -> (u16, u16) {
    for y in 0..buffer.area.height {
        let line: String = (0..buffer.area.width)
            .map(|x| buffer[(x, y)].symbol())
            .collect();
        if let Some(at) = line.find(what) {
            let x = line[..at].chars().count();
            return (u16::try_from(x).expect("narrow"), y);
        }
    }
    panic!("{what} is not on the screen");
}

#[test]
fn columns_do_not_jump_when_values_grow() {
    let grown = "+1s sample 7 cwnd=99999 srtt=999ms min_rtt=999ms bytes_acked=99999999999 bytes_sent=999999999999 bytes_retrans=56800 retrans=99999\n";
    let before = fold(&[HOST, ONE]);
    let after = fold(&[HOST, ONE, grown]);
    for width in [60, 80, 120, 200, 300] {
        let headings = |model: &Model| {
            let mut state = ViewState::default();
            let shown = text(&screen(model, &mut state, width, 24));
            shown.lines().nth(4).map(str::to_owned)
        };
        assert_eq!(headings(&before), headings(&after), "{width}");
    }
}

#[test]
fn chooser() {
    let model = fold(&[HOST, ONE, &many(5)]);
    let mut state = ViewState::default();
    screen(&model, &mut state, 80, 24);
    state.update(Action::Columns);
    let order = state.flows.columns.order();
    let btlbw = order.iter().position(|c| *c == Column::BtlBw);
    for _ in 0..btlbw.expect("there") {
        state.update(Action::Down);
    }
    screen(&model, &mut state, 80, 24);
    state.update(Action::Toggle);
    let shown = text(&screen(&model, &mut state, 80, 24));
    insta::assert_snapshot!(shown);
    state.update(Action::Columns);
    let shown = text(&screen(&model, &mut state, 80, 24));
    assert!(
        shown.contains("BtlBw") && !shown.contains("Columns"),
        "{shown}"
    );
}

#[test]
fn search_goes_to_what_matches_and_round_the_end() {
    let model = fold(&[HOST, ONE, &many(40)]);
    let mut state = ViewState::default();
    screen(&model, &mut state, 120, 24);
    state.update(Action::Search);
    typed(&mut state, "NGINX/93");
    screen(&model, &mut state, 120, 24);
    state.update(Action::Accept);
    let mut seen = vec![state.flows.selected.expect("found as one types")];
    loop {
        state.update(Action::NextMatch);
        screen(&model, &mut state, 120, 24);
        let found = state.flows.selected.expect("found");
        if found == seen[0] {
            break;
        }
        seen.push(found);
    }
    assert_eq!(seen.len(), 10, "nginx/930 to 939");
    state.update(Action::PreviousMatch);
    screen(&model, &mut state, 120, 24);
    assert_eq!(state.flows.selected, seen.last().copied());
    insta::assert_snapshot!(text(&screen(&model, &mut state, 80, 24)));
}

#[test]
fn a_search_without_success_says_so_and_leaves_the_selection() {
    let model = fold(&[HOST, ONE, &many(40)]);
    let mut state = ViewState::default();
    screen(&model, &mut state, 80, 24);
    state.update(Action::Down);
    let chosen = state.flows.selected;
    state.update(Action::Search);
    typed(&mut state, "no such thing");
    let shown = text(&screen(&model, &mut state, 80, 24));
    assert!(shown.contains("Search: no such thing   nowhere"), "{shown}");
    assert_eq!(state.flows.selected, chosen);
    state.update(Action::Accept);
    let shown = text(&screen(&model, &mut state, 80, 24));
    assert!(shown.contains("search no such thing, nowhere"), "{shown}");
    state.update(Action::Back);
    assert_eq!(state.flows.search, "");
}

#[test]
fn filter_while_it_is_wrong() {
    let model = fold(&[HOST, ONE, &many(40)]);
    let mut state = ViewState::default();
    screen(&model, &mut state, 80, 24);
    state.update(Action::Filter);
    typed(&mut state, "cc bbr and dprot = :443");
    insta::assert_snapshot!(text(&screen(&model, &mut state, 80, 24)));
}

#[test]
fn filtered() {
    let model = fold(&[HOST, ONE, &many(40)]);
    let mut state = ViewState::default();
    screen(&model, &mut state, 80, 24);
    state.update(Action::Down);
    state.update(Action::Last);
    let chosen = state.flows.selected.expect("one");
    state.update(Action::Filter);
    typed(&mut state, "cc bbr and dst 192.0.2.0/24");
    state.update(Action::Accept);
    let shown = text(&screen(&model, &mut state, 80, 24));
    assert!(state.flows.lines.len() < 15 && !state.flows.lines.is_empty());
    insta::assert_snapshot!(shown);
    // The flow that was chosen is chosen still when it is shown again.
    state.update(Action::Filter);
    state.update(Action::EraseAll);
    state.update(Action::Accept);
    screen(&model, &mut state, 80, 24);
    assert_eq!(state.flows.selected, Some(chosen));
}

#[test]
fn grouped_by_process_and_cc() {
    let parts = [HOST, ONE, &many(40), "+1ms closed 139\n"];
    let model = fold(&parts);
    let mut state = ViewState::default();
    state.flows.group_by(Grouping::Cc);
    insta::assert_snapshot!(text(&screen(&model, &mut state, 80, 24)));
    state.update(Action::FoldAll);
    state.flows.sort = Column::RetransRate;
    let folded = text(&screen(&model, &mut state, 120, 40));
    insta::assert_snapshot!("folded", folded);
    assert_eq!(
        state.flows.lines.len(),
        4,
        "bbr/v1, bbr, cubic, reno are by name"
    );
}

#[test]
fn every_grouping_has_every_flow_once() {
    let model = fold(&[
        HOST,
        ONE,
        &many(40),
        "+0 opened 8 local=10.0.0.1:1 remote=10.0.0.9:2\n",
    ]);
    let mut state = ViewState::default();
    for _ in Grouping::ALL {
        screen(&model, &mut state, 80, 24);
        let mut all = flows(&state);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 42, "{:?}", state.flows.grouping);
        let sum: usize = state.flows.groups.iter().map(|g| g.open).sum();
        assert!(sum == 42 || state.flows.groups.is_empty());
        state.update(Action::Group);
    }
}

#[test]
fn a_folded_group_is_one_line_and_keeps_the_selection() {
    let model = fold(&[HOST, ONE, &many(40)]);
    let mut state = ViewState::default();
    state.flows.group_by(Grouping::Prefix);
    screen(&model, &mut state, 80, 24);
    let all = state.flows.lines.len();
    state.update(Action::First);
    state.update(Action::Down);
    assert!(state.flows.selected.is_some());
    state.update(Action::Fold);
    screen(&model, &mut state, 80, 24);
    assert!(state.flows.lines.len() < all && state.flows.group().is_some());
    state.update(Action::Fold);
    screen(&model, &mut state, 80, 24);
    assert_eq!(state.flows.lines.len(), all);
}

#[test]
fn paused() {
    let model = fold(&[HOST, ONE, &many(3)]);
    let mut state = ViewState {
        paused: Some(Paused {
            at: model.now(),
            clock: Some("21:03:07".to_owned()),
            ago: 12_300_000_000,
        }),
        own_cpu: Some(0.002),
        ..ViewState::default()
    };
    insta::assert_snapshot!(text(&screen(&model, &mut state, 80, 24)));
    state.theme = Theme::new(ThemeName::None, Marker::Braille);
    for width in [40, 60, 80, 300] {
        let buffer = screen(&model, &mut state, width, 24);
        let at = place(&buffer, "PAUSED 21:03:07, 12 s ago");
        assert!(buffer[at].modifier.contains(Modifier::REVERSED), "{width}");
    }
}
