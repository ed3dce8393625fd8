//! Flows of many kinds in one namespace, standing still, and filters made up over them.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use crate::common::{Netns, run, wait_for};

/// The device that sockets are bound to; nothing else goes over it.
pub const DEV: &str = "bound";

/// Flows between two namespaces and on the loopback of the first.
#[derive(Debug)]
pub struct Mixture {
    pub near: Netns,
    pub far: Netns,
    /// Path of a cgroup that some sockets belong to; `None` = there is no cgroup v2 here to make one in.
    pub cgroup: Option<String>,
    // Flows live as long as these.
    _streams: Vec<TcpStream>,
    _listeners: Vec<TcpListener>,
}

/// Ends of flows: ours, theirs. Over each net both addresses of either side.
const NETS: [([&str; 2], [&str; 2]); 3] = [
    (["10.7.0.1", "10.7.0.11"], ["10.7.0.2", "10.70.3.4"]),
    (["fd07::1", "fd07::11"], ["fd07::2", "fd70:0:3::4"]),
    (
        ["::ffff:10.7.0.1", "::ffff:10.7.0.11"],
        ["::ffff:10.7.0.2", "::ffff:10.70.3.4"],
    ),
];
const OUR_PORTS: [u16; 6] = [22, 1023, 1024, 5201, 40_000, 65_535];
const THEIR_PORTS: [u16; 6] = [25, 80, 443, 1024, 8080, 50_000];

fn socket_address(address: &str, port: u16) -> SocketAddr {
    (address.parse::<IpAddr>().expect("an address"), port).into()
}

/// A bound socket of the calling thread's namespace.
fn bound(at: SocketAddr, device: Option<&str>) -> rustix::fd::OwnedFd {
    let family = if at.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let socket =
        net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("socket");
    sockopt::set_socket_reuseaddr(&socket, true).expect("SO_REUSEADDR");
    if let Some(device) = device {
        let bound = bind_to_device(&socket, device);
        bound.expect("SO_BINDTODEVICE");
    }
    net::bind(&socket, &at).unwrap_or_else(|error| panic!("{at}: {error}"));
    socket
}

fn bind_to_device(socket: &rustix::fd::OwnedFd, device: &str) -> std::io::Result<()> {
    use std::os::fd::AsRawFd as _;
    // SAFETY: the name is as long as said.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            device.as_ptr().cast(),
            device.len() as u32,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

fn listen(netns: &Netns, at: SocketAddr) -> TcpListener {
    netns.enter(|| {
        let socket = bound(at, None);
        net::listen(&socket, 16).expect("listen");
        TcpListener::from(socket)
    })
}

/// Connects two namespaces: (the connecting end, the accepting one).
fn pair(
    from: (&Netns, SocketAddr),
    to: (&Netns, SocketAddr),
    device: Option<&str>,
) -> (TcpStream, TcpStream) {
    let listener = listen(to.0, to.1);
    let to = listener.local_addr().expect("bound");
    let connecting = from.0.enter(|| {
        let socket = bound(from.1, device);
        net::connect(&socket, &to).unwrap_or_else(|error| panic!("{} {to}: {error}", from.1));
        TcpStream::from(socket)
    });
    let (accepted, _) = listener.accept().expect("accept");
    (connecting, accepted)
}

impl Mixture {
    pub fn new() -> Self {
        let (near, far) = (Netns::new(), Netns::new());
        wire(&near, &far);
        let mut made = Made::default();
        made.connected(&near, &far);
        made.half_closed(&near, &far);
        made.elsewhere(&near, &far);
        let cgroup = made.in_cgroup(&near, &far);
        let mixture = Self {
            near,
            far,
            cgroup,
            _streams: made.streams,
            _listeners: made.listeners,
        };
        wait_for("states that stand", || {
            let text = mixture.near.run("ss", "-tnHO");
            let has = |state, count| text.lines().filter(|l| l.starts_with(state)).count() >= count;
            let stands = has("CLOSE-WAIT", 2) && has("FIN-WAIT-1", 1) && has("FIN-WAIT-2", 2);
            (stands && has("LAST-ACK", 1) && has("SYN-SENT", 2)).then_some(())
        });
        mixture
    }
}

/// Two wires, more than one address a side, and a neighbour who does not answer.
fn wire(near: &Netns, far: &Netns) {
    for (dev, net, hosts) in [("v", 7, &[1, 11][..]), (DEV, 8, &[1])] {
        let (a, b) = (&near.name, &far.name);
        run(
            "ip",
            &format!("-n {a} link add {dev} type veth peer name {dev} netns {b}"),
        );
        for host in hosts {
            for address in [
                format!("10.{net}.0.{host}/24"),
                format!("fd0{net}::{host}/64"),
            ] {
                run(
                    "ip",
                    &format!("-n {a} addr add {address} dev {dev} {}", nodad(&address)),
                );
            }
        }
        for address in [format!("10.{net}.0.2/24"), format!("fd0{net}::2/64")] {
            run(
                "ip",
                &format!("-n {b} addr add {address} dev {dev} {}", nodad(&address)),
            );
        }
        for netns in [a, b] {
            run("ip", &format!("-n {netns} link set {dev} up"));
        }
    }
    for address in ["10.70.3.4/32", "fd70:0:3::4/128"] {
        run(
            "ip",
            &format!(
                "-n {} addr add {address} dev v {}",
                far.name,
                nodad(address)
            ),
        );
    }
    for route in [
        "route add 10.70.0.0/16 via 10.7.0.2",
        "-6 route add fd70::/16 via fd07::2",
    ] {
        run("ip", &format!("-n {} {route}", near.name));
    }
    for address in ["10.7.0.99", "fd07::99"] {
        let neighbour = format!("neigh add {address} lladdr 02:00:00:00:00:99 dev v");
        run("ip", &format!("-n {} {neighbour}", near.name));
    }
}

fn nodad(address: &str) -> &'static str {
    if address.contains(':') { "nodad" } else { "" }
}

