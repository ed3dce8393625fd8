//! Paths with a bottleneck on a router, flows that can be paused, and the program under test beside them.

// Each test binary compiles this file and uses a part of it.
#![allow(dead_code)]

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use observer::kernel::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Netns, run, try_run, wait_for};
use crate::ss::{Info, set_option};

/// sender – router – receiver. Toward the receiver the router has the bottleneck.
#[derive(Debug)]
pub struct Path {
    pub snd: Netns,
    pub rtr: Netns,
    pub rcv: Netns,
}

pub const SND_V4: Ipv4Addr = Ipv4Addr::new(10, 81, 1, 1);
pub const RCV_V4: Ipv4Addr = Ipv4Addr::new(10, 81, 2, 1);
pub const SND_V6: Ipv6Addr = Ipv6Addr::new(0xfd81, 0, 0, 1, 0, 0, 0, 1);
pub const RCV_V6: Ipv6Addr = Ipv6Addr::new(0xfd81, 0, 0, 2, 0, 0, 0, 1);

impl Path {
    /// `rate` and `limit` in `tc`'s words.
    pub fn new(rate: &str, limit: &str) -> Self {
        let path = Self {
            snd: Netns::new(),
            rtr: Netns::new(),
            rcv: Netns::new(),
        };
        let rtr = &path.rtr.name;
        for (end, net) in [(&path.snd, 1), (&path.rcv, 2)] {
            let end = &end.name;
            run(
                "ip",
                &format!("-n {rtr} link add r{net} type veth peer name v netns {end}"),
            );
            for (netns, dev, host) in [(end.as_str(), "v", 1), (rtr, &format!("r{net}"), 2)] {
                let ip = |command: &str| run("ip", &format!("-n {netns} {command}"));
                ip(&format!("addr add 10.81.{net}.{host}/24 dev {dev}"));
                ip(&format!(
                    "addr add fd81:0:0:{net}::{host}/64 dev {dev} nodad"
                ));
                ip(&format!("link set {dev} up"));
                // Where there is no ethtool the bottleneck's tbf cuts large packets into segments.
                let _ = try_run(
                    "ip",
                    &format!("netns exec {netns} ethtool -K {dev} tso off gso off gro off"),
                );
            }
            let ip = |command: &str| run("ip", &format!("-n {end} {command}"));
            ip(&format!("route add default via 10.81.{net}.2"));
            ip(&format!("-6 route add default via fd81:0:0:{net}::2"));
        }
        set(&path.rtr, "ipv4/ip_forward", "1");
        set(&path.rtr, "ipv6/conf/all/forwarding", "1");
        for end in [&path.snd, &path.rcv] {
            // TRAPS 38.
            set(end, "ipv4/tcp_no_metrics_save", "1");
        }
        path.rtr.run(
            "tc",
            &format!("qdisc replace dev r2 root tbf rate {rate} burst 10kb limit {limit}"),
        );
        path
    }
}

/// Sets a sysctl of a namespace.
pub fn set(netns: &Netns, name: &str, value: &str) {
    let file = format!("/proc/sys/net/{name}");
    let written = netns.enter(|| fs::write(&file, value));
    written.unwrap_or_else(|error| panic!("{file}: {error}"));
}

const TUNSETIFF: libc::c_ulong = 0x4004_54ca;

/// Two namespaces that see each other through us: packets from the first to the second are delayed out of order, sent
/// twice, and marked (ECN). Devices `v`, IPv6 only (no checksum over the marks).
#[derive(Debug)]
pub struct OddPath {
    pub snd: Netns,
    pub rcv: Netns,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

pub const ODD_SND: Ipv6Addr = Ipv6Addr::new(0xfd82, 0, 0, 0, 0, 0, 0, 1);
pub const ODD_RCV: Ipv6Addr = Ipv6Addr::new(0xfd82, 0, 0, 0, 0, 0, 0, 2);

/// The device `v` of a namespace, ours to read and write.
fn tun(netns: &Netns) -> fs::File {
    let open = fs::OpenOptions::new().read(true).write(true).clone();
    let file = netns.enter(|| {
        let file = open.open("/dev/net/tun").expect("tun");
        let mut request = [0u8; 40];
        request[0] = b'v';
        // IFF_TUN, IFF_NO_PI.
        request[16..18].copy_from_slice(&0x1001u16.to_ne_bytes());
        // SAFETY: a whole `struct ifreq`.
        let made = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, request.as_ptr()) };
        assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
        file
    });
    rustix::io::ioctl_fionbio(&file, true).expect("nonblocking");
    file
}

