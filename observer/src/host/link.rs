//! `RTM_GETLINK`: the network devices of a namespace.

use super::netlink::{Message, Netlink, NetlinkError, attribute, attributes, text, u32_at};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
/// `struct ifinfomsg`.
const IFINFOMSG: usize = 16;
const IFF_UP: u32 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINKINFO: u16 = 18;
const IFLA_EXT_MASK: u16 = 29;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_INFO_KIND: u16 = 1;
/// `RTEXT_FILTER_SKIP_STATS`: the interface statistics are not needed here.
const SKIP_STATS: u32 = 1 << 3;

/// A device, without its qdiscs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub ifindex: u32,
    pub name: String,
    /// Bytes.
    pub mtu: u32,
    /// `IFF_UP`: administratively up.
    pub up: bool,
    /// `IFLA_INFO_KIND`.
    pub kind: Option<String>,
    /// `IFLA_NUM_TX_QUEUES`.
    pub tx_queues: u32,
}

/// All devices of the socket's namespace, by index.
pub fn links(netlink: &mut Netlink) -> Result<Vec<Link>, NetlinkError> {
    let mut body = vec![0; IFINFOMSG];
    body.extend_from_slice(&8u16.to_ne_bytes());
    body.extend_from_slice(&IFLA_EXT_MASK.to_ne_bytes());
    body.extend_from_slice(&SKIP_STATS.to_ne_bytes());
    let mut links = netlink.collect(RTM_GETLINK, &body, parse)?;
    links.sort_by_key(|link| link.ifindex);
    Ok(links)
}

/// `None` for another message and for a device without a name.
pub(super) fn parse(message: Message<'_>) -> Option<Link> {
    if message.kind != RTM_NEWLINK {
        return None;
    }
    let mut link = Link {
        ifindex: u32_at(message.body, 4)?,
        name: String::new(),
        mtu: 0,
        up: u32_at(message.body, 8)? & IFF_UP != 0,
        kind: None,
        tx_queues: 1,
    };
    for (kind, payload) in attributes(message.body.get(IFINFOMSG..)?) {
        match kind {
            IFLA_IFNAME => link.name = text(payload),
            IFLA_MTU => link.mtu = u32_at(payload, 0)?,
            IFLA_NUM_TX_QUEUES => link.tx_queues = u32_at(payload, 0)?,
            IFLA_LINKINFO => link.kind = attribute(payload, IFLA_INFO_KIND).map(text),
            _ => {}
        }
    }
    (!link.name.is_empty()).then_some(link)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::netlink::tests::attr;
    use super::*;

    fn new_link(body: &[u8]) -> Option<Link> {
        parse(Message {
            kind: RTM_NEWLINK,
            flags: 0,
            sequence: 0,
            body,
        })
    }

    #[test]
    fn a_link_is_read() {
        let mut body = vec![0; 4];
        body.extend(7u32.to_ne_bytes());
        body.extend(IFF_UP.to_ne_bytes());
        body.extend([0; 4]);
        body.extend(attr(IFLA_IFNAME, b"s-rcv\0"));
        body.extend(attr(IFLA_MTU, &1500u32.to_ne_bytes()));
        body.extend(attr(IFLA_NUM_TX_QUEUES, &4u32.to_ne_bytes()));
        body.extend(attr(IFLA_LINKINFO, &attr(IFLA_INFO_KIND, b"veth\0")));
        assert_eq!(
            new_link(&body),
            Some(Link {
                ifindex: 7,
                name: "s-rcv".to_owned(),
                mtu: 1500,
                up: true,
                kind: Some("veth".to_owned()),
                tx_queues: 4,
            })
        );
        assert_eq!(new_link(&body[..16]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            new_link(&bytes);
        }
    }
}
