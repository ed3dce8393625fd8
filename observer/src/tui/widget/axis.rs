//! Axes: ticks at round numbers, and how they are written.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr as _;

use super::raster::dots_per_cell;
use crate::tui::theme::Marker;

/// Columns left of a chart: a label and the axis.
pub const GUTTER: u16 = 7;
/// A labelled tick wants so many rows.
const ROWS_PER_TICK: usize = 2;
/// Numbers that lie above this part of the greatest need no 0 under them.
const TIGHT: f64 = 0.25;
/// The ends lie at whole numbers of such parts of a tick.
const PARTS: f64 = 4.0;

/// What numbers of a chart count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    /// Bits per second.
    Rate,
    /// Microseconds, written as ms.
    Time,
    Count,
}

impl Unit {
    /// A round number, as short as can be.
    pub fn tick(self, value: f64) -> String {
        const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
        if self == Self::Time {
            return plain(value / 1000.0);
        }
        let mut value = value;
        let mut prefix = 0;
        while value.abs() >= 1000.0 && prefix + 1 < PREFIXES.len() {
            value /= 1000.0;
            prefix += 1;
        }
        plain(value) + PREFIXES[prefix]
    }
}

/// At most three decimals, none that is nought.
fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

/// From where to where a chart reaches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    pub low: f64,
    pub high: f64,
    /// Between two ticks.
    pub step: f64,
}

