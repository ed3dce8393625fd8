//! The ladder of needs: from the rights to the last field, what this host has, what is lost without it, what gets it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use observer_common::layout::{FIELDS, Need as FieldNeed};
use observer_common::outcome::Program;
use serde::Serialize;

use super::Level;
use crate::host::cgroup::Cgroups;
use crate::host::netlink::NetlinkError;
use crate::host::process::owners_by_inode;
use crate::host::{Roots, netns, sysctl};
use crate::kernel::btf::{Btf, BtfError, HookFit, resolve};
use crate::kernel::caps::{Cap, Caps};
use crate::kernel::confine::Confined;
use crate::kernel::congestion::CcLayouts;
use crate::kernel::diag::{Diag, Families, States};
use crate::kernel::load::LoadError;
use crate::kernel::object;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NeedState {
    Found,
    Missing,
    /// Cannot be told here, or not while something above is missing.
    Unknown,
}

/// One rung.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Need {
    /// `binary`, `capability`, `lockdown`, `btf`, `hook`, `field`, `socket_diag`, `module`, `view`, `programs`,
    /// `confinement`.
    pub kind: &'static str,
    pub name: String,
    pub state: NeedState,
    /// How bad it is that it is missing; `None` = it is not.
    pub level: Option<Level>,
    pub detail: String,
    /// What does not work without it.
    pub lost: Option<String>,
    pub fix: Option<String>,
}

impl Need {
    fn found(kind: &'static str, name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
            state: NeedState::Found,
            level: None,
            detail: detail.into(),
            lost: None,
            fix: None,
        }
    }

    fn missing(self, level: Level, lost: &str, fix: Option<String>) -> Self {
        Self {
            state: NeedState::Missing,
            level: Some(level),
            lost: Some(lost.to_owned()),
            fix,
            ..self
        }
    }

    fn unknown(self) -> Self {
        Self {
            state: NeedState::Unknown,
            ..self
        }
    }
}

/// Where things are looked for.
#[derive(Clone, Debug)]
pub struct Places {
    pub roots: Roots,
    /// The kernel's type information.
    pub btf: PathBuf,
}

const POLLS: &str =
    "the kernel programs: observer polls socket-diag instead (five times a second, reduced)";

/// Looks at everything but the programs themselves.
pub fn needs(places: &Places) -> Vec<Need> {
    let mut needs = vec![binary()];
    needs.extend(capabilities());
    needs.push(lockdown(&places.roots.sys));
    type_information(places, &mut needs);
    needs.push(socket_diag(&places.roots));
    needs.push(cgroups(&places.roots));
    needs.push(processes(&places.roots));
    needs.push(namespaces(&places.roots));
    needs
}

/// Whether the programs run: the proof of all that is above it.
pub fn programs(refused: Option<&LoadError>) -> Need {
    let need = Need::found("programs", "kernel programs", "loaded and attached");
    match refused {
        None => need,
        // What is missing above says it already.
        Some(
            error @ (LoadError::Stub
            | LoadError::NotPermitted { .. }
            | LoadError::NoBtf(_)
            | LoadError::Resolve(_)),
        ) => Need {
            detail: error.to_string(),
            ..need.unknown()
        },
        Some(error) => Need {
            detail: error.to_string(),
            ..need.missing(
                Level::Error,
                POLLS,
                Some("report this with the kernel's version and the log named".to_owned()),
            )
        },
    }
}

/// How far we could confine ourselves.
pub fn confinement(confined: Confined) -> Need {
    let need = Need::found("confinement", "Landlock", "writes and listens nowhere else");
    let (detail, fix) = match confined {
        Confined::Fully => return need,
        Confined::Partly => (
            "an older one: not all of renaming, truncating and TCP",
            "a kernel from 6.7 on",
        ),
        Confined::Not => (
            "not in this kernel, or not switched on",
            "a kernel from 5.13 on with landlock among the boot's lsm=",
        ),
    };
    let lost = "nothing that is observed: a fault of ours could write where it was not told to";
    Need {
        detail: detail.to_owned(),
        ..need.missing(Level::Info, lost, Some(fix.to_owned()))
    }
}

