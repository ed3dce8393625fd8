//! The columns of `observer list`: what each is called and what stands in its cells.

use std::fmt::Write as _;
use std::net::SocketAddr;

use super::Row;
use crate::event::CcState;
use crate::units::{self, Limit, UNLIMITED, escape};

/// One column: heading and cell, for a person and for a pipe. `None` = unknown.
pub(super) struct Column {
    pub heading: &'static str,
    pub key: &'static str,
    pub right: bool,
    pub shown: fn(&Row) -> Option<String>,
    /// Adds to the line; what comes from outside is escaped there.
    pub plain: fn(&Row, &mut String) -> Option<()>,
}

macro_rules! column {
    // Text, the same for both.
    ($heading:literal $key:literal left $text:expr) => {
        Column {
            heading: $heading,
            key: $key,
            right: false,
            shown: $text,
            plain: |row, out| {
                let text: fn(&Row) -> Option<String> = $text;
                outside(out, &text(row)?);
                Some(())
            },
        }
    };
    ($heading:literal $key:literal left $shown:expr, |$row:ident, $out:ident| $add:expr) => {
        column!(@ $heading $key false $shown, |$row, $out| $add)
    };
    ($heading:literal $key:literal $shown:expr, |$row:ident, $out:ident| $add:expr) => {
        column!(@ $heading $key true $shown, |$row, $out| $add)
    };
    (@ $heading:literal $key:literal $right:literal $shown:expr, |$row:ident, $out:ident| $add:expr) => {
        Column {
            heading: $heading,
            key: $key,
            right: $right,
            shown: $shown,
            plain: |$row, $out| {
                $add;
                Some(())
            },
        }
    };
}

/// Beside the addresses, for a pipe, where they were asked for.
pub(super) const NAMES: &[Column] = &[
    column!("Local name" "local_name" left |r| Some(r.ends.name(r.local.ip())?.to_string())),
    column!("Remote name" "remote_name" left |r| Some(r.ends.name(r.remote.ip())?.to_string())),
];

/// All that there are, in their order.
pub(super) const COLUMNS: &[Column] = &[
    column!("State" "state" left
        |r| Some(r.state.as_str().to_owned()),
        |r, out| out.push_str(r.state.as_str())),
    column!("Local" "local" left
        |r| Some(r.ends.shown(r.local)),
        |r, out| address(out, r.local)),
    column!("Remote" "remote" left
        |r| Some(r.ends.shown(r.remote)),
        |r, out| address(out, r.remote)),
    column!("Process" "processes" left processes),
    column!("CC" "cc" left algorithm, |r, out| {
        outside(out, r.cc_name.as_ref()?);
        if let Some(version) = &r.cc_version {
            out.push('/');
            outside(out, version);
        }
    }),
    column!("Phase" "phase" left phase),
    column!("Qdisc" "qdisc" left
        |r| Some(r.qdisc.as_ref()?.to_string()),
        |r, out| outside(out, r.qdisc.as_ref()?)),
    column!("Throughput" "throughput_bps"
        |r| r.figures.throughput_bps.map(units::rate),
        |r, out| whole(out, r.figures.throughput_bps?)),
    column!("cwnd" "cwnd"
        |r| Some(r.sample?.cwnd?.to_string()),
        |r, out| whole(out, r.sample?.cwnd?)),
    column!("Inflight" "inflight_bytes"
        |r| r.figures.inflight_bytes.map(units::size),
        |r, out| whole(out, r.figures.inflight_bytes?)),
    column!("BDP fill" "bdp_fill"
        |r| r.figures.bdp_fill.map(units::percent),
        |r, out| fraction(out, r.figures.bdp_fill?, 4)),
    column!("Pacing" "pacing_rate_bps"
        |r| Some(limit_text(r.sample?.pacing_rate?)),
        |r, out| limit_plain(out, r.sample?.pacing_rate?)),
    column!("BtlBw" "btlbw_bps"
        |r| r.figures.btlbw.map(|b| format!("{}{}", units::rate(units::bits(b.bytes_per_s)), if b.estimated { " est" } else { "" })),
        |r, out| whole(out, units::bits(r.figures.btlbw?.bytes_per_s))),
    column!("SRTT ms" "srtt_us"
        |r| Some(units::ms(r.sample?.srtt_us?.into())),
        |r, out| whole(out, r.sample?.srtt_us?)),
    column!("Min RTT ms" "min_rtt_us"
        |r| Some(units::ms(r.sample?.min_rtt_us?.into())),
        |r, out| whole(out, r.sample?.min_rtt_us?)),
    column!("Retr%" "retrans_rate"
        |r| r.figures.retrans_rate.map(units::percent),
        |r, out| fraction(out, r.figures.retrans_rate?, 6)),
    column!("Retrans" "retrans"
        |r| Some(r.sample?.retrans.to_string()),
        |r, out| whole(out, r.sample?.retrans)),
    column!("Limit" "limit" left
        |r| Some(r.figures.limit.as_str().to_owned()),
        |r, out| out.push_str(r.figures.limit.as_str())),
    column!("Verdict" "verdict" left
        |r| Some(r.verdict?.headline()),
        |r, out| out.push_str(r.verdict?.class.as_str())),
    column!("Source" "source" left
        |r| Some(r.sample?.origin.as_str().to_owned()),
        |r, out| out.push_str(r.sample?.origin.as_str())),
    column!("Container" "container" left |r| r.container.clone()),
];

