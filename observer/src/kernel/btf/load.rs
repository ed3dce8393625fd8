//! Where BTF lies on a running kernel.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use super::{Btf, BtfError};

/// The kernel's BTF files: `vmlinux`, and one per module.
pub const SYS_KERNEL_BTF: &str = "/sys/kernel/btf";

/// A vmlinux has 4 to 10 MB; anything above this is not one.
const MAX_BYTES: u64 = 64 << 20;

impl Btf {
    /// The running kernel's types.
    pub fn from_sys() -> Result<Arc<Self>, BtfError> {
        Self::vmlinux(Path::new(SYS_KERNEL_BTF))
    }

    /// The file `vmlinux` in `dir`.
    pub fn vmlinux(dir: &Path) -> Result<Arc<Self>, BtfError> {
        Self::parse(read(&dir.join("vmlinux"))?).map(Arc::new)
    }

    /// The types of a loaded module of the running kernel, on top of `self`.
    pub fn module(self: &Arc<Self>, name: &str) -> Result<Self, BtfError> {
        self.module_in(Path::new(SYS_KERNEL_BTF), name)
    }

    /// The file `name` in `dir`, on top of `self`.
    pub fn module_in(self: &Arc<Self>, dir: &Path, name: &str) -> Result<Self, BtfError> {
        // The name comes from kernel memory and must not lead elsewhere.
        let plain = name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        if name.is_empty() || name == "vmlinux" || !plain {
            return Err(BtfError::ModuleName(name.to_owned()));
        }
        Self::parse_split(read(&dir.join(name))?, Arc::clone(self))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, BtfError> {
    let unreadable = |source: std::io::Error| BtfError::Unreadable {
        path: path.to_owned(),
        kind: source.kind(),
    };
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::with_capacity(
        file.metadata()
            .map_or(0, |m| m.len().min(MAX_BYTES) as usize),
    );
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(BtfError::TooLarge);
    }
    Ok(bytes)
}
