//! A compiler that can target BPF: which one, found out by trying, and remembered.

use std::fmt::{self, Display};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::checkout::Checkout;
use crate::linker::{self, LLVM_MAJOR, Linker};
use crate::machine::{self, Machine};
use crate::step::{NotHere, read, run_within, say};
use crate::{object, packages};

/// The rustup toolchain that is installed beside one whose LLVM is too new.
const OLDER: &str = "1.95.0";
const DEBIAN_PACKAGES: [&str; 2] = ["rustc-web", "rust-web-src"];
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
/// A component of a few MB, and a toolchain of some 100 MB: longer means there is no way out to rustup's server.
pub const COMPONENT_LIMIT: Duration = Duration::from_mins(2);
const TOOLCHAIN_LIMIT: Duration = Duration::from_mins(6);

/// Everything that builds the object, and was seen to work.
#[derive(Debug, PartialEq, Eq)]
pub struct Toolchain {
    pub rustc: Rustc,
    pub cargo: PathBuf,
    pub linker: Linker,
}

/// One compiler and what was asked of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rustc {
    pub path: PathBuf,
    pub sysroot: PathBuf,
    /// All of `rustc -vV`.
    pub version: String,
}

/// The ways to a compiler, in the order they are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The toolchain in use, with `core`'s source added when it is missing.
    InUse,
    /// An older toolchain by rustup, beside the one in use.
    Older,
    /// Debian's compiler and its source.
    Debian,
}

impl Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let release = self.rustc.release().unwrap_or("of unknown version");
        let path = self.rustc.path.display();
        write!(f, "rustc {release} ({path}) with {}", self.linker.version)
    }
}

impl Rustc {
    /// Asks the compiler that `command` starts.
    fn ask(command: impl Fn() -> Command) -> Result<Self> {
        let version = read(command().arg("-vV"))?;
        let sysroot = PathBuf::from(read(command().args(["--print", "sysroot"]))?.trim());
        let path = sysroot.join("bin/rustc");
        if !path.is_file() {
            bail!("no rustc at {}", path.display());
        }
        Ok(Self {
            path,
            sysroot,
            version,
        })
    }

    fn release(&self) -> Option<&str> {
        field(&self.version, "release")
    }

    fn llvm_major(&self) -> Option<u32> {
        field(&self.version, "LLVM version")?
            .split('.')
            .next()?
            .parse()
            .ok()
    }

    fn has_source(&self) -> bool {
        self.sysroot
            .join("lib/rustlib/src/rust/library/core/src/lib.rs")
            .is_file()
    }
}

/// The toolchain the object is built with: the one remembered, else found now and remembered.
pub fn ensure(checkout: &Checkout, machine: &Machine) -> Result<Toolchain> {
    let memory = checkout.own().join("toolchain.json");
    if let Some(toolchain) = recall(&memory) {
        return Ok(toolchain);
    }
    fs::create_dir_all(checkout.own())?;
    let linker = linker::ensure(checkout)?;
    let mut reasons = Vec::new();
    let in_use = in_use();
    let rustup = machine::find("rustup");
    for way in ways(
        in_use.as_ref().ok().and_then(Rustc::llvm_major),
        rustup.is_some(),
    ) {
        let found = way
            .reach(machine, in_use.as_ref().ok(), rustup.as_deref())
            .and_then(|rustc| {
                let toolchain = Toolchain {
                    cargo: way.cargo(checkout, &rustc),
                    rustc,
                    linker: linker.clone(),
                };
                say(format_args!(
                    "trying {toolchain} on a small program for BPF"
                ));
                object::probe(checkout, &toolchain)?;
                Ok(toolchain)
            });
        match found {
            Ok(toolchain) => {
                remember(&memory, &toolchain)?;
                return Ok(toolchain);
            }
            Err(error) => {
                say(format_args!("that did not work: {error:#}"));
                reasons.push(format!("  {way}: {error:#}"));
            }
        }
    }
    if let Err(error) = in_use {
        reasons.push(format!("  the rustc in use: {error:#}"));
    }
    Err(NotHere(format!(
        "no compiler here can build the eBPF programs.\n{}\nWhat to do, either of: `rustup component add rust-src` (a toolchain with LLVM {LLVM_MAJOR} or older, such as {OLDER}); on Debian `apt-get install --no-install-recommends {}`. Then the same command again. Without it `cargo build` and the root-free tests (`cargo test`) still work.",
        reasons.join("\n"),
        DEBIAN_PACKAGES.join(" "),
    ))
    .into())
}

