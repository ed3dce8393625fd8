//! The settings that bear on a sender, by what they are about.

use ratatui::text::Line;

use super::title;
use crate::event::Host;
use crate::model::Model;
use crate::tui::format::{cell, cut};
use crate::tui::theme::Theme;
use crate::units::{UNKNOWN, escape};

/// Names without `net.ipv4.`, except where another `net.` is written.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "windows and buffers",
        &[
            "tcp_rmem",
            "tcp_wmem",
            "core.rmem_max",
            "core.wmem_max",
            "tcp_mem",
            "tcp_moderate_rcvbuf",
            "tcp_adv_win_scale",
            "tcp_window_scaling",
            "tcp_notsent_lowat",
            "tcp_limit_output_bytes",
            "tcp_shrink_window",
            "tcp_workaround_signed_windows",
        ],
    ),
    (
        "sending and pacing",
        &[
            "tcp_slow_start_after_idle",
            "tcp_pacing_ss_ratio",
            "tcp_pacing_ca_ratio",
            "tcp_min_tso_segs",
            "tcp_tso_win_divisor",
            "tcp_tso_rtt_log",
            "tcp_autocorking",
            "tcp_no_metrics_save",
            "tcp_no_ssthresh_metrics_save",
            "core.default_qdisc",
            "core.netdev_max_backlog",
        ],
    ),
    (
        "loss and recovery",
        &[
            "tcp_sack",
            "tcp_dsack",
            "tcp_timestamps",
            "tcp_recovery",
            "tcp_early_retrans",
            "tcp_frto",
            "tcp_reordering",
            "tcp_max_reordering",
            "tcp_retries2",
            "tcp_rto_min_us",
            "tcp_rto_max_ms",
            "tcp_min_rtt_wlen",
            "tcp_thin_linear_timeouts",
        ],
    ),
    (
        "path",
        &[
            "tcp_ecn",
            "tcp_ecn_fallback",
            "tcp_mtu_probing",
            "tcp_base_mss",
            "ip_no_pmtu_disc",
            "tcp_plb_enabled",
        ],
    ),
];
/// Room for the longest name and the longest value that is no list.
const NAME: usize = 29;
const VALUE: usize = 22;
const ENTRY: usize = 1 + NAME + 1 + VALUE;

pub(super) fn lines(model: &Model, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let Some(host) = model.host() else {
        return Vec::new();
    };
    let mut lines = vec![title(theme, "Settings (net.ipv4.)", width)];
    let columns = (width / ENTRY).max(1);
    let groups = GROUPS.iter().map(|(what, names)| group(host, what, names));
    if columns == 1 {
        lines.extend(
            groups
                .flatten()
                .map(|(text, head)| styled(&text, head, theme, width)),
        );
    } else {
        lines.extend(beside(groups.collect(), columns, theme, width));
    }
    lines.push(Line::styled(
        cut(
            &format!(" {UNKNOWN}: this kernel, or this namespace, has no such setting"),
            width,
        ),
        theme.quiet,
    ));
    lines.extend(elsewhere(model, theme, width));
    lines
}

/// A group's lines; true for its heading.
fn group(host: &Host, what: &str, names: &[&str]) -> Vec<(String, bool)> {
    let mut lines = vec![(format!(" {what}"), true)];
    for name in names {
        let value = host.sysctls.get(&full(name)).and_then(Option::as_deref);
        let value = match value {
            None => UNKNOWN.to_owned(),
            Some("") => "(empty)".to_owned(),
            Some(value) => escape(value),
        };
        lines.push((format!(" {} {value}", cell(name, NAME, false)), false));
    }
    lines
}

fn full(name: &str) -> String {
    match name.strip_prefix("core.") {
        Some(name) => format!("net.core.{name}"),
        None => format!("net.ipv4.{name}"),
    }
}

fn styled(text: &str, head: bool, theme: &Theme, width: usize) -> Line<'static> {
    let text = cut(text, width);
    if head {
        Line::styled(text, theme.quiet)
    } else {
        Line::raw(text)
    }
}

/// Groups in columns, each group whole, the shortest column first.
fn beside(
    groups: Vec<Vec<(String, bool)>>,
    columns: usize,
    theme: &Theme,
    width: usize,
) -> Vec<Line<'static>> {
    let mut stacks: Vec<Vec<(String, bool)>> = vec![Vec::new(); columns.min(groups.len())];
    for group in groups {
        if let Some(stack) = stacks.iter_mut().min_by_key(|stack| stack.len()) {
            stack.extend(group);
        }
    }
    let height = stacks.iter().map(Vec::len).max().unwrap_or(0);
    let each = width / stacks.len().max(1);
    (0..height)
        .map(|y| {
            let spans = stacks.iter().map(|stack| {
                let (text, head) = stack.get(y).cloned().unwrap_or_default();
                let style = if head {
                    theme.quiet
                } else {
                    ratatui::style::Style::new()
                };
                ratatui::text::Span::styled(cell(&text, each, false), style)
            });
            Line::from(spans.collect::<Vec<_>>())
        })
        .collect()
}

/// What other namespaces have otherwise.
fn elsewhere(model: &Model, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let Some(home) = model.host() else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    for (netns, host) in model
        .hosts()
        .iter()
        .filter(|(netns, _)| **netns != home.netns)
    {
        let other: Vec<String> = host
            .sysctls
            .iter()
            // What only the first namespace has is no difference of settings.
            .filter(|(name, value)| value.is_some() && home.sysctls.get(*name) != Some(*value))
            .map(|(name, value)| {
                let short = name.trim_start_matches("net.").trim_start_matches("ipv4.");
                format!(
                    "{}={}",
                    escape(short),
                    escape(value.as_deref().unwrap_or(UNKNOWN))
                )
            })
            .collect();
        let text = if other.is_empty() {
            format!(" network namespace {netns}: the same")
        } else {
            format!(" network namespace {netns} differs:")
        };
        lines.push(Line::styled(cut(&text, width), theme.quiet));
        lines.extend(super::indented(other, width));
    }
    lines
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    #[test]
    fn every_name_is_short_enough_and_told_once() {
        let mut seen = Vec::new();
        for name in GROUPS.iter().flat_map(|(_, names)| *names) {
            assert!(name.width() <= NAME, "{name}");
            assert!(!seen.contains(name), "{name} twice");
            seen.push(name);
        }
    }
}
