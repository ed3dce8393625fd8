//! What a file says of itself first: which tool made it, how, and how its clock relates to wall time. It stands as MCAP
//! metadata behind the header, so that any MCAP reader lists it.

use std::collections::BTreeMap;

use crate::event::Host;

/// The format's number: raised only when older readers would misread.
pub const FORMAT: u32 = 1;
/// MCAP's profile of our files.
pub const PROFILE: &str = "observer";
/// The names of the metadata records.
pub const METADATA: &str = "observer";
pub const LABELS: &str = "labels";
pub const HOST: &str = "host";

/// How and by what a file was recorded. The host (kernel, sysctls) and its devices are the first events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Version of the tool.
    pub tool: String,
    /// Nanoseconds since 1970 at moment 0 of the events' clock; `None` = not known.
    pub wall_offset_ns: Option<i64>,
    /// Where the events came from: `eBPF`, `socket-diag`.
    pub source: String,
    /// At least this long between two samples of a flow, at first.
    pub interval_ns: Option<u64>,
    /// Which flows were asked for; `None` = all.
    pub filter: Option<String>,
    /// The command whose flows were recorded.
    pub command: Option<String>,
    /// Addresses and names were replaced.
    pub anonymized: bool,
    /// Which file of a rotated recording, from 0.
    pub part: u32,
    /// What the user wrote beside it.
    pub labels: BTreeMap<String, String>,
}

impl Environment {
    /// The keys of the metadata record; what is not known is absent.
    pub fn to_metadata(&self) -> BTreeMap<String, String> {
        let keys = [
            ("format", Some(FORMAT.to_string())),
            ("tool", Some(self.tool.clone())),
            (
                "wall_offset_ns",
                self.wall_offset_ns.map(|ns| ns.to_string()),
            ),
            ("source", Some(self.source.clone())),
            ("interval_ns", self.interval_ns.map(|ns| ns.to_string())),
            ("filter", self.filter.clone()),
            ("command", self.command.clone()),
            ("anonymized", Some(self.anonymized.to_string())),
            ("part", Some(self.part.to_string())),
        ];
        keys.into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect()
    }

    /// Back from it; `Err` = the format of a later version.
    pub fn from_metadata(mut keys: BTreeMap<String, String>) -> Result<Self, Newer> {
        let tool = keys.remove("tool").unwrap_or_default();
        let format = keys.remove("format").unwrap_or_default();
        if !matches!(format.parse::<u32>(), Ok(1..=FORMAT)) {
            return Err(Newer { format, tool });
        }
        let number = |key: &str| keys.get(key).and_then(|value| value.parse().ok());
        Ok(Self {
            wall_offset_ns: keys.get("wall_offset_ns").and_then(|ns| ns.parse().ok()),
            interval_ns: number("interval_ns"),
            part: number("part")
                .and_then(|part| part.try_into().ok())
                .unwrap_or(0),
            anonymized: keys.get("anonymized").is_some_and(|value| value == "true"),
            tool,
            source: keys.remove("source").unwrap_or_default(),
            filter: keys.remove("filter"),
            command: keys.remove("command"),
            labels: BTreeMap::new(),
        })
    }
}

/// What is told of the host, for any MCAP reader; ours takes it from the events. What is not known is absent.
pub fn host_metadata(host: &Host) -> BTreeMap<String, String> {
    let keys = [
        (
            "hostname",
            Some(&host.hostname).filter(|name| !name.is_empty()),
        ),
        ("kernel", Some(&host.kernel)),
        ("default_qdisc", host.default_qdisc.as_ref()),
        ("default_cc", host.default_cc.as_ref()),
    ];
    let keys = keys.into_iter().map(|(key, value)| (key, value.cloned()));
    let numbers = [
        ("hz", host.hz.map(|hz| hz.to_string())),
        ("cpus", Some(host.cpus.to_string())),
        ("available_cc", Some(host.available_cc.join(" "))),
    ];
    let sysctls = host
        .sysctls
        .iter()
        .map(|(name, value)| (name.as_str(), value.clone()));
    keys.chain(numbers)
        .chain(sysctls)
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

/// Written in a format that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newer {
    pub format: String,
    pub tool: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read_and_a_later_format_is_refused() {
        let said = Environment {
            tool: "0.1.0".to_owned(),
            wall_offset_ns: Some(-5),
            source: "eBPF".to_owned(),
            interval_ns: Some(10_000_000),
            filter: Some("dport = :443".to_owned()),
            command: None,
            anonymized: true,
            part: 3,
            labels: BTreeMap::new(),
        };
        assert_eq!(
            Environment::from_metadata(said.to_metadata()),
            Ok(said.clone())
        );
        for format in ["2", "0", "", "x", "4294967296"] {
            let mut keys = said.to_metadata();
            keys.insert("format".to_owned(), format.to_owned());
            let newer = Environment::from_metadata(keys).expect_err(format);
            assert_eq!(
                (newer.format.as_str(), newer.tool.as_str()),
                (format, "0.1.0")
            );
        }
        let mut keys = said.to_metadata();
        keys.remove("format");
        assert!(Environment::from_metadata(keys).is_err());
    }
}
