//! Service names: `/etc/services`.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::sync::LazyLock;

/// TCP services by name, and the other way round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Services {
    ports: BTreeMap<String, u16>,
    names: HashMap<u16, String>,
}

/// Known on hosts without the file, as in small containers.
const USUAL: &str = "\
ssh 22/tcp
smtp 25/tcp
domain 53/tcp
http 80/tcp www
imap2 143/tcp imap
bgp 179/tcp
ldap 389/tcp
https 443/tcp
rsync 873/tcp
imaps 993/tcp
mysql 3306/tcp
postgresql 5432/tcp
";

impl Services {
    /// Of the file's text: `name port/tcp alias … # comment`. Of two lines for a name the first counts, as in libc.
    pub fn parse(text: &str) -> Self {
        let mut services = Self::default();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or("");
            let mut words = line.split_whitespace();
            let (Some(name), Some(port)) = (words.next(), words.next()) else {
                continue;
            };
            let Some(port) = port.strip_suffix("/tcp").and_then(|p| p.parse().ok()) else {
                continue;
            };
            services
                .names
                .entry(port)
                .or_insert_with(|| name.to_owned());
            for name in std::iter::once(name).chain(words) {
                services.ports.entry(name.to_owned()).or_insert(port);
            }
        }
        services
    }

    /// This host's, read once. Where the file cannot be read the usual ones are understood, and none is shown.
    pub fn system() -> &'static Self {
        static SYSTEM: LazyLock<Services> = LazyLock::new(|| match fs::read("/etc/services") {
            Ok(text) => Services::parse(&String::from_utf8_lossy(&text)),
            Err(_) => Services {
                names: HashMap::new(),
                ..Services::parse(USUAL)
            },
        });
        &SYSTEM
    }

    pub fn port(&self, name: &str) -> Option<u16> {
        self.ports.get(name).copied()
    }

    /// What `ss` calls it: the first name in the file.
    pub fn name(&self, port: u16) -> Option<&str> {
        self.names.get(&port).map(String::as_str)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.ports.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_with_aliases_and_only_for_tcp() {
        let services = Services::parse(
            "# comment\nhttp\t\t80/tcp\twww # WorldWideWeb\nntp 123/udp\nodd\nhttp 81/tcp\nbad x/tcp\n",
        );
        assert_eq!(services.port("http"), Some(80));
        assert_eq!(services.port("www"), Some(80));
        assert_eq!(services.port("ntp"), None);
        assert_eq!(services.names().count(), 2);
        assert_eq!(
            (services.name(80), services.name(81)),
            (Some("http"), Some("http"))
        );
        assert_eq!(services.name(123), None);
        assert_eq!(Services::parse(USUAL).port("https"), Some(443));
    }
}
