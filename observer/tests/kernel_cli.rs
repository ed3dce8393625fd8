//! The program as a person or a script meets it: exit codes, messages with a next step, pipes and signals. Some of it
//! needs the kernel programs, so it runs with the kernel tests.

mod common;

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use common::{Netns, connect, needs, skipped, wait_for};

const OBSERVER: &str = env!("CARGO_BIN_EXE_observer");

fn observer(arguments: &str) -> Output {
    Command::new(OBSERVER)
        .args(arguments.split_whitespace())
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Exit code and standard error; nothing may have gone to standard output.
fn refused(arguments: &str) -> (Option<i32>, String) {
    let output = observer(arguments);
    assert_eq!(text(&output.stdout), "", "{arguments}");
    let message = text(&output.stderr);
    assert!(!message.contains("panicked"), "{message}");
    (output.status.code(), message)
}

#[test]
fn an_unknown_namespace_is_a_usage_error_that_names_what_there_is() {
    needs!("ip");
    let ns = Netns::new();
    let (code, message) = refused("list -N no-such-namespace");
    assert_eq!(code, Some(2));
    assert!(
        message.contains("no-such-namespace") && message.contains(&ns.name),
        "{message}"
    );
    assert_eq!(refused("stream -N 4194305").0, Some(2), "no such process");
}

#[test]
fn a_wrong_filter_is_a_usage_error_with_a_caret() {
    for wrong in [
        "list state estblished",
        "stream dport = :",
        "list frobnicate",
        "live ((((",
    ] {
        let (code, message) = refused(wrong);
        assert_eq!(code, Some(2), "{wrong}: {message}");
        assert!(message.contains('^'), "{message}");
    }
}

#[test]
fn wrong_arguments_are_usage_errors() {
    for wrong in [
        "list --window later",
        "stream --every 0",
        "stream -t -1",
        "--interval x",
        "-4 -6",
        "list --ring 1",
        "list --color sometimes",
    ] {
        assert_eq!(refused(wrong).0, Some(2), "{wrong}");
    }
}

#[test]
fn the_dashboard_without_a_terminal_names_list_and_stream() {
    let (code, message) = refused("");
    assert_eq!(code, Some(2));
    assert!(
        message.contains("list") && message.contains("stream"),
        "{message}"
    );
}

#[test]
fn without_type_information_it_says_what_still_works() {
    needs!();
    if without_programs() {
        return skipped("this observer has no kernel programs to go without");
    }
    for command in ["list", "stream"] {
        let (code, message) = refused(&format!("{command} --source ebpf --btf /no/such/place"));
        assert_eq!(code, Some(3));
        assert!(
            message.contains("CONFIG_DEBUG_INFO_BTF") && message.contains("--source diag"),
            "{message}"
        );
    }
}

/// Built without them.
fn without_programs() -> bool {
    observer::kernel::object::object().is_none()
}

fn json(line: &str) -> serde_json::Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Left to itself it polls where the programs cannot be had: the rows say so, and stderr says once why, what is missing,
/// and what would help.
fn polls_instead(run: impl Fn(&[&str]) -> Output, netns: &Netns, parts: &[&str]) {
    let once = |message: &str, part: &str| {
        let count = message.lines().filter(|line| line.contains(part)).count();
        assert_eq!(count, 1, "{part}: {message}");
    };
    let told = |output: &Output| {
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{message}");
        for part in parts {
            once(&message, part);
        }
        once(&message, "socket-diag is polled");
        once(&message, "no eBPF: ");
    };
    let list = run(&["list", "--json", "--window", "300ms", "-N", &netns.name]);
    told(&list);
    let rows: Vec<_> = text(&list.stdout).lines().map(json).collect();
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!(row["source"], "diag");
        // The window was measured, by two polls at least.
        assert!(row["throughput_bps"].is_u64(), "{row}");
        for unknown in [
            "rtt_us",
            "retrans_by_kind",
            "retrans_failed",
            "gaps",
            "lost_total",
        ] {
            assert!(row[unknown].is_null(), "{unknown}: {row}");
        }
    }
    let table = run(&["list", "--window", "10ms", "-N", &netns.name]);
    told(&table);
    let lines = text(&table.stdout);
    let mut lines = lines
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>());
    let heading = lines.next().expect("a heading");
    let source = heading.iter().position(|key| *key == "source");
    let sources: Vec<&str> = lines.map(|row| row[source.expect("a column")]).collect();
    assert_eq!(sources, ["diag", "diag"]);
    let stream = run(&["stream", "-t", "1", "-N", &netns.name]);
    told(&stream);
    let lines: Vec<_> = text(&stream.stdout).lines().map(json).collect();
    let notes = lines.iter().filter(|line| line["kind"] == "degraded");
    let notes: Vec<String> = notes.map(|note| note["text"].to_string()).collect();
    for part in parts.iter().chain(&["socket-diag is polled"]) {
        assert!(notes.iter().any(|note| note.contains(part)), "{notes:?}");
    }
    let samples = || lines.iter().filter(|line| line["type"] == "sample");
    assert!(
        samples().count() >= 6,
        "three polls of two flows at least: {}",
        samples().count()
    );
    assert!(samples().all(|line| line["source"] == "diag"));
    let every = run(&["stream", "-t", "1", "--every", "500ms", "-N", &netns.name]);
    told(&every);
    let rows: Vec<_> = text(&every.stdout).lines().map(json).collect();
    assert!(rows.len() >= 2, "{rows:?} {}", text(&every.stderr));
    assert!(rows.iter().all(|row| row["source"] == "diag"), "{rows:?}");
}

