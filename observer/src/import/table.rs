//! Which connection a segment is of. Both passes over a capture go through it, so that they agree on the numbers.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::segment::Segment;

/// The two ends in the order of their addresses.
pub type Ends = [SocketAddr; 2];

#[derive(Debug)]
struct Latest {
    number: usize,
    /// Where each end's SYN began.
    isn: [Option<u32>; 2],
    carried: bool,
}

/// A segment's connection, and which of its ends sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub number: usize,
    pub end: usize,
    /// It is the connection's first.
    pub new: bool,
    /// The tuple's connection before, which is over.
    pub replaced: Option<usize>,
}

#[derive(Debug, Default)]
pub struct Table {
    latest: HashMap<Ends, Latest>,
    connections: usize,
}

impl Table {
    /// `None` = a socket that speaks to itself: its two ends cannot be told apart.
    pub fn place(&mut self, segment: &Segment) -> Option<Place> {
        let end = match segment.src.cmp(&segment.dst) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => return None,
            std::cmp::Ordering::Greater => 1,
        };
        let ends = if end == 0 {
            [segment.src, segment.dst]
        } else {
            [segment.dst, segment.src]
        };
        let opening = segment.syn() && !segment.has_ack();
        let known = self.latest.get_mut(&ends);
        let mut replaced = None;
        if let Some(latest) = known {
            // The same tuple again (TRAPS 18): a SYN that is no repetition.
            let again = opening && latest.isn[end] != Some(segment.seq);
            // Both at once: the other end's SYN came, nothing else.
            let crossing = latest.isn[end].is_none() && !latest.carried;
            if !again || crossing {
                if segment.syn() {
                    latest.isn[end] = Some(segment.seq);
                } else {
                    latest.carried = true;
                }
                return Some(Place {
                    number: latest.number,
                    end,
                    new: false,
                    replaced: None,
                });
            }
            replaced = Some(latest.number);
        }
        let number = self.connections;
        self.connections += 1;
        let mut isn = [None; 2];
        if segment.syn() {
            isn[end] = Some(segment.seq);
        }
        let latest = Latest {
            number,
            isn,
            carried: !segment.syn(),
        };
        self.latest.insert(ends, latest);
        Some(Place {
            number,
            end,
            new: true,
            replaced,
        })
    }
}
