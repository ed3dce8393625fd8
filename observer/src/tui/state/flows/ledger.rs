//! What the table needs of each flow, kept from frame to frame: of a flow that did not change nothing is reckoned again.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

use super::super::group::{Grouping, Groups, Sums};
use crate::event::{DeviceId, FlowId};
use crate::filter::Filter;
use crate::model::{Flow, Model};
use crate::tui::columns::{Column, Follows, Keys, SortKey};
use crate::units::Mono;

/// What was reckoned of one flow.
#[derive(Clone, Debug)]
pub struct Entry {
    pub id: FlowId,
    pub shown: bool,
    pub closed: bool,
    pub device: Option<DeviceId>,
    /// The algorithm's name, among [`Ledger::texts`].
    pub cc: Option<u32>,
    /// Where the table is grouped: which group, and what it adds to it.
    pub group: u32,
    pub sums: Sums,
    key: Key,
    /// Of which state of the flow all this is.
    changed: u64,
    identified: u64,
    /// From when to when it holds.
    since: Mono,
    until: Mono,
    gone: bool,
}

/// Which way it is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Down,
    Up,
    /// What is 0 behind what moves ([`Column::rests_last`]).
    UpRestsLast,
}

impl Direction {
    pub fn of(column: Column, descending: bool) -> Self {
        match (descending, column.rests_last()) {
            (true, _) => Self::Down,
            (false, false) => Self::Up,
            (false, true) => Self::UpRestsLast,
        }
    }
}

/// A [`SortKey`] that compares in a few instructions.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Key {
    Unknown,
    Number(f64),
    /// By name, then by number.
    Text(u32, u32),
    Address(SocketAddr),
}

/// What entries hold for, other than the flows themselves.
#[derive(Clone, Debug, PartialEq)]
struct Basis {
    sort: Column,
    grouping: Grouping,
    filter: Option<Filter>,
    /// Keys by device.
    places: BTreeMap<DeviceId, usize>,
    devices: Vec<(DeviceId, String)>,
    hz: Option<u32>,
}

/// The entries, in the model's order of flows.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    basis: Option<Basis>,
    entries: Vec<Entry>,
    texts: Texts,
    /// Order of the flows shown: what they compare by, and their place among the entries. Kept for its memory.
    order: Vec<(u64, u32)>,
}

/// How the table is arranged.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub sort: Column,
    pub grouping: Grouping,
    pub filter: Option<&'a Filter>,
}

impl Ledger {
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn text(&self, place: u32) -> &str {
        &self.texts.all[place as usize]
    }

    /// Takes the model in. `shows` says which flows are shown; it may ask what follows from the flow, the devices and the
    /// filter wanted, nothing else.
    pub fn take(
        &mut self,
        model: &Model,
        wanted: &Wanted<'_>,
        groups: &mut Groups,
        shows: &dyn Fn(&Flow) -> bool,
    ) {
        let keys = Keys::new(wanted.sort, model);
        let names = model.devices().map(|d| (d.id, d.name.clone()));
        let basis = Basis {
            sort: wanted.sort,
            grouping: wanted.grouping,
            filter: wanted.filter.cloned(),
            places: keys.places().clone(),
            devices: names.collect(),
            hz: model.host().and_then(|host| host.hz),
        };
        if self.basis.as_ref() != Some(&basis)
            || self.texts.all.len() > 2 * self.entries.len() + 64
            || groups.is_wasteful()
        {
            self.entries.clear();
            self.texts = Texts::default();
            *groups = Groups::default();
            self.basis = Some(basis);
        }
        let mut reckon = Reckon {
            model,
            wanted,
            keys,
            texts: &mut self.texts,
            groups,
            shows,
        };
        let (mut at, mut new, mut gone) = (0, Vec::new(), false);
        for flow in model.flows() {
            while let Some(entry) = self.entries.get_mut(at)
                && entry.id < flow.id()
            {
                (entry.gone, gone) = (true, true);
                at += 1;
            }
            match self.entries.get_mut(at).filter(|e| e.id == flow.id()) {
                Some(entry) => {
                    reckon.update(entry, flow);
                    at += 1;
                }
                None => new.push(reckon.entry(flow)),
            }
        }
        self.entries.truncate(at);
        if gone {
            self.entries.retain(|entry| !entry.gone);
        }
        if !new.is_empty() {
            self.entries.append(&mut new);
            self.entries.sort_by_key(|entry| entry.id);
        }
    }

    /// The flows shown, in order; equal ones keep the model's, which is that of their numbers.
    pub fn sorted(&mut self, direction: Direction) -> impl Iterator<Item = &Entry> {
        let ranks = self.texts.ranks();
        let entries = &self.entries;
        self.order.clear();
        let shown = (0..).zip(entries).filter(|(_, entry)| entry.shown);
        self.order
            .extend(shown.map(|(place, entry)| (entry.key.place(&ranks, direction), place)));
        let sort = self.basis.as_ref().map(|basis| basis.sort);
        if matches!(sort, Some(Column::Local | Column::Remote)) {
            let whole = |place: u32| entries[place as usize].key;
            self.order.sort_unstable_by(|(a, a_place), (b, b_place)| {
                a.cmp(b)
                    .then_with(|| whole(*a_place).rest(&whole(*b_place), direction))
                    .then(a_place.cmp(b_place))
            });
        } else {
            self.order.sort_unstable();
        }
        let order = self.order.iter();
        order.map(|(_, place)| &entries[*place as usize])
    }
}

