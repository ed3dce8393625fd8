//! Pages in the states that `screens*.rs` have no test for, and text from outside on all of them. Snapshots are text, at
//! fixed times, without facts of this host; each was looked at before it was accepted.

use std::fmt::Write as _;

use observer::model::Model;
use observer::source::script;
use observer::tui::columns::{Choice, Column};
use observer::tui::{Action, Grouping, Page, Paused, ViewState, Wall, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use unicode_width::UnicodeWidthStr as _;

const HOST: &str = "\
@1s host hostname=lab kernel=6.18.0 hz=250 cpus=2 default_qdisc=fq_codel default_cc=cubic cc=reno,cubic,bbr
+0 device index=1 name=lo up=yes
+0 qdisc index=1 kind=noqueue handle=0: parent=root
+0 device index=2 name=eth0 up=yes
+0 qdisc index=2 kind=fq handle=8001: parent=root drops=3 backlog_bytes=14480
";

const LOSSY: &str = "\
+0 counters program=on_probe kept=900 suppressed=5000 dropped=37 missed=4
+0 gap 107 missing=37
";

const CLOSED: &str = "+1ms closed 107\n+1s tick\n";

/// `flows` flows that send for eight seconds, some of them with losses.
fn flows(flows: u64) -> String {
    let mut text = String::new();
    for n in 0..flows {
        let (id, cc) = (107 + n, ["bbr version=v1", "cubic", "reno"][n as usize % 3]);
        let ends = format!("local=10.0.0.1:{} remote=10.0.1.{n}:443", 43210 + n);
        let pod = format!("/kubepods.slice/kubepods-pod0a1b2c3d_0000_0000_0000_{n:012}.slice");
        let cgroup = [pod.as_str(), "/system.slice/nginx.service", "/"][n as usize % 3];
        writeln!(text, "+0 opened {id} birth=yes {ends}").expect("text");
        writeln!(
            text,
            "+0 attributes {id} {ends} cc={cc} dev=2 pmtu=1500 cgroup={cgroup}"
        )
        .expect("text");
        writeln!(text, "+0 owners {id} {}/nginx", 900 + n).expect("text");
        writeln!(text, "+0 sample {id} cwnd=10 mss=1448 srtt=40ms min_rtt=40ms rtt=40ms packets_out=10 bytes_acked=0 bytes_sent=0 bytes_retrans=0").expect("text");
    }
    for tenth in 1..=80_u64 {
        for n in 0..flows {
            let (id, step) = (107 + n, if n == 0 { "+100ms" } else { "+0" });
            let acked = tenth * (n + 1) * 50_000;
            let lost = if n % 4 == 0 { tenth / 20 * 4 } else { 0 };
            if n % 4 == 0 && tenth % 20 == 0 {
                writeln!(
                    text,
                    "+0 retransmit {id} segments=4 kind=fast rtt=52ms min_rtt=40ms"
                )
                .expect("text");
            }
            writeln!(
                text,
                "{step} sample {id} cwnd={} packets_out={} srtt={}ms rtt={}ms bytes_acked={acked} bytes_sent={acked} retrans={lost} bytes_retrans={}",
                10 + tenth,
                8 + tenth,
                40 + tenth % 12,
                40 + tenth % 14,
                lost * 1448
            )
            .expect("text");
        }
    }
    text
}

struct Shown {
    model: Model,
    state: ViewState,
}

impl Shown {
    fn new(page: Page, parts: &[&str]) -> Self {
        let mut model = Model::default();
        for event in script::parse(&parts.concat()).expect("a script") {
            model.apply(&event);
        }
        let mut shown = Self {
            model,
            state: ViewState {
                own_cpu: Some(0.002),
                wall: Wall {
                    offset_ns: Some(1_796_072_400_000_000_000),
                    ..Wall::default()
                },
                ..ViewState::default()
            },
        };
        // The first flow is selected.
        shown.buffer(80, 24);
        shown.state.update(Action::Go(page));
        shown
    }

    fn paused(mut self) -> Self {
        self.state.paused = Some(Paused {
            at: self.model.now(),
            clock: Some("21:00:09".to_owned()),
            ago: 3_000_000_000,
        });
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
        let buffer = self.buffer(width, height);
        (0..height)
            .map(|y| line(&buffer, y).trim_end().to_owned() + "\n")
            .collect()
    }
}

fn line(buffer: &Buffer, y: u16) -> String {
    (0..buffer.area.width)
        .map(|x| buffer[(x, y)].symbol())
        .collect()
}

fn at_80(page: Page, parts: &[&str]) -> String {
    Shown::new(page, parts).text(80, 24)
}

#[test]
fn the_flow_page() {
    insta::assert_snapshot!("flow_empty", at_80(Page::Flow, &[HOST]));
    insta::assert_snapshot!("flow_many", at_80(Page::Flow, &[HOST, &flows(40)]));
    insta::assert_snapshot!("flow_lossy", at_80(Page::Flow, &[HOST, &flows(1), LOSSY]));
    let mut paused = Shown::new(Page::Flow, &[HOST, &flows(1)]).paused();
    insta::assert_snapshot!("flow_paused", paused.text(80, 24));
}

#[test]
fn the_pages_of_qdiscs_host_and_events() {
    let parts = [HOST, &flows(1), CLOSED];
    insta::assert_snapshot!("qdiscs_closed", at_80(Page::Qdiscs, &parts));
    insta::assert_snapshot!("events_many", at_80(Page::Events, &[HOST, &flows(40)]));
    insta::assert_snapshot!("host_many", at_80(Page::Host, &[HOST, &flows(40)]));
    insta::assert_snapshot!("host_closed", at_80(Page::Host, &parts));
}

/// On a short path they change every few milliseconds.
#[test]
fn parts_of_probe_bw_are_no_events_of_their_own() {
    let bbr = "+0 attributes 107 cc=bbr version=v1\n+0 sample 107 cc=bbr phase=STARTUP\n+10ms sample 107 phase=DRAIN\n";
    let mut cycles = String::new();
    for _ in 0..200 {
        cycles += "+10ms sample 107 phase=PROBE_BW/UP\n+10ms sample 107 phase=PROBE_BW/DOWN\n+10ms sample 107 phase=PROBE_BW/CRUISE\n";
    }
    let parts = [
        HOST,
        &flows(1),
        bbr,
        &cycles,
        "+10ms sample 107 phase=PROBE_RTT\n",
    ];
    let text = at_80(Page::Events, &parts);
    assert!(text.contains("s phase 3"), "{text}");
    assert!(text.contains("burst"), "{text}");
}

#[test]
fn the_help() {
    let note = "+0 note kind=degraded this kernel has no tcp_sock.delivered_ce\n";
    let busy = [HOST, &flows(40), LOSSY, note];
    insta::assert_snapshot!("help_degraded_at_80", {
        let mut shown = Shown::new(Page::Help, &busy);
        shown.text(80, 24);
        shown.state.update(Action::Last);
        shown.text(80, 24)
    });
    insta::assert_snapshot!(
        "help_busy_at_120",
        Shown::new(Page::Help, &busy).text(120, 40)
    );
    insta::assert_snapshot!(
        "help_busy_at_300",
        Shown::new(Page::Help, &busy).text(300, 80)
    );
    // Nothing but limitations changes it.
    let empty = at_80(Page::Help, &[]);
    for parts in [&[HOST, &flows(1)], &[HOST, &flows(40)], &[HOST, LOSSY]] {
        assert_eq!(at_80(Page::Help, parts), empty);
    }
    assert_eq!(Shown::new(Page::Help, &[HOST]).paused().text(80, 24), empty);
}

#[test]
fn containers_and_units_are_columns_to_choose_and_flows_are_put_together_by_them() {
    let parts = [HOST, &flows(3)];
    let mut shown = Shown::new(Page::Flows, &parts);
    assert!(
        !shown.text(300, 24).contains("Container   "),
        "off unless chosen"
    );
    shown.state.flows.columns = Choice::of(&[
        Column::Remote,
        Column::Container,
        Column::Unit,
        Column::Throughput,
    ]);
    insta::assert_snapshot!("containers", shown.text(100, 24));
    shown.state.flows.group_by(Grouping::Container);
    let text = shown.text(100, 24);
    for group in [
        "pod:0a1b2c3d-0000-0000-0000-000000000000",
        "nginx.service",
        "—",
    ] {
        assert!(
            text.lines().any(|line| line.contains(group)),
            "{group}: {text}"
        );
    }
    shown.state.flows.group_by(Grouping::None);
    for column in [Column::Container, Column::Unit] {
        shown.state.flows.sort = column;
        let text = shown.text(100, 24);
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(":443")).collect();
        assert_eq!(lines.len(), 3);
        let known = if column == Column::Container {
            "pod:"
        } else {
            "nginx.service"
        };
        assert!(lines[0].contains(known), "unknown comes last: {text}");
    }
}

