//! Socket-diag: every TCP socket of a network namespace at one moment, as `ss` reads it.
//!
//! The fallback where eBPF is not to be had, `list --window 0`, and the join of sockets with their owners. It polls:
//! what happens between two dumps is not seen (TRAPS 17, 47).

mod congestion;
mod info;

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::event::{Attributes, FlowId, Sample, TcpState};
use crate::host::netlink::{Netlink, NetlinkError, Pass, attributes, replies, u32_at, u64_at};
use info::TcpInfo;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const TCPDIAG_GETSOCK: u16 = 18;
const IPPROTO_TCP: u8 = 6;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// `struct inet_diag_req_v2`.
const REQUEST: usize = 56;
/// `struct inet_diag_req`.
const OLD_REQUEST: usize = 60;
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
const EXTENSIONS: u8 = PLAIN_EXTENSIONS | bit(INET_DIAG_SKMEMINFO);
/// What `ss -i` asks for.
const PLAIN_EXTENSIONS: u8 = bit(INET_DIAG_INFO) | bit(INET_DIAG_VEGASINFO) | bit(INET_DIAG_CONG);

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
        self.visit(states, families, EXTENSIONS, |seen| each(seen.socket()))
    }

    /// As [`Self::dump`], without making anything of a socket that is not asked for, and without the sizes of its
    /// buffers: for very many.
    pub fn visit_plain(
        &mut self,
        states: States,
        families: Families,
        each: impl FnMut(&Seen<'_>),
    ) -> Result<(), NetlinkError> {
        self.visit(states, families, PLAIN_EXTENSIONS, each)
    }

    fn visit(
        &mut self,
        states: States,
        families: Families,
        extensions: u8,
        mut each: impl FnMut(&Seen<'_>),
    ) -> Result<(), NetlinkError> {
        let (kind, request) = match (families.v4, families.v6) {
            (true, true) => (TCPDIAG_GETSOCK, request_any(states, extensions)),
            (true, false) => (SOCK_DIAG_BY_FAMILY, request(AF_INET, states, extensions)),
            (false, true) => (SOCK_DIAG_BY_FAMILY, request(AF_INET6, states, extensions)),
            (false, false) => return Ok(()),
        };
        let netns = self.netns;
        let pass = self.netlink.pass(kind, &request, |message| {
            if message.kind == kind
                && let Some(seen) = Seen::read(message.body, netns)
            {
                each(&seen);
            }
        })?;
        match pass {
            Pass::Consistent => Ok(()),
            Pass::Overtaken => Err(NetlinkError::Interrupted),
        }
    }
}

/// `struct inet_diag_req_v2`; the socket id is not used in a dump.
fn request(family: u8, states: States, extensions: u8) -> Vec<u8> {
    let mut request = vec![0; REQUEST];
    request[0] = family;
    request[1] = IPPROTO_TCP;
    request[2] = extensions;
    request[4..8].copy_from_slice(&states.0.to_ne_bytes());
    request
}

/// The older `struct inet_diag_req`: the only one that may leave the family open, so that the kernel walks its table of
/// sockets once, not once per family (a quarter of a million buckets on a machine of 32 GiB).
fn request_any(states: States, extensions: u8) -> Vec<u8> {
    let mut request = vec![0; OLD_REQUEST];
    request[3] = extensions;
    request[52..56].copy_from_slice(&states.0.to_ne_bytes());
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

/// A socket where the kernel's reply lies: nothing of it is copied before it is asked for.
#[derive(Debug)]
pub struct Seen<'a> {
    body: &'a [u8],
    pub id: FlowId,
    pub state: TcpState,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    parts: Parts<'a>,
}

impl<'a> Seen<'a> {
    /// `None` for a body too short to be a socket's, and for a family that is none of ours.
    fn read(body: &'a [u8], netns: u32) -> Option<Self> {
        if body.len() < INET_DIAG_MSG {
            return None;
        }
        Some(Self {
            body,
            id: FlowId {
                // Two words, the lower first, each in the host's order (`sock_diag_save_cookie`).
                cookie: u64::from(u32_at(body, 48)?) << 32 | u64::from(u32_at(body, 44)?),
                netns,
            },
            state: TcpState::from_kernel(body[1]),
            local: endpoint(body[0], &body[8..24], &body[4..6])?,
            remote: endpoint(body[0], &body[24..40], &body[6..8])?,
            parts: Parts::read(&body[INET_DIAG_MSG..]),
        })
    }

    /// A field of the `inet_diag_msg`, whose length was checked.
    fn word(&self, at: usize) -> u32 {
        u32_at(self.body, at).unwrap_or_default()
    }

    /// See [`Socket::inode`].
    pub fn inode(&self) -> u32 {
        self.word(68)
    }

    /// The congestion control's name; `None` = it has none (TIME-WAIT).
    pub fn cc_name(&self) -> Option<Cow<'a, str>> {
        self.parts.info.as_ref()?;
        Some(name(self.parts.cc_name))
    }

    /// See [`Attributes::cc_version`].
    pub fn cc_version(&self) -> Option<String> {
        self.parts.bbr.and_then(congestion::bbr_version)
    }

    /// See [`Socket::attributes`].
    pub fn attributes(&self) -> Option<Attributes> {
        let info = self.parts.info.as_ref()?;
        let mut attributes = info.attributes(self.state, self.local, self.remote);
        attributes.cc_name = name(self.parts.cc_name).into_owned();
        attributes.cc_version = self.cc_version();
        attributes.cgroup_id = self.parts.cgroup_id;
        Some(attributes)
    }

    /// See [`Socket::sample`].
    pub fn sample(&self) -> Option<Sample> {
        let info = self.parts.info.as_ref()?;
        if self.state == TcpState::Listen {
            return None;
        }
        let mut sample = info.sample(self.state);
        // `SK_MEMINFO_*`, words of 32 bits.
        sample.rcvbuf_bytes = u32_at(self.parts.memory, 4);
        sample.sndbuf_bytes = u32_at(self.parts.memory, 12);
        sample.wmem_queued_bytes = u32_at(self.parts.memory, 20);
        sample.cc = (self.parts.bbr.and_then(congestion::bbr))
            .or_else(|| self.parts.dctcp.and_then(congestion::dctcp));
        Some(sample)
    }

    /// All of it.
    fn socket(&self) -> Socket {
        Socket {
            id: self.id,
            state: self.state,
            local: self.local,
            remote: self.remote,
            inode: self.inode(),
            uid: self.word(64),
            bound_ifindex: Some(self.word(40)).filter(|index| *index != 0),
            receive_queue: self.word(56),
            send_queue: self.word(60),
            attributes: self.attributes(),
            sample: self.sample(),
        }
    }
}

/// The sockets of a datagram, whatever it is, as of the namespace 0: for fuzzing.
#[doc(hidden)]
pub fn read_sockets(datagram: &[u8]) -> Vec<Socket> {
    let mut sockets = Vec::new();
    let _ = replies(datagram, |message| {
        sockets.extend(Seen::read(message.body, 0).map(|seen| seen.socket()));
    });
    sockets
}

/// Up to its NUL.
fn name(payload: &[u8]) -> Cow<'_, str> {
    let end = payload.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&payload[..end.unwrap_or(payload.len())])
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
        Seen::read(body, 9).map(|seen| seen.socket())
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

    /// The dump of both families goes by the older request, so that its layout is to be as the kernel's.
    #[test]
    fn the_request_for_any_family_leaves_it_open() {
        let request = request_any(States::CONNECTED, PLAIN_EXTENSIONS);
        assert_eq!(request.len(), OLD_REQUEST);
        assert_eq!(request[..4], [0, 0, 0, PLAIN_EXTENSIONS]);
        assert_eq!(request[52..56], States::CONNECTED.0.to_ne_bytes());
        assert_eq!(request[56..], [0; 4], "idiag_dbs");
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