#[test]
fn without_type_information_auto_polls() {
    needs!("ip");
    if without_programs() {
        return skipped("this observer has no kernel programs to go without");
    }
    let ns = Netns::new();
    let (_client, _server) = connect(&ns, &ns, "127.0.0.1");
    let run = |arguments: &[&str]| {
        Command::new(OBSERVER)
            .args(arguments)
            .args(["--btf", "/no/such/place"])
            .output()
            .expect("the program starts")
    };
    polls_instead(run, &ns, &["CONFIG_DEBUG_INFO_BTF"]);
}

/// Rights enough for everything but the programs.
#[test]
fn without_the_rights_for_programs_auto_polls() {
    needs!("ip", "setpriv");
    if without_programs() {
        return skipped("this observer has no kernel programs to go without");
    }
    let ns = Netns::new();
    let (_client, _server) = connect(&ns, &ns, "127.0.0.1");
    // In the namespace, as entering it takes a right that stands for all of them.
    let run = |arguments: &[&str]| {
        let arguments: Vec<&str> = arguments
            .iter()
            .copied()
            .filter(|word| *word != "-N" && *word != ns.name)
            .collect();
        Command::new("ip")
            .args(["netns", "exec", &ns.name, "setpriv"])
            .args(["--bounding-set=-bpf,-perfmon,-sys_admin", OBSERVER])
            .args(arguments)
            .output()
            .expect("ip runs")
    };
    polls_instead(run, &ns, &["CAP_BPF and CAP_PERFMON missing", "setcap"]);
}

#[test]
fn a_plain_snapshot_by_programs_contradicts_itself() {
    let (code, message) = refused("list --window 0 --source ebpf");
    assert_eq!(code, Some(2));
    assert!(
        message.contains("--window 0") && message.contains("--source ebpf"),
        "{message}"
    );
}

#[test]
fn states_of_no_flow_are_usage_errors_that_say_why() {
    for (filter, why) in [
        ("state listening", "listening"),
        ("state time-wait", "TIME-WAIT"),
        ("state syn-recv", "half-open"),
        ("state bucket", "no flow"),
    ] {
        let (code, message) = refused(&format!("list --window 0 {filter}"));
        assert_eq!(code, Some(2), "{message}");
        assert!(message.contains(why) && message.contains("ss"), "{message}");
    }
}

