//! Panels, axes and lines of a flow's chart.

use std::fmt::Write as _;

use super::{COLUMNS, Chart, LINES, Line, Range, Told};
use crate::event::{KINDS, retransmit_kind};
use crate::units::{rate, size};

const WIDTH: f64 = 960.0;
/// Room for the numbers of the vertical axes.
const LEFT: f64 = 92.0;
const RIGHT: f64 = 12.0;
/// A panel and the legend above it.
const PANEL: f64 = 120.0;
const LEGEND: f64 = 22.0;
const BAND: f64 = 16.0;
const AXIS: f64 = 34.0;
/// Rates are drawn up to so many times the greatest throughput.
const CUT: f64 = 2.5;
/// Silence for longer is drawn as what held.
const HOLD_NS: u64 = 1_000_000_000;

struct Panel {
    title: &'static str,
    lines: &'static [(Line, &'static str)],
    show: fn(f64) -> String,
}

const PANELS: [Panel; 3] = [
    Panel {
        title: "Window",
        lines: &[
            (Line::Cwnd, "cwnd"),
            (Line::Inflight, "inflight"),
            (Line::Bdp, "BDP"),
        ],
        show: |value| size(value.round() as u64),
    },
    Panel {
        title: "Rate",
        lines: &[
            (Line::Delivery, "delivery"),
            (Line::Pacing, "pacing"),
            (Line::Btlbw, "BtlBw"),
        ],
        show: |value| rate(value.round() as u64),
    },
    Panel {
        title: "RTT",
        lines: &[
            (Line::Rtt, "RTT"),
            (Line::Srtt, "srtt"),
            (Line::MinRtt, "min RTT"),
        ],
        show: |value| format!("{value} ms"),
    },
];

/// The next number of the form 1, 2, 5 × 10ⁿ.
pub fn nice(value: f64) -> f64 {
    if value.is_nan() || value <= 0.0 {
        return 1.0;
    }
    let scale = 10f64.powf(value.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|step| step * scale >= value * 0.999_999);
    step.unwrap_or(10.0) * scale
}

fn x(column: f64) -> f64 {
    LEFT + column / COLUMNS as f64 * (WIDTH - LEFT - RIGHT)
}

