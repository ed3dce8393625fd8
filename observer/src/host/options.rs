//! How a qdisc is set up (`TCA_OPTIONS`), by the names and in the order of `tc -d -j qdisc`.
//!
//! Structures of `include/uapi/linux/pkt_sched.h`. An older kernel tells less: what did not come is left out.

use super::netlink::{attribute, u32_at, u64_at};
use crate::event::Setting;
use crate::units::Limit;

/// How an attribute's payload is read.
#[derive(Clone, Copy)]
enum How {
    Count,
    Packets,
    Bytes,
    /// Bytes per second in 32 bits; all ones = unlimited.
    Rate,
    /// Bytes per second in 64 bits; 0 = unlimited.
    Rate64,
    Micros,
    Nanos,
    /// Not 0.
    Flag,
    /// A byte, not 0.
    FlagByte,
    /// Present.
    There,
    /// As a power of 2.
    Power,
    Signed,
    /// Words of 32 bits.
    Numbers,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// A threshold of this many µs is not in use (`CODEL_DISABLED_THRESHOLD`, fq's `~0U`).
const OFF: u32 = u32::MAX;

type Table = &'static [(&'static str, u16, How)];

const FQ: Table = &[
    ("limit", 1, How::Packets),
    ("flow_limit", 2, How::Packets),
    ("buckets", 8, How::Power),
    ("orphan_mask", 10, How::Count),
    ("pacing", 5, How::Flag),
    ("quantum", 3, How::Bytes),
    ("initial_quantum", 4, How::Bytes),
    ("maxrate", 7, How::Rate),
    ("low_rate_threshold", 11, How::Rate),
    ("refill_delay", 9, How::Micros),
    ("ce_threshold", 12, How::Micros),
    ("timer_slack", 13, How::Nanos),
    ("horizon", 14, How::Micros),
    ("offload_horizon", 18, How::Micros),
    ("horizon_drop", 15, How::FlagByte),
    ("weights", 17, How::Numbers),
];

const FQ_CODEL: Table = &[
    ("limit", 2, How::Packets),
    ("flows", 5, How::Count),
    ("quantum", 6, How::Bytes),
    ("target", 1, How::Micros),
    ("ce_threshold", 7, How::Micros),
    ("interval", 3, How::Micros),
    ("memory_limit", 9, How::Bytes),
    ("ecn", 4, How::Flag),
    ("drop_batch", 8, How::Packets),
];

const CODEL: Table = &[
    ("limit", 2, How::Packets),
    ("target", 1, How::Micros),
    ("ce_threshold", 5, How::Micros),
    ("interval", 3, How::Micros),
    ("ecn", 4, How::Flag),
];

const PIE: Table = &[
    ("limit", 2, How::Packets),
    ("target", 1, How::Micros),
    ("tupdate", 3, How::Micros),
    ("alpha", 4, How::Count),
    ("beta", 5, How::Count),
    ("ecn", 6, How::Flag),
    ("bytemode", 7, How::Flag),
    ("dq_rate_estimator", 8, How::Flag),
];

const FQ_PIE: Table = &[
    ("limit", 1, How::Packets),
    ("flows", 2, How::Count),
    ("target", 3, How::Micros),
    ("tupdate", 4, How::Micros),
    ("alpha", 5, How::Count),
    ("beta", 6, How::Count),
    ("quantum", 7, How::Bytes),
    ("memory_limit", 8, How::Bytes),
    ("ecn_prob", 9, How::Count),
    ("ecn", 10, How::Flag),
    ("bytemode", 11, How::Flag),
    ("dq_rate_estimator", 12, How::Flag),
];

const CAKE: Table = &[
    ("bandwidth", 2, How::Rate64),
    ("autorate", 9, How::Flag),
    ("diffserv", 3, How::Word(DIFFSERV)),
    ("flowmode", 5, How::Word(FLOWMODE)),
    ("nat", 11, How::Flag),
    ("wash", 13, How::Flag),
    ("ingress", 15, How::Flag),
    ("ack-filter", 16, How::Word(ACK_FILTER)),
    ("split_gso", 17, How::Flag),
    ("rtt", 7, How::Micros),
    ("raw", 12, How::There),
    ("atm", 4, How::Word(ATM)),
    ("overhead", 6, How::Signed),
    ("mpu", 14, How::Bytes),
    ("memlimit", 10, How::Bytes),
];
const DIFFSERV: &[&str] = &[
    "diffserv3",
    "diffserv4",
    "diffserv8",
    "besteffort",
    "precedence",
];
const FLOWMODE: &[&str] = &[
    "flowblind",
    "srchost",
    "dsthost",
    "hosts",
    "flows",
    "dual-srchost",
    "dual-dsthost",
    "triple-isolate",
];
const ACK_FILTER: &[&str] = &["disabled", "enabled", "aggressive"];
const ATM: &[&str] = &["noatm", "atm", "ptm"];

