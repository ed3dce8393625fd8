//! The figures that a verdict rests on, of all flows to one peer (DETECTION §2.2).

use super::clusters::{Clusters, clusters};
use super::dose::{Cycle, Dose, dose};
use super::packets::{Sent, sent};
use super::rules::MIN_AFTER;
use super::stats::{quantile, rank, sorted, spearman, variation};
use super::tokens::{Fit, Packet, fit};
use super::track::{Push, Track};

/// Median ÷ 90th percentile of the delay beside drops, under which noise is in the latter.
const SPREAD: f64 = 0.55;
/// ACKs come in batches where the gaps between them are so many times what they should be; told from so many.
const BATCHED: f64 = 2.5;
const MIN_GAPS: usize = 20;

/// Of one group of flows.
#[derive(Clone, Debug, Default)]
pub struct Features {
    /// Flows that sent something.
    pub flows: usize,
    pub bbr: bool,
    /// Packets sent for the first time, after start-up.
    pub packets: usize,
    /// Lost, over all and after start-up.
    pub losses: usize,
    pub losses_startup: usize,
    pub losses_after: usize,
    /// Loss events after start-up: at least one base RTT apart.
    pub events: usize,
    /// Lost ÷ sent after start-up.
    pub rate: f64,
    /// Base RTT, seconds.
    pub base_rtt: f64,
    /// RTTs that were watched.
    pub rounds: f64,
    /// Seconds that were watched.
    pub seconds: f64,
    /// RTT above the base just before a loss: median, 90th percentile; seconds.
    pub excess_median: Option<f64>,
    pub excess_p90: Option<f64>,
    /// The most of it in start-up.
    pub excess_startup: Option<f64>,
    /// 75th percentile of the RTT's excess at losses ÷ 98th percentile of all.
    pub psi: Option<f64>,
    /// Mean rank of the RTT at losses among all.
    pub rank: Option<f64>,
    pub fit: Option<Fit>,
    pub clusters: Option<Clusters>,
    pub dose: Option<Dose>,
    /// Coefficient of variation of the goodput in windows of 8 RTT × √flows, and how many windows.
    pub pin: Option<(f64, usize)>,
    /// Share of time in which BBRv1's long-term estimate was in use.
    pub long_term: f64,
    /// 90th percentile of the time between two ACKs, seconds, where they come in batches.
    pub batch: Option<f64>,
    /// Median congestion window, segments.
    pub cwnd: Option<f64>,
    /// What got through in the lossy time, bytes of frames per second.
    pub goodput: f64,
    pub mss: f64,
    /// Bytes of a full frame.
    pub frame: f64,
    /// Share of the packets that left while the application gave too little.
    pub app_limited: f64,
    /// Reports of needless retransmissions and of reordering ÷ retransmissions.
    pub disorder: f64,
    /// The RTT's excess: median and 95th percentile; seconds.
    pub delay_median: Option<f64>,
    pub delay_p95: Option<f64>,
    /// Rank correlation of the excess with what was in flight.
    pub own_queue: Option<f64>,
}

impl Features {
    /// The delay of a full queue: nearly the highest beside drops, less of it where that is far above the middle.
    pub fn depth_delay(&self) -> Option<f64> {
        let (median, p90) = self.excess_median.zip(self.excess_p90)?;
        Some(if median < SPREAD * p90 {
            f64::midpoint(median, p90)
        } else {
            p90
        })
    }
}

/// Of what is remembered since `from_ns`. `None`: nothing was sent, or no RTT is known.
pub fn features(tracks: &[&Track], from_ns: u64) -> Option<Features> {
    let busy: Vec<(&Track, Vec<Sent>)> = tracks
        .iter()
        .map(|track| (*track, sent(track, from_ns)))
        .filter(|(_, sent)| !sent.is_empty())
        .collect();
    let base_us = busy
        .iter()
        .filter_map(|(track, _)| track.min_rtt_us)
        .min()?;
    let base_rtt = f64::from(base_us) / 1e6;
    let mut found = Features {
        flows: busy.len(),
        bbr: busy.iter().any(|(track, _)| track.bbr == Some(true)),
        base_rtt,
        ..Features::default()
    };
    let mss = busy.iter().map(|(track, _)| track.mss).max().unwrap_or(0);
    found.mss = f64::from(mss);
    let headers = busy.iter().map(|(track, _)| track.headers()).max();
    found.frame = found.mss + f64::from(headers.unwrap_or(0));
    let whole = from_empty(&busy, from_ns);
    merged(&mut found, &busy, whole);
    at_losses(&mut found, &busy, from_ns);
    over_time(&mut found, &busy, from_ns);
    found.dose = dose(&cycles(&busy));
    let (mut again, mut odd) = (0_u64, 0_u64);
    for (track, _) in &busy {
        again += track.retransmitted;
        odd += u64::from(track.spurious) + u64::from(track.reorderings);
    }
    found.disorder = odd as f64 / again.max(1) as f64;
    Some(found)
}

