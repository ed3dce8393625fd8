//! What happens to a packet on the way, in numbers: random and bursty loss, the policer, the queue before the link, the
//! way back. Pure: moments come in, moments go out, so that a machine that wakes late still gives the right rate.

use std::collections::VecDeque;

use crate::lab::path::{BURST_LENGTH, BURST_LOSS, Limit, Path, Policer};

/// Why a packet did not get through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    Random,
    Burst,
    Policer,
    Queue,
}

impl Cause {
    pub const ALL: [Self; 4] = [Self::Random, Self::Burst, Self::Policer, Self::Queue];

    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Burst => "burst",
            Self::Policer => "policer",
            Self::Queue => "queue",
        }
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It leaves at this moment, ns; `marked`: congestion experienced.
    Leaves {
        at_ns: u64,
        marked: bool,
    },
    Lost(Cause),
}

/// Toward the receiver.
#[derive(Debug)]
pub struct Forward {
    loss: f64,
    burst: Option<Bursts>,
    policer: Option<Bucket>,
    queue: Queue,
    ecn: bool,
    random: fastrand::Rng,
}

impl Forward {
    pub fn new(path: &Path) -> Self {
        Self {
            loss: path.loss,
            burst: (path.burst_loss > 0.0).then(|| Bursts::new(path.burst_loss)),
            policer: path.policer.map(Bucket::new),
            queue: Queue::new(path.rate_bps, path.limit()),
            ecn: path.ecn,
            random: fastrand::Rng::with_seed(path.seed),
        }
    }

    /// `capable`: the packet may be marked instead of lost.
    pub fn offer(&mut self, now_ns: u64, bytes: u64, capable: bool) -> Fate {
        let mut marked = false;
        // Both draw for every packet, so that one does not shift the other's row.
        let burst = self
            .burst
            .as_mut()
            .is_some_and(|b| b.loses(&mut self.random));
        let random = self.loss > 0.0 && self.random.f64() < self.loss;
        if burst {
            return Fate::Lost(Cause::Burst);
        }
        if random {
            if !(self.ecn && capable) {
                return Fate::Lost(Cause::Random);
            }
            marked = true;
        }
        if let Some(policer) = &mut self.policer
            && !policer.passes(now_ns, bytes)
        {
            return Fate::Lost(Cause::Policer);
        }
        match self.queue.offer(now_ns, bytes) {
            Some(at_ns) => Fate::Leaves { at_ns, marked },
            None => Fate::Lost(Cause::Queue),
        }
    }

    /// The policer's bucket full, the queue as it is.
    pub fn refill(&mut self) {
        if let Some(policer) = &mut self.policer {
            *policer = Bucket::new(policer.policer);
        }
    }
}

/// Gilbert's model: a path that is good, or bad and loses most.
#[derive(Debug)]
struct Bursts {
    to_bad: f64,
    to_good: f64,
    bad: bool,
}

impl Bursts {
    fn new(share: f64) -> Self {
        let (to_bad, to_good) = burst_odds(share);
        Self {
            to_bad,
            to_good,
            bad: false,
        }
    }

    fn loses(&mut self, random: &mut fastrand::Rng) -> bool {
        let change = if self.bad { self.to_good } else { self.to_bad };
        self.bad ^= random.f64() < change;
        self.bad && random.f64() < BURST_LOSS
    }
}

/// The odds, a packet, of a good path to become bad and of a bad one to become good, so that `share` is lost in the mean.
pub fn burst_odds(share: f64) -> (f64, f64) {
    let bad = share / BURST_LOSS;
    let to_good = 1.0 / BURST_LENGTH;
    (to_good * bad / (1.0 - bad), to_good)
}

/// A token bucket that drops. Tokens are counted in bits × ns, so that nothing is rounded away.
#[derive(Debug)]
struct Bucket {
    policer: Policer,
    /// Bits × 10⁹.
    tokens: u128,
    last_ns: Option<u64>,
}

const GIGA: u128 = 1_000_000_000;

impl Bucket {
    fn new(policer: Policer) -> Self {
        Self {
            policer,
            tokens: u128::from(policer.burst_bytes) * 8 * GIGA,
            last_ns: None,
        }
    }

    fn passes(&mut self, now_ns: u64, bytes: u64) -> bool {
        let passed = now_ns.saturating_sub(self.last_ns.unwrap_or(now_ns));
        self.last_ns = Some(now_ns.max(self.last_ns.unwrap_or(0)));
        let most = u128::from(self.policer.burst_bytes) * 8 * GIGA;
        let earned = u128::from(passed) * u128::from(self.policer.rate_bps);
        self.tokens = (self.tokens + earned).min(most);
        let price = u128::from(bytes) * 8 * GIGA;
        let passes = self.tokens >= price;
        if passes {
            self.tokens -= price;
        }
        passes
    }
}

