//! What a column can hold, and the numbers that enumerations have in the file.

use crate::event::{
    Bbr, CaState, Cause, CcState, Cubic, Dctcp, NoteKind, Origin, PacingStatus, Phase,
    RetransmitKind, SubPhase, TcpState,
};
use crate::units::Limit;

/// A quantity in one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    Absent,
    Unlimited,
    Value(u64),
}

/// A type that a column can hold.
pub trait Quantity: Copy + PartialEq {
    fn cell(self) -> Cell;
    /// `None` = no such value: of a newer version, or damaged.
    fn of(cell: Cell) -> Option<Self>;
}

macro_rules! number {
    ($($type:ty)*) => { $(
        impl Quantity for $type {
            #[inline]
            fn cell(self) -> Cell {
                Cell::Value(u64::from(self))
            }
            #[inline]
            fn of(cell: Cell) -> Option<Self> {
                match cell {
                    Cell::Value(value) => <$type>::try_from(value).ok(),
                    Cell::Absent | Cell::Unlimited => None,
                }
            }
        }
    )* };
}
number!(u8 u32 u64);

impl<T: Quantity> Quantity for Option<T> {
    #[inline]
    fn cell(self) -> Cell {
        self.map_or(Cell::Absent, T::cell)
    }
    #[inline]
    fn of(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Absent => Some(None),
            some => T::of(some).map(Some),
        }
    }
}

impl<T: Quantity> Quantity for Limit<T> {
    #[inline]
    fn cell(self) -> Cell {
        match self {
            Self::Finite(value) => value.cell(),
            Self::Unlimited => Cell::Unlimited,
        }
    }
    #[inline]
    fn of(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Unlimited => Some(Self::Unlimited),
            some => T::of(some).map(Self::Finite),
        }
    }
}

/// An enumeration: its numbers in the file.
macro_rules! words {
    ($type:ty { $($variant:pat = $number:literal => $made:expr),* $(,)? }) => {
        impl Quantity for $type {
            #[inline]
            fn cell(self) -> Cell {
                Cell::Value(match self { $($variant => $number),* })
            }
            #[inline]
            fn of(cell: Cell) -> Option<Self> {
                match cell {
                    $(Cell::Value($number) => Some($made),)*
                    _ => None,
                }
            }
        }
    };
    ($type:ident: $($variant:ident = $number:literal),* $(,)?) => {
        words!($type { $($type::$variant = $number => $type::$variant),* });
    };
}
words!(bool { false = 0 => false, true = 1 => true });
words!(Origin: Ebpf = 1, Diag = 2, Capture = 3);
words!(Cause: Ack = 1, Sweep = 2, Close = 3);
words!(PacingStatus: None = 0, Internal = 1, Fq = 2);
words!(Phase: Startup = 1, Drain = 2, ProbeBw = 3, ProbeRtt = 4);
words!(SubPhase: Up = 1, Down = 2, Cruise = 3, Refill = 4);
words!(Algorithm: Bbr = 1, Cubic = 2, Dctcp = 3);
words!(RetransmitKind: Other = 0, Fast = 1, Rto = 2, SlowStart = 3, Tlp = 4, Syn = 5, Synack = 6);
words!(NoteKind: Info = 0, Attempt = 1, Degraded = 2);

/// Whose private words a sample has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Bbr,
    Cubic,
    Dctcp,
}

impl Algorithm {
    pub fn whose(state: &CcState) -> Self {
        match state {
            CcState::Bbr(_) => Self::Bbr,
            CcState::Cubic(_) => Self::Cubic,
            CcState::Dctcp(_) => Self::Dctcp,
        }
    }

    pub fn empty(self) -> CcState {
        match self {
            Self::Bbr => CcState::Bbr(Bbr::default()),
            Self::Cubic => CcState::Cubic(Cubic::default()),
            Self::Dctcp => CcState::Dctcp(Dctcp::default()),
        }
    }
}

/// A state without a name is put at this plus its number, so that it stays what it was when a later version knows it.
const UNKNOWN: u64 = 256;

/// Splits a state's number: the kernel's, or one without a name.
fn state_number<T>(cell: Cell, known: fn(u8) -> T, unknown: fn(u8) -> T) -> Option<T> {
    let Cell::Value(number) = cell else {
        return None;
    };
    match number.checked_sub(UNKNOWN) {
        Some(number) => u8::try_from(number).ok().map(unknown),
        None => u8::try_from(number).ok().map(known),
    }
}

impl Quantity for TcpState {
    #[inline]
    fn cell(self) -> Cell {
        Cell::Value(match self {
            Self::Established => 1,
            Self::SynSent => 2,
            Self::SynRecv => 3,
            Self::FinWait1 => 4,
            Self::FinWait2 => 5,
            Self::TimeWait => 6,
            Self::Close => 7,
            Self::CloseWait => 8,
            Self::LastAck => 9,
            Self::Listen => 10,
            Self::Closing => 11,
            Self::NewSynRecv => 12,
            Self::BoundInactive => 13,
            Self::Unknown(number) => UNKNOWN + u64::from(number),
        })
    }
    fn of(cell: Cell) -> Option<Self> {
        state_number(cell, Self::from_kernel, Self::Unknown)
    }
}

impl Quantity for CaState {
    #[inline]
    fn cell(self) -> Cell {
        Cell::Value(match self {
            Self::Open => 0,
            Self::Disorder => 1,
            Self::Cwr => 2,
            Self::Recovery => 3,
            Self::Loss => 4,
            Self::Unknown(number) => UNKNOWN + u64::from(number),
        })
    }
    fn of(cell: Cell) -> Option<Self> {
        state_number(cell, Self::from_kernel, Self::Unknown)
    }
}

/// The number of an enumeration's value in a message.
pub fn to_number<T: Quantity>(value: T) -> i32 {
    match value.cell() {
        Cell::Value(number) => i32::try_from(number).unwrap_or(0),
        Cell::Absent | Cell::Unlimited => 0,
    }
}

/// Back from it.
pub fn from_number<T: Quantity>(number: i32) -> Option<T> {
    T::of(Cell::Value(u64::try_from(number).ok()?))
}
