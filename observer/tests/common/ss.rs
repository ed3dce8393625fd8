//! The two independent readers, under the names of our own keys: the text of `ss`, and a socket's own `TCP_INFO`,
//! `TCP_CC_INFO` and `SO_MEMINFO`. Values are as JSON has them: `null` = unknown, `"unlimited"` = no bound.

// Each test binary compiles this file and uses a part of it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

use observer::kernel::clock;
use serde_json::{Value, json};

use crate::common::{Netns, run};

/// One line of `ss -tinHOme`.
#[derive(Clone, Debug, PartialEq)]
pub struct Ss {
    /// `name:value` and `name value` of the line; flags have an empty value. Ages (`lastsnd` …) are left out.
    values: BTreeMap<String, String>,
}

/// All lines of one call, by cookie.
#[derive(Clone, Debug)]
pub struct SsReading {
    /// Before the call, after it: `CLOCK_MONOTONIC`.
    pub begun: u64,
    pub ended: u64,
    pub sockets: BTreeMap<u64, Ss>,
}

/// Reads `ss` in the namespace of the calling thread.
pub fn ss_here() -> SsReading {
    let begun = clock::now().0;
    let text = run("ss", "-tinHOme");
    let ended = clock::now().0;
    let sockets = text.lines().map(Ss::parse).collect();
    SsReading {
        begun,
        ended,
        sockets,
    }
}

/// Reads `ss` in a namespace.
pub fn ss(netns: &Netns) -> SsReading {
    netns.enter(ss_here)
}

/// Algorithms that `ss` names by a bare word.
const ALGORITHMS: [&str; 4] = ["cubic", "bbr", "reno", "dctcp"];

