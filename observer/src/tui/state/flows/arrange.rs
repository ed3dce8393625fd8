//! Taking the model in: which flows are shown, in which order, in which groups.

use super::super::Shows;
use super::super::group::{Group, Grouping, divide};
use super::{FlowsState, Line};
use crate::event::{DeviceId, FlowId};
use crate::filter::Facts;
use crate::model::{Flow, Model};
use crate::tui::columns::{Column, Keys, SortKey, compare};
use crate::units::Mono;

const CENSUS_NS: u64 = 1_000_000_000;

/// What all flows together use. Taken once a second: it changes rarely, and there may be very many flows.
#[derive(Clone, Debug, Default)]
pub struct Census {
    taken: Option<Mono>,
    /// Devices that flows leave by.
    pub devices: Vec<DeviceId>,
    /// Algorithms in use.
    pub ccs: Vec<String>,
}

impl FlowsState {
    /// Which flows are shown, in which order. Equal flows keep their order.
    pub fn arrange(&mut self, model: &Model, shows: &Shows) {
        self.take_census(model);
        self.open = 0;
        let keys = Keys::new(self.sort, model);
        let mut rows: Vec<(Option<SortKey>, &Flow)> = Vec::new();
        for flow in model.flows() {
            if !shows(model, flow) || !self.passes(model, flow) {
                continue;
            }
            self.open += usize::from(!flow.is_closed());
            rows.push((keys.of(flow), flow));
        }
        // Stable: equal flows stay in the model's order, which is that of their numbers.
        rows.sort_by(|(a, _), (b, _)| compare(a.as_ref(), b.as_ref(), self.descending));
        self.lines.clear();
        self.groups.clear();
        if self.grouping == Grouping::None {
            let lines = rows.iter().map(|(_, flow)| Line::Flow(flow.id()));
            self.lines.extend(lines);
        } else {
            let flows: Vec<&Flow> = rows.into_iter().map(|(_, flow)| flow).collect();
            self.arrange_groups(model, &flows);
        }
    }

    fn take_census(&mut self, model: &Model) {
        let now = model.now();
        let fresh = |taken: Mono| taken <= now && now.since(taken) < CENSUS_NS;
        // At the beginning there is little to count, and everything is new.
        if self.census.taken.is_some_and(fresh) && !self.census.ccs.is_empty() {
            return;
        }
        self.census = Census {
            taken: Some(now),
            ..Census::default()
        };
        for flow in model.flows() {
            self.census.take(flow);
        }
    }

    /// Groups stand in the order of their sums where the column has one, else of their first flows.
    fn arrange_groups(&mut self, model: &Model, flows: &[&Flow]) {
        let (groups, of) = divide(model, self.grouping, flows);
        let mut order: Vec<usize> = (0..groups.len()).collect();
        if let Some(sum) = sum(self.sort) {
            let key = |place: usize| sum(&groups[place]).map(SortKey::Number);
            order.sort_by(|a, b| compare(key(*a).as_ref(), key(*b).as_ref(), self.descending));
        }
        let mut members: Vec<Vec<FlowId>> = vec![Vec::new(); groups.len()];
        for (flow, place) in flows.iter().zip(of) {
            members[place as usize].push(flow.id());
        }
        for place in order {
            self.lines.push(Line::Group(place));
            let folded = groups[place]
                .name
                .as_ref()
                .is_some_and(|name| self.folded.contains(name));
            if !folded {
                let flows = members[place].iter();
                self.lines.extend(flows.map(|id| Line::Flow(*id)));
            }
        }
        self.groups = groups;
    }

    /// As on the command line: a closed flow passes by its expression alone.
    pub fn passes(&self, model: &Model, flow: &Flow) -> bool {
        let Some(filter) = &self.filter else {
            return true;
        };
        let facts = Facts::of(model, flow);
        if flow.is_closed() {
            filter.matches_in_any_state(&facts)
        } else {
            filter.matches(&facts)
        }
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
    fn take(&mut self, flow: &Flow) {
        let Some(attributes) = flow.attributes() else {
            return;
        };
        if let Some(device) = attributes.device
            && !self.devices.contains(&device)
        {
            self.devices.push(device);
        }
        if !self.ccs.contains(&attributes.cc_name) {
            self.ccs.push(attributes.cc_name.clone());
        }
    }
}
