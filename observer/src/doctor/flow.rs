//! Findings on one flow: windows, buffers, pacing, MSS, options, the application's own settings (DETECTION §1 f).

use super::capacity;
use super::path::Path;
use super::{Finding, Level, Topic, set};
use crate::event::PacingStatus;
use crate::units::{Limit, bits, ms, percent, rate, size};

/// The largest window without window scaling.
const UNSCALED: u64 = 65_535;
/// A limit's share of the time from which it is worth a finding, and from which it is the main thing.
const SHARE_WARN: f64 = 0.1;
const SHARE_ERROR: f64 = 0.5;
/// Unsent data for less time than this keeps a sender waiting for its application (DETECTION §1 f).
const LOWAT_US: u64 = 5_000;
/// Below this a segment is mostly headers for the path's purposes.
const SMALL_MSS: u32 = 1200;

/// Everything on one flow.
pub(super) fn judge(path: &Path<'_>, out: &mut Vec<Finding>) {
    let found = if path.sends() {
        vec![
            scaling(path).or_else(|| receive_window(path)),
            capacity::send_buffer(path),
            pacing_cap(path),
            no_fq(path),
            mss(path),
            notsent_lowat(path),
            idle_restart(path),
            cached_ssthresh(path),
            dctcp_without_ecn(path),
            ecn_refused(path),
        ]
    } else {
        vec![capacity::receive_buffer(path)]
    };
    let options = [option_off(path, &SACK), option_off(path, &TIMESTAMPS)];
    out.extend(
        found
            .into_iter()
            .chain(options)
            .flatten()
            .map(|finding| Finding {
                flows: 1,
                ..finding
            }),
    );
}

/// What a connection tells that carried nothing yet.
pub(super) fn judge_target(path: &Path<'_>, out: &mut Vec<Finding>) {
    let found = [
        scaling(path),
        capacity::send_buffer_max(path),
        no_fq(path),
        mss(path),
        option_off(path, &SACK),
        option_off(path, &TIMESTAMPS),
    ];
    out.extend(found.into_iter().flatten().map(|finding| Finding {
        flows: 1,
        ..finding
    }));
}

pub(super) fn start(path: &Path<'_>, code: &'static str, topic: Topic, level: Level) -> Finding {
    Finding::new(code, topic, level, path.name())
}

fn level_of(share: f64) -> Level {
    if share >= SHARE_ERROR {
        Level::Error
    } else {
        Level::Warn
    }
}

pub(super) fn rtt(path: &Path<'_>) -> String {
    path.rtt_us()
        .map_or("unknown".to_owned(), |us| format!("{} ms", ms(us)))
}

/// The peer's window, as far as it opens.
fn peer_window(path: &Path<'_>) -> Option<u64> {
    path.seen
        .snd_wnd
        .median()
        .or(path.sample.snd_wnd_bytes.map(u64::from))
}

/// The window cannot be larger than the shift allows.
fn scaling(path: &Path<'_>) -> Option<Finding> {
    let wscale = path.attributes?.wscale?;
    let shift = wscale.map_or(0, |shifts| shifts.snd);
    let cap = UNSCALED << shift;
    let largest = path
        .sample
        .max_window_bytes
        .map(u64::from)
        .or_else(|| peer_window(path))?;
    let used = largest as f64 >= 0.95 * cap as f64;
    let short = path.bdp().is_some_and(|bdp| cap < 2 * bdp);
    let held = path
        .shares()
        .is_some_and(|shares| shares.rwnd >= SHARE_WARN);
    if !(short && (wscale.is_none() || used) || used && held) {
        return None;
    }
    let level = if held { Level::Error } else { Level::Warn };
    let finding = start(path, "window_scale", Topic::ReceiveWindow, level)
        .ceiling(path.through(cap), path.told_bps());
    let text = match wscale {
        None => "the connection has no window scaling".to_owned(),
        Some(shifts) => format!("the peer's window is scaled by 2^{} only", shifts.snd),
    };
    let finding = finding
        .what(format!(
            "{text}: no more than {cap} bytes can be on the way"
        ))
        .evidence(format!(
            "window offered {}, RTT {}, window ÷ RTT = {}",
            size(largest),
            rtt(path),
            path.through(cap).map_or("unknown".to_owned(), rate)
        ));
    Some(match (wscale, path.sysctl("net.ipv4.tcp_window_scaling")) {
        (None, Some("0")) => set(finding, "net.ipv4.tcp_window_scaling", "1", "0"),
        (None, _) => Finding {
            read: Some("on the peer: sysctl net.ipv4.tcp_window_scaling; a middlebox that strips the option \
                        shows as a SYN with wscale and a SYN-ACK without (tcpdump)".to_owned()),
            ..finding
        },
        (Some(_), _) => capacity::peer_rmem(path, finding),
    })
}

