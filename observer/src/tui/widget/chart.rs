//! A chart of one to four lines over time, on one scale.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::axis::{GUTTER, Scale, Unit, line};
use super::raster::{LINES, Raster, dashed, dots_per_cell};
use crate::tui::theme::Marker;

/// What marks numbers beyond the scale.
pub const BEYOND: char = '▲';
/// So many times what is usual is beyond the scale, where it is seen in hardly any column.
const FAR: f64 = 5.0;
/// Fewer columns than these have nothing usual.
const FEW: usize = 40;

/// Where a scale of rates ends for the sake of all others: a burst of ACKs that came together looks like a rate of
/// gigabits and would press what is real against the axis. `None` = there is nothing far out.
fn ceiling(tops: &mut [f64]) -> Option<f64> {
    if tops.len() < FEW {
        return None;
    }
    let rank = (tops.len() / 100).max(2);
    let (above, usual, _) = tops.select_nth_unstable_by(rank, |a, b| b.total_cmp(a));
    let usual = *usual;
    let far = above.iter().any(|top| *top > usual * FAR);
    (far && usual > 0.0).then_some(usual * 1.2)
}

/// What a line does within one column of dots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Least and greatest; `None` = no number, but unlimited.
    pub range: Option<(f64, f64)>,
    pub last: Option<f64>,
    /// It was unlimited at least once.
    pub unlimited: bool,
    /// It continues the column before.
    pub joined: bool,
}

/// A line by columns of dots; `None` = nothing is known there, and nothing is drawn.
#[derive(Clone, Debug)]
pub struct Line {
    pub points: Vec<Option<Point>>,
    pub style: Style,
}

/// The chart; the first line is drawn on top of the others.
#[derive(Clone, Debug)]
pub struct Chart<'a> {
    pub lines: &'a [Line],
    pub unit: Unit,
    /// It need not start at 0.
    pub tight: bool,
    /// Number of the first column of dots, counted from anywhere: dashes stay on their data when these move.
    pub first: u64,
    pub marker: Marker,
    pub axis: Style,
}

impl Chart<'_> {
    /// From where to where it reaches in `rows`; `None` = there is no number.
    pub fn scale(&self, rows: u16) -> Option<Scale> {
        let points = self.lines.iter().flat_map(|line| &line.points).flatten();
        let ranges = points.filter_map(|point| point.range);
        let (least, mut greatest) =
            ranges
                .clone()
                .fold(None, |all: Option<(f64, f64)>, (a, b)| {
                    let (c, d) = all.unwrap_or((a, b));
                    Some((a.min(c), b.max(d)))
                })?;
        if self.unit == Unit::Rate {
            let mut tops: Vec<f64> = ranges.map(|(_, top)| top).collect();
            greatest = greatest.min(ceiling(&mut tops).unwrap_or(greatest));
        }
        let whole = self.unit == Unit::Count;
        Some(Scale::new(least, greatest, rows.into(), self.tight, whole))
    }

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
        if let Some(scale) = self.scale(area.height) {
            scale.render(self.unit, self.marker, self.axis, area, buffer);
            let mut raster = Raster::new(self.marker, plot.width, plot.height);
            for (n, line) in self.lines.iter().enumerate().take(LINES).rev() {
                self.trace(n, line, &scale, &mut raster);
            }
            let styles: Vec<Style> = self.lines.iter().map(|line| line.style).collect();
            raster.render(&styles, plot, buffer);
            self.mark_beyond(&scale, plot, buffer);
        } else {
            line(self.marker, self.axis, area, buffer);
        }
        self.mark_unlimited(plot, buffer);
    }

    fn trace(&self, n: usize, line: &Line, scale: &Scale, raster: &mut Raster) {
        let top = raster.rows().saturating_sub(1);
        let row = |value: f64| (scale.part(value) * top as f64).round() as usize;
        let mut before: Option<usize> = None;
        for (x, point) in line.points.iter().enumerate() {
            let Some((low, high)) = point.and_then(|p| p.range) else {
                before = None;
                continue;
            };
            let (mut low, mut high) = (row(low), row(high));
            let joined = point.is_some_and(|p| p.joined);
            if let Some(before) = before.filter(|_| joined) {
                low = low.min(before);
                high = high.max(before);
            }
            // A dash may leave out what runs level, not what moves.
            let level = low == high && joined && before.is_some();
            if !level || dashed(self.marker, n, self.first.wrapping_add(x as u64)) {
                raster.run(x, low, high, n);
            }
            before = point.and_then(|p| p.last).map(row);
        }
    }

    /// What lies beyond the scale is marked at its top.
    fn mark_beyond(&self, scale: &Scale, plot: Rect, buffer: &mut Buffer) {
        let across = dots_per_cell(self.marker).0;
        let mark = if self.marker == Marker::Ascii {
            '!'
        } else {
            BEYOND
        };
        for line in self.lines.iter().rev() {
            for (x, point) in line.points.iter().enumerate() {
                let top = point.and_then(|p| p.range).map_or(0.0, |range| range.1);
                let cell = u16::try_from(x / across).unwrap_or(u16::MAX);
                if top > scale.high * (1.0 + 1e-6)
                    && cell < plot.width
                    && let Some(cell) = buffer.cell_mut((plot.x + cell, plot.y))
                {
                    cell.set_char(mark).set_style(line.style);
                }
            }
        }
    }

    /// Where a line is unlimited it leaves the chart at the top.
    fn mark_unlimited(&self, plot: Rect, buffer: &mut Buffer) {
        let across = dots_per_cell(self.marker).0;
        let mark = if self.marker == Marker::Ascii {
            '^'
        } else {
            '∞'
        };
        for line in self.lines.iter().rev() {
            let mut running = false;
            for (x, point) in line.points.iter().enumerate() {
                let unlimited = point.is_some_and(|p| p.unlimited);
                let cell = u16::try_from(x / across).unwrap_or(u16::MAX);
                if unlimited
                    && !running
                    && cell < plot.width
                    && let Some(cell) = buffer.cell_mut((plot.x + cell, plot.y))
                {
                    cell.set_char(mark).set_style(line.style);
                }
                running = unlimited;
            }
        }
    }
}

