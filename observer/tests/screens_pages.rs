//! The pages of qdiscs, host and events in all their states, drawn from scripts of events. Snapshots are text, at fixed
//! times, without facts of this host; each was looked at before it was accepted.

use std::fmt::Write as _;

use observer::model::{EntryKind, Model};
use observer::source::script;
use observer::tui::{Action, Key, Marker, Page, Paused, Theme, ThemeName, ViewState, Wall, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};

const HOST: &str = "\
@1s host hostname=lab kernel=6.18.0 hz=250 cpus=2 default_qdisc=fq_codel default_cc=cubic cc=reno,cubic,bbr \
net.ipv4.tcp_allowed_congestion_control=\"reno cubic\" net.ipv4.tcp_rmem=\"4096 131072 6291456\" \
net.ipv4.tcp_wmem=\"4096 16384 4194304\" net.core.rmem_max=212992 net.core.wmem_max=212992 \
net.ipv4.tcp_mem=\"187104 249474 374208\" net.ipv4.tcp_notsent_lowat=4294967295 net.ipv4.tcp_sack=1 \
net.ipv4.tcp_slow_start_after_idle=1 net.ipv4.tcp_window_scaling=1 net.ipv4.tcp_rto_min_us=- \
net.ipv4.tcp_pacing_ss_ratio=200 net.ipv4.tcp_pacing_ca_ratio=120 net.ipv4.tcp_ecn=2 net.ipv4.tcp_retries2=15
+0 device index=1 name=lo up=yes
+0 qdisc index=1 kind=noqueue handle=0: parent=root
+0 device index=2 name=eth0 up=yes
+0 qdisc index=2 kind=fq handle=8001: parent=root option.limit=10000p option.flow_limit=100p option.buckets=1024 \
option.quantum=3028B option.maxrate=unlimited option.refill_delay=40ms option.timer_slack=10us option.horizon=10s \
option.horizon_drop=yes drops=3 backlog_bytes=14480 backlog_packets=10 bytes=1000000 packets=700 throttled=400 \
flows_plimit=2 flows=3 inactive=1 throttled_flows=1 latency=12400 gc=0 highprio=0 retrans=0
";

/// A bulk BBR flow paced by fq: two readings a second apart, 100 Mbit/s; the qdisc with it.
const ONE: &str = "\
+0 opened 7 local=10.0.0.1:43210 remote=10.0.0.2:5201 birth=yes
+0 attributes 7 local=10.0.0.1:43210 remote=10.0.0.2:5201 cc=bbr version=v1 dev=2
+0 owners 7 4711/iperf3
+0 sample 7 cwnd=690 mss=1448 srtt=41900us min_rtt=40100us rtt=42ms packets_out=350 pacing_rate=125mbit \
pacing_status=fq bytes_acked=0 bytes_sent=0 bytes_retrans=0 cc=bbr phase=STARTUP btlbw=100mbit bbr_min_rtt=40100us \
pacing_gain=2.89 cwnd_gain=2.89
+1s sample 7 bytes_acked=12500000 bytes_sent=12600000 bytes_retrans=56700 retrans=39 phase=PROBE_BW/UP
+0 retransmit 7 segments=3 bytes=4344 kind=fast rtt=44ms min_rtt=40100us
+10ms retransmit 7 segments=36 bytes=52128 kind=fast
+0 qdisc index=2 bytes=13600000 packets=9100 throttled=438 drops=5 backlog_bytes=30000 backlog_packets=20
";

/// A script may go over several lines.
fn joined(parts: &[&str]) -> String {
    parts.concat().replace("\\\n", "")
}

fn fold(parts: &[&str]) -> Model {
    let mut model = Model::default();
    for event in script::parse(&joined(parts)).expect("a script") {
        model.apply(&event);
    }
    model
}

