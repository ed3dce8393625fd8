//! The qdisc page's rows and selection.

use std::collections::BTreeMap;

use super::{Action, Move, movement};
use crate::event::{Device, DeviceId, FlowId, PacingStatus, TC_H_INGRESS};
use crate::model::{Model, tree};

/// Flows told by name for a device.
const TOLD: usize = 8;

/// A line of the table: a qdisc in its place; `None` = the device has none that is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub device: DeviceId,
    pub parent: Option<u32>,
    pub depth: usize,
    /// The first of its device: it carries the device's name.
    pub first: bool,
    /// No sibling comes after it.
    pub last: bool,
}

/// The flows that leave by a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Use {
    pub flows: usize,
    /// Bits per second; of the flows whose throughput is known.
    pub throughput_bps: Option<u64>,
    /// The fastest, first.
    pub fastest: Vec<(u64, FlowId)>,
    pub paced_by_fq: usize,
    pub paced_by_tcp: usize,
    pub not_paced: usize,
    pub pacing_unknown: usize,
}

/// What the page remembers.
#[derive(Clone, Debug, Default)]
pub struct QdiscsState {
    pub rows: Vec<Row>,
    pub uses: BTreeMap<DeviceId, Use>,
    /// A place on a device: it stays through devices that come and go.
    pub selected: Option<(DeviceId, Option<u32>)>,
    /// First row shown.
    pub offset: usize,
    /// Rows in view as last drawn.
    pub page: usize,
}

impl QdiscsState {
    /// Takes in what is attached and which flows use it: devices that flows leave by come first, then those with a queue.
    pub fn arrange(&mut self, model: &Model) {
        self.uses = uses(model);
        let mut devices: Vec<&Device> = model.devices().collect();
        devices.sort_by_key(|device| {
            let flows = self.uses.get(&device.id).map_or(0, |used| used.flows);
            let queued = device.egress().is_some_and(|q| q.kind != "noqueue");
            (flows == 0, !device.up, !queued, device.id)
        });
        self.rows.clear();
        for device in devices {
            rows(device, &mut self.rows);
        }
        let known = self.line().is_some();
        if !known {
            self.selected = self.rows.first().map(|row| (row.device, row.parent));
        }
    }

    /// Which part of the rows is in view.
    pub fn scroll(&mut self, page: usize) {
        self.page = page.max(1);
        let last = self.rows.len().saturating_sub(self.page);
        if let Some(line) = self.line() {
            let first = (line + 1).saturating_sub(self.page);
            self.offset = self.offset.clamp(first, line);
        }
        self.offset = self.offset.min(last);
    }

    /// Row of the selection.
    pub fn line(&self) -> Option<usize> {
        let selected = self.selected?;
        let same = |row: &Row| (row.device, row.parent) == selected;
        self.rows.iter().position(same)
    }

    pub fn update(&mut self, action: Action) {
        let Some(to) = movement(action, self.page) else {
            return;
        };
        let line = match (to, self.line()) {
            (to, Some(line)) => to.from(line),
            (Move::To(line), None) => line,
            (Move::By(_), None) => 0,
        };
        let line = line.min(self.rows.len().saturating_sub(1));
        self.selected = self.rows.get(line).map(|row| (row.device, row.parent));
        self.scroll(self.page);
    }
}

fn rows(device: &Device, out: &mut Vec<Row>) {
    let nodes = tree(device);
    if nodes.is_empty() {
        out.push(Row {
            device: device.id,
            parent: None,
            depth: 0,
            first: true,
            last: true,
        });
    }
    for (n, node) in nodes.iter().enumerate() {
        let later = nodes[n + 1..].iter();
        let sibling = later
            .take_while(|other| other.depth >= node.depth)
            .any(|other| other.depth == node.depth);
        out.push(Row {
            device: device.id,
            parent: Some(device.qdiscs[node.at].parent),
            depth: node.depth,
            first: n == 0,
            last: !sibling,
        });
    }
}

/// What acts on what comes in has no flows of ours.
pub fn is_egress(row: &Row) -> bool {
    row.parent.is_none_or(|parent| parent != TC_H_INGRESS)
}

fn uses(model: &Model) -> BTreeMap<DeviceId, Use> {
    let mut uses: BTreeMap<DeviceId, Use> = BTreeMap::new();
    for flow in model.flows().filter(|flow| !flow.is_closed()) {
        let Some(device) = flow.attributes().and_then(|a| a.device) else {
            continue;
        };
        let used = uses.entry(device).or_default();
        used.flows += 1;
        match flow.sample().and_then(|sample| sample.pacing_status) {
            Some(PacingStatus::Fq) => used.paced_by_fq += 1,
            Some(PacingStatus::Internal) => used.paced_by_tcp += 1,
            Some(PacingStatus::None) => used.not_paced += 1,
            None => used.pacing_unknown += 1,
        }
        if let Some(bps) = model.throughput_bps(flow) {
            let sum = used.throughput_bps.get_or_insert(0);
            *sum = sum.saturating_add(bps);
            used.fastest.push((bps, flow.id()));
        }
    }
    for used in uses.values_mut() {
        used.fastest
            .sort_unstable_by(|(a, a_id), (b, b_id)| b.cmp(a).then(a_id.cmp(b_id)));
        used.fastest.truncate(TOLD);
    }
    uses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ifindex: u32) -> DeviceId {
        DeviceId { netns: 1, ifindex }
    }

    fn row(ifindex: u32) -> Row {
        Row {
            device: id(ifindex),
            parent: Some(1),
            depth: 0,
            first: true,
            last: true,
        }
    }

    #[test]
    fn the_selection_is_a_place_on_a_device_not_a_line() {
        let mut state = QdiscsState {
            rows: (1..=40).map(row).collect(),
            ..QdiscsState::default()
        };
        state.scroll(10);
        state.update(Action::Last);
        assert_eq!(
            (state.selected, state.offset),
            (Some((id(40), Some(1))), 30)
        );
        state.rows.retain(|row| row.device.ifindex > 20);
        state.scroll(10);
        assert_eq!((state.line(), state.offset), (Some(19), 10));
        state.update(Action::PageUp);
        assert_eq!(state.line(), Some(9));
        state.rows.clear();
        state.update(Action::Up);
        assert_eq!(state.selected, None);
    }
}