/// `name/pid`, separated by commas.
fn processes(row: &Row) -> Option<String> {
    let mut text = String::new();
    for owner in row.owners.filter(|owners| !owners.is_empty())? {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&owner.comm);
        text.push('/');
        whole(&mut text, owner.pid);
    }
    Some(text)
}

fn algorithm(row: &Row) -> Option<String> {
    let mut name = row.cc_name.clone()?.into_owned();
    if let Some(version) = &row.cc_version {
        name.push('/');
        name.push_str(version);
    }
    Some(name)
}

fn phase(row: &Row) -> Option<String> {
    match row.sample?.cc.as_ref()? {
        CcState::Bbr(bbr) => {
            let phase = bbr.phase?.as_str();
            Some(bbr.sub_phase.map_or_else(
                || phase.to_owned(),
                |sub| format!("{phase}:{}", sub.as_str()),
            ))
        }
        CcState::Cubic(_) | CcState::Dctcp(_) => None,
    }
}

/// Adds text from outside: nothing of it may end a line or a cell.
fn outside(out: &mut String, text: &str) {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        out.push_str(text);
    } else {
        out.push_str(&escape(text));
    }
}

fn whole(out: &mut String, number: impl itoa::Integer) {
    out.push_str(itoa::Buffer::new().format(number));
}

/// With so many digits after the point.
fn fraction(out: &mut String, value: f64, digits: usize) {
    // Nothing fails to be added to a string.
    let _ = write!(out, "{value:.digits$}");
}

fn address(out: &mut String, address: SocketAddr) {
    match address {
        SocketAddr::V4(v4) => {
            for (at, part) in v4.ip().octets().into_iter().enumerate() {
                if at > 0 {
                    out.push('.');
                }
                whole(out, part);
            }
            out.push(':');
            whole(out, v4.port());
        }
        SocketAddr::V6(_) => {
            let _ = write!(out, "{address}");
        }
    }
}

fn limit_text(limit: Limit<u64>) -> String {
    match limit {
        Limit::Finite(rate) => units::rate(units::bits(rate)),
        Limit::Unlimited => UNLIMITED.to_owned(),
    }
}

fn limit_plain(out: &mut String, limit: Limit<u64>) {
    match limit {
        Limit::Finite(rate) => whole(out, units::bits(rate)),
        Limit::Unlimited => out.push_str("unlimited"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_everywhere() {
        for text in [
            "0.0.0.0:0",
            "255.10.0.1:65535",
            "[::]:1",
            "[2001:db8::ffff:1]:443",
        ] {
            let mut out = String::new();
            address(&mut out, text.parse().expect("an address"));
            assert_eq!(out, text);
        }
    }
}
