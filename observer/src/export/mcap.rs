//! Plain MCAP: one protobuf message a row, a topic a flow and table, the schemas in the file: for PlotJuggler, Foxglove and
//! Lichtblick.
//!
//! These plot a topic's field over time, and PlotJuggler plots 0 where a field is not set. So numbers are `double`, unknown is
//! NaN, which leaves a hole, and flows do not share a topic. `/samples` of a flow is `/LOCAL-REMOTE/samples`.

use std::collections::HashMap;
use std::io::{self, Write};

use mcap::records::MessageHeader;
use mcap::write::NoSeek;
use prost::Message as _;
use prost::encoding::{bool as proto_bool, double, string};
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};

use super::Sink;
use super::table::{Cell, Column, Kind, Row, Subject, Table};

/// Bytes of a chunk, unpacked.
const CHUNK: u64 = 2 << 20;
/// Topics of their own. The format numbers them with 16 bits: what comes later shares one a table.
const TOPICS: usize = 60_000;
/// Who shares one.
const OTHERS: &str = "others";

/// Writes one file.
pub struct Mcap<W: Write> {
    writer: mcap::Writer<NoSeek<W>>,
    schemas: HashMap<Table, Schema>,
    channels: HashMap<(Table, Option<String>), Channel>,
    /// Names in topics, and whose each is.
    names: HashMap<String, String>,
    buffer: Vec<u8>,
}

impl<W: Write> std::fmt::Debug for Mcap<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mcap").finish_non_exhaustive()
    }
}

struct Schema {
    id: u16,
    columns: Vec<Column>,
}

#[derive(Clone, Copy)]
struct Channel {
    id: u16,
    sequence: u32,
}

impl<W: Write> Mcap<W> {
    pub fn new(output: W) -> io::Result<Self> {
        let writer = mcap::WriteOptions::new()
            .library(concat!("observer ", env!("CARGO_PKG_VERSION")))
            .chunk_size(Some(CHUNK))
            .disable_seeking(true)
            .create(NoSeek::new(output))
            .map_err(io_error)?;
        Ok(Self {
            writer,
            schemas: HashMap::new(),
            channels: HashMap::new(),
            names: HashMap::new(),
            buffer: Vec::new(),
        })
    }

    fn schema(&mut self, table: Table) -> io::Result<&Schema> {
        if !self.schemas.contains_key(&table) {
            let columns = table.columns();
            let set = FileDescriptorSet {
                file: vec![file(table, &columns)],
            };
            let name = format!("observer.plain.{}", message_name(table));
            let id = self
                .writer
                .add_schema(&name, "protobuf", &set.encode_to_vec())
                .map_err(io_error)?;
            self.schemas.insert(table, Schema { id, columns });
        }
        Ok(&self.schemas[&table])
    }

    /// The channel of `table` and `of`, and the number of the next message in it.
    fn channel(&mut self, table: Table, of: Option<&Subject>) -> io::Result<Channel> {
        let mut key = (table, of.map(|of| of.id.clone()));
        if !self.channels.contains_key(&key) {
            let mut name = of.map(|of| self.name(of));
            if self.channels.len() >= TOPICS {
                key.1 = Some(OTHERS.to_owned());
                name = Some(OTHERS.to_owned());
            }
            if !self.channels.contains_key(&key) {
                let topic = match name {
                    Some(name) => format!("/{name}/{}", table.name()),
                    None => format!("/{}", table.name()),
                };
                let schema = self.schema(table)?.id;
                let id = self
                    .writer
                    .add_channel(
                        schema,
                        &topic,
                        "protobuf",
                        &std::collections::BTreeMap::new(),
                    )
                    .map_err(io_error)?;
                self.channels
                    .insert(key.clone(), Channel { id, sequence: 0 });
            }
        }
        let Some(channel) = self.channels.get_mut(&key) else {
            return Err(io::Error::other("a channel is missing"));
        };
        channel.sequence = channel.sequence.wrapping_add(1);
        Ok(*channel)
    }

