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
    /// The page's own.
    pub body: Band,
    pub status: Band,
    pub footer: Band,
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

    /// `header`: the lines there are for it. `status`: something does not work here.
    pub fn new(height: usize, header: usize, status: bool) -> Self {
        let header = header.min(Self::header_room(height));
        let blank = usize::from(header > 0 && height >= ROOMY);
        let footer = usize::from(height >= FOOTED);
        let status = usize::from(status && height >= ROOMY);
        let body = height.saturating_sub(header + blank + status + footer);
        let [header, _, body, status, footer] = stack([header, blank, body, status, footer]);
        Self {
            header,
            body,
            status,
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

    #[test]
    fn bands_never_leave_the_screen_nor_cover_each_other() {
        for height in 0..100 {
            for header in 0..10 {
                for status in [false, true] {
                    let l = Layout::new(height, header, status);
                    let bands = [l.header, l.body, l.status, l.footer];
                    assert!(bands.is_sorted_by(|a, b| a.at + a.height <= b.at));
                    assert!(l.footer.at + l.footer.height <= height);
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
        let low = Layout::new(ROOMY - 1, 5, true);
        assert_eq!(low.header.height, 1);
        assert_eq!(low.status.height, 0);
        let flows = FlowsLayout::new(ROOMY - 1, low.body.height, 4);
        assert_eq!(flows.detail.height, 0);
        assert_eq!(flows.page(), ROOMY - 1 - 1 - 1 - 1);
        assert_eq!(Layout::new(FOOTED - 1, 5, true).footer.height, 0);
    }

    #[test]
    fn eighty_by_twenty_four_has_everything() {
        let l = Layout::new(24, 3, true);
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
        let l = Layout::new(24, 0, false);
        assert_eq!(l.body, Band { at: 0, height: 23 });
    }
}
