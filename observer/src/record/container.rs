//! MCAP as it is read: records one after the other, chunks unpacked. Everything is bounded: a length is looked at
//! before it is allocated, and what is cut off is told apart from what is wrong.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};

use super::limits;

/// First and last bytes of the format.
pub const MAGIC: [u8; 8] = *b"\x89MCAP0\r\n";
/// Bytes before a record's content: opcode, length.
pub const HEAD: u64 = 9;

/// Opcodes (`mcap.dev/spec`).
pub mod op {
    pub const HEADER: u8 = 0x01;
    pub const FOOTER: u8 = 0x02;
    pub const CHANNEL: u8 = 0x04;
    pub const MESSAGE: u8 = 0x05;
    pub const CHUNK: u8 = 0x06;
    pub const CHUNK_INDEX: u8 = 0x08;
    pub const METADATA: u8 = 0x0c;
    pub const DATA_END: u8 = 0x0f;
}

/// A part of a file that is whole but wrong: it is left out, and said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what begins at byte {at} is damaged: {why}")]
pub struct Damage {
    pub at: u64,
    pub why: &'static str,
}

/// Why the next record cannot be had.
#[derive(Debug)]
pub enum Stop {
    /// The file ends within the record that begins there, or where one should.
    Cut {
        at: u64,
    },
    Damaged(Damage),
    Io(io::Error),
}

/// A record's kind, place and content.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub op: u8,
    pub at: u64,
    pub content: &'a [u8],
}

/// Reads records in the order of the file.
#[derive(Debug)]
pub struct Records<R> {
    input: R,
    at: u64,
    end: u64,
    buffer: Vec<u8>,
}

impl<R: Read + Seek> Records<R> {
    pub fn new(mut input: R) -> io::Result<Self> {
        let end = input.seek(SeekFrom::End(0))?;
        input.seek(SeekFrom::Start(0))?;
        Ok(Self {
            input,
            at: 0,
            end,
            buffer: Vec::new(),
        })
    }

    /// Where the next record begins.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The file's length when it was opened.
    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn seek(&mut self, at: u64) -> io::Result<()> {
        self.at = self.input.seek(SeekFrom::Start(at))?;
        Ok(())
    }

    /// The next `length` bytes, which are no record.
    pub fn bytes(&mut self, length: usize) -> Result<&[u8], Stop> {
        let at = self.at;
        self.fill(at, length)?;
        Ok(&self.buffer)
    }

    /// The next record's kind, place and length; its content is next.
    pub fn head(&mut self) -> Result<(u8, u64, u64), Stop> {
        let at = self.at;
        self.fill(at, HEAD as usize)?;
        let (op, length) = self.buffer.split_at(1);
        let length = u64::from_le_bytes(length.try_into().unwrap_or_default());
        if length > self.end.saturating_sub(self.at) {
            return Err(Stop::Cut { at });
        }
        Ok((op[0], at, length))
    }

    /// Goes on behind a content of this length.
    pub fn skip(&mut self, length: u64) -> Result<(), Stop> {
        self.seek(self.at.saturating_add(length)).map_err(Stop::Io)
    }

    /// The next record of those kinds; others are passed over.
    pub fn next(&mut self, wanted: &[u8]) -> Result<Record<'_>, Stop> {
        let (op, at, length) = loop {
            let (op, at, length) = self.head()?;
            if wanted.contains(&op) {
                break (op, at, length);
            }
            self.skip(length)?;
        };
        let most = if op == op::CHUNK {
            limits::CHUNK
        } else {
            limits::RECORD
        };
        if length > most as u64 {
            self.skip(length)?;
            let why = "it is larger than any that is written";
            return Err(Stop::Damaged(Damage { at, why }));
        }
        self.fill(at, length as usize)?;
        Ok(Record {
            op,
            at,
            content: &self.buffer,
        })
    }

    /// Reads exactly so many bytes into the buffer; the file ends in what began at `at` otherwise.
    fn fill(&mut self, at: u64, length: usize) -> Result<(), Stop> {
        if length as u64 > self.end.saturating_sub(self.at) {
            return Err(Stop::Cut { at });
        }
        self.buffer.resize(length, 0);
        match self.input.read_exact(&mut self.buffer) {
            Ok(()) => {
                self.at += length as u64;
                Ok(())
            }
            // It became shorter meanwhile.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Stop::Cut { at }),
            Err(error) => Err(Stop::Io(error)),
        }
    }
}

