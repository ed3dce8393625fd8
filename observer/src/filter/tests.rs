//! Whole filters: what they mean, what they say when wrong, and that nothing breaks them.

mod any;

use std::net::SocketAddr;
use std::sync::LazyLock;

use super::*;
use crate::event::{Process, TcpState};

fn services() -> &'static Services {
    static TABLE: LazyLock<Services> =
        LazyLock::new(|| Services::parse("ssh 22/tcp\nhttp 80/tcp www\nhttps 443/tcp\n"));
    &TABLE
}

fn parsed(text: &str) -> Result<Filter, FilterError> {
    Filter::parse_with(text, &services)
}

fn filter(text: &str) -> Filter {
    parsed(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn wrong(text: &str) -> FilterError {
    match parsed(text) {
        Ok(filter) => panic!("{text} was taken for {filter}"),
        Err(error) => error,
    }
}

fn addr(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn owners() -> &'static [Process] {
    static OWNERS: LazyLock<Vec<Process>> = LazyLock::new(|| {
        [(4711, "iperf3"), (12, "systemd-resolve")]
            .map(|(pid, comm)| Process {
                pid,
                comm: comm.to_owned(),
            })
            .into()
    });
    &OWNERS
}

fn names() -> &'static [String] {
    static NAMES: LazyLock<Vec<String>> =
        LazyLock::new(|| ["blue", "navy"].map(str::to_owned).into());
    &NAMES
}

fn facts() -> Facts<'static> {
    Facts {
        state: TcpState::Established,
        local: addr("10.0.0.1:5201"),
        remote: addr("192.0.2.7:443"),
        dev: Some("eth0"),
        ifindex: Some(2),
        cgroup: Some("/user.slice/session-1.scope"),
        cgroup_id: Some(77),
        cc: Some("bbr"),
        owners: Some(owners()),
        netns: 4_026_531_840,
        netns_names: Some(names()),
        retrans: Some(12),
        retrans_rate: Some(0.015),
    }
}

fn nothing_known() -> Facts<'static> {
    Facts {
        local: addr("0.0.0.0:0"),
        dev: None,
        ifindex: None,
        cgroup: None,
        cgroup_id: None,
        cc: None,
        owners: None,
        netns_names: None,
        retrans: None,
        retrans_rate: None,
        ..facts()
    }
}

#[test]
fn true_of_the_flow() {
    for text in [
        "",
        "state established",
        "comm state or dport = :443",
        "dst 192.0.2.7",
        "dst = 192.0.2.0/24",
        "dst 192.0.2/24",
        "dst 192/8",
        "dst 192.0.2.7:443",
        "dst 192.0.2.7:https",
        "dst 192.0.2.0/24:443",
        "dst [::ffff:192.0.2.7]:443",
        "dst ::ffff:192.0.2.7",
        "dst 0.0.0.0/0",
        "dst *:443",
        "dst :443",
        "dst :https",
        "dst *",
        "src != 10.0.0.2",
        "not src [2001:db8::]/32",
        "sport = :5201",
        "sport 5201",
        "sport :5201",
        "sport *:5201",
        "sport *",
        "dport eq :https",
        "dport >= :443 dport <= :443",
        "dport gt :442 and dport lt :444",
        "dport geq https && dport leq 443",
        "sport>:1024",
        "dev eth0",
        "dev = eth*",
        "dev 2",
        "dev != lo",
        "cgroup /user.slice/session-1.scope",
        "cgroup user.slice/session-1.scope/",
        "cgroup /sys/fs/cgroup/user.slice/*",
        "cgroup /sys/fs/cgroup/unified/user.slice/session-1.scope",
        "cgroup 77",
        "cc bbr",
        "cc = bbr",
        "cc bb*",
        "cc != cubic",
        "pid 4711",
        "pid != 1",
        "comm iperf3",
        "comm ipe*",
        "comm \"iperf3\"",
        "comm systemd-resolved",
        "netns 4026531840",
        "netns blue",
        "netns navy",
        "not netns red",
        "retrans",
        "retrans > 10",
        "retrans > 1%",
        "retrans >= 1.5%",
        "retrans = 12",
        "cc cubic or cc bbr",
        "cc bbr or cc bbr and cc cubic",
        "( cc cubic or cc bbr ) and not pid 1",
        r"\( cc bbr \)",
        "(cc bbr)(pid 4711)",
        "! cc cubic",
        "!(cc cubic | cc reno) & cc bbr",
        "not not cc bbr",
        "exclude listening cc bbr",
        "state established and cc bbr",
        "cc bbr and state established",
        "cc bbr exclude time-wait",
    ] {
        assert!(filter(text).matches(&facts()), "{text}");
    }
}