/// A qdisc of every kind that has a page of its own, each on its device.
fn kinds() -> String {
    let mut text = String::new();
    let mut device = |index: usize, name: &str, qdiscs: &[&str]| {
        writeln!(text, "+0 device index={index} name={name} up=yes").expect("text");
        for qdisc in qdiscs {
            writeln!(text, "+0 qdisc index={index} {qdisc}").expect("text");
        }
    };
    device(
        10,
        "wan0",
        &[
            "kind=mq handle=0: parent=root",
            "kind=fq_codel handle=0:0 parent=:1",
        ],
    );
    device(
        11,
        "edge0",
        &[
            "kind=htb handle=1: parent=root option.r2q=10 option.default=0x10 direct_packets_stat=0 drops=7",
            "kind=sfq handle=20: parent=1:20 option.limit=127p option.perturb=10s",
            "kind=fq_codel handle=10: parent=1:10 option.target=5ms option.interval=100ms option.ecn=yes drops=7 \
             ecn_mark=4 new_flows_len=0 old_flows_len=1 memory_used=4352 maxpacket=1514 drop_overlimit=0",
            "kind=clsact handle=ffff: parent=ingress",
        ],
    );
    device(
        12,
        "sat0",
        &[
            "kind=tbf handle=8002: parent=root option.rate=50mbit option.burst=10240B option.limit=30000B overlimits=1234 \
           bytes=90000000 packets=60000 drops=17",
        ],
    );
    device(
        13,
        "home0",
        &[
            "kind=cake handle=8003: parent=root option.bandwidth=40mbit option.diffserv=diffserv3 \
           option.flowmode=triple-isolate option.nat=no option.rtt=100ms option.raw=yes option.overhead=0 \
           memory_used=40000 memory_limit=4194304 capacity_estimate=5000000 drops=9 ecn_mark=1 sparse_flows=2 bulk_flows=1",
        ],
    );
    device(
        14,
        "lab0",
        &[
            "kind=netem handle=1: parent=root option.limit=1000p option.delay=40ms option.loss=0.1% option.rate=100mbit",
        ],
    );
    text
}

/// Many flows, devices with queues of their own, traffic for a while.
fn busy() -> String {
    let mut text = kinds();
    for n in 0..40 {
        let id = 100 + n;
        let (cc, pacing) = [("cubic", "none"), ("bbr", "internal"), ("reno", "none")][n % 3];
        let dev = [2, 11, 12, 13][n % 4];
        let remote = format!("192.0.2.{n}:{}", 443 + n);
        writeln!(
            text,
            "+0 opened {id} local=198.51.100.1:50000 remote={remote} birth=yes"
        )
        .expect("text");
        writeln!(
            text,
            "+0 attributes {id} local=198.51.100.1:50000 remote={remote} cc={cc} dev={dev}"
        )
        .expect("text");
        writeln!(text, "+0 owners {id} {}/nginx", 900 + n).expect("text");
        writeln!(text, "+0 sample {id} cwnd=10 srtt=20ms min_rtt=20ms bytes_acked=0 bytes_sent=0 bytes_retrans=0 pacing_status={pacing}").expect("text");
    }
    for second in 1..=70 {
        writeln!(text, "+1s tick").expect("text");
        for n in 0..40_u64 {
            let sent = second * (n + 1) * 100_000;
            writeln!(
                text,
                "+0 sample {} bytes_acked={sent} bytes_sent={sent}",
                100 + n
            )
            .expect("text");
        }
        let (bytes, backlog) = (second * 12_000_000, (second * 7919) % 30_000);
        let drops = 3 + second / 9 * 4;
        writeln!(
            text,
            "+0 qdisc index=2 bytes={bytes} packets={} backlog_bytes={backlog} drops={drops} throttled={}",
            bytes / 1400,
            400 + second * 38
        )
        .expect("text");
        writeln!(
            text,
            "+0 qdisc index=12 bytes={} backlog_bytes={backlog}",
            90_000_000 + second * 6_000_000
        )
        .expect("text");
        if second % 20 == 0 {
            writeln!(
                text,
                "+1ms retransmit 101 segments=5 kind=fast rtt=30ms min_rtt=20ms"
            )
            .expect("text");
            writeln!(text, "+0 closed {}", 120 + second).expect("text");
        }
    }
    text
}

