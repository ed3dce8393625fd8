//! A path and senders, simulated packet by packet: events with known truth, the same on every machine.
//!
//! The senders are caricatures (slow start and AIMD by 0.7 with pacing over the RTT; BBRv1's gain cycle over a known
//! rate): enough for what losses and delays look like from the sender, not for how fair or fast algorithms are.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use observer::event::{
    Bbr, CaState, CcState, Event, FlowId, Payload, Phase, Retransmit, RetransmitKind, Sample,
};
use observer::source::script;
use observer::units::Mono;

pub const MSS: u32 = 1448;
const FRAME: u32 = 1514;
const WARMUP_NS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sender {
    Aimd,
    Bbr,
    /// So many bits per second, as an application gives them.
    App(f64),
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Path {
    /// Bits per second, frames.
    pub rate: f64,
    pub rtt_ms: f64,
    /// Of the tail-dropping queue, in BDP.
    pub buffer_bdp: f64,
    /// Bits per second and bytes, frames.
    pub policer: Option<(f64, f64)>,
    /// Independent, share of packets.
    pub loss: f64,
    /// Gilbert's: chance to enter the bad state (left with ¼, 70 % lost within).
    pub bursts: f64,
    pub seed: u64,
}

struct Random(u64);

impl Random {
    fn chance(&mut self, share: f64) -> bool {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 / (1_u64 << 53) as f64) < share
    }
}

#[derive(Clone, Copy)]
struct Outstanding {
    sent_ns: u64,
    delivered: u64,
    delivered_ns: u64,
    again: u32,
    /// When the packet left that was acknowledged last at that time.
    first_sent_ns: u64,
    /// Packets acknowledged that left later.
    passed: u32,
    order: u64,
}

struct Flow {
    sender: Sender,
    /// In packets.
    next: u64,
    una: u64,
    out: BTreeMap<u64, Outstanding>,
    sacked: BTreeSet<u64>,
    resend: Vec<u64>,
    cwnd: f64,
    ssthresh: f64,
    recover: u64,
    delivered: u64,
    delivered_ns: u64,
    acked_sent_ns: u64,
    reduced_ns: u64,
    rtt_us: u32,
    min_rtt_us: u32,
    srtt_us: f64,
    retrans: u32,
    bytes_retrans: u64,
    sent: u64,
    order: u64,
    bw: f64,
    full: bool,
    stalled_rounds: u32,
    round_ns: u64,
    round_bw: f64,
    rounds: VecDeque<f64>,
    cycle: usize,
    cycle_ns: u64,
    wake_ns: u64,
    app_limited: bool,
}

/// When, then which flow; `Some`: its packet is acknowledged.
type Due = Reverse<(u64, usize, Option<u64>, u64)>;

pub struct World {
    path: Path,
    random: Random,
    flows: Vec<Flow>,
    due: BinaryHeap<Due>,
    /// When the bottleneck has sent all it holds.
    free_ns: u64,
    tokens: f64,
    tokens_ns: u64,
    bad: bool,
    events: Vec<Event>,
    blank: Sample,
    ids: Vec<FlowId>,
}

fn flow_id(number: usize) -> FlowId {
    let parsed =
        script::parse(&format!("tick\nsample {} mss={MSS}", number + 1)).expect("a script");
    parsed[1].flow.expect("a flow")
}

/// A sample that says nothing but the MSS.
pub fn blank() -> Sample {
    let mut parsed = script::parse(&format!("sample 1 cause=ack mss={MSS}")).expect("a script");
    match parsed.remove(0).payload {
        Payload::Sample(sample) => *sample,
        other => panic!("no sample: {other:?}"),
    }
}

const GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

impl World {
    pub fn new(path: Path, senders: &[Sender]) -> Self {
        let mut world = Self {
            path,
            random: Random(path.seed.wrapping_mul(2).wrapping_add(99)),
            flows: Vec::new(),
            due: BinaryHeap::new(),
            free_ns: 0,
            tokens: path.policer.map_or(0.0, |(_, depth)| depth),
            tokens_ns: 0,
            bad: false,
            events: Vec::new(),
            blank: blank(),
            ids: (0..senders.len()).map(flow_id).collect(),
        };
        for (number, sender) in senders.iter().enumerate() {
            let bbr = *sender == Sender::Bbr;
            let (name, version) = if bbr {
                ("bbr", " version=v1")
            } else {
                ("cubic", "")
            };
            let text = format!(
                "opened {0} birth=yes local=10.0.0.1:{1} remote=10.0.0.2:5201\nattributes {0} cc={name}{version}",
                number + 1,
                40_000 + number
            );
            world.events.extend(script::parse(&text).expect("a script"));
            world.flows.push(Flow::new(*sender));
            world
                .due
                .push(Reverse((number as u64 * 7_000_000, number, None, 0)));
        }
        world
    }

