//! Dots in cells: braille (two by four), blocks (one by two), characters (one by one).

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::tui::theme::Marker;

/// Lines that can be told apart without colour.
pub const LINES: usize = 4;

/// Dots across and down in a cell.
pub fn dots_per_cell(marker: Marker) -> (usize, usize) {
    match marker {
        Marker::Braille => (2, 4),
        Marker::Block => (1, 2),
        Marker::Ascii => (1, 1),
    }
}

/// How line `n` looks, for the legend.
pub fn sign(marker: Marker, n: usize) -> &'static str {
    let signs = match marker {
        Marker::Braille => ["⠒⠒", "⠒ ", "⠐ ", "⠂⠐"],
        Marker::Block => ["▄▄", "▒▒", "░░", "··"],
        Marker::Ascii => ["##", "++", "oo", ".."],
    };
    signs[n.min(LINES - 1)]
}

/// Whether line `n` has a dot in its column `at` where it runs level: dashes.
pub fn dashed(marker: Marker, n: usize, at: u64) -> bool {
    match (marker, n) {
        (Marker::Block | Marker::Ascii, _) | (_, 0) => true,
        // Four on, four off; every other; one in four.
        (_, 1) => at % 8 < 4,
        (_, 2) => at.is_multiple_of(2),
        _ => at.is_multiple_of(4),
    }
}

/// A chart's cells.
#[derive(Debug)]
pub struct Raster {
    marker: Marker,
    width: usize,
    height: usize,
    /// Bits of the dots, and the line that came last.
    cells: Vec<(u8, u8)>,
}

/// Braille dots by column and row from the top (Unicode 2800).
const BRAILLE: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

impl Raster {
    pub fn new(marker: Marker, width: u16, height: u16) -> Self {
        let (width, height) = (usize::from(width), usize::from(height));
        Self {
            marker,
            width,
            height,
            cells: vec![(0, 0); width * height],
        }
    }

    /// Rows of dots.
    pub fn rows(&self) -> usize {
        self.height * dots_per_cell(self.marker).1
    }

    /// Sets the dots of column `x` from row `from` up to row `to` (both included, from the bottom) for line `line`.
    pub fn run(&mut self, x: usize, from: usize, to: usize, line: usize) {
        for y in from.min(to)..=from.max(to) {
            self.dot(x, y, line);
        }
    }

    fn dot(&mut self, x: usize, y: usize, line: usize) {
        let (across, down) = dots_per_cell(self.marker);
        let rows = self.rows();
        if x >= self.width * across || y >= rows {
            return;
        }
        let y = rows - 1 - y;
        let bit = match self.marker {
            Marker::Braille => BRAILLE[x % 2][y % 4],
            Marker::Block => 1 << (y % 2),
            Marker::Ascii => 1,
        };
        let (bits, owner) = &mut self.cells[y / down * self.width + x / across];
        // Blocks and characters say whose they are: of two in a cell the later one stands.
        if self.marker != Marker::Braille && usize::from(*owner) != line {
            *bits = 0;
        }
        *bits |= bit;
        *owner = line as u8;
    }

    /// Puts what has dots into `area`.
    pub fn render(&self, styles: &[Style], area: Rect, buffer: &mut Buffer) {
        for (i, &(bits, line)) in self.cells.iter().enumerate() {
            let (x, y) = (i % self.width, i / self.width);
            if bits == 0 || x >= usize::from(area.width) || y >= usize::from(area.height) {
                continue;
            }
            let place = (area.x + x as u16, area.y + y as u16);
            let style = styles.get(usize::from(line)).copied().unwrap_or_default();
            if let Some(cell) = buffer.cell_mut(place) {
                cell.set_char(self.glyph(bits, line)).set_style(style);
            }
        }
    }

    fn glyph(&self, bits: u8, line: u8) -> char {
        match (self.marker, line) {
            (Marker::Braille, _) => char::from_u32(0x2800 + u32::from(bits)).unwrap_or('?'),
            (Marker::Block, 0) => ['▀', '▄', '█'][usize::from(bits.clamp(1, 3)) - 1],
            (Marker::Block, 1) => '▒',
            (Marker::Block, 2) => '░',
            (Marker::Block, _) => '·',
            (Marker::Ascii, 0) => '#',
            (Marker::Ascii, 1) => '+',
            (Marker::Ascii, 2) => 'o',
            (Marker::Ascii, _) => '.',
        }
    }
}
