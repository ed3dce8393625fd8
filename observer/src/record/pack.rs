//! Samples of one flow ↔ `SamplePack`: columns of differences, constant ones once, unknown ones not at all.
//!
//! Written by hand against the schema: it is the hot path of both directions. A test decodes it by the generated code.

use super::columns::{self, Column, END, for_each_column};
use super::limits;
use super::quantity::{Cell, Quantity};
use super::varint::{self, Value};
use crate::event::{Event, FlowId, Payload, Sample};
use crate::units::Mono;

/// One sample of the flow.
#[derive(Clone, Debug)]
pub struct Row {
    /// Place within the chunk.
    pub place: u32,
    pub time: Mono,
    pub sample: Sample,
}

const FLOW: u32 = 1;
const COUNT: u32 = 2;
const MARKS: u32 = 3;
const SEQUENCE: u32 = 4;
const TIME: u32 = 5;

/// Appends the message of `rows`, which are not none.
pub fn encode(flow: Option<FlowId>, rows: &[Row], scratch: &mut Scratch, out: &mut Vec<u8>) {
    if let Some(flow) = flow {
        scratch.values.clear();
        put_flow(flow, &mut scratch.values);
        varint::put_bytes(out, FLOW, &scratch.values);
    }
    varint::put_number(out, COUNT, rows.len() as u64);
    differences(SEQUENCE, rows, |row| u64::from(row.place), scratch, out);
    differences(TIME, rows, |row| row.time.0, scratch, out);
    // Which columns move is found row by row: both rows are in the cache then.
    let mut moving = 0u128;
    for pair in rows.windows(2) {
        let (before, after) = (&pair[0].sample, &pair[1].sample);
        macro_rules! compare {
            ($column:ident) => {
                moving |= u128::from(columns::$column::get(before) != columns::$column::get(after))
                    << columns::$column::NUMBER;
            };
        }
        for_each_column!(compare);
    }
    macro_rules! encode {
        ($column:ident) => {
            if moving >> columns::$column::NUMBER & 1 == 1 {
                moving_column::<columns::$column>(rows, scratch, out);
            } else {
                still_column::<columns::$column>(rows, scratch, out);
            }
        };
    }
    for_each_column!(encode);
}

/// Buffers that are used again.
#[derive(Debug, Default)]
pub struct Scratch {
    values: Vec<u8>,
    absent: Runs,
    unlimited: Runs,
}

fn put_flow(flow: FlowId, out: &mut Vec<u8>) {
    varint::put_number(out, 1, flow.cookie);
    varint::put_number(out, 2, u64::from(flow.netns));
}

fn differences(
    number: u32,
    rows: &[Row],
    value: impl Fn(&Row) -> u64,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) {
    scratch.values.clear();
    let mut before = 0u64;
    for row in rows {
        let value = value(row);
        let difference = value.wrapping_sub(before) as i64;
        varint::put(&mut scratch.values, varint::zigzag(difference));
        before = value;
    }
    varint::put_bytes(out, number, &scratch.values);
}

/// A column with the same content in all rows.
fn still_column<C: Column>(rows: &[Row], scratch: &mut Scratch, out: &mut Vec<u8>) {
    let Some(first) = rows.first() else { return };
    match C::get(&first.sample).cell() {
        Cell::Absent => {}
        Cell::Value(value) => {
            scratch.values.clear();
            varint::put(&mut scratch.values, varint::zigzag(value as i64));
            varint::put_bytes(out, C::NUMBER, &scratch.values);
        }
        Cell::Unlimited => {
            scratch.unlimited.clear();
            scratch.unlimited.add(true, rows.len());
            scratch
                .unlimited
                .put(C::NUMBER, true, &mut scratch.values, out);
        }
    }
}

fn moving_column<C: Column>(rows: &[Row], scratch: &mut Scratch, out: &mut Vec<u8>) {
    scratch.values.clear();
    scratch.absent.clear();
    scratch.unlimited.clear();
    let (mut before, mut any) = (0u64, false);
    for row in rows {
        let cell = C::get(&row.sample).cell();
        // A row without a value repeats the one before: it costs a zero.
        let mut value = before;
        if let Cell::Value(known) = cell {
            (value, any) = (known, true);
        }
        scratch.absent.add(cell == Cell::Absent, 1);
        scratch.unlimited.add(cell == Cell::Unlimited, 1);
        let difference = value.wrapping_sub(before) as i64;
        varint::put(&mut scratch.values, varint::zigzag(difference));
        before = value;
    }
    if any {
        varint::put_bytes(out, C::NUMBER, &scratch.values);
        scratch
            .absent
            .put(C::NUMBER, false, &mut scratch.values, out);
    }
    scratch
        .unlimited
        .put(C::NUMBER, true, &mut scratch.values, out);
}

