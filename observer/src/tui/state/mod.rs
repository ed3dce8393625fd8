//! What the user is looking at. Pure: keys in, state and effects out. What a page remembers is in a file of its own.

pub mod chooser;
pub mod events;
pub mod flow;
pub mod flows;
pub mod group;
pub mod help;
mod mouse;
pub mod prompt;
pub mod qdiscs;

use super::address::Addresses;
use super::feed::Timeline;
use super::keys::{Action, Context, Key, Keymap};
use super::moment::Wall;
use super::page::{Page, Pages};
use super::recorder::Told;
use super::theme::Theme;
use super::transport::{Command, Direction};
use crate::event::FlowId;
use crate::filter::Filter;
use crate::model::{Flow, Model};
use crate::units::Mono;
use events::EventsState;
use flow::FlowState;
use flows::FlowsState;
use help::HelpState;
pub use mouse::{Clicks, Mouse};
use prompt::{Before, Prompt, Purpose};
use qdiscs::QdiscsState;

/// What only the loop can do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    Quit,
    Redraw,
    Suspend,
    /// Moves in time, or stands still.
    Time(Command),
    /// Begins a recording, or ends it.
    Record,
    /// Takes the mouse, or leaves it to the terminal.
    Mouse(bool),
}

/// Whether a flow is shown.
pub type Shows = dyn Fn(&Model, &Flow) -> bool;

/// The view stands still while the data goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paused {
    /// The moment that is looked at.
    pub at: Mono,
    /// The same by the wall's clock, where it is known.
    pub clock: Option<String>,
    /// How long the data went on since, ns.
    pub ago: u64,
}

/// The view's own state.
#[derive(Clone, Debug, Default)]
pub struct ViewState {
    pub pages: Pages,
    pub flows: FlowsState,
    pub flow: FlowState,
    pub qdiscs: QdiscsState,
    /// It scrolls as the help does.
    pub host: HelpState,
    pub events: EventsState,
    /// It scrolls as the help does.
    pub why: HelpState,
    pub help: HelpState,
    pub prompt: Option<Prompt>,
    pub paused: Option<Paused>,
    /// What there is to say of recordings begun here.
    pub recording: Told,
    /// Where in time one is, as last drawn; `None` = nobody told.
    pub timeline: Option<Timeline>,
    /// What the last key could not do.
    pub notice: Option<String>,
    pub theme: Theme,
    pub addresses: Addresses,
    pub keys: Keymap,
    pub clicks: Clicks,
    pub wall: Wall,
    /// Own CPU time, share of all cores; `None` = not measured yet.
    pub own_cpu: Option<f64>,
}

impl ViewState {
    pub fn page(&self) -> Page {
        self.pages.now()
    }

    /// The flows that somebody looks at, which deserve every sample there is.
    pub fn focus(&self) -> Vec<FlowId> {
        self.flows.selected.into_iter().collect()
    }

    /// A recording is shown.
    pub fn is_replay(&self) -> bool {
        self.timeline.as_ref().is_some_and(Timeline::is_file)
    }

    /// One moves in time: through a recording, or back from what is live.
    pub fn is_in_time(&self) -> bool {
        let timeline = self.timeline.as_ref();
        timeline.is_some_and(|timeline| timeline.is_file() || timeline.is_still())
    }

    /// Which keys mean something now.
    pub fn context(&self) -> Context {
        if self.prompt.is_some() {
            Context::Prompt
        } else if self.page() == Page::Flows && self.flows.chooser.is_some() {
            Context::Chooser
        } else {
            Context::On(self.page())
        }
    }

    /// Acts on a key. `None` = it means nothing here.
    pub fn key(&mut self, key: Key) -> Option<Option<Effect>> {
        if let Some(action) = self.keys.action(key, self.context()) {
            // Drawn anew, it is still to be read.
            if !matches!(action, Action::Redraw | Action::Suspend) {
                self.notice = None;
            }
            return Some(self.update(action));
        }
        let (Some(prompt), Key::Char(c)) = (&mut self.prompt, key) else {
            return None;
        };
        prompt.type_in(c);
        self.typed();
        Some(None)
    }

