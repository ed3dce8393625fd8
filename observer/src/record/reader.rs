//! A file back into events: one chunk in memory at a time, torn and damaged files as far as they are whole.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

use super::channel::Channel;
use super::container::{Chunk, Damage, Fields, MAGIC, Message, Record, Records, Stop, inside, op};
use super::environment::{Environment, LABELS, METADATA, Newer, PROFILE};
use super::index::Index;
use super::{codec, limits, pack};
use crate::event::Event;
use crate::units::{Mono, escape};

/// Why a file cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("this is no recording: it does not begin as an MCAP file")]
    NotMcap,
    #[error("this MCAP file is no recording of observer: its profile is '{profile}'")]
    Foreign { profile: String },
    #[error(
        "recorded by observer {tool} in format {format}; this version reads up to {}: a newer observer reads it",
        super::FORMAT
    )]
    Newer { format: String, tool: String },
    #[error("the recording ends in its first bytes: nothing was recorded, or it was cut off")]
    Headless,
}

/// How a file ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    pub how: How,
    /// Parts that were left out.
    pub damaged: Vec<Damage>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum How {
    /// It was closed.
    #[default]
    Complete,
    /// All events are there, the index is not.
    NoIndex { at: u64 },
    /// It was not closed, or was cut off: what would follow is missing.
    Truncated { at: u64 },
}

impl Ending {
    /// Nothing that was recorded is missing.
    pub fn is_complete(&self) -> bool {
        self.damaged.is_empty() && !matches!(self.how, How::Truncated { .. })
    }

    /// What is missing, for a person; empty when nothing is.
    pub fn missing(&self) -> Vec<String> {
        let mut told: Vec<String> = self.damaged.iter().map(ToString::to_string).collect();
        if let How::Truncated { at } = self.how {
            told.push(format!(
                "the recording was not closed or was cut off: it ends at byte {at}; when the recorder was killed, what is \
                 missing is its last second at most"
            ));
        }
        told
    }
}

/// Damaged parts that are told one by one.
const MAX_DAMAGES: usize = 100;

/// Reads one file.
#[derive(Debug)]
pub struct Reader<R> {
    records: Records<R>,
    environment: Environment,
    channels: HashMap<u16, Channel>,
    /// Where the records behind the header begin.
    data: u64,
    unpacker: Unpacker,
    ending: Ending,
    ended: bool,
}

impl Reader<BufReader<File>> {
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            let kind = io::ErrorKind::InvalidInput;
            return Err(io::Error::new(kind, "not a regular file").into());
        }
        Self::new(BufReader::with_capacity(1 << 16, file))
    }
}

impl<R: Read + Seek> Reader<R> {
    /// Reads header and environment; refuses what is no recording, or of a later format.
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut records = Records::new(input)?;
        let begin = records.end().min(MAGIC.len() as u64) as usize;
        match headless(records.bytes(begin))? {
            Some(bytes) if bytes == MAGIC => {}
            Some(bytes) if !bytes.is_empty() && !MAGIC.starts_with(bytes) => {
                return Err(ReadError::NotMcap);
            }
            _ => return Err(ReadError::Headless),
        }
        let header = headless(records.next(&[op::HEADER]))?.ok_or(ReadError::Headless)?;
        let profile = Fields(header.content).text().ok_or(ReadError::NotMcap)?;
        if profile != PROFILE {
            let profile = escape(profile);
            return Err(ReadError::Foreign { profile });
        }
        let keys = metadata(&mut records, METADATA)?;
        let mut environment = Environment::from_metadata(keys).map_err(|newer| {
            let Newer { format, tool } = newer;
            ReadError::Newer {
                format: escape(&format),
                tool: escape(&tool),
            }
        })?;
        environment.labels = metadata(&mut records, LABELS)?;
        let data = records.at();
        let mut reader = Self {
            records,
            environment,
            channels: HashMap::new(),
            data,
            unpacker: Unpacker::new()?,
            ending: Ending::default(),
            ended: false,
        };
        // The first chunk says which channel is what; it holds no events.
        reader.learn_channels()?;
        Ok(reader)
    }

    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// How the file ended, once [`Reader::batch`] gave `None`.
    pub fn ending(&self) -> Option<&Ending> {
        self.ended.then_some(&self.ending)
    }

    /// Bytes read of how many.
    pub fn progress(&self) -> (u64, u64) {
        (self.records.at(), self.records.end())
    }

    /// The events of the next chunk in the order they were recorded; `None` at the end.
    pub fn batch(&mut self) -> Result<Option<Vec<Event>>, ReadError> {
        while !self.ended {
            let wanted = [op::CHUNK, op::DATA_END, op::FOOTER];
            let record = match self.records.next(&wanted) {
                Ok(record) => record,
                Err(stop) => {
                    self.stop(stop)?;
                    continue;
                }
            };
            if record.op != op::CHUNK {
                self.finish();
                continue;
            }
            match self.unpacker.events(record, &mut self.channels) {
                Ok(events) if events.is_empty() => {}
                Ok(events) => return Ok(Some(events)),
                Err(damage) => self.damaged(damage),
            }
        }
        Ok(None)
    }

    /// Goes where every event at or after `time` is still to come; earlier ones may come first.
    pub fn seek(&mut self, index: &Index, time: Mono) -> Result<(), ReadError> {
        self.records.seek(index.before(time).unwrap_or(self.data))?;
        self.ending = Ending::default();
        self.ended = false;
        Ok(())
    }

    /// Goes to the chunk that begins at byte `at`, as [`Reader::progress`] or the index told it; 0 = the first.
    pub fn rewind(&mut self, at: u64) -> Result<(), ReadError> {
        self.records.seek(at.max(self.data))?;
        self.ending = Ending::default();
        self.ended = false;
        Ok(())
    }

    /// The index, read or made. Reading goes on where it was.
    pub fn index(&mut self) -> Result<Index, ReadError> {
        let at = self.records.at();
        let offset = self.environment.wall_offset_ns.unwrap_or(0);
        let index = Index::read(&mut self.records, self.data, offset);
        self.records.seek(at)?;
        Ok(index?)
    }

    fn learn_channels(&mut self) -> Result<(), ReadError> {
        match self.records.next(&[op::CHUNK, op::DATA_END]) {
            Ok(record) if record.op == op::CHUNK => {
                if let Err(damage) = self.unpacker.events(record, &mut self.channels) {
                    self.damaged(damage);
                }
                Ok(())
            }
            Ok(_) => {
                self.finish();
                Ok(())
            }
            Err(stop) => self.stop(stop),
        }
    }

    fn damaged(&mut self, damage: Damage) {
        if self.ending.damaged.len() < MAX_DAMAGES {
            self.ending.damaged.push(damage);
        }
    }

    fn stop(&mut self, stop: Stop) -> Result<(), ReadError> {
        match stop {
            Stop::Io(error) => return Err(error.into()),
            Stop::Damaged(damage) => self.damaged(damage),
            Stop::Cut { at } => {
                self.ending.how = How::Truncated { at };
                self.ended = true;
            }
        }
        Ok(())
    }

    /// The data is over: all events came. Whether the rest is whole is seen at the footer and the last bytes.
    fn finish(&mut self) {
        self.ended = true;
        let at = self.records.at();
        let whole = self.records.next(&[op::FOOTER]).is_ok()
            && self
                .records
                .bytes(MAGIC.len())
                .is_ok_and(|bytes| bytes == MAGIC);
        if !whole {
            self.ending.how = How::NoIndex { at };
        }
    }
}

