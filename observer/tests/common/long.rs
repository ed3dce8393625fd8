//! A long path through user space: two namespaces that see each other with a rate, a delay and a queue.

// Each test binary compiles this file and uses a part of it.
#![allow(dead_code)]

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use observer::kernel::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::common::{Netns, run};

/// IPv4 only, devices `v`.
#[derive(Debug)]
pub struct LongPath {
    pub snd: Netns,
    pub rcv: Netns,
    stop: Arc<AtomicBool>,
    late: [Arc<Late>; 2],
    threads: Vec<JoinHandle<()>>,
}

pub const LONG_SND: &str = "10.83.0.1";
pub const LONG_RCV: &str = "10.83.0.2";

/// How late packets were handed on: a busy machine's part in the delay.
#[derive(Debug, Default)]
struct Late {
    packets: AtomicU64,
    sum_ns: AtomicU64,
}

/// One direction.
#[derive(Clone, Copy, Debug)]
struct Pipe {
    /// Bits of IP packets per second.
    rate_bps: u64,
    delay_ns: u64,
    /// Longer queues drop.
    queue_ns: u64,
}

const TUNSETIFF: libc::c_ulong = 0x4004_54ca;

fn tun(netns: &Netns) -> File {
    let file = netns.enter(|| {
        let file = File::options()
            .read(true)
            .write(true)
            .open("/dev/net/tun")
            .expect("tun");
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

impl LongPath {
    /// `rtt_ms` there and back; `rate_bps` toward the receiver, with room for `queue_ms`.
    pub fn new(rate_bps: u64, rtt_ms: u64, queue_ms: u64) -> Self {
        let (snd, rcv) = (Netns::new(), Netns::new());
        let ends = [&snd, &rcv].map(|netns| Arc::new(tun(netns)));
        for (netns, address) in [(&snd, LONG_SND), (&rcv, LONG_RCV)] {
            let ip = |command: &str| run("ip", &format!("-n {} {command}", netns.name));
            ip(&format!("addr add {address}/24 dev v"));
            ip("link set v up txqueuelen 10000");
            crate::sender::set(netns, "ipv4/tcp_no_metrics_save", "1");
        }
        let stop = Arc::new(AtomicBool::new(false));
        let there = Pipe {
            rate_bps,
            delay_ns: rtt_ms * 500_000,
            queue_ns: queue_ms * 1_000_000,
        };
        let back = Pipe {
            rate_bps: 10_000_000_000,
            ..there
        };
        let late: [Arc<Late>; 2] = Default::default();
        let threads = [(0, 1, there), (1, 0, back)].map(|(from, to, pipe)| {
            let its = Arc::clone(&late[from]);
            let (from, to) = (Arc::clone(&ends[from]), Arc::clone(&ends[to]));
            let stop = Arc::clone(&stop);
            thread::spawn(move || carry(&from, &to, pipe, &stop, &its))
        });
        Self {
            snd,
            rcv,
            stop,
            late,
            threads: threads.into(),
        }
    }

    /// By how much the machine lengthened the RTT since the last time it was asked, on average, ms.
    pub fn late_ms(&self) -> f64 {
        let mean = |late: &Late| {
            let packets = late.packets.swap(0, Ordering::Relaxed).max(1);
            late.sum_ns.swap(0, Ordering::Relaxed) as f64 / packets as f64
        };
        self.late.iter().map(|late| mean(late)).sum::<f64>() / 1e6
    }
}

/// Packets leave the queue one after the other at the rate, and arrive a delay later.
fn carry(mut from: &File, mut to: &File, pipe: Pipe, stop: &AtomicBool, late: &Late) {
    let mut on_the_way: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
    let mut buffer = vec![0; 65_536];
    let mut free_at = 0;
    while !stop.load(Ordering::Relaxed) {
        let now = clock::now().0;
        while let Some((due, packet)) = on_the_way.front()
            && *due <= now
        {
            let _ = to.write(packet);
            late.packets.fetch_add(1, Ordering::Relaxed);
            late.sum_ns.fetch_add(now - due, Ordering::Relaxed);
            on_the_way.pop_front();
        }
        match from.read(&mut buffer) {
            Ok(read) => {
                let start = now.max(free_at);
                if start - now <= pipe.queue_ns {
                    free_at = start + read as u64 * 8_000_000_000 / pipe.rate_bps;
                    on_the_way.push_back((free_at + pipe.delay_ns, buffer[..read].to_vec()));
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let wait = on_the_way
                    .front()
                    .map_or(20_000_000, |(due, _)| due.saturating_sub(clock::now().0));
                let limit = Timespec {
                    tv_sec: 0,
                    tv_nsec: wait.min(20_000_000) as i64,
                };
                poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&limit)).expect("poll");
            }
            Err(_) => return,
        }
    }
}

impl Drop for LongPath {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