/// Makes entries.
struct Reckon<'a> {
    model: &'a Model,
    wanted: &'a Wanted<'a>,
    keys: Keys<'a>,
    texts: &'a mut Texts,
    groups: &'a mut Groups,
    shows: &'a dyn Fn(&Flow) -> bool,
}

impl<'a> Reckon<'a> {
    fn entry(&mut self, flow: &'a Flow) -> Entry {
        let mut entry = Entry {
            id: flow.id(),
            shown: false,
            closed: false,
            device: None,
            cc: None,
            group: 0,
            sums: Sums::default(),
            key: Key::Unknown,
            changed: 0,
            identified: 0,
            since: Mono::default(),
            until: Mono::default(),
            gone: false,
        };
        self.reckon(&mut entry, flow, true);
        entry
    }

    fn update(&mut self, entry: &mut Entry, flow: &'a Flow) {
        let now = self.model.now();
        if entry.changed != flow.changed() || now < entry.since || now > entry.until {
            let identity = entry.identified != flow.identified();
            self.reckon(entry, flow, identity);
        }
    }

    fn reckon(&mut self, entry: &mut Entry, flow: &'a Flow, identity: bool) {
        let (model, wanted) = (self.model, self.wanted);
        let grouped = wanted.grouping != Grouping::None;
        let follows = wanted.sort.follows();
        if identity {
            let attributes = flow.attributes();
            entry.device = attributes.and_then(|a| a.device);
            entry.cc = attributes.map(|a| self.texts.place(&a.cc_name));
            if grouped {
                entry.group = self.groups.place(model, wanted.grouping, flow);
            }
        }
        entry.shown = (self.shows)(flow);
        entry.closed = flow.is_closed();
        if identity || follows != Follows::Identity {
            entry.key = self.texts.key(self.keys.of(flow));
        }
        if grouped {
            entry.sums = Sums::of(model, flow);
        }
        entry.changed = flow.changed();
        entry.identified = flow.identified();
        let in_time = grouped || follows == Follows::Time;
        (entry.since, entry.until) = if in_time {
            (model.now(), model.figures_hold_until(flow))
        } else {
            (Mono::default(), Mono(u64::MAX))
        };
    }
}

/// Texts met so far, each once.
#[derive(Clone, Debug, Default)]
struct Texts {
    places: HashMap<String, u32>,
    all: Vec<String>,
}

impl Texts {
    fn place(&mut self, text: &str) -> u32 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.all.len() as u32;
        self.places.insert(text.to_owned(), place);
        self.all.push(text.to_owned());
        place
    }

    fn key(&mut self, key: Option<SortKey>) -> Key {
        match key {
            None => Key::Unknown,
            Some(SortKey::Number(number)) => Key::Number(number),
            Some(SortKey::Process(name, pid)) => Key::Text(self.place(name), pid),
            Some(SortKey::Text(text)) => Key::Text(self.place(&text), 0),
            Some(SortKey::Address(address)) => Key::Address(address),
        }
    }

    /// Of each text its rank in the order of the alphabet.
    fn ranks(&self) -> Vec<u32> {
        let mut sorted: Vec<u32> = (0..self.all.len() as u32).collect();
        sorted.sort_unstable_by_key(|place| &self.all[*place as usize]);
        let mut ranks = vec![0; sorted.len()];
        for (rank, place) in (0..).zip(sorted) {
            ranks[place as usize] = rank;
        }
        ranks
    }
}

impl Key {
    /// Numbers in the order of the keys. What is unknown comes last in either direction.
    fn place(&self, ranks: &[u32], direction: Direction) -> u64 {
        // Behind all others.
        const UNKNOWN: u64 = u64::MAX;
        const RESTS: u64 = UNKNOWN - 1;
        const LAST: u64 = RESTS - 1;
        let known = match *self {
            Self::Unknown => return UNKNOWN,
            Self::Number(0.0) if direction == Direction::UpRestsLast => return RESTS,
            Self::Number(number) => number_place(number),
            Self::Text(text, number) => u64::from(ranks[text as usize]) << 32 | u64::from(number),
            Self::Address(address) => address_place(address),
        };
        let known = known.min(LAST);
        match direction {
            Direction::Down => LAST - known,
            Direction::Up | Direction::UpRestsLast => known,
        }
    }

    /// What 64 bits have no room for.
    fn rest(&self, other: &Self, direction: Direction) -> Ordering {
        match (self, other) {
            (Self::Address(a), Self::Address(b)) if direction == Direction::Down => b.cmp(a),
            (Self::Address(a), Self::Address(b)) => a.cmp(b),
            _ => Ordering::Equal,
        }
    }
}

/// The place of a sum, among sums.
pub fn sum_place(sum: Option<f64>, direction: Direction) -> u64 {
    sum.map_or(Key::Unknown, Key::Number).place(&[], direction)
}

/// As [`f64::total_cmp`] has it.
fn number_place(number: f64) -> u64 {
    let bits = number.to_bits();
    let negative = bits >> 63 == 1;
    if negative { !bits } else { bits | 1 << 63 }
}

/// IPv4 before IPv6, by address, then by port; of IPv6 as much as there is room for.
fn address_place(address: SocketAddr) -> u64 {
    match address.ip() {
        IpAddr::V4(v4) => u64::from(v4.to_bits()) << 16 | u64::from(address.port()),
        IpAddr::V6(v6) => 1 << 63 | (v6.to_bits() >> 65) as u64,
    }
}

#[cfg(test)]
mod tests;
