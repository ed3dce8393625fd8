//! `--target`: three connections to a host, of which socket-diag tells what the handshakes agreed on.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use rustix::net::sockopt::socket_cookie;
use serde::Serialize;

use crate::cli::Common;
use crate::commands::{Failure, choose};
use crate::doctor::Watch;
use crate::event::{Event, Opened, Payload};
use crate::host::Roots;
use crate::host::netns;
use crate::kernel::clock;
use crate::kernel::diag::{Diag, Families, Socket, States};
use crate::source::facts::{Lookup, Wanted};

/// The RTT of one handshake may be anything; the least of three is the path's.
const CONNECTIONS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(5);
const PORT: u16 = 443;

/// What is told of the target.
#[derive(Clone, Debug, Serialize)]
pub struct Told {
    pub target: String,
    pub address: String,
    /// The least of the handshakes.
    pub rtt_us: Option<u32>,
    pub path_rate_bps: Option<u64>,
    pub bdp_bytes: Option<u64>,
}

/// Connects, and gives `watch` what is to be judged.
pub fn look(
    common: &Common,
    target: &str,
    path_rate_bps: Option<u64>,
    watch: &mut Watch,
) -> Result<Told, Failure> {
    let namespaces = choose::namespaces(common)?;
    let [namespace] = namespaces.as_slice() else {
        return Err(Failure::Usage(
            "--target is of one network namespace: name it (-N NAME)".to_owned(),
        ));
    };
    let looked = netns::enter(namespace, || connections(common, target, namespace.inum));
    let (address, mut sockets) =
        looked.map_err(|error| Failure::Unsupported(error.to_string()))??;
    sockets.sort_by_key(|socket| {
        socket
            .sample
            .as_ref()
            .and_then(|s| s.min_rtt_us)
            .unwrap_or(u32::MAX)
    });
    let Some(socket) = sockets.into_iter().next() else {
        return Err(Failure::Failed(anyhow::anyhow!(
            "socket-diag does not show the connection to {target}"
        )));
    };
    let rtt_us = socket.sample.as_ref().and_then(|sample| sample.min_rtt_us);
    let bdp = rtt_us.zip(path_rate_bps).map(|(rtt, rate)| {
        u64::try_from(u128::from(rate) * u128::from(rtt) / 8_000_000).unwrap_or(u64::MAX)
    });
    give(socket, watch);
    Ok(Told {
        target: target.to_owned(),
        address: address.to_string(),
        rtt_us,
        path_rate_bps,
        bdp_bytes: bdp,
    })
}

fn give(socket: Socket, watch: &mut Watch) {
    let opened = Opened {
        from_start: false,
        state: socket.state,
        local: socket.local,
        remote: socket.remote,
    };
    let attributes = socket.attributes.map(|a| Payload::Attributes(Box::new(a)));
    let sample = socket.sample.map(|s| Payload::Sample(Box::new(s)));
    let payloads = [Some(Payload::Opened(opened)), attributes, sample];
    for payload in payloads.into_iter().flatten() {
        watch.apply(&Event {
            time: clock::now(),
            flow: Some(socket.id),
            payload,
        });
    }
    watch.aim(socket.id);
}

/// In the namespace: open together, seen together, closed.
fn connections(
    common: &Common,
    target: &str,
    netns: u32,
) -> Result<(SocketAddr, Vec<Socket>), Failure> {
    let address = resolve(common, target)?;
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(|error| {
            let text = format!("no connection to {target} ({address}): {error}; name a port that is open: --target HOST:PORT");
            Failure::Failed(anyhow::anyhow!(text))
        })?;
        streams.push(stream);
    }
    let cookies: Vec<u64> = streams
        .iter()
        .filter_map(|stream| socket_cookie(stream).ok())
        .collect();
    let mut lookup = Lookup::new(
        &Roots::default(),
        Wanted {
            device: true,
            ..Wanted::default()
        },
    );
    let mut found = Vec::new();
    let dumped = Diag::open(netns).and_then(|mut diag| {
        diag.dump(States::CONNECTED, Families::BOTH, |mut socket| {
            if cookies.contains(&socket.id.cookie) {
                lookup.fill(&mut socket);
                found.push(socket);
            }
        })
    });
    dumped.map_err(|error| Failure::Unsupported(format!("socket-diag: {error}")))?;
    Ok((address, found))
}

/// `host`, `host:port`, `[v6]:port`, `v6`; of the family asked for.
fn resolve(common: &Common, target: &str) -> Result<SocketAddr, Failure> {
    let bare_v6 = target.parse::<std::net::Ipv6Addr>().is_ok();
    let with_port = !bare_v6
        && target
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let host = target.trim_start_matches('[').trim_end_matches(']');
    let found = if with_port {
        target.to_socket_addrs()
    } else {
        (host, PORT).to_socket_addrs()
    };
    let found = found.map_err(|error| Failure::Usage(format!("--target {target}: {error}")))?;
    found
        .into_iter()
        .find(|address| (address.is_ipv4() || !common.ipv4) && (address.is_ipv6() || !common.ipv6))
        .ok_or_else(|| {
            Failure::Usage(format!(
                "--target {target} has no address of the family asked for"
            ))
        })
}
