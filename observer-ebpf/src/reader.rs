//! Loads of kernel fields. Each stands at a stand-in offset (`observer_common::layout::Standin`) that user space replaces
//! by the running kernel's before the programs are loaded.
//!
//! The verifier checks a load at a constant offset from a typed pointer against the kernel's own types. A load of a
//! field that this kernel lacks becomes a plain 0; user space knows the layout and turns that into «unknown».

use core::ptr::read_volatile;

use aya_ebpf::helpers::generated;
use observer_common::config::{ProbeConfig, TaskPlaces};
use observer_common::layout::{ABSENT, Field, Layout, Standin};

#[unsafe(no_mangle)]
static LAYOUT: Layout = Layout::EMPTY;

#[unsafe(no_mangle)]
static CONFIG: ProbeConfig = ProbeConfig::DEFAULT;

macro_rules! config {
    ($name:ident: $type:ty) => {
        #[inline(always)]
        pub fn $name() -> $type {
            // SAFETY: a valid static; volatile, because user space writes it before load.
            unsafe { read_volatile(&raw const CONFIG.$name) }
        }
    };
}

config!(netns: u32);
config!(briefs_per_cpu: u32);
config!(ca_words: u32);
config!(retransmit_err_arg: u32);
config!(task: TaskPlaces);

/// Where a field lies; [`ABSENT`] = nowhere.
#[inline(always)]
pub fn offset(field: Field) -> u16 {
    // SAFETY: in bounds of a static array.
    unsafe { read_volatile(&raw const LAYOUT.offset[field as usize]) }
}

/// A typed kernel pointer as the verifier sees it: a structure, not memory of ours.
#[derive(Clone, Copy)]
pub struct Kernel(*const u8);

impl Kernel {
    /// `pointer` comes from a hook's argument, a cast helper or a field.
    #[inline(always)]
    pub fn new(pointer: *const u8) -> Option<Self> {
        if pointer.is_null() {
            None
        } else {
            Some(Self(pointer))
        }
    }

    #[inline(always)]
    pub fn as_ptr(self) -> *mut core::ffi::c_void {
        self.0.cast_mut().cast()
    }

    /// The load itself: one instruction, whatever becomes of its offset.
    #[inline(always)]
    fn load<T: Copy>(self, standin: usize) -> T {
        // SAFETY: the verifier checks the place against the kernel's types; a fault reads as 0.
        unsafe { read_volatile(self.0.wrapping_add(standin).cast::<T>()) }
    }

    #[inline(always)]
    pub fn u8(self, field: Field) -> u8 {
        self.load(Standin::load(field, 0))
    }

    #[inline(always)]
    pub fn u16(self, field: Field) -> u16 {
        self.load(Standin::load(field, 0))
    }

    #[inline(always)]
    pub fn u32(self, field: Field) -> u32 {
        self.load(Standin::load(field, 0))
    }

    #[inline(always)]
    pub fn u64(self, field: Field) -> u64 {
        self.load(Standin::load(field, 0))
    }

    /// Element `index` of an array of `u32` that starts at the field.
    #[inline(always)]
    pub fn u32_at(self, field: Field, index: usize) -> u32 {
        self.load(Standin::load(field, index))
    }

    /// Element `index` of an array of `u64` that starts at the field.
    #[inline(always)]
    pub fn u64_at(self, field: Field, index: usize) -> u64 {
        self.load(Standin::load(field, index * 2))
    }

    /// A field of `TCP_SKB_CB`, which lies in `sk_buff.cb`.
    #[inline(always)]
    pub fn in_cb<T: Copy>(self, field: Field) -> T {
        self.load(Standin::in_cb(field))
    }

    /// Sixteen bytes that typed loads may not read as numbers (`task_struct.comm`).
    #[inline(always)]
    pub fn copy_16(self, field: Field, out: &mut [u8; 16]) {
        *out = [0; 16];
        let offset = offset(field);
        if offset != ABSENT {
            let place = self.0.wrapping_add(offset as usize);
            // SAFETY: the helper checks both ends; on a fault the zeroes stay.
            unsafe { generated::bpf_probe_read_kernel(out.as_mut_ptr().cast(), 16, place.cast()) };
        }
    }

    /// A bit field, or the low byte of an integer.
    #[inline(always)]
    pub fn bits(self, field: Field) -> u8 {
        let byte: u8 = self.load(Standin::load(field, 0));
        // Neither is a load in the end.
        let shift: u8 = self.load(Standin::shift(field));
        let mask: u8 = self.load(Standin::mask(field));
        (byte >> (shift & 7)) & mask
    }

    /// The object a pointer field leads to.
    #[inline(always)]
    pub fn follow(self, field: Field) -> Option<Self> {
        Self::new(self.load(Standin::load(field, 0)))
    }

    /// A pointer field as a number, to compare or to send.
    #[inline(always)]
    pub fn address(self, field: Field) -> u64 {
        self.u64(field)
    }
}

/// The `n`th argument of a hook. BTF tracepoints and iterators hand over an array of 64-bit words.
#[inline(always)]
pub fn argument(context: *const u64, n: usize) -> u64 {
    // SAFETY: user space checked the hook's argument list before loading.
    unsafe { read_volatile(context.wrapping_add(n)) }
}

/// The `n`th argument where it is a pointer to a kernel object.
#[inline(always)]
pub fn object(context: *const u64, n: usize) -> Option<Kernel> {
    // SAFETY: as in `argument`; read as a pointer so that the verifier's type stays with it.
    Kernel::new(unsafe { read_volatile(context.wrapping_add(n).cast::<*const u8>()) })
}
