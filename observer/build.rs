//! Embeds the eBPF object that `cargo xtask build` made, or an empty stub when there is none yet.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

fn main() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // Always below the checkout's own target/, whatever CARGO_TARGET_DIR says: see xtask/src/checkout.rs.
    let object = workspace.join("target/bpf/observer.o");
    let embedded =
        PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("observer.o");

    if !object.is_file() {
        leave_stub(&object);
    }
    let sources = ["observer-ebpf/src", "observer-common/src"].map(|dir| workspace.join(dir));
    for path in sources.iter().chain([&object]) {
        println!("cargo::rerun-if-changed={}", path.display());
    }

    let bytes = fs::read(&object).unwrap_or_default();
    if bytes.is_empty() {
        println!(
            "cargo::warning=no eBPF object: this observer cannot load its programs until `cargo xtask build` has made one"
        );
    } else if modified(&object) < sources.iter().filter_map(|dir| newest(dir)).max() {
        println!(
            "cargo::warning=the eBPF object may be older than its source: `cargo xtask build` makes it anew"
        );
    }
    fs::write(&embedded, bytes).expect("OUT_DIR is writable");
}

/// An empty file from long ago in the object's place. Cargo runs a build script again and again while a
/// file it watches is missing, and every crate that depends on it with it.
fn leave_stub(object: &Path) {
    let Some(dir) = object.parent() else { return };
    // Where this fails nothing is lost but that time.
    let _ = fs::create_dir_all(dir)
        .and_then(|()| File::create_new(object))
        .and_then(|stub| stub.set_modified(SystemTime::UNIX_EPOCH));
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|m| m.modified()).ok()
}

/// The latest change of a file below `dir`.
fn newest(dir: &Path) -> Option<SystemTime> {
    fs::read_dir(dir)
        .ok()?
        .flatten()
        .filter_map(|entry| {
            let path = entry.path();
            if path.is_dir() {
                newest(&path)
            } else {
                modified(&path)
            }
        })
        .max()
}
