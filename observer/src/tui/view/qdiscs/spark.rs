//! A line of bars: one value a column, the unknown left blank.

use crate::tui::theme::Marker;

/// From nothing to the greatest.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

/// `values` in `width` columns and `height` lines, from the top, oldest left: of values that share a column the greatest
/// stands. Whatever is not zero is told from zero, and what is unknown is blank.
pub fn spark(values: &[Option<u64>], width: usize, height: usize, marker: Marker) -> Vec<String> {
    let bars = match marker {
        Marker::Ascii => ASCII,
        Marker::Braille | Marker::Block => BLOCKS,
    };
    let greatest = values.iter().flatten().max().copied().unwrap_or(0).max(1);
    let columns = columns(values, width);
    let bar = |value: Option<u64>, line: usize| {
        let Some(value) = value else { return ' ' };
        // The lowest step is the base line, which stands for zero.
        let steps = bars.len() * height - 1;
        let step = (u128::from(value) * steps as u128).div_ceil(u128::from(greatest));
        let below = bars.len() * (height - 1 - line);
        match (step.min(steps as u128) as usize).checked_sub(below) {
            Some(step) => bars[step.min(bars.len() - 1)],
            None => ' ',
        }
    };
    (0..height)
        .map(|line| columns.iter().map(|value| bar(*value, line)).collect())
        .collect()
}

/// The greatest known of each column's values.
fn columns(values: &[Option<u64>], width: usize) -> Vec<Option<u64>> {
    if width == 0 || values.is_empty() {
        return Vec::new();
    }
    let width = width.min(values.len());
    (0..width)
        .map(|x| {
            let (from, to) = (x * values.len() / width, (x + 1) * values.len() / width);
            values[from..to].iter().flatten().max().copied()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_zero_and_little_are_three_things() {
        let values = [None, Some(0), Some(1), Some(500), Some(1000)];
        assert_eq!(spark(&values, 5, 1, Marker::Block), [" ▁▂▅█"]);
        assert_eq!(spark(&values, 5, 1, Marker::Ascii), [" _.=#"]);
        assert_eq!(spark(&[Some(0), Some(0)], 2, 1, Marker::Block), ["▁▁"]);
        assert_eq!(spark(&values, 5, 2, Marker::Block), ["   ▁█", " ▁▂██"]);
    }

    #[test]
    fn the_greatest_of_a_column_stands() {
        let values: Vec<_> = (0..60).map(|n| Some(if n == 31 { 9 } else { 0 })).collect();
        assert_eq!(spark(&values, 6, 1, Marker::Block), ["▁▁▁█▁▁"]);
        assert_eq!(spark(&values, 0, 1, Marker::Block), [""]);
        assert_eq!(spark(&values, 6, 0, Marker::Block), [""; 0]);
        assert_eq!(spark(&values, 500, 1, Marker::Block)[0].chars().count(), 60);
        assert_eq!(
            spark(&[Some(u64::MAX), Some(1)], 2, 1, Marker::Block),
            ["█▂"]
        );
    }
}
