//! Taking the model in: which flows are shown, in which order, in which groups.

use super::super::Shows;
use super::super::group::{Group, Grouping};
use super::ledger::{Direction, Ledger, Wanted, sum_place};
use super::{FlowsState, Line};
use crate::event::{DeviceId, FlowId};
use crate::filter::{Facts, Filter};
use crate::model::{Flow, Model};
use crate::tui::columns::Column;

/// What all flows together use.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// Devices that flows leave by.
    pub devices: Vec<DeviceId>,
    /// Algorithms in use.
    pub ccs: Vec<String>,
}

impl FlowsState {
    /// Which flows are shown, in which order.
    pub fn arrange(&mut self, model: &Model, shows: &Shows) {
        let wanted = Wanted {
            sort: self.sort,
            grouping: self.grouping,
            filter: self.filter.as_ref(),
        };
        let shown = |flow: &Flow| shows(model, flow) && passes(wanted.filter, model, flow);
        self.ledger.take(model, &wanted, &mut self.groups, &shown);
        self.census = Census::of(&self.ledger);
        let shown = self.ledger.entries().iter().filter(|entry| entry.shown);
        self.open = shown.filter(|entry| !entry.closed).count();
        self.lines.clear();
        if self.grouping == Grouping::None {
            let sorted = self
                .ledger
                .sorted(Direction::of(self.sort, self.descending));
            self.lines.extend(sorted.map(|entry| Line::Flow(entry.id)));
        } else {
            self.arrange_groups();
        }
    }

    /// Groups stand in the order of their sums where the column has one, else of their first flows.
    fn arrange_groups(&mut self) {
        let direction = Direction::of(self.sort, self.descending);
        self.groups.empty();
        let mut flows: Vec<(u32, FlowId)> = Vec::with_capacity(self.ledger.entries().len());
        let mut order: Vec<u32> = Vec::new();
        for entry in self.ledger.sorted(direction) {
            let met = self
                .groups
                .add(entry.group, (!entry.closed).then_some(&entry.sums));
            if met == 1 {
                order.push(entry.group);
            }
            flows.push((entry.group, entry.id));
        }
        if let Some(sum) = sum(self.sort) {
            let sum = |place: &u32| self.groups.get(*place as usize).and_then(sum);
            order.sort_by_key(|place| sum_place(sum(place), direction));
        }
        // Each group's flows have their place behind its own line; the lines of folded ones are left out.
        let mut next = vec![None; self.groups.places()];
        let mut lines = 0;
        for place in &order {
            let Some(group) = self.groups.get(*place as usize) else {
                continue;
            };
            let flows = if self.folded.contains(&group.name) {
                0
            } else {
                next[*place as usize] = Some(lines + 1);
                group.flows()
            };
            lines += 1 + flows;
            self.lines.resize(lines, Line::Group(*place as usize));
        }
        for (place, flow) in flows {
            if let Some(line) = &mut next[place as usize] {
                self.lines[*line] = Line::Flow(flow);
                *line += 1;
            }
        }
    }

    pub fn passes(&self, model: &Model, flow: &Flow) -> bool {
        passes(self.filter.as_ref(), model, flow)
    }
}

/// As on the command line: a closed flow passes by its expression alone.
fn passes(filter: Option<&Filter>, model: &Model, flow: &Flow) -> bool {
    let Some(filter) = filter else {
        return true;
    };
    let facts = Facts::of(model, flow);
    if flow.is_closed() {
        filter.matches_in_any_state(&facts)
    } else {
        filter.matches(&facts)
    }
}

/// The sum that groups are sorted by.
fn sum(column: Column) -> Option<fn(&Group) -> Option<f64>> {
    match column {
        Column::Throughput | Column::Trend => Some(|g| g.throughput_bps.map(|v| v as f64)),
        Column::Inflight => Some(|g| g.inflight_bytes.map(|v| v as f64)),
        Column::RetransRate | Column::RetransTrend => Some(Group::retrans_rate),
        _ => None,
    }
}

impl Census {
    fn of(ledger: &Ledger) -> Self {
        let (mut devices, mut ccs) = (Vec::new(), Vec::new());
        for entry in ledger.entries() {
            if let Some(device) = entry.device.filter(|device| !devices.contains(device)) {
                devices.push(device);
            }
            if let Some(cc) = entry.cc.filter(|cc| !ccs.contains(cc)) {
                ccs.push(cc);
            }
        }
        let ccs = ccs.into_iter().map(|cc| ledger.text(cc).to_owned());
        Self {
            devices,
            ccs: ccs.collect(),
        }
    }
}
