//! What the flow is: identity, owner, path, algorithm, what limits it, totals. What is not known is left out, but for
//! what a reader would look for.

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::text::Line;
use unicode_width::UnicodeWidthStr as _;

use super::plan::Plan;
use super::units_of_time;
use crate::event::{Attributes, CcState, Origin, Sample, TcpState, retransmit_kind};
use crate::model::container::place;
use crate::model::{Figures, Flow, Judgement, LimitedBy, Model};
use crate::tui::format::{cut, cut_address, known, pack, wrap};
use crate::tui::state::ViewState;
use crate::tui::view::put;
use crate::units::{self, Limit, UNKNOWN, UNLIMITED, escape};

const BETWEEN: &str = "  ";

/// Facts of one kind.
struct Group {
    title: &'static str,
    parts: Vec<String>,
}

impl Group {
    /// Its parts in lines one column narrower than `width`.
    fn lines(&self, width: usize) -> Vec<String> {
        pack(self.parts.iter().cloned(), BETWEEN, width.saturating_sub(1))
    }
}

pub fn render(model: &Model, flow: &Flow, state: &ViewState, plan: &Plan, buffer: &mut Buffer) {
    let width = usize::from(plan.facts.width);
    let figures = model.figures(flow);
    let lines = if plan.beside {
        let groups = [
            Group {
                title: "Flow",
                parts: identity(model, flow),
            },
            Group {
                title: "Owner",
                parts: owner(flow),
            },
            Group {
                title: "Path",
                parts: path(model, flow),
            },
            Group {
                title: "Algorithm",
                parts: algorithm(flow),
            },
            Group {
                title: "Limited by",
                parts: limits(&figures)
                    .into_iter()
                    .chain(window(&figures))
                    .collect(),
            },
            Group {
                title: "Verdict",
                parts: verdict(flow.judgement())
                    .iter()
                    .flat_map(|part| wrap(part, width.saturating_sub(1)))
                    .collect(),
            },
            Group {
                title: "Totals",
                parts: totals(flow),
            },
            Group {
                title: "Windows and buffers",
                parts: windows(flow),
            },
        ];
        beside(flow, state, &groups, width, plan.facts.height)
    } else {
        above(model, flow, state, &figures, width)
    };
    put(lines, plan.facts, buffer);
}

/// One group under another.
fn beside(
    flow: &Flow,
    state: &ViewState,
    groups: &[Group],
    width: usize,
    height: u16,
) -> Vec<Line<'static>> {
    let mut lines = vec![
        Line::styled(
            cut_address(&state.addresses.text(flow.local()), width),
            state.theme.heading,
        ),
        Line::styled(
            cut(&format!("→ {}", state.addresses.text(flow.remote())), width),
            state.theme.heading,
        ),
    ];
    let height = usize::from(height);
    let text: usize = groups.iter().map(|g| 1 + g.lines(width).len()).sum();
    let roomy = lines.len() + text + groups.len() <= height;
    for group in groups {
        if roomy {
            lines.push(Line::default());
        }
        lines.push(Line::styled(group.title, state.theme.heading));
        let text = group.lines(width).into_iter();
        lines.extend(text.map(|line| Line::raw(format!(" {line}"))));
    }
    lines
}

/// A line for each kind, the most telling first; what does not fit is cut.
fn above(
    model: &Model,
    flow: &Flow,
    state: &ViewState,
    figures: &Figures,
    width: usize,
) -> Vec<Line<'static>> {
    let mut title = vec![format!(
        "{} → {}",
        state.addresses.text(flow.local()),
        state.addresses.text(flow.remote())
    )];
    title.push(condition(flow));
    title.extend(processes(flow));
    title.push(age(model, flow));
    let mut limits = limits(figures);
    limits.extend(totals(flow));
    let rows = [
        algorithm(flow),
        limits,
        path(model, flow),
        identity(model, flow),
        owner(flow),
    ];
    let mut lines = vec![Line::styled(one(&title, width), state.theme.heading)];
    lines.extend(rows.iter().map(|parts| Line::raw(one(parts, width))));
    // What was found comes before what it is.
    if let Some(judgement) = flow.judgement().filter(|j| j.verdict.class.is_finding()) {
        let parts = verdict(Some(judgement));
        lines.insert(1, Line::styled(one(&parts, width), state.theme.warn));
    }
    lines
}

