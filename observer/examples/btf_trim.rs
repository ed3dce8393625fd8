//! Makes the BTF fixtures: `btf_trim OUT-DIR SUFFIX VMLINUX [NAME=MODULE …]` writes `OUT-DIR/vmlinux-SUFFIX.btf` and
//! `OUT-DIR/NAME-SUFFIX.btf`, after checking that the trimmed types resolve to the same layout as the whole ones.
//! It prints that layout (member, offset in bytes, shift, mask), for a comparison with `bpftool btf dump`.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use observer::kernel::btf::{Btf, resolve, trim};
use observer_common::layout::FIELDS;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let mut next = || {
        args.next()
            .context("usage: btf_trim OUT-DIR SUFFIX VMLINUX [NAME=MODULE ...]")
    };
    let (out, suffix, vmlinux) = (PathBuf::from(next()?), next()?, next()?);
    let whole = Arc::new(Btf::parse(
        std::fs::read(&vmlinux).with_context(|| vmlinux.clone())?,
    )?);
    let (mut names, mut modules) = (Vec::new(), Vec::new());
    for arg in args {
        let (name, path) = arg
            .split_once('=')
            .context("modules are given as NAME=FILE")?;
        names.push(name.to_owned());
        modules.push(Btf::parse_split(std::fs::read(path)?, Arc::clone(&whole))?);
    }
    let trimmed = trim::trim(&whole, &modules)?;
    let small = Btf::parse(trimmed.base.clone())?;
    let (before, after) = (resolve(&whole)?, resolve(&small)?);
    ensure!(
        before.layout == after.layout,
        "the trimmed types resolve to another layout"
    );
    ensure!(
        before.ca_words_in_kernel == after.ca_words_in_kernel,
        "other words"
    );
    ensure!(
        before.hooks == after.hooks,
        "the trimmed types have other hooks"
    );
    for row in FIELDS.iter().filter(|row| before.layout.has(row.field)) {
        let at = row.field as usize;
        let (offset, shift, mask) = (
            before.layout.offset[at],
            before.layout.shift[at],
            before.layout.mask[at],
        );
        println!("{}.{} {offset} {shift} {mask:#x}", row.root, row.path);
    }
    for absent in &before.absent {
        println!("absent: {absent}");
    }
    println!(
        "err argument: {}, words: {}",
        before.retransmit_err_arg, before.ca_words_in_kernel
    );
    let all = [&trimmed.base].into_iter().chain(&trimmed.modules);
    for (name, bytes) in std::iter::once("vmlinux".to_owned()).chain(names).zip(all) {
        let path = out.join(format!("{name}-{suffix}.btf"));
        std::fs::write(&path, bytes)?;
        println!("{}: {} bytes", path.display(), bytes.len());
    }
    Ok(())
}
