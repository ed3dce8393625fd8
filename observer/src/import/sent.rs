//! What a sender has in flight, from its packets: which bytes went when, which came again, which arrived.

use std::collections::BTreeMap;

use crate::event::RetransmitKind;

/// Entries of one flow, at most: where acknowledgements were not captured it would grow for ever.
const MOST: usize = 1 << 19;
/// A hole in what was seen that is filled so soon was the capture's order, not the sender's (Wireshark takes the same).
const REORDERED_NS: u64 = 3_000_000;
/// The same packet seen at a second interface of the host.
const TWICE_NS: u64 = 1_000_000_000;

/// Bytes sent together, in one state.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    end: u64,
    /// When it last went.
    at: u64,
    tsval: Option<u32>,
    first_tsval: Option<u32>,
    id: u16,
    /// It went more than once (Karn).
    again: bool,
    /// A retransmission of it is on its way.
    out: bool,
    sacked: bool,
    lost: bool,
    /// Not captured: known only from what followed.
    unseen: bool,
    /// The flow's when it went, for the rate (`tcp_rate_skb_sent`).
    delivered: u32,
    delivered_ns: u64,
    first_ns: u64,
}

/// Segments in each state, as the kernel counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    pub packets_out: u32,
    pub sacked_out: u32,
    pub lost_out: u32,
    pub retrans_out: u32,
}

/// What a data segment turned out to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Went {
    pub again: Option<Again>,
    /// Seen before, at another interface.
    pub twice: bool,
}

/// A retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    pub begin: u64,
    pub end: u64,
    pub kind: RetransmitKind,
}

/// What an acknowledgement brought.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrived {
    /// Segments.
    pub delivered: u32,
    /// Send time of the newest segment, when it is beyond doubt which transmission arrived.
    pub newest: Option<u64>,
    /// The same of the earliest and the latest that went once.
    pub first_once: Option<u64>,
    pub last_once: Option<u64>,
    again: bool,
    rated: Option<Sent>,
    /// Bytes acknowledged that were never seen to go.
    pub unseen_bytes: u64,
}

#[derive(Debug)]
pub struct Flight {
    map: BTreeMap<u64, Sent>,
    mss: u32,
    pub una: u64,
    pub nxt: u64,
    levels: Levels,
    pub delivered: u32,
    delivered_ns: u64,
    first_ns: u64,
    /// Bytes per second.
    pub rate: Option<u64>,
    /// Everything below was looked at for losses.
    looked: u64,
    sack_high: u64,
    /// Fast recovery lasts until this is acknowledged; likewise after a timeout.
    recovery: Option<u64>,
    timeout: Option<u64>,
    repeated_acks: u32,
    last_sent_ns: u64,
    last_ack_ns: u64,
    backoff: u32,
    probed: bool,
    /// Entries had to be given up.
    pub crowded: bool,
}

impl Flight {
    /// Nothing sent before `at`.
    pub fn new(at: u64, mss: u32) -> Self {
        Self {
            map: BTreeMap::new(),
            mss: mss.max(1),
            una: at,
            nxt: at,
            levels: Levels::default(),
            delivered: 0,
            delivered_ns: 0,
            first_ns: 0,
            rate: None,
            looked: at,
            sack_high: at,
            recovery: None,
            timeout: None,
            repeated_acks: 0,
            last_sent_ns: 0,
            last_ack_ns: 0,
            backoff: 0,
            probed: false,
            crowded: false,
        }
    }

    pub fn levels(&self) -> Levels {
        self.levels
    }

    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    pub fn segments(&self, bytes: u64) -> u32 {
        bytes.div_ceil(self.mss.into()).min(u32::MAX.into()) as u32
    }

