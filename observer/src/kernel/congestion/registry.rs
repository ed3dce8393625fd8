//! Finds the layout of an algorithm in the type information of the code that has it: the kernel's, or a module's,
//! which may have been loaded a moment ago.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::{CcLayout, Family};
use crate::kernel::btf::{Btf, BtfError, SYS_KERNEL_BTF, TypeKind};

/// Why an algorithm's private words stay undecoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecoded {
    #[error("no private state of {0} is known to observer")]
    NotKnown(String),
    #[error("the type information of {home} has no struct {structure}")]
    NoStructure {
        home: String,
        structure: &'static str,
    },
    #[error(
        "struct {structure} of {home} is of no version known to observer: please report its members"
    )]
    NoVersion {
        home: String,
        structure: &'static str,
    },
    #[error(
        "the kernel has several different structs {structure} and none is known to be this algorithm's"
    )]
    Ambiguous { structure: &'static str },
    #[error("{0}")]
    Btf(#[from] BtfError),
}

/// Programs in BPF can register algorithms without end; old ones are forgotten then.
const MAX_KNOWN: usize = 1024;

/// The names under which kernels have a BBR built in; a module may take any that begins with `bbr`.
const BUILT_IN_BBRS: [&str; 5] = ["bbr", "bbr1", "bbr2", "bbr3", "bbrplus"];

/// The layouts found so far, by the address of the algorithm's `tcp_congestion_ops`.
///
/// A new address is looked up anew, whatever is known under the same name: the module may have been replaced.
#[derive(Debug)]
pub struct CcLayouts {
    base: Arc<Btf>,
    dir: PathBuf,
    known: HashMap<u64, Known>,
}

#[derive(Debug)]
struct Known {
    name: String,
    module: Option<String>,
    found: Result<Arc<CcLayout>, Undecoded>,
}

impl CcLayouts {
    /// On top of the running kernel's types.
    pub fn new(base: Arc<Btf>) -> Self {
        Self::in_dir(base, SYS_KERNEL_BTF)
    }

    /// With the modules' BTF in `dir`.
    pub fn in_dir(base: Arc<Btf>, dir: impl Into<PathBuf>) -> Self {
        Self {
            base,
            dir: dir.into(),
            known: HashMap::new(),
        }
    }

    /// The layout of the private words of the algorithm `name` in `module` (`None` = built into the kernel), whose
    /// `tcp_congestion_ops` is at `ops`.
    ///
    /// An owner that is neither (a program in BPF) must not be asked for.
    pub fn layout(
        &mut self,
        ops: u64,
        name: &str,
        module: Option<&str>,
    ) -> Result<Arc<CcLayout>, Undecoded> {
        if let Some(known) = self.known.get(&ops)
            && known.name == name
            && known.module.as_deref() == module
        {
            return known.found.clone();
        }
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        let found = self.look_up(name, module).map(Arc::new);
        let known = Known {
            name: name.to_owned(),
            module: module.map(str::to_owned),
            found: found.clone(),
        };
        self.known.insert(ops, known);
        found
    }

    fn look_up(&self, name: &str, module: Option<&str>) -> Result<CcLayout, Undecoded> {
        let family = Family::of(name).ok_or_else(|| Undecoded::NotKnown(name.to_owned()))?;
        match module {
            // An algorithm in BPF has no module either, and its private structure is its own.
            None if family == Family::Bbr && !BUILT_IN_BBRS.contains(&name) => {
                Err(Undecoded::NotKnown(name.to_owned()))
            }
            None => the_one(family, &self.base, "the kernel"),
            Some(module) => the_one(family, &self.base.module_in(&self.dir, module)?, module),
        }
    }
}

/// The layout of the family's structure among the own types of `btf`, if there is only one.
fn the_one(family: Family, btf: &Btf, home: &str) -> Result<CcLayout, Undecoded> {
    let structure = family.structure();
    let (mut one, mut seen) = (None, false);
    for found in btf.find_own(TypeKind::Struct, structure) {
        seen = true;
        match (CcLayout::new(family, btf, found)?, &one) {
            // BIC's is no CUBIC's, but any other BBR's could be the one.
            (None, _) if family != Family::Bbr => {}
            (Some(layout), None) => one = Some(Some(layout)),
            (Some(layout), Some(Some(other))) if *other == layout => {}
            (None, None) => one = Some(None),
            (None, Some(None)) => {}
            _ => return Err(Undecoded::Ambiguous { structure }),
        }
    }
    let home = home.to_owned();
    match one {
        Some(Some(layout)) => Ok(layout),
        _ if seen => Err(Undecoded::NoVersion { home, structure }),
        _ => Err(Undecoded::NoStructure { home, structure }),
    }
}
