//! What was seen while the doctor watched: the fold, and of each flow the readings that one newest sample cannot replace.

use std::collections::BTreeMap;

use serde::Serialize;

use super::path::Path;
use super::{Finding, Queues, Written, flow, host, merged};
use crate::event::{Device, DeviceId, Event, FlowId, Payload, Sample};
use crate::model::{Flow, Model};
use crate::units::Limit;

/// Readings kept of a flow; of more, every second one is dropped.
const KEPT: usize = 512;
/// A flow is judged when it moved at least this much while it was watched.
const LEAST_BYTES: u64 = 100_000;

/// A few numbers over the time of watching, thinned evenly.
#[derive(Clone, Debug)]
pub(super) struct Readings {
    values: Vec<u64>,
    every: u32,
    skipped: u32,
}

impl Default for Readings {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            every: 1,
            skipped: 0,
        }
    }
}

impl Readings {
    pub fn push(&mut self, value: u64) {
        self.skipped += 1;
        if self.skipped < self.every {
            return;
        }
        self.skipped = 0;
        self.values.push(value);
        if self.values.len() >= KEPT {
            let mut odd = false;
            self.values.retain(|_| {
                odd = !odd;
                odd
            });
            self.every *= 2;
        }
    }

    /// What rates follow: a window goes out once in each RTT, so that their sum is the time.
    pub fn mean(&self) -> Option<u64> {
        let sum: u128 = self.values.iter().map(|value| u128::from(*value)).sum();
        let mean = sum.checked_div(self.values.len() as u128)?;
        u64::try_from(mean).ok()
    }

    pub fn median(&self) -> Option<u64> {
        let mut sorted = self.values.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }
}

/// Readings of one flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Smoothed RTT, µs.
    pub srtt_us: Readings,
    /// The receiver's own estimate, µs: who sends nothing has no newer `srtt_us` than the handshake's.
    pub rcv_rtt_us: Readings,
    /// The peer's window, bytes.
    pub snd_wnd: Readings,
    /// The window offered to the peer, bytes.
    pub rcv_wnd: Readings,
    /// Payload that the send buffer would hold if it were full, bytes (DETECTION §1 f: K).
    pub send_capacity: Readings,
    first: Option<Totals>,
    last: Totals,
    /// ssthresh was finite in the first reading of a flow whose birth was seen, before it sent a window.
    pub born_with_ssthresh: Option<u32>,
    pub born: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    acked: u64,
    received: u64,
    sent: u64,
    retrans: u64,
}

impl Totals {
    fn of(sample: &Sample) -> Self {
        Self {
            acked: sample.bytes_acked.unwrap_or(0),
            received: sample.bytes_received.unwrap_or(0),
            sent: sample.bytes_sent.unwrap_or(0),
            retrans: sample.bytes_retrans.unwrap_or(0),
        }
    }
}

impl Seen {
    fn take(&mut self, sample: &Sample) {
        let totals = Totals::of(sample);
        if self.first.is_none() {
            self.first = Some(if self.born { Totals::default() } else { totals });
            if let (true, Some(Limit::Finite(ssthresh)), 0) =
                (self.born, sample.ssthresh, sample.retrans)
                && totals.sent <= 20 * u64::from(sample.mss)
            {
                self.born_with_ssthresh = Some(ssthresh);
            }
        }
        self.last = totals;
        let push = |readings: &mut Readings, value: Option<u32>| {
            if let Some(value) = value {
                readings.push(u64::from(value));
            }
        };
        push(&mut self.srtt_us, sample.srtt_us);
        push(&mut self.rcv_rtt_us, sample.rcv_rtt_us);
        push(&mut self.snd_wnd, sample.snd_wnd_bytes);
        push(&mut self.rcv_wnd, sample.rcv_wnd_bytes);
        if let Some(capacity) = send_capacity(sample) {
            self.send_capacity.push(capacity);
        }
    }

    pub fn acked(&self) -> u64 {
        self.last
            .acked
            .saturating_sub(self.first.unwrap_or_default().acked)
    }

    pub fn received(&self) -> u64 {
        self.last
            .received
            .saturating_sub(self.first.unwrap_or_default().received)
    }

    /// Bytes retransmitted ÷ bytes sent while watched.
    pub fn retrans_rate(&self) -> Option<f64> {
        let first = self.first.unwrap_or_default();
        let sent = self.last.sent.saturating_sub(first.sent);
        let again = self.last.retrans.saturating_sub(first.retrans);
        (sent > 0).then(|| again as f64 / sent as f64)
    }
}

/// `sk_sndbuf · (write_seq − snd_una) / sk_wmem_queued`: buffers are charged with the kernel's own overhead. A segment begun
/// is filled whatever the buffer says (`tcp_sendmsg_locked` asks for a new one only), so that small writes get beyond it.
fn send_capacity(sample: &Sample) -> Option<u64> {
    let queued = u64::from(sample.wmem_queued_bytes?);
    let payload = match (sample.write_seq, sample.snd_una) {
        (Some(end), Some(una)) => u64::from(end.wrapping_sub(una)),
        // socket-diag tells segments, not sequence numbers.
        _ => {
            u64::from(sample.packets_out) * u64::from(sample.mss) + u64::from(sample.notsent_bytes?)
        }
    };
    // A nearly empty buffer says nothing of its capacity.
    if payload < 4 * u64::from(sample.mss) || queued < payload {
        return None;
    }
    let fits = u64::from(sample.sndbuf_bytes?) * payload / queued;
    Some(fits.max(payload))
}

