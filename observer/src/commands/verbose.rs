//! What `-v` tells, on standard error: what was chosen, and why.

use super::output::message;
use crate::cli::Common;
use crate::kernel::load::LoadError;
use crate::source::live::LiveOptions;

/// The source that was started, and why it is that one where it is not the first choice.
pub fn source(common: &Common, options: &LiveOptions, refused: Option<&LoadError>, programs: bool) {
    if !common.verbose {
        return;
    }
    let kernel = &options.kernel;
    message(&format!(
        "observer {}: {}",
        env!("CARGO_PKG_VERSION"),
        if programs {
            "kernel programs are attached"
        } else {
            "socket-diag is polled"
        }
    ));
    if let Some(error) = refused {
        message(&format!("  the programs do not run: {error}"));
    }
    if options.everywhere {
        message("  network namespaces: all");
    } else {
        let inums: Vec<_> = options
            .namespaces
            .iter()
            .map(|n| n.inum.to_string())
            .collect();
        message(&format!("  network namespaces: {}", inums.join(", ")));
    }
    if programs {
        message(&format!(
            "  a sample per flow every {:?} at most, {} % of all cores at most, ring of {} kB, type information in {}",
            common.interval,
            common.max_cpu,
            kernel.ring_bytes >> 10,
            kernel.btf.display()
        ));
        let filter = &kernel.filter;
        message(&match (filter.len, filter.pids) {
            (0, 0) => "  no filter in the kernel: flows are chosen afterwards".to_owned(),
            (steps, pids) => {
                format!(
                    "  filter in the kernel: {steps} steps, {pids} processes; what it cannot decide is chosen afterwards"
                )
            }
        });
    }
}
