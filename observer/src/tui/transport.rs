//! The transport: where in time one stands, and how time goes on. Keys and elapsed time in, the moment to show out; no
//! clock, no model, no file. A recording and the last minutes of what is live are moved through by the same rules.

use std::time::Duration;

use crate::model::MarkKind;
use crate::units::Mono;

/// What a key asks of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Command {
    /// Stands still, or goes on.
    Toggle,
    Step(Direction),
    /// A hundred steps of a recording, ten of what is live.
    Skip(Direction),
    To(Mono),
    Faster,
    Slower,
    /// To the beginning; to the end, which of what is live is now.
    First,
    Last,
    /// To the next moment of a kind, or the one before.
    Jump(Direction, MarkKind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Back,
    Forth,
}

/// How fast recorded time goes by: 0.1 to 100 times.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Speed(f64);

impl Default for Speed {
    fn default() -> Self {
        Self(1.0)
    }
}

impl Speed {
    pub const SLOWEST: f64 = 0.1;
    pub const FASTEST: f64 = 100.0;
    const STEPS: [f64; 10] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];

    /// `None` = beyond what there is.
    pub fn new(times: f64) -> Option<Self> {
        (Self::SLOWEST..=Self::FASTEST)
            .contains(&times)
            .then_some(Self(times))
    }

    pub fn times(self) -> f64 {
        self.0
    }

    fn faster(self) -> Self {
        let next = Self::STEPS.into_iter().find(|step| *step > self.0);
        next.map_or(self, Self)
    }

    fn slower(self) -> Self {
        let next = Self::STEPS.into_iter().rev().find(|step| *step < self.0);
        next.map_or(self, Self)
    }

    /// Of recorded time, in so much of ours.
    fn of(self, elapsed: Duration) -> u64 {
        let ns = elapsed.as_secs_f64() * self.0 * 1e9;
        // Saturates; never negative.
        ns.round() as u64
    }
}

/// What moves by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A recording: it goes on at its speed, and ends.
    File,
    /// What is live: it goes on without us, and standing still is the only other thing.
    Live,
}

/// A step of a recording takes so much at its own pace, more or less where it goes by faster or slower …
const STEP_NS: u64 = 100_000_000;
/// … and of what is live, that is kept by the second, this much.
const LIVE_STEP_NS: u64 = 1_000_000_000;

/// Where one stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transport {
    kind: Kind,
    first: Mono,
    last: Mono,
    at: Mono,
    going: bool,
    speed: Speed,
}

impl Transport {
    /// At the beginning of a recording, going on.
    pub fn file(first: Mono, last: Mono, speed: Speed) -> Self {
        Self {
            kind: Kind::File,
            first,
            last: last.max(first),
            at: first,
            // One moment alone is its end.
            going: last > first,
            speed,
        }
    }

