//! One flow: what was last observed of it, and the little history its figures need.

use std::net::SocketAddr;
use std::sync::Arc;

use super::btlbw::MaxRate;
use super::derived::{DerivedKind, OriginChange, PhaseChange, PhasePair};
use super::judged::Judgement;
use super::limit;
use super::losses::{Burst, Bursts, RetransmitSums};
use super::rates::{Reading, Readings, Spent};
use super::seconds::Seconds;
use super::series::{Break, History, Stages, Values};
use crate::event::{
    Attributes, CaState, CcState, FlowId, Opened, Origin, Process, Retransmit, Sample, TcpState,
};
use crate::units::Mono;

/// A flow as the model knows it. Counters are the kernel's, from the newest [`Sample`].
#[derive(Clone, Debug)]
pub struct Flow {
    id: FlowId,
    opened_at: Mono,
    from_start: bool,
    closed_at: Option<Mono>,
    local: SocketAddr,
    remote: SocketAddr,
    state: TcpState,
    ca_state: Option<CaState>,
    /// Of the newest sample or event that told state or `ca_state`.
    told_at: Mono,
    attributes: Option<Box<Attributes>>,
    sample: Option<(Mono, Box<Sample>)>,
    owners: Option<Vec<Process>>,
    retransmits: RetransmitSums,
    gaps: u64,
    phase: Option<(PhasePair, Mono)>,
    /// When something was last seen to have been sent.
    sent_at: Option<Mono>,
    /// When recovery or loss was last entered.
    cut_at: Option<Mono>,
    last_burst: Option<Burst>,
    pub(super) judgement: Option<Arc<Judgement>>,
    pub(super) readings: Readings,
    pub(super) max_rate: MaxRate,
    pub(super) bursts: Bursts,
    pub(super) history: History,
    pub(super) seconds: Seconds,
    spent: Spent,
    /// Numbers of the changes that last were of anything, and of who it is.
    changed: u64,
    identified: u64,
}

/// What [`Flow::take_sample`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    InOrder,
    /// Older than what is known: not applied.
    Late,
    /// Newer, with counters that fell: applied, rates start anew.
    Fell,
}

impl Flow {
    pub(super) fn new(id: FlowId, time: Mono, opened: &Opened) -> Self {
        let mut readings = Readings::default();
        if opened.from_start {
            readings.push(time, Reading::birth(), 0);
        }
        Self {
            id,
            opened_at: time,
            from_start: opened.from_start,
            closed_at: None,
            local: opened.local,
            remote: opened.remote,
            state: opened.state,
            ca_state: None,
            told_at: time,
            attributes: None,
            sample: None,
            owners: None,
            retransmits: RetransmitSums::default(),
            gaps: 0,
            phase: None,
            sent_at: None,
            cut_at: None,
            last_burst: None,
            judgement: None,
            readings,
            max_rate: MaxRate::default(),
            bursts: Bursts::default(),
            history: History::default(),
            seconds: Seconds::default(),
            spent: Spent::default(),
            changed: 0,
            identified: 0,
        }
    }

    /// Which of its states this is: it grows with every change, the same number is the same state. A reader who keeps what
    /// was reckoned sees by it what to reckon anew.
    pub fn changed(&self) -> u64 {
        self.changed
    }

    /// The same for its ends, attributes and owners alone, which rarely change.
    pub fn identified(&self) -> u64 {
        self.identified
    }

    pub fn id(&self) -> FlowId {
        self.id
    }

    /// When it came into view.
    pub fn opened_at(&self) -> Mono {
        self.opened_at
    }

    /// Its birth was seen.
    pub fn from_start(&self) -> bool {
        self.from_start
    }

    /// When it ended; its figures are final then.
    pub fn closed_at(&self) -> Option<Mono> {
        self.closed_at
    }

    pub fn is_closed(&self) -> bool {
        self.closed_at.is_some()
    }

    pub fn local(&self) -> SocketAddr {
        self.local
    }

    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    pub fn state(&self) -> TcpState {
        self.state
    }

    /// By the newest sample or change. `None` = no word yet.
    pub fn ca_state(&self) -> Option<CaState> {
        self.ca_state
    }

    pub fn attributes(&self) -> Option<&Attributes> {
        self.attributes.as_deref()
    }

    /// The newest reading. Taken at an ACK it is the state *before* that ACK (TRAPS 33): its RTT and `delivered` are
    /// those of the ACK before. Nothing is shifted here.
    pub fn sample(&self) -> Option<&Sample> {
        self.sample.as_ref().map(|(_, sample)| &**sample)
    }

    /// When [`Flow::sample`] was taken.
    pub fn sampled_at(&self) -> Option<Mono> {
        self.sample.as_ref().map(|&(time, _)| time)
    }

    pub fn origin(&self) -> Option<Origin> {
        self.sample().map(|s| s.origin)
    }

    /// `None` = not known; empty = nobody holds it.
    pub fn owners(&self) -> Option<&[Process]> {
        self.owners.as_deref()
    }

