//! Samples of one flow → `SamplePack`: columns of differences, constant ones once, unknown ones not at all.
//!
//! A sample is put into its pack when it comes: what is kept is the newest one and the bytes of the columns that have
//! moved so far. Written by hand against the schema, as the way back (`unpack`): it is the hot path. A test decodes it by
//! the generated code.

use super::columns::{self, Column, END, Getter, for_each_column};
use super::quantity::Cell;
use super::varint;
use crate::event::{FlowId, Sample};
use crate::units::Mono;

/// Fields of `SamplePack` that are no quantities.
pub const FLOW: u32 = 1;
pub const COUNT: u32 = 2;
pub const MARKS: u32 = 3;
pub const SEQUENCE: u32 = 4;
pub const TIME: u32 = 5;

/// The samples of one flow in the chunk in hand. Its memory is used again for another flow's.
#[derive(Debug)]
pub struct Pack {
    flow: Option<FlowId>,
    rows: u32,
    places: Differences,
    times: Differences,
    newest: Box<Sample>,
    /// Columns whose content was not the same in all rows so far, by their numbers.
    moves: u128,
    moving: Vec<Moving>,
}

/// Zigzag varints, each the difference to the one before.
#[derive(Debug, Default)]
struct Differences {
    before: u64,
    bytes: Vec<u8>,
}

impl Differences {
    fn clear(&mut self) {
        self.before = 0;
        self.bytes.clear();
    }

    #[inline]
    fn put(&mut self, value: u64) {
        let difference = value.wrapping_sub(self.before) as i64;
        varint::put(&mut self.bytes, varint::zigzag(difference));
        self.before = value;
    }
}

/// A column that moves.
#[derive(Debug)]
struct Moving {
    number: u32,
    get: Getter,
    values: Differences,
    /// There was a value.
    known: bool,
    absent: Marks,
    unlimited: Marks,
}

/// The rows at which a column begins or ceases to be without a value; the first is a beginning.
#[derive(Debug, Default)]
struct Marks {
    turns: Vec<u32>,
}

impl Default for Pack {
    fn default() -> Self {
        Self {
            flow: None,
            rows: 0,
            places: Differences::default(),
            times: Differences::default(),
            newest: Box::new(columns::blank()),
            moves: 0,
            moving: Vec::new(),
        }
    }
}

impl Pack {
    /// Begins the pack of a flow.
    pub fn begin(&mut self, flow: Option<FlowId>) {
        self.flow = flow;
        self.rows = 0;
        self.places.clear();
        self.times.clear();
        self.moves = 0;
    }

    /// Takes a sample in; `place` is that of the event within the chunk. `spare`: memory of columns.
    pub fn push(&mut self, place: u32, time: Mono, sample: &Sample, spare: &mut Spare) {
        self.places.put(u64::from(place));
        self.times.put(time.0);
        let row = self.rows;
        self.rows += 1;
        if row == 0 {
            self.newest.as_mut().clone_from(sample);
            return;
        }
        let changed = changed(&self.newest, sample);
        let mut begin = changed & !self.moves;
        while begin != 0 {
            let number = begin.trailing_zeros();
            begin &= begin - 1;
            self.moving.push(spare.column(
                number,
                columns::GETTERS[number as usize],
                &self.newest,
                row,
            ));
        }
        self.moves |= changed;
        for column in &mut self.moving {
            if changed >> column.number & 1 == 0 {
                // The same as in the row before.
                column.values.bytes.push(0);
            } else {
                column.put((column.get)(sample), row);
            }
        }
        if changed != 0 {
            self.newest.as_mut().clone_from(sample);
        }
    }