    /// What a sender's kernel would have told, in the order of time.
    pub fn run(mut self, seconds: f64) -> Vec<Event> {
        let end = (seconds * 1e9) as u64;
        while let Some(Reverse((now, flow, acked, order))) = self.due.pop() {
            if now > end {
                break;
            }
            match acked {
                Some(packet) => self.acked(now, flow, packet, order),
                None if self.flows[flow].wake_ns <= now => self.send(now, flow),
                None => {}
            }
        }
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(|event| event.time);
        events
    }

    fn rtt_ns(&self) -> u64 {
        (self.path.rtt_ms * 1e6) as u64
    }

    /// Sends one packet if window and clock allow, and comes again when the next may go.
    fn send(&mut self, now: u64, number: usize) {
        let rtt_ns = self.rtt_ns();
        let flow = &mut self.flows[number];
        let window = flow.window(rtt_ns);
        if flow.inflight() >= window {
            return;
        }
        let packet = if let Some(packet) = flow.resend.pop() {
            flow.retrans += 1;
            flow.bytes_retrans += u64::from(MSS);
            let seq = packet * u64::from(MSS);
            let text = format!(
                "retransmit {} seq={} end_seq={} bytes={MSS} segments=1 kind=fast",
                number + 1,
                seq as u32,
                (seq + u64::from(MSS)) as u32
            );
            self.push(now, &text);
            packet
        } else {
            let flow = &mut self.flows[number];
            flow.next += 1;
            flow.next - 1
        };
        let flow = &mut self.flows[number];
        flow.sent += 1;
        flow.order += 1;
        let order = flow.order;
        let again = flow.out.get(&packet).map_or(0, |out| out.again + 1);
        let out = Outstanding {
            sent_ns: now,
            delivered: flow.delivered,
            delivered_ns: flow.delivered_ns,
            again,
            first_sent_ns: flow.acked_sent_ns,
            passed: 0,
            order,
        };
        flow.out.insert(packet, out);
        let gap = (f64::from(FRAME) * 8.0 / flow.pace(rtt_ns) * 1e9) as u64;
        flow.wake_ns = now + gap.max(1000);
        let wake = flow.wake_ns;
        self.due.push(Reverse((wake, number, None, 0)));
        if let Some(at) = self.carry(now) {
            self.due.push(Reverse((at, number, Some(packet), order)));
        }
    }

    /// When the packet's ACK is back; `None`: it was dropped.
    fn carry(&mut self, now: u64) -> Option<u64> {
        let warm = now > WARMUP_NS;
        self.bad = if self.bad {
            !self.random.chance(0.25)
        } else {
            self.random.chance(self.path.bursts)
        };
        let chance = (warm && self.random.chance(self.path.loss))
            || (warm && self.bad && self.random.chance(0.7));
        if let Some((rate, depth)) = self.path.policer {
            let gained = rate / 8.0 * (now - self.tokens_ns) as f64 / 1e9;
            self.tokens = (self.tokens + gained).min(depth);
            self.tokens_ns = now;
            if self.tokens < f64::from(FRAME) {
                return None;
            }
            self.tokens -= f64::from(FRAME);
        }
        let bdp = self.path.rate / 8.0 * self.path.rtt_ms / 1e3;
        let queued = self.free_ns.saturating_sub(now) as f64 / 1e9 * self.path.rate / 8.0;
        if queued + f64::from(FRAME) > (self.path.buffer_bdp * bdp).max(2.0 * f64::from(FRAME))
            || chance
        {
            return None;
        }
        let serial = (f64::from(FRAME) * 8.0 / self.path.rate * 1e9) as u64;
        self.free_ns = self.free_ns.max(now) + serial;
        Some(self.free_ns + self.rtt_ns())
    }

