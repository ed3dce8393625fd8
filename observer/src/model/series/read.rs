//! Reading a past: columns of a chart from the finest entries there are for each moment.

use super::code::Code;
use super::entry::{Break, Breaks, Quantity, Stage, Stages, What};
use super::history::{History, WIDTHS};
use super::pieces::Piece;
use crate::event::KINDS;
use crate::model::rates::QUIET_NS;
use crate::units::{Limit, Mono};

/// Columns of time: column `i` is from `from + i × step` on, up to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from: Mono,
    /// Nanoseconds, not 0.
    pub step: u64,
    pub columns: usize,
}

impl Window {
    pub fn end(&self) -> Mono {
        self.from
            .plus(self.step.saturating_mul(self.columns as u64))
    }

    /// The column of `time`, as far as it is in the window.
    pub fn column(&self, time: u64) -> Option<usize> {
        let after = time.checked_sub(self.from.0)?;
        let column = usize::try_from(after / self.step.max(1)).ok()?;
        (column < self.columns).then_some(column)
    }

    /// The columns that `from` (included) to `to` (not included) reaches into; an instant has its own.
    fn columns(&self, from: u64, to: u64) -> std::ops::Range<usize> {
        let last = to.max(from.saturating_add(1)) - 1;
        if last < self.from.0 || from >= self.end().0 {
            return 0..0;
        }
        let first = self.column(from).unwrap_or(0);
        let end = self.column(last).map_or(self.columns, |c| c + 1);
        first..end
    }
}

/// What a quantity was within a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Least and greatest number; `None` where it was unlimited throughout.
    pub range: Option<(u64, u64)>,
    /// The last value.
    pub last: Limit<u64>,
    /// It was unlimited at least once.
    pub unlimited: bool,
    /// It continues that of the column before.
    pub joined: bool,
    /// Nothing was read within it: the value from before stands.
    pub held: bool,
}

/// What is known of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Column {
    /// Before the first or after the last that is known.
    #[default]
    Outside,
    /// Observed. With the breaks within it.
    Seen(Stages, Breaks),
    /// Observed, and nothing happened.
    Idle,
    /// Nothing is known of it.
    Unknown(Breaks),
}

/// A past up to a moment, to be read.
#[derive(Clone, Copy, Debug)]
pub struct Past<'a> {
    pub(in crate::model) history: &'a History,
    /// Now, or the flow's end.
    pub(in crate::model) end: Mono,
    /// The source did not speak since the newest sample.
    pub(in crate::model) blind: bool,
}

impl<'a> Past<'a> {
    pub fn history(&self) -> &'a History {
        self.history
    }

    /// The last moment that the past is of.
    pub fn end(&self) -> Mono {
        self.end
    }

    /// The oldest moment of which anything is known.
    pub fn from(&self) -> Option<Mono> {
        self.history.from()
    }

    /// Width of the coarsest entries read from `from` on, ns; 0 = samples.
    pub fn resolution(&self, from: Mono) -> u64 {
        let regions = self.history.regions();
        let reached = regions.iter().filter(|r| r.to > from.0);
        let coarsest = reached.map(|r| r.resolution).max().unwrap_or(0);
        coarsest.checked_sub(1).map_or(0, |k| WIDTHS[k])
    }

    /// `quantity` by column; `None` = not known.
    pub fn columns(&self, quantity: Quantity, window: &Window) -> Vec<Option<Extent>> {
        let mut columns = vec![None; window.columns];
        let mut before: Option<(Piece, Code)> = None;
        for piece in self.sampled(window) {
            let codes = piece.get(quantity);
            let joined = before.as_ref().is_some_and(|(old, code)| {
                let silence = Silence::between(old, &piece);
                silence.bridges(quantity) && hold(&mut columns, window, &silence, *code)
            });
            put(&mut columns, window, self.span(&piece), codes, joined);
            if !piece.inside().is_empty() {
                // Somewhere in it, nobody knows where.
                part(&mut columns, window, self.span(&piece));
            }
            before = Some((piece, codes[2]));
        }
        if let Some((last, code)) = before {
            let silence = self.tail(&last);
            if silence.bridges(quantity) {
                hold(&mut columns, window, &silence, code);
            }
        }
        columns
    }

    /// What is known of each column.
    pub fn stages(&self, window: &Window) -> Vec<Column> {
        let mut columns = vec![Column::Outside; window.columns];
        let mut before: Option<Piece> = None;
        for piece in self.sampled(window) {
            let mut breaks = piece.inside();
            if let Some(old) = &before {
                let silence = Silence::between(old, &piece);
                let between = silence.column(old.stages());
                let to = window.column(silence.to).unwrap_or(window.columns);
                if !fill(&mut columns[..to], window, &silence, between) {
                    breaks = breaks.and(silence.breaks);
                }
            }
            let (from, to) = self.span(&piece);
            for column in &mut columns[window.columns(from, to)] {
                *column = column.seeing(piece.stages(), breaks);
            }
            before = Some(piece);
        }
        if let Some(last) = before {
            let silence = self.tail(&last);
            let after = silence.column(last.stages());
            fill(&mut columns, window, &silence, after);
        }
        for (time, stage) in self.changes() {
            if let Some(column) = window.column(time) {
                let stages = [stage].into_iter().collect();
                columns[column] = columns[column].seeing(stages, Breaks::default());
            }
        }
        columns
    }

    /// Segments retransmitted by column and kind, in the order of [`KINDS`]. A bucket counts where it begins: the
    /// window is to begin at a multiple of its step, and this at one of [`Past::resolution`].
    pub fn retransmits(&self, window: &Window) -> Vec<[u32; KINDS.len()]> {
        let mut columns = vec![[0; KINDS.len()]; window.columns];
        let mut add = |time: u64, kind: usize, segments: u32| {
            if let Some(column) = window.column(time) {
                let count = &mut columns[column][kind];
                *count = segments.saturating_add(*count);
            }
        };
        for piece in self.history.pieces(window.from.0, window.end().0) {
            if let Piece::Bucket(bucket, _) = piece {
                for (kind, segments) in bucket.retransmits.into_iter().enumerate() {
                    add(piece.from(), kind, segments);
                }
            }
        }
        let low = self.history.raw_region();
        for mark in self.history.marks.from(|mark| mark.time < low) {
            if let What::Retransmit(kind) = mark.what {
                add(mark.time, usize::from(kind), mark.segments);
            }
        }
        columns
    }

    /// Changes of congestion state between samples, where samples are read.
    fn changes(&self) -> impl Iterator<Item = (u64, Stage)> {
        let low = self.history.raw_region();
        let marks = self.history.marks.from(move |mark| mark.time < low);
        marks.filter_map(|mark| match mark.what {
            What::Stage(stage) => Some((mark.time, stage)),
            What::Retransmit(_) => None,
        })
    }

    fn sampled(&self, window: &Window) -> impl Iterator<Item = Piece<'a>> {
        let pieces = self.history.pieces(window.from.0, window.end().0);
        pieces.into_iter().filter(Piece::is_sampled)
    }

    /// From where to where a piece reaches: not beyond the end.
    fn span(&self, piece: &Piece) -> (u64, u64) {
        (piece.from(), piece.to().min(self.end.0.saturating_add(1)))
    }

    /// From the last piece to the end.
    fn tail(&self, last: &Piece) -> Silence {
        let mut breaks = self.history.pending;
        if self.blind {
            breaks.add(Break::Blind);
        }
        let from = last.to();
        Silence {
            from,
            to: self.end.0.saturating_add(1).max(from),
            breaks,
        }
    }
}

