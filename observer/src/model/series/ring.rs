//! The newest entries, at most so many; memory grows with them and never beyond their number.

use std::collections::VecDeque;

/// Room is made for so many more at once, at least.
const STEP: usize = 4;

#[derive(Clone, Debug)]
pub(super) struct Ring<T> {
    kept: VecDeque<T>,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self {
            kept: VecDeque::new(),
        }
    }
}

impl<T> Ring<T> {
    /// Adds the newest; returns the one that went for it. With no room at all it is not taken.
    pub fn push(&mut self, entry: T, cap: usize) -> Option<T> {
        if cap == 0 {
            return None;
        }
        let gone = if self.kept.len() >= cap {
            self.kept.pop_front()
        } else {
            None
        };
        let len = self.kept.len();
        if len == self.kept.capacity() {
            self.kept.reserve_exact((len / 2).max(STEP).min(cap - len));
        }
        self.kept.push_back(entry);
        gone
    }

    /// Lets the oldest go beyond `cap`; true when any went.
    pub fn trim(&mut self, cap: usize) -> bool {
        let surplus = self.kept.len().saturating_sub(cap);
        self.kept.drain(..surplus);
        if self.kept.capacity() > cap {
            self.kept.shrink_to(cap);
        }
        surplus > 0
    }

    pub fn front(&self) -> Option<&T> {
        self.kept.front()
    }

    pub fn back(&self) -> Option<&T> {
        self.kept.back()
    }

    pub fn back_mut(&mut self) -> Option<&mut T> {
        self.kept.back_mut()
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Entries that are not before `pred` turns false, oldest first.
    pub fn from(&self, before: impl FnMut(&T) -> bool) -> impl Iterator<Item = &T> {
        let at = self.kept.partition_point(before);
        self.kept.range(at..)
    }

    /// Bytes on the heap.
    pub fn heap(&self) -> usize {
        self.kept.capacity() * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_keeps_the_newest_in_no_more_room_than_they_need() {
        let mut ring = Ring::default();
        for i in 0..100_u64 {
            let gone = ring.push(i, 10);
            assert_eq!(gone, i.checked_sub(10));
            assert!(ring.heap() <= 80, "{}", ring.heap());
        }
        assert!(ring.trim(3));
        assert_eq!(
            ring.from(|_| false).copied().collect::<Vec<_>>(),
            [97, 98, 99]
        );
        assert!(ring.heap() <= 24);
        assert!(!ring.trim(3));
        assert_eq!(ring.push(1, 0), None);
        assert_eq!(ring.back(), Some(&99));
    }
}
