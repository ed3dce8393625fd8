//! The bands: the algorithm's phase or the congestion state over time, and where nothing is known.

use ratatui::style::Style;

use crate::event::Phase;
use crate::model::series::{Break, Breaks, Column, Stage, Stages, Window};
use crate::tui::theme::{Marker, Theme};
use crate::tui::widget::band::Case;
use crate::units::Mono;

/// The more telling first: of several in one cell this is the one that is named.
const BY_WORTH: [Stage; 13] = [
    Stage::ProbeRtt,
    Stage::Startup,
    Stage::Drain,
    Stage::ProbeBw,
    Stage::ProbeBwUp,
    Stage::ProbeBwDown,
    Stage::ProbeBwRefill,
    Stage::ProbeBwCruise,
    Stage::Loss,
    Stage::Recovery,
    Stage::Cwr,
    Stage::Disorder,
    Stage::Open,
];

/// The stage that stands for all in a cell, of BBR's phases or of the kernel's states.
fn telling(stages: Stages, phases: bool) -> Option<Stage> {
    let mut of = BY_WORTH
        .into_iter()
        .filter(|s| stages.contains(*s) && s.is_phase() == phases);
    let first = of.next()?;
    let part = |s: Stage| s > Stage::ProbeBw && s < Stage::ProbeRtt;
    // A cell at the edge of two parts of PROBE_BW is the shorter one's; one of more parts is the whole's.
    Some(if part(first) && of.nth(1).is_some() {
        Stage::ProbeBw
    } else {
        first
    })
}

fn names(stage: Stage) -> &'static [&'static str] {
    match stage {
        Stage::Startup => &["STARTUP", "START", "S"],
        Stage::Drain => &["DRAIN", "D"],
        Stage::ProbeBw => &["PROBE_BW", "BW", "B"],
        Stage::ProbeBwUp => &["UP", "u"],
        Stage::ProbeBwDown => &["DOWN", "d"],
        Stage::ProbeBwCruise => &["CRUISE", "c"],
        Stage::ProbeBwRefill => &["REFILL", "r"],
        Stage::ProbeRtt => &["PROBE_RTT", "RTT", "R"],
        Stage::Open => &["Open", "o"],
        Stage::Disorder => &["Disorder", "Dis", "d"],
        Stage::Cwr => &["CWR", "C"],
        Stage::Recovery => &["Recovery", "Rec", "R"],
        Stage::Loss => &["Loss", "L"],
    }
}

fn style(stage: Stage, theme: &Theme) -> Style {
    match stage {
        Stage::Startup => theme.phase(Phase::Startup),
        Stage::Drain => theme.phase(Phase::Drain),
        Stage::ProbeRtt => theme.phase(Phase::ProbeRtt),
        Stage::Loss => theme.alarm,
        Stage::Recovery | Stage::Cwr => theme.warn,
        Stage::Open | Stage::Disorder => theme.quiet,
        _ => theme.phase(Phase::ProbeBw),
    }
}

fn unknown(breaks: Breaks) -> &'static [&'static str] {
    if breaks.contains(Break::Lost) {
        &["records lost", "lost", "?"]
    } else if breaks.contains(Break::Blind) {
        &["not observed", "?"]
    } else {
        &["other source", "?"]
    }
}

/// The band's cells.
pub fn cases(columns: &[Column], phases: bool, theme: &Theme) -> Vec<Option<Case>> {
    let level = if theme.marker == Marker::Ascii {
        "-"
    } else {
        "─"
    };
    let case = |column: &Column| match *column {
        Column::Outside => None,
        Column::Unknown(breaks) => Some(Case {
            names: unknown(breaks),
            fill: "?",
            style: theme.warn,
        }),
        Column::Idle => Some(Case {
            names: &["idle", "."],
            fill: ".",
            style: theme.quiet,
        }),
        // Shorter than a cell, but the line is broken there.
        Column::Seen(_, breaks) if !breaks.is_empty() => Some(Case {
            names: &["!"],
            fill: "!",
            style: theme.warn,
        }),
        Column::Seen(stages, _) => telling(stages, phases).map(|stage| Case {
            names: names(stage),
            fill: level,
            style: style(stage, theme),
        }),
    };
    columns.iter().map(case).collect()
}

/// Says of what came before `from` that it is no longer kept.
pub fn forgotten(cells: &mut [Option<Case>], window: &Window, from: Mono, theme: &Theme) {
    let kept = window
        .column(from.0)
        .unwrap_or_else(|| if from < window.from { 0 } else { cells.len() });
    for cell in cells.iter_mut().take(kept).filter(|cell| cell.is_none()) {
        *cell = Some(Case {
            names: &["no longer kept", "not kept", "x"],
            fill: " ",
            style: theme.quiet,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_the_telling_one_is_named() {
        let of = |all: &[Stage], phases| telling(all.iter().copied().collect(), phases);
        let up = Stage::ProbeBwUp;
        assert_eq!(of(&[up, Stage::Recovery], true), Some(up));
        assert_eq!(of(&[up, Stage::Recovery], false), Some(Stage::Recovery));
        assert_eq!(of(&[up, Stage::ProbeBwCruise], true), Some(up));
        let all = [up, Stage::ProbeBwDown, Stage::ProbeBwCruise];
        assert_eq!(of(&all, true), Some(Stage::ProbeBw));
        assert_eq!(of(&[up, Stage::ProbeRtt], true), Some(Stage::ProbeRtt));
        assert_eq!(of(&[Stage::Open, Stage::Loss], false), Some(Stage::Loss));
        assert_eq!(of(&[Stage::Open], true), None);
        for stage in Stage::ALL {
            let last = names(stage).last().expect("a letter");
            assert_eq!(last.len(), 1);
            assert!(BY_WORTH.contains(&stage));
        }
    }
}
