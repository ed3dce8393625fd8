//! Whether this process may load the programs.

use std::fs;

/// Bits of `include/uapi/linux/capability.h`.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Effective capabilities of this thread; `None` when `/proc` does not tell.
fn effective() -> Option<u64> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// The names of the capabilities that are missing; empty = the programs can be loaded as far as rights go.
/// `CAP_SYS_ADMIN` stands for both (`include/linux/capability.h`: `bpf_capable`, `perfmon_capable`).
pub fn missing() -> Vec<&'static str> {
    // Where it cannot be told the kernel's own answer decides.
    effective().map_or_else(Vec::new, missing_of)
}

fn missing_of(effective: u64) -> Vec<&'static str> {
    let has = |bit: u32| effective >> bit & 1 == 1;
    if has(CAP_SYS_ADMIN) {
        return Vec::new();
    }
    [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")]
        .into_iter()
        .filter(|(bit, _)| !has(*bit))
        .map(|(_, name)| name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_sys_admin_or_both() {
        assert_eq!(missing_of(0), ["CAP_BPF", "CAP_PERFMON"]);
        assert_eq!(missing_of(1 << CAP_BPF), ["CAP_PERFMON"]);
        assert!(missing_of(1 << CAP_BPF | 1 << CAP_PERFMON).is_empty());
        assert!(missing_of(1 << CAP_SYS_ADMIN).is_empty());
    }
}
