//! Events of any content, drawn from a seed: what the tests of recordings write and read.

// Each test binary compiles this file and uses a part of it.
#![allow(dead_code)]

use std::io::Cursor;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use observer::event::*;
use observer::record::{Ending, Environment, Reader, Writer};
use observer::units::{Limit, Mono};

/// Draws values; often small ones, often extreme ones, often the one before.
#[derive(Debug)]
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub fn u64(&mut self) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, most: u64) -> u64 {
        (self.u64() >> 11) % most
    }

    pub fn yes(&mut self) -> bool {
        self.below(2) == 1
    }

    pub fn wide(&mut self) -> u64 {
        match self.below(5) {
            0 => self.below(4),
            1 => u64::MAX - self.below(3),
            2 => u64::from(u32::MAX) + self.below(3),
            _ => self.u64() >> self.below(64),
        }
    }

    pub fn u32(&mut self) -> u32 {
        match self.below(4) {
            0 => self.below(4) as u32,
            1 => u32::MAX - self.below(3) as u32,
            _ => (self.u64() >> (32 + self.below(32))) as u32,
        }
    }

    fn u16(&mut self) -> u16 {
        self.u32() as u16
    }

    fn u8(&mut self) -> u8 {
        self.u32() as u8
    }

    fn maybe<T>(&mut self, some: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.below(4) != 0).then(|| some(self))
    }

    fn limit<T>(&mut self, finite: impl FnOnce(&mut Self) -> T) -> Limit<T> {
        if self.below(4) == 0 {
            Limit::Unlimited
        } else {
            Limit::Finite(finite(self))
        }
    }

    fn of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize].clone()
    }

    pub fn text(&mut self) -> String {
        self.of(&[
            "",
            "eth0",
            "a\x1b[2Jb",
            "漢字 naïve",
            "\0\n\t\"\\",
            "tcp_bbr",
        ])
        .to_owned()
    }

    fn address(&mut self) -> SocketAddr {
        if self.yes() {
            SocketAddr::from((Ipv4Addr::from(self.u32()), self.u16()))
        } else {
            let ip = Ipv6Addr::from(u128::from(self.u64()) << 64 | u128::from(self.u64()));
            SocketAddrV6::new(ip, self.u16(), self.u32(), self.u32()).into()
        }
    }

    fn state(&mut self) -> TcpState {
        if self.below(8) == 0 {
            TcpState::Unknown(self.u8())
        } else {
            TcpState::from_kernel(self.below(15) as u8)
        }
    }

    fn ca_state(&mut self) -> CaState {
        if self.below(8) == 0 {
            CaState::Unknown(self.u8())
        } else {
            CaState::from_kernel(self.below(6) as u8)
        }
    }

    fn device_id(&mut self) -> DeviceId {
        DeviceId {
            netns: self.u32(),
            ifindex: self.u32(),
        }
    }

    pub fn flow(&mut self) -> FlowId {
        FlowId {
            cookie: self.of(&[1, 2, 3, u64::MAX]),
            netns: self.of(&[4_026_531_840, 7]),
        }
    }

    pub fn sample(&mut self) -> Sample {
        Sample {
            origin: self.of(&[Origin::Ebpf, Origin::Diag, Origin::Capture]),
            cause: self.of(&[Cause::Ack, Cause::Sweep, Cause::Close]),
            state: self.state(),
            ca_state: self.ca_state(),
            cwnd: self.maybe(Self::u32),
            ssthresh: self.maybe(|d| d.limit(Self::u32)),
            packets_out: self.u32(),
            sacked_out: self.u32(),
            lost_out: self.u32(),
            retrans_out: self.u32(),
            snd_una: self.maybe(Self::u32),
            snd_nxt: self.maybe(Self::u32),
            write_seq: self.maybe(Self::u32),
            rcv_nxt: self.maybe(Self::u32),
            notsent_bytes: self.maybe(Self::u32),
            snd_wnd_bytes: self.maybe(Self::u32),
            max_window_bytes: self.maybe(Self::u32),
            rcv_wnd_bytes: self.maybe(Self::u32),
            rtt_us: self.maybe(Self::u32),
            srtt_us: self.maybe(Self::u32),
            rttvar_us: self.maybe(Self::u32),
            min_rtt_us: self.maybe(Self::u32),
            rcv_rtt_us: self.maybe(Self::u32),
            rto_us: self.maybe(Self::wide),
            delivery_rate: self.maybe(Self::wide),
            rate_app_limited: self.yes(),
            app_limited: self.maybe(Self::yes),
            pacing_rate: self.maybe(|d| d.limit(Self::wide)),
            pacing_status: self
                .maybe(|d| d.of(&[PacingStatus::None, PacingStatus::Internal, PacingStatus::Fq])),
            mss: self.u32(),
            delivered: self.maybe(Self::u32),
            delivered_ce: self.maybe(Self::u32),
            lost_total: self.maybe(Self::u32),
            bytes_sent: self.maybe(Self::wide),
            bytes_acked: self.maybe(Self::wide),
            bytes_retrans: self.maybe(Self::wide),
            bytes_received: self.maybe(Self::wide),
            segs_out: self.maybe(Self::u32),
            segs_in: self.maybe(Self::u32),
            data_segs_out: self.maybe(Self::u32),
            data_segs_in: self.maybe(Self::u32),
            retrans: self.u32(),
            dsack_dups: self.maybe(Self::u32),
            reord_seen: self.maybe(Self::u32),
            rcv_ooopack: self.maybe(Self::u32),
            reordering: self.maybe(Self::u32),
            clocks: self.maybe(|d| LimitClocks {
                busy_us: d.wide(),
                rwnd_limited_us: d.wide(),
                sndbuf_limited_us: d.wide(),
            }),
            sndbuf_bytes: self.maybe(Self::u32),
            rcvbuf_bytes: self.maybe(Self::u32),
            wmem_queued_bytes: self.maybe(Self::u32),
            cwnd_limited: self.maybe(Self::yes),
            backoff: self.maybe(Self::u8),
            cc: self.maybe(Self::private),
        }
    }

    fn private(&mut self) -> CcState {
        match self.below(3) {
            0 => CcState::Bbr(Bbr {
                phase: self.maybe(|d| {
                    d.of(&[
                        Phase::Startup,
                        Phase::Drain,
                        Phase::ProbeBw,
                        Phase::ProbeRtt,
                    ])
                }),
                sub_phase: self.maybe(|d| {
                    d.of(&[
                        SubPhase::Up,
                        SubPhase::Down,
                        SubPhase::Cruise,
                        SubPhase::Refill,
                    ])
                }),
                btlbw: self.maybe(Self::wide),
                min_rtt_us: self.maybe(Self::u32),
                pacing_gain_256: self.maybe(Self::u32),
                cwnd_gain_256: self.maybe(Self::u32),
                full_bw_reached: self.maybe(Self::yes),
                lt_bw: self.maybe(Self::wide),
                lt_use_bw: self.maybe(Self::yes),
                bw_hi: self.maybe(|d| d.limit(Self::wide)),
                bw_lo: self.maybe(|d| d.limit(Self::wide)),
                inflight_hi: self.maybe(|d| d.limit(Self::u32)),
                inflight_lo: self.maybe(|d| d.limit(Self::u32)),
                extra_acked: self.maybe(Self::u32),
            }),
            1 => CcState::Cubic(Cubic {
                last_max_cwnd: self.maybe(Self::u32),
                last_cwnd: self.maybe(Self::u32),
                origin_point: self.maybe(Self::u32),
                k: self.maybe(Self::u32),
                delay_min_us: self.maybe(Self::u32),
                hystart_found: self.maybe(Self::yes),
            }),
            _ => CcState::Dctcp(Dctcp {
                alpha_1024: self.maybe(Self::u32),
                ce_state: self.maybe(Self::u32),
                loss_cwnd: self.maybe(Self::u32),
            }),
        }
    }

    fn attributes(&mut self) -> Attributes {
        Attributes {
            local: self.address(),
            remote: self.address(),
            cc_name: self.text(),
            cc_version: self.maybe(Self::text),
            cc_module: self.maybe(Self::text),
            max_pacing_rate: self.maybe(|d| d.limit(Self::wide)),
            cgroup_id: self.maybe(Self::wide),
            cgroup: self.maybe(Self::text),
            device: self.maybe(Self::device_id),
            cwnd_clamp: self.maybe(|d| d.limit(Self::u32)),
            notsent_lowat: self.maybe(Self::u32),
            pmtu: self.maybe(Self::u32),
            mss_clamp: self.maybe(Self::u16),
            user_mss: self.maybe(Self::u16),
            advmss: self.maybe(Self::u16),
            rcv_mss: self.maybe(Self::u16),
            user_locks: self.maybe(Self::u8),
            wscale: self.maybe(|d| {
                d.maybe(|d| Wscale {
                    snd: d.u8(),
                    rcv: d.u8(),
                })
            }),
            sack: self.maybe(Self::yes),
            timestamps: self.maybe(Self::yes),
            ecn: self.maybe(Self::yes),
        }
    }

    fn qdisc(&mut self) -> Qdisc {
        Qdisc {
            kind: self.text(),
            handle: self.u32(),
            parent: self.of(&[TC_H_ROOT, TC_H_INGRESS, 1]),
            bytes: self.wide() >> 8,
            packets: self.wide() >> 8,
            drops: self.wide() >> 8,
            overlimits: self.wide() >> 8,
            requeues: self.wide() >> 8,
            backlog_bytes: self.wide() >> 8,
            backlog_packets: self.wide() >> 8,
            extra: (0..self.below(3))
                .map(|_| (self.text(), self.wide()))
                .collect(),
            options: (0..self.below(4))
                .map(|_| (self.text(), self.setting()))
                .collect(),
        }
    }

    fn setting(&mut self) -> Setting {
        match self.below(9) {
            0 => Setting::Count(self.wide()),
            1 => Setting::Packets(self.wide()),
            2 => Setting::Bytes(self.wide()),
            3 => Setting::Rate(self.limit(Self::wide)),
            4 => Setting::Nanoseconds(self.wide()),
            5 => Setting::Share(self.u32()),
            6 => Setting::Signed(self.wide() as i64),
            7 => Setting::Flag(self.yes()),
            _ => Setting::Word(self.text()),
        }
    }

    fn host(&mut self) -> Host {
        Host {
            hostname: self.text(),
            kernel: self.text(),
            netns: self.u32(),
            hz: self.maybe(Self::u32),
            cpus: self.u32(),
            default_qdisc: self.maybe(Self::text),
            default_cc: self.maybe(Self::text),
            available_cc: (0..self.below(3)).map(|_| self.text()).collect(),
            sysctls: (0..self.below(4))
                .map(|_| (self.text(), self.maybe(Self::text)))
                .collect(),
        }
    }

    fn retransmit(&mut self) -> Retransmit {
        Retransmit {
            seq: self.maybe(Self::u32),
            end_seq: self.maybe(Self::u32),
            bytes: self.wide() >> 8,
            segments: self.u32(),
            kind: self.of(&KINDS),
            ca_state: self.ca_state(),
            failed: self.yes(),
            rtt_us: self.maybe(Self::u32),
            min_rtt_us: self.maybe(Self::u32),
            cwnd: self.maybe(Self::u32),
        }
    }

    fn program(&mut self) -> ProgramCounters {
        ProgramCounters {
            program: self.text(),
            attempted: self.wide(),
            kept: self.wide(),
            suppressed: self.wide(),
            filtered: self.wide(),
            failed: self.wide(),
            dropped: self.wide(),
            missed: self.wide(),
            run_time_ns: self.maybe(Self::wide),
        }
    }

    /// Of a flow.
    fn flow_payload(&mut self) -> Payload {
        match self.below(20) {
            0 | 1 => Payload::Opened(Opened {
                from_start: self.yes(),
                state: self.state(),
                local: self.address(),
                remote: self.address(),
            }),
            2 => Payload::Attributes(Box::new(self.attributes())),
            3 => Payload::Retransmit(self.retransmit()),
            4 => Payload::State(StateChange {
                old: self.state(),
                new: self.state(),
                local: self.address(),
                remote: self.address(),
            }),
            5 => Payload::CaState(CaStateChange {
                old: self.ca_state(),
                new: self.ca_state(),
                cwnd: self.u32(),
                ssthresh: self.limit(Self::u32),
                lost_out: self.u32(),
            }),
            6 => Payload::Closed,
            7 => Payload::Owners(
                (0..self.below(3))
                    .map(|_| Process {
                        pid: self.u32(),
                        comm: self.text(),
                    })
                    .collect(),
            ),
            _ => Payload::Sample(Box::new(self.sample())),
        }
    }

    /// Of the host or the tool.
    fn host_payload(&mut self) -> Payload {
        match self.below(6) {
            0 => Payload::Host(Box::new(self.host())),
            1 => Payload::Device(Box::new(Device {
                id: self.device_id(),
                name: self.text(),
                mtu: self.u32(),
                up: self.yes(),
                kind: self.maybe(Self::text),
                tx_queues: self.u32(),
                qdiscs: (0..self.below(3)).map(|_| self.qdisc()).collect(),
                offloads: self.maybe(|random| Offloads {
                    tso: random.yes(),
                    gso: random.yes(),
                    gro: random.yes(),
                    gro_hw: random.yes(),
                    lro: random.yes(),
                }),
            })),
            2 => Payload::DeviceGone(self.device_id()),
            3 => Payload::Elsewhere(Elsewhere {
                namespaces: self.u32(),
                flows: self.wide(),
                denied: self.u32(),
            }),
            _ => Payload::Counters(Box::new(Counters {
                programs: (0..self.below(4)).map(|_| self.program()).collect(),
                cost: self.maybe(|random| Cost {
                    user_ppm: random.u32(),
                    kernel_ppm: random.u32(),
                    interval_ns: random.wide(),
                    close_ns: random.wide(),
                    stretched: random.yes(),
                }),
            })),
        }
    }

    /// An event at `time`.
    pub fn event(&mut self, time: Mono) -> Event {
        let (flow, payload) = match self.below(12) {
            0 => (None, self.host_payload()),
            1 => (None, Payload::Tick),
            2 => {
                let flow = self.maybe(Self::flow);
                let kind = self.of(&[NoteKind::Attempt, NoteKind::Degraded, NoteKind::Info]);
                let text = self.text();
                (flow, Payload::Note(Note { kind, text }))
            }
            3 => {
                let flow = self.maybe(Self::flow);
                let missing = self.wide();
                (flow, Payload::Gap(Gap { missing }))
            }
            _ => {
                let flow = if self.below(20) == 0 {
                    None
                } else {
                    Some(self.flow())
                };
                (flow, self.flow_payload())
            }
        };
        Event {
            time,
            flow,
            payload,
        }
    }

    /// `count` events; time goes on by up to `step_ns`, now and then back, now and then far.
    pub fn events(&mut self, count: usize, step_ns: u64) -> Vec<Event> {
        let mut time = 1_000_000_000_000u64;
        let mut events = Vec::with_capacity(count);
        for _ in 0..count {
            time += self.below(step_ns.max(1));
            let at = match self.below(40) {
                0 => time.saturating_sub(self.below(step_ns.max(1))),
                1 => {
                    time += 2_000_000_000;
                    time
                }
                _ => time,
            };
            events.push(self.event(Mono(at)));
        }
        events
    }
}

