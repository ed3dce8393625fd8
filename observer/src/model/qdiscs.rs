//! Qdiscs over time: rates from successive readings, backlog and drops of the last minutes, what replaced what, and the
//! tree in which they hang.

use std::collections::{BTreeMap, VecDeque};

use crate::event::{Device, DeviceId, Nature, Qdisc, TC_H_INGRESS, TC_H_ROOT, nature};
use crate::units::Mono;

/// Sources read devices this often, and tell only of those that changed: what is not told did not change.
pub const READ_EVERY_NS: u64 = 1_000_000_000;
/// After this long without a word the next reading has come and gone.
const QUIET_NS: u64 = READ_EVERY_NS * 3 / 2;
/// How far back backlog and drops are kept.
pub const HISTORY_S: usize = 300;
const SECOND_NS: u64 = 1_000_000_000;

/// Backlog and drops of one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// The largest that was read.
    pub backlog_bytes: u64,
    pub drops: u64,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    /// Whole seconds of the events' clock.
    at: u64,
    second: Second,
    /// The level at its end.
    last: u64,
}

/// What happened to a qdisc between two readings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rise {
    /// Nanoseconds it took, never 0.
    pub ns: u64,
    pub bytes: u64,
    pub packets: u64,
    pub drops: u64,
    pub overlimits: u64,
    pub requeues: u64,
    /// Of the kind's own counters; levels are not among them (TRAPS 23).
    pub extra: BTreeMap<String, u64>,
}

impl Rise {
    /// `None` when a counter fell: the two are not of one series.
    fn between(old: &Qdisc, new: &Qdisc, ns: u64) -> Option<Self> {
        let mut extra = BTreeMap::new();
        for (name, value) in &new.extra {
            if nature(&new.kind, name) != Nature::Counter {
                continue;
            }
            // A counter that was not there before has not risen from 0.
            if let Some(before) = old.extra.get(name) {
                extra.insert(name.clone(), value.checked_sub(*before)?);
            }
        }
        Some(Self {
            ns: ns.max(1),
            bytes: new.bytes.checked_sub(old.bytes)?,
            packets: new.packets.checked_sub(old.packets)?,
            drops: new.drops.checked_sub(old.drops)?,
            overlimits: new.overlimits.checked_sub(old.overlimits)?,
            requeues: new.requeues.checked_sub(old.requeues)?,
            extra,
        })
    }

    /// `count` of this as so many a second, rounded.
    pub fn per_s(&self, count: u64) -> u64 {
        let ns = u128::from(self.ns.max(1));
        let per_s = (u128::from(count) * u128::from(SECOND_NS) + ns / 2) / ns;
        u64::try_from(per_s).unwrap_or(u64::MAX)
    }
}

/// One qdisc's history, in its place on the device.
#[derive(Clone, Debug)]
pub struct QdiscHistory {
    kind: String,
    handle: u32,
    /// When it was first seen here.
    since: Mono,
    /// Kind and handle of the one before, where it took another's place.
    before: Option<(String, u32)>,
    told_at: Mono,
    rise: Option<Rise>,
    kept: VecDeque<Kept>,
}

impl QdiscHistory {
    fn new(time: Mono, qdisc: &Qdisc, before: Option<(String, u32)>) -> Self {
        let mut history = Self {
            kind: qdisc.kind.clone(),
            handle: qdisc.handle,
            since: time,
            before,
            told_at: time,
            rise: None,
            kept: VecDeque::new(),
        };
        history.keep(time, qdisc.backlog_bytes, 0);
        history
    }

    /// When it was first seen.
    pub fn since(&self) -> Mono {
        self.since
    }

    /// Kind and handle of the one whose place it took while somebody looked.
    pub fn replaced(&self) -> Option<(&str, u32)> {
        let (kind, handle) = self.before.as_ref()?;
        Some((kind, *handle))
    }

    /// Takes the next reading in. Returns the drops since the one before.
    fn take(&mut self, time: Mono, old: &Qdisc, new: &Qdisc) -> u64 {
        // It stood still until a reading before this one.
        let ns = match time.since(self.told_at) {
            ns if ns > QUIET_NS => READ_EVERY_NS,
            ns => ns,
        };
        // Twice at one moment tells no rate.
        if ns > 0 {
            self.rise = Rise::between(old, new, ns);
        }
        self.told_at = time;
        let drops = new.drops.saturating_sub(old.drops);
        self.keep(time, new.backlog_bytes, drops);
        drops
    }

