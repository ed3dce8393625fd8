//! Events without whose they are: addresses replaced so that prefixes stay prefixes, names by made-up ones.
//!
//! Addresses go through Crypto-PAn (Xu, Fan, Ammar, Moon 2002): a bit is turned or not by the bits before it, under a key
//! that is drawn for each recording and never stored. What stays is what figures need: ports, cookies, namespaces' and
//! cgroups' inode numbers, PIDs, algorithms, sysctls, devices' kinds.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};

use crate::event::{Device, Event, Note, NoteKind, Payload};

/// Stands for a text that may hold anything.
const LEFT_OUT: &str = "(text left out: anonymized)";
/// Addresses whose replacement is remembered.
const MAX_REMEMBERED: usize = 1 << 16;

/// Replaces addresses and names, the same by the same.
pub struct Anonymizer {
    cipher: Aes128,
    pad: u128,
    addresses: HashMap<IpAddr, IpAddr>,
    names: HashMap<String, usize>,
}

impl std::fmt::Debug for Anonymizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key stays out of logs.
        f.debug_struct("Anonymizer").finish_non_exhaustive()
    }
}

impl Anonymizer {
    /// With a key from the kernel.
    pub fn new() -> std::io::Result<Self> {
        let mut key = [0u8; 32];
        let mut filled = 0;
        while filled < key.len() {
            let flags = rustix::rand::GetRandomFlags::empty();
            filled += rustix::rand::getrandom(&mut key[filled..], flags)?;
        }
        Ok(Self::with_key(key))
    }

    /// With this key: the first half is the cipher's, the second makes the padding.
    pub fn with_key(key: [u8; 32]) -> Self {
        let (first, second) = key.split_at(16);
        let half = |half: &[u8]| -> [u8; 16] { half.try_into().unwrap_or_default() };
        let mut anonymizer = Self {
            cipher: Aes128::new(&half(first).into()),
            pad: 0,
            addresses: HashMap::new(),
            names: HashMap::new(),
        };
        anonymizer.pad = anonymizer.encrypt(u128::from_be_bytes(half(second)));
        anonymizer
    }

    fn encrypt(&self, block: u128) -> u128 {
        let mut block = block.to_be_bytes().into();
        self.cipher.encrypt_block(&mut block);
        u128::from_be_bytes(block.into())
    }

    /// Turns the first `length` bits, each by those before it.
    fn turn(&self, bits: u128, length: u32) -> u128 {
        let mut turned = 0;
        for at in 0..length {
            let before = u128::MAX.checked_shl(128 - at).unwrap_or(0);
            let block = bits & before | self.pad & !before;
            turned |= (self.encrypt(block) >> 127) << (127 - at);
        }
        bits ^ turned
    }

