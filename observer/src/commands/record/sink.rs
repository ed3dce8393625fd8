//! The way of an event into the files: past the gate, without names and addresses where that is asked for.

use super::gate::Gate;
use crate::commands::choose::Choice;
use crate::event::Event;
use crate::host::tree::Tree;
use crate::model::Model;
use crate::record::{Anonymizer, FileError, Files, Target, Totals};

/// Takes events in and writes those that are asked for.
pub struct Sink {
    gate: Gate,
    files: Files,
    anonymizer: Option<Anonymizer>,
}

impl Sink {
    /// Begins the first file. `tree`: the processes whose flows are wanted.
    pub fn new(choice: Choice, tree: Option<Tree>, target: Target) -> Result<Self, FileError> {
        let anonymizer = target.environment.anonymized.then(Anonymizer::new);
        let anonymizer = anonymizer.transpose().map_err(FileError::Key)?;
        Ok(Self {
            gate: Gate::new(choice, tree),
            anonymizer,
            files: Files::create(target)?,
        })
    }

    /// Looks at who is whose child, before they are gone.
    pub fn look(&mut self) {
        self.gate.look();
    }

    /// An event that `model` has folded already.
    pub fn take(&mut self, model: &Model, event: &Event) -> Result<(), FileError> {
        let Self {
            gate,
            files,
            anonymizer,
        } = self;
        gate.pass(model, event, |event| match anonymizer {
            Some(anonymizer) => files.push(&anonymizer.event(event)),
            None => files.push(event),
        })
    }

    /// What was written so far, and into how many files.
    pub fn totals(&self) -> (Totals, u32) {
        self.files.totals()
    }

    /// What may be missing, for a person.
    pub fn left_out(&self) -> Option<String> {
        self.gate.left_out()
    }

    /// Ends the recording.
    pub fn finish(self) -> Result<(Totals, u32), FileError> {
        let (_, parts) = self.files.totals();
        Ok((self.files.finish()?, parts))
    }
}