#[test]
fn without_rights_it_says_which_and_how_to_get_them() {
    needs!("setpriv");
    let place = tempfile::Builder::new()
        .prefix("observer-")
        .tempdir()
        .expect("a directory");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.path(), open).expect("opened");
    let copy = place.path().join("observer");
    std::fs::copy(OBSERVER, &copy).expect("copied");
    let run = |arguments: &[&str]| {
        Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&copy)
            .args(arguments)
            .output()
            .expect("setpriv runs")
    };
    for arguments in [
        &["list", "--source", "ebpf"][..],
        &["stream", "--source", "ebpf"],
    ] {
        let output = run(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{message}");
        for part in ["CAP_BPF", "CAP_PERFMON", "sudo", "setcap"] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
    let plain = run(&["list", "--window", "0"]);
    assert_eq!(plain.status.code(), Some(0), "{}", text(&plain.stderr));
    if without_programs() {
        return;
    }
    // Nobody's rights suffice for polling.
    let polled = run(&["list", "--window", "100ms"]);
    let message = text(&polled.stderr);
    assert_eq!(polled.status.code(), Some(0), "{message}");
    assert!(message.contains("no eBPF: not permitted"), "{message}");
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    needs!();
    let mut child = Command::new(OBSERVER)
        .args(["stream"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("a line");
    // The reader is dropped here; the next line has nowhere to go.
    let status = wait_for("the end", || child.try_wait().expect("waited"));
    let mut message = String::new();
    child
        .stderr
        .take()
        .expect("piped")
        .read_to_string(&mut message)
        .expect("text");
    assert_eq!(status.code(), Some(0));
    // Nothing but what it says of flows elsewhere, which other tests may have.
    let odd = message
        .lines()
        .find(|line| !line.contains("other network namespace"));
    assert_eq!(odd, None);
}

#[test]
fn a_full_disk_is_a_failure_that_is_told() {
    needs!();
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("/dev/full");
    let output = Command::new(OBSERVER)
        .args(["list", "--window", "0"])
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("cannot write"),
        "{}",
        text(&output.stderr)
    );
}

fn stream(arguments: &[&str]) -> Child {
    let mut child = Command::new(OBSERVER)
        .arg("stream")
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // It runs once it has written something; the pipe keeps the rest.
    let stdout = child.stdout.take().expect("piped");
    let mut reader = BufReader::new(stdout);
    let mut line = String::new();
    reader.read_line(&mut line).expect("a line");
    child.stdout = Some(reader.into_inner());
    child
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).expect("our own child");
}

#[test]
fn ctrl_c_and_sigterm_end_a_stream_well() {
    needs!();
    for number in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let child = stream(&[]);
        signal(&child, number);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let rest = text(&output.stdout);
        let last = rest.lines().last().expect("the last counters");
        let last: serde_json::Value = serde_json::from_str(last).expect("a whole line of JSON");
        assert_eq!(
            (&last["type"], &last["kind"]),
            (&"note".into(), &"counters".into())
        );
    }
}

