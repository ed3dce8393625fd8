//! A trace for Perfetto: counter tracks of every flow, slices for the algorithm's phase, the congestion avoidance state and
//! TCP's state, instants for retransmissions, slices for their bursts; backlog and drops of qdiscs.
//!
//! Flows are tracks by their ends, below the process that holds them where that is known when the flow is first seen.

mod packets;
mod schema;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, Write};

use super::Sink;
use super::table::{Cell, Row, Table};
use crate::event::{Event, Payload, Process};
use crate::model::KEEP_CLOSED_NS;
use packets::{Packets, Track, fact};

/// Column of the samples, name of the track, unit.
const COUNTERS: [(&str, &str, &str); 19] = [
    ("cwnd", "cwnd", "segments"),
    ("inflight", "inflight", "segments"),
    ("ssthresh", "ssthresh", "segments"),
    ("pacing_rate_bps", "pacing rate", "bit/s"),
    ("delivery_rate_bps", "delivery rate", "bit/s"),
    ("cc_btlbw_bps", "BtlBw", "bit/s"),
    ("rtt_us", "rtt", "µs"),
    ("srtt_us", "srtt", "µs"),
    ("min_rtt_us", "min rtt", "µs"),
    ("cc_min_rtt_us", "BBR's min rtt", "µs"),
    ("rto_us", "rto", "µs"),
    ("lost", "lost", "segments"),
    ("sacked", "sacked", "segments"),
    ("retrans", "retransmitted, total", "segments"),
    ("bytes_acked", "acknowledged, total", "bytes"),
    ("bytes_sent", "sent, total", "bytes"),
    ("notsent_bytes", "not sent yet", "bytes"),
    ("snd_wnd_bytes", "send window", "bytes"),
    ("delivered_ce", "marked CE, total", "segments"),
];
const QDISC_COUNTERS: [(&str, &str, &str); 4] = [
    ("backlog_bytes", "backlog", "bytes"),
    ("backlog_packets", "backlog", "packets"),
    ("drops", "drops, total", "packets"),
    ("overlimits", "overlimits, total", "packets"),
];
/// Tracks of slices and instants, above the counters.
const SLICES: [&str; 3] = ["phase", "congestion avoidance", "TCP state"];
const PHASE: usize = 0;
const CA: usize = 1;
const TCP: usize = 2;
const EVENTS: [&str; 3] = ["retransmits", "bursts", "lost records"];
const RETRANSMITS: usize = 0;
const BURSTS: usize = 1;
const GAPS: usize = 2;

/// Writes one trace.
pub struct Perfetto<W> {
    packets: Packets<W>,
    places: Places,
    /// Flows by their identity: open ones, and those closed a moment ago, of which a burst may still be told.
    flows: HashMap<String, Flow>,
    /// Closed ones in the order of their end.
    closed: VecDeque<(u64, String)>,
    /// Who holds flows that are not described yet.
    owners: HashMap<String, Process>,
    processes: BTreeMap<Process, Track>,
    qdiscs: BTreeMap<String, Counters>,
    notes: Option<Track>,
    last_ns: u64,
}

impl<W> std::fmt::Debug for Perfetto<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Perfetto").finish_non_exhaustive()
    }
}

/// A flow's tracks, made when there is something to put on them.
struct Flow {
    counters: Counters,
    slices: [Slice; 3],
    events: [Option<Track>; 3],
}

#[derive(Default)]
struct Slice {
    track: Option<Track>,
    open: Option<String>,
}

/// Counter tracks below one, and the values they have.
struct Counters {
    parent: Track,
    tracks: Vec<(Option<Track>, Cell<'static>)>,
}

impl<W: Write> Perfetto<W> {
    pub fn new(out: W) -> Self {
        Self {
            packets: Packets::new(out),
            places: Places::new(),
            flows: HashMap::new(),
            closed: VecDeque::new(),
            owners: HashMap::new(),
            processes: BTreeMap::new(),
            qdiscs: BTreeMap::new(),
            notes: None,
            last_ns: 0,
        }
    }

    /// The tracks of the row's flow, described when it is first met.
    fn flow(&mut self, row: &Row<'_>) -> io::Result<Option<&mut Flow>> {
        let Some(of) = &row.of else { return Ok(None) };
        if !self.flows.contains_key(&of.id) {
            let parent = match self.owners.remove(&of.id) {
                Some(process) => Some(self.process(process)?),
                None => None,
            };
            let name = match self.places.text(row, "cc_name") {
                Some(cc) => format!("{} {cc}", of.name),
                None => of.name.clone(),
            };
            let flow = Flow {
                counters: Counters::new(self.packets.group(name, parent)?, COUNTERS.len()),
                slices: Default::default(),
                events: [None; 3],
            };
            self.flows.insert(of.id.clone(), flow);
        }
        Ok(self.flows.get_mut(&of.id))
    }