#[test]
fn not_true_of_the_flow() {
    for text in [
        "state closed",
        "exclude established",
        "dst 192.0.2.8",
        "dst 192.0.3.0/24",
        "dst [::]/0",
        "dst [::/0]",
        "dst :80",
        "dport != :443",
        "sport < :5201",
        "dev lo",
        "cgroup /user.slice",
        "cgroup 78",
        "cc bb",
        "cc != bbr",
        "pid 1",
        "pid != 4711",
        "comm iperf",
        "netns 4026531841",
        "netns red",
        "retrans > 12",
        "retrans > 1.5%",
        "not retrans",
        "( cc bbr or cc cubic ) and cc cubic",
        "not cc bbr or pid 1",
    ] {
        assert!(!filter(text).matches(&facts()), "{text}");
    }
}

#[test]
fn what_is_unknown_is_neither_so_nor_not_so() {
    for test in [
        "src 10.0.0.1",
        "sport = :5201",
        "dev eth0",
        "dev 2",
        "cgroup /user.slice",
        "cgroup 77",
        "cc bbr",
        "pid 4711",
        "comm iperf3",
        "netns blue",
        "retrans",
        "retrans > 1%",
    ] {
        let shows = |text: &str| filter(text).matches(&nothing_known());
        assert!(!shows(test), "{test}");
        assert!(!shows(&format!("not {test}")), "not {test}");
        assert!(!shows(&format!("{test} or not {test}")), "{test}");
        assert!(!shows(&format!("{test} or dport = :80")), "{test}");
        assert!(shows(&format!("{test} or dport = :443")), "{test}");
        assert!(shows(&format!("not ( {test} dport = :80 )")), "{test}");
    }
    assert!(filter("netns 4026531840").matches(&nothing_known()));
    assert!(filter("not netns 4026531841").matches(&nothing_known()));
    let unnamed = Facts {
        netns_names: Some(&[]),
        ..facts()
    };
    assert!(filter("not netns blue").matches(&unnamed));
    assert_eq!(filter("pid 4711").decide(&nothing_known()), None);
    assert_eq!(
        filter("pid 4711 or dport = :80").decide(&nothing_known()),
        None
    );
    assert_eq!(
        filter("pid 4711 or dport = :443").decide(&nothing_known()),
        Some(true)
    );
    assert_eq!(
        filter("state closed pid 4711").decide(&nothing_known()),
        Some(false)
    );
    assert_eq!(filter("pid 1").decide(&facts()), Some(false));
    let unheld = Facts {
        owners: Some(&[]),
        ..facts()
    };
    assert!(filter("not pid 4711").matches(&unheld));
}

#[test]
fn without_a_state_those_of_ss_pass() {
    let closed = Facts {
        state: TcpState::Close,
        ..facts()
    };
    let any = filter("cc bbr");
    assert!(!any.matches(&closed) && any.matches_in_any_state(&closed));
    assert!(any.clone().unless_named(States::ALL).matches(&closed));
    assert!(filter("state all cc bbr").matches(&closed));
    assert!(!filter("state big exclude closed").matches(&closed));
    assert!(filter("state CLOSED").matches(&closed) && filter("state unconn").matches(&closed));
    let named = filter("state established").unless_named(States::ALL);
    assert!(named.names_states() && !named.matches(&closed));
    assert!(filter("").is_empty() && filter(" \t").is_empty() && !filter("state all").is_empty());
    assert!(parse(&[]).is_ok_and(|f| f.is_empty() && f == Filter::default()));
}

