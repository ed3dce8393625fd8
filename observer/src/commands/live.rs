//! `observer [live]`: the dashboard over the host's flows.

use super::ends::Ends;
use super::{Failure, choose};
use crate::cli::{Color, Common, FilterArgs};
use crate::tui::{
    self, Addresses,
    columns::Column,
    config::{self, Config},
};

/// Runs until the user quits.
pub async fn run(common: &Common, args: &FilterArgs) -> Result<(), Failure> {
    let choice = choose::Choice::new(common, &args.filter)?;
    if !tui::is_terminal() {
        return Err(Failure::Usage(
            "the dashboard needs a terminal: 'observer list' prints one snapshot, 'observer stream' events".to_owned(),
        ));
    }
    let config = settings(common)?;
    let mut source = choose::source(common, &choice, true)?;
    let stopper = source.stopper();
    let colour = match common.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
        }
    };
    let mut view = config.view(colour);
    if common.processes {
        view.flows.columns.turn(Column::Process, true);
    }
    let ends = Ends::new(common);
    if ends.named() {
        view.addresses = Addresses::by(move |end| ends.shown(end));
    }
    let options = tui::Options {
        view,
        refresh: config.refresh(),
        focus: Box::new(move |flows| stopper.focus(flows)),
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

/// The settings of the file named, else of the one in its usual place, if there is one.
fn settings(common: &Common) -> Result<Config, Failure> {
    let (path, must) = match &common.config {
        Some(path) => (Some(path.clone()), true),
        None => (config::find(), false),
    };
    match path {
        Some(path) => config::load(&path, must).map_err(|error| Failure::Usage(error.to_string())),
        None => Ok(Config::default()),
    }
}
