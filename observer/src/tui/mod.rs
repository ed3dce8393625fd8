//! The screen: a live table of the flows.
//!
//! ```text
//! lab 6.18.0 eBPF  flows 3  events/s 310  CPU 0.2%  lost 0
//! eth0 fq drops 3 backlog 0 B · lo noqueue drops 0 backlog 0 B
//! default qdisc fq · default cc bbr
//!
//! State      Remote                CC       Throughput▼   cwnd  RTT/min ms   Retr%
//! ESTAB      10.0.0.2:5201         bbr/v1   93.8 Mbit/s    331   41.9/40.1   0.45%
//! …
//! 1 limitation(s) here, the last: …
//! q quit  ? help  < > sort  I invert  ↑ ↓ select
//! ```
//!
//! [`draw`] reads the model and the view's state and nothing else; time is the model's.

pub mod columns;
mod format;
mod keys;
mod run;
mod state;
mod terminal;
mod view;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

pub use keys::Action;
pub use run::{Options, TuiError, run};
pub use state::{Effect, Shows, ViewState};
pub use terminal::is_terminal;

use crate::model::Model;

const FOOTER: &str = "q quit  ? help  < > sort  I invert  ↑ ↓ select";

/// Draws one frame. `shows` says which flows are asked for, `source` where they come from.
pub fn draw(model: &Model, state: &mut ViewState, shows: &Shows, source: &str, frame: &mut Frame) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    if state.help {
        put(frame, 0, view::help::lines(), height);
        return;
    }
    let mut top = view::header::lines(model, state, source, width);
    // A low screen keeps the first line of the header and the flows.
    top.truncate(if height < 12 { 1 } else { height / 3 });
    let status = view::header::status(model, state);
    let bottom = usize::from(height >= 6) + usize::from(status.is_some() && height >= 12);
    let begin = top.len() + usize::from(height >= 12);
    let table = height.saturating_sub(begin + bottom);
    state.arrange(model, shows, table.saturating_sub(1));
    let rows = view::flows::lines(model, state, width, table);
    put(frame, 0, top, height);
    put(frame, begin, rows, table);
    let mut at = height - bottom.min(height);
    if let Some(status) = status.filter(|_| height >= 12) {
        put(frame, at, vec![status], 1);
        at += 1;
    }
    if height >= 6 {
        put(frame, at, vec![Line::raw(FOOTER)], 1);
    }
}

/// Puts lines from line `at` on, at most `height` of them.
fn put(frame: &mut Frame, at: usize, lines: Vec<Line<'static>>, height: usize) {
    let area = frame.area();
    let Ok(at) = u16::try_from(at) else { return };
    if at >= area.height {
        return;
    }
    let height = u16::try_from(height)
        .unwrap_or(u16::MAX)
        .min(area.height - at);
    let place = Rect::new(area.x, area.y + at, area.width, height);
    frame.render_widget(Paragraph::new(lines), place);
}
