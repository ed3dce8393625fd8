//! `observer [live]`: the dashboard over the host's flows.

use super::Failure;
use crate::cli::{Common, FilterArgs};

/// Runs until the user quits.
#[expect(clippy::unused_async, reason = "the screen comes next")]
pub async fn run(_: &Common, _: &FilterArgs) -> Result<(), Failure> {
    Err(Failure::Usage(
        "the screen is not there yet: use 'observer list' or 'observer stream'".to_owned(),
    ))
}
