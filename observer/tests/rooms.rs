//! The direction of dependencies between the rooms (`docs/ARCHITECTURE.md`): who may know whom.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Room → the rooms it may name. What is not here may not exist.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("event", &["units"]),
    // The detectors stand beside the model; a flow knows what was judged of it.
    ("model", &["detect", "event", "units"]),
    ("detect", &["event", "units"]),
    ("record", &["event", "units"]),
    ("import", &["event", "units"]),
    ("filter", &["event", "model", "units"]),
    ("playback", &["event", "model", "record", "units"]),
    ("export", &["detect", "event", "model", "units"]),
    (
        "report",
        &["detect", "event", "export", "model", "record", "units"],
    ),
    ("host", &["event", "units"]),
    // socket-diag speaks netlink, which the host room owns.
    ("kernel", &["event", "host", "units"]),
    ("source", &["event", "host", "kernel", "record", "units"]),
    // `run` alone knows sources: the loop waits for events and keys at once.
    // A filter may be typed on the screen.
    (
        "tui",
        &["detect", "event", "filter", "model", "source", "units"],
    ),
    // It gives the truth; who observes gives the answer.
    ("lab", &["host", "units"]),
    // Judges the fold; its ladder of needs asks the kernel and the host.
    ("doctor", &["event", "host", "kernel", "model", "units"]),
    ("serve", &["detect", "event", "model", "units"]),
    (
        "cli",
        &[
            "kernel", "lab", "record", "report", "source", "tui", "units",
        ],
    ),
    (
        "commands",
        &[
            "cli", "detect", "doctor", "event", "export", "filter", "host", "import", "kernel",
            "lab", "model", "playback", "record", "report", "serve", "source", "tui", "units",
        ],
    ),
];

/// Rooms that a file of a room may not name though its room may.
const NARROWER: &[(&str, &str, &[&str])] = &[("tui", "run.rs", &["source"])];

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("the source is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// Rooms named in `text` as `crate::room`, single or in braces; comments left out.
fn named(text: &str) -> BTreeSet<String> {
    let code: String = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""))
        .collect::<Vec<_>>()
        .join("\n");
    let mut rooms = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let word = |text: &str| -> String {
            text.chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect()
        };
        if let Some(list) = rest.strip_prefix('{') {
            let list = list.split('}').next().unwrap_or("");
            rooms.extend(
                list.split(',')
                    .map(|part| word(part.trim()))
                    .filter(|w| !w.is_empty()),
            );
        } else {
            rooms.insert(word(rest));
        }
    }
    rooms
}

#[test]
fn rooms_know_only_whom_they_may() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let may: BTreeMap<&str, &[&str]> = MAY_KNOW.iter().copied().collect();
    let mut files = Vec::new();
    sources(&src, &mut files);
    assert!(files.len() > 30, "the source was not found");
    let mut wrong = Vec::new();
    for file in files {
        let below = file.strip_prefix(&src).expect("below src");
        let first = below
            .components()
            .next()
            .expect("a name")
            .as_os_str()
            .to_string_lossy();
        let room = first.trim_end_matches(".rs");
        if room == "lib" || room == "main" {
            continue;
        }
        let Some(allowed) = may.get(room) else {
            wrong.push(format!("{room} is not in the table"));
            continue;
        };
        let name = below
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        for other in named(&fs::read_to_string(&file).expect("readable")) {
            // Only rooms: macros and items of the crate's root are no dependency.
            if other == room || !may.contains_key(other.as_str()) {
                continue;
            }
            let narrowed = NARROWER.iter().any(|(of, only, what)| {
                *of == room && *only != name && what.contains(&other.as_str())
            });
            if !allowed.contains(&other.as_str()) || narrowed {
                wrong.push(format!("{}: {room} may not know {other}", below.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_says_first_what_it_owns() {
    let mut files = Vec::new();
    for dir in [
        "src",
        "../observer-common/src",
        "../observer-ebpf/src",
        "../xtask/src",
    ] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(dir), &mut files);
    }
    let silent: Vec<String> = files
        .iter()
        .filter(|file| !fs::read_to_string(file).is_ok_and(|text| text.starts_with("//!")))
        .map(|file| file.display().to_string())
        .collect();
    assert!(
        silent.is_empty(),
        "no `//!` in the first line of: {}",
        silent.join(", ")
    );
}
