//! The first pass: of each connection who sends, how large segments are, and on which side the packets were taken.

use super::segment::Segment;
use super::table::Place;

/// Of one end.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    bytes: u64,
    largest: u32,
    /// Segments of the largest size.
    of_largest: u32,
    /// … larger than any MSS of Ethernet, and those of them that are whole multiples of the usual one.
    large: u32,
    multiples: u32,
    mss_option: Option<u16>,
    timestamps: bool,
    syn_ns: Option<u64>,
    first_ack_ns: Option<u64>,
    sends_ipv6: bool,
}

/// Of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surveyed {
    ends: [End; 2],
    opener: Option<usize>,
}

impl Surveyed {
    pub fn take(&mut self, wall_ns: u64, place: Place, segment: &Segment) {
        if segment.syn() && !segment.has_ack() {
            self.opener.get_or_insert(place.end);
        }
        let end = &mut self.ends[place.end];
        end.sends_ipv6 = segment.src.is_ipv6();
        end.bytes = end.bytes.saturating_add(segment.len.into());
        if segment.syn() {
            end.mss_option = segment.options.mss.or(end.mss_option);
            // Only an answer to the last one is timed: a repetition is not.
            end.syn_ns = if end.syn_ns.is_none() {
                Some(wall_ns)
            } else {
                Some(u64::MAX)
            };
        } else if segment.has_ack() {
            end.first_ack_ns.get_or_insert(wall_ns);
        }
        end.timestamps |= segment.options.timestamps.is_some() && !segment.syn();
        match segment.len.cmp(&end.largest) {
            std::cmp::Ordering::Greater => (end.largest, end.of_largest) = (segment.len, 1),
            std::cmp::Ordering::Equal => end.of_largest = end.of_largest.saturating_add(1),
            std::cmp::Ordering::Less => {}
        }
        let usual = end.usual();
        if segment.len > 1460 {
            end.large = end.large.saturating_add(1);
            end.multiples += u32::from(segment.len.is_multiple_of(usual));
        }
    }

    /// The end whose payload this is about: who sent more; else who opened.
    pub fn sender(&self) -> usize {
        match self.ends[0].bytes.cmp(&self.ends[1].bytes) {
            std::cmp::Ordering::Greater => 0,
            std::cmp::Ordering::Less => 1,
            std::cmp::Ordering::Equal => self.opener.unwrap_or(0),
        }
    }

    /// Bytes that a full segment of this end carries.
    pub fn mss(&self, end: usize) -> u32 {
        let (own, other) = (&self.ends[end], &self.ends[1 - end]);
        let timestamps = if own.timestamps { 12 } else { 0 };
        let agreed = match (own.mss_option, other.mss_option) {
            (Some(a), Some(b)) => Some(u32::from(a.min(b)).saturating_sub(timestamps).max(1)),
            _ => None,
        };
        match agreed {
            // The path takes less than was agreed on: nothing larger, and often the same.
            Some(agreed) if own.largest < agreed && own.of_largest >= 10 => own.largest.max(1),
            Some(agreed) => agreed,
            None if own.large > own.multiples => own.largest.clamp(1, 65_535),
            None if own.largest > own.usual() || own.of_largest < 4 => own.usual(),
            None => own.largest.max(1),
        }
    }

    /// The packets were taken nearer to who receives: by the two halves of the handshake.
    pub fn is_far(&self) -> bool {
        let Some(opener) = self.opener else {
            return false;
        };
        let (first, second) = (&self.ends[opener], &self.ends[1 - opener]);
        let times = (first.syn_ns, second.syn_ns, first.first_ack_ns);
        let (Some(syn), Some(answer), Some(ack)) = times else {
            return false;
        };
        if answer == u64::MAX {
            return false;
        }
        let beyond_second = answer.saturating_sub(syn);
        let beyond_opener = ack.saturating_sub(answer);
        let (own, other) = if self.sender() == opener {
            (beyond_opener, beyond_second)
        } else {
            (beyond_second, beyond_opener)
        };
        own > 1_000_000 && own / 4 > other
    }
}

impl End {
    /// Ethernet's, where no handshake tells.
    fn usual(&self) -> u32 {
        let headers = if self.sends_ipv6 { 60 } else { 40 };
        1500 - headers - if self.timestamps { 12 } else { 0 }
    }
}
