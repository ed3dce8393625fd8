//! Sparklines: the last seconds of a figure, a character each.

use crate::tui::theme::Marker;

/// Eighths of a cell, the lowest first.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII: [char; 8] = ['.', ':', '-', '=', '+', '*', '#', '@'];
/// Nothing, which is not «unknown».
const ZERO: char = '_';
const UNKNOWN: char = ' ';

/// Shares from which on a retransmit rate is drawn one step higher: heights of all flows compare.
const STEPS: [f64; 8] = [0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3];

fn levels(marker: Marker) -> [char; 8] {
    match marker {
        Marker::Ascii => ASCII,
        Marker::Block | Marker::Braille => BLOCKS,
    }
}

/// Against the largest of them. Empty where all is unknown.
pub fn own_scale(values: impl Iterator<Item = Option<u64>> + Clone, marker: Marker) -> String {
    let levels = levels(marker);
    let most = values.clone().flatten().max().unwrap_or(0);
    if values.clone().all(|value| value.is_none()) {
        return String::new();
    }
    let draw = |value: Option<u64>| match value {
        None => UNKNOWN,
        Some(0) => ZERO,
        Some(value) => {
            let eighth = u128::from(value) * 8 / u128::from(most);
            levels[(eighth as usize).min(7)]
        }
    };
    values.map(draw).collect()
}

/// Against a scale that is the same for all: the number of steps reached. Empty where all is unknown.
pub fn shares(values: impl Iterator<Item = Option<f64>> + Clone, marker: Marker) -> String {
    let levels = levels(marker);
    if values.clone().all(|value| value.is_none()) {
        return String::new();
    }
    let draw = |value: Option<f64>| match value {
        None => UNKNOWN,
        Some(value) => {
            let reached = STEPS.iter().filter(|step| value > **step).count();
            reached.checked_sub(1).map_or(ZERO, |level| levels[level])
        }
    };
    values.map(draw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_zero_little_and_most_differ() {
        let values = [None, Some(0), Some(1), Some(50), Some(100)].into_iter();
        assert_eq!(own_scale(values.clone(), Marker::Block), " _▁▅█");
        assert_eq!(own_scale(values, Marker::Ascii), " _.+@");
        assert_eq!(
            own_scale([Some(u64::MAX)].into_iter(), Marker::Braille),
            "█"
        );
        assert_eq!(own_scale(std::iter::empty(), Marker::Block), "");
    }

    #[test]
    fn rates_stand_on_one_scale() {
        let values = [None, Some(0.0), Some(0.0001), Some(0.02), Some(1.0)];
        assert_eq!(shares(values.into_iter(), Marker::Block), " _▁▄█");
    }
}
