//! What a qdisc counts for itself (`TCA_STATS_APP`), by the names `tc -s -j qdisc` gives.
//!
//! Structures of `include/uapi/linux/pkt_sched.h`. A kernel may know fewer or more fields: what lies beyond the bytes
//! that came is left out, never 0 (TRAPS 24).

use std::collections::BTreeMap;

use super::netlink::{attribute, attributes, u32_at, u64_at};

/// Where a counter lies and how wide it is.
enum At {
    U32(usize),
    U64(usize),
}
use At::{U32, U64};

type Table = &'static [(&'static str, At)];

/// `struct tc_fq_qd_stats`. `tc` prints `throttled` twice; the flows throttled now are `throttled_flows` here.
const FQ: Table = &[
    ("gc", U64(0)),
    ("highprio", U64(8)),
    ("retrans", U64(16)),
    ("throttled", U64(24)),
    ("flows_plimit", U64(32)),
    ("pkts_too_long", U64(40)),
    ("alloc_errors", U64(48)),
    ("flows", U32(64)),
    ("inactive", U32(68)),
    ("throttled_flows", U32(72)),
    ("latency", U32(76)),
    ("ce_mark", U64(80)),
    ("horizon_drops", U64(88)),
    ("horizon_caps", U64(96)),
    ("fastpath", U64(104)),
    ("band0_drops", U64(112)),
    ("band1_drops", U64(120)),
    ("band2_drops", U64(128)),
    ("band0_pkts", U32(136)),
    ("band1_pkts", U32(140)),
    ("band2_pkts", U32(144)),
];

/// `struct tc_fq_codel_xstats` after its `type`, where that is `TCA_FQ_CODEL_XSTATS_QDISC`.
const FQ_CODEL: Table = &[
    ("maxpacket", U32(4)),
    ("drop_overlimit", U32(8)),
    ("ecn_mark", U32(12)),
    ("new_flow_count", U32(16)),
    ("new_flows_len", U32(20)),
    ("old_flows_len", U32(24)),
    ("ce_mark", U32(28)),
    ("memory_used", U32(32)),
    ("drop_overmemory", U32(36)),
];

/// `struct tc_codel_xstats`.
const CODEL: Table = &[
    ("maxpacket", U32(0)),
    ("count", U32(4)),
    ("lastcount", U32(8)),
    ("ldelay", U32(12)),
    ("drop_overlimit", U32(20)),
    ("ecn_mark", U32(24)),
    ("ce_mark", U32(32)),
];

/// `struct tc_pie_xstats`.
const PIE: Table = &[
    ("prob", U64(0)),
    ("delay", U32(8)),
    ("avg_dq_rate", U32(12)),
    ("pkts_in", U32(20)),
    ("dropped", U32(24)),
    ("overlimit", U32(28)),
    ("maxq", U32(32)),
    ("ecn_mark", U32(36)),
];

/// `tc_pie_xstats.dq_rate_estimating`.
const PIE_ESTIMATING: usize = 16;

/// `struct tc_fq_pie_xstats`.
const FQ_PIE: Table = &[
    ("pkts_in", U32(0)),
    ("dropped", U32(4)),
    ("overlimit", U32(8)),
    ("overmemory", U32(12)),
    ("ecn_mark", U32(16)),
    ("new_flow_count", U32(20)),
    ("new_flows_len", U32(24)),
    ("old_flows_len", U32(28)),
    ("memory_used", U32(32)),
];

/// `struct tc_red_xstats`, `struct tc_choke_xstats`.
const RED: Table = &[
    ("early", U32(0)),
    ("pdrop", U32(4)),
    ("other", U32(8)),
    ("marked", U32(12)),
];

/// `TCA_CAKE_STATS_*` of 32 bits.
const CAKE: &[(&str, u16)] = &[("memory_limit", 3), ("memory_used", 4)];
const TCA_CAKE_STATS_CAPACITY_ESTIMATE64: u16 = 2;
const TCA_CAKE_STATS_TIN_STATS: u16 = 10;
/// `TCA_CAKE_TIN_STATS_*` of 32 bits that can be summed over the tins.
const CAKE_TIN: &[(&str, u16)] = &[
    ("drops", 4),
    ("ack_drops", 6),
    ("ecn_mark", 8),
    ("way_indirect_hits", 15),
    ("way_misses", 16),
    ("way_collisions", 17),
    ("sparse_flows", 21),
    ("bulk_flows", 22),
    ("unresponsive_flows", 23),
];

const TCA_FQ_CODEL_XSTATS_QDISC: u32 = 0;
const TCA_HTB_INIT: u16 = 2;
/// `tc_htb_glob.direct_pkts`.
const HTB_DIRECT_PKTS: usize = 16;

/// Reads the statistics of a `kind` of qdisc into `extra`; kinds not known here have none.
pub(super) fn read(kind: &str, bytes: &[u8], extra: &mut BTreeMap<String, u64>) {
    let table = match kind {
        "fq" => FQ,
        "fq_codel" if u32_at(bytes, 0) == Some(TCA_FQ_CODEL_XSTATS_QDISC) => FQ_CODEL,
        "codel" => CODEL,
        "pie" => PIE,
        "fq_pie" => FQ_PIE,
        "red" | "choke" => RED,
        "cake" => return cake(bytes, extra),
        _ => return,
    };
    for (name, at) in table {
        // Without its estimator pie has no such rate.
        let estimating = u32_at(bytes, PIE_ESTIMATING).is_some_and(|on| on != 0);
        if *name == "avg_dq_rate" && !estimating {
            continue;
        }
        let value = match *at {
            U32(at) => u32_at(bytes, at).map(u64::from),
            U64(at) => u64_at(bytes, at),
        };
        if let Some(value) = value {
            extra.insert((*name).to_owned(), value);
        }
    }
}

