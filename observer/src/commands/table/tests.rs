//! Lines and columns: order, escaping, what there is room for.

use super::*;

fn common(flags: &[&str]) -> Common {
    use clap::Parser as _;
    let arguments = ["observer"].iter().chain(flags);
    crate::cli::Cli::parse_from(arguments).common
}

fn row<'a>(ends: &'a Ends, owners: &'a [Process]) -> Row<'a> {
    Row {
        ends,
        state: TcpState::Established,
        local: "10.0.0.1:443".parse().expect("an address"),
        remote: "[2001:db8::1]:50000".parse().expect("an address"),
        owners: Some(owners),
        cc_name: Some("bb\tr".into()),
        cc_version: Some("v3\n".into()),
        qdisc: Some("f\u{202e}q".into()),
        container: None,
        verdict: None,
        sample: None,
        figures: Figures {
            throughput_bps: Some(u64::MAX),
            bdp_fill: Some(0.5),
            retrans_rate: Some(0.0),
            ..Figures::default()
        },
    }
}

fn written(table: Table) -> String {
    let mut out = Vec::new();
    table.write(&mut out).expect("written to memory");
    String::from_utf8(out).expect("text")
}

#[test]
fn a_separated_line_has_a_cell_per_key_whatever_comes_from_outside() {
    let owners = [(7, "a\tb\n"), (12, "naïve")].map(|(pid, comm)| Process {
        pid,
        comm: comm.to_owned(),
    });
    let ends = Ends::default();
    let mut table = Table::new(None, &common(&[]));
    let id = FlowId {
        cookie: 1,
        netns: 1,
    };
    table.push(id, &row(&ends, &owners));
    let text = written(table);
    let [heading, line] = text.lines().collect::<Vec<_>>()[..] else {
        panic!("{text:?}");
    };
    assert_eq!(heading.split('\t').count(), COLUMNS.len());
    let cells: Vec<&str> = line.split('\t').collect();
    let expected = [
        "ESTAB",
        "10.0.0.1:443",
        "[2001:db8::1]:50000",
        "a\\tb\\n/7,naïve/12",
        "bb\\tr/v3\\n",
        "",
        "f\\u{202e}q",
        "18446744073709551615",
        "",
        "",
        "0.5000",
        "",
        "",
        "",
        "",
        "0.000000",
        "",
        "unknown",
        "",
        "",
        "",
    ];
    assert_eq!(cells, expected);
}

#[test]
fn lines_stand_in_the_order_of_birth_and_the_last_word_on_a_flow_counts() {
    for terminal in [None, Some(usize::MAX)] {
        let ends = Ends::default();
        let mut table = Table::new(terminal, &common(&[]));
        for (cookie, pid) in [(3, 30), (1, 10), (2, 20), (1, 11)] {
            let owners = [Process {
                pid,
                comm: "p".to_owned(),
            }];
            table.push(FlowId { cookie, netns: 1 }, &row(&ends, &owners));
        }
        let text = written(table);
        let found: Vec<&str> = text
            .split_whitespace()
            .filter(|word| word.starts_with("p/"))
            .collect();
        assert_eq!(found, ["p/11", "p/20", "p/30"]);
    }
}

#[test]
fn columns_go_by_worth_until_the_rest_fits() {
    let widths = vec![10; COLUMNS.len()];
    let all = Wishes {
        processes: false,
        contained: true,
    };
    let columns = |room| {
        fitting(&widths, room, all)
            .iter()
            .filter(|kept| **kept)
            .count()
    };
    assert_eq!(columns(1000), COLUMNS.len());
    assert_eq!(columns(80), 6);
    assert_eq!(columns(0), COLUMNS.len() - LEFT_OUT_FIRST.len());
    for (processes, shown) in [(false, false), (true, true)] {
        let kept = fitting(&widths, 0, Wishes { processes, ..all });
        let at = COLUMNS.iter().position(|c| c.key == "processes");
        assert_eq!(at.map(|at| kept[at]), Some(shown), "with -p: {processes}");
    }
    let kept = fitting(&widths, 0, all);
    let keys: Vec<&str> = COLUMNS
        .iter()
        .zip(&kept)
        .filter(|(_, kept)| **kept)
        .map(|(c, _)| c.key)
        .collect();
    assert!(
        keys.contains(&"remote") && keys.contains(&"throughput_bps"),
        "{keys:?}"
    );
}

#[test]
fn a_container_has_a_column_where_there_is_one() {
    let id = "0123456789abcdef".repeat(4);
    let table = |cgroup: &str, terminal| {
        let text = format!("@1s opened 1\n+0 attributes 1 cgroup={cgroup}\n");
        let mut model = Model::default();
        for event in crate::source::script::parse(&text).expect("a script") {
            model.apply(&event);
        }
        let ends = Ends::default();
        let mut table = Table::new(terminal, &common(&[]));
        for flow in model.flows() {
            table.push(flow.id(), &Row::of(&model, flow, &ends));
        }
        written(table)
    };
    let shown = table(&format!("/docker/{id}"), Some(500));
    assert!(shown.contains("Container") && shown.contains("docker:0123456789ab\n"));
    assert!(!table("/user.slice", Some(500)).contains("Container"));
    // A pipe's columns are always the same.
    assert!(table("/user.slice", None).contains("\tcontainer\n"));
}

#[test]
fn what_is_left_out_is_named_as_it_is() {
    for key in LEFT_OUT_FIRST {
        assert!(COLUMNS.iter().any(|column| column.key == *key), "{key}");
    }
}
