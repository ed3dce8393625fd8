//! Where data and messages go: data to stdout, messages to stderr, nothing unescaped.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::event::Elsewhere;
use crate::model::Model;
use crate::units::escape;

/// There was no standard output when the program began.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Runs before Rust's own beginning, which puts `/dev/null` where a standard descriptor is closed: what is written would be
/// lost, and nobody told.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: asks for the flags of a descriptor, or that there is none.
    if unsafe { libc::fcntl(1, libc::F_GETFD) } < 0 {
        CLOSED.store(true, Ordering::Relaxed);
    }
}

/// Whether what is written to standard output goes nowhere.
pub fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

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
