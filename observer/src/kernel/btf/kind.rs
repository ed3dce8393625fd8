//! The kinds of types that BTF knows (`include/uapi/linux/btf.h`).

/// `BTF_KIND_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TypeKind {
    Int = 1,
    Ptr = 2,
    Array = 3,
    Struct = 4,
    Union = 5,
    Enum = 6,
    Fwd = 7,
    Typedef = 8,
    Volatile = 9,
    Const = 10,
    Restrict = 11,
    Func = 12,
    FuncProto = 13,
    Var = 14,
    Datasec = 15,
    Float = 16,
    DeclTag = 17,
    TypeTag = 18,
    Enum64 = 19,
}

impl TypeKind {
    const ALL: [Self; 19] = [
        Self::Int,
        Self::Ptr,
        Self::Array,
        Self::Struct,
        Self::Union,
        Self::Enum,
        Self::Fwd,
        Self::Typedef,
        Self::Volatile,
        Self::Const,
        Self::Restrict,
        Self::Func,
        Self::FuncProto,
        Self::Var,
        Self::Datasec,
        Self::Float,
        Self::DeclTag,
        Self::TypeTag,
        Self::Enum64,
    ];

    pub(super) fn from_raw(kind: u8) -> Option<Self> {
        Self::ALL.get(usize::from(kind).checked_sub(1)?).copied()
    }

    /// Bytes that follow the common part, per element and altogether.
    pub(super) fn tail(self, vlen: usize) -> usize {
        match self {
            Self::Int | Self::Var | Self::DeclTag => 4,
            Self::Array => 12,
            Self::Struct | Self::Union | Self::Datasec | Self::Enum64 => 12 * vlen,
            Self::Enum | Self::FuncProto => 8 * vlen,
            _ => 0,
        }
    }

    /// Looked up by name.
    pub(super) fn indexed(self) -> bool {
        matches!(
            self,
            Self::Struct | Self::Union | Self::Typedef | Self::Func
        )
    }

    /// Says nothing about what lies in memory: typedef, const and the like.
    pub fn is_modifier(self) -> bool {
        matches!(
            self,
            Self::Typedef | Self::Volatile | Self::Const | Self::Restrict | Self::TypeTag
        )
    }
}
