//! `FlowKey`: the addresses and ports of a flow as they cross from the kernel.

/// `AF_INET`.
pub const AF_INET: u16 = 2;
/// `AF_INET6`.
pub const AF_INET6: u16 = 10;

/// The tuple of a flow. It is an attribute: identity is the socket cookie and the network namespace.
///
/// An IPv4 address is stored v4-mapped (`::ffff:a.b.c.d`), so an IPv6 socket that talks to a mapped address and an
/// IPv4 socket look alike; `family` keeps what the socket itself is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct FlowKey {
    pub local: [u8; 16],
    pub remote: [u8; 16],
    /// Host order.
    pub local_port: u16,
    /// Host order.
    pub remote_port: u16,
    /// The socket's own family, [`AF_INET`] or [`AF_INET6`].
    pub family: u16,
    pub reserved: u16,
}

/// The first twelve bytes of a v4-mapped address (RFC 4291 §2.5.5.2).
pub const V4_MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
