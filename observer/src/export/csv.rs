//! CSV: a file a table, quoted as RFC 4180 has it, lines ending in a newline as everywhere here. Unknown is an empty cell,
//! without a limit is `unlimited`. Control characters are escaped: a row is a line, and no text reaches a terminal as it is.

use std::io::{self, Write};

use super::Sink;
use super::table::{Cell, Row, Table};
use crate::units::escape;

/// Writes the tables it has an output for.
pub struct Csv<W: Write> {
    tables: Vec<(Table, csv::Writer<W>)>,
}

impl<W: Write> std::fmt::Debug for Csv<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Csv").finish_non_exhaustive()
    }
}

impl<W: Write> Csv<W> {
    /// Begins each with the names of its columns.
    pub fn new(outputs: Vec<(Table, W)>) -> io::Result<Self> {
        let mut tables = Vec::with_capacity(outputs.len());
        for (table, output) in outputs {
            let mut writer = csv::Writer::from_writer(output);
            let names = table.columns().into_iter().map(|column| column.name);
            writer.write_record(names).map_err(io_error)?;
            tables.push((table, writer));
        }
        Ok(Self { tables })
    }
}

impl<W: Write> Sink<W> for Csv<W> {
    fn row(&mut self, row: Row<'_>) -> io::Result<()> {
        let Some((_, writer)) = self.tables.iter_mut().find(|(t, _)| *t == row.table) else {
            return Ok(());
        };
        for cell in &row.cells {
            write(writer, cell).map_err(io_error)?;
        }
        writer.write_record(None::<&[u8]>).map_err(io_error)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tables
            .iter_mut()
            .try_for_each(|(_, writer)| writer.flush())
    }

    fn finish(self: Box<Self>) -> io::Result<Vec<W>> {
        let ended = self
            .tables
            .into_iter()
            .map(|(_, writer)| writer.into_inner().map_err(csv::IntoInnerError::into_error));
        ended.collect()
    }
}

fn write<W: Write>(writer: &mut csv::Writer<W>, cell: &Cell<'_>) -> csv::Result<()> {
    match cell {
        Cell::Unknown => writer.write_field(""),
        Cell::Unlimited => writer.write_field("unlimited"),
        Cell::Unsigned(number) => writer.write_field(itoa::Buffer::new().format(*number)),
        Cell::Float(number) => writer.write_field(number.to_string()),
        Cell::Bool(yes) => writer.write_field(if *yes { "true" } else { "false" }),
        // Nearly all text is such that nothing is to be escaped.
        Cell::Text(text) if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) => {
            writer.write_field(text.as_bytes())
        }
        Cell::Text(text) => writer.write_field(escape(text)),
        Cell::Time(time) => writer.write_field(format!("{time:.6}")),
    }
}

/// Keeps the kind: a broken pipe ends quietly.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
