//! `observer lab matrix`: run after run into a directory, what each came to beside it, and the tables of all.

mod result;
mod table;

use std::collections::VecDeque;
use std::fs;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;

use super::run::{Done, carry_out};
use super::{Ends, Failure, output};
use crate::cli::{Common, LabMatrixArgs, LabRunArgs};
use crate::commands::record::Telling;
use crate::lab::clock::now_ns;
use crate::lab::matrix::{Matrix, Run, SHIPPED, Shipped, Wrong};
use crate::units::escape;
use result::{Book, Outcome, RunResult};

/// A path that cannot be made now is tried again, so often in all, when the others had their turn.
const TRIES: u32 = 3;
/// Making and removing a path, and reading the kernel's programs in: a guess until one run is over.
const AROUND: Duration = Duration::from_secs(4);

/// The words of one run.
#[derive(Debug, Parser)]
#[command(name = "observer lab run", no_binary_name = true)]
struct Words {
    #[command(flatten)]
    args: LabRunArgs,
}

pub async fn run(common: &Common, args: &LabMatrixArgs) -> Result<(), Failure> {
    let Some(wanted) = &args.matrix else {
        return list();
    };
    if args.print {
        let shipped = Shipped::find(wanted).ok_or_else(|| unknown(wanted))?;
        output::stdout().write_all(shipped.text.as_bytes())?;
        return Ok(());
    }
    let matrix = matrix(wanted, args)?;
    let runs = matrix.runs();
    // What is wrong with any of them is told before the first begins.
    for run in &runs {
        words(&matrix, *run, args)?;
    }
    if args.dry_run {
        return dry(common, &matrix, &runs, args);
    }
    let dir = args.output.clone();
    let dir = dir.unwrap_or_else(|| PathBuf::from(format!("lab-{}", matrix.name)));
    let mut book = Book::open(&dir, args.force)?;
    let mut ends = Ends::new()?;
    let all = carry_out_all(common, args, &matrix, runs, &dir, &mut book, &mut ends);
    let result = Box::pin(all).await;
    // What there is is told, also where somebody wants it to end.
    let failed = match result {
        Ok(failed) => failed,
        Err(Failure::Interrupted) => {
            output::message(&format!(
                "interrupted: the same command goes on from here; {} has what was done",
                escape(&dir.to_string_lossy())
            ));
            return Err(Failure::Interrupted);
        }
        Err(other) => return Err(other),
    };
    table::tell(common, args, &matrix, &dir, &book).await?;
    match failed {
        0 => Ok(()),
        failed => Err(Failure::Failed(anyhow::anyhow!(
            "{failed} runs did not come about: the same command tries them again"
        ))),
    }
}

impl From<Wrong> for Failure {
    fn from(wrong: Wrong) -> Self {
        Self::Usage(wrong.0)
    }
}

fn unknown(name: &str) -> Failure {
    let names: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
    Failure::Usage(format!(
        "'{name}' is no matrix: there are {}, and files that end in .toml ('observer lab matrix --print clean' shows one)",
        names.join(", ")
    ))
}

/// The matrix named, as the flags want it.
fn matrix(wanted: &str, args: &LabMatrixArgs) -> Result<Matrix, Failure> {
    let mut matrix = match Shipped::find(wanted) {
        Some(shipped) => shipped.matrix()?,
        None if Path::new(wanted)
            .extension()
            .is_some_and(|ending| ending == "toml") =>
        {
            let text = fs::read_to_string(wanted)
                .map_err(|error| Failure::Usage(format!("{wanted}: {error}")))?;
            let name = Path::new(wanted).file_stem().unwrap_or_default();
            let read = Matrix::read(&name.to_string_lossy(), &text);
            read.map_err(|wrong| Failure::Usage(format!("{wanted}: {wrong}")))?
        }
        None => return Err(unknown(wanted)),
    };
    if let Some(time) = args.time {
        matrix.time = word(time);
    }
    if let Some(omit) = args.omit {
        matrix.omit = word(omit);
    }
    if let Some(repetitions) = args.repetitions {
        matrix.repetitions = repetitions;
    }
    if let Some(seed) = args.seed {
        matrix.seed = seed;
    }
    matrix.only(&args.only)?;
    Ok(matrix)
}

/// A duration as flags take it.
fn word(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}

