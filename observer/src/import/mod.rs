//! A packet capture as events: what a recording of the sender would hold, as far as packets tell. `docs/IMPORT.md` says how.
//!
//! ```text
//! file → open (unpacked) → frames (pcap, pcapng) → layers (TCP's header) ┬→ survey: who sends, how large segments are
//!                                                                        └→ track → sent, rtt: events
//! ```

mod frames;
mod layers;
mod open;
mod rtt;
mod segment;
mod sent;
mod survey;
mod table;
mod track;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use crate::event::{Cause, Event, FlowId, Note, NoteKind, Payload};
use crate::units::Mono;
pub use frames::Cut;
pub use layers::Skipped;
use open::Bytes;
use segment::Segment;
use survey::Surveyed;
use table::{Place, Table};
use track::{Missing, Track};

/// Between two looks at flows of which nothing more came, and between signs of life.
const LOOK_NS: u64 = 1_000_000_000;
/// Longer pauses are left as they are.
const LONGEST_PAUSE_NS: u64 = 600_000_000_000;
/// Packets out of order in time by less are a matter of the capturing host's queues.
const DISORDER_NS: u64 = 1_000_000;
/// Packets later than this after the first are of a clock that was set, or of damage.
const LONGEST_NS: u64 = 400 * 86_400 * 1_000_000_000;

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("{0}")]
    Read(io::Error),
    #[error(
        "this is no capture: neither pcap nor pcapng (plain, .xz, .gz or .zst). `tcpdump -w FILE` writes one"
    )]
    NoCapture,
    #[error("the capture ends in its first bytes: it is empty, or was cut off")]
    Headless,
    #[error("{}", no_tcp(.0))]
    NoTcp(Box<Summary>),
    #[error("the file changed while it was read: copy it, and import the copy")]
    Changed,
    /// What takes the events failed; it says how itself.
    #[error("{0}")]
    Sink(Box<dyn std::error::Error + Send + Sync>),
}

/// What became of a capture.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub packets: u64,
    pub segments: u64,
    pub connections: u64,
    /// Nanoseconds since 1970 of moment 0.
    pub first_wall_ns: u64,
    pub span_ns: u64,
    pub skipped: BTreeMap<Skipped, u64>,
    pub tunnelled: u64,
    /// Packets out of order in time, and of impossible times.
    pub disordered: u64,
    pub cut: Option<Cut>,
    /// Packets that the capturing host lost, by its own count.
    pub dropped: u64,
    pub timeless: u64,
    /// Connections of which the packets were taken nearer to who receives.
    pub far: u64,
    /// Connections whose handshake is not in it.
    pub headless: u64,
    pub unseen_bytes: u64,
    pub twice: u64,
    pub crowded: u64,
}

fn no_tcp(summary: &Summary) -> String {
    let mut text = format!("no TCP among its {} packets", summary.packets);
    for told in summary.limitations().into_iter().chain(summary.remarks()) {
        text += "; ";
        text += &told;
    }
    text
}

impl Summary {
    /// What a reader has to know of the figures, for a person; empty where there is nothing.
    pub fn limitations(&self) -> Vec<String> {
        let mut told = Vec::new();
        let mut tell = |count: u64, text: &dyn Fn(u64) -> String| {
            if count > 0 {
                told.push(text(count));
            }
        };
        if let Some(cut) = &self.cut {
            tell(1, &|_| format!("the capture is not whole: {cut}"));
        }
        tell(self.dropped, &|n| {
            format!(
                "the capturing host lost {n} packets by its own count: capture with a larger buffer (tcpdump -B)"
            )
        });
        tell(self.unseen_bytes, &|n| {
            format!(
                "{n} bytes were acknowledged that no packet carried: packets are missing in the capture"
            )
        });
        tell(self.far, &|n| {
            format!(
                "{n} of {} connections were captured nearer to the receiver: their RTT is of the rest of the way, and what was \
                 lost before does not show. Capture on the sender",
                self.connections
            )
        });
        tell(self.headless, &|n| {
            format!(
                "{n} of {} connections began before the capture: without their handshake, windows are unknown and totals count \
                 from the capture's begin",
                self.connections
            )
        });
        tell(self.disordered, &|n| {
            format!("{n} packets stand out of order in time, or have an impossible one")
        });
        tell(self.timeless, &|n| {
            format!("{n} packets without a time (simple packet blocks) were left out")
        });
        tell(self.crowded, &|n| {
            format!(
                "{n} connections had too much in flight to follow all of it: acknowledgements are missing"
            )
        });
        for (why, count) in &self.skipped {
            tell(*count, &|n| match why {
                Skipped::NotTcp => String::new(),
                Skipped::Link => format!("{n} packets are of a link layer that is not read"),
                Skipped::Fragment => format!("{n} packets are IP fragments and were left out"),
                Skipped::Short => format!(
                    "{n} packets were kept too short for TCP's header: capture with -s 128 or more"
                ),
            });
        }
        told.retain(|text| !text.is_empty());
        told
    }

