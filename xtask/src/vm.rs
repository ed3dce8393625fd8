//! `cargo xtask vm`: tests in guests of other kernels, and the table of `docs/KERNELS.md` made of what came out.

mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::checkout::Checkout;
use crate::machine::Machine;
use crate::object;
use crate::step::{NotHere, read, run, say};

#[derive(Debug, clap::Args)]
pub struct Vm {
    /// Kernels, by their names below the lab's `kernels/`
    #[arg(required_unless_present = "setup")]
    kernels: Vec<String>,
    /// The directory with the kernels and the guests' root; OBSERVER_LAB names it too
    #[arg(long, value_name = "DIR")]
    lab: Option<PathBuf>,
    /// Fill the lab first: QEMU, a root, kernels 6.1, 6.12, 7.3 (Debian, root, some minutes)
    #[arg(long)]
    setup: bool,
    /// The guest's clock counts instructions: rates and times are sound whatever the host does, and it takes longer
    #[arg(long)]
    virtual_time: bool,
    /// Ends a guest that takes longer
    #[arg(long, value_name = "MIN", default_value_t = 30)]
    minutes: u64,
    /// Only tests with this in their names
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Tests, by their files' names; none = those of what kernels differ in
    #[arg(last = true)]
    tests: Vec<String>,
}

/// What kernels differ in: fields, hooks, congestion control as a module, needs, socket-diag, rights.
const TESTS: [&str; 5] = [
    "kernel_fields",
    "kernel_module",
    "kernel_states",
    "kernel_diag",
    "kernel_rights",
];
/// What came out of each kernel, and the page that shows it.
const RESULTS: &str = "observer/docs/kernels.json";
const PAGE: &str = "observer/docs/KERNELS.md";

pub fn run_all(checkout: &Checkout, machine: &Machine, vm: &Vm) -> Result<()> {
    let named = vm
        .lab
        .clone()
        .or_else(|| std::env::var_os("OBSERVER_LAB").map(PathBuf::from));
    let Some(lab) = &named else {
        return Err(NotHere(
            "no lab: name its directory by --lab DIR or OBSERVER_LAB (and --setup once fills it)"
                .to_owned(),
        )
        .into());
    };
    let scripts = checkout.root.join("xtask/vm");
    if vm.setup {
        say("filling the lab: QEMU, a root for the guests, kernels");
        run(Command::new("bash")
            .arg(scripts.join("setup.sh"))
            .env("LAB", lab))?;
    }
    object::ensure(checkout, machine)?;
    let names: Vec<&str> = if vm.tests.is_empty() {
        TESTS.to_vec()
    } else {
        vm.tests.iter().map(String::as_str).collect()
    };
    let binaries = build(checkout, &names)?;
    let mut fallen = Vec::new();
    for kernel in &vm.kernels {
        say(format_args!("{kernel}: booting; emulated, so some minutes"));
        let result = guest(checkout, &scripts, lab, kernel, vm, &binaries)?;
        let failed = result["tests"].as_array().is_none_or(|tests| {
            tests.is_empty()
                || tests
                    .iter()
                    .any(|test| test["failed"] != 0 || test["ended"] != true)
        });
        keep(checkout, kernel, result)?;
        if failed {
            fallen.push(kernel.as_str());
        }
    }
    if !fallen.is_empty() {
        bail!(
            "not all passed in: {} (target/xtask/vm/KERNEL.log)",
            fallen.join(", ")
        );
    }
    Ok(())
}

/// Builds the tests; name and executable of each.
fn build(checkout: &Checkout, names: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    let mut command = checkout.cargo();
    command.args([
        "test",
        "--locked",
        "--no-run",
        "--package",
        "observer",
        "--message-format=json",
    ]);
    for name in names {
        command.args(["--test", name]);
    }
    let said = read(&mut command)?;
    let mut found = Vec::new();
    for message in said
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
    {
        if let (Some(name), Some(path)) = (
            message["target"]["name"].as_str(),
            message["executable"].as_str(),
        ) && names.contains(&name)
        {
            found.push((name.to_owned(), PathBuf::from(path)));
        }
    }
    if found.len() < names.len() {
        bail!("of {} not all were built", names.join(", "));
    }
    Ok(found)
}

/// Boots, runs, reads what came out.
fn guest(
    checkout: &Checkout,
    scripts: &Path,
    lab: &Path,
    kernel: &str,
    vm: &Vm,
    binaries: &[(String, PathBuf)],
) -> Result<Value> {
    let own = checkout.own().join("vm");
    fs::create_dir_all(&own)?;
    let script = own.join("guest.sh");
    fs::write(&script, inside(checkout, binaries, &vm.only))?;
    let log = own.join(format!("{kernel}.log"));
    let mut command = Command::new("bash");
    command
        .arg(scripts.join("boot.sh"))
        .args(["-t", &(vm.minutes * 60).to_string(), "-s"])
        .arg(&checkout.root)
        .env("LAB", lab)
        .stdin(Stdio::null())
        .stdout(fs::File::create(&log)?);
    if vm.virtual_time {
        command.args(["-i", "1"]);
    }
    command.args([kernel, "--", "bash", "/host/target/xtask/vm/guest.sh"]);
    let status = command.status().context("bash cannot be started")?;
    let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    // Past the guest's console and our own names for things: what the tests print of failures.
    for line in text.lines().filter(|line| {
        line.contains("panicked") || line.contains("FAILED") || line.contains("SKIPPED")
    }) {
        say(format_args!("{kernel}: {line}"));
    }
    if !status.success() && !text.contains("== done") {
        say(format_args!("{kernel}: the guest ended early ({status})"));
    }
    Ok(outcome(&text))
}