#[test]
fn an_interrupted_list_exits_130() {
    needs!();
    let child = Command::new(OBSERVER)
        .args(["list", "--window", "60s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // Its own programs are in the kernel once it measures; its signal handler was set before.
    let pid = child.id();
    wait_for("the programs", || {
        std::fs::read_dir(format!("/proc/{pid}/fd"))
            .ok()?
            .flatten()
            .any(|fd| {
                std::fs::read_link(fd.path())
                    .is_ok_and(|to| to.to_string_lossy().contains("bpf_link"))
            })
            .then_some(())
    });
    std::thread::sleep(Duration::from_millis(200));
    signal(&child, rustix::process::Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(
        output.status.code(),
        Some(130),
        "{:?}",
        output.status.signal()
    );
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn a_stream_ends_by_itself_after_t() {
    needs!();
    let output = observer("stream -t 1 --every 500ms");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn lost_events_are_exit_code_4_only_when_asked() {
    needs!("ip");
    let ns = Netns::new();
    let (client, server) = connect(&ns, &ns, "127.0.0.1");
    let run = |strict: bool| {
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    common::send(&client, &server, 4 << 20);
                }
            });
            // A ring of one page holds some nine samples.
            let mut arguments = vec![
                "stream",
                "-t",
                "1",
                "--interval",
                "0",
                "--ring",
                "4k",
                "-N",
                &ns.name,
            ];
            if strict {
                arguments.push("--strict");
            }
            let output = Command::new(OBSERVER)
                .args(arguments)
                .output()
                .expect("the program starts");
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            output
        })
    };
    let lax = run(false);
    let lines = text(&lax.stdout);
    let last: serde_json::Value =
        serde_json::from_str(lines.lines().last().expect("counters")).expect("JSON");
    assert!(
        last["lost"].as_u64().is_some_and(|lost| lost > 0),
        "nothing was lost: {last}"
    );
    assert_eq!(lax.status.code(), Some(0));
    let strict = run(true);
    assert_eq!(strict.status.code(), Some(4), "{}", text(&strict.stderr));
    assert!(text(&strict.stderr).contains("lost"));
}

#[test]
fn a_piped_list_is_tab_separated_and_has_no_colour() {
    needs!("ip");
    let ns = Netns::new();
    let (_client, _server) = connect(&ns, &ns, "127.0.0.1");
    let output = observer(&format!("list --window 200ms -N {}", ns.name));
    let table = text(&output.stdout);
    let mut lines = table.lines();
    let heading: Vec<&str> = lines.next().expect("a heading").split('\t').collect();
    assert!(
        heading.contains(&"throughput_bps") && heading.contains(&"min_rtt_us"),
        "{table}"
    );
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.len(), 2, "{table}");
    assert!(rows.iter().all(|row| row.len() == heading.len()), "{table}");
    assert!(!table.contains('\x1b'));
}

#[test]
fn help_and_version_are_done_well() {
    assert_eq!(observer("--version").status.code(), Some(0));
    let help = observer("--help");
    assert_eq!(help.status.code(), Some(0));
    for word in ["list", "stream", "Exit codes"] {
        assert!(text(&help.stdout).contains(word), "{word}");
    }
    if without_programs() {
        // Built without the programs: every command that needs them says how to get them.
        let (code, message) = refused("stream");
        assert_eq!(code, Some(3));
        assert!(message.contains("cargo xtask build"), "{message}");
        skipped("only the stub's message was tried: this observer has no kernel programs");
    }
}

/// Exit code and standard error of a shell's `script`, in which `$O` is the program.
fn shell(script: &str) -> (Option<i32>, String) {
    let output = Command::new("sh")
        .args(["-c", script])
        .env("O", OBSERVER)
        .output()
        .expect("a shell");
    (output.status.code(), text(&output.stderr))
}

#[test]
fn a_closed_standard_output_is_told() {
    for command in ["list --window 0", "completions bash", "man"] {
        let (code, message) = shell(&format!("exec $O {command} >&-"));
        assert_eq!(code, Some(1), "{command}: {message}");
        assert!(message.contains("standard output is closed"), "{message}");
    }
    let (code, message) = shell("exec $O --version >/dev/null");
    assert_eq!(code, Some(0), "{message}");
}

#[test]
fn too_few_open_files_are_told_with_what_to_do() {
    needs!("ip");
    if without_programs() {
        return skipped("built without the kernel programs");
    }
    for files in [14, 20] {
        let (code, message) = shell(&format!("ulimit -n {files}; exec $O list --source ebpf"));
        assert_eq!(code, Some(3), "{files}: {message}");
        assert!(message.contains("ulimit -n"), "{files}: {message}");
    }
}
