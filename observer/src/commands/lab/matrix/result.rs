//! What a run came to, a line of JSON each in `runs.jsonl`: figures that no recording has, and which runs are done.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::create;
use crate::commands::Failure;
use crate::commands::lab::run::Done;
use crate::export::jsonl::SCHEMA;
use crate::lab::matrix::Cell;
use crate::units::escape;

const NAME: &str = "runs.jsonl";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Done,
    /// Not on this kernel, or not permitted.
    Unsupported,
    /// The machine could not make the path.
    NotHeld,
    Failed,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    pub schema: u32,
    pub r#type: String,
    pub name: String,
    pub path: String,
    pub cc: String,
    pub qdisc: String,
    pub sysctl: String,
    pub flows: u16,
    pub repetition: u32,
    pub outcome: Outcome,
    /// Why it was not done.
    pub reason: Option<String>,
    pub recording: Option<String>,
    /// Payload at the receiver after what is omitted.
    pub received_bps: Option<u64>,
    pub emulator: Option<String>,
    /// The path was made as asked for, and the machine kept up with it.
    pub held: bool,
    /// What was not, in words.
    pub remarks: Vec<String>,
    pub path_made: Option<String>,
    pub rate_bps: Option<u64>,
    pub offered_packets: Option<u64>,
    pub lost_packets: BTreeMap<String, u64>,
    pub overrun_packets: Option<u64>,
    pub late_p50_us: Option<u64>,
    pub late_p99_us: Option<u64>,
    pub late_max_us: Option<u64>,
    /// For `observer lab run`, but `-o`.
    pub arguments: Vec<String>,
}

impl RunResult {
    pub fn new(name: String, repetition: u32, cell: &Cell, arguments: Vec<String>) -> Self {
        Self {
            schema: SCHEMA,
            r#type: "run".to_owned(),
            name,
            path: cell.path.clone(),
            cc: cell.cc.clone(),
            qdisc: cell.qdisc.clone(),
            sysctl: cell.sysctl.clone(),
            flows: cell.flows,
            repetition,
            outcome: Outcome::Failed,
            reason: None,
            recording: None,
            received_bps: None,
            emulator: None,
            held: false,
            remarks: Vec::new(),
            path_made: None,
            rate_bps: None,
            offered_packets: None,
            lost_packets: BTreeMap::new(),
            overrun_packets: None,
            late_p50_us: None,
            late_p99_us: None,
            late_max_us: None,
            arguments,
        }
    }

    pub fn not_done(&mut self, outcome: Outcome, reason: String) {
        self.outcome = outcome;
        self.reason = Some(reason);
    }

    pub fn done(&mut self, done: &Done, recording: String) {
        self.outcome = Outcome::Done;
        self.recording = Some(recording);
        self.received_bps = done.received_bps();
        self.emulator = Some(done.emulator.to_owned());
        self.remarks.clone_from(&done.remarks);
        self.held = done.remarks.is_empty();
        self.path_made = Some(done.path.name());
        self.rate_bps = Some(done.path.rate_bps);
        let counts = &done.counts;
        self.offered_packets = Some(counts.offered_packets);
        let lost = counts.lost.iter();
        self.lost_packets = lost
            .map(|(cause, lost)| ((*cause).to_owned(), *lost))
            .collect();
        self.overrun_packets = Some(counts.overrun);
        self.late_p50_us = counts.late.quantile_us(0.5);
        self.late_p99_us = counts.late.quantile_us(0.99);
        self.late_max_us = counts.late.max_us();
    }
}

/// The results of a directory; of a run that was tried again the last.
pub struct Book {
    path: PathBuf,
    file: File,
    results: BTreeMap<String, RunResult>,
}

impl Book {
    /// Makes the directory where it is not there. `anew`: what it has is no more.
    pub fn open(dir: &Path, anew: bool) -> Result<Self, Failure> {
        create(dir)?;
        let path = dir.join(NAME);
        let shown = escape(&path.to_string_lossy());
        let open = || -> anyhow::Result<(File, BTreeMap<String, RunResult>)> {
            let mut options = OpenOptions::new();
            options.read(true).append(true).create(true);
            let mut file = options.open(&path)?;
            if anew {
                file.set_len(0)?;
            }
            let mut results = BTreeMap::new();
            let mut whole = 0;
            let mut reader = BufReader::new(&file);
            let mut line = String::new();
            loop {
                line.clear();
                let read = reader.read_line(&mut line)?;
                // The last may be half a line, of who was killed.
                if read == 0 || !line.ends_with('\n') {
                    break;
                }
                whole += read as u64;
                let result: RunResult = serde_json::from_str(&line)?;
                results.insert(result.name.clone(), result);
            }
            drop(reader);
            file.set_len(whole)?;
            file.flush()?;
            Ok((file, results))
        };
        let (file, results) = open()
            .with_context(|| shown.clone())
            .map_err(Failure::Failed)?;
        Ok(Self {
            path,
            file,
            results,
        })
    }

    pub fn of(&self, name: &str) -> Option<&RunResult> {
        self.results.get(name)
    }

    pub fn add(&mut self, result: RunResult) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(&result).map_err(anyhow::Error::from)?;
        line.push(b'\n');
        let written = self.file.write_all(&line);
        written
            .with_context(|| format!("cannot write {}", escape(&self.path.to_string_lossy())))
            .map_err(Failure::Failed)?;
        self.results.insert(result.name.clone(), result);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell() -> Cell {
        Cell {
            path: "p".to_owned(),
            cc: "cubic".to_owned(),
            qdisc: "none".to_owned(),
            sysctl: "default".to_owned(),
            flows: 1,
            arguments: Vec::new(),
        }
    }

    #[test]
    fn a_book_goes_on_where_it_was_left() {
        let dir = tempfile::tempdir().unwrap();
        let result =
            |name: &str| RunResult::new(name.to_owned(), 1, &cell(), vec!["-t".to_owned()]);
        let mut book = Book::open(dir.path(), false).unwrap();
        let mut failed = result("a");
        failed.not_done(Outcome::NotHeld, "busy".to_owned());
        book.add(failed).unwrap();
        let mut done = result("a");
        done.outcome = Outcome::Done;
        book.add(done).unwrap();
        book.add(result("b")).unwrap();
        drop(book);
        // Killed while it wrote.
        let mut file = OpenOptions::new()
            .append(true)
            .open(dir.path().join(NAME))
            .unwrap();
        file.write_all(b"{\"schema\":1,").unwrap();
        let mut book = Book::open(dir.path(), false).unwrap();
        assert_eq!(book.of("a").unwrap().outcome, Outcome::Done);
        assert_eq!(book.of("b").unwrap().arguments, ["-t"]);
        book.add(result("c")).unwrap();
        drop(book);
        let book = Book::open(dir.path(), false).unwrap();
        assert!(book.of("c").is_some() && book.of("a").is_some());
        drop(book);
        assert!(Book::open(dir.path(), true).unwrap().of("a").is_none());
    }
}