    /// Text that was pasted: for the line one types in, or for nothing.
    pub fn paste(&mut self, text: &str) {
        if let Some(prompt) = &mut self.prompt {
            text.chars().for_each(|c| prompt.type_in(c));
            self.typed();
        }
    }

    /// Acts on what a key asks for.
    pub fn update(&mut self, action: Action) -> Option<Effect> {
        if action == Action::Accept && self.asks_for_time() {
            return self.go_to();
        }
        if self.prompt.is_some() && self.prompted(action) {
            return None;
        }
        if let Some(command) = time(action) {
            return Some(Effect::Time(command));
        }
        match action {
            Action::Quit => return Some(Effect::Quit),
            Action::Redraw => return Some(Effect::Redraw),
            Action::Suspend => return Some(Effect::Suspend),
            Action::Record => return Some(Effect::Record),
            Action::Mouse => {
                self.clicks.taken = !self.clicks.taken;
                return Some(Effect::Mouse(self.clicks.taken));
            }
            // The key that opened the help closes it.
            Action::Go(Page::Help) if self.page() == Page::Help => self.back(),
            // A group has no page: its line opens and closes it.
            Action::Go(Page::Flow)
                if self.page() == Page::Flows && self.flows.selected_group.is_some() =>
            {
                self.flows.update(Action::Fold);
            }
            // The key that opened the reasons closes them.
            Action::Go(Page::Why) if self.page() == Page::Why => self.back(),
            Action::Go(page) => self.go(page),
            Action::Back if self.context() != Context::Chooser => self.back(),
            Action::Search => self.ask(Purpose::Search),
            Action::Filter => self.ask(Purpose::Filter),
            Action::GoTo => self.ask(Purpose::Time),
            action => match self.page() {
                Page::Flows => self.flows.update(action),
                // To another flow.
                Page::Flow if matches!(action, Action::Up | Action::Down) => {
                    self.flows.neighbour(action);
                }
                Page::Flow => self.flow.update(action),
                Page::Qdiscs => self.qdiscs.update(action),
                Page::Host => self.host.update(action),
                Page::Why => self.why.update(action),
                Page::Events if action == Action::Open => self.open_event(),
                Page::Events => self.events.update(action),
                Page::Help => self.help.update(action),
            },
        }
        None
    }

    fn go(&mut self, page: Page) {
        if page == Page::Help {
            self.help = HelpState::default();
        }
        if page == Page::Why {
            self.why = HelpState::default();
        }
        if matches!(page, Page::Flow | Page::Why) && self.flows.selected.is_none() {
            // The first movement selects what is at the top.
            self.flows.update(Action::Down);
        }
        self.pages.go(page);
    }

    /// To the flow that the selected event is of.
    fn open_event(&mut self) {
        if let Some(flow) = self.events.flow() {
            self.flows.selected = Some(flow);
            self.go(Page::Flow);
        }
    }

    fn back(&mut self) {
        if !self.pages.back() {
            self.flows.search.clear();
            self.flows.not_found = false;
        }
    }

    fn ask(&mut self, purpose: Purpose) {
        let before = Before {
            search: self.flows.search.clone(),
            filter: self.flows.filter.clone(),
            selected: self.flows.selected,
        };
        let text = match purpose {
            Purpose::Search | Purpose::Time => String::new(),
            // The one in force is changed.
            Purpose::Filter => before
                .filter
                .as_ref()
                .map(Filter::to_string)
                .unwrap_or_default(),
        };
        self.flows.not_found = false;
        self.prompt = Some(Prompt::new(purpose, text, before));
    }

    fn asks_for_time(&self) -> bool {
        let prompt = self.prompt.as_ref();
        prompt.is_some_and(|prompt| prompt.purpose == Purpose::Time)
    }

