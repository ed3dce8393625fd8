//! What became of the programs' runs (SPEC §8): attempted = kept + suppressed + filtered + failed + dropped + missed.

use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::title;
use crate::event::{Counters, ProgramCounters};
use crate::model::Model;
use crate::tui::format::{cell, cut, wrap};
use crate::tui::theme::Theme;
use crate::units::{UNKNOWN, count};

const NAME: usize = 13;
/// A column of figures: exact up to so many digits.
const WIDE: usize = 10;
/// Where it is narrow: three digits and their prefix.
const NARROW: usize = 5;
const HEADINGS: [(&str, &str); 7] = [
    ("attempted", "runs"),
    ("kept", "kept"),
    ("suppressed", "suppr"),
    ("filtered", "filt"),
    ("failed", "fail"),
    ("dropped", "drop"),
    ("missed", "miss"),
];
/// What a run cost, where there is room.
const COST: usize = 9;
/// From this on the last are losses.
const LOSSES: usize = 4;

pub(super) fn lines(model: &Model, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![title(theme, "Runs of the programs", width)];
    let Some(counters) = model.counters() else {
        let text = "No program runs here, or none has told yet: figures come from polling, or from a script.";
        let said = wrap(text, width.saturating_sub(1));
        lines.extend(said.into_iter().map(|line| Line::raw(format!(" {line}"))));
        return lines;
    };
    let wide = width > NAME + HEADINGS.len() * (WIDE + 1);
    let each = if wide { WIDE } else { NARROW };
    let mut heading = format!(" {}", cell("program", NAME, false));
    for (long, short) in HEADINGS {
        heading.push(' ');
        heading.push_str(&cell(if wide { long } else { short }, each, true));
    }
    if width >= heading.width() + COST {
        heading.push_str("   ns/run");
    }
    lines.push(Line::styled(cut(&heading, width), theme.quiet));
    for program in &counters.programs {
        lines.push(line(program, each, theme, width));
    }
    if counters.programs.len() > 1 {
        lines.push(line(&sum(counters), each, theme, width));
    }
    if let Some(text) = losses(model) {
        let said = wrap(&text, width.saturating_sub(1));
        let said = said.into_iter().map(|line| format!(" {line}"));
        lines.extend(said.map(|line| Line::styled(line, theme.alarm)));
    }
    lines
}

fn figures(p: &ProgramCounters) -> [u64; 7] {
    [
        p.attempted,
        p.kept,
        p.suppressed,
        p.filtered,
        p.failed,
        p.dropped,
        p.missed,
    ]
}

fn line(program: &ProgramCounters, each: usize, theme: &Theme, width: usize) -> Line<'static> {
    let mut spans = vec![Span::raw(format!(
        " {}",
        cell(&program.program, NAME, false)
    ))];
    let mut left = width.saturating_sub(NAME + 1);
    for (n, figure) in figures(program).into_iter().enumerate() {
        let style = if n >= LOSSES && figure > 0 {
            theme.alarm
        } else {
            ratatui::style::Style::new()
        };
        let text = cut(
            &format!(" {}", cell(&count(figure, each), each, true)),
            left,
        );
        left = left.saturating_sub(each + 1);
        spans.push(Span::styled(text, style));
    }
    let per_run = program
        .run_time_ns
        .and_then(|ns| ns.checked_div(program.attempted - program.missed.min(program.attempted)));
    let per_run = per_run.map_or_else(|| UNKNOWN.to_owned(), |ns| ns.to_string());
    if left >= COST {
        spans.push(Span::raw(format!(" {}", cell(&per_run, COST - 1, true))));
    }
    Line::from(spans)
}

fn sum(counters: &Counters) -> ProgramCounters {
    let mut sum = ProgramCounters {
        program: "all".to_owned(),
        run_time_ns: Some(0),
        ..ProgramCounters::default()
    };
    for p in &counters.programs {
        sum.attempted = sum.attempted.saturating_add(p.attempted);
        sum.kept = sum.kept.saturating_add(p.kept);
        sum.suppressed = sum.suppressed.saturating_add(p.suppressed);
        sum.filtered = sum.filtered.saturating_add(p.filtered);
        sum.failed = sum.failed.saturating_add(p.failed);
        sum.dropped = sum.dropped.saturating_add(p.dropped);
        sum.missed = sum.missed.saturating_add(p.missed);
        let both = sum.run_time_ns.zip(p.run_time_ns);
        sum.run_time_ns = both.map(|(sum, ns)| sum.saturating_add(ns));
    }
    sum
}

/// What losses there are and what helps.
fn losses(model: &Model) -> Option<String> {
    let counters = model.counters()?;
    let sum = sum(counters);
    let wrong = counters.programs.iter().find(|p| {
        let parts: u64 = figures(p)[1..]
            .iter()
            .fold(0, |sum, n| sum.saturating_add(*n));
        parts != p.attempted
    });
    let mut said = Vec::new();
    if sum.dropped > 0 {
        said.push("dropped: the ring was full; a larger --ring or a longer --interval helps.");
    }
    if sum.missed > 0 {
        said.push(
            "missed: the hook fired while its program ran on that CPU; nothing here changes that.",
        );
    }
    if sum.failed > 0 {
        said.push("failed: a program could not read what it wanted.");
    }
    if wrong.is_some() {
        said.push("The figures do not add up: please report this.");
    }
    (!said.is_empty()).then(|| said.join(" "))
}