/// What becomes of the `n`th data packet, in the order of sending on.
fn mishandle(n: usize, mut packet: Vec<u8>, held: &mut Option<(usize, Vec<u8>)>) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    if n.is_multiple_of(41) && packet[1] & 0x30 != 0 {
        packet[1] |= 0x30;
    }
    if n.is_multiple_of(60) && held.is_none() {
        // By turns too short a time for a retransmission, and long enough.
        *held = Some((n + 2 + n / 60 % 2 * 4, packet));
    } else {
        if n.is_multiple_of(97) {
            out.push(packet.clone());
        }
        out.push(packet);
    }
    if let Some((_, packet)) = held.take_if(|(until, _)| *until <= n) {
        out.push(packet);
    }
    out
}

/// Carries packets until told to stop.
fn carry(mut from: &fs::File, mut to: &fs::File, stop: &AtomicBool, odd: bool) {
    let mut buffer = vec![0; 2048];
    let (mut count, mut held) = (0, None);
    while !stop.load(Ordering::Relaxed) {
        let read = match from.read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut wait = [PollFd::new(&from, PollFlags::IN)];
                let limit = Timespec {
                    tv_sec: 0,
                    tv_nsec: 20_000_000,
                };
                poll(&mut wait, Some(&limit)).expect("poll");
                continue;
            }
            Err(_) => return,
        };
        let packet = buffer[..read].to_vec();
        let is_data = odd && read > 1000;
        count += usize::from(is_data);
        let packets = if is_data {
            mishandle(count, packet, &mut held)
        } else {
            vec![packet]
        };
        for packet in packets {
            let _ = to.write(&packet);
        }
    }
}

impl OddPath {
    pub fn new() -> Self {
        let (snd, rcv) = (Netns::new(), Netns::new());
        let ends = [&snd, &rcv].map(|netns| Arc::new(tun(netns)));
        for (netns, address) in [(&snd, ODD_SND), (&rcv, ODD_RCV)] {
            let ip = |command: &str| run("ip", &format!("-n {} {command}", netns.name));
            ip(&format!("addr add {address}/64 dev v nodad"));
            ip("link set v up");
            set(netns, "ipv4/tcp_no_metrics_save", "1");
            set(netns, "ipv4/tcp_ecn", "1");
        }
        let stop = Arc::new(AtomicBool::new(false));
        let threads = [(0, 1), (1, 0)].map(|(from, to)| {
            let (from, to) = (Arc::clone(&ends[from]), Arc::clone(&ends[to]));
            let (stop, odd) = (Arc::clone(&stop), from.as_raw_fd() == ends[0].as_raw_fd());
            thread::spawn(move || carry(&from, &to, &stop, odd))
        });
        Self {
            snd,
            rcv,
            stop,
            threads: threads.into(),
        }
    }
}

impl Drop for OddPath {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// What a flow runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    V4,
    V6,
    /// IPv6 sockets, IPv4 on the wire.
    Mapped,
}

impl Over {
    fn at(self, v4: Ipv4Addr, v6: Ipv6Addr, port: u16) -> SocketAddr {
        match self {
            Self::V4 => (v4, port).into(),
            Self::V6 => (v6, port).into(),
            Self::Mapped => (v4.to_ipv6_mapped(), port).into(),
        }
    }
}

/// How to make a flow.
#[derive(Clone, Copy, Debug)]
pub struct Make {
    pub cc: &'static str,
    pub over: Over,
    /// Of the sender; 0 = any.
    pub port: u16,
    pub sndbuf: Option<usize>,
    pub rcvbuf: Option<usize>,
    /// Bytes per second, of the sender.
    pub max_pacing: Option<u64>,
}

impl Make {
    pub const fn new(cc: &'static str, over: Over) -> Self {
        Self {
            cc,
            over,
            port: 0,
            sndbuf: None,
            rcvbuf: None,
            max_pacing: None,
        }
    }
}

/// A socket of `cc`, set on the socket and read back (TRAPS 45), bound to `from`.
pub fn socket(cc: &str, from: SocketAddr) -> rustix::fd::OwnedFd {
    let family = if from.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let socket =
        net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("socket");
    set_cc(&socket, cc);
    sockopt::set_socket_reuseaddr(&socket, true).expect("reuse");
    net::bind(&socket, &from).expect("bind");
    socket
}

