//! Network namespaces: which exist, which one `-N NAME|PID|all` means, and running code inside one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use thiserror::Error;

use super::Roots;

/// A network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Inode number in nsfs, as in [`crate::event::FlowId::netns`].
    pub inum: u32,
    /// The name `ip netns` knows it by.
    pub name: Option<String>,
    /// A file that stands for it: bind mount, or `ns/net` of a process in it.
    pub path: PathBuf,
}

/// Why a namespace cannot be had.
#[derive(Debug, Error)]
pub enum NetnsError {
    /// Neither a name nor a process: a usage error.
    #[error("no network namespace «{wanted}»; {}", known_text(.known))]
    Unknown { wanted: String, known: Vec<String> },
    /// A usage error, too.
    #[error("no process {pid}, so no network namespace of it; {}", known_text(.known))]
    NoProcess { pid: u32, known: Vec<String> },
    #[error("not permitted to use the network namespace {}: run as root, or with CAP_SYS_ADMIN and CAP_SYS_PTRACE", .path.display())]
    NotPermitted { path: PathBuf },
    /// The file stands for another namespace by now (the process ended, the name was given anew).
    #[error("the network namespace {} is gone", .path.display())]
    Gone { path: PathBuf },
    #[error("cannot use the network namespace {}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl NetnsError {
    /// The user named something that does not exist: exit code 2.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::NoProcess { .. })
    }

    fn of(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted { path },
            io::ErrorKind::NotFound => Self::Gone { path },
            _ => Self::Io { path, source },
        }
    }
}

fn known_text(known: &[String]) -> String {
    if known.is_empty() {
        "none has a name here (see «ip netns»): name a process by its PID, or say «all»".to_owned()
    } else {
        format!("known: {}, a PID, or «all»", known.join(", "))
    }
}

/// What walking the namespaces found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// One entry per namespace, the caller's own first, then by inode number. A named file is preferred to a process's.
    pub namespaces: Vec<Namespace>,
    /// Processes whose namespace could not be seen: more of them may exist.
    pub denied: u32,
}

/// The namespace of the calling thread.
pub fn own(roots: &Roots) -> Result<Namespace, NetnsError> {
    let path = roots.proc.join("thread-self/ns/net");
    let inum = inum(&path).map_err(|e| NetnsError::of(&path, e))?;
    Ok(Namespace {
        inum,
        name: name_of(roots, inum),
        path,
    })
}

