//! The kernel's own type information (BTF): read from raw bytes, walked, and turned into offsets for the programs.
//!
//! The verifier checks bounds, not identity, so this decides *which* field is read. Everything here is pure: bytes
//! in, offsets or an error out, whatever the bytes. Format: `Documentation/bpf/btf.rst`, `include/uapi/linux/btf.h`.

mod hooks;
mod kind;
mod load;
mod parse;
mod path;
mod resolve;
pub mod trim;
pub mod write;

pub use hooks::{Argument, Hook, HookFit};
pub use kind::TypeKind;
pub use load::SYS_KERNEL_BTF;
pub use parse::{Btf, BtfError, Member, Type};
pub use path::{Place, PlaceError};
pub use resolve::{Absent, Problem, ResolveError, Resolved, resolve};
