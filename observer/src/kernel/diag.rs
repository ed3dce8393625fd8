//! Socket-diag: every TCP socket of a network namespace at one moment, as `ss` reads it.
//!
//! The fallback where eBPF is not to be had, `list --window 0`, and the join of sockets with their owners. It polls:
//! what happens between two dumps is not seen (TRAPS 17, 47).

mod congestion;
mod info;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::event::{Attributes, FlowId, Sample, TcpState};
use crate::host::netlink::{
    Message, Netlink, NetlinkError, Pass, attributes, text, u32_at, u64_at,
};
use info::TcpInfo;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const IPPROTO_TCP: u8 = 6;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// `struct inet_diag_req_v2`.
const REQUEST: usize = 56;
/// `struct inet_diag_msg`.
const INET_DIAG_MSG: usize = 72;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_VEGASINFO: u16 = 3;
const INET_DIAG_CONG: u16 = 4;
const INET_DIAG_SKMEMINFO: u16 = 7;
const INET_DIAG_DCTCPINFO: u16 = 9;
const INET_DIAG_BBRINFO: u16 = 16;
const INET_DIAG_CGROUP_ID: u16 = 21;
/// `idiag_ext`: one bit per attribute asked for. `VEGASINFO` brings `BBRINFO` or `DCTCPINFO`; the cgroup comes unasked.
const EXTENSIONS: u8 =
    bit(INET_DIAG_INFO) | bit(INET_DIAG_VEGASINFO) | bit(INET_DIAG_CONG) | bit(INET_DIAG_SKMEMINFO);

const fn bit(attribute: u16) -> u8 {
    1 << (attribute - 1)
}

/// A set of TCP states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct States(u32);

impl States {
    /// All: also listening, TIME-WAIT and SYN-RECV (`ss -a`).
    pub const ALL: Self = Self(u32::MAX);
    /// What `ss` shows without `-a`: [`TcpState::is_connected`].
    pub const CONNECTED: Self = Self(1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11);

    /// By `include/net/tcp_states.h`: bit *n* stands for state *n*.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// Address families to ask for. `v6` sockets that talk IPv4 (v4-mapped) come with `v6` and are shown as IPv4 (TRAPS 16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Families {
    pub v4: bool,
    pub v6: bool,
}

impl Families {
    pub const BOTH: Self = Self { v4: true, v6: true };
}

/// A TCP socket of any kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Socket {
    pub id: FlowId,
    pub state: TcpState,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Inode number in sockfs; 0 = no descriptor any more, or none yet.
    pub inode: u32,
    pub uid: u32,
    /// `SO_BINDTODEVICE`, or the device of a link-local address; not the route's.
    pub bound_ifindex: Option<u32>,
    /// Bytes not yet read; of a listener, connections not yet accepted.
    pub receive_queue: u32,
    /// Bytes not yet acknowledged, unsent ones included; of a listener, its backlog.
    pub send_queue: u32,
    /// `None` for TIME-WAIT and request sockets, which are no `tcp_sock` (TRAPS 31).
    pub attributes: Option<Attributes>,
    /// `None` for those and for listeners, of which `tcp_get_info()` fills in almost nothing.
    pub sample: Option<Sample>,
}

/// A socket-diag socket.
#[derive(Debug)]
pub struct Diag {
    netlink: Netlink,
    netns: u32,
}

impl Diag {
    /// Opens it in the calling thread's namespace, of inode number `netns`, whose sockets it will list from then on.
    pub fn open(netns: u32) -> Result<Self, NetlinkError> {
        let netlink = Netlink::open(Some(rustix::net::netlink::SOCK_DIAG))?;
        Ok(Self { netlink, netns })
    }

    /// Hands each socket in one of `states` to `each`. While sockets come and go, one may be passed over or come twice:
    /// the kernel walks its hash table without holding it. After an error, open another.
    pub fn dump(
        &mut self,
        states: States,
        families: Families,
        mut each: impl FnMut(Socket),
    ) -> Result<(), NetlinkError> {
        let wanted = [(AF_INET, families.v4), (AF_INET6, families.v6)];
        for (family, _) in wanted.into_iter().filter(|(_, wanted)| *wanted) {
            let netns = self.netns;
            let request = request(family, states);
            let pass = self
                .netlink
                .pass(SOCK_DIAG_BY_FAMILY, &request, |message| {
                    if let Some(socket) = parse(message, netns) {
                        each(socket);
                    }
                })?;
            if pass == Pass::Overtaken {
                return Err(NetlinkError::Interrupted);
            }
        }
        Ok(())
    }
}

