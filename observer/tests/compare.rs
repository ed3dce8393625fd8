//! Comparisons of recordings: the table against one that a script works out from the export, what is refused, and what
//! `--fail-if` comes to.

mod recordings;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use recordings::{environment, events, observer, record, text};
use serde_json::Value;
use tempfile::TempDir;

/// Recordings of one BBR and one CUBIC flow each, `faster` per cent faster than the script.
struct Runs {
    dir: TempDir,
}

impl Runs {
    fn new() -> Self {
        Self {
            dir: TempDir::new().expect("a directory"),
        }
    }

    fn path(&self, name: &str) -> String {
        let path: PathBuf = self.dir.path().join(name);
        path.to_str().expect("text").to_owned()
    }

    /// A run of `cc` whose every acknowledged byte counts `percent` hundredths; `change` edits the script.
    fn run(&self, name: &str, cc: &str, percent: u64, change: impl Fn(String) -> String) -> String {
        let script = change(events("run.txt").replace("CC", cc));
        let mut events = observer::source::script::parse(&script).expect("a script");
        for event in &mut events {
            if let observer::event::Payload::Sample(sample) = &mut event.payload {
                let scaled = |bytes: Option<u64>| bytes.map(|bytes| bytes * percent / 100);
                sample.bytes_acked = scaled(sample.bytes_acked);
                sample.bytes_sent = scaled(sample.bytes_sent);
            }
        }
        let path = self.path(name);
        let mut environment = environment();
        environment.labels.insert("run".to_owned(), name.to_owned());
        record(path.as_ref(), &environment, &events);
        path
    }

    /// Three of each algorithm, in a file each.
    fn six(&self) -> Vec<String> {
        let mut paths = Vec::new();
        for (at, percent) in [100, 120, 90].into_iter().enumerate() {
            paths.push(self.run(&format!("bbr{at}"), "bbr version=v1", percent, |s| s));
            paths.push(self.run(&format!("cubic{at}"), "cubic", percent / 2 + 3, |s| s));
        }
        paths
    }
}

fn compare(paths: &[String], rest: &[&str]) -> Output {
    let mut arguments = vec!["compare"];
    arguments.extend(paths.iter().map(String::as_str));
    arguments.extend(rest);
    observer(&arguments)
}

