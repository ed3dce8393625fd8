//! The qdisc page: what is attached to each device, as a tree; below it the selected one in full.
//!
//! ```text
//! Device      Qdisc                   Rate  Drops  Drops/s  Backlog  Flows       the table
//! eth0        fq 8001:          94.1 Mbit/s      3        0  14.5 kB      1
//! lo          noqueue           0 bit/s          0        0      0 B      0
//!
//! eth0 fq 8001: root · not the default, fq_codel                                 the selected one
//! set up   limit 10000p  flow_limit 100p  …
//! flows    1, 93.8 Mbit/s · pacing: by fq 1
//! counted  sent 12.5 MB, 8640 packets · throttled 412 (38/s) …
//! now      flows 3 · inactive 1 · latency 12.4 µs
//! backlog  ▁▂▃▅▇ 14.5 kB, at most 30.3 kB
//! drops    ▁▁▁▂▁ 0/s, 3 in the last 60 s
//! ```

mod detail;
mod settings;
mod spark;
mod table;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::put;
use crate::event::{Device, Qdisc};
use crate::model::Model;
use crate::tui::format::wrap;
use crate::tui::state::ViewState;
use crate::tui::state::qdiscs::Row;

/// The table keeps this many rows, where there are so many, whatever the selected one has to tell.
const ROWS: usize = 4;

/// The page's two places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Split {
    /// Lines of the table, its heading with it.
    table: usize,
    /// Lines of the selected one, under a blank line.
    detail: usize,
}

impl Split {
    /// `detail`: the lines that the selected one would fill.
    fn new(height: usize, rows: usize, detail: usize) -> Self {
        let least = (rows + 1).min(ROWS + 1).min(height);
        // A blank line between them.
        let room = height.saturating_sub(least + 1);
        let detail = detail.min(room);
        let table = match detail {
            0 => height,
            detail => (rows + 1).min(height - detail - 1),
        };
        Self { table, detail }
    }
}

/// The device and the qdisc that a row is of.
fn of<'a>(model: &'a Model, row: &Row) -> Option<(&'a Device, Option<&'a Qdisc>)> {
    let device = model.device(row.device)?;
    let qdisc = row.parent.and_then(|parent| {
        let mut all = device.qdiscs.iter();
        all.find(|qdisc| qdisc.parent == parent)
    });
    Some((device, qdisc))
}

fn plan(model: &Model, state: &ViewState, area: Rect) -> (Split, Vec<Line<'static>>) {
    let height = usize::from(area.height);
    let room = height.saturating_sub(ROWS + 2);
    let lines = detail::lines(model, state, usize::from(area.width), room);
    (
        Split::new(height, state.qdiscs.rows.len(), lines.len()),
        lines,
    )
}

/// Takes in what there is to see and the room for it.
pub fn arrange(model: &Model, state: &mut ViewState, area: Rect) {
    state.qdiscs.arrange(model);
    let (split, _) = plan(model, state, area);
    state.qdiscs.scroll(split.table.saturating_sub(1));
}

pub fn render(model: &Model, state: &ViewState, area: Rect, buffer: &mut Buffer) {
    if state.qdiscs.rows.is_empty() {
        let text = "No device was told yet: what is attached is read every second.";
        let lines = wrap(text, usize::from(area.width));
        put(lines.into_iter().map(Line::raw).collect(), area, buffer);
        return;
    }
    let (split, lines) = plan(model, state, area);
    let clamp = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let top = Rect {
        height: clamp(split.table),
        ..area
    };
    table::render(model, state, top.intersection(area), buffer);
    let below = Rect {
        y: top.bottom().saturating_add(1),
        height: clamp(split.detail),
        ..area
    };
    put(lines, below.intersection(area), buffer);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_and_detail_share_any_height() {
        for height in 0..80 {
            for rows in 0..40 {
                for detail in 0..20 {
                    let split = Split::new(height, rows, detail);
                    let blank = usize::from(split.detail > 0);
                    assert!(split.table + blank + split.detail <= height.max(1));
                    assert!(split.detail <= detail);
                    if height > ROWS && split.detail > 0 {
                        assert!(split.table > rows.min(ROWS), "{height} {rows} {detail}");
                    }
                }
            }
        }
    }
}
