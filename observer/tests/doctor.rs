//! The doctor's findings over scripts of events: conditions, levels, what is computed, commands with their way back.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

/// A sender to 10.0.0.2 over eth0: 40 ms, 10 Mbit/s, nothing wrong.
const SCRIPT: &str = "\
+0 host hostname=lab kernel=6.18.0 default_qdisc=fq default_cc=cubic cc=cubic,bbr net.ipv4.tcp_wmem=\"4096 16384 4194304\"
+0 device index=2 name=eth0 mtu=1500 up=yes
+0 qdisc index=2 parent=root handle=8001: kind=fq packets=1000
+0 opened 7 local=10.0.0.1:5201 remote=10.0.0.2:40000 state=ESTAB
+0 attributes 7 cc=cubic dev=2 sack=yes timestamps=yes wscale=7/7 max_pacing_rate=unlimited user_locks=0
+0 sample 7 mss=1448 cwnd=100 srtt=40ms min_rtt=40ms bytes_acked=0 bytes_sent=0 snd_wnd=3000000 max_window=3000000 \\
   delivery_rate=10mbit rate_app_limited=no sndbuf=4000000 busy=1ms
+1s sample 7 bytes_acked=1250000 bytes_sent=1260000 busy=1s
+1s sample 7 bytes_acked=2500000 bytes_sent=2510000 busy=2s
+0 tick
";

#[derive(Default)]
struct Change<'a> {
    host: &'a str,
    attr: &'a str,
    sample: &'a str,
    sample2: &'a str,
    qdisc: &'a str,
    device: &'a str,
    flags: &'a [&'a str],
}

