//! One peer: its flows, when it is judged again, and which verdict holds (DETECTION §2.4).

use super::rules::Class;
use super::verdict::Verdict;
use crate::event::FlowId;

/// No more often than this is a peer judged …
const LOSSY_NS: u64 = 500_000_000;
/// … or one without losses, after its first second.
const QUIET_NS: u64 = 10_000_000_000;
const FIRST_NS: u64 = 1_000_000_000;
/// Times in a row that a verdict has to be found before it holds, and before it displaces another.
const TO_HOLD: u32 = 2;
const TO_DISPLACE: u32 = 3;
/// How sure it has to be.
const SURE: f64 = 0.7;
const SURE_STARTUP: f64 = 0.6;
/// A peer whose losses have stopped is judged so often while a verdict on them holds, which is for so long.
const COOLING_NS: u64 = 5_000_000_000;
pub const HOLD_NS: u64 = 30_000_000_000;

#[derive(Debug, Default)]
pub struct Peer {
    pub flows: Vec<FlowId>,
    /// When there was first and last something to judge.
    first_ns: Option<u64>,
    lossy: bool,
    active: bool,
    due_ns: u64,
    held: Option<Verdict>,
    lost_ns: u64,
    rival: Option<(Class, u32)>,
}

impl Peer {
    pub fn sampled(&mut self, time_ns: u64) {
        self.first_ns.get_or_insert(time_ns);
        self.active = true;
    }

    pub fn lost(&mut self, time_ns: u64) {
        self.lossy = true;
        self.lost_ns = time_ns;
    }

    /// New evidence, and not judged just now.
    pub fn is_due(&self, now_ns: u64) -> bool {
        if self.lossy {
            return now_ns >= self.due_ns;
        }
        let held = self.held.as_ref();
        let cooling = held.is_some_and(|held| is_cause(held.class));
        let seen = self
            .first_ns
            .is_some_and(|first| now_ns >= first.saturating_add(FIRST_NS));
        let wait = if cooling { COOLING_NS } else { QUIET_NS } - LOSSY_NS;
        let waited = self.due_ns == 0 || now_ns >= self.due_ns.saturating_add(wait);
        (self.active || cooling) && seen && waited
    }

    /// It is judged now; a costly one not so soon again.
    pub fn judging(&mut self, now_ns: u64, cost: u64) {
        self.lossy = false;
        self.active = false;
        self.due_ns = now_ns.saturating_add(LOSSY_NS.max(cost));
    }

    pub fn held(&self) -> Option<&Verdict> {
        self.held.as_ref()
    }

    /// Takes in what was found; gives the verdict that holds, if any.
    pub fn found(&mut self, verdict: Verdict, now_ns: u64) -> Option<&Verdict> {
        let same = self.held.as_ref().map(|held| held.class) == Some(verdict.class);
        if same || self.displaces(&verdict, now_ns) {
            self.rival = None;
            self.held = Some(verdict);
        } else if let Some(held) = &mut self.held {
            held.flows = verdict.flows;
        }
        self.held.as_ref()
    }

    fn displaces(&mut self, verdict: &Verdict, now_ns: u64) -> bool {
        let held_cause = self.held.as_ref().is_some_and(|held| is_cause(held.class));
        if !is_cause(verdict.class) {
            // Losses that stopped, or too few of late: that contradicts nothing.
            return !held_cause || now_ns.saturating_sub(self.lost_ns) >= HOLD_NS;
        }
        let sure = if verdict.class == Class::QueueStartup {
            SURE_STARTUP
        } else {
            SURE
        };
        if verdict.confidence < sure {
            self.rival = None;
            return false;
        }
        let times = match self.rival {
            Some((class, times)) if class == verdict.class => times + 1,
            _ => 1,
        };
        self.rival = Some((verdict.class, times));
        times >= if held_cause { TO_DISPLACE } else { TO_HOLD }
    }
}

/// Says what is wrong, where others say that nothing is, or nothing yet.
fn is_cause(class: Class) -> bool {
    !matches!(class, Class::None | Class::Insufficient)
}
