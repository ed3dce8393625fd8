//! The lab's own bulk sender and receiver: threads with sockets of the namespaces. The algorithm is set on each socket and
//! read back.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};

use super::clock::now_ns;
use super::namespaces::{Namespaces, not_allowed, unknown_algorithm};
use super::{LabError, Tried as _, sys};

/// Where the receiver listens: iperf3's port.
pub const PORT: u16 = 5201;
/// Bytes put into a socket at once.
const WRITE: usize = 128 << 10;
const READ: usize = 256 << 10;
/// How long a call blocks before it looks whether it shall end.
const LOOK: Duration = Duration::from_millis(100);
/// A connection that is not there after this long does not come: the third repetition of a SYN is over by then.
const CONNECT: Duration = Duration::from_secs(15);
/// An application's rate is made of writes this far apart.
const APP_TICK_NS: u64 = 10_000_000;

/// What a sender's sockets are.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    pub algorithm: Option<String>,
    pub flows: usize,
    pub mss: Option<u32>,
    /// As given to `setsockopt`; the kernel doubles it.
    pub sndbuf_bytes: Option<usize>,
    /// Of one flow, as is the next.
    pub app_rate_bps: Option<u64>,
    pub max_pacing_bps: Option<u64>,
}

/// Takes what comes, and counts it. Ends when dropped.
#[derive(Debug)]
pub struct Receiver {
    stop: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    /// `rwnd_bytes`: its window is never larger.
    pub fn start(
        namespaces: &Namespaces,
        address: IpAddr,
        rwnd_bytes: Option<u32>,
    ) -> Result<Self, LabError> {
        let listen = move || {
            let listener = TcpListener::bind((address, PORT))?;
            if let Some(bytes) = rwnd_bytes {
                // A buffer that is set is not adjusted by the kernel, and neither is the window then. Connections inherit both.
                sockopt::set_socket_recv_buffer_size_force(&listener, bytes as usize)?;
                sys::set_window_clamp(&listener, bytes)?;
            }
            Ok::<_, std::io::Error>(listener)
        };
        let listener = namespaces
            .in_receiver(listen)?
            .tried("the receiver cannot listen")?;
        listener
            .set_nonblocking(true)
            .tried("the receiver cannot listen")?;
        let (stop, bytes) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&bytes));
        let thread = std::thread::Builder::new()
            .name("observer-lab-rcv".to_owned())
            .spawn(move || accept(&listener, rwnd_bytes, &stopped, &counted))
            .tried("cannot start the receiver's thread")?;
        Ok(Self {
            stop,
            bytes,
            thread: Some(thread),
        })
    }

    /// Payload that arrived.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn accept(
    listener: &TcpListener,
    rwnd_bytes: Option<u32>,
    stop: &Arc<AtomicBool>,
    bytes: &Arc<AtomicU64>,
) {
    let mut readers = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => {
                let (stop, bytes) = (Arc::clone(stop), Arc::clone(bytes));
                let swallow = move || swallow(stream, rwnd_bytes, &stop, &bytes);
                readers.push(std::thread::spawn(swallow));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(5));
            }
            // The connection is gone that was to be accepted.
            Err(_) => {}
        }
    }
    for reader in readers {
        let _ = reader.join();
    }
}

fn swallow(mut stream: TcpStream, rwnd_bytes: Option<u32>, stop: &AtomicBool, bytes: &AtomicU64) {
    let ready = stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_read_timeout(Some(LOOK)));
    if ready.is_err() {
        return;
    }
    sys::favoured();
    let mut buffer = vec![0; READ];
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => {
                bytes.fetch_add(read as u64, Ordering::Relaxed);
                // The kernel makes the clamp anew from the buffer whenever it learns how full packets are.
                if let Some(window) = rwnd_bytes {
                    let _ = sys::set_window_clamp(&stream, window);
                }
            }
            Err(error) if is_patience(&error) => {}
            Err(_) => return,
        }
    }
    // What is under way still is nobody's.
    let _ = sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
}

