//! Lines as rows of tables: which table a line is of, and the columns of each.

use std::collections::BTreeMap;
use std::io;

use super::flow::{FlowKeys, FlowObject, ProcessKeys};
use super::keys::{
    AttributeLine, Body, BurstKeys, CostKeys, DeviceKeys, EventKeys, HostKeys, Line, ProgramKeys,
    Rest, RetransmitKeys, SampleLine,
};
use super::options::PlacedQdisc;
use super::verdict::ChangeKeys;
use super::{Bound, Head};
use crate::export::table::{Cell, Column, Field, Row, Subject, Table, Take, fields, json_fields};

/// A change of state: of TCP's, or of congestion avoidance's.
struct StateRow {
    of: &'static str,
    old: &'static str,
    new: &'static str,
    cwnd: Option<u32>,
    ssthresh: Option<Bound<u32>>,
    lost: Option<u32>,
}
fields!(StateRow: of, old, new, cwnd, ssthresh, lost);

struct PhaseRow {
    phase: &'static str,
    sub_phase: Option<&'static str>,
    old_phase: &'static str,
    old_sub_phase: Option<&'static str>,
    lasted_us: u64,
}
fields!(PhaseRow: phase, sub_phase, old_phase, old_sub_phase, lasted_us);

#[derive(Default)]
struct NoteRow<'a> {
    kind: &'a str,
    text: Option<&'a str>,
    source: Option<&'a str>,
    old_source: Option<&'a str>,
    namespaces: Option<u32>,
    flows: Option<u64>,
    denied: Option<u32>,
}
fields!(NoteRow<'_>: kind, text, source, old_source, namespaces, flows, denied);

#[derive(Default)]
struct DeviceRow<'a> {
    netns: u32,
    ifindex: u32,
    dev: Option<&'a str>,
    gone: bool,
    mtu: Option<u32>,
    up: Option<bool>,
    dev_kind: Option<&'a str>,
    tx_queues: Option<u32>,
    offloads: Option<&'a BTreeMap<&'static str, bool>>,
}
fields!(DeviceRow<'_>: netns, ifindex, dev, gone, mtu, up, dev_kind, tx_queues, offloads);
json_fields!(&BTreeMap<&'static str, bool>);

struct QdiscRow<'a> {
    netns: u32,
    ifindex: u32,
    dev: &'a str,
    qdisc: &'a PlacedQdisc,
}

impl Field for QdiscRow<'_> {
    fn columns(_: &str, out: &mut Vec<Column>) {
        u32::columns("netns", out);
        u32::columns("ifindex", out);
        <&str>::columns("dev", out);
        PlacedQdisc::columns("", out);
    }

    fn cells<'c>(&'c self, out: &mut Vec<Cell<'c>>) {
        self.netns.cells(out);
        self.ifindex.cells(out);
        self.dev.cells(out);
        self.qdisc.cells(out);
    }
}

struct GapRow {
    missing: u64,
}
fields!(GapRow: missing);

struct CostRow {
    lost: u64,
    cost: Option<CostKeys>,
}
fields!(CostRow: lost, cost);

impl Table {
    pub fn columns(self) -> Vec<Column> {
        match self {
            Self::Samples => of_flow::<SampleLine>(),
            Self::Retransmits => of_flow::<RetransmitKeys>(),
            Self::Bursts => of_flow::<BurstKeys>(),
            Self::States => of_flow::<StateRow>(),
            Self::Phases => of_flow::<PhaseRow>(),
            Self::Verdicts => of_flow::<ChangeKeys>(),
            Self::Flows => of_host::<FlowObject>(),
            Self::Attributes => of_flow::<AttributeLine>(),
            Self::Owners => of_flow::<ProcessKeys>(),
            Self::Devices => of_host::<DeviceRow>(),
            Self::Qdiscs => of_host::<QdiscRow>(),
            Self::Hosts => of_host::<HostKeys>(),
            Self::Counters => of_host::<ProgramKeys>(),
            Self::Costs => of_host::<CostRow>(),
            Self::Gaps => of_flow::<GapRow>(),
            Self::Notes => of_flow::<NoteRow>(),
        }
    }
}

