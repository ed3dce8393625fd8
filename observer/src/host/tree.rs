//! Which processes a process of ours brought forth: its children, their children, also those whose parents are gone.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Steps from a process to its eldest ancestor: more is a reading that changes under our hands.
const MAX_DEPTH: usize = 256;
/// Processes remembered; a command that starts more forgets the first.
const MAX_REMEMBERED: usize = 1 << 16;

/// The descendants of a process. Who calls [`adopt`] first gets those whose parents end, so none leaves the tree.
#[derive(Debug)]
pub struct Tree {
    proc: PathBuf,
    root: u32,
    /// Descendants seen, for those that are gone when they are asked for.
    seen: HashSet<u32>,
}

/// Has the children of children that end become children of this process.
pub fn adopt() -> std::io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(
        rustix::process::getpid(),
    ))?)
}

impl Tree {
    /// The descendants of `root`, as `proc` (`/proc`) tells.
    pub fn new(proc: &Path, root: u32) -> Self {
        Self {
            proc: proc.to_owned(),
            root,
            seen: HashSet::new(),
        }
    }

    /// Whether `pid` descends from the root; `None` = it is gone and was not seen before.
    pub fn holds(&mut self, pid: u32) -> Option<bool> {
        let mut at = pid;
        for _ in 0..MAX_DEPTH {
            match self.parent(at) {
                Some(parent) if parent == self.root => {
                    self.remember(pid);
                    return Some(true);
                }
                Some(0) => return Some(false),
                Some(parent) => at = parent,
                None if self.seen.contains(&at) => {
                    self.remember(pid);
                    return Some(true);
                }
                None => return None,
            }
        }
        Some(false)
    }

    /// Looks at the tree as it is now, so that processes are known when they are gone.
    pub fn look(&mut self) {
        let mut open = vec![self.root];
        let mut looked = HashSet::new();
        while let Some(pid) = open.pop() {
            if !looked.insert(pid) || looked.len() > MAX_REMEMBERED {
                continue;
            }
            for child in self.children(pid) {
                self.remember(child);
                open.push(child);
            }
        }
    }

    fn remember(&mut self, pid: u32) {
        if self.seen.len() >= MAX_REMEMBERED {
            self.seen.clear();
        }
        self.seen.insert(pid);
    }

    fn parent(&self, pid: u32) -> Option<u32> {
        parent_in(&fs::read(self.proc.join(format!("{pid}/stat"))).ok()?)
    }

    /// Of all its threads; none where the kernel does not tell (`CONFIG_PROC_CHILDREN`).
    fn children(&self, pid: u32) -> Vec<u32> {
        let Ok(threads) = fs::read_dir(self.proc.join(format!("{pid}/task"))) else {
            return Vec::new();
        };
        let lists = threads
            .flatten()
            .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        lists
            .flat_map(|list| children_in(&list).collect::<Vec<u32>>())
            .collect()
    }
}

/// `pid (comm) state ppid …`: comm may hold anything, brackets too.
pub(super) fn parent_in(stat: &[u8]) -> Option<u32> {
    let behind = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&stat[behind + 1..]).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

pub(super) fn children_in(list: &str) -> impl Iterator<Item = u32> {
    list.split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(proc: &Path, pid: u32, parent: u32, children: &str) {
        let task = proc.join(format!("{pid}/task/{pid}"));
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("children"), children).unwrap();
        let stat = format!("{pid} (a) b) 7 (c) S {parent} 1 1 0");
        fs::write(proc.join(format!("{pid}/stat")), stat).unwrap();
    }

    #[test]
    fn descendants_are_told_from_others_also_when_they_are_gone() {
        let dir = tempfile::tempdir().unwrap();
        process(dir.path(), 1, 0, "10 90");
        process(dir.path(), 10, 1, "20");
        process(dir.path(), 20, 10, "30 ");
        process(dir.path(), 30, 20, "");
        process(dir.path(), 90, 1, "");
        let mut tree = Tree::new(dir.path(), 10);
        assert_eq!(tree.holds(30), Some(true));
        assert_eq!(tree.holds(90), Some(false));
        assert_eq!(tree.holds(10), Some(false), "the root itself is ours");
        assert_eq!(tree.holds(77), None);
        process(dir.path(), 40, 20, "");
        process(dir.path(), 20, 10, "30 40");
        tree.look();
        fs::remove_dir_all(dir.path().join("40")).unwrap();
        assert_eq!(tree.holds(40), Some(true));
        assert_eq!(tree.holds(77), None);
    }
}