/// `struct inet_diag_req_v2`; the socket id is not used in a dump.
fn request(family: u8, states: States) -> [u8; REQUEST] {
    let mut request = [0; REQUEST];
    request[0] = family;
    request[1] = IPPROTO_TCP;
    request[2] = EXTENSIONS;
    request[4..8].copy_from_slice(&states.0.to_ne_bytes());
    request
}

/// What follows a socket's `inet_diag_msg`.
#[derive(Debug, Default)]
struct Parts<'a> {
    info: Option<TcpInfo<'a>>,
    cc_name: &'a [u8],
    memory: &'a [u8],
    cgroup_id: Option<u64>,
    bbr: Option<&'a [u8]>,
    dctcp: Option<&'a [u8]>,
}

impl<'a> Parts<'a> {
    fn read(bytes: &'a [u8]) -> Self {
        let mut parts = Self::default();
        for (kind, payload) in attributes(bytes) {
            match kind {
                INET_DIAG_INFO => parts.info = TcpInfo::new(payload),
                INET_DIAG_CONG => parts.cc_name = payload,
                INET_DIAG_SKMEMINFO => parts.memory = payload,
                INET_DIAG_CGROUP_ID => parts.cgroup_id = u64_at(payload, 0),
                INET_DIAG_BBRINFO => parts.bbr = Some(payload),
                INET_DIAG_DCTCPINFO => parts.dctcp = Some(payload),
                _ => {}
            }
        }
        parts
    }
}

/// `None` for another message and for one too short to be a socket.
fn parse(message: Message<'_>, netns: u32) -> Option<Socket> {
    let body = message.body;
    if message.kind != SOCK_DIAG_BY_FAMILY || body.len() < INET_DIAG_MSG {
        return None;
    }
    let state = TcpState::from_kernel(body[1]);
    let local = endpoint(body[0], &body[8..24], &body[4..6])?;
    let remote = endpoint(body[0], &body[24..40], &body[6..8])?;
    let parts = Parts::read(&body[INET_DIAG_MSG..]);
    let (attributes, sample) = match parts.info {
        Some(ref info) => details(state, local, remote, info, &parts),
        None => (None, None),
    };
    Some(Socket {
        id: FlowId {
            // Two words, the lower first, each in the host's order (`sock_diag_save_cookie`).
            cookie: u64::from(u32_at(body, 48)?) << 32 | u64::from(u32_at(body, 44)?),
            netns,
        },
        state,
        local,
        remote,
        inode: u32_at(body, 68)?,
        uid: u32_at(body, 64)?,
        bound_ifindex: u32_at(body, 40).filter(|index| *index != 0),
        receive_queue: u32_at(body, 56)?,
        send_queue: u32_at(body, 60)?,
        attributes,
        sample,
    })
}

fn details(
    state: TcpState,
    local: SocketAddr,
    remote: SocketAddr,
    info: &TcpInfo<'_>,
    parts: &Parts<'_>,
) -> (Option<Attributes>, Option<Sample>) {
    let mut attributes = info.attributes(state, local, remote);
    attributes.cc_name = text(parts.cc_name);
    attributes.cc_version = parts.bbr.and_then(congestion::bbr_version);
    attributes.cgroup_id = parts.cgroup_id;
    let sample = (state != TcpState::Listen).then(|| {
        let mut sample = info.sample(state);
        // `SK_MEMINFO_*`, words of 32 bits.
        sample.rcvbuf_bytes = u32_at(parts.memory, 4);
        sample.sndbuf_bytes = u32_at(parts.memory, 12);
        sample.wmem_queued_bytes = u32_at(parts.memory, 20);
        sample.cc = (parts.bbr.and_then(congestion::bbr))
            .or_else(|| parts.dctcp.and_then(congestion::dctcp));
        sample
    });
    (Some(attributes), sample)
}