/// The namespaces that `-N wanted` means: `all`, a name of `ip netns`, or a process's. A name that is a number goes
/// before the process of that number.
pub fn resolve(roots: &Roots, wanted: &str) -> Result<Vec<Namespace>, NetnsError> {
    if wanted == "all" {
        return census(roots).map(|census| census.namespaces);
    }
    let plain = !matches!(wanted, "" | "." | "..") && !wanted.contains(['/', '\0']);
    for dir in roots.netns.iter().filter(|_| plain) {
        let path = dir.join(wanted);
        match inum(&path) {
            Ok(inum) => {
                return Ok(vec![Namespace {
                    inum,
                    name: Some(wanted.to_owned()),
                    path,
                }]);
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(NetnsError::of(&path, e)),
        }
    }
    let known = || named(roots).into_values().filter_map(|n| n.name).collect();
    let Ok(pid) = wanted.parse::<u32>() else {
        return Err(NetnsError::Unknown {
            wanted: wanted.to_owned(),
            known: known(),
        });
    };
    let path = roots.proc.join(pid.to_string()).join("ns/net");
    match inum(&path) {
        Ok(inum) => Ok(vec![Namespace {
            inum,
            name: name_of(roots, inum),
            path,
        }]),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(NetnsError::NoProcess {
            pid,
            known: known(),
        }),
        Err(e) => Err(NetnsError::of(&path, e)),
    }
}

/// All namespaces that have a name or a process. One that is held only by a single thread, a socket or a descriptor is
/// not found: nothing lists those.
pub fn census(roots: &Roots) -> Result<Census, NetnsError> {
    let own = own(roots)?;
    let mut found = named(roots);
    let mut denied = 0;
    for pid in super::process::pids(&roots.proc) {
        let path = roots.proc.join(pid.to_string()).join("ns/net");
        match inum(&path) {
            Ok(inum) => {
                found.entry(inum).or_insert(Namespace {
                    inum,
                    name: None,
                    path,
                });
            }
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => denied += 1,
            // It ended meanwhile.
            Err(_) => {}
        }
    }
    found.remove(&own.inum);
    let mut namespaces = vec![own];
    namespaces.extend(found.into_values());
    Ok(Census { namespaces, denied })
}

/// Runs `f` in `namespace`: where the caller is there already at once, else on a thread of its own that ends
/// afterwards, so that the caller stays where it is. Needs
/// `CAP_SYS_ADMIN`, save for the caller's own namespace.
pub fn enter<T, F>(namespace: &Namespace, f: F) -> Result<T, NetnsError>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let path = &namespace.path;
    let failed = |e: io::Error| NetnsError::of(path, e);
    let file = File::open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if meta.ino() != u64::from(namespace.inum) {
        return Err(NetnsError::Gone { path: path.clone() });
    }
    let here = inum(Path::new("/proc/thread-self/ns/net")).is_ok_and(|i| i == namespace.inum);
    if here {
        // No need to move, and a thread's own memory arena costs a dump of 20,000 sockets thousands of calls.
        return Ok(f());
    }
    thread::scope(|scope| {
        let inside = scope.spawn(|| {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(file.as_fd(), kind)?;
            Ok(f())
        });
        match inside.join() {
            Ok(result) => result.map_err(|e: Errno| match e {
                Errno::PERM => NetnsError::NotPermitted { path: path.clone() },
                e => failed(e.into()),
            }),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The names that `ip netns` has for each namespace, by inode number; one may have several.
pub fn names(roots: &Roots) -> BTreeMap<u32, Vec<String>> {
    let mut found = BTreeMap::<u32, Vec<String>>::new();
    // The second directory is mostly a link to the first.
    for namespace in roots.netns.iter().flat_map(|dir| listed(dir)) {
        let names = found.entry(namespace.inum).or_default();
        if let Some(name) = namespace.name.filter(|name| !names.contains(name)) {
            names.push(name);
        }
    }
    found
}

/// The namespaces that have a file in `dir`.
fn listed(dir: &Path) -> impl Iterator<Item = Namespace> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let path = entry.path();
        Some(Namespace {
            inum: inum(&path).ok()?,
            name: Some(path.file_name()?.to_str()?.to_owned()),
            path,
        })
    })
}

/// What `ip netns` lists, by inode number.
fn named(roots: &Roots) -> BTreeMap<u32, Namespace> {
    let mut found = BTreeMap::new();
    for namespace in roots.netns.iter().flat_map(|dir| listed(dir)) {
        found.entry(namespace.inum).or_insert(namespace);
    }
    found
}

fn name_of(roots: &Roots, inum: u32) -> Option<String> {
    named(roots).remove(&inum)?.name
}

/// Follows the link: the inode is the namespace's.
fn inum(path: &Path) -> io::Result<u32> {
    Ok(fs::metadata(path)?.ino() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `/proc` of two processes in two namespaces, one of which has the name «blue»: plain files stand for them.
    fn roots(dir: &Path) -> Roots {
        let roots = Roots {
            proc: dir.join("proc"),
            sys: dir.join("sys"),
            netns: vec![dir.join("run")],
        };
        fs::create_dir_all(&roots.netns[0]).unwrap();
        for process in ["thread-self", "7", "8"] {
            fs::create_dir_all(roots.proc.join(process).join("ns")).unwrap();
        }
        fs::write(roots.netns[0].join("blue"), "").unwrap();
        fs::write(roots.proc.join("7/ns/net"), "").unwrap();
        let blue = roots.netns[0].join("blue");
        fs::hard_link(&blue, roots.proc.join("8/ns/net")).unwrap();
        fs::hard_link(
            roots.proc.join("7/ns/net"),
            roots.proc.join("thread-self/ns/net"),
        )
        .unwrap();
        roots
    }

    #[test]
    fn names_go_before_processes_and_all_means_each_once() {
        let dir = tempfile::tempdir().unwrap();
        let roots = roots(dir.path());
        let blue = resolve(&roots, "blue").unwrap();
        assert_eq!(blue[0].name.as_deref(), Some("blue"));
        let process = resolve(&roots, "8").unwrap();
        assert_eq!(process[0].inum, blue[0].inum);
        assert_eq!(process[0].name.as_deref(), Some("blue"));
        let all = resolve(&roots, "all").unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0], own(&roots).unwrap());
        assert_eq!(all[1], blue[0]);
        fs::write(roots.netns[0].join("8"), "").unwrap();
        assert_ne!(resolve(&roots, "8").unwrap()[0].inum, blue[0].inum);
    }

    #[test]
    fn a_namespace_may_have_several_names_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let roots = roots(dir.path());
        let blue = roots.netns[0].join("blue");
        fs::hard_link(&blue, roots.netns[0].join("navy")).unwrap();
        let mut names = names(&roots);
        let mut of_blue = names.remove(&inum(&blue).unwrap()).unwrap();
        of_blue.sort_unstable();
        assert_eq!(of_blue, ["blue", "navy"]);
        assert!(names.is_empty());
    }

    #[test]
    fn what_does_not_exist_is_a_usage_error_that_names_what_does() {
        let dir = tempfile::tempdir().unwrap();
        let roots = roots(dir.path());
        for wanted in ["red", "99", "../run/blue", "", ".."] {
            let error = resolve(&roots, wanted).unwrap_err();
            assert!(error.is_usage(), "{wanted}");
            assert!(error.to_string().contains("blue"), "{error}");
        }
        fs::remove_file(roots.netns[0].join("blue")).unwrap();
        let error = resolve(&roots, "red").unwrap_err();
        assert!(error.to_string().contains("none has a name"), "{error}");
    }

    #[test]
    fn one_s_own_namespace_can_be_entered_without_privilege() {
        let own = own(&Roots::default()).unwrap();
        let inside = enter(&own, || {
            inum(Path::new("/proc/thread-self/ns/net")).unwrap()
        });
        assert_eq!(inside.unwrap(), own.inum);
    }

    #[test]
    fn a_path_that_stands_for_another_namespace_by_now_is_gone() {
        let mut own = own(&Roots::default()).unwrap();
        own.inum ^= 1;
        assert!(matches!(enter(&own, || ()), Err(NetnsError::Gone { .. })));
    }
}
