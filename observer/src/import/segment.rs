//! A TCP segment's header.

use std::net::SocketAddr;

#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub src: SocketAddr,
    pub dst: SocketAddr,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    /// As it stands there: not scaled.
    pub window: u16,
    /// Bytes of payload on the wire; more than the MSS where the host left cutting to its device.
    pub len: u32,
    /// IPv4's identification; 0 where there is none.
    pub id: u16,
    pub tunnelled: bool,
    pub options: Options,
}

impl Segment {
    const FIN: u8 = 1;
    const SYN: u8 = 2;
    const RST: u8 = 4;
    const ACK: u8 = 16;
    const ECE: u8 = 64;
    const CWR: u8 = 128;

    pub fn fin(&self) -> bool {
        self.flags & Self::FIN != 0
    }
    pub fn syn(&self) -> bool {
        self.flags & Self::SYN != 0
    }
    pub fn rst(&self) -> bool {
        self.flags & Self::RST != 0
    }
    pub fn has_ack(&self) -> bool {
        self.flags & Self::ACK != 0
    }
    /// A SYN with ECE and CWR asks for ECN, a SYN-ACK with ECE alone agrees (RFC 3168).
    pub fn ecn(&self) -> bool {
        let wanted = if self.has_ack() {
            Self::ECE
        } else {
            Self::ECE | Self::CWR
        };
        self.flags & (Self::ECE | Self::CWR) == wanted
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub mss: Option<u16>,
    pub wscale: Option<u8>,
    pub sack_permitted: bool,
    /// TSval, TSecr.
    pub timestamps: Option<(u32, u32)>,
    blocks: [(u32, u32); 4],
    count: u8,
}

impl Options {
    /// As far as they were kept and make sense.
    pub fn parse(mut bytes: &[u8]) -> Self {
        let mut options = Self::default();
        loop {
            let (kind, length) = match bytes {
                [] | [0, ..] | [_] => return options,
                [1, rest @ ..] => {
                    bytes = rest;
                    continue;
                }
                [kind, length, ..] => (*kind, usize::from(*length)),
            };
            if length < 2 || length > bytes.len() {
                return options;
            }
            options.take(kind, &bytes[2..length]);
            bytes = &bytes[length..];
        }
    }

    fn take(&mut self, kind: u8, value: &[u8]) {
        let word = |four: &[u8]| u32::from_be_bytes([four[0], four[1], four[2], four[3]]);
        match (kind, value) {
            (2, [high, low]) => self.mss = Some(u16::from_be_bytes([*high, *low])),
            // RFC 7323: more is taken as 14.
            (3, [shift]) => self.wscale = Some((*shift).min(14)),
            (4, []) => self.sack_permitted = true,
            (5, blocks) => {
                for block in blocks.chunks_exact(8).take(4) {
                    self.blocks[usize::from(self.count.min(3))] = (word(block), word(&block[4..]));
                    self.count = (self.count + 1).min(4);
                }
            }
            (8, value) if value.len() == 8 => {
                self.timestamps = Some((word(value), word(&value[4..])));
            }
            _ => {}
        }
    }

    /// SACK blocks in their order: a DSACK stands first.
    pub fn sack(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.count)]
    }
}
