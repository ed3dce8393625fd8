//! One flow's past as it is written.

use super::entry::{Break, Breaks, Bucket, Mark, Raw, Stage, Stages, Values, What, place};
use super::level::{Caps, LEVELS};
use super::ring::Ring;
use crate::event::{CaState, RetransmitKind};
use crate::units::Mono;

/// Widths of the buckets, each a multiple of the one before, ns.
pub(super) const WIDTHS: [u64; 3] = [100_000_000, 1_000_000_000, 10_000_000_000];

/// A resolution: what it holds, and since when nothing is missing from it.
#[derive(Clone, Debug)]
pub(super) struct Tier<T> {
    pub ring: Ring<T>,
    /// Complete from here on, ns; 0 = from the flow's first event on; [`NEVER`] = nothing was taken yet.
    pub from: u64,
}

const NEVER: u64 = u64::MAX;

impl<T> Default for Tier<T> {
    fn default() -> Self {
        Self {
            ring: Ring::default(),
            from: NEVER,
        }
    }
}

impl<T> Tier<T> {
    /// Lets go beyond `cap`; `start` of the oldest left.
    fn trim(&mut self, cap: usize, start: impl Fn(&T) -> u64) {
        if self.ring.trim(cap) {
            self.from = self.ring.front().map_or(NEVER, start);
        }
        if cap == 0 {
            self.from = NEVER;
        }
    }

    /// Adds the newest, which nothing before is missing from `complete` on.
    fn push(&mut self, entry: T, cap: usize, complete: u64, start: impl Fn(&T) -> u64) {
        if self.from == NEVER {
            self.from = complete;
        }
        if self.ring.push(entry, cap).is_some() {
            self.from = self.from.max(self.ring.front().map_or(NEVER, start));
        }
    }
}

/// See the module above.
#[derive(Clone, Debug)]
pub struct History {
    caps: &'static Caps,
    pub(super) raw: Tier<Raw>,
    pub(super) marks: Ring<Mark>,
    pub(super) tiers: [Tier<Bucket>; 3],
    /// The first event of all.
    began: Option<u64>,
    /// The newest sample's.
    pub(super) sampled: Option<u64>,
    /// The newest event's.
    newest: u64,
    /// Since the newest sample.
    pub(super) pending: Breaks,
}

impl Default for History {
    fn default() -> Self {
        Self {
            caps: &LEVELS[0],
            raw: Tier::default(),
            marks: Ring::default(),
            tiers: Default::default(),
            began: None,
            sampled: None,
            newest: 0,
            pending: Breaks::default(),
        }
    }
}

impl History {
    pub(super) const SAMPLE: usize = size_of::<Raw>();
    pub(super) const MARK: usize = size_of::<Mark>();
    pub(super) const BUCKET: usize = size_of::<Bucket>();

    /// Bytes on the heap.
    pub fn heap(&self) -> usize {
        let tiers: usize = self.tiers.iter().map(|t| t.ring.heap()).sum();
        self.raw.ring.heap() + self.marks.heap() + tiers
    }

    /// What came before this is forgotten; `None` = nothing was.
    pub fn forgotten_before(&self) -> Option<Mono> {
        let began = self.began?;
        let from = self.from()?;
        (from.0 > began).then_some(from)
    }

    /// The oldest moment of which anything is known.
    pub fn from(&self) -> Option<Mono> {
        let began = self.began?;
        let tiers = self.tiers.iter().filter(|t| !t.ring.is_empty());
        let raw = (!self.raw.ring.is_empty()).then_some(self.raw.from);
        let from = tiers.map(|t| t.from).chain(raw).min()?;
        Some(Mono(from.max(began)))
    }

    /// Anything is remembered.
    pub(in crate::model) fn is_kept(&self) -> bool {
        self.caps.bytes() > 0
    }

