//! Where in time one is: the line over a recording, and the one under the header while what is live stands still.
//!
//! ```text
//! path.mcap  PLAYING 2×  21:00:05.120  37 %  ━━━━━━●───!──────!!─────  21:01:40
//! back to 20:58:07  ━━━━━━━━━━━━━━━━━━●━━━━  now        Space, $: live
//! ```

use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use crate::model::Model;
use crate::tui::feed::Timeline;
use crate::tui::format::cut;
use crate::tui::keys::{Action, Context};
use crate::tui::state::ViewState;
use crate::tui::theme::Marker;

/// A file's name takes at most so much.
const NAME: usize = 24;
/// A bar is at least this wide, or left out.
const BAR: usize = 10;
/// … and no wider than this: it is read, not measured.
const WIDEST: usize = 100;
const BETWEEN: &str = "  ";

/// The line over a recording; `alone` = it is all the header there is, so it tells what was lost, too.
pub fn file(model: &Model, state: &ViewState, width: usize, alone: bool) -> Option<Line<'static>> {
    let timeline = state.timeline.as_ref()?;
    let name = cut(timeline.file.as_deref()?, NAME);
    let transport = timeline.transport;
    let (word, style) = if timeline.seeking {
        ("SEEKING", state.theme.alarm)
    } else if transport.is_at_end() {
        ("END", state.theme.alarm)
    } else if transport.is_going() {
        ("PLAYING", state.theme.good)
    } else {
        ("PAUSED", state.theme.alarm)
    };
    let time = state.wall.text(transport.at());
    let share = format!("{:.0}%", (timeline.share() * 100.0).floor());
    let speed = format!(" {}×", transport.speed().times());
    let lost = match model.lost() {
        lost @ 1.. if alone => format!("LOST {lost}!"),
        _ => String::new(),
    };
    let end = state.wall.seconds(transport.last());
    // From the left, what matters most; the name gives way, then the bar.
    let fixed = word.width() + speed.width() + BETWEEN.len() + time.width() + BETWEEN.len() + 4;
    let lost_width = if lost.is_empty() {
        0
    } else {
        lost.width() + BETWEEN.len()
    };
    let left = width.saturating_sub(fixed + lost_width);
    let name = cut(&name, left.saturating_sub(BETWEEN.len()));
    let left = left.saturating_sub(name.width() + BETWEEN.len());
    let mut line = Line::default();
    if !name.is_empty() {
        line.push_span(Span::styled(name, state.theme.heading));
        line.push_span(Span::raw(BETWEEN));
    }
    line.push_span(Span::styled(word, style));
    line.push_span(Span::raw(speed));
    line.push_span(Span::raw(BETWEEN));
    line.push_span(Span::raw(time));
    line.push_span(Span::raw(format!("{BETWEEN}{share:>4}")));
    let room = left.saturating_sub(2 * BETWEEN.len() + end.width());
    if room >= BAR {
        line.push_span(Span::raw(BETWEEN));
        bar(timeline, state, room.min(WIDEST), &mut line);
        line.push_span(Span::raw(format!("{BETWEEN}{end}")));
    }
    if !lost.is_empty() {
        line.push_span(Span::raw(BETWEEN));
        line.push_span(Span::styled(lost, state.theme.alarm));
    }
    Some(line)
}

/// The line under the header, behind what is said there anyway, while what is live stands still.
pub fn live(
    state: &ViewState,
    modes: Option<Line<'static>>,
    width: usize,
) -> Option<Line<'static>> {
    let still = |timeline: &&Timeline| !timeline.is_file() && timeline.is_still();
    let Some(timeline) = state.timeline.as_ref().filter(still) else {
        return modes;
    };
    let mut line = modes.unwrap_or_default();
    if line.width() > 0 {
        line.push_span(Span::raw(BETWEEN));
    }
    let transport = timeline.transport;
    let begin = format!("back to {}", state.wall.seconds(transport.first()));
    let key = |action| state.keys.key_of(action, Context::On(state.page()));
    let live =
        key(Action::End).map_or(String::new(), |key| format!("{BETWEEN}{} live", key.text()));
    let words = begin.width() + 2 * BETWEEN.len() + "now".len() + live.width();
    let left = width.saturating_sub(line.width());
    let Some(room) = left.checked_sub(words) else {
        line.push_span(Span::raw(cut(&begin, left)));
        return Some(line);
    };
    line.push_span(Span::raw(begin));
    line.push_span(Span::raw(BETWEEN));
    if room >= BAR {
        bar(timeline, state, room.min(WIDEST), &mut line);
        line.push_span(Span::raw(BETWEEN));
    }
    line.push_span(Span::raw(format!("now{live}")));
    Some(line)
}

/// What has gone by, where one is, what is to come; `!` where there are retransmit bursts.
fn bar(timeline: &Timeline, state: &ViewState, width: usize, line: &mut Line<'static>) {
    let (gone, here, to_come) = match state.theme.marker {
        Marker::Ascii => ("=", "o", "-"),
        _ => ("━", "●", "─"),
    };
    let at = (timeline.share() * width as f64) as usize;
    let at = at.min(width.saturating_sub(1));
    let cells = timeline.bursts.len();
    let burst = |cell: usize| {
        let from = cell * cells / width;
        let to = ((cell + 1) * cells / width).max(from + 1);
        let of = timeline.bursts.get(from..to.min(cells));
        of.is_some_and(|of| of.contains(&true))
    };
    for cell in 0..width {
        let (text, style) = if cell == at {
            (here, state.theme.key)
        } else if burst(cell) {
            ("!", state.theme.warn)
        } else if cell < at {
            (gone, state.theme.axis)
        } else {
            (to_come, state.theme.axis)
        };
        match line.spans.last_mut() {
            Some(last) if last.style == style => last.content.to_mut().push_str(text),
            _ => line.push_span(Span::styled(text, style)),
        }
    }
}
