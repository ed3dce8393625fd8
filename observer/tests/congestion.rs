//! Congestion controls' private words: which layout they have, and what they say under it.

mod btf_support;

use std::path::Path;
use std::sync::Arc;

use btf_support::{kernel, raw};
use observer::event::{Bbr, CcState, Phase, SubPhase};
use observer::kernel::btf::write::Builder;
use observer::kernel::btf::{Btf, TypeKind};
use observer::kernel::congestion::{CcLayout, CcLayouts, Undecoded, Version};
use observer::units::Limit;
use proptest::prelude::*;
use tempfile::TempDir;

/// Name, bit offset, bits.
type Member = (&'static str, u32, u8);

/// `struct bbr` of BBRv1 (`net/ipv4/tcp_bbr.c`, the same from 6.1 to 7.3).
const V1: &[Member] = &[
    ("min_rtt_us", 0, 32),
    ("bw", 96, 0),
    ("mode", 448, 3),
    ("prev_ca_state", 451, 3),
    ("lt_use_bw", 479, 1),
    ("lt_bw", 480, 32),
    ("pacing_gain", 608, 10),
    ("cwnd_gain", 618, 10),
    ("full_bw_reached", 628, 1),
    ("cycle_idx", 631, 3),
    ("extra_acked", 768, 16),
];

/// bbrplus (`tcp_bbrplus.c` as published for 4.14 and later, 112 bytes).
const PLUS: &[Member] = &[
    ("min_rtt_us", 0, 32),
    ("bw", 96, 0),
    ("mode", 448, 3),
    ("cycle_len", 457, 4),
    ("lt_use_bw", 487, 1),
    ("lt_bw", 512, 32),
    ("pacing_gain", 640, 10),
    ("cwnd_gain", 650, 10),
    ("full_bw_reached", 660, 1),
    ("cycle_idx", 663, 3),
    ("extra_acked", 832, 16),
];

/// BBRv3 (github.com/google/bbr, branch v3, 144 bytes).
const V3: &[Member] = &[
    ("min_rtt_us", 0, 32),
    ("mode", 256, 2),
    ("pacing_gain", 288, 10),
    ("cwnd_gain", 298, 10),
    ("full_bw_reached", 308, 1),
    ("cycle_idx", 311, 2),
    ("extra_acked", 448, 16),
    ("full_bw_now", 506, 1),
    ("bw_latest", 640, 32),
    ("bw_lo", 672, 32),
    ("bw_hi", 704, 32),
    ("inflight_latest", 768, 32),
    ("inflight_lo", 800, 32),
    ("inflight_hi", 832, 32),
];

/// Adds `struct bbr` with these members.
fn bbr(b: &mut Builder, size: u32, members: &[Member]) {
    let u32 = b.unsigned("unsigned int", 4);
    let u16 = b.unsigned("unsigned short", 2);
    let u32s = b.array(u32, 0, 2);
    let u16s = b.array(u16, 0, 2);
    let sample = b.composite(
        TypeKind::Struct,
        b"minmax_sample",
        8,
        &[(b"t", u32, 0, 0), (b"v", u32, 32, 0)],
    );
    let samples = b.array(sample, 0, 3);
    let minmax = b.composite(TypeKind::Struct, b"minmax", 24, &[(b"s", samples, 0, 0)]);
    let members: Vec<_> = members
        .iter()
        .map(|&(name, bit, bits)| {
            let (of, bits) = match (name, bits) {
                ("bw", _) => (minmax, 0),
                ("bw_hi", _) => (u32s, 0),
                ("extra_acked", _) => (u16s, 0),
                (_, 32) => (u32, 0),
                (_, bits) => (u32, bits),
            };
            (name.as_bytes(), of, bit, bits)
        })
        .collect();
    b.composite(TypeKind::Struct, b"bbr", size, &members);
}

/// A directory like `/sys/kernel/btf`.
fn modules(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

/// The layout of an algorithm that module `m` holds, with this `struct bbr`.
fn in_module(size: u32, members: &[Member]) -> Result<Arc<CcLayout>, Undecoded> {
    let base = Builder::default();
    let mut module = Builder::default();
    bbr(&mut module, size, members);
    let dir = modules(&[("m", &module.finish_on(&base))]);
    let base = Arc::new(Btf::parse(base.finish()).unwrap());
    CcLayouts::in_dir(base, dir.path()).layout(1, "bbr", Some("m"))
}

/// Words with these values in these bits.
fn words(values: &[(&[Member], &str, u32)]) -> [u64; 18] {
    let mut words = [0; 18];
    for &(members, name, value) in values {
        let &(_, bit, bits) = members.iter().find(|member| member.0 == name).unwrap();
        // The first sample's value in the minmax.
        let bit = if name == "bw" { bit + 32 } else { bit };
        put(&mut words, bit, value, if bits == 0 { 32 } else { bits });
    }
    words
}

fn put(words: &mut [u64], bit: u32, value: u32, bits: u8) {
    for at in 0..u32::from(bits) {
        let bit = bit + at;
        words[(bit / 64) as usize] |= u64::from(value >> at & 1) << (bit % 64);
    }
}

/// As of a BBR that has begun: a least RTT of 1 where the words give none.
fn read(layout: &CcLayout, words: &[u64]) -> Bbr {
    let mut words = words.to_vec();
    if words[0] & u64::from(u32::MAX) == 0 {
        words[0] |= 1;
    }
    match layout.decode(&words, 1448) {
        Some(CcState::Bbr(bbr)) => bbr,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_fixtures_hold_bbr_v1_and_cubic_and_dctcp() {
    for version in ["6.1", "6.12", "6.18", "7.3"] {
        let (bbr, dctcp) = match version {
            "6.18" => (None, None),
            _ => (Some("tcp_bbr"), Some("tcp_dctcp")),
        };
        let files = [("tcp_bbr", bbr), ("tcp_dctcp", dctcp)];
        let bytes: Vec<_> = files
            .iter()
            .filter_map(|(name, module)| module.map(|_| (*name, raw(name, version))))
            .collect();
        let files: Vec<_> = bytes
            .iter()
            .map(|(name, bytes)| (*name, bytes.as_slice()))
            .collect();
        let dir = modules(&files);
        let mut layouts = CcLayouts::in_dir(kernel(version), dir.path());
        let found = layouts.layout(1, "bbr", bbr).unwrap();
        assert_eq!(found.version(), Version::BbrV1, "{version}");
        assert_eq!(
            found,
            in_module(104, V1).unwrap(),
            "as BUILDING.md has it: {version}"
        );
        let cubic = layouts.layout(2, "cubic", None).unwrap();
        assert_eq!(
            (cubic.version(), cubic.version().as_str()),
            (Version::Cubic, None)
        );
        let found = layouts.layout(3, "dctcp", dctcp);
        match version {
            "6.18" => assert!(matches!(found, Err(Undecoded::NoStructure { .. }))),
            _ => assert_eq!(found.unwrap().version(), Version::Dctcp),
        }
    }
}

#[test]
fn bbr_v1_says_what_its_get_info_says() {
    let layout = in_module(104, V1).unwrap();
    let mut words = words(&[
        (V1, "min_rtt_us", 40_123),
        (V1, "bw", 144_831),
        (V1, "mode", 2),
        (V1, "pacing_gain", 320),
        (V1, "cwnd_gain", 512),
        (V1, "full_bw_reached", 1),
        (V1, "lt_bw", 7),
    ]);
    put(&mut words, 768, 3, 16);
    put(&mut words, 784, 9, 16);
    let bbr = read(&layout, &words[..13]);
    assert_eq!(
        (bbr.phase, bbr.sub_phase),
        (Some(Phase::ProbeBw), Some(SubPhase::Up))
    );
    assert_eq!(bbr.min_rtt_us, Some(40_123));
    assert_eq!(
        (bbr.pacing_gain_256, bbr.cwnd_gain_256),
        (Some(320), Some(512))
    );
    assert_eq!(
        (bbr.full_bw_reached, bbr.extra_acked),
        (Some(true), Some(9))
    );
    assert_eq!((bbr.lt_use_bw, bbr.lt_bw), (Some(false), None));
    // What v1 does not have is unknown, not 0 and not unlimited.
    assert_eq!((bbr.inflight_hi, bbr.inflight_lo), (None, None));
}

#[test]
fn sub_phases_follow_the_gains() {
    let v1 = in_module(104, V1).unwrap();
    let at = |index, policed| {
        let words = words(&[
            (V1, "mode", 2),
            (V1, "cycle_idx", index),
            (V1, "lt_use_bw", policed),
        ]);
        read(&v1, &words).sub_phase
    };
    let wanted = [
        SubPhase::Up,
        SubPhase::Down,
        SubPhase::Cruise,
        SubPhase::Cruise,
    ];
    for (index, wanted) in [0, 1, 2, 7].into_iter().zip(wanted) {
        assert_eq!(at(index, 0), Some(wanted));
    }
    assert_eq!(
        at(0, 1),
        Some(SubPhase::Cruise),
        "a policed flow paces at 1.0"
    );
    let phases = [
        Phase::Startup,
        Phase::Drain,
        Phase::ProbeBw,
        Phase::ProbeRtt,
    ];
    for (mode, wanted) in (0..).zip(phases) {
        let bbr = read(&v1, &words(&[(V1, "mode", mode), (V1, "min_rtt_us", 5)]));
        assert_eq!(bbr.phase, Some(wanted));
        assert_eq!(bbr.sub_phase.is_some(), wanted == Phase::ProbeBw);
    }
    assert_eq!(read(&v1, &words(&[(V1, "mode", 5)])).phase, None);
    let v3 = in_module(144, V3).unwrap();
    let wanted = [
        SubPhase::Up,
        SubPhase::Down,
        SubPhase::Cruise,
        SubPhase::Refill,
    ];
    for (index, wanted) in (0..).zip(wanted) {
        let words = words(&[(V3, "mode", 2), (V3, "cycle_idx", index)]);
        assert_eq!(read(&v3, &words).sub_phase, Some(wanted));
    }
}

#[test]
fn trap_13_bounds_exist_in_v3_only() {
    let v1 = read(&in_module(104, V1).unwrap(), &[u64::MAX; 13]);
    assert_eq!((v1.bw_hi, v1.bw_lo), (None, None));
    let v3 = in_module(144, V3).unwrap();
    let mut words = words(&[
        (V3, "mode", 1),
        (V3, "bw_hi", 100_000),
        (V3, "bw_lo", u32::MAX),
        (V3, "inflight_hi", 70),
        (V3, "inflight_lo", u32::MAX),
    ]);
    put(&mut words, 736, 144_831, 32);
    let bbr = read(&v3, &words);
    assert_eq!(
        bbr.bw_hi,
        Some(Limit::Finite(12_500_005)),
        "the larger of the two"
    );
    assert_eq!(bbr.bw_lo, Some(Limit::Unlimited));
    assert_eq!(bbr.btlbw, Some(12_500_005), "the lower of bw_hi and bw_lo");
    assert_eq!(
        (bbr.inflight_hi, bbr.inflight_lo),
        (Some(Limit::Finite(70)), Some(Limit::Unlimited))
    );
    words[10] = words[10] & 0xffff_ffff | 50_000 << 32;
    assert_eq!(read(&v3, &words).btlbw, Some(4_315_376));
    assert_eq!((bbr.lt_bw, bbr.lt_use_bw), (None, None));
}

#[test]
fn trap_14_bandwidth_is_packets_per_microsecond_shifted_by_24() {
    let v1 = in_module(104, V1).unwrap();
    let bw = |bw, mss| {
        let words = words(&[(V1, "bw", bw), (V1, "mode", 2), (V1, "min_rtt_us", 1)]);
        match v1.decode(&words, mss) {
            Some(CcState::Bbr(bbr)) => bbr.btlbw,
            other => panic!("{other:?}"),
        }
    };
    // ss prints this times 8: bw:100000040bps.
    assert_eq!(bw(144_831, 1448), Some(12_500_005));
    assert_eq!(bw(144_831, 536), Some(4_627_073));
    assert_eq!(bw(1, 1448), Some(86));
    // No sample yet is unknown.
    assert_eq!(bw(0, 1448), None);
    // As in the kernel, the 64 bits may run over.
    assert_eq!(
        bw(u32::MAX, 65_535),
        Some(281_470_681_677_825_u64.wrapping_mul(1_000_000) >> 24)
    );
    // The long-term estimate replaces it while in use.
    let policed = words(&[
        (V1, "bw", 144_831),
        (V1, "lt_bw", 1_000),
        (V1, "lt_use_bw", 1),
    ]);
    let policed = read(&v1, &policed);
    assert_eq!((policed.btlbw, policed.lt_bw), (Some(86_307), Some(86_307)));
    assert_eq!(policed.lt_use_bw, Some(true));
}

#[test]
fn trap_15_the_version_is_told_by_members_whatever_the_name() {
    assert_eq!(in_module(104, V1).unwrap().version(), Version::BbrV1);
    assert_eq!(in_module(144, V3).unwrap().version(), Version::BbrV3);
    assert_eq!(in_module(112, PLUS).unwrap().version(), Version::BbrPlus);
    let v2: Vec<_> = V3
        .iter()
        .copied()
        .filter(|member| member.0 != "full_bw_now")
        .collect();
    assert_eq!(in_module(200, &v2).unwrap().version(), Version::BbrV2);
    let unknown: Vec<_> = V1
        .iter()
        .copied()
        .filter(|member| member.0 != "lt_bw")
        .collect();
    assert!(matches!(
        in_module(104, &unknown),
        Err(Undecoded::NoVersion { .. })
    ));
    let versions = [
        Version::BbrV1,
        Version::BbrV2,
        Version::BbrV3,
        Version::BbrPlus,
    ]
    .map(Version::as_str);
    assert_eq!(
        versions,
        [Some("v1"), Some("v2"), Some("v3"), Some("bbrplus")]
    );
}

#[test]
fn bbrplus_is_read_under_its_own_layout() {
    let layout = in_module(112, PLUS).unwrap();
    let words = words(&[
        (PLUS, "mode", 2),
        (PLUS, "cycle_len", 9),
        (PLUS, "cycle_idx", 1),
        (PLUS, "pacing_gain", 192),
        (PLUS, "bw", 144_831),
        (PLUS, "lt_bw", 1_000),
    ]);
    let bbr = read(&layout, &words[..14]);
    assert_eq!(bbr.sub_phase, Some(SubPhase::Down));
    assert_eq!(
        (bbr.pacing_gain_256, bbr.btlbw),
        (Some(192), Some(12_500_005))
    );
    let mut policed = words;
    put(&mut policed, 487, 1, 1);
    assert_eq!(read(&layout, &policed).lt_bw, Some(86_307));
}

#[test]
fn trap_34_a_name_gets_no_other_algorithms_structure() {
    // This module has a struct bbr, and whatever it registers under these names is not that.
    let dir = modules(&[("tcp_bbr", &raw("tcp_bbr", "6.1"))]);
    let mut layouts = CcLayouts::in_dir(kernel("6.1"), dir.path());
    for name in [
        "reno",
        "vegas",
        "bic",
        "dctcp-reno",
        "cubic2",
        "",
        "BBR",
        "nv",
    ] {
        assert_eq!(
            layouts.layout(1, name, Some("tcp_bbr")),
            Err(Undecoded::NotKnown(name.to_owned()))
        );
    }
    assert!(matches!(
        layouts.layout(2, "cubic", Some("tcp_bbr")),
        Err(Undecoded::NoStructure {
            structure: "bictcp",
            ..
        })
    ));
    // Not the kernel's structure for a module's algorithm, nor the other way round.
    assert!(matches!(
        layouts.layout(3, "bbr", None),
        Err(Undecoded::NoStructure { .. })
    ));
    let mut builtin = CcLayouts::in_dir(kernel("6.18"), dir.path());
    assert_eq!(
        builtin.layout(4, "bbr", None).unwrap().version(),
        Version::BbrV1
    );
    assert!(matches!(
        builtin.layout(5, "bbr", Some("gone")),
        Err(Undecoded::Btf(_))
    ));
    assert!(matches!(
        builtin.layout(6, "bbr", Some("../tcp_bbr")),
        Err(Undecoded::Btf(_))
    ));
}

#[test]
fn trap_34_an_algorithm_in_bpf_is_not_the_built_in_one() {
    let dir = modules(&[("m", &in_module_bytes(V1))]);
    let mut layouts = CcLayouts::in_dir(kernel("6.18"), dir.path());
    assert!(layouts.layout(1, "bbr", None).is_ok());
    assert_eq!(
        layouts.layout(2, "bbr_bpf", None),
        Err(Undecoded::NotKnown("bbr_bpf".to_owned()))
    );
    let base = Arc::new(Btf::parse(Builder::default().finish()).unwrap());
    let mut layouts = CcLayouts::in_dir(base, dir.path());
    assert!(
        layouts.layout(3, "bbr_tuned", Some("m")).is_ok(),
        "its module's own structure"
    );
}

#[test]
fn trap_34_bic_memory_is_no_cubic() {
    let mut b = Builder::default();
    let u32 = b.unsigned("unsigned int", 4);
    let members: [(&[u8], u32, u32, u8); 2] = [(b"cnt", u32, 0, 0), (b"last_max_cwnd", u32, 32, 0)];
    b.composite(TypeKind::Struct, b"bictcp", 56, &members);
    let layout = |b: &Builder| {
        let base = Arc::new(Btf::parse(b.finish()).unwrap());
        CcLayouts::in_dir(base, Path::new("nowhere")).layout(1, "cubic", None)
    };
    assert!(matches!(layout(&b), Err(Undecoded::NoVersion { .. })));
    // Both built in: the one with CUBIC's members is CUBIC's.
    let with_k: [(&[u8], u32, u32, u8); 2] =
        [(b"bic_K", u32, 64, 0), (b"last_max_cwnd", u32, 32, 0)];
    b.composite(TypeKind::Struct, b"bictcp", 60, &with_k);
    assert_eq!(layout(&b).unwrap().version(), Version::Cubic);
}

#[test]
fn trap_34_two_different_built_in_bbrs_are_not_guessed_between() {
    let layout = |second: &[Member]| {
        let mut b = Builder::default();
        bbr(&mut b, 104, V1);
        bbr(&mut b, 144, second);
        let base = Arc::new(Btf::parse(b.finish()).unwrap());
        CcLayouts::in_dir(base, Path::new("nowhere")).layout(1, "bbr", None)
    };
    assert_eq!(layout(V1).unwrap().version(), Version::BbrV1);
    assert_eq!(layout(V3), Err(Undecoded::Ambiguous { structure: "bbr" }));
    assert_eq!(
        layout(&V1[..3]),
        Err(Undecoded::Ambiguous { structure: "bbr" })
    );
}

#[test]
fn a_module_loaded_later_is_found_with_its_own_ops() {
    let dir = modules(&[]);
    let mut layouts = CcLayouts::in_dir(kernel("7.3"), dir.path());
    assert!(layouts.layout(1, "bbr", Some("tcp_bbr")).is_err());
    std::fs::write(dir.path().join("tcp_bbr"), raw("tcp_bbr", "7.3")).unwrap();
    assert!(
        layouts.layout(1, "bbr", Some("tcp_bbr")).is_err(),
        "asked once per ops"
    );
    assert!(layouts.layout(2, "bbr", Some("tcp_bbr")).is_ok());
    // Replaced by another of the same name.
    let mut module = Builder::default();
    bbr(&mut module, 144, V3);
    let base = Builder::default();
    let dir = modules(&[("m", &in_module_bytes(V1)), ("n", &module.finish_on(&base))]);
    let base = Arc::new(Btf::parse(base.finish()).unwrap());
    let mut layouts = CcLayouts::in_dir(base, dir.path());
    assert_eq!(
        layouts.layout(1, "bbr", Some("m")).unwrap().version(),
        Version::BbrV1
    );
    std::fs::rename(dir.path().join("n"), dir.path().join("m")).unwrap();
    assert_eq!(
        layouts.layout(1, "bbr", Some("m")).unwrap().version(),
        Version::BbrV1
    );
    assert_eq!(
        layouts.layout(2, "bbr", Some("m")).unwrap().version(),
        Version::BbrV3
    );
}

fn in_module_bytes(members: &[Member]) -> Vec<u8> {
    let mut module = Builder::default();
    bbr(&mut module, 104, members);
    module.finish_on(&Builder::default())
}

#[test]
fn words_not_set_up_yet_say_nothing() {
    for layout in [in_module(104, V1), in_module(144, V3)] {
        assert_eq!(layout.unwrap().decode(&[0; 18], 1448), None);
    }
    let v1 = in_module(104, V1).unwrap();
    // A SYN that timed out.
    let early = words(&[(V1, "prev_ca_state", 4)]);
    assert_eq!(v1.decode(&early, 1448), None);
    let begun = read(&v1, &words(&[(V1, "min_rtt_us", u32::MAX)]));
    assert_eq!(
        (begun.min_rtt_us, begun.btlbw, begun.pacing_gain_256),
        (None, None, None)
    );
    assert_eq!(begun.phase, Some(Phase::Startup));
    // A kernel with fewer words than the layout asks for.
    let short = read(&v1, &words(&[(V1, "min_rtt_us", 7)])[..4]);
    assert_eq!(
        (short.min_rtt_us, short.phase, short.extra_acked),
        (Some(7), None, None)
    );
}

#[test]
fn cubic_and_dctcp() {
    let dir = modules(&[("tcp_dctcp", &raw("tcp_dctcp", "6.12"))]);
    let mut layouts = CcLayouts::in_dir(kernel("6.12"), dir.path());
    let cubic = layouts.layout(1, "cubic", None).unwrap();
    let mut words = [0; 18];
    for (bit, value, bits) in [
        (32, 331, 32),
        (64, 300, 32),
        (128, 331, 32),
        (160, 2_100, 32),
        (192, 40_000, 32),
    ] {
        put(&mut words, bit, value, bits);
    }
    put(&mut words, 344, 1, 8);
    let read = |layout: &CcLayout, words: &[u64]| match layout.decode(words, 1448) {
        Some(CcState::Cubic(cubic)) => cubic,
        other => panic!("{other:?}"),
    };
    let state = read(&cubic, &words);
    assert_eq!(
        (state.last_max_cwnd, state.last_cwnd),
        (Some(331), Some(300))
    );
    assert_eq!(
        (state.delay_min_us, state.hystart_found),
        (Some(40_000), Some(true))
    );
    assert_eq!((state.origin_point, state.k), (None, None), "no epoch runs");
    put(&mut words, 224, 5_000, 32);
    let state = read(&cubic, &words);
    assert_eq!((state.origin_point, state.k), (Some(331), Some(2_100)));
    let dctcp = layouts.layout(2, "dctcp", Some("tcp_dctcp")).unwrap();
    let mut words = [0; 18];
    put(&mut words, 96, 512, 32);
    put(&mut words, 160, 1, 32);
    let Some(CcState::Dctcp(state)) = dctcp.decode(&words, 1448) else {
        panic!()
    };
    assert_eq!(
        (state.alpha_1024, state.ce_state, state.loss_cwnd),
        (Some(512), Some(1), None)
    );
}

proptest! {
    #[test]
    fn any_words_are_read_without_panic(words in prop::collection::vec(any::<u64>(), 0..18), mss: u32) {
        for layout in [in_module(104, V1), in_module(144, V3), in_module(112, PLUS)] {
            let _ = layout.unwrap().decode(&words, mss);
        }
    }
}
