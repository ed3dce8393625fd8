//! Member paths: from a structure's name and `a.b[2].c|d` to a place in memory and its type.

use super::parse::MAX_DEPTH;
use super::{Btf, BtfError, Type, TypeKind};

/// Where a member lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// From the start of the root, in bits.
    pub bit_offset: u32,
    /// 0 = not a bit field.
    pub bit_size: u8,
    pub type_id: u32,
}

/// Why a path leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    #[error("the kernel has no struct {0}")]
    NoRoot(String),
    #[error("no member {0}")]
    NoMember(String),
    #[error("{0} is no array with such an element")]
    NoElement(String),
    #[error("several structures of this name differ in it")]
    Ambiguous,
    #[error(transparent)]
    Damaged(#[from] BtfError),
}

/// Members looked at for one path. The largest kernel structures have a few hundred; hostile nesting has no end.
const MAX_LOOKED_AT: u32 = 1 << 16;

impl Btf {
    /// Follows the first alternative of `path` that exists in the structure `root`.
    ///
    /// Several structures may share a name; they must agree on the place, else it is not told.
    pub fn place(&self, root: &str, path: &str) -> Result<Place, PlaceError> {
        let mut found: Option<Place> = None;
        let mut why = PlaceError::NoRoot(root.to_owned());
        for kind in [TypeKind::Struct, TypeKind::Union] {
            for candidate in self.find(kind, root) {
                match self.place_in(candidate, path) {
                    Err(error) => why = error,
                    Ok(place) => match found {
                        Some(other) if !self.same(other, place) => {
                            return Err(PlaceError::Ambiguous);
                        }
                        _ => found = Some(place),
                    },
                }
            }
        }
        found.ok_or(why)
    }

    /// The same, in one structure.
    pub fn place_in(&self, root: Type<'_>, path: &str) -> Result<Place, PlaceError> {
        let mut why = PlaceError::NoMember(path.to_owned());
        for alternative in path.split('|') {
            match self.follow(root, alternative, &mut |_, _| {}) {
                Err(error) => why = error,
                place => return place,
            }
        }
        Err(why)
    }

    fn same(&self, a: Place, b: Place) -> bool {
        a.bit_offset == b.bit_offset
            && a.bit_size == b.bit_size
            && self.size(a.type_id) == self.size(b.type_id)
    }

    /// Follows one alternative and tells `step` of every member on the way (structure, index).
    pub(super) fn follow(
        &self,
        root: Type<'_>,
        path: &str,
        step: &mut dyn FnMut(u32, u16),
    ) -> Result<Place, PlaceError> {
        let mut place = Place {
            bit_offset: 0,
            bit_size: 0,
            type_id: root.id,
        };
        let mut looked_at = 0;
        for part in path.split('.') {
            let (name, index) = split_index(part);
            let no_member = || PlaceError::NoMember(name.to_owned());
            let inside = self.strip(place.type_id)?.ok_or_else(no_member)?;
            let mut search = Search {
                btf: self,
                name: name.as_bytes(),
                looked_at: &mut looked_at,
                step,
            };
            let member = search.descend(inside, 0)?.ok_or_else(no_member)?;
            place.bit_offset = place.bit_offset.saturating_add(member.bit_offset);
            place.bit_size = member.bit_size;
            place.type_id = member.type_id;
            if let Some(index) = index {
                place = self
                    .element(place, index)?
                    .ok_or_else(|| PlaceError::NoElement(part.to_owned()))?;
            }
        }
        Ok(place)
    }

    fn element(&self, of: Place, index: u32) -> Result<Option<Place>, BtfError> {
        let Some(array) = self.strip(of.type_id)? else {
            return Ok(None);
        };
        let Some((element, count)) = array.array() else {
            return Ok(None);
        };
        let skipped = self.size(element)?.saturating_mul(u64::from(index) * 8);
        match u32::try_from(skipped.saturating_add(u64::from(of.bit_offset))) {
            Ok(bit_offset) if index < count => Ok(Some(Place {
                bit_offset,
                bit_size: 0,
                type_id: element,
            })),
            _ => Ok(None),
        }
    }
}

/// `name[2]` → `name`, 2.
fn split_index(part: &str) -> (&str, Option<u32>) {
    part.strip_suffix(']')
        .and_then(|part| part.split_once('['))
        .and_then(|(name, index)| Some((name, Some(index.parse().ok()?))))
        .unwrap_or((part, None))
}

struct Search<'a, 's> {
    btf: &'a Btf,
    name: &'s [u8],
    looked_at: &'s mut u32,
    step: &'s mut dyn FnMut(u32, u16),
}

impl Search<'_, '_> {
    /// Looks for the member in `inside` and in its anonymous structures and unions.
    fn descend(&mut self, inside: Type<'_>, depth: u32) -> Result<Option<Place>, BtfError> {
        if depth > MAX_DEPTH {
            return Err(BtfError::TooDeep(inside.id));
        }
        for (index, member) in self.btf.members(inside).enumerate() {
            *self.looked_at += 1;
            if *self.looked_at > MAX_LOOKED_AT {
                return Err(BtfError::TooDeep(inside.id));
            }
            let mut place = if member.name == self.name {
                Some(self.own(member.bit_offset, member.bit_size, member.type_id)?)
            } else if member.name.is_empty() {
                match self.btf.strip(member.type_id)? {
                    Some(nested) => self.descend(nested, depth + 1)?,
                    None => None,
                }
            } else {
                None
            };
            if let Some(place) = &mut place {
                if member.name.is_empty() {
                    place.bit_offset = place.bit_offset.saturating_add(member.bit_offset);
                }
                (self.step)(inside.id, index as u16);
                return Ok(Some(*place));
            }
        }
        Ok(None)
    }

    /// The member itself, with the old encoding of bit fields (in the integer's type) taken into account.
    fn own(&self, bit_offset: u32, bit_size: u8, type_id: u32) -> Result<Place, BtfError> {
        let mut place = Place {
            bit_offset,
            bit_size,
            type_id,
        };
        if bit_size == 0
            && let Some(stripped) = self.btf.strip(type_id)?
            && let Some((offset, bits)) = stripped.int_bits()
            && bits != 0
            && (u64::from(bits) != u64::from(stripped.size_or_type) * 8 || offset != 0)
        {
            place.bit_offset = bit_offset.saturating_add(offset);
            place.bit_size = bits as u8;
        }
        Ok(place)
    }
}
