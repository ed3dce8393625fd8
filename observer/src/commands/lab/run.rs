//! One run: from flags to a path, flows over it, a recording of them, and what it came to.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::work::{Outcome, Work};
use super::{Ends, Failure, summary};
use crate::cli::{Common, EmulatorChoice, FilterArgs, LabRunArgs, RecordArgs};
use crate::commands::record::{self, Telling};
use crate::lab::emulator::truth::{self, Counts};
use crate::lab::emulator::{self, Emulator, Kind};
use crate::lab::namespaces::{Namespaces, Settings};
use crate::lab::path::Path;
use crate::lab::traffic::{self, Sender};
use crate::lab::verify::{self, Measured};

/// A path that is there, and what was found of it.
struct Made {
    // In this order: the emulator's thread ends before its namespaces do.
    emulator: Box<dyn Emulator>,
    namespaces: Arc<Namespaces>,
    measured: Measured,
    /// What of the path is not as asked for.
    off: Vec<String>,
}

/// What a run came to. While it is there, so is its recording, also where nobody asked to keep it.
pub struct Done {
    pub path: Path,
    pub emulator: &'static str,
    pub counts: Counts,
    /// Every packet lost, where the emulator knows them.
    pub losses: Option<Vec<truth::Drop>>,
    /// Payload at the receiver after the omitted time, and how long that was; `None` = a server of the user's took it.
    pub received: Option<(u64, Duration)>,
    /// Of the command.
    pub status: u8,
    /// Events that were not recorded.
    pub lost: u64,
    /// What was not as asked for, in a sentence each.
    pub remarks: Vec<String>,
    pub recording: PathBuf,
    _made: Made,
}

impl Done {
    pub fn received_bps(&self) -> Option<u64> {
        let (bytes, span) = self.received?;
        Some((bytes as f64 * 8.0 / span.as_secs_f64()).round() as u64)
    }
}

/// Makes the path, sends, records. `say`: what is known of the path, before the flows come.
pub async fn carry_out(
    common: &Common,
    args: &LabRunArgs,
    ends: &mut Ends,
    program: Option<PathBuf>,
    telling: Telling,
    say: &mut dyn FnMut(&str),
) -> Result<Done, Failure> {
    let path = path(args);
    let mut made = make(common, args, &path)?;
    ends.check().await?;
    let mut remarks = made.off.clone();
    for text in &remarks {
        say(&format!(
            "observer: the path is not quite as asked for: {text}"
        ));
    }
    say(&summary::path(
        &path,
        made.emulator.as_ref(),
        &made.measured,
    ));
    let record_args = record_args(args, &path, &made);
    let inside = Common {
        netns: Some(made.namespaces.sender().to_owned()),
        // The path, senders and receivers are of this process too: what they take is no cost of observing.
        max_cpu: 100.0,
        ..common.clone()
    };
    let work = Work {
        namespaces: Arc::clone(&made.namespaces),
        emulator: made.emulator.as_mut(),
        args,
        program,
    };
    let recorded = tokio::select! {
        recorded = record::whilst(&inside, &record_args, &mut ends.stops, telling, || work.run()) => recorded,
        _ = ends.hangup.recv() => Err(Failure::Interrupted),
    };
    let (model, outcome) = recorded?;
    let Outcome {
        flows,
        counts,
        received,
        status,
    } = outcome;
    drop(flows);
    remarks.extend(summary::remarks(&path, &counts));
    Ok(Done {
        emulator: made.emulator.kind().name(),
        losses: made.emulator.losses(),
        path,
        counts,
        received,
        status,
        lost: model.lost(),
        remarks,
        recording: record_args.output,
        _made: made,
    })
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
pub fn sender(args: &LabRunArgs) -> Sender {
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
