//! Verdicts from end to end, without root: simulated flows become a recording, and whatever shows it uses the same words.

#[allow(dead_code)]
mod detect_support;
mod recordings;

use std::path::{Path as File, PathBuf};
use std::thread;
use std::time::Duration;

use detect_support::{Path, Sender, World};
use observer::detect::{CLASSES, Class};
use observer::event::Event;
use observer::model::{EntryKind, Fold, MarkKind, Part};
use observer::playback::Player;
use observer::serve::Serve;
use observer::units::Mono;
use recordings::{environment, observer, record, text};
use serde_json::Value;
use tempfile::TempDir;

/// A queue of a quarter of the BDP that one or more loss-based flows overflow.
fn shallow(flows: usize) -> Vec<Event> {
    let path = Path {
        rate: 10e6,
        rtt_ms: 40.0,
        buffer_bdp: 0.25,
        seed: 2,
        ..Path::default()
    };
    World::new(path, &vec![Sender::Aimd; flows]).run(11.0)
}

struct Recorded {
    _dir: TempDir,
    path: PathBuf,
    events: Vec<Event>,
}

impl Recorded {
    fn of(events: Vec<Event>) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("run.mcap");
        record(&path, &environment(), &events);
        Self {
            _dir: dir,
            path,
            events,
        }
    }

    /// What the program prints, given the file in place of `FILE`.
    fn says(&self, arguments: &[&str]) -> String {
        let file = self.path.to_str().expect("text");
        let arguments: Vec<&str> = arguments
            .iter()
            .map(|word| if *word == "FILE" { file } else { word })
            .collect();
        let output = observer(&arguments);
        let said = text(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        text(&output.stdout)
    }

    fn fold(&self) -> Fold {
        let mut fold = Fold::default();
        for event in &self.events {
            fold.apply(event);
        }
        fold
    }
}

fn lines(text: &str) -> Vec<Value> {
    let line = |line: &str| serde_json::from_str(line).expect("JSON");
    text.lines().map(line).collect()
}

fn of_type<'a>(lines: &'a [Value], name: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == name).collect()
}

#[test]
fn whatever_shows_a_flow_names_its_verdict_alike() {
    let recorded = Recorded::of(shallow(1));
    let report = lines(&recorded.says(&["report", "FILE", "--format", "json"]));
    let flow = of_type(&report, "flow")[0];
    let verdict = &flow["verdict"];
    let word = verdict["class"].as_str().expect("a word");
    assert_eq!(word, Class::QueueShallow.as_str());
    assert_eq!(flow["report"]["bottleneck"], word);
    let spans = flow["report"]["verdicts"].as_array().expect("a list");
    assert!(spans.iter().any(|span| span["class"] == word), "{spans:?}");
    let evidence = verdict["evidence"][0].as_str().expect("evidence");
    let advice = verdict["advice"][0].as_str().expect("advice");
    assert!(advice.contains("it helped if"), "{advice}");

    let csv = recorded.says(&["report", "FILE", "--format", "csv"]);
    let row = csv.lines().nth(1).expect("a row");
    assert!(row.contains(&format!(",{word},")), "{row}");
    for format in ["text", "markdown", "html"] {
        // Markdown's own characters are escaped there.
        let page = recorded.says(&["report", "FILE", "--format", format]);
        let page = page.replace('\\', "");
        assert!(page.contains(word), "{format}");
        let words = evidence.split(" (").next().unwrap_or(evidence);
        assert!(page.contains(words), "{format} has no {words}");
    }

    let stream = lines(&recorded.says(&["export", "FILE", "--format", "jsonl"]));
    let changes = of_type(&stream, "verdict");
    let last = changes.last().expect("a change was told");
    assert_eq!(last["verdict"]["class"], word);
    assert_eq!(last["flow"]["id"], flow["flow"]["id"]);

    let compared = recorded.says(&["compare", "FILE", "--by", "cc"]);
    assert!(compared.contains(word), "{compared}");

    let table = recorded.says(&["replay", "FILE", "--screen", "160x30"]);
    assert!(table.contains(word), "{table}");
    let why = recorded.says(&["replay", "FILE", "--screen", "100x60", "--keys", "jw"]);
    // Its figures are of the moment it was last judged, those of the report of the end.
    assert!(why.contains(word) && why.contains("not a policer"), "{why}");
    assert!(why.contains("$ sysctl"), "{why}");

    let mut serve = Serve::new(false);
    recorded.events.iter().for_each(|event| serve.apply(event));
    serve.second();
    let families = serve.gather();
    let family = families
        .iter()
        .find(|family| family.name() == "observer_flow_verdicts");
    let family = family.expect("the metric");
    assert_eq!(family.get_metric().len(), CLASSES.len(), "each class");
    let of_word = family.get_metric().iter().find(|metric| {
        let label = metric.get_label().first();
        label.is_some_and(|label| label.value() == word)
    });
    let count = of_word.expect("its class").get_gauge().get_value();
    assert!((count - 1.0).abs() < 0.1, "{count}");
}

