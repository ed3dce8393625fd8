//! How the ends of flows are written: as numbers, or with names where somebody knows them.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::units::escape;

type Write = dyn Fn(SocketAddr) -> String + Send + Sync;

/// Numbers by default.
#[derive(Clone, Default)]
pub struct Addresses(Option<Arc<Write>>);

impl Addresses {
    /// As `write` has it at the moment. It is asked at every frame, so that it must not wait for anything.
    pub fn by(write: impl Fn(SocketAddr) -> String + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(write)))
    }

    /// Names are somebody else's: they are escaped (TRAPS 30).
    pub fn text(&self, end: SocketAddr) -> String {
        match &self.0 {
            Some(write) => escape(&write(end)),
            None => end.to_string(),
        }
    }
}

impl fmt::Debug for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Addresses").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_defused_and_numbers_are_the_default() {
        let end = "[2001:db8::1]:443".parse().expect("an address");
        assert_eq!(Addresses::default().text(end), "[2001:db8::1]:443");
        let named = Addresses::by(|end| format!("a\x1b[2J.example:{}", end.port()));
        assert_eq!(named.text(end), "a\\u{1b}[2J.example:443");
    }
}
