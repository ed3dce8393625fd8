//! Cuts BTF down to what observer looks at: the types on the field table's paths, the hooks, the congestion controls'
//! structures. What is left resolves to the same layout as the whole and is small enough for a fixture.
//!
//! Members that no path meets are dropped, the others keep their offsets and the structures their sizes; what
//! pointers point to becomes a forward declaration, enums lose their values.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use observer_common::layout::FIELDS;
use observer_common::outcome::Program;

use super::parse::MAX_DEPTH;
use super::write::Builder;
use super::{Btf, BtfError, Type, TypeKind};

/// The private structures of the congestion controls that are decoded; kept with all their members.
const WHOLE: [&str; 3] = ["bbr", "bictcp", "dctcp"];

/// Trimmed BTF: of the kernel, and of its modules on top of it, in the order given.
#[derive(Debug)]
pub struct Trimmed {
    pub base: Vec<u8>,
    pub modules: Vec<Vec<u8>>,
}

/// Trims a kernel's BTF and that of some of its modules together.
pub fn trim(base: &Btf, modules: &[Btf]) -> Result<Trimmed, BtfError> {
    let mut below = Part::new(base);
    for name in FIELDS.iter().map(|row| row.root).chain(WHOLE) {
        for found in base.find(TypeKind::Struct, name) {
            below.copy(found.id, None, 0)?;
        }
    }
    for program in Program::ALL {
        for (kind, prefix) in [
            (TypeKind::Typedef, "btf_trace_"),
            (TypeKind::Func, "bpf_iter_"),
        ] {
            for found in base.find(kind, &format!("{prefix}{}", program.hook())) {
                below.copy_function(found)?;
            }
        }
    }
    let mut above = Vec::new();
    for module in modules {
        let mut part = Part::new(module);
        for name in WHOLE {
            for found in module.find_own(TypeKind::Struct, name) {
                part.copy(found.id, Some(&mut below), 0)?;
            }
        }
        above.push(part.out);
    }
    let base = &below.out;
    Ok(Trimmed {
        base: base.finish(),
        modules: above.iter().map(|module| module.finish_on(base)).collect(),
    })
}

/// One file's worth of types on their way out.
struct Part<'a> {
    btf: &'a Btf,
    out: Builder,
    /// Members met by the field table's paths, per structure.
    met: BTreeMap<u32, BTreeSet<u16>>,
    /// Where types went.
    copied: HashMap<u32, u32>,
    /// Where the forward declarations of structures went.
    declared: HashMap<u32, u32>,
}

impl<'a> Part<'a> {
    fn new(btf: &'a Btf) -> Self {
        let mut met = BTreeMap::<u32, BTreeSet<u16>>::new();
        for row in FIELDS {
            for root in btf.find(TypeKind::Struct, row.root) {
                for path in row.path.split('|') {
                    let mut note = |id, index| {
                        met.entry(id).or_default().insert(index);
                    };
                    // A path that this kernel does not have leaves nothing to keep.
                    let _ = btf.follow(root, path, &mut note);
                }
            }
        }
        for name in WHOLE {
            for found in btf.find(TypeKind::Struct, name) {
                met.entry(found.id).or_default().extend(0..found.vlen);
            }
        }
        Self {
            btf,
            out: Builder::default(),
            met,
            copied: HashMap::new(),
            declared: HashMap::new(),
        }
    }