fn binary() -> Need {
    let need = Need::found("binary", "kernel programs in this binary", "embedded");
    if object::object().is_some() {
        return need;
    }
    Need {
        detail: "built without them".to_owned(),
        ..need.missing(
            Level::Error,
            POLLS,
            Some("cargo xtask build --release".to_owned()),
        )
    }
}

fn capabilities() -> Vec<Need> {
    let Some(caps) = Caps::effective() else {
        let need = Need::found("capability", "capabilities", "/proc does not tell");
        return vec![need.unknown()];
    };
    Cap::ALL
        .into_iter()
        .map(|cap| capability(cap, caps.has(cap)))
        .collect()
}

fn capability(cap: Cap, has: bool) -> Need {
    let need = Need::found("capability", cap.name(), "in force");
    if has {
        return need;
    }
    let (level, lost) = match cap {
        Cap::Bpf | Cap::Perfmon => (Level::Error, POLLS),
        Cap::NetAdmin => (
            Level::Info,
            "nothing that observer shows (socket-diag keeps marks and TLS details back)",
        ),
        Cap::SysPtrace => (
            Level::Info,
            "owners of other users' sockets while polling, and their namespaces with -N all",
        ),
        Cap::SysAdmin => (Level::Info, "other network namespaces (-N)"),
    };
    let own = std::env::current_exe()
        .map_or_else(|_| "observer".to_owned(), |path| path.display().to_string());
    let fix = match cap {
        Cap::SysAdmin => "run as root: sudo observer …".to_owned(),
        _ => format!(
            "sudo setcap cap_bpf,cap_perfmon,cap_net_admin,cap_sys_ptrace+ep {own}; or run as root"
        ),
    };
    Need {
        detail: "not in force".to_owned(),
        ..need.missing(level, lost, Some(fix))
    }
}

/// `none [integrity] confidentiality`: the word in brackets is in force.
fn lockdown(sys: &Path) -> Need {
    let name = "kernel lockdown below confidentiality";
    let Ok(text) = fs::read_to_string(sys.join("kernel/security/lockdown")) else {
        return Need::found(
            "lockdown",
            name,
            "no lockdown in this kernel, or securityfs is not mounted",
        );
    };
    let mode = text.split(['[', ']']).nth(1).unwrap_or("none").to_owned();
    let need = Need::found("lockdown", name, format!("lockdown: {mode}"));
    if mode == "confidentiality" {
        let fix = "boot with lockdown=integrity, or without Secure Boot; it cannot be lowered while the system runs";
        return need.missing(Level::Error, POLLS, Some(fix.to_owned()));
    }
    need
}

fn type_information(places: &Places, needs: &mut Vec<Need>) {
    let path = places.btf.join("vmlinux");
    let need = Need::found(
        "btf",
        "type information of the kernel (BTF)",
        path.display().to_string(),
    );
    let btf = match Btf::vmlinux(&places.btf) {
        Ok(btf) => btf,
        Err(error) => {
            needs.push(without_btf(need, &error));
            return;
        }
    };
    needs.push(need);
    hooks_and_fields(&btf, needs);
    modules(places, &btf, needs);
}

fn without_btf(need: Need, error: &BtfError) -> Need {
    let fix = "a kernel with CONFIG_DEBUG_INFO_BTF=y (zgrep BTF /proc/config.gz tells); Debian 12, Ubuntu 22.04, RHEL 9 \
               and later have it";
    Need {
        detail: error.to_string(),
        ..need.missing(Level::Error, POLLS, Some(fix.to_owned()))
    }
}

/// What each hook gives.
fn hook_gives(program: Program) -> &'static str {
    match program {
        Program::CongState => "changes of the congestion state between two samples",
        Program::Owners => "owners of flows that were accepted or are older than observer",
        _ => POLLS,
    }
}