fn of_host<T: Field>() -> Vec<Column> {
    let mut columns = Vec::new();
    Head::columns("", &mut columns);
    T::columns("", &mut columns);
    columns
}

fn of_flow<T: Field>() -> Vec<Column> {
    let mut columns = Vec::new();
    Head::columns("", &mut columns);
    FlowKeys::columns("flow", &mut columns);
    T::columns("", &mut columns);
    columns
}

impl Head {
    fn row<'a>(&self, table: Table, of: Option<Subject>, cells: Vec<Cell<'a>>) -> Row<'a> {
        Row {
            table,
            mono_ns: self.mono_ns,
            wall_ns: self
                .time
                .0
                .and_then(|time| i64::try_from(time.as_nanosecond()).ok()),
            of,
            cells,
        }
    }
}

/// More than any table has columns but that of flows.
const CELLS: usize = 128;

impl Line<'_> {
    /// The rows of this line; that a flow came into view is told by the table of flows alone.
    pub fn rows(&self, take: &mut Take<'_>) -> io::Result<()> {
        match &self.0 {
            Body::Closed(flow) => flow.rows(take),
            Body::Event(event) => event.rows(take),
        }
    }
}

impl FlowObject<'_> {
    /// The row of the table of flows.
    pub fn rows(&self, take: &mut Take<'_>) -> io::Result<()> {
        let mut cells = Vec::with_capacity(2 * CELLS);
        self.head().cells(&mut cells);
        self.cells(&mut cells);
        take(
            self.head()
                .row(Table::Flows, Some(self.flow().subject()), cells),
        )
    }
}