    fn process(&mut self, process: Process) -> io::Result<Track> {
        if let Some(track) = self.processes.get(&process) {
            return Ok(*track);
        }
        let track = self.packets.process(process.pid, &process.comm)?;
        self.processes.insert(process, track);
        Ok(track)
    }

    fn sample(&mut self, row: &Row<'_>) -> io::Result<()> {
        let (phase, ca, tcp) = (
            self.places.phase(row),
            self.places.text(row, "ca_state"),
            self.places.text(row, "state"),
        );
        let columns = self.places.samples;
        let Some(flow) = self.flow(row)? else {
            return Ok(());
        };
        // Lent out of the map, so that packets can be written.
        let parent = flow.counters.parent;
        let mut flow = std::mem::replace(flow, Flow::empty(parent));
        let now = row.mono_ns;
        self.turn(&mut flow, PHASE, now, phase.as_deref())?;
        self.turn(&mut flow, CA, now, ca)?;
        self.turn(&mut flow, TCP, now, tcp)?;
        for (at, (column, (_, name, unit))) in columns.iter().zip(COUNTERS).enumerate() {
            if let Some(cell) = column.and_then(|column| row.cells.get(column)) {
                flow.counters
                    .put(&mut self.packets, at, (name, unit), now, cell)?;
            }
        }
        self.put_back(row, flow);
        Ok(())
    }

    fn put_back(&mut self, row: &Row<'_>, flow: Flow) {
        if let Some(of) = &row.of {
            self.flows.insert(of.id.clone(), flow);
        }
    }

    /// Ends the slice that is open and begins the next, where it is another.
    fn turn(
        &mut self,
        flow: &mut Flow,
        which: usize,
        now: u64,
        name: Option<&str>,
    ) -> io::Result<()> {
        let slice = &mut flow.slices[which];
        if slice.open.as_deref() == name {
            return Ok(());
        }
        let track = match slice.track {
            Some(track) => track,
            None => self
                .packets
                .events(SLICES[which], Some(flow.counters.parent), which as i32)?,
        };
        slice.track = Some(track);
        if slice.open.take().is_some() {
            self.packets.end(track, now)?;
        }
        if let Some(name) = name {
            self.packets.begin(track, now, name)?;
            slice.open = Some(name.to_owned());
        }
        Ok(())
    }

    /// A track of events of the row's flow.
    fn events(&mut self, row: &Row<'_>, which: usize) -> io::Result<Option<Track>> {
        let Some(flow) = self.flow(row)? else {
            return Ok(None);
        };
        if let Some(track) = flow.events[which] {
            return Ok(Some(track));
        }
        let parent = flow.counters.parent;
        let rank = (SLICES.len() + which) as i32;
        let track = self.packets.events(EVENTS[which], Some(parent), rank)?;
        if let Some(flow) = self.flow(row)? {
            flow.events[which] = Some(track);
        }
        Ok(Some(track))
    }

    fn state(&mut self, row: &Row<'_>) -> io::Result<()> {
        let of = self.places.text(row, "of").map(str::to_owned);
        let new = self.places.text(row, "new").map(str::to_owned);
        let Some(flow) = self.flow(row)? else {
            return Ok(());
        };
        let parent = flow.counters.parent;
        let mut flow = std::mem::replace(flow, Flow::empty(parent));
        let which = if of.as_deref() == Some("ca") { CA } else { TCP };
        self.turn(&mut flow, which, row.mono_ns, new.as_deref())?;
        self.put_back(row, flow);
        Ok(())
    }

    /// The flow has ended, or the recording has.
    fn close(&mut self, row: &Row<'_>) -> io::Result<()> {
        let Some(of) = &row.of else { return Ok(()) };
        self.owners.remove(&of.id);
        if let Some(mut flow) = self.flows.remove(&of.id) {
            for which in 0..SLICES.len() {
                self.turn(&mut flow, which, row.mono_ns, None)?;
            }
            self.put_back(row, flow);
            self.closed.push_back((row.mono_ns, of.id.clone()));
        }
        Ok(())
    }

