//! Captures made packet by packet: one connection over any link layer.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Ethernet,
    Vlan,
    QinQ,
    Sll,
    Sll2,
    Raw,
    RawIpv6,
    Null,
    IpInIp,
    Gre,
    Vxlan,
    Geneve,
}

impl Link {
    pub const ALL: [Self; 12] = [
        Self::Ethernet,
        Self::Vlan,
        Self::QinQ,
        Self::Sll,
        Self::Sll2,
        Self::Raw,
        Self::RawIpv6,
        Self::Null,
        Self::IpInIp,
        Self::Gre,
        Self::Vxlan,
        Self::Geneve,
    ];

    fn number(self) -> u16 {
        match self {
            Self::Sll => 113,
            Self::Sll2 => 276,
            Self::Raw | Self::RawIpv6 => 101,
            Self::Null => 0,
            _ => 1,
        }
    }
}

struct Packet {
    at: u64,
    from_local: bool,
    tcp: Vec<u8>,
    payload: u32,
}

/// A connection from 10.0.0.1:5000 (or its IPv6 counterpart) to 10.0.0.2:80; numbers count from `start`.
pub struct Maker {
    start: u32,
    packets: Vec<Packet>,
}

const PEER: u32 = 77;
const ACK: u8 = 16;
const SYN: u8 = 2;

impl Maker {
    pub fn new(start: u32) -> Self {
        Self {
            start,
            packets: Vec::new(),
        }
    }

    /// MSS 1012 less 12 for timestamps, scales of 7, SACK.
    pub fn handshake(&mut self, at: u64, rtt: u64) {
        let options = [2, 4, 3, 244, 3, 3, 7, 1, 4, 2, 1, 1];
        let isn = self.start.wrapping_sub(1);
        self.push(at, true, (isn, 0), SYN, &options, 0);
        self.push(at + rtt, false, (PEER, self.start), SYN | ACK, &options, 0);
        self.push(at + rtt + 1000, true, (self.start, PEER + 1), ACK, &[], 0);
    }

    pub fn data(&mut self, at: u64, offset: u32, len: u32) {
        self.push(
            at,
            true,
            (self.start.wrapping_add(offset), PEER + 1),
            ACK,
            &[],
            len,
        );
    }

    pub fn ack(&mut self, at: u64, offset: u32, blocks: &[(u32, u32)]) {
        let mut options = Vec::new();
        if !blocks.is_empty() {
            options.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
        }
        for (begin, end) in blocks {
            options.extend(self.start.wrapping_add(*begin).to_be_bytes());
            options.extend(self.start.wrapping_add(*end).to_be_bytes());
        }
        let ack = self.start.wrapping_add(offset);
        self.push(at, false, (PEER + 1, ack), ACK, &options, 0);
    }

    /// As if the capture had begun then.
    pub fn drop_before(&mut self, at: u64) {
        self.packets.retain(|packet| packet.at >= at);
    }

