//! CSV: a row a flow, a row of the total; unknown is an empty cell. The columns are the keys of JSON, those of an object
//! behind its name (`retrans_by_kind_fast`).

use std::io::{self, Write};

use serde_json::Value;

use super::block::Block;
use super::flow::PHASES;
use super::{FileReport, FlowReport, Total};
use crate::event::Phase;
use crate::units::escape;

/// Before the block's.
const WHO: [&str; 14] = [
    "type",
    "file",
    "id",
    "local",
    "remote",
    "cc",
    "cc_version",
    "qdisc",
    "dev",
    "processes",
    "flows",
    "verdict",
    "verdict_confidence",
    "bottleneck",
];

/// Everything.
pub fn write(out: &mut impl Write, files: &[FileReport], total: &Total) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    let columns: Vec<String> = cells(&total.block)
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    csv.write_record(
        WHO.iter()
            .copied()
            .chain(columns.iter().map(String::as_str)),
    )?;
    for file in files {
        for flow in &file.flows {
            let values = cells(&flow.block).into_iter().map(|(_, value)| value);
            csv.write_record(who(file, flow).into_iter().chain(values))?;
        }
    }
    let mut all = WHO.map(|_| String::new());
    "total".clone_into(&mut all[0]);
    all[10] = total.flows.to_string();
    let values = cells(&total.block).into_iter().map(|(_, value)| value);
    csv.write_record(all.into_iter().chain(values))?;
    csv.flush()
}

fn who(file: &FileReport, flow: &FlowReport) -> [String; WHO.len()] {
    let who = &flow.who;
    let verdict = flow.judgement.as_ref().map(|judgement| &judgement.verdict);
    let known = |text: &Option<String>| escape(text.as_deref().unwrap_or_default());
    [
        "flow".to_owned(),
        escape(&file.given.name),
        who.id.to_string(),
        who.local.to_string(),
        who.remote.to_string(),
        known(&who.cc_name),
        known(&who.cc_version),
        known(&who.qdisc),
        known(&who.device),
        escape(&who.processes.join(" ")),
        String::new(),
        verdict.map_or_else(String::new, |v| v.class.as_str().to_owned()),
        verdict.map_or_else(String::new, |v| v.confidence.to_string()),
        flow.bottleneck().to_owned(),
    ]
}

/// The block's figures, always the same ones; the timeline is left out.
fn cells(block: &Block) -> Vec<(String, String)> {
    let Ok(Value::Object(keys)) = serde_json::to_value(block) else {
        return Vec::new();
    };
    let mut cells = Vec::new();
    let own = |value: Option<&Value>| match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    for key in KEYS {
        let parts: Vec<&str> = match *key {
            "retrans_by_kind" => block.retrans_by_kind.named().map(|(kind, _)| kind).to_vec(),
            "limited_by" => super::LimitedBy::default()
                .named()
                .map(|(name, _)| name)
                .to_vec(),
            "phase_share" => PHASES.map(Phase::as_str).to_vec(),
            key => {
                cells.push((key.to_owned(), own(keys.get(key))));
                continue;
            }
        };
        let object = keys.get(*key);
        for part in parts {
            let value = object.and_then(|object| object.get(part));
            cells.push((format!("{key}_{part}"), own(value)));
        }
    }
    cells
}

/// The block's keys in its order.
const KEYS: &[&str] = &[
    "start",
    "start_mono_ns",
    "end",
    "end_mono_ns",
    "duration_s",
    "observed_from_start",
    "omitted_s",
    "bytes_acked",
    "throughput_bps",
    "second_half_throughput_bps",
    "utilisation",
    "bytes_sent",
    "bytes_retrans",
    "retrans_rate",
    "retrans_rate_segments",
    "retrans_segments",
    "data_segs_out",
    "retrans_by_kind",
    "retrans_failed",
    "phase_share",
    "mean_rtt_us",
    "mean_srtt_us",
    "p50_rtt_us",
    "p95_rtt_us",
    "rtt_jitter_us",
    "rtt_stddev_us",
    "rtt_samples",
    "rtt_sample_interval_us",
    "throughput_jitter_bps",
    "min_rtt_us",
    "bbr_min_rtt_us",
    "queueing_delay_us",
    "btlbw_bps",
    "btlbw_estimated",
    "bdp_bytes",
    "peak_inflight_bytes",
    "mean_inflight_bytes",
    "bdp_fill_peak",
    "bdp_fill_mean",
    "cwnd_peak",
    "limited_by",
    "gaps",
    "bursts",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_block_has_a_column() {
        let block = Block {
            utilisation: Some(0.5),
            ..Block::default()
        };
        let Ok(Value::Object(keys)) = serde_json::to_value(&block) else {
            panic!("an object");
        };
        let known: Vec<&str> = keys.keys().map(String::as_str).collect();
        for key in known {
            assert!(KEYS.contains(&key) || key == "timeline", "{key}");
        }
    }
}