/// The script of the guest: the checkout where the tests look for it, each test, and what the doctor says with BBR loaded.
fn inside(checkout: &Checkout, binaries: &[(String, PathBuf)], only: &str) -> String {
    let root = checkout.root.display();
    let mut lines = vec![format!(
        "mkdir -p \"$(dirname '{root}')\" && ln -s /host '{root}' && cd '{root}/observer'\n\
         echo \"== kernel $(uname -r)\"\n\
         modprobe tcp_bbr 2>/dev/null\n\
         echo '== doctor'; '{root}/target/debug/observer' doctor --json -t 0.5; echo '== doctor ended'\n\
         rmmod tcp_bbr 2>/dev/null\n"
    )];
    for (name, path) in binaries {
        let path = path.display();
        lines.push(format!(
            "echo '== test {name}'; '{path}' --test-threads=1 {only} 2>&1\n"
        ));
    }
    lines.push("echo '== done'\n".to_owned());
    lines.concat()
}

/// Of the guest's words: kernel, needs, and each file's counts.
fn outcome(text: &str) -> Value {
    let (mut release, mut needs, mut tests) = (Value::Null, Vec::new(), Vec::<Value>::new());
    for line in text.lines().map(|line| line.trim_end_matches('\r')) {
        if let Some(name) = line.strip_prefix("== kernel ") {
            release = name.into();
        } else if let Some(name) = line.strip_prefix("== test ") {
            tests.push(
                json!({"name": name, "passed": 0, "failed": 0, "skipped": 0, "ended": false}),
            );
        } else if line.starts_with('{') {
            needs.extend(
                serde_json::from_str::<Value>(line)
                    .ok()
                    .filter(|need| need["type"] == "need"),
            );
        } else if let Some(test) = tests.last_mut() {
            if line.starts_with("SKIPPED: ") {
                test["skipped"] = (test["skipped"].as_u64().unwrap_or(0) + 1).into();
            } else if let Some(result) = line.strip_prefix("test result: ") {
                let number = |what: &str| {
                    let mut words = result
                        .split(|c: char| !c.is_alphanumeric())
                        .filter(|word| !word.is_empty());
                    let mut last = None;
                    words.find_map(|word| {
                        if word == what {
                            last
                        } else {
                            last = word.parse::<u64>().ok();
                            None
                        }
                    })
                };
                test["passed"] = number("passed")
                    .unwrap_or(0)
                    .saturating_sub(test["skipped"].as_u64().unwrap_or(0))
                    .into();
                test["failed"] = number("failed").into();
                test["ended"] = true.into();
            }
        }
    }
    let missing: Vec<&Value> = needs
        .iter()
        .filter(|need| {
            need["state"] == "missing" && matches!(need["kind"].as_str(), Some("hook" | "field"))
        })
        .map(|need| &need["name"])
        .collect();
    let detail = |kind: &str| {
        needs
            .iter()
            .find(|need| need["kind"] == kind)
            .map(|need| need["detail"].clone())
    };
    json!({
        "release": release, "tests": tests, "absent": missing,
        "programs": detail("programs"), "bbr": detail("module"), "confinement": detail("confinement"),
    })
}

/// Puts it beside what other kernels and earlier runs came to, and makes the page anew.
fn keep(checkout: &Checkout, kernel: &str, mut new: Value) -> Result<()> {
    let path = checkout.root.join(RESULTS);
    let mut all: Value = match fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).with_context(|| format!("{RESULTS} is damaged"))?,
        Err(_) => json!({}),
    };
    // Tests of an earlier run that were not run now stay.
    if let (Some(old), Some(now)) = (
        all[kernel]["tests"].as_array().cloned(),
        new["tests"].as_array_mut(),
    ) {
        let again: Vec<Value> = now.iter().map(|test| test["name"].clone()).collect();
        now.extend(
            old.into_iter()
                .filter(|test| !again.contains(&test["name"])),
        );
        now.sort_by_key(|test| test["name"].to_string());
    }
    all[kernel] = new;
    fs::write(&path, serde_json::to_string_pretty(&all)? + "\n")?;
    let page = checkout.root.join(PAGE);
    let text = fs::read_to_string(&page)?;
    fs::write(&page, table::put(&text, &table::of(&all))?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_out_is_counted() {
        let text = "== kernel 6.1.0-57-amd64\r\n== doctor\n{\"type\":\"need\",\"kind\":\"hook\",\"name\":\"x\",\"state\":\"missing\"}\n\
                    {\"type\":\"need\",\"kind\":\"programs\",\"detail\":\"loaded\",\"state\":\"found\"}\n== test kernel_a\n\
                    SKIPPED: b: no c\ntest result: ok. 5 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n== test kernel_b\n";
        let came = outcome(text);
        assert_eq!(came["release"], "6.1.0-57-amd64");
        assert_eq!(came["absent"], json!(["x"]));
        assert_eq!(came["programs"], "loaded");
        assert_eq!(
            came["tests"][0],
            json!({"name": "kernel_a", "passed": 4, "failed": 1, "skipped": 1, "ended": true})
        );
        assert_eq!(came["tests"][1]["ended"], false);
    }
}