/// The script with `words` (`key=value`) put into its `at`th line of `word`, in the place of what they replace.
fn with(script: &str, (word, at, words): (&str, usize, &str)) -> String {
    let mut seen = 0;
    let line = |line: &str| {
        if line.split(' ').nth(1) != Some(word) {
            return line.to_owned();
        }
        seen += 1;
        if seen != at + 1 {
            return line.to_owned();
        }
        let keys: Vec<&str> = parts(words)
            .iter()
            .filter_map(|w| Some(w.split_once('=')?.0))
            .collect();
        let kept = parts(line).into_iter().filter(|part| {
            let key = part.split_once('=').map(|(key, _)| key);
            key.is_none_or(|key| !keys.contains(&key))
        });
        kept.chain(parts(words)).collect::<Vec<_>>().join(" ")
    };
    script
        .replace(" \\\n ", "")
        .lines()
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Words; blanks in quotes do not part them.
fn parts(line: &str) -> Vec<&str> {
    let mut quoted = false;
    line.split(|c| {
        quoted ^= c == '"';
        c == ' ' && !quoted
    })
    .filter(|part| !part.is_empty())
    .collect()
}

fn doctor(change: &Change<'_>) -> (Option<i32>, Vec<Value>) {
    let changes = [
        ("host", 0, change.host),
        ("attributes", 0, change.attr),
        ("sample", 0, change.sample),
        ("sample", 2, change.sample2),
        ("qdisc", 0, change.qdisc),
        ("device", 0, change.device),
    ];
    let text = changes
        .into_iter()
        .fold(SCRIPT.to_owned(), |script, change| with(&script, change));
    let mut child = Command::new(env!("CARGO_BIN_EXE_observer"))
        .args(["doctor", "--json", "--script", "-"])
        .args(change.flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(text.as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.stdout.starts_with(b"{"), "{said}");
    let stdout = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    (output.status.code(), lines)
}

/// The only finding.
fn found(change: &Change<'_>) -> (Option<i32>, Value) {
    let (code, lines) = doctor(change);
    let findings: Vec<Value> = lines
        .into_iter()
        .filter(|line| line["type"] == "finding")
        .collect();
    assert_eq!(
        findings.len(),
        1,
        "{text}{findings:#?}",
        text = change.sample
    );
    (code, findings[0].clone())
}

#[test]
fn where_nothing_is_wrong_nothing_is_found() {
    let (code, lines) = doctor(&Change::default());
    assert_eq!(code, Some(0), "{lines:#?}");
    let types: Vec<&str> = lines.iter().filter_map(|l| l["type"].as_str()).collect();
    assert_eq!(types, ["baseline", "total"]);
    assert_eq!(lines[0]["bdp_bytes"], 50_000);
    assert_eq!(lines[0]["throughput_bps"], 10_000_000);
    assert_eq!(lines[1]["healthy"], true);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_condition_has_its_finding() {
    let d = Change::default;
    let lowat = Change {
        sample2: "app_limited=yes",
        attr: "notsent_lowat=4096",
        ..d()
    };
    let cases = [
        (
            "default_qdisc",
            1,
            Change {
                qdisc: "kind=pfifo_fast",
                ..d()
            },
        ),
        (
            "pacing_cap",
            1,
            Change {
                attr: "max_pacing_rate=11mbit",
                ..d()
            },
        ),
        (
            "bbr_without_fq",
            0,
            Change {
                attr: "cc=bbr",
                qdisc: "kind=tbf",
                ..d()
            },
        ),
        (
            "bbr_without_fq",
            1,
            Change {
                attr: "cc=bbr",
                qdisc: "kind=tbf",
                host: "kernel=4.9.0",
                ..d()
            },
        ),
        (
            "mss",
            1,
            Change {
                sample: "mss=1000",
                attr: "mss_clamp=1012",
                ..d()
            },
        ),
        (
            "mss",
            0,
            Change {
                sample: "mss=1400",
                ..d()
            },
        ),
        (
            "no_sack",
            1,
            Change {
                attr: "sack=no",
                host: "net.ipv4.tcp_sack=0",
                ..d()
            },
        ),
        (
            "no_timestamps",
            1,
            Change {
                attr: "timestamps=no",
                host: "net.ipv4.tcp_timestamps=1",
                ..d()
            },
        ),
        (
            "dctcp_without_ecn",
            1,
            Change {
                attr: "cc=dctcp ecn=no",
                ..d()
            },
        ),
        (
            "receive_window",
            1,
            Change {
                sample: "snd_wnd=50000 max_window=50000",
                sample2: "rwnd_limited=1800ms",
                ..d()
            },
        ),
        (
            "window_scale",
            1,
            Change {
                attr: "wscale=none",
                sample: "snd_wnd=65535 max_window=65535",
                sample2: "rwnd_limited=1s",
                ..d()
            },
        ),
        (
            "send_buffer",
            1,
            Change {
                host: "net.ipv4.tcp_wmem=\"4096 16384 60000\"",
                sample: "sndbuf=60000 wmem_queued=60000 write_seq=50000 snd_una=0",
                ..d()
            },
        ),
        (
            "send_buffer",
            1,
            Change {
                attr: "user_locks=1",
                sample: "sndbuf=60000 wmem_queued=60000 write_seq=50000 snd_una=0",
                ..d()
            },
        ),
        (
            "idle_restart",
            0,
            Change {
                host: "net.ipv4.tcp_slow_start_after_idle=1",
                sample2: "busy=1s",
                ..d()
            },
        ),
        ("notsent_lowat", 1, lowat),
        (
            "ecn_refused",
            0,
            Change {
                attr: "ecn=no",
                host: "net.ipv4.tcp_ecn=0",
                ..d()
            },
        ),
        (
            "offloads_off",
            0,
            Change {
                device: "offloads=gro,gro_hw",
                ..d()
            },
        ),
    ];
    for (code, exit, change) in cases {
        let (status, finding) = found(&change);
        assert_eq!(finding["code"], code, "{finding:#?}");
        assert_eq!(status, Some(exit), "{finding:#?}");
        assert!(
            finding["evidence"]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        );
        assert_eq!(
            finding["command"].is_null(),
            finding["undo"].is_null(),
            "{finding:#?}"
        );
    }
}

#[test]
fn ceilings_are_windows_through_the_rtt_and_cost_what_the_path_carries_more() {
    let small = Change {
        sample: "snd_wnd=50000 max_window=50000",
        sample2: "rwnd_limited=1800ms",
        flags: &["--path-rate", "100mbit"],
        ..Change::default()
    };
    let (_, finding) = found(&small);
    assert_eq!(finding["ceiling_bps"], 10_000_000);
    assert_eq!(finding["effect_bps"], 90_000_000);
    assert_eq!(finding["level"], "error");
}

#[test]
fn commands_can_be_taken_back() {
    let (_, finding) = found(&Change {
        qdisc: "kind=pfifo_fast handle=0:",
        ..Change::default()
    });
    assert_eq!(finding["command"], "tc qdisc replace dev eth0 root fq");
    assert!(
        finding["undo"]
            .as_str()
            .is_some_and(|undo| undo.starts_with("tc qdisc del dev eth0 root"))
    );
    let (_, finding) = found(&Change {
        attr: "sack=no",
        host: "net.ipv4.tcp_sack=0",
        ..Change::default()
    });
    assert_eq!(finding["command"], "sysctl -w net.ipv4.tcp_sack=1");
    assert_eq!(finding["undo"], "sysctl -w net.ipv4.tcp_sack=0");
}

#[test]
fn flows_within_the_host_are_not_judged() {
    let (code, lines) = doctor(&Change {
        attr: "remote=127.0.0.1:9 sack=no",
        ..Change::default()
    });
    assert_eq!((code, lines.len()), (Some(0), 1), "{lines:#?}");
}

#[test]
fn text_and_usage() {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_observer"));
        command
            .arg("doctor")
            .args(arguments)
            .output()
            .expect("it runs")
    };
    let wrong = run(&["--path-rate", "fast"]);
    assert_eq!(wrong.status.code(), Some(2));
    let wrong = run(&["--target", "no.such.host.invalid"]);
    assert_eq!(
        wrong.status.code(),
        Some(2),
        "{}",
        String::from_utf8_lossy(&wrong.stderr)
    );
    assert!(wrong.stdout.is_empty());
}
