//! `observer serve`: metrics over HTTP until Ctrl-C or SIGTERM.

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::{Failure, choose, confine, output};
use crate::cli::{Common, ServeArgs};
use crate::kernel::clock;
use crate::kernel::rights::{self, Needed};
use crate::serve::Serve;
use crate::serve::http::Server;
use crate::source::Source as _;

/// Listens first: who starts us is told of a port in use before anything is loaded.
pub async fn run(common: &Common, args: &ServeArgs) -> Result<(), Failure> {
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = listener.local_addr().context("the socket has no address")?;
    // A port below 1024 takes a right of its own, which is over now.
    rights::keep(Needed {
        namespaces: common.netns.is_some(),
        recording: false,
    })?;
    let choice = choose::Choice::new(common, &[])?;
    let mut source = choose::source(common, &choice, true)?;
    confine::while_observing(common, None)?;
    source.hold();
    let stopper = source.stopper();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut serve = Serve::new(args.peer_prefix);
    let mut server = Server::new(serve.registry());
    output::message(&format!("observer: metrics at http://{address}/metrics"));
    if !address.ip().is_loopback() {
        output::message(
            "observer: this address is not loopback: whoever reaches it reads the metrics, unencrypted",
        );
    }
    let mut told = 0;
    loop {
        tokio::select! {
            batch = source.next() => match batch.map_err(|error| Failure::Failed(error.into()))? {
                Some(batch) => {
                    for event in &batch {
                        serve.apply(event);
                    }
                    serve.cpu(clock::own_cpu_ns());
                    told = output::degraded(serve.model(), told);
                }
                None => break,
            },
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => server.serve(stream),
                // Out of descriptors, or a peer that went: the next one may have more luck.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
            },
            _ = interrupt.recv() => stopper.stop(false),
            _ = terminate.recv() => stopper.stop(false),
        }
    }
    let lost = serve.model().lost();
    if common.strict && lost > 0 {
        return Err(Failure::Lost(lost));
    }
    Ok(())
}
