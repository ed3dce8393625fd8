//! The table of `observer list`: aligned for a person, TAB-separated plain numbers for a pipe.

mod columns;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::ops::Range;

use unicode_width::UnicodeWidthStr;

use super::ends::Ends;
use crate::cli::Common;
use crate::detect::Verdict;
use crate::event::{FlowId, Process, Sample, TcpState};
use crate::model::{Figures, Flow, Model, container};
use crate::units::{UNKNOWN, escape};
use columns::{COLUMNS, Column, NAMES};

/// What a line is made of. `None` = unknown.
#[derive(Debug)]
pub struct Row<'a> {
    pub state: TcpState,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// How these are written.
    pub ends: &'a Ends,
    pub owners: Option<&'a [Process]>,
    pub cc_name: Option<Cow<'a, str>>,
    pub cc_version: Option<Cow<'a, str>>,
    pub qdisc: Option<Cow<'a, str>>,
    pub container: Option<String>,
    pub verdict: Option<&'a Verdict>,
    pub sample: Option<&'a Sample>,
    pub figures: Figures,
}

impl<'a> Row<'a> {
    /// What the model knows of a flow.
    pub fn of(model: &Model, flow: &'a Flow, ends: &'a Ends) -> Self {
        let attributes = flow.attributes();
        Self {
            state: flow.state(),
            local: flow.local(),
            remote: flow.remote(),
            ends,
            owners: flow.owners(),
            cc_name: attributes
                .map(|a| a.cc_name.as_str().into())
                .filter(|name: &Cow<'_, str>| !name.is_empty()),
            cc_version: attributes.and_then(|a| Some(a.cc_version.as_deref()?.into())),
            qdisc: model.qdisc_of(flow).map(|qdisc| qdisc.kind.into()),
            container: attributes
                .and_then(|a| container::place(a.cgroup.as_deref()?).container)
                .map(|container| container.to_string()),
            verdict: flow.judgement().map(|judgement| &judgement.verdict),
            sample: flow.sample(),
            figures: model.figures(flow),
        }
    }
}

/// What bears on which columns a person gets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes {
    /// Processes were asked for: they are not among the columns that are left out.
    processes: bool,
    /// Some flow is in a container.
    contained: bool,
}

/// The lines so far. They are written in the order of the flows' ids, which is about that of their birth.
#[derive(Debug)]
pub enum Table {
    /// For a terminal of so many columns.
    Aligned {
        columns: usize,
        wishes: Wishes,
        rows: Vec<(FlowId, Vec<String>)>,
    },
    /// For a pipe: a heading line of JSON's keys, then plain integers, unknown = empty. Each line is made when its flow
    /// comes, so that 20,000 of them need neither 20,000 flows nor 360,000 cells.
    Separated {
        /// With the names of hosts beside the addresses.
        names: bool,
        text: String,
        lines: Vec<(FlowId, Range<usize>)>,
    },
}

impl Table {
    /// `terminal` = its columns; `None` = a pipe or a file.
    pub fn new(terminal: Option<usize>, common: &Common) -> Self {
        match terminal {
            Some(columns) => Self::Aligned {
                columns,
                wishes: Wishes {
                    processes: common.processes,
                    contained: false,
                },
                rows: Vec::new(),
            },
            None => Self::Separated {
                names: common.resolve,
                text: String::new(),
                lines: Vec::new(),
            },
        }
    }

    /// Of two rows for one flow the later one counts.
    pub fn push(&mut self, id: FlowId, row: &Row) {
        match self {
            Self::Aligned { rows, wishes, .. } => {
                wishes.contained |= row.container.is_some();
                rows.push((id, cells(row)));
            }
            Self::Separated { names, text, lines } => {
                let start = text.len();
                for (at, column) in separated(*names).enumerate() {
                    if at > 0 {
                        text.push('\t');
                    }
                    (column.plain)(row, text);
                }
                text.push('\n');
                lines.push((id, start..text.len()));
            }
        }
    }

    /// Writes it all.
    pub fn write(self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Aligned {
                columns,
                wishes,
                mut rows,
            } => {
                in_order(&mut rows);
                let heading = COLUMNS.iter().map(|c| c.heading.to_owned()).collect();
                let rows = rows.into_iter().map(|(_, cells)| cells);
                let cells: Vec<Vec<String>> = std::iter::once(heading).chain(rows).collect();
                aligned(out, &cells, columns, wishes)
            }
            Self::Separated {
                names,
                text,
                mut lines,
            } => {
                let keys: Vec<&str> = separated(names).map(|column| column.key).collect();
                writeln!(out, "{}", keys.join("\t"))?;
                in_order(&mut lines);
                for (_, line) in lines {
                    out.write_all(&text.as_bytes()[line])?;
                }
                Ok(())
            }
        }
    }
}

/// The columns for a pipe.
fn separated(names: bool) -> impl Iterator<Item = &'static Column> {
    let beside = if names { NAMES } else { &[] };
    COLUMNS.iter().chain(beside)
}

/// By flow, the later of two for the same.
fn in_order<T>(lines: &mut Vec<(FlowId, T)>) {
    lines.reverse();
    // Stable: the later one stays before the earlier.
    lines.sort_by_key(|(id, _)| *id);
    lines.dedup_by_key(|(id, _)| *id);
}

fn cells(row: &Row) -> Vec<String> {
    COLUMNS
        .iter()
        .map(|column| escape(&(column.shown)(row).unwrap_or_else(|| UNKNOWN.to_owned())))
        .collect()
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
    "verdict",
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
fn fitting(widths: &[usize], room: usize, wishes: Wishes) -> Vec<bool> {
    let mut kept: Vec<bool> = COLUMNS
        .iter()
        .map(|column| wishes.contained || column.key != CONTAINER)
        .collect();
    let first = LEFT_OUT_FIRST
        .iter()
        .filter(|key| !wishes.processes || **key != "processes");
    for key in first {
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

fn aligned(
    out: &mut impl Write,
    cells: &[Vec<String>],
    room: usize,
    wishes: Wishes,
) -> io::Result<()> {
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|at| cells.iter().map(|row| row[at].width()).max().unwrap_or(0))
        .collect();
    let kept = fitting(&widths, room, wishes);
    for row in cells {
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
