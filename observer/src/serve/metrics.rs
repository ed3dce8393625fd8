//! The metrics themselves: names, helps, labels, buckets.

use std::collections::BTreeSet;

use prometheus::{
    Counter, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry,
};

use super::{OUTCOMES, kinds};

/// 100 µs to 10 s.
const SECONDS: [f64; 16] = [
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0,
    2.5, 10.0,
];
/// 10 kB/s to 10 GB/s.
const RATES: [f64; 13] = [
    1e4, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7, 3e7, 1e8, 3e8, 1e9, 3e9, 1e10,
];
const RATIOS: [f64; 10] = [
    0.0, 0.0001, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5,
];

#[derive(Debug)]
pub(super) struct Metrics {
    pub registry: Registry,
    pub flows: IntGaugeVec,
    pub acked: IntCounterVec,
    pub sent: IntCounterVec,
    pub retransmitted: IntCounterVec,
    pub retransmits: IntCounterVec,
    pub limits: IntGaugeVec,
    pub verdicts: IntGaugeVec,
    pub rtt: HistogramVec,
    pub queueing: HistogramVec,
    pub delivery: HistogramVec,
    pub ratio: HistogramVec,
    pub drops: IntCounterVec,
    pub backlog: IntGaugeVec,
    pub events: IntCounterVec,
    pub kernel_seconds: Counter,
    pub cpu_seconds: Counter,
}

/// Per flow; the last one only where it was asked for.
const FLOW: &[&str] = &["cc", "cc_version", "peer_prefix"];
const FLOW_SECOND: &[&str] = &["cc", "peer_prefix"];
const DEV: &[&str] = &["dev", "qdisc"];

impl Metrics {
    /// Names and labels are constants: that they are well-formed and single a test sees.
    #[expect(clippy::expect_used, reason = "constants, seen by a test")]
    #[expect(clippy::too_many_lines, reason = "a table")]
    pub fn new(peer_prefix: bool) -> Self {
        let registry = Registry::new();
        let asked = |labels: &'static [&'static str]| {
            labels.split_at(labels.len() - usize::from(!peer_prefix)).0
        };
        let (flow, flow_second) = (asked(FLOW), asked(FLOW_SECOND));
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let metric = IntCounterVec::new(Opts::new(name, help), labels).expect("a constant");
            registry.register(Box::new(metric.clone())).expect("single");
            metric
        };
        let gauge = |name: &str, help: &str, labels: &[&str]| {
            let metric = IntGaugeVec::new(Opts::new(name, help), labels).expect("a constant");
            registry.register(Box::new(metric.clone())).expect("single");
            metric
        };
        let histogram = |name: &str, help: &str, buckets: &[f64]| {
            let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
            let metric = HistogramVec::new(options, flow_second).expect("a constant");
            registry.register(Box::new(metric.clone())).expect("single");
            metric
        };
        let seconds = |name: &str, help: &str| {
            let metric = Counter::new(name, help).expect("a constant");
            registry.register(Box::new(metric.clone())).expect("single");
            metric
        };
        let build = gauge(
            "observer_build_info",
            "Version of observer; always 1.",
            &["version"],
        );
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let metrics = Self {
            flows: gauge("observer_flows", "Connected TCP flows.", flow),
            acked: counter(
                "observer_acked_bytes_total",
                "Bytes newly acknowledged: delivered to the peers.",
                flow,
            ),
            sent: counter(
                "observer_sent_bytes_total",
                "Bytes sent, retransmissions included.",
                flow,
            ),
            retransmitted: counter(
                "observer_retransmitted_bytes_total",
                "Bytes retransmitted.",
                flow,
            ),
            retransmits: counter(
                "observer_retransmits_total",
                "Segments retransmitted, by kind.",
                &["kind"],
            ),
            limits: gauge(
                "observer_flow_limits",
                "Connected flows by what limits them now.",
                &["limit"],
            ),
            verdicts: gauge(
                "observer_flow_verdicts",
                "Connected flows by the verdict on their path.",
                &["class"],
            ),
            rtt: histogram(
                "observer_rtt_seconds",
                "Latest RTT of each active flow, once a second.",
                &SECONDS,
            ),
            queueing: histogram(
                "observer_queueing_delay_seconds",
                "Smoothed RTT above the least RTT of each active flow, once a second.",
                &SECONDS,
            ),
            delivery: histogram(
                "observer_delivery_rate_bytes_per_second",
                "Delivery rate of each active flow that its application did not limit, once a second.",
                &RATES,
            ),
            ratio: histogram(
                "observer_retransmit_ratio",
                "Bytes retransmitted by bytes sent of each flow that sent, once a second.",
                &RATIOS,
            ),
            drops: counter(
                "observer_qdisc_drops_total",
                "Packets dropped by the egress qdisc of a device.",
                DEV,
            ),
            backlog: gauge(
                "observer_qdisc_backlog_bytes",
                "Bytes waiting in the egress qdisc of a device.",
                DEV,
            ),
            events: counter(
                "observer_events_total",
                "Runs of the kernel programs by outcome.",
                &["outcome"],
            ),
            kernel_seconds: seconds(
                "observer_kernel_seconds_total",
                "CPU time of the kernel programs.",
            ),
            cpu_seconds: seconds(
                "observer_cpu_seconds_total",
                "CPU time of the observer process.",
            ),
            registry: registry.clone(),
        };
        // Series that are zero are there from the start.
        for kind in kinds() {
            metrics.retransmits.with_label_values(&[kind]);
        }
        for outcome in OUTCOMES {
            metrics.events.with_label_values(&[outcome]);
        }
        metrics
    }

    /// The series of a peer's network that counted under `versions` (algorithm and version) go.
    pub fn forget_prefix(&self, prefix: &str, versions: &BTreeSet<(String, String)>) {
        for (cc, version) in versions {
            for counter in [&self.acked, &self.sent, &self.retransmitted] {
                // Not each algorithm was seen with each network.
                let _ = counter.remove_label_values(&[cc, version, prefix]);
            }
            for histogram in [&self.rtt, &self.queueing, &self.delivery, &self.ratio] {
                let _ = histogram.remove_label_values(&[cc, prefix]);
            }
        }
    }

    /// The series of a device that had qdiscs of these `kinds` go.
    pub fn forget_device(&self, name: &str, kinds: &BTreeSet<String>) {
        for kind in kinds {
            let _ = self.drops.remove_label_values(&[name, kind]);
        }
    }
}