/// Everything that comes from outside, with `name` in each place.
fn outside(name: &str, cgroup: &str) -> String {
    format!(
        "\
@1s host hostname=\"{name}\" kernel=\"{name}\" default_qdisc=\"{name}\" default_cc=\"{name}\"
+0 device index=2 name=\"{name}\" up=yes
+0 qdisc index=2 kind=\"{name}\" handle=8001: parent=root drops=3 backlog_bytes=14480 option.x=\"{name}\"
+0 opened 107 birth=yes local=10.0.0.1:43210 remote=10.0.0.2:443
+0 attributes 107 local=10.0.0.1:43210 remote=10.0.0.2:443 cc=\"{name}\" version=\"{name}\" dev=2 cgroup=\"{cgroup}\"
+0 owners 107 4711/\"{name}\" 4712/\"{name}\"
+0 sample 107 cwnd=10 mss=1448 srtt=40ms min_rtt=40ms rtt=40ms bytes_acked=0 bytes_sent=0 bytes_retrans=0
+1s sample 107 bytes_acked=12500000 bytes_sent=12600000 bytes_retrans=56700 retrans=39
+0 retransmit 107 segments=39 kind=fast
+1s qdisc index=2 drops=5
+0 note kind=degraded {name}
+0 note kind=info {name}
"
    )
}