impl Ss {
    fn parse(line: &str) -> (u64, Self) {
        let mut words = line.split_whitespace();
        let mut values = BTreeMap::new();
        for name in ["state", "recvq", "sendq", "local", "remote"] {
            let word = words.next().expect("a column");
            values.insert(name.to_owned(), word.to_owned());
        }
        while let Some(word) = words.next() {
            let (name, value) = match word {
                "send" | "pacing_rate" | "delivery_rate" => (word, words.next().expect("a rate")),
                // After the sockets's extended part the word `ts` has no value, and so on.
                _ if ALGORITHMS.contains(&word) => ("cc", word),
                _ => word.split_once(':').unwrap_or((word, "")),
            };
            if name.starts_with("last") || name == "timer" {
                continue;
            }
            if name == "skmem" {
                // Without `o`: socket storage is charged there, the observer's own too.
                let parts = value.trim_matches(['(', ')']).split(',');
                let kept: Vec<&str> = parts.filter(|part| !part.starts_with('o')).collect();
                values.insert(name.to_owned(), kept.join(","));
                continue;
            }
            values.insert(name.to_owned(), value.to_owned());
        }
        let cookie = u64::from_str_radix(&values["sk"], 16).expect("a cookie");
        (cookie, Self { values })
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    fn flag(&self, name: &str) -> Value {
        json!(self.values.contains_key(name))
    }

    /// What is left out is 0.
    fn count(&self, name: &str) -> Value {
        json!(
            self.text(name)
                .map_or(0, |text| text.parse::<u64>().expect(name))
        )
    }

    /// What is left out is unknown.
    fn known(&self, name: &str) -> Value {
        match self.text(name) {
            Some(_) => self.count(name),
            None => Value::Null,
        }
    }

    /// Milliseconds with up to six digits → µs.
    fn us(text: &str) -> Value {
        let ms: f64 = text.parse().expect("milliseconds");
        json!((ms * 1000.0).round() as u64)
    }

    fn bps(text: &str) -> Value {
        let digits = text.strip_suffix("bps").expect("a rate");
        json!(digits.parse::<f64>().expect("a number") as u64)
    }

    /// `busy:123ms`, `rwnd_limited:123ms(4.5%)`: whole milliseconds.
    fn clock(&self, name: &str) -> Value {
        let Some(text) = self.text(name) else {
            return json!(0);
        };
        let (ms, _) = text.split_once("ms").expect("milliseconds");
        json!(ms.parse::<u64>().expect("a number") * 1000)
    }

    /// A part of `bbr:(bw:…bps,mrtt:…,pacing_gain:…,cwnd_gain:…)`.
    fn bbr(&self, name: &str) -> Option<&str> {
        let parts = self.text("bbr")?.trim_matches(['(', ')']);
        parts
            .split(',')
            .find_map(|part| part.strip_prefix(name)?.strip_prefix(':'))
    }

    /// A part of `skmem:(r0,rb131072,…)`.
    fn skmem(&self, name: &str) -> Value {
        let parts = self.text("skmem").expect("-m");
        let digits = parts.split(',').find_map(|part| {
            let rest = part.strip_prefix(name)?;
            rest.parse::<u64>().ok()
        });
        json!(digits.expect("in every skmem"))
    }

    /// An end as we write it: v4-mapped is IPv4 (TRAPS 16).
    fn endpoint(text: &str) -> Value {
        let (address, port) = text.rsplit_once(':').expect("a port");
        let address: IpAddr = address.trim_matches(['[', ']']).parse().expect("numeric");
        let port = port.parse().expect("numeric");
        json!(SocketAddr::new(address.to_canonical(), port).to_string())
    }

    /// The value of one of our keys; `None` where `ss` does not tell.
    pub fn get(&self, key: &str) -> Option<Value> {
        Some(match key {
            "state" => json!(self.text("state")?),
            "flow.local" => Self::endpoint(self.text("local")?),
            "flow.remote" => Self::endpoint(self.text("remote")?),
            "cc.name" => json!(self.text("cc")?),
            "cwnd" => self.count("cwnd"),
            // Left out from 65535 on.
            "ssthresh" => json!(self.text("ssthresh")?.parse::<u64>().ok()?),
            "mss" => self.count("mss"),
            "srtt_us" => Self::us(self.text("rtt")?.split_once('/')?.0),
            "rttvar_us" => Self::us(self.text("rtt")?.split_once('/')?.1),
            "min_rtt_us" => self.text("minrtt").map_or(Value::Null, Self::us),
            "rcv_rtt_us" => self.text("rcv_rtt").map_or(Value::Null, Self::us),
            "rto_us" => Self::us(self.text("rto")?),
            "pacing_rate_bps" => Self::bps(self.text("pacing_rate")?.split('/').next()?),
            "max_pacing_rate_bps" => match self.text("pacing_rate")?.split_once('/') {
                Some((_, max)) => Self::bps(max),
                None => json!("unlimited"),
            },
            "delivery_rate_bps" => self.text("delivery_rate").map_or(Value::Null, Self::bps),
            "rate_app_limited" => self.flag("app_limited"),
            "busy_us" => self.clock("busy"),
            "rwnd_limited_us" => self.clock("rwnd_limited"),
            "sndbuf_limited_us" => self.clock("sndbuf_limited"),
            "packets_out" => self.count("unacked"),
            "retrans_out" | "retrans" => {
                let (now, total) = self
                    .text("retrans")
                    .map_or(("0", "0"), |text| text.split_once('/').expect("now/total"));
                let text = if key == "retrans" { total } else { now };
                json!(text.parse::<u64>().ok()?)
            }
            "reordering" => match self.known(key) {
                Value::Null => json!(3),
                reordering => reordering,
            },
            "notsent_bytes" => self.count("notsent"),
            "snd_wnd_bytes" => self.count("snd_wnd"),
            "rcv_wnd_bytes" => json!(self.text("rcv_wnd")?.parse::<u64>().ok()?),
            "bytes_sent" | "bytes_acked" | "bytes_retrans" | "bytes_received" | "segs_out"
            | "segs_in" | "data_segs_out" | "data_segs_in" | "lost" | "sacked" | "dsack_dups"
            | "reord_seen" | "rcv_ooopack" | "delivered" | "delivered_ce" | "backoff" => {
                self.count(key)
            }
            "pmtu" | "advmss" => self.known(key),
            "rcv_mss" => self.known("rcvmss"),
            "wscale" => {
                let (snd, rcv) = self.text("wscale")?.split_once(',')?;
                json!({"snd": snd.parse::<u8>().ok()?, "rcv": rcv.parse::<u8>().ok()?})
            }
            "sack" => self.flag("sack"),
            "timestamps" => self.flag("ts"),
            "ecn" => self.flag("ecn"),
            "sndbuf_bytes" => self.skmem("tb"),
            "rcvbuf_bytes" => self.skmem("rb"),
            "wmem_queued_bytes" => self.skmem("w"),
            "cc.btlbw_bps" => self.bbr("bw").map_or(Value::Null, Self::bps),
            "cc.min_rtt_us" => self.bbr("mrtt").map_or(Value::Null, Self::us),
            "cc.pacing_gain" | "cc.cwnd_gain" => match self.bbr(&key[3..]) {
                Some(gain) => json!(gain.parse::<f64>().ok()?),
                None => Value::Null,
            },
            _ => return None,
        })
    }
}

/// What a socket says of itself, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    tcp: [u8; 240],
    cc: [u32; 5],
    cc_bytes: usize,
    /// Sizes of the buffers, and what is queued in the send buffer.
    rcvbuf: u32,
    sndbuf: u32,
    wmem_queued: u32,
}