/// What was judged of its path, the first reason and what to do; the page of reasons has it all.
fn verdict(judgement: Option<&Arc<Judgement>>) -> Vec<String> {
    let Some(verdict) = judgement.map(|judgement| &judgement.verdict) else {
        return vec![format!("verdict {UNKNOWN}")];
    };
    let mut parts = vec![format!("verdict {}", verdict.headline())];
    if verdict.class.is_finding() {
        parts.push(format!("{} sure, w says why", verdict.sure()));
    }
    parts.push(verdict.class.about().to_owned());
    parts.extend(verdict.evidence.iter().take(2).cloned());
    parts.extend(verdict.advice.first().map(|advice| advice.what.clone()));
    parts
}

/// The first parts that fit into one line whole; the very first is cut where it does not.
fn one(parts: &[String], width: usize) -> String {
    let mut line = String::new();
    for part in parts {
        if line.is_empty() {
            line = cut(part, width);
        } else if line.width() + BETWEEN.len() + part.width() <= width {
            line.push_str(BETWEEN);
            line.push_str(part);
        } else {
            break;
        }
    }
    line
}

/// State and age.
fn condition(flow: &Flow) -> String {
    let state = match flow.state() {
        TcpState::Unknown(_) => UNKNOWN,
        state => state.as_str(),
    };
    let origin = match flow.origin() {
        Some(Origin::Diag) => " by socket-diag",
        Some(Origin::Capture) => " by its packets",
        _ => "",
    };
    if flow.is_closed() {
        format!("closed: its last figures{origin}")
    } else {
        format!("{state}{origin}")
    }
}

fn age(model: &Model, flow: &Flow) -> String {
    let age = units_of_time(model.past(flow).end().since(flow.opened_at()));
    if flow.from_start() {
        format!("age {age}")
    } else {
        format!("seen for {age}, is older")
    }
}

fn identity(model: &Model, flow: &Flow) -> Vec<String> {
    let past = model.past(flow);
    let mut parts = vec![condition(flow)];
    parts.push(age(model, flow));
    if let Some(from) = past.history().forgotten_before() {
        let back = units_of_time(past.end().since(from));
        parts.push(format!("history from {back} ago"));
    }
    if flow.gaps() > 0 {
        parts.push(format!("records lost {}", flow.gaps()));
    }
    let id = flow.id();
    parts.push(format!("cookie {}", id.cookie));
    parts.push(format!("netns {}", id.netns));
    parts
}

fn processes(flow: &Flow) -> Vec<String> {
    match flow.owners() {
        None => vec![format!("process {UNKNOWN}")],
        Some([]) => vec!["held by no process".to_owned()],
        Some(owners) => owners
            .iter()
            .map(|p| format!("{}/{}", escape(&p.comm), p.pid))
            .collect(),
    }
}

fn owner(flow: &Flow) -> Vec<String> {
    let mut parts = processes(flow);
    let cgroup = flow.attributes().and_then(|a| a.cgroup.as_deref());
    if let Some(cgroup) = cgroup {
        let place = place(cgroup);
        if let Some(container) = place.container {
            parts.push(format!("container {}", escape(&container.to_string())));
        }
        if let Some(unit) = place.unit {
            parts.push(format!("unit {}", escape(&unit)));
        }
    }
    parts.push(format!("cgroup {}", known(cgroup.map(escape))));
    parts
}

fn path(model: &Model, flow: &Flow) -> Vec<String> {
    let device = model.device_of(flow).map(|d| escape(&d.name));
    let mut parts = vec![format!("dev {}", known(device))];
    match model.qdisc_of(flow) {
        Some(q) => parts.extend([
            format!("qdisc {} {}", escape(&q.kind), q.handle_text()),
            format!("drops {}", q.drops),
            format!("backlog {}", units::size(q.backlog_bytes)),
        ]),
        None => parts.push(format!("qdisc {UNKNOWN}")),
    }
    let mss = flow.sample().map(|s| s.mss.to_string());
    parts.push(format!("MSS {}", known(mss)));
    let Some(a) = flow.attributes() else {
        return parts;
    };
    parts.push(format!("PMTU {}", known(a.pmtu.map(|n| n.to_string()))));
    parts.push(match a.wscale {
        None => format!("wscale {UNKNOWN}"),
        Some(None) => "no wscale".to_owned(),
        Some(Some(w)) => format!("wscale {}/{}", w.snd, w.rcv),
    });
    for (name, on) in [
        ("SACK", a.sack),
        ("timestamps", a.timestamps),
        ("ECN", a.ecn),
    ] {
        parts.extend(on.map(|on| {
            if on {
                name.to_owned()
            } else {
                format!("no {name}")
            }
        }));
    }
    parts.extend(a.advmss.map(|n| format!("advmss {n}")));
    parts
}

