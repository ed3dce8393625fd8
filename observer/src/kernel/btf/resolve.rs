//! The field table resolved against one kernel: the layout for the programs, and what is not to be had.

use std::fmt;

use observer_common::layout::{ABSENT, FIELDS, Field, Kind, Layout, Need, Row};
use observer_common::outcome::Program;
use observer_common::wire::CA_WORDS;

use super::hooks::{Hook, HookFit, hooks};
use super::{Btf, BtfError, Place, PlaceError, Type, TypeKind};

/// What the programs need to know of a kernel.
#[derive(Clone, Debug)]
pub struct Resolved {
    pub layout: Layout,
    /// Optional fields that this kernel does not have.
    pub absent: Vec<Absent>,
    /// Words of `icsk_ca_priv` that are carried (`ProbeConfig::ca_words`).
    pub ca_words: u32,
    /// Words that this kernel has; above [`CA_WORDS`] the rest is not carried.
    pub ca_words_in_kernel: u32,
    /// One per program, in the order of [`Program::ALL`].
    pub hooks: Vec<Hook>,
    /// `ProbeConfig::retransmit_err_arg`: the position of `err`, 0 = none.
    pub retransmit_err_arg: u32,
}

impl Resolved {
    /// The hook of a program.
    pub fn hook(&self, program: Program) -> &Hook {
        &self.hooks[program as usize]
    }
}

/// A field that this kernel does not have, and why it is thought so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    pub field: Field,
    pub root: &'static str,
    pub path: &'static str,
    pub why: Problem,
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}: {}", self.root, self.path, self.why)
    }
}

/// Why a row of the field table has no offset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error("it is {found}, wanted {wanted:?}")]
    Shape { wanted: Kind, found: String },
    #[error("it lies {0} bytes into its structure, beyond what an offset can say")]
    TooFar(u32),
}

/// The kernel lacks something without which nothing works.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this kernel does not have what observer reads: {}; `observer list --window 0` works without the programs; please report the kernel's version",
    list(.fields, .hooks)
)]
pub struct ResolveError {
    /// Required fields.
    pub fields: Vec<Absent>,
    /// Required hooks, with what is wrong.
    pub hooks: Vec<Hook>,
}

fn list(fields: &[Absent], hooks: &[Hook]) -> String {
    let fields = fields.iter().map(Absent::to_string);
    let all: Vec<_> = fields.chain(hooks.iter().map(Hook::to_string)).collect();
    all.join("; ")
}

/// Resolves the field table and the hooks against a kernel's vmlinux BTF.
pub fn resolve(btf: &Btf) -> Result<Resolved, ResolveError> {
    let mut layout = Layout::EMPTY;
    let (mut absent, mut missing) = (Vec::new(), Vec::new());
    for row in FIELDS {
        match slot(btf, row) {
            Ok(slot) => slot.put(&mut layout, row.field),
            Err(why) => {
                let list = match row.need {
                    Need::Required => &mut missing,
                    Need::Optional => &mut absent,
                };
                list.push(Absent {
                    field: row.field,
                    root: row.root,
                    path: row.path,
                    why,
                });
            }
        }
    }
    let hooks = hooks(btf);
    let unfit = |hook: &&Hook| hook.program.required() && hook.fit != HookFit::Fits;
    let unfit: Vec<Hook> = hooks.iter().filter(unfit).cloned().collect();
    if !missing.is_empty() || !unfit.is_empty() {
        return Err(ResolveError {
            fields: missing,
            hooks: unfit,
        });
    }
    let ca_words_in_kernel = if layout.has(Field::CaPriv) {
        ca_words(btf)
    } else {
        0
    };
    Ok(Resolved {
        layout,
        absent,
        ca_words: ca_words_in_kernel.min(CA_WORDS as u32),
        ca_words_in_kernel,
        retransmit_err_arg: hooks[Program::Retransmit as usize].retransmit_err_arg(),
        hooks,
    })
}

/// 8-byte words of `icsk_ca_priv`.
fn ca_words(btf: &Btf) -> u32 {
    let row = &FIELDS[Field::CaPriv as usize];
    let place = btf.place(row.root, row.path);
    let size = place.map(|place| btf.size(place.type_id).unwrap_or(0));
    u32::try_from(size.unwrap_or(0) / 8).unwrap_or(u32::MAX)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    offset: u16,
    shift: u8,
    mask: u8,
}