/// The least of 1, 2, 2.5, 5 × 10ⁿ that is not less than `least`.
fn round_up(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|step| *step >= least * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

/// The greatest of 1, 2, 2.5, 5 × 10ⁿ that is not more than `most`.
fn round_down(most: f64) -> f64 {
    let power = 10_f64.powf(most.log10().floor());
    [5.0, 2.5, 2.0, 1.0]
        .into_iter()
        .map(|m| m * power)
        .find(|step| *step <= most * (1.0 + 1e-9))
        .unwrap_or(power)
}

impl Scale {
    /// For numbers from `least` to `greatest` in `rows`. From 0 on, unless `tight` and they lie close together far from
    /// it. Whole numbers get whole ticks.
    pub fn new(least: f64, greatest: f64, rows: usize, tight: bool, whole: bool) -> Self {
        let usable = |v: f64| if v.is_finite() { v.max(0.0) } else { 0.0 };
        let (least, greatest) = (usable(least), usable(greatest).max(usable(least)));
        let ticks = (rows / ROWS_PER_TICK).clamp(1, 8) as f64;
        let from_0 = !tight || least < greatest * TIGHT;
        let span = if from_0 { greatest } else { greatest - least };
        // All the same and not from 0: a tenth of it to either side.
        let span = if span > 0.0 { span } else { greatest * 0.2 };
        let mut step = round_up(if span > 0.0 { span / ticks } else { 1.0 });
        if span > 0.0 && step > span {
            // One tick at least besides the lowest.
            step = round_down(span);
        }
        if whole {
            step = step.max(1.0).ceil();
        }
        let mut part = step / PARTS;
        if whole {
            part = part.ceil();
        }
        let low = if from_0 {
            0.0
        } else {
            (least / part).floor() * part
        };
        let mut high = (greatest / part - 1e-9).ceil() * part;
        if high <= low {
            high = low + step;
        }
        Self { low, high, step }
    }

    /// Of `value` from the bottom, as part of the whole; within it.
    pub fn part(&self, value: f64) -> f64 {
        let part = (value - self.low) / (self.high - self.low);
        if part.is_finite() {
            part.clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// From the bottom to the top.
    pub fn ticks(&self) -> impl Iterator<Item = f64> {
        let first = (self.low / self.step - 1e-6).ceil();
        let count = self.high / self.step - first + 1e-6;
        let count = count.floor().clamp(0.0, 32.0) as usize;
        let step = self.step;
        (0..=count).map(move |i| (first + i as f64) * step)
    }

    /// Ticks with their labels in the gutter left of the chart, which takes all of `area` but [`GUTTER`] columns.
    pub fn render(
        &self,
        unit: Unit,
        marker: Marker,
        style: Style,
        area: Rect,
        buffer: &mut Buffer,
    ) {
        if area.is_empty() || area.width < GUTTER {
            return;
        }
        let tick = if marker == Marker::Ascii { "+" } else { "┤" };
        let (_, dots) = dots_per_cell(marker);
        let x = area.x + GUTTER - 1;
        line(marker, style, area, buffer);
        let mut taken = None;
        for value in self.ticks() {
            // The cell that a dot of this value would be in.
            let top = dots * usize::from(area.height) - 1;
            let up = ((self.part(value) * top as f64).round() as usize / dots) as u16;
            if taken == Some(up) {
                continue;
            }
            taken = Some(up);
            let y = area.bottom() - 1 - up;
            let label = unit.tick(value);
            let room = usize::from(GUTTER - 1);
            let label = if label.width() > room {
                String::new()
            } else {
                label
            };
            buffer.set_stringn(area.x, y, format!("{label:>room$}"), room, style);
            buffer.set_stringn(x, y, tick, 1, style);
        }
    }
}

/// The axis alone, where there are no numbers.
pub fn line(marker: Marker, style: Style, area: Rect, buffer: &mut Buffer) {
    let axis = if marker == Marker::Ascii { "|" } else { "│" };
    if area.width >= GUTTER {
        for y in area.top()..area.bottom() {
            buffer.set_stringn(area.x + GUTTER - 1, y, axis, 1, style);
        }
    }
}

/// Nanoseconds a tick may be apart.
const TIME_STEPS: [u64; 22] = [
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
    15_000_000_000,
    30_000_000_000,
    60_000_000_000,
    120_000_000_000,
    300_000_000_000,
    600_000_000_000,
    1_800_000_000_000,
    3_600_000_000_000,
    7_200_000_000_000,
];
/// Columns that a label wants.
const LABEL: u64 = 11;

/// A time axis of cells of `cell` ns, the first at `from` ns after the zero of the labels (before it, if negative).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeAxis {
    pub from: i128,
    pub cell: u64,
}

impl TimeAxis {
    /// Labels at round times, each beginning at its cell.
    pub fn render(&self, marker: Marker, style: Style, area: Rect, buffer: &mut Buffer) {
        let cell = i128::from(self.cell.max(1));
        let wants = self.cell.saturating_mul(LABEL);
        let step = TIME_STEPS.into_iter().find(|step| *step >= wants);
        // Beyond the table: whole hours.
        let step = step.unwrap_or_else(|| wants.div_ceil(3_600_000_000_000) * 3_600_000_000_000);
        let step = i128::from(step);
        let corner = if marker == Marker::Ascii { '|' } else { '└' };
        let end = self.from + cell * i128::from(area.width);
        let mut at = self.from.max(0).div_euclid(step) * step;
        while at < end {
            if at >= self.from {
                let x = area.x + ((at - self.from) / cell) as u16;
                let text = format!("{corner}{}", age(at, step));
                let room = usize::from(area.right() - x);
                if text.width() <= room && area.height > 0 {
                    buffer.set_stringn(x, area.y, text, room, style);
                }
            }
            at += step;
        }
    }
}

/// `8s`, `8.5s`, `4:05`, `1:04:05`: with as many decimals as `step` ns needs.
pub fn age(ns: i128, step: i128) -> String {
    let decimals = match step {
        s if s % 1_000_000_000 == 0 => 0,
        s if s % 100_000_000 == 0 => 1,
        s if s % 10_000_000 == 0 => 2,
        _ => 3,
    };
    let whole = ns.div_euclid(1_000_000_000);
    let part = ns.rem_euclid(1_000_000_000) as f64 / 1e9;
    let seconds = (whole % 60) as f64 + part;
    let minutes = whole / 60;
    if minutes == 0 {
        format!("{seconds:.decimals$}s")
    } else {
        let width = if decimals > 0 { 3 + decimals } else { 2 };
        let (hours, minutes) = (minutes / 60, minutes % 60);
        if hours == 0 {
            format!("{minutes}:{seconds:0width$.decimals$}")
        } else {
            format!("{hours}:{minutes:02}:{seconds:0width$.decimals$}")
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ticks_are_round() {
        let ticks = |least, greatest, rows, tight| -> Vec<String> {
            let scale = Scale::new(least, greatest, rows, tight, false);
            scale.ticks().map(|v| Unit::Bytes.tick(v)).collect()
        };
        assert_eq!(
            ticks(3.0, 93_800_000.0, 8, false),
            ["0", "25M", "50M", "75M", "100M"]
        );
        assert_eq!(ticks(0.0, 999_120.0, 3, false), ["0", "500k", "1M"]);
        let high = Scale::new(0.0, 1_010_000.0, 3, false, false).high;
        assert!((high - 1_250_000.0).abs() < 1.0, "{high}");
        assert_eq!(ticks(40_100.0, 41_900.0, 4, true), ["40k", "41k", "42k"]);
        assert_eq!(ticks(100.0, 41_900.0, 4, true), ["0", "25k"]);
        assert_eq!(ticks(0.0, 0.0, 4, false), ["0", "1"]);
        let scale = Scale::new(0.0, 2.0, 12, false, true);
        assert_eq!(scale.ticks().collect::<Vec<_>>(), [0.0, 1.0, 2.0]);
        assert_eq!(Unit::Time.tick(40_500.0), "40.5");
        assert_eq!(Unit::Time.tick(42.0), "0.042");
    }

    #[test]
    fn ages_read_as_clocks_do() {
        assert_eq!(age(8_000_000_000, 1_000_000_000), "8s");
        assert_eq!(age(8_250_000_000, 50_000_000), "8.25s");
        assert_eq!(age(245_000_000_000, 5_000_000_000), "4:05");
        assert_eq!(age(245_500_000_000, 500_000_000), "4:05.5");
        assert_eq!(age(3_845_000_000_000, 60_000_000_000), "1:04:05");
    }

    proptest! {
        #[test]
        fn a_scale_holds_its_numbers(a in 0.0..1e18_f64, b in 0.0..1e18_f64, rows in 0_usize..90, tight: bool, whole: bool) {
            let (least, greatest) = (a.min(b), a.max(b));
            let scale = Scale::new(least, greatest, rows, tight, whole);
            prop_assert!(scale.low <= least && scale.high >= greatest * (1.0 - 1e-6), "{scale:?}");
            prop_assert!(scale.high > scale.low && scale.step > 0.0);
            prop_assert!(scale.ticks().count() <= rows.max(2) / ROWS_PER_TICK + 3, "{scale:?}");
            prop_assert!((0.0..=1.0).contains(&scale.part(least)));
        }

        #[test]
        fn odd_numbers_make_a_scale_too(least: f64, greatest: f64, rows in 0_usize..90, tight: bool) {
            let scale = Scale::new(least, greatest, rows, tight, false);
            prop_assert!(scale.high > scale.low || !scale.high.is_finite(), "{scale:?}");
            prop_assert!((0.0..=1.0).contains(&scale.part(greatest)));
        }
    }
}
