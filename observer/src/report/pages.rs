//! What a report says to people: the table of flows first, then what it was measured on, then each flow.

use std::fmt::Write as _;

use super::document::{Document, Part, Table};
use super::{Block, FileReport, FlowReport, Timeline, Total, verdict};
use crate::event::Device;
use crate::units::{UNKNOWN, count, ms, percent, rate, size};

/// Flows told in full; the table and the data formats have all.
const IN_FULL: usize = 20;
/// Bursts told of a flow; data formats have more.
const BURSTS: usize = 10;

/// The report as a document; `chart` makes the image of a flow, by file and flow.
pub fn report(
    files: &[FileReport],
    total: &Total,
    chart: &dyn Fn(usize, usize) -> Option<String>,
) -> Document {
    let mut page = Document::new("TCP flow report");
    page.warnings(files.iter().flat_map(warnings).collect());
    page.parts.push(Part::Table(flows(files, total)));
    for file in files {
        page.heading(format!("File {}", file.given.name));
        page.facts(facts(file));
    }
    let told = in_full(files);
    let all: usize = files.iter().map(|file| file.flows.len()).sum();
    let left = all - told.len();
    for (file, flow) in told {
        let (report, of) = (&files[file].flows[flow], &files[file].given.name);
        let ends = format!("{} → {}", report.who.local, report.who.remote);
        page.heading(if files.len() > 1 {
            format!("Flow {ends} in {of}")
        } else {
            format!("Flow {ends}")
        });
        page.parts.extend(chart(file, flow).map(Part::Chart));
        let mut told = figures(&report.block);
        told.extend(verdict::facts(report));
        page.facts(told);
        if let Some(table) = bursts(&report.block) {
            page.parts.push(Part::Table(table));
        }
    }
    verdict::sections(&mut page, files);
    let mut notes = Vec::new();
    if left > 0 {
        notes.push(format!(
            "{left} more flows are in the table only; --format json or csv has every figure of each."
        ));
    }
    if let Some(jain) = total.jain_index {
        notes.push(format!(
            "Jain index of the flows to this address: {jain:.3} (1 = equal shares)."
        ));
    }
    page.notes(notes);
    page
}

/// The flows that delivered most, by file and flow.
pub fn in_full(files: &[FileReport]) -> Vec<(usize, usize)> {
    let mut all: Vec<(usize, usize)> = Vec::new();
    for (at, file) in files.iter().enumerate() {
        all.extend((0..file.flows.len()).map(|flow| (at, flow)));
    }
    all.sort_by_key(|&(file, flow)| std::cmp::Reverse(files[file].flows[flow].block.bytes_acked));
    all.truncate(IN_FULL);
    all
}

/// What is missing in a file.
pub fn warnings(file: &FileReport) -> Vec<String> {
    let name = &file.given.name;
    let missing = file.reading.missing.iter();
    let mut told: Vec<String> = missing.map(|text| format!("{name}: {text}")).collect();
    if file.lost > 0 {
        told.push(format!(
            "{name}: {} events were lost; cumulative counters are not touched by that, peaks and percentiles may be",
            file.lost
        ));
    }
    if file
        .flows
        .iter()
        .any(|flow| flow.block.retrans_by_kind.fast.is_none())
    {
        told.push(format!(
            "{name}: some flows were polled by socket-diag: kinds of retransmissions and unsmoothed RTTs are unknown"
        ));
    }
    let coarse = file.interval_ns.filter(|ns| *ns > super::THINNED_NS);
    if let Some(ns) = coarse {
        told.push(format!(
            "{name}: flows were sampled every {} ms at times: jitter and percentiles are of fewer samples than elsewhere",
            ms(ns / 1000)
        ));
    }
    told
}

const HEAD: [&str; 16] = [
    "Local",
    "Remote",
    "Process",
    "CC",
    "Qdisc",
    "Verdict",
    "Time s",
    "Acked",
    "Throughput",
    "2nd half",
    "Retr",
    "Retr%",
    "RTT ms",
    "p95 ms",
    "min ms",
    "BDP fill",
];

