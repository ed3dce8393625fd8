//! The table of kernels in the documentation, between two marks.

use anyhow::{Context as _, Result};
use serde_json::Value;

const BEGIN: &str = "<!-- cargo xtask vm: begin -->\n";
const END: &str = "<!-- cargo xtask vm: end -->";

/// A column a kernel.
pub fn of(all: &Value) -> String {
    let Some(kernels) = all.as_object() else {
        return String::new();
    };
    let mut names: Vec<&String> = kernels.keys().collect();
    names.sort_by_key(|name| version(name));
    let mut tests: Vec<&str> = kernels
        .values()
        .filter_map(|kernel| kernel["tests"].as_array())
        .flatten()
        .filter_map(|test| test["name"].as_str())
        .collect();
    tests.sort_unstable();
    tests.dedup();
    let mut rows = Vec::new();
    let mut row = |label: &str, cell: &dyn Fn(&Value) -> String| {
        let cells: Vec<String> = names.iter().map(|name| cell(&kernels[*name])).collect();
        rows.push(format!("| {label} | {} |\n", cells.join(" | ")));
    };
    row("", &|kernel| word(&kernel["release"]));
    row("---", &|_| "---".to_owned());
    row("programs", &|kernel| word(&kernel["programs"]));
    row("`bbr`", &|kernel| word(&kernel["bbr"]));
    row(
        "hooks and fields absent",
        &|kernel| match kernel["absent"].as_array() {
            Some(absent) if !absent.is_empty() => absent
                .iter()
                .map(|name| format!("`{}`", word(name)))
                .collect::<Vec<_>>()
                .join(", "),
            _ => "none".to_owned(),
        },
    );
    row("Landlock", &|kernel| word(&kernel["confinement"]));
    for test in tests {
        row(&format!("`{test}`: passed, failed, skipped"), &|kernel| {
            counts(kernel, test)
        });
    }
    rows.concat()
}

fn counts(kernel: &Value, test: &str) -> String {
    let all = kernel["tests"].as_array();
    match all.and_then(|all| all.iter().find(|of| of["name"] == test)) {
        None => "not run".to_owned(),
        Some(of) if of["ended"] != true => "did not end".to_owned(),
        Some(of) => format!("{}, {}, {}", of["passed"], of["failed"], of["skipped"]),
    }
}

fn word(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| "—".to_owned(), |text| text.replace('|', "/"))
}

/// `6.12` after `6.1`.
fn version(name: &str) -> Vec<u32> {
    name.split('.')
        .map(|part| part.parse().unwrap_or(0))
        .collect()
}

/// `page` with the table between its marks.
pub fn put(page: &str, table: &str) -> Result<String> {
    let (before, rest) = page
        .split_once(BEGIN)
        .context("the page has no mark where the table begins")?;
    let (_, after) = rest
        .split_once(END)
        .context("the page has no mark where the table ends")?;
    Ok(format!("{before}{BEGIN}{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn kernels_are_columns_in_the_order_of_their_versions() {
        let all = json!({
            "6.12": {"release": "6.12.1", "tests": [{"name": "kernel_a", "passed": 1, "failed": 0, "skipped": 2, "ended": true}]},
            "6.1": {"release": "6.1.0", "absent": ["f"], "tests": []},
        });
        let table = of(&all);
        assert!(
            table.starts_with("|  | 6.1.0 | 6.12.1 |\n| --- | --- | --- |\n"),
            "{table}"
        );
        assert!(
            table.contains("| `kernel_a`: passed, failed, skipped | not run | 1, 0, 2 |"),
            "{table}"
        );
        let page = put(&format!("a\n{BEGIN}old{END}\nb\n"), &table).unwrap();
        assert!(page.starts_with("a\n") && page.ends_with("-->\nb\n") && !page.contains("old"));
        assert!(put("no marks", &table).is_err());
    }
}