#[test]
fn flows_to_one_peer_are_told_as_a_group() {
    let recorded = Recorded::of(shallow(4));
    let report = lines(&recorded.says(&["report", "FILE", "--format", "json"]));
    let flows = of_type(&report, "flow");
    assert_eq!(flows.len(), 4);
    for flow in &flows {
        assert_eq!(flow["verdict"]["scope"], "group");
        assert_eq!(flow["verdict"]["group"], "10.0.0.2");
    }
    let page = recorded.says(&["report", "FILE"]);
    assert!(page.contains("Flows to 10.0.0.2, judged together"));
    assert!(page.contains("Jain index"));
    let fold = recorded.fold();
    let group = &fold.model().groups()[0];
    assert_eq!(group.flows.len(), 4);
    let jain = group.jain_index(fold.model()).expect("shares");
    assert!((0.25..=1.0).contains(&jain));
    let shares = group.shares(fold.model());
    let sum: f64 = shares.iter().filter_map(|share| share.throughput).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    assert!(shares.iter().all(|share| share.part != Part::Closed));
}

#[test]
fn what_is_not_known_yet_says_what_is_missing() {
    // A second of a flow that lost nothing.
    let path = Path {
        rate: 10e6,
        rtt_ms: 200.0,
        buffer_bdp: 4.0,
        ..Path::default()
    };
    let recorded = Recorded::of(World::new(path, &[Sender::App(1e6)]).run(2.0));
    let report = lines(&recorded.says(&["report", "FILE", "--format", "json"]));
    let verdict = &of_type(&report, "flow")[0]["verdict"];
    assert_eq!(verdict["class"], Class::Insufficient.as_str());
    let evidence = verdict["evidence"].to_string();
    assert!(evidence.contains("20 RTT"), "{evidence}");
}

/// A player that stands at the end, once all was judged.
fn at_end(path: &File) -> Player {
    let mut player = Player::open(path).expect("opened");
    while player.found().ending.is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    let end = player.span().last;
    player.seek(end).expect("sought");
    while !player.forward(end, 5000).expect("read") {}
    player
}

#[test]
fn live_and_replay_say_the_same_and_one_goes_to_the_change() {
    let recorded = Recorded::of(shallow(1));
    let fold = recorded.fold();
    let (model, mut player) = (fold.model(), at_end(&recorded.path));
    let live: Vec<_> = model.flows().map(|flow| flow.judgement()).collect();
    let replayed = player.model();
    let replayed: Vec<_> = replayed.flows().map(|flow| flow.judgement()).collect();
    assert_eq!(live, replayed);
    assert!(live[0].is_some());

    let marks = player.found().marks.clone();
    let mark = marks.after(MarkKind::Verdict, Mono(0), |_| true);
    let mark = mark.expect("a change to go to");
    let news = model.journal().into_iter();
    let news: Vec<Mono> = news
        .filter(|entry| entry.what.kind() == EntryKind::Verdict)
        .map(|entry| entry.time)
        .collect();
    assert!(news.contains(&mark.time));
    // There it holds already, a moment before it does not.
    for (at, held) in [(mark.time, true), (Mono(mark.time.0 - 1), false)] {
        player.seek(at).expect("sought");
        while !player.forward(at, 5000).expect("read") {}
        let judgement = player.model().flows().next().and_then(|f| f.judgement());
        let found = judgement.is_some_and(|j| j.verdict.class.is_finding());
        assert_eq!(found, held, "{at:?}");
    }
}