    /// Copies a type and what it is made of. `below` takes what belongs to the base.
    fn copy(
        &mut self,
        id: u32,
        mut below: Option<&mut Part<'a>>,
        depth: u32,
    ) -> Result<u32, BtfError> {
        if depth > 2 * MAX_DEPTH {
            return Err(BtfError::TooDeep(id));
        }
        if id == 0 {
            return Ok(0);
        }
        if let Some(base) = below.as_deref_mut()
            && id < self.btf.first_id()
        {
            return Ok(Builder::id_in_base(base.copy(id, None, depth)?));
        }
        if let Some(&copied) = self.copied.get(&id) {
            return Ok(copied);
        }
        let found = self.btf.get(id)?;
        let (kind, name) = (found.kind, found.name);
        let copied = match kind {
            TypeKind::Int => {
                let (offset, bits) = found.int_bits().unwrap_or((0, 0));
                let signed = found.raw_tail().get(3).copied().unwrap_or(0);
                let encoding = u32::from(signed) << 24 | offset << 16 | bits;
                self.out.int(name, found.size_or_type, encoding)
            }
            TypeKind::Enum | TypeKind::Enum64 | TypeKind::Float => {
                self.out.sized(kind, name, found.size_or_type)
            }
            TypeKind::Ptr => {
                let to = self.declare(found.size_or_type, below, depth + 1)?;
                self.out.refer(kind, name, to)
            }
            TypeKind::Array => {
                let (element, count) = found.array().unwrap_or((0, 0));
                let element = self.copy(element, below, depth + 1)?;
                self.out.array(element, 0, count)
            }
            TypeKind::Struct | TypeKind::Union => self.copy_members(found, below, depth)?,
            _ if kind.is_modifier() => {
                let to = self.copy(found.size_or_type, below, depth + 1)?;
                self.out.refer(kind, name, to)
            }
            _ => self.out.refer(TypeKind::Fwd, name, 0),
        };
        self.copied.insert(id, copied);
        Ok(copied)
    }

    /// A structure with the members that are met; all of them where it may stand for an integer (`atomic_t`).
    fn copy_members(
        &mut self,
        found: Type<'a>,
        mut below: Option<&mut Part<'a>>,
        depth: u32,
    ) -> Result<u32, BtfError> {
        let met = self.met.get(&found.id).cloned().unwrap_or_default();
        let small = met.is_empty() && found.size_or_type <= 8;
        let mut members = Vec::new();
        for (index, member) in self.btf.members(found).enumerate() {
            if small || met.contains(&(index as u16)) {
                let to = self.copy(member.type_id, below.as_deref_mut(), depth + 1)?;
                members.push((member.name, to, member.bit_offset, member.bit_size));
            }
        }
        Ok(self
            .out
            .composite(found.kind, found.name, found.size_or_type, &members))
    }

    /// What a pointer points to: its name at most.
    fn declare(
        &mut self,
        id: u32,
        below: Option<&mut Part<'a>>,
        depth: u32,
    ) -> Result<u32, BtfError> {
        let found = match self.btf.strip(id)? {
            Some(found)
                if matches!(
                    found.kind,
                    TypeKind::Struct | TypeKind::Union | TypeKind::Fwd
                ) =>
            {
                found
            }
            Some(found) if found.kind == TypeKind::Int => return self.copy(found.id, below, depth),
            _ => return Ok(0),
        };
        if found.name.is_empty() {
            return Ok(0);
        }
        if let Some(&declared) = self.declared.get(&found.id) {
            return Ok(declared);
        }
        let declared = self.out.refer(TypeKind::Fwd, found.name, 0);
        self.declared.insert(found.id, declared);
        Ok(declared)
    }

    /// `btf_trace_X` with its pointer, or a function: with the parameters in either case.
    fn copy_function(&mut self, found: Type<'a>) -> Result<(), BtfError> {
        let pointer = self.btf.strip(found.size_or_type)?;
        let proto = match pointer {
            Some(pointer) if pointer.kind == TypeKind::Ptr => {
                self.btf.strip(pointer.size_or_type)?
            }
            other => other,
        };
        let Some(proto) = proto.filter(|proto| proto.kind == TypeKind::FuncProto) else {
            return Ok(());
        };
        let mut parameters = Vec::new();
        for (name, id) in self.btf.parameters(proto) {
            parameters.push((name, self.copy(id, None, 0)?));
        }
        let mut to = self.out.proto(0, &parameters);
        if found.kind == TypeKind::Typedef {
            to = self.out.refer(TypeKind::Ptr, b"", to);
        }
        self.out.refer(found.kind, found.name, to);
        Ok(())
    }
}
