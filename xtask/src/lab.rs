//! The lab's long work: all matrices, and whether a hundred runs in a row leave anything behind.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};

use crate::binary;
use crate::checkout::Checkout;
use crate::machine::Machine;
use crate::object;
use crate::step::{NotHere, say};

/// Every matrix that comes with observer, the shortest first.
const MATRICES: [&str; 6] = [
    "clean",
    "lossy",
    "qdisc-sysctl",
    "shallow",
    "long",
    "verdicts",
];
/// What is run instead of a matrix.
const LEAK: &str = "leak";
const RUNS: u32 = 100;

/// Runs the matrices named, all of them where none is; recordings and tables go to target/lab. What is there already is not
/// run again.
pub fn run(
    checkout: &Checkout,
    machine: &Machine,
    what: &[String],
    args: &[OsString],
) -> Result<()> {
    object::ensure(checkout, machine)?;
    let observer = binary::build(checkout, binary::optimised(true), &[])?;
    if what.len() == 1 && what[0] == LEAK {
        return leak(machine, &observer);
    }
    let named: Vec<&str> = what.iter().map(String::as_str).collect();
    let matrices = if named.is_empty() {
        &MATRICES[..]
    } else {
        &named[..]
    };
    let mut failed = Vec::new();
    for name in matrices {
        let stem = Path::new(name).file_stem().unwrap_or_default();
        let dir = checkout.own().join("lab").join(stem);
        fs::create_dir_all(&dir)?;
        say(format_args!(
            "lab matrix {name}, into {}",
            checkout.shown(&dir).display()
        ));
        let status = as_root(machine, &observer)?
            .args(["lab", "matrix", name, "-o"])
            .arg(&dir)
            .args(args)
            .status()
            .context("cannot start observer")?;
        match status.code() {
            Some(0) => {}
            Some(130) => bail!("interrupted"),
            _ => failed.push((*name).to_owned()),
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        bail!("not whole: {}", failed.join(", "))
    }
}

fn as_root(machine: &Machine, observer: &Path) -> Result<std::process::Command> {
    machine.as_root(observer).ok_or_else(|| {
        NotHere("the lab needs root: neither root nor a sudo that works here".into()).into()
    })
}

/// Short runs in a row, some of them refused or interrupted by their own end; then nothing of them is there.
fn leak(machine: &Machine, observer: &Path) -> Result<()> {
    let before = traces();
    let mut refused = 0;
    for number in 1..=RUNS {
        let output = as_root(machine, observer)?
            .args([
                "lab", "run", "--rate", "20mbit", "--rtt", "5ms", "-t", "0.3",
            ])
            // Every way a run can end by itself.
            .args(match number % 4 {
                0 => &["--cross", "2"][..],
                1 => &["--flows", "4", "--cc", "cubic"],
                2 => &["--", "true"],
                _ => &["--cc", "nosuch"],
            })
            .stdin(Stdio::null())
            .output()
            .context("cannot start observer")?;
        refused += u32::from(!output.status.success());
        if number % 10 == 0 {
            say(format_args!("{number} of {RUNS} runs"));
        }
    }
    let after = traces();
    let left: Vec<&String> = after.difference(&before).collect();
    say(format_args!(
        "{RUNS} runs, {refused} of them refused or failed (a quarter is to be)"
    ));
    if left.is_empty() {
        say("nothing is left of them: no namespace, device, process, file");
        Ok(())
    } else {
        bail!("left behind: {left:?}")
    }
}

/// What a lab makes, of which there is some now.
fn traces() -> BTreeSet<String> {
    let names = |dir: &str| -> Vec<String> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path().display().to_string());
        paths.collect()
    };
    let mut traces = BTreeSet::new();
    let of_lab = |path: &String| path.contains("observer-lab-") || path.contains("/lab-");
    traces.extend(names("/run/netns").into_iter().filter(of_lab));
    traces.extend(names("/run/observer").into_iter().filter(of_lab));
    traces.extend(names("/sys/class/net"));
    for process in names("/proc") {
        let comm = fs::read_to_string(format!("{process}/comm")).unwrap_or_default();
        if comm.trim() == "observer" {
            traces.insert(format!("{process} observer"));
        }
    }
    // Programs and maps go with who holds them: a process, or a pin.
    traces.extend(names("/sys/fs/bpf"));
    traces
}
