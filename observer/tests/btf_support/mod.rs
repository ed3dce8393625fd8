//! The BTF fixtures, read.

use std::path::PathBuf;
use std::sync::Arc;

use observer::kernel::btf::Btf;

/// Bytes of the fixture `name` of a kernel.
pub fn raw(name: &str, version: &str) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/fixtures/btf"]
        .iter()
        .collect();
    std::fs::read(path.join(format!("{name}-{version}.btf"))).unwrap()
}

/// A kernel's types.
pub fn kernel(version: &str) -> Arc<Btf> {
    Arc::new(Btf::parse(raw("vmlinux", version)).unwrap())
}

/// A module's types on top of its kernel's.
#[allow(
    dead_code,
    reason = "not every test that reads fixtures reads modules'"
)]
pub fn module(base: &Arc<Btf>, version: &str, name: &str) -> Btf {
    Btf::parse_split(raw(name, version), Arc::clone(base)).unwrap()
}
