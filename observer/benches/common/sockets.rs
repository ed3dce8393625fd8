//! Real sockets by the ten thousand: connections on loopback, in several processes because descriptors are limited.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Connections of one process: two descriptors each, well below a hard limit of 20,000.
const PER_PROCESS: usize = 2_500;

/// The processes that hold the connections; they end when this is dropped.
#[derive(Debug)]
pub struct Holders(Vec<Child>);

impl Holders {
    /// So many connections, which together carry `rate` small messages a second, each answered.
    pub fn start(connections: usize, rate: u32) -> Result<Self> {
        let mut holders = Self(Vec::new());
        let mut left = connections;
        while left > 0 {
            let count = left.min(PER_PROCESS);
            left -= count;
            let part = u64::from(rate) * count as u64 / connections as u64;
            let child = Command::new(std::env::current_exe()?)
                .args([
                    "--hold",
                    &count.to_string(),
                    "--messages",
                    &part.to_string(),
                ])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            holders.0.push(child);
        }
        for child in &mut holders.0 {
            let mut line = String::new();
            let stdout = child.stdout.take().context("piped")?;
            BufReader::new(stdout).read_line(&mut line)?;
            if line != "ready\n" {
                bail!("a process could not open its connections");
            }
        }
        Ok(holders)
    }
}

impl Drop for Holders {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // The end of its input ends it.
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

/// What such a process does.
pub fn hold(connections: usize, rate: u32) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, all)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut held = Vec::with_capacity(connections);
    for _ in 0..connections {
        let mut client = TcpStream::connect(listener.local_addr()?)?;
        let (mut server, _) = listener.accept()?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        // Some figures to print.
        client.write_all(b"x")?;
        server.read_exact(&mut [0])?;
        held.push((client, server));
    }
    println!("ready");
    let stop = Arc::<AtomicBool>::default();
    let stopped = Arc::clone(&stop);
    let talking = thread::spawn(move || talk(&mut held, rate, &stopped));
    std::io::stdin().read_to_end(&mut Vec::new())?;
    stop.store(true, Ordering::Relaxed);
    let _ = talking.join();
    Ok(())
}

/// One connection after the other carries a message there and one back.
fn talk(held: &mut [(TcpStream, TcpStream)], rate: u32, stop: &AtomicBool) {
    let began = Instant::now();
    let (mut done, mut block) = (0_u64, [0; 100]);
    while !stop.load(Ordering::Relaxed) {
        let due = (began.elapsed().as_secs_f64() * f64::from(rate)) as u64;
        while done < due {
            let at = (done * 7919 % held.len() as u64) as usize;
            let (client, server) = &mut held[at];
            let went = client
                .write_all(&block)
                .and_then(|()| server.read_exact(&mut block))
                .and_then(|()| server.write_all(&block))
                .and_then(|()| client.read_exact(&mut block));
            if went.is_err() {
                return;
            }
            done += 1;
        }
        thread::sleep(Duration::from_millis(2));
    }
}
