//! Reads what became of the programs' runs: our own counters, and what only the kernel can count.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use observer_common::outcome::{self, Program, ProgramsCounters};

use crate::event::{Counters, ProgramCounters};

/// The kernel's own figures on a program, from `/proc/self/fdinfo` (needs no right beyond the descriptor).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCounts {
    /// Times the hook fired while the program already ran on that CPU: it was skipped (TRAPS 29). Counted with
    /// statistics off too.
    pub recursion_misses: u64,
    /// Time the program ran; counted while `kernel.bpf_stats_enabled` is on, 0 before it ever was.
    pub run_time_ns: u64,
    /// Id for `bpftool prog show id`.
    pub prog_id: u32,
}

/// Figures of the program behind a descriptor; `None` when `/proc` does not tell.
pub fn kernel_counts(fd: BorrowedFd<'_>) -> Option<KernelCounts> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).ok()?;
    parse_fdinfo(&text)
}

/// What `/proc/self/fdinfo/FD` of a program says.
#[doc(hidden)]
pub fn parse_fdinfo(text: &str) -> Option<KernelCounts> {
    let field = |name: &str| {
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| *key == name)
            .and_then(|(_, value)| value.trim().parse::<u64>().ok())
    };
    Some(KernelCounts {
        recursion_misses: field("recursion_misses")?,
        run_time_ns: field("run_time_ns").unwrap_or(0),
        prog_id: u32::try_from(field("prog_id")?).ok()?,
    })
}

/// One program's line.
pub fn of_program(program: Program, own: &outcome::Counters, missed: u64) -> ProgramCounters {
    let [kept, suppressed, filtered, failed, dropped] = own.outcome;
    ProgramCounters {
        program: program.name().to_owned(),
        attempted: own.attempted + missed,
        kept,
        suppressed,
        filtered,
        failed,
        dropped,
        missed,
        run_time_ns: None,
    }
}

/// All programs that are loaded.
pub fn all<'a>(
    own: &ProgramsCounters,
    loaded: impl Iterator<Item = (Program, &'a aya::programs::ProgramFd)>,
) -> Counters {
    let statistics = fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled")
        .is_ok_and(|text| text.trim() != "0");
    let programs = loaded
        .map(|(program, fd)| {
            let kernel = kernel_counts(fd.as_fd()).unwrap_or_default();
            let own = &own.program[program as usize];
            ProgramCounters {
                // While the statistics are off the kernel's figure stands still: then it is none.
                run_time_ns: (statistics && kernel.run_time_ns > 0).then_some(kernel.run_time_ns),
                ..of_program(program, own, kernel.recursion_misses)
            }
        })
        .collect();
    Counters {
        programs,
        cost: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trap_29_recursion_misses_come_from_fdinfo() {
        let text = "pos:\t0\nflags:\t02000002\nprog_type:\t26\nprog_jited:\t1\nmemlock:\t4096\nprog_id:\t42\n\
                    run_time_ns:\t0\nrun_cnt:\t0\nrecursion_misses:\t60\nverified_insns:\t9\n";
        let counts = parse_fdinfo(text).expect("all lines are there");
        assert_eq!((counts.recursion_misses, counts.prog_id), (60, 42));
        assert_eq!(parse_fdinfo("prog_id:\t1\n"), None);
    }

    #[test]
    fn attempted_includes_what_no_program_can_count() {
        let own = outcome::Counters {
            attempted: 15,
            outcome: [1, 2, 3, 4, 5],
            ..outcome::Counters::default()
        };
        let line = of_program(Program::Probe, &own, 7);
        assert_eq!(line.attempted, 22);
        assert_eq!(
            line.attempted,
            line.kept + line.suppressed + line.filtered + line.failed + line.dropped + line.missed
        );
    }
}