fn flows(files: &[FileReport], total: &Total) -> Table {
    let several = files.len() > 1;
    let mut table = Table {
        head: HEAD.map(str::to_owned).to_vec(),
        rows: Vec::new(),
        words: 6 + usize::from(several),
    };
    if several {
        table.head.insert(0, "File".to_owned());
    }
    for file in files {
        for flow in &file.flows {
            let mut row = row(flow);
            if several {
                row.insert(0, file.given.name.clone());
            }
            table.rows.push(row);
        }
    }
    let mut last = vec![String::new(); table.words];
    last[0] = format!("total of {}", total.flows);
    last.extend(numbers(&total.block));
    table.rows.push(last);
    table
}

fn row(flow: &FlowReport) -> Vec<String> {
    let who = &flow.who;
    let verdict = flow.judgement.as_ref();
    let mut row = vec![
        who.local.to_string(),
        who.remote.to_string(),
        match who.processes.as_slice() {
            [] => UNKNOWN.to_owned(),
            [one] => one.clone(),
            [first, rest @ ..] => format!("{first} +{}", rest.len()),
        },
        who.cc().unwrap_or_else(unknown),
        who.qdisc.clone().unwrap_or_else(unknown),
        verdict.map_or_else(unknown, |judgement| judgement.verdict.headline()),
    ];
    row.extend(numbers(&flow.block));
    row
}

fn numbers(block: &Block) -> [String; 10] {
    [
        format!("{:.1}", block.duration_s),
        or(block.bytes_acked, size),
        or(block.throughput_bps, rate),
        or(block.second_half_throughput_bps, rate),
        or(block.retrans_segments, |n| count(n, 9)),
        or(block.retrans_rate, percent),
        or(block.mean_rtt_us, ms),
        or(block.p95_rtt_us, ms),
        or(block.min_rtt_us.map(u64::from), ms),
        or(block.bdp_fill_mean, two),
    ]
}

fn unknown() -> String {
    UNKNOWN.to_owned()
}

/// A value as it is written, or the mark of the unknown.
pub fn or<T>(value: Option<T>, write: impl Fn(T) -> String) -> String {
    value.map_or_else(unknown, write)
}

fn two(value: f64) -> String {
    format!("{value:.2}")
}

/// Those that bear on a sender; data formats have all.
const SYSCTLS: [&str; 14] = [
    "rmem_max",
    "wmem_max",
    "tcp_rmem",
    "tcp_wmem",
    "tcp_ecn",
    "tcp_limit_output_bytes",
    "tcp_moderate_rcvbuf",
    "tcp_mtu_probing",
    "tcp_no_metrics_save",
    "tcp_notsent_lowat",
    "tcp_sack",
    "tcp_slow_start_after_idle",
    "tcp_timestamps",
    "tcp_window_scaling",
];

