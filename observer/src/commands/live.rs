//! `observer [live]`: the dashboard over the host's flows.

use super::{Failure, choose};
use crate::cli::{Color, Common, FilterArgs};
use crate::tui::{self, Marker, Theme, ThemeName};

/// Runs until the user quits.
pub async fn run(common: &Common, args: &FilterArgs) -> Result<(), Failure> {
    let choice = choose::Choice::new(common, &args.filter)?;
    if !tui::is_terminal() {
        return Err(Failure::Usage(
            "the dashboard needs a terminal: 'observer list' prints one snapshot, 'observer stream' events".to_owned(),
        ));
    }
    let mut source = choose::source(common, true)?;
    let colour = match common.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
        }
    };
    let name = if colour {
        ThemeName::Terminal
    } else {
        ThemeName::None
    };
    let options = tui::Options {
        theme: Theme::new(name, Marker::default()),
        shows: Box::new(move |model, flow| choice.shows_live(model, flow)),
    };
    let model = tui::run(&mut source, &options)
        .await
        .map_err(|error| Failure::Failed(error.into()))?;
    let lost = model.lost();
    if common.strict && lost > 0 {
        return Err(Failure::Lost(lost));
    }
    Ok(())
}
