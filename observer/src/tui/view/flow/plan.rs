//! Where things are on the flow page: numbers in, numbers out.

use ratatui::layout::Rect;

use crate::tui::layout::Band;
use crate::tui::state::flow::Chart;

/// From this width and height on, the facts stand beside the charts.
const BESIDE: (u16, u16) = (110, 28);
/// So much of the width is theirs then, in per cent; not below and not above so many columns.
const SIDE_SHARE: u16 = 30;
const SIDE: (u16, u16) = (38, 64);
/// Above the charts they take so many lines, from so many lines of the page on.
const ABOVE: [(u16, u16); 4] = [(28, 6), (18, 4), (10, 2), (0, 1)];
/// A legend, and rows in which a line can be read.
const LINES: usize = 4;
/// A legend, and rows in which bars can be read.
const BARS: usize = 3;
/// The enlarged chart takes this part of the charts' height, or the others are a line each.
const ENLARGED: usize = 2;
/// From this height of the charts on, the kernel's congestion state has a band of its own beside BBR's phase.
const TWO_BANDS: usize = 24;
/// When there is no room for all, these come first.
const BY_WORTH: [Chart; 4] = [
    Chart::Windows,
    Chart::Times,
    Chart::Rates,
    Chart::Retransmits,
];

/// The page's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub facts: Rect,
    /// Beside the charts, not above them.
    pub beside: bool,
    /// In the order of [`Chart::ALL`]; the first line of each is its legend.
    pub charts: [Rect; 4],
    /// One line or two.
    pub bands: Rect,
    pub axis: Rect,
}

impl Plan {
    /// `bands`: as many as there is something to say in.
    pub fn new(area: Rect, enlarged: Option<Chart>, bands: usize) -> Self {
        let beside = area.width >= BESIDE.0 && area.height >= BESIDE.1;
        let (facts, charts) = if beside {
            let width = (u32::from(area.width) * u32::from(SIDE_SHARE) / 100) as u16;
            let width = width.clamp(SIDE.0, SIDE.1);
            let facts = Rect { width, ..area };
            // A column between them.
            let x = area.x + width + 1;
            let width = area.right() - x;
            (facts, Rect { x, width, ..area })
        } else {
            let above = ABOVE.iter().find(|(from, _)| area.height >= *from);
            let height = above.map_or(0, |(_, lines)| *lines).min(area.height);
            let facts = Rect { height, ..area };
            let charts = Rect {
                y: area.y + height,
                height: area.height - height,
                ..area
            };
            (facts, charts)
        };
        Self::stacked(facts, charts, beside, enlarged, bands)
    }

    fn stacked(
        mut facts: Rect,
        mut charts: Rect,
        beside: bool,
        enlarged: Option<Chart>,
        bands: usize,
    ) -> Self {
        let height = usize::from(charts.height);
        let bands = if height >= TWO_BANDS { bands } else { 1 };
        let below = (bands + 1).min(height.saturating_sub(1));
        let heights = heights(height - below, enlarged);
        // What is too little for a chart goes to the facts.
        let left = (height - below - heights.iter().sum::<usize>()) as u16;
        if !beside {
            facts.height += left;
            charts.y += left;
            charts.height -= left;
        }
        let mut at = 0;
        let mut next = |height: usize| {
            let band = Band { at, height };
            at += height;
            crate::tui::view::rect(charts, band)
        };
        Self {
            facts,
            beside,
            charts: heights.map(&mut next),
            bands: next(below.saturating_sub(1)),
            axis: next(below.min(1)),
        }
    }
}

fn least(chart: Chart) -> usize {
    if chart == Chart::Retransmits {
        BARS
    } else {
        LINES
    }
}

/// Lines of each chart in `height`: 1 = its legend alone, 0 = none.
fn heights(height: usize, enlarged: Option<Chart>) -> [usize; 4] {
    // The legends come first: they have the figures.
    let mut heights = [0; 4];
    let order = enlarged
        .into_iter()
        .chain(BY_WORTH.into_iter().filter(|c| Some(*c) != enlarged));
    let order: Vec<Chart> = order.collect();
    let mut left = height;
    for chart in &order {
        let legend = left.min(1);
        heights[*chart as usize] = legend;
        left -= legend;
    }
    if let Some(chart) = enlarged {
        let others: usize = Chart::ALL
            .into_iter()
            .filter(|c| *c != chart)
            .map(|c| least(c) - 1)
            .sum();
        let wants = (height / ENLARGED).max(least(chart)) - 1;
        if left < others + wants {
            heights[chart as usize] += left;
            return heights;
        }
    }
    for chart in &order {
        let more = least(*chart) - 1;
        if more <= left {
            heights[*chart as usize] += more;
            left -= more;
        }
    }
    let grow: Vec<usize> = match enlarged {
        Some(chart) => vec![chart as usize],
        // The bars grow half as fast: their height is a count.
        None => [0, 1, 2, 0, 1, 2, 3]
            .into_iter()
            .filter(|c| heights[*c] > 1)
            .collect(),
    };
    for chart in grow
        .iter()
        .cycle()
        .take(if grow.is_empty() { 0 } else { left })
    {
        heights[*chart] += 1;
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(width: u16, height: u16, enlarged: Option<Chart>) -> Plan {
        Plan::new(Rect::new(0, 2, width, height), enlarged, 2)
    }

    #[test]
    fn everything_is_inside_and_nothing_covers_another() {
        for width in (0..140).chain([300]) {
            for height in 0..100 {
                for enlarged in [None, Some(Chart::Windows), Some(Chart::Retransmits)] {
                    let area = Rect::new(3, 2, width, height);
                    let plan = Plan::new(area, enlarged, 2);
                    let mut all = vec![plan.facts, plan.bands, plan.axis];
                    all.extend(plan.charts);
                    for (i, a) in all.iter().enumerate() {
                        assert_eq!(a.intersection(area).area(), a.area(), "{plan:?}");
                        for b in &all[i + 1..] {
                            assert!(a.intersection(*b).is_empty(), "{area:?} {plan:?}");
                        }
                    }
                    let used: u32 = all.iter().map(|r| r.area()).sum();
                    let between = if plan.beside { u32::from(height) } else { 0 };
                    assert_eq!(
                        used + between,
                        area.area(),
                        "all is used: {area:?} {plan:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn eighty_by_twenty_four_shows_all_four_charts() {
        // 24 lines without header, blank and footer.
        let plan = of(80, 21, None);
        assert!(!plan.beside);
        assert_eq!(plan.facts.height, 4);
        assert_eq!(plan.charts.map(|r| r.height), [4, 4, 4, 3]);
        assert_eq!((plan.bands.height, plan.axis.height), (1, 1));
    }

    #[test]
    fn a_low_screen_shows_one_chart_and_the_figures_of_the_others() {
        let plan = of(60, 12, None);
        assert_eq!(plan.facts.height, 2);
        assert_eq!(plan.charts.map(|r| r.height), [5, 1, 1, 1]);
        let plan = of(60, 12, Some(Chart::Times));
        assert_eq!(plan.charts.map(|r| r.height), [1, 1, 5, 1]);
    }

    #[test]
    fn the_enlarged_chart_takes_half_or_all() {
        let plan = of(80, 21, Some(Chart::Rates));
        assert_eq!(plan.charts.map(|r| r.height), [1, 12, 1, 1]);
        let plan = of(120, 37, Some(Chart::Rates));
        assert!(plan.beside);
        assert_eq!(plan.charts.map(|r| r.height), [4, 23, 4, 3]);
        assert_eq!(of(120, 37, None).charts.map(|r| r.height), [10, 10, 9, 5]);
    }
}
