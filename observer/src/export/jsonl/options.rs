//! A qdisc as the line of its device has it: with its place, and how it is set up.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::{QdiscKeys, bps};
use crate::event::{Qdisc, Setting};
use crate::export::table::{fields, json_fields};

/// One of a device's qdiscs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PlacedQdisc {
    /// `root`, `ingress`, or a handle.
    parent: String,
    #[serde(flatten)]
    keys: QdiscKeys,
    #[serde(skip_serializing_if = "Options::is_empty")]
    options: Options,
}
json_fields!(Options);

impl PlacedQdisc {
    /// Where it hangs, and what it is there: `root fq`.
    pub fn place(&self) -> String {
        format!("{} {}", self.parent, self.keys.kind)
    }
}

fields!(PlacedQdisc: parent, options; flat keys);

impl From<&Qdisc> for PlacedQdisc {
    fn from(qdisc: &Qdisc) -> Self {
        Self {
            parent: qdisc.parent_text(),
            options: Options(qdisc.options.clone()),
            keys: qdisc.clone().into(),
        }
    }
}

/// `tc`'s names with the unit behind them: `limit_packets`, `quantum_bytes`, `rate_bps`, `target_ns`, `loss`, `ecn`.
#[derive(Clone, Debug)]
struct Options(Vec<(String, Setting)>);

impl Options {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Options {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, setting) in &self.0 {
            let with = |unit: &str| format!("{name}_{unit}");
            match setting {
                Setting::Count(count) => map.serialize_entry(name, count)?,
                Setting::Packets(packets) => map.serialize_entry(&with("packets"), packets)?,
                Setting::Bytes(bytes) => map.serialize_entry(&with("bytes"), bytes)?,
                Setting::Rate(rate) => map.serialize_entry(&with("bps"), &bps(*rate))?,
                Setting::Nanoseconds(ns) => map.serialize_entry(&with("ns"), ns)?,
                Setting::Share(share) => {
                    map.serialize_entry(name, &(f64::from(*share) / f64::from(u32::MAX)))?;
                }
                Setting::Signed(number) => map.serialize_entry(name, number)?,
                Setting::Flag(on) => map.serialize_entry(name, on)?,
                Setting::Word(word) => map.serialize_entry(name, word)?,
            }
        }
        map.end()
    }
}
