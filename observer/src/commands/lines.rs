//! The lines of events: what `stream` and `export` write.

use std::io::{self, Write};

use super::{choose, output};
use crate::event::Event;
use crate::export::jsonl::{self, Line};
use crate::model::Model;

/// Hands on the line of an event that `model` has folded, and of what was derived from it, where its flow is asked for.
pub fn each(
    event: &Event,
    model: &mut Model,
    choice: &choose::Choice,
    context: &jsonl::Context,
    take: &mut dyn FnMut(&Line<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let shown = match event.flow {
        None => true,
        Some(id) => match model.flow(id) {
            Some(flow) => choice.shows_event(model, flow),
            None => choice.is_everything(),
        },
    };
    if shown && let Some(line) = jsonl::event_line(event, model, context) {
        take(&line)?;
    }
    derived(model, choice, context, take)
}

/// Hands on the lines of what was derived since the last time, of the flows asked for.
pub fn derived(
    model: &mut Model,
    choice: &choose::Choice,
    context: &jsonl::Context,
    take: &mut dyn FnMut(&Line<'_>) -> io::Result<()>,
) -> io::Result<()> {
    for derived in model.take_derived() {
        let shown = derived.flows().iter().any(|id| match model.flow(*id) {
            Some(flow) => choice.shows_event(model, flow),
            None => choice.is_everything(),
        });
        if shown {
            take(&jsonl::derived_line(&derived, model, context))?;
        }
    }
    Ok(())
}

/// Writes them.
pub fn write(
    out: &mut impl Write,
    event: &Event,
    model: &mut Model,
    choice: &choose::Choice,
    context: &jsonl::Context,
) -> io::Result<()> {
    each(event, model, choice, context, &mut |line| {
        output::json(out, line)
    })
}