/// Counters that a kind keeps among its options.
pub(super) fn read_options(kind: &str, bytes: &[u8], extra: &mut BTreeMap<String, u64>) {
    if kind == "htb"
        && let Some(packets) =
            attribute(bytes, TCA_HTB_INIT).and_then(|init| u32_at(init, HTB_DIRECT_PKTS))
    {
        extra.insert("direct_packets_stat".to_owned(), u64::from(packets));
    }
}

fn cake(bytes: &[u8], extra: &mut BTreeMap<String, u64>) {
    for (kind, payload) in attributes(bytes) {
        if let Some((name, _)) = CAKE.iter().find(|(_, k)| *k == kind) {
            extra.extend(u32_at(payload, 0).map(|v| ((*name).to_owned(), u64::from(v))));
        } else if kind == TCA_CAKE_STATS_CAPACITY_ESTIMATE64 {
            extra.extend(u64_at(payload, 0).map(|v| ("capacity_estimate".to_owned(), v)));
        } else if kind == TCA_CAKE_STATS_TIN_STATS {
            let tins = attributes(payload).flat_map(|(_, tin)| attributes(tin));
            for (kind, payload) in tins {
                if let Some((name, _)) = CAKE_TIN.iter().find(|(_, k)| *k == kind)
                    && let Some(value) = u32_at(payload, 0)
                {
                    *extra.entry((*name).to_owned()).or_default() += u64::from(value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::netlink::tests::attr;
    use super::*;

    fn extra(kind: &str, bytes: &[u8]) -> BTreeMap<String, u64> {
        let mut extra = BTreeMap::new();
        read(kind, bytes, &mut extra);
        extra
    }

    /// `struct tc_fq_qd_stats` with every field its own number, up to `fastpath_packets` (6.7).
    fn fq() -> Vec<u8> {
        let mut bytes = Vec::new();
        for value in 1u64..=7 {
            bytes.extend(value.to_ne_bytes());
        }
        bytes.extend((-1i64).to_ne_bytes());
        for value in 9u32..=12 {
            bytes.extend(value.to_ne_bytes());
        }
        for value in 13u64..=16 {
            bytes.extend(value.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn fq_has_tc_s_names() {
        let extra = extra("fq", &fq());
        let expected = [
            ("gc", 1),
            ("highprio", 2),
            ("retrans", 3),
            ("throttled", 4),
            ("flows_plimit", 5),
            ("pkts_too_long", 6),
            ("alloc_errors", 7),
            ("flows", 9),
            ("inactive", 10),
            ("throttled_flows", 11),
            ("latency", 12),
            ("ce_mark", 13),
            ("horizon_drops", 14),
            ("horizon_caps", 15),
            ("fastpath", 16),
        ];
        assert_eq!(
            extra,
            expected
                .into_iter()
                .map(|(n, v)| (n.to_owned(), v))
                .collect()
        );
    }

    #[test]
    fn trap_24_an_older_kernel_s_missing_fields_are_absent_not_zero() {
        // 4.18 knew the fields up to `unthrottle_latency_ns`.
        let extra = extra("fq", &fq()[..80]);
        assert_eq!(extra["latency"], 12);
        assert!(!extra.contains_key("ce_mark"));
    }

    #[test]
    fn fq_codel_s_class_statistics_are_not_the_qdisc_s() {
        let mut bytes: Vec<u8> = (0u32..10).flat_map(u32::to_ne_bytes).collect();
        let qdisc = extra("fq_codel", &bytes);
        assert_eq!(qdisc["maxpacket"], 1);
        assert_eq!(qdisc["drop_overmemory"], 9);
        bytes[0] = 1;
        assert!(extra("fq_codel", &bytes).is_empty());
    }

    #[test]
    fn cake_s_tins_are_summed() {
        let tin = |drops: u32| attr(4, &drops.to_ne_bytes());
        let mut tins = attr(1, &tin(3));
        tins.extend(attr(2, &tin(4)));
        let mut bytes = attr(TCA_CAKE_STATS_TIN_STATS, &tins);
        bytes.extend(attr(4, &65_536u32.to_ne_bytes()));
        let extra = extra("cake", &bytes);
        assert_eq!(extra["drops"], 7);
        assert_eq!(extra["memory_used"], 65_536);
    }

    #[test]
    fn htb_s_unshaped_packets_are_among_its_options() {
        let glob: Vec<u8> = [3u32, 10, 0x10, 0, 42]
            .into_iter()
            .flat_map(u32::to_ne_bytes)
            .collect();
        let mut extra = BTreeMap::new();
        read_options("htb", &attr(TCA_HTB_INIT, &glob), &mut extra);
        assert_eq!(extra["direct_packets_stat"], 42);
    }
}
