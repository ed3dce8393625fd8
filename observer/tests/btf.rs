//! The BTF resolver: four kernels' types, made-up ones, and damaged ones.

mod btf_support;

use std::sync::Arc;

use btf_support::{kernel, module, raw};
use observer::kernel::btf::write::Builder;
use observer::kernel::btf::{
    Argument, Btf, BtfError, HookFit, PlaceError, TypeKind, resolve, trim,
};
use observer_common::layout::{FIELD_COUNT, Field, Layout};
use observer_common::outcome::Program;
use proptest::prelude::*;

/// Byte offset, and shift and mask where they are not 0 and 0xff; by `bpftool btf dump` of the whole kernels.
type At = (u16, u8, u8);

fn at(layout: &Layout, field: Field) -> At {
    let field = field as usize;
    (
        layout.offset[field],
        layout.shift[field],
        layout.mask[field],
    )
}

struct Expected {
    version: &'static str,
    tcp_sock: u64,
    ca_priv: u16,
    err_arg: u32,
    fields: [(Field, At); 9],
}

const fn whole(offset: u16) -> At {
    (offset, 0, 0xff)
}

const KERNELS: [Expected; 4] = [
    Expected {
        version: "6.1",
        tcp_sock: 2280,
        ca_priv: 1336,
        err_arg: 0,
        fields: [
            (Field::Cwnd, whole(1776)),
            (Field::MinRtt, whole(1696)),
            (Field::RemotePort, whole(12)),
            (Field::CaState, (1280, 0, 0x1f)),
            (Field::CbFlags, whole(12)),
            (Field::ChronoType, (1636, 0, 0x3)),
            (Field::UserLocks, (512, 4, 0xf)),
            (Field::SackOk, (1764, 4, 0x7)),
            (Field::NetInum, whole(144)),
        ],
    },
    Expected {
        version: "6.12",
        tcp_sock: 2368,
        ca_priv: 1344,
        err_arg: 0,
        fields: [
            (Field::Cwnd, whole(1500)),
            (Field::MinRtt, whole(1556)),
            (Field::RemotePort, whole(12)),
            (Field::CaState, (1288, 0, 0x1f)),
            (Field::CbFlags, whole(12)),
            (Field::ChronoType, (1519, 0, 0x3)),
            (Field::UserLocks, whole(243)),
            (Field::SackOk, (1772, 4, 0x7)),
            (Field::NetInum, whole(136)),
        ],
    },
    Expected {
        version: "6.18",
        tcp_sock: 2304,
        ca_priv: 1296,
        err_arg: 2,
        fields: [
            (Field::Cwnd, whole(1444)),
            (Field::MinRtt, whole(1500)),
            (Field::RemotePort, whole(12)),
            (Field::CaState, (1248, 0, 0x1f)),
            (Field::CbFlags, whole(12)),
            (Field::ChronoType, whole(1556)),
            (Field::UserLocks, whole(243)),
            (Field::SackOk, (1744, 4, 0x7)),
            (Field::NetInum, whole(176)),
        ],
    },
    Expected {
        version: "7.3",
        tcp_sock: 2432,
        ca_priv: 1328,
        err_arg: 2,
        fields: [
            (Field::Cwnd, whole(1484)),
            (Field::MinRtt, whole(1540)),
            (Field::RemotePort, whole(12)),
            (Field::CaState, (1280, 0, 0x1f)),
            (Field::CbFlags, whole(12)),
            (Field::ChronoType, whole(1648)),
            (Field::UserLocks, whole(243)),
            (Field::SackOk, (1844, 4, 0x7)),
            (Field::NetInum, whole(280)),
        ],
    },
];

#[test]
fn every_kernel_has_every_field_where_bpftool_says() {
    for expected in &KERNELS {
        let btf = kernel(expected.version);
        let resolved = resolve(&btf).unwrap();
        assert_eq!(resolved.absent, [], "{}", expected.version);
        assert_eq!(resolved.layout.offset.len(), FIELD_COUNT);
        for (field, wanted) in expected.fields {
            assert_eq!(
                at(&resolved.layout, field),
                wanted,
                "{field:?} of {}",
                expected.version
            );
        }
        assert_eq!(at(&resolved.layout, Field::CaPriv), whole(expected.ca_priv));
        assert_eq!((resolved.ca_words, resolved.ca_words_in_kernel), (13, 13));
        assert_eq!(resolved.retransmit_err_arg, expected.err_arg);
        let size = btf
            .find(TypeKind::Struct, "tcp_sock")
            .next()
            .unwrap()
            .size_or_type;
        assert_eq!(u64::from(size), expected.tcp_sock);
    }
}

