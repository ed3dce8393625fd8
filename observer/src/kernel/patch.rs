//! Writes the running kernel's offsets into the programs' loads, before the kernel sees them.
//!
//! The programs load every field at a stand-in offset (`observer_common::layout::Standin`). A field that this kernel lacks
//! becomes a plain 0 in the register.

use std::ops::Range;

use object::{Object as _, ObjectSection as _, SectionFlags};
use observer_common::layout::{ABSENT, FIELDS, Field, Layout, Standin};

/// Why an object cannot be fitted to a kernel: it was built wrongly.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    #[error("not an object: {0}")]
    Object(#[from] object::Error),
    #[error("the instruction at byte {at} uses a field's place for something other than a load")]
    NoLoad { at: usize },
    #[error("the field {} is too far into its structure for a load", FIELDS[*field].path)]
    TooFar { field: usize },
}

/// `BPF_LDX`, `BPF_MEM`: the class and mode of a plain load; the size is in between.
const LOAD: u8 = 0x61;
const SIZES: u8 = 0x18;
/// `BPF_ALU64 | BPF_MOV | BPF_K`.
const SET: u8 = 0xb7;
/// `BPF_STX | BPF_ATOMIC | BPF_DW` with `BPF_XCHG`, and the same as a plain store.
const EXCHANGE: ([u8; 1], [u8; 4]) = ([0xdb], [0xe1, 0, 0, 0]);
const STORE: u8 = 0x7b;
/// `BPF_LD | BPF_IMM | BPF_DW`: takes two places.
const WIDE: u8 = 0x18;
const BYTES: usize = 8;

/// The object with this kernel's offsets.
pub fn patched(object: &[u8], layout: &Layout) -> Result<Vec<u8>, PatchError> {
    let mut bytes = object.to_vec();
    for range in code(object)? {
        let mut at = range.start;
        while at + BYTES <= range.end {
            let step = if bytes[at] == WIDE { 2 } else { 1 };
            instruction(&mut bytes[at..at + BYTES], layout).map_err(|problem| problem.at(at))?;
            at += step * BYTES;
        }
    }
    Ok(bytes)
}

/// Where the object has instructions.
fn code(object: &[u8]) -> Result<Vec<Range<usize>>, PatchError> {
    let file = object::File::parse(object)?;
    Ok(file
        .sections()
        .filter(|section| match section.flags() {
            SectionFlags::Elf { sh_flags } => sh_flags & u64::from(object::elf::SHF_EXECINSTR) != 0,
            _ => false,
        })
        .filter_map(|section| section.file_range())
        .filter_map(|(start, size)| {
            let start = usize::try_from(start).ok()?;
            let end = start.checked_add(usize::try_from(size).ok()?)?;
            (end <= object.len()).then_some(start..end)
        })
        .collect())
}

enum Problem {
    NoLoad,
    TooFar(usize),
}

impl Problem {
    fn at(self, at: usize) -> PatchError {
        match self {
            Self::NoLoad => PatchError::NoLoad { at },
            Self::TooFar(field) => PatchError::TooFar { field },
        }
    }
}

fn instruction(insn: &mut [u8], layout: &Layout) -> Result<(), Problem> {
    // The exchange that publishes a brief is a barrier. On x86 stores are seen in their order (Intel SDM 3A §9.2.2,
    // AMD APM 2 §7.2), and waiting for every line of a cold record was most of what a brief cost.
    if cfg!(target_arch = "x86_64") && insn[..1] == EXCHANGE.0 && insn[4..] == EXCHANGE.1 {
        insn[0] = STORE;
        insn[4..].fill(0);
        return Ok(());
    }
    let offset = u16::from_le_bytes([insn[2], insn[3]]);
    let is_load = insn[0] & !SIZES == LOAD;
    if !is_load {
        // An addition of a stand-in would hide the load behind it.
        let adds = matches!(insn[0], 0x07 | 0xb7);
        let value = u32::from_le_bytes([insn[4], insn[5], insn[6], insn[7]]);
        let hidden = adds && u16::try_from(value).is_ok_and(|value| Standin::of(value).is_some());
        let stored = insn[0] & 0x07 <= 3 && insn[0] != WIDE && Standin::of(offset).is_some();
        return if hidden || stored {
            Err(Problem::NoLoad)
        } else {
            Ok(())
        };
    }
    let Some(standin) = Standin::of(offset) else {
        return Ok(());
    };
    match standin {
        Standin::Load(field, index) => place(insn, layout.offset[field], index * 4, field),
        Standin::InCb(field) => {
            let base = layout.offset[Field::SkbCb as usize];
            let inner = layout.offset[field];
            if base == ABSENT || inner == ABSENT {
                set(insn, 0);
                return Ok(());
            }
            place(insn, base, inner, field)
        }
        Standin::Shift(field) => {
            set(insn, layout.shift[field]);
            Ok(())
        }
        Standin::Mask(field) => {
            set(insn, layout.mask[field]);
            Ok(())
        }
    }
}

