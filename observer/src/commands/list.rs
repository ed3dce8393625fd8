//! `observer list`: one snapshot of the flows, as a table or as JSON.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

use super::{Failure, choose, output, table};
use crate::cli::{Common, ListArgs, SourceChoice};
use crate::event::{Event, Opened, Payload};
use crate::export::jsonl;
use crate::host::netns;
use crate::kernel::clock;
use crate::kernel::diag::{Diag, Families, Socket, States};
use crate::model::{Flow, Model};
use crate::source::Source;
use crate::source::facts::Wanted;
use crate::source::snapshot::{SnapshotError, snapshot};
use crate::units::Mono;

/// Prints the flows and ends; exit code 130 when interrupted before.
pub async fn run(common: &Common, args: &ListArgs) -> Result<(), Failure> {
    let choice = choose::Choice::new(common, &args.filter.filter)?;
    if args.window.is_zero() && common.source == SourceChoice::Ebpf {
        let text = "--window 0 is a plain snapshot by socket-diag, which --source ebpf rules out: leave one of the two out";
        return Err(Failure::Usage(text.to_owned()));
    }
    let (model, wall_offset_ns) = if args.window.is_zero() && choice.wanted() != Wanted::default() {
        looked_up(common, choice.wanted())?
    } else if args.window.is_zero() {
        plain(common)?
    } else {
        measured(common, args.window).await?
    };
    let context = jsonl::Context { wall_offset_ns };
    let flows: Vec<&Flow> = model
        .flows()
        .filter(|flow| !flow.is_closed() && choice.shows(&model, flow))
        .collect();
    let mut out = output::stdout();
    if args.json {
        for flow in &flows {
            output::json(&mut out, &jsonl::flow_object(&model, flow, &context))?;
        }
    } else {
        table::write(&mut out, &model, &flows, terminal_columns())?;
    }
    out.flush()?;
    output::elsewhere(model.elsewhere());
    output::degraded(&model, 0);
    if let Some(text) = choice.left_out(&model) {
        output::message(&format!("observer: {text}"));
    }
    let lost = model.lost();
    if lost > 0 {
        output::message(&format!(
            "observer: {lost} events were lost during the measurement"
        ));
        if common.strict {
            return Err(Failure::Lost(lost));
        }
    }
    Ok(())
}

/// Columns of the terminal that stdout is; `None` for a pipe or a file.
fn terminal_columns() -> Option<usize> {
    let stdout = std::io::stdout();
    stdout.is_terminal().then(|| {
        let size = rustix::termios::tcgetwinsize(&stdout);
        // A terminal that does not tell its size gets everything.
        size.map_or(usize::MAX, |size| match size.ws_col {
            0 => usize::MAX,
            columns => usize::from(columns),
        })
    })
}

/// Rates by the programs: a sweep, the window, a sweep.
async fn measured(common: &Common, window: Duration) -> Result<(Model, Option<i64>), Failure> {
    let mut source = choose::source(common, false)?;
    let wall_offset_ns = source.info().wall_offset_ns;
    let stopper = source.stopper();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
    let mut model = Model::with_window(window_ns);
    let end = tokio::time::sleep(window);
    tokio::pin!(end);
    let mut ended = false;
    loop {
        tokio::select! {
            batch = source.next() => match batch.map_err(|error| Failure::Failed(error.into()))? {
                Some(batch) => batch.iter().for_each(|event| model.apply(event)),
                None => break,
            },
            () = &mut end, if !ended => {
                ended = true;
                // The last look at every flow, then off the hooks.
                stopper.stop(true);
            }
            _ = interrupt.recv() => return Err(Failure::Interrupted),
            _ = terminate.recv() => return Err(Failure::Interrupted),
        }
    }
    Ok((model, wall_offset_ns))
}

/// The same as [`plain`], with what the filter asks beyond it.
fn looked_up(common: &Common, wanted: Wanted) -> Result<(Model, Option<i64>), Failure> {
    let mut model = Model::default();
    let events = snapshot(&choose::namespaces(common)?, wanted).map_err(|error| match error {
        SnapshotError::Sockets(_) => Failure::Failed(error.into()),
        SnapshotError::Namespace(_) => Failure::Unsupported(error.to_string()),
    })?;
    for event in &events {
        model.apply(event);
    }
    Ok((model, i64::try_from(clock::wall_offset_ns()).ok()))
}

/// No programs: socket-diag, once. Rates are unknown.
fn plain(common: &Common) -> Result<(Model, Option<i64>), Failure> {
    let mut model = Model::default();
    for namespace in choose::namespaces(common)? {
        let now = clock::now();
        let mut take = |socket| {
            for event in diag_events(now, socket) {
                model.apply(&event);
            }
        };
        let dumped = netns::enter(&namespace, || {
            Diag::open(namespace.inum)?.dump(States::CONNECTED, Families::BOTH, &mut take)
        });
        match dumped {
            Ok(result) => result.context("the sockets cannot be listed")?,
            // It went away with its sockets.
            Err(netns::NetnsError::Gone { .. }) => {}
            Err(error) => return Err(Failure::Unsupported(error.to_string())),
        }
    }
    Ok((model, i64::try_from(clock::wall_offset_ns()).ok()))
}

/// A socket of the dump as events.
fn diag_events(time: Mono, socket: Socket) -> Vec<Event> {
    let opened = Payload::Opened(Opened {
        from_start: false,
        state: socket.state,
        local: socket.local,
        remote: socket.remote,
    });
    let attributes = socket.attributes.map(|a| Payload::Attributes(Box::new(a)));
    let sample = socket.sample.map(|s| Payload::Sample(Box::new(s)));
    [Some(opened), attributes, sample]
        .into_iter()
        .flatten()
        .map(|payload| Event {
            time,
            flow: Some(socket.id),
            payload,
        })
        .collect()
}
