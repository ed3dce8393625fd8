//! What runs while it is recorded: the built-in flows or a command, and cross traffic.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Failure;
use super::command;
use super::run::sender;
use crate::cli::LabRunArgs;
use crate::lab::LabError;
use crate::lab::clock::now_ns;
use crate::lab::emulator::Emulator;
use crate::lab::emulator::truth::Counts;
use crate::lab::namespaces::Namespaces;
use crate::lab::traffic::{Flows, Receiver, Sender};

/// How often it is looked whether all still send.
const LOOK: Duration = Duration::from_millis(200);

pub struct Work<'a> {
    pub namespaces: Arc<Namespaces>,
    pub emulator: &'a mut dyn Emulator,
    pub args: &'a LabRunArgs,
    pub program: Option<PathBuf>,
}

/// What it came to. The flows live on until somebody has taken their last figures.
pub struct Outcome {
    pub flows: Vec<Held>,
    pub counts: Counts,
    /// Payload at the receiver after the omitted time, and how long that was; `None` = a server of the user's took it.
    pub received: Option<(u64, Duration)>,
    /// Of the command.
    pub status: u8,
}

/// What is kept until the recording is closed.
#[expect(dead_code, reason = "held for their ends only")]
pub enum Held {
    Flows(Flows),
    Receiver(Receiver),
}

impl Work<'_> {
    pub async fn run(self) -> Result<Outcome, Failure> {
        let args = self.args;
        let addresses = self.namespaces.addresses;
        let mut held = Vec::new();
        if args.cross > 0 {
            let cross = Sender {
                flows: usize::from(args.cross),
                ..Sender::default()
            };
            held.push(Held::Receiver(Receiver::start(
                &self.namespaces,
                addresses.other_receiver,
                None,
            )?));
            held.push(Held::Flows(
                started(&self.namespaces, cross, addresses.other_receiver).await?,
            ));
        }
        self.emulator.begin()?;
        if let Some(program) = &self.program {
            let mut server = None;
            if let Some(line) = &args.server {
                server = Some(command::serve(&self.namespaces, line).await?);
            } else {
                let receiver = Receiver::start(&self.namespaces, addresses.receiver, args.rwnd)?;
                held.push(Held::Receiver(receiver));
            }
            let status =
                command::run(&self.namespaces, program, &args.command[1..], args.watch).await?;
            drop(server);
            return Ok(Outcome {
                counts: self.emulator.counts()?,
                flows: held,
                received: None,
                status,
            });
        }
        let receiver = Receiver::start(&self.namespaces, addresses.receiver, args.rwnd)?;
        let flows = started(&self.namespaces, sender(args), addresses.receiver).await?;
        sending(&flows, args.omit).await?;
        let (bytes, begun) = (receiver.bytes(), now_ns());
        sending(&flows, args.time).await?;
        let span = Duration::from_nanos(now_ns() - begun);
        let received = Some((receiver.bytes() - bytes, span));
        let counts = self.emulator.counts()?;
        // Senders end before their receiver does.
        held.push(Held::Flows(flows));
        held.push(Held::Receiver(receiver));
        Ok(Outcome {
            flows: held,
            counts,
            received,
            status: 0,
        })
    }
}

/// Connecting takes its time, and events come meanwhile.
async fn started(
    namespaces: &Arc<Namespaces>,
    sender: Sender,
    to: std::net::IpAddr,
) -> Result<Flows, Failure> {
    let namespaces = Arc::clone(namespaces);
    let start = move || Flows::start(&namespaces, &sender, to);
    let flows = tokio::task::spawn_blocking(start).await;
    Ok(flows.map_err(anyhow::Error::from)??)
}

/// While all of them send.
async fn sending(flows: &Flows, span: Duration) -> Result<(), Failure> {
    let end = now_ns() + u64::try_from(span.as_nanos()).unwrap_or(u64::MAX / 2);
    loop {
        let left = end.saturating_sub(now_ns());
        if left == 0 {
            return Ok(());
        }
        if !flows.all_run() {
            let text = "a flow ended before its time: the path broke its connection".to_owned();
            return Err(LabError::Flow(text).into());
        }
        tokio::time::sleep(LOOK.min(Duration::from_nanos(left))).await;
    }
}
