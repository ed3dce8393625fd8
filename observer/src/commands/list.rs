//! `observer list`: one snapshot of the flows, as a table or as JSON.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

use super::ends::Ends;
use super::table::{Row, Table};
use super::{Failure, choose, confine, output};
use crate::cli::{Common, ListArgs, SourceChoice};
use crate::export::jsonl;
use crate::host::netns;
use crate::kernel::clock;
use crate::kernel::diag::{Diag, Families, Seen, States};
use crate::model::{Figures, Flow, Fold, Model};
use crate::source::Source;
use crate::source::facts::Wanted;
use crate::source::snapshot::{SnapshotError, snapshot};

/// Prints the flows and ends; exit code 130 when interrupted before.
pub async fn run(common: &Common, args: &ListArgs) -> Result<(), Failure> {
    let choice = choose::Choice::new(common, &args.filter.filter)?;
    if args.window.is_zero() && common.source == SourceChoice::Ebpf {
        let text = "--window 0 is a plain snapshot by socket-diag, which --source ebpf rules out: leave one of the two out";
        return Err(Failure::Usage(text.to_owned()));
    }
    let ends = Ends::new(common);
    let wanted = Wanted {
        owners: choice.wanted().owners || common.processes,
        ..choice.wanted()
    };
    let plainly = wanted == Wanted::default() && args.filter.filter.is_empty() && !ends.named();
    let scripted = common.script.is_some();
    if args.window.is_zero() && plainly && !args.json && !scripted {
        return lines(common, &ends);
    }
    let (model, wall_offset_ns) = if args.window.is_zero() && !scripted {
        looked_up(common, wanted)?
    } else {
        measured(common, &choice, args.window).await?
    };
    let context = jsonl::Context {
        wall_offset_ns,
        names: ends.namer(),
    };
    let flows: Vec<&Flow> = model
        .flows()
        .filter(|flow| !flow.is_closed() && choice.shows(&model, flow))
        .collect();
    let addresses = flows.iter().flat_map(|flow| [flow.remote(), flow.local()]);
    ends.wait(addresses.map(|end| end.ip()));
    let mut out = output::stdout();
    if args.json {
        for flow in &flows {
            output::json(&mut out, &jsonl::flow_object(&model, flow, &context))?;
        }
    } else {
        let mut table = Table::new(terminal_columns(), common);
        for flow in &flows {
            table.push(flow.id(), &Row::of(&model, flow, &ends));
        }
        table.write(&mut out)?;
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
async fn measured(
    common: &Common,
    choice: &choose::Choice,
    window: Duration,
) -> Result<(Model, Option<i64>), Failure> {
    let mut source = choose::source(common, choice, false)?;
    confine::while_observing(common, None)?;
    let wall_offset_ns = source.info().wall_offset_ns;
    let stopper = source.stopper();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
    let mut fold = Fold::with_window(window_ns).of_path(common.path_rate);
    let end = tokio::time::sleep(window);
    tokio::pin!(end);
    let mut ended = false;
    loop {
        tokio::select! {
            batch = source.next() => match batch.map_err(|error| Failure::Failed(error.into()))? {
                Some(batch) => batch.iter().for_each(|event| drop(fold.apply(event))),
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
    fold.finish();
    Ok((fold.into_model(), wall_offset_ns))
}

/// No programs: socket-diag, once, and what is wanted beyond it. Rates are unknown.
fn looked_up(common: &Common, wanted: Wanted) -> Result<(Model, Option<i64>), Failure> {
    let mut model = Model::default().of_path(common.path_rate);
    let events = snapshot(&choose::namespaces(common)?, wanted).map_err(|error| match error {
        SnapshotError::Sockets(_) => Failure::Failed(error.into()),
        SnapshotError::Namespace(_) => Failure::Unsupported(error.to_string()),
    })?;
    for event in &events {
        model.apply(event);
    }
    Ok((model, i64::try_from(clock::wall_offset_ns()).ok()))
}

/// The same as a table, each socket made its line where the kernel's reply lies: without a model of the flows it takes
/// a third of the time.
fn lines(common: &Common, ends: &Ends) -> Result<(), Failure> {
    let mut table = Table::new(terminal_columns(), common);
    // IPv4 flows of IPv6 sockets come with IPv6 (TRAPS 16).
    let families = Families {
        v4: !common.ipv6,
        v6: true,
    };
    let mut line = |seen: &Seen<'_>| {
        let of_other_family = if seen.remote.is_ipv4() {
            common.ipv6
        } else {
            common.ipv4
        };
        if of_other_family {
            return;
        }
        let sample = seen.sample();
        let row = Row {
            state: seen.state,
            local: seen.local,
            remote: seen.remote,
            ends,
            owners: None,
            cc_name: seen.cc_name(),
            cc_version: seen.cc_version().map(Into::into),
            qdisc: None,
            container: None,
            verdict: None,
            sample: sample.as_ref(),
            figures: sample
                .as_ref()
                .map(|sample| Figures::of_one(sample, common.path_rate))
                .unwrap_or_default(),
        };
        table.push(seen.id, &row);
    };
    for namespace in choose::namespaces(common)? {
        let dumped = netns::enter(&namespace, || {
            Diag::open(namespace.inum)?.visit_plain(States::CONNECTED, families, &mut line)
        });
        match dumped {
            Ok(result) => result.context("the sockets cannot be listed")?,
            // It went away with its sockets.
            Err(netns::NetnsError::Gone { .. }) => {}
            Err(error) => return Err(Failure::Unsupported(error.to_string())),
        }
    }
    let mut out = output::stdout();
    table.write(&mut out)?;
    Ok(out.flush()?)
}