    /// At what is now.
    pub fn live() -> Self {
        Self {
            kind: Kind::Live,
            first: Mono::default(),
            last: Mono::default(),
            at: Mono::default(),
            going: true,
            speed: Speed::default(),
        }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn first(&self) -> Mono {
        self.first
    }

    pub fn last(&self) -> Mono {
        self.last
    }

    pub fn at(&self) -> Mono {
        self.at
    }

    /// Time goes by.
    pub fn is_going(&self) -> bool {
        self.going
    }

    /// A recording stands at its end.
    pub fn is_at_end(&self) -> bool {
        self.kind == Kind::File && self.at >= self.last
    }

    pub fn speed(&self) -> Speed {
        self.speed
    }

    /// Takes in what there is to be seen of what is live. Whoever stands still before its beginning is at it.
    pub fn extend(&mut self, first: Mono, last: Mono) {
        self.first = first.min(last);
        self.last = last;
        if self.going {
            self.at = last;
        }
    }

    /// Takes in that so much of our time went by. Returns whether there is anything new to be seen.
    pub fn elapse(&mut self, elapsed: Duration) -> bool {
        if self.kind == Kind::Live || !self.going {
            return false;
        }
        let before = self.at;
        self.move_to(self.at.plus(self.speed.of(elapsed)));
        self.at != before
    }

    /// It could not be brought further than here in time: goes on from here.
    pub fn fall_back(&mut self, reached: Mono) {
        if self.going {
            self.at = self.at.min(reached.max(self.first));
        }
    }

    /// Acts on a key. Jumps are not among what is decided here: who knows the moments calls [`Transport::go`].
    pub fn act(&mut self, command: Command) {
        match command {
            Command::Toggle if self.is_at_end() => {}
            Command::Toggle => {
                self.going = !self.going;
                if self.going && self.kind == Kind::Live {
                    self.at = self.last;
                }
            }
            Command::Step(direction) => self.pace(direction, 1),
            Command::Skip(direction) => {
                let steps = if self.kind == Kind::Live { 10 } else { 100 };
                self.pace(direction, steps);
            }
            Command::Faster => self.speed = self.speed.faster(),
            Command::Slower => self.speed = self.speed.slower(),
            Command::First => self.go(self.first),
            Command::Last => {
                self.going = self.kind == Kind::Live;
                self.at = self.last;
            }
            Command::To(moment) => self.go(moment),
            Command::Jump(..) => {}
        }
    }

    /// To a moment. What is live stands still there.
    pub fn go(&mut self, to: Mono) {
        if self.kind == Kind::Live {
            self.going = false;
        }
        self.move_to(to);
    }

    /// A step stands still, so that one sees it; a longer way goes on as before.
    fn pace(&mut self, direction: Direction, steps: u64) {
        if steps == 1 || self.kind == Kind::Live {
            self.going = false;
        }
        let by = self.step_ns().saturating_mul(steps);
        self.move_to(match direction {
            Direction::Back => Mono(self.at.0.saturating_sub(by)),
            Direction::Forth => self.at.plus(by),
        });
    }

    fn step_ns(&self) -> u64 {
        match self.kind {
            Kind::File => ((STEP_NS as f64) * self.speed.times()).round() as u64,
            Kind::Live => LIVE_STEP_NS,
        }
    }

    /// No further than there is something to be seen; a recording stops at its end.
    fn move_to(&mut self, to: Mono) {
        self.at = to.max(self.first).min(self.last);
        if self.is_at_end() {
            self.going = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use Direction::{Back, Forth};

    const S: u64 = 1_000_000_000;

    fn file() -> Transport {
        Transport::file(Mono(10 * S), Mono(110 * S), Speed::default())
    }

    #[test]
    fn a_recording_goes_by_at_its_speed_and_stops_at_its_end() {
        let mut t = file();
        assert!(t.elapse(Duration::from_millis(250)));
        assert_eq!(t.at(), Mono(10 * S + S / 4));
        t.act(Command::Faster);
        t.act(Command::Faster);
        assert_eq!(t.speed(), Speed(5.0));
        t.elapse(Duration::from_secs(1));
        assert_eq!(t.at(), Mono(15 * S + S / 4));
        t.elapse(Duration::from_mins(1));
        assert!(t.is_at_end() && !t.is_going());
        assert_eq!(t.at(), Mono(110 * S));
        // There is nowhere to go on to.
        t.act(Command::Toggle);
        assert!(!t.is_going() && !t.elapse(Duration::from_secs(1)));
        // From before it there is.
        t.act(Command::Skip(Back));
        assert_eq!((t.at(), t.is_going()), (Mono(60 * S), false));
        t.act(Command::Toggle);
        assert!(t.is_going() && t.elapse(Duration::from_secs(1)));
    }

    #[test]
    fn steps_are_as_large_as_time_is_fast_and_stand_still() {
        let mut t = file();
        t.act(Command::Step(Forth));
        assert_eq!((t.at(), t.is_going()), (Mono(10 * S + S / 10), false));
        t.act(Command::Slower);
        t.act(Command::Slower);
        t.act(Command::Step(Forth));
        assert_eq!(t.at(), Mono(10 * S + S / 10 + S / 50));
        t.act(Command::Step(Back));
        t.act(Command::Step(Back));
        t.act(Command::Skip(Back));
        assert_eq!(t.at(), Mono(10 * S), "its beginning");
        t.act(Command::First);
        t.act(Command::Skip(Forth));
        assert_eq!(t.at(), Mono(12 * S));
        t.act(Command::Last);
        assert!(t.is_at_end());
    }

    #[test]
    fn a_longer_way_goes_on_as_before() {
        let mut t = file();
        t.act(Command::Skip(Forth));
        assert!(t.is_going());
        t.go(Mono(50 * S));
        assert!(t.is_going());
        t.act(Command::Toggle);
        t.go(Mono(20 * S));
        assert!(!t.is_going());
    }

    #[test]
    fn what_comes_too_late_is_not_left_out() {
        let mut t = file();
        t.elapse(Duration::from_secs(9));
        t.fall_back(Mono(12 * S));
        assert_eq!(t.at(), Mono(12 * S));
        t.act(Command::Toggle);
        t.fall_back(Mono(11 * S));
        assert_eq!(t.at(), Mono(12 * S), "nobody is in a hurry");
    }

    #[test]
    fn what_is_live_stands_still_when_one_goes_back_and_is_live_at_its_end() {
        let mut t = Transport::live();
        t.extend(Mono(5 * S), Mono(60 * S));
        assert_eq!((t.at(), t.is_going()), (Mono(60 * S), true));
        assert!(!t.elapse(Duration::from_secs(1)));
        t.act(Command::Step(Back));
        assert_eq!((t.at(), t.is_going()), (Mono(59 * S), false));
        t.extend(Mono(6 * S), Mono(61 * S));
        assert_eq!(t.at(), Mono(59 * S), "it stands still");
        t.act(Command::Skip(Back));
        assert_eq!(t.at(), Mono(49 * S));
        t.act(Command::First);
        assert_eq!(t.at(), Mono(6 * S));
        t.act(Command::Last);
        assert_eq!((t.at(), t.is_going()), (Mono(61 * S), true));
        for _ in 0..2 {
            t.act(Command::Toggle);
        }
        assert_eq!((t.at(), t.is_going()), (Mono(61 * S), true));
        assert!(!t.is_at_end(), "what is live has none");
    }

    #[test]
    fn speeds_have_ends() {
        let mut t = file();
        for _ in 0..20 {
            t.act(Command::Slower);
        }
        assert_eq!(t.speed(), Speed(0.1));
        for _ in 0..20 {
            t.act(Command::Faster);
        }
        assert_eq!(t.speed(), Speed(100.0));
        assert_eq!(Speed(3.0).faster(), Speed(5.0));
        assert_eq!(Speed(3.0).slower(), Speed(2.0));
        for wrong in [0.0, 0.09, 100.1, f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(Speed::new(wrong), None);
        }
    }

    proptest! {
        #[test]
        fn nothing_leads_out_of_what_there_is(
            steps in proptest::collection::vec((0_usize..11, any::<u64>()), 0..100),
            first in 0_u64..1000,
            length in 0_u64..10_000,
            live in any::<bool>(),
        ) {
            let (first, last) = (Mono(first * S), Mono((first + length) * S));
            let mut t = if live { Transport::live() } else { Transport::file(first, last, Speed::default()) };
            if live {
                t.extend(first, last);
            }
            for (what, n) in steps {
                match what {
                    0 => t.act(Command::Toggle),
                    1 => t.act(Command::Step(Back)),
                    2 => t.act(Command::Step(Forth)),
                    3 => t.act(Command::Skip(Back)),
                    4 => t.act(Command::Skip(Forth)),
                    5 => t.act(Command::Faster),
                    6 => t.act(Command::Slower),
                    7 => t.act(Command::First),
                    8 => t.act(Command::Last),
                    9 => t.go(Mono(n)),
                    _ => {
                        t.elapse(Duration::from_nanos(n));
                    }
                }
                prop_assert!(t.at() >= first && t.at() <= last);
                prop_assert!(!(t.is_at_end() && t.is_going()));
                prop_assert!(!live || t.is_going() != (t.at() < last) || !t.is_going());
            }
        }
    }
}