/// Sets the algorithm and reads it back (TRAPS 45).
pub fn set_cc(socket: impl rustix::fd::AsFd, cc: &str) {
    sockopt::set_tcp_congestion(&socket, cc).expect("TCP_CONGESTION");
    assert_eq!(sockopt::tcp_congestion(&socket).as_deref(), Ok(cc));
}

/// Connects the two ends: (the sender's socket, the receiver's).
pub fn pair(path: &Path, make: &Make) -> (TcpStream, TcpStream) {
    pair_between(
        &path.snd,
        make.over.at(SND_V4, SND_V6, make.port),
        &path.rcv,
        make.over.at(RCV_V4, RCV_V6, 0),
        make,
    )
}

/// The same between any two addresses.
pub fn pair_between(
    from: &Netns,
    local: SocketAddr,
    to: &Netns,
    remote: SocketAddr,
    make: &Make,
) -> (TcpStream, TcpStream) {
    let listener = to.enter(|| {
        let socket = socket("cubic", remote);
        if let Some(bytes) = make.rcvbuf {
            sockopt::set_socket_recv_buffer_size(&socket, bytes).expect("SO_RCVBUF");
        }
        net::listen(&socket, 16).expect("listen");
        TcpListener::from(socket)
    });
    let address = listener.local_addr().expect("bound");
    let sender = from.enter(|| {
        let socket = socket(make.cc, local);
        if let Some(bytes) = make.sndbuf {
            sockopt::set_socket_send_buffer_size(&socket, bytes).expect("SO_SNDBUF");
        }
        net::connect(&socket, &address).expect("connect");
        let socket = TcpStream::from(socket);
        if let Some(rate) = make.max_pacing {
            set_option(&socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, rate);
        }
        socket
    });
    let (receiver, _) = listener.accept().expect("accept");
    (sender, receiver)
}

#[derive(Debug, Default)]
struct Gate {
    paused: Mutex<(bool, bool)>,
    moved: Condvar,
}

/// Bytes from a sender to a receiver, until paused or dropped.
#[derive(Debug)]
pub struct Flow {
    pub make: Make,
    pub sender: TcpStream,
    pub receiver: TcpStream,
    gate: Arc<Gate>,
    threads: Vec<JoinHandle<()>>,
}

impl Flow {
    /// Connects and begins to send.
    pub fn start(path: &Path, make: Make) -> Self {
        let (sender, receiver) = pair(path, &make);
        Self::over(make, sender, receiver)
    }

    /// Sends over a connection.
    pub fn over(make: Make, sender: TcpStream, receiver: TcpStream) -> Self {
        let gate = Arc::new(Gate::default());
        let mut from = sender.try_clone().expect("clone");
        let mut to = receiver.try_clone().expect("clone");
        let its = Arc::clone(&gate);
        let writer = thread::spawn(move || {
            let chunk = vec![7u8; 32 * 1024];
            loop {
                let guard = its.paused.lock().expect("lock");
                let guard = its
                    .moved
                    .wait_while(guard, |(paused, ended)| *paused && !*ended)
                    .expect("lock");
                let ended = guard.1;
                drop(guard);
                if ended || from.write_all(&chunk).is_err() {
                    return;
                }
            }
        });
        let reader = thread::spawn(move || {
            let mut buffer = vec![0; 256 * 1024];
            while to.read(&mut buffer).is_ok_and(|read| read > 0) {}
        });
        Self {
            make,
            sender,
            receiver,
            gate,
            threads: vec![writer, reader],
        }
    }

    pub fn pause(&self) {
        self.gate.paused.lock().expect("lock").0 = true;
    }

    pub fn resume(&self) {
        self.gate.paused.lock().expect("lock").0 = false;
        self.gate.moved.notify_all();
    }

