//! Reports of recordings: what they say as text, Markdown, CSV and JSON, and every figure against one worked out naively.

mod record_support;
mod recordings;

use std::path::PathBuf;

use observer::event::{Event, FlowId, Opened, Origin, Payload, TcpState};
use observer::report::chart::{Chart, Charts};
use observer::report::compare::{Asked, compare, page};
use observer::report::{
    self, FileReport, FlowReport, Fold, Given, Options, Reading, csv, html, json, markdown, text,
};
use observer::source::script;
use observer::units::Mono;
use proptest::prelude::*;
use recordings::{environment, observer, record};
use serde_json::Value;
use tempfile::TempDir;

fn events(name: &str) -> Vec<Event> {
    script::parse(&recordings::events(name)).expect("a script")
}

fn folded(events: &[Event], options: Options) -> FileReport {
    let given = Given {
        name: "run.mcap".to_owned(),
        environment: environment(),
        options,
    };
    let mut fold = Fold::new(given, &|_, _| true);
    for event in events {
        fold.apply(event);
    }
    fold.finish(Reading {
        complete: true,
        missing: Vec::new(),
    })
}

/// The report of one file in a format.
fn written(file: &FileReport, options: Options, format: &str) -> String {
    let flows: Vec<Vec<&FlowReport>> = vec![file.flows.iter().collect()];
    let total = report::total(&flows, options, &file.context);
    let files = [file.clone()];
    let mut out = Vec::new();
    let page = report::report(&files, &total, &|_, _| None);
    match format {
        "json" => json::write(&mut out, &files, &total),
        "csv" => csv::write(&mut out, &files, &total),
        "markdown" => markdown::write(&mut out, &page),
        _ => text::write(&mut out, &page),
    }
    .expect("memory takes it");
    String::from_utf8(out).expect("text")
}

fn two_flows(format: &str) -> String {
    let options = Options::default();
    written(&folded(&events("two_flows.txt"), options), options, format)
}

#[test]
fn a_report_as_text() {
    insta::assert_snapshot!(two_flows("text"));
}

#[test]
fn a_report_as_markdown() {
    insta::assert_snapshot!(two_flows("markdown"));
}

#[test]
fn a_report_as_csv() {
    insta::assert_snapshot!(two_flows("csv"));
}