/// From one sample to the next.
#[derive(Clone, Copy, Debug)]
struct Silence {
    from: u64,
    to: u64,
    breaks: Breaks,
}

impl Silence {
    fn between(old: &Piece, new: &Piece) -> Self {
        Self {
            from: old.to(),
            to: new.from().max(old.to()),
            breaks: new.before(),
        }
    }

    /// Nothing happened in it, or not enough to make a difference.
    fn is_idle(&self) -> bool {
        self.to - self.from > QUIET_NS
    }

    /// The value before holds until the next.
    fn bridges(&self, quantity: Quantity) -> bool {
        self.breaks.is_empty() && (quantity.is_level() || !self.is_idle())
    }

    fn column(&self, before: Stages) -> Column {
        if !self.breaks.is_empty() {
            Column::Unknown(self.breaks)
        } else if self.is_idle() {
            Column::Idle
        } else {
            Column::Seen(before, Breaks::default())
        }
    }
}

impl Column {
    fn seeing(self, stages: Stages, breaks: Breaks) -> Self {
        match self {
            Self::Seen(s, b) => Self::Seen(s.and(stages), b.and(breaks)),
            _ => Self::Seen(stages, breaks),
        }
    }
}

/// Fills the empty columns of a silence with what was before it. False when that is not known.
fn hold(columns: &mut [Option<Extent>], window: &Window, silence: &Silence, code: Code) -> bool {
    let Some(value) = code.value() else {
        return false;
    };
    let range = value.finite().map(|v| (v, v));
    for column in &mut columns[window.columns(silence.from, silence.to)] {
        column.get_or_insert(Extent {
            range,
            last: value,
            unlimited: range.is_none(),
            joined: true,
            held: true,
        });
    }
    true
}

/// Puts least, greatest and last into the columns of a piece.
fn put(
    columns: &mut [Option<Extent>],
    window: &Window,
    (from, to): (u64, u64),
    [min, max, last]: [Code; 3],
    joined: bool,
) {
    let (Some(least), Some(greatest)) = (min.value(), max.value()) else {
        return;
    };
    // Unlimited is above all numbers: of some of each, the least is a number.
    let range = least.finite().map(|l| (l, greatest.finite().unwrap_or(l)));
    let new = Extent {
        range,
        last: last.value().unwrap_or(greatest),
        unlimited: greatest == Limit::Unlimited,
        joined,
        held: false,
    };
    for (n, column) in columns[window.columns(from, to)].iter_mut().enumerate() {
        let joined = joined || n > 0;
        *column = Some(match *column {
            Some(old) => old.with(new),
            None => Extent { joined, ..new },
        });
    }
}

/// The columns of a piece are not drawn through.
fn part(columns: &mut [Option<Extent>], window: &Window, (from, to): (u64, u64)) {
    for column in columns[window.columns(from, to)].iter_mut().flatten() {
        column.joined = false;
    }
}

/// Fills what is outside in a silence; false when no column lies there.
fn fill(columns: &mut [Column], window: &Window, silence: &Silence, with: Column) -> bool {
    let mut filled = false;
    let range = window.columns(silence.from, silence.to);
    let end = range.end.min(columns.len());
    for column in &mut columns[range.start.min(end)..end] {
        if *column == Column::Outside {
            *column = with;
            filled = true;
        }
    }
    filled
}

impl Extent {
    /// Of a column that saw this, and `new` after it.
    fn with(self, new: Self) -> Self {
        let range = match (self.range, new.range) {
            // What was before stands for nothing once something was read.
            (_, new) if self.held => new,
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (old, new) => old.or(new),
        };
        Self {
            range,
            last: new.last,
            unlimited: new.unlimited || self.unlimited && !self.held,
            joined: self.joined,
            held: false,
        }
    }
}
