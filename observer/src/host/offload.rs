//! `ETHTOOL_MSG_FEATURES_GET`: what a device cuts and joins on TCP's behalf.

use std::collections::BTreeMap;

use rustix::net::netlink::GENERIC;

use super::netlink::{Message, Netlink, NetlinkError, attribute, attributes, text, u16_at, u32_at};
use crate::event::Offloads;

/// `struct genlmsghdr`.
const GENLMSGHDR: usize = 4;
const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const ETHTOOL: &[u8] = b"ethtool\0";
const ETHTOOL_MSG_FEATURES_GET: u8 = 11;
const ETHTOOL_A_FEATURES_HEADER: u16 = 1;
const ETHTOOL_A_FEATURES_ACTIVE: u16 = 4;
const ETHTOOL_A_HEADER_DEV_INDEX: u16 = 1;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BITS_BIT: u16 = 1;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;

/// Of all devices of the calling thread's namespace, by index.
pub fn offloads() -> Result<BTreeMap<u32, Offloads>, NetlinkError> {
    let mut netlink = Netlink::open(Some(GENERIC))?;
    let mut body = vec![CTRL_CMD_GETFAMILY, 1, 0, 0];
    body.extend_from_slice(&12u16.to_ne_bytes());
    body.extend_from_slice(&CTRL_ATTR_FAMILY_NAME.to_ne_bytes());
    body.extend_from_slice(ETHTOOL);
    let family = netlink.ask(GENL_ID_CTRL, &body, family)?;
    let family = family.ok_or(NetlinkError::Malformed("no number for ethtool"))?;
    let body = [ETHTOOL_MSG_FEATURES_GET, 1, 0, 0];
    let found = netlink.collect(family, &body, device)?;
    Ok(found.into_iter().collect())
}

pub(super) fn family(message: Message<'_>) -> Option<u16> {
    u16_at(
        attribute(message.body.get(GENLMSGHDR..)?, CTRL_ATTR_FAMILY_ID)?,
        0,
    )
}

/// A device's index and what it has switched on: bits that are off are not listed.
pub(super) fn device(message: Message<'_>) -> Option<(u32, Offloads)> {
    let body = message.body.get(GENLMSGHDR..)?;
    let header = attribute(body, ETHTOOL_A_FEATURES_HEADER)?;
    let index = u32_at(attribute(header, ETHTOOL_A_HEADER_DEV_INDEX)?, 0)?;
    let active = attribute(body, ETHTOOL_A_FEATURES_ACTIVE)?;
    let mut offloads = Offloads::default();
    let bits = attribute(active, ETHTOOL_A_BITSET_BITS).unwrap_or_default();
    for (kind, bit) in attributes(bits) {
        let name = attribute(bit, ETHTOOL_A_BITSET_BIT_NAME).map(text);
        let Some(name) = name.filter(|_| kind == ETHTOOL_A_BITSET_BITS_BIT) else {
            continue;
        };
        // The kernel's names (`netdev_features_strings`); `ethtool -k` calls tso any of the three, too.
        match name.as_str() {
            "tx-tcp-segmentation" | "tx-tcp6-segmentation" | "tx-tcp-ecn-segmentation" => {
                offloads.tso = true;
            }
            "tx-generic-segmentation" => offloads.gso = true,
            "rx-gro" => offloads.gro = true,
            "rx-gro-hw" => offloads.gro_hw = true,
            "rx-lro" => offloads.lro = true,
            _ => {}
        }
    }
    Some((index, offloads))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::netlink::tests::attr;
    use super::*;

    fn message(body: &[u8]) -> Message<'_> {
        Message {
            kind: 0x15,
            flags: 0,
            sequence: 0,
            body,
        }
    }

    #[test]
    fn what_is_on_is_told_by_the_kernels_names() {
        let bit = |name: &[u8]| {
            attr(
                ETHTOOL_A_BITSET_BITS_BIT,
                &attr(ETHTOOL_A_BITSET_BIT_NAME, name),
            )
        };
        let bits = [
            bit(b"tx-generic-segmentation\0"),
            bit(b"tx-tcp6-segmentation\0"),
            bit(b"rx-gro\0"),
            bit(b"highdma\0"),
        ];
        let mut body = vec![ETHTOOL_MSG_FEATURES_GET, 1, 0, 0];
        body.extend(attr(
            ETHTOOL_A_FEATURES_HEADER,
            &attr(ETHTOOL_A_HEADER_DEV_INDEX, &7u32.to_ne_bytes()),
        ));
        body.extend(attr(
            ETHTOOL_A_FEATURES_ACTIVE,
            &attr(ETHTOOL_A_BITSET_BITS, &bits.concat()),
        ));
        let expected = Offloads {
            tso: true,
            gso: true,
            gro: true,
            ..Offloads::default()
        };
        assert_eq!(device(message(&body)), Some((7, expected)));
        assert_eq!(device(message(&body[..12])), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            device(message(&bytes));
            family(message(&bytes));
        }
    }
}
