//! The flow page: one flow's charts on one time axis, and beside or above them what it is and what holds it back.
//!
//! ```text
//! 10.0.0.1:43210 → 10.0.0.2:5201  ESTAB  iperf3/4711  age 31.2 s          facts
//! bbr/v1  PROBE_BW:UP  BtlBw 100 Mbit/s  min RTT 40.1 ms  gain 1.25/2.00
//! ⠒⠒ cwnd 999 kB 690 seg  ⠒  inflight 507 kB  ⠐  BDP 501 kB              a chart: its legend
//!    1M┤⣀⠤⠒⠉⣀⠤⠒⠉                                                        its lines
//! …
//!  phase STARTUP──DRAIN─PROBE_BW────────PROBE_RTT─PROBE_BW──               band
//!   30 s └5s        └10s       └15s                                       axis: since the flow came into view
//! ```

mod charts;
mod facts;
mod legend;
mod plan;
mod stages;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::put;
use crate::event::CcState;
use crate::model::{Flow, Model};
use crate::tui::format::wrap;
use crate::tui::state::ViewState;
use crate::tui::widget::axis::GUTTER;
use crate::tui::widget::dots_per_cell;
use crate::units;
use plan::Plan;

/// The flow that the page is of.
fn flow<'a>(model: &'a Model, state: &ViewState) -> Option<&'a Flow> {
    model.flow(state.flows.selected?)
}

fn plan(state: &ViewState, flow: &Flow, area: Rect) -> Plan {
    let bbr = match flow.sample().and_then(|s| s.cc.as_ref()) {
        Some(CcState::Bbr(bbr)) => bbr.phase.is_some(),
        _ => false,
    };
    Plan::new(area, state.flow.enlarged, if bbr { 2 } else { 1 })
}

/// Takes in what there is to see and the room for it.
pub fn arrange(model: &Model, state: &mut ViewState, area: Rect) {
    let Some(flow) = flow(model, state) else {
        return;
    };
    let Plan { charts, axis, .. } = plan(state, flow, area);
    let cells = Rect {
        x: axis.x + GUTTER.min(axis.width),
        y: charts[0].y,
        width: axis.width.saturating_sub(GUTTER),
        height: axis.bottom().saturating_sub(charts[0].y),
    };
    let (across, _) = dots_per_cell(state.theme.marker);
    state
        .flow
        .arrange(flow.id(), &model.past(flow), cells, across);
}

pub fn render(model: &Model, state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let Some(flow) = flow(model, state) else {
        let text = if state.flows.selected.is_some() {
            "This flow has ended and is no longer kept. Esc goes back to the flows."
        } else {
            "No flow is selected: Esc goes back to the flows, ↑ ↓ select one, Enter opens it."
        };
        let lines = wrap(text, usize::from(area.width));
        put(lines.into_iter().map(Line::raw).collect(), area, buffer);
        return;
    };
    let plan = plan(state, flow, area);
    facts::render(model, flow, state, &plan, buffer);
    charts::render(model, flow, state, &plan, buffer);
}

/// Where one is in the past, for the last line of the screen.
pub fn place(model: &Model, state: &ViewState) -> Option<String> {
    let end = state.flow.end?;
    let behind = model.past(flow(model, state)?).end().since(end);
    Some(if behind <= state.flow.view.cell {
        "stands still (End: now)".to_owned()
    } else {
        format!("{} back (End: now)", units_of_time(behind))
    })
}

/// `250 ms`, `12.3 s`, `4 min 5 s`, `2 h 4 min`.
fn units_of_time(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0 => format!("{} ms", units::ms(ns / 1000)),
        1..60 => {
            // As milliseconds are written, a thousand times larger.
            format!("{} s", units::ms(ns / 1_000_000))
        }
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}
