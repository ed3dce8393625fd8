//! What is asked for of a path, in the words of `tc`, and what that is in numbers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::units::words;

/// A full Ethernet frame with the default MTU, without its checksum: what `tc` counts.
pub const FULL_FRAME: u64 = 1514;
/// Packets lost of those sent while the path is in its bad state, and how many packets that lasts in the mean (DETECTION §3.2, row G).
pub const BURST_LOSS: f64 = 0.7;
pub const BURST_LENGTH: f64 = 4.0;

/// A path. Rates and sizes count Ethernet frames, as `tc` does.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    pub rate_bps: u64,
    /// Round trip without any queue; all of it on the way back.
    pub rtt: Duration,
    pub buffer: Buffer,
    /// Share of the packets toward the receiver that are lost, each by itself.
    pub loss: f64,
    /// The same share in bursts: a path that is good or bad.
    pub burst_loss: f64,
    /// The way back is longer or shorter by up to this.
    pub jitter: Duration,
    pub policer: Option<Policer>,
    /// ACKs leave at multiples of this.
    pub ack_batch: Duration,
    /// Random loss marks where a packet is ECN capable.
    pub ecn: bool,
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Buffer {
    /// Of rate × RTT.
    Bdp(f64),
    Packets(u64),
    Bytes(u64),
}

/// How much may wait at the bottleneck, the packet on the wire with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Packets(u64),
    Bytes(u64),
}

/// A token bucket that drops what it has no tokens for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    pub rate_bps: u64,
    pub burst_bytes: u64,
}

impl Path {
    /// Rate × RTT.
    pub fn bdp_bytes(&self) -> u64 {
        (self.rate_bps as f64 / 8.0 * self.rtt.as_secs_f64()).round() as u64
    }

    pub fn limit(&self) -> Limit {
        match self.buffer {
            // Less than one packet would let nothing pass.
            Buffer::Bdp(share) => {
                let bytes = (self.bdp_bytes() as f64 * share).round() as u64;
                Limit::Bytes(bytes.max(FULL_FRAME))
            }
            Buffer::Packets(packets) => Limit::Packets(packets),
            Buffer::Bytes(bytes) => Limit::Bytes(bytes.max(FULL_FRAME)),
        }
    }

    /// The buffer for a queue that counts packets, and takes them to be full.
    pub fn limit_packets(&self) -> u64 {
        match self.limit() {
            Limit::Packets(packets) => packets,
            Limit::Bytes(bytes) => bytes.div_ceil(FULL_FRAME),
        }
    }

    pub fn limit_bytes(&self) -> u64 {
        match self.limit() {
            Limit::Packets(packets) => packets * FULL_FRAME,
            Limit::Bytes(bytes) => bytes,
        }
    }

    /// What the link lets through in the long run.
    pub fn long_run_bps(&self) -> u64 {
        let policed = self.policer.map_or(u64::MAX, |policer| policer.rate_bps);
        self.rate_bps.min(policed)
    }

    /// In a line, for people and as the name that compared runs share.
    pub fn name(&self) -> String {
        let buffer = match self.buffer {
            Buffer::Bdp(share) => format!("{share}bdp"),
            Buffer::Packets(packets) => format!("{packets}p"),
            Buffer::Bytes(bytes) => format!("{bytes}b"),
        };
        let mut name = format!("{} {:?} {buffer}", rate_word(self.rate_bps), self.rtt);
        let share = |name: &mut String, word: &str, share: f64| {
            if share > 0.0 {
                let _ = write!(name, " {word} {}%", round(share * 100.0));
            }
        };
        share(&mut name, "loss", self.loss);
        share(&mut name, "burst-loss", self.burst_loss);
        if !self.jitter.is_zero() {
            let _ = write!(name, " jitter {:?}", self.jitter);
        }
        if let Some(policer) = self.policer {
            let rate = rate_word(policer.rate_bps);
            let _ = write!(name, " policer {rate}/{}", policer.burst_bytes);
        }
        if !self.ack_batch.is_zero() {
            let _ = write!(name, " ack-batch {:?}", self.ack_batch);
        }
        if self.ecn {
            name.push_str(" ecn");
        }
        name
    }

