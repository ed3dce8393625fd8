//! Writes BTF: for the trimmer, and for tests that need a kernel which is not at hand.

use std::collections::HashMap;

use super::TypeKind;

/// Refers to a type of the same [`Builder`], whose final id depends on the base it is put on.
const OWN: u32 = 1 << 31;

/// The second member of a type's common part.
#[derive(Clone, Copy, Debug)]
enum Second {
    Size(u32),
    Type(u32),
}

/// What follows the common part.
#[derive(Clone, Debug)]
enum Tail {
    Nothing,
    Word(u32),
    Array {
        element: u32,
        index: u32,
        count: u32,
    },
    Members(Vec<Piece>),
    Parameters(Vec<(u32, u32)>),
}

/// A member to write.
#[derive(Clone, Debug)]
struct Piece {
    name: u32,
    type_id: u32,
    offset: u32,
}

#[derive(Clone, Debug)]
struct Written {
    name: u32,
    kind: TypeKind,
    flag: bool,
    second: Second,
    tail: Tail,
}

/// Collects types. The ids it hands out are good as references within it.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    types: Vec<Written>,
    /// Without the empty one, which every name 0 means.
    strings: Vec<u8>,
    offsets: HashMap<Vec<u8>, u32>,
}

impl Builder {
    /// 0 for the empty string, else one more than its place in `strings`.
    fn string(&mut self, text: &[u8]) -> u32 {
        if text.is_empty() {
            return 0;
        }
        if let Some(&offset) = self.offsets.get(text) {
            return offset;
        }
        let offset = self.strings.len() as u32 + 1;
        self.strings.extend_from_slice(text);
        self.strings.push(0);
        self.offsets.insert(text.to_vec(), offset);
        offset
    }

    fn push(&mut self, name: &[u8], kind: TypeKind, second: Second, tail: Tail) -> u32 {
        let name = self.string(name);
        self.types.push(Written {
            name,
            kind,
            flag: false,
            second,
            tail,
        });
        OWN | self.types.len() as u32
    }

    /// The id of a type that stands alone in its finished bytes: how a module's builder refers to it.
    pub fn id_in_base(id: u32) -> u32 {
        id & !OWN
    }

    /// An integer; `encoding` as in `BTF_INT_*`: signedness, bit offset, bits.
    pub fn int(&mut self, name: &[u8], size: u32, encoding: u32) -> u32 {
        self.push(
            name,
            TypeKind::Int,
            Second::Size(size),
            Tail::Word(encoding),
        )
    }

    /// An unsigned integer without any oddity.
    pub fn unsigned(&mut self, name: &str, size: u32) -> u32 {
        self.int(name.as_bytes(), size, size * 8)
    }

    /// `ENUM`, `ENUM64` without values, or `FLOAT`.
    pub fn sized(&mut self, kind: TypeKind, name: &[u8], size: u32) -> u32 {
        self.push(name, kind, Second::Size(size), Tail::Nothing)
    }

    /// `PTR`, `TYPEDEF`, `CONST` and the like, `FUNC`, or `FWD` (of nothing).
    pub fn refer(&mut self, kind: TypeKind, name: &[u8], to: u32) -> u32 {
        self.push(name, kind, Second::Type(to), Tail::Nothing)
    }

    /// An array.
    pub fn array(&mut self, element: u32, index: u32, count: u32) -> u32 {
        let tail = Tail::Array {
            element,
            index,
            count,
        };
        self.push(b"", TypeKind::Array, Second::Size(0), tail)
    }

    /// A structure or union. Members: name, type, bit offset, bits (0 = no bit field).
    pub fn composite(
        &mut self,
        kind: TypeKind,
        name: &[u8],
        size: u32,
        members: &[(&[u8], u32, u32, u8)],
    ) -> u32 {
        let flag = members.iter().any(|&(.., bits)| bits != 0);
        let pieces = members
            .iter()
            .map(|&(name, type_id, bit_offset, bits)| Piece {
                name: self.string(name),
                type_id,
                offset: bit_offset | u32::from(bits) << 24,
            })
            .collect();
        let id = self.push(name, kind, Second::Size(size), Tail::Members(pieces));
        if let Some(last) = self.types.last_mut() {
            last.flag = flag;
        }
        id
    }

    /// A function's type.
    pub fn proto(&mut self, returns: u32, parameters: &[(&[u8], u32)]) -> u32 {
        let parameters = parameters
            .iter()
            .map(|&(name, id)| (self.string(name), id))
            .collect();
        self.push(
            b"",
            TypeKind::FuncProto,
            Second::Type(returns),
            Tail::Parameters(parameters),
        )
    }

    /// The raw form of types that stand alone.
    pub fn finish(&self) -> Vec<u8> {
        self.bytes(0, 1, &[0])
    }

    /// The raw form of a module's types on top of `base`, which must be complete.
    pub fn finish_on(&self, base: &Self) -> Vec<u8> {
        self.bytes(base.types.len() as u32, base.strings.len() as u32 + 1, &[])
    }

    fn bytes(&self, types_below: u32, strings_below: u32, first: &[u8]) -> Vec<u8> {
        let places = Places {
            types_below,
            strings_below,
        };
        let words = self.types.iter().flat_map(|written| places.words(written));
        let types: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        let (types_len, strings_len) = (
            types.len() as u32,
            (first.len() + self.strings.len()) as u32,
        );
        let mut out = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, types_len, types_len, strings_len] {
            out.extend(word.to_le_bytes());
        }
        out.extend(types);
        out.extend(first);
        out.extend(&self.strings);
        out
    }
}

/// Turns a builder's references into final ones.
#[derive(Clone, Copy)]
struct Places {
    types_below: u32,
    strings_below: u32,
}

impl Places {
    fn id(self, id: u32) -> u32 {
        if id & OWN == 0 {
            id
        } else {
            self.types_below + (id & !OWN)
        }
    }

    fn name(self, name: u32) -> u32 {
        if name == 0 {
            0
        } else {
            self.strings_below + name - 1
        }
    }

    fn words(self, written: &Written) -> Vec<u32> {
        let vlen = match &written.tail {
            Tail::Members(members) => members.len(),
            Tail::Parameters(parameters) => parameters.len(),
            _ => 0,
        };
        let info =
            u32::from(written.flag) << 31 | (written.kind as u32) << 24 | u32::from(vlen as u16);
        let second = match written.second {
            Second::Size(size) => size,
            Second::Type(id) => self.id(id),
        };
        let mut words = vec![self.name(written.name), info, second];
        match &written.tail {
            Tail::Nothing => {}
            Tail::Word(word) => words.push(*word),
            Tail::Array {
                element,
                index,
                count,
            } => words.extend([self.id(*element), self.id(*index), *count]),
            Tail::Members(members) => {
                words.extend(members.iter().flat_map(|piece| {
                    [self.name(piece.name), self.id(piece.type_id), piece.offset]
                }));
            }
            Tail::Parameters(parameters) => words.extend(
                parameters
                    .iter()
                    .flat_map(|&(name, id)| [self.name(name), self.id(id)]),
            ),
        }
        words
    }
}
