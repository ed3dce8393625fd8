//! Where the kernel keeps which process a task is of.

use observer_common::config::TaskPlaces;

use super::btf::Btf;

/// What PIDs and names are where the types do not tell.
pub const UNKNOWN: &str = "this kernel's types do not tell a task's process: PIDs are those of the first PID \
                           namespace, and a thread that connects shows its own name";

/// The places by the kernel's type information; `known` 0 unless all are there.
pub fn places(btf: &Btf) -> TaskPlaces {
    let at = |root, path| Some(btf.place(root, path).ok()?.bit_offset / 8);
    let all = || {
        Some(TaskPlaces {
            known: 1,
            leader: at("task_struct", "group_leader")?,
            pid: at("task_struct", "thread_pid")?,
            level: at("pid", "level")?,
            numbers: at("pid", "numbers")?,
            reserved: 0,
        })
    };
    all().unwrap_or(TaskPlaces::UNKNOWN)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn all_or_nothing() {
        let Ok(btf) = Btf::vmlinux(Path::new("/sys/kernel/btf")) else {
            // A kernel without types of its own: the programs do not load either.
            return;
        };
        let places = places(&btf);
        assert_eq!(places.known, 1);
        assert!(places.leader > 0 && places.pid > places.leader);
        assert!(places.level > 0 && places.numbers > places.level);
    }
}
