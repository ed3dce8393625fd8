//! Completions and man pages: made for every shell and command, and telling of each flag.

mod common;

use std::process::{Command, Output};

use clap::CommandFactory as _;
use observer::cli::Cli;

fn observer(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_observer"));
    command.args(arguments).output().expect("it runs")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn commands() -> Vec<String> {
    let command = Cli::command();
    command
        .get_subcommands()
        .map(|sub| sub.get_name().to_owned())
        .collect()
}

#[test]
fn completions_know_every_command_and_long_flag() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = text(&observer(&["completions", shell]));
        for command in commands() {
            assert!(script.contains(&command), "{shell}: {command}");
        }
        for flag in ["path-rate", "target", "listen", "max-cpu"] {
            assert!(script.contains(flag), "{shell}: {flag}");
        }
    }
    assert_eq!(observer(&["completions", "cmd"]).status.code(), Some(2));
}

#[test]
fn bash_accepts_its_completions() {
    let script = text(&observer(&["completions", "bash"]));
    let checked = Command::new("bash")
        .args(["-n", "-c", &script])
        .output()
        .expect("bash");
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}

#[test]
fn a_man_page_a_command_that_is_not_overwritten() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("man");
    let name = out.to_str().expect("text");
    text(&observer(&["man", "-o", name]));
    for command in commands().iter().map(String::as_str).chain([""]) {
        let file = if command.is_empty() {
            "observer.1".to_owned()
        } else {
            format!("observer-{command}.1")
        };
        let page =
            std::fs::read_to_string(out.join(&file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(
            page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"),
            "{file}"
        );
        let title = page
            .lines()
            .find(|line| line.starts_with(".TH"))
            .expect("a title");
        assert!(title.contains(file.trim_end_matches(".1")), "{title}");
    }
    assert_eq!(observer(&["man", "-o", name]).status.code(), Some(2));
    text(&observer(&["man", "-o", name, "--force"]));
    assert!(text(&observer(&["man"])).contains(".SH EXIT STATUS"));
}

/// What the program says of itself, as a change of it is reviewed: the pages, and every completion on a line of its own.
/// After a change that is meant: `INSTA_UPDATE=always cargo test -p observer --test generated`.
#[test]
fn pages_and_completions_are_as_they_were_read() {
    let dir = tempfile::tempdir().expect("a directory");
    text(&observer(&[
        "man",
        "-o",
        dir.path().to_str().expect("text"),
    ]));
    let mut names: Vec<_> = std::fs::read_dir(dir.path())
        .expect("made above")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    names.sort();
    for path in names {
        let page = std::fs::read_to_string(&path).expect("readable");
        // The number changes with every release, and nothing else with it.
        let page = page.replace(env!("CARGO_PKG_VERSION"), "VERSION");
        let name = path.file_name().expect("a name").to_string_lossy();
        insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false, snapshot_path => "snapshots/generated"}, {
            insta::assert_snapshot!(name.into_owned(), page);
        });
    }
    let fish = text(&observer(&["completions", "fish"]));
    insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false, snapshot_path => "snapshots/generated"}, {
        insta::assert_snapshot!("observer.fish", fish);
    });
}

/// Has `shell` read its script without running it.
fn reads(shell: &str) {
    let script = text(&observer(&["completions", shell]));
    let checked = Command::new(shell).args(["-n", "-c", &script]).output();
    let Ok(checked) = checked else {
        return common::skipped(&format!("no {shell}"));
    };
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn zsh_accepts_its_completions() {
    reads("zsh");
}

#[test]
fn fish_accepts_its_completions() {
    reads("fish");
}

#[test]
fn the_dashboard_asks_for_metrics_that_are_served() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/grafana/observer.json");
    let text = std::fs::read_to_string(file).expect("readable");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let served: Vec<String> = {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/METRICS.md");
        let page = std::fs::read_to_string(page).expect("readable");
        let names = page
            .lines()
            .filter_map(|line| line.strip_prefix("| `observer_"));
        names
            .filter_map(|rest| Some(format!("observer_{}", rest.split('`').next()?)))
            .collect()
    };
    assert!(served.len() >= 16, "{served:?}");
    let mut asked = 0;
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().expect("targets") {
            let query = target["expr"].as_str().expect("a query");
            for part in query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
                if part.starts_with("observer_") {
                    let name = part.trim_end_matches("_bucket");
                    assert!(served.iter().any(|known| known == name), "{name}");
                    asked += 1;
                }
            }
        }
    }
    assert!(asked >= 10);
}
