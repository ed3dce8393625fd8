//! Whether the path made is the path asked for: its round trip and its rate, measured by datagrams before the flows come, by the
//! kernel's stamps and before others' work, so that it is the path that is judged and not when these threads were let run.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::net::sockopt;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::clock::{now_ns, wall_ahead_ns};
use super::namespaces::Namespaces;
use super::path::{FULL_FRAME, Path};
use super::{LabError, Tried as _, sys};

const PORT: u16 = 9;
/// Datagrams whose round trip is measured; the least counts.
const PINGS: u32 = 12;
/// How long a thread waits before it looks whether it shall end.
const LOOK: Duration = Duration::from_millis(20);
/// How long the rate is measured.
const FLOOD_NS: u64 = 400_000_000;
/// Faster than the path by this.
const EXCESS: f64 = 1.3;
/// A path is as asked for within these.
const RATE_TOLERANCE: f64 = 0.02;
const RTT_TOLERANCE: Duration = Duration::from_millis(1);
/// Beyond these it is another path, and refused.
const RATE_REFUSED: f64 = 0.1;
const RTT_REFUSED: Duration = Duration::from_millis(5);
/// Of an Ethernet frame, beside the datagram's payload.
const HEADERS: [usize; 2] = [14 + 20 + 8, 14 + 40 + 8];

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    pub rtt: Duration,
    /// `None` = a policer forbids to measure it so.
    pub rate_bps: Option<f64>,
}

impl Measured {
    /// What of it is not as asked for, in a sentence each; `Err` = it is another path altogether.
    pub fn against(&self, path: &Path) -> Result<Vec<String>, LabError> {
        let mut said = Vec::new();
        let mut refused = false;
        let least = path.rtt.saturating_sub(path.jitter);
        let wire = FULL_FRAME as f64 * 8.0 / path.rate_bps as f64;
        let most = path.rtt + path.jitter + path.ack_batch + Duration::from_secs_f64(wire);
        let off = self
            .rtt
            .saturating_sub(most)
            .max(least.saturating_sub(self.rtt));
        if off > RTT_TOLERANCE {
            said.push(format!(
                "the round trip takes {:.2} ms instead of {:.2} ms",
                self.rtt.as_secs_f64() * 1e3,
                path.rtt.as_secs_f64() * 1e3
            ));
            refused |= off > RTT_REFUSED.max(path.rtt / 4);
        }
        if let Some(rate) = self.rate_bps {
            let off = (rate / path.rate_bps as f64 - 1.0).abs();
            if off > RATE_TOLERANCE {
                said.push(format!(
                    "the rate is {:.2} Mbit/s instead of {:.2} Mbit/s",
                    rate / 1e6,
                    path.rate_bps as f64 / 1e6
                ));
                refused |= off > RATE_REFUSED;
            }
        }
        if refused {
            return Err(LabError::NotHeld(said.join("; ")));
        }
        Ok(said)
    }
}

/// Measures. The path is empty again afterwards.
pub fn measure(namespaces: &Namespaces, path: &Path) -> Result<Measured, LabError> {
    let (from, to) = (namespaces.addresses.sender, namespaces.addresses.receiver);
    let bind = |address: IpAddr| move || UdpSocket::bind((address, PORT));
    let here = namespaces
        .in_sender(bind(from))?
        .tried("cannot bind the probe's socket")?;
    let there = namespaces
        .in_receiver(bind(to))?
        .tried("cannot bind the probe's socket")?;
    here.connect(SocketAddr::new(to, PORT))
        .tried("cannot reach the receiver")?;
    sockopt::set_socket_recv_buffer_size_force(&there, 32 << 20)
        .tried("cannot enlarge a buffer")?;
    for socket in [&here, &there] {
        sys::stamp_arrivals(socket).tried("cannot have datagrams stamped")?;
    }
    let done = AtomicBool::new(false);
    let headers = HEADERS[usize::from(from.is_ipv6())];
    let rtt = std::thread::scope(|scope| {
        scope.spawn(|| echo(&there, SocketAddr::new(from, PORT), &done));
        let pinging = scope.spawn(|| ping(&here, path));
        let rtt = joined(pinging);
        done.store(true, Ordering::SeqCst);
        rtt
    })?;
    let rate_bps = match path.policer {
        Some(_) => None,
        None => Some(flood(&here, &there, path, headers)?),
    };
    // What was too much for the path has left its queue.
    let queue = path.limit_bytes() as f64 * 8.0 / path.rate_bps as f64;
    std::thread::sleep(Duration::from_secs_f64(queue.min(10.0)) + Duration::from_millis(20));
    Ok(Measured { rtt, rate_bps })
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Waits for a datagram at most so long: its length, and when it arrived by the monotonic clock.
fn receive(socket: &UdpSocket, buffer: &mut [u8], patience: Duration) -> Option<(usize, u64)> {
    let timeout = Timespec::try_from(patience).ok()?;
    poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout)).ok()?;
    let (length, stamp) = sys::receive(socket, buffer).ok()?;
    let arrived = stamp.map_or_else(now_ns, |stamp| stamp.saturating_sub(wall_ahead_ns()));
    Some((length, arrived))
}

/// Sends back what comes, with how long it was here.
fn echo(socket: &UdpSocket, to: SocketAddr, done: &AtomicBool) {
    let _ = sys::before_others();
    let mut buffer = [0; 12];
    while !done.load(Ordering::Relaxed) {
        if let Some((4, arrived)) = receive(socket, &mut buffer, LOOK) {
            let stay = now_ns().saturating_sub(arrived);
            buffer[4..].copy_from_slice(&stay.to_be_bytes());
            let _ = socket.send_to(&buffer, to);
        }
    }
}

