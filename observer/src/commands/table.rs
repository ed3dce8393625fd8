//! The table of `observer list`: aligned for a person, TAB-separated plain numbers for a pipe.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use crate::event::{Attributes, CcState, Sample};
use crate::model::{Figures, Flow, Model, container};
use crate::units::{self, Limit, UNKNOWN, UNLIMITED, escape};

/// What a row is made of.
struct Row<'a> {
    model: &'a Model,
    flow: &'a Flow,
    figures: Figures,
}

/// One column: heading and cell, for a person and for a pipe.
struct Column {
    heading: &'static str,
    key: &'static str,
    right: bool,
    shown: fn(&Row) -> Option<String>,
    plain: fn(&Row) -> Option<String>,
}

/// Writes the flows, for a terminal of so many columns. A pipe (`None`) gets a heading line of JSON's keys, then plain
/// integers, unknown = empty.
pub fn write(
    out: &mut impl Write,
    model: &Model,
    flows: &[&Flow],
    terminal: Option<usize>,
) -> io::Result<()> {
    let rows: Vec<Row> = flows
        .iter()
        .map(|flow| Row {
            model,
            flow,
            figures: model.figures(flow),
        })
        .collect();
    match terminal {
        Some(columns) => aligned(out, &rows, columns),
        None => separated(out, &rows),
    }
}

fn separated(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    let headings: Vec<&str> = COLUMNS.iter().map(|column| column.key).collect();
    writeln!(out, "{}", headings.join("\t"))?;
    for row in rows {
        let cells: Vec<String> = COLUMNS
            .iter()
            .map(|column| escape(&(column.plain)(row).unwrap_or_default()))
            .collect();
        writeln!(out, "{}", cells.join("\t"))?;
    }
    Ok(())
}

/// Which columns are left out first where there is no room, by key.
const LEFT_OUT_FIRST: &[&str] = &[
    "source",
    CONTAINER,
    "local",
    "retrans",
    "phase",
    "inflight_bytes",
    "qdisc",
    "bdp_fill",
    "limit",
    "btlbw_bps",
    "pacing_rate_bps",
    "processes",
    "state",
    "cc",
];

/// Where no flow is in a container a person gets no column of them.
const CONTAINER: &str = "container";

/// Blanks between columns.
const GAP: usize = 2;

/// Which columns fit into `room`; what matters most stays even where it does not.
fn fitting(widths: &[usize], room: usize) -> Vec<bool> {
    let mut kept = vec![true; COLUMNS.len()];
    for key in LEFT_OUT_FIRST {
        let used: usize = widths
            .iter()
            .zip(&kept)
            .filter(|(_, kept)| **kept)
            .map(|(width, _)| width + GAP)
            .sum();
        if used.saturating_sub(GAP) <= room {
            break;
        }
        for (column, kept) in COLUMNS.iter().zip(&mut kept) {
            *kept &= column.key != *key;
        }
    }
    kept
}

