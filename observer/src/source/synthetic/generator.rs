//! Made-up flows as the records that the programs would write. Knows no clock: time is given.

use observer_common::flow::{AF_INET, FlowKey, V4_MAPPED};
use observer_common::outcome::Program;
use observer_common::wire::{
    Attributes, Body, CA_WORDS, Full, Header, Owner, RecordKind, Retransmit, Sample, State, flags,
};

use crate::kernel::record;

/// How much of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    pub flows: u32,
    /// Records a second, those of the sweeps with them.
    pub rate: u32,
    /// Flows a second that end, each followed by a new one; their records come on top.
    pub churn: u32,
}

/// By what a record comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    Ring,
    /// The iterator over sockets.
    Sweep,
    /// The iterator over tasks' files.
    Walk,
}

const SECOND_NS: u64 = 1_000_000_000;
/// As often as the live source sweeps, and walks files.
const SWEEP_NS: u64 = SECOND_NS;
const WALK_NS: u64 = 10 * SECOND_NS;
/// One sample in so many follows a retransmission.
const RETRANSMIT_EVERY: u64 = 500;
/// Flows follow each other in an order that no cache can guess.
const STRIDES: [u64; 2] = [7919, 7907];
const MSS: u32 = 1448;

/// A place among the flows; who holds it changes by churn.
#[derive(Clone, Copy, Debug)]
struct Slot {
    cookie: u64,
    /// Of its next record.
    number: u64,
    /// Samples so far.
    count: u64,
    retransmitted: u32,
}

/// See the module above.
#[derive(Debug)]
pub struct Generator {
    traffic: Traffic,
    netns: u32,
    hz: u32,
    slots: Vec<Slot>,
    stride: u64,
    began_ns: u64,
    /// Samples and ends so far.
    samples: u64,
    ends: u64,
    swept_ns: u64,
    walked_ns: Option<u64>,
    next_cookie: u64,
}

impl Generator {
    /// Flows of the namespace `netns`, from `now_ns` on.
    pub fn new(traffic: Traffic, netns: u32, hz: u32, now_ns: u64) -> Self {
        let flows = u64::from(traffic.flows.max(1));
        let slot = |cookie| Slot {
            cookie,
            number: 0,
            count: 0,
            retransmitted: 0,
        };
        let coprime = STRIDES.into_iter().find(|stride| flows % stride != 0);
        Self {
            traffic,
            netns,
            hz,
            slots: (1..=flows).map(slot).collect(),
            stride: coprime.unwrap_or(1),
            began_ns: now_ns,
            samples: 0,
            ends: 0,
            swept_ns: now_ns,
            walked_ns: None,
            next_cookie: flows + 1,
        }
    }

    /// All there is at the start: every flow, by the first sweep.
    pub fn begin(&mut self, take: &mut impl FnMut(Channel, &[u8])) {
        let now = self.began_ns;
        for at in 0..self.slots.len() {
            self.swept(at, now, flags::FIRST, take);
        }
    }

    /// What is due up to `now_ns`.
    pub fn until(&mut self, now_ns: u64, take: &mut impl FnMut(Channel, &[u8])) {
        let flows = self.slots.len() as u64;
        // The sweep tells of every flow that had samples.
        let swept = flows.min(u64::from(self.traffic.rate) / 2);
        let rate = u64::from(self.traffic.rate) - swept;
        // Nothing comes later that is earlier than the sweep: numbers and times of a flow agree.
        while let Some(time) = self.due(self.samples, rate, now_ns) {
            let at = (self.samples * self.stride % flows) as usize;
            self.sample(at, time, take);
            self.samples += 1;
        }
        let churn = u64::from(self.traffic.churn);
        while self.due(self.ends, churn, now_ns).is_some() {
            let at = (self.ends % flows) as usize;
            self.end(at, now_ns, take);
            self.ends += 1;
        }
        if now_ns.saturating_sub(self.swept_ns) >= SWEEP_NS {
            self.swept_ns = now_ns;
            for at in 0..swept as usize {
                self.swept(at, now_ns, 0, take);
            }
        }
        if self
            .walked_ns
            .is_none_or(|last| now_ns.saturating_sub(last) >= WALK_NS)
        {
            self.walked_ns = Some(now_ns);
            for at in 0..self.slots.len() {
                self.walked(at, take);
            }
        }
    }

    /// The moment of the one at this place in a series of so many a second, if it has come; never that of the beginning.
    fn due(&self, place: u64, rate: u64, now_ns: u64) -> Option<u64> {
        let after = u128::from(place + 1) * u128::from(SECOND_NS) / u128::from(rate.max(1));
        let time = self.began_ns.saturating_add(after as u64);
        (rate > 0 && time <= now_ns).then_some(time)
    }

