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
//! q quit  ? help  < > sort  I invert  ↑ ↓ move
//! ```
//!
//! [`ViewState::prepare`] takes the model in (which flows, in which order); [`draw`] reads model and state and changes
//! nothing; time is the model's.

mod address;
pub mod columns;
pub mod config;
mod feed;
mod format;
mod keys;
mod layout;
mod look;
mod moment;
mod page;
mod recorder;
mod run;
mod state;
mod still;
mod terminal;
mod theme;
mod transport;
mod view;
mod widget;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

pub use address::Addresses;
pub use feed::{Fed, Feed, Timeline, Wanted, cells};
pub use keys::{Action, Context, Key, Keymap};
pub use look::{Look, none};
pub use moment::{PLACES, Place, Wall};
pub use page::Page;
pub use recorder::{Notice, Recorder, Told};
pub use run::{Options, TuiError, run, show};
pub use state::flows::Line as TableLine;
pub use state::group::Grouping;
pub use state::{Effect, Mouse, Paused, Shows, ViewState};
pub use still::still;
pub use terminal::is_terminal;
pub use theme::{Marker, Theme, ThemeName};
pub use transport::{Command, Direction, Kind, Speed, Transport};

use crate::model::{Flow, Model};
use layout::{Layout, Wants};

/// What stands where on every page.
struct Plan {
    layout: Layout,
    header: Vec<Line<'static>>,
    /// Filter, search, grouping.
    modes: Option<Line<'static>>,
    status: Option<Line<'static>>,
    prompt: Vec<Line<'static>>,
    /// The page's own place.
    body: Rect,
}

impl Plan {
    fn new(model: &Model, state: &ViewState, source: &str, area: Rect) -> Self {
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        // A recording has a line of its own for its time.
        let most = state.page().header_most();
        let most = most.saturating_add(usize::from(state.is_replay()));
        let room = Layout::header_room(height).min(most);
        let (header, status) = if state.page().has_header() {
            (
                view::header::lines(model, state, source, width, room),
                view::header::status(model, state, width),
            )
        } else {
            (Vec::new(), None)
        };
        let prompt = view::prompt::lines(state, width);
        let wants = Wants {
            header: header.len(),
            status: status.is_some(),
            prompt: prompt.len(),
        };
        let layout = Layout::new(height, wants);
        let flows = state.page() == Page::Flows;
        let modes = flows.then(|| view::header::modes(state, width)).flatten();
        // Which flows are shown is said first; the timeline goes with what is left.
        let modes = view::timeline::live(state, modes, width);
        Self {
            layout,
            header,
            modes,
            status,
            prompt,
            body: view::rect(area, layout.body),
        }
    }
}

impl ViewState {
    /// Takes the model in before it is drawn into `area`. `shows` says which flows are asked for.
    pub fn prepare(&mut self, model: &Model, shows: &Shows, area: Rect) {
        // The header counts the flows shown on every page.
        self.flows.arrange(model, shows);
        // The source's name takes no line of its own.
        let body = Plan::new(model, self, "", area).body;
        match self.page() {
            Page::Flows => {
                let (layout, _) = view::flows::plan(model, self, usize::from(area.height), body);
                let table = view::rect(body, layout.table);
                self.flows.scroll(table, layout.page());
                self.flows.seek(model, self.theme.marker, &self.addresses);
            }
            Page::Flow => view::flow::arrange(model, self, body),
            Page::Qdiscs => view::qdiscs::arrange(model, self, body),
            Page::Host => view::host::arrange(model, self, body),
            Page::Why => view::why::arrange(model, self, body),
            Page::Events => {
                let flows = &self.flows;
                let shows =
                    |model: &Model, flow: &Flow| shows(model, flow) && flows.passes(model, flow);
                self.events.arrange(model, &shows);
                view::events::arrange(model, self, body);
            }
            Page::Help => {
                let lines = view::help::lines(model, self, usize::from(body.width)).len();
                self.help.arrange(lines, usize::from(body.height));
            }
        }
    }
}

/// Draws one frame. `source` says where the flows come from.
pub fn draw(model: &Model, state: &ViewState, source: &str, frame: &mut Frame) {
    let area = frame.area();
    let plan = Plan::new(model, state, source, area);
    let layout = plan.layout;
    let buffer = frame.buffer_mut();
    view::put(plan.header, view::rect(area, layout.header), buffer);
    view::page(model, state, plan.body, buffer);
    let lines = |line: Option<Line<'static>>| line.into_iter().collect::<Vec<_>>();
    view::put(lines(plan.modes), view::rect(area, layout.modes), buffer);
    view::put(lines(plan.status), view::rect(area, layout.status), buffer);
    view::put(plan.prompt, view::rect(area, layout.prompt), buffer);
    let place = match state.page() {
        Page::Help => view::help::place(model, state, plan.body),
        Page::Flow => view::flow::place(model, state),
        Page::Host => view::host::place(model, state, plan.body),
        Page::Why => view::why::place(model, state, plan.body),
        Page::Events => view::events::place(state),
        Page::Flows | Page::Qdiscs => None,
    };
    let footer = footer(state, usize::from(area.width), place);
    view::put(vec![footer], view::rect(area, layout.footer), buffer);
}

/// The keys that work here, as many as there is room for; what the page says of its place comes first.
fn footer(state: &ViewState, width: usize, place: Option<String>) -> Line<'static> {
    const BETWEEN: &str = "  ";
    let mut line = Line::default();
    let mut left = width;
    if let Some(place) = place {
        left = left.saturating_sub(place.width() + BETWEEN.len());
        line.push_span(Span::raw(place + BETWEEN));
    }
    for (keys, word) in state.keys.footer(state.context(), state.is_in_time()) {
        let needs = keys.width() + 1 + word.width();
        if needs > left {
            break;
        }
        left = left.saturating_sub(needs + BETWEEN.len());
        line.push_span(Span::styled(keys, state.theme.key));
        line.push_span(Span::raw(format!(" {word}{BETWEEN}")));
    }
    line
}