impl EventKeys<'_> {
    fn rows(&self, take: &mut Take<'_>) -> io::Result<()> {
        match &self.rest {
            Rest::Opened { .. } => Ok(()),
            Rest::Sample(sample) => self.of_flow(Table::Samples, &**sample, take),
            Rest::Retransmit(keys) => self.of_flow(Table::Retransmits, keys, take),
            Rest::Burst(keys) => self.of_flow(Table::Bursts, keys, take),
            Rest::Verdict(keys) => self.of_flow(Table::Verdicts, &**keys, take),
            Rest::State { .. } | Rest::CaState { .. } => self.state(take),
            Rest::Phase { .. } => self.phase(take),
            Rest::Attributes(keys) => self.of_flow(Table::Attributes, &**keys, take),
            Rest::Owners { processes, .. } if processes.is_empty() => {
                self.of_flow(Table::Owners, &None::<ProcessKeys>, take)
            }
            Rest::Owners { processes, .. } => processes
                .iter()
                .try_for_each(|process| self.of_flow(Table::Owners, process, take)),
            Rest::Qdisc(device) => self.device(device, take),
            Rest::DeviceGone {
                netns,
                ifindex,
                dev,
                gone,
            } => {
                let row = DeviceRow {
                    netns: *netns,
                    ifindex: *ifindex,
                    dev: *dev,
                    gone: *gone,
                    ..DeviceRow::default()
                };
                self.of_host(Table::Devices, None, &row, take)
            }
            Rest::Host { host } => self.of_host(Table::Hosts, None, host, take),
            Rest::Counters {
                lost,
                cost,
                programs,
                ..
            } => {
                let row = CostRow {
                    lost: *lost,
                    cost: *cost,
                };
                self.of_host(Table::Costs, None, &row, take)?;
                programs.iter().try_for_each(|program| {
                    let of = Subject::of(program.program.to_owned());
                    self.of_host(Table::Counters, Some(of), program, take)
                })
            }
            Rest::Gap { missing } => self.of_flow(Table::Gaps, &GapRow { missing: *missing }, take),
            Rest::Note { .. } | Rest::Source { .. } | Rest::Elsewhere { .. } => self.note(take),
        }
    }

    fn of_flow(&self, table: Table, keys: &impl Field, take: &mut Take<'_>) -> io::Result<()> {
        let mut cells = Vec::with_capacity(CELLS);
        self.head.cells(&mut cells);
        self.flow.cells(&mut cells);
        keys.cells(&mut cells);
        let of = self.flow.as_ref().map(FlowKeys::subject);
        take(self.head.row(table, of, cells))
    }

    fn of_host(
        &self,
        table: Table,
        of: Option<Subject>,
        keys: &impl Field,
        take: &mut Take<'_>,
    ) -> io::Result<()> {
        let mut cells = Vec::with_capacity(CELLS);
        self.head.cells(&mut cells);
        keys.cells(&mut cells);
        take(self.head.row(table, of, cells))
    }

    fn state(&self, take: &mut Take<'_>) -> io::Result<()> {
        let row = match &self.rest {
            Rest::State { of, old, new } => StateRow {
                of,
                old,
                new,
                cwnd: None,
                ssthresh: None,
                lost: None,
            },
            Rest::CaState {
                of,
                old,
                new,
                cwnd,
                ssthresh,
                lost,
            } => StateRow {
                of,
                old,
                new,
                cwnd: Some(*cwnd),
                ssthresh: Some(*ssthresh),
                lost: Some(*lost),
            },
            _ => return Ok(()),
        };
        self.of_flow(Table::States, &row, take)
    }

    fn phase(&self, take: &mut Take<'_>) -> io::Result<()> {
        let Rest::Phase {
            phase,
            sub_phase,
            old_phase,
            old_sub_phase,
            lasted_us,
        } = &self.rest
        else {
            return Ok(());
        };
        let row = PhaseRow {
            phase,
            sub_phase: *sub_phase,
            old_phase,
            old_sub_phase: *old_sub_phase,
            lasted_us: *lasted_us,
        };
        self.of_flow(Table::Phases, &row, take)
    }

    fn device(&self, device: &DeviceKeys<'_>, take: &mut Take<'_>) -> io::Result<()> {
        let row = DeviceRow {
            netns: device.netns,
            ifindex: device.ifindex,
            dev: Some(device.dev),
            gone: false,
            mtu: Some(device.mtu),
            up: Some(device.up),
            dev_kind: device.dev_kind,
            tx_queues: Some(device.tx_queues),
            offloads: device.offloads.as_ref(),
        };
        let of = Subject {
            id: format!("{}:{}", device.netns, device.ifindex),
            name: device.dev.to_owned(),
        };
        self.of_host(Table::Devices, Some(of.clone()), &row, take)?;
        device.qdiscs.iter().try_for_each(|qdisc| {
            let row = QdiscRow {
                netns: device.netns,
                ifindex: device.ifindex,
                dev: device.dev,
                qdisc,
            };
            let place = qdisc.place();
            let of = Subject {
                id: format!("{} {place}", of.id),
                name: format!("{} {place}", of.name),
            };
            self.of_host(Table::Qdiscs, Some(of), &row, take)
        })
    }

    fn note(&self, take: &mut Take<'_>) -> io::Result<()> {
        let row = match &self.rest {
            Rest::Note { kind, text } => NoteRow {
                kind,
                text: Some(text),
                ..NoteRow::default()
            },
            Rest::Source {
                kind,
                source,
                old_source,
            } => NoteRow {
                kind,
                source: Some(source),
                old_source: Some(old_source),
                ..NoteRow::default()
            },
            Rest::Elsewhere {
                kind,
                namespaces,
                flows,
                denied,
            } => NoteRow {
                kind,
                namespaces: Some(*namespaces),
                flows: Some(*flows),
                denied: Some(*denied),
                ..NoteRow::default()
            },
            _ => return Ok(()),
        };
        self.of_flow(Table::Notes, &row, take)
    }
}

impl Subject {
    fn of(name: String) -> Self {
        Self {
            id: name.clone(),
            name,
        }
    }
}
