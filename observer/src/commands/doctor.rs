//! `observer doctor`: reads the needs, watches the flows for a moment, says what is found. Changes nothing.

mod target;
mod text;

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use super::{Failure, choose, confine, output};
use crate::cli::{Common, DoctorArgs};
use crate::doctor::{self, Baseline, Finding, Level, Need, NeedState, Places, Watch};
use crate::host::{Roots, sysctl};
use crate::source::Source as _;

/// What was found, as it is told.
pub(super) struct Report {
    pub needs: Vec<Need>,
    pub baselines: Vec<Baseline>,
    pub findings: Vec<Finding>,
    /// Flows in view.
    pub flows: usize,
    pub source: String,
    pub watched_ns: u64,
    pub target: Option<target::Told>,
}

impl Report {
    /// Worth an exit code: a need missing, or a finding that costs.
    fn is_ill(&self) -> bool {
        let needs = self.needs.iter().filter_map(|need| need.level);
        let findings = self.findings.iter().map(|finding| finding.level);
        needs.chain(findings).any(|level| level > Level::Info)
    }

    /// Neither the programs nor socket-diag.
    fn is_blind(&self) -> bool {
        let lacks = |kind: &str| {
            let mut of = self.needs.iter().filter(|need| need.kind == kind);
            of.any(|need| need.state != NeedState::Found)
        };
        !self.needs.is_empty() && lacks("programs") && lacks("socket_diag")
    }
}

/// Exit code 0 where nothing is wrong, 1 with findings, 3 where nothing can be observed.
pub async fn run(common: &Common, args: &DoctorArgs) -> Result<(), Failure> {
    let script = common.script.is_some();
    let places = Places {
        roots: Roots::default(),
        btf: common.btf.clone(),
    };
    // Of a script only the settings are judged: nothing of this host.
    let mut needs = if script {
        Vec::new()
    } else {
        doctor::needs(&places)
    };
    let window_ns = u64::try_from(args.time.as_nanos()).unwrap_or(u64::MAX);
    let mut watch = Watch::new(window_ns, common.path_rate);
    let told = match &args.target {
        Some(to) => Some(target::look(common, to, common.path_rate, &mut watch)?),
        None => None,
    };
    let choice = choose::Choice::new(common, &[])?;
    let (mut source, refused) = choose::source_and_refusal(common, &choice, true)?;
    let confined = confine::while_observing(common, None)?;
    if !script {
        needs.push(doctor::programs(refused.as_ref()));
        needs.push(doctor::confinement(confined));
    }
    let info = source.info().clone();
    let stopper = source.stopper();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let end = tokio::time::sleep(args.time);
    tokio::pin!(end);
    let mut ended = false;
    loop {
        tokio::select! {
            batch = source.next() => match batch.map_err(|error| Failure::Failed(error.into()))? {
                Some(batch) => batch.iter().for_each(|event| watch.apply(event)),
                None => break,
            },
            () = &mut end, if !ended => {
                ended = true;
                stopper.stop(true);
            }
            _ = interrupt.recv() => return Err(Failure::Interrupted),
        }
    }
    let (written, queues) = if script {
        (Vec::new(), Vec::new())
    } else {
        let sysctls = places.roots.proc.join("sys");
        let written = doctor::written(Path::new("/"), |name| sysctl::read(&sysctls, name));
        (written, doctor::queues(&places.roots.sys))
    };
    let report = Report {
        needs,
        baselines: watch.baselines(),
        findings: watch.findings(&written, &queues),
        flows: watch.model.open_flows(),
        source: info.name,
        watched_ns: window_ns,
        target: told,
    };
    if args.json {
        json(&report)?;
    } else {
        text::write(&report)?;
    }
    if report.is_blind() {
        return Err(Failure::Unsupported(
            "neither the kernel programs nor socket-diag can be had here: see the needs above"
                .to_owned(),
        ));
    }
    if report.is_ill() {
        return Err(Failure::Exit(1));
    }
    Ok(())
}

/// A line of JSON (SPEC §4).
#[derive(Serialize)]
struct Line<'a, T: Serialize> {
    schema: u32,
    r#type: &'static str,
    #[serde(flatten)]
    of: &'a T,
}

#[derive(Serialize)]
struct Total {
    source: String,
    watched_us: u64,
    flows: usize,
    flows_judged: usize,
    needs_missing: usize,
    findings: usize,
    healthy: bool,
}

fn json(report: &Report) -> Result<(), Failure> {
    let mut out = output::stdout();
    lines(&mut out, "need", &report.needs)?;
    lines(&mut out, "target", report.target.as_slice())?;
    lines(&mut out, "baseline", &report.baselines)?;
    lines(&mut out, "finding", &report.findings)?;
    let missing = |need: &&Need| need.state == NeedState::Missing;
    let total = Total {
        source: report.source.clone(),
        watched_us: report.watched_ns / 1000,
        flows: report.flows,
        flows_judged: report.baselines.len(),
        needs_missing: report.needs.iter().filter(missing).count(),
        findings: report.findings.len(),
        healthy: !report.is_ill(),
    };
    lines(&mut out, "total", &[total])?;
    Ok(out.flush()?)
}

fn lines<T: Serialize>(out: &mut impl Write, r#type: &'static str, all: &[T]) -> io::Result<()> {
    for of in all {
        output::json(
            out,
            &Line {
                schema: 1,
                r#type,
                of,
            },
        )?;
    }
    Ok(())
}
