//! Captures, made here packet by packet, as recordings: every link layer, damage, and figures that can be counted by hand.

mod import_support;

use std::io::Write as _;

use observer::event::{Event, Payload, RetransmitKind, Sample, TcpState};
use observer::import::{Capture, ImportError, Summary};
use proptest::prelude::*;

use import_support::{Link, Maker, pcap, pcapng};

const MS: u64 = 1_000_000;

fn import(bytes: &[u8]) -> Result<(Vec<Event>, Summary), ImportError> {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("written");
    let mut events = Vec::new();
    let summary = Capture::survey(file)?.events(|event| {
        events.push(event.clone());
        Ok::<(), std::io::Error>(())
    })?;
    Ok((events, summary))
}

fn samples(events: &[Event]) -> Vec<&Sample> {
    events
        .iter()
        .filter_map(|event| match &event.payload {
            Payload::Sample(sample) => Some(&**sample),
            _ => None,
        })
        .collect()
}

fn last(events: &[Event]) -> &Sample {
    samples(events).last().expect("a sample")
}

fn retransmits(events: &[Event]) -> Vec<(RetransmitKind, u32, u64)> {
    events
        .iter()
        .filter_map(|event| match &event.payload {
            Payload::Retransmit(r) => Some((r.kind, r.segments, r.bytes)),
            _ => None,
        })
        .collect()
}

/// Ten segments of a flow with an RTT of 40 ms; the third is lost and comes again after SACKs.
fn lossy(start: u32) -> Maker {
    let mut m = Maker::new(start);
    m.handshake(0, 40 * MS);
    for n in 0..10 {
        m.data(50 * MS + u64::from(n) * MS, n * 1000, 1000);
    }
    m.ack(90 * MS, 1000, &[]);
    m.ack(91 * MS, 2000, &[]);
    for n in 3..10 {
        m.ack(90 * MS + u64::from(n) * MS, 2000, &[(3000, (n + 1) * 1000)]);
    }
    m.data(100 * MS, 2000, 1000);
    m.ack(140 * MS, 10_000, &[]);
    m
}

fn check_lossy(events: &[Event]) {
    let end = last(events);
    assert_eq!(retransmits(events), [(RetransmitKind::Fast, 1, 1000)]);
    // The SYN of who opens is a byte, as in the kernel.
    assert_eq!(end.bytes_acked, Some(10_001));
    assert_eq!(
        (end.bytes_sent, end.bytes_retrans),
        (Some(11_000), Some(1000))
    );
    assert_eq!((end.retrans, end.data_segs_out), (1, Some(11)));
    assert_eq!((end.packets_out, end.lost_out, end.sacked_out), (0, 0, 0));
    assert_eq!(end.delivered, Some(10));
    assert_eq!(end.min_rtt_us, Some(40_000));
    assert_eq!(end.mss, 1000);
    assert_eq!(
        (end.cwnd, end.ssthresh, end.pacing_rate),
        (None, None, None)
    );
    assert_eq!(end.snd_wnd_bytes, Some(1000 << 7));
    let worst = samples(events).into_iter().map(|s| s.lost_out).max();
    assert_eq!(
        worst,
        Some(1),
        "what is below three SACKed segments is lost"
    );
    let states: Vec<TcpState> = events
        .iter()
        .filter_map(|event| match &event.payload {
            Payload::State(change) => Some(change.new),
            _ => None,
        })
        .collect();
    assert_eq!(states, [TcpState::Established]);
    assert!(events.windows(2).all(|pair| pair[0].time <= pair[1].time));
}

#[test]
fn a_loss_is_the_same_over_every_link_layer_format_and_packing() {
    let maker = lossy(1);
    for link in Link::ALL {
        for nanoseconds in [false, true] {
            let (events, _) = import(&pcap(&maker.frames(link), link, nanoseconds, 65_535))
                .unwrap_or_else(|error| panic!("{link:?}: {error}"));
            check_lossy(&events);
        }
        let (events, _) = import(&pcapng(&maker.frames(link), link)).expect("pcapng");
        check_lossy(&events);
    }
    let plain = pcap(&maker.frames(Link::Ethernet), Link::Ethernet, true, 65_535);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&plain).expect("packed");
    check_lossy(&import(&gz.finish().expect("packed")).expect("gz").0);
    check_lossy(
        &import(&zstd::encode_all(&plain[..], 1).expect("packed"))
            .expect("zst")
            .0,
    );
}

#[test]
fn sequence_numbers_wrap_and_headers_alone_are_enough() {
    for start in [u32::MAX - 2500, u32::MAX - 1, u32::MAX, 0, 1 << 31] {
        let maker = lossy(start);
        let frames = maker.frames(Link::Ethernet);
        // Ethernet, IP, TCP with timestamps and one SACK block.
        let (events, summary) =
            import(&pcap(&frames, Link::Ethernet, false, 96)).expect("cut short");
        check_lossy(&events);
        assert_eq!(summary.limitations(), Vec::<String>::new());
    }
}

#[test]
fn large_packets_are_many_segments() {
    let mut m = Maker::new(7);
    m.handshake(0, 10 * MS);
    m.data(20 * MS, 0, 10_000);
    m.ack(30 * MS, 0, &[(9000, 10_000)]);
    m.ack(31 * MS, 4500, &[(9000, 10_000)]);
    let (events, _) = import(&m.pcap()).expect("imported");
    let end = last(&events);
    assert_eq!(
        (end.data_segs_out, end.packets_out, end.sacked_out),
        (Some(10), 6, 1)
    );
}

