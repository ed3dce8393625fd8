//! Where things are in this checkout.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

/// The checkout this xtask was built in. What xtask itself makes is always below its `target/`,
/// whatever `CARGO_TARGET_DIR` says, so that `observer/build.rs` knows where to look.
#[derive(Debug)]
pub struct Checkout {
    pub root: PathBuf,
    /// The cargo this xtask was started by.
    pub cargo: OsString,
}

impl Checkout {
    pub fn find() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .context("xtask is not inside a workspace")?
            .to_owned();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Ok(Self { root, cargo })
    }

    /// What xtask remembers and makes for itself.
    pub fn own(&self) -> PathBuf {
        self.root.join("target/xtask")
    }

    /// The target directory of the BPF build, apart from the host's so that neither disturbs the other.
    pub fn bpf(&self) -> PathBuf {
        self.root.join("target/bpf")
    }

    /// The object `observer/build.rs` embeds.
    pub fn object(&self) -> PathBuf {
        self.bpf().join("observer.o")
    }

    /// A cargo command for the host, run from the workspace's root.
    pub fn cargo(&self) -> Command {
        let mut command = Command::new(&self.cargo);
        command.current_dir(&self.root);
        command
    }

    /// `path` as seen from the root, for messages.
    pub fn shown<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }
}