/// What `lab run` is told for it, but where to write.
fn arguments(matrix: &Matrix, run: Run, args: &LabMatrixArgs) -> Vec<String> {
    let mut arguments = matrix.arguments(run);
    if let Some(emulator) = &args.emulator {
        arguments.extend(["--emulator".to_owned(), emulator.name().to_owned()]);
    }
    arguments
}

fn words(matrix: &Matrix, run: Run, args: &LabMatrixArgs) -> Result<LabRunArgs, Failure> {
    match Words::try_parse_from(arguments(matrix, run, args)) {
        Ok(words) => Ok(words.args),
        Err(error) => {
            let text = error.render().to_string();
            let told: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
            let told = told.join(" ");
            let told = told.strip_prefix("error: ").unwrap_or(&told);
            Err(Failure::Usage(format!(
                "{}: {told}",
                matrix.cells[run.cell].title()
            )))
        }
    }
}

/// The matrices that come with the program.
fn list() -> Result<(), Failure> {
    let mut out = output::stdout();
    for shipped in SHIPPED {
        let matrix = shipped.matrix()?;
        let about = matrix.about.as_deref().unwrap_or_default();
        let runs = matrix.runs().len();
        writeln!(
            out,
            "{:<13} {runs:>4} runs of {:<4}  {about}",
            shipped.name, matrix.time
        )?;
    }
    Ok(out.flush()?)
}

/// The commands, in their order.
fn dry(
    common: &Common,
    matrix: &Matrix,
    runs: &[Run],
    args: &LabMatrixArgs,
) -> Result<(), Failure> {
    let mut out = output::stdout();
    for run in runs {
        let mut line = "observer lab run".to_owned();
        if common.ipv6 {
            line += " -6";
        }
        for word in arguments(matrix, *run, args) {
            line.push(' ');
            line += &quoted(&word);
        }
        writeln!(out, "{line} -o {}.mcap", quoted(&matrix.stem(*run)))?;
    }
    Ok(out.flush()?)
}

/// For a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,/:%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Runs what is not in the book yet; how many did not come about.
async fn carry_out_all(
    common: &Common,
    args: &LabMatrixArgs,
    matrix: &Matrix,
    runs: Vec<Run>,
    dir: &Path,
    book: &mut Book,
    ends: &mut Ends,
) -> Result<usize, Failure> {
    let all = runs.len();
    let mut left = VecDeque::new();
    for run in runs {
        let stem = matrix.stem(run);
        match book.of(&stem) {
            Some(old) if old.arguments != arguments(matrix, run, args) => {
                return Err(Failure::Usage(format!(
                    "{} has runs of another matrix, or with other flags ({stem}): another -o, or --force to begin anew",
                    escape(&dir.to_string_lossy())
                )));
            }
            Some(old) if old.outcome == Outcome::Done => {}
            _ => left.push_back((run, 1)),
        }
    }
    let mut progress = Progress::new(
        all,
        left.len(),
        &words(
            matrix,
            Run {
                cell: 0,
                repetition: 1,
            },
            args,
        )?,
    );
    let mut failed = 0;
    let mut lacking: Vec<usize> = Vec::new();
    while let Some((run, attempt)) = left.pop_front() {
        // What the kernel lacks it lacks in every repetition.
        if lacking.contains(&run.cell) {
            progress.skip();
            continue;
        }
        let cell = &matrix.cells[run.cell];
        progress.begin(&cell.title(), run.repetition);
        let stem = matrix.stem(run);
        let mut words = words(matrix, run, args)?;
        let recording = format!("{stem}.mcap");
        words.output = Some(dir.join(&recording));
        // What an interrupted run left is no run.
        words.force = true;
        let mut say = |_: &str| {};
        let done = carry_out(common, &words, ends, None, Telling::Quiet, &mut say);
        let done = Box::pin(done).await;
        let mut result = RunResult::new(stem, run.repetition, cell, arguments(matrix, run, args));
        match done {
            Ok(done) => {
                result.done(&done, recording);
                progress.end(&done_in_words(&done, &result));
            }
            Err(Failure::Unsupported(why)) => {
                progress.end(&why);
                result.not_done(Outcome::Unsupported, why);
                lacking.push(run.cell);
            }
            Err(Failure::NotHeld(why)) => {
                progress.end(&why);
                result.not_done(Outcome::NotHeld, why);
            }
            Err(Failure::Failed(error)) => {
                let why = format!("{error:#}");
                progress.end(&why);
                result.not_done(Outcome::Failed, why);
            }
            Err(other) => return Err(other),
        }
        if matches!(result.outcome, Outcome::NotHeld | Outcome::Failed) {
            if attempt < TRIES {
                left.push_back((run, attempt + 1));
                progress.again();
            } else {
                failed += 1;
            }
        }
        book.add(result)?;
        ends.check().await?;
    }
    Ok(failed)
}