/// Nothing a terminal would act on, and nothing it might draw wider or narrower than the buffer has it.
fn assert_contained(buffer: &Buffer, what: &str) {
    let (width, height) = (buffer.area.width, buffer.area.height);
    for y in 0..height {
        for x in 0..width {
            let symbol = buffer[(x, y)].symbol();
            let treacherous = |c: char| {
                c.is_control()
                    || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}')
            };
            assert!(
                !symbol.chars().any(treacherous),
                "{what}: {symbol:?} at {x},{y}"
            );
            assert!(
                symbol.chars().count() <= 3,
                "{what}: a heap of marks at {x},{y}"
            );
            let wide = u16::try_from(symbol.width()).expect("narrow");
            assert!(
                x + wide <= width,
                "{what}: {symbol:?} leaves the screen at {x},{y}"
            );
            if wide == 2 {
                let next = buffer[(x + 1, y)].symbol();
                assert!(
                    next == " " || next.is_empty(),
                    "{what}: {next:?} under {symbol:?}"
                );
            }
        }
    }
}

#[test]
fn trap_30_text_from_outside_stays_in_its_place_on_every_page() {
    let long = format!("/{}", "x".repeat(199));
    let names = [
        ("\\e[2J\\e[1;31m\\e]0;pwned", long.clone()),
        ("漢字漢字漢字漢字", format!("/{}", "漢".repeat(60))),
        (
            "e\u{301}\u{302}\u{303}\u{304}\u{305}x",
            format!("/{}", "e\u{301}".repeat(90)),
        ),
        (
            "\u{301}a\u{202e}b\u{200d}c",
            format!("/{}", "\\e[7m".repeat(40)),
        ),
        (
            "👩\u{200d}🔬❤\u{fe0f}",
            format!("/system.slice/{}.service", "👩\u{200d}🔬".repeat(20)),
        ),
        (
            "🇩🇪👍🏽\u{9b}31m",
            format!("/lxc.payload.{}", "\u{9b}31m".repeat(20)),
        ),
    ];
    let plain = outside("plain", &long);
    for (name, cgroup) in &names {
        let evil = outside(name, cgroup);
        for page in Page::ALL {
            for (width, height) in [(1, 1), (23, 9), (60, 15), (80, 24), (120, 40), (300, 80)] {
                let mut shown = Shown::new(page, &[&evil]);
                let buffer = shown.buffer(width, height);
                assert_contained(
                    &buffer,
                    &format!("{name:?} on {page:?} at {width}×{height}"),
                );
                if page == Page::Flows && width >= 60 {
                    let clean = Shown::new(page, &[&plain]).buffer(width, height);
                    assert_figures_stay(&shown, &buffer, &clean);
                }
            }
        }
    }
}

/// The cells of figures are what they are beside a plain name.
fn assert_figures_stay(shown: &Shown, buffer: &Buffer, clean: &Buffer) {
    let row = |buffer: &Buffer| {
        let rows = 0..buffer.area.height;
        // Not the header's, which has no address.
        rows.into_iter()
            .find(|y| line(buffer, *y).contains("10.0.0.2:443"))
            .expect("the flow")
    };
    let named = [Column::Process, Column::Cc, Column::Qdisc, Column::Dev];
    let figures = shown
        .state
        .flows
        .placed
        .iter()
        .filter(|p| !named.contains(&p.column));
    let mut seen = 0;
    for placed in figures {
        for x in placed.x..placed.x + placed.width {
            let x = u16::try_from(x).expect("narrow");
            assert_eq!(
                buffer[(x, row(buffer))],
                clean[(x, row(clean))],
                "{:?}",
                placed.column
            );
        }
        seen += 1;
    }
    assert!(seen >= 4);
}
