//! Buffers against the path: how much payload fits, what that lets through, what would be enough.

use super::flow::{rtt, start};
use super::path::Path;
use super::{Finding, Level, Topic, set};
use crate::units::{percent, rate, size};

/// `SOCK_SNDBUF_LOCK`, `SOCK_RCVBUF_LOCK`: the application set the size.
const SNDBUF_LOCK: u8 = 1;
const RCVBUF_LOCK: u8 = 2;
/// The kernel's own default, below which nobody should be advised to go.
const LEAST_MAX: u64 = 4 << 20;

/// `; 2 × BDP is 1.00 MB`, where the BDP is known.
pub(super) fn needed(path: &Path<'_>) -> String {
    path.bdp()
        .map_or_else(String::new, |bdp| format!("; 2 × BDP is {}", size(2 * bdp)))
}

/// A maximum for `tcp_rmem` or `tcp_wmem` that holds twice the BDP with room for overhead, a power of two.
fn wanted_max(path: &Path<'_>, now: u64) -> u64 {
    let enough = path.bdp().unwrap_or(0).saturating_mul(4);
    // A flow that a buffer holds back does not know the path: twice as much as now, at least.
    enough
        .max(2 * now)
        .max(LEAST_MAX)
        .checked_next_power_of_two()
        .unwrap_or(u64::MAX)
}

/// The third word of a setting of three replaced.
fn with_max(triple: &str, max: u64) -> Option<String> {
    let mut words = triple.split(' ');
    let (least, initial) = (words.next()?, words.next()?);
    Some(format!("{least} {initial} {max}"))
}

/// What to do about a window that is the peer's.
pub(super) fn peer_rmem(path: &Path<'_>, finding: Finding) -> Finding {
    let max = wanted_max(path, 0);
    Finding {
        command: Some(format!(
            "on the peer: sysctl -w 'net.ipv4.tcp_rmem=4096 131072 {max}' (and no SO_RCVBUF in the application)"
        )),
        undo: Some(
            "on the peer: sysctl -w net.ipv4.tcp_rmem=, with what it shows before".to_owned(),
        ),
        read: Some("on the peer: sysctl net.ipv4.tcp_rmem net.ipv4.tcp_moderate_rcvbuf".to_owned()),
        ..finding
    }
}

/// The send buffer holds less than the path, and cannot grow.
pub(super) fn send_buffer(path: &Path<'_>) -> Option<Finding> {
    let capacity = path.seen.send_capacity.median()?;
    let share = path.shares().map_or(0.0, |shares| shares.sndbuf);
    let sndbuf = u64::from(path.sample.sndbuf_bytes?);
    let locked = path
        .attributes
        .and_then(|a| a.user_locks)
        .is_some_and(|l| l & SNDBUF_LOCK != 0);
    let max = path.sysctl_word("net.ipv4.tcp_wmem", 2);
    let full_grown = max.is_some_and(|max| sndbuf as f64 >= 0.9 * max as f64);
    let short = path.bdp().is_some_and(|bdp| capacity < 2 * bdp);
    if !(short && (locked || full_grown)) {
        return None;
    }
    let ceiling = path.through(capacity);
    // The kernel's clock for it stands still while the last segment is being filled.
    let throughput = path.figures.throughput_bps.zip(ceiling);
    let reached = throughput.is_some_and(|(bps, ceiling)| bps as f64 >= 0.7 * ceiling as f64);
    let level = if share >= 0.1 || reached {
        Level::Error
    } else if path.told_bps().is_some() {
        Level::Warn
    } else {
        // A model's bandwidth may be far off: nothing was held back yet.
        Level::Info
    };
    let finding = start(path, "send_buffer", Topic::SendBuffer, level)
        .what(if locked {
            "the application fixed a send buffer that is smaller than the path (SO_SNDBUF)"
        } else {
            "the send buffer is as large as tcp_wmem allows, and smaller than the path"
        })
        .evidence(format!(
            "limited by it {} of the time; {} hold {} of payload, RTT {}, payload ÷ RTT = {}{}",
            percent(share),
            size(sndbuf),
            size(capacity),
            rtt(path),
            ceiling.map_or("unknown".to_owned(), rate),
            needed(path)
        ))
        .ceiling(ceiling, path.told_bps());
    if locked {
        return Some(finding.read(
            "the application's SO_SNDBUF: without it the kernel sizes the buffer by itself",
        ));
    }
    Some(grown(path, finding, "net.ipv4.tcp_wmem"))
}

