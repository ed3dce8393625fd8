//! The memory that the programs and we both see: every CPU's counters, and its briefs, taken without a system call.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use aya::maps::MapData;
use observer_common::outcome::{Cpu, ProgramsCounters};
use observer_common::wire::Brief;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Fewest briefs a CPU has room for: with a drain every 10 ms, 400,000 a second.
const FEWEST: u32 = 4096;

/// How many briefs each of `cpus` has room for, when all of them together may take about `bytes`. A power of two.
pub fn briefs_per_cpu(bytes: u32, cpus: u32) -> u32 {
    let each = bytes / size_of::<Brief>() as u32 / cpus.max(1);
    let each = each.clamp(FEWEST, 1 << 20);
    1 << each.ilog2()
}

/// A map's elements in our memory.
struct Mapped<T> {
    start: NonNull<T>,
    bytes: usize,
}

// SAFETY: plain shared memory; who may touch which part of it is settled by `Shared`.
unsafe impl<T> Send for Mapped<T> {}

impl<T> Mapped<T> {
    fn new(fd: BorrowedFd<'_>, number: usize, write: bool) -> io::Result<Self> {
        let bytes = number * size_of::<T>();
        let protection = if write {
            ProtFlags::READ | ProtFlags::WRITE
        } else {
            ProtFlags::READ
        };
        // SAFETY: a new mapping at a place the kernel chooses, on a page's border; the map's memory is at least as long, or this fails.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                MapFlags::SHARED,
                fd,
                0,
            )
        }?;
        NonNull::new(start.cast())
            .map(|start| Self { start, bytes })
            .ok_or_else(|| io::Error::other("mapped at zero"))
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nothing borrows from it longer than `self` lives.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Counters and briefs of all CPUs.
pub struct Shared {
    cpus: Mapped<Cpu>,
    briefs: Mapped<Brief>,
    /// Keep the maps.
    _maps: [MapData; 2],
    number: usize,
    room: u64,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("cpus", &self.number)
            .field("room", &self.room)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Of the maps `CPUS` and `BRIEFS`, made for `cpus` CPUs with room for `room` briefs each.
    pub fn new(cpus: MapData, briefs: MapData, number: u32, room: u32) -> io::Result<Self> {
        use std::os::fd::AsFd as _;
        let number = number as usize;
        Ok(Self {
            cpus: Mapped::new(cpus.fd().as_fd(), number, true)?,
            briefs: Mapped::new(briefs.fd().as_fd(), number * room as usize, false)?,
            _maps: [cpus, briefs],
            number,
            room: u64::from(room),
        })
    }

    fn cpu(&self, number: usize) -> *mut Cpu {
        debug_assert!(number < self.number);
        // SAFETY: within the mapping, which is page-aligned.
        unsafe { self.cpus.start.as_ptr().add(number) }
    }

    /// The programs' counters, all CPUs summed.
    pub fn counters(&self) -> ProgramsCounters {
        let mut sum = ProgramsCounters::default();
        for number in 0..self.number {
            // SAFETY: inside the mapping; the programs raise the counters meanwhile, hence volatile.
            let part = unsafe { (&raw const (*self.cpu(number)).counters).read_volatile() };
            for (total, part) in sum.program.iter_mut().zip(&part.program) {
                total.attempted += part.attempted;
                for (total, part) in total.outcome.iter_mut().zip(part.outcome) {
                    *total += part;
                }
            }
        }
        sum
    }

    /// Takes up to `most` briefs of each CPU, in the order each wrote them; says how many.
    pub fn drain(&mut self, most: u64, mut take: impl FnMut(&Brief)) -> u64 {
        let mut taken = 0;
        for number in 0..self.number {
            let cpu = self.cpu(number);
            // SAFETY: aligned and inside the mapping. The program writes `head` after the record (an exchange there,
            // acquire here); nobody but us writes `tail`.
            let (head, tail) = unsafe {
                (
                    AtomicU64::from_ptr(&raw mut (*cpu).head),
                    AtomicU64::from_ptr(&raw mut (*cpu).tail),
                )
            };
            let mut at = tail.load(Ordering::Relaxed);
            let end = head.load(Ordering::Acquire);
            let end = at + end.wrapping_sub(at).min(most).min(self.room);
            taken += end - at;
            while at < end {
                let place = number as u64 * self.room + at % self.room;
                // SAFETY: inside the mapping; between `tail` and `head` the program does not write.
                take(unsafe { &*self.briefs.start.as_ptr().add(place as usize) });
                at += 1;
            }
            tail.store(end, Ordering::Release);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_a_power_of_two_and_never_tiny() {
        assert_eq!(briefs_per_cpu(8 << 20, 2), 16384);
        assert_eq!(briefs_per_cpu(8 << 20, 256), FEWEST);
        assert_eq!(briefs_per_cpu(4096, 0), FEWEST);
        assert_eq!(briefs_per_cpu(u32::MAX, 1), 1 << 20);
    }
}
