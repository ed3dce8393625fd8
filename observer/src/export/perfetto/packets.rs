//! Packets of a trace, one after the other: descriptions of tracks, slices, instants, counters.

use std::io::{self, Write};

use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint};

use super::schema::{
    CLEARED, COUNTER, Clock, ClockSnapshot, CounterDescriptor, DebugAnnotation, EXPLICIT, INSTANT,
    MONOTONIC, ProcessDescriptor, REALTIME, SLICE_BEGIN, SLICE_END, TracePacket, TrackDescriptor,
    TrackEvent,
};
use crate::export::table::Cell;

/// All is written by one writer.
const SEQUENCE: u32 = 1;

/// The number of a track.
pub type Track = u64;

/// Writes packets.
pub struct Packets<W> {
    out: W,
    buffer: Vec<u8>,
    tracks: Track,
    begun: bool,
}

impl<W: Write> Packets<W> {
    pub fn new(out: W) -> Self {
        Self {
            out,
            buffer: Vec::new(),
            tracks: 0,
            begun: false,
        }
    }

    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    /// Says which clocks there are, once, before anything else.
    pub fn clocks(&mut self, mono_ns: u64, wall_ns: Option<i64>) -> io::Result<()> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        let clock = |id, timestamp| Clock {
            clock_id: Some(id),
            timestamp: Some(timestamp),
        };
        let wall = wall_ns.and_then(|ns| u64::try_from(ns).ok());
        let clocks = [
            Some(clock(MONOTONIC, mono_ns)),
            wall.map(|ns| clock(REALTIME, ns)),
        ];
        self.packet(&TracePacket {
            clock_snapshot: Some(ClockSnapshot {
                clocks: clocks.into_iter().flatten().collect(),
                primary_trace_clock: Some(MONOTONIC),
            }),
            timestamp: Some(mono_ns),
            timestamp_clock_id: Some(MONOTONIC),
            sequence_flags: Some(CLEARED),
            ..TracePacket::default()
        })
    }

    /// A track with others below it.
    pub fn group(&mut self, name: String, parent: Option<Track>) -> io::Result<Track> {
        self.describe(TrackDescriptor {
            name: Some(name),
            parent_uuid: parent,
            child_ordering: Some(EXPLICIT),
            ..TrackDescriptor::default()
        })
    }

    /// A process, with the tracks of its flows below it.
    pub fn process(&mut self, pid: u32, comm: &str) -> io::Result<Track> {
        self.describe(TrackDescriptor {
            process: Some(ProcessDescriptor {
                pid: i32::try_from(pid).ok(),
                process_name: Some(comm.to_owned()),
            }),
            ..TrackDescriptor::default()
        })
    }

    /// A track of slices or instants.
    pub fn events(&mut self, name: &str, parent: Option<Track>, rank: i32) -> io::Result<Track> {
        self.describe(TrackDescriptor {
            name: Some(name.to_owned()),
            parent_uuid: parent,
            sibling_order_rank: Some(rank),
            ..TrackDescriptor::default()
        })
    }

    /// A track of a number.
    pub fn counter(
        &mut self,
        name: &str,
        unit: &str,
        parent: Track,
        rank: i32,
    ) -> io::Result<Track> {
        self.describe(TrackDescriptor {
            name: Some(name.to_owned()),
            parent_uuid: Some(parent),
            counter: Some(CounterDescriptor {
                unit_name: Some(unit.to_owned()),
            }),
            sibling_order_rank: Some(rank),
            ..TrackDescriptor::default()
        })
    }

    pub fn begin(&mut self, track: Track, mono_ns: u64, name: &str) -> io::Result<()> {
        self.event(mono_ns, SLICE_BEGIN, track, Some(name), Vec::new())
    }

    pub fn end(&mut self, track: Track, mono_ns: u64) -> io::Result<()> {
        self.event(mono_ns, SLICE_END, track, None, Vec::new())
    }

    /// A slice of known length.
    pub fn slice(
        &mut self,
        track: Track,
        (from_ns, to_ns): (u64, u64),
        name: &str,
        facts: Vec<DebugAnnotation>,
    ) -> io::Result<()> {
        self.event(from_ns, SLICE_BEGIN, track, Some(name), facts)?;
        self.end(track, to_ns)
    }

    pub fn instant(
        &mut self,
        track: Track,
        mono_ns: u64,
        name: &str,
        facts: Vec<DebugAnnotation>,
    ) -> io::Result<()> {
        self.event(mono_ns, INSTANT, track, Some(name), facts)
    }

    /// Unknown and unlimited are no number, and leave the track as it is.
    pub fn count(&mut self, track: Track, mono_ns: u64, value: &Cell<'_>) -> io::Result<()> {
        let mut event = TrackEvent {
            r#type: Some(COUNTER),
            track_uuid: Some(track),
            ..TrackEvent::default()
        };
        match value {
            Cell::Unsigned(number) => match i64::try_from(*number) {
                Ok(number) => event.counter_value = Some(number),
                Err(_) => event.double_counter_value = Some(*number as f64),
            },
            Cell::Float(number) => event.double_counter_value = Some(*number),
            _ => return Ok(()),
        }
        self.at(mono_ns, event)
    }

    fn event(
        &mut self,
        mono_ns: u64,
        kind: i32,
        track: Track,
        name: Option<&str>,
        facts: Vec<DebugAnnotation>,
    ) -> io::Result<()> {
        let event = TrackEvent {
            debug_annotations: facts,
            r#type: Some(kind),
            track_uuid: Some(track),
            name: name.map(str::to_owned),
            ..TrackEvent::default()
        };
        self.at(mono_ns, event)
    }

    fn at(&mut self, mono_ns: u64, event: TrackEvent) -> io::Result<()> {
        self.packet(&TracePacket {
            timestamp: Some(mono_ns),
            timestamp_clock_id: Some(MONOTONIC),
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_event: Some(event),
            ..TracePacket::default()
        })
    }

    fn describe(&mut self, mut track: TrackDescriptor) -> io::Result<Track> {
        self.tracks += 1;
        track.uuid = Some(self.tracks);
        self.packet(&TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_descriptor: Some(track),
            ..TracePacket::default()
        })?;
        Ok(self.tracks)
    }

    /// `Trace.packet`, field 1.
    fn packet(&mut self, packet: &TracePacket) -> io::Result<()> {
        self.buffer.clear();
        encode_key(1, WireType::LengthDelimited, &mut self.buffer);
        encode_varint(packet.encoded_len() as u64, &mut self.buffer);
        packet.encode_raw(&mut self.buffer);
        self.out.write_all(&self.buffer)
    }
}

/// A fact that is shown with an event; `None` = unknown.
pub fn fact(name: &str, value: &Cell<'_>) -> Option<DebugAnnotation> {
    let mut fact = DebugAnnotation {
        name: Some(name.to_owned()),
        ..DebugAnnotation::default()
    };
    match value {
        Cell::Unknown => return None,
        Cell::Unlimited => fact.string_value = Some("unlimited".to_owned()),
        Cell::Unsigned(number) => fact.uint_value = Some(*number),
        Cell::Float(number) => fact.double_value = Some(*number),
        Cell::Bool(yes) => fact.bool_value = Some(*yes),
        Cell::Text(text) => fact.string_value = Some(text.clone().into_owned()),
        Cell::Time(time) => fact.string_value = Some(time.to_string()),
    }
    Some(fact)
}
