//! Bytes of a capture, unpacked where they are packed: told by their first bytes, not by the file's name.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::rc::Rc;

/// What unpacking xz may take: twice what `xz -9` needs.
const XZ_KIB: u32 = 128 << 10;

/// What the reading of bytes ended with, kept where the parser drops it.
pub type Failed = Rc<RefCell<Option<io::Error>>>;

/// A reader that fills what it is given, so that a parser that reads once sees the beginning whole.
pub struct Bytes {
    inner: Box<dyn Read>,
    failed: Failed,
}

impl Bytes {
    /// From the beginning of `file`.
    pub fn of(file: &File) -> io::Result<Self> {
        let mut file = file.try_clone()?;
        let mut first = [0; 6];
        file.seek(SeekFrom::Start(0))?;
        let known = read_full(&mut file, &mut first)?;
        file.seek(SeekFrom::Start(0))?;
        let packed = BufReader::with_capacity(1 << 16, file);
        let inner: Box<dyn Read> = match &first[..known] {
            [0xfd, b'7', b'z', b'X', b'Z', 0] => {
                Box::new(lzma_rust2::XzReader::new_mem_limit(packed, true, XZ_KIB))
            }
            [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::Decoder::with_buffer(packed)?),
            _ => Box::new(packed),
        };
        Ok(Self::new(inner))
    }

    pub fn new(inner: Box<dyn Read>) -> Self {
        Self {
            inner,
            failed: Failed::default(),
        }
    }

    pub fn failed(&self) -> Failed {
        Rc::clone(&self.failed)
    }
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.failed.borrow().is_some() {
            return Ok(0);
        }
        let mut filled = 0;
        while filled < buffer.len() {
            match self.inner.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What came before it is handed on first; then the bytes end here.
                Err(error) => {
                    *self.failed.borrow_mut() = Some(error);
                    break;
                }
            }
        }
        Ok(filled)
    }
}

fn read_full(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..])? {
            0 => break,
            more => filled += more,
        }
    }
    Ok(filled)
}
