//! Any bytes as a kernel's BTF, and as a module's on top of it: no panic, no endless walk, no memory beyond the input's.

#![no_main]

use std::path::Path;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use observer::kernel::btf::{Btf, resolve, trim};
use observer::kernel::congestion::CcLayouts;

fuzz_target!(|bytes: &[u8]| {
    // The first two bytes say where the module begins.
    let Some((at, bytes)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let (base, module) = bytes.split_at(bytes.len().min(usize::from(u16::from_le_bytes(*at))));
    let Ok(base) = Btf::parse(base.to_vec()) else {
        return;
    };
    let base = Arc::new(base);
    let _ = resolve(&base);
    let mut layouts = CcLayouts::in_dir(Arc::clone(&base), Path::new(""));
    for name in ["bbr", "cubic", "dctcp"] {
        if let Ok(layout) = layouts.layout(0, name, None) {
            let _ = layout.decode(&[u64::MAX; 18], u32::MAX);
        }
    }
    let module = Btf::parse_split(module.to_vec(), Arc::clone(&base));
    let _ = trim::trim(&base, &module.into_iter().collect::<Vec<_>>());
});