fn in_use() -> Result<Rustc> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    Rustc::ask(|| Command::new(&rustc))
}

/// Which ways are worth trying, given the LLVM of the compiler in use. An older toolchain comes from the
/// server that could not give the source, so it comes last where it is not the LLVM that is the matter.
fn ways(in_use_llvm: Option<u32>, rustup: bool) -> Vec<Way> {
    let ways: &[Way] = if in_use_llvm.is_some_and(|major| major <= LLVM_MAJOR) {
        &[Way::InUse, Way::Debian, Way::Older]
    } else {
        &[Way::Older, Way::Debian]
    };
    ways.iter()
        .copied()
        .filter(|way| rustup || *way != Way::Older)
        .collect()
}

impl Way {
    /// Gets the compiler and `core`'s source here, installing what is missing.
    fn reach(
        self,
        machine: &Machine,
        in_use: Option<&Rustc>,
        rustup: Option<&Path>,
    ) -> Result<Rustc> {
        let rustc = match self {
            Self::InUse => {
                let rustc = in_use.context("no rustc")?.clone();
                if !rustc.has_source() {
                    let rustup = rustup
                        .context("it has no source of `core`, and there is no rustup to add it")?;
                    say(
                        "rustup component add rust-src: the BPF target has no ready-made `core`, it is built from source",
                    );
                    run_within(
                        Command::new(rustup).args(["component", "add", "rust-src"]),
                        COMPONENT_LIMIT,
                    )?;
                }
                rustc
            }
            Self::Older => {
                let rustup = rustup.context("no rustup")?;
                let ask = || {
                    Rustc::ask(|| {
                        let mut command = Command::new(rustup);
                        command.args(["run", OLDER, "rustc"]);
                        command
                    })
                };
                match ask() {
                    Ok(rustc) if rustc.has_source() => rustc,
                    _ => {
                        say(format_args!(
                            "rustup toolchain install {OLDER} with rust-src, beside the one in use: bpf-linker reads LLVM {LLVM_MAJOR} at most, and needs the source of `core`"
                        ));
                        run_within(
                            Command::new(rustup)
                                .args(["toolchain", "install", OLDER, "--profile", "minimal"])
                                .args(["--component", "rust-src", "--no-self-update"]),
                            TOOLCHAIN_LIMIT,
                        )?;
                        ask()?
                    }
                }
            }
            Self::Debian => {
                let ask = || Rustc::ask(|| Command::new(DEBIAN_RUSTC));
                match ask() {
                    Ok(rustc) if rustc.has_source() && fits(&rustc).is_ok() => rustc,
                    _ => {
                        say(format_args!(
                            "apt-get install {}: Debian's compiler with the source of `core`, as rustup cannot give it here",
                            DEBIAN_PACKAGES.join(" ")
                        ));
                        packages::install(machine, &DEBIAN_PACKAGES)?;
                        ask()?
                    }
                }
            }
        };
        fits(&rustc)?;
        if !rustc.has_source() {
            bail!("no source of `core` in {}", rustc.sysroot.display());
        }
        Ok(rustc)
    }

    /// rustup's toolchains come with the cargo of their age; Debian's compiler is driven by ours.
    fn cargo(self, checkout: &Checkout, rustc: &Rustc) -> PathBuf {
        let own = rustc.sysroot.join("bin/cargo");
        if self != Self::Debian && own.is_file() {
            own
        } else {
            PathBuf::from(&checkout.cargo)
        }
    }
}

impl Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InUse => "the toolchain in use",
            Self::Older => "an older toolchain by rustup",
            Self::Debian => "Debian's packages",
        })
    }
}

/// Is this compiler's LLVM one the linker can read?
fn fits(rustc: &Rustc) -> Result<()> {
    let major = rustc.llvm_major().context("rustc names no LLVM version")?;
    if major > LLVM_MAJOR {
        bail!("its LLVM is {major}, bpf-linker reads {LLVM_MAJOR} at most");
    }
    Ok(())
}

