//! The target of the static binary: its standard library, its C compiler, its flags.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::checkout::Checkout;
use crate::machine::{self, Machine};
use crate::packages;
use crate::step::{NotHere, read, run_within, say};
use crate::toolchain::COMPONENT_LIMIT;

/// C code (zstd) is compiled against musl's headers.
const COMPILER: &str = "musl-gcc";
const PACKAGE: &str = "musl-tools";

/// The target's name, when it can be built for here; installs what is missing.
pub fn ensure(machine: &Machine) -> Result<String> {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    if !has_library(&target)? {
        say(format_args!(
            "rustup target add {target}: the standard library for it"
        ));
        let added = machine::find("rustup")
            .context("no rustup")
            .and_then(|rustup| {
                run_within(
                    Command::new(rustup).args(["target", "add", &target]),
                    COMPONENT_LIMIT,
                )
            });
        if let Err(error) = added {
            return Err(NotHere(format!(
                "the compiler in use has no standard library for {target} ({error:#}). What to do: `rustup target add {target}`, where rustup's server is reachable. `cargo xtask build --release` needs none: a binary for machines with this one's libc or newer"
            ))
            .into());
        }
    }
    if machine::find(COMPILER).is_none() {
        say(format_args!(
            "installing {PACKAGE}: {COMPILER} compiles zstd for {target}"
        ));
        packages::install(machine, &[PACKAGE]).map_err(|error| {
            NotHere(format!(
                "no {COMPILER} ({error:#}). What to do: install musl's development files; on Debian `apt-get install {PACKAGE}`"
            ))
        })?;
    }
    Ok(target)
}

fn has_library(target: &str) -> Result<bool> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = read(Command::new(rustc).args(["--print", "sysroot"]))?;
    let library = PathBuf::from(sysroot.trim()).join("lib/rustlib");
    Ok(library.join(target).join("lib").is_dir())
}

pub fn flags(target: &str) -> [String; 3] {
    ["--profile=static", "--target", target].map(str::to_owned)
}

/// No path of the machine that built it is in the binary.
pub fn remapped(checkout: &Checkout) -> Result<String> {
    let cargo = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))
        .context("neither CARGO_HOME nor HOME is set")?;
    let root = &checkout.root;
    Ok([(cargo.as_path(), "/cargo"), (root, "/observer")]
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
        .join("\u{1f}"))
}
