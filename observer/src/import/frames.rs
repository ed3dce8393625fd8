//! pcap and pcapng: frames one by one with their times, as far as the file is whole.

use std::io::{self, Read};

use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, LegacyPcapReader, Linktype, PcapBlockOwned, PcapError, PcapNGReader};

use super::ImportError;
use super::open::{Bytes, Failed};

/// A frame or block that needs more room than this is damage.
const LARGEST: usize = 16 << 20;
const BUFFER: usize = 256 << 10;

/// One captured frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Nanoseconds since 1970.
    pub wall_ns: u64,
    pub link: Linktype,
    /// What was kept of it.
    pub data: &'a [u8],
    /// How long it was.
    pub orig_len: u32,
}

/// Why frames ended before the file said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// In the middle of a frame.
    Short,
    /// What follows is no frame.
    Damaged,
    /// The bytes cannot be read or unpacked further.
    Unreadable(String),
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Short => f.write_str("it ends in the middle of a packet: the rest is missing"),
            Self::Damaged => f.write_str("what follows is damaged and was left out"),
            Self::Unreadable(why) => write!(f, "it could not be read further: {why}"),
        }
    }
}

/// What the file says beside its frames.
#[derive(Clone, Debug, Default)]
pub struct Told {
    pub cut: Option<Cut>,
    /// Packets that the capturing host counted as lost (pcapng).
    pub dropped: u64,
    /// Frames without a time: simple packet blocks.
    pub timeless: u64,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: Linktype,
    per_second: u64,
    offset_s: i64,
}

enum Format {
    Pcap {
        reader: LegacyPcapReader<Bytes>,
        link: Linktype,
        nanoseconds: bool,
    },
    Pcapng {
        reader: PcapNGReader<Bytes>,
        interfaces: Vec<Interface>,
        /// Highest count told of each interface of the section.
        drops: Vec<u64>,
    },
}

/// Calls `each` with every frame.
pub fn read(
    mut bytes: Bytes,
    mut each: impl FnMut(Frame<'_>) -> Result<(), ImportError>,
) -> Result<Told, ImportError> {
    let failed = bytes.failed();
    let mut magic = [0; 4];
    let known = bytes.read(&mut magic).map_err(ImportError::Read)?;
    if let Some(error) = failed.borrow_mut().take() {
        return Err(ImportError::Read(error));
    }
    let bytes = chained(&magic[..known], bytes);
    let failed_later = bytes.failed();
    let refused = |error: PcapError<&[u8]>| match error {
        PcapError::Incomplete(_) | PcapError::Eof | PcapError::UnexpectedEof => {
            ImportError::Headless
        }
        _ => ImportError::NoCapture,
    };
    let format = match magic {
        [0x0a, 0x0d, 0x0d, 0x0a] => Format::Pcapng {
            reader: PcapNGReader::new(BUFFER, bytes).map_err(refused)?,
            interfaces: Vec::new(),
            drops: Vec::new(),
        },
        [0xd4, 0xc3, 0xb2, 0xa1]
        | [0xa1, 0xb2, 0xc3, 0xd4]
        | [0x4d, 0x3c, 0xb2, 0xa1]
        | [0xa1, 0xb2, 0x3c, 0x4d]
        | [0x34, 0xcd, 0xb2, 0xa1] => Format::Pcap {
            reader: LegacyPcapReader::new(BUFFER, bytes).map_err(refused)?,
            link: Linktype(0),
            nanoseconds: false,
        },
        _ if known < 4 => return Err(ImportError::Headless),
        _ => return Err(ImportError::NoCapture),
    };
    Frames {
        format,
        told: Told::default(),
    }
    .run(&failed_later, &mut each)
}

/// What was looked at stands before the rest again.
fn chained(first: &[u8], rest: Bytes) -> Bytes {
    Bytes::new(Box::new(
        io::Cursor::new(first.to_vec()).chain(Passing(rest)),
    ))
}

/// Tells an error as one, so that the outer reader keeps it.
struct Passing(Bytes);

impl Read for Passing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        let failed = self.0.failed().borrow_mut().take();
        match failed {
            Some(error) if read == 0 => Err(error),
            Some(error) => {
                // Next time.
                *self.0.failed().borrow_mut() = Some(error);
                Ok(read)
            }
            None => Ok(read),
        }
    }
}

struct Frames {
    format: Format,
    told: Told,
}

