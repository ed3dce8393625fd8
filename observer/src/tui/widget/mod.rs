//! Charts: numbers in, cells out. Nothing here knows of flows, and nothing is drawn outside the area given.
//!
//! What tells two lines apart is their dash or their character, never the colour alone.

pub mod axis;
pub mod band;
pub mod bars;
pub mod chart;
mod raster;

pub use axis::{TimeAxis, Unit};
pub use band::Band;
pub use bars::Bars;
pub use chart::{Chart, Line, Point};
pub use raster::{dots_per_cell, sign};