    /// Takes payload of `[begin, end)` that went now.
    pub fn sent(
        &mut self,
        now: u64,
        (begin, end): (u64, u64),
        tsval: Option<u32>,
        id: u16,
        rto_ns: u64,
        srtt_ns: u64,
    ) -> Went {
        if self.is_twice(now, begin, end, tsval, id) {
            return Went {
                again: None,
                twice: true,
            };
        }
        if self.map.is_empty() {
            (self.first_ns, self.delivered_ns) = (now, now);
        }
        let entry = Sent {
            end,
            at: now,
            tsval,
            first_tsval: tsval,
            id,
            again: false,
            out: false,
            sacked: false,
            lost: false,
            unseen: false,
            delivered: self.delivered,
            delivered_ns: self.delivered_ns,
            first_ns: self.first_ns,
        };
        let old_end = end.min(self.nxt);
        let again = if begin < old_end && !self.fills(now, begin, old_end, entry) {
            let kind = self.kind(now, begin, old_end, rto_ns, srtt_ns);
            self.mark_again(begin, old_end, entry, kind);
            Some(Again {
                begin,
                end: old_end,
                kind,
            })
        } else {
            None
        };
        if end > self.nxt {
            if begin > self.nxt {
                let unseen = Sent {
                    end: begin,
                    unseen: true,
                    tsval: None,
                    ..entry
                };
                self.insert(self.nxt, unseen);
            }
            self.insert(begin.max(self.nxt), entry);
            self.nxt = end;
        }
        self.last_sent_ns = now;
        Went {
            again,
            twice: false,
        }
    }

    /// The same packet, seen at another interface: the same IP identification, or nothing that differs at once.
    fn is_twice(&self, now: u64, begin: u64, end: u64, tsval: Option<u32>, id: u16) -> bool {
        let Some((start, known)) = self.map.range(..=begin).next_back() else {
            return false;
        };
        let same = *start == begin && known.end == end && known.tsval == tsval && known.id == id;
        same && id != 0 && now.saturating_sub(known.at) < TWICE_NS
    }

    /// Whether a hole in what was seen is filled out of order; the entry takes its place then.
    fn fills(&mut self, now: u64, begin: u64, end: u64, entry: Sent) -> bool {
        let Some((start, known)) = self.map.range(..=begin).next_back().map(|(s, e)| (*s, *e))
        else {
            return false;
        };
        let soon = now.saturating_sub(known.at) <= REORDERED_NS;
        if !known.unseen || !soon || end > known.end || begin < start {
            return false;
        }
        self.split(begin);
        self.split(end);
        if let Some(hole) = self.remove(begin) {
            self.insert(
                begin,
                Sent {
                    end,
                    sacked: hole.sacked,
                    ..entry
                },
            );
        }
        true
    }

    /// What the sender had reason for, as far as its packets tell.
    fn kind(
        &mut self,
        now: u64,
        begin: u64,
        end: u64,
        rto_ns: u64,
        srtt_ns: u64,
    ) -> RetransmitKind {
        if let Some(until) = self.timeout
            && begin < until
            && begin > self.una
        {
            return RetransmitKind::SlowStart;
        }
        let quiet = now.saturating_sub(self.last_sent_ns.max(self.last_ack_ns));
        let head = begin <= self.una;
        let waited = |ns: u64| quiet >= ns / 10 * 9;
        if head && waited(rto_ns << self.backoff.min(6)) {
            self.backoff += 1;
            self.timeout = Some(self.nxt);
            self.recovery = None;
            self.lose_all();
            return RetransmitKind::Rto;
        }
        if head && self.timeout.is_some() {
            return RetransmitKind::SlowStart;
        }
        let lost = self
            .map
            .range(..=begin)
            .next_back()
            .is_some_and(|(_, known)| known.lost && known.end > begin);
        let recovering = self.recovery.is_some_and(|until| begin < until);
        if lost || recovering || (head && self.repeated_acks >= 3) {
            self.recovery.get_or_insert(self.nxt);
            return RetransmitKind::Fast;
        }
        if end == self.nxt && !self.probed && waited(2 * srtt_ns) {
            self.probed = true;
            return RetransmitKind::Tlp;
        }
        RetransmitKind::Other
    }

    fn lose_all(&mut self) {
        let mut levels = self.levels;
        for (start, entry) in &mut self.map {
            if !entry.sacked && !entry.lost {
                entry.lost = true;
                levels.lost_out += segments(self.mss, *start, entry.end);
            }
            if entry.out && !entry.sacked {
                // What went again is lost too.
                levels.retrans_out -= segments(self.mss, *start, entry.end);
                entry.out = false;
            }
        }
        self.levels = levels;
    }

