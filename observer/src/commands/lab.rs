//! `observer lab`: from flags to a path, flows over it, a recording of them, and what it comes to.

mod command;
mod summary;
mod work;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::outfile::OutFile;
use super::{Failure, output, record, report};
use crate::cli::{
    Common, EmulatorChoice, FilterArgs, LabArgs, LabCommand, LabRunArgs, RecordArgs, ReportArgs,
    ReportFormat,
};
use crate::lab::LabError;
use crate::lab::emulator::{self, Emulator, Kind, truth};
use crate::lab::namespaces::{Namespaces, Settings};
use crate::lab::path::Path;
use crate::lab::traffic::{self, Sender};
use crate::lab::verify::{self, Measured};
use work::{Outcome, Work};

pub async fn run(common: &Common, args: &LabArgs) -> Result<(), Failure> {
    if common.netns.is_some() || common.dev.is_some() || common.script.is_some() {
        return Err(Failure::Usage(
            "a lab has its own namespaces, devices and flows: leave -N, --dev and --script out"
                .to_owned(),
        ));
    }
    match &args.command {
        LabCommand::Run(args) => one(common, args).await,
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Unsupported(text) => Self::Unsupported(text),
            error @ LabError::NotHeld(_) => Self::NotHeld(error.to_string()),
            other => Self::Failed(other.into()),
        }
    }
}

/// What would end the process with its namespaces still there.
struct Ends {
    stops: record::Stops,
    hangup: Signal,
}

impl Ends {
    /// From here on these signals end nothing by themselves.
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            stops: record::Stops::new()?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Whether one came meanwhile.
    async fn check(&mut self) -> Result<(), Failure> {
        // Those that came are told at the next turn of the runtime.
        tokio::task::yield_now().await;
        tokio::select! {
            biased;
            _ = self.stops.next() => Err(Failure::Interrupted),
            _ = self.hangup.recv() => Err(Failure::Interrupted),
            () = tokio::time::sleep(std::time::Duration::from_millis(1)) => Ok(()),
        }
    }
}

/// A path that is there, and what was found of it.
struct Made {
    // In this order: the emulator's thread ends before its namespaces do.
    emulator: Box<dyn Emulator>,
    namespaces: Arc<Namespaces>,
    measured: Measured,
    /// What of the path is not as asked for.
    off: Vec<String>,
}

async fn one(common: &Common, args: &LabRunArgs) -> Result<(), Failure> {
    let program = match args.command.first() {
        Some(program) => Some(record::child::find(program)?),
        None => None,
    };
    let path = path(args);
    let mut truth_out = match &args.truth {
        Some(file) => Some(OutFile::create(Some(file), args.force)?),
        None => None,
    };
    let mut ends = Ends::new()?;
    let mut made = make(common, args, &path)?;
    ends.check().await?;
    for text in &made.off {
        output::message(&format!(
            "observer: the path is not quite as asked for: {text}"
        ));
    }
    output::message(&summary::path(
        &path,
        made.emulator.as_ref(),
        &made.measured,
    ));
    let record_args = record_args(args, &path, &made);
    let inside = Common {
        netns: Some(made.namespaces.sender().to_owned()),
        ..common.clone()
    };
    let work = Work {
        namespaces: Arc::clone(&made.namespaces),
        emulator: made.emulator.as_mut(),
        args,
        program,
    };
    let recorded = tokio::select! {
        recorded = record::whilst(&inside, &record_args, &mut ends.stops, || work.run()) => recorded,
        _ = ends.hangup.recv() => Err(Failure::Interrupted),
    };
    let (model, outcome) = recorded?;
    if let (Some(out), Some(losses)) = (&mut truth_out, made.emulator.losses()) {
        truth::write(out, &losses)?;
    }
    if let Some(out) = truth_out {
        out.finish()?;
    }
    let Outcome {
        flows,
        counts,
        received,
        status,
    } = outcome;
    drop(flows);
    for text in summary::truth(&path, &counts, received) {
        output::message(&text);
    }
    let told = tell(common, args, record_args.output).await;
    drop(made);
    told?;
    let lost = model.lost();
    match status {
        0 if common.strict && lost > 0 => Err(Failure::Lost(lost)),
        0 => Ok(()),
        code => Err(Failure::Exit(code)),
    }
}

