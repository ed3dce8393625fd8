//! Retransmissions of a flow: sums by kind, and bursts of them.

use crate::event::{KINDS, Retransmit, RetransmitKind};
use crate::units::Mono;

/// SPEC §3: a burst is at least this many segments …
const BURST_SEGMENTS: u64 = 3;
/// … with gaps of at most 2 srtt, and this.
const BURST_GAP_NS: u64 = 200_000_000;

/// The place of `kind` in [`KINDS`].
fn place(kind: RetransmitKind) -> usize {
    KINDS
        .iter()
        .position(|&k| k == kind)
        .unwrap_or(KINDS.len() - 1)
}

/// Retransmissions summed. Per flow, segments are the rise of `total_retrans` while it was in view (TRAPS 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetransmitSums {
    pub segments: u64,
    pub bytes: u64,
    /// Segments counted by the kernel that never reached the wire.
    pub failed: u64,
    by_kind: [u32; KINDS.len()],
}

impl RetransmitSums {
    pub(super) fn add(&mut self, retransmit: &Retransmit) {
        let segments = retransmit.segments;
        self.segments += u64::from(segments);
        self.bytes = self.bytes.saturating_add(retransmit.bytes);
        if retransmit.failed {
            self.failed += u64::from(segments);
        }
        let kind = &mut self.by_kind[place(retransmit.kind)];
        *kind = kind.saturating_add(segments);
    }

    /// Segments of `kind`.
    pub fn of_kind(&self, kind: RetransmitKind) -> u32 {
        self.by_kind[place(kind)]
    }

    /// Kinds that occurred with their segments, in the order of SPEC §4.
    pub fn kinds(&self) -> impl Iterator<Item = (RetransmitKind, u32)> {
        KINDS
            .into_iter()
            .zip(self.by_kind)
            .filter(|&(_, segments)| segments > 0)
    }
}

/// A retransmit burst: ≥ 3 segments with gaps ≤ max(2 srtt, 200 ms), SYN excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    pub start: Mono,
    /// Its last retransmission.
    pub end: Mono,
    pub sums: RetransmitSums,
    /// RTT above the kernel's minimum at the first retransmission that told both, µs.
    pub rtt_above_min_us: Option<u32>,
}

/// Retransmissions that may become a burst.
#[derive(Clone, Debug, Default)]
pub(super) struct Bursts {
    running: Option<Burst>,
    /// The longest gap, as of its last retransmission.
    gap_ns: u64,
}

impl Bursts {
    /// Takes a retransmission in. Returns the burst that it ended by coming late.
    pub fn take(
        &mut self,
        time: Mono,
        retransmit: &Retransmit,
        srtt_us: Option<u32>,
    ) -> Option<Burst> {
        if matches!(
            retransmit.kind,
            RetransmitKind::Syn | RetransmitKind::Synack
        ) {
            return None;
        }
        let ended = self.expire(time);
        self.gap_ns = BURST_GAP_NS.max(u64::from(srtt_us.unwrap_or(0)) * 2000);
        let burst = self.running.get_or_insert(Burst {
            start: time,
            end: time,
            sums: RetransmitSums::default(),
            rtt_above_min_us: None,
        });
        burst.end = burst.end.max(time);
        burst.sums.add(retransmit);
        if burst.rtt_above_min_us.is_none() {
            burst.rtt_above_min_us = retransmit
                .rtt_us
                .zip(retransmit.min_rtt_us)
                .map(|(rtt, min)| rtt.saturating_sub(min));
        }
        ended
    }

    /// Ends what cannot go on at `now`; returns it when it was a burst.
    pub fn expire(&mut self, now: Mono) -> Option<Burst> {
        let running = self.running.as_ref()?;
        if now.since(running.end) <= self.gap_ns {
            return None;
        }
        self.finish()
    }

    /// Ends what runs; returns it when it was a burst.
    pub fn finish(&mut self) -> Option<Burst> {
        self.running
            .take()
            .filter(|burst| burst.sums.segments >= BURST_SEGMENTS)
    }

    /// Whether anything may still become or be a burst.
    pub fn pending(&self) -> bool {
        self.running.is_some()
    }

    /// The burst that is going on.
    pub fn running(&self) -> Option<&Burst> {
        self.running
            .as_ref()
            .filter(|burst| burst.sums.segments >= BURST_SEGMENTS)
    }
}
