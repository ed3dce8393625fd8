//! Whatever the text: a filter that comes back from its canonical form, or an error that can be shown.

use proptest::prelude::*;

use super::super::lex::{Kind, Token, is_plain_word, tokens};
use super::super::*;
use super::{facts, parsed};

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9/.-]{1,8}",
        "[ -~]{1,8}",
        "\\PC{1,4}",
        "(and|or|not|eq|state|src)",
    ]
}

fn pattern() -> impl Strategy<Value = Pattern> {
    (name(), any::<bool>()).prop_map(|(text, prefix)| Pattern { text, prefix })
}

fn host() -> impl Strategy<Value = Host> {
    let v4 = (any::<u32>(), 0..=32_u8)
        .prop_map(|(a, len)| Net::new(std::net::Ipv4Addr::from(a).into(), len));
    let v6 = (any::<u128>(), 0..=128_u8)
        .prop_map(|(a, len)| Net::new(std::net::Ipv6Addr::from(a).into(), len));
    let net = prop_oneof![Just(None), v4, v6];
    (net, any::<Option<u16>>()).prop_map(|(net, port)| Host { net, port })
}

fn test() -> impl Strategy<Value = Expr> {
    let side = || prop_oneof![Just(Side::Local), Just(Side::Remote)];
    let equal = || prop_oneof![Just(Op::Eq), Just(Op::Ne)];
    let order = prop_oneof![
        Just(Op::Lt),
        Just(Op::Le),
        Just(Op::Gt),
        Just(Op::Ge),
        Just(Op::Eq)
    ];
    let named = prop_oneof![
        (side(), host()).prop_map(|(s, h)| Subject::Host(s, h)),
        pattern().prop_map(|p| Subject::Dev(Named::new(p))),
        pattern().prop_map(Subject::Cc),
        pattern().prop_map(Subject::Comm),
        pattern().prop_map(|p| Subject::Netns(Named::new(p))),
        "(/[a-z\\\\]{1,3}){1,3}".prop_map(|text| Subject::Cgroup(Named::new(Pattern {
            text,
            prefix: false
        }))),
        any::<u32>().prop_map(Subject::Pid),
    ];
    let ordered = prop_oneof![
        (side(), any::<u16>()).prop_map(|(s, p)| Subject::Port(s, p)),
        any::<u64>().prop_map(|n| Subject::Retrans(Amount::Segments(n))),
        (0..=Amount::WHOLE).prop_map(|n| Subject::Retrans(Amount::Share(n))),
        Just(Subject::Retrans(Amount::Segments(0))),
    ];
    prop_oneof![(named, equal()), (ordered, order)]
        .prop_map(|(subject, op)| Expr::Test(Test { subject, op }))
}

fn expr() -> impl Strategy<Value = Expr> {
    test().prop_recursive(4, 24, 4, |inner| {
        let parts = || prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            parts().prop_map(|p| Expr::all(p).expect("not empty")),
            parts().prop_map(|p| Expr::any(p).expect("not empty")),
            inner.clone().prop_map(Expr::negate),
        ]
    })
}

fn states() -> impl Strategy<Value = Option<States>> {
    let word = prop::sample::select(States::words().collect::<Vec<_>>());
    let clauses = prop::collection::vec((any::<bool>(), word), 0..4);
    clauses.prop_map(|clauses| {
        let set = clauses.iter().fold(States::NONE, |set, (add, word)| {
            let states = States::named(word).expect("its own word");
            if *add && States::why_no_flow(word).is_none() {
                set.with(states)
            } else {
                set.without(states)
            }
        });
        Some(set).filter(|set| !set.is_without_flows())
    })
}

/// Words of filters in any order, signs, and dirt.
fn soup() -> impl Strategy<Value = String> {
    let words = [
        "state",
        "exclude",
        "established",
        "big",
        "src",
        "dst",
        "sport",
        "dport",
        "dev",
        "cgroup",
        "cc",
        "pid",
        "comm",
        "netns",
        "retrans",
        "and",
        "or",
        "not",
        "(",
        ")",
        "=",
        "!=",
        ">",
        "!",
        ":443",
        "10.0.0.0/8",
        "[::1]:80",
        "bbr",
        "a*",
        "*",
        "7",
        "1%",
        "\"",
        "'x y'",
        "\\",
        "é",
        "\u{7}",
    ];
    let word = prop::sample::select(words.to_vec());
    prop::collection::vec((word, prop::sample::select(vec![" ", " ", " ", ""])), 0..24).prop_map(
        |parts| {
            parts
                .into_iter()
                .flat_map(|(word, gap)| [word, gap])
                .collect()
        },
    )
}

fn check(text: &str) {
    let covered: usize = tokens(text).iter().map(|t| t.span.len()).sum();
    let bare = |c: &char| !c.is_whitespace();
    assert!(
        covered >= text.chars().filter(bare).map(char::len_utf8).sum(),
        "all of {text:?} is read"
    );
    match parsed(text) {
        Ok(filter) => {
            let canonical = filter.to_string();
            assert_eq!(
                parsed(&canonical).as_ref(),
                Ok(&filter),
                "{text:?} → {canonical:?}"
            );
            filter.matches(&facts());
        }
        Err(error) => {
            assert!(
                text.get(error.at..error.at + error.len).is_some(),
                "{text:?}: {error:?}"
            );
            let shown = error.to_string();
            assert!(
                !shown.chars().any(|c| c.is_control() && c != '\n'),
                "{shown:?}"
            );
            assert!((3..=4).contains(&shown.lines().count()), "{shown:?}");
        }
    }
}

proptest! {
    #[test]
    fn the_canonical_form_is_the_filter(states in states(), expr in prop::option::of(expr())) {
        let filter = Filter::of(states, expr);
        let text = filter.to_string();
        prop_assert_eq!(parsed(&text), Ok(filter), "{}", text);
    }

    #[test]
    fn any_bytes_are_a_filter_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        check(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_words_are_a_filter_or_an_error(text in soup()) {
        check(&text);
    }

    #[test]
    fn a_plain_word_is_read_as_it_is(text in "\\PC{1,6}") {
        let words = tokens(&text);
        let alone = matches!(&words[..], [Token { kind: Kind::Word(w), .. }] if w.text == text);
        prop_assert!(!is_plain_word(&text) || alone);
    }
}

#[test]
fn long_filters_are_read_in_linear_time() {
    let hostile = [
        "(",
        "\"",
        "\\",
        "'\"",
        "a",
        "a ",
        "! ",
        "a=",
        "[",
        "[::",
        "dst 10.0.0.1 ",
        "cc x or ",
        "é\u{202e}",
        "*",
        ":",
    ];
    for piece in hostile {
        check(&piece.repeat(20_000 / piece.len()));
        check(&format!("cc {}", piece.repeat(20_000 / piece.len())));
        check(&format!("dst {}", piece.repeat(20_000 / piece.len())));
        check(&format!("dport :{}", piece.repeat(20_000 / piece.len())));
    }
}