/// Whether the first packet remembered was the first there was: flows that were older have sent next to nothing.
fn from_empty(busy: &[(&Track, Vec<Sent>)], from_ns: u64) -> bool {
    let sent = |whole: bool| -> usize {
        busy.iter()
            .filter(|(track, _)| track.is_whole(from_ns) == whole)
            .map(|(_, sent)| sent.len())
            .sum()
    };
    sent(false) * 100 <= sent(true)
}

/// What the merged sends say: counts, clusters, the bucket.
fn merged(found: &mut Features, busy: &[(&Track, Vec<Sent>)], whole: bool) {
    let mut all: Vec<Sent> = busy
        .iter()
        .flat_map(|(_, sent)| sent.iter().copied())
        .collect();
    all.sort_by_key(|sent| sent.packet.time_ns);
    let first: Vec<&Sent> = all.iter().filter(|sent| !sent.packet.again).collect();
    found.losses_startup = first
        .iter()
        .filter(|sent| sent.packet.lost && sent.startup)
        .count();
    let after: Vec<&Sent> = first.iter().filter(|sent| !sent.startup).copied().collect();
    found.packets = after.len();
    found.losses_after = after
        .iter()
        .filter(|sent| sent.packet.lost && !sent.packet.again)
        .count();
    found.losses = found.losses_startup + found.losses_after;
    found.rate = found.losses_after as f64 / after.len().max(1) as f64;
    let app = after.iter().filter(|sent| sent.app_limited).count();
    found.app_limited = app as f64 / after.len().max(1) as f64;
    let lost: Vec<bool> = after.iter().map(|sent| sent.packet.lost).collect();
    found.clusters = clusters(&lost);
    if let (Some(begin), Some(end)) = (all.first(), all.last()) {
        let ns = end.packet.time_ns.saturating_sub(begin.packet.time_ns);
        found.seconds = ns as f64 / 1e9;
        found.rounds = found.seconds / found.base_rtt;
    }
    // From the first loss after start-up to the last.
    let is_lost = |sent: &&Sent| sent.packet.lost && !sent.packet.again && !sent.startup;
    let times = || all.iter().filter(is_lost).map(|sent| sent.packet.time_ns);
    let (Some(begin), Some(end)) = (times().next(), times().next_back()) else {
        return;
    };
    // In start-up the bucket fills, and nothing is evidence.
    let packets: Vec<Packet> = all
        .iter()
        .filter(|sent| !sent.app_limited)
        .map(|sent| Packet {
            again: sent.packet.again || sent.startup,
            ..sent.packet
        })
        .collect();
    let inside = packets
        .iter()
        .filter(|packet| (begin..=end).contains(&packet.time_ns) && !packet.lost);
    let bytes: u64 = inside.map(|packet| u64::from(packet.bytes)).sum();
    let seconds = end.saturating_sub(begin) as f64 / 1e9;
    if seconds > 4.0 * found.base_rtt && seconds > 0.0 {
        found.goodput = bytes as f64 / seconds;
        // With fewer no rule asks.
        let enough = found.losses_after >= MIN_AFTER;
        found.fit = enough
            .then(|| fit(&packets, found.goodput, whole))
            .flatten();
    }
}

/// The RTT just before each loss: that of the packet ahead of it.
fn at_losses(found: &mut Features, busy: &[(&Track, Vec<Sent>)], from_ns: u64) {
    let base = found.base_rtt;
    let (mut after, mut startup, mut all) = (Vec::new(), Vec::new(), Vec::new());
    let mut pairs = Vec::new();
    let mut events = 0;
    for (track, sent) in busy {
        let excess = |rtt_us: u32| (f64::from(rtt_us) / 1e6 - base).max(0.0);
        for point in track
            .points
            .range(track.since(from_ns)..)
            .filter(|point| point.fresh && !point.app_limited)
        {
            if let Some(rtt_us) = point.rtt_us
                && !track.in_startup(point.time_ns)
            {
                all.push(excess(rtt_us));
                pairs.push((f64::from(point.inflight), excess(rtt_us)));
            }
        }
        let mut last = None;
        for packet in sent
            .iter()
            .filter(|sent| sent.packet.lost && !sent.packet.again)
        {
            let time = packet.packet.time_ns;
            let apart = last.is_none_or(|last| time.saturating_sub(last) as f64 / 1e9 >= base);
            if !apart {
                continue;
            }
            last = Some(time);
            events += usize::from(!packet.startup);
            let Some(loss) = packet.loss.map(|at| track.losses[at]) else {
                continue;
            };
            let at = track.points.partition_point(|point| point.una < loss.seq);
            let Some(rtt_us) = track.points.get(at).and_then(|point| point.rtt_us) else {
                continue;
            };
            if packet.startup {
                startup.push(excess(rtt_us));
            } else {
                after.push(excess(rtt_us));
            }
        }
    }
    found.events = events;
    let (after, all) = (sorted(after), sorted(all));
    found.excess_median = quantile(&after, 0.5);
    found.excess_p90 = quantile(&after, 0.9);
    found.excess_startup = sorted(startup).last().copied();
    found.delay_median = quantile(&all, 0.5);
    found.delay_p95 = quantile(&all, 0.95);
    let top = quantile(&all, 0.98).filter(|top| *top > 0.0);
    found.psi = quantile(&after, 0.75).zip(top).map(|(at, top)| at / top);
    let ranks: Vec<f64> = after
        .iter()
        .filter_map(|excess| rank(&all, *excess))
        .collect();
    found.rank = (!ranks.is_empty()).then(|| ranks.iter().sum::<f64>() / ranks.len() as f64);
    let step = pairs.len().div_ceil(512).max(1);
    let thinned: Vec<_> = pairs.into_iter().step_by(step).collect();
    found.own_queue = spearman(&thinned);
}