fn done_in_words(done: &Done, result: &RunResult) -> String {
    use std::fmt::Write as _;
    let mut text = match result.received_bps {
        Some(bps) => format!("received {}", crate::units::rate(bps)),
        None => "done".to_owned(),
    };
    if !result.held {
        text += " (this machine could not hold the path)";
    }
    if done.lost > 0 {
        let _ = write!(text, " ({} events lost)", done.lost);
    }
    text
}

/// A line a run on stderr: how many are done, and how long the rest takes.
struct Progress {
    all: usize,
    left: usize,
    /// Of runs that are over, with all around them.
    spent: Duration,
    ended: u32,
    guess: Duration,
    begun_ns: u64,
    terminal: bool,
    line: String,
}

impl Progress {
    fn new(all: usize, left: usize, words: &LabRunArgs) -> Self {
        if left < all {
            output::message(&format!("{} of {all} runs are there already", all - left));
        }
        Self {
            all,
            left,
            spent: Duration::ZERO,
            ended: 0,
            guess: words.time + words.omit + AROUND,
            begun_ns: now_ns(),
            terminal: std::io::stderr().is_terminal(),
            line: String::new(),
        }
    }

    fn begin(&mut self, title: &str, repetition: u32) {
        self.begun_ns = now_ns();
        let each = match self.ended {
            0 => self.guess,
            ended => self.spent / ended,
        };
        let left = each * u32::try_from(self.left).unwrap_or(u32::MAX);
        let number = self.all - self.left + 1;
        self.line = format!(
            "[{number}/{}, {} left] {title}, run {repetition}",
            self.all,
            span(left)
        );
        // Over it the recorder writes its own.
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K{}", escape(&self.line));
        }
    }

    fn end(&mut self, came_to: &str) {
        self.spent += Duration::from_nanos(now_ns().saturating_sub(self.begun_ns));
        self.ended += 1;
        self.left -= 1;
        if self.terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        output::message(&format!("{}: {came_to}", self.line));
    }

    fn skip(&mut self) {
        self.left -= 1;
    }

    fn again(&mut self) {
        self.left += 1;
    }
}

/// `1h02m`, `7m20s`, `40s`.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{:02}s", seconds % 60),
        (hours, minutes) => format!("{hours}h{minutes:02}m"),
    }
}

fn create(dir: &Path) -> Result<(), Failure> {
    fs::create_dir_all(dir)
        .with_context(|| format!("cannot make {}", escape(&dir.to_string_lossy())))
        .map_err(Failure::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::matrix::NO_QDISC;

    #[test]
    fn every_shipped_matrix_is_made_of_commands() {
        for shipped in SHIPPED {
            let matrix = shipped.matrix().unwrap();
            for run in matrix.runs() {
                let words = Words::try_parse_from(matrix.arguments(run));
                let words = words
                    .unwrap_or_else(|error| panic!("{}: {error}", shipped.name))
                    .args;
                let cell = &matrix.cells[run.cell];
                assert_eq!(words.cc.as_deref(), Some(cell.cc.as_str()));
                assert_eq!(words.qdisc.is_none(), cell.qdisc == NO_QDISC);
                assert_eq!(words.flows, cell.flows);
            }
        }
    }

    #[test]
    fn spans_and_words() {
        assert_eq!(span(Duration::from_secs(40)), "40s");
        assert_eq!(span(Duration::from_secs(440)), "7m20s");
        assert_eq!(span(Duration::from_secs(3725)), "1h02m");
        assert_eq!(
            quoted("net.ipv4.tcp_wmem=1 2 3"),
            "'net.ipv4.tcp_wmem=1 2 3'"
        );
        assert_eq!(quoted("--rate"), "--rate");
        assert_eq!(word(Duration::from_secs(8)), "8s");
        assert_eq!(word(Duration::from_millis(1500)), "1500ms");
        assert_eq!(quoted("a'b"), r"'a'\''b'");
    }
}