/// The report of what was recorded.
async fn tell(common: &Common, args: &LabRunArgs, recording: PathBuf) -> Result<(), Failure> {
    let report_args = ReportArgs {
        files: vec![recording],
        format: ReportFormat::Text,
        omit: args.omit,
        filter: None,
        output: None,
        force: false,
        path_rate: None,
    };
    report::run(common, &report_args).await
}

fn path(args: &LabRunArgs) -> Path {
    Path {
        rate_bps: args.rate,
        rtt: args.rtt,
        buffer: args.buffer,
        loss: args.loss,
        burst_loss: args.burst_loss,
        jitter: args.jitter,
        policer: args.policer,
        ack_batch: args.ack_batch,
        ecn: args.ecn,
        seed: args.seed,
    }
}

/// What is asked of each socket of the sender.
fn sender(args: &LabRunArgs) -> Sender {
    Sender {
        algorithm: args.cc.clone(),
        flows: usize::from(args.flows),
        mss: args.mss,
        sndbuf_bytes: args.sndbuf.and_then(|bytes| usize::try_from(bytes).ok()),
        app_rate_bps: args.app_rate,
        max_pacing_bps: args.max_pacing,
    }
}

/// Namespaces, the path between them, and whether it is what was asked for.
fn make(common: &Common, args: &LabRunArgs, path: &Path) -> Result<Made, Failure> {
    let settings = Settings {
        ipv6: common.ipv6,
        window_bytes: 4 * (path.bdp_bytes() + path.limit_bytes()),
        ecn: args.ecn,
        sysctls: args.sysctls.clone(),
    };
    let namespaces = Namespaces::make(&settings)?;
    if let Some(algorithm) = &args.cc {
        traffic::check_algorithm(&namespaces, algorithm)?;
        if !args.command.is_empty() {
            namespaces.set_default_algorithm(algorithm)?;
        }
    }
    let wanted = match (args.emulator, &args.truth) {
        (EmulatorChoice::Kernel, Some(_)) => {
            return Err(Failure::Usage(
                "the kernel does not tell of each packet it lost: --truth takes --emulator user"
                    .to_owned(),
            ));
        }
        (EmulatorChoice::Kernel, None) => Some(Kind::Kernel),
        (EmulatorChoice::User, _) | (EmulatorChoice::Auto, Some(_)) => Some(Kind::User),
        (EmulatorChoice::Auto, None) => None,
    };
    if let Some(qdisc) = &args.qdisc {
        namespaces.check_qdisc(qdisc)?;
    }
    let emulator = emulator::make(wanted, &namespaces, path)?;
    let measured = verify::measure(&namespaces, path)?;
    let off = measured.against(path)?;
    if let Some(qdisc) = &args.qdisc {
        namespaces.set_qdisc(qdisc)?;
    }
    Ok(Made {
        emulator,
        namespaces: Arc::new(namespaces),
        measured,
        off,
    })
}

/// What is recorded: the flows to the receiver, with the truth in labels that nobody reads who judges flows.
fn record_args(args: &LabRunArgs, path: &Path, made: &Made) -> RecordArgs {
    let mut labels = path.labels();
    let mut tell = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            labels.insert(format!("truth.{key}"), value);
        }
    };
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    tell("emulator", Some(made.emulator.kind().name().to_owned()));
    tell("held", Some(made.off.is_empty().to_string()));
    tell(
        "measured_rtt_us",
        Some(made.measured.rtt.as_micros().to_string()),
    );
    tell(
        "measured_rate_bps",
        number(made.measured.rate_bps.map(|rate| rate.round() as u64)),
    );
    tell("cc", args.cc.clone());
    tell("qdisc", args.qdisc.clone());
    tell(
        "flows",
        args.command.is_empty().then(|| args.flows.to_string()),
    );
    tell("cross_flows", Some(args.cross.to_string()));
    tell("mss", number(args.mss.map(u64::from)));
    tell("sndbuf_bytes", number(args.sndbuf));
    tell("rwnd_bytes", number(args.rwnd.map(u64::from)));
    tell("app_rate_bps", number(args.app_rate));
    tell("max_pacing_bps", number(args.max_pacing));
    labels.extend(args.labels.iter().cloned());
    let receiver = made.namespaces.addresses.receiver;
    RecordArgs {
        filter: FilterArgs {
            filter: vec!["dst".to_owned(), receiver.to_string()],
        },
        output: args
            .output
            .clone()
            .unwrap_or_else(|| made.namespaces.scratch()),
        time: None,
        labels: labels.into_iter().collect(),
        max_size: None,
        max_time: None,
        force: args.force,
        command: Vec::new(),
    }
}
