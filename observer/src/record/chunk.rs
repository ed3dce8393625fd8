//! The content of a chunk, event by event, in the order they were recorded. Samples come out of their packs one at a
//! time, so that what is in memory is the chunk's bytes and a sample of each pack.

use std::collections::HashMap;

use super::channel::Channel;
use super::container::{Fields, Message, inside, op};
use super::unpack::Rows;
use super::{codec, limits};
use crate::event::Event;
use crate::units::Mono;

/// Where the event of a place is.
#[derive(Clone, Copy, Debug)]
enum Slot {
    /// It belonged to a channel of a later version.
    Empty,
    Event(u32),
    /// The next row of this pack.
    Row(u32),
}

/// A chunk being read. Its memory is used again for the next.
#[derive(Debug, Default)]
pub struct Unrolled {
    content: Vec<u8>,
    slots: Vec<Slot>,
    /// Place of the event to come.
    next: usize,
    events: Vec<Event>,
    packs: Vec<Rows>,
    /// Of these so many are this chunk's.
    packed: usize,
    current: Option<Slot>,
}

impl Unrolled {
    /// The buffer to put a chunk's content into, before [`Unrolled::begin`].
    pub fn content(&mut self) -> &mut Vec<u8> {
        self.clear();
        &mut self.content
    }

    /// No events are left.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.events.clear();
        (self.next, self.packed, self.current) = (0, 0, None);
    }

    /// All events were given.
    pub fn is_over(&self) -> bool {
        self.next >= self.slots.len()
    }

    /// Finds what is in the content; learns channels that are told in it. What is wrong with it otherwise.
    pub fn begin(&mut self, channels: &mut HashMap<u16, Channel>) -> Result<(), &'static str> {
        // Taken out, so that what is found in it can be put beside it.
        let content = std::mem::take(&mut self.content);
        let found = self.find(&content, channels);
        self.content = content;
        if found.is_err() {
            self.clear();
        }
        found
    }

    fn find(
        &mut self,
        content: &[u8],
        channels: &mut HashMap<u16, Channel>,
    ) -> Result<(), &'static str> {
        for inner in inside(content) {
            let (op, record) = inner.ok_or("a record in it does not fit")?;
            match op {
                op::CHANNEL => {
                    let mut fields = Fields(record);
                    let parts = (fields.u16(), fields.u16(), fields.text());
                    if let (Some(id), Some(_), Some(topic)) = parts
                        && let Some(channel) = Channel::of_topic(topic)
                    {
                        channels.insert(id, channel);
                    }
                }
                op::MESSAGE => {
                    let message = Message::parse(record).ok_or("a message in it does not fit")?;
                    // A channel of a later version is passed over.
                    if let Some(channel) = channels.get(&message.channel) {
                        self.message(*channel, &message, content).ok_or(UNKNOWN)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn message(&mut self, channel: Channel, message: &Message, content: &[u8]) -> Option<()> {
        if channel != Channel::Samples {
            let event = codec::decode(channel, Mono(message.mono), message.payload)?;
            let at = self.events.len() as u32;
            self.events.push(event);
            return put(&mut self.slots, message.place, Slot::Event(at));
        }
        if self.packed == self.packs.len() {
            self.packs.push(Rows::default());
        }
        let (at, slots) = (self.packed as u32, &mut self.slots);
        self.packs[self.packed].begin(message.payload, content, |place| {
            put(slots, place, Slot::Row(at))
        })?;
        self.packed += 1;
        Some(())
    }

    /// Goes on to the next event: false = there is none. What is wrong with it otherwise; nothing more comes then.
    pub fn advance(&mut self) -> Result<bool, &'static str> {
        self.current = None;
        while let Some(slot) = self.slots.get(self.next) {
            self.next += 1;
            match *slot {
                Slot::Empty => continue,
                Slot::Event(_) => {}
                Slot::Row(pack) => {
                    let rows = &mut self.packs[pack as usize];
                    if rows.next(&self.content).is_none() {
                        self.clear();
                        return Err(UNKNOWN);
                    }
                }
            }
            self.current = Some(*slot);
            return Ok(true);
        }
        Ok(false)
    }

    /// The event that [`Unrolled::advance`] went to.
    pub fn current(&self) -> Option<&Event> {
        match self.current? {
            Slot::Empty => None,
            Slot::Event(at) => self.events.get(at as usize),
            Slot::Row(pack) => self.packs.get(pack as usize).map(Rows::event),
        }
    }
}

const UNKNOWN: &str = "a message in it is wrong, or has values unknown to this version";

/// `None` = the place is taken, or beyond what a chunk may hold.
fn put(slots: &mut Vec<Slot>, place: u32, slot: Slot) -> Option<()> {
    let place = place as usize;
    if place >= limits::EVENTS {
        return None;
    }
    if place >= slots.len() {
        slots.resize(place + 1, Slot::Empty);
    }
    let there = &mut slots[place];
    if !matches!(there, Slot::Empty) {
        return None;
    }
    *there = slot;
    Some(())
}