/// Lengths of runs of rows: not marked, marked, not marked …
#[derive(Debug, Default)]
struct Runs {
    lengths: Vec<u64>,
}

impl Runs {
    fn clear(&mut self) {
        self.lengths.clear();
    }

    #[inline]
    fn add(&mut self, marked: bool, rows: usize) {
        // The first run is of rows that are not marked; so an odd number of runs ends with such a one.
        let last_marked = self.lengths.len().is_multiple_of(2);
        match self.lengths.last_mut() {
            Some(last) if last_marked == marked => *last += rows as u64,
            None if marked => self.lengths.extend([0, rows as u64]),
            _ => self.lengths.push(rows as u64),
        }
    }

    /// Appends the `Marks` of a column, unless no row is marked.
    fn put(&self, column: u32, unlimited: bool, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        if self.lengths.len() < 2 {
            return;
        }
        let mut runs = Vec::new();
        for length in &self.lengths {
            varint::put(&mut runs, *length);
        }
        scratch.clear();
        varint::put_number(scratch, 1, u64::from(column));
        varint::put_bytes(scratch, 2, &runs);
        if unlimited {
            varint::put_number(scratch, 3, 1);
        }
        varint::put_bytes(out, MARKS, scratch);
    }
}

/// What a pack's message holds, not yet looked into.
struct Pack<'a> {
    flow: Option<FlowId>,
    count: usize,
    sequence: &'a [u8],
    time: &'a [u8],
    columns: [Option<&'a [u8]>; END],
    marks: Vec<Marks<'a>>,
}

struct Marks<'a> {
    column: u32,
    runs: &'a [u8],
    unlimited: bool,
}

/// Hands the events of a pack to `sink` with their places. `None` = damaged, or of a version with values unknown here.
pub fn decode(bytes: &[u8], mut sink: impl FnMut(u32, Event) -> Option<()>) -> Option<()> {
    let pack = Pack::parse(bytes)?;
    let mut template = columns::blank();
    let mut moving = 0u128;
    macro_rules! still {
        ($column:ident) => {
            let settled = columns::$column::RESTS_ON
                .iter()
                .all(|other| moving >> other & 1 == 0);
            match pack.still(columns::$column::NUMBER)? {
                Some(cell) if settled => columns::$column::set(&mut template, Quantity::of(cell)?),
                _ => moving |= 1 << columns::$column::NUMBER,
            }
        };
    }
    for_each_column!(still);
    let mut samples: Vec<Box<Sample>> = (0..pack.count)
        .map(|_| Box::new(template.clone()))
        .collect();
    macro_rules! moving {
        ($column:ident) => {
            if moving >> columns::$column::NUMBER & 1 == 1 {
                pack.fill::<columns::$column>(&mut samples)?;
            }
        };
    }
    for_each_column!(moving);
    let (mut places, mut times) = (pack.sequence, pack.time);
    let (mut place, mut time) = (0u64, 0u64);
    for sample in samples {
        next(&mut places, &mut place)?;
        next(&mut times, &mut time)?;
        let event = Event {
            time: Mono(time),
            flow: pack.flow,
            payload: Payload::Sample(sample),
        };
        sink(u32::try_from(place).ok()?, event)?;
    }
    (places.is_empty() && times.is_empty()).then_some(())
}

/// Takes the next difference and adds it up.
#[inline]
fn next(differences: &mut &[u8], value: &mut u64) -> Option<()> {
    let difference = varint::unzigzag(varint::take(differences)?);
    *value = value.wrapping_add(difference as u64);
    Some(())
}