fn hooks_and_fields(btf: &Btf, needs: &mut Vec<Need>) {
    let (unfit, absent) = match resolve(btf) {
        Ok(resolved) => {
            let unfit = resolved
                .hooks
                .into_iter()
                .filter(|hook| hook.fit != HookFit::Fits)
                .collect();
            (unfit, resolved.absent)
        }
        Err(error) => (error.hooks, error.fields),
    };
    for program in Program::ALL {
        let need = Need::found("hook", program.hook(), "there, with the arguments wanted");
        let Some(hook) = unfit.iter().find(|hook| hook.program == program) else {
            needs.push(need);
            continue;
        };
        let level = if program.required() {
            Level::Error
        } else {
            Level::Warn
        };
        let fix = "another kernel: nothing on this one adds a tracepoint";
        needs.push(Need {
            detail: hook.to_string(),
            ..need.missing(level, hook_gives(program), Some(fix.to_owned()))
        });
    }
    for row in FIELDS {
        let name = format!("{}.{}", row.root, row.path);
        let need = Need::found("field", name, "there");
        let Some(absent) = absent.iter().find(|absent| absent.field == row.field) else {
            needs.push(need);
            continue;
        };
        let (level, lost) = match row.need {
            FieldNeed::Required => (Level::Error, POLLS),
            // Older and newer kernels lack some: no reason for an alarm.
            FieldNeed::Optional => (
                Level::Info,
                "its value is unknown: absent in JSON, — on screen",
            ),
        };
        needs.push(Need {
            detail: absent.why.to_string(),
            ..need.missing(level, lost, None)
        });
    }
}

/// BBR, as the kernel really has it, and a loaded module's own type information.
fn modules(places: &Places, btf: &Arc<Btf>, needs: &mut Vec<Need>) {
    let available = sysctl::read(
        &places.roots.proc.join("sys"),
        "net.ipv4.tcp_available_congestion_control",
    )
    .unwrap_or_default();
    let bbrs: Vec<&str> = available
        .split(' ')
        .filter(|name| name.starts_with("bbr"))
        .collect();
    if bbrs.is_empty() {
        let need = Need::found("module", "bbr", "not loaded, not built in");
        let lost = "flows under BBR";
        needs.push(need.missing(
            Level::Info,
            lost,
            Some("modprobe tcp_bbr (back: rmmod tcp_bbr)".to_owned()),
        ));
    }
    let mut layouts = CcLayouts::in_dir(Arc::clone(btf), &places.btf);
    for (at, name) in bbrs.into_iter().enumerate() {
        let module = format!("tcp_{name}");
        let loaded = places
            .roots
            .sys
            .join("module")
            .join(&module)
            .join("initstate")
            .exists();
        let home = if loaded { module.as_str() } else { "built in" };
        // The address is a key only: one of its own for each.
        let layout = layouts.layout(at as u64, name, loaded.then_some(module.as_str()));
        let need = Need::found("module", name, "");
        needs.push(match layout {
            Ok(layout) => Need {
                detail: format!("{} ({home}), by its type information", layout.version().as_str().unwrap_or("known")),
                ..need
            },
            Err(error) => Need {
                detail: format!("{home}: {error}"),
                ..need.missing(
                    Level::Warn,
                    "its version, phase, gains and bandwidth",
                    Some("a kernel with CONFIG_DEBUG_INFO_BTF_MODULES=y, or report the members of its struct bbr".to_owned()),
                )
            },
        });
    }
}

/// Asks for sockets in no state: the answer is empty, or a refusal.
fn socket_diag(roots: &Roots) -> Need {
    let need = Need::found(
        "socket_diag",
        "socket-diag (inet_diag, tcp_diag)",
        "answers",
    );
    let asked = netns::own(roots).map(|own| {
        Diag::open(own.inum)?.dump(
            States::from_bits(0),
            Families {
                v4: true,
                v6: false,
            },
            |_| {},
        )
    });
    match asked {
        Ok(Ok(())) => need,
        Ok(Err(error)) => refused_diag(need, &error),
        Err(error) => Need {
            detail: error.to_string(),
            ..need.unknown()
        },
    }
}