impl Chart {
    /// The image.
    pub(super) fn svg(&self) -> String {
        let panels = PANELS.len() as f64 + 1.0;
        let height = panels * (PANEL + LEGEND) + BAND + AXIS + LEGEND;
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Window, rate, RTT and retransmits over time\">\n"
        );
        let mut top = 0.0;
        for panel in &PANELS {
            self.panel(&mut out, panel, top + LEGEND);
            top += PANEL + LEGEND;
        }
        self.retransmits(&mut out, top + LEGEND);
        top += PANEL + LEGEND;
        self.phases(&mut out, top + LEGEND);
        self.time_axis(&mut out, top + LEGEND + BAND);
        out.push_str("</svg>\n");
        out
    }

    fn range(&self, column: usize, line: Line) -> Option<Range> {
        let at = LINES.iter().position(|known| *known == line)?;
        self.columns[column].lines[at]
    }

    fn greatest(&self, line: Line) -> f64 {
        (0..COLUMNS)
            .filter_map(|column| self.range(column, line))
            .map(|range| range.max)
            .fold(0.0, f64::max)
    }

    fn panel(&self, out: &mut String, panel: &Panel, top: f64) {
        // BBR's pacing rate at the start would leave nothing to be seen of the rest.
        let bounding = panel.lines.iter().filter(|(line, _)| *line != Line::Pacing);
        let most = bounding
            .map(|(line, _)| self.greatest(*line))
            .fold(0.0, f64::max);
        let throughput = self.throughput();
        let is_rate = panel.title == "Rate";
        let most = if is_rate {
            throughput
                .iter()
                .map(|(_, _, bps)| *bps)
                .fold(most, f64::max)
        } else {
            most
        };
        let (scale, title) = if is_rate {
            rate_scale(most, &throughput)
        } else {
            (nice(most), panel.title.to_owned())
        };
        frame(out, top, &title, scale, panel.show);
        let mut legend: Vec<(String, &str)> = Vec::new();
        if is_rate {
            let mut path = String::new();
            for (from, to, bps) in throughput {
                let y = height(bps, scale, top);
                let op = if path.is_empty() { 'M' } else { 'L' };
                let _ = write!(path, "{op}{:.1} {y:.1}L{:.1} {y:.1}", x(from), x(to));
            }
            line(out, &path, "throughput");
            legend.push(("throughput".to_owned(), "throughput"));
        }
        for (at, (kind, name)) in panel.lines.iter().enumerate() {
            let class = ["a", "b", "c"][at];
            let path = self.path(*kind, scale, top);
            if !path.is_empty() {
                line(out, &path, class);
                legend.push(((*name).to_owned(), class));
            }
        }
        self::legend(out, top, &legend);
    }

    /// Through the least and the greatest of each column.
    fn path(&self, kind: Line, scale: f64, top: f64) -> String {
        let mut path = String::new();
        let hold = HOLD_NS as f64 / self.end.since(self.begin).max(1) as f64 * COLUMNS as f64;
        let mut last: Option<(usize, f64)> = None;
        for column in 0..COLUMNS {
            let Some(range) = self.range(column, kind) else {
                continue;
            };
            let at = x(column as f64 + 0.5);
            let mut point = |at: f64, value: f64| {
                let op = if path.is_empty() { 'M' } else { 'L' };
                let _ = write!(path, "{op}{at:.1} {:.1}", height(value, scale, top));
            };
            if let Some((before, value)) = last
                && (column - before) as f64 > hold.max(1.0)
            {
                point(x(column as f64), value);
            }
            let (one, other) = if range.first <= range.last {
                (range.min, range.max)
            } else {
                (range.max, range.min)
            };
            point(at, one);
            if (one - other).abs() > scale / 500.0 {
                point(at, other);
            }
            last = Some((column, range.last));
        }
        path
    }

    /// From, to (columns), bits per second.
    fn throughput(&self) -> Vec<(f64, f64, f64)> {
        let ns = self.end.since(self.begin).max(1) as f64;
        let column = |ns_since: f64| (ns_since / ns * COLUMNS as f64).min(COLUMNS as f64);
        let mut parts = Vec::new();
        // What was acknowledged before the first part is known only where it begins at 0.
        let mut before: Option<u64> = None;
        for (at, acked) in self.acked.iter().enumerate() {
            let (from, to) = (
                at as f64 * self.part_ns as f64,
                (at + 1) as f64 * self.part_ns as f64,
            );
            let to = to.min(ns);
            if to <= from {
                break;
            }
            let now = acked.or(before);
            if let (Some(before), Some(now)) = (before, now) {
                let bps = now.saturating_sub(before) as f64 * 8e9 / (to - from);
                parts.push((column(from), column(to), bps));
            }
            before = now;
        }
        parts
    }

    fn retransmits(&self, out: &mut String, top: f64) {
        let sum = |column: usize| {
            let kinds = self.columns[column].retransmits.into_iter();
            kinds.fold(0, u64::saturating_add)
        };
        let most = (0..COLUMNS).map(sum).max().unwrap_or(0);
        let scale = nice(most as f64);
        frame(out, top, "Retransmits", scale, |value| format!("{value}"));
        let width = (WIDTH - LEFT - RIGHT) / COLUMNS as f64;
        let mut seen = [false; KINDS.len()];
        for (column, kinds) in self.columns.iter().map(|c| c.retransmits).enumerate() {
            let mut base = 0.0;
            for (at, segments) in kinds.into_iter().enumerate().filter(|(_, n)| *n > 0) {
                seen[at] = true;
                let (low, high) = (
                    height(base, scale, top),
                    height(base + segments as f64, scale, top),
                );
                let _ = writeln!(
                    out,
                    "<rect class=\"k{at}\" x=\"{:.1}\" y=\"{high:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                    x(column as f64),
                    width.max(1.5),
                    (low - high).max(0.5)
                );
                base += segments as f64;
            }
        }
        let classes = ["k0", "k1", "k2", "k3", "k4", "k5", "k6"];
        let kinds = KINDS.into_iter().enumerate().filter(|(at, _)| seen[*at]);
        let kinds = kinds.map(|(at, kind)| (retransmit_kind(kind).to_owned(), classes[at]));
        legend(out, top, &kinds.collect::<Vec<_>>());
    }

    /// The phase as a band under all.
    fn phases(&self, out: &mut String, top: f64) {
        let mut from = 0;
        let mut held = None;
        for column in 0..=COLUMNS {
            // Nothing new is the old one.
            let now = match self.columns.get(column).map(|column| column.phase) {
                Some(Told::Nothing) => held,
                Some(Told::Phase(phase)) => Some(phase),
                Some(Told::NoPhase) | None => None,
            };
            if column < COLUMNS && now == held {
                continue;
            }
            if let Some(phase) = held {
                let name = crate::event::Phase::as_str(phase);
                let (left, right) = (x(from as f64), x(column as f64));
                let _ = writeln!(
                    out,
                    "<rect class=\"phase {name}\" x=\"{left:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{BAND}\"><title>{name}</title></rect>",
                    right - left
                );
                if right - left > 7.0 * name.len() as f64 {
                    let (at, base) = (f64::midpoint(left, right), top + BAND - 4.0);
                    let _ = writeln!(
                        out,
                        "<text class=\"m\" x=\"{at:.1}\" y=\"{base}\">{name}</text>"
                    );
                }
            }
            (held, from) = (now, column);
        }
    }

    fn time_axis(&self, out: &mut String, top: f64) {
        let seconds = self.end.since(self.begin) as f64 / 1e9;
        let step = nice(seconds / 10.0);
        let mut at = 0.0;
        while at <= seconds && step > 0.0 {
            let place = x(at / seconds.max(1e-9) * COLUMNS as f64);
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{place:.1} {LEGEND}V{top}\"/><text class=\"m\" x=\"{place:.1}\" y=\"{}\">{} s</text>",
                top + 16.0,
                (at * 1e6).round() / 1e6
            );
            at += step;
        }
    }
}