impl<'a> Pack<'a> {
    fn parse(mut bytes: &'a [u8]) -> Option<Self> {
        let mut pack = Self {
            flow: None,
            count: 0,
            sequence: &[],
            time: &[],
            columns: [None; END],
            marks: Vec::new(),
        };
        while !bytes.is_empty() {
            match varint::field(&mut bytes)? {
                (FLOW, Value::Bytes(flow)) => pack.flow = Some(take_flow(flow)?),
                (COUNT, Value::Number(count)) => pack.count = usize::try_from(count).ok()?,
                // Two kinds a column.
                (MARKS, Value::Bytes(marks)) if pack.marks.len() < 2 * END => {
                    pack.marks.push(Marks::parse(marks)?);
                }
                (SEQUENCE, Value::Bytes(values)) => pack.sequence = values,
                (TIME, Value::Bytes(values)) => pack.time = values,
                (number, Value::Bytes(values)) if (number as usize) < END && !values.is_empty() => {
                    // In one piece, as it was written.
                    let before = pack.columns[number as usize].replace(values);
                    if before.is_some() {
                        return None;
                    }
                }
                // A column that is not packed is not ours; fields beyond are of a later version.
                (number, _) if (number as usize) < END => return None,
                _ => {}
            }
        }
        // A row takes a byte at least of each: that bounds what is allocated.
        let most = pack.sequence.len().min(pack.time.len()).min(limits::EVENTS);
        (1..=most).contains(&pack.count).then_some(pack)
    }

    /// The content that all rows have in a column; `Some(None)` = it moves. `None` = damaged.
    #[expect(clippy::option_option, reason = "damaged, moving, or a value")]
    fn still(&self, number: u32) -> Option<Option<Cell>> {
        let marked = self.marks.iter().any(|marks| marks.column == number);
        let Some(mut values) = self.columns[number as usize] else {
            return Some((!marked).then_some(Cell::Absent));
        };
        let mut value = 0;
        next(&mut values, &mut value)?;
        Some((values.is_empty() && !marked).then_some(Cell::Value(value)))
    }

    /// Puts a column into the rows one by one.
    fn fill<C: Column>(&self, samples: &mut [Box<Sample>]) -> Option<()> {
        let values = self.columns[C::NUMBER as usize];
        let marks: Vec<&Marks> = self
            .marks
            .iter()
            .filter(|m| m.column == C::NUMBER)
            .collect();
        if let (Some(mut values), []) = (values, marks.as_slice()) {
            let mut value = 0;
            next(&mut values, &mut value)?;
            let single = values.is_empty();
            for (row, sample) in samples.iter_mut().enumerate() {
                if row > 0 && !single {
                    next(&mut values, &mut value)?;
                }
                C::set(sample, Quantity::of(Cell::Value(value))?);
            }
            return values.is_empty().then_some(());
        }
        self.fill_marked::<C>(values, &marks, samples)
    }

    fn fill_marked<C: Column>(
        &self,
        values: Option<&[u8]>,
        marks: &[&Marks],
        samples: &mut [Box<Sample>],
    ) -> Option<()> {
        let mut cells = vec![Cell::Absent; self.count];
        if let Some(mut values) = values {
            let mut value = 0;
            let mut single = false;
            for (row, cell) in cells.iter_mut().enumerate() {
                if !single {
                    next(&mut values, &mut value)?;
                }
                // A single entry holds for all rows.
                single |= row == 0 && values.is_empty();
                *cell = Cell::Value(value);
            }
            if !values.is_empty() {
                return None;
            }
        }
        for marks in marks {
            let cell = if marks.unlimited {
                Cell::Unlimited
            } else {
                Cell::Absent
            };
            marks.put(cell, &mut cells)?;
        }
        for (sample, cell) in samples.iter_mut().zip(cells) {
            C::set(sample, Quantity::of(cell)?);
        }
        Some(())
    }
}

impl<'a> Marks<'a> {
    fn parse(mut bytes: &'a [u8]) -> Option<Self> {
        let mut marks = Self {
            column: 0,
            runs: &[],
            unlimited: false,
        };
        while !bytes.is_empty() {
            match varint::field(&mut bytes)? {
                (1, Value::Number(column)) => marks.column = u32::try_from(column).ok()?,
                (2, Value::Bytes(runs)) => marks.runs = runs,
                (3, Value::Number(unlimited)) => marks.unlimited = unlimited != 0,
                _ => {}
            }
        }
        Some(marks)
    }

    /// Puts `cell` into the rows marked.
    fn put(&self, cell: Cell, cells: &mut [Cell]) -> Option<()> {
        let (mut runs, mut rest, mut marked) = (self.runs, cells, false);
        while !runs.is_empty() {
            let length = usize::try_from(varint::take(&mut runs)?).ok()?;
            let (run, after) = rest.split_at_mut_checked(length)?;
            if marked {
                run.fill(cell);
            }
            (rest, marked) = (after, !marked);
        }
        Some(())
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