impl Slot {
    fn put(self, layout: &mut Layout, field: Field) {
        layout.offset[field as usize] = self.offset;
        layout.shift[field as usize] = self.shift;
        layout.mask[field as usize] = self.mask;
    }
}

fn slot(btf: &Btf, row: &Row) -> Result<Slot, Problem> {
    let place = btf.place(row.root, row.path)?;
    let (shift, mask) = shape(btf, place, row.kind)
        .map_err(PlaceError::from)?
        .ok_or_else(|| Problem::Shape {
            wanted: row.kind,
            found: describe(btf, place),
        })?;
    let byte = place.bit_offset / 8;
    match u16::try_from(byte) {
        Ok(offset) if offset != ABSENT => Ok(Slot {
            offset,
            shift,
            mask,
        }),
        _ => Err(Problem::TooFar(byte)),
    }
}

/// Shift and mask if what lies there is of the wanted kind.
fn shape(btf: &Btf, place: Place, wanted: Kind) -> Result<Option<(u8, u8)>, BtfError> {
    let shift = (place.bit_offset % 8) as u8;
    if place.bit_size != 0 {
        let in_byte = wanted == Kind::Bits && u32::from(shift) + u32::from(place.bit_size) <= 8;
        return Ok(in_byte.then(|| (shift, (0xff_u16 >> (8 - place.bit_size)) as u8)));
    }
    if shift != 0 {
        return Ok(None);
    }
    let fits = match wanted {
        Kind::U8 => integer(btf, place.type_id)? == Some(1),
        Kind::U16 => integer(btf, place.type_id)? == Some(2),
        Kind::U32 => integer(btf, place.type_id)? == Some(4),
        Kind::U64 => integer(btf, place.type_id)? == Some(8),
        Kind::Bits => matches!(integer(btf, place.type_id)?, Some(1 | 2 | 4)),
        Kind::Pointer => btf
            .strip(place.type_id)?
            .is_some_and(|found| found.kind == TypeKind::Ptr),
        Kind::Bytes(least) => btf.size(place.type_id)? >= u64::from(least),
    };
    Ok(fits.then_some((0, 0xff)))
}

/// Bytes of an integer, an enum, or a structure that is nothing but one (`atomic_t`, `refcount_t`).
pub(super) fn integer(btf: &Btf, mut id: u32) -> Result<Option<u32>, BtfError> {
    for _ in 0..4 {
        let Some(found) = btf.strip(id)? else {
            return Ok(None);
        };
        match found.kind {
            TypeKind::Int | TypeKind::Enum | TypeKind::Enum64 => {
                return Ok(Some(found.size_or_type));
            }
            TypeKind::Struct => match only_member(btf, found)? {
                Some(member) => id = member,
                None => return Ok(None),
            },
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// The type of the first member, if it fills the whole structure.
fn only_member(btf: &Btf, of: Type<'_>) -> Result<Option<u32>, BtfError> {
    let Some(first) = btf.members(of).next() else {
        return Ok(None);
    };
    let fills = first.bit_offset == 0 && btf.size(first.type_id)? == u64::from(of.size_or_type);
    Ok(fills.then_some(first.type_id))
}

fn describe(btf: &Btf, place: Place) -> String {
    if place.bit_size != 0 {
        let first = place.bit_offset % 8;
        return format!(
            "a bit field of {} bits from bit {first} of its byte",
            place.bit_size
        );
    }
    let kind = btf
        .strip(place.type_id)
        .ok()
        .flatten()
        .map(|found| found.kind);
    let size = btf.size(place.type_id).unwrap_or(0);
    match kind {
        Some(TypeKind::Ptr) => "a pointer".to_owned(),
        Some(TypeKind::Int | TypeKind::Enum | TypeKind::Enum64) => {
            format!("an integer of {size} bytes")
        }
        Some(TypeKind::Array) => format!("an array of {size} bytes"),
        Some(TypeKind::Struct | TypeKind::Union) => format!("a structure of {size} bytes"),
        _ => format!("something else of {size} bytes"),
    }
}