    /// What is as it should be, and yet worth a word.
    pub fn remarks(&self) -> Vec<String> {
        let not_tcp = self.skipped.get(&Skipped::NotTcp).copied().unwrap_or(0);
        let told = [
            (not_tcp, "packets are not TCP"),
            (
                self.twice,
                "packets were seen at two interfaces and count once",
            ),
            (
                self.tunnelled,
                "packets came in tunnels; the connection inside is shown",
            ),
        ];
        told.into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, text)| format!("{count} {text}"))
            .collect()
    }
}

/// A capture that was looked through once.
#[derive(Debug)]
pub struct Capture {
    file: File,
    surveyed: Vec<Surveyed>,
    summary: Summary,
}

impl Capture {
    /// The first pass. `file` has to be one that can be read twice.
    pub fn survey(file: File) -> Result<Self, ImportError> {
        let mut summary = Summary::default();
        let mut surveyed: Vec<Surveyed> = Vec::new();
        let mut table = Table::default();
        let (mut first, mut newest) = (None, 0);
        let bytes = Bytes::of(&file).map_err(ImportError::Read)?;
        let told = frames::read(bytes, |frame| {
            summary.packets += 1;
            let segment = match layers::segment(frame.link, frame.data, frame.orig_len) {
                Ok(segment) => segment,
                Err(why) => {
                    *summary.skipped.entry(why).or_default() += 1;
                    return Ok(());
                }
            };
            let Some(place) = table.place(&segment) else {
                return Ok(());
            };
            summary.segments += 1;
            summary.tunnelled += u64::from(segment.tunnelled);
            let first = *first.get_or_insert(frame.wall_ns);
            let disordered = frame.wall_ns.saturating_add(DISORDER_NS) < newest
                || frame.wall_ns > first.saturating_add(LONGEST_NS);
            summary.disordered += u64::from(disordered);
            newest = newest.max(frame.wall_ns.min(first.saturating_add(LONGEST_NS)));
            if place.new {
                surveyed.push(Surveyed::default());
                summary.headless += u64::from(!segment.syn());
            }
            if let Some(of) = surveyed.get_mut(place.number) {
                of.take(frame.wall_ns, place, &segment);
            }
            Ok(())
        })?;
        (summary.cut, summary.dropped, summary.timeless) = (told.cut, told.dropped, told.timeless);
        summary.connections = surveyed.len() as u64;
        summary.far = surveyed.iter().filter(|of| of.is_far()).count() as u64;
        summary.first_wall_ns = first.unwrap_or(0);
        summary.span_ns = newest.saturating_sub(summary.first_wall_ns);
        if summary.segments == 0 {
            return Err(ImportError::NoTcp(Box::new(summary)));
        }
        Ok(Self {
            file,
            surveyed,
            summary,
        })
    }

    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The second pass: hands events on in the order of time.
    pub fn events<E>(
        self,
        mut each: impl FnMut(&Event) -> Result<(), E>,
    ) -> Result<Summary, ImportError>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let Self {
            file,
            surveyed,
            mut summary,
        } = self;
        let mut each =
            |event: &Event| each(event).map_err(|error| ImportError::Sink(Box::new(error)));
        let mut folded = Fold::new(surveyed, summary.first_wall_ns);
        let bytes = Bytes::of(&file).map_err(ImportError::Read)?;
        frames::read(bytes, |frame| {
            let Ok(segment) = layers::segment(frame.link, frame.data, frame.orig_len) else {
                return Ok(());
            };
            folded.take(frame.wall_ns, &segment)?;
            folded.events.drain(..).try_for_each(|event| each(&event))
        })?;
        folded.finish();
        folded.events.drain(..).try_for_each(|event| each(&event))?;
        let missing = folded.missing;
        (summary.unseen_bytes, summary.twice) = (missing.unseen_bytes, missing.twice);
        summary.crowded = folded.crowded;
        let notes = [
            (NoteKind::Degraded, summary.limitations()),
            (NoteKind::Info, summary.remarks()),
        ];
        for (kind, texts) in notes {
            for text in texts {
                each(&Event {
                    time: folded.now,
                    flow: None,
                    payload: Payload::Note(Note { kind, text }),
                })?;
            }
        }
        Ok(summary)
    }
}

