//! Which columns, in which order, and which of them there is room for.

use super::{Column, GAP};

/// Which to have first when there is no room for all.
const BY_WORTH: [Column; 23] = [
    Column::Remote,
    Column::Throughput,
    Column::Rtt,
    Column::RetransRate,
    Column::Cwnd,
    Column::Cc,
    Column::Limit,
    Column::Verdict,
    Column::Trend,
    Column::Process,
    Column::Pacing,
    Column::BtlBw,
    Column::Qdisc,
    Column::State,
    Column::Fill,
    Column::RetransTrend,
    Column::Inflight,
    Column::Phase,
    Column::Retrans,
    Column::Dev,
    Column::Local,
    Column::Container,
    Column::Unit,
];

/// Off unless chosen: most hosts' flows have nothing to say there.
const OFF: [Column; 2] = [Column::Container, Column::Unit];

/// What gets of the room that is left over, in this order: how many columns more than [`Column::width`].
const WIDER: [(Column, usize); 9] = [
    // «bbr/bbrplus»
    (Column::Cc, 3),
    // «[2001:db8:1234:5678:9abc:def0:1234:5678]:65535»
    (Column::Remote, 26),
    (Column::Local, 26),
    (Column::Process, 12),
    (Column::Container, 12),
    (Column::Unit, 24),
    (Column::Trend, 12),
    (Column::RetransTrend, 12),
    (Column::Dev, 7),
];

/// A column in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    pub column: Column,
    pub x: usize,
    pub width: usize,
}

/// What is asked for: the default, or a person's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// All columns as they stand from left to right.
    order: Vec<Column>,
    off: Vec<Column>,
    /// Asked for by name: before those that are merely worth having.
    wanted: Vec<Column>,
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            order: Column::ALL.to_vec(),
            off: OFF.to_vec(),
            wanted: Vec::new(),
        }
    }
}

impl Choice {
    /// These, in this order, the first before the others where there is no room for all.
    pub fn of(columns: &[Column]) -> Self {
        let mut order = Vec::new();
        for column in columns {
            if !order.contains(column) {
                order.push(*column);
            }
        }
        let wanted = order.clone();
        let off: Vec<Column> = Column::ALL
            .into_iter()
            .filter(|column| !order.contains(column))
            .collect();
        order.extend(&off);
        Self { order, off, wanted }
    }

    /// All columns as they stand from left to right, also those that are off.
    pub fn order(&self) -> &[Column] {
        &self.order
    }

    pub fn is_on(&self, column: Column) -> bool {
        !self.off.contains(&column)
    }

    /// On is before all others: somebody wants to see it.
    pub fn turn(&mut self, column: Column, on: bool) {
        self.off.retain(|c| *c != column);
        self.wanted.retain(|c| *c != column);
        if on {
            self.wanted.insert(0, column);
        } else {
            self.off.push(column);
        }
    }

    /// Moves the column at `place` to the place before or after; returns where it is then.
    pub fn shift(&mut self, place: usize, by: isize) -> usize {
        let to = place.saturating_add_signed(by);
        if place < self.order.len() && to < self.order.len() {
            self.order.swap(place, to);
            to
        } else {
            place
        }
    }

    /// The next column that is on, so many places to the right; the last one where there is none.
    pub fn beside(&self, column: Column, by: isize) -> Column {
        let on: Vec<Column> = self
            .order
            .iter()
            .copied()
            .filter(|c| self.is_on(*c))
            .collect();
        let at = on.iter().position(|c| *c == column).unwrap_or(0);
        let to = at.saturating_add_signed(by).min(on.len().saturating_sub(1));
        on.get(to).copied().unwrap_or(column)
    }

    /// The columns that fit into `width`, as they stand. `first` (what is sorted by) has its place before the others.
    /// Where states have none, the leftmost screen column is left for the mark that stands for them.
    pub fn placed(&self, width: usize, first: Column) -> Vec<Placed> {
        let (mut chosen, mut left) = self.fitting(width, first);
        let mut x = 0;
        if !chosen.contains(&Column::State) {
            (chosen, left) = self.fitting(width.saturating_sub(1), first);
            x = 1;
        }
        let mut wider = WIDER;
        for (column, more) in &mut wider {
            *more = if chosen.contains(column) {
                left.min(*more)
            } else {
                0
            };
            left -= *more;
        }
        chosen
            .into_iter()
            .map(|column| {
                let more = wider.iter().find(|w| w.0 == column).map_or(0, |w| w.1);
                let width = column.width() + more;
                let placed = Placed { column, x, width };
                x += width + GAP;
                placed
            })
            .collect()
    }