#[derive(Default)]
struct Made {
    streams: Vec<TcpStream>,
    listeners: Vec<TcpListener>,
}

impl Made {
    fn keep(&mut self, (one, other): (TcpStream, TcpStream)) {
        self.streams.extend([one, other]);
    }

    /// ESTAB, of all addresses and ports, of either direction.
    fn connected(&mut self, near: &Netns, far: &Netns) {
        let mut count = 0;
        for (net, (ours, theirs)) in NETS.into_iter().enumerate() {
            // Mapped flows are told from plain ones of the same addresses by their ports.
            let (our_ports, their_ports) = match net {
                2 => (THEIR_PORTS, OUR_PORTS),
                _ => (OUR_PORTS, THEIR_PORTS),
            };
            for (at, our_port) in our_ports.into_iter().enumerate() {
                for (to, their_port) in their_ports.into_iter().enumerate().skip(at % 2).step_by(2)
                {
                    if our_port == their_port {
                        continue;
                    }
                    count += 1;
                    let ours = socket_address(ours[count % 2], our_port);
                    let theirs = socket_address(theirs[(count / 2 + to) % 2], their_port);
                    if count % 3 == 0 {
                        self.keep(pair((far, theirs), (near, ours), None));
                    } else {
                        self.keep(pair((near, ours), (far, theirs), None));
                    }
                }
            }
        }
    }

    /// CLOSE-WAIT, FIN-WAIT-1 and -2, LAST-ACK.
    fn half_closed(&mut self, near: &Netns, far: &Netns) {
        for (at, (ours, theirs)) in NETS.into_iter().enumerate() {
            let port = 41_000 + at as u16 * 10;
            let next = |n: u16| {
                let (ours, theirs) = (ours[0], theirs[0]);
                let (ours, theirs) = (socket_address(ours, port + n), socket_address(theirs, 443));
                pair((near, ours), (far, theirs), None)
            };
            let waiting = next(1);
            waiting.1.shutdown(Shutdown::Write).expect("shutdown");
            self.keep(waiting);
            let waited_for = next(2);
            waited_for.0.shutdown(Shutdown::Write).expect("shutdown");
            self.keep(waited_for);
            // What cannot be sent holds the FIN back: nobody reads at the other end.
            let stuck = next(3);
            fill(&stuck.0);
            stuck.0.shutdown(Shutdown::Write).expect("shutdown");
            self.keep(stuck);
            let last = next(4);
            last.1.shutdown(Shutdown::Write).expect("shutdown");
            assert_eq!((&last.0).read(&mut [0]).expect("the end"), 0);
            fill(&last.0);
            last.0.shutdown(Shutdown::Write).expect("shutdown");
            self.keep(last);
            // TIME-WAIT.
            let (one, other) = next(5);
            one.shutdown(Shutdown::Write).expect("shutdown");
            assert_eq!((&other).read(&mut [0]).expect("the end"), 0);
        }
    }