    fn keep(&mut self, time: Mono, backlog_bytes: u64, drops: u64) {
        let at = time.0 / SECOND_NS;
        if let Some(last) = self.kept.back_mut()
            && last.at == at
        {
            last.second.backlog_bytes = last.second.backlog_bytes.max(backlog_bytes);
            last.second.drops += drops;
            last.last = backlog_bytes;
            return;
        }
        self.kept.push_back(Kept {
            at,
            second: Second {
                backlog_bytes,
                drops,
            },
            last: backlog_bytes,
        });
        // One older than the span tells the level at its beginning.
        while self.kept.len() > 1 && self.kept[1].at + HISTORY_S as u64 <= at {
            self.kept.pop_front();
        }
    }

    /// What happened lately, as at `now`. `None` = there is nothing to compare with yet.
    pub fn rise(&self, now: Mono) -> Option<Rise> {
        if now.since(self.told_at) <= QUIET_NS {
            return self.rise.clone();
        }
        // Nothing changed since: that is known, and it is nothing.
        Some(Rise {
            ns: READ_EVERY_NS,
            extra: self.rise.as_ref().map_or_else(BTreeMap::new, |rise| {
                rise.extra.keys().map(|name| (name.clone(), 0)).collect()
            }),
            ..Rise::default()
        })
    }

    /// The last `seconds` up to `now`, oldest first. `None` = before it was seen.
    pub fn seconds(&self, now: Mono, seconds: usize) -> Vec<Option<Second>> {
        let end = now.0 / SECOND_NS;
        let mut kept = self.kept.iter().peekable();
        let mut level = None;
        (0..seconds as u64)
            .map(|n| {
                let at = (end + n + 1).checked_sub(seconds as u64)?;
                let mut here = None;
                while let Some(next) = kept.next_if(|kept| kept.at <= at) {
                    level = Some(next.last);
                    here = Some(next).filter(|kept| kept.at == at);
                }
                match (here, level) {
                    (Some(kept), _) => Some(kept.second),
                    (None, Some(backlog_bytes)) => Some(Second {
                        backlog_bytes,
                        drops: 0,
                    }),
                    (None, None) => None,
                }
            })
            .collect()
    }
}

/// What changed on a device, for those who keep a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QdiscChange {
    /// Another kind or handle in the place of one seen before.
    Replaced {
        parent: u32,
        old: (String, u32),
        new: (String, u32),
    },
    Dropped {
        parent: u32,
        kind: String,
        handle: u32,
        packets: u64,
    },
}

/// All of them, by device and place.
#[derive(Clone, Debug, Default)]
pub(super) struct Qdiscs {
    devices: BTreeMap<DeviceId, BTreeMap<u32, QdiscHistory>>,
}

impl Qdiscs {
    /// Takes in what a device has now; `old` is how it was last told.
    pub fn take(&mut self, time: Mono, old: Option<&Device>, device: &Device) -> Vec<QdiscChange> {
        let places = self.devices.entry(device.id).or_default();
        places.retain(|parent, _| device.qdiscs.iter().any(|q| q.parent == *parent));
        let mut changes = Vec::new();
        for new in &device.qdiscs {
            let parent = new.parent;
            let Some(history) = places.get_mut(&parent) else {
                places.insert(parent, QdiscHistory::new(time, new, None));
                continue;
            };
            if (history.kind.as_str(), history.handle) != (new.kind.as_str(), new.handle) {
                let before = (history.kind.clone(), history.handle);
                changes.push(QdiscChange::Replaced {
                    parent,
                    old: before.clone(),
                    new: (new.kind.clone(), new.handle),
                });
                *history = QdiscHistory::new(time, new, Some(before));
                continue;
            }
            let before = old.and_then(|old| in_place(old, parent));
            let drops = before.map_or(0, |before| history.take(time, before, new));
            // Parents count their children's drops too; they are told once.
            let drops = drops.saturating_sub(childrens_drops(old, device, new));
            if drops > 0 {
                changes.push(QdiscChange::Dropped {
                    parent,
                    kind: new.kind.clone(),
                    handle: new.handle,
                    packets: drops,
                });
            }
        }
        changes
    }

    pub fn gone(&mut self, id: DeviceId) {
        self.devices.remove(&id);
    }

    pub fn of(&self, device: DeviceId, parent: u32) -> Option<&QdiscHistory> {
        self.devices.get(&device)?.get(&parent)
    }
}

/// Whether `child` hangs below `parent`, directly or in one of its classes.
fn is_child(parent: &Qdisc, child: &Qdisc) -> bool {
    !is_root(child) && child.parent >> 16 == parent.handle >> 16 && {
        // Of those with handle 0 only a root has children (`mq` that the kernel attached).
        parent.handle >> 16 != 0 || is_root(parent)
    }
}

fn is_root(qdisc: &Qdisc) -> bool {
    matches!(qdisc.parent, TC_H_ROOT | TC_H_INGRESS)
}

