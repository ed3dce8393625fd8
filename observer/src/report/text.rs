//! A document as plain text.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr as _;

use super::document::{Document, Part, Table};
use crate::units::escape;

/// Nothing unescaped.
pub fn write(out: &mut impl Write, document: &Document) -> io::Result<()> {
    writeln!(out, "{}", escape(&document.title))?;
    for part in &document.parts {
        match part {
            Part::Heading(text) => {
                let text = escape(text);
                writeln!(out, "\n{text}\n{}", "─".repeat(text.width()))?;
            }
            Part::Table(table) => {
                writeln!(out)?;
                self::table(out, table)?;
            }
            Part::Facts(facts) => {
                let width = facts.iter().map(|(what, _)| what.width()).max();
                for (what, is) in facts {
                    let space = width.unwrap_or(0).saturating_sub(what.width());
                    writeln!(out, "{what}{}  {}", " ".repeat(space), escape(is))?;
                }
            }
            Part::Warnings(warnings) => {
                writeln!(out)?;
                for warning in warnings {
                    writeln!(out, "! {}", escape(warning))?;
                }
            }
            Part::Notes(notes) => {
                writeln!(out)?;
                for note in notes {
                    writeln!(out, "{}", escape(note))?;
                }
            }
            Part::Chart(_) => {}
        }
    }
    Ok(())
}

fn table(out: &mut impl Write, table: &Table) -> io::Result<()> {
    let lines: Vec<Vec<String>> = std::iter::once(&table.head)
        .chain(&table.rows)
        .map(|cells| cells.iter().map(|cell| escape(cell)).collect())
        .collect();
    let widths: Vec<usize> = (0..table.head.len())
        .map(|at| {
            let cells = lines.iter().filter_map(|cells| cells.get(at));
            cells.map(|cell| cell.width()).max().unwrap_or(0)
        })
        .collect();
    for cells in &lines {
        let mut line = String::new();
        for (at, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let space = " ".repeat(width.saturating_sub(cell.width()));
            let gap = if at == 0 { "" } else { "  " };
            let parts = if at < table.words {
                [gap, cell, &space]
            } else {
                [gap, &space, cell]
            };
            line.extend(parts);
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