    fn acked(&mut self, now: u64, number: usize, packet: u64, order: u64) {
        self.sample(now, number);
        let flow = &mut self.flows[number];
        let current = flow.out.get(&packet).copied();
        let Some(out) = current.filter(|out| out.order == order) else {
            self.send(now, number);
            return;
        };
        flow.out.remove(&packet);
        flow.resend.retain(|waiting| *waiting != packet);
        let rtt_us = ((now - out.sent_ns) / 1000) as u32;
        if out.again == 0 {
            flow.rtt_us = rtt_us;
            flow.min_rtt_us = flow.min_rtt_us.min(rtt_us);
            flow.srtt_us += (f64::from(rtt_us) - flow.srtt_us) / 8.0;
        }
        flow.delivered += 1;
        flow.delivered_ns = now;
        flow.sacked.insert(packet);
        while flow.sacked.remove(&flow.una) {
            flow.una += 1;
        }
        flow.acked_sent_ns = out.sent_ns;
        let span = (now - out.delivered_ns).max(out.sent_ns.saturating_sub(out.first_sent_ns));
        if out.delivered_ns > 0 && span > 0 {
            let rate = (flow.delivered - out.delivered) as f64 * f64::from(FRAME) * 8.0
                / (span as f64 / 1e9);
            flow.bandwidth(now, rate);
        }
        flow.grow();
        let lost: Vec<u64> = flow
            .out
            .iter_mut()
            .filter(|(_, waiting)| waiting.order < out.order)
            .filter_map(|(at, waiting)| {
                waiting.passed += 1;
                (waiting.passed == 3).then_some(*at)
            })
            .collect();
        for at in lost {
            flow.lost(now, at);
        }
        self.send(now, number);
    }

    /// The state before the ACK is processed, as `tcp_probe` shows it.
    fn sample(&mut self, now: u64, number: usize) {
        let flow = &self.flows[number];
        let mut sample = self.blank.clone();
        let known = |us: u32| (flow.rtt_us > 0).then_some(us);
        sample.ca_state = if flow.una < flow.recover {
            CaState::Recovery
        } else {
            CaState::Open
        };
        sample.cwnd = Some(flow.cwnd as u32);
        sample.packets_out = flow.out.len() as u32;
        sample.lost_out = flow.resend.len() as u32;
        sample.snd_una = Some((flow.una * u64::from(MSS)) as u32);
        sample.snd_nxt = Some((flow.next * u64::from(MSS)) as u32);
        sample.rtt_us = known(flow.rtt_us);
        sample.srtt_us = known(flow.srtt_us as u32);
        sample.min_rtt_us = known(flow.min_rtt_us);
        sample.delivered = Some(flow.delivered as u32);
        sample.retrans = flow.retrans;
        sample.bytes_acked = Some(flow.una * u64::from(MSS));
        sample.bytes_sent = Some(flow.sent * u64::from(MSS));
        sample.bytes_retrans = Some(flow.bytes_retrans);
        sample.app_limited = Some(flow.app_limited);
        sample.cc = (flow.sender == Sender::Bbr).then(|| {
            let (phase, gain) = flow.phase();
            CcState::Bbr(Bbr {
                phase: Some(phase),
                pacing_gain_256: Some((gain * 256.0) as u32),
                ..Bbr::default()
            })
        });
        self.events.push(Event {
            time: Mono(now),
            flow: Some(self.ids[number]),
            payload: Payload::Sample(Box::new(sample)),
        });
    }

    fn push(&mut self, now: u64, text: &str) {
        let parsed = script::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        self.events.extend(parsed.into_iter().map(|event| Event {
            time: Mono(now),
            ..event
        }));
    }
}

impl Flow {
    fn new(sender: Sender) -> Self {
        Self {
            sender,
            next: 0,
            una: 0,
            out: BTreeMap::new(),
            sacked: BTreeSet::new(),
            resend: Vec::new(),
            cwnd: 10.0,
            ssthresh: f64::INFINITY,
            recover: 0,
            delivered: 0,
            delivered_ns: 0,
            acked_sent_ns: 0,
            reduced_ns: 0,
            rtt_us: 0,
            min_rtt_us: u32::MAX,
            srtt_us: 0.0,
            retrans: 0,
            bytes_retrans: 0,
            sent: 0,
            order: 0,
            bw: 0.0,
            full: false,
            stalled_rounds: 0,
            round_ns: 0,
            round_bw: 0.0,
            rounds: VecDeque::new(),
            cycle: 2,
            cycle_ns: 0,
            wake_ns: 0,
            app_limited: matches!(sender, Sender::App(_)),
        }
    }

