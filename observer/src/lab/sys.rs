//! System calls that no library we use has: packet sockets of one device, a socket's pacing limit, offloads, the
//! emulator's priority.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn length<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0)
}

fn set<T>(fd: impl AsFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes from a value that outlives the call.
    let result = unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            length::<T>(),
        )
    };
    checked(result).map(|_| ())
}

/// Every frame that comes in by the device of the calling thread's namespace, whole; sends frames out by it.
pub fn packet_socket(device_index: u32) -> io::Result<OwnedFd> {
    let protocol = (libc::ETH_P_ALL as u16).to_be();
    let flags = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // Protocol 0: nothing comes before the bind says from which device.
    // SAFETY: no pointers; the descriptor is nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(checked(libc::socket(libc::AF_PACKET, flags, 0))?) };
    set(
        &socket,
        libc::SOL_PACKET,
        libc::PACKET_IGNORE_OUTGOING,
        &1i32,
    )?;
    // SAFETY: all zeroes is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
    address.sll_ifindex = i32::try_from(device_index).map_err(io::Error::other)?;
    // SAFETY: a sockaddr_ll of its own size that outlives the call.
    checked(unsafe {
        libc::bind(
            socket.as_raw_fd(),
            std::ptr::from_ref(&address).cast(),
            length::<libc::sockaddr_ll>(),
        )
    })?;
    Ok(socket)
}

/// Whatever comes in by the socket is stamped when it arrives, by the wall's clock.
pub fn stamp_arrivals(socket: impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)
}

/// Room for a stamp beside what is received, aligned as the kernel writes it.
#[repr(C, align(8))]
struct Beside([u8; 64]);

/// What came in, without waiting: its whole length, also where the buffer is shorter, and when it arrived by the wall's clock
/// (`None` = it bears no stamp).
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    let mut beside = Beside([0; 64]);
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all zeroes is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = beside.0.as_mut_ptr().cast();
    message.msg_controllen = beside.0.len();
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: buffer and room outlive the call, and their lengths are told.
    let length = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, flags) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel has filled the message in.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    if header.is_null() {
        return Ok((length, None));
    }
    // SAFETY: a header that is not null lies within the room, and is aligned.
    let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
    if (level, kind) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
        return Ok((length, None));
    }
    // SAFETY: a timespec follows a header of this kind.
    let time: libc::timespec = unsafe { std::ptr::read_unaligned(libc::CMSG_DATA(header).cast()) };
    let ns = |part: i64| u64::try_from(part).unwrap_or(0);
    let stamp = ns(time.tv_sec) * 1_000_000_000 + ns(time.tv_nsec);
    Ok((length, Some(stamp)))
}

/// Frames that found no room in a packet socket since the last call.
pub fn overrun(socket: impl AsFd) -> u64 {
    let mut statistics = libc::tpacket_stats {
        tp_packets: 0,
        tp_drops: 0,
    };
    let mut size = length::<libc::tpacket_stats>();
    // SAFETY: the kernel writes at most `size` bytes into a structure of that size.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            std::ptr::from_mut(&mut statistics).cast(),
            &raw mut size,
        )
    };
    if result == 0 {
        u64::from(statistics.tp_drops)
    } else {
        0
    }
}

pub fn set_max_pacing(socket: impl AsFd, bytes_per_s: u64) -> io::Result<()> {
    set(
        socket,
        libc::SOL_SOCKET,
        libc::SO_MAX_PACING_RATE,
        &bytes_per_s,
    )
}

pub fn set_max_segment(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, &bytes)
}

pub fn set_window_clamp(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, &bytes)
}

/// Has the calling thread run before ordinary ones, so that packets leave when they are due. Not everybody may.
pub fn before_others() -> io::Result<()> {
    // SAFETY: all zeroes is a valid sched_param.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = 10;
    // SAFETY: a structure that outlives the call; 0 = this thread.
    checked(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) })
        .map(|_| ())
}

/// Has the calling thread run before most others, where that is permitted.
pub fn favoured() {
    // SAFETY: no pointers; 0 = this thread, on Linux. Who may not runs as everybody.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -10) };
}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

// `linux/ethtool.h`.
const RX_CHECKSUM: u32 = 0x15;
const TX_CHECKSUM: u32 = 0x17;
const SCATTER_GATHER: u32 = 0x19;
const TSO: u32 = 0x1f;
const GSO: u32 = 0x24;
const GRO: u32 = 0x2c;
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// Each packet by itself, with its checksum, on a device of the calling thread's namespace.
pub fn offloads_off(device: &str) -> io::Result<()> {
    // SAFETY: no pointers; the descriptor is nobody else's.
    let socket = unsafe {
        let flags = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        OwnedFd::from_raw_fd(checked(libc::socket(libc::AF_INET, flags, 0))?)
    };
    for command in [TSO, GSO, GRO, TX_CHECKSUM, RX_CHECKSUM, SCATTER_GATHER] {
        let mut value = Value { command, data: 0 };
        // SAFETY: all zeroes is a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(device.bytes().take(15)) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = std::ptr::from_mut(&mut value).cast();
        // SAFETY: the request points to a value that outlives the call; these commands read and write no more than it.
        let result = unsafe {
            libc::ioctl(
                socket.as_raw_fd(),
                SIOCETHTOOL,
                std::ptr::from_mut(&mut request),
            )
        };
        match checked(result) {
            Ok(_) => {}
            // A switch that this device does not have is off.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
