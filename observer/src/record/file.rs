//! The files of a recording: made for the user alone, never over another one, the next begun when one is full.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::environment::Environment;
use super::known::Known;
use super::writer::{Totals, WriteError, Writer};
use crate::event::Event;
use crate::units::{escape, size};

/// Why a recording cannot be begun, or went no further.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{} exists: another name, or --force to overwrite it", shown(.0))]
    Exists(PathBuf),
    #[error("{} is no regular file: it is not overwritten, also with --force", shown(.0))]
    NotAFile(PathBuf),
    #[error("no key to replace addresses by: {0}")]
    Key(io::Error),
    #[error("cannot create {}: {error}", shown(path))]
    Create { path: PathBuf, error: io::Error },
    #[error(
        "cannot write {}: {error}. What was recorded until then can be read ({})",
        shown(path),
        size(*kept)
    )]
    Write {
        path: PathBuf,
        error: WriteError,
        kept: u64,
    },
}

fn shown(path: &Path) -> String {
    escape(&path.to_string_lossy())
}

/// What to record into.
#[derive(Clone, Debug)]
pub struct Target {
    pub path: PathBuf,
    /// The directory that `path` is in, opened while there were the rights to; `None` = as the system finds it.
    pub dir: Option<Arc<OwnedFd>>,
    /// Overwrite.
    pub force: bool,
    /// User and group that shall have the file; `None` = who we are.
    pub owner: Option<(u32, u32)>,
    /// A file does not become larger; the next is `PATH.1` and so on.
    pub max_size: Option<u64>,
    pub environment: Environment,
}

impl Target {
    /// Where it is, and its name there.
    fn place(&self) -> (BorrowedFd<'_>, &Path) {
        match (&self.dir, self.path.file_name()) {
            (Some(dir), Some(name)) => (dir.as_fd(), Path::new(name)),
            _ => (CWD, &self.path),
        }
    }
}

/// What the index and the schemas at a file's end take, at most, besides 80 bytes a chunk.
const SUMMARY: u64 = 64 << 10;
/// Smaller files would be little but schemas.
pub const SMALLEST: u64 = 256 << 10;

/// Writes events into the target's files.
#[derive(Debug)]
pub struct Files {
    target: Target,
    path: PathBuf,
    /// The same file as the writer has, to cut off what a failed write left.
    file: File,
    writer: Option<Writer<File>>,
    /// What is to be told again at the beginning of the next file; kept only where there will be one.
    known: Option<Known>,
    /// Of the files before.
    before: Totals,
    part: u32,
    largest_chunk: u64,
}