/// A cursor through a plot: cells keep what they show.
pub fn cursor(x: u16, marker: Marker, style: Style, area: Rect, buffer: &mut Buffer) {
    let line = if marker == Marker::Ascii { '|' } else { '│' };
    let area = area.intersection(buffer.area);
    if x < area.left() || x >= area.right() {
        return;
    }
    for y in area.top()..area.bottom() {
        if let Some(cell) = buffer.cell_mut((x, y)) {
            if cell.symbol() == " " {
                cell.set_char(line);
            }
            cell.set_style(style);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    /// Columns of dots in a chart of `width` cells.
    fn columns(marker: Marker, width: u16) -> usize {
        usize::from(width - GUTTER) * dots_per_cell(marker).0
    }

    #[expect(clippy::unnecessary_wraps, reason = "a column, known or not")]
    fn at(value: f64) -> Option<Point> {
        Some(span(value, value))
    }

    fn span(low: f64, high: f64) -> Point {
        Point {
            range: Some((low, high)),
            last: Some(high),
            unlimited: false,
            joined: true,
        }
    }

    fn lines(all: &[Vec<Option<Point>>]) -> Vec<Line> {
        all.iter()
            .map(|points| Line {
                points: points.clone(),
                style: Style::new(),
            })
            .collect()
    }

    fn chart(lines: &[Line], marker: Marker, unit: Unit) -> Chart<'_> {
        Chart {
            lines,
            unit,
            tight: false,
            first: 0,
            marker,
            axis: Style::new(),
        }
    }

    fn drawn(chart: &Chart, width: u16, height: u16) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        chart.render(buffer.area, &mut buffer);
        text(&buffer)
    }

    fn text(buffer: &Buffer) -> String {
        let rows = (0..buffer.area.height).map(|y| {
            let row = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol());
            row.collect::<String>().trim_end().to_owned()
        });
        rows.collect::<Vec<_>>().join("\n")
    }

    fn sawtooth(columns: usize, period: usize) -> Vec<Option<Point>> {
        (0..columns)
            .map(|x| at(50.0 + 50.0 * (x % period) as f64 / period as f64))
            .collect()
    }

    /// Three lines: a sawtooth with a gap, a level one, one that moves slowly.
    fn three(columns: usize) -> Vec<Vec<Option<Point>>> {
        let mut saw = sawtooth(columns, columns / 3);
        for point in saw.iter_mut().skip(columns / 2).take(columns / 8) {
            *point = None;
        }
        if let Some(Some(after)) = saw.get_mut(columns / 2 + columns / 8) {
            after.joined = false;
        }
        let slow = (0..columns).map(|x| at(10.0 + 20.0 * x as f64 / columns as f64));
        vec![saw, vec![at(80.0); columns], slow.collect()]
    }

    #[test]
    fn one_far_out_does_not_flatten_the_others() {
        let mut points = vec![at(20e6); 146];
        points[70] = at(1e9);
        let all = lines(&[points.clone()]);
        let rates = chart(&all, Marker::Braille, Unit::Rate);
        let scale = rates.scale(4).expect("numbers");
        assert!(scale.high < 50e6, "{scale:?}");
        assert_eq!(drawn(&rates, 80, 4).matches(BEYOND).count(), 1);
        // Seen in more than a moment it is what there is to see; RTTs are never cut.
        points[60..80].fill(at(1e9));
        let often = lines(&[points]);
        let rates = chart(&often, Marker::Braille, Unit::Rate);
        assert!(rates.scale(4).expect("numbers").high >= 1e9);
        assert!(!drawn(&rates, 80, 4).contains(BEYOND));
        let times = chart(&all, Marker::Braille, Unit::Time);
        assert!(times.scale(4).expect("numbers").high >= 1e9);
    }

    #[test]
    fn three_lines_by_every_marker_and_at_several_sizes() {
        let mut all = String::new();
        for marker in Marker::ALL {
            for (width, height) in [(40, 4), (80, 8)] {
                let lines = lines(&three(columns(marker, width)));
                let chart = chart(&lines, marker, Unit::Bytes);
                writeln!(all, "{} {width}×{height}", marker.as_str()).expect("text");
                all += &drawn(&chart, width, height);
                all += "\n\n";
            }
        }
        insta::assert_snapshot!(all);
    }

    #[test]
    fn a_gap_is_a_gap_and_a_peak_is_seen() {
        let mut points = vec![at(1.0); 40];
        points[10] = Some(span(1.0, 100.0));
        for point in &mut points[20..28] {
            *point = None;
        }
        let lines = lines(&[points]);
        let shown = drawn(&chart(&lines, Marker::Ascii, Unit::Count), 47, 4);
        let rows: Vec<Vec<char>> = shown.lines().map(|l| l.chars().collect()).collect();
        assert_eq!(rows[0].get(7 + 10), Some(&'#'), "{shown}");
        assert!(rows[3][7 + 20..7 + 28].iter().all(|c| *c == ' '), "{shown}");
        assert_eq!(rows[3][7 + 28], '#');
    }

    #[test]
    fn a_peak_is_seen_in_a_dashed_line_too() {
        for n in 0..LINES {
            for x in 0..8 {
                let mut points = vec![at(1.0); 16];
                points[x] = Some(span(1.0, 100.0));
                let mut all = vec![vec![None; 16]; n];
                all.push(points);
                let lines = lines(&all);
                let shown = drawn(&chart(&lines, Marker::Braille, Unit::Count), 15, 3);
                let top = shown.lines().next().expect("a row");
                assert!(top.chars().any(|c| c > '\u{2800}'), "{n} {x}\n{shown}");
            }
        }
    }

    #[test]
    fn unlimited_is_marked_and_unknown_is_nothing() {
        let unlimited = Some(Point {
            range: None,
            last: None,
            unlimited: true,
            joined: false,
        });
        let all = lines(&[vec![unlimited; 6], vec![None; 6]]);
        let shown = drawn(&chart(&all, Marker::Ascii, Unit::Rate), 13, 3);
        assert_eq!(shown, "      |^\n      |\n      |");
        let unknown = lines(&[vec![None; 6]]);
        assert_eq!(
            drawn(&chart(&unknown, Marker::Ascii, Unit::Rate), 13, 3),
            "      |\n      |\n      |"
        );
        let zero = lines(&[vec![at(0.0); 6]]);
        let shown = drawn(&chart(&zero, Marker::Ascii, Unit::Rate), 13, 3);
        assert!(shown.ends_with("0+######"), "zero is a number:\n{shown}");
    }

    #[test]
    fn dashes_stay_on_their_data() {
        let all = |from: u64| {
            let lines = lines(&[vec![], vec![at(1.0); 40]]);
            let mut chart = chart(&lines, Marker::Braille, Unit::Count);
            chart.first = from;
            drawn(&chart, 27, 2)
        };
        // After two columns of dots the picture has moved by one cell.
        let (before, after): (Vec<char>, Vec<char>) =
            (all(0).chars().collect(), all(2).chars().collect());
        assert_eq!(before[9..24], after[8..23]);
    }

    fn points() -> impl Strategy<Value = Vec<Option<Point>>> {
        let value = prop_oneof![0.0..1e12_f64, Just(0.0), any::<f64>()];
        let point = (
            value.clone(),
            value,
            any::<bool>(),
            any::<bool>(),
            any::<bool>(),
        );
        let point = point.prop_map(|(a, b, known, unlimited, joined)| Point {
            range: known.then_some((a.min(b), a.max(b))),
            last: known.then_some(b),
            unlimited,
            joined,
        });
        proptest::collection::vec(proptest::option::of(point), 0..200)
    }

    proptest! {
        #[test]
        fn any_numbers_are_drawn_inside_the_area(
            all in proptest::collection::vec(points(), 0..6),
            (x, y, width, height) in (0_u16..20, 0_u16..10, 0_u16..60, 0_u16..20),
            marker in proptest::sample::select(&Marker::ALL),
            tight: bool,
            first: u64,
        ) {
            let mut buffer = Buffer::empty(Rect::new(0, 0, 50, 20));
            let area = Rect::new(x, y, width, height);
            let lines = lines(&all);
            let chart = Chart { tight, first, ..chart(&lines, marker, Unit::Time) };
            chart.render(area, &mut buffer);
            cursor(x + 9, marker, Style::new(), area, &mut buffer);
            for cy in 0..20 {
                for cx in 0..50 {
                    let inside = area.contains((cx, cy).into());
                    prop_assert!(inside || buffer[(cx, cy)].symbol() == " ", "{cx},{cy}");
                }
            }
        }
    }
}