/// The options of a `kind` of qdisc; none for kinds not known here.
pub(super) fn read(kind: &str, bytes: &[u8]) -> Vec<(String, Setting)> {
    let mut options = match kind {
        "fq" => table(FQ, bytes),
        "fq_codel" => table(FQ_CODEL, bytes),
        "codel" => table(CODEL, bytes),
        "pie" => table(PIE, bytes),
        "fq_pie" => table(FQ_PIE, bytes),
        "cake" => table(CAKE, bytes),
        "tbf" => tbf(bytes).unwrap_or_default(),
        "htb" => htb(bytes),
        "netem" => netem(bytes),
        "pfifo" => limit(bytes, Setting::Packets),
        "bfifo" => limit(bytes, Setting::Bytes),
        "pfifo_fast" | "prio" => prio(bytes).unwrap_or_default(),
        "sfq" => sfq(bytes),
        "red" => red(bytes).unwrap_or_default(),
        "mqprio" => mqprio(bytes),
        _ => Vec::new(),
    };
    // `tc` leaves these out, too: they are not in use.
    options.retain(|(name, setting)| match setting {
        Setting::Bytes(0) => !matches!(name.as_str(), "memlimit" | "mpu"),
        Setting::Flag(false) => name != "autorate",
        Setting::Word(word) => word != ATM[0],
        _ => true,
    });
    options
}

fn table(table: Table, bytes: &[u8]) -> Vec<(String, Setting)> {
    let read = |&(name, kind, how): &(&str, u16, How)| {
        let setting = setting(how, attribute(bytes, kind)?)?;
        Some((name.to_owned(), setting))
    };
    table.iter().filter_map(read).collect()
}

fn setting(how: How, payload: &[u8]) -> Option<Setting> {
    let word = || u32_at(payload, 0);
    let wide = || word().map(u64::from);
    Some(match how {
        How::Count => Setting::Count(wide()?),
        How::Packets => Setting::Packets(wide()?),
        How::Bytes => Setting::Bytes(wide()?),
        How::Rate => Setting::Rate(rate32(word()?)),
        How::Rate64 => Setting::Rate(match u64_at(payload, 0)? {
            0 => Limit::Unlimited,
            rate => Limit::Finite(rate),
        }),
        How::Micros => Setting::Nanoseconds(u64::from(word().filter(|&us| us != OFF)?) * 1000),
        How::Nanos => Setting::Nanoseconds(wide()?),
        How::Flag => Setting::Flag(word()? != 0),
        How::FlagByte => Setting::Flag(*payload.first()? != 0),
        How::There => Setting::Flag(true),
        How::Power => Setting::Count(1u64.checked_shl(word()?)?),
        How::Signed => Setting::Signed(i64::from(word()? as i32)),
        How::Numbers => {
            let words = payload.as_chunks().0.iter();
            let words: Vec<String> = words
                .map(|word| u32::from_ne_bytes(*word).to_string())
                .collect();
            Setting::Word(words.join(" "))
        }
        How::Word(words) => Setting::Word((*words.get(word()? as usize)?).to_owned()),
    })
}

fn rate32(bytes_per_s: u32) -> Limit<u64> {
    match bytes_per_s {
        u32::MAX => Limit::Unlimited,
        rate => Limit::Finite(rate.into()),
    }
}

/// `PSCHED_SHIFT`: one tick of the packet scheduler is 64 ns.
const TICK_NS: u64 = 64;

