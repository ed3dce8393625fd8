//! Who holds which socket: `/proc/*/fd` read at one moment (TRAPS 22). The programs follow owners after that.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use rustix::fs::{Dir, Mode, OFlags, openat, readlinkat_raw};
use rustix::io::Errno;

use crate::event::Process;

/// What one walk found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// Socket inode (`idiag_inode`) to the processes that hold a descriptor of it, by PID.
    pub by_inode: HashMap<u32, Vec<Process>>,
    /// Processes whose descriptors may not be read: sockets without an owner may be theirs.
    pub denied: u32,
    /// Processes that ended during the walk.
    pub vanished: u32,
}

/// Walks the processes under `proc` (`/proc`): those of the PID namespace it was mounted for, in all network namespaces.
/// A thread that unshared its descriptors (`CLONE_FILES` left out) is not looked into.
pub fn owners_by_inode(proc: &Path) -> Owners {
    let mut owners = Owners::default();
    let mut inodes = Vec::new();
    for pid in pids(proc) {
        inodes.clear();
        let dir = proc.join(pid.to_string());
        match sockets(&dir.join("fd"), &mut inodes) {
            Ok(()) => {}
            Err(Errno::ACCESS | Errno::PERM) => owners.denied += 1,
            Err(_) => owners.vanished += 1,
        }
        if inodes.is_empty() {
            continue;
        }
        // A process may end between the two: what it held has no owner then.
        let Ok(comm) = fs::read(dir.join("comm")) else {
            owners.vanished += 1;
            continue;
        };
        let comm = String::from_utf8_lossy(comm.strip_suffix(b"\n").unwrap_or(&comm)).into_owned();
        inodes.sort_unstable();
        inodes.dedup();
        for inode in &inodes {
            owners.by_inode.entry(*inode).or_default().push(Process {
                pid,
                comm: comm.clone(),
            });
        }
    }
    owners
}

/// The processes under `proc`, in order.
pub(super) fn pids(proc: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(proc) else {
        return Vec::new();
    };
    let mut pids: Vec<u32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    pids
}

/// The inodes of the sockets among the descriptors in `dir`.
fn sockets(dir: &Path, inodes: &mut Vec<u32>) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = openat(rustix::fs::CWD, dir, flags, Mode::empty())?;
    let mut entries = Dir::read_from(&fd)?;
    while let Some(entry) = entries.read() {
        let entry = entry?;
        // `socket:[4294967295]` is 19 bytes: what is cut off at 32 is none.
        let mut buffer = [0u8; 32];
        match readlinkat_raw(&fd, entry.file_name(), &mut buffer) {
            Ok(length) => inodes.extend(socket_inode(&buffer[..length])),
            Err(Errno::ACCESS | Errno::PERM) => return Err(Errno::ACCESS),
            // `.` and `..`, and a descriptor closed meanwhile.
            Err(_) => {}
        }
    }
    Ok(())
}

pub(super) fn socket_inode(link: &[u8]) -> Option<u32> {
    let number = link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_a_whole_socket_link_is_one() {
        assert_eq!(socket_inode(b"socket:[4294967295]"), Some(u32::MAX));
        assert_eq!(socket_inode(b"socket:[12"), None);
        assert_eq!(socket_inode(b"socket:[]"), None);
        assert_eq!(socket_inode(b"pipe:[12]"), None);
    }

    #[test]
    fn a_socket_has_all_its_processes_each_once() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, comm) in [("12", "server\n"), ("7", "a\x1b[2Jb\n")] {
            let dir = proc.path().join(pid);
            fs::create_dir_all(dir.join("fd")).unwrap();
            fs::write(dir.join("comm"), comm).unwrap();
            symlink("socket:[500]", dir.join("fd/3")).unwrap();
            symlink("socket:[500]", dir.join("fd/4")).unwrap();
            symlink("/dev/null", dir.join("fd/0")).unwrap();
        }
        // One that ended: its directory is left, its descriptors are not.
        fs::create_dir_all(proc.path().join("9")).unwrap();
        fs::create_dir_all(proc.path().join("self")).unwrap();
        let owners = owners_by_inode(proc.path());
        let process = |pid, comm: &str| Process {
            pid,
            comm: comm.to_owned(),
        };
        assert_eq!(
            owners.by_inode[&500],
            [process(7, "a\x1b[2Jb"), process(12, "server")]
        );
        assert_eq!((owners.denied, owners.vanished), (0, 1));
    }

    #[test]
    fn our_own_sockets_are_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let inode = {
            use std::os::fd::AsRawFd;
            let link = fs::read_link(format!("/proc/self/fd/{}", listener.as_raw_fd())).unwrap();
            socket_inode(link.as_os_str().as_encoded_bytes()).unwrap()
        };
        let owners = owners_by_inode(Path::new("/proc"));
        let holders = &owners.by_inode[&inode];
        assert!(holders.iter().any(|p| p.pid == std::process::id()));
    }
}
