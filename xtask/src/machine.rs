//! What this machine has: who we are, which programs are there, how packages get in.

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use crate::step::NotHere;

#[derive(Debug)]
pub struct Machine {
    pub privilege: Privilege,
    pub apt: Option<PathBuf>,
}

/// How this process gets to do what only root may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Privilege {
    Root,
    Sudo(PathBuf),
    /// Not root, and sudo is missing or would ask for a password nobody can type.
    None,
}

impl Machine {
    pub fn look() -> Result<Self> {
        if !cfg!(target_os = "linux") {
            return Err(
                NotHere("observer reads the Linux kernel; this is not Linux".into()).into(),
            );
        }
        Ok(Self {
            privilege: privilege()?,
            apt: find("apt-get"),
        })
    }

    /// `program` as root would run it, or `None` where that is impossible.
    pub fn as_root(&self, program: impl AsRef<OsStr>) -> Option<Command> {
        match &self.privilege {
            Privilege::Root => Some(Command::new(program)),
            Privilege::Sudo(sudo) => {
                let mut command = Command::new(sudo);
                command.arg(program);
                Some(command)
            }
            Privilege::None => None,
        }
    }
}

fn privilege() -> Result<Privilege> {
    // The owner of /proc/self is the effective user.
    let uid = std::fs::metadata("/proc/self")
        .context("cannot read /proc: is it mounted?")?
        .uid();
    if uid == 0 {
        return Ok(Privilege::Root);
    }
    let Some(sudo) = find("sudo") else {
        return Ok(Privilege::None);
    };
    let silent = Command::new(&sudo)
        .args(["-n", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    Ok(if silent || std::io::stdin().is_terminal() {
        Privilege::Sudo(sudo)
    } else {
        Privilege::None
    })
}

/// Where `program` is: on `PATH`, where cargo installs to, or where only root's `PATH` looks.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(cargo_bin())
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|dir| dir.join(program))
        .find(|file| is_executable(file))
}

fn cargo_bin() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    Some(home.join("bin"))
}

fn is_executable(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_or_not() {
        assert!(find("sh").is_some());
        assert_eq!(find("no-such-program-at-all"), None);
    }

    #[test]
    fn root_commands_go_through_sudo_or_nowhere() {
        let machine = |privilege| Machine {
            privilege,
            apt: None,
        };
        let shown = |m: &Machine| m.as_root("ip").map(|c| format!("{c:?}"));
        assert_eq!(shown(&machine(Privilege::Root)).unwrap(), r#""ip""#);
        assert_eq!(
            shown(&machine(Privilege::Sudo("/usr/bin/sudo".into()))).unwrap(),
            r#""/usr/bin/sudo" "ip""#
        );
        assert_eq!(shown(&machine(Privilege::None)), None);
    }
}
