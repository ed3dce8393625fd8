//! The rights of this process: none by set-uid, no new ones, and of those given only what its command takes.
//!
//! Capabilities belong to threads: give them up before there is another thread.

use rustix::io::Errno;
use rustix::process::{getegid, geteuid, getgid, getuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
    set_no_new_privs,
};

/// Loading, attaching and reading the programs; socket-diag; owners of other users' sockets.
const OBSERVING: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::DAC_READ_SEARCH);
/// Other network namespaces: `-N`, and counting what is elsewhere.
const NAMESPACES: CapabilitySet = CapabilitySet::SYS_ADMIN;
/// Files given to the user who called sudo, in a directory of theirs, at any time.
const RECORDING: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER);

/// What a command goes on to need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needed {
    pub namespaces: bool,
    pub recording: bool,
}

/// Why it cannot be trusted with its rights.
#[derive(Debug, thiserror::Error)]
pub enum RightsError {
    #[error(
        "observer is not made to be set-uid or set-gid: take the bit away (chmod ug-s {0}) and grant what it needs instead: \
         sudo setcap cap_bpf,cap_perfmon,cap_net_admin,cap_sys_ptrace+ep {0}"
    )]
    SetUid(String),
    #[error("rights that are not needed cannot be given up: {0}")]
    Kept(#[from] Errno),
    #[error("where observer may write cannot be confined: {0}")]
    Confined(#[from] landlock::RulesetError),
}

/// A set-uid program's rights are whoever's calls it.
pub fn refuse_set_uid() -> Result<(), RightsError> {
    if getuid() == geteuid() && getgid() == getegid() {
        return Ok(());
    }
    let path = std::env::current_exe();
    Err(RightsError::SetUid(path.map_or_else(
        |_| "observer".to_owned(),
        |path| path.display().to_string(),
    )))
}

/// Nothing that is run from here on gains rights (set-uid, file capabilities).
pub fn no_new_privs() -> Result<(), RightsError> {
    Ok(set_no_new_privs(true)?)
}

/// Gives up every capability but those needed, for good.
pub fn keep(needed: Needed) -> Result<(), RightsError> {
    let mut wanted = OBSERVING;
    wanted.set(NAMESPACES, needed.namespaces);
    wanted.set(RECORDING, needed.recording);
    let has = capabilities(None)?;
    // Kernels before 4.3 know no ambient capabilities: then there are none.
    let _ = clear_ambient_capability_set();
    set_capabilities(
        None,
        CapabilitySets {
            effective: has.effective & wanted,
            permitted: has.permitted & wanted,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    Ok(())
}