const SO_MEMINFO: i32 = 55;
const SO_BUF_LOCK: i32 = 72;
const TCP_CC_INFO: i32 = 26;
const TCP_NOTSENT_LOWAT: i32 = 25;
const TCP_REPAIR: i32 = 19;
const TCP_REPAIR_QUEUE: i32 = 20;
const TCP_QUEUE_SEQ: i32 = 21;
/// Ends repair mode without a window probe.
const REPAIR_OFF_NO_WP: i32 = -1;

/// `getsockopt` into `out`; the length the kernel filled.
fn option<T: Copy>(socket: &TcpStream, level: i32, name: i32, out: &mut T) -> usize {
    let mut length = size_of::<T>() as u32;
    // SAFETY: the buffer is as long as said, and `T` is a plain integer or an array of them at every call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_mut(out).cast(),
            &raw mut length,
        )
    };
    let error = std::io::Error::last_os_error();
    assert_eq!(result, 0, "getsockopt {level} {name}: {error}");
    length as usize
}

/// `setsockopt` of a plain integer.
pub fn set_option<T: Copy>(socket: &TcpStream, level: i32, name: i32, value: T) {
    // SAFETY: `T` is a plain integer at every call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(&value).cast(),
            size_of::<T>() as u32,
        )
    };
    let error = std::io::Error::last_os_error();
    assert_eq!(result, 0, "setsockopt {level} {name}: {error}");
}

/// The next sequence number to be written, and the next to be received. The connection must be at rest.
pub fn sequence(socket: &TcpStream) -> (u32, u32) {
    set_option(socket, libc::IPPROTO_TCP, TCP_REPAIR, 1);
    let [received, written] = [1, 2].map(|queue| {
        set_option(socket, libc::IPPROTO_TCP, TCP_REPAIR_QUEUE, queue);
        let mut seq = 0u32;
        option(socket, libc::IPPROTO_TCP, TCP_QUEUE_SEQ, &mut seq);
        seq
    });
    set_option(socket, libc::IPPROTO_TCP, TCP_REPAIR, REPAIR_OFF_NO_WP);
    (written, received)
}

/// `TCP_NOTSENT_LOWAT` and `SO_BUF_LOCK`.
pub fn lowat_and_locks(socket: &TcpStream) -> (u32, u32) {
    let (mut lowat, mut locks) = (0u32, 0u32);
    option(socket, libc::IPPROTO_TCP, TCP_NOTSENT_LOWAT, &mut lowat);
    option(socket, libc::SOL_SOCKET, SO_BUF_LOCK, &mut locks);
    (lowat, locks)
}

