//! `cargo xtask bench verdicts`: the detectors against known truth, and what they cost at 20,000 flows.

// Of its helpers this one needs the bar.
#[path = "../common/mod.rs"]
mod common;
mod cost;
mod score;
mod truth;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Parser;
use observer::detect::{Class, Detector, Verdict};
use observer::event::{Event, Payload};
use observer::import::Capture;
use observer::record::Reader;
use observer::units::Mono;

use common::bar;
use score::{Score, score, spread, wilson};
use truth::Truth;

#[derive(Debug, Parser)]
struct Args {
    /// Captures with a `truth.csv` beside them
    #[arg(long)]
    captures: Option<PathBuf>,
    /// Recordings of `observer lab matrix verdicts -o DIR`
    #[arg(long)]
    recordings: Option<PathBuf>,
    /// Only the runs of this half, by their names
    #[arg(long, value_parser = ["a", "b"])]
    half: Option<String>,
    /// The evidence of each run
    #[arg(long)]
    evidence: bool,
    /// Without the cost at 20,000 flows
    #[arg(long)]
    no_cost: bool,
    /// What `cargo bench` passes
    #[arg(long, hide = true)]
    bench: bool,
}

/// One run, judged.
struct Run {
    name: String,
    truth: Truth,
    called: Class,
    score: Score,
    verdict: Option<Verdict>,
    /// From the tenth loss to when the right class held for good, and what is allowed; seconds.
    settled: Option<(f64, f64)>,
}

/// A verdict has to hold after the tenth loss within this, or so many RTTs.
const IN_TIME: (f64, f64) = (5.0, 50.0);

fn main() -> Result<()> {
    let args = Args::parse();
    let mut runs = Vec::new();
    if let Some(dir) = &args.captures {
        captures(dir, &args, &mut runs)?;
    }
    if let Some(dir) = &args.recordings {
        recordings(dir, &args, &mut runs)?;
    }
    if runs.is_empty() {
        println!("no runs: --captures DIR with a truth.csv, --recordings DIR of the lab");
    } else {
        tell(&runs, &args);
    }
    if !args.no_cost {
        cost::measure()?;
    }
    Ok(())
}

/// Which half a run is in: by its name without a number of repetition.
fn is_wanted(name: &str, half: Option<&str>) -> bool {
    let sum = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let of = if (sum >> 32).is_multiple_of(2) {
        "a"
    } else {
        "b"
    };
    half.is_none_or(|half| half == of)
}

fn captures(dir: &Path, args: &Args, runs: &mut Vec<Run>) -> Result<()> {
    let path = dir.join("truth.csv");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    for (name, truth) in truth::of_captures(&text) {
        if !is_wanted(&name, args.half.as_deref()) {
            continue;
        }
        let file = File::open(dir.join(&name)).with_context(|| name.clone())?;
        let mut events = Vec::new();
        Capture::survey(file)?.events(|event| {
            events.push(event.clone());
            Ok::<(), std::io::Error>(())
        })?;
        runs.push(judged(name, truth, &events));
    }
    Ok(())
}

fn recordings(dir: &Path, args: &Args, runs: &mut Vec<Run>) -> Result<()> {
    let mut paths = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|kind| kind == "mcap") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    for path in paths {
        let name = path
            .strip_prefix(dir)
            .unwrap_or(&path)
            .display()
            .to_string();
        if !is_wanted(&name, args.half.as_deref()) {
            continue;
        }
        let mut reader = Reader::open(&path).with_context(|| name.clone())?;
        let truth = match truth::of_labels(&reader.environment().labels) {
            Ok(truth) => truth,
            Err(why) => {
                println!("left out  {name}: {why}");
                continue;
            }
        };
        let mut events = Vec::new();
        while let Some(batch) = reader.batch().with_context(|| name.clone())? {
            events.extend(batch);
        }
        runs.push(judged(name, truth, &events));
    }
    Ok(())
}

