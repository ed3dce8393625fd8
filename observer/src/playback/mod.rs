//! A recording folded to any moment of it.
//!
//! [`Player`] stands at a moment: its model is the fold of the file's events up to there. Forwards it folds on; backwards,
//! and far forwards, it begins at the nearest of the models that were kept ([`keyframes`]) while the file was looked through
//! once in the background ([`scan`]), and folds from there. However one came to a moment, the model is the same.

mod judgements;
mod keyframes;
mod player;
mod scan;

pub use judgements::Judgements;
pub use player::{Player, Span};
pub use scan::Found;
