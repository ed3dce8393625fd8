//! `SamplePack` → samples, row by row: one sample in memory, of which each row changes what moved.
//!
//! A pack's bytes are looked at twice: [`Rows::begin`] finds the columns and takes out what all rows share, and
//! [`Rows::next`] takes a difference from each column that moves. Nothing is allocated for a row.

use super::columns::{self, Column, END, Setter, for_each_column};
use super::limits;
use super::pack::{COUNT, FLOW, MARKS, SEQUENCE, TIME};
use super::quantity::Cell;
use super::varint::{self, Value};
use crate::event::{Event, FlowId, Payload, Sample};
use crate::units::Mono;

/// Bytes of a chunk's content that are still to be read.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    at: u32,
    end: u32,
}

impl Span {
    /// Where `part`, which is part of `whole`, lies.
    fn of(part: &[u8], whole: &[u8]) -> Self {
        let at = (part.as_ptr() as usize - whole.as_ptr() as usize) as u32;
        Self {
            at,
            end: at + part.len() as u32,
        }
    }

    fn is_empty(self) -> bool {
        self.at == self.end
    }

    fn bytes(self, whole: &[u8]) -> Option<&[u8]> {
        whole.get(self.at as usize..self.end as usize)
    }

    #[inline]
    fn take(&mut self, whole: &[u8]) -> Option<u64> {
        let mut bytes = self.bytes(whole)?;
        let value = varint::take(&mut bytes)?;
        self.at = self.end - bytes.len() as u32;
        Some(value)
    }

    /// Takes the next difference and adds it up.
    #[inline]
    fn step(&mut self, whole: &[u8], value: &mut u64) -> Option<()> {
        let difference = varint::unzigzag(self.take(whole)?);
        *value = value.wrapping_add(difference as u64);
        Some(())
    }
}

/// A column whose content is not the same in all rows.
#[derive(Debug)]
struct Moving {
    set: Setter,
    values: Span,
    value: u64,
    /// Where the value does not change from row to row, the sample has it already.
    keeps: bool,
    /// A row was put into the sample.
    begun: bool,
    /// A row's value holds for all rows.
    single: bool,
    /// It has values at all.
    known: bool,
    marks: Vec<Marks>,
}

/// Rows whose content is no value: runs of rows, in turn not marked and marked.
#[derive(Clone, Copy, Debug)]
struct Marks {
    column: u32,
    runs: Span,
    cell: Cell,
    /// Rows left of the run in hand.
    left: u64,
    marked: bool,
}

/// The rows of one pack. Its memory is used again for another one.
#[derive(Debug)]
pub struct Rows {
    event: Event,
    left: usize,
    places: Span,
    times: Span,
    time: u64,
    moving: Vec<Moving>,
}

impl Default for Rows {
    fn default() -> Self {
        Self {
            event: Event {
                time: Mono(0),
                flow: None,
                payload: Payload::Sample(Box::new(columns::blank())),
            },
            left: 0,
            places: Span::default(),
            times: Span::default(),
            time: 0,
            moving: Vec::new(),
        }
    }
}

impl Rows {
    /// Begins the pack of these bytes, which are part of `content`; hands the places of its rows to `place`.
    /// `None` = damaged, or of a version with values unknown here.
    pub fn begin(
        &mut self,
        bytes: &[u8],
        content: &[u8],
        mut place: impl FnMut(u32) -> Option<()>,
    ) -> Option<()> {
        let pack = Pack::parse(bytes, content)?;
        let (mut places, mut at) = (pack.places, 0u64);
        let mut least = 0;
        for _ in 0..pack.count {
            places.step(content, &mut at)?;
            // They rise, so that rows come in the order of their places.
            let next = u32::try_from(at).ok().filter(|next| *next >= least)?;
            least = next.checked_add(1)?;
            place(next)?;
        }
        let sample = match &mut self.event.payload {
            Payload::Sample(sample) => &mut **sample,
            _ => return None,
        };
        sample.clone_from(&columns::blank());
        self.moving.clear();
        let mut moves = 0u128;
        macro_rules! sort {
            ($column:ident) => {
                let number = columns::$column::NUMBER;
                let rests = columns::$column::RESTS_ON;
                let settled = rests.iter().all(|other| moves >> other & 1 == 0);
                match pack.still(number, content)? {
                    Some(cell) if settled => (columns::$column::SET)(sample, cell)?,
                    _ => {
                        moves |= 1 << number;
                        let keeps = rests.is_empty() && columns::$column::ALONE;
                        let moving = pack.moving(number, columns::$column::SET, keeps, content)?;
                        self.moving.push(moving);
                    }
                }
            };
        }
        for_each_column!(sort);
        debug_assert_eq!(moves.count_ones() as usize, self.moving.len());
        self.event.flow = pack.flow;
        self.left = pack.count;
        self.places = places;
        self.times = pack.times;
        self.time = 0;
        Some(())
    }

    /// Goes on to the next row. `None` = damaged.
    pub fn next(&mut self, content: &[u8]) -> Option<&Event> {
        let Payload::Sample(sample) = &mut self.event.payload else {
            return None;
        };
        self.left = self.left.checked_sub(1)?;
        self.times.step(content, &mut self.time)?;
        self.event.time = Mono(self.time);
        for column in &mut self.moving {
            column.next(content, sample)?;
        }
        let whole = self.left > 0
            || self.places.is_empty()
                && self.times.is_empty()
                && self.moving.iter().all(|column| column.values.is_empty());
        whole.then_some(&self.event)
    }

    /// The row that [`Rows::next`] gave last.
    pub fn event(&self) -> &Event {
        &self.event
    }
}

