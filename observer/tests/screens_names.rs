//! The screen with names in the place of addresses: what is somebody else's text stays in its place.

use observer::model::Model;
use observer::source::script;
use observer::tui::{Addresses, ViewState, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

const FLOW: &str = "\
@1s opened 7 local=10.0.0.1:43210 remote=10.0.0.2:443
+0 attributes 7 local=10.0.0.1:43210 remote=10.0.0.2:443 cc=bbr version=v1
+0 sample 7 cwnd=10 mss=1448 srtt=41900us min_rtt=40100us bytes_acked=0 bytes_sent=0 bytes_retrans=0
+1s sample 7 bytes_acked=12500000 bytes_sent=12600000
";

fn screen(name: &'static str, width: u16) -> Vec<String> {
    let mut model = Model::default();
    for event in script::parse(FLOW).expect("a script") {
        model.apply(&event);
    }
    let mut state = ViewState {
        addresses: Addresses::by(move |end| match end.port() {
            443 => format!("{name}:https"),
            _ => end.to_string(),
        }),
        ..ViewState::default()
    };
    let mut terminal = Terminal::new(TestBackend::new(width, 24)).expect("a terminal");
    terminal
        .draw(|frame| {
            state.prepare(&model, &|_, _| true, frame.area());
            draw(&model, &state, "eBPF", frame);
        })
        .expect("drawn");
    let buffer = terminal.backend().buffer();
    let width = usize::from(buffer.area.width);
    buffer
        .content
        .chunks(width)
        .map(|line| line.iter().map(ratatui::buffer::Cell::symbol).collect())
        .collect()
}

#[test]
fn names_stand_in_the_place_of_addresses() {
    let text = screen("host.example", 300).join("\n");
    assert!(text.contains("host.example:https"), "{text}");
    assert!(text.contains("10.0.0.1:43210"), "{text}");
    assert!(!text.contains("10.0.0.2"), "{text}");
}

#[test]
fn a_name_without_end_or_with_escapes_moves_nothing() {
    let plain = screen("host.example", 80);
    for name in [
        "a\x1b[2J\x07.example",
        "very-long-name-of-a-host.in-a-long-domain.of-a-long-organisation.example",
        "漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字.example",
        "e\u{301}\u{202e}x",
    ] {
        let lines = screen(name, 80);
        assert!(lines.join("").contains("100 Mbit/s"), "{lines:?}");
        assert!(lines.iter().all(|line| !line.contains(['\x1b', '\x07'])));
        for (line, expected) in lines.iter().zip(&plain) {
            // Throughput stands where it stood.
            assert_eq!(
                line.contains("Mbit/s"),
                expected.contains("Mbit/s"),
                "{name:?}: {line}"
            );
        }
    }
}
