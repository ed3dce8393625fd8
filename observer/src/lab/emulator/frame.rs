//! What the emulator has to know of a frame: which flow, which bytes, whether it may be marked; and the mark.

/// Of an Ethernet header.
const ETHERNET: usize = 14;

/// What names a packet to who looks for it elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub source_port: u16,
    pub destination_port: u16,
    /// Sequence number on the wire.
    pub seq: u32,
    /// Bytes of TCP payload.
    pub payload: u32,
}

/// What is IP in a frame.
struct Ip<'a> {
    v6: bool,
    protocol: u8,
    payload: &'a [u8],
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

fn ip(frame: &[u8]) -> Option<Ip<'_>> {
    let packet = frame.get(ETHERNET..)?;
    match short(frame, 12)? {
        0x0800 => {
            let header = usize::from(packet.first()? & 0x0f) * 4;
            if header < 20 {
                return None;
            }
            // What follows is Ethernet's padding.
            let total = usize::from(short(packet, 2)?).min(packet.len());
            Some(Ip {
                v6: false,
                protocol: *packet.get(9)?,
                payload: packet.get(header..total)?,
            })
        }
        0x86dd => {
            let total = (40 + usize::from(short(packet, 4)?)).min(packet.len());
            Some(Ip {
                v6: true,
                protocol: *packet.get(6)?,
                payload: packet.get(40..total)?,
            })
        }
        _ => None,
    }
}

/// The TCP segment in a frame.
pub fn segment(frame: &[u8]) -> Option<Segment> {
    let ip = ip(frame).filter(|ip| ip.protocol == 6)?;
    let tcp = ip.payload;
    let header = usize::from(tcp.get(12)? >> 4) * 4;
    Some(Segment {
        source_port: short(tcp, 0)?,
        destination_port: short(tcp, 2)?,
        seq: u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?),
        payload: u32::try_from(tcp.len().checked_sub(header)?).ok()?,
    })
}

/// Whether the frame is the path's business at all: ARP and the like pass.
pub fn is_ip(frame: &[u8]) -> bool {
    matches!(short(frame, 12), Some(0x0800 | 0x86dd))
}

/// Whether sender and receiver have agreed on ECN for it.
pub fn can_be_marked(frame: &[u8]) -> bool {
    let Some(ip) = ip(frame) else { return false };
    let field = if ip.v6 {
        frame[ETHERNET + 1] >> 4
    } else {
        frame[ETHERNET + 1]
    };
    matches!(field & 3, 1 | 2)
}

/// Sets «congestion experienced» in a frame that can be marked.
pub fn mark(frame: &mut [u8]) {
    if !can_be_marked(frame) {
        return;
    }
    if short(frame, 12) == Some(0x86dd) {
        frame[ETHERNET + 1] |= 0x30;
        return;
    }
    frame[ETHERNET + 1] |= 3;
    let header = usize::from(frame[ETHERNET] & 0x0f) * 4;
    frame[ETHERNET + 10..ETHERNET + 12].fill(0);
    let sum = checksum(&frame[ETHERNET..ETHERNET + header]);
    frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&sum.to_be_bytes());
}

/// The Internet checksum (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let mut sum: u32 = header
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ethernet, IPv4 (ECT(0)), TCP with 4 bytes, then padding.
    fn frame() -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00]);
        let mut header = vec![
            0x45, 0x02, 0, 44, 0, 0, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
        ];
        let sum = checksum(&header).to_be_bytes();
        header[10..12].copy_from_slice(&sum);
        frame.extend(header);
        frame.extend([
            0xab, 0xcd, 0x14, 0x51, 0, 0, 1, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0,
        ]);
        frame.extend(b"data");
        frame.resize(60, 0);
        frame
    }

    #[test]
    fn a_segment_is_named_without_its_padding() {
        let named = Segment {
            source_port: 0xabcd,
            destination_port: 5201,
            seq: 256,
            payload: 4,
        };
        assert_eq!(segment(&frame()), Some(named));
        assert!(is_ip(&frame()));
    }

    #[test]
    fn a_mark_keeps_the_checksum_right() {
        let mut frame = frame();
        assert!(can_be_marked(&frame));
        mark(&mut frame);
        assert_eq!(frame[15] & 3, 3);
        assert_eq!(checksum(&frame[14..34]), 0, "sums up to all ones");
        assert!(!can_be_marked(&frame), "it is marked");
    }

    #[test]
    fn no_bytes_are_too_odd() {
        let frame = frame();
        for length in 0..frame.len() {
            let mut cut = frame[..length].to_vec();
            segment(&cut);
            mark(&mut cut);
        }
        for byte in 0..=255 {
            let mut odd = vec![byte; 60];
            odd[12..14].copy_from_slice(&[0x08, 0x00]);
            segment(&odd);
            mark(&mut odd);
            odd[12..14].copy_from_slice(&[0x86, 0xdd]);
            segment(&odd);
            mark(&mut odd);
        }
    }
}