    fn qdisc(&mut self, row: &Row<'_>) -> io::Result<()> {
        let Some(of) = &row.of else { return Ok(()) };
        if !self.qdiscs.contains_key(&of.id) {
            let track = self.packets.group(format!("qdisc {}", of.name), None)?;
            let counters = Counters::new(track, QDISC_COUNTERS.len());
            self.qdiscs.insert(of.id.clone(), counters);
        }
        let Some(counters) = self.qdiscs.get_mut(&of.id) else {
            return Ok(());
        };
        for (at, (column, name, unit)) in QDISC_COUNTERS.into_iter().enumerate() {
            let name = format!("{name} {unit}");
            if let Some(cell) = self.places.cell(row, column) {
                counters.put(&mut self.packets, at, (&name, unit), row.mono_ns, cell)?;
            }
        }
        Ok(())
    }

    fn note(&mut self, row: &Row<'_>) -> io::Result<()> {
        let Some(text) = self.places.text(row, "text") else {
            return Ok(());
        };
        let text = text.to_owned();
        let track = match self.notes {
            Some(track) => track,
            None => self.packets.events("notes", None, 0)?,
        };
        self.notes = Some(track);
        let facts = self
            .places
            .facts(row, &["kind", "flow_local", "flow_remote"]);
        self.packets.instant(track, row.mono_ns, &text, facts)
    }

    fn retransmit(&mut self, row: &Row<'_>) -> io::Result<()> {
        let Some(track) = self.events(row, RETRANSMITS)? else {
            return Ok(());
        };
        let kind = self.places.text(row, "kind").unwrap_or("other").to_owned();
        let keys = [
            "seq", "end_seq", "bytes", "segments", "ca_state", "failed", "rtt_us", "cwnd",
        ];
        let facts = self.places.facts(row, &keys);
        self.packets.instant(track, row.mono_ns, &kind, facts)
    }

    fn burst(&mut self, row: &Row<'_>) -> io::Result<()> {
        let Some(track) = self.events(row, BURSTS)? else {
            return Ok(());
        };
        let moment = |key| match self.places.cell(row, key) {
            Some(Cell::Unsigned(ns)) => *ns,
            _ => row.mono_ns,
        };
        let span = (moment("start_mono_ns"), moment("end_mono_ns"));
        let facts = self
            .places
            .facts(row, &["segments", "bytes", "failed", "rtt_above_min_us"]);
        self.packets.slice(track, span, "burst", facts)
    }

    fn gap(&mut self, row: &Row<'_>) -> io::Result<()> {
        let Some(track) = self.events(row, GAPS)? else {
            return Ok(());
        };
        let facts = self.places.facts(row, &["missing"]);
        self.packets.instant(track, row.mono_ns, "lost", facts)
    }
}

impl<W: Write> Sink<W> for Perfetto<W> {
    fn foresee(&mut self, events: &[Event]) {
        for event in events {
            if let (Some(flow), Payload::Owners(owners)) = (event.flow, &event.payload)
                && let Some(first) = owners.first()
            {
                let flow = flow.to_string();
                if !self.flows.contains_key(&flow) {
                    self.owners.insert(flow, first.clone());
                }
            }
        }
    }