fn aligned(out: &mut impl Write, rows: &[Row], room: usize) -> io::Result<()> {
    let cells: Vec<Vec<String>> =
        std::iter::once(COLUMNS.iter().map(|c| c.heading.to_owned()).collect())
            .chain(rows.iter().map(|row| {
                COLUMNS
                    .iter()
                    .map(|column| {
                        escape(&(column.shown)(row).unwrap_or_else(|| UNKNOWN.to_owned()))
                    })
                    .collect()
            }))
            .collect();
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|at| cells.iter().map(|row| row[at].width()).max().unwrap_or(0))
        .collect();
    let contained = rows.iter().any(|row| contained(row).is_some());
    let mut kept = fitting(&widths, room);
    for (column, kept) in COLUMNS.iter().zip(&mut kept) {
        *kept &= contained || column.key != CONTAINER;
    }
    for row in &cells {
        let mut line = String::new();
        for (((cell, width), column), kept) in row.iter().zip(&widths).zip(COLUMNS).zip(&kept) {
            if !kept {
                continue;
            }
            let pad = " ".repeat(width - cell.width());
            if column.right {
                line.push_str(&pad);
                line.push_str(cell);
            } else {
                line.push_str(cell);
                line.push_str(&pad);
            }
            line.push_str(&" ".repeat(GAP));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

impl Row<'_> {
    fn sample(&self) -> Option<&Sample> {
        self.flow.sample()
    }

    fn attributes(&self) -> Option<&Attributes> {
        self.flow.attributes()
    }
}

fn processes(row: &Row) -> Option<String> {
    let owners = row.flow.owners()?;
    (!owners.is_empty()).then(|| {
        owners
            .iter()
            .map(|owner| format!("{}/{}", owner.comm, owner.pid))
            .collect::<Vec<_>>()
            .join(",")
    })
}

fn contained(row: &Row) -> Option<String> {
    let cgroup = row.attributes()?.cgroup.as_deref()?;
    Some(container::place(cgroup).container?.to_string())
}

fn algorithm(row: &Row) -> Option<String> {
    let attributes = row.attributes()?;
    let mut name = attributes.cc_name.clone();
    if let Some(version) = &attributes.cc_version {
        name = format!("{name}/{version}");
    }
    Some(name)
}

fn phase(row: &Row) -> Option<String> {
    match row.sample()?.cc.as_ref()? {
        CcState::Bbr(bbr) => {
            let phase = bbr.phase?.as_str();
            Some(bbr.sub_phase.map_or_else(
                || phase.to_owned(),
                |sub| format!("{phase}:{}", sub.as_str()),
            ))
        }
        CcState::Cubic(_) | CcState::Dctcp(_) => None,
    }
}

fn limit_text(limit: Limit<u64>) -> String {
    match limit {
        Limit::Finite(rate) => units::rate(units::bits(rate)),
        Limit::Unlimited => UNLIMITED.to_owned(),
    }
}

fn limit_plain(limit: Limit<u64>) -> String {
    match limit {
        Limit::Finite(rate) => units::bits(rate).to_string(),
        Limit::Unlimited => "unlimited".to_owned(),
    }
}

macro_rules! column {
    ($heading:literal $key:literal left $both:expr) => {
        Column {
            heading: $heading,
            key: $key,
            right: false,
            shown: $both,
            plain: $both,
        }
    };
    ($heading:literal $key:literal $shown:expr, $plain:expr) => {
        Column {
            heading: $heading,
            key: $key,
            right: true,
            shown: $shown,
            plain: $plain,
        }
    };
}

const COLUMNS: &[Column] = &[
    column!("State" "state" left |r| Some(r.flow.state().as_str().to_owned())),
    column!("Local" "local" left |r| Some(r.flow.local().to_string())),
    column!("Remote" "remote" left |r| Some(r.flow.remote().to_string())),
    column!("Process" "processes" left processes),
    column!("CC" "cc" left algorithm),
    column!("Phase" "phase" left phase),
    column!("Qdisc" "qdisc" left |r| r.model.qdisc_of(r.flow).map(|qdisc| qdisc.kind)),
    column!("Throughput" "throughput_bps"
        |r| r.figures.throughput_bps.map(units::rate),
        |r| r.figures.throughput_bps.map(|v| v.to_string())),
    column!("cwnd" "cwnd" |r| Some(r.sample()?.cwnd.to_string()), |r| Some(r.sample()?.cwnd.to_string())),
    column!("Inflight" "inflight_bytes"
        |r| r.figures.inflight_bytes.map(units::size),
        |r| r.figures.inflight_bytes.map(|v| v.to_string())),
    column!("BDP fill" "bdp_fill"
        |r| r.figures.bdp_fill.map(units::percent),
        |r| r.figures.bdp_fill.map(|v| format!("{v:.4}"))),
    column!("Pacing" "pacing_rate_bps"
        |r| Some(limit_text(r.sample()?.pacing_rate)),
        |r| Some(limit_plain(r.sample()?.pacing_rate))),
    column!("BtlBw" "btlbw_bps"
        |r| r.figures.btlbw.map(|b| format!("{}{}", units::rate(units::bits(b.bytes_per_s)), if b.estimated { " est" } else { "" })),
        |r| r.figures.btlbw.map(|b| units::bits(b.bytes_per_s).to_string())),
    column!("SRTT ms" "srtt_us"
        |r| Some(units::ms(r.sample()?.srtt_us?.into())),
        |r| Some(r.sample()?.srtt_us?.to_string())),
    column!("Min RTT ms" "min_rtt_us"
        |r| Some(units::ms(r.sample()?.min_rtt_us?.into())),
        |r| Some(r.sample()?.min_rtt_us?.to_string())),
    column!("Retr%" "retrans_rate"
        |r| r.figures.retrans_rate.map(units::percent),
        |r| r.figures.retrans_rate.map(|v| format!("{v:.6}"))),
    column!("Retrans" "retrans" |r| Some(r.sample()?.retrans.to_string()), |r| Some(r.sample()?.retrans.to_string())),
    column!("Limit" "limit" left |r| Some(r.figures.limit.as_str().to_owned())),
    column!("Source" "source" left |r| r.flow.origin().map(|origin| origin.as_str().to_owned())),
    column!("Container" "container" left contained),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_go_by_worth_until_the_rest_fits() {
        let widths = vec![10; COLUMNS.len()];
        let columns = |room| fitting(&widths, room).iter().filter(|kept| **kept).count();
        assert_eq!(columns(1000), COLUMNS.len());
        assert_eq!(columns(80), 6);
        assert_eq!(columns(0), COLUMNS.len() - LEFT_OUT_FIRST.len());
        let kept = fitting(&widths, 0);
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
            let flows: Vec<&Flow> = model.flows().collect();
            let mut out = Vec::new();
            write(&mut out, &model, &flows, terminal).expect("written");
            String::from_utf8(out).expect("text")
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
}
