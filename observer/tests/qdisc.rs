//! Netlink's answers about every kind of qdisc, as real kernels gave them (`tests/fixtures/qdisc`): what is read of them,
//! and what the page of qdiscs shows, is what `tc` said of the same.

#[path = "common/tc.rs"]
mod tc;

use std::collections::BTreeSet;
use std::path::Path;

use observer::event::{Device, DeviceId, Event, Nature, Payload, Qdisc, nature};
use observer::host::netlink::Message;
use observer::host::qdisc;
use observer::model::Model;
use observer::tui::{Action, Page, ViewState, draw};
use observer::units::{Mono, size};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::Value;

/// What the issue names; each must have a fixture.
const KINDS: [&str; 11] = [
    "cake",
    "codel",
    "fq",
    "fq_codel",
    "fq_pie",
    "htb",
    "mq",
    "netem",
    "pfifo_fast",
    "pie",
    "tbf",
];

/// A file of answers.
struct Answers {
    name: String,
    ours: Vec<Qdisc>,
    rows: Vec<Value>,
    text: String,
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16);
    digits
        .map(|pair| byte(pair).expect("hexadecimal"))
        .collect()
}

fn answers() -> Vec<Answers> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/qdisc");
    let files = std::fs::read_dir(dir).expect("fixtures");
    let paths = files.map(|file| file.expect("a file").path());
    let paths = paths.filter(|path| path.extension().is_some_and(|e| e == "txt"));
    paths
        .map(|path| {
            let all = std::fs::read_to_string(&path).expect("text");
            let of = |word: &str| -> Vec<&str> {
                let lines = all.lines();
                lines.filter_map(|line| line.strip_prefix(word)).collect()
            };
            let read = |hex: &&str| {
                let body = bytes(hex);
                let message = Message {
                    kind: qdisc::RTM_NEWQDISC,
                    flags: 0,
                    sequence: 0,
                    body: &body,
                };
                qdisc::read(message).expect("a qdisc").1
            };
            Answers {
                name: path.file_name().expect("a name").display().to_string(),
                ours: of("netlink ").iter().map(read).collect(),
                rows: of("tc ")
                    .iter()
                    .map(|row| row.parse().expect("JSON"))
                    .collect(),
                text: of("text ").join("\n"),
            }
        })
        .collect()
}

#[test]
fn every_answer_is_read_as_tc_reads_it() {
    let mut kinds = BTreeSet::new();
    for answers in answers() {
        assert_eq!(answers.ours.len(), answers.rows.len(), "{}", answers.name);
        for (ours, row) in answers.ours.iter().zip(&answers.rows) {
            let head = format!("qdisc {} {} ", ours.kind, ours.handle_text());
            let from = answers.text.find(&head).expect("in the text, too");
            tc::assert_equal(ours, row, &answers.text[from..]);
            kinds.insert(ours.kind.clone());
        }
    }
    let missing: Vec<_> = KINDS
        .iter()
        .filter(|kind| !kinds.contains(**kind))
        .collect();
    assert!(missing.is_empty(), "no fixture of {missing:?}");
}

/// Answers cut short anywhere are read without harm.
#[test]
fn answers_cut_short_do_no_harm() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/qdisc");
    for file in std::fs::read_dir(dir).expect("fixtures") {
        let all = std::fs::read_to_string(file.expect("a file").path()).expect("text");
        for hex in all.lines().filter_map(|line| line.strip_prefix("netlink ")) {
            let whole = bytes(hex);
            for end in 0..whole.len() {
                let message = Message {
                    kind: qdisc::RTM_NEWQDISC,
                    flags: 0,
                    sequence: 0,
                    body: &whole[..end],
                };
                let _ = qdisc::read(message);
            }
        }
    }
}

/// The page as text, the qdisc in row `row` selected.
fn page(model: &Model, row: usize) -> String {
    let mut state = ViewState::default();
    state.update(Action::Go(Page::Qdiscs));
    let mut terminal = Terminal::new(TestBackend::new(300, 60)).expect("a backend");
    for step in 0..=row {
        if step > 0 {
            state.update(Action::Down);
        }
        terminal
            .draw(|frame| {
                state.prepare(model, &|_, _| true, frame.area());
                draw(model, &state, "eBPF", frame);
            })
            .expect("drawn");
    }
    let buffer = terminal.backend().buffer();
    let cells = buffer.content().chunks(usize::from(buffer.area.width));
    let line = |cells: &[ratatui::buffer::Cell]| -> String {
        cells.iter().map(ratatui::buffer::Cell::symbol).collect()
    };
    cells
        .map(|cells| line(cells).trim_end().to_owned() + "\n")
        .collect()
}

#[test]
fn the_page_shows_every_counter_that_tc_shows() {
    for answers in answers() {
        let mut model = Model::default();
        let device = Device {
            id: DeviceId {
                netns: 1,
                ifindex: 2,
            },
            name: "v".to_owned(),
            mtu: 1500,
            up: true,
            kind: Some("veth".to_owned()),
            tx_queues: 1,
            offloads: None,
            qdiscs: answers.ours.clone(),
        };
        model.apply(&Event {
            time: Mono(1_000_000_000),
            flow: None,
            payload: Payload::Device(Box::new(device)),
        });
        let pages: Vec<String> = (0..answers.ours.len())
            .map(|row| page(&model, row))
            .collect();
        for (ours, row) in answers.ours.iter().zip(&answers.rows) {
            // The page on which this one is selected.
            let title = format!(
                "v {} {} {}",
                ours.kind,
                ours.handle_text(),
                ours.parent_text()
            );
            let page = pages
                .iter()
                .find(|page| page.lines().any(|line| line.starts_with(&title)))
                .unwrap_or_else(|| panic!("no {title:?} in {}", pages[0]));
            shows(page, ours, row, &answers.name);
        }
    }
}

fn shows(page: &str, ours: &Qdisc, row: &Value, name: &str) {
    let number = |key: &str| row[key].as_u64().expect("a number");
    let has = |text: &str| assert!(page.contains(text), "{name}: no {text:?} in\n{page}");
    has(&format!(
        "sent {} {}p",
        size(number("bytes")),
        number("packets")
    ));
    has(&format!("drops {} (", number("drops")));
    let zero = page.split_once("zero: ").map_or("", |(_, zero)| zero);
    let counter = |key: &str, value: u64| {
        if value == 0 {
            assert!(
                zero.contains(key),
                "{name}: {key} is not among the zeros in\n{page}"
            );
        } else {
            has(&format!("{key} {value} ("));
        }
    };
    counter("overlimits", number("overlimits"));
    counter("requeues", number("requeues"));
    for (key, value) in &ours.extra {
        match nature(&ours.kind, key) {
            Nature::Counter => counter(key, *value),
            Nature::Level(_) | Nature::Gauge(_) => has(&format!("{key} ")),
        }
    }
}
