//! Raw BTF: the header, the list of types, their names. One pass finds where each type starts; the rest is read in
//! place when asked for.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use super::TypeKind;

/// Why bytes are no usable BTF.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BtfError {
    #[error(
        "cannot read the kernel's type information {}: {kind}; a kernel built with CONFIG_DEBUG_INFO_BTF=y has it", path.display()
    )]
    Unreadable { path: PathBuf, kind: ErrorKind },
    #[error("{0:?} is no module name")]
    ModuleName(String),
    #[error("more than 64 MB: this is no BTF")]
    TooLarge,
    #[error(
        "not BTF of this machine: it does not begin with the magic number 0xeb9f, little endian"
    )]
    Magic,
    #[error("BTF version {0}: only version 1 is known, observer needs an update for this kernel")]
    Version(u8),
    #[error("BTF cut short or damaged: {0} does not fit into the file")]
    Truncated(&'static str),
    #[error(
        "type {id} is of kind {kind}, which is unknown: observer needs an update for this kernel"
    )]
    UnknownKind { id: u32, kind: u8 },
    #[error("BTF damaged: type {0} is referred to and does not exist")]
    BadReference(u32),
    #[error("BTF damaged: types nested without end at type {0}")]
    TooDeep(u32),
}

/// BTF of a kernel, or of a module on top of its kernel's.
#[derive(Debug)]
pub struct Btf {
    base: Option<Arc<Btf>>,
    data: Vec<u8>,
    /// Where each type of this part starts in `data`; the first has the id `first_id`.
    starts: Vec<u32>,
    first_id: u32,
    strings: std::ops::Range<usize>,
    /// Offset of the first own string in the numbering shared with the base.
    first_string: u32,
    /// Hash of the name above, id below, sorted.
    index: Vec<u64>,
}

/// One type.
#[derive(Clone, Copy, Debug)]
pub struct Type<'a> {
    pub id: u32,
    pub kind: TypeKind,
    pub name: &'a [u8],
    /// Size in bytes, or the id of the type referred to, by kind.
    pub size_or_type: u32,
    pub vlen: u16,
    pub kind_flag: bool,
    tail: &'a [u8],
}

/// A member of a structure or union, as it stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    pub name: &'a [u8],
    pub type_id: u32,
    /// From the start of the structure, in bits.
    pub bit_offset: u32,
    /// 0 = not a bit field by the structure's own encoding.
    pub bit_size: u8,
}

/// The longest chain of typedefs, arrays or nested structures followed. The kernel's own limit is 32
/// (`MAX_RESOLVE_DEPTH`, `kernel/bpf/btf.c`).
pub(super) const MAX_DEPTH: u32 = 32;

/// A name is looked at no further than this, so that hostile bytes cost no more than honest ones. The kernel refuses
/// names above 512 bytes (`KSYM_NAME_LEN`).
const MAX_NAME: usize = 1024;

