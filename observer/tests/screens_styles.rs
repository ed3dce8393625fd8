//! Colours and modifiers beside the snapshots, which are text: what stands out, what stands back, and that nothing has a
//! colour where none is wanted.

use observer::model::Model;
use observer::source::script;
use observer::tui::{Action, Key, Marker, Page, Paused, Theme, ThemeName, ViewState, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

const HOST: &str = "\
@1s host hostname=lab kernel=6.18.0 hz=250 cpus=2 default_qdisc=fq_codel default_cc=cubic
+0 device index=2 name=eth0 up=yes
+0 qdisc index=2 kind=fq handle=8001: parent=root drops=3 backlog_bytes=14480
";

/// Three flows; the second has ended.
const FLOWS: &str = "\
+0 opened 1 local=10.0.0.1:1001 remote=10.0.0.2:5201
+0 opened 2 local=10.0.0.1:1002 remote=10.0.0.2:5202
+0 opened 3 local=10.0.0.1:1003 remote=10.0.0.2:5203
+0 sample 1 cwnd=10 mss=1448 srtt=40ms min_rtt=40ms bytes_acked=0 bytes_sent=0 bytes_retrans=0
+0 sample 2 cwnd=10 mss=1448 srtt=40ms min_rtt=40ms bytes_acked=0 bytes_sent=0 bytes_retrans=0
+0 sample 3 cwnd=10 mss=1448 srtt=40ms min_rtt=40ms bytes_acked=0 bytes_sent=0 bytes_retrans=0
+1s sample 1 bytes_acked=3000000 bytes_sent=3000000
+0 sample 2 bytes_acked=2000000 bytes_sent=2000000
+0 sample 3 bytes_acked=1000000 bytes_sent=1000000
+1ms closed 2
+1ms tick
";

const LOST: &str = "+0 counters program=on_probe kept=1 dropped=37\n";
const DEGRADED: &str = "+0 note kind=degraded this kernel has no tcp_sock.delivered_ce\n";

fn drawn(theme: ThemeName, parts: &[&str], change: impl FnOnce(&mut ViewState)) -> Buffer {
    let mut model = Model::default();
    for event in script::parse(&parts.concat()).expect("a script") {
        model.apply(&event);
    }
    let mut state = ViewState {
        theme: Theme::new(theme, Marker::default()),
        ..ViewState::default()
    };
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a backend");
    let mut draw = |state: &mut ViewState| {
        let frame = terminal.draw(|frame| {
            state.prepare(&model, &|_, _| true, frame.area());
            draw(&model, state, "eBPF", frame);
        });
        frame.expect("drawn").buffer.clone()
    };
    draw(&mut state);
    change(&mut state);
    draw(&mut state)
}

fn line(buffer: &Buffer, y: u16) -> String {
    (0..buffer.area.width)
        .map(|x| buffer[(x, y)].symbol())
        .collect()
}

/// The cells of the first place where `text` stands.
fn cells<'a>(buffer: &'a Buffer, text: &str) -> Vec<&'a Cell> {
    let found = (0..buffer.area.height).find_map(|y| {
        let line = line(buffer, y);
        let before = line.find(text)?;
        Some((line[..before].chars().count(), y))
    });
    let (x, y) = found.unwrap_or_else(|| panic!("{text:?} is not on the screen"));
    let x = u16::try_from(x).expect("narrow");
    let width = u16::try_from(text.chars().count()).expect("narrow");
    (x..x + width).map(|x| &buffer[(x, y)]).collect()
}

/// What all cells of `text` have in common.
fn style(buffer: &Buffer, text: &str) -> (Color, Modifier) {
    let cells = cells(buffer, text);
    let style = |cell: &Cell| (cell.fg, cell.modifier);
    assert!(
        cells.iter().all(|cell| style(cell) == style(cells[0])),
        "{text:?} is of several styles"
    );
    assert!(cells.iter().all(|cell| cell.bg == Color::Reset));
    style(cells[0])
}

const PLAIN: (Color, Modifier) = (Color::Reset, Modifier::empty());
const COLOURED: [ThemeName; 4] = [
    ThemeName::Terminal,
    ThemeName::Dark,
    ThemeName::Light,
    ThemeName::HighContrast,
];

#[test]
fn the_selected_line_is_reversed_from_edge_to_edge_and_no_other_is() {
    for theme in ThemeName::ALL {
        let buffer = drawn(theme, &[HOST, FLOWS], |state| {
            state.update(Action::Down);
        });
        let reversed = |x: u16, y: u16| buffer[(x, y)].modifier.contains(Modifier::REVERSED);
        let lines: Vec<u16> = (0..24).filter(|y| reversed(0, *y)).collect();
        assert_eq!(lines.len(), 1, "{theme:?}");
        assert!(line(&buffer, lines[0]).contains("10.0.0.2:5201"));
        for y in 0..24 {
            assert!(
                (0..80).all(|x| reversed(x, y) == (y == lines[0])),
                "{theme:?}, line {y}"
            );
        }
    }
}

#[test]
fn a_closed_flow_stands_back_and_has_its_mark() {
    let expected = [
        (ThemeName::Terminal, (Color::Reset, Modifier::DIM)),
        (
            ThemeName::Dark,
            (Color::Rgb(138, 143, 152), Modifier::empty()),
        ),
        (
            ThemeName::Light,
            (Color::Rgb(96, 100, 108), Modifier::empty()),
        ),
        (ThemeName::HighContrast, PLAIN),
        (ThemeName::None, PLAIN),
    ];
    for (theme, closed) in expected {
        let buffer = drawn(theme, &[HOST, FLOWS], |_| {});
        assert_eq!(style(&buffer, "10.0.0.2:5202"), closed, "{theme:?}");
        assert_eq!(style(&buffer, "10.0.0.2:5201"), PLAIN, "{theme:?}");
        cells(&buffer, "×10.0.0.2:5202");
    }
}

