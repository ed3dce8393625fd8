//! A file back into events: one chunk in memory at a time, torn and damaged files as far as they are whole.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

use super::channel::Channel;
use super::chunk::Unrolled;
use super::container::{Chunk, Damage, Fields, MAGIC, Record, Records, Stop, op};
use super::environment::{Environment, LABELS, METADATA, Newer, PROFILE};
use super::index::Index;
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
    chunk: Unrolled,
    /// Byte where that chunk begins.
    at: u64,
    /// The event it stands at was given.
    taken: bool,
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
            chunk: Unrolled::default(),
            at: data,
            taken: true,
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

    /// The next event; `None` at the end. Only the chunk it is in is in memory, and nothing is copied.
    #[expect(clippy::should_implement_trait, reason = "it lends: no iterator can")]
    pub fn next(&mut self) -> Result<Option<&Event>, ReadError> {
        let event = self.peek()?.is_some();
        self.taken = true;
        Ok(if event { self.chunk.current() } else { None })
    }

    /// The event that [`Reader::next`] will give.
    pub fn peek(&mut self) -> Result<Option<&Event>, ReadError> {
        if self.taken || self.chunk.current().is_none() {
            self.advance()?;
            self.taken = false;
        }
        Ok(self.chunk.current())
    }

    fn advance(&mut self) -> Result<(), ReadError> {
        loop {
            match self.chunk.advance() {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(why) => self.damaged(Damage { at: self.at, why }),
            }
            if self.ended {
                return Ok(());
            }
            self.begin_chunk()?;
        }
    }

    fn begin_chunk(&mut self) -> Result<(), ReadError> {
        let wanted = [op::CHUNK, op::DATA_END, op::FOOTER];
        let record = match self.records.next(&wanted) {
            Ok(record) => record,
            Err(stop) => return self.stop(stop),
        };
        if record.op != op::CHUNK {
            self.finish();
            return Ok(());
        }
        self.at = record.at;
        let begun = self
            .unpacker
            .begin(record, &mut self.channels, &mut self.chunk);
        if let Err(damage) = begun {
            self.damaged(damage);
        }
        Ok(())
    }

    /// Every event of the chunks read so far was given: what comes next begins where [`Reader::progress`] says.
    pub fn is_between_chunks(&self) -> bool {
        self.chunk.is_over() && (self.taken || self.chunk.current().is_none())
    }

    /// The events up to the end of the chunk in hand, or of the next one, for those that have to keep them; `None` at
    /// the end.
    pub fn batch(&mut self) -> Result<Option<Vec<Event>>, ReadError> {
        let mut events = Vec::new();
        while let Some(event) = self.next()? {
            events.push(event.clone());
            if self.is_between_chunks() {
                break;
            }
        }
        Ok((!events.is_empty()).then_some(events))
    }

    /// Goes where every event at or after `time` is still to come; earlier ones may come first.
    pub fn seek(&mut self, index: &Index, time: Mono) -> Result<(), ReadError> {
        self.rewind(index.before(time).unwrap_or(self.data))
    }

    /// Goes to the chunk that begins at byte `at`, as [`Reader::progress`] or the index told it; 0 = the first.
    pub fn rewind(&mut self, at: u64) -> Result<(), ReadError> {
        self.records.seek(at.max(self.data))?;
        self.chunk.clear();
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
        self.begin_chunk()?;
        self.chunk.clear();
        Ok(())
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

/// Unpacks chunks.
struct Unpacker(zstd::bulk::Decompressor<'static>);

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacker").finish_non_exhaustive()
    }
}

impl Unpacker {
    fn new() -> io::Result<Self> {
        Ok(Self(zstd::bulk::Decompressor::new()?))
    }

    /// Begins the chunk of a record.
    fn begin(
        &mut self,
        record: Record<'_>,
        channels: &mut HashMap<u16, Channel>,
        chunk: &mut Unrolled,
    ) -> Result<(), Damage> {
        let at = record.at;
        let damage = |why| Damage { at, why };
        let packed = Chunk::parse(record.content).ok_or(damage("its head does not fit"))?;
        packed
            .unpack(&mut self.0, chunk.content())
            .map_err(damage)?;
        chunk.begin(channels).map_err(damage)
    }
}