/// Bytes that pass at `rate` in `ticks`. Older `tc`s cut to whole microseconds on the way and show a little less.
fn passing(rate: u64, ticks: u32) -> u64 {
    let bytes = u128::from(rate) * u128::from(ticks) * u128::from(TICK_NS) / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn named(name: &str, setting: Setting) -> (String, Setting) {
    (name.to_owned(), setting)
}

/// The only field of `struct tc_fifo_qopt`.
fn limit(bytes: &[u8], unit: fn(u64) -> Setting) -> Vec<(String, Setting)> {
    let limit = u32_at(bytes, 0).map(|limit| named("limit", unit(limit.into())));
    limit.into_iter().collect()
}

/// `struct tc_tbf_qopt`: two `tc_ratespec` of 12 bytes with the rate at 8, then limit, buffer and mtu.
fn tbf(bytes: &[u8]) -> Option<Vec<(String, Setting)>> {
    const RATE64: u16 = 4;
    const PRATE64: u16 = 5;
    let parms = attribute(bytes, 1)?;
    // Only present when 32 bits do not hold the number.
    let rate = |at, wide| {
        let wide = attribute(bytes, wide).and_then(|rate| u64_at(rate, 0));
        wide.or_else(|| u32_at(parms, at).map(u64::from))
    };
    let (rate, peak) = (rate(8, RATE64)?, rate(20, PRATE64)?);
    let (limit, buffer) = (u32_at(parms, 24)?, u32_at(parms, 28)?);
    let mut options = vec![
        named("rate", Setting::Rate(Limit::Finite(rate))),
        named("burst", Setting::Bytes(passing(rate, buffer))),
    ];
    if peak != 0 {
        let mtu = u32_at(parms, 32)?;
        options.push(named("peakrate", Setting::Rate(Limit::Finite(peak))));
        options.push(named("minburst", Setting::Bytes(passing(peak, mtu))));
    }
    options.push(named("limit", Setting::Bytes(limit.into())));
    Some(options)
}

/// A class as `tc` writes it: `0x10`, `0`.
fn class_text(class: u32) -> String {
    match class {
        0 => "0".to_owned(),
        class => format!("{class:#x}"),
    }
}

/// `struct tc_htb_glob`: version, rate2quantum, defcls, debug, direct_pkts.
fn htb(bytes: &[u8]) -> Vec<(String, Setting)> {
    let init = attribute(bytes, 2).unwrap_or_default();
    let direct = attribute(bytes, 5).and_then(|bytes| u32_at(bytes, 0));
    let options = [
        u32_at(init, 4).map(|r2q| named("r2q", Setting::Count(r2q.into()))),
        u32_at(init, 8).map(|class| named("default", Setting::Word(class_text(class)))),
        direct.map(|limit| named("direct_qlen", Setting::Packets(limit.into()))),
        attribute(bytes, 9).map(|_| named("offload", Setting::Flag(true))),
    ];
    options.into_iter().flatten().collect()
}

/// `struct tc_netem_qopt` (latency, limit, loss, gap, duplicate, jitter), then attributes. As with `tc`, what is not
/// in use is left out.
fn netem(bytes: &[u8]) -> Vec<(String, Setting)> {
    const QOPT: usize = 24;
    let attributes = bytes.get(QOPT..).unwrap_or_default();
    let field = |at| u32_at(bytes, at);
    // The ticks of `latency` and `jitter` overflow after 275 s; 64 bits of ns came with 4.15.
    let time = |wide, at| {
        let wide = attribute(attributes, wide).and_then(|ns| u64_at(ns, 0));
        let ns = wide.or_else(|| field(at).map(|ticks| u64::from(ticks) * TICK_NS));
        ns.filter(|&ns| ns != 0).map(Setting::Nanoseconds)
    };
    let share = |value: Option<u32>| value.filter(|&share| share != 0).map(Setting::Share);
    let first = |kind| attribute(attributes, kind).and_then(|bytes| u32_at(bytes, 0));
    let rate = attribute(attributes, 8)
        .and_then(|rate| u64_at(rate, 0))
        .or_else(|| first(6).map(u64::from))
        .filter(|&rate| rate != 0);
    let options = [
        ("limit", field(4).map(|n| Setting::Packets(n.into()))),
        ("delay", time(10, 0)),
        ("jitter", time(11, 20)),
        ("loss", share(field(8))),
        ("duplicate", share(field(16))),
        ("reorder", share(first(3))),
        ("corrupt", share(first(4))),
        ("rate", rate.map(|rate| Setting::Rate(Limit::Finite(rate)))),
        (
            "ecn",
            first(7)
                .filter(|&ecn| ecn != 0)
                .map(|_| Setting::Flag(true)),
        ),
        (
            "gap",
            field(12)
                .filter(|&gap| gap != 0)
                .map(|gap| Setting::Packets(gap.into())),
        ),
    ];
    options
        .into_iter()
        .filter_map(|(name, setting)| Some(named(name, setting?)))
        .collect()
}

/// `struct tc_prio_qopt`: bands, and the band of each of 16 priorities.
fn prio(bytes: &[u8]) -> Option<Vec<(String, Setting)>> {
    let map: Vec<String> = bytes.get(4..20)?.iter().map(u8::to_string).collect();
    Some(vec![
        named("bands", Setting::Count(u32_at(bytes, 0)?.into())),
        named("priomap", Setting::Word(map.join(" "))),
    ])
}

/// `struct tc_sfq_qopt_v1`.
fn sfq(bytes: &[u8]) -> Vec<(String, Setting)> {
    let field = |at| u32_at(bytes, at).map(u64::from);
    let options = [
        ("limit", field(8).map(Setting::Packets)),
        ("quantum", field(0).map(Setting::Bytes)),
        ("depth", field(20).map(Setting::Packets)),
        ("divisor", field(12).map(Setting::Count)),
        (
            "perturb",
            field(4)
                .filter(|&s| s != 0)
                .map(|s| Setting::Nanoseconds(s * 1_000_000_000)),
        ),
    ];
    options
        .into_iter()
        .filter_map(|(name, setting)| Some(named(name, setting?)))
        .collect()
}

/// `struct tc_red_qopt`.
fn red(bytes: &[u8]) -> Option<Vec<(String, Setting)>> {
    const FLAGS: [(&str, u8); 4] = [("ecn", 1), ("harddrop", 2), ("adaptive", 4), ("nodrop", 8)];
    let parms = attribute(bytes, 1)?;
    let size = |at| u32_at(parms, at).map(|bytes| Setting::Bytes(bytes.into()));
    let mut options = vec![
        named("limit", size(0)?),
        named("min", size(4)?),
        named("max", size(8)?),
    ];
    let flags = *parms.get(15)?;
    let set = FLAGS.iter().filter(|(_, bit)| flags & bit != 0);
    options.extend(set.map(|(name, _)| named(name, Setting::Flag(true))));
    Some(options)
}

/// `struct tc_mqprio_qopt`: num_tc, a map of 16 bytes, hw.
fn mqprio(bytes: &[u8]) -> Vec<(String, Setting)> {
    let options = [
        bytes
            .first()
            .map(|&n| named("tc", Setting::Count(n.into()))),
        bytes.get(17).map(|&hw| named("hw", Setting::Flag(hw != 0))),
    ];
    options.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::netlink::tests::attr;
    use super::*;

    fn word(kind: u16, value: u32) -> Vec<u8> {
        attr(kind, &value.to_ne_bytes())
    }

    #[test]
    fn an_fq_without_a_rate_limit_is_unlimited_and_unused_thresholds_are_absent() {
        let bytes = [
            word(1, 10_000),
            word(7, u32::MAX),
            word(12, u32::MAX),
            word(8, 10),
        ]
        .concat();
        assert_eq!(
            read("fq", &bytes),
            [
                named("limit", Setting::Packets(10_000)),
                named("buckets", Setting::Count(1024)),
                named("maxrate", Setting::Rate(Limit::Unlimited)),
            ]
        );
    }

    #[test]
    fn a_tbf_s_burst_is_reckoned_as_tc_does() {
        // rate 50mbit burst 10kb limit 30000.
        let mut parms = vec![0; 36];
        parms[8..12].copy_from_slice(&6_250_000u32.to_ne_bytes());
        parms[24..28].copy_from_slice(&30_000u32.to_ne_bytes());
        parms[28..32].copy_from_slice(&25_600u32.to_ne_bytes());
        assert_eq!(
            read("tbf", &attr(1, &parms)),
            [
                named("rate", Setting::Rate(Limit::Finite(6_250_000))),
                named("burst", Setting::Bytes(10_240)),
                named("limit", Setting::Bytes(30_000)),
            ]
        );
    }

    #[test]
    fn words_beyond_the_known_ones_are_absent_not_wrong() {
        assert_eq!(
            read("cake", &word(3, 3)),
            [named("diffserv", Setting::Word("besteffort".to_owned()))]
        );
        assert_eq!(read("cake", &word(3, 9)), []);
        assert_eq!(read("fq", &word(8, 64)), [], "2⁶⁴ is no number of buckets");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for kind in [
                "fq", "fq_codel", "codel", "pie", "fq_pie", "cake", "tbf", "htb", "netem", "pfifo", "bfifo",
                "pfifo_fast", "prio", "sfq", "red", "mqprio", "noqueue",
            ] {
                read(kind, &bytes);
            }
        }
    }
}