/// Scope ids are left out, as they are by the programs: one flow has one address.
fn endpoint(family: u8, address: &[u8], port: &[u8]) -> Option<SocketAddr> {
    let ip = match family {
        AF_INET => IpAddr::V4(Ipv4Addr::from(*address.first_chunk::<4>()?)),
        AF_INET6 => IpAddr::V6(Ipv6Addr::from(*address.first_chunk::<16>()?)).to_canonical(),
        _ => return None,
    };
    let port = u16::from_be_bytes(*port.first_chunk()?);
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::host::netlink::tests::attr;

    fn socket(body: &[u8]) -> Option<Socket> {
        let message = Message {
            kind: SOCK_DIAG_BY_FAMILY,
            flags: 2,
            sequence: 1,
            body,
        };
        parse(message, 9)
    }

    fn message(family: u8, state: u8, local: &[u8], remote: &[u8]) -> Vec<u8> {
        let mut body = vec![0; INET_DIAG_MSG];
        body[0] = family;
        body[1] = state;
        body[4..6].copy_from_slice(&5201u16.to_be_bytes());
        body[6..8].copy_from_slice(&40_000u16.to_be_bytes());
        body[8..8 + local.len()].copy_from_slice(local);
        body[24..24 + remote.len()].copy_from_slice(remote);
        body[44..48].copy_from_slice(&5u32.to_ne_bytes());
        body[48..52].copy_from_slice(&1u32.to_ne_bytes());
        body[64..68].copy_from_slice(&1000u32.to_ne_bytes());
        body[68..72].copy_from_slice(&77u32.to_ne_bytes());
        body
    }

    #[test]
    fn trap_31_a_time_wait_socket_has_no_sample() {
        let socket = socket(&message(AF_INET, 6, &[10, 0, 0, 1], &[10, 0, 0, 2])).unwrap();
        assert_eq!(socket.state, TcpState::TimeWait);
        assert_eq!(socket.id.cookie, 1 << 32 | 5);
        assert_eq!(socket.local, "10.0.0.1:5201".parse().unwrap());
        assert_eq!(socket.remote, "10.0.0.2:40000".parse().unwrap());
        assert_eq!((socket.inode, socket.uid), (77, 1000));
        assert_eq!((socket.attributes, socket.sample), (None, None));
    }

    #[test]
    fn trap_31_a_listener_has_attributes_and_no_sample() {
        let mut body = message(AF_INET6, 10, &[0; 16], &[0; 16]);
        body.extend(attr(INET_DIAG_INFO, &[0; 232]));
        body.extend(attr(INET_DIAG_CONG, b"cubic\0"));
        let socket = socket(&body).unwrap();
        assert_eq!(socket.sample, None);
        let attributes = socket.attributes.unwrap();
        assert_eq!(attributes.cc_name, "cubic");
        assert_eq!(attributes.sack, None);
        assert_eq!(attributes.pmtu, None);
    }

    #[test]
    fn trap_16_a_v4_mapped_socket_is_ipv4() {
        let mapped = |last| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, last];
        let socket = socket(&message(AF_INET6, 1, &mapped(1), &mapped(2))).unwrap();
        assert_eq!(socket.local, "10.0.0.1:5201".parse().unwrap());
        assert_eq!(socket.remote, "10.0.0.2:40000".parse().unwrap());
    }

    #[test]
    fn the_connected_states_are_those_of_the_domain() {
        for state in 0..32 {
            let connected = TcpState::from_kernel(state).is_connected();
            assert_eq!(States::CONNECTED.0 & 1 << state != 0, connected, "{state}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            socket(&bytes);
        }

        #[test]
        fn any_attribute_of_any_length_is_survived(
            kind in 0u16..24,
            payload in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut body = message(AF_INET, 1, &[10, 0, 0, 1], &[10, 0, 0, 2]);
            body.extend(attr(kind, &payload));
            let socket = socket(&body).unwrap();
            prop_assert!(socket.sample.is_none() || kind == INET_DIAG_INFO);
        }
    }
}