    /// What fits, and how many columns are left over.
    fn fitting(&self, width: usize, first: Column) -> (Vec<Column>, usize) {
        let mut left = width;
        let mut chosen = Vec::new();
        for column in self.by_worth(first) {
            let needs = column.width() + if chosen.is_empty() { 0 } else { GAP };
            if needs > left {
                break;
            }
            left -= needs;
            chosen.push(column);
        }
        chosen.sort_by_key(|column| self.order.iter().position(|c| c == column));
        (chosen, left)
    }

    fn by_worth(&self, first: Column) -> impl Iterator<Item = Column> {
        let mut all = vec![first];
        for column in self.wanted.iter().copied().chain(BY_WORTH) {
            if self.is_on(column) && !all.contains(&column) {
                all.push(column);
            }
        }
        all.into_iter()
    }

    /// Those that are not in `placed`, the worthiest first: told of the selected flow.
    pub fn left_out(placed: &[Placed]) -> impl Iterator<Item = Column> + '_ {
        BY_WORTH
            .into_iter()
            .filter(|c| !matches!(c, Column::Local | Column::Remote))
            .filter(|c| placed.iter().all(|p| p.column != *c))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(choice: &Choice, width: usize, first: Column) -> Vec<Column> {
        let placed = choice.placed(width, first);
        placed.iter().map(|p| p.column).collect()
    }

    #[test]
    fn what_fits_grows_with_the_width_and_keeps_the_order() {
        let choice = Choice::of(&Column::ALL);
        for first in Column::ALL {
            let mut before = 0;
            for width in 0..450 {
                let placed = choice.placed(width, first);
                assert!(placed.len() >= before);
                assert!(placed.is_sorted_by(|a, b| a.x + a.width + GAP == b.x));
                assert!(placed.is_sorted_by_key(|p| p.column as usize));
                if let Some(last) = placed.last() {
                    assert!(last.x + last.width <= width);
                    assert!(
                        columns(&choice, width, first).contains(&first),
                        "{first:?} is seen"
                    );
                }
                before = placed.len();
            }
            assert_eq!(before, Column::ALL.len());
        }
    }

    #[test]
    fn eighty_columns_show_what_matters_most() {
        use Column::{
            BtlBw, Cc, Cwnd, Fill, Inflight, Limit, Process, Qdisc, Remote, RetransRate, Rtt,
            State, Throughput, Trend, Verdict,
        };
        let choice = Choice::default();
        let at_80 = [Remote, Cc, Throughput, Cwnd, Rtt, RetransRate, Limit];
        assert_eq!(columns(&choice, 80, Throughput), at_80);
        let at_60 = [Remote, Throughput, Cwnd, Rtt, RetransRate];
        assert_eq!(columns(&choice, 60, Throughput), at_60);
        let at_120 = [
            Remote,
            Process,
            Cc,
            Throughput,
            Trend,
            Cwnd,
            Rtt,
            RetransRate,
            Limit,
            Verdict,
        ];
        assert_eq!(columns(&choice, 120, Throughput), at_120);
        let at_180 = columns(&choice, 180, Throughput);
        assert!(
            [State, Qdisc, BtlBw, Fill]
                .iter()
                .all(|c| at_180.contains(c))
        );
        assert!(columns(&choice, 80, Inflight).contains(&Inflight));
    }

    #[test]
    fn a_choice_is_kept_to() {
        use Column::{BtlBw, Cc, Cwnd, Local, Remote, Throughput};
        let choice = Choice::of(&[Cwnd, Local, Cwnd, BtlBw]);
        assert_eq!(columns(&choice, 300, Cwnd), [Cwnd, Local, BtlBw]);
        assert_eq!(columns(&choice, 30, Cwnd), [Cwnd, Local]);
        // What is sorted by is seen though it was not chosen.
        assert_eq!(columns(&choice, 300, Cc), [Cwnd, Local, BtlBw, Cc]);
        assert_eq!(choice.beside(Cwnd, 1), Local);
        assert_eq!(choice.beside(BtlBw, 1), BtlBw);
        assert_eq!(choice.beside(Cwnd, -1), Cwnd);
        let mut choice = Choice::default();
        choice.turn(Remote, false);
        assert!(!columns(&choice, 80, Throughput).contains(&Remote));
        choice.turn(BtlBw, true);
        assert!(columns(&choice, 80, Throughput).contains(&BtlBw));
        assert_eq!(choice.shift(0, -1), 0);
        assert_eq!(choice.shift(0, 1), 1);
        assert_eq!(choice.order()[1], Column::State);
        let last = Column::ALL.len() - 1;
        assert_eq!(choice.shift(last, 1), last);
    }

    #[test]
    fn nothing_chosen_is_no_trouble() {
        let mut choice = Choice::default();
        for column in Column::ALL {
            choice.turn(column, false);
        }
        assert_eq!(columns(&choice, 80, Column::Rtt), [Column::Rtt]);
        assert_eq!(choice.beside(Column::Rtt, 1), Column::Rtt);
    }
}
