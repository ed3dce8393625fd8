//! Where in a file which time is: from the summary, or by looking at every chunk's head where there is none.

use std::io::{Read, Seek};

use super::container::{CHUNK_TIMES, Chunk, Fields, HEAD, MAGIC, Records, Stop, op};
use super::limits;
use crate::units::Mono;

/// A chunk's place and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub at: u64,
    /// First and last moment of its messages; the rows of a pack may lie behind.
    pub start: Mono,
    pub end: Mono,
}

/// The chunks of a file, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    pub entries: Vec<Entry>,
    /// There was none in the file: it was made by looking through it.
    pub rebuilt: bool,
}

/// Bytes of a footer's record and the magic behind it.
const TAIL: u64 = HEAD + 8 + 8 + 4 + 8;

impl Index {
    /// The index of a file whose data begins at `data`.
    pub fn read<R: Read + Seek>(
        records: &mut Records<R>,
        data: u64,
        wall_offset_ns: i64,
    ) -> std::io::Result<Self> {
        match Self::from_summary(records, data, wall_offset_ns) {
            Err(Stop::Io(error)) => Err(error),
            Ok(Some(entries)) => Ok(Self {
                entries,
                rebuilt: false,
            }),
            Ok(None) | Err(_) => Ok(Self {
                entries: Self::scan(records, data, wall_offset_ns)?,
                rebuilt: true,
            }),
        }
    }

    /// Where to begin so that every event at or after `time` comes: `None` = there is no chunk.
    pub fn before(&self, time: Mono) -> Option<u64> {
        let at = self.entries.iter().position(|entry| entry.end >= time);
        let at = at.unwrap_or(self.entries.len());
        // The rows of a pack go on behind its message's time.
        self.entries.get(at.saturating_sub(1)).map(|entry| entry.at)
    }

    fn from_summary<R: Read + Seek>(
        records: &mut Records<R>,
        data: u64,
        wall_offset_ns: i64,
    ) -> Result<Option<Vec<Entry>>, Stop> {
        let Some(tail) = records.end().checked_sub(TAIL).filter(|at| *at >= data) else {
            return Ok(None);
        };
        records.seek(tail).map_err(Stop::Io)?;
        let (op, _, length) = records.head()?;
        if op != op::FOOTER || length != TAIL - HEAD - 8 {
            return Ok(None);
        }
        let content = records.bytes(length as usize)?;
        let Some(summary) = Fields(content).u64() else {
            return Ok(None);
        };
        if records.bytes(MAGIC.len())? != MAGIC || !(data..tail).contains(&summary) {
            return Ok(None);
        }
        records.seek(summary).map_err(Stop::Io)?;
        let mut entries = Vec::new();
        loop {
            let record = records.next(&[op::CHUNK_INDEX, op::FOOTER])?;
            if record.op == op::FOOTER {
                return Ok(Some(entries));
            }
            let mut fields = Fields(record.content);
            let parts = (fields.u64(), fields.u64(), fields.u64());
            let (Some(start), Some(end), Some(at)) = parts else {
                return Ok(None);
            };
            // A place outside of the data is no place.
            if !(data..summary).contains(&at) || entries.len() >= limits::CHUNKS {
                return Ok(None);
            }
            entries.extend(entry(at, start, end, wall_offset_ns));
        }
    }

    /// Looks at the head of every chunk; what is packed in it is passed over.
    fn scan<R: Read + Seek>(
        records: &mut Records<R>,
        data: u64,
        wall_offset_ns: i64,
    ) -> std::io::Result<Vec<Entry>> {
        records.seek(data)?;
        let mut entries = Vec::new();
        while entries.len() < limits::CHUNKS {
            let (op, at, length) = match records.head() {
                Ok(head) => head,
                Err(Stop::Io(error)) => return Err(error),
                Err(Stop::Cut { .. } | Stop::Damaged(_)) => break,
            };
            if op == op::DATA_END {
                break;
            }
            let behind = records.at() + length;
            if op == op::CHUNK {
                let head = (CHUNK_TIMES as u64).min(length) as usize;
                match records.bytes(head) {
                    Ok(content) => {
                        if let Some((start, end)) = Chunk::times(content) {
                            entries.extend(entry(at, start, end, wall_offset_ns));
                        }
                    }
                    Err(Stop::Io(error)) => return Err(error),
                    Err(Stop::Cut { .. } | Stop::Damaged(_)) => break,
                }
            }
            records.seek(behind)?;
        }
        Ok(entries)
    }
}

/// A chunk without messages (it holds the schemas) has no time.
fn entry(at: u64, start: u64, end: u64, wall_offset_ns: i64) -> Option<Entry> {
    let mono = |wall: u64| {
        let mono = i128::from(wall) - i128::from(wall_offset_ns);
        Mono(u64::try_from(mono.max(0)).unwrap_or(u64::MAX))
    };
    (end != 0).then(|| Entry {
        at,
        start: mono(start),
        end: mono(end),
    })
}
