//! Embeds the eBPF object that `cargo xtask build` made, or an empty stub when there is none yet; compiles the
//! recording's messages, and the schema that goes into the file for each.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    embed_programs(&out);
    compile_messages(&out);
}

fn embed_programs(out: &Path) {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // Always below the checkout's own target/, whatever CARGO_TARGET_DIR says: see xtask/src/checkout.rs.
    let object = workspace.join("target/bpf/observer.o");
    let embedded = out.join("observer.o");

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

/// By `protox`: nobody has to install `protoc`.
fn compile_messages(out: &Path) {
    println!("cargo::rerun-if-changed=proto");
    let mut set =
        protox::compile(["proto/recording.proto"], ["proto"]).expect("the messages compile");
    prost_build::Config::new()
        .out_dir(out)
        .compile_fds(set.clone())
        .expect("code for the messages");

    let file = set.file.first_mut().expect("one file");
    file.source_code_info = None;
    let mut schemas = String::from(
        "/// Message name → its schema: a `FileDescriptorSet`.\npub const SCHEMAS: &[(&str, &[u8])] = &[\n",
    );
    for message in &file.message_type {
        let schema = FileDescriptorSet {
            file: vec![reduced(file, message.name())],
        };
        writeln!(
            schemas,
            "    ({:?}, &{:?}),",
            message.name(),
            schema.encode_to_vec()
        )
        .expect("a String takes it");
    }
    schemas.push_str("];\n");
    fs::write(out.join("schemas.rs"), schemas).expect("OUT_DIR is writable");
}

/// `file` with nothing but the message `root` and what its fields name.
fn reduced(file: &FileDescriptorProto, root: &str) -> FileDescriptorProto {
    let mut needed = BTreeSet::new();
    let mut open = vec![root.to_owned()];
    while let Some(name) = open.pop() {
        let message = file.message_type.iter().find(|m| m.name() == name);
        if needed.insert(name) {
            open.extend(message.into_iter().flat_map(named));
        }
    }
    let mut reduced = file.clone();
    reduced.message_type.retain(|m| needed.contains(m.name()));
    reduced.enum_type.retain(|e| needed.contains(e.name()));
    reduced
}

/// The types that the fields of `message` are of, without the package.
fn named(message: &DescriptorProto) -> Vec<String> {
    let types = message.field.iter().filter_map(|f| f.type_name.as_deref());
    types
        .filter_map(|name| name.rsplit('.').next())
        .map(str::to_owned)
        .collect()
}
