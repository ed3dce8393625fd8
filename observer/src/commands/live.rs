//! `observer [live]`: the dashboard over the host's flows.

use std::io::Write as _;

use super::ends::Ends;
use super::record::by_key::ByKey;
use super::{Failure, choose, confine, output};
use crate::cli::{Color, Common, FilterArgs};
use crate::model::{Flow, Fold, Model};
use crate::source::Source;
use crate::tui::{
    self, Addresses, Key, ViewState,
    columns::Column,
    config::{self, Config},
};

/// Runs until the user quits.
pub async fn run(common: &Common, args: &FilterArgs) -> Result<(), Failure> {
    let choice = choose::Choice::new(common, &args.filter)?;
    if let Some(size) = common.screen {
        if common.script.is_none() {
            let text = "--screen is of a script (--script FILE), or of a recording ('observer replay FILE')";
            return Err(Failure::Usage(text.to_owned()));
        }
        let mut source = choose::source(common, &choice, true)?;
        return still(common, choice, &mut source, size).await;
    }
    if !tui::is_terminal() {
        return Err(Failure::Usage(
            "the dashboard needs a terminal: 'observer list' prints one snapshot, 'observer stream' events".to_owned(),
        ));
    }
    let config = settings(common)?;
    let mut source = choose::source(common, &choice, true)?;
    source.hold();
    let stopper = source.stopper();
    let mut by_key = ByKey::new(
        common,
        choice.narrowed(None),
        source.info(),
        stopper.clone(),
    )?;
    confine::while_shown(common)?;
    let view = view(common, &config);
    let fold = Fold::default().of_path(common.path_rate);
    let options = tui::Options {
        view,
        refresh: config.refresh(),
        focus: Box::new(move |flows| stopper.focus(flows)),
        shows: Box::new(move |model, flow| choice.shows_live(model, flow)),
    };
    let model = tui::run(&mut source, fold, &options, Some(&mut by_key))
        .await
        .map_err(|error| Failure::Failed(error.into()))?;
    if let Some(said) = by_key.finish(&model) {
        let text = said.map_err(|why| Failure::Failed(anyhow::anyhow!(why)))?;
        output::message(&text);
    }
    let lost = model.lost();
    if common.strict && lost > 0 {
        return Err(Failure::Lost(lost));
    }
    Ok(())
}

/// What one begins with, by the settings and the flags.
pub(super) fn view(common: &Common, config: &Config) -> ViewState {
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
    view
}

/// The settings of the file named, else of the one in its usual place, if there is one.
pub(super) fn settings(common: &Common) -> Result<Config, Failure> {
    let (path, must) = match &common.config {
        Some(path) => (Some(path.clone()), true),
        None => (config::find(), false),
    };
    match path {
        Some(path) => config::load(&path, must).map_err(|error| Failure::Usage(error.to_string())),
        None => Ok(Config::default()),
    }
}

/// One screen of all that `source` tells as text, by the settings of the file named only: what documents show is nobody's own.
pub(super) async fn still(
    common: &Common,
    choice: choose::Choice,
    source: &mut impl Source,
    size: (u16, u16),
) -> Result<(), Failure> {
    let wrong = |key: &str| Failure::Usage(format!("no key {key:?} means anything there"));
    let names = common.keys.iter().flat_map(|keys| &keys.0);
    let keys = names.map(|name| Key::named(name).ok_or_else(|| wrong(name)));
    let keys = keys.collect::<Result<Vec<Key>, Failure>>()?;
    let mut fold = Fold::default().of_path(common.path_rate);
    while let Some(batch) = source
        .next()
        .await
        .map_err(|error| Failure::Failed(error.into()))?
    {
        for event in &batch {
            fold.apply(event);
        }
    }
    let config = match common.config {
        Some(_) => settings(common)?,
        None => Config::default(),
    };
    let shows = move |model: &Model, flow: &Flow| choice.shows_live(model, flow);
    let view = config.view(false);
    let text = tui::still(
        fold.model(),
        view,
        source.info().origin,
        &shows,
        size,
        &keys,
    );
    let text = text.map_err(|key| wrong(&key.text()))?;
    let mut out = output::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}