    /// Appends the message of the rows taken in, which are not none, and gives the memory of its columns back.
    pub fn finish(&mut self, spare: &mut Spare, out: &mut Vec<u8>) {
        if let Some(flow) = self.flow {
            spare.bytes.clear();
            varint::put_number(&mut spare.bytes, 1, flow.cookie);
            varint::put_number(&mut spare.bytes, 2, u64::from(flow.netns));
            varint::put_bytes(out, FLOW, &spare.bytes);
        }
        varint::put_number(out, COUNT, u64::from(self.rows));
        varint::put_bytes(out, SEQUENCE, &self.places.bytes);
        varint::put_bytes(out, TIME, &self.times.bytes);
        let (moves, newest, rows) = (self.moves, &*self.newest, self.rows);
        macro_rules! still {
            ($column:ident) => {
                if moves >> columns::$column::NUMBER & 1 == 0 {
                    let cell = (columns::$column::CELL)(newest);
                    still(columns::$column::NUMBER, cell, rows, spare, out);
                }
            };
        }
        for_each_column!(still);
        for column in &self.moving {
            if column.known {
                varint::put_bytes(out, column.number, &column.values.bytes);
                column.absent.put(column.number, false, rows, spare, out);
            }
            column.unlimited.put(column.number, true, rows, spare, out);
        }
        spare.columns.append(&mut self.moving);
    }
}

/// The columns whose content differs.
fn changed(old: &Sample, new: &Sample) -> u128 {
    let mut changed = 0u128;
    macro_rules! compare {
        ($column:ident) => {
            let moved = columns::$column::get(old) != columns::$column::get(new);
            changed |= u128::from(moved) << columns::$column::NUMBER;
        };
    }
    for_each_column!(compare);
    changed
}

/// A column with the same content in all rows.
fn still(number: u32, cell: Cell, rows: u32, spare: &mut Spare, out: &mut Vec<u8>) {
    match cell {
        Cell::Absent => {}
        Cell::Value(value) => {
            spare.bytes.clear();
            varint::put(&mut spare.bytes, varint::zigzag(value as i64));
            varint::put_bytes(out, number, &spare.bytes);
        }
        Cell::Unlimited => {
            let all = Marks { turns: vec![0] };
            all.put(number, true, rows, spare, out);
        }
    }
}

impl Moving {
    #[inline]
    fn put(&mut self, cell: Cell, row: u32) {
        // A row without a value repeats the one before: it costs a zero.
        let value = match cell {
            Cell::Value(value) => {
                self.known = true;
                value
            }
            Cell::Absent | Cell::Unlimited => self.values.before,
        };
        self.values.put(value);
        self.absent.mark(cell == Cell::Absent, row);
        self.unlimited.mark(cell == Cell::Unlimited, row);
    }
}

impl Marks {
    #[inline]
    fn mark(&mut self, marked: bool, row: u32) {
        if marked == self.turns.len().is_multiple_of(2) {
            self.turns.push(row);
        }
    }

    /// Appends the `Marks` of a column, unless no row is marked.
    fn put(&self, column: u32, unlimited: bool, rows: u32, spare: &mut Spare, out: &mut Vec<u8>) {
        if self.turns.is_empty() {
            return;
        }
        let Spare { bytes, runs, .. } = spare;
        runs.clear();
        let mut before = 0;
        for turn in self.turns.iter().chain([&rows]) {
            varint::put(runs, u64::from(turn - before));
            before = *turn;
        }
        bytes.clear();
        varint::put_number(bytes, 1, u64::from(column));
        varint::put_bytes(bytes, 2, runs);
        if unlimited {
            varint::put_number(bytes, 3, 1);
        }
        varint::put_bytes(out, MARKS, bytes);
    }
}

/// Memory that is used again.
#[derive(Debug, Default)]
pub struct Spare {
    columns: Vec<Moving>,
    bytes: Vec<u8>,
    runs: Vec<u8>,
}

impl Spare {
    /// A column that was as in `sample` in so many rows.
    fn column(&mut self, number: u32, get: Getter, sample: &Sample, rows: u32) -> Moving {
        let mut column = self.columns.pop().unwrap_or_else(|| Moving {
            number,
            get,
            values: Differences::default(),
            known: false,
            absent: Marks::default(),
            unlimited: Marks::default(),
        });
        (column.number, column.get, column.known) = (number, get, false);
        column.values.clear();
        column.absent.turns.clear();
        column.unlimited.turns.clear();
        column.put(get(sample), 0);
        let same = column.values.bytes.len() + rows as usize - 1;
        column.values.bytes.resize(same, 0);
        column
    }

    /// Keeps no more than the memory of so many columns.
    pub fn trim(&mut self, columns: usize) {
        self.columns.truncate(columns);
    }
}

const _: () = assert!(END == 128, "a set of columns is a u128");