/// A queue that drops at its tail, before a link of a rate.
#[derive(Debug)]
struct Queue {
    rate_bps: u64,
    limit: Limit,
    /// When each that waits has left, and its bytes.
    waiting: VecDeque<(u64, u64)>,
    bytes: u64,
    /// The link is free from here, in ns, and the rest of a division by the rate.
    free_ns: u64,
    rest: u128,
}

impl Queue {
    fn new(rate_bps: u64, limit: Limit) -> Self {
        Self {
            rate_bps,
            limit,
            waiting: VecDeque::new(),
            bytes: 0,
            free_ns: 0,
            rest: 0,
        }
    }

    /// When the packet has left; `None` = there was no room.
    fn offer(&mut self, now_ns: u64, bytes: u64) -> Option<u64> {
        while let Some((left, size)) = self.waiting.front().copied()
            && left <= now_ns
        {
            self.waiting.pop_front();
            self.bytes -= size;
        }
        let room = match self.limit {
            Limit::Packets(packets) => (self.waiting.len() as u64) < packets,
            Limit::Bytes(limit) => self.bytes + bytes <= limit || self.waiting.is_empty(),
        };
        if !room {
            return None;
        }
        if self.free_ns < now_ns {
            (self.free_ns, self.rest) = (now_ns, 0);
        }
        let work = u128::from(bytes) * 8 * GIGA + self.rest;
        let rate = u128::from(self.rate_bps);
        self.free_ns += u64::try_from(work / rate).unwrap_or(u64::MAX / 4);
        self.rest = work % rate;
        self.waiting.push_back((self.free_ns, bytes));
        self.bytes += bytes;
        Some(self.free_ns)
    }
}

/// Toward the sender: never lost, never reordered.
#[derive(Debug)]
pub struct Back {
    delay_ns: u64,
    jitter_ns: u64,
    batch_ns: u64,
    last_ns: u64,
    random: fastrand::Rng,
}

impl Back {
    pub fn new(path: &Path) -> Self {
        let ns = |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(0);
        Self {
            delay_ns: ns(path.rtt),
            jitter_ns: ns(path.jitter),
            batch_ns: ns(path.ack_batch),
            last_ns: 0,
            // Another row than the way forward's.
            random: fastrand::Rng::with_seed(path.seed.wrapping_add(0x9e37_79b9_7f4a_7c15)),
        }
    }