fn in_place(device: &Device, parent: u32) -> Option<&Qdisc> {
    device.qdiscs.iter().find(|q| q.parent == parent)
}

/// What the children of `qdisc` dropped since `old`.
fn childrens_drops(old: Option<&Device>, device: &Device, qdisc: &Qdisc) -> u64 {
    let children = device.qdiscs.iter().filter(|child| is_child(qdisc, child));
    let drops = children.filter_map(|child| {
        let before = in_place(old?, child.parent)?;
        Some(child.drops.saturating_sub(before.drops))
    });
    drops.sum()
}

/// A qdisc in its place in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its place in [`Device::qdiscs`].
    pub at: usize,
    /// 0 = a root.
    pub depth: usize,
}

/// The device's qdiscs as a tree, parents before their children, in the kernel's order otherwise. One whose parent is
/// not told stands as a root: nothing is left out.
pub fn tree(device: &Device) -> Vec<Node> {
    let all = &device.qdiscs;
    let mut out = Vec::with_capacity(all.len());
    let mut seen = vec![false; all.len()];
    let orphan = |q: &Qdisc| !all.iter().any(|parent| is_child(parent, q) && parent != q);
    for at in 0..all.len() {
        if is_root(&all[at]) || orphan(&all[at]) {
            descend(all, at, 0, &mut seen, &mut out);
        }
    }
    // A circle has no root; the kernel makes none.
    for at in 0..all.len() {
        descend(all, at, 0, &mut seen, &mut out);
    }
    out
}