    fn push(
        &mut self,
        at: u64,
        from_local: bool,
        (seq, ack): (u32, u32),
        flags: u8,
        options: &[u8],
        payload: u32,
    ) {
        let ports: [u16; 2] = if from_local { [5000, 80] } else { [80, 5000] };
        // Timestamps of a coarse clock: the same for what goes within a second.
        let stamp = ((at / 1_000_000_000) as u32 + 1).to_be_bytes();
        let mut all = options.to_vec();
        all.extend([1, 1, 8, 10]);
        all.extend(stamp);
        all.extend(stamp);
        let mut tcp = Vec::new();
        tcp.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        tcp.extend(seq.to_be_bytes());
        tcp.extend(ack.to_be_bytes());
        tcp.extend([((20 + all.len()) / 4 * 16) as u8, flags]);
        tcp.extend(1000_u16.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(all);
        self.packets.push(Packet {
            at,
            from_local,
            tcp,
            payload,
        });
    }

    /// Time and bytes of each frame.
    pub fn frames(&self, link: Link) -> Vec<(u64, Vec<u8>)> {
        let mut frames: Vec<(u64, Vec<u8>)> = self
            .packets
            .iter()
            .enumerate()
            .map(|(n, packet)| (packet.at, packet.frame(link, n as u16 + 1)))
            .collect();
        frames.sort_by_key(|(at, _)| *at);
        frames
    }

    pub fn pcap(&self) -> Vec<u8> {
        pcap(&self.frames(Link::Ethernet), Link::Ethernet, true, 65_535)
    }
}

fn ipv4(protocol: u8, from_local: bool, id: u16, payload: &[u8]) -> Vec<u8> {
    let ends: [[u8; 4]; 2] = if from_local {
        [[10, 0, 0, 1], [10, 0, 0, 2]]
    } else {
        [[10, 0, 0, 2], [10, 0, 0, 1]]
    };
    let mut ip = vec![0x45, 0];
    ip.extend(((20 + payload.len()) as u16).to_be_bytes());
    ip.extend(id.to_be_bytes());
    ip.extend([0x40, 0, 64, protocol, 0, 0]);
    ip.extend(ends.concat());
    ip.extend(payload);
    ip
}

/// With a destination options header in between.
fn ipv6(from_local: bool, payload: &[u8]) -> Vec<u8> {
    let mut ends = [[0_u8; 16]; 2];
    (ends[0][0], ends[1][0]) = (0x20, 0x20);
    (
        ends[usize::from(!from_local)][15],
        ends[usize::from(from_local)][15],
    ) = (1, 2);
    let mut ip = vec![0x60, 0, 0, 0];
    ip.extend(((8 + payload.len()) as u16).to_be_bytes());
    ip.extend([60, 64]);
    ip.extend(ends.concat());
    ip.extend([6, 0, 1, 4, 0, 0, 0, 0]);
    ip.extend(payload);
    ip
}

fn ethernet(tags: &[u8], kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend(tags);
    frame.extend(kind.to_be_bytes());
    frame.extend(payload);
    // Padding to Ethernet's least is no payload.
    frame.resize(frame.len().max(60), 0);
    frame
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut udp = Vec::new();
    udp.extend(9999_u16.to_be_bytes());
    udp.extend(port.to_be_bytes());
    udp.extend(((8 + payload.len()) as u16).to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(payload);
    udp
}

impl Packet {
    fn frame(&self, link: Link, id: u16) -> Vec<u8> {
        let mut tcp = self.tcp.clone();
        tcp.resize(tcp.len() + self.payload as usize, b'x');
        let ip = ipv4(6, self.from_local, id, &tcp);
        let outer = |protocol, inner: &[u8]| {
            ethernet(&[], 0x0800, &ipv4(protocol, self.from_local, id, inner))
        };
        let inner = ethernet(&[], 0x0800, &ip);
        let with = |header: &[u8], rest: &[u8]| [header, rest].concat();
        match link {
            Link::Ethernet => inner,
            Link::Vlan => ethernet(&[0x81, 0, 0, 5], 0x0800, &ip),
            Link::QinQ => ethernet(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], 0x0800, &ip),
            Link::Sll => with(&[0, 4, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0], &ip),
            Link::Sll2 => with(
                &[8, 0, 0, 0, 0, 0, 0, 2, 0, 1, 4, 6, 0, 0, 0, 0, 0, 0, 0, 0],
                &ip,
            ),
            Link::Raw => ip,
            Link::RawIpv6 => ipv6(self.from_local, &tcp),
            Link::Null => with(&[2, 0, 0, 0], &ip),
            Link::IpInIp => outer(4, &ip),
            Link::Gre => outer(47, &with(&[0x20, 0, 8, 0, 0, 0, 0, 1], &ip)),
            Link::Vxlan => outer(17, &udp(4789, &with(&[8, 0, 0, 0, 0, 0, 1, 0], &inner))),
            Link::Geneve => outer(
                17,
                &udp(6081, &with(&[0, 0, 0x65, 0x58, 0, 0, 1, 0], &inner)),
            ),
        }
    }
}

/// 2026-01-01.
const WALL_S: u64 = 1_767_225_600;

pub fn pcap(frames: &[(u64, Vec<u8>)], link: Link, nanoseconds: bool, snaplen: usize) -> Vec<u8> {
    let magic: u32 = if nanoseconds {
        0xa1b2_3c4d
    } else {
        0xa1b2_c3d4
    };
    let mut out = Vec::new();
    out.extend(magic.to_le_bytes());
    out.extend([2, 0, 4, 0]);
    out.extend([0; 8]);
    out.extend((snaplen as u32).to_le_bytes());
    out.extend(u32::from(link.number()).to_le_bytes());
    for (at, frame) in frames {
        let kept = &frame[..frame.len().min(snaplen)];
        let part = at % 1_000_000_000 / if nanoseconds { 1 } else { 1000 };
        out.extend(((WALL_S + at / 1_000_000_000) as u32).to_le_bytes());
        out.extend((part as u32).to_le_bytes());
        out.extend((kept.len() as u32).to_le_bytes());
        out.extend((frame.len() as u32).to_le_bytes());
        out.extend(kept);
    }
    out
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let length = (12 + padded) as u32;
    let mut out = Vec::new();
    out.extend(kind.to_le_bytes());
    out.extend(length.to_le_bytes());
    out.extend(body);
    out.resize(8 + padded, 0);
    out.extend(length.to_le_bytes());
    out
}

/// Nanosecond resolution.
pub fn pcapng(frames: &[(u64, Vec<u8>)], link: Link) -> Vec<u8> {
    let mut section = Vec::new();
    section.extend(0x1a2b_3c4d_u32.to_le_bytes());
    section.extend([1, 0, 0, 0]);
    section.extend([0xff; 8]);
    let mut out = block(0x0a0d_0d0a, &section);
    let mut interface = Vec::new();
    interface.extend(link.number().to_le_bytes());
    interface.extend([0; 6]);
    interface.extend([9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    out.extend(block(1, &interface));
    for (at, frame) in frames {
        let units = WALL_S * 1_000_000_000 + at;
        let mut packet = vec![0; 4];
        packet.extend(((units >> 32) as u32).to_le_bytes());
        packet.extend((units as u32).to_le_bytes());
        packet.extend((frame.len() as u32).to_le_bytes());
        packet.extend((frame.len() as u32).to_le_bytes());
        packet.extend(frame);
        out.extend(block(6, &packet));
    }
    out
}