/// The second pass's state: what is open, and the time.
struct Fold {
    table: Table,
    surveyed: Vec<Surveyed>,
    open: BTreeMap<usize, Track>,
    /// Flows with something new since their last sample.
    waiting: Vec<usize>,
    first_wall_ns: u64,
    now: Mono,
    looked: Mono,
    payloads: Vec<Payload>,
    events: Vec<Event>,
    missing: Missing,
    crowded: u64,
}

impl Fold {
    fn new(surveyed: Vec<Surveyed>, first_wall_ns: u64) -> Self {
        Self {
            table: Table::default(),
            surveyed,
            open: BTreeMap::new(),
            waiting: Vec::new(),
            first_wall_ns,
            now: Mono(0),
            looked: Mono(0),
            payloads: Vec::new(),
            events: Vec::new(),
            missing: Missing::default(),
            crowded: 0,
        }
    }

    fn take(&mut self, wall_ns: u64, segment: &Segment) -> Result<(), ImportError> {
        let Some(place) = self.table.place(segment) else {
            return Ok(());
        };
        // Packets of several queues may stand a little out of order: time does not go back.
        let time = wall_ns.saturating_sub(self.first_wall_ns).min(LONGEST_NS);
        self.advance(Mono(time));
        if let Some(over) = place.replaced
            && let Some(mut track) = self.open.remove(&over)
        {
            track.end(&mut self.payloads);
            self.tell(track.id());
            self.forget(&track);
        }
        if place.new {
            let track = self.begin(place, segment)?;
            self.open.insert(place.number, track);
        }
        // Packets after the end of a connection tell nothing more.
        let Some(track) = self.open.get_mut(&place.number) else {
            return Ok(());
        };
        let was_dirty = track.dirty;
        let goes_on = track.take(self.now.0, place.end, segment, &mut self.payloads);
        if !was_dirty && track.dirty {
            self.waiting.push(place.number);
        }
        let id = track.id();
        self.tell(id);
        if !goes_on && let Some(track) = self.open.remove(&place.number) {
            self.forget(&track);
        }
        Ok(())
    }

    fn begin(&self, place: Place, segment: &Segment) -> Result<Track, ImportError> {
        let surveyed = self
            .surveyed
            .get(place.number)
            .ok_or(ImportError::Changed)?;
        let mut ends = [segment.src, segment.dst];
        if place.end == 1 {
            ends.reverse();
        }
        let id = FlowId {
            cookie: place.number as u64 + 1,
            netns: 0,
        };
        let mss = [surveyed.mss(0), surveyed.mss(1)];
        Ok(Track::new(id, ends, surveyed.sender(), mss))
    }

    fn tell(&mut self, id: FlowId) {
        let (time, flow) = (self.now, Some(id));
        let events = self.payloads.drain(..).map(|payload| Event {
            time,
            flow,
            payload,
        });
        self.events.extend(events);
    }

    fn forget(&mut self, track: &Track) {
        self.missing.unseen_bytes += track.missing.unseen_bytes;
        self.missing.twice += track.missing.twice;
        self.crowded += u64::from(track.missing.crowded);
    }

    /// Time goes on to `time`: looks at what is due on the way.
    fn advance(&mut self, time: Mono) {
        if time.since(self.now) > LONGEST_PAUSE_NS {
            self.look(self.now);
            self.looked = time;
        }
        while time.since(self.looked) >= LOOK_NS {
            self.looked = self.looked.plus(LOOK_NS);
            self.look(self.looked);
        }
        self.now = self.now.max(time);
    }

    /// What the kernel's sweep would find: the state after the last ACK.
    fn look(&mut self, time: Mono) {
        for number in std::mem::take(&mut self.waiting) {
            if let Some(track) = self.open.get_mut(&number).filter(|track| track.dirty) {
                let sample = track.sample(Cause::Sweep);
                self.events.push(Event {
                    time,
                    flow: Some(track.id()),
                    payload: Payload::Sample(Box::new(sample)),
                });
            }
        }
        self.events.push(Event {
            time,
            flow: None,
            payload: Payload::Tick,
        });
    }

    /// The capture is over; what is open stays open.
    fn finish(&mut self) {
        self.look(self.now);
        for track in std::mem::take(&mut self.open).values() {
            self.forget(track);
        }
    }
}