    /// Remembers at another level from now on.
    pub(in crate::model) fn limit(&mut self, caps: &'static Caps) {
        if std::ptr::eq(self.caps, caps) {
            return;
        }
        self.caps = caps;
        self.raw.trim(caps.samples, |raw| raw.time);
        // Samples are as complete as the marks between them.
        let newest = self.marks.back().map_or(0, |mark| mark.time);
        if self.marks.trim(caps.marks) && self.raw.from != NEVER {
            let left = self
                .marks
                .front()
                .map_or(newest.saturating_add(1), |mark| mark.time);
            self.raw.from = self.raw.from.max(left);
        }
        for ((tier, cap), width) in self.tiers.iter_mut().zip(caps.tiers).zip(WIDTHS) {
            tier.trim(cap, |bucket| start(bucket, width));
        }
    }

    pub(in crate::model) fn sample(&mut self, time: Mono, values: &Values, stages: Stages) {
        let time = self.arrive(time);
        let before = std::mem::take(&mut self.pending);
        self.sampled = Some(time);
        if self.caps.samples > 0 {
            let raw = Raw::new(time, *values, stages, before);
            self.raw.push(raw, self.caps.samples, time, |raw| raw.time);
        }
        self.each(time, |bucket| bucket.sample(values, stages, before));
    }

    pub(in crate::model) fn retransmit(&mut self, time: Mono, kind: RetransmitKind, segments: u32) {
        let time = self.arrive(time);
        let kind = place(kind);
        self.mark(time, segments, What::Retransmit(kind));
        self.each(time, |bucket| {
            let count = &mut bucket.retransmits[usize::from(kind)];
            *count = count.saturating_add(segments);
        });
    }

    /// A change of congestion state, which may be over before the next sample.
    pub(in crate::model) fn ca_state(&mut self, time: Mono, state: CaState) {
        let Some(stage) = Stage::of_ca(state) else {
            return;
        };
        let time = self.arrive(time);
        self.mark(time, 0, What::Stage(stage));
        let stages = [stage].into_iter().collect();
        self.each(time, |bucket| bucket.stages = bucket.stages.and(stages));
    }

    /// From the newest sample to the next, something is missing.
    pub(in crate::model) fn interrupt(&mut self, why: Break) {
        self.pending.add(why);
    }

    /// Time does not go back: what comes late counts as having come with the newest.
    fn arrive(&mut self, time: Mono) -> u64 {
        self.newest = self.newest.max(time.0);
        if self.began.is_none() {
            self.began = Some(self.newest);
            let from = |cap: usize| if cap > 0 { 0 } else { NEVER };
            self.raw.from = from(self.caps.samples);
            for (tier, cap) in self.tiers.iter_mut().zip(self.caps.tiers) {
                tier.from = from(cap);
            }
        }
        self.newest
    }

    fn mark(&mut self, time: u64, segments: u32, what: What) {
        let mark = Mark {
            time,
            segments,
            what,
        };
        if let Some(gone) = self.marks.push(mark, self.caps.marks)
            && self.raw.from != NEVER
        {
            self.raw.from = self.raw.from.max(gone.time.saturating_add(1));
        }
    }

    /// Does `act` to the bucket of `time` at each resolution.
    fn each(&mut self, time: u64, mut act: impl FnMut(&mut Bucket)) {
        for (k, width) in WIDTHS.into_iter().enumerate() {
            let at = u32::try_from(time / width).unwrap_or(u32::MAX);
            let cap = self.caps.tiers[k];
            if cap == 0 {
                continue;
            }
            let tier = &mut self.tiers[k];
            if tier.ring.back().is_none_or(|bucket| bucket.at < at) {
                // What came into it before, while nothing was kept, is not in it.
                let complete = (u64::from(at) + 1).saturating_mul(width);
                tier.push(Bucket::new(at), cap, complete, |b| start(b, width));
            }
            if let Some(bucket) = tier.ring.back_mut() {
                act(bucket);
            }
        }
    }
}

/// When the bucket begins, ns.
pub(super) fn start(bucket: &Bucket, width: u64) -> u64 {
    u64::from(bucket.at).saturating_mul(width)
}
