//! A document as Markdown (CommonMark with tables).

use std::io::{self, Write};

use super::document::{Document, Part, Table};

/// Nothing unescaped.
pub fn write(out: &mut impl Write, document: &Document) -> io::Result<()> {
    writeln!(out, "# {}", escape(&document.title))?;
    for part in &document.parts {
        match part {
            Part::Heading(text) => writeln!(out, "\n## {}", escape(text))?,
            Part::Table(table) => {
                writeln!(out)?;
                self::table(out, table)?;
            }
            Part::Facts(facts) => {
                writeln!(out)?;
                for (what, is) in facts {
                    writeln!(out, "- **{}**: {}", escape(what), escape(is))?;
                }
            }
            Part::Warnings(warnings) => {
                writeln!(out)?;
                for warning in warnings {
                    writeln!(out, "> **{}**", escape(warning))?;
                    writeln!(out, ">")?;
                }
            }
            Part::Notes(notes) => {
                for note in notes {
                    writeln!(out, "\n{}", escape(note))?;
                }
            }
            Part::Chart(_) => {}
        }
    }
    Ok(())
}

fn table(out: &mut impl Write, table: &Table) -> io::Result<()> {
    row(out, &table.head)?;
    let rules = (0..table.head.len()).map(|at| if at < table.words { ":--" } else { "--:" });
    writeln!(out, "| {} |", rules.collect::<Vec<_>>().join(" | "))?;
    for cells in &table.rows {
        row(out, cells)?;
    }
    Ok(())
}

fn row(out: &mut impl Write, cells: &[String]) -> io::Result<()> {
    let cells: Vec<String> = cells.iter().map(|cell| escape(cell)).collect();
    writeln!(out, "| {} |", cells.join(" | "))
}

/// Safe for a terminal, and nothing in it is markup.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in crate::units::escape(text).chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '\\' | '|' | '*' | '_' | '`' | '[' | ']' | '#' | '~' | '!' => {
                safe.push('\\');
                safe.push(c);
            }
            _ => safe.push(c),
        }
    }
    safe
}
