//! The eBPF object: built by cargo directly, and left where `observer/build.rs` looks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::checkout::Checkout;
use crate::machine::Machine;
use crate::step::{read, run, say};
use crate::toolchain::{self, Toolchain};

const TARGET: &str = "bpfel-unknown-none";

/// Sets up where needed, builds the object, and puts it in its place.
pub fn ensure(checkout: &Checkout, machine: &Machine) -> Result<()> {
    ensure_bin(checkout, machine, "observer", &checkout.object())
}

/// As [`ensure`], the object with the parts that `bench kernel` measures.
pub fn ensure_parts(checkout: &Checkout, machine: &Machine, place: &Path) -> Result<()> {
    ensure_bin(checkout, machine, "bench", place)
}

fn ensure_bin(checkout: &Checkout, machine: &Machine, bin: &str, object: &Path) -> Result<()> {
    let toolchain = toolchain::ensure(checkout, machine)?;
    // An empty one is the stub of observer/build.rs.
    if fs::metadata(object).map_or(0, |m| m.len()) == 0 {
        say(format_args!("building the eBPF object by {toolchain}"));
    }
    let mut build = cargo(checkout, &toolchain, "build", &checkout.root)?;
    build.args(["--package", "observer-ebpf", "--bin", bin, "--locked"]);
    run(&mut build)?;
    place(&built(checkout, bin), object)
}

/// A program of a few lines through the same compiler, `core` and linker: tells a toolchain that does
/// not work from programs of ours that do not compile. `core` is built here once, for both.
pub fn probe(checkout: &Checkout, toolchain: &Toolchain) -> Result<()> {
    let dir = checkout.own().join("probe");
    fs::create_dir_all(dir.join("src"))?;
    fs::write(
        dir.join("Cargo.toml"),
        "[package]\nname = \"probe\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n",
    )?;
    fs::write(dir.join("src/main.rs"), PROBE)?;
    let mut build = cargo(checkout, toolchain, "build", &dir)?;
    // Not offline: cargo looks up all that `std` is locked to, also where only `core` is built, and on a machine that
    // never built `std` from source the registry has to tell.
    // Quiet, and its errors in the reason given: it fails wherever a way does not work.
    read(&mut build).map(drop)
}

const PROBE: &str = r#"#![no_std]
#![no_main]

#[unsafe(no_mangle)]
#[unsafe(link_section = "socket")]
pub extern "C" fn probe(context: *const u32) -> u32 {
    u32::from(!context.is_null())
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
"#;

/// Clippy over the programs themselves, which only the BPF target compiles. `None` where the
/// compiler in use for them has no clippy beside it.
pub fn clippy(checkout: &Checkout, machine: &Machine) -> Result<Option<Command>> {
    let toolchain = toolchain::ensure(checkout, machine)?;
    let bin = toolchain.rustc.sysroot.join("bin");
    if !bin.join("cargo-clippy").is_file() || !bin.join("clippy-driver").is_file() {
        return Ok(None);
    }
    let mut command = cargo(checkout, &toolchain, "clippy", &checkout.root)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path)))?;
    command
        .env("PATH", path)
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .args(["--package", "observer-ebpf", "--bins", "--locked"])
        .args(["--", "--deny", "warnings"]);
    Ok(Some(command))
}

/// `cargo VERB` for the BPF target, independent of what the caller's environment and any
/// `.cargo/config.toml` say about flags, wrappers, profiles and directories.
fn cargo(checkout: &Checkout, toolchain: &Toolchain, verb: &str, dir: &Path) -> Result<Command> {
    let mut command = Command::new(&toolchain.cargo);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_build_setting) {
            command.env_remove(name);
        }
    }
    let flags = [
        "-C".into(),
        format!("linker={}", toolchain.linker.path.display()),
        "-C".into(),
        "link-arg=--btf".into(),
        "-C".into(),
        // The BTF of the object's maps and programs is made out of debug information.
        "debuginfo=2".to_owned(),
    ];
    command
        .current_dir(dir)
        .args([
            verb,
            "--quiet",
            "--release",
            "-Z",
            "build-std=core",
            "--target",
            TARGET,
        ])
        .arg("--target-dir")
        .arg(checkout.bpf())
        .env("RUSTC", &toolchain.rustc.path)
        // `-Z build-std` and the BPF target are unstable; this makes a stable compiler do.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTC_WRAPPER", "")
        .env("RUSTC_WORKSPACE_WRAPPER", "")
        // Comes before every other source of flags, and may contain spaces.
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        // The workspace's release profile is the host's: a BPF program has nothing to unwind with.
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "2")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("LD_LIBRARY_PATH", llvm_dir(checkout, toolchain)?);
    Ok(command)
}