/// The least round trip of several.
fn ping(socket: &UdpSocket, path: &Path) -> Result<Duration, LabError> {
    let wait = path.rtt * 2 + path.jitter + path.ack_batch + Duration::from_millis(500);
    let _ = sys::before_others();
    let mut least: Option<u64> = None;
    let mut lost = 0;
    for number in 0..PINGS {
        let begun = now_ns();
        socket
            .send(&number.to_be_bytes())
            .tried("cannot send a probe")?;
        let mut answer = [0; 12];
        loop {
            let left = wait.saturating_sub(Duration::from_nanos(now_ns() - begun));
            match receive(socket, &mut answer, left) {
                Some((12, arrived)) if answer[..4] == number.to_be_bytes() => {
                    let stay = answer[4..]
                        .iter()
                        .fold(0, |ns, byte| ns << 8 | u64::from(*byte));
                    let took = arrived.saturating_sub(begun).saturating_sub(stay);
                    least = Some(least.map_or(took, |least| least.min(took)));
                    break;
                }
                // Of one that was given up.
                Some(_) => {}
                None => {
                    lost += 1;
                    break;
                }
            }
        }
        // A long path is known after a few.
        if path.rtt > Duration::from_millis(100) && number >= 3 + lost {
            break;
        }
    }
    least
        .map(Duration::from_nanos)
        .ok_or_else(|| LabError::NotHeld(format!("none of {lost} probes came back over it")))
}

/// What comes through of more than the path carries, in bits of Ethernet frames per second.
fn flood(
    here: &UdpSocket,
    there: &UdpSocket,
    path: &Path,
    headers: usize,
) -> Result<f64, LabError> {
    let payload = vec![0; FULL_FRAME as usize - headers];
    let gap_ns = FULL_FRAME as f64 * 8e9 / (path.rate_bps as f64 * EXCESS);
    // Of a slow path at least some packets.
    let span_ns = FLOOD_NS.max((gap_ns * 40.0) as u64);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let counting = scope.spawn(|| count(there, headers, &done));
        let sending = scope.spawn(|| send(here, &payload, gap_ns, span_ns));
        let sent = joined(sending);
        let queue = path.limit_bytes() as f64 * 8.0 / path.rate_bps as f64;
        std::thread::sleep(Duration::from_secs_f64(queue.min(10.0)) + Duration::from_millis(20));
        done.store(true, Ordering::SeqCst);
        let (first, last, frames) = joined(counting);
        let sent = sent.map_err(|error| LabError::System("cannot send a probe", error))?;
        if frames < 8 || last <= first {
            return Err(LabError::NotHeld(format!(
                "{frames} of {sent} probes came through"
            )));
        }
        Ok((frames - 1) as f64 * FULL_FRAME as f64 * 8e9 / (last - first) as f64)
    })
}

/// Sends at a pace; how many.
fn send(here: &UdpSocket, payload: &[u8], gap_ns: f64, span_ns: u64) -> std::io::Result<u64> {
    let _ = sys::before_others();
    let begun = now_ns();
    let mut sent = 0u64;
    loop {
        let passed = now_ns() - begun;
        if passed >= span_ns {
            return Ok(sent);
        }
        let due = (passed as f64 / gap_ns) as u64 + 1;
        while sent < due {
            match here.send(payload) {
                Ok(_) => {}
                // Lost on the way out: more than the path carries in any case.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) => return Err(error),
            }
            sent += 1;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// When the first and the last full datagram arrived, and how many.
fn count(there: &UdpSocket, headers: usize, done: &AtomicBool) -> (u64, u64, u64) {
    let _ = sys::before_others();
    let mut buffer = vec![0; 2048];
    let (mut first, mut last, mut frames) = (0, 0, 0u64);
    loop {
        match receive(there, &mut buffer, LOOK) {
            Some((length, arrived)) if length + headers == FULL_FRAME as usize => {
                last = arrived;
                if frames == 0 {
                    first = last;
                }
                frames += 1;
            }
            // Nothing more is under way.
            None if done.load(Ordering::SeqCst) => return (first, last, frames),
            // What is left of the round trips; nothing for now.
            Some(_) | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::path::policer;

    #[test]
    fn a_path_is_held_marked_or_refused() {
        let mut path = crate::lab::path::tests::path();
        let against = |path: &Path, rtt_us, rate: f64| {
            let measured = Measured {
                rtt: Duration::from_micros(rtt_us),
                rate_bps: Some(rate),
            };
            measured.against(path).map(|said| said.len())
        };
        assert_eq!(against(&path, 40_500, 99e6).unwrap(), 0);
        assert_eq!(against(&path, 42_500, 99e6).unwrap(), 1);
        assert_eq!(against(&path, 38_000, 95e6).unwrap(), 2);
        assert!(against(&path, 55_000, 100e6).is_err());
        let error = against(&path, 40_000, 50e6).unwrap_err().to_string();
        assert!(
            error.contains("50.00 Mbit/s instead of 100.00 Mbit/s"),
            "{error}"
        );
        path.ack_batch = Duration::from_millis(4);
        assert_eq!(against(&path, 43_900, 100e6).unwrap(), 0);
        path.policer = Some(policer("10mbit/100k").unwrap());
        let unknown = Measured {
            rtt: path.rtt,
            rate_bps: None,
        };
        assert!(unknown.against(&path).unwrap().is_empty());
    }
}
