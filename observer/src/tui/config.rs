//! A person's own settings: what the file may say, and the view that follows from it.
//!
//! ```toml
//! columns = ["remote", "cc", "throughput", "trend", "rtt", "retrans-rate", "limit"]
//! sort = "retrans-rate"          # or "rtt ascending"
//! group = "process"
//! refresh = "250ms"
//! theme = "dark"
//! markers = "block"
//! mouse = false
//!
//! [keys]
//! quit = ["q", "Ctrl-c"]
//! pause = ["Space", "F5"]
//! ```

mod file;
mod read;

use std::time::Duration;

pub use file::{FileError, find, load};
pub use read::ConfigError;

use super::columns::{Choice, Column};
use super::keys::{Key, Keymap};
use super::state::ViewState;
use super::state::group::Grouping;
use super::theme::{Marker, Theme, ThemeName};

/// Calm: four times a second is what the eye follows.
const REFRESH: Duration = Duration::from_millis(250);

/// What a file says. What it does not say stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    columns: Option<Vec<Column>>,
    /// The column, and whether the largest comes first.
    sort: Option<(Column, bool)>,
    group: Option<Grouping>,
    refresh: Option<Duration>,
    theme: Option<ThemeName>,
    markers: Option<Marker>,
    mouse: Option<bool>,
    keys: Option<Keymap>,
}

impl Config {
    /// Reads a file's text. An error says where and what would be right.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        read::parse(text)
    }

    /// How often the screen is drawn at most.
    pub fn refresh(&self) -> Duration {
        self.refresh.unwrap_or(REFRESH)
    }

    /// The view one begins with. Without `colour` there is none, whatever the theme.
    pub fn view(&self, colour: bool) -> ViewState {
        let name = if colour {
            self.theme.unwrap_or_default()
        } else {
            ThemeName::None
        };
        let mut state = ViewState {
            theme: Theme::new(name, self.markers.unwrap_or_default()),
            ..ViewState::default()
        };
        if let Some(columns) = &self.columns {
            state.flows.columns = Choice::of(columns);
        }
        if let Some((column, descending)) = self.sort {
            (state.flows.sort, state.flows.descending) = (column, descending);
        }
        if let Some(group) = self.group {
            state.flows.grouping = group;
        }
        if let Some(mouse) = self.mouse {
            state.clicks.taken = mouse;
        }
        if let Some(keys) = &self.keys {
            state.keys = keys.clone();
        }
        state
    }

    fn override_keys(&mut self, name: &str, keys: &[Key]) {
        let map = self.keys.get_or_insert_with(Keymap::default);
        map.set(name, keys);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::keys::{Action, Context};
    use crate::tui::page::Page;

    #[test]
    fn what_is_not_said_stays() {
        let state = Config::parse("").expect("an empty file").view(true);
        let default = ViewState::default();
        assert_eq!(state.theme, default.theme);
        assert_eq!(state.flows.columns, default.flows.columns);
        assert!(state.clicks.taken);
    }

    #[test]
    fn all_of_it() {
        let text = "columns = [\"cwnd\", \"remote\"]\nsort = \"rtt ascending\"\ngroup = \"prefix\"\n\
                    refresh = \"1s\"\ntheme = \"light\"\nmarkers = \"ascii\"\nmouse = false\n\
                    [keys]\nquit = [\"Q\"]\npause = [\"i\", \"F5\", \"Ctrl-P\"]\n";
        let config = Config::parse(text).expect("a good file");
        assert_eq!(config.refresh(), Duration::from_secs(1));
        let state = config.view(true);
        assert_eq!(state.theme, Theme::new(ThemeName::Light, Marker::Ascii));
        assert_eq!(
            state.flows.columns.order()[..2],
            [Column::Cwnd, Column::Remote]
        );
        assert_eq!(
            (state.flows.sort, state.flows.descending),
            (Column::Rtt, false)
        );
        assert_eq!(state.flows.grouping, Grouping::Prefix);
        assert!(!state.clicks.taken);
        let here = Context::On(Page::Flows);
        assert_eq!(state.keys.action(Key::Char('q'), here), None);
        assert_eq!(state.keys.action(Key::Char('Q'), here), Some(Action::Quit));
        assert_eq!(state.keys.action(Key::Ctrl('p'), here), Some(Action::Pause));
        assert_eq!(
            state.keys.action(Key::Char(' '), Context::Chooser),
            Some(Action::Toggle)
        );
        let plain = config.view(false);
        assert_eq!(plain.theme, Theme::new(ThemeName::None, Marker::Ascii));
    }

    #[test]
    fn the_example_of_the_readme_is_one() {
        let readme = include_str!("../../../README.md");
        let example = readme
            .split("```toml\n")
            .nth(1)
            .and_then(|rest| rest.split("```").next());
        let config = Config::parse(example.expect("an example")).expect("it can be read");
        assert!(config.columns.is_some() && config.keys.is_some());
    }
}
