//! The table of the qdisc page: a line a qdisc, children below their parents.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::event::{Device, Qdisc, TC_H_INGRESS, handle_text};
use crate::model::{Model, Rise};
use crate::tui::format::{cell, known};
use crate::tui::state::ViewState;
use crate::tui::state::qdiscs::{Row, Use};
use crate::units::{self, UNKNOWN, bits, escape};

/// Between two columns.
const GAP: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Device,
    Qdisc,
    Flows,
    Throughput,
    Rate,
    Sent,
    Packets,
    Drops,
    DropsRate,
    Backlog,
    BacklogPackets,
    Overlimits,
    Requeues,
}

impl Column {
    const ALL: [Self; 13] = [
        Self::Device,
        Self::Qdisc,
        Self::Flows,
        Self::Throughput,
        Self::Rate,
        Self::Sent,
        Self::Packets,
        Self::Drops,
        Self::DropsRate,
        Self::Backlog,
        Self::BacklogPackets,
        Self::Overlimits,
        Self::Requeues,
    ];

    /// The lower, the longer it stays where it is narrow.
    fn rank(self) -> usize {
        const RANKS: [Column; 13] = [
            Column::Qdisc,
            Column::Device,
            Column::Drops,
            Column::Backlog,
            Column::Rate,
            Column::Flows,
            Column::DropsRate,
            Column::Sent,
            Column::Throughput,
            Column::Packets,
            Column::Overlimits,
            Column::Requeues,
            Column::BacklogPackets,
        ];
        RANKS
            .iter()
            .position(|column| *column == self)
            .unwrap_or(RANKS.len())
    }

    fn heading(self) -> &'static str {
        match self {
            Self::Device => "Device",
            Self::Qdisc => "Qdisc",
            Self::Flows => "Flows",
            Self::Throughput => "Throughput",
            Self::Rate => "Rate",
            Self::Sent => "Sent",
            Self::Packets => "Packets/s",
            Self::Drops => "Drops",
            Self::DropsRate => "Drops/s",
            Self::Backlog => "Backlog",
            Self::BacklogPackets => "Backlog p",
            Self::Overlimits => "Overlimits",
            Self::Requeues => "Requeues",
        }
    }

    fn width(self) -> usize {
        match self {
            Self::Overlimits => 10,
            Self::Qdisc => 18,
            Self::Flows => 5,
            Self::Throughput | Self::Rate => 11,
            Self::Drops | Self::Requeues => 8,
            Self::DropsRate => 7,
            Self::Device | Self::Sent | Self::Packets | Self::Backlog | Self::BacklogPackets => 9,
        }
    }

    fn right(self) -> bool {
        !matches!(self, Self::Device | Self::Qdisc)
    }

    /// Those that `width` has room for with their widths, in their order. Names get what is left.
    fn placed(width: usize) -> Vec<(Self, usize)> {
        let mut by_rank = Self::ALL;
        by_rank.sort_by_key(|column| column.rank());
        let mut used = 0;
        let mut kept = Vec::new();
        for column in by_rank {
            let needs = column.width() + if kept.is_empty() { 0 } else { GAP };
            if used + needs > width && !kept.is_empty() {
                break;
            }
            used += needs;
            kept.push(column);
        }
        let left = width.saturating_sub(used);
        let qdisc = left.min(16);
        let device = (left - qdisc).min(10);
        let grown = |column: Self| match column {
            Self::Qdisc => column.width() + qdisc,
            Self::Device => column.width() + device,
            _ => column.width(),
        };
        Self::ALL
            .into_iter()
            .filter(|column| kept.contains(column))
            .map(|column| (column, grown(column)))
            .collect()
    }
}

/// What a row's cells are made of.
struct Cells<'a> {
    row: &'a Row,
    device: &'a Device,
    qdisc: Option<&'a Qdisc>,
    rise: Option<Rise>,
    used: Option<&'a Use>,
}

