//! What is shipped: a static binary with its pages and completions, a Debian package, notices and checksums, in target/dist.

mod deb;
mod musl;
mod notices;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::checkout::Checkout;
use crate::machine::Machine;
use crate::step::{read, run, say};
use crate::{binary, object};

/// Documents that come with it, as the checkout has them.
const DOCUMENTS: [&str; 5] = [
    "README.md",
    "README.zh-CN.md",
    "SECURITY.md",
    "observer/systemd/observer.service",
    "observer/docs/grafana/observer.json",
];
const SHELLS: [(&str, &str); 3] = [
    ("bash", "observer.bash"),
    ("zsh", "_observer"),
    ("fish", "observer.fish"),
];

/// Makes all of it anew.
pub fn make(checkout: &Checkout, machine: &Machine) -> Result<()> {
    object::ensure(checkout, machine)?;
    let target = musl::ensure(machine)?;
    say(format_args!(
        "building for {target}: static, runs where nothing is installed"
    ));
    let binary = binary::build(
        checkout,
        &musl::flags(&target),
        &[("CARGO_ENCODED_RUSTFLAGS", musl::remapped(checkout)?)],
    )?;
    is_static(&binary)?;

    let stage = stage(checkout);
    fs::remove_dir_all(&stage).ok();
    fs::create_dir_all(&stage)?;
    copy(&binary, &stage.join("observer"))?;
    let version = version(&stage.join("observer"))?;
    pages(&stage)?;
    for document in DOCUMENTS {
        let from = checkout.root.join(document);
        copy(&from, &stage.join(from.file_name().context("a file")?))?;
    }
    let notices = notices::collect(checkout, &target)?;
    fs::write(stage.join("THIRD-PARTY.txt"), notices)?;

    let dist = checkout.root.join("target/dist");
    fs::remove_dir_all(&dist).ok();
    fs::create_dir_all(&dist)?;
    let name = format!("observer-{version}-{target}");
    archive(&stage, &dist, &name)?;
    deb::build(checkout, &target, &dist)?;
    sums(&dist)?;
    for file in files(&dist)? {
        let size = fs::metadata(&file)?.len();
        say(format_args!(
            "{} {size} bytes",
            checkout.shown(&file).display()
        ));
    }
    Ok(())
}

/// What goes into the archive and the package; observer/Cargo.toml names it too.
fn stage(checkout: &Checkout) -> PathBuf {
    checkout.own().join("dist")
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

/// No interpreter: the kernel starts it without any library.
fn is_static(binary: &Path) -> Result<()> {
    let headers = read(Command::new("readelf").arg("--program-headers").arg(binary))
        .context("readelf comes with a C linker (binutils)")?;
    if headers.contains("INTERP") {
        bail!("{} is not static", binary.display());
    }
    Ok(())
}

/// Of `observer 0.1.0`.
fn version(observer: &Path) -> Result<String> {
    let said = read(Command::new(observer).arg("--version"))?;
    let version = said.split_whitespace().nth(1);
    version.map(str::to_owned).context("it names no version")
}

/// Man pages and completions, by the program itself.
fn pages(stage: &Path) -> Result<()> {
    let observer = stage.join("observer");
    run(Command::new(&observer)
        .args(["man", "-o"])
        .arg(stage.join("man")))?;
    let completions = stage.join("completions");
    fs::create_dir_all(&completions)?;
    for (shell, name) in SHELLS {
        let script = read(Command::new(&observer).args(["completions", shell]))?;
        fs::write(completions.join(name), script)?;
    }
    Ok(())
}

/// The same content gives the same bytes: no owner, no order of the disk, the time of the last commit.
fn archive(stage: &Path, dist: &Path, name: &str) -> Result<()> {
    let time = read(
        Command::new("git")
            .args(["log", "-1", "--format=%ct"])
            .current_dir(stage),
    );
    let time = time.map_or("0".to_owned(), |time| time.trim().to_owned());
    run(Command::new("tar")
        .args(["--create", "--sort=name", "--owner=0", "--group=0"])
        .args(["--numeric-owner", "--use-compress-program=gzip -9n"])
        .arg(format!("--mtime=@{time}"))
        .arg(format!("--transform=s,^\\.,{name},"))
        .arg("--file")
        .arg(dist.join(format!("{name}.tar.gz")))
        .arg("--directory")
        .arg(stage)
        .arg("."))
}

/// `sha256sum --check SHA256SUMS` reads it.
fn sums(dist: &Path) -> Result<()> {
    let names: Vec<_> = files(dist)?
        .iter()
        .filter_map(|file| file.file_name().map(ToOwned::to_owned))
        .collect();
    let sums = read(Command::new("sha256sum").args(names).current_dir(dist))?;
    fs::write(dist.join("SHA256SUMS"), sums)?;
    Ok(())
}

fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = fs::read_dir(dir)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shipped_is_in_the_checkout() {
        let checkout = Checkout::find().unwrap();
        for document in DOCUMENTS {
            assert!(checkout.root.join(document).is_file(), "{document}");
        }
    }

    #[test]
    fn this_very_test_is_not_static_on_glibc() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(is_static(&own).is_err(), cfg!(target_env = "gnu"));
    }
}