const PROGRAMS: &str = "\
+0 counters program=on_probe kept=900123 suppressed=5000456 filtered=12 run_time_ns=900000000
+0 counters program=on_retransmit kept=39 run_time_ns=40000
+0 counters program=on_set_state kept=12 filtered=4
";
const LOSSES: &str = "\
+1ms counters program=on_probe dropped=37 missed=4
+0 gap 7 missing=3
+0 gap missing=34
";
const DEGRADED: &str = "\
+0 note kind=degraded hook tcp_cong_state_set is missing: cwnd cuts are seen at the next ACK only, not when they happen
+0 note kind=degraded this kernel has no tcp_sock.delivered_ce
+0 note 7 kind=attempt a retransmission was tried and not sent (-16)
";
const REPLACED: &str = "\
+2s qdisc index=2 kind=pfifo_fast handle=0: parent=root
+3s tick
";

struct Shown {
    model: Model,
    state: ViewState,
}

impl Shown {
    fn new(page: Page, parts: &[&str]) -> Self {
        let mut state = ViewState {
            own_cpu: Some(0.002),
            wall: Wall {
                // 21:00:00 at moment 0.
                offset_ns: Some(1_796_072_400_000_000_000),
                ..Wall::default()
            },
            ..ViewState::default()
        };
        state.update(Action::Go(page));
        Self {
            model: fold(parts),
            state,
        }
    }

    fn keys(mut self, keys: &str) -> Self {
        for key in keys.chars() {
            // As if it was drawn in between.
            self.buffer(80, 24);
            assert!(self.state.key(Key::Char(key)).is_some(), "{key}");
        }
        self
    }

    fn buffer(&mut self, width: u16, height: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a backend");
        terminal
            .draw(|frame| {
                self.state.prepare(&self.model, &|_, _| true, frame.area());
                draw(&self.model, &self.state, "eBPF", frame);
            })
            .expect("drawn");
        terminal.backend().buffer().clone()
    }

