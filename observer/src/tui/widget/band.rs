//! A band under charts: what was the case when, by words where they fit and by letters where they do not.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr as _;

/// What is the case in a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// From long to short; the last is a letter.
    pub names: &'static [&'static str],
    /// Follows the name up to the next case.
    pub fill: &'static str,
    pub style: Style,
}

/// The band, by cells; `None` = nothing is said.
#[derive(Clone, Debug)]
pub struct Band {
    pub cells: Vec<Option<Case>>,
}

impl Band {
    pub fn render(&self, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        if area.is_empty() {
            return;
        }
        let cells = &self.cells[..self.cells.len().min(usize::from(area.width))];
        let mut at = 0;
        for run in cells.chunk_by(|a, b| a == b) {
            if let Some(Some(case)) = run.first() {
                let x = area.x + at as u16;
                buffer.set_stringn(x, area.y, case.text(run.len()), run.len(), case.style);
            }
            at += run.len();
        }
    }
}

impl Case {
    /// The longest name that fits into `width` cells and leaves one to the next, then the fill.
    fn text(&self, width: usize) -> String {
        let fits = |name: &&&str| name.width() < width || name.width() == 1;
        let name = self.names.iter().find(fits).copied().unwrap_or("");
        let left = width.saturating_sub(name.width());
        name.to_owned() + &self.fill.repeat(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Case = Case {
        names: &["STARTUP", "START", "S"],
        fill: "─",
        style: Style::new(),
    };
    const OTHER: Case = Case {
        names: &["DRAIN", "D"],
        fill: "─",
        style: Style::new(),
    };

    fn drawn(cells: Vec<Option<Case>>, width: u16) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, width + 4, 1));
        Band { cells }.render(Rect::new(2, 0, width, 1), &mut buffer);
        let all: String = (0..width + 4).map(|x| buffer[(x, 0)].symbol()).collect();
        assert!(all.starts_with("  ") && all.ends_with("  "), "{all:?}");
        all[2..].trim_end().to_owned()
    }

    #[test]
    fn names_are_as_long_as_there_is_room() {
        let mut cells = vec![Some(LONG); 10];
        cells.extend([Some(OTHER); 3]);
        cells.extend([None; 2]);
        cells.extend([Some(LONG); 1]);
        assert_eq!(drawn(cells.clone(), 16), "STARTUP───D──  S");
        assert_eq!(drawn(cells[4..].to_vec(), 20), "START─D──  S");
        assert_eq!(drawn(cells, 4), "S───");
        assert_eq!(drawn(vec![], 4), "");
    }
}
