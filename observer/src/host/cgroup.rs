//! Paths of cgroups by their inode number: what a socket carries is the number.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Directories below the cgroup v2 mount that one walk looks at: a host with more is walked in part.
const MAX_DIRECTORIES: usize = 65_536;
/// Numbers remembered; with more of them, all but those of the next walk are forgotten.
const MAX_KNOWN: usize = 4 * MAX_DIRECTORIES;

/// The cgroup v2 tree as last walked.
#[derive(Clone, Debug)]
pub struct Cgroups {
    mount: Option<PathBuf>,
    /// `None` = a walk made after a socket carried the number did not find it: it is gone, or not to be seen from here,
    /// and stays so.
    paths: HashMap<u64, Option<String>>,
}

impl Cgroups {
    /// Finds the mount by `mountinfo` (`/proc/self/mountinfo`).
    pub fn new(mountinfo: &Path) -> Self {
        let text = fs::read_to_string(mountinfo).unwrap_or_default();
        Self::at(mount_point(&text))
    }

    /// Of a mount that is known.
    pub fn at(mount: Option<PathBuf>) -> Self {
        Self {
            mount,
            paths: HashMap::new(),
        }
    }

    /// The path below the mount, `/` for the root. A number not seen before costs a walk, once.
    pub fn path(&mut self, id: u64) -> Option<&str> {
        if !self.paths.contains_key(&id) {
            if self.paths.len() >= MAX_KNOWN {
                self.paths.clear();
            }
            self.walk();
        }
        self.paths.entry(id).or_default().as_deref()
    }

    /// The inode number of the directory at `path` below the mount; `None` when there is none now.
    pub fn id(&self, path: &str) -> Option<u64> {
        let below = path.trim_start_matches('/');
        let meta = fs::metadata(self.mount.as_ref()?.join(below)).ok()?;
        meta.is_dir().then(|| meta.ino())
    }

    /// Takes the tree in anew. Cgroups that are gone keep their path: sockets outlive them, and numbers are not reused
    /// while the system runs (kernfs ids carry a generation).
    fn walk(&mut self) {
        let Some(mount) = &self.mount else { return };
        let mut open = vec![mount.clone()];
        let mut looked = 0;
        while let Some(dir) = open.pop() {
            looked += 1;
            if looked > MAX_DIRECTORIES {
                break;
            }
            let Ok(meta) = fs::metadata(&dir) else {
                continue;
            };
            let below = dir.strip_prefix(mount).unwrap_or(&dir);
            let path = format!("/{}", below.to_string_lossy());
            self.paths.insert(meta.ino(), Some(path));
            let Ok(entries) = fs::read_dir(&dir) else {
                continue;
            };
            open.extend(
                entries
                    .flatten()
                    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                    .map(|entry| entry.path()),
            );
        }
    }
}

/// The first mount of type `cgroup2` (`proc_pid_mountinfo(5)`).
pub(super) fn mount_point(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let kind = after.split(' ').next()?;
        // Blanks in the path are written \\040.
        let path = before.split(' ').nth(4)?.replace("\\040", " ");
        (kind == "cgroup2").then(|| PathBuf::from(path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_is_found() {
        let text = "30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                    41 31 0:38 / /sys/fs/cgroup/uni\\040fied rw,relatime - cgroup2 cgroup2 rw\n";
        assert_eq!(
            mount_point(text),
            Some(PathBuf::from("/sys/fs/cgroup/uni fied"))
        );
        assert_eq!(mount_point("rubbish"), None);
    }

    #[test]
    fn a_cgroup_made_later_is_found_and_an_unknown_one_is_not_made_up() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut cgroups = Cgroups::at(Some(dir.path().to_owned()));
        let root = fs::metadata(dir.path()).expect("there").ino();
        assert_eq!(cgroups.path(root), Some("/"));
        let pod = dir.path().join("kubepods.slice/pod1");
        fs::create_dir_all(&pod).expect("made");
        let id = fs::metadata(&pod).expect("there").ino();
        assert_eq!(cgroups.path(id), Some("/kubepods.slice/pod1"));
        assert_eq!(cgroups.path(u64::MAX), None);
        // That it is not there need not be found out twice.
        assert_eq!(cgroups.paths.get(&u64::MAX), Some(&None));
        fs::remove_dir(&pod).expect("empty");
        assert_eq!(cgroups.path(u64::MAX), None);
        assert_eq!(cgroups.path(id), Some("/kubepods.slice/pod1"));
        assert_eq!(Cgroups::at(None).path(1), None);
    }
}