/// The value of `name: value` in `rustc -vV`.
fn field<'a>(version: &'a str, name: &str) -> Option<&'a str> {
    version
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

fn remember(memory: &Path, toolchain: &Toolchain) -> Result<()> {
    let text = serde_json::to_string_pretty(&encode(toolchain))?;
    fs::write(memory, text).with_context(|| format!("cannot write {}", memory.display()))
}

/// What was remembered, when it is still so.
fn recall(memory: &Path) -> Option<Toolchain> {
    let toolchain = decode(&serde_json::from_str(&fs::read_to_string(memory).ok()?).ok()?)?;
    let rustc = Rustc::ask(|| Command::new(&toolchain.rustc.path)).ok()?;
    let linker = linker::look(&toolchain.linker.path)?;
    let same = rustc == toolchain.rustc && linker == toolchain.linker;
    (same && rustc.has_source() && toolchain.cargo.is_file()).then_some(toolchain)
}

fn encode(toolchain: &Toolchain) -> Value {
    json!({
        "rustc": toolchain.rustc.path.to_string_lossy(),
        "sysroot": toolchain.rustc.sysroot.to_string_lossy(),
        "rustc_version": toolchain.rustc.version,
        "cargo": toolchain.cargo.to_string_lossy(),
        "linker": toolchain.linker.path.to_string_lossy(),
        "linker_version": toolchain.linker.version,
    })
}

fn decode(value: &Value) -> Option<Toolchain> {
    let text = |key: &str| value.get(key)?.as_str();
    Some(Toolchain {
        rustc: Rustc {
            path: text("rustc")?.into(),
            sysroot: text("sysroot")?.into(),
            version: text("rustc_version")?.to_owned(),
        },
        cargo: text("cargo")?.into(),
        linker: Linker {
            path: text("linker")?.into(),
            version: text("linker_version")?.to_owned(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rustc(version: &str) -> Rustc {
        Rustc {
            path: "/toolchain/bin/rustc".into(),
            sysroot: "/toolchain".into(),
            version: version.into(),
        }
    }

    const STABLE: &str = "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\ncommit-date: 2026-04-14\nhost: x86_64-unknown-linux-gnu\nrelease: 1.95.0\nLLVM version: 22.1.2\n";

    #[test]
    fn versions_are_read_from_what_rustc_prints() {
        let stable = rustc(STABLE);
        assert_eq!(stable.release(), Some("1.95.0"));
        assert_eq!(stable.llvm_major(), Some(22));
        assert_eq!(rustc("rustc 1.95.0\n").llvm_major(), None);
        assert_eq!(rustc("LLVM version: unknown\n").llvm_major(), None);
    }

    #[test]
    fn only_an_llvm_the_linker_reads_fits() {
        assert!(fits(&rustc(STABLE)).is_ok());
        assert!(fits(&rustc("LLVM version: 21.1.0\n")).is_ok());
        let error = fits(&rustc("LLVM version: 23.1.0\n")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "its LLVM is 23, bpf-linker reads 22 at most"
        );
        assert!(fits(&rustc("")).is_err());
    }

    #[test]
    fn the_toolchain_in_use_comes_first_when_its_llvm_fits() {
        assert_eq!(ways(Some(22), true), [Way::InUse, Way::Debian, Way::Older]);
        assert_eq!(ways(Some(23), true), [Way::Older, Way::Debian]);
        assert_eq!(ways(Some(22), false), [Way::InUse, Way::Debian]);
        assert_eq!(ways(None, false), [Way::Debian]);
    }

    #[test]
    fn what_is_remembered_reads_back() {
        let toolchain = Toolchain {
            rustc: rustc(STABLE),
            cargo: "/toolchain/bin/cargo".into(),
            linker: Linker {
                path: "/bin/bpf-linker".into(),
                version: "bpf-linker 0.10.3".into(),
            },
        };
        assert_eq!(decode(&encode(&toolchain)), Some(toolchain));
        assert_eq!(decode(&json!({ "rustc": "/x" })), None);
    }
}
