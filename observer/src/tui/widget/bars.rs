//! Counts over time by kind: stacked bars, each kind in its own letter.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::axis::{GUTTER, Scale, Unit};
use crate::tui::theme::Marker;

/// The bars by cells: how many of each kind.
#[derive(Clone, Debug)]
pub struct Bars<'a> {
    pub cells: &'a [Vec<u32>],
    /// Letter and style of each kind.
    pub kinds: &'a [(char, Style)],
    pub marker: Marker,
    pub axis: Style,
}

impl Bars<'_> {
    pub fn render(&self, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        if area.is_empty() || area.width <= GUTTER {
            return;
        }
        let plot = Rect {
            x: area.x + GUTTER,
            width: area.width - GUTTER,
            ..area
        };
        let total = |cell: &Vec<u32>| cell.iter().map(|n| u64::from(*n)).sum::<u64>();
        let greatest = self.cells.iter().map(total).max().unwrap_or(0);
        let scale = Scale::new(0.0, greatest as f64, area.height.into(), false, true);
        scale.render(Unit::Count, self.marker, self.axis, area, buffer);
        for (counts, x) in self.cells.iter().zip(plot.left()..plot.right()) {
            let part = scale.part(total(counts) as f64);
            // Whatever happened is seen.
            let height = (part * f64::from(plot.height)).round().max(1.0) as u16;
            let stack = stack(counts, usize::from(height.min(plot.height)));
            for (kind, up) in stack.into_iter().zip(1..) {
                let Some(&(letter, style)) = self.kinds.get(kind) else {
                    continue;
                };
                if let Some(cell) = buffer.cell_mut((x, plot.bottom() - up)) {
                    cell.set_char(letter).set_style(style);
                }
            }
        }
    }
}

/// The kinds of `height` cells from the bottom: each that occurred at least once if there is room, the rest by number.
fn stack(counts: &[u32], height: usize) -> Vec<usize> {
    let mut kinds: Vec<usize> = (0..counts.len()).filter(|&k| counts[k] > 0).collect();
    if kinds.len() > height {
        // No room for all: the most frequent.
        kinds.sort_by_key(|&k| std::cmp::Reverse(counts[k]));
        kinds.truncate(height);
        kinds.sort_unstable();
        return kinds;
    }
    let mut cells = vec![0_u64; counts.len()];
    for &kind in &kinds {
        cells[kind] = 1;
    }
    for _ in kinds.len()..height {
        // To whom a cell stands for the most.
        let next = kinds.iter().copied().max_by(|&a, &b| {
            let (left, right) = (
                u64::from(counts[a]) * (cells[b] + 1),
                u64::from(counts[b]) * (cells[a] + 1),
            );
            left.cmp(&right).then(b.cmp(&a))
        });
        if let Some(next) = next {
            cells[next] += 1;
        }
    }
    kinds
        .into_iter()
        .flat_map(|kind| std::iter::repeat_n(kind, cells[kind] as usize))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KINDS: [(char, Style); 3] = [
        ('f', Style::new()),
        ('r', Style::new()),
        ('t', Style::new()),
    ];

    fn drawn(cells: &[Vec<u32>], width: u16, height: u16) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        let bars = Bars {
            cells,
            kinds: &KINDS,
            marker: Marker::Ascii,
            axis: Style::new(),
        };
        bars.render(buffer.area, &mut buffer);
        let rows = (0..height).map(|y| {
            let row = (0..width).map(|x| buffer[(x, y)].symbol());
            row.collect::<String>().trim_end().to_owned() + "\n"
        });
        rows.collect()
    }

    #[test]
    fn every_kind_is_seen_in_its_letter() {
        let cells = [
            vec![0, 0, 0],
            vec![1, 0, 0],
            vec![30, 0, 1],
            vec![10, 10, 0],
        ];
        let expected = ["      |  t", "    20+  f", "      |  fr", "     0+ fff", ""].join("\n");
        assert_eq!(drawn(&cells, 12, 4), expected);
        assert_eq!(drawn(&[vec![0, 0, 0]], 12, 2), "     1+\n     0+\n");
    }

    proptest! {
        #[test]
        fn a_stack_has_its_height_and_no_kind_that_did_not_occur(
            counts in proptest::collection::vec(0_u32..2000, 1..8),
            height in 0_usize..40,
        ) {
            let stack = stack(&counts, height);
            let occurred = counts.iter().any(|n| *n > 0);
            prop_assert_eq!(stack.len(), if occurred { height } else { 0 });
            prop_assert!(stack.iter().all(|k| counts[*k] > 0));
            prop_assert!(stack.is_sorted());
            let kinds = counts.iter().filter(|n| **n > 0).count();
            let mut shown = stack.clone();
            shown.dedup();
            prop_assert_eq!(shown.len(), kinds.min(height));
        }

        #[test]
        fn nothing_leaves_the_area(
            cells in proptest::collection::vec(proptest::collection::vec(any::<u32>(), 0..5), 0..60),
            (x, y, width, height) in (0_u16..30, 0_u16..12, 0_u16..40, 0_u16..12),
        ) {
            let mut buffer = Buffer::empty(Rect::new(0, 0, 30, 12));
            let area = Rect::new(x, y, width, height);
            let bars = Bars { cells: &cells, kinds: &KINDS, marker: Marker::Braille, axis: Style::new() };
            bars.render(area, &mut buffer);
            for cy in 0..12 {
                for cx in 0..30 {
                    let inside = area.contains((cx, cy).into());
                    prop_assert!(inside || buffer[(cx, cy)].symbol() == " ");
                }
            }
        }
    }
}
