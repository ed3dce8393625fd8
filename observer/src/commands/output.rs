//! Where data and messages go: data to stdout, messages to stderr, nothing unescaped.

use std::io::{self, BufWriter, StdoutLock, Write};

use serde::Serialize;

use crate::event::Elsewhere;
use crate::model::Model;
use crate::units::escape;

/// Buffered standard output; flush it whenever lines are complete.
pub fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}

/// One JSON object and the end of its line.
pub fn json(out: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line).map_err(io::Error::from)?;
    out.write_all(b"\n")
}

/// A message for the person. That it cannot be written is no reason to fail.
pub fn message(text: &str) {
    let mut stderr = io::stderr().lock();
    for line in text.lines() {
        let _ = writeln!(stderr, "{}", escape(line));
    }
}

/// Says what does not work here, from the `told`th limitation on; how many are told now.
pub fn degraded(model: &Model, told: usize) -> usize {
    let all = model.degraded();
    for noted in all.iter().skip(told) {
        message(&format!("observer: {}", noted.note.text));
    }
    all.len()
}

/// Says once that there are flows in other network namespaces.
pub fn elsewhere(found: Option<Elsewhere>) {
    let Some(Elsewhere {
        namespaces, flows, ..
    }) = found.filter(|found| found.flows > 0)
    else {
        return;
    };
    let (flow, namespace) = (
        plural(flows, "flow"),
        plural(u64::from(namespaces), "other network namespace"),
    );
    message(&format!(
        "observer: {flow} in {namespace} not shown: -N all shows them"
    ));
}

fn plural(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
