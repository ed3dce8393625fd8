//! The page of reasons: the verdict on a flow's path with all its evidence, what it is taken for, what would change it,
//! what to do; and the flows that share the path.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::put;
use crate::detect::Scope;
use crate::model::{Flow, Group, Judgement, LimitedBy, Model, Part};
use crate::tui::format::{cell, cut, cut_address, known, wrap};
use crate::tui::moment::duration;
use crate::tui::state::ViewState;
use crate::tui::theme::Theme;
use crate::units::{self, UNKNOWN};

/// Flows of a group that are told.
const FLOWS: usize = 50;

/// All its lines; the screen shows those there is room for.
pub fn lines(model: &Model, state: &ViewState, width: usize) -> Vec<Line<'static>> {
    let mut page = Page {
        theme: &state.theme,
        width,
        lines: Vec::new(),
    };
    let Some(flow) = state.flows.selected.and_then(|id| model.flow_told(id)) else {
        page.text(
            "",
            "No flow is selected: Esc goes back, ↑ ↓ select one on the page of flows, w says why.",
        );
        return page.lines;
    };
    let (local, remote) = (
        state.addresses.text(flow.local()),
        state.addresses.text(flow.remote()),
    );
    page.heading(&format!("{local} → {remote}"));
    limit(model, flow, &mut page);
    match flow.judgement() {
        Some(judgement) => verdict(model, flow, judgement, &mut page),
        None => page.text(
            "",
            "verdict —: nothing of it was judged yet, it takes a second of sending",
        ),
    }
    if let Some(group) = model
        .group_of(flow.id())
        .filter(|group| group.flows.len() > 1)
    {
        sharing(model, state, &group, flow, &mut page);
    }
    page.lines
}

/// Takes in how much there is to see and the room for it.
pub fn arrange(model: &Model, state: &mut ViewState, area: Rect) {
    let lines = lines(model, state, usize::from(area.width)).len();
    state.why.arrange(lines, usize::from(area.height));
}

pub fn render(model: &Model, state: &ViewState, area: Rect, buffer: &mut Buffer) {
    let lines = lines(model, state, usize::from(area.width));
    let seen = lines.into_iter().skip(state.why.offset);
    put(seen.take(usize::from(area.height)).collect(), area, buffer);
}

/// Which lines are seen, where not all are.
pub fn place(model: &Model, state: &ViewState, area: Rect) -> Option<String> {
    let all = lines(model, state, usize::from(area.width)).len();
    let seen = usize::from(area.height).min(all.saturating_sub(state.why.offset));
    (seen < all).then(|| {
        let first = state.why.offset + 1;
        format!("lines {first}–{} of {all}", state.why.offset + seen)
    })
}

/// Lines being made.
struct Page<'a> {
    theme: &'a Theme,
    width: usize,
    lines: Vec<Line<'static>>,
}

impl Page<'_> {
    fn heading(&mut self, text: &str) {
        let text = cut(text, self.width);
        self.lines.push(Line::styled(text, self.theme.heading));
    }

    /// Behind a mark, in as many lines as it takes.
    fn text(&mut self, mark: &str, text: &str) {
        let indent = 1 + mark.chars().count();
        let room = self.width.saturating_sub(indent + 1);
        for (n, line) in wrap(text, room).iter().enumerate() {
            let mark = if n == 0 {
                mark.to_owned()
            } else {
                " ".repeat(indent - 1)
            };
            self.lines
                .push(Line::raw(cut(&format!(" {mark}{line}"), self.width)));
        }
    }
}

fn limit(model: &Model, flow: &Flow, page: &mut Page<'_>) {
    let limit = model.figures(flow).limit;
    let word = match limit {
        LimitedBy::Unknown => UNKNOWN,
        limit => limit.as_str(),
    };
    page.text("", &format!("limit {word}: {}", limit.about()));
    if let Some(next) = limit.next() {
        page.text("  ", next);
    }
}

fn verdict(model: &Model, flow: &Flow, judgement: &Judgement, page: &mut Page<'_>) {
    let verdict = &judgement.verdict;
    let class = verdict.class;
    let held = duration(model.now().since(judgement.since));
    let sure = if class.is_finding() {
        format!(", {} sure", verdict.sure())
    } else {
        String::new()
    };
    let text = format!("verdict {}{sure}, for {held}", verdict.headline());
    let style = if class.is_finding() {
        page.theme.warn
    } else {
        page.theme.heading
    };
    let text = cut(&format!(" {text}"), page.width);
    page.lines.push(Line::styled(text, style));
    page.text("  ", class.about());
    if verdict.scope == Scope::Group {
        let flows = verdict.flows.len();
        let peer = judgement.group().unwrap_or_default();
        page.text(
            "  ",
            &format!("of {flows} flows to {peer}, judged together"),
        );
    }
    page.heading("Evidence");
    for line in &verdict.evidence {
        page.text("- ", line);
    }
    if !class.confused_with().is_empty() {
        page.heading("Taken for");
        for (other, how) in class.confused_with() {
            page.text("- ", &format!("{}: {how}", other.as_str()));
        }
    }
    page.heading("What would change it");
    page.text("- ", class.changes());
    if !verdict.advice.is_empty() {
        page.heading("What to do");
    }
    let device = model
        .device_of(flow)
        .map(|device| units::escape(&device.name));
    for advice in &verdict.advice {
        let advice = advice.on(device.as_deref());
        page.text("- ", &advice.what);
        if let Some(command) = &advice.command {
            page.text("  $ ", command);
        }
        if let Some(check) = &advice.check {
            page.text("  ", &format!("it helped if {check}"));
        }
    }
}

/// The flows that share the path, and how.
fn sharing(model: &Model, state: &ViewState, group: &Group<'_>, of: &Flow, page: &mut Page<'_>) {
    let jain = known(group.jain_index(model).map(|jain| format!("{jain:.3}")));
    page.heading(&format!(
        "Flows to this peer: {}, Jain index {jain} (1 = equal shares)",
        group.flows.len()
    ));
    let shares = group.shares(model);
    let head = format!(
        " {} {} {} {} what it does",
        cell("local", 21, false),
        cell("cc", 9, false),
        cell("share", 6, true),
        cell("of retr.", 8, true)
    );
    page.lines.push(Line::raw(cut(&head, page.width)));
    for share in shares.iter().take(FLOWS) {
        let cc = share
            .flow
            .attributes()
            .map_or(UNKNOWN, |a| a.cc_name.as_str());
        let mark = if share.flow.id() == of.id() { ">" } else { " " };
        let local = state.addresses.text(share.flow.local());
        let text = format!(
            "{} {} {} {} {}",
            cell(&cut_address(&local, 21), 21, false),
            cell(&units::escape(cc), 9, false),
            cell(&known(share.throughput.map(units::percent)), 6, true),
            cell(&known(share.retransmits.map(units::percent)), 8, true),
            share.part.as_str(),
        );
        let text = cut(&format!("{mark}{text}"), page.width);
        page.lines.push(Line::raw(text));
    }
    if shares.len() > FLOWS {
        page.text("", &format!("and {} more", shares.len() - FLOWS));
    }
    if shares.iter().any(|share| share.part == Part::Pushes) {
        page.text(
            "",
            "Who pushes has at least half as much again as its fair share, who yields no more than two thirds of it.",
        );
    }
}