/// Goodput by windows, the long-term flag, gaps between ACKs, the window.
fn over_time(found: &mut Features, busy: &[(&Track, Vec<Sent>)], from_ns: u64) {
    let window_ns = ((8.0 * found.base_rtt).max(0.2) * 1e9) as u64;
    let mut acked = std::collections::BTreeMap::<u64, f64>::new();
    let (mut gaps, mut cwnds) = (Vec::new(), Vec::new());
    let (mut long_term, mut watched) = (0_u64, 0_u64);
    let mut limited = std::collections::BTreeSet::new();
    for (track, _) in busy {
        let points: Vec<_> = track
            .points
            .range(track.since(from_ns)..)
            .filter(|point| !track.in_startup(point.time_ns))
            .collect();
        for pair in points.windows(2) {
            let [from, to] = pair else { continue };
            let ns = to.time_ns.saturating_sub(from.time_ns);
            *acked.entry(to.time_ns / window_ns).or_default() += (to.una - from.una) as f64;
            if from.app_limited {
                limited.insert(to.time_ns / window_ns);
            }
            watched += ns;
            if from.long_term {
                long_term += ns;
            }
            if to.next_ack && from.nxt > from.una {
                gaps.push(ns as f64 / 1e9);
            }
            cwnds.extend(to.cwnd.map(f64::from));
        }
    }
    // The first and the last window are not whole.
    let whole = acked.len().saturating_sub(2);
    let rates: Vec<f64> = acked
        .iter()
        .skip(1)
        .take(whole)
        .filter(|(window, _)| !limited.contains(*window))
        .map(|(_, bytes)| *bytes)
        .collect();
    found.pin = variation(&rates).map(|cv| (cv * (found.flows as f64).sqrt(), rates.len()));
    found.long_term = long_term as f64 / watched.max(1) as f64;
    found.batch = batch(gaps, found.frame, found.goodput / found.flows.max(1) as f64);
    found.cwnd = quantile(&sorted(cwnds), 0.5);
}

/// The 90th percentile of the gaps between ACKs, where that is clearly more than the two segments take that an ACK is of.
fn batch(gaps: Vec<f64>, frame: f64, goodput: f64) -> Option<f64> {
    let gaps = sorted(gaps);
    let gap = quantile(&gaps, 0.9).filter(|_| gaps.len() >= MIN_GAPS)?;
    (gap * goodput > BATCHED * 2.0 * frame).then_some(gap)
}

/// Every gain cycle of every BBR flow: from one push to the next.
fn cycles(busy: &[(&Track, Vec<Sent>)]) -> Vec<Cycle> {
    let mut cycles = Vec::new();
    for (_, sent) in busy.iter().filter(|(track, _)| track.shows_phases()) {
        let mut cycle: Option<Cycle> = None;
        let mut before = Push::Unknown;
        for packet in sent
            .iter()
            .filter(|sent| !sent.packet.again && !sent.startup)
        {
            if packet.push == Push::Up && before != Push::Up {
                cycles.extend(cycle.replace(Cycle::default()));
            }
            before = packet.push;
            let Some(cycle) = &mut cycle else { continue };
            let lost = u32::from(packet.packet.lost);
            match packet.push {
                Push::Up => {
                    cycle.sent_up += 1;
                    cycle.lost_up += lost;
                }
                Push::Low => {
                    cycle.sent_low += 1;
                    cycle.lost_low += lost;
                }
                Push::Other | Push::Unknown => {}
            }
        }
        cycles.extend(cycle);
    }
    cycles
}