    /// To the moment that was typed. One that cannot be gone to is told, and the line stays open.
    fn go_to(&mut self) -> Option<Effect> {
        let text = self.prompt.as_ref()?.text.trim().to_owned();
        if text.is_empty() {
            self.prompt = None;
            return None;
        }
        let transport = self.timeline.as_ref()?.transport;
        let place = text
            .parse()
            .and_then(|place| self.wall.moment(place, transport.first(), transport.last()));
        match place {
            Ok(moment) => {
                self.prompt = None;
                Some(Effect::Time(Command::To(moment)))
            }
            Err(told) => {
                self.notice = Some(told);
                None
            }
        }
    }

    /// Whether a moment of this flow is one to jump to: on its own page those of the flow that is looked at.
    pub fn wants(&self, model: &Model, shows: &Shows, id: FlowId, flow: Option<&Flow>) -> bool {
        match self.flows.selected {
            Some(selected) if matches!(self.page(), Page::Flow | Page::Why) => id == selected,
            // Nothing is known of it that a filter could ask for.
            _ => flow.is_none_or(|flow| shows(model, flow) && self.flows.passes(model, flow)),
        }
    }

    /// What the line does with an action. False when it is not the line's.
    fn prompted(&mut self, action: Action) -> bool {
        let Some(prompt) = &mut self.prompt else {
            return false;
        };
        match action {
            // What is wrong cannot be kept: its place is shown, the line stays open.
            Action::Accept if prompt.error.is_some() => {}
            Action::Accept => {
                // Nothing typed: the last search again.
                if prompt.purpose == Purpose::Search && prompt.text.is_empty() {
                    let last = prompt.before.search.clone();
                    self.flows.search_for(&last);
                }
                self.prompt = None;
            }
            Action::Cancel => {
                let before = prompt.before.clone();
                self.prompt = None;
                self.flows.search = before.search;
                self.flows.filter = before.filter;
                self.flows.reselect(before.selected);
                self.flows.not_found = false;
            }
            action => {
                if !prompt.edit(action) {
                    return false;
                }
                self.typed();
            }
        }
        true
    }

    /// Takes in what is typed so far: a search goes where it leads, a filter that can be read is in force. One that
    /// cannot leaves the one before in force.
    fn typed(&mut self) {
        let Some(prompt) = &mut self.prompt else {
            return;
        };
        match prompt.purpose {
            Purpose::Search => {
                let text = prompt.text.clone();
                self.flows.reselect(prompt.before.selected);
                self.flows.search_for(&text);
            }
            Purpose::Filter => match Filter::parse_str(&prompt.text) {
                Ok(filter) => {
                    prompt.error = None;
                    self.flows.filter = (!filter.is_empty()).then_some(filter);
                }
                Err(error) => {
                    prompt.error = Some(error);
                    self.flows.filter = prompt.before.filter.clone();
                }
            },
            Purpose::Time => self.notice = None,
        }
    }
}

/// What an action asks of time.
fn time(action: Action) -> Option<Command> {
    use Direction::{Back, Forth};
    Some(match action {
        Action::Pause => Command::Toggle,
        Action::StepBack => Command::Step(Back),
        Action::StepForth => Command::Step(Forth),
        Action::SkipBack => Command::Skip(Back),
        Action::SkipForth => Command::Skip(Forth),
        Action::Slower => Command::Slower,
        Action::Faster => Command::Faster,
        Action::Beginning => Command::First,
        Action::End => Command::Last,
        Action::Jump(direction, kind) => Command::Jump(direction, kind),
        _ => return None,
    })
}

/// Movement through lines that have a page in view: how far an action goes. `None` = it is no movement.
pub fn movement(action: Action, page: usize) -> Option<Move> {
    let part = |n: usize| isize::try_from((page / n).max(1)).unwrap_or(1);
    Some(match action {
        Action::Up => Move::By(-1),
        Action::Down => Move::By(1),
        Action::PageUp => Move::By(-part(1)),
        Action::PageDown => Move::By(part(1)),
        Action::HalfUp => Move::By(-part(2)),
        Action::HalfDown => Move::By(part(2)),
        Action::First => Move::To(0),
        Action::Last => Move::To(usize::MAX),
        _ => return None,
    })
}

