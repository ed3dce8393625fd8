//! Evidence in words: each line has the number, the threshold, and the alternative that it rejects.

use super::dose::Answer;
use super::features::Features;
use super::rules::{Class, MIN_AFTER, MIN_EVENTS, MIN_ROUNDS, Rule, Signs};

fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        small if small < 0.1 => format!("{small:.2} %"),
        other => format!("{other:.1} %"),
    }
}

fn ms(seconds: f64) -> String {
    let ms = seconds * 1e3;
    if ms < 10.0 {
        format!("{ms:.1} ms")
    } else {
        format!("{ms:.0} ms")
    }
}

fn kilobytes(bytes: f64) -> String {
    format!("{:.0} kB", bytes / 1e3)
}

fn mbit(bytes_per_s: f64) -> String {
    format!("{:.2} Mbit/s", bytes_per_s * 8.0 / 1e6)
}

/// What the verdict rests on.
pub fn evidence(f: &Features, s: &Signs, class: Class, rule: Rule) -> Vec<String> {
    let mut lines = Vec::new();
    let startup = match f.losses_startup {
        0 => String::new(),
        losses => format!(", {losses} more in start-up"),
    };
    lines.push(format!(
        "{} of {} packets lost ({}) in {} events{startup}, over {:.0} s ({:.0} RTT of {})",
        f.losses_after,
        f.packets,
        percent(f.rate),
        f.events,
        f.seconds,
        f.rounds,
        ms(f.base_rtt),
    ));
    match rule {
        Rule::Few => lines.extend(missing(f)),
        Rule::Floor => lines.push(format!(
            "half of the time at most {:.0} segments in the window: too many flows and random loss look the same here",
            f.cwnd.unwrap_or(0.0)
        )),
        Rule::Batched => lines.push(format!(
            "ACKs come in batches {} apart, which is more than the RTT rose before losses: the rise says nothing of a queue",
            ms(f.batch.unwrap_or(0.0))
        )),
        Rule::Delay | Rule::Numbered(_) => {}
    }
    if f.losses_after > 0 {
        lines.extend(delay_at_loss(f, s, class));
        lines.extend(dose(s));
        lines.extend(bucket(s, class));
        lines.extend(clusters(f, s));
    } else if let Some(delay) = f.delay_median {
        lines.push(format!(
            "half of the RTTs are at least {} above the least",
            ms(delay)
        ));
    }
    if s.pin
        && let Some((cv, windows)) = f.pin
    {
        lines.push(format!(
            "goodput stands still: it varies by {cv:.2} over {windows} windows (pinned: at most 0.15; random loss: 0.20 and more)"
        ));
    }
    if f.long_term >= 0.25 {
        lines.push(format!(
            "the kernel's BBR took the path for policed in {} of the time",
            percent(f.long_term)
        ));
    }
    if f.disorder > 0.1 {
        lines.push(format!(
            "{} needless retransmissions or reorderings for each retransmission: some losses were none",
            percent(f.disorder)
        ));
    }
    lines
}

/// How far it is from enough; `None` = enough, of what there is.
fn missing(f: &Features) -> Option<String> {
    let lossy = f.losses > 0;
    let needs = [
        (
            lossy,
            f.losses_after as f64,
            MIN_AFTER as f64,
            "losses after start-up",
        ),
        (lossy, f.events as f64, MIN_EVENTS as f64, "loss events"),
        (true, f.rounds, MIN_ROUNDS, "RTT of sending"),
    ];
    let short = needs
        .into_iter()
        .filter(|(asked, has, needs, _)| *asked && has < needs);
    let short: Vec<String> = short
        .map(|(_, has, needs, what)| format!("{:.0} of {needs:.0} {what}", has.floor()))
        .collect();
    (!short.is_empty())
        .then(|| format!("to name a cause there is too little: {}", short.join(", ")))
}

fn delay_at_loss(f: &Features, s: &Signs, class: Class) -> Option<String> {
    let excess = f.excess_median?;
    let than = format!("threshold {}", ms(s.threshold));
    Some(if s.high {
        let depth = s
            .beta
            .map(|beta| format!(": a queue of {beta:.2} BDP"))
            .unwrap_or_default();
        let rejects = if class.is_queue() {
            depth + ", not a policer"
        } else {
            String::new()
        };
        format!(
            "RTT {} above the least before losses ({than}){rejects}",
            ms(excess)
        )
    } else {
        format!(
            "RTT only {} above the least before losses ({than}): no queue stood there",
            ms(excess)
        )
    })
}

fn dose(s: &Signs) -> Option<String> {
    let dose = s.dose?;
    let figures = format!(
        "loss {} while BBR pushed, {} otherwise ({} cycles)",
        percent(dose.up),
        percent(dose.low),
        dose.cycles
    );
    let says = match dose.answer() {
        Answer::LoadDependent => "it depends on the load, it is not random",
        Answer::Independent => "it does not depend on the load",
        Answer::Undecided => "which decides nothing",
    };
    Some(format!("{figures}: {says}"))
}

fn bucket(s: &Signs, class: Class) -> Option<String> {
    let fit = s.fit?;
    if fit.j < 0.6 {
        return Some(format!(
            "no token bucket fits the drops (J {:.2}, a policer's is above 0.6)",
            fit.j
        ));
    }
    let explained = match s.kappa {
        Some(kappa) if class == Class::Policer => {
            format!("; delay explains {} of it", percent(kappa))
        }
        Some(kappa) => format!(
            "; delay explains {} of it: that is a queue",
            percent(kappa.min(1.0))
        ),
        None => String::new(),
    };
    Some(format!(
        "drops fit a bucket of {}{} at {} (J {:.2}){explained}",
        if fit.anchored { "" } else { "at least " },
        kilobytes(fit.depth),
        mbit(fit.rate),
        fit.j,
    ))
}

fn clusters(f: &Features, s: &Signs) -> Option<String> {
    let found = f.clusters?;
    let ratio = found.burst_ratio;
    Some(if s.independent {
        format!("losses come alone (burst ratio {ratio:.2}, independent ones have 1)")
    } else if s.clustered {
        format!("losses come in clusters (burst ratio {ratio:.2}, independent ones have 1)")
    } else {
        format!("losses are neither clearly single nor clustered (burst ratio {ratio:.2})")
    })
}
