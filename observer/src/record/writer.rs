//! Events into a file: gathered into a chunk, the samples in a pack a flow, sealed by size or time. What was sealed survives.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mcap::records::MessageHeader;
use mcap::write::NoSeek;

use super::channel::{CHANNELS, Channel, PACKAGE, schema};
use super::environment::{Environment, HOST, LABELS, METADATA, PROFILE, host_metadata};
use super::pack::{Pack, Spare};
use super::{codec, limits};
use crate::event::{Event, FlowId, Payload};
use crate::units::Mono;

/// A chunk is sealed when its events span this much: with the source's ticks of 100 ms, a kill loses less than a second.
pub const SEAL_NS: u64 = 900_000_000;
/// … or are so many: some 5 MB of columns in memory.
const SEAL_EVENTS: usize = 1 << 16;
/// … or their messages, samples apart, take so many bytes.
const SEAL_BYTES: usize = 4 << 20;
/// zstd's: 3 takes a sixth more time for three per cent fewer bytes.
const LEVEL: u32 = 1;
/// Columns whose memory is kept from one chunk to the next.
const SPARE: usize = 1 << 12;

/// Why an event could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("an event of {0} bytes is too large for a recording")]
    TooLarge(usize),
    #[error("the container: {0}")]
    Container(mcap::McapError),
}

impl From<mcap::McapError> for WriteError {
    fn from(error: mcap::McapError) -> Self {
        match error {
            mcap::McapError::Io(error) => Self::Io(error),
            other => Self::Container(other),
        }
    }
}

/// What was written so far, the chunk in hand included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub events: u64,
    pub samples: u64,
    pub flows: u64,
    pub chunks: u64,
    /// Bytes in the file; what is in hand is not among them.
    pub bytes: u64,
}

/// Writes one file.
pub struct Writer<W: Write> {
    mcap: mcap::Writer<NoSeek<Out<W>>>,
    wall_offset_ns: i64,
    chunk: Gathered,
    /// The host is among the metadata.
    host_told: bool,
    totals: Totals,
    written: Arc<AtomicU64>,
}

impl<W: Write> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("totals", &self.totals)
            .finish_non_exhaustive()
    }
}

impl<W: Write> Writer<W> {
    /// Begins a file: header, environment, schemas.
    pub fn new(output: W, environment: &Environment) -> Result<Self, WriteError> {
        let options = mcap::WriteOptions::new()
            .profile(PROFILE)
            .library(format!("observer {}", environment.tool))
            .compression(Some(mcap::Compression::Zstd))
            .compression_level(LEVEL)
            .compression_threads(0)
            .chunk_size(None)
            .disable_seeking(true)
            // 16 bytes a message: more than a sample of a quiet flow takes.
            .emit_message_indexes(false);
        let written = Arc::new(AtomicU64::new(0));
        let mut mcap = options.create(NoSeek::new(Out::new(output, Arc::clone(&written))))?;
        mcap.write_metadata(&mcap::records::Metadata {
            name: METADATA.to_owned(),
            metadata: environment.to_metadata(),
        })?;
        mcap.write_metadata(&mcap::records::Metadata {
            name: LABELS.to_owned(),
            metadata: environment.labels.clone(),
        })?;
        for (channel, topic, message) in CHANNELS {
            let name = format!("{PACKAGE}.{message}");
            let schema = mcap.add_schema(&name, "protobuf", schema(message))?;
            let id = mcap.add_channel(schema, topic, "protobuf", &BTreeMap::new())?;
            debug_assert_eq!(id, id_of(channel));
        }
        mcap.flush()?;
        let mut writer = Self {
            mcap,
            wall_offset_ns: environment.wall_offset_ns.unwrap_or(0),
            chunk: Gathered::default(),
            host_told: false,
            totals: Totals::default(),
            written,
        };
        writer.totals.bytes = writer.written();
        Ok(writer)
    }

    /// Takes an event in; seals the chunk in hand first when it is due. True = a chunk was sealed.
    pub fn push(&mut self, event: &Event) -> Result<bool, WriteError> {
        let sealed = self.chunk.is_due(event.time);
        if sealed {
            self.seal()?;
        }
        if let Payload::Host(host) = &event.payload
            && !std::mem::replace(&mut self.host_told, true)
        {
            self.mcap.write_metadata(&mcap::records::Metadata {
                name: HOST.to_owned(),
                metadata: host_metadata(host),
            })?;
        }
        self.chunk.push(event)?;
        self.totals.events += 1;
        match event.payload {
            Payload::Sample(_) => self.totals.samples += 1,
            Payload::Opened(_) => self.totals.flows += 1,
            _ => {}
        }
        Ok(sealed)
    }

