//! What leaves the program as data. Lines are JSON; tables are made of their keys; other tools' formats are made of the
//! tables. All of it goes through once: what is kept is a row group, a chunk, and a little of every open flow.

pub mod csv;
pub mod jsonl;
pub mod mcap;
pub mod parquet;
pub mod perfetto;
pub mod table;

use std::io::{self, Write};

use crate::event::Event;
use jsonl::{FlowObject, Line};
use table::Row;

/// Takes what an export is made of, and writes it into one `W` or several.
pub trait Sink<W> {
    /// What comes next, before it is folded.
    fn foresee(&mut self, _events: &[Event]) {}

    fn row(&mut self, row: Row<'_>) -> io::Result<()>;

    fn line(&mut self, line: &Line<'_>) -> io::Result<()> {
        line.rows(&mut |row| self.row(row))
    }

    /// A flow that is open at the end.
    fn open_flow(&mut self, flow: &FlowObject<'_>) -> io::Result<()> {
        flow.rows(&mut |row| self.row(row))
    }

    /// Everything that can be seen now, for who reads along.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Ends what is written, and gives it back.
    fn finish(self: Box<Self>) -> io::Result<Vec<W>>;
}

/// JSON Lines as a sink.
#[derive(Debug)]
pub struct Jsonl<W>(pub W);

impl<W: Write> Sink<W> for Jsonl<W> {
    fn row(&mut self, _: Row<'_>) -> io::Result<()> {
        Ok(())
    }

    fn line(&mut self, line: &Line<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut self.0, line).map_err(io::Error::from)?;
        self.0.write_all(b"\n")
    }

    fn open_flow(&mut self, _: &FlowObject<'_>) -> io::Result<()> {
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    fn finish(mut self: Box<Self>) -> io::Result<Vec<W>> {
        self.0.flush()?;
        Ok(vec![self.0])
    }
}