    /// The replacement of an address; «any» stays what it is, for it is nobody's.
    pub fn address(&mut self, ip: IpAddr) -> IpAddr {
        if ip.is_unspecified() {
            return ip;
        }
        if let Some(known) = self.addresses.get(&ip) {
            return *known;
        }
        let replaced = match ip {
            IpAddr::V4(v4) => {
                let turned = self.turn(u128::from(v4.to_bits()) << 96, 32);
                IpAddr::V4(Ipv4Addr::from((turned >> 96) as u32))
            }
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(self.turn(v6.to_bits(), 128))),
        };
        if self.addresses.len() >= MAX_REMEMBERED {
            self.addresses.clear();
        }
        self.addresses.insert(ip, replaced);
        replaced
    }

    fn socket(&mut self, address: &mut SocketAddr) {
        address.set_ip(self.address(address.ip()));
    }

    /// A made-up name, the same for the same.
    fn name(&mut self, kind: &str, name: &mut String) {
        let next = self.names.len() + 1;
        let number = *self.names.entry(format!("{kind}{name}")).or_insert(next);
        *name = format!("{kind}{number}");
    }

    /// The event with addresses and names replaced.
    pub fn event(&mut self, event: &Event) -> Event {
        let mut event = event.clone();
        match &mut event.payload {
            Payload::Opened(opened) => {
                self.socket(&mut opened.local);
                self.socket(&mut opened.remote);
            }
            Payload::State(change) => {
                self.socket(&mut change.local);
                self.socket(&mut change.remote);
            }
            Payload::Attributes(attributes) => {
                self.socket(&mut attributes.local);
                self.socket(&mut attributes.remote);
                if let Some(cgroup) = &mut attributes.cgroup {
                    self.name("/cgroup", cgroup);
                }
            }
            Payload::Owners(owners) => {
                for process in owners {
                    self.name("process", &mut process.comm);
                }
            }
            Payload::Host(host) => host.hostname.clear(),
            Payload::Device(device) => self.device(device),
            Payload::Note(note) => scrub(note),
            Payload::Sample(_)
            | Payload::Retransmit(_)
            | Payload::CaState(_)
            | Payload::Closed
            | Payload::DeviceGone(_)
            | Payload::Elsewhere(_)
            | Payload::Gap(_)
            | Payload::Counters(_)
            | Payload::Tick => {}
        }
        event
    }

    fn device(&mut self, device: &mut Device) {
        if device.name != "lo" {
            self.name("dev", &mut device.name);
        }
    }
}

/// The text of an attempt is made of numbers; any other may name files, namespaces, addresses.
fn scrub(note: &mut Note) {
    if note.kind != NoteKind::Attempt {
        LEFT_OUT.clone_into(&mut note.text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of the reference implementation's example.
    const KEY: [u8; 32] = [
        21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144, 125, 16, 216, 152, 143, 131,
        121, 121, 101, 39, 98, 87, 76, 45, 42, 132, 34, 2,
    ];

    #[test]
    fn addresses_are_those_of_the_reference() {
        let mut anonymizer = Anonymizer::with_key(KEY);
        for (from, to) in [
            ("128.11.68.132", "135.242.180.132"),
            ("129.118.74.4", "134.136.186.123"),
            ("130.132.252.244", "133.68.164.234"),
            ("141.223.7.43", "141.167.8.160"),
            ("24.5.0.80", "100.9.15.210"),
        ] {
            let replaced = anonymizer.address(from.parse().unwrap());
            assert_eq!(replaced, to.parse::<IpAddr>().unwrap(), "{from}");
        }
    }

    fn common(a: IpAddr, b: IpAddr) -> u32 {
        match (a, b) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            _ => 0,
        }
    }

    #[test]
    fn prefixes_stay_as_long_as_they_were() {
        let mut anonymizer = Anonymizer::new().unwrap();
        let v4 = [
            "10.0.0.1",
            "10.0.0.2",
            "10.0.1.1",
            "10.128.0.1",
            "192.0.2.9",
        ];
        let v6 = ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "fe80::1"];
        for list in [v4.as_slice(), &v6] {
            for a in list {
                for b in list {
                    let (a, b): (IpAddr, IpAddr) = (a.parse().unwrap(), b.parse().unwrap());
                    let (x, y) = (anonymizer.address(a), anonymizer.address(b));
                    assert_eq!(common(x, y), common(a, b), "{a} {b}");
                }
            }
        }
        let any: IpAddr = "0.0.0.0".parse().unwrap();
        assert_eq!(anonymizer.address(any), any);
    }

    #[test]
    fn the_same_name_gives_the_same() {
        let mut anonymizer = Anonymizer::with_key(KEY);
        let mut told = |kind: &str, name: &str| {
            let mut name = name.to_owned();
            anonymizer.name(kind, &mut name);
            name
        };
        let first = told("process", "nginx");
        assert_ne!(told("process", "curl"), first);
        assert_ne!(told("dev", "nginx"), first);
        assert_eq!(told("process", "nginx"), first);
    }
}