    /// Since it came into view.
    pub fn retransmits(&self) -> &RetransmitSums {
        &self.retransmits
    }

    /// Records of this flow known to be missing.
    pub fn gaps(&self) -> u64 {
        self.gaps
    }

    /// BBR's phase with its part, and when it was first seen.
    pub fn phase(&self) -> Option<(PhasePair, Mono)> {
        self.phase
    }

    /// The retransmit burst going on, or the last one.
    pub fn burst(&self) -> Option<&Burst> {
        self.bursts.running().or(self.last_burst.as_ref())
    }

    /// Nothing of its past is remembered.
    pub fn past_is_empty(&self) -> bool {
        self.history.heap() == 0
    }

    /// What it is, without what it was.
    #[must_use]
    pub fn without_past(&self) -> Self {
        let mut flow = self.clone();
        flow.history = History::default();
        flow
    }

    /// Since when nothing was sent, as far as readings tell.
    pub fn quiet_since(&self) -> Option<Mono> {
        self.sample.as_ref()?;
        Some(self.sent_at.unwrap_or(self.opened_at))
    }

    /// When recovery or loss was last entered.
    pub fn cut_at(&self) -> Option<Mono> {
        self.cut_at
    }

    /// Segments in flight: `packets_out − (sacked_out + lost_out) + retrans_out`.
    pub fn inflight_segments(&self) -> Option<u32> {
        self.sample().map(Sample::inflight_segments)
    }

    /// The same, × MSS.
    pub fn inflight_bytes(&self) -> Option<u64> {
        self.sample().map(Sample::inflight_bytes)
    }

    /// srtt − the kernel's min RTT, µs.
    pub fn queueing_delay_us(&self) -> Option<u32> {
        let sample = self.sample()?;
        Some(sample.srtt_us?.saturating_sub(sample.min_rtt_us?))
    }

    /// Bytes retransmitted ÷ bytes sent since birth; `None` when nothing was sent.
    pub fn retrans_rate_life(&self) -> Option<f64> {
        let sample = self.sample()?;
        super::rates::ratio(sample.bytes_retrans?, sample.bytes_sent?)
    }

    /// Heap and own bytes without its past, about.
    pub fn footprint(&self) -> usize {
        size_of::<Self>()
            + self.readings.heap()
            + self.sample.as_ref().map_or(0, |_| size_of::<Sample>())
            + self
                .attributes
                .as_ref()
                .map_or(0, |a| size_of::<Attributes>() + a.cc_name.capacity())
    }

    /// It is not what it was; `identifies`: who it is may be another, too.
    pub(super) fn mark(&mut self, change: u64, identifies: bool) {
        self.changed = change;
        if identifies {
            self.identified = change;
        }
    }

    pub(super) fn take_attributes(&mut self, attributes: &Attributes) {
        self.local = attributes.local;
        self.remote = attributes.remote;
        self.attributes = Some(Box::new(attributes.clone()));
    }

    pub(super) fn take_tuple(&mut self, local: SocketAddr, remote: SocketAddr) {
        self.local = local;
        self.remote = remote;
    }

    pub(super) fn take_owners(&mut self, owners: &[Process]) {
        self.owners = Some(owners.to_vec());
    }

    pub(super) fn take_gap(&mut self, missing: u64) {
        self.gaps = self.gaps.saturating_add(missing);
        self.history.interrupt(Break::Lost);
    }

    /// False when something newer is known.
    pub(super) fn take_state(&mut self, time: Mono, state: TcpState) -> bool {
        if time < self.told_at {
            return false;
        }
        self.told_at = time;
        self.state = state;
        true
    }

    /// False when something newer is known.
    pub(super) fn take_ca_state(&mut self, time: Mono, state: CaState) -> bool {
        if time < self.told_at {
            return false;
        }
        self.told_at = time;
        let cut = |s| matches!(s, CaState::Recovery | CaState::Loss);
        if cut(state) && !self.ca_state.is_some_and(cut) {
            self.cut_at = Some(time);
        }
        self.ca_state = Some(state);
        true
    }

    /// Returns the burst that this retransmission ended by coming late.
    pub(super) fn take_retransmit(
        &mut self,
        time: Mono,
        retransmit: &Retransmit,
    ) -> Option<DerivedKind> {
        self.retransmits.add(retransmit);
        self.history
            .retransmit(time, retransmit.kind, retransmit.segments);
        let srtt = self.sample().and_then(|s| s.srtt_us);
        let ended = self.bursts.take(time, retransmit, srtt)?;
        Some(self.ended(ended))
    }

    pub(super) fn expire_burst(&mut self, now: Mono) -> Option<DerivedKind> {
        let ended = self.bursts.expire(now)?;
        Some(self.ended(ended))
    }

    fn ended(&mut self, burst: Burst) -> DerivedKind {
        self.last_burst = Some(burst);
        DerivedKind::Burst(burst)
    }