pub fn environment() -> Environment {
    Environment {
        tool: "0.1.0".to_owned(),
        wall_offset_ns: Some(1_764_000_000_000_000_000),
        source: "script".to_owned(),
        labels: [("site".to_owned(), "a".to_owned())].into(),
        ..Environment::default()
    }
}

/// The bytes of a file with these events.
pub fn written(events: &[Event]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &environment()).expect("memory takes it");
    for event in events {
        writer.push(event).expect("memory takes it");
    }
    let totals = writer.finish().expect("memory takes it");
    assert_eq!(totals.bytes, bytes.len() as u64);
    bytes
}

/// Everything in a file, and how it ended.
pub fn read(bytes: &[u8]) -> (Vec<Event>, Ending) {
    let mut reader = Reader::new(Cursor::new(bytes)).expect("a recording");
    let mut events = Vec::new();
    while let Some(batch) = reader.batch().expect("memory reads") {
        assert!(!batch.is_empty());
        events.extend(batch);
    }
    (events, reader.ending().expect("the end").clone())
}

/// The first place where two lists of events differ, short enough to be read.
pub fn difference(got: &[Event], wanted: &[Event]) -> Option<String> {
    let at = got
        .iter()
        .zip(wanted)
        .position(|(got, wanted)| got != wanted);
    if at.is_none() && got.len() == wanted.len() {
        return None;
    }
    let at = at.unwrap_or(got.len().min(wanted.len()));
    let told = |events: &[Event]| format!("{:?}", events.get(at));
    Some(format!(
        "{} events for {}; event {at} is {} instead of {}",
        got.len(),
        wanted.len(),
        told(got),
        told(wanted)
    ))
}