fn descend(all: &[Qdisc], at: usize, depth: usize, seen: &mut [bool], out: &mut Vec<Node>) {
    if std::mem::replace(&mut seen[at], true) {
        return;
    }
    out.push(Node { at, depth });
    for child in 0..all.len() {
        if is_child(&all[at], &all[child]) {
            descend(all, child, depth + 1, seen, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: DeviceId = DeviceId {
        netns: 1,
        ifindex: 2,
    };

    fn qdisc(kind: &str, handle: u32, parent: u32) -> Qdisc {
        Qdisc {
            kind: kind.to_owned(),
            handle,
            parent,
            ..Qdisc::default()
        }
    }

    fn device(qdiscs: Vec<Qdisc>) -> Device {
        Device {
            id: ID,
            name: "eth0".to_owned(),
            mtu: 1500,
            up: true,
            kind: None,
            tx_queues: 1,
            offloads: None,
            qdiscs,
        }
    }

    fn fq(bytes: u64, drops: u64, throttled: u64, flows: u64) -> Qdisc {
        Qdisc {
            bytes,
            drops,
            backlog_bytes: bytes / 10,
            extra: [("throttled", throttled), ("flows", flows)]
                .map(|(name, n)| (name.to_owned(), n))
                .into(),
            ..qdisc("fq", 0x8001_0000, TC_H_ROOT)
        }
    }

    /// Readings at so many ms.
    fn fold(readings: &[(u64, Qdisc)]) -> (Qdiscs, Vec<QdiscChange>) {
        let (mut qdiscs, mut changes, mut old) = (Qdiscs::default(), Vec::new(), None);
        for (ms, reading) in readings {
            let new = device(vec![reading.clone()]);
            changes.extend(qdiscs.take(Mono(ms * 1_000_000), old.as_ref(), &new));
            old = Some(new);
        }
        (qdiscs, changes)
    }

    fn root(qdiscs: &Qdiscs) -> &QdiscHistory {
        qdiscs.of(ID, TC_H_ROOT).expect("a root")
    }

    #[test]
    fn trap_23_counters_have_rates_and_levels_have_none() {
        let (qdiscs, changes) = fold(&[(1000, fq(1000, 0, 5, 3)), (2000, fq(3000, 2, 9, 7))]);
        let rise = root(&qdiscs)
            .rise(Mono(2_100_000_000))
            .expect("two readings");
        assert_eq!((rise.per_s(rise.bytes), rise.drops), (2000, 2));
        assert_eq!(rise.extra.get("throttled"), Some(&4));
        assert_eq!(rise.extra.get("flows"), None);
        assert_eq!(
            changes,
            [QdiscChange::Dropped {
                parent: TC_H_ROOT,
                kind: "fq".to_owned(),
                handle: 0x8001_0000,
                packets: 2
            }]
        );
    }

    #[test]
    fn one_reading_tells_no_rate_and_silence_tells_nothing_happened() {
        let (qdiscs, _) = fold(&[(1000, fq(1000, 0, 5, 3))]);
        assert_eq!(root(&qdiscs).rise(Mono(1_500_000_000)), None);
        let quiet = root(&qdiscs).rise(Mono(9_000_000_000)).expect("known");
        assert_eq!((quiet.bytes, quiet.ns), (0, READ_EVERY_NS));
    }

    #[test]
    fn after_silence_the_rise_is_of_the_last_second() {
        // Unchanged for a minute, then 1 MB within a second.
        let (qdiscs, _) = fold(&[(1000, fq(0, 0, 0, 0)), (61_000, fq(1_000_000, 0, 0, 0))]);
        let rise = root(&qdiscs).rise(Mono(61_000_000_000)).expect("known");
        assert_eq!(rise.per_s(rise.bytes), 1_000_000);
    }

    #[test]
    fn a_counter_that_fell_breaks_the_series() {
        let (qdiscs, _) = fold(&[(1000, fq(5000, 0, 5, 3)), (2000, fq(10, 0, 0, 0))]);
        assert_eq!(root(&qdiscs).rise(Mono(2_100_000_000)), None);
        assert_eq!(root(&qdiscs).since(), Mono(1_000_000_000));
    }

    #[test]
    fn another_kind_in_its_place_is_a_replacement_and_a_new_series() {
        let (qdiscs, changes) = fold(&[
            (1000, fq(5000, 9, 5, 3)),
            (2000, qdisc("cake", 0x8002_0000, TC_H_ROOT)),
        ]);
        assert_eq!(root(&qdiscs).rise(Mono(2_100_000_000)), None);
        assert_eq!(root(&qdiscs).replaced(), Some(("fq", 0x8001_0000)));
        assert_eq!(root(&qdiscs).since(), Mono(2_000_000_000));
        assert!(matches!(&changes[..], [QdiscChange::Replaced { .. }]));
    }

    #[test]
    fn seconds_hold_the_level_between_readings_and_know_nothing_before() {
        let (qdiscs, _) = fold(&[
            (2000, fq(1000, 0, 0, 0)),
            (2500, fq(2000, 3, 0, 0)),
            (5000, fq(2500, 4, 0, 0)),
        ]);
        let second = |backlog_bytes, drops| {
            Some(Second {
                backlog_bytes,
                drops,
            })
        };
        assert_eq!(
            root(&qdiscs).seconds(Mono(6_000_000_000), 6),
            [
                None,
                second(200, 3),
                second(200, 0),
                second(200, 0),
                second(250, 1),
                second(250, 0)
            ]
        );
        assert_eq!(root(&qdiscs).seconds(Mono(500_000_000), 3)[2], None);
    }

    #[test]
    fn the_history_is_bounded_and_still_tells_the_level_at_its_beginning() {
        let readings: Vec<_> = (0..2000).map(|s| (s * 1000, fq(s * 10, 0, 0, 0))).collect();
        let (qdiscs, _) = fold(&readings);
        let history = root(&qdiscs);
        assert!(history.kept.len() <= HISTORY_S + 1);
        let seconds = history.seconds(Mono(1999 * SECOND_NS), HISTORY_S);
        assert!(seconds.iter().all(Option::is_some));
    }

    fn shape(device: &Device) -> Vec<(usize, u32)> {
        let node = |node: &Node| (node.depth, device.qdiscs[node.at].parent);
        tree(device).iter().map(node).collect()
    }

    #[test]
    fn trap_12_children_hang_below_their_parents() {
        // mq that the kernel attached: all handles are 0.
        let mq = device(vec![
            qdisc("mq", 0, TC_H_ROOT),
            qdisc("fq", 0, 1),
            qdisc("fq", 0, 2),
        ]);
        assert_eq!(shape(&mq), [(0, TC_H_ROOT), (1, 1), (1, 2)]);
        // In classes of classes, and an ingress beside them.
        let htb = device(vec![
            qdisc("sfq", 0x20_0000, 0x10_0002),
            qdisc("htb", 0x1_0000, TC_H_ROOT),
            qdisc("prio", 0x10_0000, 0x1_0010),
            qdisc("clsact", 0xffff_0000, TC_H_INGRESS),
            qdisc("pfifo", 0x99_0000, 0x77_0001),
        ]);
        assert_eq!(
            shape(&htb),
            [
                (0, TC_H_ROOT),
                (1, 0x1_0010),
                (2, 0x10_0002),
                (0, TC_H_INGRESS),
                (0, 0x77_0001)
            ]
        );
    }

    #[test]
    fn a_circle_is_told_once_each() {
        let circle = device(vec![
            qdisc("prio", 0x1_0000, 0x2_0001),
            qdisc("prio", 0x2_0000, 0x1_0001),
            qdisc("prio", 0x3_0000, 0x3_0001),
        ]);
        assert_eq!(tree(&circle).len(), 3);
    }
}