#[test]
fn a_report_as_json() {
    let lines: Vec<String> = two_flows("json")
        .lines()
        .map(|line| {
            let value: Value = serde_json::from_str(line).expect("JSON");
            serde_json::to_string_pretty(&value).expect("JSON")
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_stated_rate_gives_utilisation_and_an_omitted_start_goes() {
    let options = Options {
        omit_ns: 1_000_000_000,
        path_rate_bps: Some(40_000_000),
    };
    let file = folded(&events("two_flows.txt"), options);
    let block = &file.flows[0].block;
    assert_eq!(block.start_mono_ns, 2_000_000_000);
    assert!((block.duration_s - 3.0).abs() < 1e-9);
    // 2 of the 16.5 MB came in the first second.
    assert_eq!(block.bytes_acked, Some(14_500_000));
    assert_eq!(block.throughput_bps, Some(38_666_667));
    let share = block.utilisation.expect("a rate was stated");
    assert!((share - 14.5 / 15.0).abs() < 1e-6, "{share}");
    // 40 Mbit/s for 40 ms are 200 kB; 190 segments were the peak.
    let fill = block.bdp_fill_peak.expect("known");
    assert!((fill - 190.0 * 1448.0 / 200_000.0).abs() < 1e-9, "{fill}");
}

#[test]
fn what_is_over_before_the_omitted_start_is_left_out_and_counted() {
    let options = Options {
        omit_ns: 30_000_000_000,
        path_rate_bps: None,
    };
    let file = folded(&events("two_flows.txt"), options);
    assert_eq!((file.flows.len(), file.too_short), (0, 2));
    let json = written(&file, options, "json");
    assert!(json.contains(r#""flows_too_short":2"#), "{json}");
}

#[test]
fn json_has_the_keys_of_the_contract() {
    let json = two_flows("json");
    let lines: Vec<Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let types: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["type"].as_str())
        .collect();
    assert_eq!(types, ["file", "flow", "flow", "total"]);
    for key in [
        "start",
        "end",
        "duration_s",
        "observed_from_start",
        "throughput_bps",
        "second_half_throughput_bps",
        "retrans_rate",
        "retrans_segments",
        "retrans_by_kind",
        "phase_share",
        "mean_rtt_us",
        "p50_rtt_us",
        "p95_rtt_us",
        "rtt_jitter_us",
        "throughput_jitter_bps",
        "min_rtt_us",
        "btlbw_bps",
        "bdp_bytes",
        "peak_inflight_bytes",
        "bdp_fill_peak",
        "bdp_fill_mean",
        "cwnd_peak",
        "limited_by",
        "timeline",
    ] {
        assert!(lines[1]["report"].get(key).is_some(), "{key}");
    }
    for key in [
        "fast",
        "rto",
        "slow_start",
        "tlp",
        "syn",
        "synack",
        "other",
        "spurious",
    ] {
        assert!(
            lines[1]["report"]["retrans_by_kind"].get(key).is_some(),
            "{key}"
        );
    }
    for key in ["idle", "app", "rwnd", "sndbuf", "pacing", "cwnd"] {
        assert!(lines[1]["report"]["limited_by"].get(key).is_some(), "{key}");
    }
    for key in [
        "attempted",
        "kept",
        "suppressed",
        "filtered",
        "failed",
        "dropped",
        "missed",
    ] {
        assert!(lines[0]["loss_of_events"].get(key).is_some(), "{key}");
    }
    assert!(lines[1].get("verdict").is_some_and(Value::is_null));
}

/// One sample of a made-up flow.
#[derive(Clone, Debug)]
struct Step {
    after_ms: u64,
    acked: u64,
    rtt_us: u32,
    packets_out: u32,
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = (
        prop_oneof![4 => 1u64..40, 2 => 40u64..900, 1 => 1000u64..5000],
        prop_oneof![1 => Just(0u64), 3 => 0u64..2_000_000],
        20_000u32..400_000,
        0u32..1000,
    );
    let step = step.prop_map(|(after_ms, acked, rtt_us, packets_out)| Step {
        after_ms,
        acked,
        rtt_us,
        packets_out,
    });
    prop::collection::vec(step, 2..most)
}

const START: u64 = 5_000_000_000;

/// Events of a flow of these steps, closed at the last.
fn flow_events(steps: &[Step]) -> Vec<Event> {
    let flow = FlowId {
        cookie: 7,
        netns: 1,
    };
    let born = script::parse("@5s opened 7\n+0 sample 7").expect("a script");
    let Some(Payload::Sample(first)) = born.last().map(|event| event.payload.clone()) else {
        panic!("a sample");
    };
    let local = "10.0.0.1:1".parse().expect("an address");
    let mut events = vec![Event {
        time: Mono(START),
        flow: Some(flow),
        payload: Payload::Opened(Opened {
            from_start: true,
            state: TcpState::Established,
            local,
            remote: local,
        }),
    }];
    let (mut time, mut acked) = (START, 0);
    for step in steps {
        time += step.after_ms * 1_000_000;
        acked += step.acked;
        let mut sample = (*first).clone();
        sample.origin = Origin::Ebpf;
        sample.bytes_acked = Some(acked);
        sample.rtt_us = Some(step.rtt_us);
        sample.packets_out = step.packets_out;
        sample.mss = 1000;
        events.push(Event {
            time: Mono(time),
            flow: Some(flow),
            payload: Payload::Sample(Box::new(sample)),
        });
    }
    events.push(Event {
        time: Mono(time),
        flow: Some(flow),
        payload: Payload::Closed,
    });
    events
}

/// The same quantities as piecewise functions of the time in ms, worked out without any economy.
struct Naive {
    /// From, to, bytes acknowledged between, RTT, inflight.
    pieces: Vec<(f64, f64, f64, f64, f64)>,
    end: f64,
}

impl Naive {
    fn of(steps: &[Step]) -> Self {
        let mut pieces = Vec::new();
        let mut now = 0.0;
        // Before the first sample its state is all that is known.
        let mut state = (steps[0].rtt_us, steps[0].packets_out);
        for step in steps {
            let end = now + step.after_ms as f64;
            let turn = f64::max(now, end - 1000.0);
            if turn > now {
                pieces.push((
                    now,
                    turn,
                    0.0,
                    f64::from(state.0),
                    f64::from(state.1) * 1000.0,
                ));
            }
            state = (step.rtt_us, step.packets_out);
            pieces.push((
                turn,
                end,
                step.acked as f64,
                f64::from(state.0),
                f64::from(state.1) * 1000.0,
            ));
            now = end;
        }
        Self { pieces, end: now }
    }

    fn acked_at(&self, time: f64) -> f64 {
        let before = |&(from, to, acked, ..): &(f64, f64, f64, f64, f64)| {
            acked * ((time - from) / (to - from)).clamp(0.0, 1.0)
        };
        self.pieces.iter().map(before).sum()
    }

    fn mean(&self, since: f64, of: fn(&(f64, f64, f64, f64, f64)) -> f64) -> f64 {
        let weighted = self
            .pieces
            .iter()
            .map(|piece| of(piece) * (piece.1 - f64::max(piece.0, since)).max(0.0));
        weighted.sum::<f64>() / (self.end - since)
    }

    fn seconds(&self) -> Vec<f64> {
        let whole = (self.end / 1000.0) as u64;
        let bytes = |second: u64| {
            let start = second as f64 * 1000.0;
            self.acked_at(start + 1000.0) - self.acked_at(start)
        };
        (0..whole).map(bytes).collect()
    }
}

fn deviation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2));
    (squares.sum::<f64>() / values.len() as f64).sqrt()
}

fn close(got: Option<u64>, wanted: f64, share: f64) -> Result<(), TestCaseError> {
    let got = got.expect("known") as f64;
    prop_assert!(
        (got - wanted).abs() <= wanted.abs() * share + 1.0,
        "{got} for {wanted}"
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn figures_are_what_naive_arithmetic_says(steps in steps(100)) {
        let file = folded(&flow_events(&steps), Options::default());
        let block = &file.flows[0].block;
        let naive = Naive::of(&steps);
        let acked: u64 = steps.iter().map(|step| step.acked).sum();
        prop_assert_eq!(block.bytes_acked, Some(acked));
        close(block.throughput_bps, acked as f64 * 8000.0 / naive.end, 1e-9)?;
        let half = naive.end / 2.0;
        let second = naive.acked_at(naive.end) - naive.acked_at(half);
        close(block.second_half_throughput_bps, second * 8000.0 / half, 1e-6)?;
        close(block.mean_rtt_us, naive.mean(0.0, |piece| piece.3), 1e-9)?;
        close(block.mean_inflight_bytes, naive.mean(half, |piece| piece.4), 1e-6)?;
        let peak = steps.iter().map(|step| step.packets_out).max();
        prop_assert_eq!(block.peak_inflight_bytes, peak.map(|n| u64::from(n) * 1000));
    }

    #[test]
    fn jitter_and_percentiles_are_of_samples_10_ms_apart(steps in steps(200)) {
        let file = folded(&flow_events(&steps), Options::default());
        let block = &file.flows[0].block;
        let (mut thinned, mut now, mut last): (Vec<f64>, u64, Option<u64>) = (Vec::new(), 0, None);
        for step in &steps {
            now += step.after_ms;
            if last.is_none_or(|last| now - last >= 10) {
                thinned.push(f64::from(step.rtt_us));
                last = Some(now);
            }
        }
        prop_assert_eq!(block.rtt_samples, thinned.len() as u64);
        if thinned.len() > 1 {
            let differences = thinned.windows(2).map(|pair| (pair[1] - pair[0]).abs());
            close(block.rtt_jitter_us, differences.sum::<f64>() / (thinned.len() - 1) as f64, 1e-9)?;
            close(block.rtt_stddev_us, deviation(&thinned), 1e-9)?;
        }
        thinned.sort_by(f64::total_cmp);
        let at = |share: f64| thinned[(share * (thinned.len() - 1) as f64) as usize];
        close(block.p50_rtt_us, at(0.5), report::RELATIVE_ERROR)?;
        close(block.p95_rtt_us, at(0.95), report::RELATIVE_ERROR)?;
    }

    #[test]
    fn throughput_jitter_is_of_the_whole_seconds_of_the_second_half(steps in steps(100)) {
        let file = folded(&flow_events(&steps), Options::default());
        let block = &file.flows[0].block;
        let naive = Naive::of(&steps);
        let seconds = naive.seconds();
        let passed = (naive.end / 2000.0).ceil() as usize;
        let steady = seconds.get(passed..).unwrap_or_default();
        if seconds.len() < 256 && steady.len() >= 2 {
            close(block.throughput_jitter_bps, deviation(steady) * 8.0, 1e-6)?;
        } else if steady.len() < 2 {
            prop_assert_eq!(block.throughput_jitter_bps, None);
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn long_flows_are_thinned_and_hardly_differ(steps in steps(2000)) {
        let file = folded(&flow_events(&steps), Options::default());
        let block = &file.flows[0].block;
        let naive = Naive::of(&steps);
        let half = naive.end / 2.0;
        let second = naive.acked_at(naive.end) - naive.acked_at(half);
        // The middle is known to a hundredth of the time, and to a step.
        let shift = naive.end / 100.0 + 6000.0;
        let off = naive.acked_at(half + shift) - naive.acked_at(half - shift);
        let got = block.second_half_throughput_bps.expect("known") as f64 * half / 8000.0;
        prop_assert!((got - second).abs() <= off + second * 1e-6 + 1.0, "{} for {} ± {}", got, second, off);
        close(block.mean_rtt_us, naive.mean(0.0, |piece| piece.3), 1e-9)?;
    }
}

fn recording(dir: &TempDir, name: &str, events: &[Event]) -> PathBuf {
    let path = dir.path().join(name);
    record(&path, &environment(), events);
    path
}

#[test]
fn truncated_files_are_told_and_fail_when_strict() {
    let dir = TempDir::new().expect("a directory");
    let path = recording(&dir, "whole.mcap", &events("two_flows.txt"));
    let bytes = std::fs::read(&path).expect("readable");
    let torn = dir.path().join("torn.mcap");
    std::fs::write(&torn, &bytes[..bytes.len() * 3 / 10]).expect("written");
    let torn = torn.to_str().expect("text");
    let output = observer(&["report", torn]);
    let (told, page) = (
        recordings::text(&output.stderr),
        recordings::text(&output.stdout),
    );
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(
        told.contains("cut off") && page.contains("cut off"),
        "{told}\n{page}"
    );
    assert_eq!(
        observer(&["report", "--strict", torn]).status.code(),
        Some(4)
    );
    // Two events were dropped, by the counters.
    let whole = path.to_str().expect("text");
    assert_eq!(
        observer(&["report", "--strict", whole]).status.code(),
        Some(4)
    );
    assert_eq!(observer(&["report", whole]).status.code(), Some(0));
}

#[test]
fn wrong_files_and_words_are_refused() {
    let dir = TempDir::new().expect("a directory");
    let path = recording(&dir, "a.mcap", &events("two_flows.txt"));
    let file = path.to_str().expect("text");
    let foreign = dir.path().join("foreign");
    std::fs::write(&foreign, "no recording").expect("written");
    for (arguments, code) in [
        (vec!["report"], 2),
        (vec!["report", file, "--omit", "x"], 2),
        (vec!["report", file, "--path-rate", "fast"], 2),
        (vec!["report", file, "--filter", "frobnicate"], 2),
        (vec!["report", "/no/such/file"], 1),
        (vec!["report", foreign.to_str().expect("text")], 1),
        (vec!["report", file, "-o", file], 1),
    ] {
        let output = observer(&arguments);
        let told = recordings::text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
        assert_eq!(recordings::text(&output.stdout), "", "{arguments:?}");
        assert!(!told.is_empty() && !told.contains("panicked"), "{told}");
    }
}

#[test]
fn filters_leave_flows_out_and_several_files_are_one_report() {
    let dir = TempDir::new().expect("a directory");
    let first = recording(&dir, "a.mcap", &events("two_flows.txt"));
    let second = recording(&dir, "b.mcap", &events("two_flows.txt"));
    let (first, second) = (
        first.to_str().expect("text"),
        second.to_str().expect("text"),
    );
    let output = observer(&[
        "report", first, second, "--format", "json", "--filter", "cc bbr",
    ]);
    let lines: Vec<Value> = recordings::text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let types: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["type"].as_str())
        .collect();
    assert_eq!(types, ["file", "file", "flow", "flow", "total"]);
    assert_eq!(lines[0]["flows_left_out"], 1);
    // Twice the bytes in twice the time.
    assert_eq!(lines[4]["report"]["bytes_acked"], 33_000_000);
    assert_eq!(
        lines[4]["report"]["throughput_bps"],
        lines[2]["report"]["throughput_bps"]
    );
}

#[test]
fn events_of_any_content_are_reported_in_every_format() {
    for seed in 1..16 {
        let events = record_support::Draw::new(seed * 7919).events(600, 50_000_000);
        let options = Options {
            omit_ns: seed % 3 * 1_000_000_000,
            path_rate_bps: (seed % 2 == 0).then_some(u64::MAX),
        };
        let file = folded(&events, options);
        let charts = file.flows.iter().map(|flow| {
            let block = &flow.block;
            Chart::new(
                flow.who.id,
                Mono(block.start_mono_ns),
                Mono(block.end_mono_ns),
            )
        });
        let mut charts = Charts::new(charts.collect());
        for event in &events {
            charts.apply(event);
        }
        for svg in charts.svgs() {
            assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
        }
        for format in ["text", "markdown", "csv", "json"] {
            let text = written(&file, options, format);
            assert!(
                !text.contains('\u{1b}') && !text.contains('\0'),
                "{format}: {text}"
            );
        }
        for line in written(&file, options, "json").lines() {
            let _: Value = serde_json::from_str(line).expect("JSON");
        }
        let asked = Asked {
            by: vec!["cc".to_owned()],
            baseline: None,
            insist: true,
        };
        if let Ok(comparison) = compare(std::slice::from_ref(&file), &asked) {
            let mut out = Vec::new();
            html::write(
                &mut out,
                &page(&comparison, Some(html::strips(&comparison))),
            )
            .expect("memory takes it");
            assert!(!String::from_utf8_lossy(&out).contains("NaN"));
        }
    }
}

#[test]
fn the_html_page_loads_nothing_runs_nothing_and_escapes_everything() {
    let dir = TempDir::new().expect("a directory");
    let path = recording(&dir, "<i>.mcap", &events("two_flows.txt"));
    let output = observer(&["report", path.to_str().expect("text"), "--format", "html"]);
    assert_eq!(output.status.code(), Some(0));
    let page = recordings::text(&output.stdout);
    for foreign in [
        "<script", "<i>", "<b>", "http://", "https://", "url(", "src=", "@import", "\u{1b}",
    ] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(page.contains("default-src 'none'") && page.contains("prefers-color-scheme: dark"));
    assert!(page.contains("@media print"));
    let (table, chart) = (page.find("<table"), page.find("<svg"));
    assert!(table.is_some() && table < chart, "the table first");
    assert_eq!(page.matches("<svg").count(), 2);
    // The peak of the window is in the chart, and phases and kinds are.
    for part in [
        "PROBE_BW",
        "DRAIN",
        ">fast<",
        ">cwnd<",
        ">min RTT<",
        "a\\u{1b}[2J|&lt;b&gt;_x_",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // Well-formed: every element that opens closes.
    for tag in [
        "svg", "table", "figure", "dl", "main", "body", "html", "text", "title",
    ] {
        let (opened, closed) = (format!("<{tag}"), format!("</{tag}>"));
        let opened = page
            .match_indices(&opened)
            .filter(|(at, _)| page[at + tag.len() + 1..].starts_with(['>', ' ']));
        assert_eq!(opened.count(), page.matches(&closed).count(), "{tag}");
    }
}