/// The verdict over all, and when it first held for good, judged twice a second.
fn judged(name: String, truth: Truth, events: &[Event]) -> Run {
    let mut detector = Detector::default();
    let (mut due, mut lost, mut tenth, mut since) = (0, 0, None, None);
    let mut rtt_us = 0;
    for event in events {
        if event.time.0 >= due {
            due = event.time.0 + 500_000_000;
            let told = detector.judge(event.time);
            if let Some(verdict) = told.first() {
                let right = score(&truth, verdict.class, true) == Score::Right;
                since = right.then_some(since.unwrap_or(event.time));
            }
        }
        detector.apply(event);
        match &event.payload {
            Payload::Retransmit(_) => {
                lost += 1;
                if lost == 10 {
                    tenth = Some(event.time);
                }
            }
            Payload::Sample(sample) => rtt_us = sample.min_rtt_us.unwrap_or(rtt_us),
            _ => {}
        }
    }
    let verdict = detector
        .verdicts()
        .into_iter()
        .max_by_key(|verdict| verdict.flows.len());
    let features = verdict.as_ref().and_then(|v| detector.features(v.peer));
    let enough = features.is_some_and(|f| f.losses_after >= 10 && f.events >= 3);
    let called = verdict.as_ref().map_or(Class::Insufficient, |v| v.class);
    let seconds = |from: Mono, to: Mono| to.0.saturating_sub(from.0) as f64 / 1e9;
    let allowed = IN_TIME.0.max(IN_TIME.1 * f64::from(rtt_us) / 1e6);
    Run {
        score: score(&truth, called, enough),
        settled: tenth
            .zip(since)
            .map(|(from, to)| (seconds(from, to), allowed)),
        name,
        truth,
        called,
        verdict,
    }
}

fn tell(runs: &[Run], args: &Args) {
    for run in runs
        .iter()
        .filter(|run| args.evidence || run.score != Score::Right)
    {
        println!(
            "{:?}  {}: {} called {}{}",
            run.score,
            run.name,
            run.truth.class.as_str(),
            run.called.as_str(),
            run.verdict.as_ref().map_or(String::new(), |v| format!(
                " ({:.2}, {:?})",
                v.confidence, v.rule
            ))
        );
        if args.evidence
            && let Some(verdict) = &run.verdict
        {
            for line in &verdict.evidence {
                println!("    {line}");
            }
        }
    }
    confusion(runs);
    cells(runs);
    precision(runs);
    reliability(runs);
    errors(runs);
    let wrong = runs
        .iter()
        .filter(|run| run.called == Class::Policer && run.truth.class != Class::Policer);
    let wrong = wrong.count();
    let reached = if wrong == 0 { "reached " } else { "MISSED  " };
    println!("{reached} wrongly called policer: {wrong}, at most 0");
}

fn confusion(runs: &[Run]) {
    let mut table = BTreeMap::<(Class, Class), usize>::new();
    for run in runs {
        *table.entry((run.truth.class, run.called)).or_default() += 1;
    }
    println!("\ntruth → called: runs");
    for ((truth, called), count) in table {
        println!("  {:14} → {:14} {count}", truth.as_str(), called.as_str());
    }
}

/// Recall and abstention by class × algorithm × flows.
fn cells(runs: &[Run]) {
    println!(
        "\nclass × cc × flows: right of those with enough losses (recall, 95 %), wrong, abstained, too few"
    );
    let mut cells = BTreeMap::<(Class, &str, usize), Vec<Score>>::new();
    for run in runs {
        let key = (run.truth.class, run.truth.cc.as_str(), run.truth.flows);
        cells.entry(key).or_default().push(run.score);
        let all = (run.truth.class, "all", 0);
        cells.entry(all).or_default().push(run.score);
    }
    for ((class, cc, flows), scores) in cells {
        let count = |wanted: Score| scores.iter().filter(|score| **score == wanted).count();
        let of = scores.len() - count(Score::TooFew);
        let flows = if flows == 0 {
            "—".to_owned()
        } else {
            flows.to_string()
        };
        println!(
            "  {:14} {cc:6} {flows:>2}  {:3}/{of:<3} {:20} wrong {:2}  abstained {:2}  too few {:2}",
            class.as_str(),
            count(Score::Right),
            wilson(count(Score::Right), of),
            count(Score::Wrong),
            count(Score::Abstained),
            count(Score::TooFew)
        );
    }
}