fn is_patience(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// Flows that send. They stay open until this is dropped, and are cut off then.
#[derive(Debug)]
pub struct Flows {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    streams: Vec<TcpStream>,
}

impl Flows {
    /// Connects all, then has all begin at once.
    pub fn start(namespaces: &Namespaces, sender: &Sender, to: IpAddr) -> Result<Self, LabError> {
        let streams = namespaces.in_sender(|| {
            let open = |_| open(sender, SocketAddr::new(to, PORT));
            (0..sender.flows)
                .map(open)
                .collect::<Result<Vec<_>, LabError>>()
        })??;
        let mut flows = Self {
            stop: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
            streams: Vec::new(),
        };
        let gate = Arc::new(Barrier::new(streams.len()));
        for stream in streams {
            let kept = stream.try_clone().tried("cannot keep a flow")?;
            flows.streams.push(kept);
            let (stop, gate, rate) = (
                Arc::clone(&flows.stop),
                Arc::clone(&gate),
                sender.app_rate_bps,
            );
            flows.threads.push(std::thread::spawn(move || {
                gate.wait();
                fill(stream, rate, &stop);
            }));
        }
        Ok(flows)
    }

    /// Whether all of them still send.
    pub fn all_run(&self) -> bool {
        self.threads.iter().all(|thread| !thread.is_finished())
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        for stream in &self.streams {
            let _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Whether this kernel lets a socket of the sender's namespace use the algorithm.
pub fn check_algorithm(namespaces: &Namespaces, algorithm: &str) -> Result<(), LabError> {
    let ipv6 = namespaces.addresses.sender.is_ipv6();
    namespaces.in_sender(|| {
        let family = family(ipv6);
        let socket = socket(family, SocketType::STREAM, None).tried("cannot open a socket")?;
        set_algorithm(&socket, algorithm)
    })?
}

fn family(ipv6: bool) -> AddressFamily {
    if ipv6 {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    }
}

fn set_algorithm(socket: &impl std::os::fd::AsFd, algorithm: &str) -> Result<(), LabError> {
    match sockopt::set_tcp_congestion(socket, algorithm) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Err(unknown_algorithm(algorithm)),
        Err(Errno::PERM) => {
            return Err(not_allowed(
                "the kernel lets no socket here use it",
                algorithm,
            ));
        }
        Err(error) => return Err(LabError::System("cannot set the algorithm", error.into())),
    }
    let used = sockopt::tcp_congestion(socket).tried("cannot read the algorithm back")?;
    if used == algorithm {
        Ok(())
    } else {
        Err(LabError::Flow(format!(
            "the socket uses {used} though {algorithm} was set"
        )))
    }
}

fn open(sender: &Sender, to: SocketAddr) -> Result<TcpStream, LabError> {
    let socket =
        socket(family(to.is_ipv6()), SocketType::STREAM, None).tried("cannot open a socket")?;
    if let Some(algorithm) = &sender.algorithm {
        set_algorithm(&socket, algorithm)?;
    }
    if let Some(mss) = sender.mss {
        sys::set_max_segment(&socket, mss).tried("cannot set the MSS")?;
    }
    if let Some(bytes) = sender.sndbuf_bytes {
        sockopt::set_socket_send_buffer_size_force(&socket, bytes)
            .tried("cannot set the send buffer")?;
    }
    if let Some(bps) = sender.max_pacing_bps {
        sys::set_max_pacing(&socket, bps / 8).tried("cannot set the pacing limit")?;
    }
    let patience = sockopt::Timeout::Send;
    sockopt::set_socket_timeout(&socket, patience, Some(CONNECT)).tried("cannot set a timeout")?;
    match connect(&socket, &to) {
        Ok(()) => {}
        Err(Errno::INPROGRESS | Errno::TIMEDOUT) => {
            return Err(LabError::Flow(format!(
                "no connection over the path within {} s",
                CONNECT.as_secs()
            )));
        }
        Err(error) => {
            return Err(LabError::System(
                "cannot connect over the path",
                error.into(),
            ));
        }
    }
    sockopt::set_socket_timeout(&socket, patience, Some(LOOK)).tried("cannot set a timeout")?;
    if let Some(algorithm) = &sender.algorithm {
        let used = sockopt::tcp_congestion(&socket).tried("cannot read the algorithm back")?;
        if used != *algorithm {
            return Err(LabError::Flow(format!(
                "the connection uses {used} though {algorithm} was set"
            )));
        }
    }
    Ok(TcpStream::from(socket))
}

/// Sends until told to stop: all the socket takes, or so much a second.
fn fill(mut stream: TcpStream, rate_bps: Option<u64>, stop: &AtomicBool) {
    sys::favoured();
    let block = vec![0x6f; WRITE];
    let begun = now_ns();
    let mut sent = 0u64;
    while !stop.load(Ordering::Relaxed) {
        let wanted = match rate_bps {
            None => WRITE,
            Some(bps) => {
                let ticks = (now_ns() - begun) / APP_TICK_NS + 1;
                let due =
                    u128::from(ticks) * u128::from(APP_TICK_NS) * u128::from(bps) / 8_000_000_000;
                let due = u64::try_from(due).unwrap_or(u64::MAX);
                if due <= sent {
                    let next = begun + ticks * APP_TICK_NS;
                    std::thread::sleep(Duration::from_nanos(next.saturating_sub(now_ns())));
                    continue;
                }
                (due - sent).min(WRITE as u64) as usize
            }
        };
        match stream.write(&block[..wanted]) {
            Ok(written) => sent += written as u64,
            Err(error) if is_patience(&error) => {}
            Err(_) => return,
        }
    }
}
