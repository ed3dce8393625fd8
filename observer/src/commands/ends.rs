//! How the two ends of a flow are written: as numbers, or with the names that `-r` asks for.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::cli::Common;
use crate::export::jsonl;
use crate::filter::Services;
use crate::host::names::Names;

/// How long `list` waits for names, in all.
const PATIENCE: Duration = Duration::from_secs(1);

/// Names of hosts and services, where asked for.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    names: Option<Names>,
    services: Option<&'static Services>,
}

impl Ends {
    /// As `ss` has it: `-r` is for hosts, and for ports unless `-n` says otherwise. Unlike `ss`, numbers is what we
    /// print without either: a port of a flow tells more than a name that somebody reserved for it.
    pub fn new(common: &Common) -> Self {
        Self {
            names: common.resolve.then(Names::system),
            services: (common.resolve && !common.numeric).then(Services::system),
        }
    }

    /// Whether hosts have names.
    pub fn named(&self) -> bool {
        self.names.is_some()
    }

    /// Waits for the names of `addresses`, but not for long.
    pub fn wait(&self, addresses: impl IntoIterator<Item = IpAddr>) {
        if let Some(names) = &self.names {
            names.resolve(addresses, PATIENCE);
        }
    }

    /// As far as it is known now: never waits.
    pub fn name(&self, address: IpAddr) -> Option<Arc<str>> {
        self.names.as_ref()?.get(address)
    }

    /// For JSON; `None` = names were not asked for.
    pub fn namer(&self) -> Option<jsonl::Namer> {
        let names = self.names.clone()?;
        Some(jsonl::Namer(Arc::new(move |address| names.get(address))))
    }

    /// For people: `name:service`, what is not known of it as a number. Not escaped.
    pub fn shown(&self, end: SocketAddr) -> String {
        let name = self.name(end.ip());
        let service = self.services.and_then(|all| all.name(end.port()));
        if name.is_none() && service.is_none() {
            return end.to_string();
        }
        let host = match (name, end.ip()) {
            (Some(name), _) => name.to_string(),
            (None, IpAddr::V6(address)) => format!("[{address}]"),
            (None, IpAddr::V4(address)) => address.to_string(),
        };
        match service {
            Some(service) => format!("{host}:{service}"),
            None => format!("{host}:{}", end.port()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICES: &str = "https 443/tcp\nhttp 80/tcp www\nhttps 443/udp\n";

    fn ends(services: bool) -> Ends {
        let names = Names::with(crate::host::names::Options::default(), |address| {
            (!address.is_loopback()).then(|| "host.example".to_owned())
        });
        let services = services.then(|| &*Box::leak(Box::new(Services::parse(SERVICES))));
        let ends = Ends {
            names: Some(names),
            services,
        };
        ends.wait(["10.0.0.1", "2001:db8::1", "::1", "127.0.0.1"].map(|a| a.parse().unwrap()));
        ends
    }

    fn shown(ends: &Ends, end: &str) -> String {
        ends.shown(end.parse().unwrap())
    }

    #[test]
    fn without_flags_ends_are_numbers() {
        let ends = Ends::default();
        assert_eq!(shown(&ends, "10.0.0.1:443"), "10.0.0.1:443");
        assert!(!ends.named());
    }

    #[test]
    fn hosts_and_ports_have_their_names_and_the_rest_stays_a_number() {
        let ends = ends(true);
        assert_eq!(shown(&ends, "10.0.0.1:443"), "host.example:https");
        assert_eq!(shown(&ends, "[2001:db8::1]:50000"), "host.example:50000");
        assert_eq!(shown(&ends, "[::1]:80"), "[::1]:http");
        assert_eq!(shown(&ends, "127.0.0.1:50000"), "127.0.0.1:50000");
    }

    #[test]
    fn with_n_only_hosts_have_names() {
        let ends = ends(false);
        assert_eq!(shown(&ends, "10.0.0.1:443"), "host.example:443");
        assert_eq!(shown(&ends, "127.0.0.1:443"), "127.0.0.1:443");
    }
}