impl Cells<'_> {
    fn text(&self, column: Column) -> String {
        let of = |text: fn(&Qdisc) -> String| known(self.qdisc.map(text));
        let rise = |text: fn(&Rise) -> String| known(self.rise.as_ref().map(text));
        // Flows leave by the device: its root carries them.
        let nobody = Use {
            throughput_bps: Some(0),
            ..Use::default()
        };
        let used = |text: fn(&Use) -> String| {
            let first = self.row.first.then(|| self.used.unwrap_or(&nobody));
            first.map(text).unwrap_or_default()
        };
        match column {
            Column::Device if self.row.first => device_name(self.device),
            Column::Device => String::new(),
            Column::Qdisc => self.name(),
            Column::Flows => used(|used| used.flows.to_string()),
            Column::Throughput => used(|used| known(used.throughput_bps.map(units::rate))),
            Column::Rate => rise(|rise| units::rate(bits(rise.per_s(rise.bytes)))),
            Column::Packets => rise(|rise| rise.per_s(rise.packets).to_string()),
            Column::DropsRate => rise(|rise| per_s(rise, rise.drops)),
            Column::Sent => of(|qdisc| units::size(qdisc.bytes)),
            Column::Drops => of(|qdisc| qdisc.drops.to_string()),
            Column::Backlog => of(|qdisc| units::size(qdisc.backlog_bytes)),
            Column::BacklogPackets => of(|qdisc| qdisc.backlog_packets.to_string()),
            Column::Overlimits => of(|qdisc| qdisc.overlimits.to_string()),
            Column::Requeues => of(|qdisc| qdisc.requeues.to_string()),
        }
    }

    /// `fq 8001:`, and below it `└ :1 fq_codel`: the branch, the class it hangs in, the kind, its handle.
    fn name(&self) -> String {
        let Some(qdisc) = self.qdisc else {
            return UNKNOWN.to_owned();
        };
        let mut name = String::new();
        if self.row.depth > 0 {
            name.push_str(&"  ".repeat(self.row.depth - 1));
            name.push_str(if self.row.last { "└ " } else { "├ " });
            name.push_str(&handle_text(qdisc.parent));
            name.push(' ');
        }
        name.push_str(&escape(&qdisc.kind));
        // Nobody gave those with handle 0 a name.
        if qdisc.handle != 0 && qdisc.parent != TC_H_INGRESS {
            name.push(' ');
            name.push_str(&qdisc.handle_text());
        }
        name
    }
}

/// A rate of events: what is not zero never prints as zero.
pub(super) fn per_s(rise: &Rise, count: u64) -> String {
    match rise.per_s(count) {
        0 if count > 0 => "<1".to_owned(),
        per_s => per_s.to_string(),
    }
}

/// Down is told by a word.
pub(super) fn device_name(device: &Device) -> String {
    let name = escape(&device.name);
    if device.up {
        name
    } else {
        format!("{name} (down)")
    }
}

pub(super) fn render(model: &Model, state: &ViewState, area: Rect, buffer: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let columns = Column::placed(usize::from(area.width));
    let heading = columns.iter().map(|&(column, width)| {
        let style = state.theme.heading;
        (column.heading().to_owned(), column, width, style)
    });
    line(heading, area, area.y, buffer);
    let visible = state.qdiscs.rows.iter().skip(state.qdiscs.offset);
    for (row, y) in visible.zip(area.top() + 1..area.bottom()) {
        let Some((device, qdisc)) = super::of(model, row) else {
            continue;
        };
        let rise = row.parent.and_then(|parent| {
            let history = model.qdisc_history(row.device, parent)?;
            history.rise(model.now())
        });
        let cells = Cells {
            row,
            device,
            qdisc,
            rise,
            used: state.qdiscs.uses.get(&row.device),
        };
        let cells = columns.iter().map(|&(column, width)| {
            let style = style(state, &cells, column);
            (cells.text(column), column, width, style)
        });
        line(cells, area, y, buffer);
        if state.qdiscs.selected == Some((row.device, row.parent)) {
            buffer.set_style(Rect::new(area.x, y, area.width, 1), state.theme.selected);
        }
    }
}

/// Drops that go on deserve a look; devices without flows stand back.
fn style(state: &ViewState, cells: &Cells<'_>, column: Column) -> Style {
    let dropping = cells.rise.as_ref().is_some_and(|rise| rise.drops > 0);
    match column {
        Column::Drops | Column::DropsRate if dropping => state.theme.warn,
        _ if cells.used.is_none() => state.theme.quiet,
        _ => Style::new(),
    }
}

fn line(
    cells: impl Iterator<Item = (String, Column, usize, Style)>,
    area: Rect,
    y: u16,
    buffer: &mut Buffer,
) {
    let mut x = 0;
    for (text, column, width, style) in cells {
        let left = usize::from(area.width).saturating_sub(x);
        let at = area.x + u16::try_from(x).unwrap_or(u16::MAX);
        let text = cell(&text, width, column.right());
        buffer.set_stringn(at, y, text, left.min(width), style);
        x += width + GAP;
        if x >= usize::from(area.width) {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(width: usize) -> Vec<Column> {
        let placed = Column::placed(width);
        placed.into_iter().map(|(column, _)| column).collect()
    }

    #[test]
    fn columns_go_by_their_rank() {
        assert_eq!(names(10), [Column::Qdisc]);
        assert_eq!(
            names(60),
            [
                Column::Device,
                Column::Qdisc,
                Column::Rate,
                Column::Drops,
                Column::Backlog
            ]
        );
        let at_80 = names(80);
        assert!(at_80.contains(&Column::Rate) && at_80.contains(&Column::Flows));
        assert_eq!(names(300), Column::ALL);
    }

    #[test]
    fn columns_fit_their_width_and_never_go_as_it_grows() {
        let mut before = 0;
        for width in 0..300 {
            let placed = Column::placed(width);
            let sum: usize = placed.iter().map(|(_, width)| width + GAP).sum();
            assert!(sum <= width.max(Column::Qdisc.width()) + GAP, "{width}");
            assert!(placed.len() >= before);
            before = placed.len();
        }
    }
}