    fn sample(&mut self, at: usize, time: u64, take: &mut impl FnMut(Channel, &[u8])) {
        self.slots[at].count += 1;
        if self.samples % RETRANSMIT_EVERY == RETRANSMIT_EVERY - 1 {
            self.slots[at].retransmitted += 1;
            let header = self.header(at, time, RecordKind::Retransmit, Program::Retransmit);
            let slot = self.slots[at];
            let retransmit = Retransmit {
                header,
                key: self.key(at),
                bytes_retrans: u64::from(slot.retransmitted) * u64::from(MSS),
                bytes: u64::from(MSS),
                total_retrans: slot.retransmitted,
                segments: 1,
                skb_len: MSS,
                gso_segs: 1,
                cwnd: 100,
                srtt_us8: 320_000,
                min_rtt_us: 30_000,
                ..Retransmit::default()
            };
            take(Channel::Ring, record::bytes(&retransmit));
        }
        let sample = Sample {
            header: self.header(at, time, RecordKind::Sample, Program::Probe),
            body: self.body(at),
        };
        take(Channel::Ring, record::bytes(&sample));
    }

    fn swept(&mut self, at: usize, time: u64, bits: u32, take: &mut impl FnMut(Channel, &[u8])) {
        let mut full = self.full(at, time, RecordKind::Full, Program::Sweep);
        full.header.flags = bits;
        take(Channel::Sweep, record::bytes(&full));
    }

    fn walked(&self, at: usize, take: &mut impl FnMut(Channel, &[u8])) {
        let owner = Owner {
            header: Header {
                cookie: self.slots[at].cookie,
                netns: self.netns,
                kind: RecordKind::Owner as u8,
                state: ESTABLISHED,
                ..Header::default()
            },
            key: self.key(at),
            comm: comm(at),
            pid: pid(at),
            reserved: 0,
        };
        take(Channel::Walk, record::bytes(&owner));
    }

    /// One flow ends as it does when its application closes it first, and the next one connects.
    fn end(&mut self, at: usize, time: u64, take: &mut impl FnMut(Channel, &[u8])) {
        self.state(at, time, [ESTABLISHED, FIN_WAIT1], take);
        self.state(at, time, [FIN_WAIT1, FIN_WAIT2], take);
        for kind in [RecordKind::Ended, RecordKind::Close] {
            let mut full = self.full(at, time, kind, Program::Destroy);
            full.header.state = FIN_WAIT2;
            take(Channel::Ring, record::bytes(&full));
        }
        self.slots[at] = Slot {
            cookie: self.next_cookie,
            number: 0,
            count: 0,
            retransmitted: 0,
        };
        self.next_cookie += 1;
        self.state(at, time, [CLOSE, SYN_SENT], take);
        self.state(at, time, [SYN_SENT, ESTABLISHED], take);
        let full = self.full(at, time, RecordKind::Full, Program::Probe);
        take(Channel::Ring, record::bytes(&full));
    }

    fn state(
        &mut self,
        at: usize,
        time: u64,
        [old, new]: [u8; 2],
        take: &mut impl FnMut(Channel, &[u8]),
    ) {
        let mut header = self.header(at, time, RecordKind::State, Program::SetState);
        header.state = old;
        header.flags = if old == CLOSE { flags::FIRST } else { 0 };
        let slot = self.slots[at];
        let connects = old == CLOSE;
        let state = State {
            header,
            key: self.key(at),
            old,
            new,
            total_retrans: slot.retransmitted,
            bytes_retrans: u64::from(slot.retransmitted) * u64::from(MSS),
            comm: if connects { comm(at) } else { [0; 16] },
            pid: if connects { pid(at) } else { 0 },
            ..State::default()
        };
        take(Channel::Ring, record::bytes(&state));
    }

    fn header(&mut self, at: usize, time_ns: u64, kind: RecordKind, program: Program) -> Header {
        let slot = &mut self.slots[at];
        slot.number += 1;
        Header {
            time_ns,
            cookie: slot.cookie,
            number: slot.number - 1,
            netns: self.netns,
            kind: kind as u8,
            program: program as u8,
            state: ESTABLISHED,
            ca_state: 0,
            flags: 0,
            jiffies: (time_ns / (SECOND_NS / u64::from(self.hz.max(1)))) as u32,
        }
    }

    fn full(&mut self, at: usize, time: u64, kind: RecordKind, program: Program) -> Full {
        let (name, ops) = ALGORITHMS[at % ALGORITHMS.len()];
        let mut ca_name = [0; 16];
        ca_name[..name.len()].copy_from_slice(name.as_bytes());
        Full {
            header: self.header(at, time, kind, program),
            body: self.body(at),
            attributes: Attributes {
                key: self.key(at),
                ca_ops: ops,
                ca_name,
                max_pacing_rate: u64::MAX,
                ifindex: 1,
                dev_netns: self.netns,
                cwnd_clamp: u32::MAX,
                pmtu: 1500,
                mss_clamp: 1460,
                advmss: 1448,
                rcv_mss: 536,
                wscale_ok: 1,
                snd_wscale: 7,
                rcv_wscale: 7,
                sack_ok: 1,
                tstamp_ok: 1,
                ..Attributes::default()
            },
        }
    }

