//! A congestion control's private words (`icsk_ca_priv`), decoded under the layout of the code that owns them.
//!
//! The name says which family an algorithm may belong to, its code's type information says which version it is and
//! where its members lie (TRAPS 15). Whatever is not certain is not decoded: another algorithm's memory read under a
//! wrong layout gives plausible nonsense (TRAPS 34).

mod bbr;
mod layout;
mod registry;

pub use layout::{CcLayout, Family, Version};
pub use registry::{CcLayouts, Undecoded};