/// Exit code, output, messages.
fn told(output: &Output) -> (Option<i32>, String, String) {
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn the_table_is_the_one_a_script_works_out_from_the_export() {
    if Command::new("python3").arg("--version").output().is_err() {
        return recordings::skipped("no python3");
    }
    let runs = Runs::new();
    let paths = runs.six();
    let exported: Vec<String> = paths
        .iter()
        .map(|path| {
            let output = observer(&["export", path, "--format", "jsonl"]);
            assert!(output.status.success(), "{}", text(&output.stderr));
            let to = format!("{path}.jsonl");
            fs::write(&to, &output.stdout).expect("written");
            to
        })
        .collect();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compare.py");
    let output = Command::new("python3")
        .arg(script)
        .args(&exported)
        .output()
        .expect("python3");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let theirs: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let (code, ours, messages) = told(&compare(&paths, &["--by", "cc", "--format", "json"]));
    assert_eq!(code, Some(0), "{messages}");
    let groups: Vec<Value> = ours
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .filter(|line: &Value| line["type"] == "group")
        .collect();
    assert_eq!(groups.len(), 2);
    assert_eq!(groups[0]["key"]["cc"], "bbr/v1", "the faster one leads");
    for group in groups {
        let cc = group["key"]["cc"].as_str().expect("text");
        let theirs = &theirs[cc];
        assert_eq!(group["runs"], theirs["runs"], "{cc}");
        for key in ["throughput_bps", "retrans_rate", "mean_rtt_us"] {
            for (at, stat) in ["median", "min", "max"].into_iter().enumerate() {
                let (a, b) = (
                    group["figures"][key][stat].as_f64(),
                    theirs[key][at].as_f64(),
                );
                let (a, b) = (a.expect("a number"), b.expect("a number"));
                // Figures of the report are whole.
                let whole = if key == "retrans_rate" { 0.0 } else { 1.0 };
                assert!(
                    (a - b).abs() <= b * 1e-9 + whole,
                    "{cc} {key} {stat}: {a} and {b}"
                );
            }
        }
    }
}

#[test]
fn a_comparison_as_text_and_csv() {
    let runs = Runs::new();
    let paths = runs.six();
    let hide = |text: String| text.replace(runs.dir.path().to_str().expect("text"), "DIR");
    let (code, page, messages) = told(&compare(&paths, &["--baseline", "cc=cubic"]));
    assert_eq!(code, Some(0), "{messages}");
    insta::assert_snapshot!("comparison_text", hide(page));
    let rest = ["--baseline", "cc=cubic", "--format", "csv", "--by", "cc"];
    let (_, table, _) = told(&compare(&paths, &rest));
    insta::assert_snapshot!("comparison_csv", hide(table));
}

#[test]
fn fail_if_exits_5_only_where_it_is_so() {
    let runs = Runs::new();
    let paths = runs.six();
    for (rule, code) in [
        ("throughput < -5%", 0),
        ("throughput > 5%", 5),
        ("mean_rtt_us > 10000", 5),
        ("mean_rtt > 10000000", 0),
        // No utilisation without a stated rate.
        ("utilisation < 0.5", 1),
        ("speed < 1", 2),
    ] {
        let (got, _, messages) = told(&compare(
            &paths,
            &["--baseline", "cc=cubic", "--fail-if", rule],
        ));
        assert_eq!(got, Some(code), "{rule}: {messages}");
    }
    let backwards = ["--baseline", "cc=bbr", "--fail-if", "throughput < -5%"];
    let (code, page, messages) = told(&compare(&paths, &backwards));
    assert_eq!(code, Some(5), "{messages}");
    assert!(
        messages.contains("cc=cubic") && page.contains("TCP comparison"),
        "{messages}"
    );
    let (code, _, messages) = told(&compare(&paths, &["--fail-if", "throughput < -5%"]));
    assert_eq!(code, Some(2), "without a baseline: {messages}");
}

fn is_whole(path: &str) -> bool {
    let mut reader = ::observer::record::Reader::open(path.as_ref()).expect("a recording");
    while reader.batch().expect("readable").is_some() {}
    reader.ending().expect("the end").is_complete()
}

#[test]
fn unlike_things_are_not_averaged_unless_somebody_insists() {
    let runs = Runs::new();
    let first = runs.run("a", "bbr version=v1", 100, |s| s);
    let elsewhere = runs.run("b", "bbr version=v1", 100, |s| {
        s.replace("10.0.0.2", "10.9.9.9")
    });
    let kernel = runs.run("c", "bbr version=v1", 100, |s| {
        s.replace("6.18.0", "5.15.0")
    });
    let lossy = runs.run("d", "bbr version=v1", 100, |s| {
        s.replace("dropped=0", "dropped=900")
    });
    let torn = runs.path("torn");
    let whole = fs::read(&first).expect("readable");
    // As much of it as can be there while something is missing.
    let cut = (0..whole.len()).rev().step_by(64).find(|cut| {
        fs::write(&torn, &whole[..*cut]).expect("written");
        !is_whole(&torn)
    });
    assert!(cut.is_some_and(|cut| cut > whole.len() / 10));
    for (other, reason) in [
        (&elsewhere, "different paths"),
        (&kernel, "different kernels"),
        (&lossy, "is lossy"),
        (&torn, "is not whole"),
    ] {
        let paths = [first.clone(), other.clone()];
        let (code, page, messages) = told(&compare(&paths, &[]));
        assert_eq!(code, Some(1), "{reason}: {messages}");
        assert!(
            messages.contains(reason) && messages.contains("--insist"),
            "{messages}"
        );
        assert_eq!(page, "", "{reason}");
        let (code, page, messages) = told(&compare(&paths, &["--insist"]));
        assert_eq!(code, Some(0), "{reason}: {messages}");
        assert!(
            page.contains("averaged all the same") && page.contains(reason),
            "{page}"
        );
    }
    // What differs makes groups: nothing unlike is averaged.
    let paths = [first.clone(), kernel];
    let (code, _, messages) = told(&compare(&paths, &["--by", "cc,kernel"]));
    assert_eq!(code, Some(0), "{messages}");
    assert!(
        messages.contains("different kernels"),
        "it is said all the same: {messages}"
    );
}

#[test]
fn labels_make_groups_and_slips_of_the_pen_are_usage_errors() {
    let runs = Runs::new();
    let paths = runs.six();
    let (code, page, messages) = told(&compare(&paths, &["--by", "cc,run"]));
    assert_eq!(code, Some(0), "{messages}");
    assert!(page.contains("cc=bbr/v1 run=bbr1"), "{page}");
    let (code, page, _) = told(&compare(&paths, &["--by", "hour"]));
    assert_eq!(code, Some(0));
    assert!(page.contains("hour=16"), "{page}");
    for (rest, named) in [
        (["--by", "runn"], "run"),
        (["--baseline", "cc=reno"], "cubic"),
        (["--baseline", "site=a"], "cc,qdisc"),
        (["--baseline", "cc"], "cc=cubic"),
    ] {
        let (code, page, messages) = told(&compare(&paths, &rest));
        assert_eq!(code, Some(2), "{rest:?}: {messages}");
        assert!(messages.contains(named) && page.is_empty(), "{messages}");
    }
}
