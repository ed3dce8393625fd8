//! Rights: which capabilities this process has, and what each is for.

use std::fs;

/// A capability that bears on observing, by its bit of `include/uapi/linux/capability.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cap {
    NetAdmin = 12,
    SysPtrace = 19,
    SysAdmin = 21,
    Perfmon = 38,
    Bpf = 39,
}

impl Cap {
    pub const ALL: [Self; 5] = [
        Self::Bpf,
        Self::Perfmon,
        Self::NetAdmin,
        Self::SysPtrace,
        Self::SysAdmin,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::SysPtrace => "CAP_SYS_PTRACE",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::Perfmon => "CAP_PERFMON",
            Self::Bpf => "CAP_BPF",
        }
    }
}

/// A set of capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps(u64);

impl Caps {
    /// In force for this thread; `None` when `/proc` does not tell.
    pub fn effective() -> Option<Self> {
        let status = fs::read_to_string("/proc/thread-self/status").ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))?;
        u64::from_str_radix(line.trim(), 16).ok().map(Self)
    }

    /// `CAP_SYS_ADMIN` stands for `CAP_BPF` and `CAP_PERFMON` (`include/linux/capability.h`: `bpf_capable`,
    /// `perfmon_capable`).
    pub fn has(self, cap: Cap) -> bool {
        let bit = |cap: Cap| self.0 >> cap as u32 & 1 == 1;
        bit(cap) || matches!(cap, Cap::Bpf | Cap::Perfmon) && bit(Cap::SysAdmin)
    }
}

/// The names of the capabilities that are missing; empty = the programs can be loaded as far as rights go.
pub fn missing() -> Vec<&'static str> {
    // Where it cannot be told the kernel's own answer decides.
    Caps::effective().map_or_else(Vec::new, missing_of)
}

fn missing_of(caps: Caps) -> Vec<&'static str> {
    [Cap::Bpf, Cap::Perfmon]
        .into_iter()
        .filter(|cap| !caps.has(*cap))
        .map(Cap::name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_sys_admin_or_both() {
        let caps = |caps: &[Cap]| Caps(caps.iter().fold(0, |bits, cap| bits | 1 << *cap as u32));
        assert_eq!(missing_of(caps(&[])), ["CAP_BPF", "CAP_PERFMON"]);
        assert_eq!(missing_of(caps(&[Cap::Bpf])), ["CAP_PERFMON"]);
        assert!(missing_of(caps(&[Cap::Bpf, Cap::Perfmon])).is_empty());
        assert!(missing_of(caps(&[Cap::SysAdmin])).is_empty());
        assert!(!caps(&[Cap::SysAdmin]).has(Cap::SysPtrace));
    }
}
