//! From a frame to the TCP segment in it: link layers, VLAN tags, tunnels, IP. Lengths come from headers, because a
//! capture may have kept little more than those.

use std::net::{IpAddr, SocketAddr};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket};
use pcap_parser::Linktype;

use super::segment::{Options, Segment};

/// Tunnels in tunnels, at most.
const DEEPEST: usize = 4;

const IPV4_IN_IP: u8 = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;

/// Why a frame is no segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skipped {
    /// Another protocol.
    NotTcp,
    /// A link layer that is not read.
    Link,
    /// A fragment of an IP packet: no TCP header of its own, or not all of the payload.
    Fragment,
    /// Less was kept than TCP's header.
    Short,
}

/// What comes next in a frame.
enum Next<'a> {
    Ethernet(&'a [u8]),
    Typed(u16, &'a [u8]),
    Ip(&'a [u8]),
}

/// The segment in a frame of `orig_len` bytes, of which `frame` was kept.
pub fn segment(link: Linktype, frame: &[u8], orig_len: u32) -> Result<Segment, Skipped> {
    let mut next = first(link, frame)?;
    let mut tunnelled = false;
    for _ in 0..DEEPEST {
        let sliced = match next {
            Next::Ethernet(bytes) => {
                LaxSlicedPacket::from_ethernet(bytes).map_err(|_| Skipped::Short)?
            }
            Next::Typed(kind, bytes) => LaxSlicedPacket::from_ether_type(EtherType(kind), bytes),
            Next::Ip(bytes) => LaxSlicedPacket::from_ip(bytes).map_err(|_| Skipped::NotTcp)?,
        };
        let packet = Packet::of(sliced.net.as_ref().ok_or(Skipped::NotTcp)?)?;
        next = match packet.protocol {
            TCP => {
                let whole = packet.payload_len(frame, orig_len);
                return tcp(&packet, whole, tunnelled);
            }
            IPV4_IN_IP | IPV6_IN_IP => Next::Ip(packet.payload),
            GRE => gre(packet.payload).ok_or(Skipped::NotTcp)?,
            UDP => udp_tunnel(packet.payload).ok_or(Skipped::NotTcp)?,
            _ => return Err(Skipped::NotTcp),
        };
        tunnelled = true;
    }
    Err(Skipped::NotTcp)
}

fn first(link: Linktype, frame: &[u8]) -> Result<Next<'_>, Skipped> {
    let at = |offset: usize| frame.get(offset..).ok_or(Skipped::Short);
    Ok(match link {
        Linktype::ETHERNET => Next::Ethernet(frame),
        Linktype::LINUX_SLL => Next::Typed(be16(frame, 14).ok_or(Skipped::Short)?, at(16)?),
        Linktype::LINUX_SLL2 => Next::Typed(be16(frame, 0).ok_or(Skipped::Short)?, at(20)?),
        // A family of four bytes, whose order and numbers differ; IP says itself which it is.
        Linktype::NULL | Linktype::LOOP => Next::Ip(at(4)?),
        // 12, 14: what BSDs wrote for raw IP.
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 | Linktype(12 | 14) => Next::Ip(frame),
        _ => return Err(Skipped::Link),
    })
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([two[0], two[1]]))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
}

/// RFC 2784, 2890.
fn gre(bytes: &[u8]) -> Option<Next<'_>> {
    const ETHERNET: u16 = 0x6558;
    let flags = be16(bytes, 0)?;
    let optional = [0x8000, 0x2000, 0x1000];
    let header = 4 + 4 * optional.iter().filter(|bit| flags & **bit != 0).count();
    let inner = bytes.get(header..)?;
    match be16(bytes, 2)? {
        _ if flags & 7 != 0 => None,
        ETHERNET => Some(Next::Ethernet(inner)),
        kind => Some(Next::Typed(kind, inner)),
    }
}

