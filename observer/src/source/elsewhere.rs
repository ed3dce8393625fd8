//! The other network namespaces: how many flows they have, or, when all are observed, which have come and gone.

use crate::event::Elsewhere;
use crate::host::netns::{self, Namespace};
use crate::host::{Roots, Watch};
use crate::kernel::diag::{Diag, Families, States};

/// How often they are counted.
pub const EVERY_NS: u64 = 5_000_000_000;

/// Counts the flows outside `observed`. `None` where even the namespaces cannot be listed.
pub fn count(roots: &Roots, observed: &[Namespace]) -> Option<Elsewhere> {
    let census = netns::census(roots).ok()?;
    let mut elsewhere = Elsewhere {
        denied: census.denied,
        ..Elsewhere::default()
    };
    let others = census
        .namespaces
        .iter()
        .filter(|other| observed.iter().all(|own| own.inum != other.inum));
    for other in others {
        let mut flows = 0;
        let counted = netns::enter(other, || {
            Diag::open(other.inum)?.dump(States::CONNECTED, Families::BOTH, |_| flows += 1)
        });
        match counted {
            Ok(Ok(())) if flows > 0 => {
                elsewhere.namespaces += 1;
                elsewhere.flows += flows;
            }
            // Empty, or gone meanwhile.
            Ok(Ok(())) | Err(netns::NetnsError::Gone { .. }) => {}
            Ok(Err(_)) | Err(_) => elsewhere.denied += 1,
        }
    }
    Some(elsewhere)
}

/// Adds the namespaces that have come, drops those that are gone. Nothing changes where they cannot be listed.
pub fn take_in(roots: &Roots, watches: &mut Vec<(Namespace, Watch)>) {
    let Ok(census) = netns::census(roots) else {
        return;
    };
    watches.retain(|(known, _)| census.namespaces.iter().any(|now| now.inum == known.inum));
    for namespace in census.namespaces {
        let known = watches
            .iter_mut()
            .find(|(known, _)| known.inum == namespace.inum);
        if let Some((known, _)) = known {
            // The file that stood for it may be gone while another stands for it still.
            *known = namespace;
        } else {
            let watch = Watch::new(namespace.inum);
            watches.push((namespace, watch));
        }
    }
}
