//! The doctor's report for people.

use std::io::{self, Write};

use super::Report;
use crate::commands::output;
use crate::doctor::{Baseline, Finding, Need, NeedState};
use crate::units::{UNKNOWN, escape, ms, percent, rate, size};

/// Lines of flows; the rest is counted.
const FLOWS: usize = 10;

pub(super) fn write(report: &Report) -> io::Result<()> {
    let mut out = output::stdout();
    needs(&mut out, &report.needs)?;
    if let Some(told) = &report.target {
        writeln!(out, "Target {} ({})", escape(&told.target), told.address)?;
        let bdp = told
            .bdp_bytes
            .map_or("unknown without --path-rate".to_owned(), size);
        writeln!(
            out,
            "  RTT {} ms · BDP {bdp}\n",
            told.rtt_us.map_or(UNKNOWN.to_owned(), |us| ms(us.into()))
        )?;
    }
    flows(&mut out, report)?;
    findings(&mut out, &report.findings)?;
    out.flush()
}

fn mark(state: NeedState) -> &'static str {
    match state {
        NeedState::Found => "ok",
        NeedState::Missing => "missing",
        NeedState::Unknown => "unknown",
    }
}

/// One line a need, those of the kernel's hooks and fields counted where they are there.
fn needs(out: &mut impl Write, needs: &[Need]) -> io::Result<()> {
    if needs.is_empty() {
        return Ok(());
    }
    writeln!(out, "Needs")?;
    for kind in ["hook", "field"] {
        let of: Vec<&Need> = needs.iter().filter(|need| need.kind == kind).collect();
        let found = of
            .iter()
            .filter(|need| need.state == NeedState::Found)
            .count();
        if !of.is_empty() {
            let state = if found == of.len() { "ok" } else { "part" };
            writeln!(out, "  {state:<8}{kind}s: {found} of {}", of.len())?;
        }
    }
    for need in needs {
        if matches!(need.kind, "hook" | "field") && need.state == NeedState::Found {
            continue;
        }
        writeln!(
            out,
            "  {:<8}{}: {}",
            mark(need.state),
            escape(&need.name),
            escape(&need.detail)
        )?;
        if let Some(lost) = &need.lost {
            writeln!(out, "          without it: {}", escape(lost))?;
        }
        if let Some(fix) = &need.fix {
            writeln!(out, "          to get it: {}", escape(fix))?;
        }
    }
    writeln!(out)
}

fn flows(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let watched = report.watched_ns as f64 / 1e9;
    writeln!(
        out,
        "Flows: {} in view by {}, {} judged (over a path, at least 100 kB in {watched} s)",
        report.flows,
        report.source,
        report.baselines.len()
    )?;
    for line in report.baselines.iter().take(FLOWS) {
        writeln!(out, "  {}", baseline(line))?;
    }
    if report.baselines.len() > FLOWS {
        writeln!(out, "  … and {} more", report.baselines.len() - FLOWS)?;
    }
    writeln!(out)
}

fn baseline(line: &Baseline) -> String {
    let or = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
    let received = line.received_bps.unwrap_or(0) > line.throughput_bps.unwrap_or(0);
    let moved = if received {
        format!("receives {}", or(line.received_bps.map(rate)))
    } else {
        format!("sends {}", or(line.throughput_bps.map(rate)))
    };
    format!(
        "{} → {} {}: {moved}, RTT {}/{} ms, retransmits {}, BDP {}, limit {}",
        line.local,
        line.remote,
        escape(line.cc.as_deref().unwrap_or(UNKNOWN)),
        or(line.rcv_rtt_us.or(line.srtt_us).map(ms)),
        or(line.min_rtt_us.map(|us| ms(us.into()))),
        or(line.retrans_rate.map(percent)),
        or(line.bdp_bytes.map(size)),
        line.limit
    )
}

fn findings(out: &mut impl Write, findings: &[Finding]) -> io::Result<()> {
    if findings.is_empty() {
        return writeln!(out, "No findings.");
    }
    writeln!(out, "Findings")?;
    for finding in findings {
        let more = match finding.flows {
            0 | 1 => String::new(),
            flows => format!(" and {} more flows", flows - 1),
        };
        writeln!(
            out,
            "  {:<6}{}: {}",
            finding.level.as_str(),
            finding.topic.as_str(),
            escape(&finding.what)
        )?;
        let mut say =
            |label: &str, text: &str| writeln!(out, "        {label:<10}{}", escape(text));
        say("where", &format!("{}{more}", finding.subject))?;
        say("evidence", &finding.evidence)?;
        if let Some(ceiling) = finding.ceiling_bps {
            say("ceiling", &rate(ceiling))?;
        }
        if let Some(effect) = finding.effect_bps {
            say("costs", &rate(effect))?;
        }
        let rest = [
            ("do", &finding.command),
            ("undo", &finding.undo),
            ("read", &finding.read),
        ];
        for (label, text) in rest {
            if let Some(text) = text {
                say(label, text)?;
            }
        }
    }
    Ok(())
}