fn precision(runs: &[Run]) {
    println!("\nprecision of what is called");
    let mut called = BTreeMap::<Class, (usize, usize)>::new();
    for run in runs {
        let entry = called.entry(run.called).or_default();
        entry.0 += usize::from(run.score == Score::Right);
        entry.1 += usize::from(matches!(run.score, Score::Right | Score::Wrong));
    }
    for (class, (right, of)) in called {
        println!(
            "  {:14} {right:3}/{of:<3} {}",
            class.as_str(),
            wilson(right, of)
        );
    }
}

/// Whether the confidence is worth what it says.
fn reliability(runs: &[Run]) {
    println!("\nconfidence: share that is right");
    let mut bins = BTreeMap::<u32, (usize, usize)>::new();
    for run in runs {
        let Some(verdict) = &run.verdict else {
            continue;
        };
        if matches!(run.score, Score::Right | Score::Wrong) {
            let bin = bins
                .entry((verdict.confidence * 10.0 + 1e-9) as u32)
                .or_default();
            bin.0 += usize::from(run.score == Score::Right);
            bin.1 += 1;
        }
    }
    for (bin, (right, of)) in bins {
        println!(
            "  {:.1}–  {right:3}/{of:<3} {}",
            f64::from(bin) / 10.0,
            wilson(right, of)
        );
    }
}

fn errors(runs: &[Run]) {
    let right = || {
        runs.iter()
            .filter(|run| run.score == Score::Right && !run.truth.mixed)
    };
    let error = |told: Option<f64>, truth: Option<f64>| {
        told.zip(truth)
            .map(|(told, truth)| (told / truth - 1.0).abs() * 100.0)
    };
    let of = |run: &Run, what: fn(&Verdict) -> Option<f64>| run.verdict.as_ref().and_then(what);
    let policers = || right().filter(|run| run.truth.class == Class::Policer);
    let rates = policers().filter_map(|run| {
        error(
            of(run, |v| v.rate_bps.map(|x| x as f64)),
            run.truth.rate_bps,
        )
    });
    let depths = policers().filter_map(|run| {
        error(
            of(run, |v| v.depth_bytes.map(|x| x as f64)),
            run.truth.depth_bytes,
        )
    });
    let unknown = policers().filter(|run| of(run, |v| v.depth_bytes.map(|x| x as f64)).is_none());
    let buffers = right().filter_map(|run| error(of(run, |v| v.buffer_bdp), run.truth.buffer_bdp));
    let late = right()
        .filter_map(|run| run.settled)
        .map(|(took, allowed)| took / allowed);
    println!("\nerrors of the right ones");
    let unknown = unknown.count();
    for (what, values, [most_median, most_p90], unit) in [
        (
            "policer's rate",
            rates.collect::<Vec<_>>(),
            [3.0, 3.0],
            " %",
        ),
        ("policer's depth", depths.collect(), [20.0, 20.0], " %"),
        ("queue's depth in BDP", buffers.collect(), [5.0, 20.0], " %"),
        (
            "time to verdict ÷ max(5 s, 50 RTT)",
            late.collect(),
            [1.0, 1.0],
            "",
        ),
    ] {
        let Some((median, p90, most, count)) = spread(values) else {
            continue;
        };
        bar(
            &format!("{what}, median of {count}"),
            median,
            most_median,
            unit,
        );
        bar(&format!("{what}, p90"), p90, most_p90, unit);
        println!("         {what}, worst: {most:.2}{unit}");
    }
    println!("         policers whose depth is not told (never seen full of tokens): {unknown}");
}
