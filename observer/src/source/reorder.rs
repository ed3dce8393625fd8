//! The reorder window: records of several channels in the order of their time.
//!
//! Records of one flow are made under its socket's lock, so their times and numbers agree. Between channels (the ring,
//! the sweep) and CPUs they do not arrive in order: they wait here until nothing earlier can come.

/// How far behind the newest reading a record may still be on its way: the clock is read before the ring is written,
/// and a program can be interrupted in between.
pub const WINDOW_NS: u64 = 2_000_000;

/// Records waiting for their turn.
#[derive(Debug, Default)]
pub struct Reorder {
    bytes: Vec<u8>,
    index: Vec<Entry>,
    released: u64,
    late: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    time_ns: u64,
    start: usize,
    end: usize,
}

impl Reorder {
    /// Takes a record in.
    pub fn push(&mut self, time_ns: u64, record: &[u8]) {
        if time_ns < self.released {
            self.late += 1;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(record);
        self.index.push(Entry {
            time_ns,
            start,
            end: self.bytes.len(),
        });
    }

    /// Gives out what is older than `until_ns`, in order; equal times keep the order of arrival.
    pub fn release(&mut self, until_ns: u64, mut each: impl FnMut(&[u8])) {
        self.index.sort_by_key(|entry| entry.time_ns);
        let ready = self.index.partition_point(|entry| entry.time_ns < until_ns);
        for entry in &self.index[..ready] {
            each(&self.bytes[entry.start..entry.end]);
        }
        self.released = self.released.max(until_ns);
        self.index.drain(..ready);
        if self.index.is_empty() {
            self.bytes.clear();
        } else if ready > 0 {
            self.compact();
        }
    }

    /// Records that came after later ones had been given out. They are passed on all the same.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Records waiting.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    fn compact(&mut self) {
        let mut kept = Vec::with_capacity(self.index.iter().map(|e| e.end - e.start).sum());
        for entry in &mut self.index {
            let start = kept.len();
            kept.extend_from_slice(&self.bytes[entry.start..entry.end]);
            entry.start = start;
            entry.end = kept.len();
        }
        self.bytes = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn released(reorder: &mut Reorder, until: u64) -> Vec<u8> {
        let mut out = Vec::new();
        reorder.release(until, |bytes| out.extend_from_slice(bytes));
        out
    }

    #[test]
    fn trap_07_channels_are_merged_by_time_and_stragglers_pass() {
        let mut reorder = Reorder::default();
        reorder.push(30, &[3]);
        reorder.push(10, &[1]);
        reorder.push(20, &[2]);
        assert_eq!(released(&mut reorder, 25), [1, 2]);
        reorder.push(5, &[0]);
        assert_eq!(reorder.late(), 1);
        reorder.push(30, &[4]);
        assert_eq!(released(&mut reorder, 31), [0, 3, 4]);
        assert!(reorder.is_empty());
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_time_never_goes_back_within_a_release(
            records in proptest::collection::vec((0_u64..100, any::<u8>()), 0..50),
            until in 0_u64..120,
        ) {
            let mut reorder = Reorder::default();
            for (time, byte) in &records {
                reorder.push(*time, &[*time as u8, *byte]);
            }
            let out = released(&mut reorder, until);
            let times: Vec<u8> = out.chunks(2).map(|c| c[0]).collect();
            prop_assert!(times.is_sorted());
            prop_assert_eq!(out.len() / 2 + reorder.len(), records.len());
            let rest = released(&mut reorder, u64::MAX);
            prop_assert_eq!(out.len() + rest.len(), 2 * records.len());
        }
    }
}