    /// Cookies of the sender's socket and of the receiver's.
    pub fn cookies(&self) -> [u64; 2] {
        [&self.sender, &self.receiver].map(cookie)
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        if let Ok(mut state) = self.gate.paused.lock() {
            state.1 = true;
        }
        self.gate.moved.notify_all();
        for socket in [&self.sender, &self.receiver] {
            let _ = socket.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// `SO_COOKIE`.
pub fn cookie(socket: &TcpStream) -> u64 {
    sockopt::socket_cookie(socket).expect("SO_COOKIE")
}

/// Waits until everything is acknowledged, and the sockets said the same over 150 ms (delayed ACKs take 40).
pub fn wait_for_rest(sockets: &[&TcpStream]) {
    let read = || -> Vec<Info> { sockets.iter().map(|socket| Info::of(socket)).collect() };
    let mut last = (clock::now().0, read());
    wait_for("rest", || {
        let (now, infos) = (clock::now().0, read());
        if infos != last.1 || !infos.iter().all(Info::is_at_rest) {
            last = (now, infos);
        }
        (now - last.0 > 150_000_000).then_some(())
    });
}

/// The program under test.
fn observer(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_observer"));
    command.args(arguments.split_whitespace());
    command
}

/// Objects of `list --json` in a namespace.
pub fn list(netns: &Netns, window: &str) -> Vec<Value> {
    let output = observer(&format!("list --json --window {window} -N {}", netns.name))
        .output()
        .expect("observer runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", output.status);
    let stdout = String::from_utf8(output.stdout).expect("text");
    stdout.lines().map(parse).collect()
}

fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// The row of a socket.
pub fn row_of(rows: &[Value], cookie: u64) -> Option<&Value> {
    rows.iter().find(|row| row["flow"]["cookie"] == cookie)
}

/// A running `observer stream`; ended when dropped.
#[derive(Debug)]
pub struct Stream {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Stream {
    /// Starts it in a namespace and waits for its first line: the hooks are on.
    pub fn start(netns: &Netns, arguments: &str) -> Self {
        let mut child = observer(&format!("stream -N {} {arguments}", netns.name))
            .stdout(Stdio::piped())
            .spawn()
            .expect("observer runs");
        let stdout = child.stdout.take().expect("piped");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let its = Arc::clone(&lines);
        let reader = thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                match line {
                    Ok(line) => its.lock().expect("lock").push(line),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        });
        let stream = Self {
            child,
            lines,
            reader: Some(reader),
        };
        wait_for("the stream's first line", || {
            (stream.count() > 0).then_some(())
        });
        stream
    }

    /// How many lines came so far.
    pub fn count(&self) -> usize {
        self.lines.lock().expect("lock").len()
    }

    /// The lines from the `from`th on.
    pub fn since(&self, from: usize) -> Vec<Value> {
        let lines = self.lines.lock().expect("lock")[from..].to_vec();
        lines.iter().map(|line| parse(line)).collect()
    }

    /// How many of the lines from the `from`th on hold this text, and how many lines there are: without parsing them.
    pub fn count_of(&self, from: usize, text: &str) -> (usize, usize) {
        let lines = self.lines.lock().expect("lock");
        let count = lines[from..]
            .iter()
            .filter(|line| line.contains(text))
            .count();
        (count, lines.len())
    }

    /// Ends it as Ctrl-C does; the lines that hold one of these texts.
    pub fn finish_with(mut self, texts: &[&str]) -> Vec<Value> {
        let status = self.end();
        assert!(status.is_some_and(|code| code == 0), "exit {status:?}");
        let lines = self.lines.lock().expect("lock");
        lines
            .iter()
            .filter(|line| texts.iter().any(|text| line.contains(text)))
            .map(|line| parse(line))
            .collect()
    }

    /// Waits until a line is as asked, and returns it.
    pub fn wait_line(&self, what: &str, check: impl Fn(&Value) -> bool) -> Value {
        let mut seen = 0;
        wait_for(what, || {
            let lines = self.since(seen);
            seen += lines.len();
            lines.into_iter().find(&check)
        })
    }

    /// Ends it as Ctrl-C does; all its lines.
    pub fn finish(mut self) -> Vec<Value> {
        let status = self.end();
        assert!(status.is_some_and(|code| code == 0), "exit {status:?}");
        self.since(0)
    }

    fn end(&mut self) -> Option<i32> {
        let pid = Pid::from_child(&self.child);
        match kill_process(pid, Signal::INT) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => panic!("{error}"),
        }
        let status = self.child.wait().ok()?;
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        status.code()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.reader.is_some() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Something read over and over on a thread beside the test, until it ends.
#[derive(Debug)]
pub struct Loop<T> {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<T>>>,
}

impl<T: Send + 'static> Loop<T> {
    /// Runs `read` with this pause between until [`Loop::finish`].
    pub fn start(pause: Duration, mut read: impl FnMut() -> T + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let its = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut readings = Vec::new();
            while !its.load(Ordering::Relaxed) {
                readings.push(read());
                thread::sleep(pause);
            }
            readings
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }

    pub fn finish(mut self) -> Vec<T> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("once");
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl<T> Drop for Loop<T> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