    /// The truth, for the recording's labels.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::new();
        let mut tell = |key: &str, value: String| labels.insert(format!("truth.{key}"), value);
        tell("path", self.name());
        tell("rate_bps", self.rate_bps.to_string());
        tell("rtt_us", self.rtt.as_micros().to_string());
        tell("bdp_bytes", self.bdp_bytes().to_string());
        tell("buffer_bytes", self.limit_bytes().to_string());
        tell("buffer_packets", self.limit_packets().to_string());
        tell("loss", self.loss.to_string());
        tell("burst_loss", self.burst_loss.to_string());
        tell("jitter_us", self.jitter.as_micros().to_string());
        tell("ack_batch_us", self.ack_batch.as_micros().to_string());
        tell("ecn", self.ecn.to_string());
        tell("seed", self.seed.to_string());
        if let Some(policer) = self.policer {
            tell("policer_rate_bps", policer.rate_bps.to_string());
            tell("policer_burst_bytes", policer.burst_bytes.to_string());
        }
        labels
    }
}

fn round(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

/// `100mbit`, where it is a whole number of them.
pub fn rate_word(bps: u64) -> String {
    let units = [
        (1_000_000_000, "gbit"),
        (1_000_000, "mbit"),
        (1_000, "kbit"),
    ];
    let whole = units.iter().find(|(unit, _)| bps.is_multiple_of(*unit));
    whole.map_or_else(
        || format!("{bps}bit"),
        |(unit, word)| format!("{}{word}", bps / unit),
    )
}

/// `100mbit`, `1.5gbit`: bits per second, decimal.
pub fn rate(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("'{text}' is no rate: write 500kbit, 100mbit or 1gbit (1kbit to 100gbit)");
    words::rate(text)
        .filter(|bps| (1_000..=100_000_000_000).contains(bps))
        .ok_or_else(wrong)
}

/// `15k`, `1m`: powers of 1024, as `tc` reads sizes.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no size: write 1500b, 64k or 10m (up to 4g)");
    words::size(text)
        .filter(|bytes| *bytes <= 1 << 32)
        .ok_or_else(wrong)
}

/// `1bdp`, `0.2bdp`, `331p`, `64k`.
pub fn buffer(text: &str) -> Result<Buffer, String> {
    let wrong = || {
        format!("'{text}' is no buffer: write 1bdp, 0.2bdp (of rate × RTT), 331p (packets) or 64k")
    };
    let lower = text.to_ascii_lowercase();
    let (number, unit) = words::number(&lower).ok_or_else(wrong)?;
    match unit {
        "bdp" if number > 0.0 && number <= 1000.0 => Ok(Buffer::Bdp(number)),
        "p" if (1.0..=10_000_000.0).contains(&number) && number.fract() == 0.0 => {
            Ok(Buffer::Packets(number as u64))
        }
        "bdp" | "p" => Err(wrong()),
        _ => size(text).map(Buffer::Bytes).map_err(|_| wrong()),
    }
}

/// `10mbit/100k`.
pub fn policer(text: &str) -> Result<Policer, String> {
    let (rate_text, burst) = text
        .split_once('/')
        .ok_or_else(|| format!("'{text}' is no policer: write RATE/BURST, such as 10mbit/100k"))?;
    let burst_bytes = size(burst)?;
    if burst_bytes < FULL_FRAME {
        return Err(format!(
            "a burst of {burst_bytes} bytes lets no full packet of {FULL_FRAME} pass: write 15k or more"
        ));
    }
    Ok(Policer {
        rate_bps: rate(rate_text)?,
        burst_bytes,
    })
}

