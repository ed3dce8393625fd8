//! The charts of the flow page, one under another on one time axis.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::legend::{self, RATES, Spec, TIMES, WINDOWS};
use super::plan::Plan;
use super::{stages, units_of_time};
use crate::event::{KINDS, retransmit_kind};
use crate::model::series::{Column, Extent, Past, Stage, Window};
use crate::model::{Flow, Model};
use crate::tui::format::cut;
use crate::tui::state::ViewState;
use crate::tui::state::flow::View;
use crate::tui::theme::Theme;
use crate::tui::view::put;
use crate::tui::widget::axis::{GUTTER, age};
use crate::tui::widget::chart::cursor;
use crate::tui::widget::{Band, Bars, Chart, Line as Trace, Point, TimeAxis, Unit};
use crate::units::Mono;

/// Letters of [`KINDS`].
const LETTERS: [char; KINDS.len()] = ['f', 'r', 's', 't', 'y', 'a', 'o'];

pub fn render(model: &Model, flow: &Flow, state: &ViewState, plan: &Plan, buffer: &mut Buffer) {
    let past = model.past(flow);
    let view = state.flow.view;
    let [windows, rates, times, retransmits] = plan.charts;
    for (spec, area) in [(&WINDOWS, windows), (&RATES, rates), (&TIMES, times)] {
        let legend = legend::line(model, flow, state, spec, usize::from(area.width));
        let plot = headed(legend, area, buffer);
        lines(&past, spec, &view, &state.theme, plot, buffer);
    }
    let bins = Bins::new(&past, &view);
    let legend = counts(&bins, state, usize::from(retransmits.width));
    let plot = headed(legend, retransmits, buffer);
    let cells: Vec<Vec<u32>> = (0..view.cells).map(|cell| bins.of(cell).to_vec()).collect();
    Bars {
        cells: &cells,
        kinds: &kinds(&state.theme),
        marker: state.theme.marker,
        axis: state.theme.axis,
    }
    .render(plot, buffer);
    bands(&past, state, plan.bands, buffer);
    axis(flow, state, plan.axis, buffer);
    if let Some(at) = state.flow.cursor.and_then(|at| view.window().column(at.0)) {
        let x = plan.axis.x + GUTTER + at as u16;
        for area in plan.charts {
            let plot = below(area);
            cursor(x, state.theme.marker, state.theme.cursor, plot, buffer);
        }
    }
}

/// What is left of a chart below its legend.
fn below(area: Rect) -> Rect {
    Rect {
        y: area.y + area.height.min(1),
        height: area.height.saturating_sub(1),
        ..area
    }
}

/// Puts the legend into the first line; returns the rest.
fn headed(legend: Line<'static>, area: Rect, buffer: &mut Buffer) -> Rect {
    put(vec![legend], area, buffer);
    below(area)
}

fn lines(past: &Past, spec: &Spec, view: &View, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let window = view.dots();
    let factor = if spec.unit == Unit::Rate { 8.0 } else { 1.0 };
    let number = |v: u64| v as f64 * factor;
    let point = |extent: Extent| Point {
        range: extent.range.map(|(a, b)| (number(a), number(b))),
        last: extent.last.finite().map(number),
        unlimited: extent.unlimited,
        joined: extent.joined,
    };
    let traces: Vec<Trace> = spec
        .lines
        .iter()
        .zip(theme.series)
        .map(|(drawn, style)| Trace {
            points: past
                .columns(drawn.quantity, &window)
                .into_iter()
                .map(|c| c.map(point))
                .collect(),
            style,
        })
        .collect();
    Chart {
        lines: &traces,
        unit: spec.unit,
        tight: spec.tight,
        first: window.from.0 / window.step,
        marker: theme.marker,
        axis: theme.axis,
    }
    .render(area, buffer);
}

/// Retransmissions in bins of one length, as long as a cell or longer where the past is coarser.
struct Bins {
    window: Window,
    counts: Vec<[u32; KINDS.len()]>,
    view: View,
}

impl Bins {
    fn new(past: &Past, view: &View) -> Self {
        let coarse = past.resolution(view.from);
        let step = if coarse == 0 {
            view.cell
        } else {
            multiple(coarse, view.cell)
        };
        let step = step.max(1);
        let from = view.from.0 / step * step;
        let columns = view.window().end().0.saturating_sub(from).div_ceil(step);
        let window = Window {
            from: Mono(from),
            step,
            columns: usize::try_from(columns).unwrap_or(0),
        };
        Self {
            window,
            counts: past.retransmits(&window),
            view: *view,
        }
    }

    /// The bin that the middle of `cell` lies in.
    fn of(&self, cell: usize) -> [u32; KINDS.len()] {
        let middle = self.view.cell.saturating_mul(cell as u64) + self.view.cell / 2;
        let at = self.window.column(self.view.from.0.saturating_add(middle));
        at.map_or([0; KINDS.len()], |at| self.counts[at])
    }

    fn sums(&self) -> [u64; KINDS.len()] {
        let mut sums = [0; KINDS.len()];
        for counts in &self.counts {
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum += u64::from(*count);
            }
        }
        sums
    }
}

/// The least of 1, 2, 5, 10 … × `unit` that is not less than `least`.
fn multiple(unit: u64, least: u64) -> u64 {
    let mut power = unit.max(1);
    loop {
        for factor in [1, 2, 5] {
            let step = power.saturating_mul(factor);
            if step >= least {
                return step;
            }
        }
        power = power.saturating_mul(10);
    }
}