#[test]
fn without_a_handshake_windows_are_unknown_and_totals_begin_with_the_capture() {
    let mut m = lossy(5);
    m.drop_before(50 * MS);
    let (events, summary) = import(&m.pcap()).expect("imported");
    let end = last(&events);
    assert_eq!(
        (end.snd_wnd_bytes, end.bytes_acked, end.retrans),
        (None, Some(10_000), 1)
    );
    assert_eq!(summary.headless, 1);
    let from_start = events.iter().find_map(|event| match &event.payload {
        Payload::Opened(opened) => Some(opened.from_start),
        _ => None,
    });
    assert_eq!(from_start, Some(false));
}

#[test]
fn timeouts_probes_and_keepalives_are_told_apart() {
    let mut m = Maker::new(1);
    m.handshake(0, 40 * MS);
    m.data(50 * MS, 0, 1000);
    m.data(51 * MS, 1000, 1000);
    // The last one again after two srtt; the first one after an RTO; and what follows it.
    m.data(140 * MS, 1000, 1000);
    m.data(500 * MS, 0, 1000);
    m.ack(540 * MS, 1000, &[]);
    m.data(541 * MS, 1000, 1000);
    m.ack(581 * MS, 2000, &[(1000, 2000)]);
    // A byte that is acknowledged already: nobody lost anything.
    m.data(20_000 * MS, 1999, 1);
    m.ack(20_040 * MS, 2000, &[]);
    let (events, _) = import(&m.pcap()).expect("imported");
    let kinds: Vec<_> = retransmits(&events).into_iter().map(|r| r.0).collect();
    assert_eq!(
        kinds,
        [
            RetransmitKind::Tlp,
            RetransmitKind::Rto,
            RetransmitKind::SlowStart
        ]
    );
    let end = last(&events);
    assert_eq!((end.dsack_dups, end.retrans), (Some(1), 3));
    let ticks = events.iter().filter(|e| e.payload == Payload::Tick).count();
    assert!(ticks >= 20, "time goes on where nothing happens: {ticks}");
}

#[test]
fn cut_files_give_what_is_there_and_other_files_are_refused() {
    let whole = lossy(1).pcap();
    let (events, summary) = import(&whole[..whole.len() - 10]).expect("the rest");
    assert!(summary.cut.is_some() && !events.is_empty());
    assert!(
        summary.limitations()[0].contains("not whole"),
        "{:?}",
        summary.limitations()
    );
    let noted = events
        .iter()
        .any(|e| matches!(&e.payload, Payload::Note(_)));
    assert!(noted, "the recording says so too");
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&whole).expect("packed");
    let gz = gz.finish().expect("packed");
    let (_, summary) = import(&gz[..gz.len() - 30]).expect("what can be unpacked");
    assert!(summary.cut.is_some());
    assert!(matches!(import(b""), Err(ImportError::Headless)));
    assert!(matches!(
        import(b"not a capture at all"),
        Err(ImportError::NoCapture)
    ));
    assert!(matches!(import(&whole[..24]), Err(ImportError::NoTcp(_))));
}

#[test]
fn missing_acknowledgements_and_missing_packets_are_said() {
    let mut m = Maker::new(1);
    m.handshake(0, 10 * MS);
    m.data(20 * MS, 0, 1000);
    m.ack(30 * MS, 5000, &[]);
    let (events, summary) = import(&m.pcap()).expect("imported");
    assert_eq!(summary.unseen_bytes, 4000);
    assert_eq!(last(&events).bytes_acked, Some(5001));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn no_bytes_make_it_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..60),
        cut in any::<prop::sample::Index>(),
        which in 0_usize..Link::ALL.len() * 2,
    ) {
        let link = Link::ALL[which / 2];
        let frames = lossy(u32::MAX - 3000).frames(link);
        let mut bytes = if which % 2 == 0 { pcap(&frames, link, true, 65_535) } else { pcapng(&frames, link) };
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len() - cut.index(bytes.len()) / 4);
        if let Ok((events, _)) = import(&bytes) {
            prop_assert!(events.windows(2).all(|pair| pair[0].time <= pair[1].time));
        }
    }

    #[test]
    fn any_segments_keep_the_levels_consistent(
        steps in prop::collection::vec((0_u64..100, any::<bool>(), 0_u32..20_000, 0_u32..5000, 0_u32..20_000, 0_u32..5000), 1..200),
    ) {
        let mut m = Maker::new(u32::MAX - 5000);
        m.handshake(0, 10 * MS);
        let mut now = 20 * MS;
        for (pause, sent, at, len, left, wide) in steps {
            now += pause * MS;
            if sent { m.data(now, at, len) } else { m.ack(now, at, &[(left, left + wide)]) }
        }
        let (events, _) = import(&m.pcap()).expect("imported");
        for s in samples(&events) {
            prop_assert!(s.sacked_out + s.lost_out <= s.packets_out);
            prop_assert!(s.retrans_out <= s.packets_out);
            prop_assert!(s.bytes_retrans <= s.bytes_sent);
        }
    }
}