/// `1%`, `0.01`.
pub fn share(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is no share: write 1% or 0.01 (less than 100%)");
    let (number, factor) = match text.strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text, 1.0),
    };
    let (number, rest) = words::number(number).ok_or_else(wrong)?;
    let share = number * factor;
    if rest.is_empty() && share < 1.0 {
        Ok(share)
    } else {
        Err(wrong())
    }
}

/// The share lost in bursts: not more than is lost in a path that is always bad.
pub fn burst_share(text: &str) -> Result<f64, String> {
    let share = share(text)?;
    if share < BURST_LOSS * 0.9 {
        Ok(share)
    } else {
        Err(format!(
            "'{text}' is too much: a burst loses {:.0}% of its packets, so the mean must be less than {:.0}%",
            BURST_LOSS * 100.0,
            BURST_LOSS * 90.0
        ))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn path() -> Path {
        Path {
            rate_bps: 100_000_000,
            rtt: Duration::from_millis(40),
            buffer: Buffer::Bdp(1.0),
            loss: 0.0,
            burst_loss: 0.0,
            jitter: Duration::ZERO,
            policer: None,
            ack_batch: Duration::ZERO,
            ecn: false,
            seed: 1,
        }
    }

    #[test]
    fn words_of_tc_are_read() {
        assert_eq!(rate("100mbit"), Ok(100_000_000));
        assert_eq!(rate("1.5Gbit"), Ok(1_500_000_000));
        assert_eq!(size("64k"), Ok(65536));
        assert_eq!(size("1500"), Ok(1500));
        assert_eq!(buffer("0.2bdp"), Ok(Buffer::Bdp(0.2)));
        assert_eq!(buffer("331p"), Ok(Buffer::Packets(331)));
        assert_eq!(buffer("64k"), Ok(Buffer::Bytes(65536)));
        let policer_read = Policer {
            rate_bps: 10_000_000,
            burst_bytes: 102_400,
        };
        assert_eq!(policer("10mbit/100k"), Ok(policer_read));
        assert_eq!(share("1%"), Ok(0.01));
        assert_eq!(share("0.5"), Ok(0.5));
    }

    #[test]
    fn what_is_no_word_is_refused() {
        for wrong in [
            "", "100", "mbit", "1mb", "-1mbit", "1e3mbit", "200gbit", "1..2mbit", "é",
        ] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "0bdp", "1.5p", "0p", "1x", "0", "bdp", "9999bdp"] {
            assert!(buffer(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "10mbit", "10mbit/100", "/1k", "1k/10mbit"] {
            assert!(policer(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "100%", "1", "-1%", "1 %", "%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
        assert!(burst_share("70%").is_err() && burst_share("1%").is_ok());
    }

    #[test]
    fn the_published_buffers() {
        // 100 Mbit/s × 40 ms in full packets.
        let mut path = path();
        assert_eq!(path.bdp_bytes(), 500_000);
        assert_eq!(path.limit_packets(), 331);
        path.buffer = Buffer::Bdp(0.2);
        assert_eq!(path.limit_packets(), 67);
        path.buffer = Buffer::Packets(331);
        assert_eq!(path.limit_bytes(), 331 * 1514);
        path.rate_bps = 1000;
        path.buffer = Buffer::Bdp(0.2);
        assert_eq!(path.limit_bytes(), FULL_FRAME, "one packet always fits");
    }

    #[test]
    fn the_truth_is_told_in_labels() {
        let mut path = path();
        path.loss = 0.01;
        path.policer = Some(policer("10mbit/100k").unwrap());
        assert_eq!(
            path.name(),
            "100mbit 40ms 1bdp loss 1% policer 10mbit/102400"
        );
        let labels = path.labels();
        assert_eq!(labels["truth.rate_bps"], "100000000");
        assert_eq!(labels["truth.policer_burst_bytes"], "102400");
        assert!(labels.keys().all(|key| key.starts_with("truth.")));
        assert_eq!(path.long_run_bps(), 10_000_000);
    }
}