/// The measured ground that findings stand on: RTT and loss first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Baseline {
    pub flow: String,
    pub local: String,
    pub remote: String,
    pub cc: Option<String>,
    pub dev: Option<String>,
    pub srtt_us: Option<u64>,
    /// As the receiver estimates it; of a flow that sends: `None`.
    pub rcv_rtt_us: Option<u64>,
    pub min_rtt_us: Option<u32>,
    pub retrans_rate: Option<f64>,
    pub throughput_bps: Option<u64>,
    pub received_bps: Option<u64>,
    pub btlbw_bps: Option<u64>,
    pub bdp_bytes: Option<u64>,
    pub limit: &'static str,
}

/// Watches events.
#[derive(Debug)]
pub struct Watch {
    pub model: Model,
    seen: BTreeMap<FlowId, Seen>,
    /// Drops of the devices' egress qdiscs when first seen, with the qdisc's handle.
    drops: BTreeMap<DeviceId, (u32, u64)>,
    path_rate_bps: Option<u64>,
    /// A connection made to judge its path.
    target: Option<FlowId>,
}

impl Watch {
    /// For `window_ns`; `path_rate_bps` is what the user knows the path to carry.
    pub fn new(window_ns: u64, path_rate_bps: Option<u64>) -> Self {
        Self {
            model: Model::with_window(window_ns),
            seen: BTreeMap::new(),
            drops: BTreeMap::new(),
            path_rate_bps,
            target: None,
        }
    }

    /// This flow is judged though it moved nothing.
    pub fn aim(&mut self, at: FlowId) {
        self.target = Some(at);
    }

    pub fn apply(&mut self, event: &Event) {
        self.model.apply(event);
        match (&event.payload, event.flow) {
            (Payload::Opened(opened), Some(id)) => {
                let born = opened.from_start;
                self.seen.insert(
                    id,
                    Seen {
                        born,
                        ..Seen::default()
                    },
                );
            }
            (Payload::Sample(sample), Some(id)) => self.seen.entry(id).or_default().take(sample),
            (Payload::Device(device), _) => {
                if let Some(qdisc) = device.egress() {
                    self.drops
                        .entry(device.id)
                        .or_insert((qdisc.handle, qdisc.drops));
                }
            }
            _ => {}
        }
    }

    /// Packets that the device's own qdisc dropped while it was watched.
    pub(super) fn dropped(&self, device: &Device) -> u64 {
        let Some(now) = device.egress() else { return 0 };
        match self.drops.get(&device.id) {
            Some((handle, before)) if *handle == now.handle => now.drops.saturating_sub(*before),
            _ => 0,
        }
    }

    /// Flows over a path worth judging that moved enough.
    pub(super) fn judged(&self) -> impl Iterator<Item = (&Flow, &Seen)> {
        self.model.flows().filter_map(|flow| {
            let seen = self.seen.get(&flow.id())?;
            let moved = seen.acked().max(seen.received());
            // Within the host there is no path: its buffers and RTTs say nothing of one.
            let path = !flow.remote().ip().is_loopback() && flow.remote().ip() != flow.local().ip();
            (path && moved >= LEAST_BYTES && flow.sample().is_some()).then_some((flow, seen))
        })
    }

    fn target(&self) -> Option<(&Flow, &Seen)> {
        let id = self.target?;
        Some((self.model.flow(id)?, self.seen.get(&id)?))
    }

    pub(super) fn path<'a>(&'a self, flow: &'a Flow, seen: &'a Seen) -> Option<Path<'a>> {
        Path::new(&self.model, flow, seen, self.path_rate_bps)
    }

    /// Of the flows judged, the busiest first.
    pub fn baselines(&self) -> Vec<Baseline> {
        let mut lines: Vec<Baseline> = self
            .judged()
            .filter_map(|(flow, seen)| Some(self.path(flow, seen)?.baseline()))
            .collect();
        lines.sort_by_key(|line| std::cmp::Reverse(line.throughput_bps.max(line.received_bps)));
        lines
    }

    /// Everything found, with what the host's files say of its settings and of its devices' queues.
    pub fn findings(&self, written: &[Written], queues: &[Queues]) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (flow, seen) in self.judged() {
            if let Some(path) = self.path(flow, seen) {
                flow::judge(&path, &mut findings);
            }
        }
        if let Some((flow, seen)) = self.target()
            && let Some(path) = self.path(flow, seen)
        {
            flow::judge_target(&path, &mut findings);
        }
        host::judge(self, written, queues, &mut findings);
        merged(findings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_thinned_and_keep_their_middle() {
        let mut readings = Readings::default();
        assert_eq!((readings.median(), readings.mean()), (None, None));
        for value in 0..100_000 {
            readings.push(value);
        }
        assert!(readings.values.len() <= KEPT);
        for middle in [readings.median(), readings.mean()] {
            let middle = middle.expect("some");
            assert!((45_000..55_000).contains(&middle), "{middle}");
        }
    }
}
