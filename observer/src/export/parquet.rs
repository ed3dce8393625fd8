//! Parquet: a file a table, typed. Unknown is null; a column that may be without a limit has a boolean `<name>_unlimited`
//! beside it. Rows are gathered to groups of bounded size.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use super::Sink;
use super::table::{Cell, Column, Kind, Row, Table};

/// Rows of a group, and bytes of text in it.
const ROWS: usize = 1 << 15;
const TEXT: usize = 8 << 20;

/// Writes the tables it has an output for.
pub struct Parquet<W: Write + Send> {
    tables: Vec<(Table, Writer<W>)>,
}

impl<W: Write + Send> std::fmt::Debug for Parquet<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parquet").finish_non_exhaustive()
    }
}

impl<W: Write + Send> Parquet<W> {
    pub fn new(outputs: Vec<(Table, W)>) -> io::Result<Self> {
        let begun = outputs
            .into_iter()
            .map(|(table, output)| Writer::new(table, output).map(|writer| (table, writer)));
        let tables = begun.collect::<Result<_, _>>().map_err(io_error)?;
        Ok(Self { tables })
    }
}

impl<W: Write + Send> Sink<W> for Parquet<W> {
    fn row(&mut self, row: Row<'_>) -> io::Result<()> {
        match self.tables.iter_mut().find(|(t, _)| *t == row.table) {
            Some((_, writer)) => writer.row(&row.cells).map_err(io_error),
            None => Ok(()),
        }
    }

    fn finish(self: Box<Self>) -> io::Result<Vec<W>> {
        let ended = self.tables.into_iter().map(|(_, mut writer)| {
            writer.end_group()?;
            writer.file.into_inner()
        });
        ended.collect::<Result<_, _>>().map_err(io_error)
    }
}

/// One file.
struct Writer<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<Values>,
    rows: usize,
    text: usize,
}

impl<W: Write + Send> Writer<W> {
    fn new(table: Table, output: W) -> Result<Self, ParquetError> {
        let columns = table.columns();
        let schema = Arc::new(parse_message_type(&message(table, &columns))?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by(concat!("observer ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        Ok(Self {
            file: SerializedFileWriter::new(output, schema, Arc::new(properties))?,
            columns: columns.iter().map(Values::of).collect(),
            rows: 0,
            text: 0,
        })
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), ParquetError> {
        for (values, cell) in self.columns.iter_mut().zip(cells) {
            self.text += values.push(cell);
        }
        self.rows += 1;
        if self.rows >= ROWS || self.text >= TEXT {
            self.end_group()?;
        }
        Ok(())
    }

    fn end_group(&mut self) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for values in &mut self.columns {
            if let Some(column) = group.next_column()? {
                values.data.write(column, &values.known)?;
            }
            if let Some(unlimited) = &mut values.unlimited
                && let Some(column) = group.next_column()?
            {
                let mut data = Data::Bool(std::mem::take(&mut unlimited.0));
                data.write(column, &unlimited.1)?;
                unlimited.1.clear();
            }
            values.known.clear();
        }
        group.close()?;
        self.rows = 0;
        self.text = 0;
        Ok(())
    }
}

/// A group's part of a column.
struct Values {
    data: Data,
    /// 1 for each value that there is, 0 for null.
    known: Vec<i16>,
    /// The same of `<name>_unlimited`.
    unlimited: Option<(Vec<bool>, Vec<i16>)>,
    /// The text before: the same again is shared.
    last: ByteArray,
}

enum Data {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Double(Vec<f64>),
    Bool(Vec<bool>),
    Text(Vec<ByteArray>),
}

impl Values {
    fn of(column: &Column) -> Self {
        let data = match column.kind {
            Kind::Unsigned32 => Data::Int32(Vec::new()),
            Kind::Unsigned64 | Kind::Time => Data::Int64(Vec::new()),
            Kind::Float => Data::Double(Vec::new()),
            Kind::Bool => Data::Bool(Vec::new()),
            Kind::Text => Data::Text(Vec::new()),
        };
        Self {
            data,
            known: Vec::new(),
            unlimited: column.bounded.then(Default::default),
            last: ByteArray::from(""),
        }
    }

    /// How many bytes of text it took.
    fn push(&mut self, cell: &Cell<'_>) -> usize {
        if let Some((values, known)) = &mut self.unlimited {
            if *cell != Cell::Unknown {
                values.push(*cell == Cell::Unlimited);
            }
            known.push(i16::from(*cell != Cell::Unknown));
        }
        let mut took = 0;
        let fits = match (&mut self.data, cell) {
            // Unsigned by its logical type: the same bits.
            (Data::Int32(values), Cell::Unsigned(n)) => {
                values.push(*n as u32 as i32);
                true
            }
            (Data::Int64(values), Cell::Unsigned(n)) => {
                values.push(*n as i64);
                true
            }
            (Data::Int64(values), Cell::Time(time)) => match i64::try_from(time.as_nanosecond()) {
                Ok(ns) => {
                    values.push(ns);
                    true
                }
                Err(_) => false,
            },
            (Data::Double(values), Cell::Float(n)) => {
                values.push(*n);
                true
            }
            (Data::Bool(values), Cell::Bool(yes)) => {
                values.push(*yes);
                true
            }
            (Data::Text(values), Cell::Text(text)) => {
                if self.last.data() != text.as_bytes() {
                    self.last = ByteArray::from(text.as_bytes().to_vec());
                    took = text.len();
                }
                values.push(self.last.clone());
                true
            }
            _ => false,
        };
        self.known.push(i16::from(fits));
        took
    }
}

impl Data {
    /// Writes and forgets them.
    fn write(
        &mut self,
        mut column: SerializedColumnWriter<'_>,
        known: &[i16],
    ) -> Result<(), ParquetError> {
        macro_rules! write {
            ($values:ident, $type:ty) => {{
                column
                    .typed::<$type>()
                    .write_batch($values, Some(known), None)?;
                $values.clear();
            }};
        }
        match self {
            Self::Int32(values) => write!(values, Int32Type),
            Self::Int64(values) => write!(values, Int64Type),
            Self::Double(values) => write!(values, DoubleType),
            Self::Bool(values) => write!(values, BoolType),
            Self::Text(values) => write!(values, ByteArrayType),
        }
        column.close()
    }
}

/// The schema in Parquet's words.
fn message(table: Table, columns: &[Column]) -> String {
    let mut text = format!("message {} {{\n", table.name());
    for Column {
        name,
        kind,
        bounded,
    } in columns
    {
        let _ = match kind {
            Kind::Unsigned32 => writeln!(text, "OPTIONAL INT32 {name} (INTEGER(32,false));"),
            Kind::Unsigned64 => writeln!(text, "OPTIONAL INT64 {name} (INTEGER(64,false));"),
            Kind::Float => writeln!(text, "OPTIONAL DOUBLE {name};"),
            Kind::Bool => writeln!(text, "OPTIONAL BOOLEAN {name};"),
            Kind::Text => writeln!(text, "OPTIONAL BYTE_ARRAY {name} (STRING);"),
            Kind::Time => writeln!(text, "OPTIONAL INT64 {name} (TIMESTAMP(NANOS,true));"),
        };
        if *bounded {
            let _ = writeln!(text, "OPTIONAL BOOLEAN {name}_unlimited;");
        }
    }
    text.push('}');
    text
}

/// Keeps the kind: a broken pipe ends quietly.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}
