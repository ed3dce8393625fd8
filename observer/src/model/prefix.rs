//! Peers by network: a /24 or a /48, about what is routed as one.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The network that a peer's address is in: /24 of IPv4, /48 of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(IpAddr);

impl Prefix {
    pub fn of(address: IpAddr) -> Self {
        Self(match address {
            IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & (u32::MAX << 8)).into(),
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 80)).into(),
        })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = if self.0.is_ipv4() { 24 } else { 48 };
        write!(f, "{}/{length}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_cut_at_24_and_48() {
        let cut = |text: &str| Prefix::of(text.parse().expect("an address")).to_string();
        assert_eq!(cut("192.0.2.77"), "192.0.2.0/24");
        assert_eq!(cut("2001:db8:1:2:3::4"), "2001:db8:1::/48");
    }
}