    fn text(&mut self, width: u16, height: u16) -> String {
        text(&self.buffer(width, height))
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

fn at_80(page: Page, parts: &[&str]) -> String {
    Shown::new(page, parts).text(80, 24)
}

#[test]
fn qdiscs_empty() {
    insta::assert_snapshot!(at_80(Page::Qdiscs, &[]));
}

#[test]
fn qdiscs_one() {
    insta::assert_snapshot!(at_80(Page::Qdiscs, &[HOST, ONE]));
}

#[test]
fn qdiscs_many() {
    insta::assert_snapshot!(at_80(Page::Qdiscs, &[HOST, ONE, &kinds()]));
}

#[test]
fn qdiscs_replaced() {
    insta::assert_snapshot!(at_80(Page::Qdiscs, &[HOST, ONE, REPLACED]));
}

#[test]
fn qdiscs_degraded_and_lossy() {
    insta::assert_snapshot!(at_80(
        Page::Qdiscs,
        &[HOST, ONE, PROGRAMS, LOSSES, DEGRADED]
    ));
}

#[test]
fn qdiscs_selected_child() {
    let mut shown = Shown::new(Page::Qdiscs, &[HOST, ONE, &kinds()]);
    shown.text(80, 24);
    let row = shown
        .state
        .qdiscs
        .rows
        .iter()
        .position(|row| row.parent == Some(0x1_0010));
    for _ in 0..row.expect("fq_codel below htb") {
        shown.state.update(Action::Down);
    }
    insta::assert_snapshot!(shown.text(80, 24));
}

#[test]
fn qdiscs_busy_at_60() {
    insta::assert_snapshot!(Shown::new(Page::Qdiscs, &[HOST, ONE, &busy()]).text(60, 15));
}

#[test]
fn qdiscs_busy_at_120() {
    insta::assert_snapshot!(Shown::new(Page::Qdiscs, &[HOST, ONE, &busy()]).text(120, 40));
}

#[test]
fn qdiscs_busy_at_300() {
    insta::assert_snapshot!(Shown::new(Page::Qdiscs, &[HOST, ONE, &busy()]).text(300, 80));
}

#[test]
fn host_empty() {
    insta::assert_snapshot!(at_80(Page::Host, &[]));
}

#[test]
fn host_one() {
    insta::assert_snapshot!(at_80(Page::Host, &[HOST, ONE]));
}

#[test]
fn host_degraded_and_lossy() {
    let parts = [HOST, ONE, PROGRAMS, LOSSES, DEGRADED];
    insta::assert_snapshot!(Shown::new(Page::Host, &parts).keys("G").text(80, 24));
}

#[test]
fn host_busy_at_60() {
    let mut shown = Shown::new(Page::Host, &[HOST, ONE, &busy(), PROGRAMS, LOSSES]);
    shown.text(60, 15);
    shown.state.update(Action::Last);
    insta::assert_snapshot!(shown.text(60, 15));
}

#[test]
fn host_busy_at_120() {
    let parts = [HOST, ONE, &busy(), PROGRAMS, LOSSES, DEGRADED];
    insta::assert_snapshot!(Shown::new(Page::Host, &parts).text(120, 40));
}

#[test]
fn host_busy_at_300() {
    let parts = [HOST, ONE, &busy(), PROGRAMS, LOSSES, DEGRADED];
    insta::assert_snapshot!(Shown::new(Page::Host, &parts).text(300, 80));
}

#[test]
fn events_empty() {
    insta::assert_snapshot!(at_80(Page::Events, &[]));
}

#[test]
fn events_one() {
    insta::assert_snapshot!(at_80(Page::Events, &[HOST, ONE, "+1s tick\n"]));
}

#[test]
fn events_closed() {
    insta::assert_snapshot!(at_80(
        Page::Events,
        &[HOST, ONE, "+1ms closed 7\n+20s tick\n", REPLACED]
    ));
}

#[test]
fn events_degraded_and_lossy() {
    insta::assert_snapshot!(at_80(
        Page::Events,
        &[HOST, ONE, PROGRAMS, LOSSES, DEGRADED, "+1s tick\n"]
    ));
}

#[test]
fn events_filtered() {
    let parts = [HOST, ONE, &busy()];
    insta::assert_snapshot!(Shown::new(Page::Events, &parts).keys("okkk").text(80, 24));
}

#[test]
fn events_busy_at_60() {
    insta::assert_snapshot!(Shown::new(Page::Events, &[HOST, ONE, &busy()]).text(60, 15));
}

#[test]
fn events_busy_at_120() {
    insta::assert_snapshot!(Shown::new(Page::Events, &[HOST, ONE, &busy()]).text(120, 40));
}

#[test]
fn events_busy_at_300() {
    insta::assert_snapshot!(Shown::new(Page::Events, &[HOST, ONE, &busy()]).text(300, 80));
}

#[test]
fn paused() {
    for page in [Page::Qdiscs, Page::Host, Page::Events] {
        let mut shown = Shown::new(page, &[HOST, ONE]);
        shown.state.paused = Some(Paused {
            at: shown.model.now(),
            clock: Some("21:00:02".to_owned()),
            ago: 3_000_000_000,
        });
        let name = format!("{}_paused", page.name());
        insta::assert_snapshot!(name, shown.text(80, 24));
    }
}

#[test]
fn drops_that_go_on_and_losses_stand_out_without_colour_by_words() {
    let parts = [HOST, ONE, PROGRAMS, LOSSES];
    for page in [Page::Qdiscs, Page::Host, Page::Events] {
        let mut shown = Shown::new(page, &parts);
        shown.state.theme = Theme::new(ThemeName::None, Marker::Ascii);
        let buffer = shown.buffer(120, 60);
        let plain = buffer.content().iter();
        assert!(
            plain
                .clone()
                .all(|c| c.fg == Color::Reset && c.bg == Color::Reset)
        );
        let text = text(&buffer);
        let wanted = match page {
            Page::Qdiscs => "drops 5 (2/s)",
            Page::Host => "dropped: the ring was full",
            _ => "events lost: 37 dropped",
        };
        assert!(text.contains(wanted), "{text}");
        // Where it is alarming it is reversed, too.
        let alarm = buffer
            .content()
            .iter()
            .filter(|c| c.modifier.contains(Modifier::REVERSED));
        assert!(alarm.count() > 0);
        assert!(!text.contains(['▁', '█']), "bars of letters: {text}");
    }
}

#[test]
fn a_filter_holds_for_flows_that_are_gone() {
    let parts = [HOST, ONE, &busy(), "+1ms closed 7\n+60s tick\n"];
    let model = fold(&parts);
    let gone = model.flows().all(|flow| flow.id().cookie != 7);
    assert!(gone, "long out of view");
    let mut state = ViewState::default();
    state.update(Action::Go(Page::Events));
    let mut rows = |shows: &observer::tui::Shows| {
        state.events.arrange(&model, shows);
        state
            .events
            .rows
            .iter()
            .filter(|(_, flow)| flow.is_some())
            .count()
    };
    let all = rows(&|_, _| true);
    let of_it = rows(&|_, flow| flow.remote().port() == 5201);
    assert_eq!(rows(&|_, _| false), 0);
    // Opened, a phase, a burst, closed.
    assert_eq!(of_it, 4);
    assert!(all > of_it);
}

#[test]
fn an_event_opens_its_flow() {
    let mut shown = Shown::new(Page::Events, &[HOST, ONE, "+1s tick\n"]);
    shown.text(80, 24);
    // The newest is of a device, which has no page of its own.
    shown.state.update(Action::Up);
    shown.state.update(Action::Open);
    assert_eq!(shown.state.page(), Page::Events);
    shown.state.update(Action::Up);
    shown.state.update(Action::Open);
    let flow = shown.state.flows.selected.expect("selected");
    assert_eq!(flow.cookie, 7);
    assert_ne!(shown.state.page(), Page::Events);
    shown.state.update(Action::Back);
    assert_eq!(shown.state.page(), Page::Events);
}

#[test]
fn the_newest_are_followed() {
    let mut shown = Shown::new(Page::Events, &[HOST, ONE, &busy()]);
    assert!(shown.text(80, 24).contains("following"));
    assert_eq!(shown.state.events.counts.get(&EntryKind::Burst), Some(&4));
    let last = shown.text(80, 24);
    shown.state.update(Action::Up);
    shown.state.update(Action::PageUp);
    assert_ne!(shown.text(80, 24), last);
    shown.state.update(Action::Last);
    assert_eq!(shown.text(80, 24), last);
}

#[test]
fn trap_30_names_from_outside_stay_in_their_cells() {
    let evil = "\
+0 device index=20 name=\"\\e[2J\\e[31m漢字漢字\" up=yes
+0 qdisc index=20 kind=\"a\\e[1mb\" handle=1: parent=root option.\u{7}x=\"\\e]0;x\" drops=1
";
    let evil = evil.replace("option.\u{7}x", "option.x");
    let parts = [
        HOST,
        ONE,
        &evil,
        "+1s qdisc index=20 drops=2\n",
        "+0 note kind=info a\u{1b}[2J\u{202e}b\n",
    ];
    for page in [Page::Qdiscs, Page::Host, Page::Events] {
        let mut shown = Shown::new(page, &parts);
        for _ in 0..4 {
            for (width, height) in [(80, 24), (60, 15), (200, 60)] {
                let text = shown.text(width, height);
                assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text}");
            }
            shown.state.update(Action::Down);
        }
    }
}

#[test]
fn any_size_is_drawn() {
    let parts = [HOST, ONE, &kinds(), PROGRAMS, LOSSES, DEGRADED];
    for page in [Page::Qdiscs, Page::Host, Page::Events] {
        let mut shown = Shown::new(page, &parts);
        for action in [Action::First, Action::Down, Action::Last, Action::Up] {
            shown.state.update(action);
            for width in [0, 1, 2, 9, 10, 23, 39, 60, 80, 300] {
                for height in [0, 1, 2, 3, 5, 6, 7, 9, 12, 15, 24, 80] {
                    shown.buffer(width, height);
                }
            }
        }
    }
}