impl Frames {
    fn run(
        mut self,
        failed: &Failed,
        each: &mut impl FnMut(Frame<'_>) -> Result<(), ImportError>,
    ) -> Result<Told, ImportError> {
        let mut capacity = BUFFER;
        loop {
            let Self { format, told } = &mut self;
            let step = match format {
                Format::Pcap {
                    reader,
                    link,
                    nanoseconds,
                } => step(reader, |block| legacy(block, link, nanoseconds, each)),
                Format::Pcapng {
                    reader,
                    interfaces,
                    drops,
                } => step(reader, |block| {
                    next_generation(block, interfaces, drops, told, each)
                }),
            };
            match step? {
                Step::Block => {}
                Step::TooSmall if capacity < LARGEST => {
                    capacity *= 2;
                    self.grow(capacity);
                }
                Step::TooSmall => return Ok(self.ended(Some(Cut::Damaged))),
                Step::End(cut) => {
                    let unreadable = failed.borrow_mut().take();
                    let cut = unreadable
                        .map(|error| Cut::Unreadable(error.to_string()))
                        .or(cut);
                    return Ok(self.ended(cut));
                }
            }
        }
    }

    fn grow(&mut self, capacity: usize) {
        match &mut self.format {
            Format::Pcap { reader, .. } => reader.grow(capacity),
            Format::Pcapng { reader, .. } => reader.grow(capacity),
        };
    }

    fn ended(mut self, cut: Option<Cut>) -> Told {
        if let Format::Pcapng { drops, .. } = &self.format {
            self.told.dropped = self.told.dropped.saturating_add(sum(drops));
        }
        self.told.cut = cut;
        self.told
    }
}

fn sum(counts: &[u64]) -> u64 {
    counts
        .iter()
        .fold(0, |sum, count| sum.saturating_add(*count))
}

enum Step {
    Block,
    TooSmall,
    End(Option<Cut>),
}

fn step(
    reader: &mut impl PcapReaderIterator,
    take: impl FnOnce(PcapBlockOwned<'_>) -> Result<(), ImportError>,
) -> Result<Step, ImportError> {
    let taken = match reader.next() {
        Ok((offset, block)) => {
            take(block)?;
            Ok(offset)
        }
        Err(PcapError::Incomplete(_)) => Err(None),
        Err(PcapError::BufferTooSmall) => return Ok(Step::TooSmall),
        Err(PcapError::Eof | PcapError::ReadError) => return Ok(Step::End(None)),
        Err(PcapError::UnexpectedEof) => Err(Some(Cut::Short)),
        Err(_) => Err(Some(Cut::Damaged)),
    };
    match taken {
        // A block without a length would be taken for ever.
        Ok(0) => Ok(Step::End(Some(Cut::Damaged))),
        Ok(offset) => {
            reader.consume(offset);
            Ok(Step::Block)
        }
        Err(None) => {
            let before = reader.data().len();
            if reader.refill().is_err() {
                return Ok(Step::End(None));
            }
            // The buffer is full, and more is wanted.
            let stuck = reader.data().len() == before && !reader.reader_exhausted();
            Ok(if stuck { Step::TooSmall } else { Step::Block })
        }
        Err(Some(Cut::Short)) if reader.data().is_empty() => Ok(Step::End(None)),
        Err(cut) => Ok(Step::End(cut)),
    }
}

fn legacy(
    block: PcapBlockOwned<'_>,
    link: &mut Linktype,
    nanoseconds: &mut bool,
    each: &mut impl FnMut(Frame<'_>) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    match block {
        PcapBlockOwned::LegacyHeader(header) => {
            // The upper bits say whether frames have a check sum at their end.
            *link = Linktype(header.network.0 & 0xffff);
            *nanoseconds = header.is_nanosecond_precision();
            Ok(())
        }
        PcapBlockOwned::Legacy(block) => {
            let unit = if *nanoseconds { 1 } else { 1000 };
            each(Frame {
                wall_ns: u64::from(block.ts_sec) * 1_000_000_000 + u64::from(block.ts_usec) * unit,
                link: *link,
                data: kept(block.data, block.caplen),
                orig_len: block.origlen,
            })
        }
        PcapBlockOwned::NG(_) => Ok(()),
    }
}

/// Without the padding of its block.
fn kept(data: &[u8], caplen: u32) -> &[u8] {
    &data[..data.len().min(caplen as usize)]
}

fn next_generation(
    block: PcapBlockOwned<'_>,
    interfaces: &mut Vec<Interface>,
    drops: &mut Vec<u64>,
    told: &mut Told,
    each: &mut impl FnMut(Frame<'_>) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let PcapBlockOwned::NG(block) = block else {
        return Ok(());
    };
    match block {
        Block::SectionHeader(_) => {
            interfaces.clear();
            told.dropped = told.dropped.saturating_add(sum(drops));
            drops.clear();
        }
        // More than any host has: a damaged file must not take memory.
        Block::InterfaceDescription(described) if interfaces.len() < 1 << 16 => {
            interfaces.push(Interface {
                link: described.linktype,
                per_second: described
                    .ts_resolution()
                    .filter(|n| *n > 0)
                    .unwrap_or(1_000_000),
                offset_s: described.ts_offset(),
            });
            drops.push(0);
        }
        Block::InterfaceStatistics(counted) => {
            let count = [counted.isb_ifdrop(), counted.isb_osdrop()]
                .into_iter()
                .filter_map(|count| count?.ok())
                .fold(0_u64, u64::saturating_add);
            if let Some(drops) = drops.get_mut(counted.if_id as usize) {
                *drops = count.max(*drops);
            }
        }
        Block::EnhancedPacket(packet) => {
            if let Some(interface) = interfaces.get(packet.if_id as usize) {
                let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                return each(Frame {
                    wall_ns: interface.wall_ns(units),
                    link: interface.link,
                    data: kept(packet.data, packet.caplen),
                    orig_len: packet.origlen,
                });
            }
        }
        Block::SimplePacket(_) => told.timeless += 1,
        _ => {}
    }
    Ok(())
}

impl Interface {
    fn wall_ns(&self, units: u64) -> u64 {
        let ns = u128::from(units) * 1_000_000_000 / u128::from(self.per_second);
        let ns = i128::try_from(ns).unwrap_or(i128::MAX);
        let ns = ns.saturating_add(i128::from(self.offset_s) * 1_000_000_000);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}
