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
    /// Packets that left more than a millisecond late; `None` = not measured.
    pub late: Option<u64>,
    /// The latest of them.
    pub latest_us: u64,
}

impl Counts {
    pub fn total_lost(&self) -> u64 {
        self.lost.values().sum()
    }
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
