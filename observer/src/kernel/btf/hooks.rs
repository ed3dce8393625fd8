//! The hooks of the programs: whether this kernel has them and whether their arguments are what the programs take.
//!
//! A BTF tracepoint `X` is described by the typedef `btf_trace_X`: a pointer to a function whose first parameter
//! (the tracepoint's own data) is not passed on. An iterator `X` is the function `bpf_iter_X`.

use std::fmt;

use observer_common::outcome::Program;

use super::resolve::integer;
use super::{Btf, BtfError, TypeKind};

/// An argument of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A pointer to the structure of this name.
    Pointer(String),
    /// An integer or enum of so many bytes.
    Integer(u32),
    Other,
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pointer(to) => write!(f, "{to} *"),
            Self::Integer(bytes) => write!(f, "u{}", bytes.saturating_mul(8)),
            Self::Other => f.write_str("?"),
        }
    }
}

/// Whether a program can sit on its hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookFit {
    Fits,
    /// The kernel does not have it.
    Missing,
    /// Its arguments are not what the program takes.
    Misfit,
}

/// One hook in this kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    pub program: Program,
    pub fit: HookFit,
    /// By position; empty for an iterator.
    pub arguments: Vec<Argument>,
}

impl Hook {
    /// Position of the argument `err` of `tcp_retransmit_skb`, there since 6.15 or so; 0 = none.
    pub fn retransmit_err_arg(&self) -> u32 {
        let has = self.program == Program::Retransmit
            && self.fit == HookFit::Fits
            && self.arguments.get(2) == Some(&Argument::Integer(4));
        if has { 2 } else { 0 }
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hook = self.program.hook();
        match self.fit {
            HookFit::Fits => write!(f, "hook {hook}: present"),
            HookFit::Missing => write!(f, "hook {hook}: the kernel does not have it"),
            HookFit::Misfit => {
                let found: Vec<_> = self.arguments.iter().map(Argument::to_string).collect();
                write!(f, "hook {hook}: its arguments are ({})", found.join(", "))
            }
        }
    }
}

/// What the programs take by position. More behind is no harm.
fn wanted(program: Program) -> &'static [Wanted] {
    use Wanted::{Integer, Pointer};
    match program {
        Program::Probe | Program::Retransmit => &[Pointer("sock"), Pointer("sk_buff")],
        Program::RetransmitSynack => &[Pointer("sock"), Pointer("request_sock")],
        Program::SetState => &[Pointer("sock"), Integer(4), Integer(4)],
        Program::Destroy => &[Pointer("sock")],
        Program::CongState => &[Pointer("sock"), Integer(1)],
        Program::Sweep | Program::Owners => &[],
    }
}

#[derive(Clone, Copy, Debug)]
enum Wanted {
    Pointer(&'static str),
    Integer(u32),
}

impl Wanted {
    fn is(self, found: &Argument) -> bool {
        match (self, found) {
            (Self::Pointer(wanted), Argument::Pointer(found)) => wanted == found,
            (Self::Integer(wanted), Argument::Integer(found)) => wanted == *found,
            _ => false,
        }
    }
}

/// The hooks of all programs, in the order of [`Program::ALL`].
pub(super) fn hooks(btf: &Btf) -> Vec<Hook> {
    Program::ALL.map(|program| hook(btf, program)).to_vec()
}

fn hook(btf: &Btf, program: Program) -> Hook {
    if program.is_iterator() {
        let name = format!("bpf_iter_{}", program.hook());
        let exists = btf.find(TypeKind::Func, &name).next().is_some();
        return Hook {
            program,
            fit: if exists {
                HookFit::Fits
            } else {
                HookFit::Missing
            },
            arguments: Vec::new(),
        };
    }
    let (fit, arguments) = match tracepoint(btf, program.hook()) {
        Some(arguments) => {
            let wanted = wanted(program);
            let fits = arguments.len() >= wanted.len()
                && wanted
                    .iter()
                    .zip(&arguments)
                    .all(|(wanted, found)| wanted.is(found));
            (
                if fits { HookFit::Fits } else { HookFit::Misfit },
                arguments,
            )
        }
        None => (HookFit::Missing, Vec::new()),
    };
    Hook {
        program,
        fit,
        arguments,
    }
}

/// No tracepoint has more arguments (`MAX_BPF_FUNC_ARGS`, `include/linux/bpf.h`).
const MAX_ARGUMENTS: usize = 12;

/// The arguments of a BTF tracepoint; `None` = the kernel does not have it.
fn tracepoint(btf: &Btf, name: &str) -> Option<Vec<Argument>> {
    let name = format!("btf_trace_{name}");
    let proto = btf.find(TypeKind::Typedef, &name).find_map(|found| {
        let pointer = btf.strip(found.size_or_type).ok()??;
        let proto = btf.strip((pointer.kind == TypeKind::Ptr).then_some(pointer.size_or_type)?);
        proto
            .ok()?
            .filter(|proto| proto.kind == TypeKind::FuncProto)
    })?;
    let parameters = btf.parameters(proto).skip(1).take(MAX_ARGUMENTS);
    Some(
        parameters
            .map(|(_, id)| argument(btf, id).unwrap_or(Argument::Other))
            .collect(),
    )
}

fn argument(btf: &Btf, id: u32) -> Result<Argument, BtfError> {
    if let Some(bytes) = integer(btf, id)? {
        return Ok(Argument::Integer(bytes));
    }
    let Some(pointer) = btf.strip(id)?.filter(|found| found.kind == TypeKind::Ptr) else {
        return Ok(Argument::Other);
    };
    let to = btf.strip(pointer.size_or_type)?.filter(|to| {
        let structure = matches!(to.kind, TypeKind::Struct | TypeKind::Union | TypeKind::Fwd);
        structure && !to.name.is_empty()
    });
    Ok(to.map_or(Argument::Other, |to| {
        Argument::Pointer(String::from_utf8_lossy(to.name).into_owned())
    }))
}