/// Variables that change what cargo builds or where; the network and home ones stay.
fn is_build_setting(name: &str) -> bool {
    const NAMES: [&str; 9] = [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTC",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO_INCREMENTAL",
        "CARGO_TARGET_DIR",
        "RUSTUP_TOOLCHAIN",
        "LD_LIBRARY_PATH",
    ];
    const PREFIXES: [&str; 5] = [
        "CARGO_BUILD_",
        "CARGO_TARGET_",
        "CARGO_PROFILE_",
        "CARGO_UNSTABLE_",
        "CARGO_PKG_",
    ];
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// A directory with nothing in it but the LLVM the compiler itself uses: bpf-linker takes the first
/// `libLLVM*` it meets, and a distribution's library directory may have several.
fn llvm_dir(checkout: &Checkout, toolchain: &Toolchain) -> Result<PathBuf> {
    let libraries = read(Command::new("ldd").arg(&toolchain.rustc.path)).unwrap_or_default();
    let Some(llvm) = llvm_library(&libraries) else {
        // Linked some other way; rustup's layout is the best guess, and the probe judges it.
        return Ok(toolchain.rustc.sysroot.join("lib"));
    };
    let dir = checkout.own().join("llvm");
    let link = dir.join("libLLVM.so");
    if fs::read_link(&link).ok().as_deref() != Some(llvm) {
        fs::create_dir_all(&dir)?;
        fs::remove_file(&link).ok();
        std::os::unix::fs::symlink(llvm, &link)
            .with_context(|| format!("cannot make {}", link.display()))?;
    }
    Ok(dir)
}

/// The path of libLLVM in what `ldd` prints.
fn llvm_library(ldd: &str) -> Option<&Path> {
    let line = ldd
        .lines()
        .find(|line| line.trim_start().starts_with("libLLVM"))?;
    let (_, path) = line.split_once("=> ")?;
    let path = path.rsplit_once(" (").map_or(path, |(path, _)| path);
    path.starts_with('/').then(|| Path::new(path))
}

fn built(checkout: &Checkout, name: &str) -> PathBuf {
    checkout.bpf().join(TARGET).join("release").join(name)
}

/// Copies the object when it was built anew, so that its time changes only then and the binary is
/// not rebuilt for nothing.
fn place(built: &Path, object: &Path) -> Result<()> {
    let bytes = fs::read(built).with_context(|| format!("no object at {}", built.display()))?;
    let newer = fs::metadata(object)
        .and_then(|m| m.modified())
        .ok()
        .is_none_or(|placed| {
            fs::metadata(built)
                .and_then(|m| m.modified())
                .is_ok_and(|b| b > placed)
        });
    if newer || fs::read(object).ok().as_deref() != Some(&bytes) {
        fs::write(object, &bytes).with_context(|| format!("cannot write {}", object.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compilers_llvm_is_found_in_what_ldd_prints() {
        let ldd = "\tlinux-vdso.so.1 (0x00007f)\n\tlibLLVM.so.22.1 => /usr/lib/x/libLLVM.so.22.1 (0x00007e)\n\tlibc.so.6 => /lib/libc.so.6 (0x1)\n";
        assert_eq!(
            llvm_library(ldd),
            Some(Path::new("/usr/lib/x/libLLVM.so.22.1"))
        );
        assert_eq!(llvm_library("\tlibLLVM.so.22.1 => not found\n"), None);
        assert_eq!(llvm_library("\tlibc.so.6 => /lib/libc.so.6 (0x1)\n"), None);
    }

    #[test]
    fn flags_and_directories_of_the_caller_do_not_reach_the_build() {
        for name in [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_TARGET_DIR",
            "CARGO_BUILD_TARGET",
            "CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER",
            "CARGO_PROFILE_RELEASE_LTO",
            "RUSTC_WRAPPER",
        ] {
            assert!(is_build_setting(name), "{name}");
        }
        for name in [
            "CARGO_HOME",
            "CARGO_HTTP_PROXY",
            "CARGO_REGISTRIES_X_INDEX",
            "PATH",
            "HOME",
        ] {
            assert!(!is_build_setting(name), "{name}");
        }
    }

    #[test]
    fn an_unchanged_object_keeps_its_time() {
        let dir = std::env::temp_dir().join(format!("xtask-place-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (built, object) = (dir.join("built"), dir.join("object"));
        let time = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();

        fs::write(&built, "one").unwrap();
        place(&built, &object).unwrap();
        let first = time(&object);
        place(&built, &object).unwrap();
        assert_eq!(time(&object), first);

        fs::write(&built, "two").unwrap();
        place(&built, &object).unwrap();
        assert_eq!(fs::read_to_string(&object).unwrap(), "two");
        fs::remove_dir_all(&dir).unwrap();
    }
}