const HEADER: usize = 24;
const TYPE: usize = 12;

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// FNV-1a.
fn hash(name: &[u8]) -> u32 {
    name.iter().fold(0x811c_9dc5, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// Type and string section of raw BTF, as ranges of `data`.
fn sections(data: &[u8]) -> Result<[std::ops::Range<usize>; 2], BtfError> {
    if data.len() < HEADER {
        return Err(BtfError::Truncated("the header"));
    }
    if data[..2] != [0x9f, 0xeb] {
        return Err(BtfError::Magic);
    }
    if data[2] != 1 {
        return Err(BtfError::Version(data[2]));
    }
    let field = |at| u32_at(data, at).unwrap_or(0) as usize;
    let header = field(4);
    if header < HEADER || header > data.len() {
        return Err(BtfError::Truncated("the header"));
    }
    let section = |at, what| {
        let start = header.checked_add(field(at));
        let end = start.and_then(|start| start.checked_add(field(at + 4)));
        match (start, end) {
            (Some(start), Some(end)) if end <= data.len() => Ok(start..end),
            _ => Err(BtfError::Truncated(what)),
        }
    };
    let strings = section(16, "the string section")?;
    if data[strings.clone()].last().is_some_and(|&last| last != 0) {
        return Err(BtfError::Truncated("the last string"));
    }
    Ok([section(8, "the type section")?, strings])
}

impl Btf {
    /// Types that stand alone: a vmlinux.
    pub fn parse(data: Vec<u8>) -> Result<Self, BtfError> {
        Self::new(data, None)
    }

    /// Types on top of others: a module.
    pub fn parse_split(data: Vec<u8>, base: Arc<Btf>) -> Result<Self, BtfError> {
        Self::new(data, Some(base))
    }

    fn new(data: Vec<u8>, base: Option<Arc<Btf>>) -> Result<Self, BtfError> {
        let [types, strings] = sections(&data)?;
        let (first_id, first_string) = base.as_ref().map_or((1, 0), |base| {
            let strings = base.strings.len() as u32;
            (base.end_id(), base.first_string.saturating_add(strings))
        });
        let mut btf = Self {
            base,
            // Most types take 12 to 40 bytes.
            starts: Vec::with_capacity(types.len() / 24),
            data,
            first_id,
            strings,
            first_string,
            index: Vec::new(),
        };
        btf.scan(types)?;
        btf.index.sort_unstable();
        Ok(btf)
    }

    /// Finds where every type starts and notes the names that are looked up.
    fn scan(&mut self, types: std::ops::Range<usize>) -> Result<(), BtfError> {
        let mut at = types.start;
        while at < types.end {
            let id = self.first_id.saturating_add(self.starts.len() as u32);
            let (Some(name), Some(info)) = (u32_at(&self.data, at), u32_at(&self.data, at + 4))
            else {
                return Err(BtfError::Truncated("a type"));
            };
            let raw = (info >> 24) as u8 & 0x1f;
            let kind = TypeKind::from_raw(raw).ok_or(BtfError::UnknownKind { id, kind: raw })?;
            let end = at + TYPE + kind.tail(usize::from(info as u16));
            if end > types.end {
                return Err(BtfError::Truncated("a type"));
            }
            if kind.indexed() && name != 0 {
                let hash = hash(self.string(name));
                self.index.push(u64::from(hash) << 32 | u64::from(id));
            }
            self.starts.push(at as u32);
            at = end;
        }
        Ok(())
    }

    /// One more than the highest id.
    pub fn end_id(&self) -> u32 {
        self.first_id.saturating_add(self.starts.len() as u32)
    }

    /// The lowest id that is not the base's.
    pub fn first_id(&self) -> u32 {
        self.first_id
    }

    /// The types under these.
    pub fn base(&self) -> Option<&Arc<Btf>> {
        self.base.as_ref()
    }

    /// Bytes of the raw form.
    pub fn raw_len(&self) -> usize {
        self.data.len()
    }

    /// The string at an offset; empty where there is none.
    fn string(&self, offset: u32) -> &[u8] {
        match (offset.checked_sub(self.first_string), &self.base) {
            (None, Some(base)) => base.string(offset),
            (None, None) => &[],
            (Some(offset), _) => {
                let strings = &self.data[self.strings.clone()];
                let tail = strings.get(offset as usize..).unwrap_or(&[]);
                let tail = &tail[..tail.len().min(MAX_NAME)];
                tail.split(|&byte| byte == 0).next().unwrap_or(&[])
            }
        }
    }

    /// The type with an id. The id 0 is `void` and no type.
    pub fn get(&self, id: u32) -> Result<Type<'_>, BtfError> {
        let Some(own) = id.checked_sub(self.first_id) else {
            return match &self.base {
                Some(base) => base.get(id),
                None => Err(BtfError::BadReference(id)),
            };
        };
        let start = *self
            .starts
            .get(own as usize)
            .ok_or(BtfError::BadReference(id))? as usize;
        let word = |at| u32_at(&self.data, start + at).ok_or(BtfError::Truncated("a type"));
        let (info, vlen) = (word(4)?, word(4)? as u16);
        let raw = (info >> 24) as u8 & 0x1f;
        let kind = TypeKind::from_raw(raw).ok_or(BtfError::UnknownKind { id, kind: raw })?;
        let tail = start + TYPE..start + TYPE + kind.tail(usize::from(vlen));
        Ok(Type {
            id,
            kind,
            name: self.string(word(0)?),
            size_or_type: word(8)?,
            vlen,
            kind_flag: info >> 31 != 0,
            tail: self.data.get(tail).ok_or(BtfError::Truncated("a type"))?,
        })
    }

    /// Own types of this kind and name, the base's left out. Structures, unions, typedefs and functions only.
    pub fn find_own<'a, 'n>(
        &'a self,
        kind: TypeKind,
        name: &'n str,
    ) -> impl Iterator<Item = Type<'a>> + use<'a, 'n> {
        let hash = u64::from(hash(name.as_bytes()));
        let first = self.index.partition_point(|&entry| entry >> 32 < hash);
        self.index[first..]
            .iter()
            .take_while(move |&&entry| entry >> 32 == hash)
            .filter_map(|&entry| self.get(entry as u32).ok())
            .filter(move |found| found.kind == kind && found.name == name.as_bytes())
    }

    /// Types of this kind and name, the base's included.
    pub fn find<'a, 'n>(
        &'a self,
        kind: TypeKind,
        name: &'n str,
    ) -> impl Iterator<Item = Type<'a>> + use<'a, 'n> {
        let base = self.base.as_deref().into_iter();
        base.flat_map(move |base| base.find_own(kind, name))
            .chain(self.find_own(kind, name))
    }

    /// The members of a structure or union; of other types none.
    pub fn members<'a>(&'a self, of: Type<'a>) -> impl Iterator<Item = Member<'a>> {
        let of_members = matches!(of.kind, TypeKind::Struct | TypeKind::Union);
        let tail = if of_members { of.tail } else { &[] };
        tail.as_chunks::<12>().0.iter().map(move |raw| {
            let [name, type_id, offset] = [0, 4, 8].map(|at| u32_at(raw, at).unwrap_or(0));
            Member {
                name: self.string(name),
                type_id,
                bit_offset: if of.kind_flag {
                    offset & 0x00ff_ffff
                } else {
                    offset
                },
                bit_size: if of.kind_flag {
                    (offset >> 24) as u8
                } else {
                    0
                },
            }
        })
    }

    /// Names and types of the parameters of a `FUNC_PROTO`.
    pub fn parameters<'a>(&'a self, of: Type<'a>) -> impl Iterator<Item = (&'a [u8], u32)> {
        let proto = of.kind == TypeKind::FuncProto;
        let tail = if proto { of.tail } else { &[] };
        tail.as_chunks::<8>().0.iter().map(move |raw| {
            let [name, type_id] = [0, 4].map(|at| u32_at(raw, at).unwrap_or(0));
            (self.string(name), type_id)
        })
    }

    /// What is left of a type without typedef, const, volatile, restrict and tags. `None` = void.
    pub fn strip(&self, mut id: u32) -> Result<Option<Type<'_>>, BtfError> {
        for _ in 0..=MAX_DEPTH {
            if id == 0 {
                return Ok(None);
            }
            let found = self.get(id)?;
            if !found.kind.is_modifier() {
                return Ok(Some(found));
            }
            id = found.size_or_type;
        }
        Err(BtfError::TooDeep(id))
    }

    /// Bytes of a type; 0 where it has none.
    pub fn size(&self, mut id: u32) -> Result<u64, BtfError> {
        let mut times = 1_u64;
        for _ in 0..=MAX_DEPTH {
            let Some(found) = self.strip(id)? else {
                return Ok(0);
            };
            let size = match found.kind {
                TypeKind::Int
                | TypeKind::Struct
                | TypeKind::Union
                | TypeKind::Enum
                | TypeKind::Enum64
                | TypeKind::Float
                | TypeKind::Datasec => u64::from(found.size_or_type),
                TypeKind::Ptr => 8,
                TypeKind::Array => {
                    let (element, count) = found.array().unwrap_or((0, 0));
                    times = times.saturating_mul(u64::from(count));
                    id = element;
                    continue;
                }
                _ => 0,
            };
            return Ok(times.saturating_mul(size));
        }
        Err(BtfError::TooDeep(id))
    }
}

impl Type<'_> {
    /// Element type and number of elements of an array.
    pub fn array(&self) -> Option<(u32, u32)> {
        if self.kind != TypeKind::Array {
            return None;
        }
        Some((u32_at(self.tail, 0)?, u32_at(self.tail, 8)?))
    }

    /// The old encoding of bit fields, in the integer itself: bit offset and bits. `None` = not an integer.
    pub fn int_bits(&self) -> Option<(u32, u32)> {
        if self.kind != TypeKind::Int {
            return None;
        }
        let encoding = u32_at(self.tail, 0)?;
        Some((encoding >> 16 & 0xff, encoding & 0xff))
    }

    /// What follows the common part, raw.
    pub(super) fn raw_tail(&self) -> &[u8] {
        self.tail
    }
}