    /// When it leaves.
    pub fn offer(&mut self, now_ns: u64) -> u64 {
        let mut at = now_ns + self.delay_ns;
        if self.jitter_ns > 0 {
            at = (at + self.random.u64(0..=2 * self.jitter_ns)).saturating_sub(self.jitter_ns);
        }
        if self.batch_ns > 0 {
            at = at.next_multiple_of(self.batch_ns);
        }
        self.last_ns = at.max(self.last_ns).max(now_ns);
        self.last_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::path::{Buffer, policer};
    use std::time::Duration;

    const S: u64 = 1_000_000_000;

    fn path() -> Path {
        Path {
            rate_bps: 100_000_000,
            rtt: Duration::from_millis(40),
            buffer: Buffer::Bdp(1.0),
            loss: 0.0,
            burst_loss: 0.0,
            jitter: Duration::ZERO,
            policer: None,
            ack_batch: Duration::ZERO,
            ecn: false,
            seed: 7,
        }
    }

    fn lost(fate: Fate) -> Option<Cause> {
        match fate {
            Fate::Lost(cause) => Some(cause),
            Fate::Leaves { .. } => None,
        }
    }

    #[test]
    fn the_link_lets_through_its_rate_and_no_more() {
        let mut forward = Forward::new(&path());
        // Twice the rate for ten seconds.
        let (mut passed, mut last) = (0u64, 0);
        let mut now = S;
        while now < 11 * S {
            if let Fate::Leaves { at_ns, .. } = forward.offer(now, 1514, false) {
                passed += 1514;
                assert!(at_ns >= last && at_ns > now, "in order, later");
                last = at_ns;
            }
            now += 60_560;
        }
        let rate = passed as f64 * 8.0 / ((last - S) as f64 / 1e9);
        assert!((rate / 1e8 - 1.0).abs() < 1e-4, "{rate}");
        // A full queue of one BDP is one RTT of waiting.
        assert!(
            (last - now).abs_diff(40_000_000) < 200_000,
            "{}",
            last - now
        );
    }

    #[test]
    fn a_queue_holds_what_it_was_given() {
        let mut small = path();
        small.buffer = Buffer::Packets(10);
        let mut forward = Forward::new(&small);
        let fates: Vec<_> = (0..12)
            .map(|_| lost(forward.offer(S, 1514, false)))
            .collect();
        assert_eq!(fates[..10], [None; 10]);
        assert_eq!(fates[10..], [Some(Cause::Queue); 2]);
        // One has left after its time on the wire.
        assert_eq!(lost(forward.offer(S + 121_121, 1514, false)), None);
        assert_eq!(
            lost(forward.offer(S + 121_121, 1514, false)),
            Some(Cause::Queue)
        );
        small.buffer = Buffer::Bytes(3100);
        let mut forward = Forward::new(&small);
        let fates: Vec<_> = (0..3)
            .map(|_| lost(forward.offer(S, 1514, false)))
            .collect();
        assert_eq!(fates, [None, None, Some(Cause::Queue)]);
        assert_eq!(
            lost(forward.offer(S, 64, false)),
            None,
            "what is small still fits"
        );
    }

    #[test]
    fn random_loss_is_within_its_binomial_error_and_repeats() {
        let mut lossy = path();
        lossy.loss = 0.01;
        lossy.rate_bps = 10_000_000_000;
        let row = |path: &Path| -> Vec<bool> {
            let mut forward = Forward::new(path);
            (0..200_000u64)
                .map(|i| lost(forward.offer(S + i * 10_000, 1514, false)) == Some(Cause::Random))
                .collect()
        };
        let first = row(&lossy);
        let count = first.iter().filter(|lost| **lost).count() as f64;
        // 2000 ± 4 × √(200000 × 0.01 × 0.99)
        assert!((count - 2000.0).abs() < 4.0 * 44.5, "{count}");
        assert_eq!(first, row(&lossy));
        lossy.seed = 8;
        assert_ne!(first, row(&lossy));
    }

    #[test]
    fn bursts_lose_their_share_together() {
        let mut bursty = path();
        bursty.burst_loss = 0.01;
        bursty.rate_bps = 10_000_000_000;
        let mut forward = Forward::new(&bursty);
        let row: Vec<bool> = (0..400_000u64)
            .map(|i| lost(forward.offer(S + i * 10_000, 1514, false)) == Some(Cause::Burst))
            .collect();
        let count = row.iter().filter(|lost| **lost).count() as f64;
        assert!((count / 4000.0 - 1.0).abs() < 0.15, "{count}");
        let again = row.windows(2).filter(|pair| pair[0] && pair[1]).count() as f64;
        // Stays bad with 0.75, loses then 0.7; by themselves it would be 0.01.
        assert!((again / count - 0.525).abs() < 0.05, "{}", again / count);
    }

    #[test]
    fn a_policer_passes_its_burst_and_then_its_rate() {
        let mut policed = path();
        policed.policer = Some(policer("10mbit/100k").unwrap());
        let mut forward = Forward::new(&policed);
        let burst = (0..100)
            .filter(|_| lost(forward.offer(S, 1514, false)).is_none())
            .count();
        assert_eq!(burst, 102_400 / 1514);
        // Offered twice its rate for ten seconds.
        let (mut passed, mut now) = (0u64, S);
        while now < 11 * S {
            match lost(forward.offer(now, 1514, false)) {
                None => passed += 1514,
                cause => assert_eq!(cause, Some(Cause::Policer)),
            }
            now += 605_600;
        }
        let rate = passed as f64 * 8.0 / 10.0;
        assert!((rate / 1e7 - 1.0).abs() < 0.01, "{rate}");
    }

    #[test]
    fn with_ecn_random_loss_marks_who_can_be_marked() {
        let mut marking = path();
        (marking.ecn, marking.loss) = (true, 0.999);
        let mut forward = Forward::new(&marking);
        assert_eq!(lost(forward.offer(S, 1514, false)), Some(Cause::Random));
        assert!(matches!(
            forward.offer(S, 1514, true),
            Fate::Leaves { marked: true, .. }
        ));
    }

    #[test]
    fn the_way_back_delays_gathers_and_keeps_the_order() {
        let mut back = Back::new(&path());
        assert_eq!(back.offer(S), S + 40_000_000);
        let mut batched = path();
        batched.ack_batch = Duration::from_millis(4);
        let mut back = Back::new(&batched);
        let at: Vec<u64> = (0..100).map(|i| back.offer(S + i * 100_000)).collect();
        assert!(at.iter().all(|at| at % 4_000_000 == 0));
        let mut jittery = path();
        jittery.jitter = Duration::from_millis(5);
        let mut back = Back::new(&jittery);
        let delays: Vec<(u64, u64)> = (0..1000)
            .map(|i| (S + i * 20_000_000, back.offer(S + i * 20_000_000)))
            .collect();
        assert!(delays.windows(2).all(|pair| pair[0].1 <= pair[1].1));
        let delay = |(from, at): &(u64, u64)| at - from;
        assert!(delays.iter().map(delay).min().unwrap() < 36_000_000);
        assert!(
            delays
                .iter()
                .map(delay)
                .all(|d| (35_000_000..=45_000_000).contains(&d))
        );
    }
}
