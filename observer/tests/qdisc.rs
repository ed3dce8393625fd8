//! Netlink's answers about every kind of qdisc, as real kernels gave them (`tests/fixtures/qdisc`): what is read of them,
//! and what the page of qdiscs shows, is what `tc` said of the same.

#[path = "common/tc.rs"]
mod tc;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use observer::event::{Device, DeviceId, Event, Measure, Nature, Payload, Qdisc, nature};
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
    /// The same answers, with [`BACKLOG`].
    queued: Vec<Qdisc>,
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

/// What a queue that is not empty tells, in bytes and packets.
const BACKLOG: (u32, u32) = (123_456, 87);

/// The same answer with a backlog: the fixtures were taken at rest. Where its place is follows from the lengths alone:
/// `TCA_STATS2` (7) holds `TCA_STATS_QUEUE` (3), which begins with packets and bytes; the older `TCA_STATS` (3) ends with them.
fn with_backlog(mut body: Vec<u8>) -> Vec<u8> {
    let (bytes, packets) = (BACKLOG.0.to_ne_bytes(), BACKLOG.1.to_ne_bytes());
    let old = attribute(&body, qdisc::TCMSG..body.len(), 3).expect("TCA_STATS");
    body[old.start + 28..old.start + 32].copy_from_slice(&packets);
    body[old.start + 32..old.start + 36].copy_from_slice(&bytes);
    let stats = attribute(&body, qdisc::TCMSG..body.len(), 7).expect("TCA_STATS2");
    let queue = attribute(&body, stats, 3).expect("TCA_STATS_QUEUE");
    body[queue.start..queue.start + 4].copy_from_slice(&packets);
    body[queue.start + 4..queue.start + 8].copy_from_slice(&bytes);
    body
}

/// Where in `within` the content of the attribute of this kind is.
fn attribute(body: &[u8], within: Range<usize>, kind: u16) -> Option<Range<usize>> {
    let mut at = within.start;
    while at + 4 <= within.end {
        let half = |at: usize| u16::from_ne_bytes([body[at], body[at + 1]]);
        let (length, found) = (usize::from(half(at)), half(at + 2) & 0x3fff);
        if found == kind {
            return Some(at + 4..at + length);
        }
        at += length.max(4).next_multiple_of(4);
    }
    None
}

fn read(body: &[u8]) -> Qdisc {
    let message = Message {
        kind: qdisc::RTM_NEWQDISC,
        flags: 0,
        sequence: 0,
        body,
    };
    qdisc::read(message).expect("a qdisc").1
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
            let ours = of("netlink ").into_iter().map(bytes);
            let (ours, queued) = ours
                .map(|body| (read(&body), read(&with_backlog(body))))
                .unzip();
            Answers {
                name: path.file_name().expect("a name").display().to_string(),
                ours,
                queued,
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

#[test]
fn a_backlog_is_read_where_it_stands_and_nothing_else_changes() {
    for answers in answers() {
        for (ours, queued) in answers.ours.iter().zip(&answers.queued) {
            let expected = Qdisc {
                backlog_bytes: BACKLOG.0.into(),
                backlog_packets: BACKLOG.1.into(),
                ..ours.clone()
            };
            assert_eq!(*queued, expected, "{}", answers.name);
        }
    }
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
        let (bytes, packets) = BACKLOG;
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
            qdiscs: answers.queued.clone(),
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
            let line = page.lines().find(|line| line.starts_with("backlog"));
            let backlog = format!("{} {packets}p, at most", size(bytes.into()));
            assert!(
                line.is_some_and(|line| line.contains(&backlog)),
                "{}: no {backlog:?} in\n{page}",
                answers.name
            );
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
            Nature::Level(Measure::Count) | Nature::Gauge(Measure::Count) => {
                has(&format!("{key} {value}"));
            }
            Nature::Level(Measure::Bytes) | Nature::Gauge(Measure::Bytes) => {
                has(&format!("{key} {}", size(*value)));
            }
            // Times, rates and shares are written by `view/qdiscs/settings.rs`, which has its own tests.
            Nature::Level(_) | Nature::Gauge(_) => has(&format!("{key} ")),
        }
    }
}