/// Name, version, and its parameters.
fn algorithm(flow: &Flow) -> Vec<String> {
    let Some(a) = flow.attributes() else {
        return vec![format!("algorithm {UNKNOWN}")];
    };
    let mut parts = vec![match &a.cc_version {
        _ if a.cc_name.is_empty() => format!("algorithm {UNKNOWN}"),
        Some(version) => format!("{}/{}", escape(&a.cc_name), escape(version)),
        None => escape(&a.cc_name),
    }];
    parts.extend(
        a.cc_module
            .as_deref()
            .map(|m| format!("module {}", escape(m))),
    );
    if let Some(sample) = flow.sample() {
        parameters(flow, sample, &mut parts);
        parts.push(format!("ca {}", sample.ca_state.known().unwrap_or(UNKNOWN)));
        parts.push(format!(
            "ssthresh {}",
            sample
                .ssthresh
                .map_or_else(|| UNKNOWN.to_owned(), |n| limit(n, |n| n.to_string()))
        ));
    }
    clamps(a, &mut parts);
    parts
}

fn limit<T: Copy>(limit: Limit<T>, text: impl Fn(T) -> String) -> String {
    limit.finite().map_or_else(|| UNLIMITED.to_owned(), text)
}

fn rate(bytes_per_s: u64) -> String {
    units::rate(units::bits(bytes_per_s))
}

fn gain(of_256: u32) -> String {
    format!("{:.2}", f64::from(of_256) / 256.0)
}

fn parameters(flow: &Flow, sample: &Sample, parts: &mut Vec<String>) {
    match &sample.cc {
        Some(CcState::Bbr(b)) => {
            if let Some(((phase, part), since)) = flow.phase() {
                let part = part.map_or_else(String::new, |p| format!(":{}", p.as_str()));
                let end = flow.sampled_at().unwrap_or(since);
                let time = units_of_time(end.since(since));
                parts.push(format!("{}{part} for {time}", phase.as_str()));
            }
            parts.push(format!("BtlBw {}", known(b.btlbw.map(rate))));
            let min_rtt = b.min_rtt_us.map(|us| units::ms(us.into()) + " ms");
            parts.push(format!("its min RTT {}", known(min_rtt)));
            let gains = (b.pacing_gain_256.map(gain), b.cwnd_gain_256.map(gain));
            parts.push(format!(
                "gain pacing {} cwnd {}",
                known(gains.0),
                known(gains.1)
            ));
            parts.extend(b.lt_use_bw.filter(|on| *on).map(|_| "lt_use_bw".to_owned()));
            parts.extend(b.lt_bw.map(|n| format!("lt_bw {}", rate(n))));
            parts.extend(b.full_bw_reached.map(|on| {
                let not = if on { "" } else { " not" };
                format!("full bw{not} reached")
            }));
            parts.extend(b.bw_hi.map(|n| format!("bw_hi {}", limit(n, rate))));
            parts.extend(b.bw_lo.map(|n| format!("bw_lo {}", limit(n, rate))));
            let count = |n: u32| n.to_string();
            parts.extend(
                b.inflight_hi
                    .map(|n| format!("inflight_hi {}", limit(n, count))),
            );
            parts.extend(
                b.inflight_lo
                    .map(|n| format!("inflight_lo {}", limit(n, count))),
            );
            parts.extend(b.extra_acked.map(|n| format!("extra_acked {n}")));
        }
        Some(CcState::Cubic(c)) => {
            parts.extend(c.last_max_cwnd.map(|n| format!("last_max_cwnd {n}")));
            parts.extend(c.origin_point.map(|n| format!("origin {n}")));
            parts.extend(c.k.map(|n| format!("K {n}")));
            let delay = c.delay_min_us.map(|us| units::ms(us.into()));
            parts.extend(delay.map(|ms| format!("delay_min {ms} ms")));
            parts.extend(c.hystart_found.map(|on| {
                let not = if on { "" } else { " not" };
                format!("HyStart{not} found")
            }));
        }
        Some(CcState::Dctcp(d)) => {
            let alpha = d.alpha_1024.map(|n| f64::from(n) / 1024.0);
            parts.extend(alpha.map(|alpha| format!("alpha {alpha:.3}")));
            parts.extend(d.ce_state.map(|n| format!("ce_state {n}")));
            parts.extend(d.loss_cwnd.map(|n| format!("loss_cwnd {n}")));
        }
        None => {}
    }
}