fn refused_diag(need: Need, error: &NetlinkError) -> Need {
    let fix = "modprobe -a inet_diag tcp_diag (back: rmmod tcp_diag inet_diag); in a container: allow AF_NETLINK";
    Need {
        detail: error.to_string(),
        ..need.missing(
            Level::Warn,
            "list --window 0, polling, flows in other namespaces",
            Some(fix.to_owned()),
        )
    }
}

fn cgroups(roots: &Roots) -> Need {
    let need = Need::found("view", "cgroup v2", "mounted");
    if Cgroups::new(&roots.proc.join("self/mountinfo"))
        .id("/")
        .is_some()
    {
        return need;
    }
    let fix = "mount -t cgroup2 none /sys/fs/cgroup (back: umount /sys/fs/cgroup)";
    Need {
        detail: "no cgroup2 in /proc/self/mountinfo".to_owned(),
        ..need.missing(
            Level::Warn,
            "cgroups, containers and units of flows, the filter word cgroup",
            Some(fix.to_owned()),
        )
    }
}

/// Whether processes of others are seen, and may be looked into.
fn processes(roots: &Roots) -> Need {
    let need = Need::found("view", "processes of others", "visible");
    if !roots.proc.join("1").exists() {
        let fix = "mount -o remount,hidepid=0 /proc (back: hidepid=2)";
        return Need {
            detail: "/proc/1 is not there: hidden (hidepid), or /proc is not mounted".to_owned(),
            ..need.missing(
                Level::Warn,
                "owners of other users' sockets",
                Some(fix.to_owned()),
            )
        };
    }
    match owners_by_inode(&roots.proc).denied {
        0 => need,
        denied => Need {
            detail: format!("{denied} may not be looked into"),
            ..need.missing(
                Level::Info,
                "owners of their sockets while polling; the programs tell who connects",
                Some("run as root, or with CAP_SYS_PTRACE".to_owned()),
            )
        },
    }
}

fn namespaces(roots: &Roots) -> Need {
    let need = Need::found("view", "network namespaces", "");
    match netns::census(roots) {
        Ok(census) if census.denied == 0 => Need {
            detail: format!("{} known", census.namespaces.len()),
            ..need
        },
        Ok(census) => Need {
            detail: format!("{} processes do not show theirs", census.denied),
            ..need.missing(
                Level::Info,
                "flows in namespaces that only they live in",
                Some("run as root, or with CAP_SYS_PTRACE and CAP_SYS_ADMIN".to_owned()),
            )
        },
        Err(error) => Need {
            detail: error.to_string(),
            ..need.unknown()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lockdown_is_what_is_in_brackets() {
        let sys = tempfile::tempdir().unwrap();
        assert_eq!(lockdown(sys.path()).state, NeedState::Found);
        let dir = sys.path().join("kernel/security");
        fs::create_dir_all(&dir).unwrap();
        for (text, state) in [
            ("[none] integrity confidentiality\n", NeedState::Found),
            ("none [integrity] confidentiality\n", NeedState::Found),
            ("none integrity [confidentiality]\n", NeedState::Missing),
        ] {
            fs::write(dir.join("lockdown"), text).unwrap();
            assert_eq!(lockdown(sys.path()).state, state, "{text}");
        }
    }

    #[test]
    fn a_host_that_shows_nothing_misses_each_view() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: dir.path().into(),
            sys: dir.path().into(),
            netns: Vec::new(),
        };
        for need in [cgroups(&roots), processes(&roots)] {
            assert_eq!(
                (need.state, need.level),
                (NeedState::Missing, Some(Level::Warn)),
                "{need:?}"
            );
            assert!(need.fix.is_some() && need.lost.is_some());
        }
        assert_eq!(namespaces(&roots).state, NeedState::Unknown);
    }
}
