//! `observer compare`: recordings in groups, and whether what `--fail-if` says is so.

use super::outfile::OutFile;
use super::{Failure, choose, output, report};
use crate::cli::{Common, CompareArgs, ReportFormat};
use crate::report::compare::{self, Asked, Comparison, Outcome, Refusal, Rule};
use crate::report::{Options, html, markdown, text};

/// Reads all, then writes, then judges.
pub async fn run(common: &Common, args: &CompareArgs) -> Result<(), Failure> {
    if args.fail_if.as_ref().is_some_and(Rule::is_relative) && args.baseline.is_none() {
        let text =
            "--fail-if with % is about the difference to a baseline: add --baseline KEY=VALUE";
        return Err(Failure::Usage(text.to_owned()));
    }
    let words: Vec<String> = args.filter.iter().cloned().collect();
    let choice = choose::Choice::new(common, &words)?;
    let options = Options {
        omit_ns: u64::try_from(args.omit.as_nanos()).unwrap_or(u64::MAX),
        path_rate_bps: common.path_rate,
    };
    let mut out = OutFile::create(args.output.as_deref(), args.force)?;
    let mut files = Vec::with_capacity(args.files.len());
    for path in &args.files {
        files.push(report::read(path, options, &choice).await?);
    }
    let asked = Asked {
        by: args.by.clone(),
        baseline: args.baseline.clone(),
        insist: args.insist,
    };
    let comparison = compare::compare(&files, &asked).map_err(|refusal| match refusal {
        Refusal::Usage(text) => Failure::Usage(text),
        refusal => Failure::Failed(refusal.into()),
    })?;
    for reason in comparison.insisted.iter().chain(&comparison.notes) {
        output::message(&format!("observer: {reason}"));
    }
    match args.format {
        ReportFormat::Json => compare::json(&mut out, &files, &comparison)?,
        ReportFormat::Csv => compare::csv(&mut out, &comparison)?,
        ReportFormat::Text => text::write(&mut out, &compare::page(&comparison, None))?,
        ReportFormat::Markdown => markdown::write(&mut out, &compare::page(&comparison, None))?,
        ReportFormat::Html => {
            let chart = html::strips(&comparison);
            html::write(&mut out, &compare::page(&comparison, Some(chart)))?;
        }
    }
    out.finish()?;
    judge(args.fail_if.as_ref(), &comparison)?;
    report::judge(common, &files)
}

fn judge(rule: Option<&Rule>, comparison: &Comparison<'_>) -> Result<(), Failure> {
    match rule.map(|rule| rule.judge(comparison)) {
        None | Some(Outcome::False) => Ok(()),
        Some(Outcome::True(groups)) => Err(Failure::FailedIf(groups.join("\n"))),
        Some(Outcome::Undecided(why)) => Err(Failure::Failed(anyhow::anyhow!(
            "--fail-if cannot be decided: {why}"
        ))),
    }
}
