//! Netlink dumps: one socket, one request at a time, its replies as borrowed bytes.
//!
//! The framing is ours and the socket is rustix's: the rust-netlink crates build a tree of owned attributes for every
//! message, which a dump of 20,000 sockets cannot afford, and leave `TCA_STATS_PKT64` undecoded.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send,
    socket_with,
};
use thiserror::Error;

/// `struct nlmsghdr`.
const HEADER: usize = 16;
/// Room for one reply: dumps come in pieces of at most 32 KiB (`SKB_WITH_OVERHEAD(32768)` in `netlink_recvmsg`), save
/// for single messages that are longer, for which the buffer grows.
const BUFFER: usize = 64 * 1024;
/// A reply that takes longer will not come (the kernel answers while it is asked).
const PATIENCE: Duration = Duration::from_secs(10);
/// Dumps that were overtaken by a change are begun again this often.
const TRIES: u32 = 8;

const NLMSG_NOOP: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP_INTR: u16 = 0x10;
/// `NLM_F_ROOT | NLM_F_MATCH`.
const NLM_F_DUMP: u16 = 0x300;
/// `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER` taken off.
const NLA_TYPE_MASK: u16 = 0x3fff;

/// Why a dump did not come to its end.
#[derive(Debug, Error)]
pub enum NetlinkError {
    /// No socket of this family: not compiled into the kernel, or forbidden by a sandbox.
    #[error("cannot open a netlink socket: {0}")]
    Open(#[source] Errno),
    #[error("cannot ask over netlink: {0}")]
    Send(#[source] Errno),
    #[error("cannot read from netlink: {0}")]
    Receive(#[source] Errno),
    /// The kernel answered with an error (`ENOENT` from socket-diag: its module is missing).
    #[error("the kernel refused the netlink request: {0}")]
    Refused(#[source] Errno),
    /// Something changed during every try; the next poll may have more luck.
    #[error("the netlink dump was interrupted by changes {TRIES} times")]
    Interrupted,
    #[error("a netlink reply makes no sense: {0}")]
    Malformed(&'static str),
}

/// A message of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// `nlmsg_type`.
    pub kind: u16,
    pub flags: u16,
    pub sequence: u32,
    pub body: &'a [u8],
}

/// A netlink socket of the calling thread's network namespace; it stays in that namespace.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

/// How one pass over a dump ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    Consistent,
    /// Overtaken by a change (`NLM_F_DUMP_INTR`) or short of messages (`ENOBUFS`).
    Overtaken,
}

impl Netlink {
    /// Opens a socket for `protocol` (`rustix::net::netlink::SOCK_DIAG`; `None` = `NETLINK_ROUTE`).
    pub fn open(protocol: Option<Protocol>) -> Result<Self, NetlinkError> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            protocol,
        )
        .map_err(NetlinkError::Open)?;
        // Connected to port 0: only the kernel can send to this socket.
        connect(&socket, &SocketAddrNetlink::new(0, 0)).map_err(NetlinkError::Open)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE)).map_err(NetlinkError::Open)?;
        Ok(Self {
            socket,
            sequence: 0,
            buffer: vec![0; BUFFER],
        })
    }

    /// Asks for the dump `kind` with `body` and collects what `parse` makes of its replies, beginning again when it was
    /// overtaken by a change. After an error the rest of the dump may still be under way: open another socket.
    pub fn collect<T>(
        &mut self,
        kind: u16,
        body: &[u8],
        parse: impl Fn(Message<'_>) -> Option<T>,
    ) -> Result<Vec<T>, NetlinkError> {
        let mut found = Vec::new();
        for _ in 0..TRIES {
            found.clear();
            let pass = self.pass(kind, body, |message| found.extend(parse(message)))?;
            if pass == Pass::Consistent {
                return Ok(found);
            }
        }
        Err(NetlinkError::Interrupted)
    }

    /// One pass over the dump `kind`: each reply goes to `each` as it comes. As to errors, see [`Self::collect`].
    pub fn pass(
        &mut self,
        kind: u16,
        body: &[u8],
        mut each: impl FnMut(Message<'_>),
    ) -> Result<Pass, NetlinkError> {
        self.send(kind, NLM_F_REQUEST | NLM_F_DUMP, body)?;
        let mut pass = Pass::Consistent;
        loop {
            let length = match self.receive() {
                Ok(length) => length,
                // Messages were thrown away, and the dump goes on.
                Err(Errno::NOBUFS) => {
                    pass = Pass::Overtaken;
                    continue;
                }
                Err(errno) => return Err(NetlinkError::Receive(errno)),
            };
            let taken = take(&self.buffer[..length], self.sequence, &mut each)?;
            if taken.interrupted {
                pass = Pass::Overtaken;
            }
            if taken.end {
                return Ok(pass);
            }
        }
    }

    /// Asks a question that has one answer, of which `parse` makes something.
    pub fn ask<T>(
        &mut self,
        kind: u16,
        body: &[u8],
        parse: impl Fn(Message<'_>) -> Option<T>,
    ) -> Result<Option<T>, NetlinkError> {
        self.send(kind, NLM_F_REQUEST, body)?;
        loop {
            let length = self.receive().map_err(NetlinkError::Receive)?;
            let mut answer = None;
            let taken = take(&self.buffer[..length], self.sequence, &mut |message| {
                answer = Some(parse(message));
            })?;
            match answer {
                Some(answer) => return Ok(answer),
                None if taken.end => return Ok(None),
                // Of an earlier question.
                None => {}
            }
        }
    }

    fn send(&mut self, kind: u16, flags: u16, body: &[u8]) -> Result<(), NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = request(kind, flags, self.sequence, body);
        send(&self.socket, &request, SendFlags::empty()).map_err(NetlinkError::Send)?;
        Ok(())
    }

    /// One datagram, whole: its length is asked for first, as nothing tells it beforehand.
    fn receive(&mut self) -> Result<usize, Errno> {
        let nothing: &mut [u8] = &mut [];
        let peek = RecvFlags::PEEK | RecvFlags::TRUNC;
        let (_, length) = retry_on_intr(|| recv(&self.socket, &mut *nothing, peek))?;
        if length > self.buffer.len() {
            self.buffer.resize(length, 0);
        }
        let (_, length) =
            retry_on_intr(|| recv(&self.socket, &mut self.buffer[..], RecvFlags::TRUNC))?;
        Ok(length.min(self.buffer.len()))
    }
}

fn request(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend_from_slice(&((HEADER + body.len()) as u32).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&flags.to_ne_bytes());
    bytes.extend_from_slice(&sequence.to_ne_bytes());
    bytes.extend_from_slice(&0u32.to_ne_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// What one datagram held.
#[derive(Debug, Default, PartialEq, Eq)]
struct Taken {
    /// The dump is over.
    end: bool,
    interrupted: bool,
}

/// Hands the messages of a datagram that answer the request 0 to `each`: for fuzzing.
pub(crate) fn replies(
    datagram: &[u8],
    mut each: impl FnMut(Message<'_>),
) -> Result<(), NetlinkError> {
    take(datagram, 0, &mut each).map(|_| ())
}

/// Hands the messages of a datagram that answer `sequence` to `each`.
fn take(
    datagram: &[u8],
    sequence: u32,
    each: &mut impl FnMut(Message<'_>),
) -> Result<Taken, NetlinkError> {
    let mut taken = Taken::default();
    let mut messages = Messages(datagram);
    for message in &mut messages {
        // Left over from an earlier dump that failed half-way.
        if message.sequence != sequence {
            continue;
        }
        taken.interrupted |= message.flags & NLM_F_DUMP_INTR != 0;
        match message.kind {
            NLMSG_NOOP => {}
            NLMSG_ERROR => {
                refusal(message.body)?;
                taken.end = true;
            }
            NLMSG_DONE => {
                // Carries the dump's own error, if any; kernels before 4.14 leave the body out.
                if message.body.len() >= 4 {
                    refusal(message.body)?;
                }
                taken.end = true;
            }
            _ => each(message),
        }
    }
    if messages.0.is_empty() {
        Ok(taken)
    } else {
        Err(NetlinkError::Malformed(
            "a message longer than its datagram",
        ))
    }
}

/// The negative error number at the start of `NLMSG_ERROR` and `NLMSG_DONE`; 0 = none.
fn refusal(body: &[u8]) -> Result<(), NetlinkError> {
    let code =
        u32_at(body, 0).ok_or(NetlinkError::Malformed("an error without its number"))? as i32;
    match code {
        0.. => Ok(()),
        -4095..=-1 => Err(NetlinkError::Refused(Errno::from_raw_os_error(-code))),
        _ => Err(NetlinkError::Malformed("an error number out of range")),
    }
}

/// The messages of a datagram; ends at the first that is not whole, leaving the rest in place.
struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let length = u32_at(self.0, 0)? as usize;
        if length < HEADER || length > self.0.len() {
            return None;
        }
        let message = Message {
            kind: u16_at(self.0, 4)?,
            flags: u16_at(self.0, 6)?,
            sequence: u32_at(self.0, 8)?,
            body: &self.0[HEADER..length],
        };
        self.0 = self.0.get(align(length)..).unwrap_or_default();
        Some(message)
    }
}

/// The attributes (`struct nlattr`) in `bytes`, by type and payload; ends at the first that is not whole.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = u16_at(rest, 0)? as usize;
        let kind = u16_at(rest, 2)? & NLA_TYPE_MASK;
        let payload = rest.get(4..length)?;
        rest = rest.get(align(length)..).unwrap_or_default();
        Some((kind, payload))
    })
}