    /// A name nobody else has: a tuple is used again by later flows. Slashes part topics, so a name has none.
    fn name(&mut self, of: &Subject) -> String {
        let plain = of.name.replace('/', "_");
        let taken = |name: &String| self.names.get(name).is_some_and(|id| *id != of.id);
        let name = if taken(&plain) {
            format!("{plain} ({})", of.id.replace('/', "_"))
        } else {
            plain
        };
        self.names.insert(name.clone(), of.id.clone());
        name
    }
}

impl<W: Write> Sink<W> for Mcap<W> {
    fn row(&mut self, row: Row<'_>) -> io::Result<()> {
        let channel = self.channel(row.table, row.of.as_ref())?;
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        encode(&self.schema(row.table)?.columns, &row.cells, &mut buffer);
        // Where the wall clock is not known time begins with the machine.
        let time = row.wall_ns.and_then(|ns| u64::try_from(ns).ok());
        let time = time.unwrap_or(row.mono_ns);
        let header = MessageHeader {
            channel_id: channel.id,
            sequence: channel.sequence,
            log_time: time,
            publish_time: time,
        };
        let written = self.writer.write_to_known_channel(&header, &buffer);
        self.buffer = buffer;
        written.map_err(io_error)
    }

    fn finish(mut self: Box<Self>) -> io::Result<Vec<W>> {
        self.writer.finish().map_err(io_error)?;
        Ok(vec![self.writer.into_inner().into_inner()])
    }
}

/// `Samples`.
fn message_name(table: Table) -> String {
    let mut name = table.name().to_owned();
    name[..1].make_ascii_uppercase();
    name
}

fn file(table: Table, columns: &[Column]) -> FileDescriptorProto {
    let mut fields = Vec::new();
    for column in columns {
        let kind = match column.kind {
            Kind::Text => Type::String,
            _ => Type::Double,
        };
        fields.push(field(column.name.clone(), kind, fields.len()));
        if column.bounded {
            let name = format!("{}_unlimited", column.name);
            fields.push(field(name, Type::Bool, fields.len()));
        }
    }
    FileDescriptorProto {
        name: Some(format!("observer/plain/{}.proto", table.name())),
        package: Some("observer.plain".to_owned()),
        message_type: vec![DescriptorProto {
            name: Some(message_name(table)),
            field: fields,
            ..DescriptorProto::default()
        }],
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    }
}

fn field(name: String, kind: Type, before: usize) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name),
        number: i32::try_from(before + 1).ok(),
        label: Some(Label::Optional.into()),
        r#type: Some(kind.into()),
        ..FieldDescriptorProto::default()
    }
}

/// As [`file`] numbers the fields; what is 0, false or empty is left out, as proto3 has it.
fn encode(columns: &[Column], cells: &[Cell<'_>], out: &mut Vec<u8>) {
    let mut tag = 0;
    for (column, cell) in columns.iter().zip(cells) {
        tag += 1;
        let number = match cell {
            Cell::Text(text) => {
                if !text.is_empty() {
                    string::encode(tag, &text.clone().into_owned(), out);
                }
                0.0
            }
            Cell::Unknown | Cell::Unlimited if column.kind == Kind::Text => 0.0,
            Cell::Unknown | Cell::Unlimited => f64::NAN,
            Cell::Unsigned(number) => *number as f64,
            Cell::Float(number) => *number,
            Cell::Bool(yes) => f64::from(u8::from(*yes)),
            Cell::Time(time) => time.as_nanosecond() as f64 / 1e9,
        };
        if number != 0.0 {
            double::encode(tag, &number, out);
        }
        if column.bounded {
            tag += 1;
            if *cell == Cell::Unlimited {
                proto_bool::encode(tag, &true, out);
            }
        }
    }
}

/// Keeps the kind: a broken pipe ends quietly.
fn io_error(error: mcap::McapError) -> io::Error {
    match error {
        mcap::McapError::Io(error) => error,
        other => io::Error::other(other),
    }
}