impl Info {
    pub fn of(socket: &TcpStream) -> Self {
        let mut info = Self {
            tcp: [0; 240],
            cc: [0; 5],
            cc_bytes: 0,
            rcvbuf: 0,
            sndbuf: 0,
            wmem_queued: 0,
        };
        option(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            // Arrays of bytes and words: as `option` wants them.
            &mut info.tcp,
        );
        // The ages of the last segments move by themselves.
        info.tcp[44..60].fill(0);
        info.cc_bytes = option(socket, libc::IPPROTO_TCP, TCP_CC_INFO, &mut info.cc);
        let mut mem = [0u32; 9];
        option(socket, libc::SOL_SOCKET, SO_MEMINFO, &mut mem);
        [_, info.rcvbuf, _, info.sndbuf, _, info.wmem_queued, ..] = mem;
        info
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.tcp[at..at + 4].try_into().expect("four"))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.tcp[at..at + 8].try_into().expect("eight"))
    }

    /// All acknowledged and nothing waiting.
    pub fn is_at_rest(&self) -> bool {
        self.u32(24) == 0 && self.u32(144) == 0
    }

    /// The value of one of our keys; `None` where these do not tell. Offsets are `struct tcp_info`'s
    /// (`include/uapi/linux/tcp.h`).
    pub fn get(&self, key: &str) -> Option<Value> {
        let known = |value: u32| (value != 0).then_some(value);
        let rate = |bytes: u64| match bytes {
            u64::MAX => json!("unlimited"),
            bytes => json!(bytes * 8),
        };
        let option = |bit: u8| json!(self.tcp[5] & bit != 0);
        let bbr = self.cc_bytes == 20;
        let gain = |word: usize| json!(bbr.then(|| f64::from(self.cc[word]) / 256.0));
        Some(match key {
            "state" => json!(match self.tcp[0] {
                1 => "ESTAB",
                2 => "SYN-SENT",
                4 => "FIN-WAIT-1",
                5 => "FIN-WAIT-2",
                8 => "CLOSE-WAIT",
                9 => "LAST-ACK",
                _ => return None,
            }),
            "ca_state" => {
                json!(["Open", "Disorder", "CWR", "Recovery", "Loss"][usize::from(self.tcp[1])])
            }
            "backoff" => json!(self.tcp[4]),
            "timestamps" => option(1),
            "sack" => option(2),
            "wscale_ok" => option(4),
            "ecn" => option(8),
            "wscale" => json!({"snd": self.tcp[6] & 15, "rcv": self.tcp[6] >> 4}),
            "rate_app_limited" => json!(self.tcp[7] & 1 != 0),
            "rto_us" => json!(self.u32(8)),
            "mss" => json!(self.u32(16)),
            "rcv_mss" => json!(known(self.u32(20))),
            "packets_out" => json!(self.u32(24)),
            "sacked" => json!(self.u32(28)),
            "lost" => json!(self.u32(32)),
            "retrans_out" => json!(self.u32(36)),
            "inflight" => {
                json!((self.u32(24) + self.u32(36)).saturating_sub(self.u32(28) + self.u32(32)))
            }
            "pmtu" => json!(known(self.u32(60))),
            "srtt_us" => json!(known(self.u32(68))),
            "rttvar_us" => json!(self.u32(72)),
            "ssthresh" => match self.u32(76) {
                0x7fff_ffff.. => json!("unlimited"),
                ssthresh => json!(ssthresh),
            },
            "cwnd" => json!(self.u32(80)),
            "cwnd_bytes" => json!(u64::from(self.u32(80)) * u64::from(self.u32(16))),
            "advmss" => json!(known(self.u32(84))),
            "reordering" => json!(self.u32(88)),
            "rcv_rtt_us" => json!(known(self.u32(92))),
            "retrans" => json!(self.u32(100)),
            "pacing_rate_bps" => rate(self.u64(104)),
            "max_pacing_rate_bps" => rate(self.u64(112)),
            "bytes_acked" => json!(self.u64(120)),
            "bytes_received" => json!(self.u64(128)),
            "segs_out" => json!(self.u32(136)),
            "segs_in" => json!(self.u32(140)),
            "notsent_bytes" => json!(self.u32(144)),
            "min_rtt_us" => json!((self.u32(148) != u32::MAX).then_some(self.u32(148))),
            "data_segs_in" => json!(self.u32(152)),
            "data_segs_out" => json!(self.u32(156)),
            "delivery_rate_bps" => match self.u64(160) {
                0 => Value::Null,
                rate => json!(rate * 8),
            },
            "busy_us" => json!(self.u64(168)),
            "rwnd_limited_us" => json!(self.u64(176)),
            "sndbuf_limited_us" => json!(self.u64(184)),
            "delivered" => json!(self.u32(192)),
            "delivered_ce" => json!(self.u32(196)),
            "bytes_sent" => json!(self.u64(200)),
            "bytes_retrans" => json!(self.u64(208)),
            "dsack_dups" => json!(self.u32(216)),
            "reord_seen" => json!(self.u32(220)),
            "rcv_ooopack" => json!(self.u32(224)),
            "snd_wnd_bytes" => json!(self.u32(228)),
            "rcv_wnd_bytes" => json!(self.u32(232)),
            // Upper and lower half of one number (TRAPS 13).
            "cc.btlbw_bps" => {
                let bw = u64::from(self.cc[1]) << 32 | u64::from(self.cc[0]);
                json!((bbr && bw != 0).then_some(bw * 8))
            }
            "cc.min_rtt_us" => json!((bbr && self.cc[2] != u32::MAX).then_some(self.cc[2])),
            "cc.pacing_gain" => gain(3),
            "cc.cwnd_gain" => gain(4),
            "rcvbuf_bytes" => json!(self.rcvbuf),
            "sndbuf_bytes" => json!(self.sndbuf),
            "wmem_queued_bytes" => json!(self.wmem_queued),
            _ => return None,
        })
    }
}

/// The value at a key such as `cc.name` of one of our objects.
pub fn ours<'a>(row: &'a Value, key: &str) -> &'a Value {
    key.split('.').fold(row, |at, part| &at[part])
}

/// Values in one order: unknown, then by size, then unlimited.
pub fn order(value: &Value) -> f64 {
    match value {
        Value::Null => -1.0,
        Value::Bool(bool) => f64::from(u8::from(*bool)),
        Value::Number(number) => number.as_f64().expect("finite"),
        _ => f64::INFINITY,
    }
}