    /// Returns the burst that was going on.
    pub(super) fn close(&mut self, time: Mono) -> Option<DerivedKind> {
        self.closed_at = Some(time);
        let burst = self.bursts.finish()?;
        Some(self.ended(burst))
    }

    /// `span`: nanoseconds before the newest reading that have to stay measurable.
    pub(super) fn take_sample(
        &mut self,
        time: Mono,
        sample: &Sample,
        span: u64,
    ) -> (Taken, Option<DerivedKind>) {
        if self.sampled_at().is_some_and(|last| time < last) {
            return (Taken::Late, None);
        }
        let switched = self.origin().filter(|old| *old != sample.origin);
        let fell = self.restart_if_incomparable(sample);
        if fell || switched.is_some() {
            self.history.interrupt(Break::Switched);
        }
        let clocks = self.sample().and_then(|s| s.clocks);
        limit::spend(&mut self.spent, sample, clocks);
        self.readings
            .push(time, Reading::of(sample, self.spent), span);
        self.count_seconds(time, sample, fell);
        self.note_progress(time, sample);
        self.remember(time, sample);
        self.take_state(time, sample.state);
        self.take_ca_state(time, sample.ca_state);
        let phase = self.take_phase(time, sample);
        let change = switched.map_or(phase, |old| {
            let new = sample.origin;
            Some(DerivedKind::Origin(OriginChange { old, new }))
        });
        match &mut self.sample {
            Some((last, known)) => {
                *last = time;
                (**known).clone_from(sample);
            }
            none => *none = Some((time, Box::new(sample.clone()))),
        }
        (if fell { Taken::Fell } else { Taken::InOrder }, change)
    }

    fn remember(&mut self, time: Mono, sample: &Sample) {
        if !self.history.is_kept() {
            return;
        }
        let own = match &sample.cc {
            Some(CcState::Bbr(bbr)) => bbr.btlbw,
            _ => None,
        };
        let btlbw = own.or_else(|| self.max_rate.get(time));
        self.history
            .sample(time, &Values::of(sample, btlbw), Stages::of(sample));
    }

    fn count_seconds(&mut self, time: Mono, sample: &Sample, fell: bool) {
        let before = match &self.sample {
            Some((_, known)) if fell || known.origin != sample.origin => None,
            Some((at, known)) => Some((*at, Some(&**known))),
            // The birth of a flow found by polling lies before its first sight.
            None if self.from_start && sample.origin != Origin::Diag => {
                Some((self.opened_at, None))
            }
            None => None,
        };
        self.seconds.take(before, time, sample);
    }

    /// Readings of another origin, or counters that fell (the socket was disconnected and used again), start a new
    /// series. True when counters fell.
    fn restart_if_incomparable(&mut self, sample: &Sample) -> bool {
        let (switched, fell) = match self.sample() {
            // The birth of a flow found by polling lies before its first sight.
            None => (sample.origin == Origin::Diag, false),
            Some(known) => {
                let less = |new: Option<u64>, old: Option<u64>| {
                    new.zip(old).is_some_and(|(new, old)| new < old)
                };
                let fell = less(sample.bytes_acked, known.bytes_acked)
                    || less(sample.bytes_sent, known.bytes_sent)
                    || less(sample.bytes_retrans, known.bytes_retrans)
                    || less(sample.bytes_received, known.bytes_received);
                (sample.origin != known.origin, fell)
            }
        };
        if switched || fell {
            self.readings.restart();
            self.max_rate.restart();
        }
        if switched {
            // What the other told of the phase is not what this one changed from.
            self.phase = None;
        }
        fell
    }

    /// What the sample says against the one before: sent anything, delivered anything.
    fn note_progress(&mut self, time: Mono, sample: &Sample) {
        let known = self.sample.as_ref().map(|(_, known)| &**known);
        let sent = match known {
            Some(known) => {
                sample.bytes_sent != known.bytes_sent || sample.segs_out != known.segs_out
            }
            None => self.from_start && sample.bytes_sent.is_some_and(|sent| sent > 0),
        };
        let delivered = known.is_none_or(|known| {
            sample.delivered != known.delivered || sample.bytes_acked != known.bytes_acked
        });
        if sent {
            self.sent_at = Some(time);
        }
        if let Some(rate) = sample.delivery_rate
            && delivered
            && !sample.rate_app_limited
        {
            let srtt = sample.srtt_us.unwrap_or(0);
            self.max_rate.take(time, rate, srtt);
        }
    }

    fn take_phase(&mut self, time: Mono, sample: &Sample) -> Option<DerivedKind> {
        let new = match &sample.cc {
            Some(CcState::Bbr(bbr)) => bbr.phase.map(|phase| (phase, bbr.sub_phase)),
            _ => None,
        };
        let Some(new) = new else {
            self.phase = None;
            return None;
        };
        match self.phase {
            Some((old, _)) if old == new => None,
            Some((old, since)) => {
                self.phase = Some((new, time));
                Some(DerivedKind::Phase(PhaseChange { old, since, new }))
            }
            None => {
                self.phase = Some((new, time));
                None
            }
        }
    }
}
