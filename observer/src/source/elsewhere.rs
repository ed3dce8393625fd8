//! How many flows there are in network namespaces that are not observed, so that the user is told.

use crate::event::Elsewhere;
use crate::host::Roots;
use crate::host::netns::{self, Namespace};
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
