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

/// What there is to show.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wants {
    /// Lines of the header.
    pub header: usize,
    /// Lines on the selected flow; 0 = none is selected.
    pub detail: usize,
    /// Something does not work here.
    pub status: bool,
}

/// The bands of the main screen, from top to bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub header: Band,
    /// Heading and flows.
    pub table: Band,
    pub detail: Band,
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

    pub fn new(height: usize, wants: Wants) -> Self {
        let header = wants.header.min(Self::header_room(height));
        let blank = usize::from(height >= ROOMY);
        let footer = usize::from(height >= FOOTED);
        let status = usize::from(wants.status && height >= ROOMY);
        let detail = if height >= DETAILED {
            wants.detail.min(height / DETAIL_PART)
        } else {
            0
        };
        let table = height.saturating_sub(header + blank + detail + status + footer);
        let mut at = 0;
        let mut band = |height: usize| {
            let band = Band { at, height };
            at += height;
            band
        };
        let header = band(header);
        band(blank);
        Self {
            header,
            table: band(table),
            detail: band(detail),
            status: band(status),
            footer: band(footer),
        }
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
                for detail in 0..6 {
                    for status in [false, true] {
                        let wants = Wants {
                            header,
                            detail,
                            status,
                        };
                        let l = Layout::new(height, wants);
                        let bands = [l.header, l.table, l.detail, l.status, l.footer];
                        assert!(bands.is_sorted_by(|a, b| a.at + a.height <= b.at));
                        assert!(
                            l.footer.at + l.footer.height <= height,
                            "{height} {wants:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_low_screen_keeps_one_line_of_header_and_the_flows() {
        let wants = Wants {
            header: 5,
            detail: 4,
            status: true,
        };
        let low = Layout::new(ROOMY - 1, wants);
        assert_eq!(low.header.height, 1);
        assert_eq!((low.status.height, low.detail.height), (0, 0));
        assert_eq!(low.page(), ROOMY - 1 - 1 - 1 - 1);
        assert_eq!(Layout::new(FOOTED - 1, wants).footer.height, 0);
    }

    #[test]
    fn eighty_by_twenty_four_has_everything() {
        let wants = Wants {
            header: 3,
            detail: 4,
            status: true,
        };
        let l = Layout::new(24, wants);
        assert_eq!(l.header.height, 3);
        assert_eq!(l.table.at, 4);
        assert_eq!(l.detail.height, 4);
        assert_eq!(l.status, Band { at: 22, height: 1 });
        assert_eq!(l.footer, Band { at: 23, height: 1 });
        assert_eq!(l.page(), 13);
        assert_eq!(Layout::new(DETAILED - 1, wants).detail.height, 0);
        assert_eq!(Layout::new(DETAILED, wants).detail.height, 3);
    }
}