    fn mark_again(&mut self, begin: u64, end: u64, new: Sent, kind: RetransmitKind) {
        self.split(begin);
        self.split(end);
        let starts: Vec<u64> = self
            .map
            .range(begin..end)
            .map(|(start, _)| *start)
            .collect();
        for start in starts {
            let Some(mut entry) = self.remove(start) else {
                continue;
            };
            entry.lost |= !entry.sacked && kind != RetransmitKind::Tlp;
            let first_tsval = entry.first_tsval.filter(|_| !entry.unseen);
            entry = Sent {
                end: entry.end,
                sacked: entry.sacked,
                lost: entry.lost,
                first_tsval,
                again: true,
                out: true,
                ..new
            };
            self.insert(start, entry);
        }
    }

    /// Takes an acknowledgement up to `ack` with SACK blocks. `echo` = TSecr.
    pub fn acked(
        &mut self,
        now: u64,
        ack: u64,
        blocks: impl Iterator<Item = (u64, u64)>,
        echo: Option<u32>,
        min_rtt_us: Option<u32>,
    ) -> Arrived {
        let mut arrived = Arrived::default();
        if ack > self.nxt {
            arrived.unseen_bytes = ack - self.nxt;
            self.nxt = ack;
        }
        for (begin, end) in blocks {
            let (begin, end) = (begin.max(self.una), end.min(self.nxt));
            if begin < end {
                self.sack(begin, end, echo, &mut arrived);
            }
        }
        if ack > self.una {
            self.advance(ack, echo, &mut arrived);
        } else if ack == self.una && arrived.delivered == 0 && !self.map.is_empty() {
            self.repeated_acks += 1;
        }
        if arrived.delivered > 0 {
            self.delivered = self.delivered.wrapping_add(arrived.delivered);
            self.rate_of(now, &arrived, min_rtt_us);
            self.delivered_ns = now;
            self.probed = false;
        }
        self.find_losses();
        self.last_ack_ns = now;
        arrived
    }

    fn sack(&mut self, begin: u64, end: u64, echo: Option<u32>, arrived: &mut Arrived) {
        // Most blocks grow at their end: what is marked already need not be split.
        let covered =
            |at: Option<(&u64, &Sent)>| at.is_some_and(|(_, e)| e.sacked && e.end > begin);
        if !covered(self.map.range(..=begin).next_back()) {
            self.split(begin);
        }
        self.split(end);
        let starts: Vec<u64> = self
            .map
            .range(begin..end)
            .filter(|(_, entry)| !entry.sacked)
            .map(|(start, _)| *start)
            .collect();
        for start in starts {
            if let Some(mut entry) = self.remove(start) {
                self.arrived(start, &entry, echo, arrived);
                entry.sacked = true;
                entry.lost = false;
                self.insert(start, entry);
            }
        }
        self.sack_high = self.sack_high.max(end);
    }

    fn advance(&mut self, ack: u64, echo: Option<u32>, arrived: &mut Arrived) {
        self.split(ack);
        while let Some((start, _)) = self.map.first_key_value() {
            let start = *start;
            if start >= ack {
                break;
            }
            if let Some(entry) = self.remove(start)
                && !entry.sacked
            {
                self.arrived(start, &entry, echo, arrived);
            }
        }
        self.una = ack;
        self.repeated_acks = 0;
        self.backoff = 0;
        self.recovery = self.recovery.filter(|until| ack < *until);
        self.timeout = self.timeout.filter(|until| ack < *until);
    }

