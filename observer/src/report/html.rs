//! A document as one HTML page that needs nothing else: no script, no network, light and dark, printable.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::chart::nice;
use super::compare::{Comparison, METRICS, Metric};
use super::document::{Document, Part, Table};

const STYLE: &str = include_str!("html/style.css");

/// Nothing unescaped; charts are made by this program and are as they are.
pub fn write(out: &mut impl Write, document: &Document) -> io::Result<()> {
    let title = escape(&document.title);
    // Nothing is loaded and nothing runs, whatever a name in the recording says.
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    )?;
    for part in &document.parts {
        match part {
            Part::Heading(text) => writeln!(out, "<h2>{}</h2>", escape(text))?,
            Part::Table(table) => self::table(out, table)?,
            Part::Facts(facts) => {
                writeln!(out, "<dl>")?;
                for (what, is) in facts {
                    writeln!(out, "<dt>{}</dt><dd>{}</dd>", escape(what), escape(is))?;
                }
                writeln!(out, "</dl>")?;
            }
            Part::Warnings(warnings) => {
                for warning in warnings {
                    writeln!(out, "<p class=\"warning\">{}</p>", escape(warning))?;
                }
            }
            Part::Notes(notes) => {
                for note in notes {
                    writeln!(out, "<p>{}</p>", escape(note))?;
                }
            }
            Part::Chart(svg) => writeln!(out, "<figure>\n{svg}</figure>")?,
        }
    }
    writeln!(out, "</main>\n</body>\n</html>")
}

fn table(out: &mut impl Write, table: &Table) -> io::Result<()> {
    writeln!(out, "<div class=\"table\"><table>\n<thead>")?;
    row(out, "th", &table.head, table.words)?;
    writeln!(out, "</thead>\n<tbody>")?;
    for cells in &table.rows {
        row(out, "td", cells, table.words)?;
    }
    writeln!(out, "</tbody>\n</table></div>")
}

fn row(out: &mut impl Write, tag: &str, cells: &[String], words: usize) -> io::Result<()> {
    write!(out, "<tr>")?;
    for (at, cell) in cells.iter().enumerate() {
        let class = if at < words { "" } else { " class=\"n\"" };
        write!(out, "<{tag}{class}>{}</{tag}>", escape(cell))?;
    }
    writeln!(out, "</tr>")
}

/// Nothing in it is markup, and nothing turns the reading direction.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in crate::units::escape(text).chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(c),
        }
    }
    safe
}

/// Figures that are drawn for a comparison.
const DRAWN: [&str; 3] = ["throughput", "retrans_rate", "mean_rtt"];
const WIDTH: f64 = 960.0;
const LEFT: f64 = 240.0;
const RIGHT: f64 = 30.0;
const ROW: f64 = 24.0;

/// Every run as a dot and the median as a bar, group by group.
pub fn strips(comparison: &Comparison<'_>) -> String {
    let panel = comparison.groups.len() as f64 * ROW + 60.0;
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"Runs and medians of each group\">\n",
        panel * DRAWN.len() as f64
    );
    let places = DRAWN.iter().filter_map(|name| Metric::place(name));
    for (at, metric) in places.enumerate() {
        strip(&mut out, comparison, metric, at as f64 * panel);
    }
    out.push_str("</svg>\n");
    out
}

fn strip(out: &mut String, comparison: &Comparison<'_>, metric: usize, top: f64) {
    let shown = &METRICS[metric];
    let stats = comparison
        .groups
        .iter()
        .filter_map(|group| group.stats[metric]);
    let scale = nice(stats.map(|stat| stat.max).fold(0.0, f64::max));
    let x = |value: f64| LEFT + value / scale * (WIDTH - LEFT - RIGHT);
    let bottom = top + 30.0 + comparison.groups.len() as f64 * ROW;
    let _ = writeln!(
        out,
        "<text class=\"t\" x=\"{LEFT}\" y=\"{}\">{}</text>",
        top + 18.0,
        escape(shown.title)
    );
    for share in [0.0, 0.5, 1.0] {
        let at = x(scale * share);
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{at:.1} {}V{bottom}\"/><text class=\"m\" x=\"{at:.1}\" y=\"{}\">{}</text>",
            top + 26.0,
            bottom + 16.0,
            escape(&(shown.show)(scale * share))
        );
    }
    for (at, group) in comparison.groups.iter().enumerate() {
        let y = top + 30.0 + (at as f64 + 0.5) * ROW;
        let name: String = group.key.join(" ").chars().take(34).collect();
        let _ = writeln!(
            out,
            "<text class=\"e\" x=\"{}\" y=\"{}\">{}</text>",
            LEFT - 8.0,
            y + 4.0,
            escape(&name)
        );
        let Some(stat) = group.stats[metric] else {
            continue;
        };
        let _ = writeln!(
            out,
            "<path class=\"l b\" d=\"M{:.1} {y}H{:.1}\"/><path class=\"l median\" d=\"M{:.1} {}v12\"/>",
            x(stat.min),
            x(stat.max),
            x(stat.median),
            y - 6.0
        );
        for value in group.runs.iter().filter_map(|run| (shown.of)(&run.block)) {
            let _ = writeln!(out, "<circle cx=\"{:.1}\" cy=\"{y}\" r=\"3.5\"/>", x(value));
        }
    }
}