    fn body(&self, at: usize) -> Body {
        let slot = &self.slots[at];
        let n = at as u64;
        let acked = slot.count * (n * 7919 % 100_003 + 1000);
        let retransmitted = u64::from(slot.retransmitted) * u64::from(MSS);
        let moving = ((slot.count * 31 + n) % 64) as u32;
        Body {
            bytes_sent: acked + u64::from(60 * MSS) + retransmitted,
            bytes_acked: acked,
            bytes_retrans: retransmitted,
            bytes_received: slot.count * 100,
            pacing_rate: 2_500_000 + n * 100,
            ca_ops: ALGORITHMS[at % ALGORITHMS.len()].1,
            cwnd: 100 + moving,
            ssthresh: i32::MAX.cast_unsigned(),
            packets_out: 60 + moving / 2,
            snd_una: acked as u32,
            snd_nxt: (acked as u32).wrapping_add(60 * MSS),
            write_seq: (acked as u32).wrapping_add(100 * MSS),
            snd_wnd: 1 << 20,
            rcv_wnd: 65_536,
            srtt_us8: (40_000 + moving * 100) * 8,
            mdev_us4: 4000,
            min_rtt_us: 30_000 + (n % 50_000) as u32,
            rack_rtt_us: 40_000 + moving * 120,
            rto: self.hz / 4,
            rate_delivered: 20,
            rate_interval_us: 10_000 + moving * 10,
            delivered: (acked / u64::from(MSS)) as u32,
            segs_out: (slot.count * 3) as u32,
            segs_in: (slot.count * 2) as u32,
            data_segs_out: (slot.count * 3) as u32,
            total_retrans: slot.retransmitted,
            reordering: 3,
            chrono_stat: [(slot.count * u64::from(self.hz) / 10) as u32, 0, 0],
            mss_cache: MSS,
            sndbuf: 1 << 22,
            rcvbuf: 1 << 17,
            // As of an algorithm that has begun; what it means is no matter.
            ca_priv: [0x0000_0100_0000_0200 + n; CA_WORDS],
            ..Body::default()
        }
    }

    fn key(&self, at: usize) -> FlowKey {
        let mut local = [0; 16];
        local[..12].copy_from_slice(&V4_MAPPED);
        let mut remote = local;
        local[12..].copy_from_slice(&[192, 0, 2, 1]);
        let peer = (at as u32 % 65_536).to_be_bytes();
        remote[12..].copy_from_slice(&[10, 1, peer[2], peer[3]]);
        FlowKey {
            local,
            remote,
            local_port: 443,
            remote_port: 1024 + (self.slots[at].cookie % 60_000) as u16,
            family: AF_INET,
            reserved: 0,
        }
    }
}

/// `include/net/tcp_states.h`.
const ESTABLISHED: u8 = 1;
const SYN_SENT: u8 = 2;
const FIN_WAIT1: u8 = 4;
const FIN_WAIT2: u8 = 5;
const CLOSE: u8 = 7;

/// Algorithms in turn, with made-up addresses of theirs.
const ALGORITHMS: [(&str, u64); 3] = [("cubic", 0x1000), ("bbr", 0x2000), ("reno", 0x3000)];

fn pid(at: usize) -> u32 {
    1000 + at as u32 % 500
}

fn comm(at: usize) -> [u8; 16] {
    let mut comm = *b"worker-00\0\0\0\0\0\0\0";
    let n = (pid(at) % 40) as u8;
    comm[7] = b'0' + n / 10;
    comm[8] = b'0' + n % 10;
    comm
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAFFIC: Traffic = Traffic {
        flows: 50,
        rate: 1000,
        churn: 10,
    };

    /// Records by channel of so many seconds, asked for in uneven steps.
    fn records(traffic: Traffic, seconds: u64) -> [u64; 3] {
        let mut counts = [0; 3];
        let mut take = |channel: Channel, _: &[u8]| counts[channel as usize] += 1;
        let mut generator = Generator::new(traffic, 1, 250, 7);
        generator.begin(&mut take);
        let mut now = 7;
        while now < 7 + seconds * SECOND_NS {
            now += 3_333_333;
            generator.until(now.min(7 + seconds * SECOND_NS), &mut take);
        }
        counts
    }

    #[test]
    fn the_rate_is_what_was_asked_for() {
        let calm = Traffic {
            churn: 0,
            ..TRAFFIC
        };
        let [ring, swept, walked] = records(calm, 5);
        let retransmits = 5 * 950 / RETRANSMIT_EVERY;
        assert_eq!(ring, 5 * 950 + retransmits);
        // Sweeps are as late as they are noticed.
        assert!((4 * 50..=6 * 50).contains(&swept), "{swept}");
        assert_eq!(walked, 50);
        // Seven records an end and a birth.
        assert_eq!(records(TRAFFIC, 5)[0] - ring, 5 * 10 * 7);
    }
}