    fn inflight(&self) -> f64 {
        (self.out.len() - self.resend.len()) as f64
    }

    fn phase(&self) -> (Phase, f64) {
        if self.full {
            (Phase::ProbeBw, GAINS[self.cycle])
        } else {
            (Phase::Startup, 2.89)
        }
    }

    /// Packets.
    fn window(&self, rtt_ns: u64) -> f64 {
        match self.sender {
            Sender::Aimd => self.cwnd,
            Sender::App(_) => 1e6,
            Sender::Bbr => {
                let bdp = self.bw * (rtt_ns as f64 / 1e9) / (f64::from(FRAME) * 8.0);
                (if self.full { 2.0 } else { 2.89 } * bdp).max(10.0)
            }
        }
    }

    /// Bits per second.
    fn pace(&self, rtt_ns: u64) -> f64 {
        let over_rtt = |packets: f64| packets * f64::from(FRAME) * 8.0 / (rtt_ns as f64 / 1e9);
        match self.sender {
            Sender::App(rate) => rate,
            Sender::Aimd if self.cwnd < self.ssthresh => over_rtt(2.0 * self.cwnd),
            Sender::Aimd => over_rtt(1.2 * self.cwnd),
            Sender::Bbr if self.bw == 0.0 => over_rtt(2.89 * 10.0),
            Sender::Bbr => self.phase().1 * self.bw,
        }
    }

    /// BBR's filter: the most of ten rounds.
    fn bandwidth(&mut self, now: u64, rate: f64) {
        self.round_bw = self.round_bw.max(rate);
        let round = u64::from(self.rtt_us) * 1000;
        if now - self.round_ns > round {
            let before = self.bw;
            self.rounds.push_back(self.round_bw);
            if self.rounds.len() > 10 {
                self.rounds.pop_front();
            }
            self.bw = self.rounds.iter().copied().fold(0.0, f64::max);
            let grown = self.bw >= 1.25 * before;
            self.stalled_rounds = if grown { 0 } else { self.stalled_rounds + 1 };
            self.full |= self.stalled_rounds >= 3;
            (self.round_ns, self.round_bw) = (now, 0.0);
        }
        if self.full && now - self.cycle_ns > u64::from(self.min_rtt_us) * 1000 {
            self.cycle = (self.cycle + 1) % GAINS.len();
            self.cycle_ns = now;
        }
    }

    fn grow(&mut self) {
        if self.sender != Sender::Aimd || self.una < self.recover {
            return;
        }
        self.cwnd += if self.cwnd < self.ssthresh {
            1.0
        } else {
            1.0 / self.cwnd
        };
    }

    /// Once an RTT at most the window is cut; a retransmission that is lost again cuts it like a timeout.
    fn lost(&mut self, now: u64, packet: u64) {
        if !self.resend.contains(&packet) {
            self.resend.insert(0, packet);
        }
        let again = self.out.get(&packet).is_some_and(|out| out.again > 0);
        let rested = now.saturating_sub(self.reduced_ns) > u64::from(self.rtt_us) * 1000;
        let anew = self.una >= self.recover;
        if self.sender == Sender::Aimd && (anew || (again && rested)) {
            self.cwnd = (self.cwnd * if again { 0.5 } else { 0.7 }).max(2.0);
            self.ssthresh = self.cwnd;
            self.reduced_ns = now;
        }
        if anew {
            self.recover = self.next;
        }
    }
}

/// A retransmission of any range.
pub fn lost(seq: u32, end_seq: u32, bytes: u32) -> Retransmit {
    Retransmit {
        seq: Some(seq),
        end_seq: Some(end_seq),
        bytes: u64::from(bytes),
        segments: bytes % 100,
        kind: RetransmitKind::Fast,
        ca_state: CaState::Recovery,
        failed: false,
        rtt_us: None,
        min_rtt_us: None,
        cwnd: None,
    }
}
