//! Tables: a row of typed cells under named columns, and how the keys of a line become both.
//!
//! [`fields!`] stands beside each struct of keys, so that a key cannot be in JSON and missing here. A key of an object is
//! a column `object_key`; lists and maps are one cell of JSON.

use std::borrow::Cow;
use std::io;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Unsigned32,
    Unsigned64,
    Float,
    Bool,
    Text,
    /// A moment in UTC.
    Time,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub kind: Kind,
    /// [`Cell::Unlimited`] may be in it.
    pub bounded: bool,
}

/// A value in a column of its kind, or none.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'a> {
    Unknown,
    Unlimited,
    Unsigned(u64),
    Float(f64),
    Bool(bool),
    Text(Cow<'a, str>),
    Time(jiff::Timestamp),
}

/// The tables, one a kind of line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    Samples,
    Retransmits,
    Bursts,
    States,
    Phases,
    Verdicts,
    Flows,
    Attributes,
    Owners,
    Devices,
    Qdiscs,
    Hosts,
    Counters,
    Costs,
    Gaps,
    Notes,
}

impl Table {
    pub const ALL: [Self; 16] = [
        Self::Samples,
        Self::Retransmits,
        Self::Bursts,
        Self::States,
        Self::Phases,
        Self::Verdicts,
        Self::Flows,
        Self::Attributes,
        Self::Owners,
        Self::Devices,
        Self::Qdiscs,
        Self::Hosts,
        Self::Counters,
        Self::Costs,
        Self::Gaps,
        Self::Notes,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::Retransmits => "retransmits",
            Self::Bursts => "bursts",
            Self::States => "states",
            Self::Phases => "phases",
            Self::Verdicts => "verdicts",
            Self::Flows => "flows",
            Self::Attributes => "attributes",
            Self::Owners => "owners",
            Self::Devices => "devices",
            Self::Qdiscs => "qdiscs",
            Self::Hosts => "hosts",
            Self::Counters => "counters",
            Self::Costs => "costs",
            Self::Gaps => "gaps",
            Self::Notes => "notes",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }
}

/// One row of a table.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    pub table: Table,
    pub mono_ns: u64,
    /// Since 1970.
    pub wall_ns: Option<i64>,
    /// What it is of, for tools that keep each apart: the ends of a flow, a device and a qdisc.
    pub of: Option<Subject>,
    /// As many as the table has columns.
    pub cells: Vec<Cell<'a>>,
}

/// What a row is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// Tells it from others.
    pub id: String,
    /// For people; others may have the same.
    pub name: String,
}

/// Takes rows.
pub type Take<'t> = dyn FnMut(Row<'_>) -> io::Result<()> + 't;

/// A key's value, or an object of several.
pub trait Field {
    fn columns(name: &str, out: &mut Vec<Column>);
    fn cells<'c>(&'c self, out: &mut Vec<Cell<'c>>);
    /// The cells when there is none.
    fn unknown(out: &mut Vec<Cell<'_>>) {
        out.push(Cell::Unknown);
    }
}

impl<T: Field> Field for Option<T> {
    fn columns(name: &str, out: &mut Vec<Column>) {
        T::columns(name, out);
    }

    fn cells<'c>(&'c self, out: &mut Vec<Cell<'c>>) {
        match self {
            Some(value) => value.cells(out),
            None => T::unknown(out),
        }
    }

    fn unknown(out: &mut Vec<Cell<'_>>) {
        T::unknown(out);
    }
}

impl<T: Field> Field for Box<T> {
    fn columns(name: &str, out: &mut Vec<Column>) {
        T::columns(name, out);
    }

    fn cells<'c>(&'c self, out: &mut Vec<Cell<'c>>) {
        (**self).cells(out);
    }

    fn unknown(out: &mut Vec<Cell<'_>>) {
        T::unknown(out);
    }
}

impl Column {
    pub fn new(name: &str, kind: Kind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            bounded: false,
        }
    }
}

macro_rules! leaves {
    ($($type:ty, $kind:ident, $value:ident => $cell:expr;)*) => {$(
        impl Field for $type {
            fn columns(name: &str, out: &mut Vec<Column>) {
                out.push(Column::new(name, Kind::$kind));
            }

            fn cells<'c>(&'c self, out: &mut Vec<Cell<'c>>) {
                let $value = self;
                out.push($cell);
            }
        }
    )*};
}

leaves! {
    u8, Unsigned32, value => Cell::Unsigned((*value).into());
    u16, Unsigned32, value => Cell::Unsigned((*value).into());
    u32, Unsigned32, value => Cell::Unsigned((*value).into());
    u64, Unsigned64, value => Cell::Unsigned(*value);
    f64, Float, value => Cell::Float(*value);
    bool, Bool, value => Cell::Bool(*value);
    &str, Text, value => Cell::Text(Cow::Borrowed(value));
    String, Text, value => Cell::Text(Cow::Borrowed(value));
}

/// The name of `key` in the object `prefix`; "" = the row itself.
pub fn joined(prefix: &str, key: &str) -> String {
    if prefix.is_empty() {
        key.to_owned()
    } else {
        format!("{prefix}_{key}")
    }
}

/// The columns of what `get` gets.
pub fn columns_of<S, T: Field>(_get: fn(&S) -> &T, name: &str, out: &mut Vec<Column>) {
    T::columns(name, out);
}

/// The cells when there is no `S` to get it from.
pub fn unknown_of<S, T: Field>(_get: fn(&S) -> &T, out: &mut Vec<Cell<'_>>) {
    T::unknown(out);
}

/// Makes a struct of keys an object of columns. All its fields are named: columns; `flat`, whose keys are the object's own;
/// `skip`, what no column is made of.
macro_rules! fields {
    ($type:ty: $($key:ident),* $(; flat $($flat:ident),*)? $(; skip $($skip:ident),*)?) => {
        impl $crate::export::table::Field for $type {
            fn columns(name: &str, out: &mut Vec<$crate::export::table::Column>) {
                use $crate::export::table::{columns_of, joined};
                $(columns_of(|of: &Self| &of.$key, &joined(name, stringify!($key)), out);)*
                $($(columns_of(|of: &Self| &of.$flat, name, out);)*)?
            }

            fn cells<'c>(&'c self, out: &mut Vec<$crate::export::table::Cell<'c>>) {
                let Self { $($key,)* $($($flat,)*)? $($($skip: _,)*)? } = self;
                $($crate::export::table::Field::cells($key, out);)*
                $($($crate::export::table::Field::cells($flat, out);)*)?
            }

            fn unknown(out: &mut Vec<$crate::export::table::Cell<'_>>) {
                use $crate::export::table::unknown_of;
                $(unknown_of(|of: &Self| &of.$key, out);)*
                $($(unknown_of(|of: &Self| &of.$flat, out);)*)?
            }
        }
    };
}

/// Makes a list or a map one cell of JSON.
macro_rules! json_fields {
    ($($type:ty),* $(,)?) => {$(
        impl $crate::export::table::Field for $type {
            fn columns(name: &str, out: &mut Vec<$crate::export::table::Column>) {
                use $crate::export::table::{Column, Kind};
                out.push(Column::new(name, Kind::Text));
            }

            fn cells<'c>(&'c self, out: &mut Vec<$crate::export::table::Cell<'c>>) {
                use $crate::export::table::Cell;
                out.push(match serde_json::to_string(self) {
                    Ok(text) => Cell::Text(text.into()),
                    // Maps with keys of text, and numbers: none of them fails.
                    Err(_) => Cell::Unknown,
                });
            }
        }
    )*};
}

pub(crate) use {fields, json_fields};