    /// Writes the chunk in hand.
    pub fn seal(&mut self) -> Result<(), WriteError> {
        if self.chunk.events() == 0 {
            return Ok(());
        }
        let Self { mcap, chunk, .. } = self;
        let offset = self.wall_offset_ns;
        let mut write = |channel: Channel, place: u32, time: Mono, message: &[u8]| {
            let header = MessageHeader {
                channel_id: id_of(channel),
                sequence: place,
                log_time: time.0.saturating_add_signed(offset),
                publish_time: time.0,
            };
            mcap.write_to_known_channel(&header, message)
        };
        for message in &chunk.messages {
            let bytes = &chunk.bytes[message.begin..message.end];
            write(message.channel, message.place, message.time, bytes)?;
        }
        let Gathered {
            packs,
            firsts,
            spare,
            packed,
            ..
        } = &mut *chunk;
        for (pack, (place, time)) in packs.iter_mut().zip(firsts) {
            packed.clear();
            pack.finish(spare, packed);
            write(Channel::Samples, *place, *time, packed)?;
        }
        chunk.clear();
        self.mcap.flush()?;
        self.totals.chunks += 1;
        self.totals.bytes = self.written();
        Ok(())
    }

    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Writes what is in hand and the index. Takes the same time however long the recording was, but for the index.
    pub fn finish(mut self) -> Result<Totals, WriteError> {
        self.seal()?;
        self.mcap.finish()?;
        self.totals.bytes = self.written();
        Ok(self.totals)
    }

    /// Bytes that the output took.
    fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

fn id_of(channel: Channel) -> u16 {
    // MCAP's writer counts from 1.
    channel as u16 + 1
}

/// What comes into the next chunk.
#[derive(Debug, Default)]
struct Gathered {
    first: Option<Mono>,
    /// All messages but the samples', one behind the other.
    bytes: Vec<u8>,
    messages: Vec<Placed>,
    /// Packs of this chunk, as many as there are `firsts`; behind them memory of earlier chunks.
    packs: Vec<Pack>,
    /// Place and time of each pack's first sample.
    firsts: Vec<(u32, Mono)>,
    by_flow: HashMap<Option<FlowId>, usize, foldhash::fast::FixedState>,
    events: usize,
    spare: Spare,
    packed: Vec<u8>,
}

/// Where a message is among the bytes gathered.
#[derive(Clone, Copy, Debug)]
struct Placed {
    channel: Channel,
    place: u32,
    time: Mono,
    begin: usize,
    end: usize,
}

impl Gathered {
    fn events(&self) -> usize {
        self.events
    }

    /// Whether what is gathered is to be written before an event of `time` comes in.
    fn is_due(&self, time: Mono) -> bool {
        self.first.is_some_and(|first| time.since(first) >= SEAL_NS)
            || self.events >= SEAL_EVENTS
            || self.bytes.len() >= SEAL_BYTES
    }

    fn push(&mut self, event: &Event) -> Result<(), WriteError> {
        let (place, time) = (self.events as u32, event.time);
        if let Payload::Sample(sample) = &event.payload {
            let Self {
                packs,
                firsts,
                by_flow,
                spare,
                ..
            } = self;
            let at = *by_flow.entry(event.flow).or_insert_with(|| {
                let at = firsts.len();
                if at == packs.len() {
                    packs.push(Pack::default());
                }
                packs[at].begin(event.flow);
                firsts.push((place, time));
                at
            });
            packs[at].push(place, time, sample, spare);
        } else {
            let begin = self.bytes.len();
            if let Some(channel) = codec::encode(event, &mut self.bytes) {
                let end = self.bytes.len();
                if end - begin > limits::RECORD {
                    self.bytes.truncate(begin);
                    return Err(WriteError::TooLarge(end - begin));
                }
                self.messages.push(Placed {
                    channel,
                    place,
                    time,
                    begin,
                    end,
                });
            }
        }
        self.first.get_or_insert(time);
        self.events += 1;
        Ok(())
    }

    fn clear(&mut self) {
        self.first = None;
        self.bytes.clear();
        self.messages.clear();
        self.by_flow.clear();
        self.events = 0;
        // Flows of a busy moment need not keep their memory for ever.
        self.packs.truncate(self.firsts.len() * 2);
        self.spare.trim(SPARE.max(self.firsts.len() * 32));
        self.firsts.clear();
    }
}

/// Takes what the container writes and hands it on in one piece when it is flushed, so that a chunk is there or not.
/// After an error nothing more is written.
#[derive(Debug)]
struct Out<W> {
    inner: W,
    buffer: Vec<u8>,
    written: Arc<AtomicU64>,
    failed: bool,
}

impl<W> Out<W> {
    fn new(inner: W, written: Arc<AtomicU64>) -> Self {
        Self {
            inner,
            buffer: Vec::new(),
            written,
            failed: false,
        }
    }
}

impl<W: Write> Write for Out<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("writing failed before"));
        }
        let done = self
            .inner
            .write_all(&self.buffer)
            .and_then(|()| self.inner.flush());
        self.failed = done.is_err();
        if done.is_ok() {
            self.written
                .fetch_add(self.buffer.len() as u64, Ordering::Relaxed);
        }
        self.buffer.clear();
        done
    }
}
