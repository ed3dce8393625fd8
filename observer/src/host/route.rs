//! `RTM_GETROUTE`: the device that packets from one address to another leave by, as the kernel would route them now.

use std::net::IpAddr;

use super::netlink::{Message, Netlink, NetlinkError, attribute, u32_at};

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
/// `struct rtmsg`.
const RTMSG: usize = 12;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// Asks the routing tables of one network namespace.
#[derive(Debug)]
pub struct Routes(Netlink);

impl Routes {
    /// Of the calling thread's namespace, from then on.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self(Netlink::open(None)?))
    }

    /// The index of the device; `None` = no route. Marks and users that rules may go by are not told to the kernel.
    pub fn device(&mut self, from: IpAddr, to: IpAddr) -> Result<Option<u32>, NetlinkError> {
        let Some(request) = request(from, to) else {
            return Ok(None);
        };
        match self.0.ask(RTM_GETROUTE, &request, parse) {
            Ok(device) => Ok(device),
            // Unreachable, or an address that is not ours by now.
            Err(NetlinkError::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// `None` for ends of two families.
fn request(from: IpAddr, to: IpAddr) -> Option<Vec<u8>> {
    let mut body = vec![0; RTMSG];
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            (body[0], body[1], body[2]) = (AF_INET, 32, 32);
            push(&mut body, RTA_DST, &to.octets());
            push(&mut body, RTA_SRC, &from.octets());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            (body[0], body[1], body[2]) = (AF_INET6, 128, 128);
            push(&mut body, RTA_DST, &to.octets());
            push(&mut body, RTA_SRC, &from.octets());
        }
        _ => return None,
    }
    Some(body)
}

/// An attribute whose payload needs no padding.
fn push(body: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    body.extend_from_slice(&((payload.len() + 4) as u16).to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(payload);
}

pub(super) fn parse(message: Message<'_>) -> Option<u32> {
    if message.kind != RTM_NEWROUTE {
        return None;
    }
    let device = attribute(message.body.get(RTMSG..)?, RTA_OIF)?;
    u32_at(device, 0).filter(|index| *index != 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::netlink::tests::attr;
    use super::*;

    fn new_route(body: &[u8]) -> Option<u32> {
        parse(Message {
            kind: RTM_NEWROUTE,
            flags: 0,
            sequence: 0,
            body,
        })
    }

    #[test]
    fn the_device_is_read_and_none_is_none() {
        let mut body = vec![0; RTMSG];
        assert_eq!(new_route(&body), None);
        body.extend(attr(RTA_DST, &[10, 0, 0, 1]));
        body.extend(attr(RTA_OIF, &7u32.to_ne_bytes()));
        assert_eq!(new_route(&body), Some(7));
    }

    #[test]
    fn loopback_leaves_by_lo() {
        let mut routes = Routes::open().unwrap();
        let lo = [127, 0, 0, 1].into();
        assert_eq!(routes.device(lo, lo).unwrap(), Some(1));
        // And the socket serves for more than one question, refused ones between.
        let nowhere = "192.0.2.1".parse().unwrap();
        assert_eq!(routes.device(nowhere, nowhere).unwrap(), None);
        assert_eq!(routes.device(lo, "::1".parse().unwrap()).unwrap(), None);
        assert_eq!(routes.device(lo, lo).unwrap(), Some(1));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            new_route(&bytes);
        }
    }
}
