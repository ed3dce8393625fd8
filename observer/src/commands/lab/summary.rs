//! What was made, and what of it arrived: for people, beside the report of what was observed.

use std::time::Duration;

use crate::lab::emulator::Emulator;
use crate::lab::emulator::truth::Counts;
use crate::lab::path::{Path, rate_word};
use crate::lab::verify::Measured;
use crate::units::{ms, percent};

/// More late packets than this are too many.
const LATE_SHARE: f64 = 0.01;

/// The path made.
pub fn path(path: &Path, emulator: &dyn Emulator, measured: &Measured) -> String {
    let rtt = measured.rtt.as_secs_f64() * 1e3;
    let rate = match measured.rate_bps {
        Some(rate) => format!("{:.2} Mbit/s", rate / 1e6),
        None => format!(
            "rate not measured: policed to {}",
            rate_word(path.long_run_bps())
        ),
    };
    format!(
        "path {} by {}; measured {rtt:.2} ms, {rate}",
        path.name(),
        emulator.description()
    )
}

/// What the emulator did and what arrived, and whether that was what was asked for, in lines.
pub fn truth(path: &Path, counts: &Counts, received: Option<(u64, Duration)>) -> Vec<String> {
    let offered = counts.offered_packets;
    let share = |lost: u64| match offered {
        0 => String::new(),
        _ => format!(" ({})", percent(lost as f64 / offered as f64)),
    };
    let mut causes: Vec<String> = counts
        .lost
        .iter()
        .map(|(cause, lost)| format!("{cause} {lost}{}", share(*lost)))
        .collect();
    causes.extend(
        counts
            .marked
            .filter(|_| path.ecn)
            .map(|marked| format!("marked {marked}")),
    );
    let causes = if causes.is_empty() {
        "none".to_owned()
    } else {
        causes.join(", ")
    };
    let mut lines = vec![format!(
        "truth: {offered} packets toward the receiver; lost: {causes}"
    )];
    if let Some((bytes, span)) = received {
        let span = span.as_secs_f64();
        let mbps = bytes as f64 * 8.0 / span / 1e6;
        lines.push(format!("truth: received {mbps:.2} Mbit/s over {span:.1} s"));
    }
    lines
}

/// What the machine did not do as it was asked, in a sentence each.
pub fn remarks(path: &Path, counts: &Counts) -> Vec<String> {
    let offered = counts.offered_packets;
    let mut remarks = Vec::new();
    if counts.overrun > 0 {
        remarks.push(format!(
            "this machine was too slow for the path: {} packets were lost to nobody's account",
            counts.overrun
        ));
    }
    let bound = late_bound_us(path);
    let late = counts.late.share_over(bound);
    if late > LATE_SHARE {
        let at = |quantile| ms(counts.late.quantile_us(quantile).unwrap_or(0));
        remarks.push(format!(
            "this machine could not hold the path: {} of the packets left more than {} ms late (half {} ms, one in a hundred {} ms, \
             the last of them {} ms)",
            percent(late),
            ms(bound),
            at(0.5),
            at(0.99),
            ms(counts.late.max_us().unwrap_or(0)),
        ));
    }
    // Four standard deviations of a binomial count.
    let expected = offered as f64 * path.loss;
    let error = 4.0 * (expected * (1.0 - path.loss)).sqrt() + 1.0;
    if let Some(random) = counts.lost.get("random")
        && !path.ecn
        && (*random as f64 - expected).abs() > error
    {
        remarks.push(format!(
            "{random} packets were lost at random where {expected:.0} ± {error:.0} were to be"
        ));
    }
    remarks
}

/// Packets that leave later than this change what a sender does: a quarter of what a full queue takes, or of the round trip where
/// that is less.
fn late_bound_us(path: &Path) -> u64 {
    let queue_us = path.limit_bytes() as f64 * 8e6 / path.rate_bps as f64;
    let least = queue_us.min(path.rtt.as_micros() as f64) / 4.0;
    (least as u64).max(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::path::Buffer;

    fn path() -> Path {
        Path {
            rate_bps: 100_000_000,
            rtt: Duration::from_millis(40),
            buffer: Buffer::Bdp(1.0),
            loss: 0.01,
            burst_loss: 0.0,
            jitter: Duration::ZERO,
            policer: None,
            ack_batch: Duration::ZERO,
            ecn: false,
            seed: 1,
        }
    }

    #[test]
    fn a_run_that_was_not_held_is_said_to_be_so() {
        let mut counts = Counts {
            offered_packets: 10_000,
            ..Counts::default()
        };
        counts.lost.insert("random", 100);
        let lines = truth(&path(), &counts, None);
        assert_eq!(
            lines,
            ["truth: 10000 packets toward the receiver; lost: random 100 (1.00%)"]
        );
        counts.lost.insert("random", 200);
        assert_eq!(remarks(&path(), &Counts::default()), Vec::<String>::new());
        counts.overrun = 3;
        for late in [100, 100, 20_000] {
            counts.late.add(late);
        }
        let lines = remarks(&path(), &counts);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(
            lines[1].contains("33.3% of the packets left more than 10.0 ms late"),
            "{lines:?}"
        );
        assert!(
            lines[2].contains("200 packets were lost at random where 100 ± 41"),
            "{lines:?}"
        );
    }
}