#[test]
fn hooks_have_the_arguments_the_programs_take() {
    let pointer = |to: &str| Argument::Pointer(to.to_owned());
    for version in ["6.1", "6.12", "6.18", "7.3"] {
        let resolved = resolve(&kernel(version)).unwrap();
        assert!(resolved.hooks.iter().all(|hook| hook.fit == HookFit::Fits));
        assert_eq!(
            resolved.hook(Program::Probe).arguments,
            [pointer("sock"), pointer("sk_buff")]
        );
        let cong = &resolved.hook(Program::CongState).arguments;
        assert_eq!(*cong, [pointer("sock"), Argument::Integer(1)]);
        let retransmit = resolved.hook(Program::Retransmit).arguments.len();
        assert_eq!(
            retransmit,
            2 + usize::from(matches!(version, "6.18" | "7.3"))
        );
    }
}

#[test]
fn trimming_a_trimmed_kernel_changes_nothing_that_matters() {
    for version in ["6.1", "6.12", "6.18", "7.3"] {
        let btf = kernel(version);
        let again = Btf::parse(trim::trim(&btf, &[]).unwrap().base).unwrap();
        assert_eq!(
            resolve(&again).unwrap().layout,
            resolve(&btf).unwrap().layout
        );
        assert_eq!(resolve(&again).unwrap().hooks, resolve(&btf).unwrap().hooks);
    }
}

#[test]
fn module_types_lie_on_top_of_their_kernels() {
    let base = kernel("6.12");
    let bbr = module(&base, "6.12", "tcp_bbr");
    assert_eq!(bbr.find_own(TypeKind::Struct, "bbr").count(), 1);
    assert_eq!(base.find(TypeKind::Struct, "bbr").count(), 0);
    // Through `struct minmax`, which is the kernel's.
    assert_eq!(bbr.place("bbr", "bw.s[0].v").unwrap().bit_offset, 96 + 32);
    assert_eq!(bbr.place("bbr", "bw.s[2].v").unwrap().bit_offset, 96 + 160);
    assert_eq!(
        bbr.place("bbr", "bw.s[3].v"),
        Err(PlaceError::NoElement("s[3]".to_owned()))
    );
}