/// Lines to go, or the line to go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    By(isize),
    To(usize),
}

impl Move {
    /// Where one is then, coming from `line`.
    pub fn from(self, line: usize) -> usize {
        match self {
            Self::By(lines) => line.saturating_add_signed(lines),
            Self::To(line) => line,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_comes_and_goes_and_leaves_the_flows_alone() {
        let mut state = ViewState::default();
        state.update(Action::Go(Page::Help));
        state.help.arrange(30, 10);
        state.update(Action::Last);
        assert_eq!(state.help.offset, 20);
        state.update(Action::PageUp);
        assert_eq!(state.help.offset, 10);
        assert_eq!(state.flows.selected, None);
        state.update(Action::Go(Page::Help));
        assert_eq!(state.page(), Page::Flows);
        state.update(Action::Go(Page::Help));
        assert_eq!(state.help.offset, 0, "from its beginning");
        state.update(Action::Back);
        state.update(Action::Back);
        assert_eq!(state.page(), Page::Flows);
    }

    #[test]
    fn a_key_that_means_nothing_here_is_told() {
        let mut state = ViewState::default();
        assert_eq!(state.key(Key::Char('€')), None);
        assert_eq!(state.key(Key::Char('q')), Some(Some(Effect::Quit)));
        assert_eq!(state.key(Key::Char('?')), Some(None));
        assert_eq!(
            state.key(Key::Char('I')),
            None,
            "no table here to turn round"
        );
    }

    fn typing(state: &mut ViewState, text: &str) {
        for c in text.chars() {
            assert_eq!(state.key(Key::Char(c)), Some(None));
        }
    }

    #[test]
    fn a_wrong_filter_is_told_and_the_old_one_stays() {
        let mut state = ViewState::default();
        state.update(Action::Filter);
        typing(&mut state, "cc bbr");
        state.update(Action::Accept);
        let kept = state.flows.filter.clone();
        assert_eq!(
            kept.as_ref().map(Filter::to_string).as_deref(),
            Some("cc = bbr")
        );
        state.update(Action::Filter);
        typing(&mut state, " and dprot = :1");
        state.update(Action::Accept);
        let prompt = state.prompt.as_ref().expect("it stays open");
        assert_eq!(prompt.caret(), Some((13, 5)));
        assert_eq!(state.flows.filter, kept);
        state.update(Action::Cancel);
        assert_eq!((state.prompt.is_none(), &state.flows.filter), (true, &kept));
        // Emptied: no filter any more.
        state.update(Action::Filter);
        state.update(Action::EraseAll);
        state.update(Action::Accept);
        assert_eq!(state.flows.filter, None);
    }

    #[test]
    fn what_is_typed_is_text_and_no_command() {
        let mut state = ViewState::default();
        state.update(Action::Search);
        typing(&mut state, "q? 1");
        assert_eq!(state.flows.search, "q? 1");
        assert_eq!(state.page(), Page::Flows);
        state.update(Action::Cancel);
        assert_eq!(state.flows.search, "");
        assert_eq!(state.key(Key::Char('q')), Some(Some(Effect::Quit)));
    }

    #[test]
    fn the_chooser_has_the_keys_while_it_is_open() {
        let mut state = ViewState::default();
        state.update(Action::Columns);
        assert_eq!(state.context(), Context::Chooser);
        state.key(Key::Char(' '));
        assert_eq!(state.paused, None);
        state.update(Action::Back);
        assert_eq!(state.context(), Context::On(Page::Flows));
        assert_eq!(
            state.key(Key::Char(' ')),
            Some(Some(Effect::Time(Command::Toggle)))
        );
    }
}