/// Takes the parts of a record off the front. `None` = it ends before.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    pub fn text(&mut self) -> Option<&'a str> {
        let length = self.u32()? as usize;
        std::str::from_utf8(self.take(length)?).ok()
    }

    pub fn map(&mut self) -> Option<BTreeMap<String, String>> {
        let length = self.u32()? as usize;
        let mut inside = Fields(self.take(length)?);
        let mut map = BTreeMap::new();
        while !inside.0.is_empty() {
            let key = inside.text()?.to_owned();
            map.insert(key, inside.text()?.to_owned());
        }
        Some(map)
    }
}

/// A chunk: how its content is packed.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    size: u64,
    crc: u32,
    compression: &'a str,
    packed: &'a [u8],
}

/// Bytes at the beginning of a chunk's record that say of which time it is.
pub const CHUNK_TIMES: usize = 8 + 8;

impl<'a> Chunk<'a> {
    /// Its first and last wall time, from the record's first bytes.
    pub fn times(content: &[u8]) -> Option<(u64, u64)> {
        let mut fields = Fields(content);
        Some((fields.u64()?, fields.u64()?))
    }

    pub fn parse(content: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(content);
        fields.take(CHUNK_TIMES)?;
        let (size, crc) = (fields.u64()?, fields.u32()?);
        let compression = fields.text()?;
        let length = usize::try_from(fields.u64()?).ok()?;
        let packed = fields.take(length)?;
        Some(Self {
            size,
            crc,
            compression,
            packed,
        })
    }

    /// Unpacks the content into `out`, or says what is wrong with it.
    pub fn unpack(
        &self,
        zstd: &mut zstd::bulk::Decompressor<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), &'static str> {
        let size = usize::try_from(self.size)
            .ok()
            .filter(|size| *size <= limits::CHUNK)
            .ok_or("its content is larger than any that is written")?;
        out.clear();
        match self.compression {
            "" if self.packed.len() == size => out.extend_from_slice(self.packed),
            "zstd" => {
                out.reserve(size);
                let got = zstd.decompress_to_buffer(self.packed, out);
                if got.ok() != Some(size) {
                    return Err("it does not unpack");
                }
            }
            "" => return Err("its length is not what it says"),
            _ => return Err("it is packed in a way that is unknown here"),
        }
        // 0 = not computed.
        if self.crc != 0 && crc32fast::hash(out) != self.crc {
            return Err("its checksum does not fit");
        }
        Ok(())
    }
}

/// The records in a chunk's content. `None` in the place of one = the rest is damaged.
pub fn inside(content: &[u8]) -> impl Iterator<Item = Option<(u8, &[u8])>> {
    let mut rest = content;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let record = (|| {
            let (head, behind) = rest.split_at_checked(HEAD as usize)?;
            let length = u64::from_le_bytes(head[1..].try_into().ok()?);
            let (record, behind) = behind.split_at_checked(usize::try_from(length).ok()?)?;
            rest = behind;
            Some((head[0], record))
        })();
        if record.is_none() {
            rest = &[];
        }
        Some(record)
    })
}

/// A message's head: channel, place within the chunk, time of the host's monotonic clock.
pub struct Message<'a> {
    pub channel: u16,
    pub place: u32,
    pub mono: u64,
    pub payload: &'a [u8],
}

impl<'a> Message<'a> {
    pub fn parse(content: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(content);
        let (channel, place) = (fields.u16()?, fields.u32()?);
        let (_log_time, mono) = (fields.u64()?, fields.u64()?);
        Some(Self {
            channel,
            place,
            mono,
            payload: fields.0,
        })
    }
}
