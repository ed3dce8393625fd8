//! What tests of the running kernel share: namespaces that clean up after themselves, veth pairs, commands, skips.
//!
//! ```ignore
//! mod common;
//! use common::{Netns, veth, needs};
//!
//! #[test]
//! fn a_flow() {
//!     needs!("ip", "tc");                      // root too; else prints SKIPPED and returns
//!     let (a, b) = (Netns::new(), Netns::new());
//!     veth(&a, "10.7.0.1", &b, "10.7.0.2");    // devices `v` in both, up, with addresses
//!     a.run("tc", "qdisc replace dev v root tbf rate 50mbit burst 10kb limit 30000");
//!     let (client, server) = connect(&a, &b, "10.7.0.2");
//!     send(&client, &server, 1_000_000);
//! }
//! ```

// Each test binary compiles this file and uses a part of it.
#![allow(dead_code, unused_imports, unused_macros)]

pub mod pty;

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use observer::host::Roots;
use observer::host::netns::{Namespace, enter, resolve};

/// Returns from the test with a line `SKIPPED: <test>: <reason>` unless it runs as root and has the tools named.
macro_rules! needs {
    ($($tool:literal),* $(,)?) => {
        if let Some(reason) = $crate::common::missing(&[$($tool),*]) {
            $crate::common::skipped(&reason);
            return;
        }
    };
}
pub(crate) use needs;

/// What a test needs and does not have.
pub fn missing(tools: &[&str]) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("not root".to_owned());
    }
    tools
        .iter()
        .find(|tool| Command::new(tool).arg("--version").output().is_err())
        .map(|tool| format!("no {tool}"))
}

/// Says that the test of this thread did not run, past the capture of `cargo test`.
pub fn skipped(reason: &str) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("?");
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {reason}");
    // `cargo xtask test` counts what did not run.
    if let Some(log) = std::env::var_os("OBSERVER_TEST_SKIPS")
        && let Ok(mut log) = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
    {
        let _ = writeln!(log, "{test}: {reason}");
    }
}

/// Runs a command, its arguments separated by spaces, to its end; its standard output.
pub fn run(program: &str, arguments: &str) -> String {
    try_run(program, arguments).unwrap_or_else(|error| panic!("{error}"))
}

/// As [`run`]; the error holds the command and what it wrote.
pub fn try_run(program: &str, arguments: &str) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments.split_whitespace())
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let stderr = String::from_utf8_lossy(&output.stderr);
        Err(format!(
            "{program} {arguments}: {}: {stderr}",
            output.status
        ))
    }
}

/// A network namespace of `ip netns`, with its loopback up; deleted when dropped, on panic too.
#[derive(Debug)]
pub struct Netns {
    pub name: String,
}

impl Netns {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("observer-{}-{count}", std::process::id());
        run("ip", &format!("netns add {name}"));
        let netns = Self { name };
        netns.run("ip", "link set lo up");
        netns
    }

    /// Runs a command inside, as [`run`].
    pub fn run(&self, program: &str, arguments: &str) -> String {
        run("ip", &self.inside(program, arguments))
    }

    /// Runs a command inside, as [`try_run`].
    pub fn try_run(&self, program: &str, arguments: &str) -> Result<String, String> {
        try_run("ip", &self.inside(program, arguments))
    }

    fn inside(&self, program: &str, arguments: &str) -> String {
        format!("netns exec {} {program} {arguments}", self.name)
    }

    /// As the library sees it.
    pub fn namespace(&self) -> Namespace {
        let mut found = resolve(&Roots::default(), &self.name).expect("made above");
        found.pop().expect("one per name")
    }

    /// Its inode number.
    pub fn inum(&self) -> u32 {
        self.namespace().inum
    }

    /// Runs `f` on a thread inside. Sockets made there stay there.
    pub fn enter<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        enter(&self.namespace(), f).expect("root may enter")
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _ = try_run("ip", &format!("netns del {}", self.name));
    }
}

/// A veth pair with four queues, the end in each namespace called `v`, with these IPv4 addresses of one /24, up.
pub fn veth(a: &Netns, a_address: &str, b: &Netns, b_address: &str) {
    let queues = "numtxqueues 4 numrxqueues 4";
    a.run(
        "ip",
        &format!(
            "link add v {queues} type veth peer name v {queues} netns {}",
            b.name
        ),
    );
    for (netns, address) in [(a, a_address), (b, b_address)] {
        netns.run("ip", &format!("addr add {address}/24 dev v"));
        netns.run("ip", "link set v up");
    }
}

/// A connection from `a` to a fresh port at `address` in `b`: (the client's end, the server's).
pub fn connect(a: &Netns, b: &Netns, address: &str) -> (TcpStream, TcpStream) {
    let ip: IpAddr = address.parse().expect("an address");
    let listener = b.enter(|| TcpListener::bind((ip, 0))).expect("bind");
    let to: SocketAddr = listener.local_addr().expect("bound");
    let client = a.enter(|| TcpStream::connect_timeout(&to, Duration::from_secs(5)));
    let client = client.expect("connect");
    let (server, _) = listener.accept().expect("accept");
    (client, server)
}

/// Sends `bytes` from one end to the other and waits until they were read.
pub fn send(mut from: &TcpStream, mut to: &TcpStream, bytes: usize) {
    thread::scope(|scope| {
        scope.spawn(move || {
            let chunk = vec![7u8; 64 * 1024];
            let mut left = bytes;
            while left > 0 {
                let part = left.min(chunk.len());
                from.write_all(&chunk[..part]).expect("write");
                left -= part;
            }
        });
        let mut buffer = vec![0; 256 * 1024];
        let mut got = 0;
        while got < bytes {
            match to.read(&mut buffer).expect("read") {
                0 => panic!("ended after {got} of {bytes} bytes"),
                read => got += read,
            }
        }
    });
}

/// Waits until `check` yields something, looking every 5 ms, at most 10 s.
#[expect(clippy::disallowed_methods, reason = "waits for the kernel")]
pub fn wait_for<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_mins(1), "no {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
