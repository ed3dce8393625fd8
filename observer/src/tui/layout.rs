//! Where things are on the screen: numbers in, numbers out.

/// From this height on there is room for more than one line of header, a blank line under it and the line of limitations.
const ROOMY: usize = 12;
/// From this height on the keys are named in the last line.
const FOOTED: usize = 6;
/// From this height on the selected flow is told in full below the table.
const DETAILED: usize = 15;
/// The header takes at most this part of the height.
const HEADER_PART: usize = 3;
/// The selected flow takes at most this part of the height.
const DETAIL_PART: usize = 5;

/// Lines from `at` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Band {
    pub at: usize,
    pub height: usize,
}

/// Bands one under another.
fn stack<const N: usize>(heights: [usize; N]) -> [Band; N] {
    let mut at = 0;
    heights.map(|height| {
        let band = Band { at, height };
        at += height;
        band
    })
}

/// The bands of every page, from top to bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub header: Band,
    /// The blank line under it: says which filter and grouping are in force.
    pub modes: Band,
    /// The page's own.
    pub body: Band,
    pub status: Band,
    /// What one types in.
    pub prompt: Band,
    pub footer: Band,
}

/// What a page has to show beside its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wants {
    /// Lines of the header.
    pub header: usize,
    /// Something does not work here.
    pub status: bool,
    /// Lines of what one types in.
    pub prompt: usize,
}

impl Layout {
    /// The header may have so many lines.
    pub fn header_room(height: usize) -> usize {
        if height < ROOMY {
            height.min(1)
        } else {
            height / HEADER_PART
        }
    }

    pub fn new(height: usize, wants: Wants) -> Self {
        let header = wants.header.min(Self::header_room(height));
        let blank = usize::from(header > 0 && height >= ROOMY);
        let footer = usize::from(height >= FOOTED);
        let status = usize::from(wants.status && height >= ROOMY);
        // One who types sees what: before all else but the header's first line.
        let prompt = wants
            .prompt
            .min(height.saturating_sub(header + blank + footer));
        let taken = header + blank + status + prompt + footer;
        let (status, body) = match height.checked_sub(taken) {
            Some(body) => (status, body),
            None => (0, 0),
        };
        let bands = stack([header, blank, body, status, prompt, footer]);
        let [header, modes, body, status, prompt, footer] = bands;
        Self {
            header,
            modes,
            body,
            status,
            prompt,
            footer,
        }
    }
}

/// The flow page's bands within its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowsLayout {
    /// Heading and flows.
    pub table: Band,
    /// On the selected flow.
    pub detail: Band,
}

impl FlowsLayout {
    /// `screen`: lines of the whole screen, `body` of them here, `detail` wanted for the selected flow.
    pub fn new(screen: usize, body: usize, detail: usize) -> Self {
        let detail = if screen >= DETAILED {
            detail.min(screen / DETAIL_PART).min(body)
        } else {
            0
        };
        let [table, detail] = stack([body - detail, detail]);
        Self { table, detail }
    }

    /// Flows in view: all lines of the table but the heading.
    pub fn page(&self) -> usize {
        self.table.height.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(header: usize, status: bool, prompt: usize) -> Wants {
        Wants {
            header,
            status,
            prompt,
        }
    }

    #[test]
    fn bands_never_leave_the_screen_nor_cover_each_other() {
        for height in 0..100 {
            for header in 0..10 {
                for (status, prompt) in [(false, 0), (true, 0), (false, 2), (true, 1)] {
                    let l = Layout::new(height, wants(header, status, prompt));
                    let bands = [l.header, l.modes, l.body, l.status, l.prompt, l.footer];
                    assert!(bands.is_sorted_by(|a, b| a.at + a.height <= b.at));
                    assert!(l.footer.at + l.footer.height <= height, "{height} {l:?}");
                    assert!(height < 3 || prompt == 0 || l.prompt.height > 0);
                    for detail in 0..6 {
                        let f = FlowsLayout::new(height, l.body.height, detail);
                        assert_eq!(f.table.height, f.detail.at);
                        assert_eq!(f.detail.at + f.detail.height, l.body.height);
                    }
                }
            }
        }
    }

    #[test]
    fn a_low_screen_keeps_one_line_of_header_and_the_flows() {
        let low = Layout::new(ROOMY - 1, wants(5, true, 0));
        assert_eq!(low.header.height, 1);
        assert_eq!(low.status.height, 0);
        let flows = FlowsLayout::new(ROOMY - 1, low.body.height, 4);
        assert_eq!(flows.detail.height, 0);
        assert_eq!(flows.page(), ROOMY - 1 - 1 - 1 - 1);
        assert_eq!(Layout::new(FOOTED - 1, wants(5, true, 0)).footer.height, 0);
    }

    #[test]
    fn eighty_by_twenty_four_has_everything() {
        let l = Layout::new(24, wants(3, true, 0));
        assert_eq!(l.header.height, 3);
        assert_eq!(l.body.at, 4);
        assert_eq!(l.status, Band { at: 22, height: 1 });
        assert_eq!(l.footer, Band { at: 23, height: 1 });
        let flows = FlowsLayout::new(24, l.body.height, 4);
        assert_eq!(flows.detail.height, 4);
        assert_eq!(flows.page(), 13);
        assert_eq!(FlowsLayout::new(DETAILED - 1, 10, 4).detail.height, 0);
        assert_eq!(FlowsLayout::new(DETAILED, 10, 4).detail.height, 3);
    }

    #[test]
    fn a_page_without_a_header_begins_at_the_top() {
        let l = Layout::new(24, Wants::default());
        assert_eq!(l.body, Band { at: 0, height: 23 });
    }
}