/// The peer's window holds the flow back.
fn receive_window(path: &Path<'_>) -> Option<Finding> {
    let share = path.shares()?.rwnd;
    let window = peer_window(path)?;
    if share < SHARE_WARN || path.bdp().is_some_and(|bdp| window >= 2 * bdp) {
        return None;
    }
    let ceiling = path.through(window);
    let finding = start(
        path,
        "receive_window",
        Topic::ReceiveWindow,
        level_of(share),
    )
    .what("the peer's receive window is smaller than the path")
    .evidence(format!(
        "limited by it {} of the time; window {}, RTT {}, window ÷ RTT = {}{}",
        percent(share),
        size(window),
        rtt(path),
        ceiling.map_or("unknown".to_owned(), rate),
        capacity::needed(path)
    ))
    .ceiling(ceiling, path.told_bps());
    Some(capacity::peer_rmem(path, finding))
}

/// The application set a rate.
fn pacing_cap(path: &Path<'_>) -> Option<Finding> {
    let Limit::Finite(cap) = path.attributes?.max_pacing_rate? else {
        return None;
    };
    let cap = bits(cap);
    let reached = path
        .figures
        .throughput_bps
        .is_some_and(|bps| bps as f64 >= 0.8 * cap as f64);
    let below = path.told_bps().is_some_and(|told| cap < told);
    (reached || below).then(|| {
        start(path, "pacing_cap", Topic::Pacing, Level::Warn)
            .what("the application caps the pacing rate (SO_MAX_PACING_RATE)")
            .evidence(format!("cap {}", rate(cap)))
            .ceiling(Some(cap), path.told_bps())
            .read("ss -ti: pacing_rate RATE/CAP")
    })
}

/// BBR paces by itself where fq does not: correct since 4.20, at the cost of a timer a socket.
fn no_fq(path: &Path<'_>) -> Option<Finding> {
    let device = path.device?;
    let kind = device.egress()?.kind;
    // A virtual device without a queue passes packets on at once.
    if !path.is_bbr() || kind == "fq" || path.sample.pacing_status == Some(PacingStatus::Fq) {
        return None;
    }
    let level = match path.kernel() {
        Some(version) if version < (4, 13) => Level::Error,
        Some(version) if version < (4, 20) => Level::Warn,
        _ => Level::Info,
    };
    let dev = &device.name;
    let finding = start(path, "bbr_without_fq", Topic::Qdisc, level)
        .what(format!(
            "{} runs over {kind} on {dev}: each socket paces itself by a timer, which costs CPU",
            path.cc()
        ))
        .evidence(match path.sample.pacing_status {
            Some(PacingStatus::Internal) => "pacing status: internal timer".to_owned(),
            Some(PacingStatus::None) => "pacing status: none yet".to_owned(),
            _ => format!("root qdisc {kind}"),
        })
        .read(format!("tc qdisc show dev {dev}"));
    Some(if kind == "noqueue" {
        finding
    } else {
        super::host::attach(finding, device, "fq")
    })
}

