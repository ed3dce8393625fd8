//! What the user is looking at. Pure: keys in, state and effects out. What a page remembers is in a file of its own.

pub mod flows;
pub mod help;

use super::keys::{Action, Context, Key, Keymap};
use super::page::{Page, Pages};
use super::theme::Theme;
use crate::model::{Flow, Model};
use flows::FlowsState;
use help::HelpState;

/// What only the loop can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Quit,
    Redraw,
    Suspend,
}

/// Whether a flow is shown.
pub type Shows = dyn Fn(&Model, &Flow) -> bool;

/// The view's own state.
#[derive(Clone, Debug, Default)]
pub struct ViewState {
    pub pages: Pages,
    pub flows: FlowsState,
    pub help: HelpState,
    pub theme: Theme,
    pub keys: Keymap,
    /// Own CPU time, share of all cores; `None` = not measured yet.
    pub own_cpu: Option<f64>,
}

impl ViewState {
    pub fn page(&self) -> Page {
        self.pages.now()
    }

    /// Which keys mean something now.
    pub fn context(&self) -> Context {
        Context::On(self.page())
    }

    /// Acts on a key. `None` = it means nothing here.
    pub fn key(&mut self, key: Key) -> Option<Option<Effect>> {
        let action = self.keys.action(key, self.context())?;
        Some(self.update(action))
    }

    /// Acts on what a key asks for.
    pub fn update(&mut self, action: Action) -> Option<Effect> {
        match action {
            Action::Quit => return Some(Effect::Quit),
            Action::Redraw => return Some(Effect::Redraw),
            Action::Suspend => return Some(Effect::Suspend),
            // The key that opened the help closes it.
            Action::Go(Page::Help) if self.page() == Page::Help => self.back(),
            Action::Go(page) => self.go(page),
            Action::Back => self.back(),
            action => match self.page() {
                Page::Flows => self.flows.update(action),
                Page::Help => self.help.update(action),
            },
        }
        None
    }

    fn go(&mut self, page: Page) {
        if page == Page::Help {
            self.help = HelpState::default();
        }
        self.pages.go(page);
    }

    fn back(&mut self) {
        self.pages.back();
    }
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
}