fn facts(file: &FileReport) -> Vec<(&'static str, String)> {
    let given = &file.given.environment;
    let mut facts = Vec::new();
    let time = file.span.and_then(|(start, _)| file.context.time(start).0);
    let lasted = file.span.map_or(0, |(start, end)| end.since(start));
    let began = or(time, |time| format!("{time:.3}"));
    facts.push((
        "recorded",
        format!("{began} for {:.1} s", lasted as f64 / 1e9),
    ));
    let interval = or(given.interval_ns, |ns| format!("{} ms", ms(ns / 1000)));
    facts.push((
        "by",
        format!(
            "observer {}, {}, a sample per flow every {interval} at most",
            given.tool, given.source
        ),
    ));
    if !given.labels.is_empty() {
        let labels = given.labels.iter();
        let labels: Vec<String> = labels
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        facts.push(("labels", labels.join(", ")));
    }
    for (what, is) in [("command", &given.command), ("filter", &given.filter)] {
        if let Some(is) = is {
            facts.push((what, is.clone()));
        }
    }
    if let Some(host) = &file.host {
        let known = |text: &Option<String>| text.clone().unwrap_or_else(unknown);
        facts.push((
            "host",
            format!(
                "{}, kernel {}, {} CPUs",
                host.hostname, host.kernel, host.cpus
            ),
        ));
        facts.push((
            "defaults",
            format!(
                "qdisc {}, congestion control {}",
                known(&host.default_qdisc),
                known(&host.default_cc)
            ),
        ));
        let sysctls = host.sysctls.iter();
        let sysctls = sysctls.filter(|(name, _)| SYSCTLS.iter().any(|end| name.ends_with(end)));
        let sysctls: Vec<String> = sysctls
            .map(|(name, value)| format!("{name}={}", value.as_deref().unwrap_or(UNKNOWN)))
            .collect();
        facts.push((
            "sysctls",
            or((!sysctls.is_empty()).then_some(sysctls), |s| s.join(", ")),
        ));
    }
    let algorithms = file.algorithms.iter().map(|(name, version, module)| {
        let version = version.as_ref().map_or(String::new(), |v| format!("/{v}"));
        let module = module.as_ref().map_or(String::new(), |m| format!(" ({m})"));
        format!("{name}{version}{module}")
    });
    facts.push(("algorithms", list(algorithms.collect())));
    facts.push(("qdiscs", list(file.devices.iter().map(device).collect())));
    facts.push((
        "offloads",
        list(file.devices.iter().map(offloads).collect()),
    ));
    facts.push(("events", events(file)));
    if file.left_out > 0 || file.too_short > 0 {
        facts.push((
            "left out",
            format!(
                "{} flows not asked for, {} over before --omit was",
                file.left_out, file.too_short
            ),
        ));
    }
    if !file.degraded.is_empty() {
        facts.push(("degraded", file.degraded.join("; ")));
    }
    facts
}

fn list(all: Vec<String>) -> String {
    or((!all.is_empty()).then_some(all), |all| all.join(", "))
}

fn device(device: &Device) -> String {
    let qdisc = device.egress();
    or(qdisc, |qdisc| {
        format!("{} {} ({} drops)", device.name, qdisc.kind, qdisc.drops)
    })
}

fn offloads(device: &Device) -> String {
    let Some(offloads) = device.offloads else {
        return format!("{} {UNKNOWN}", device.name);
    };
    let on = offloads.named().into_iter().filter(|(_, on)| *on);
    let on: Vec<&str> = on.map(|(name, _)| name).collect();
    let on = if on.is_empty() {
        "none".to_owned()
    } else {
        on.join(" ")
    };
    format!("{} {on}", device.name)
}

fn events(file: &FileReport) -> String {
    let read = format!("{} read, {} lost", file.events, file.lost);
    match file.losses {
        None => format!("{read}; the source counts no more"),
        Some(l) => format!(
            "{read}; of {} attempted {} kept, {} suppressed, {} filtered, {} failed, {} dropped, {} missed",
            l.attempted, l.kept, l.suppressed, l.filtered, l.failed, l.dropped, l.missed
        ),
    }
}

fn figures(block: &Block) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("throughput", throughput(block)),
        ("retransmitted", retransmitted(block)),
        ("RTT", rtt(block)),
        ("bandwidth", bandwidth(block)),
        ("inflight", inflight(block)),
    ];
    if !block.phase_share.is_empty() {
        let shares = block.phase_share.iter().filter(|(_, share)| **share > 0.0);
        let shares: Vec<String> = shares
            .map(|(phase, share)| format!("{phase} {}", percent(*share)))
            .collect();
        facts.push(("phases", shares.join(", ")));
    }
    let limits = block.limited_by.map(|limits| {
        let shares = limits
            .named()
            .into_iter()
            .filter(|(_, share)| *share >= 0.0005);
        let shares: Vec<String> = shares
            .map(|(name, share)| format!("{name} {}", percent(share)))
            .collect();
        list(shares)
    });
    facts.push(("limited by", or(limits, |limits| limits)));
    facts
}

