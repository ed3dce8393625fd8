//! `RTM_GETQDISC`: the qdiscs really attached (TRAPS 12), with the counters `tc -s qdisc` shows.

use super::netlink::{Message, Netlink, NetlinkError, attributes, text, u32_at, u64_at};
use super::{options, xstats};
use crate::event::Qdisc;

/// `nlmsg_type` of the messages of the dump.
pub const RTM_NEWQDISC: u16 = 36;
/// `nlmsg_type` of the question.
pub const RTM_GETQDISC: u16 = 38;
/// `struct tcmsg`.
pub const TCMSG: usize = 20;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_XSTATS: u16 = 4;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_APP: u16 = 4;
const TCA_STATS_PKT64: u16 = 8;

/// All qdiscs of the socket's namespace with their device's index, in the kernel's order. As with `tc`, what is built
/// in (`noop`) or invisible (no `TCA_DUMP_INVISIBLE`) is left out.
pub fn qdiscs(netlink: &mut Netlink) -> Result<Vec<(u32, Qdisc)>, NetlinkError> {
    netlink.collect(RTM_GETQDISC, &[0; TCMSG], read)
}

/// The qdisc that a message of the dump tells, with its device's index; `None` for another message.
pub fn read(message: Message<'_>) -> Option<(u32, Qdisc)> {
    if message.kind != RTM_NEWQDISC {
        return None;
    }
    let ifindex = u32_at(message.body, 4)?;
    let mut qdisc = Qdisc {
        handle: u32_at(message.body, 8)?,
        parent: u32_at(message.body, 12)?,
        ..Qdisc::default()
    };
    let (mut set_up, mut old_xstats, mut app) = (None, None, None);
    for (kind, payload) in attributes(message.body.get(TCMSG..)?) {
        match kind {
            TCA_KIND => qdisc.kind = text(payload),
            TCA_OPTIONS => set_up = Some(payload),
            TCA_XSTATS => old_xstats = Some(payload),
            TCA_STATS2 => app = counters(&mut qdisc, payload),
            _ => {}
        }
    }
    // The same bytes come twice; `tc` prefers those in `TCA_STATS2`, too.
    if let Some(bytes) = app.or(old_xstats) {
        xstats::read(&qdisc.kind, bytes, &mut qdisc.extra);
    }
    if let Some(bytes) = set_up {
        xstats::read_options(&qdisc.kind, bytes, &mut qdisc.extra);
        qdisc.options = options::read(&qdisc.kind, bytes);
    }
    (!qdisc.kind.is_empty()).then_some((ifindex, qdisc))
}

/// `TCA_STATS2` into `qdisc`; returns the kind's own statistics. `TCA_STATS_BASIC_HW` is a part of `BASIC`, not more.
fn counters<'a>(qdisc: &mut Qdisc, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let (mut packets64, mut app) = (None, None);
    for (kind, payload) in attributes(bytes) {
        match kind {
            TCA_STATS_BASIC => {
                qdisc.bytes = u64_at(payload, 0).unwrap_or_default();
                qdisc.packets = u64::from(u32_at(payload, 8).unwrap_or_default());
            }
            // Only present when 32 bits do not hold the number (`gnet_stats_copy_basic`, 5.5).
            TCA_STATS_PKT64 => packets64 = u64_at(payload, 0),
            TCA_STATS_QUEUE => {
                let field = |at| u64::from(u32_at(payload, at).unwrap_or_default());
                qdisc.backlog_packets = field(0);
                qdisc.backlog_bytes = field(4);
                qdisc.drops = field(8);
                qdisc.requeues = field(12);
                qdisc.overlimits = field(16);
            }
            TCA_STATS_APP => app = Some(payload),
            _ => {}
        }
    }
    if let Some(packets) = packets64 {
        qdisc.packets = packets;
    }
    app
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::netlink::tests::attr;
    use super::*;

    fn new_qdisc(body: &[u8]) -> Option<(u32, Qdisc)> {
        read(Message {
            kind: RTM_NEWQDISC,
            flags: 0,
            sequence: 0,
            body,
        })
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }

    fn tbf(pkt64: Option<u64>) -> Vec<u8> {
        let mut basic = 5_000_000_000u64.to_ne_bytes().to_vec();
        basic.extend(words(&[3_000_000, 0]));
        let mut stats = attr(TCA_STATS_BASIC, &basic);
        if let Some(packets) = pkt64 {
            stats.extend(attr(TCA_STATS_PKT64, &packets.to_ne_bytes()));
        }
        stats.extend(attr(TCA_STATS_QUEUE, &words(&[2, 3028, 11, 5, 99])));
        let mut body = words(&[0, 4, 0x8001_0000, 0xffff_ffff, 0]);
        body.extend(attr(TCA_KIND, b"tbf\0"));
        body.extend(attr(TCA_STATS2, &stats));
        body
    }

    #[test]
    fn trap_23_each_counter_comes_from_its_own_field() {
        let (ifindex, qdisc) = new_qdisc(&tbf(None)).unwrap();
        assert_eq!(ifindex, 4);
        assert_eq!(
            qdisc,
            Qdisc {
                kind: "tbf".to_owned(),
                handle: 0x8001_0000,
                parent: 0xffff_ffff,
                bytes: 5_000_000_000,
                packets: 3_000_000,
                drops: 11,
                overlimits: 99,
                requeues: 5,
                backlog_bytes: 3028,
                backlog_packets: 2,
                ..Qdisc::default()
            }
        );
    }

    #[test]
    fn packets_beyond_32_bits_come_from_pkt64() {
        let (_, qdisc) = new_qdisc(&tbf(Some(4_300_000_000))).unwrap();
        assert_eq!(qdisc.packets, 4_300_000_000);
    }

    #[test]
    fn a_short_message_is_no_qdisc() {
        assert_eq!(new_qdisc(&tbf(None)[..20]), None);
        assert_eq!(new_qdisc(&[]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            new_qdisc(&bytes);
        }

        #[test]
        fn any_cut_is_survived(at in 0usize..120) {
            let body = tbf(Some(1));
            new_qdisc(&body[..at.min(body.len())]);
        }
    }
}