/// VXLAN and Geneve, by their ports.
fn udp_tunnel(bytes: &[u8]) -> Option<Next<'_>> {
    let inner = bytes.get(8..)?;
    match be16(bytes, 2)? {
        // 8472: Linux before the port was assigned.
        4789 | 8472 if inner.first()? & 0x08 != 0 => Some(Next::Ethernet(inner.get(8..)?)),
        6081 if inner.first()? >> 6 == 0 => {
            let header = 8 + 4 * usize::from(inner[0] & 0x3f);
            let kind = be16(inner, 2)?;
            let inside = inner.get(header..)?;
            Some(match kind {
                0x6558 => Next::Ethernet(inside),
                kind => Next::Typed(kind, inside),
            })
        }
        _ => None,
    }
}

/// An IP packet.
struct Packet<'a> {
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    /// The kept part.
    payload: &'a [u8],
    /// Its header's first byte.
    begin: *const u8,
    /// By its header; 0 = not said (taken before the device cut it, or more than 16 bits hold).
    total_len: u32,
    id: u16,
}

impl<'a> Packet<'a> {
    fn of(net: &LaxNetSlice<'a>) -> Result<Self, Skipped> {
        let packet = match net {
            LaxNetSlice::Ipv4(ip) => {
                let header = ip.header();
                Self {
                    src: header.source_addr().into(),
                    dst: header.destination_addr().into(),
                    protocol: ip.payload().ip_number.0,
                    payload: ip.payload().payload,
                    begin: header.slice().as_ptr(),
                    total_len: header.total_len().into(),
                    id: header.identification(),
                }
            }
            LaxNetSlice::Ipv6(ip) => {
                let header = ip.header();
                Self {
                    src: header.source_addr().into(),
                    dst: header.destination_addr().into(),
                    protocol: ip.payload().ip_number.0,
                    payload: ip.payload().payload,
                    begin: header.slice().as_ptr(),
                    total_len: match header.payload_length() {
                        0 => 0,
                        length => u32::from(length) + 40,
                    },
                    id: 0,
                }
            }
            LaxNetSlice::Arp(_) => return Err(Skipped::NotTcp),
        };
        if net
            .ip_payload_ref()
            .is_some_and(|payload| payload.fragmented)
        {
            return Err(Skipped::Fragment);
        }
        Ok(packet)
    }

    /// Bytes behind IP's headers, also those that were not kept.
    fn payload_len(&self, frame: &[u8], orig_len: u32) -> u32 {
        let offset = |inside: *const u8| (inside as usize).saturating_sub(frame.as_ptr() as usize);
        let (begin, payload) = (offset(self.begin), offset(self.payload.as_ptr()));
        let end = match self.total_len {
            0 => orig_len as usize,
            total => begin + total as usize,
        };
        u32::try_from(end.saturating_sub(payload)).unwrap_or(u32::MAX)
    }
}

/// `whole`: bytes of header and payload on the wire.
fn tcp(packet: &Packet<'_>, whole: u32, tunnelled: bool) -> Result<Segment, Skipped> {
    let bytes = packet.payload;
    let word = |at| be32(bytes, at).ok_or(Skipped::Short);
    let half = |at| be16(bytes, at).ok_or(Skipped::Short);
    let (seq, ack, marks, window) = (word(4)?, word(8)?, half(12)?, half(14)?);
    let header = u32::from(marks >> 12) * 4;
    if header < 20 || header > whole {
        return Err(Skipped::Short);
    }
    let kept = bytes.len().min(header as usize);
    Ok(Segment {
        src: SocketAddr::new(packet.src, half(0)?),
        dst: SocketAddr::new(packet.dst, half(2)?),
        seq,
        ack,
        flags: (marks & 0xff) as u8,
        window,
        len: whole - header,
        id: packet.id,
        tunnelled,
        options: Options::parse(bytes.get(20..kept).unwrap_or_default()),
    })
}