impl Files {
    /// Whether the target may be begun: said before the work of starting a source.
    pub fn check(target: &Target) -> Result<(), FileError> {
        let path = &target.path;
        let (dir, name) = target.place();
        match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) if !target.force => Err(FileError::Exists(path.clone())),
            Ok(there) if FileType::from_raw_mode(there.st_mode) != FileType::RegularFile => {
                Err(FileError::NotAFile(path.clone()))
            }
            Ok(_) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(FileError::Create {
                path: path.clone(),
                error: error.into(),
            }),
        }
    }

    /// Begins the first file.
    pub fn create(target: Target) -> Result<Self, FileError> {
        let path = target.path.clone();
        let (file, writer) = begin(&target, &path, 0)?;
        Ok(Self {
            known: target.max_size.map(|_| Known::default()),
            path,
            file,
            writer: Some(writer),
            before: Totals::default(),
            part: 0,
            largest_chunk: 0,
            target,
        })
    }

    /// Writes an event; after an error what was written before it can be read, and nothing more is written.
    pub fn push(&mut self, event: &Event) -> Result<(), FileError> {
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        let before = writer.totals().bytes;
        let sealed = writer.push(event);
        let after = writer.totals();
        if let Err(error) = sealed {
            return Err(self.failed(error));
        }
        if let Some(known) = &mut self.known {
            known.apply(event);
            self.largest_chunk = self.largest_chunk.max(after.bytes - before);
        }
        let Some(most) = self.target.max_size else {
            return Ok(());
        };
        let next = after.bytes + self.largest_chunk + SUMMARY + 80 * after.chunks;
        if after.bytes > before && next > most {
            self.rotate()?;
        }
        Ok(())
    }

    /// Ends this file and begins the next, with what holds still.
    fn rotate(&mut self) -> Result<(), FileError> {
        self.close()?;
        self.part += 1;
        let mut name = OsString::from(&self.target.path);
        name.push(format!(".{}", self.part));
        self.path = PathBuf::from(name);
        let (file, mut writer) = begin(&self.target, &self.path, self.part)?;
        self.file = file;
        let known = self.known.take().unwrap_or_default();
        let done = known
            .host()
            .chain(known.flows())
            .try_for_each(|event| writer.push(event).map(|_| ()));
        self.writer = Some(writer);
        done.map_err(|error| self.failed(error))?;
        self.known = Some(known);
        Ok(())
    }

    /// Ends the file in hand.
    fn close(&mut self) -> Result<(), FileError> {
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        let before = writer.totals();
        match writer.finish() {
            Ok(totals) => {
                self.before = sum(self.before, totals);
                Ok(())
            }
            Err(error) => Err(self.cut(error, before)),
        }
    }

    /// Ends the recording.
    pub fn finish(mut self) -> Result<Totals, FileError> {
        self.close()?;
        Ok(self.before)
    }

    /// Everything written so far, and in how many files.
    pub fn totals(&self) -> (Totals, u32) {
        let now = self.writer.as_ref().map(Writer::totals);
        (sum(self.before, now.unwrap_or_default()), self.part + 1)
    }

    fn failed(&mut self, error: WriteError) -> FileError {
        let totals = self.writer.take().map(|writer| writer.totals());
        self.cut(error, totals.unwrap_or_default())
    }

    /// Cuts off the half of a chunk that a full disk left.
    fn cut(&self, error: WriteError, whole: Totals) -> FileError {
        // Where this fails the reader finds the torn chunk itself.
        let _ = self.file.set_len(whole.bytes);
        FileError::Write {
            path: self.path.clone(),
            error,
            kept: whole.bytes,
        }
    }
}

fn sum(a: Totals, b: Totals) -> Totals {
    Totals {
        events: a.events + b.events,
        samples: a.samples + b.samples,
        flows: a.flows + b.flows,
        chunks: a.chunks + b.chunks,
        bytes: a.bytes + b.bytes,
    }
}

/// Makes a file and writes its beginning.
fn begin(target: &Target, path: &Path, part: u32) -> Result<(File, Writer<File>), FileError> {
    let create = |error: Errno| FileError::Create {
        path: path.to_owned(),
        error: error.into(),
    };
    let target_here = Target {
        path: path.to_owned(),
        ..target.clone()
    };
    Files::check(&target_here)?;
    let (dir, name) = target_here.place();
    if target.force {
        match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(create(error)),
        }
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR);
    let file = File::from(file.map_err(|error| match error {
        Errno::EXIST => FileError::Exists(path.to_owned()),
        error => create(error),
    })?);
    if let Some((user, group)) = target.owner {
        let (user, group) = (
            rustix::fs::Uid::from_raw(user),
            rustix::fs::Gid::from_raw(group),
        );
        let done = rustix::fs::fchown(file.as_fd(), Some(user), Some(group));
        done.map_err(create)?;
    }
    let environment = Environment {
        part,
        ..target.environment.clone()
    };
    let writer = file
        .try_clone()
        .map_err(WriteError::Io)
        .and_then(|file| Writer::new(file, &environment))
        .map_err(|error| FileError::Write {
            path: path.to_owned(),
            error,
            kept: 0,
        })?;
    Ok((file, writer))
}
