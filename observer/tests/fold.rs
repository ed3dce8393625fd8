//! Scripts of events folded, against the figures written beside them.
//!
//! A line of `tests/scripts/*.txt` is an event (see `observer::source::script`) or an expectation at that moment:
//!
//! ```text
//! = 7 throughput_bps=8000000 retrans_rate~0.01 cc.phase=PROBE_BW limit=cwnd
//! = model lost=3 odd=0 flows=1
//! = derived burst segments=4 rtt_above_min_us=1200
//! ```
//!
//! Keys are those of the JSON, `=` is exact, `~` within 1 %; an unknown is `null`. `derived` names the next derived
//! event by its type.

use std::collections::VecDeque;
use std::path::Path;

use observer::event::FlowId;
use observer::export::jsonl::{Context, derived_line, flow_object};
use observer::model::{Derived, Model};
use observer::source::script::{NETNS, Reader};
use serde_json::{Value, json};

struct Run {
    model: Model,
    derived: VecDeque<Derived>,
    context: Context,
}

impl Run {
    fn expect(&mut self, text: &str) -> Result<(), String> {
        let (subject, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        match subject {
            "model" => check(&self.model_object(), rest),
            "derived" => {
                let (kind, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                let Some(derived) = self.derived.pop_front() else {
                    return if kind == "none" {
                        Ok(())
                    } else {
                        Err(format!("no {kind} was derived"))
                    };
                };
                let line = derived_line(&derived, &self.model, &self.context);
                let object = serde_json::to_value(line).map_err(|e| e.to_string())?;
                if object["type"] != kind {
                    return Err(format!("expected {kind}, derived was {object}"));
                }
                check(&object, rest)
            }
            cookie => {
                let id = FlowId {
                    cookie: cookie
                        .parse()
                        .map_err(|_| format!("{cookie:?} is no flow"))?,
                    netns: NETNS,
                };
                match self.model.flow(id) {
                    None if rest == "gone" => Ok(()),
                    None => Err("not in view".to_owned()),
                    Some(flow) => {
                        let object = flow_object(&self.model, flow, &self.context);
                        check(
                            &serde_json::to_value(object).map_err(|e| e.to_string())?,
                            rest,
                        )
                    }
                }
            }
        }
    }

    fn model_object(&self) -> Value {
        json!({
            "lost": self.model.lost(),
            "gaps": self.model.gaps(),
            "odd": self.model.odd(),
            "flows": self.model.flows().count(),
            "open": self.model.open_flows(),
            "events_per_s": self.model.events_per_s(),
            "attempts": self.model.attempts(),
            "degraded": self.model.degraded().len(),
            "stray": self.model.stray_retransmits().segments,
        })
    }
}

fn check(object: &Value, expectations: &str) -> Result<(), String> {
    for expectation in expectations.split_whitespace() {
        let at = expectation
            .find(['=', '~'])
            .ok_or_else(|| format!("{expectation:?} expects nothing"))?;
        let (key, wanted) = (&expectation[..at], &expectation[at + 1..]);
        let pointer = format!("/{}", key.replace('.', "/"));
        let found = object
            .pointer(&pointer)
            .ok_or_else(|| format!("there is no {key} in {object}"))?;
        let wanted: Value = serde_json::from_str(wanted).unwrap_or_else(|_| json!(wanted));
        let near = expectation[at..].starts_with('~')
            && found
                .as_f64()
                .zip(wanted.as_f64())
                .is_some_and(|(found, wanted)| (found - wanted).abs() <= wanted.abs() * 0.01);
        if !near && *found != wanted {
            return Err(format!("{key} is {found}, expected {wanted}"));
        }
    }
    Ok(())
}

fn run(path: &Path) -> Result<usize, String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let mut reader = Reader::default();
    let mut run = Run {
        model: Model::default(),
        derived: VecDeque::new(),
        context: Context::default(),
    };
    let mut expectations = 0;
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(expectation) = line.strip_prefix("= ") {
            let expectation = expectation.split(" #").next().unwrap_or("");
            run.expect(expectation)
                .map_err(|e| format!("line {number}: {e}"))?;
            expectations += 1;
            continue;
        }
        if let Some(event) = reader
            .line(line)
            .map_err(|e| format!("line {number}: {}", e.problem))?
        {
            run.model.apply(&event);
            run.derived.extend(run.model.take_derived());
        }
    }
    Ok(expectations)
}

#[test]
fn scripts_fold_to_the_figures_beside_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut failures = Vec::new();
    let mut scripts = 0;
    let entries = std::fs::read_dir(folder).expect("the scripts");
    for entry in entries {
        let path = entry.expect("a script").path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        match run(&path) {
            Ok(0) => failures.push(format!("{name}: expects nothing")),
            Ok(_) => scripts += 1,
            Err(problem) => failures.push(format!("{name}: {problem}")),
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(scripts >= 10, "only {scripts} scripts");
}