/// What the application or an administrator set.
fn clamps(a: &Attributes, parts: &mut Vec<String>) {
    if let Some(Limit::Finite(clamp)) = a.cwnd_clamp {
        parts.push(format!("cwnd clamp {clamp}"));
    }
    if let Some(Limit::Finite(max)) = a.max_pacing_rate {
        parts.push(format!("max pacing {}", rate(max)));
    }
    parts.extend(a.notsent_lowat.map(|n| format!("notsent_lowat {n}")));
}

/// What holds it back, and the shares that say so.
fn limits(figures: &Figures) -> Vec<String> {
    let word = match figures.limit {
        LimitedBy::Unknown => UNKNOWN,
        limit => limit.as_str(),
    };
    let mut parts = vec![format!("limit {word}")];
    let Some(shares) = figures.limit_shares else {
        return parts;
    };
    let all = [
        ("idle", shares.idle),
        ("app", shares.app),
        ("rwnd", shares.rwnd),
        ("sndbuf", shares.sndbuf),
        ("cwnd", shares.cwnd),
        ("pacing", shares.pacing),
        ("recovery", shares.recovery),
        ("queue", shares.queued),
    ];
    // Per cent as a whole: the clocks tick in jiffies.
    let seen = all.into_iter().filter(|(_, share)| *share >= 0.005);
    parts.extend(seen.map(|(name, share)| format!("{name} {:.0}%", share * 100.0)));
    parts
}

/// What the shares are of.
fn window(figures: &Figures) -> Option<String> {
    let shares = figures.limit_shares?;
    Some(format!("of {}", units_of_time(shares.window_ns)))
}

fn totals(flow: &Flow) -> Vec<String> {
    let Some(s) = flow.sample() else {
        return vec![format!("acked {UNKNOWN}")];
    };
    let share = flow.retrans_rate_life().map(units::percent);
    let mut parts = vec![
        format!("retrans {} ({})", s.retrans, known(share)),
        format!("acked {}", known(s.bytes_acked.map(units::size))),
    ];
    parts.extend(s.lost_total.map(|n| format!("lost {n}")));
    parts.extend(s.dsack_dups.map(|n| format!("DSACK {n}")));
    parts.extend(s.reord_seen.map(|n| format!("reordered {n}")));
    parts.extend(s.delivered_ce.filter(|n| *n > 0).map(|n| format!("CE {n}")));
    parts.extend(s.bytes_sent.map(|n| format!("sent {}", units::size(n))));
    let received = s.bytes_received.filter(|n| *n > 0);
    parts.extend(received.map(|n| format!("received {}", units::size(n))));
    let kinds = flow.retransmits().kinds();
    parts.extend(kinds.map(|(kind, n)| format!("{} {n}", retransmit_kind(kind))));
    let failed = flow.retransmits().failed;
    if failed > 0 {
        parts.push(format!("failed {failed}"));
    }
    parts
}

fn windows(flow: &Flow) -> Vec<String> {
    let Some(s) = flow.sample() else {
        return vec![UNKNOWN.to_owned()];
    };
    let size = |name: &str, bytes: Option<u32>| {
        let text = known(bytes.map(|n| units::size(n.into())));
        format!("{name} {text}")
    };
    vec![
        size("peer's window", s.snd_wnd_bytes),
        size("own window", s.rcv_wnd_bytes),
        size("not sent", s.notsent_bytes),
        size("sndbuf", s.sndbuf_bytes),
        size("rcvbuf", s.rcvbuf_bytes),
        format!("RTO {} ms", known(s.rto_us.map(units::ms))),
    ]
}
