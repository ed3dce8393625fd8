//! Service names: `/etc/services`.

use std::collections::BTreeMap;
use std::fs;
use std::sync::LazyLock;

/// TCP services by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Services(BTreeMap<String, u16>);

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
            for name in std::iter::once(name).chain(words) {
                services.0.entry(name.to_owned()).or_insert(port);
            }
        }
        services
    }

    /// This host's, read once; the usual ones where the file cannot be read.
    pub fn system() -> &'static Self {
        static SYSTEM: LazyLock<Services> = LazyLock::new(|| {
            let text = fs::read("/etc/services").map_or_else(
                |_| USUAL.into(),
                |b| String::from_utf8_lossy(&b).into_owned(),
            );
            Services::parse(&text)
        });
        &SYSTEM
    }

    pub fn port(&self, name: &str) -> Option<u16> {
        self.0.get(name).copied()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
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
        assert_eq!(Services::parse(USUAL).port("https"), Some(443));
    }
}
