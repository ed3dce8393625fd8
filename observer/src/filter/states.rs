//! Sets of TCP states by the words of `ss`.

use std::fmt;

use crate::event::TcpState;

/// One bit per kernel number; bit 0 is every number that this version does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct States(u16);

const ESTABLISHED: u16 = 1 << 1;
const SYN_SENT: u16 = 1 << 2;
/// Shown by one word: `SYN_RECV` and `NEW_SYN_RECV`.
const SYN_RECV: u16 = 1 << 3 | 1 << 12;
const FIN_WAIT_1: u16 = 1 << 4;
const FIN_WAIT_2: u16 = 1 << 5;
const TIME_WAIT: u16 = 1 << 6;
const CLOSED: u16 = 1 << 7;
const CLOSE_WAIT: u16 = 1 << 8;
const LAST_ACK: u16 = 1 << 9;
const LISTENING: u16 = 1 << 10;
const CLOSING: u16 = 1 << 11;
const BOUND_INACTIVE: u16 = 1 << 13;
const UNKNOWN: u16 = 1;
const ALL: u16 = (1 << 14) - 1;
const CONNECTED: u16 = ALL & !(LISTENING | CLOSED | BOUND_INACTIVE);
const BUCKET: u16 = SYN_RECV | TIME_WAIT;
/// Of sockets that are no connection to watch: no `tcp_sock` (TRAPS 31), or no other end.
const NO_FLOW: u16 = LISTENING | BOUND_INACTIVE | BUCKET;

/// Disjoint; together with [`UNKNOWN`] they are all.
const SINGLE: [(&str, u16); 12] = [
    ("established", ESTABLISHED),
    ("syn-sent", SYN_SENT),
    ("syn-recv", SYN_RECV),
    ("fin-wait-1", FIN_WAIT_1),
    ("fin-wait-2", FIN_WAIT_2),
    ("time-wait", TIME_WAIT),
    ("closed", CLOSED),
    ("close-wait", CLOSE_WAIT),
    ("last-ack", LAST_ACK),
    ("listening", LISTENING),
    ("closing", CLOSING),
    ("bound-inactive", BOUND_INACTIVE),
];

const GROUPS: [(&str, u16); 5] = [
    ("all", ALL),
    ("connected", CONNECTED),
    ("synchronized", CONNECTED & !SYN_SENT),
    ("bucket", BUCKET),
    ("big", ALL & !BUCKET),
];

/// Other spellings, those of the screen among them.
const ALIASES: [(&str, u16); 7] = [
    ("estab", ESTABLISHED),
    ("syn-rcv", SYN_RECV),
    ("close", CLOSED),
    ("unconn", CLOSED),
    ("unconnected", CLOSED),
    ("listen", LISTENING),
    ("timewait", TIME_WAIT),
];

impl States {
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self(ALL);
    /// What `ss` shows without `-a`: [`TcpState::is_connected`].
    pub const SHOWN: Self =
        Self(ESTABLISHED | SYN_SENT | FIN_WAIT_1 | FIN_WAIT_2 | CLOSE_WAIT | LAST_ACK | CLOSING);

    /// By its word, in either case.
    pub fn named(word: &str) -> Option<Self> {
        SINGLE
            .iter()
            .chain(&GROUPS)
            .chain(&ALIASES)
            .find(|(name, _)| name.eq_ignore_ascii_case(word))
            .map(|&(_, bits)| Self(bits))
    }

    /// Why sockets in the one state of this word are never shown; `None` for groups and for states of flows.
    pub fn why_no_flow(word: &str) -> Option<&'static str> {
        let is_group = GROUPS
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case(word));
        let bits = Self::named(word).filter(|_| !is_group)?.0;
        Some(match bits {
            LISTENING => "a listening socket is no flow: it has no other end and no figures",
            TIME_WAIT => {
                "what is left of a connection in TIME-WAIT is no flow: it ended, and the kernel keeps no figures of it"
            }
            SYN_RECV => {
                "a half-open connection (SYN-RECV) is no flow yet: the kernel keeps no figures of it"
            }
            BOUND_INACTIVE => "a socket that is only bound is no flow: it has no other end",
            _ => return None,
        })
    }

    /// No flow is ever in one of these.
    pub fn is_without_flows(self) -> bool {
        self.0 & !NO_FLOW == 0
    }

    /// Words that a filter may ask for, other spellings left out.
    pub fn askable() -> impl Iterator<Item = &'static str> {
        Self::words().filter(|word| Self::named(word).is_some_and(|set| !set.is_without_flows()))
    }

    /// All words, other spellings left out.
    pub fn words() -> impl Iterator<Item = &'static str> {
        SINGLE.iter().chain(&GROUPS).map(|&(name, _)| name)
    }

    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// What is in both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub fn contains(self, state: TcpState) -> bool {
        let bits = match state {
            TcpState::Established => ESTABLISHED,
            TcpState::SynSent => SYN_SENT,
            TcpState::SynRecv | TcpState::NewSynRecv => SYN_RECV,
            TcpState::FinWait1 => FIN_WAIT_1,
            TcpState::FinWait2 => FIN_WAIT_2,
            TcpState::TimeWait => TIME_WAIT,
            TcpState::Close => CLOSED,
            TcpState::CloseWait => CLOSE_WAIT,
            TcpState::LastAck => LAST_ACK,
            TcpState::Listen => LISTENING,
            TcpState::Closing => CLOSING,
            TcpState::BoundInactive => BOUND_INACTIVE,
            TcpState::Unknown(_) => UNKNOWN,
        };
        self.0 & bits != 0
    }
}

/// State words that give this set.
impl fmt::Display for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = GROUPS.iter().find(|(_, bits)| *bits == self.0) {
            return write!(f, "state {name}");
        }
        // States that no word asks for came with a group: it is named again, and what is not meant taken away.
        let mut clauses = Vec::new();
        let mut named = 0;
        if self.0 & UNKNOWN != 0 {
            clauses.push("state all".to_owned());
            named = ALL;
        } else {
            if self.0 & (LISTENING | BOUND_INACTIVE) != 0 {
                clauses.push("exclude connected".to_owned());
                named |= ALL & !CONNECTED;
            }
            if self.0 & BUCKET != 0 {
                clauses.push("state bucket".to_owned());
                named |= BUCKET;
            }
        }
        for (name, bits) in SINGLE {
            match (self.0 & bits != 0, named & bits != 0) {
                (false, true) => clauses.push(format!("exclude {name}")),
                (true, false) => clauses.push(format!("state {name}")),
                (true, true) | (false, false) => {}
            }
        }
        f.write_str(&clauses.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_those_of_the_manual() {
        let every: Vec<TcpState> = (0..=14).map(TcpState::from_kernel).collect();
        let count = |word| {
            let states = States::named(word).expect(word);
            every.iter().filter(|s| states.contains(**s)).count()
        };
        assert_eq!(count("all"), every.len());
        assert_eq!(count("connected"), every.len() - 3);
        assert_eq!(count("synchronized"), every.len() - 4);
        assert_eq!(count("bucket"), 3);
        assert_eq!(count("big"), every.len() - 3);
        for state in every {
            assert_eq!(States::SHOWN.contains(state), state.is_connected());
            // The screen's own word names it, but for the one that `ss` keeps apart.
            if !matches!(state, TcpState::Unknown(_) | TcpState::BoundInactive) {
                assert!(States::named(state.as_str()).is_some_and(|s| s.contains(state)));
            }
        }
    }
}