/// Estimates may be many times what was ever delivered: of these the tops are cut, and that is said.
fn rate_scale(most: f64, throughput: &[(f64, f64, f64)]) -> (f64, String) {
    let delivered = throughput
        .iter()
        .map(|(_, _, bps)| *bps)
        .fold(0.0, f64::max);
    let bound = nice(CUT * delivered);
    if delivered > 0.0 && bound < most {
        let most = rate(most.round() as u64);
        return (bound, format!("Rate, cut (to {most})"));
    }
    (nice(most), "Rate".to_owned())
}

fn height(value: f64, scale: f64, top: f64) -> f64 {
    top + PANEL * (1.0 - (value / scale).clamp(0.0, 1.0))
}

/// A panel's box with its axis.
fn frame(out: &mut String, top: f64, title: &str, scale: f64, show: fn(f64) -> String) {
    let (right, bottom) = (WIDTH - RIGHT, top + PANEL);
    let _ = writeln!(
        out,
        "<rect class=\"frame\" x=\"{LEFT}\" y=\"{top}\" width=\"{}\" height=\"{PANEL}\"/><text class=\"t\" x=\"{LEFT}\" y=\"{}\">{title}</text>",
        right - LEFT,
        top - 6.0
    );
    for share in [0.0, 0.5, 1.0] {
        let y = bottom - share * PANEL;
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {y}H{right}\"/><text class=\"e\" x=\"{}\" y=\"{}\">{}</text>",
            LEFT - 6.0,
            y + 4.0,
            show(scale * share)
        );
    }
}

fn line(out: &mut String, path: &str, class: &str) {
    let _ = writeln!(out, "<path class=\"l {class}\" d=\"{path}\"/>");
}

/// Names beside a piece of each line.
fn legend(out: &mut String, top: f64, names: &[(String, &str)]) {
    let mut left = LEFT + 190.0;
    let y = top - 10.0;
    for (name, class) in names {
        let is_bar = class.starts_with('k');
        if is_bar {
            let _ = write!(
                out,
                "<rect class=\"{class}\" x=\"{left}\" y=\"{}\" width=\"12\" height=\"8\"/>",
                y - 4.0
            );
        } else {
            let _ = write!(out, "<path class=\"l {class}\" d=\"M{left} {y}h24\"/>");
        }
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\">{name}</text>",
            left + 30.0,
            y + 4.0
        );
        left += 52.0 + 7.0 * name.len() as f64;
    }
}