#[test]
fn a_loss_alarms_and_none_does_not() {
    let alarm = Modifier::BOLD | Modifier::REVERSED;
    let red = |theme| match theme {
        ThemeName::Terminal => Color::Red,
        ThemeName::Dark => Color::Rgb(255, 107, 107),
        ThemeName::Light => Color::Rgb(176, 0, 32),
        ThemeName::HighContrast => Color::LightRed,
        ThemeName::None => Color::Reset,
    };
    for theme in ThemeName::ALL {
        for page in [
            Page::Flows,
            Page::Flow,
            Page::Qdiscs,
            Page::Host,
            Page::Events,
        ] {
            let go = |state: &mut ViewState| {
                state.update(Action::Go(page));
            };
            let lossy = drawn(theme, &[HOST, FLOWS, LOST], go);
            assert_eq!(
                style(&lossy, "LOST 37!"),
                (red(theme), alarm),
                "{theme:?} {page:?}"
            );
            let clean = drawn(theme, &[HOST, FLOWS], go);
            assert_eq!(style(&clean, "lost 0"), PLAIN, "{theme:?} {page:?}");
        }
        let paused = drawn(theme, &[HOST, FLOWS], |state| {
            state.paused = Some(Paused {
                at: observer::units::Mono(1),
                clock: None,
                ago: 3_000_000_000,
            });
        });
        assert_eq!(
            style(&paused, "PAUSED 3 s ago"),
            (red(theme), alarm),
            "{theme:?}"
        );
    }
}

#[test]
fn what_does_not_work_here_stands_back_in_its_line() {
    let text = "1 limitation here: this kernel has no tcp_sock.delivered_ce";
    for theme in ThemeName::ALL {
        let buffer = drawn(theme, &[HOST, FLOWS, DEGRADED], |_| {});
        let quiet = match theme {
            ThemeName::Terminal => (Color::Reset, Modifier::DIM),
            ThemeName::Dark => (Color::Rgb(138, 143, 152), Modifier::empty()),
            ThemeName::Light => (Color::Rgb(96, 100, 108), Modifier::empty()),
            ThemeName::HighContrast | ThemeName::None => PLAIN,
        };
        assert_eq!(style(&buffer, text), quiet, "{theme:?}");
        assert!(line(&buffer, 22).starts_with(text), "above the keys");
    }
}

#[test]
fn the_heading_sorted_by_is_underlined_and_carries_its_direction() {
    for theme in ThemeName::ALL {
        let buffer = drawn(theme, &[HOST, FLOWS], |_| {});
        let (colour, modifier) = style(&buffer, "Throughput▼");
        assert_eq!(modifier, Modifier::BOLD | Modifier::UNDERLINED, "{theme:?}");
        for other in ["Remote", "cwnd", "RTT/min ms", "Retr%", "Limit"] {
            assert_eq!(
                style(&buffer, other),
                (colour, Modifier::BOLD),
                "{theme:?} {other}"
            );
        }
        let buffer = drawn(theme, &[HOST, FLOWS], |state| {
            state.update(Action::SortRight);
            state.update(Action::SortRight);
            state.update(Action::Invert);
        });
        assert_eq!(
            style(&buffer, "cwnd▲").1,
            Modifier::BOLD | Modifier::UNDERLINED
        );
        assert_eq!(style(&buffer, "Throughput").1, Modifier::BOLD);
    }
}

#[test]
fn what_was_searched_for_is_underlined_where_it_stands() {
    for theme in ThemeName::ALL {
        let buffer = drawn(theme, &[HOST, FLOWS], |state| {
            state.update(Action::Search);
            for c in ":5203".chars() {
                state.key(Key::Char(c));
            }
            state.update(Action::Accept);
        });
        assert!(
            style(&buffer, "10.0.0.2:5203")
                .1
                .contains(Modifier::UNDERLINED)
        );
        assert!(
            !style(&buffer, "10.0.0.2:5201")
                .1
                .contains(Modifier::UNDERLINED)
        );
    }
}

#[test]
fn keys_of_the_footer_are_bold_and_their_words_are_not() {
    for theme in ThemeName::ALL {
        let buffer = drawn(theme, &[HOST, FLOWS], |_| {});
        assert_eq!(buffer[(0, 23)].symbol(), "q");
        assert!(
            buffer[(0, 23)].modifier.contains(Modifier::BOLD),
            "{theme:?}"
        );
        assert!(
            !buffer[(2, 23)].modifier.contains(Modifier::BOLD),
            "{theme:?}"
        );
    }
}

#[test]
fn without_colour_no_page_has_any_and_with_it_the_alarming_has() {
    for page in Page::ALL {
        let go = |state: &mut ViewState| {
            state.update(Action::Go(page));
        };
        let parts = [HOST, FLOWS, LOST, DEGRADED];
        let plain = drawn(ThemeName::None, &parts, go);
        let colourless = |cell: &Cell| cell.fg == Color::Reset && cell.bg == Color::Reset;
        assert!(plain.content().iter().all(colourless), "{page:?}");
        for theme in COLOURED {
            let coloured = drawn(theme, &parts, go);
            let text = |buffer: &Buffer| (0..24).map(|y| line(buffer, y)).collect::<Vec<_>>();
            assert_eq!(
                text(&coloured),
                text(&plain),
                "the words are the same: {theme:?} {page:?}"
            );
            if page != Page::Help {
                assert!(
                    !coloured.content().iter().all(colourless),
                    "{theme:?} {page:?}"
                );
            }
        }
    }
}