/// Segments are smaller than the device would carry.
fn mss(path: &Path<'_>) -> Option<Finding> {
    let (attributes, device) = (path.attributes?, path.device?);
    let ip = if path.flow.remote().is_ipv4() { 20 } else { 40 };
    let options = if attributes.timestamps == Some(true) {
        12
    } else {
        0
    };
    let headers = ip + 20 + options;
    let mss = path.sample.mss;
    let possible = device.mtu.checked_sub(headers)?;
    if mss == 0 || mss + 28 >= possible || device.kind.is_none() && device.name == "lo" {
        return None;
    }
    let on_wire = mss + options;
    let cause = if attributes
        .user_mss
        .is_some_and(|user| user != 0 && u32::from(user) <= on_wire)
    {
        "the application set it (TCP_MAXSEG)"
    } else if attributes
        .mss_clamp
        .is_some_and(|peer| u32::from(peer) <= on_wire + 4)
    {
        "the peer, or a middlebox that clamps the MSS of SYNs, announced it"
    } else if attributes.pmtu.is_some_and(|pmtu| pmtu < device.mtu) {
        "the path's MTU"
    } else {
        "the peer or a middlebox announced it, or the path's MTU"
    };
    let level = if mss < SMALL_MSS {
        Level::Warn
    } else {
        Level::Info
    };
    let share = |mss: u32| f64::from(mss) / f64::from(mss + headers);
    // What the same bytes on the wire would carry in full segments.
    let gain = path
        .rate_bps()
        .map(|bps| (bps as f64 * (share(possible) / share(mss) - 1.0)) as u64);
    let mut finding = start(path, "mss", Topic::Mss, level)
        .what(format!(
            "segments carry {mss} bytes where {} allows {possible}",
            device.name
        ))
        .evidence(format!(
            "{cause}; path MTU {}, MTU {}; headers take {} instead of {}",
            attributes
                .pmtu
                .map_or("unknown".to_owned(), |pmtu| pmtu.to_string()),
            device.mtu,
            percent(1.0 - share(mss)),
            percent(1.0 - share(possible))
        ))
        .read(format!(
            "ip route get {}; tracepath {0}",
            path.flow.remote().ip()
        ));
    finding.effect_bps = gain;
    Some(finding)
}

/// Too little unsent data may wait for so fast a path.
fn notsent_lowat(path: &Path<'_>) -> Option<Finding> {
    let own = path.attributes?.notsent_lowat;
    let value = own
        .map(u64::from)
        .or_else(|| path.sysctl_word("net.ipv4.tcp_notsent_lowat", 0))?;
    let shares = path.shares()?;
    let waited_us = u128::from(value) * 8_000_000 / u128::from(path.rate_bps()?);
    if waited_us >= u128::from(LOWAT_US) || shares.app < SHARE_WARN || shares.idle > SHARE_ERROR {
        return None;
    }
    let finding = start(path, "notsent_lowat", Topic::Application, Level::Warn)
        .what(format!(
            "only {} of unsent data may wait: the socket runs dry between two writes",
            size(value)
        ))
        .evidence(format!(
            "that is {} ms at {}; limited by the application {} of the time",
            ms(u64::try_from(waited_us).unwrap_or(u64::MAX)),
            path.rate_bps().map_or("unknown".to_owned(), rate),
            percent(shares.app)
        ));
    Some(match (own, path.sysctl("net.ipv4.tcp_notsent_lowat")) {
        (None, Some(old)) => set(finding, "net.ipv4.tcp_notsent_lowat", "131072", old),
        _ => finding.read("the application's TCP_NOTSENT_LOWAT"),
    })
}

/// A window forgotten in every pause.
fn idle_restart(path: &Path<'_>) -> Option<Finding> {
    let shares = path.shares()?;
    let on = path.sysctl("net.ipv4.tcp_slow_start_after_idle") == Some("1");
    // Algorithms with a model of their own are left alone by the kernel (`tcp_slow_start_after_idle_check`).
    if !on || path.is_bbr() || shares.idle < 0.3 || path.rtt_us()? < 10_000 {
        return None;
    }
    let finding = start(path, "idle_restart", Topic::Application, Level::Info)
        .what("the window shrinks back in pauses longer than the RTO")
        .evidence(format!(
            "idle {} of the time, RTT {}",
            percent(shares.idle),
            rtt(path)
        ));
    Some(set(finding, "net.ipv4.tcp_slow_start_after_idle", "0", "1"))
}

