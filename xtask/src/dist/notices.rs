//! Notices of third parties: the licences of what is linked into the binary ask for them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::checkout::Checkout;
use crate::step::read;

/// A crate: name and version.
type Crate = (String, String);

/// One text: which crates are in the binary, under what licence, then each licence once.
pub fn collect(checkout: &Checkout, target: &str) -> Result<String> {
    let tree = read(
        checkout
            .cargo()
            .args(["tree", "--locked", "--package", "observer"])
            .args(["--edges", "normal,no-proc-macro", "--target", target])
            .args(["--prefix", "none", "--no-dedupe", "--format", "{p}\t{l}"]),
    )?;
    let metadata = read(
        checkout
            .cargo()
            .args(["metadata", "--locked", "--format-version=1"])
            .args(["--filter-platform", target]),
    )?;
    let places = places(&metadata)?;
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut notices = String::from(
        "observer is MIT OR Apache-2.0. Linked into it: the Rust standard library (MIT OR Apache-2.0), musl (MIT), and\n\n",
    );
    for ((name, version), licence) in crates(&tree) {
        writeln!(notices, "{name} {version}: {licence}")?;
        let dir = places
            .get(&(name.clone(), version.clone()))
            .with_context(|| format!("cargo metadata knows no {name} {version}"))?;
        for text in licences(dir) {
            texts
                .entry(text)
                .or_default()
                .push(format!("{name} {version}"));
        }
    }
    for (text, of) in texts {
        write!(
            notices,
            "\n{}\n{}\n\n{}\n",
            "=".repeat(78),
            of.join(", "),
            text
        )?;
    }
    Ok(notices)
}

/// Foreign crates of `cargo tree`'s lines: `NAME vVERSION[ (…)]<TAB>LICENCE`. Ours have a path behind them.
fn crates(tree: &str) -> BTreeMap<Crate, String> {
    tree.lines()
        .filter_map(|line| {
            let (package, licence) = line.split_once('\t')?;
            let (name, version) = package.split_once(" v")?;
            let version = version.split(' ').next()?;
            let ours = package.contains(" (/");
            (!ours).then(|| ((name.to_owned(), version.to_owned()), licence.to_owned()))
        })
        .collect()
}

/// Where each crate's source is.
fn places(metadata: &str) -> Result<BTreeMap<Crate, PathBuf>> {
    let metadata: Value = serde_json::from_str(metadata)?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata names no packages")?;
    let place = |package: &Value| {
        let text = |key: &str| package[key].as_str().map(str::to_owned);
        let dir = PathBuf::from(text("manifest_path")?).parent()?.to_owned();
        Some(((text("name")?, text("version")?), dir))
    };
    Ok(packages.iter().filter_map(place).collect())
}

/// The licence texts of a crate, and of C code that it brings in a folder of its own.
fn licences(dir: &Path) -> Vec<String> {
    const NAMES: [&str; 5] = ["licen", "copying", "notice", "copyright", "unlicense"];
    let folders = fs::read_dir(dir).into_iter().flatten().flatten();
    let folders = folders
        .map(|entry| entry.path())
        .filter(|path| path.is_dir());
    let mut files: Vec<PathBuf> = std::iter::once(dir.to_owned())
        .chain(folders)
        .filter_map(|dir| fs::read_dir(dir).ok())
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = name.to_lowercase();
            path.is_file() && NAMES.iter().any(|start| name.starts_with(start))
        })
        .collect();
    files.sort();
    files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok())
        .map(|text| text.trim_end().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_named_once_and_ours_not_at_all() {
        let tree = "observer v0.1.0 (/src/observer)\tMIT OR Apache-2.0\nzstd-sys v2.1.3+zstd.1.5.7\tMIT\nitoa v1.0.1\tMIT\nitoa v1.0.1\tMIT\n\n";
        let crates: Vec<_> = crates(tree).into_keys().collect();
        let named = |name: &str, version: &str| (name.to_owned(), version.to_owned());
        assert_eq!(
            crates,
            [
                named("itoa", "1.0.1"),
                named("zstd-sys", "2.1.3+zstd.1.5.7")
            ]
        );
    }
}
