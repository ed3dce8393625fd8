//! The screen: a live table of the flows.
//!
//! ```text
//! lab 6.18.0 eBPF  flows 3  events/s 310  CPU 0.2%  lost 0
//! eth0 fq drops 3 backlog 0 B · lo noqueue drops 0 backlog 0 B
//! default qdisc fq_codel (attached: fq) · default cc bbr
//!
//! State      Remote                CC        Throughput▼   cwnd  RTT/min ms  Retr%
//! ESTAB      10.0.0.2:5201         bbr/v1    93.8 Mbit/s    331   41.9/40.1  0.45%
//! …
//! 10.0.0.1:43210 → 10.0.0.2:5201                      (the selected flow, all of it)
//! Limit path     Process iperf3/4711     Pacing 125 Mbit/s   BtlBw 100 Mbit/s …
//! 1 limitation here: …
//! q quit  ? help  < > sort  I invert  ↑ ↓ select
//! ```
//!
//! [`ViewState::prepare`] takes the model in (which flows, in which order); [`draw`] reads model and state and changes
//! nothing; time is the model's.

pub mod columns;
mod format;
mod keys;
mod layout;
mod run;
mod state;
mod terminal;
mod view;

use std::fmt::Write as _;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

pub use keys::Action;
pub use run::{Options, TuiError, run};
pub use state::{Effect, Shows, ViewState};
pub use terminal::is_terminal;

use crate::model::Model;
use layout::{Band, Layout, Wants};

const FOOTER: &str = "q quit  ? help  < > sort  I invert  ↑ ↓ select";

/// What stands where.
struct Plan {
    layout: Layout,
    header: Vec<Line<'static>>,
    detail: Vec<Line<'static>>,
    status: Option<Line<'static>>,
}

impl Plan {
    fn new(model: &Model, state: &ViewState, source: &str, area: Rect) -> Self {
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        let room = Layout::header_room(height);
        let header = view::header::lines(model, state, source, width, room);
        let detail = view::detail::lines(model, state, width);
        let status = view::header::status(model, state, width);
        let wants = Wants {
            header: header.len(),
            detail: detail.len(),
            status: status.is_some(),
        };
        Self {
            layout: Layout::new(height, wants),
            header,
            detail,
            status,
        }
    }
}

impl ViewState {
    /// Takes the model in before it is drawn into `area`. `shows` says which flows are asked for.
    pub fn prepare(&mut self, model: &Model, shows: &Shows, area: Rect) {
        if self.help {
            let lines = view::help::lines(model, usize::from(area.width)).len();
            self.arrange_help(lines, help_page(area));
        } else {
            // The source's name takes no line of its own.
            let page = Plan::new(model, self, "", area).layout.page();
            self.arrange(model, shows, page);
        }
    }
}

/// Lines of the help page in view: all but the last.
fn help_page(area: Rect) -> usize {
    usize::from(area.height).saturating_sub(1)
}

/// Draws one frame. `source` says where the flows come from.
pub fn draw(model: &Model, state: &ViewState, source: &str, frame: &mut Frame) {
    let area = frame.area();
    if state.help {
        help(model, state, frame);
        return;
    }
    let plan = Plan::new(model, state, source, area);
    let layout = plan.layout;
    put(frame, layout.header, plan.header);
    view::flows::render(model, state, rect(area, layout.table), frame.buffer_mut());
    put(frame, layout.detail, plan.detail);
    put(frame, layout.status, plan.status.into_iter().collect());
    put(frame, layout.footer, vec![Line::raw(FOOTER)]);
}

fn help(model: &Model, state: &ViewState, frame: &mut Frame) {
    let area = frame.area();
    let page = help_page(area);
    let lines = view::help::lines(model, usize::from(area.width));
    let total = lines.len();
    let seen: Vec<_> = lines
        .into_iter()
        .skip(state.help_offset)
        .take(page)
        .collect();
    let mut footer = "Esc back  q quit".to_owned();
    if seen.len() < total {
        let (first, last) = (state.help_offset + 1, state.help_offset + seen.len());
        let _ = write!(footer, "  ↑ ↓ scroll: lines {first}–{last} of {total}");
    }
    let height = seen.len();
    put(frame, Band { at: 0, height }, seen);
    put(
        frame,
        Band {
            at: page,
            height: 1,
        },
        vec![Line::raw(footer)],
    );
}

/// The band's place, as far as it is on the screen.
fn rect(area: Rect, band: Band) -> Rect {
    let clamp = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let top = area.y.saturating_add(clamp(band.at));
    Rect::new(area.x, top, area.width, clamp(band.height)).intersection(area)
}

fn put(frame: &mut Frame, band: Band, lines: Vec<Line<'static>>) {
    frame.render_widget(Paragraph::new(lines), rect(frame.area(), band));
}