/// The payload of the first attribute of type `kind`.
pub fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(k, _)| *k == kind).map(|(_, p)| p)
}

/// A string attribute, up to its NUL.
pub fn text(payload: &[u8]) -> String {
    let end = payload.iter().position(|&b| b == 0);
    String::from_utf8_lossy(&payload[..end.unwrap_or(payload.len())]).into_owned()
}

fn align(length: usize) -> usize {
    length.saturating_add(3) & !3
}

/// Reads an integer of the host's byte order; `None` where the bytes end before it does (an older kernel).
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// As [`u16_at`].
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// As [`u16_at`].
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An attribute as the kernel lays it out.
    pub(crate) fn attr(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = ((payload.len() + 4) as u16).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(payload);
        bytes.resize(align(bytes.len()), 0);
        bytes
    }

    fn message(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = request(kind, flags, sequence, body);
        bytes.resize(align(bytes.len()), 0);
        bytes
    }

    #[test]
    fn a_datagram_is_taken_apart_and_other_sequences_are_passed_over() {
        let mut bytes = message(16, 2, 7, b"abc");
        bytes.extend(message(16, 2, 6, b"old"));
        bytes.extend(message(16, 2 | NLM_F_DUMP_INTR, 7, b"defg"));
        bytes.extend(message(NLMSG_DONE, 2, 7, &0i32.to_ne_bytes()));
        let mut seen = Vec::new();
        let taken = take(&bytes, 7, &mut |m| seen.push(m.body.to_vec())).unwrap();
        assert_eq!(seen, [b"abc".to_vec(), b"defg".to_vec()]);
        assert_eq!(
            taken,
            Taken {
                end: true,
                interrupted: true
            }
        );
    }

    #[test]
    fn a_cut_message_is_said_and_an_error_is_an_error() {
        let bytes = message(16, 2, 7, b"abcdefgh");
        assert!(matches!(
            take(&bytes[..20], 7, &mut |_| {}),
            Err(NetlinkError::Malformed(_))
        ));
        let refused = message(NLMSG_ERROR, 0, 7, &(-2i32).to_ne_bytes());
        assert!(matches!(
            take(&refused, 7, &mut |_| {}),
            Err(NetlinkError::Refused(Errno::NOENT))
        ));
        let failed = message(NLMSG_DONE, 2, 7, &(-90i32).to_ne_bytes());
        assert!(matches!(
            take(&failed, 7, &mut |_| {}),
            Err(NetlinkError::Refused(Errno::MSGSIZE))
        ));
        let empty = message(NLMSG_ERROR, 0, 7, &[]);
        assert!(matches!(
            take(&empty, 7, &mut |_| {}),
            Err(NetlinkError::Malformed(_))
        ));
        let absurd = message(NLMSG_ERROR, 0, 7, &i32::MIN.to_ne_bytes());
        assert!(matches!(
            take(&absurd, 7, &mut |_| {}),
            Err(NetlinkError::Malformed(_))
        ));
    }

    #[test]
    fn attributes_end_where_they_stop_making_sense() {
        let mut bytes = attr(1, b"veth\0");
        bytes.extend(attr(2 | 0x8000, &5u32.to_ne_bytes()));
        bytes.extend([3, 0, 9, 0]);
        let all: Vec<_> = attributes(&bytes).collect();
        assert_eq!(all, [(1, &b"veth\0"[..]), (2, &5u32.to_ne_bytes()[..])]);
        assert_eq!(text(attribute(&bytes, 1).unwrap()), "veth");
        assert_eq!(attribute(&bytes, 9), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = take(&bytes, 0, &mut |m| { attributes(m.body).count(); });
            attributes(&bytes).for_each(|(_, payload)| { text(payload); });
        }
    }
}