/// A slow-start threshold taken over from an earlier connection.
fn cached_ssthresh(path: &Path<'_>) -> Option<Finding> {
    let ssthresh = path.seen.born_with_ssthresh?;
    let to = path.flow.remote().ip();
    let finding = start(path, "cached_metrics", Topic::Algorithm, Level::Info)
        .what(
            "the flow was born with the slow-start threshold of an earlier one to the same address",
        )
        .evidence(format!("ssthresh {ssthresh} segments before any loss"));
    Some(
        set(
            finding,
            "net.ipv4.tcp_no_metrics_save",
            "1",
            path.sysctl("net.ipv4.tcp_no_metrics_save")?,
        )
        .read(format!("ip tcp_metrics show {to}")),
    )
}

fn dctcp_without_ecn(path: &Path<'_>) -> Option<Finding> {
    (path.cc() == "dctcp" && path.attributes?.ecn == Some(false)).then(|| {
        let finding = start(path, "dctcp_without_ecn", Topic::Algorithm, Level::Warn)
            .what("dctcp without ECN hears of no queue: it behaves as Reno")
            .evidence("ECN was not agreed on");
        let old = path.sysctl("net.ipv4.tcp_ecn").unwrap_or("2");
        set(finding, "net.ipv4.tcp_ecn", "1", old)
    })
}

/// This host does not even agree where the peer asks.
fn ecn_refused(path: &Path<'_>) -> Option<Finding> {
    let off = path.sysctl("net.ipv4.tcp_ecn") == Some("0");
    if !off || path.attributes?.ecn != Some(false) || path.cc() == "dctcp" {
        return None;
    }
    let finding = start(path, "ecn_refused", Topic::Options, Level::Info)
        .what(
            "this host neither asks for ECN nor agrees to it: a queue that could mark has to drop",
        )
        .evidence(
            "net.ipv4.tcp_ecn is 0 here; the kernel's own default is 2 (agree, but do not ask)",
        );
    Some(set(finding, "net.ipv4.tcp_ecn", "2", "0"))
}

/// An option of the handshake.
struct Negotiated {
    code: &'static str,
    name: &'static str,
    sysctl: &'static str,
    agreed: fn(&crate::event::Attributes) -> Option<bool>,
    costs: &'static str,
}

const SACK: Negotiated = Negotiated {
    code: "no_sack",
    name: "SACK",
    sysctl: "net.ipv4.tcp_sack",
    agreed: |attributes| attributes.sack,
    costs: "recovery repairs one hole an RTT",
};
const TIMESTAMPS: Negotiated = Negotiated {
    code: "no_timestamps",
    name: "timestamps",
    sysctl: "net.ipv4.tcp_timestamps",
    agreed: |attributes| attributes.timestamps,
    costs: "no RTT from retransmitted segments, no Eifel undo, no protection against wrapped sequence numbers",
};

fn option_off(path: &Path<'_>, option: &Negotiated) -> Option<Finding> {
    if (option.agreed)(path.attributes?) != Some(false) {
        return None;
    }
    let finding = start(path, option.code, Topic::Options, Level::Warn).what(format!(
        "the connection has no {}: {}",
        option.name, option.costs
    ));
    Some(match path.sysctl(option.sysctl) {
        Some("0") => set(
            finding.evidence(format!("{} is 0 here", option.sysctl)),
            option.sysctl,
            "1",
            "0",
        ),
        Some(_) => finding
            .evidence(format!(
                "{} is on here: the peer has it off, or a middlebox strips it",
                option.sysctl
            ))
            .read(format!("on the peer: sysctl {}", option.sysctl)),
        None => finding.evidence("not agreed on in the handshake"),
    })
}
