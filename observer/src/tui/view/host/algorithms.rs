//! Congestion control algorithms: which there are, who may use them, who does.

use std::collections::BTreeMap;

use ratatui::text::Line;

use super::title;
use crate::event::Host;
use crate::model::Model;
use crate::tui::format::{cell, cut};
use crate::tui::theme::Theme;
use crate::units::{UNKNOWN, escape};

/// Where an algorithm's code is.
#[derive(Debug, Default)]
enum Code {
    #[default]
    Unknown,
    BuiltIn,
    Module(String),
}

/// What flows tell of an algorithm.
#[derive(Debug, Default)]
struct Used {
    flows: usize,
    version: Option<String>,
    code: Code,
}

pub(super) fn lines(model: &Model, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![title(theme, "Congestion control", width)];
    let Some(host) = model.host() else {
        return lines;
    };
    let mut all = used(model);
    for name in &host.available_cc {
        all.entry(name.clone()).or_default();
    }
    let allowed = allowed(host);
    let heading = row(["name", "version", "code", "flows", "may be used by", ""]);
    lines.push(Line::styled(cut(&heading, width), theme.quiet));
    for (name, used) in &all {
        let available = host.available_cc.contains(name);
        let who = match &allowed {
            // The setting was not read.
            None => UNKNOWN,
            Some(_) if !available => "loaded no more",
            Some(allowed) if allowed.contains(&name.as_str()) => "everyone",
            Some(_) => "CAP_NET_ADMIN",
        };
        let default = host.default_cc.as_deref() == Some(name);
        let code = match &used.code {
            Code::Module(module) => format!("module {}", escape(module)),
            Code::BuiltIn => "built in".to_owned(),
            Code::Unknown => UNKNOWN.to_owned(),
        };
        let flows = used.flows.to_string();
        let version = used.version.as_deref().unwrap_or(UNKNOWN);
        let mark = if default { "the default" } else { "" };
        let row = row([name, version, &code, &flows, who, mark]);
        lines.push(Line::raw(cut(row.trim_end(), width)));
    }
    let unknown = all.values().any(|used| matches!(used.code, Code::Unknown));
    if unknown {
        let text = format!(" {UNKNOWN}: told by the first flow that uses it");
        lines.push(Line::styled(cut(&text, width), theme.quiet));
    }
    lines
}

fn row([name, version, code, flows, who, mark]: [&str; 6]) -> String {
    format!(
        " {} {} {} {} {} {mark}",
        cell(name, 12, false),
        cell(version, 8, false),
        cell(code, 18, false),
        cell(flows, 6, true),
        cell(who, 14, false),
    )
}

/// `None` = this kernel does not tell.
fn allowed(host: &Host) -> Option<Vec<&str>> {
    let names = host
        .sysctls
        .get("net.ipv4.tcp_allowed_congestion_control")?
        .as_deref()?;
    Some(names.split_whitespace().collect())
}

fn used(model: &Model) -> BTreeMap<String, Used> {
    let mut all: BTreeMap<String, Used> = BTreeMap::new();
    for flow in model.flows().filter(|flow| !flow.is_closed()) {
        let Some(attributes) = flow.attributes().filter(|a| !a.cc_name.is_empty()) else {
            continue;
        };
        // By name: thousands of flows share a few.
        if !all.contains_key(&attributes.cc_name) {
            all.insert(attributes.cc_name.clone(), Used::default());
        }
        let Some(used) = all.get_mut(&attributes.cc_name) else {
            continue;
        };
        used.flows += 1;
        if used.version.is_none() {
            used.version.clone_from(&attributes.cc_version);
        }
        // Without module and version the flow was polled: where the code is was not seen.
        match (&attributes.cc_module, &attributes.cc_version) {
            (Some(module), _) => used.code = Code::Module(module.clone()),
            (None, Some(_)) => used.code = Code::BuiltIn,
            (None, None) => {}
        }
    }
    all
}