fn throughput(block: &Block) -> String {
    let mut told = format!(
        "{}, second half {}, jitter {}; {} in {:.2} s{}",
        or(block.throughput_bps, rate),
        or(block.second_half_throughput_bps, rate),
        or(block.throughput_jitter_bps, rate),
        or(block.bytes_acked, size),
        block.duration_s,
        if block.observed_from_start {
            ""
        } else {
            " (older than the recording)"
        }
    );
    if let Some(share) = block.utilisation {
        let _ = write!(told, "; {} of the stated rate", percent(share));
    }
    told
}

fn retransmitted(block: &Block) -> String {
    let kinds = block.retrans_by_kind.named();
    let kinds: Vec<String> = kinds
        .iter()
        .filter_map(|(kind, n)| n.filter(|n| *n > 0).map(|n| format!("{kind} {n}")))
        .collect();
    let kinds = if kinds.is_empty() {
        String::new()
    } else {
        format!(" ({})", kinds.join(", "))
    };
    format!(
        "{}{kinds}, {} of the bytes, {} of the segments; {}",
        or(block.retrans_segments, |n| plural(n, "segment")),
        or(block.retrans_rate, percent),
        or(block.retrans_rate_segments, percent),
        plural(block.bursts, "burst")
    )
}

fn plural(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn rtt(block: &Block) -> String {
    format!(
        "mean {} ms, p50 {}, p95 {}, jitter {} (±{}), srtt {}, min {}; queueing {} ms; {} samples, one in {} ms",
        or(block.mean_rtt_us, ms),
        or(block.p50_rtt_us, ms),
        or(block.p95_rtt_us, ms),
        or(block.rtt_jitter_us, ms),
        or(block.rtt_stddev_us, ms),
        or(block.mean_srtt_us, ms),
        or(block.min_rtt_us.map(u64::from), ms),
        or(block.queueing_delay_us, ms),
        block.rtt_samples,
        or(block.rtt_sample_interval_us, ms),
    )
}

fn bandwidth(block: &Block) -> String {
    let estimated = if block.btlbw_estimated == Some(true) {
        " (est)"
    } else {
        ""
    };
    format!(
        "BtlBw {}{estimated}, BDP {}",
        or(block.btlbw_bps, rate),
        or(block.bdp_bytes, size)
    )
}

fn inflight(block: &Block) -> String {
    format!(
        "peak {} ({} BDP), steady mean {} ({} BDP); cwnd peak {} segments",
        or(block.peak_inflight_bytes, size),
        or(block.bdp_fill_peak, two),
        or(block.mean_inflight_bytes, size),
        or(block.bdp_fill_mean, two),
        or(block.cwnd_peak, |n| n.to_string()),
    )
}

/// The largest bursts in the order of time.
fn bursts(block: &Block) -> Option<Table> {
    let mut largest: Vec<&Timeline> = block.timeline.iter().collect();
    largest.sort_by_key(|burst| std::cmp::Reverse(burst.segments));
    largest.truncate(BURSTS);
    largest.sort_by_key(|burst| burst.start_mono_ns);
    if largest.is_empty() {
        return None;
    }
    let heading = if block.bursts > largest.len() as u64 {
        format!("Largest of {} bursts", block.bursts)
    } else {
        "Retransmit burst".to_owned()
    };
    let head = [
        "Kinds",
        "After s",
        "Lasted ms",
        "Segments",
        "RTT above min ms",
    ];
    let mut table = Table {
        head: std::iter::once(heading)
            .chain(head.map(str::to_owned))
            .collect(),
        rows: Vec::new(),
        words: 2,
    };
    for burst in largest {
        let kinds = burst.by_kind.iter();
        let kinds: Vec<String> = kinds.map(|(kind, n)| format!("{kind} {n}")).collect();
        table.rows.push(vec![
            or(burst.start.0, |time| format!("{time:.3}")),
            kinds.join(", "),
            format!("{:.3}", burst.after_s),
            ms(burst.end_mono_ns.saturating_sub(burst.start_mono_ns) / 1000),
            burst.segments.to_string(),
            or(burst.rtt_above_min_us.map(u64::from), ms),
        ]);
    }
    Some(table)
}
