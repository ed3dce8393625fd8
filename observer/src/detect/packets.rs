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

/// All that left for the first time, in the order of sending, and the retransmissions.
pub fn sent(track: &Track) -> Vec<Sent> {
    let mut out = Vec::new();
    let mss = u64::from(track.mss);
    if mss == 0 {
        return out;
    }
    // By sequence: the order in which data leaves for the first time.
    let mut order: Vec<usize> = (0..track.losses.len()).collect();
    order.sort_unstable_by_key(|at| track.losses[*at].seq);
    let mut losses = order.into_iter().peekable();
    let points: Vec<Point> = track.points.iter().copied().collect();
    for pair in points.windows(2) {
        let [from, to] = pair else { continue };
        // More than any window: numbers that are none.
        if to.nxt <= from.nxt || to.nxt - from.nxt > MOST_BYTES {
            continue;
        }
        let (begin, end) = span(track, from, to);
        let count = (to.nxt - from.nxt).div_ceil(mss);
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
                    bytes: u32::try_from(stop - seq).unwrap_or(u32::MAX),
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
    for again in &track.agains {
        out.push(Sent {
            packet: Packet {
                time_ns: again.time_ns,
                bytes: again.bytes,
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

/// When the bytes between two samples left. With nothing outstanding before, they left about an RTT before the sample
/// that their ACK caused.
fn span(track: &Track, from: &Point, to: &Point) -> (u64, u64) {
    let begin = if from.una >= from.nxt {
        from.time_ns
            .max(to.time_ns.saturating_sub(track.rtt_ns() * 6 / 5))
    } else {
        from.time_ns
    };
    (begin, to.time_ns.max(begin))
}