    fn row(&mut self, row: Row<'_>) -> io::Result<()> {
        self.packets.clocks(row.mono_ns, row.wall_ns)?;
        self.last_ns = self.last_ns.max(row.mono_ns);
        while let Some((_, id)) = self
            .closed
            .pop_front_if(|(at, _)| at.saturating_add(KEEP_CLOSED_NS) < row.mono_ns)
        {
            // Events of it may have come after its end.
            if self.flows.get(&id).is_some_and(Flow::is_idle) {
                self.flows.remove(&id);
            }
        }
        match row.table {
            Table::Samples => self.sample(&row),
            Table::Retransmits => self.retransmit(&row),
            Table::Bursts => self.burst(&row),
            Table::States => self.state(&row),
            Table::Flows => self.close(&row),
            Table::Qdiscs => self.qdisc(&row),
            Table::Gaps => self.gap(&row),
            Table::Notes => self.note(&row),
            Table::Phases
            | Table::Verdicts
            | Table::Attributes
            | Table::Owners
            | Table::Devices
            | Table::Hosts
            | Table::Counters
            | Table::Costs => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> io::Result<Vec<W>> {
        // Flows that went out of sight without an end.
        for (_, mut flow) in std::mem::take(&mut self.flows) {
            for which in 0..SLICES.len() {
                let now = self.last_ns;
                self.turn(&mut flow, which, now, None)?;
            }
        }
        Ok(vec![self.packets.finish()?])
    }
}

impl Flow {
    fn is_idle(&self) -> bool {
        self.slices.iter().all(|slice| slice.open.is_none())
    }

    fn empty(parent: Track) -> Self {
        Self {
            counters: Counters::new(parent, 0),
            slices: Default::default(),
            events: [None; 3],
        }
    }
}

impl Counters {
    fn new(parent: Track, count: usize) -> Self {
        Self {
            parent,
            tracks: vec![(None, Cell::Unknown); count],
        }
    }

    /// Writes the value where it is another than before.
    fn put<W: Write>(
        &mut self,
        packets: &mut Packets<W>,
        at: usize,
        (name, unit): (&str, &str),
        now: u64,
        cell: &Cell<'_>,
    ) -> io::Result<()> {
        let Some((track, last)) = self.tracks.get_mut(at) else {
            return Ok(());
        };
        let value = match cell {
            Cell::Unsigned(number) => Cell::Unsigned(*number),
            Cell::Float(number) => Cell::Float(*number),
            _ => return Ok(()),
        };
        if *last == value {
            return Ok(());
        }
        let track = if let Some(track) = *track {
            track
        } else {
            let rank = (SLICES.len() + EVENTS.len() + at) as i32;
            *track.insert(packets.counter(name, unit, self.parent, rank)?)
        };
        packets.count(track, now, &value)?;
        *last = value;
        Ok(())
    }
}

/// Where the columns are.
struct Places {
    columns: HashMap<Table, HashMap<String, usize>>,
    /// Of [`COUNTERS`].
    samples: [Option<usize>; COUNTERS.len()],
}

impl Places {
    fn new() -> Self {
        let columns: HashMap<_, HashMap<_, _>> = Table::ALL
            .into_iter()
            .map(|table| {
                let names = table.columns().into_iter().map(|column| column.name);
                (
                    table,
                    names.enumerate().map(|(at, name)| (name, at)).collect(),
                )
            })
            .collect();
        let samples = COUNTERS.map(|(name, ..)| columns[&Table::Samples].get(name).copied());
        Self { columns, samples }
    }

    fn cell<'r>(&self, row: &'r Row<'_>, name: &str) -> Option<&'r Cell<'r>> {
        row.cells.get(*self.columns.get(&row.table)?.get(name)?)
    }

    fn text<'r>(&self, row: &'r Row<'_>, name: &str) -> Option<&'r str> {
        match self.cell(row, name)? {
            Cell::Text(text) => Some(text),
            _ => None,
        }
    }

    /// `PROBE_BW UP`.
    fn phase(&self, row: &Row<'_>) -> Option<String> {
        let phase = self.text(row, "cc_phase")?;
        Some(match self.text(row, "cc_sub_phase") {
            Some(sub_phase) => format!("{phase} {sub_phase}"),
            None => phase.to_owned(),
        })
    }

    fn facts(&self, row: &Row<'_>, names: &[&str]) -> Vec<schema::DebugAnnotation> {
        let known = names
            .iter()
            .filter_map(|name| fact(name, self.cell(row, name)?));
        known.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_asked_for_is_there() {
        let places = Places::new();
        for (at, (name, ..)) in places.samples.iter().zip(COUNTERS) {
            assert!(at.is_some(), "{name}");
        }
        let named = [
            (
                Table::Samples,
                vec!["cc_name", "cc_phase", "cc_sub_phase", "ca_state", "state"],
            ),
            (Table::States, vec!["of", "new"]),
            (
                Table::Retransmits,
                vec![
                    "kind", "seq", "end_seq", "bytes", "segments", "ca_state", "failed", "rtt_us",
                    "cwnd",
                ],
            ),
            (
                Table::Bursts,
                vec![
                    "start_mono_ns",
                    "end_mono_ns",
                    "segments",
                    "bytes",
                    "failed",
                    "rtt_above_min_us",
                ],
            ),
            (Table::Gaps, vec!["missing"]),
            (
                Table::Notes,
                vec!["text", "kind", "flow_local", "flow_remote"],
            ),
            (Table::Qdiscs, QDISC_COUNTERS.map(|(name, ..)| name).into()),
        ];
        for (table, names) in named {
            for name in names {
                assert!(places.columns[&table].contains_key(name), "{name}");
            }
        }
    }
}