fn kinds(theme: &Theme) -> Vec<(char, Style)> {
    let styles = [
        theme.series[0],
        theme.alarm,
        theme.warn,
        theme.series[1],
        theme.series[2],
        theme.series[3],
        theme.series[4],
    ];
    LETTERS.into_iter().zip(styles).collect()
}

/// `retransmits in view  f fast 12  r rto 3  per 200 ms`, or those under the cursor.
fn counts(bins: &Bins, state: &ViewState, width: usize) -> Line<'static> {
    let cursor = state
        .flow
        .cursor
        .and_then(|at| bins.view.window().column(at.0));
    let (what, counts) = match cursor {
        Some(cell) => ("retransmits here", bins.of(cell).map(u64::from)),
        None => ("retransmits in view", bins.sums()),
    };
    let mut line = Line::from(what);
    let mut left = width.saturating_sub(what.width());
    let mut push = |line: &mut Line<'static>, span: Span<'static>, text: String| {
        let needs = span.width() + text.width() + 2;
        let fits = needs <= left;
        if fits {
            left -= needs;
            line.push_span(Span::raw("  "));
            line.push_span(span);
            line.push_span(Span::raw(text));
        }
    };
    if counts.iter().all(|n| *n == 0) {
        push(&mut line, Span::raw("0"), String::new());
    }
    for ((kind, (letter, style)), count) in KINDS.into_iter().zip(kinds(&state.theme)).zip(counts) {
        if count > 0 {
            let text = format!(" {} {count}", retransmit_kind(kind));
            push(&mut line, Span::styled(letter.to_string(), style), text);
        }
    }
    let each = format!("(bars: per {})", units_of_time(bins.window.step));
    push(
        &mut line,
        Span::styled(each, state.theme.quiet),
        String::new(),
    );
    line
}

fn bands(past: &Past, state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let columns = past.stages(&state.flow.view.window());
    let phases = columns.iter().any(
        |column| matches!(column, Column::Seen(stages, _) if stages.iter().any(Stage::is_phase)),
    );
    let bands: &[(&str, bool)] = if phases {
        &[("phase", true), ("ca", false)]
    } else {
        &[("ca", false)]
    };
    for ((name, phases), y) in bands.iter().zip(area.top()..area.bottom()) {
        let label = format!("{name:>6}");
        let room = usize::from(area.width);
        buffer.set_stringn(area.x, y, label, room, state.theme.axis);
        let plot = Rect {
            x: area.x + GUTTER.min(area.width),
            y,
            width: area.width.saturating_sub(GUTTER),
            height: 1,
        };
        let mut cells = stages::cases(&columns, *phases, &state.theme);
        if let Some(from) = past.history().forgotten_before() {
            stages::forgotten(&mut cells, &state.flow.view.window(), from, &state.theme);
        }
        Band { cells }.render(plot, buffer);
    }
}

/// Since the flow came into view; with a cursor, its moment.
fn axis(flow: &Flow, state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let view = state.flow.view;
    let style = state.theme.axis;
    let label = format!("{:>6}", state.flow.zoom.as_str());
    if area.is_empty() {
        return;
    }
    buffer.set_stringn(area.x, area.y, label, usize::from(area.width), style);
    let plot = Rect {
        x: area.x + GUTTER.min(area.width),
        width: area.width.saturating_sub(GUTTER),
        ..area
    };
    let opened = i128::from(flow.opened_at().0);
    TimeAxis {
        from: i128::from(view.from.0) - opened,
        cell: view.cell,
    }
    .render(state.theme.marker, style, plot, buffer);
    let cursor = state
        .flow
        .cursor
        .and_then(|at| Some((at, view.window().column(at.0)?)));
    if let Some((at, cell)) = cursor {
        let since = i128::from(at.0) - opened;
        let text = format!(
            "{} ({} ago)",
            age(since.max(0), i128::from(view.cell)),
            units_of_time(view.newest.since(at))
        );
        let text = cut(&text, usize::from(plot.width));
        let last = usize::from(plot.width).saturating_sub(text.width());
        let x = plot.x + cell.min(last) as u16;
        clear(x, text.width() as u16, plot, buffer);
        buffer.set_stringn(x, plot.y, text, usize::from(plot.width), state.theme.cursor);
    }
}

/// Takes away what the labels that reach into `width` columns from `x` on say: half a number says something else.
fn clear(x: u16, width: u16, plot: Rect, buffer: &mut Buffer) {
    let blank = |buffer: &Buffer, x: u16| buffer[(x, plot.y)].symbol() == " ";
    let (mut from, mut to) = (x, (x + width).min(plot.right()));
    while from > plot.x && !blank(buffer, from - 1) {
        from -= 1;
    }
    while to < plot.right() && !blank(buffer, to) {
        to += 1;
    }
    for x in from..to {
        buffer[(x, plot.y)].set_char(' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_round_multiples_of_what_there_is() {
        assert_eq!(multiple(100, 143), 200);
        assert_eq!(multiple(100, 100), 100);
        assert_eq!(multiple(1000, 143), 1000);
        assert_eq!(multiple(10, 4300), 5000);
        assert_eq!(multiple(0, u64::MAX), u64::MAX);
    }
}
