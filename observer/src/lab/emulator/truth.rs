//! What an emulator did, by its own account: counts, and each lost packet with its cause.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::cells::Cause;
use super::frame::Segment;

/// What happened to the packets toward the receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub offered_packets: u64,
    pub offered_bytes: u64,
    pub lost: BTreeMap<&'static str, u64>,
    /// Marked with congestion experienced; `None` = not counted.
    pub marked: Option<u64>,
    /// Packets the emulator itself lost, because the machine was too slow.
    pub overrun: u64,
    /// How late packets left, of both directions; empty = not measured.
    pub late: Lateness,
}

impl Counts {
    pub fn total_lost(&self) -> u64 {
        self.lost.values().sum()
    }
}

/// How late packets left after they were due: a histogram in steps of a sixteenth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    steps: Vec<u64>,
    total: u64,
    max_us: u64,
}

/// Below this a step is a microsecond.
const FINE_US: u64 = 32;

impl Lateness {
    pub fn add(&mut self, us: u64) {
        let step = step(us);
        if step >= self.steps.len() {
            self.steps.resize(step + 1, 0);
        }
        self.steps[step] += 1;
        self.total += 1;
        self.max_us = self.max_us.max(us);
    }

    /// Not more than a sixteenth above it; `None` = nothing left.
    pub fn quantile_us(&self, quantile: f64) -> Option<u64> {
        let place = ((self.total as f64 * quantile).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        let step = self.steps.iter().position(|count| {
            seen += count;
            seen >= place
        })?;
        Some(highest(step).min(self.max_us))
    }

    pub fn max_us(&self) -> Option<u64> {
        (self.total > 0).then_some(self.max_us)
    }

    /// The share of packets that left later than `us`.
    pub fn share_over(&self, us: u64) -> f64 {
        let over: u64 = self.steps.iter().skip(step(us) + 1).sum();
        match self.total {
            0 => 0.0,
            total => over as f64 / total as f64,
        }
    }
}

fn step(us: u64) -> usize {
    let shift = (u64::BITS - (us / FINE_US).leading_zeros()) as usize;
    shift * 16 + (us >> shift) as usize
}

/// What is in the step at most.
fn highest(step: usize) -> u64 {
    if step < FINE_US as usize {
        return step as u64;
    }
    let shift = step / 16 - 1;
    ((step % 16 + 17) as u64).wrapping_shl(shift as u32) - 1
}

/// A lost packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drop {
    /// `CLOCK_MONOTONIC`, as recordings.
    pub time_ns: u64,
    pub cause: Cause,
    /// With its Ethernet header.
    pub bytes: u64,
    pub segment: Option<Segment>,
}

#[derive(Serialize)]
struct Line<'a> {
    mono_ns: u64,
    cause: &'a str,
    bytes: u64,
    sport: Option<u16>,
    dport: Option<u16>,
    seq: Option<u32>,
    payload: Option<u32>,
}

/// One JSON object a lost packet; unknown = null.
pub fn write(out: &mut impl Write, drops: &[Drop]) -> io::Result<()> {
    for drop in drops {
        let line = Line {
            mono_ns: drop.time_ns,
            cause: drop.cause.name(),
            bytes: drop.bytes,
            sport: drop.segment.map(|s| s.source_port),
            dport: drop.segment.map(|s| s.destination_port),
            seq: drop.segment.map(|s| s.seq),
            payload: drop.segment.map(|s| s.payload),
        };
        serde_json::to_writer(&mut *out, &line)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_lateness() {
        let mut late = Lateness::default();
        assert_eq!((late.quantile_us(0.99), late.max_us()), (None, None));
        for us in 0..1000 {
            late.add(us);
        }
        for (quantile, exact) in [(0.01, 9), (0.5, 499), (0.99, 989), (1.0, 999)] {
            let told = late.quantile_us(quantile).unwrap();
            assert!(
                told >= exact && told <= exact + exact / 16,
                "{quantile}: {told}"
            );
        }
        assert!((late.share_over(500) - 0.499).abs() < 0.04);
        assert!(late.share_over(2000) == 0.0);
        late.add(u64::MAX);
        assert_eq!(late.max_us(), Some(u64::MAX));
        for us in [0, 1, 31, 32, 33, 63, 64, 1023, 1024, 1 << 40] {
            let top = highest(step(us));
            assert!(top >= us && top <= us + us / 16, "{us}: {top}");
            assert!(step(top + 1) == step(us) + 1, "{us}: {top}");
        }
    }

    #[test]
    fn a_lost_packet_is_a_line() {
        let segment = Segment {
            source_port: 1,
            destination_port: 5201,
            seq: 9,
            payload: 1448,
        };
        let drops = [Some(segment), None].map(|segment| Drop {
            time_ns: 5,
            cause: Cause::Queue,
            bytes: 1514,
            segment,
        });
        let mut text = Vec::new();
        write(&mut text, &drops).unwrap();
        let expected = "{\"mono_ns\":5,\"cause\":\"queue\",\"bytes\":1514,\"sport\":1,\"dport\":5201,\"seq\":9,\"payload\":1448}\n\
             {\"mono_ns\":5,\"cause\":\"queue\",\"bytes\":1514,\"sport\":null,\"dport\":null,\"seq\":null,\"payload\":null}\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