    /// On the loopback, over the device of its own, to nobody, listening.
    fn elsewhere(&mut self, near: &Netns, far: &Netns) {
        for (ours, theirs) in [
            ("127.0.0.1", "127.0.0.1"),
            ("127.0.0.1", "127.8.0.1"),
            ("::1", "::1"),
        ] {
            let (ours, theirs) = (socket_address(ours, 42_000), socket_address(theirs, 443));
            self.keep(pair((near, ours), (near, theirs), None));
        }
        for (ours, theirs) in [("10.8.0.1", "10.8.0.2"), ("fd08::1", "fd08::2")] {
            for port in [22, 42_100] {
                let (ours, theirs) = (socket_address(ours, port), socket_address(theirs, 443));
                self.keep(pair((near, ours), (far, theirs), Some(DEV)));
            }
        }
        for (ours, theirs) in [("10.7.0.1", "10.7.0.99"), ("fd07::1", "fd07::99")] {
            let to = socket_address(theirs, 443);
            let socket = near.enter(|| {
                let socket = bound(socket_address(ours, 42_200), None);
                rustix::io::ioctl_fionbio(&socket, true).expect("nonblocking");
                assert_eq!(net::connect(&socket, &to), Err(Errno::INPROGRESS));
                TcpStream::from(socket)
            });
            self.streams.push(socket);
        }
        for (address, port) in [("10.7.0.1", 443), ("::", 8080)] {
            let listener = listen(near, socket_address(address, port));
            self.listeners.push(listener);
        }
        // Bound, and no more.
        let idle = near.enter(|| bound(socket_address("10.7.0.1", 42_300), None));
        self.streams.push(TcpStream::from(idle));
    }

    /// Sockets belong to the cgroup of who makes them: for that moment we are in one of our own.
    fn in_cgroup(&mut self, near: &Netns, far: &Netns) -> Option<String> {
        let cgroup = Cgroup::enter()?;
        for (at, (ours, theirs)) in NETS.into_iter().enumerate() {
            let ours = socket_address(ours[1], 43_000 + at as u16);
            let flow = pair((near, ours), (far, socket_address(theirs[1], 8080)), None);
            self.keep(flow);
        }
        Some(cgroup.path.clone())
    }
}

/// Writes until nothing goes any more.
fn fill(mut socket: &TcpStream) {
    socket.set_nonblocking(true).expect("nonblocking");
    let chunk = vec![7; 65_536];
    let mut stalls = 0;
    wait_for("a full buffer", || match socket.write(&chunk) {
        Ok(_) => {
            stalls = 0;
            None
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            stalls += 1;
            // A window that opened once more would have taken some in 50 ms.
            (stalls > 10).then_some(())
        }
    });
}

/// A cgroup that this process is in until it is dropped.
struct Cgroup {
    path: String,
    home: String,
}

impl Cgroup {
    fn enter() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let mount = mounts.lines().find_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let is_v2 = after.starts_with("cgroup2 ");
            is_v2.then(|| before.split(' ').nth(4)).flatten()
        })?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
        let path = format!("{mount}/observer-{}-filter", std::process::id());
        fs::create_dir(&path).ok()?;
        let cgroup = Self {
            path,
            home: format!("{mount}{own}/cgroup.procs"),
        };
        fs::write(format!("{}/cgroup.procs", cgroup.path), "0").ok()?;
        Some(cgroup)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::write(&self.home, "0");
    }
}

impl Drop for Mixture {
    fn drop(&mut self) {
        if let Some(path) = &self.cgroup {
            let _ = fs::remove_dir(path);
        }
    }
}

/// Numbers that are the same every time (splitmix64).
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.roll() % end as u64) as usize
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// A filter in the words of `ss`, one a token; `and` and `or` never beside each other without parentheses, as `ss` up to
/// 6.1 gives them the same rank.
pub fn filter(dice: &mut Dice, cgroup: Option<&str>) -> String {
    let states = states(dice);
    let depth = dice.below(4);
    let expr = expr(dice, depth, cgroup);
    match dice.below(10) {
        0 if !states.is_empty() => states,
        _ => format!("{states} {expr}").trim_start().to_owned(),
    }
}