/// Whose beginning is cut off; other errors are told.
fn headless<T>(result: Result<T, Stop>) -> Result<Option<T>, ReadError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Stop::Io(error)) => Err(error.into()),
        Err(Stop::Cut { .. } | Stop::Damaged(_)) => Ok(None),
    }
}

/// The metadata record that has to come next.
fn metadata<R: Read + Seek>(
    records: &mut Records<R>,
    name: &str,
) -> Result<std::collections::BTreeMap<String, String>, ReadError> {
    let record = headless(records.next(&[op::METADATA]))?.ok_or(ReadError::Headless)?;
    let mut fields = Fields(record.content);
    if fields.text() != Some(name) {
        return Err(ReadError::Headless);
    }
    fields.map().ok_or(ReadError::Headless)
}

/// Unpacks chunks; its buffers are used again.
struct Unpacker {
    zstd: zstd::bulk::Decompressor<'static>,
    content: Vec<u8>,
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacker").finish_non_exhaustive()
    }
}

impl Unpacker {
    fn new() -> io::Result<Self> {
        Ok(Self {
            zstd: zstd::bulk::Decompressor::new()?,
            content: Vec::new(),
        })
    }

    /// The events of a chunk, at their places.
    fn events(
        &mut self,
        record: Record<'_>,
        channels: &mut HashMap<u16, Channel>,
    ) -> Result<Vec<Event>, Damage> {
        let at = record.at;
        let damage = |why| Damage { at, why };
        let chunk = Chunk::parse(record.content).ok_or(damage("its head does not fit"))?;
        chunk
            .unpack(&mut self.zstd, &mut self.content)
            .map_err(damage)?;
        let mut slots = Slots::default();
        for inner in inside(&self.content) {
            let (op, content) = inner.ok_or(damage("a record in it does not fit"))?;
            match op {
                op::CHANNEL => {
                    let mut fields = Fields(content);
                    let parts = (fields.u16(), fields.u16(), fields.text());
                    if let (Some(id), Some(_), Some(topic)) = parts
                        && let Some(channel) = Channel::of_topic(topic)
                    {
                        channels.insert(id, channel);
                    }
                }
                op::MESSAGE => {
                    let message =
                        Message::parse(content).ok_or(damage("a message in it does not fit"))?;
                    // A channel of a later version is passed over.
                    if let Some(channel) = channels.get(&message.channel) {
                        slots.message(*channel, &message).ok_or(damage(
                            "a message in it is wrong, or has values unknown to this version",
                        ))?;
                    }
                }
                _ => {}
            }
        }
        Ok(slots.into_events())
    }
}

/// Events of a chunk by their places.
#[derive(Default)]
struct Slots(Vec<Option<Event>>);

impl Slots {
    fn message(&mut self, channel: Channel, message: &Message) -> Option<()> {
        if channel == Channel::Samples {
            return pack::decode(message.payload, |place, event| self.put(place, event));
        }
        let event = codec::decode(channel, Mono(message.mono), message.payload)?;
        self.put(message.place, event)
    }

    /// `None` = the place is taken, or beyond what a chunk may hold.
    fn put(&mut self, place: u32, event: Event) -> Option<()> {
        let place = place as usize;
        if place >= limits::EVENTS {
            return None;
        }
        if place >= self.0.len() {
            self.0.resize_with(place + 1, || None);
        }
        let slot = &mut self.0[place];
        if slot.is_some() {
            return None;
        }
        *slot = Some(event);
        Some(())
    }

    fn into_events(self) -> Vec<Event> {
        self.0.into_iter().flatten().collect()
    }
}
