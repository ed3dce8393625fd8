//! The list one chooses columns from.

use super::{Action, movement};
use crate::tui::columns::{Choice, Column};

/// Where one is in the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chooser {
    pub line: usize,
}

/// What the flow table has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    Nothing,
    Close,
    SortBy(Column),
}

impl Chooser {
    /// `seen`: the columns there is room for. A column that is on but has no room gets it; one that is seen goes off.
    pub fn update(&mut self, action: Action, choice: &mut Choice, seen: &[Column]) -> Chosen {
        let last = choice.order().len().saturating_sub(1);
        let column = choice.order().get(self.line).copied();
        match (action, column) {
            (Action::Back | Action::Columns, _) => return Chosen::Close,
            (Action::Toggle, Some(column)) => choice.turn(column, !seen.contains(&column)),
            (Action::ShiftUp, _) => self.line = choice.shift(self.line, -1),
            (Action::ShiftDown, _) => self.line = choice.shift(self.line, 1),
            (Action::Reset, _) => *choice = Choice::default(),
            (Action::SortByThis, Some(column)) => return Chosen::SortBy(column),
            (action, _) => {
                if let Some(to) = movement(action, choice.order().len() / 2) {
                    self.line = to.from(self.line).min(last);
                }
            }
        }
        Chosen::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_without_room_is_given_it() {
        let (mut chooser, mut choice) = (Chooser::default(), Choice::default());
        let seen = |choice: &Choice| -> Vec<Column> {
            let placed = choice.placed(80, Column::Throughput);
            placed.iter().map(|p| p.column).collect()
        };
        chooser.line = Column::BtlBw as usize;
        let before = seen(&choice);
        assert!(!before.contains(&Column::BtlBw) && choice.is_on(Column::BtlBw));
        chooser.update(Action::Toggle, &mut choice, &before);
        let after = seen(&choice);
        assert!(after.contains(&Column::BtlBw));
        chooser.update(Action::Toggle, &mut choice, &after);
        assert!(!choice.is_on(Column::BtlBw));
        chooser.update(Action::Reset, &mut choice, &after);
        assert_eq!(choice, Choice::default());
    }

    #[test]
    fn a_column_is_carried_along() {
        let (mut chooser, mut choice) = (Chooser::default(), Choice::default());
        chooser.update(Action::ShiftDown, &mut choice, &[]);
        chooser.update(Action::ShiftDown, &mut choice, &[]);
        assert_eq!((chooser.line, choice.order()[2]), (2, Column::State));
        chooser.update(Action::Last, &mut choice, &[]);
        assert_eq!(chooser.line, Column::ALL.len() - 1);
        assert_eq!(
            chooser.update(Action::SortByThis, &mut choice, &[]),
            Chosen::SortBy(Column::Verdict)
        );
        assert_eq!(
            chooser.update(Action::Back, &mut choice, &[]),
            Chosen::Close
        );
    }
}
