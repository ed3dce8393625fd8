//! The lines of events: what `stream` and `export` write.

use std::io::Write;

use super::{choose, output};
use crate::event::Event;
use crate::export::jsonl;
use crate::model::Model;

/// Writes the line of an event that `model` has folded, and of what was derived from it, where its flow is asked for.
pub fn write(
    out: &mut impl Write,
    event: &Event,
    model: &mut Model,
    choice: &choose::Choice,
    context: &jsonl::Context,
) -> std::io::Result<()> {
    let shown = match event.flow {
        None => true,
        Some(id) => match model.flow(id) {
            Some(flow) => choice.shows_event(model, flow),
            None => choice.is_everything(),
        },
    };
    let derived = model.take_derived();
    if !shown {
        return Ok(());
    }
    if let Some(line) = jsonl::event_line(event, model, context) {
        output::json(out, &line)?;
    }
    for derived in &derived {
        output::json(out, &jsonl::derived_line(derived, model, context))?;
    }
    Ok(())
}