/// A kernel of one structure `s`, made by `members`.
fn made(members: impl FnOnce(&mut Builder) -> Vec<(&'static [u8], u32, u32, u8)>) -> Btf {
    let mut builder = Builder::default();
    let members = members(&mut builder);
    builder.composite(TypeKind::Struct, b"s", 64, &members);
    Btf::parse(builder.finish()).unwrap()
}

#[test]
fn typedefs_arrays_and_anonymous_unions_are_looked_through() {
    let btf = made(|b| {
        let int = b.unsigned("unsigned int", 4);
        let u32 = b.refer(TypeKind::Typedef, b"u32", int);
        let chain = b.refer(TypeKind::Const, b"", u32);
        let chain = b.refer(TypeKind::Volatile, b"", chain);
        let pair = b.composite(
            TypeKind::Struct,
            b"pair",
            8,
            &[(b"a", u32, 0, 0), (b"b", chain, 32, 0)],
        );
        let pairs = b.array(pair, 0, 3);
        let inner = b.composite(
            TypeKind::Struct,
            b"",
            8,
            &[(b"x", u32, 0, 0), (b"y", u32, 32, 0)],
        );
        let union = b.composite(
            TypeKind::Union,
            b"",
            8,
            &[(b"z", u32, 0, 0), (b"", inner, 0, 0)],
        );
        vec![
            (b"first", u32, 0, 0),
            (b"", union, 64, 0),
            (b"pairs", pairs, 128, 0),
        ]
    });
    let bit = |path: &str| btf.place("s", path).map(|place| place.bit_offset);
    assert_eq!(bit("z"), Ok(64));
    assert_eq!(bit("y"), Ok(96));
    assert_eq!(bit("pairs[2].b"), Ok(128 + 128 + 32));
    assert_eq!(bit("gone|y"), Ok(96));
    assert_eq!(
        bit("pairs[3].b"),
        Err(PlaceError::NoElement("pairs[3]".to_owned()))
    );
    assert_eq!(bit("first.b"), Err(PlaceError::NoMember("b".to_owned())));
    assert_eq!(bit("gone"), Err(PlaceError::NoMember("gone".to_owned())));
    assert!(matches!(btf.place("t", "z"), Err(PlaceError::NoRoot(_))));
}

#[test]
fn bit_fields_in_both_encodings() {
    let flagged = made(|b| {
        let int = b.unsigned("unsigned int", 4);
        vec![(b"a", int, 0, 3), (b"b", int, 3, 10)]
    });
    let old = made(|b| {
        // The integer says: 10 bits, from bit 3.
        let odd = b.int(b"unsigned int", 4, 3 << 16 | 0xa);
        vec![(b"b", odd, 0, 0)]
    });
    for btf in [&flagged, &old] {
        let place = btf.place("s", "b").unwrap();
        assert_eq!((place.bit_offset, place.bit_size), (3, 10));
    }
}

#[test]
fn structures_of_one_name_must_agree() {
    let twice = |second| {
        let mut b = Builder::default();
        let int = b.unsigned("unsigned int", 4);
        b.composite(TypeKind::Struct, b"s", 16, &[(b"a", int, 32, 0)]);
        b.composite(TypeKind::Struct, b"s", 16, &[(b"a", int, second, 0)]);
        Btf::parse(b.finish()).unwrap()
    };
    assert_eq!(twice(32).place("s", "a").unwrap().bit_offset, 32);
    assert_eq!(twice(64).place("s", "a"), Err(PlaceError::Ambiguous));
}

#[test]
fn a_kernel_without_a_required_field_is_refused_by_name() {
    let text = resolve(&made(|_| Vec::new())).unwrap_err().to_string();
    assert!(
        text.contains("tcp_sock.snd_cwnd: the kernel has no struct tcp_sock"),
        "{text}"
    );
    assert!(
        text.contains("hook tcp_probe: the kernel does not have it"),
        "{text}"
    );
    assert!(text.contains("hook tcp: the kernel"), "{text}");
    assert!(
        !text.contains("rcv_wnd"),
        "optional ones are not named: {text}"
    );
    assert!(text.contains("list --window 0"), "{text}");
}

/// The 6.12 fixture with one member renamed: the kernel that took a field away.
fn without(name: &str) -> Btf {
    let mut bytes = raw("vmlinux", "6.12");
    let text = [&b"\0"[..], name.as_bytes(), b"\0"].concat();
    let place = bytes
        .windows(text.len())
        .position(|window| window == text)
        .unwrap();
    bytes[place + 1] = b'~';
    Btf::parse(bytes).unwrap()
}

#[test]
fn an_optional_field_may_be_gone() {
    let resolved = resolve(&without("rcv_wnd")).unwrap();
    assert!(!resolved.layout.has(Field::RcvWnd));
    assert_eq!(resolved.absent.len(), 1);
    assert_eq!(
        resolved.absent[0].to_string(),
        "tcp_sock.rcv_wnd: no member rcv_wnd"
    );
    assert!(resolve(&without("snd_cwnd")).is_err());
    let without_hook = resolve(&without("btf_trace_tcp_cong_state_set")).unwrap();
    assert_eq!(without_hook.hook(Program::CongState).fit, HookFit::Missing);
    assert!(resolve(&without("bpf_iter_tcp")).is_err());
}

#[test]
fn cycles_end() {
    // A const of itself, an array of itself, a structure in itself.
    let bytes = |kind: u32, rest: &[u32]| {
        let mut types: Vec<u32> = vec![1, 1 << 31 | 4 << 24 | 1, 8];
        types.extend([3, 2, 0]);
        types.extend([0, kind << 24 | u32::from(kind == 4), 2]);
        types.extend(rest);
        let types: Vec<u8> = types.into_iter().flat_map(u32::to_le_bytes).collect();
        let mut out = vec![0x9f, 0xeb, 1, 0];
        let len = types.len() as u32;
        out.extend([24, 0, len, len, 5].into_iter().flat_map(u32::to_le_bytes));
        out.extend(types);
        out.extend(b"\0s\0m\0");
        Btf::parse(out).unwrap()
    };
    for btf in [bytes(10, &[]), bytes(3, &[2, 2, 4]), bytes(4, &[0, 2, 0])] {
        let place = btf.place("s", "m").map(|place| btf.size(place.type_id));
        assert!(btf.place("s", "m.x").is_err());
        assert!(matches!(
            place,
            Ok(Ok(_) | Err(BtfError::TooDeep(_))) | Err(PlaceError::Damaged(_))
        ));
        assert!(trim::trim(&btf, &[]).is_ok());
        assert!(resolve(&btf).is_err());
    }
}

#[test]
fn anonymous_nesting_without_bound_is_given_up() {
    let btf = made(|b| {
        let mut inner = b.composite(TypeKind::Struct, b"", 0, &[]);
        for _ in 0..30 {
            inner = b.composite(TypeKind::Struct, b"", 0, &[(&b""[..], inner, 0, 0); 16]);
        }
        vec![(b"", inner, 0, 0)]
    });
    assert!(matches!(
        btf.place("s", "a"),
        Err(PlaceError::Damaged(BtfError::TooDeep(_)))
    ));
}

#[test]
fn headers_are_checked() {
    let good = raw("vmlinux", "6.1");
    let with = |at: usize, bytes: &[u8]| {
        let mut data = good.clone();
        data[at..at + bytes.len()].copy_from_slice(bytes);
        Btf::parse(data).unwrap_err()
    };
    assert_eq!(with(0, &[0xeb, 0x9f]), BtfError::Magic);
    assert_eq!(with(2, &[2]), BtfError::Version(2));
    assert_eq!(with(4, &[12]), BtfError::Truncated("the header"));
    assert_eq!(
        with(12, &[0xff; 4]),
        BtfError::Truncated("the type section")
    );
    assert_eq!(
        with(20, &[0xff; 4]),
        BtfError::Truncated("the string section")
    );
    assert_eq!(
        with(24 + 7, &[31]),
        BtfError::UnknownKind { id: 1, kind: 31 }
    );
    assert_eq!(
        with(good.len() - 1, b"x"),
        BtfError::Truncated("the last string")
    );
    assert_eq!(
        Btf::parse(Vec::new()).unwrap_err(),
        BtfError::Truncated("the header")
    );
}

#[test]
fn module_names_lead_nowhere_else() {
    let base = kernel("6.1");
    for name in ["", "../vmlinux", "vmlinux", "a/b", "tcp_bbr\0"] {
        assert!(
            matches!(base.module(name), Err(BtfError::ModuleName(_))),
            "{name:?}"
        );
    }
}

/// Uses everything there is, whatever comes of it.
fn exercise(bytes: Vec<u8>) {
    let Ok(btf) = Btf::parse(bytes) else { return };
    let btf = Arc::new(btf);
    let _ = resolve(&btf);
    let _ = trim::trim(&btf, &[]);
    if let Ok(module) = Btf::parse_split(raw("tcp_bbr", "7.3"), Arc::clone(&btf)) {
        let _ = module.place("bbr", "bw.s[0].v");
        let _ = trim::trim(&btf, &[module]);
    }
}

#[test]
fn cut_anywhere_it_never_panics() {
    let whole = raw("vmlinux", "6.1");
    for end in (0..whole.len()).step_by(7) {
        exercise(whole[..end].to_vec());
        // The same with a header that claims no more than there is.
        if let Some(types) = end.checked_sub(24 + 64).map(|len| len / 4 * 4) {
            let mut cut = whole[..24 + types].to_vec();
            cut.extend(&whole[end.min(whole.len() - 64)..][..64]);
            *cut.last_mut().unwrap() = 0;
            for (at, value) in [(12, types), (16, types), (20, 64)] {
                cut[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
            }
            exercise(cut);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn flipped_bytes_never_panic(flips in prop::collection::vec((24_usize..6000, any::<u8>()), 1..12)) {
        let mut bytes = raw("vmlinux", "6.18");
        for (at, value) in flips {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        exercise(bytes);
    }

    #[test]
    fn any_bytes_never_panic(tail in prop::collection::vec(any::<u8>(), 0..400), types in 0_u32..300) {
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        let strings = (tail.len() as u32).saturating_sub(types);
        bytes.extend([24, 0, types, types, strings].into_iter().flat_map(u32::to_le_bytes));
        bytes.extend(tail);
        if let Some(last) = bytes.last_mut() {
            *last = 0;
        }
        exercise(bytes);
    }
}
