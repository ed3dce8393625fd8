//! What left, packet by packet, put together from the samples of a flow.

use super::tokens::Packet;
use super::track::{Point, Push, Track};

/// Packets of one flow that are looked at, at most.
const MOST: usize = 65_536;

/// Bytes that may leave between two samples: the largest window there is (RFC 7323).
const MOST_BYTES: u64 = 1 << 30;

/// A packet with what was known when it left.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub packet: Packet,
    pub push: Push,
    pub startup: bool,
    pub app_limited: bool,
    /// Index of the loss in the track, of its first packet.
    pub loss: Option<usize>,
}

/// All that left since `from_ns` for the first time, in the order of sending, and the retransmissions.
pub fn sent(track: &Track, from_ns: u64) -> Vec<Sent> {
    let mut out = Vec::new();
    let mss = u64::from(track.mss);
    if mss == 0 {
        return out;
    }
    let headers = track.headers();
    // By sequence: the order in which data leaves for the first time.
    let mut order: Vec<usize> = (0..track.losses.len()).collect();
    order.sort_unstable_by_key(|at| track.losses[*at].seq);
    let mut losses = order.into_iter().peekable();
    for (from, to) in latest(track, from_ns, mss) {
        let (begin, end) = span(track, from, to);
        let count = count(from, to, mss);
        for number in 0..count {
            let seq = from.nxt + number * mss;
            let stop = (seq + mss).min(to.nxt);
            let mut first = None;
            let mut lost = false;
            while let Some(at) = losses.peek().copied() {
                let loss = &track.losses[at];
                if loss.end <= seq {
                    losses.next();
                    continue;
                }
                if loss.seq >= stop {
                    break;
                }
                lost = true;
                if loss.seq >= seq {
                    first = Some(at);
                }
                if loss.end > stop {
                    break;
                }
                losses.next();
            }
            let part = (number + 1) as f64 / count as f64;
            let time_ns = begin + ((end - begin) as f64 * part) as u64;
            out.push(Sent {
                packet: Packet {
                    time_ns,
                    bytes: frames(stop - seq, 1, headers),
                    lost,
                    again: false,
                },
                push: from.push,
                startup: track.in_startup(time_ns),
                app_limited: from.app_limited,
                loss: first,
            });
        }
    }
    for again in track.agains.iter().filter(|a| a.time_ns >= from_ns) {
        out.push(Sent {
            packet: Packet {
                time_ns: again.time_ns,
                bytes: frames(u64::from(again.bytes), again.segments, headers),
                lost: again.lost,
                again: true,
            },
            push: Push::Unknown,
            startup: track.in_startup(again.time_ns),
            app_limited: false,
            loss: None,
        });
    }
    out.sort_by_key(|sent| sent.packet.time_ns);
    let surplus = out.len().saturating_sub(MOST);
    out.drain(..surplus);
    out
}

/// Packets that left between two samples. More than any window, or than are kept: numbers that are none.
fn count(from: &Point, to: &Point, mss: u64) -> u64 {
    let bytes = to.nxt.saturating_sub(from.nxt);
    let packets = bytes.div_ceil(mss);
    if bytes > MOST_BYTES || packets > MOST as u64 {
        return 0;
    }
    packets
}

/// Neighbouring samples since `from_ns`, as far back as there are packets that are kept.
fn latest(track: &Track, from_ns: u64, mss: u64) -> Vec<(&Point, &Point)> {
    let points = || track.points.range(track.since(from_ns)..);
    let mut pairs: Vec<(&Point, &Point)> = points().zip(points().skip(1)).collect();
    let mut packets = 0;
    let mut first = pairs.len();
    while first > 0 && packets < MOST as u64 {
        first -= 1;
        let (from, to) = pairs[first];
        packets += count(from, to, mss);
    }
    pairs.drain(..first);
    pairs
}

/// Bytes of the frames.
fn frames(payload: u64, segments: u32, headers: u32) -> u32 {
    let bytes = payload + u64::from(segments.max(1)) * u64::from(headers);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// When the bytes between two samples left: paced ones all along, others with the ACK that let them go, which is the
/// earlier sample's. With nothing outstanding before, they left about an RTT before the sample that their ACK caused.
fn span(track: &Track, from: &Point, to: &Point) -> (u64, u64) {
    if from.una >= from.nxt {
        let first = to.time_ns.saturating_sub(track.rtt_ns() * 6 / 5);
        return (from.time_ns.max(first), to.time_ns.max(from.time_ns));
    }
    let end = if track.bbr == Some(true) {
        to.time_ns.max(from.time_ns)
    } else {
        from.time_ns
    };
    (from.time_ns, end)
}
