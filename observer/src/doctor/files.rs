//! What the host's own files say its settings should be: `sysctl.conf` and `sysctl.d`, in the order in which they apply.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories of `systemd-sysctl` and `sysctl --system`, most binding first: a file hides those of its name below.
const DIRECTORIES: [&str; 4] = [
    "etc/sysctl.d",
    "run/sysctl.d",
    "usr/local/lib/sysctl.d",
    "usr/lib/sysctl.d",
];
/// The last word.
const LAST: &str = "etc/sysctl.conf";
/// Larger ones are no files of settings.
const MAX_BYTES: u64 = 1 << 20;

/// A setting as a file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Dotted.
    pub name: String,
    pub value: String,
    pub file: PathBuf,
    /// What the kernel has; `None` = it has no such setting here.
    pub now: Option<String>,
}

/// The settings of TCP and of queues (`net.core`, `net.ipv4`) in the files below `root` (`/`), the last word for each,
/// with what `current` says is in force.
pub fn written(root: &Path, current: impl Fn(&str) -> Option<String>) -> Vec<Written> {
    let mut files = BTreeMap::new();
    for dir in DIRECTORIES {
        for entry in fs::read_dir(root.join(dir)).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "conf") {
                files.entry(entry.file_name()).or_insert(path);
            }
        }
    }
    let mut found = BTreeMap::new();
    for file in files.into_values().chain([root.join(LAST)]) {
        let small = fs::metadata(&file).is_ok_and(|m| m.is_file() && m.len() <= MAX_BYTES);
        let Some(text) = small.then(|| fs::read(&file).ok()).flatten() else {
            continue;
        };
        for (name, value) in settings(&String::from_utf8_lossy(&text)) {
            found.insert(name, (value, file.clone()));
        }
    }
    found
        .into_iter()
        .map(|(name, (value, file))| Written {
            now: current(&name),
            name,
            value,
            file,
        })
        .collect()
}

/// `name = value` lines of `net.core` and `net.ipv4`; comments and patterns (`*`) left out.
#[doc(hidden)]
pub fn settings(text: &str) -> impl Iterator<Item = (String, String)> {
    text.lines().filter_map(|line| {
        let line = line.trim().trim_start_matches('-');
        if line.starts_with(['#', ';']) {
            return None;
        }
        let (name, value) = line.split_once('=')?;
        let name = name.trim().replace('/', ".");
        let plain = name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_'));
        let ours = name.starts_with("net.core.") || name.starts_with("net.ipv4.tcp_");
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        (plain && ours && !name.contains("..")).then_some((name, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts_and_a_file_hides_those_below() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("usr/lib/sysctl.d/10-a.conf", "net.core.rmem_max = 1\n");
        write(
            "etc/sysctl.d/10-a.conf",
            "# net.core.rmem_max = 5\n-net/ipv4/tcp_rmem = 4096\t1  2\n",
        );
        write(
            "etc/sysctl.d/20-b.conf",
            "net.ipv4.tcp_bbr_pacing_gain=1\nnet.ipv4.ip_forward=1\nkernel.x=1\n",
        );
        write("etc/sysctl.d/ignored", "net.core.somaxconn=1\n");
        write(
            "etc/sysctl.conf",
            "net.ipv4.tcp_rmem = 1 2 3\nnet.core.../etc/passwd=1\n",
        );
        let found = written(root.path(), |name| {
            (name == "net.ipv4.tcp_rmem").then(|| "1 2 3".to_owned())
        });
        let short: Vec<_> = found
            .iter()
            .map(|w| (w.name.as_str(), w.value.as_str(), w.now.as_deref()))
            .collect();
        assert_eq!(
            short,
            [
                ("net.ipv4.tcp_bbr_pacing_gain", "1", None),
                ("net.ipv4.tcp_rmem", "1 2 3", Some("1 2 3"))
            ]
        );
        assert!(found[1].file.ends_with("etc/sysctl.conf"));
    }
}
