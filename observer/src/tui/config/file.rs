//! The file itself: where it is, and whether it is ours to believe.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::{Config, ConfigError};

/// Nobody writes more by hand.
const LARGEST: u64 = 1 << 20;

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{}: {error}", .path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{}: not used, it {why}", .path.display())]
    Untrusted { path: PathBuf, why: String },
    #[error("{}:{error}", .path.display())]
    Wrong { path: PathBuf, error: ConfigError },
}

/// Where the file would be: `$XDG_CONFIG_HOME/observer/config.toml`, else below `~/.config`. Under sudo it is the
/// invoking user's.
pub fn find() -> Option<PathBuf> {
    place(
        |name| std::env::var(name).ok(),
        || std::fs::read_to_string("/etc/passwd").unwrap_or_default(),
    )
}

fn place(env: impl Fn(&str) -> Option<String>, passwd: impl Fn() -> String) -> Option<PathBuf> {
    let absolute = |text: Option<String>| text.map(PathBuf::from).filter(|p| p.is_absolute());
    let below = |base: PathBuf| base.join("observer/config.toml");
    if let Some(base) = absolute(env("XDG_CONFIG_HOME")) {
        return Some(below(base));
    }
    let home = match invoker(&env) {
        Some(uid) => home_of(uid, &passwd()),
        None => absolute(env("HOME")),
    };
    Some(below(home?.join(".config")))
}

/// Who called sudo (or pkexec).
fn invoker(env: &impl Fn(&str) -> Option<String>) -> Option<u32> {
    let uid = env("SUDO_UID").or_else(|| env("PKEXEC_UID"))?;
    uid.parse().ok()
}

fn home_of(uid: u32, passwd: &str) -> Option<PathBuf> {
    let line = passwd
        .lines()
        .find(|line| line.split(':').nth(2).and_then(|field| field.parse().ok()) == Some(uid))?;
    line.split(':')
        .nth(5)
        .map(PathBuf::from)
        .filter(|home| home.is_absolute())
}

/// Reads the file at `path`. `must`: it was named, so it has to be there.
pub fn load(path: &Path, must: bool) -> Result<Config, FileError> {
    let unreadable = |error| FileError::Unreadable {
        path: path.to_owned(),
        error,
    };
    // Not to wait for a writer where the path is a pipe.
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    let opened = File::options()
        .read(true)
        .custom_flags(flags.cast_signed())
        .open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !must => {
            return Ok(Config::default());
        }
        Err(error) => return Err(unreadable(error)),
    };
    let stat = file.metadata().map_err(unreadable)?;
    let own = rustix::process::geteuid().as_raw();
    let ours = [
        Some(0),
        Some(own),
        invoker(&|name| std::env::var(name).ok()),
    ];
    if let Some(why) = distrust(stat.is_file(), stat.uid(), stat.gid(), stat.mode(), &ours) {
        return Err(FileError::Untrusted {
            path: path.to_owned(),
            why,
        });
    }
    let mut text = String::new();
    let read = file.by_ref().take(LARGEST + 1).read_to_string(&mut text);
    let read = read.map_err(unreadable)?;
    if read as u64 > LARGEST {
        return Err(FileError::Untrusted {
            path: path.to_owned(),
            why: "is larger than 1 MiB".to_owned(),
        });
    }
    Config::parse(&text).map_err(|error| FileError::Wrong {
        path: path.to_owned(),
        error,
    })
}

/// Why a file is not believed: its owner or its writers are others than `ours`.
fn distrust(is_file: bool, uid: u32, gid: u32, mode: u32, ours: &[Option<u32>]) -> Option<String> {
    if !is_file {
        return Some("is no file".to_owned());
    }
    if !ours.contains(&Some(uid)) {
        return Some(format!("belongs to uid {uid}; chown it"));
    }
    if mode & 0o002 != 0 {
        return Some("can be written by others; chmod o-w".to_owned());
    }
    // A group of the owner's own has the owner's number where umask 002 is usual.
    if mode & 0o020 != 0 && gid != uid {
        return Some("can be written by its group; chmod g-w".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0::/root:/bin/sh\nbroken\nann:x:1000:1000:Ann:/home/ann:/bin/sh\n";

    fn at(env: &[(&str, &str)]) -> Option<String> {
        let get = |name: &str| {
            let found = env.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        place(get, || PASSWD.to_owned()).map(|path| path.display().to_string())
    }

    #[test]
    fn it_is_where_xdg_says_and_under_sudo_the_users() {
        let here = at(&[("HOME", "/home/ann")]);
        assert_eq!(
            here.as_deref(),
            Some("/home/ann/.config/observer/config.toml")
        );
        let xdg = at(&[("HOME", "/home/ann"), ("XDG_CONFIG_HOME", "/cfg")]);
        assert_eq!(xdg.as_deref(), Some("/cfg/observer/config.toml"));
        // Relative ones are to be ignored (XDG 0.8).
        let relative = at(&[("HOME", "/home/ann"), ("XDG_CONFIG_HOME", "cfg")]);
        assert_eq!(relative, here);
        let sudo = at(&[("HOME", "/root"), ("SUDO_UID", "1000")]);
        assert_eq!(sudo, here);
        assert_eq!(at(&[("HOME", "/root"), ("SUDO_UID", "77")]), None);
        assert_eq!(at(&[]), None);
    }

    #[test]
    fn what_others_could_write_is_not_believed() {
        let ours = [Some(0), Some(1000), None];
        assert_eq!(distrust(true, 1000, 1000, 0o100_644, &ours), None);
        assert_eq!(distrust(true, 1000, 1000, 0o100_664, &ours), None);
        assert_eq!(distrust(true, 0, 0, 0o100_600, &ours), None);
        for (is_file, uid, gid, mode) in [
            (true, 1001, 1001, 0o100_600),
            (true, 1000, 1000, 0o100_646),
            (true, 1000, 100, 0o100_664),
            (false, 1000, 1000, 0o40_700),
        ] {
            assert!(
                distrust(is_file, uid, gid, mode, &ours).is_some(),
                "{uid} {mode:o}"
            );
        }
    }

    #[test]
    fn a_file_is_read_and_a_missing_one_matters_when_it_was_named() {
        let dir = tempfile::tempdir().expect("a place");
        let path = dir.path().join("config.toml");
        assert_eq!(load(&path, false).expect("none is fine"), Config::default());
        let told = load(&path, true).expect_err("named").to_string();
        assert!(told.contains("config.toml"), "{told}");
        std::fs::write(&path, "theme = \"ligth\"").expect("written");
        let told = load(&path, true).expect_err("wrong").to_string();
        assert!(
            told.ends_with(
                "config.toml:1:9: there is no such choice as 'ligth'; did you mean 'light'?"
            ),
            "{told}"
        );
        std::fs::write(&path, "theme = \"light\"").expect("written");
        assert!(load(&path, true).is_ok());
        assert!(load(dir.path(), true).is_err());
    }
}
