//! The last minutes of what is live: what was true at each second, as long as memory allows, and which of it is drawn.

use std::collections::VecDeque;

use super::feed::{Timeline, Wanted, cells};
use super::transport::{Command, Direction, Transport};
use crate::event::FlowId;
use crate::model::{Flow, Mark, MarkKind, Marks, Model};
use crate::units::Mono;

/// All moments together take about so much at most …
const BUDGET: usize = 32 << 20;
/// … and one alone no more than this: with more flows there is no going back.
const LARGEST: usize = BUDGET / 8;
/// They go back no further than this; …
const DEPTH_NS: u64 = 600_000_000_000;
/// … a second lies between them, or more where they are large.
const EVERY_NS: u64 = 1_000_000_000;

/// The view's hold on the past.
#[derive(Debug)]
pub struct Look {
    /// Moments with what they take, oldest first.
    kept: VecDeque<(Model, usize)>,
    weight: usize,
    /// When the next is to be kept.
    due: Mono,
    transport: Transport,
    /// What is drawn while the view stands still.
    shown: Option<Box<Model>>,
    /// Flows whose past was lent to it.
    recalled: Vec<FlowId>,
}

impl Default for Look {
    fn default() -> Self {
        Self {
            kept: VecDeque::new(),
            weight: 0,
            due: Mono::default(),
            transport: Transport::live(),
            shown: None,
            recalled: Vec::new(),
        }
    }
}

impl Look {
    /// Keeps what is true now, when it is time to.
    pub fn keep(&mut self, live: &mut Model) {
        let now = live.now();
        if now >= self.due {
            self.due = now.plus(EVERY_NS);
            // A copy that is not kept would cost a frame.
            let weight = live.snapshot_weight();
            if weight <= LARGEST {
                // So many as fit, over the whole depth.
                let apart = u128::from(DEPTH_NS) * weight as u128 / BUDGET as u128;
                self.due = now.plus(u64::try_from(apart).unwrap_or(u64::MAX).max(EVERY_NS));
                self.weight += weight;
                self.kept.push_back((live.snapshot(), weight));
            }
        }
        while let Some((oldest, weight)) = self.kept.front()
            && (self.weight > BUDGET || now.since(oldest.now()) > DEPTH_NS)
        {
            self.weight -= weight;
            self.kept.pop_front();
        }
        let first = self.kept.front().map_or(now, |(oldest, _)| oldest.now());
        self.transport.extend(first, now);
    }

    /// Moments kept, and the bytes they take, about.
    pub fn size(&self) -> (usize, usize) {
        (self.kept.len(), self.weight)
    }

    /// What is drawn.
    pub fn at<'a>(&'a self, live: &'a Model) -> &'a Model {
        self.shown.as_deref().unwrap_or(live)
    }

    /// Acts on a key; says what cannot be done.
    pub fn act(&mut self, command: Command, live: &Model, wanted: &Wanted<'_>) -> Option<String> {
        let before = self.at(live).now();
        match command {
            Command::Faster | Command::Slower => {
                return Some("what is live goes at its own pace".to_owned());
            }
            Command::Jump(direction, kind) => match self.find(direction, kind, live, wanted) {
                Ok(to) => self.transport.go(to),
                Err(told) => return Some(told),
            },
            command => self.transport.act(command),
        }
        self.show(before, live);
        if matches!(command, Command::Step(_) | Command::Skip(_)) {
            // The next step is from what is seen.
            if let Some(shown) = &self.shown {
                self.transport.go(shown.now());
            }
        }
        self.told(command, before, live)
    }

    /// Why nothing moved.
    fn told(&self, command: Command, before: Mono, live: &Model) -> Option<String> {
        let back = matches!(
            command,
            Command::Step(Direction::Back) | Command::Skip(Direction::Back) | Command::First
        );
        (back && self.at(live).now() >= before).then(|| match self.kept.len() {
            0 | 1 => {
                "there is nothing earlier: too many flows to be kept, or just begun".to_owned()
            }
            _ => "nothing earlier is kept".to_owned(),
        })
    }

    fn find(
        &self,
        direction: Direction,
        kind: MarkKind,
        live: &Model,
        wanted: &Wanted<'_>,
    ) -> Result<Mono, String> {
        let marks = Marks::of(live);
        let first = self.transport.first();
        let wanted = |mark: &Mark| {
            let flow = mark.flow.map(|id| wanted(live, id, live.flow_told(id)));
            mark.time >= first && flow != Some(false)
        };
        let at = self.transport.at();
        let found = match direction {
            Direction::Back => marks.before(kind, at, wanted),
            Direction::Forth => marks.after(kind, at, wanted),
        };
        found
            .map(|mark| mark.time)
            .ok_or_else(|| none(direction, kind))
    }

    /// Brings the moment asked for on the screen: going back the last that is no later, else the first that is no earlier.
    fn show(&mut self, before: Mono, live: &Model) {
        if self.transport.is_going() {
            self.shown = None;
            return;
        }
        let to = self.transport.at();
        let found = if to < before {
            let at = self.kept.partition_point(|(moment, _)| moment.now() <= to);
            self.kept.get(at.saturating_sub(1))
        } else {
            let at = self.kept.partition_point(|(moment, _)| moment.now() < to);
            self.kept.get(at)
        };
        let shown = match found {
            // Stopped: the moment it was, with all its past.
            _ if to >= live.now() => live.clone(),
            Some((moment, _)) => moment.clone(),
            None => live.clone(),
        };
        let whole = shown.now() == live.now();
        self.recalled.clear();
        let mut shown = Box::new(shown);
        if !whole {
            shown.recall(live, &[]);
        }
        self.shown = Some(shown);
    }

    /// Lends what is drawn the past of the flows looked at.
    pub fn focus(&mut self, live: &Model, flows: &[FlowId]) {
        let Some(shown) = &mut self.shown else {
            return;
        };
        let new: Vec<FlowId> = flows
            .iter()
            .copied()
            .filter(|flow| !self.recalled.contains(flow))
            .collect();
        for flow in new {
            // Of a moment that was kept whole it is there already.
            if shown.flow(flow).is_some_and(Flow::past_is_empty) {
                shown.recall(live, &[flow]);
            }
            self.recalled.push(flow);
        }
    }

    pub fn timeline(&self, live: &Model) -> Timeline {
        let still = !self.transport.is_going();
        let (first, last) = (self.transport.first(), self.transport.last());
        Timeline {
            file: None,
            transport: self.transport,
            at: self.at(live).now(),
            now: live.now(),
            seeking: false,
            bursts: if still {
                cells(Marks::of(live).of_kind(MarkKind::Burst), first, last)
            } else {
                Vec::new()
            },
            trouble: None,
        }
    }
}

/// `no retransmit burst after this`.
pub fn none(direction: Direction, kind: MarkKind) -> String {
    let where_ = match direction {
        Direction::Back => "before",
        Direction::Forth => "after",
    };
    format!("no {} {where_} this", kind.as_str())
}
