//! Where the calling thread, and those it starts from here on, may write, connect and listen: by Landlock, where the kernel has it.
//!
//! A confined thread may not look into processes outside of its own confinement (their `/proc/PID/fd` and `/proc/PID/ns`):
//! the threads that observe are started before and stay as they are. They write nothing.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, RestrictionStatus, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, path_beneath_rules,
};

/// How much of it this kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confined {
    Fully,
    /// Files, but not all that was asked for: an older Landlock (renaming from 5.19, truncating from 6.2, TCP from 6.7 on).
    Partly,
    /// No Landlock here: before 5.13, or not among the boot's `lsm=`.
    Not,
}

/// What stays allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Files, and directories in which files may be made, written, renamed and removed. What is not there is left out.
    pub write: Vec<PathBuf>,
    /// TCP to others.
    pub connect: bool,
}

/// What an output takes.
fn writing() -> BitFlags<AccessFs> {
    AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::RemoveFile
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::Refer
}

/// From here on nothing but `allowed` is written, and nobody listened for. Reading stays as it was.
pub fn confine(allowed: &Allowed) -> Result<Confined, RulesetError> {
    let mut net = AccessNet::from_all(ABI::V4);
    if allowed.connect {
        net.remove(AccessNet::ConnectTcp);
    }
    // What an older kernel does not know is left out by the library.
    let RestrictionStatus { ruleset, .. } = Ruleset::default()
        .handle_access(AccessFs::from_write(ABI::V3))?
        .handle_access(net)?
        .create()?
        .add_rules(path_beneath_rules(&allowed.write, writing()))?
        .restrict_self()?;
    Ok(match ruleset {
        RulesetStatus::FullyEnforced => Confined::Fully,
        RulesetStatus::PartiallyEnforced => Confined::Partly,
        RulesetStatus::NotEnforced => Confined::Not,
    })
}

/// The directory that `output` is made in: itself where it is one, else the nearest above it that is there.
pub fn place_of(output: &Path) -> PathBuf {
    if output.is_dir() {
        return output.to_owned();
    }
    let above = output.ancestors().skip(1).map(|dir| match dir {
        empty if empty.as_os_str().is_empty() => Path::new("."),
        dir => dir,
    });
    above
        .into_iter()
        .find(|dir| dir.is_dir())
        .unwrap_or(Path::new("."))
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn outputs_lie_in_the_nearest_directory() {
        let dir = tempfile::tempdir().unwrap();
        let of = |path: &str| place_of(&dir.path().join(path));
        assert_eq!(of(""), dir.path().join(""));
        assert_eq!(of("a.mcap"), dir.path());
        assert_eq!(of("a/b/c.mcap"), dir.path());
        assert_eq!(place_of(Path::new("a.mcap")), Path::new("."));
    }

    #[test]
    fn a_confined_thread_writes_where_it_may_and_nowhere_else() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let there = outside.path().join("there");
        fs::write(&there, "x").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let allowed = Allowed {
            write: vec![
                inside.path().to_owned(),
                "/dev/null".into(),
                "/no/such".into(),
            ],
            connect: false,
        };
        let (inside, outside) = (inside.path(), outside.path());
        // Confinement is a thread's: the other tests go on as they were.
        let confined = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let confined = confine(&allowed).unwrap();
                if confined == Confined::Not {
                    return confined;
                }
                let file = inside.join("a");
                fs::write(&file, "x").unwrap();
                fs::rename(&file, inside.join("b")).unwrap();
                fs::remove_file(inside.join("b")).unwrap();
                fs::write("/dev/null", "x").unwrap();
                let denied = |result: std::io::Result<()>| {
                    assert_eq!(result.unwrap_err().kind(), ErrorKind::PermissionDenied);
                };
                denied(fs::write(outside.join("b"), "x"));
                denied(fs::write(&there, "y"));
                denied(fs::remove_file(&there));
                denied(fs::create_dir(outside.join("d")));
                denied(std::os::unix::fs::symlink(outside, inside.join("link")));
                assert_eq!(fs::read_to_string(&there).unwrap(), "x");
                if confined == Confined::Fully {
                    denied(TcpListener::bind("127.0.0.1:0").map(|_| ()));
                    denied(TcpStream::connect(address).map(|_| ()));
                }
                confined
            });
            thread.join().unwrap()
        });
        eprintln!("{confined:?}");
        fs::write(outside.join("b"), "x").unwrap();
    }
}
