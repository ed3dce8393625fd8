//! What is compared: figures of the report block, their names and how they are written.

use crate::report::Block;
use crate::units::{ms, percent, rate, size};

/// One figure.
#[derive(Debug)]
pub struct Metric {
    /// The report's key without its unit.
    pub name: &'static str,
    /// The report's key.
    pub key: &'static str,
    /// For people.
    pub title: &'static str,
    pub of: fn(&Block) -> Option<f64>,
    pub show: fn(f64) -> String,
}

/// The place of throughput in [`METRICS`].
pub const THROUGHPUT: usize = 0;

macro_rules! metrics {
    ($($name:literal $key:ident $title:literal $show:expr;)*) => {
        /// In the order in which they are told.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: $name,
            key: stringify!($key),
            title: $title,
            of: |block| block.$key.map(|value| value as f64),
            show: $show,
        }),*];
    };
}

metrics! {
    "throughput" throughput_bps "Throughput" bps;
    "second_half_throughput" second_half_throughput_bps "2nd half" bps;
    "throughput_jitter" throughput_jitter_bps "Throughput jitter" bps;
    "utilisation" utilisation "Utilisation" share;
    "retrans_rate" retrans_rate "Retr%" share;
    "retrans_rate_segments" retrans_rate_segments "Retr% segments" share;
    "retrans_segments" retrans_segments "Retr" number;
    "mean_rtt" mean_rtt_us "RTT ms" us;
    "mean_srtt" mean_srtt_us "srtt ms" us;
    "p50_rtt" p50_rtt_us "p50 ms" us;
    "p95_rtt" p95_rtt_us "p95 ms" us;
    "rtt_jitter" rtt_jitter_us "RTT jitter ms" us;
    "min_rtt" min_rtt_us "min ms" us;
    "queueing_delay" queueing_delay_us "Queueing ms" us;
    "btlbw" btlbw_bps "BtlBw" bps;
    "bdp" bdp_bytes "BDP" bytes;
    "peak_inflight" peak_inflight_bytes "Inflight peak" bytes;
    "bdp_fill_peak" bdp_fill_peak "BDP fill peak" two;
    "bdp_fill_mean" bdp_fill_mean "BDP fill" two;
    "cwnd_peak" cwnd_peak "cwnd peak" number;
    "bytes_acked" bytes_acked "Acked" bytes;
}

impl Metric {
    /// By the name, or the report's key.
    pub fn place(name: &str) -> Option<usize> {
        METRICS
            .iter()
            .position(|metric| metric.name == name || metric.key == name)
    }
}

fn bps(value: f64) -> String {
    signed(value, |value| rate(value.round() as u64))
}

fn bytes(value: f64) -> String {
    signed(value, |value| size(value.round() as u64))
}

fn share(value: f64) -> String {
    signed(value, percent)
}

fn us(value: f64) -> String {
    signed(value, |value| ms(value.round() as u64))
}

fn number(value: f64) -> String {
    format!("{value}")
}

fn two(value: f64) -> String {
    format!("{value:.2}")
}

fn signed(value: f64, show: impl Fn(f64) -> String) -> String {
    let sign = if value < 0.0 { "−" } else { "" };
    format!("{sign}{}", show(value.abs()))
}