    fn arrived(&self, start: u64, entry: &Sent, echo: Option<u32>, arrived: &mut Arrived) {
        arrived.delivered += segments(self.mss, start, entry.end);
        if entry.unseen {
            return;
        }
        let told = echo.is_some() && echo == entry.tsval && entry.first_tsval != entry.tsval;
        if !entry.again || (told && entry.first_tsval.is_some()) {
            arrived.newest = arrived.newest.max(Some(entry.at));
        }
        if entry.again {
            arrived.again = true;
        } else {
            arrived.first_once = Some(arrived.first_once.map_or(entry.at, |t| t.min(entry.at)));
            arrived.last_once = arrived.last_once.max(Some(entry.at));
        }
        if arrived.rated.is_none_or(|rated| entry.at >= rated.at) {
            arrived.rated = Some(*entry);
        }
    }

    /// `tcp_rate_gen`: the slower of the rates at which the newest was sent and arrived.
    fn rate_of(&mut self, now: u64, arrived: &Arrived, min_rtt_us: Option<u32>) {
        let Some(rated) = arrived.rated else {
            return;
        };
        self.first_ns = rated.at;
        let sending = rated.at.saturating_sub(rated.first_ns);
        let arriving = now.saturating_sub(rated.delivered_ns);
        let interval = sending.max(arriving);
        let too_short = u64::from(min_rtt_us.unwrap_or(0)) * 1000;
        if interval == 0 || interval < too_short {
            return;
        }
        let segments = self.delivered.wrapping_sub(rated.delivered);
        let bytes = u128::from(segments) * u128::from(self.mss);
        self.rate = u64::try_from(bytes * 1_000_000_000 / u128::from(interval)).ok();
    }

    /// Lost = three segments above it have arrived (RFC 6675).
    fn find_losses(&mut self) {
        if self.sack_high <= self.una {
            return;
        }
        let mut above = 0;
        let mut edge = None;
        for (start, entry) in self.map.range(..self.sack_high).rev() {
            if entry.sacked {
                above += segments(self.mss, *start, entry.end);
                if above >= 3 {
                    edge = Some(*start);
                    break;
                }
            }
        }
        let Some(edge) = edge.filter(|edge| *edge > self.looked) else {
            return;
        };
        let from = self.looked.max(self.una);
        let mut lost = 0;
        for (start, entry) in self.map.range_mut(from.min(edge)..edge) {
            if !entry.sacked && !entry.lost {
                entry.lost = true;
                lost += segments(self.mss, *start, entry.end);
            }
        }
        self.levels.lost_out += lost;
        self.looked = edge;
    }

    fn insert(&mut self, start: u64, entry: Sent) {
        self.count(start, &entry, u32::wrapping_add);
        self.map.insert(start, entry);
        if self.map.len() > MOST {
            self.crowded = true;
            if let Some((start, _)) = self.map.first_key_value() {
                let start = *start;
                self.remove(start);
            }
        }
    }

    fn remove(&mut self, start: u64) -> Option<Sent> {
        let entry = self.map.remove(&start)?;
        self.count(start, &entry, u32::wrapping_sub);
        Some(entry)
    }

    fn count(&mut self, start: u64, entry: &Sent, add: fn(u32, u32) -> u32) {
        let n = segments(self.mss, start, entry.end);
        let levels = &mut self.levels;
        levels.packets_out = add(levels.packets_out, n);
        if entry.sacked {
            levels.sacked_out = add(levels.sacked_out, n);
        } else {
            if entry.lost {
                levels.lost_out = add(levels.lost_out, n);
            }
            if entry.out {
                levels.retrans_out = add(levels.retrans_out, n);
            }
        }
    }

    /// Makes `at` the begin of an entry, where it is inside of one.
    fn split(&mut self, at: u64) {
        let Some((start, entry)) = self.map.range(..at).next_back().map(|(s, e)| (*s, *e)) else {
            return;
        };
        if entry.end <= at {
            return;
        }
        self.remove(start);
        self.insert(start, Sent { end: at, ..entry });
        self.insert(at, entry);
    }
}

fn segments(mss: u32, begin: u64, end: u64) -> u32 {
    end.saturating_sub(begin)
        .div_ceil(mss.into())
        .min(u32::MAX.into()) as u32
}

impl Arrived {
    /// For smoothing: nothing that went twice may be among what was acknowledged (Karn).
    pub fn smoothed(&self) -> Option<u64> {
        self.first_once.filter(|_| !self.again)
    }
}