fn place(insn: &mut [u8], offset: u16, more: u16, field: usize) -> Result<(), Problem> {
    if offset == ABSENT {
        set(insn, 0);
        return Ok(());
    }
    let offset = offset
        .checked_add(more)
        .and_then(|offset| i16::try_from(offset).ok())
        .ok_or(Problem::TooFar(field))?;
    insn[2..4].copy_from_slice(&offset.to_le_bytes());
    Ok(())
}

/// `rD = value`.
fn set(insn: &mut [u8], value: u8) {
    insn[0] = SET;
    insn[1] &= 0x0f;
    insn[2..8].copy_from_slice(&[0, 0, value, 0, 0, 0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `r1 = *(u32 *)(r2 + offset)`.
    fn load(offset: usize) -> [u8; 8] {
        let [low, high] = u16::try_from(offset).expect("an offset").to_le_bytes();
        [0x61, 0x21, low, high, 0, 0, 0, 0]
    }

    fn layout() -> Layout {
        let mut layout = Layout::EMPTY;
        layout.offset[Field::Cwnd as usize] = 0x123;
        layout.offset[Field::CaPriv as usize] = 0x500;
        layout.offset[Field::SkbCb as usize] = 0x28;
        layout.offset[Field::CbSeq as usize] = 4;
        layout.shift[Field::CaState as usize] = 3;
        layout.mask[Field::CaState as usize] = 0x1f;
        layout
    }

    fn done(offset: usize) -> [u8; 8] {
        let mut insn = load(offset);
        assert!(instruction(&mut insn, &layout()).is_ok());
        insn
    }

    #[test]
    fn a_load_gets_the_kernels_offset() {
        assert_eq!(done(Standin::load(Field::Cwnd, 0)), load(0x123));
        assert_eq!(done(Standin::load(Field::CaPriv, 35)), load(0x500 + 140));
        assert_eq!(done(Standin::in_cb(Field::CbSeq)), load(0x2c));
        assert_eq!(done(0x200), load(0x200), "one that is its own");
    }

    #[test]
    fn an_absent_field_is_zero_and_bits_are_numbers() {
        assert_eq!(
            done(Standin::load(Field::Ssthresh, 0)),
            [0xb7, 1, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(
            done(Standin::shift(Field::CaState)),
            [0xb7, 1, 0, 0, 3, 0, 0, 0]
        );
        assert_eq!(
            done(Standin::mask(Field::CaState)),
            [0xb7, 1, 0, 0, 0x1f, 0, 0, 0]
        );
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn an_exchange_is_a_store_where_stores_keep_their_order() {
        // r3 = xchg_64(r1 + 512, r3); lock *(u64 *)(r1 + 512) += r3 stays.
        let mut exchange = [0xdb, 0x31, 0, 2, 0xe1, 0, 0, 0];
        let mut add = [0xdb, 0x31, 0, 2, 0, 0, 0, 0];
        assert!(
            instruction(&mut exchange, &layout()).is_ok()
                && instruction(&mut add, &layout()).is_ok()
        );
        assert_eq!(exchange, [0x7b, 0x31, 0, 2, 0, 0, 0, 0]);
        assert_eq!(add[0], 0xdb);
    }

    #[test]
    fn a_stand_in_that_is_no_load_is_refused() {
        let standin = Standin::load(Field::Cwnd, 0);
        let [low, high] = u16::try_from(standin).expect("an offset").to_le_bytes();
        // r1 += stand-in; *(u32 *)(r1 + stand-in) = r2.
        for mut insn in [
            [0x07, 1, 0, 0, low, high, 0, 0],
            [0x63, 0x21, low, high, 0, 0, 0, 0],
        ] {
            assert!(instruction(&mut insn, &layout()).is_err(), "{insn:?}");
        }
    }

    #[test]
    fn the_embedded_object_has_loads_only() {
        let Some(object) = crate::kernel::object::object() else {
            return;
        };
        let layout = Layout {
            offset: [8; observer_common::layout::FIELD_COUNT],
            ..Layout::EMPTY
        };
        let patched = patched(object, &layout).expect("an object as it should be");
        assert_ne!(patched, object, "it has stand-ins");
    }
}
