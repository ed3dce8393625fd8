//! Where a whole file goes: standard output, or a name that it gets only when it is complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::Failure;
use crate::units::escape;

/// An output that is complete or not there.
pub enum OutFile {
    Stdout(BufWriter<io::Stdout>),
    File {
        out: BufWriter<File>,
        temporary: PathBuf,
        path: PathBuf,
        force: bool,
    },
}

impl OutFile {
    /// `None` = standard output.
    pub fn create(path: Option<&Path>, force: bool) -> Result<Self, Failure> {
        match path {
            Some(path) => Self::file(path, force, 0o666),
            None => Ok(Self::Stdout(BufWriter::with_capacity(
                64 << 10,
                io::stdout(),
            ))),
        }
    }

    /// A file that only its owner can read.
    pub fn private(path: &Path, force: bool) -> Result<Self, Failure> {
        Self::file(path, force, 0o600)
    }

    fn file(path: &Path, force: bool, mode: u32) -> Result<Self, Failure> {
        refuse_existing(path, force)?;
        let mut name = path
            .file_name()
            .ok_or_else(|| Failure::Usage(format!("{} names no file", shown(path))))?
            .to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(name);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&temporary)
            .with_context(|| format!("cannot create {}", shown(&temporary)))?;
        Ok(Self::File {
            out: BufWriter::with_capacity(64 << 10, file),
            temporary,
            path: path.to_owned(),
            force,
        })
    }

    /// Gives the file its name.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.flush()?;
        let Self::File {
            temporary,
            path,
            force,
            ..
        } = &self
        else {
            return Ok(());
        };
        refuse_existing(path, *force)?;
        fs::rename(temporary, path)
            .with_context(|| format!("cannot rename {} to {}", shown(temporary), shown(path)))?;
        Ok(())
    }
}

fn shown(path: &Path) -> String {
    escape(&path.to_string_lossy())
}

fn refuse_existing(path: &Path, force: bool) -> Result<(), Failure> {
    match fs::symlink_metadata(path) {
        Ok(_) if !force => Err(Failure::Failed(anyhow::anyhow!(
            "{} exists: another name, or --force to overwrite it",
            shown(path)
        ))),
        // A file takes the name: a device or a link would be gone.
        Ok(there) if !there.is_file() => Err(Failure::Failed(anyhow::anyhow!(
            "{} is no regular file: it is not overwritten, also with --force",
            shown(path)
        ))),
        _ => Ok(()),
    }
}

impl Write for OutFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(out) => out.write(bytes),
            Self::File { out, .. } => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(out) => out.flush(),
            Self::File { out, .. } => out.flush(),
        }
    }
}

impl Drop for OutFile {
    fn drop(&mut self) {
        if let Self::File { temporary, .. } = self {
            // It has its name already, or is of no use.
            let _ = fs::remove_file(temporary);
        }
    }
}