fn states(dice: &mut Dice) -> String {
    let single = [
        "established",
        "syn-sent",
        "fin-wait-1",
        "fin-wait-2",
        "close-wait",
        "last-ack",
        "closing",
    ];
    let groups = ["all", "connected", "synchronized", "big"];
    let mut clauses = Vec::new();
    match dice.below(6) {
        0 => clauses.push(format!("state {}", dice.one(&single))),
        1 => {
            for _ in 0..2 {
                clauses.push(format!("state {}", dice.one(&single)));
            }
        }
        2 => {
            clauses.push(format!("state {}", dice.one(&groups)));
            if dice.below(2) == 0 {
                clauses.push(format!("exclude {}", dice.one(&single)));
            }
        }
        3 => {
            let more = ["listening", "time-wait", "bucket"];
            clauses.push(format!("exclude {}", dice.one(&single)));
            clauses.push(format!("exclude {}", dice.one(&more)));
        }
        _ => {}
    }
    clauses.join(" ")
}

fn expr(dice: &mut Dice, depth: usize, cgroup: Option<&str>) -> String {
    if depth == 0 {
        return test(dice, cgroup);
    }
    let part = |dice: &mut Dice| {
        let inner = expr(dice, depth - 1, cgroup);
        // One test needs no parentheses.
        if depth == 1 {
            inner
        } else {
            format!("( {inner} )")
        }
    };
    match dice.below(5) {
        0 => format!("not {}", part(dice)),
        1 => {
            let join = dice.one(&["or", "|", "||"]);
            format!("{} {join} {}", part(dice), part(dice))
        }
        2 => format!("{} or {} or {}", part(dice), part(dice), part(dice)),
        3 => format!("! {}", part(dice)),
        _ => {
            let join = dice.one(&["and", "&", "&&", ""]);
            format!("{} {join} {}", part(dice), part(dice))
        }
    }
}

fn test(dice: &mut Dice, cgroup: Option<&str>) -> String {
    let equal = ["", "=", "eq", "=="];
    match dice.below(20) {
        0 => {
            let op = dice.one(&["", "=", "!="]);
            format!("dev {op} {DEV}")
        }
        1 => match cgroup {
            Some(path) => format!("cgroup {} {path}", dice.one(&["", "=", "!="])),
            None => format!("dev {DEV}"),
        },
        2..=8 => {
            let word = dice.one(&["src", "dst"]);
            let host = host(dice);
            format!("{word} {} {host}", dice.one(&equal))
        }
        _ => {
            let word = dice.one(&["sport", "dport"]);
            let op = dice.one(&[
                "", "=", "==", "eq", "!=", "ne", "neq", "<", "lt", ">", "gt", "<=", "le", "leq",
                ">=", "ge", "geq",
            ]);
            let port = port(dice);
            format!("{word} {op} :{port}")
        }
    }
}

fn port(dice: &mut Dice) -> String {
    let names = ["ssh", "smtp", "http", "https", "http-alt"];
    match dice.below(4) {
        0 => dice.one(&names).to_owned(),
        1 => dice
            .one(&[0, 21, 1023, 1025, 41_002, 42_000, 65_534])
            .to_string(),
        2 => dice.one(&OUR_PORTS).to_string(),
        _ => dice.one(&THEIR_PORTS).to_string(),
    }
}

/// Left out are prefixes where we mean something else than `ss`: of IPv6 those that hold the v4-mapped ones, of IPv4 those
/// so short that addresses of IPv6 begin alike.
fn host(dice: &mut Dice) -> String {
    let v4 = [
        "10.7.0.1",
        "10.7.0.11",
        "10.7.0.2",
        "10.70.3.4",
        "10.8.0.1",
        "10.8.0.2",
        "127.0.0.1",
        "10.7.0.99",
        "192.0.2.1",
    ];
    let v6 = [
        "fd07::1",
        "fd07::11",
        "fd07::2",
        "fd70:0:3::4",
        "fd08::2",
        "::1",
        "2001:db8::1",
    ];
    let port = if dice.below(3) == 0 {
        format!(":{}", port(dice))
    } else {
        String::new()
    };
    match dice.below(6) {
        0 | 1 => format!("{}{port}", dice.one(&v4)),
        2 => {
            let len = dice.one(&[7, 8, 9, 15, 16, 24, 28, 30, 31, 32]);
            format!("{}/{len}{port}", dice.one(&v4))
        }
        3 => format!("[{}]{port}", dice.one(&v6)),
        4 => {
            let len = dice.one(&[7, 8, 9, 16, 48, 64, 124, 127, 128]);
            // The loopback's own address shares the first bits of what is mapped.
            let base: Ipv6Addr = dice.one(&v6[..5]).parse().expect("an address");
            format!("[{base}/{len}]{port}")
        }
        _ if port.is_empty() => "*".to_owned(),
        _ => port,
    }
}
