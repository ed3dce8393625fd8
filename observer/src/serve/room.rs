//! Values of labels that the network or the host chooses: there is room for so many, so that series stay bounded.

use std::collections::HashMap;

use crate::units::Mono;

/// What counts for all that there is no room for.
pub(super) const OTHER: &str = "other";
/// A name that was not seen for so long may have to go.
const IDLE_NS: u64 = 600_000_000_000;

/// The values of one label.
#[derive(Debug)]
pub(super) struct Room {
    most: usize,
    seen: HashMap<String, Mono>,
}

/// Where a name counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Under itself.
    Own,
    /// Under itself, in the place of this one: its series are to go.
    InsteadOf(String),
    /// Under [`OTHER`].
    Other,
}

impl Room {
    pub fn new(most: usize) -> Self {
        let seen = HashMap::new();
        Self { most, seen }
    }

    /// Names keep their place until room is needed and they were not seen for [`IDLE_NS`]: counters do not vanish
    /// because a flow ended.
    pub fn place(&mut self, name: &str, now: Mono) -> Place {
        if let Some(seen) = self.seen.get_mut(name) {
            *seen = now;
            return Place::Own;
        }
        let mut place = Place::Own;
        if self.seen.len() >= self.most {
            let longest = self.seen.iter().min_by_key(|(_, seen)| **seen);
            let Some(idle) = longest
                .filter(|(_, seen)| now.since(**seen) >= IDLE_NS)
                .map(|(idle, _)| idle.clone())
            else {
                return Place::Other;
            };
            self.seen.remove(&idle);
            place = Place::InsteadOf(idle);
        }
        self.seen.insert(name.to_owned(), now);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_room_takes_the_place_of_who_was_away_longest() {
        let mut room = Room::new(2);
        let at = |seconds: u64| Mono(seconds * 1_000_000_000);
        assert_eq!(room.place("a", at(0)), Place::Own);
        assert_eq!(room.place("b", at(1)), Place::Own);
        assert_eq!(room.place("c", at(2)), Place::Other);
        assert_eq!(room.place("a", at(500)), Place::Own);
        assert_eq!(room.place("c", at(600)), Place::Other);
        assert_eq!(room.place("c", at(601)), Place::InsteadOf("b".to_owned()));
        assert_eq!(room.place("c", at(602)), Place::Own);
        assert_eq!(room.place("b", at(700)), Place::Other);
    }
}