/// Of the bytes that `tcp_wmem` allows, payload: the rest is the kernel's own overhead.
const PAYLOAD_SHARE: f64 = 0.7;

/// What the send buffer could hold at most, of a path whose rate was told.
pub(super) fn send_buffer_max(path: &Path<'_>) -> Option<Finding> {
    let max = path.sysctl_word("net.ipv4.tcp_wmem", 2)?;
    let (bdp, told) = (path.bdp()?, path.told_bps()?);
    let capacity = (max as f64 * PAYLOAD_SHARE) as u64;
    if capacity >= 2 * bdp {
        return None;
    }
    let ceiling = path.through(capacity);
    let finding = start(path, "send_buffer", Topic::SendBuffer, Level::Warn)
        .what("the send buffer may not grow to twice the path's BDP")
        .evidence(format!(
            "tcp_wmem allows {}, about {} of payload; RTT {}, payload ÷ RTT = {}; 2 × BDP at {} is {}",
            size(max),
            size(capacity),
            rtt(path),
            ceiling.map_or("unknown".to_owned(), rate),
            rate(told),
            size(2 * bdp)
        ))
        .ceiling(ceiling, Some(told));
    Some(grown(path, finding, "net.ipv4.tcp_wmem"))
}

/// The receive buffer offers less than the path, and cannot grow: seen from the receiver.
pub(super) fn receive_buffer(path: &Path<'_>) -> Option<Finding> {
    let window = path.seen.rcv_wnd.median()?;
    let rcvbuf = u64::from(path.sample.rcvbuf_bytes?);
    let locked = path
        .attributes
        .and_then(|a| a.user_locks)
        .is_some_and(|l| l & RCVBUF_LOCK != 0);
    let max = path.sysctl_word("net.ipv4.tcp_rmem", 2);
    let full_grown = max.is_some_and(|max| rcvbuf as f64 >= 0.9 * max as f64);
    let ceiling = path.through(window)?;
    // Who sends is not seen: a window that is used up is what holds it.
    let used = path
        .figures
        .received_bps
        .is_some_and(|bps| bps as f64 >= 0.7 * ceiling as f64);
    if !(used && (locked || full_grown)) {
        return None;
    }
    let finding = start(path, "receive_buffer", Topic::ReceiveWindow, Level::Error)
        .what(if locked {
            "the application fixed a receive buffer that is smaller than the path (SO_RCVBUF)"
        } else {
            "the receive buffer is as large as tcp_rmem allows, and its window is used up"
        })
        .evidence(format!(
            "{} offer a window of {}, RTT {}, window ÷ RTT = {}; received {}",
            size(rcvbuf),
            size(window),
            rtt(path),
            rate(ceiling),
            path.figures.received_bps.map_or("unknown".to_owned(), rate)
        ))
        .ceiling(Some(ceiling), path.told_bps());
    if locked {
        return Some(finding.read(
            "the application's SO_RCVBUF: without it the kernel sizes the buffer by itself",
        ));
    }
    Some(grown(path, finding, "net.ipv4.tcp_rmem"))
}

/// The maximum of `tcp_rmem` or `tcp_wmem` raised.
fn grown(path: &Path<'_>, finding: Finding, name: &str) -> Finding {
    let new = path.sysctl(name).and_then(|old| {
        let max = wanted_max(path, path.sysctl_word(name, 2)?);
        Some((with_max(old, max)?, old))
    });
    match new {
        Some((new, old)) => set(finding, name, &new, old),
        None => finding.read(format!("sysctl {name}")),
    }
}