impl Moving {
    #[inline]
    fn next(&mut self, content: &[u8], sample: &mut Sample) -> Option<()> {
        if self.known && !self.single {
            if self.keeps && self.begun && content.get(self.values.at as usize) == Some(&0) {
                // No difference. An empty span's next byte is another column's: `take` would say so.
                return (self.values.at < self.values.end).then(|| self.values.at += 1);
            }
            self.values.step(content, &mut self.value)?;
        }
        let mut cell = if self.known {
            Cell::Value(self.value)
        } else {
            Cell::Absent
        };
        for marks in &mut self.marks {
            if marks.next(content)? {
                cell = marks.cell;
            }
        }
        self.begun = true;
        (self.set)(sample, cell)
    }
}

impl Marks {
    fn parse(mut bytes: &[u8], content: &[u8]) -> Option<Self> {
        let mut marks = Self {
            column: 0,
            runs: Span::default(),
            cell: Cell::Absent,
            left: 0,
            marked: true,
        };
        while !bytes.is_empty() {
            match varint::field(&mut bytes)? {
                (1, Value::Number(column)) => marks.column = u32::try_from(column).ok()?,
                (2, Value::Bytes(runs)) => marks.runs = Span::of(runs, content),
                (3, Value::Number(unlimited)) if unlimited != 0 => marks.cell = Cell::Unlimited,
                _ => {}
            }
        }
        Some(marks)
    }

    /// Whether the next row is marked.
    fn next(&mut self, content: &[u8]) -> Option<bool> {
        while self.left == 0 {
            if self.runs.is_empty() {
                (self.left, self.marked) = (u64::MAX, false);
            } else {
                (self.left, self.marked) = (self.runs.take(content)?, !self.marked);
            }
        }
        self.left -= 1;
        Some(self.marked)
    }
}

/// What a pack's message holds, not yet looked into.
struct Pack {
    flow: Option<FlowId>,
    count: usize,
    places: Span,
    times: Span,
    columns: [Option<Span>; END],
    marks: Vec<Marks>,
}

impl Pack {
    fn parse(mut bytes: &[u8], content: &[u8]) -> Option<Self> {
        let mut pack = Self {
            flow: None,
            count: 0,
            places: Span::default(),
            times: Span::default(),
            columns: [None; END],
            marks: Vec::new(),
        };
        while !bytes.is_empty() {
            match varint::field(&mut bytes)? {
                (FLOW, Value::Bytes(flow)) => pack.flow = Some(take_flow(flow)?),
                (COUNT, Value::Number(count)) => pack.count = usize::try_from(count).ok()?,
                // Two kinds a column.
                (MARKS, Value::Bytes(marks)) if pack.marks.len() < 2 * END => {
                    pack.marks.push(Marks::parse(marks, content)?);
                }
                (SEQUENCE, Value::Bytes(values)) => pack.places = Span::of(values, content),
                (TIME, Value::Bytes(values)) => pack.times = Span::of(values, content),
                (number, Value::Bytes(values)) if (number as usize) < END && !values.is_empty() => {
                    // In one piece, as it was written.
                    let span = Span::of(values, content);
                    let before = pack.columns[number as usize].replace(span);
                    if before.is_some() {
                        return None;
                    }
                }
                // A column that is not packed is not ours; fields beyond are of a later version.
                (number, _) if (number as usize) < END => return None,
                _ => {}
            }
        }
        // A row takes a byte at least of each.
        let bytes = |span: Span| (span.end - span.at) as usize;
        let most = bytes(pack.places).min(bytes(pack.times));
        (1..=most.min(limits::EVENTS))
            .contains(&pack.count)
            .then_some(pack)
    }

    /// The content that all rows have in a column; `Some(None)` = it moves. `None` = damaged.
    #[expect(clippy::option_option, reason = "damaged, moving, or a value")]
    fn still(&self, number: u32, content: &[u8]) -> Option<Option<Cell>> {
        let marked = self.marks.iter().any(|marks| marks.column == number);
        let Some(mut values) = self.columns[number as usize] else {
            return Some((!marked).then_some(Cell::Absent));
        };
        let mut value = 0;
        values.step(content, &mut value)?;
        Some((values.is_empty() && !marked).then_some(Cell::Value(value)))
    }

    /// A column to be put into the rows one by one.
    fn moving(&self, number: u32, set: Setter, keeps: bool, content: &[u8]) -> Option<Moving> {
        let marks = self.marks.iter().filter(|marks| marks.column == number);
        let mut moving = Moving {
            set,
            values: Span::default(),
            value: 0,
            keeps: false,
            begun: false,
            single: false,
            known: false,
            marks: marks.copied().collect(),
        };
        if let Some(values) = self.columns[number as usize] {
            let (mut rest, mut value) = (values, 0);
            rest.step(content, &mut value)?;
            moving.known = true;
            moving.single = rest.is_empty();
            (moving.values, moving.value) = if moving.single {
                (rest, value)
            } else {
                (values, 0)
            };
            moving.keeps = keeps && moving.marks.is_empty();
        }
        Some(moving)
    }
}

fn take_flow(mut bytes: &[u8]) -> Option<FlowId> {
    let mut flow = FlowId {
        cookie: 0,
        netns: 0,
    };
    while !bytes.is_empty() {
        match varint::field(&mut bytes)? {
            (1, Value::Number(cookie)) => flow.cookie = cookie,
            (2, Value::Number(netns)) => flow.netns = u32::try_from(netns).ok()?,
            _ => {}
        }
    }
    Some(flow)
}