#[test]
fn the_canonical_form() {
    for (text, canonical) in [
        ("sport 443", "sport = :443"),
        ("dport ne www", "dport != :80"),
        ("dst 10.1.2.3/8:443", "dst = 10.0.0.0/8:443"),
        ("dst [2001:DB8::1/32]:443", "dst = [2001:db8::]/32:443"),
        ("src ::1", "src = [::1]"),
        ("sport *", "src = *"),
        ("retrans > 0", "retrans"),
        ("retrans>0.250%", "retrans > 0.25%"),
        ("comm 'Web Content'", "comm = \"Web Content\""),
        ("comm \"and\"", "comm = \"and\""),
        ("comm \"a b\"*", "comm = \"a b\"*"),
        ("comm *", "comm = *"),
        ("cgroup /sys/fs/cgroup", "cgroup = /"),
        ("cgroup /sys/fs/cgroups/a/", "cgroup = /sys/fs/cgroups/a"),
        ("cgroup system.slice/*", "cgroup = /system.slice/*"),
        (r"cgroup a\x2db", r#"cgroup = "/a\\x2db""#),
        ("not not not cc bbr", "not cc = bbr"),
        ("not (cc bbr pid 1)", "not ( cc = bbr and pid = 1 )"),
        ("pid 1 (pid 2 (pid 3))", "pid = 1 and pid = 2 and pid = 3"),
        ("pid 1 or pid 2 pid 3", "pid = 1 or pid = 2 and pid = 3"),
        (
            "(pid 1 or pid 2) pid 3",
            "( pid = 1 or pid = 2 ) and pid = 3",
        ),
        (
            "state estab (pid 1 or pid 2)",
            "state established ( pid = 1 or pid = 2 )",
        ),
        (
            "state close-wait state established",
            "state established state close-wait",
        ),
        (
            "exclude listening exclude closed",
            "state all exclude closed exclude listening",
        ),
        ("state all exclude time-wait exclude syn-recv", "state big"),
        (
            "state connected exclude established",
            "state all exclude established exclude closed exclude listening exclude bound-inactive",
        ),
        (
            "state estab state bucket exclude time-wait",
            "state bucket state established exclude time-wait",
        ),
        ("exclude synchronized", "exclude connected state syn-sent"),
        ("cgroup /sys/fs/cgroup/unified/a", "cgroup = /a"),
    ] {
        assert_eq!(filter(text).to_string(), canonical, "{text}");
        assert_eq!(filter(canonical), filter(text), "{text}");
    }
}

#[test]
fn two_filters_together() {
    for (one, two, both) in [
        (
            "cc bbr",
            "dport = :443 or dport = :80",
            "cc bbr and ( dport = :443 or dport = :80 )",
        ),
        ("", "cc bbr", "cc bbr"),
        ("cc bbr", "", "cc bbr"),
        (
            "state connected cc bbr",
            "state established",
            "state established cc bbr",
        ),
        ("state established", "cc bbr", "state established cc bbr"),
    ] {
        assert_eq!(filter(one).and(filter(two)), filter(both), "{one} + {two}");
    }
}

#[test]
fn wrong_filters_point_at_the_place() {
    let shown: Vec<String> = [
        "state estblished",
        "state",
        "lst",
        "lsit",
        "reprot",
        "dts 10.0.0.1",
        "dst 10.0.0.1 spotr = :443",
        "list",
        "port 443",
        "10.0.0.1",
        "443",
        "bbr",
        "established",
        "xyzzy",
        "dst 10.0.0",
        "dst 443",
        "dst example.com",
        "dst 10.0.0.0/33",
        "dst [2001:db8::]/129",
        "dst [10.0.0.1]",
        "dst < 10.0.0.1",
        "dst",
        "dport = :htps",
        "dport = :65536",
        "dport = 10.0.0.1:80",
        "dport",
        "dport > *",
        "( dport = :443",
        "dport = :443 )",
        "( )",
        "and dport = :443",
        "dport = :443 or",
        "dport = :443 and and cc bbr",
        "not",
        "= :443",
        "cc > bbr",
        "cc \"bbr",
        "comm a*b",
        "comm \"\"",
        "pid nginx",
        "retrans 10",
        "retrans > 1.23456%",
        "retrans > 101%",
        "retrans > lots",
        "state established or state close-wait",
        "state established and cc bbr or pid 1",
        "cc bbr or state close-wait",
        "not state close-wait",
        "( state close-wait )",
        "state established cc bbr state close-wait",
        "state established exclude established",
        "state listening",
        "state established state TIMEWAIT",
        "cc bbr state syn-recv",
        "state bound-inactive",
        "state bucket",
        "state bucket exclude time-wait cc bbr",
        "fwmark 1",
        "\"dst\" 10.0.0.1",
    ]
    .iter()
    .map(|text| wrong(text).to_string())
    .collect();
    insta::assert_snapshot!(shown.join("\n\n"));
}

#[test]
fn parentheses_have_an_end() {
    let nested = |depth: usize| format!("{}cc bbr{}", "(".repeat(depth), ")".repeat(depth));
    assert!(filter(&nested(parse::MAX_DEPTH)).matches(&facts()));
    for deep in [
        nested(parse::MAX_DEPTH + 1),
        nested(10_000),
        "(".repeat(10_000),
        "not (".repeat(10_000),
    ] {
        let error = wrong(&deep);
        assert!(error.message.contains("parentheses"), "{}", error.message);
        assert!(error.to_string().len() < 400);
    }
    assert!(filter(&format!("{}cc bbr", "not ".repeat(10_000))).matches(&facts()));
    assert_eq!(wrong(&"not ".repeat(10_000)).at, 39_999);
    let many = vec!["cc bbr"; 3_000].join(" and ");
    assert!(filter(&many).matches(&facts()));
    assert!(filter(&many.replace("and", "or")).matches(&facts()));
}
