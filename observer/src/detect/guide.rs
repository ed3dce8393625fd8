//! The words of verdicts for people: what each class means, what it is taken for, and what a field engineer would do.
//!
//! List, reports, pages, metrics and the guide to reading (`docs/READING.md`) take them from here. The words of JSON
//! and of columns are [`Class::as_str`] (SPEC §4).

use std::fmt;

use super::{Class, Verdict};
use crate::units;

/// All classes, the worst to be wrong about first.
pub const CLASSES: [Class; 9] = [
    Class::Policer,
    Class::QueueShallow,
    Class::Queue,
    Class::QueueDeep,
    Class::QueueStartup,
    Class::RandomLoss,
    Class::BurstyLoss,
    Class::None,
    Class::Insufficient,
];

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    pub what: String,
    /// To be run; `DEV` is the device that the flow leaves by.
    pub command: Option<String>,
    /// How to see that it helped.
    pub check: Option<String>,
}

impl Advice {
    fn new(what: &str, command: &str, check: &str) -> Self {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Self {
            what: what.to_owned(),
            command: some(command),
            check: some(check),
        }
    }

    /// With the device's name, where it is known.
    #[must_use]
    pub fn on(&self, device: Option<&str>) -> Self {
        let mut advice = self.clone();
        if let (Some(device), Some(command)) = (device, &mut advice.command) {
            *command = command.replace(" DEV", &format!(" {device}"));
        }
        advice
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(command) = &self.command {
            write!(f, ": '{command}'")?;
        }
        if let Some(check) = &self.check {
            write!(f, "; it helped if {check}")?;
        }
        Ok(())
    }
}

impl Class {
    /// What it means, in a line.
    pub fn about(self) -> &'static str {
        match self {
            Self::Policer => {
                "a token bucket drops what comes faster than its rate, and delays nothing"
            }
            Self::QueueShallow => "a queue of less than one BDP overflows",
            Self::Queue => "a queue of one to two BDP overflows",
            Self::QueueDeep => {
                "a queue of more than two BDP, or of more than 30 ms and the base RTT, stands"
            }
            Self::QueueStartup => "a queue overflowed in start-up only, and no more since",
            Self::RandomLoss => "packets are lost one by one, however hard the sender pushes",
            Self::BurstyLoss => {
                "packets are lost in bursts that neither a queue nor a bucket explains"
            }
            Self::None => "nothing is wrong with loss or delay",
            Self::Insufficient => "not enough was seen to name a cause",
        }
    }

    /// What it is taken for, the likeliest first, and what tells the two apart.
    pub fn confused_with(self) -> &'static [(Self, &'static str)] {
        match self {
            Self::Policer => &[
                (
                    Self::QueueShallow,
                    "the RTT rises before a queue drops, and before a policer does not",
                ),
                (
                    Self::BurstyLoss,
                    "one bucket of one rate and depth fits a policer's drops",
                ),
                (Self::RandomLoss, "below its rate a policer drops nothing"),
            ],
            Self::QueueShallow => &[
                (
                    Self::Policer,
                    "the RTT rises before a queue drops, and before a policer does not",
                ),
                (
                    Self::RandomLoss,
                    "a queue drops while one pushes, BBR's quiet phases lose nothing",
                ),
            ],
            Self::Queue => &[
                (
                    Self::QueueShallow,
                    "by the RTT's rise at the drops: one base RTT is one BDP",
                ),
                (
                    Self::QueueDeep,
                    "by the RTT's rise at the drops: two base RTTs are two BDP",
                ),
            ],
            Self::QueueDeep => &[
                (
                    Self::None,
                    "a long RTT of the path itself does not fall when the flow is idle",
                ),
                (
                    Self::BurstyLoss,
                    "a queue drops at its top, an unsteady link anywhere",
                ),
            ],
            Self::QueueStartup => &[
                (
                    Self::QueueShallow,
                    "that drops again and again, not only at the start",
                ),
                (
                    Self::Policer,
                    "a full bucket too lets the start pass and drops then; it goes on dropping",
                ),
            ],
            Self::RandomLoss => &[
                (
                    Self::BurstyLoss,
                    "random losses come alone: the burst ratio is about 1",
                ),
                (
                    Self::QueueShallow,
                    "a shallow queue drops while one pushes, with a higher RTT",
                ),
                (Self::Policer, "a policer's drops stop below its rate"),
            ],
            Self::BurstyLoss => &[
                (
                    Self::Policer,
                    "no bucket fits: look again with more flows or a longer recording",
                ),
                (
                    Self::QueueDeep,
                    "see whether the RTT was at its highest when packets were lost",
                ),
            ],
            Self::None => &[(Self::Insufficient, "'none' takes 20 RTT of sending")],
            Self::Insufficient => &[],
        }
    }

    /// What would change the verdict.
    pub fn changes(self) -> &'static str {
        match self {
            Self::Policer => {
                "losses that go on at a rate well below the bucket's, or an RTT that rises before them"
            }
            Self::QueueShallow | Self::Queue => {
                "losses without a rise of the RTT, or a rise beyond the bounds of 1 and 2 BDP"
            }
            Self::QueueDeep => "an RTT that falls to its least while the flow sends",
            Self::QueueStartup => "ten losses in three events after start-up",
            Self::RandomLoss => "losses that come with pushing, in clusters, or with a higher RTT",
            Self::BurstyLoss => {
                "a bucket that fits, or an RTT that is high whenever packets are lost"
            }
            Self::None => {
                "five losses that are 0.1 % of the packets, or an RTT that stays up by more than 30 ms"
            }
            Self::Insufficient => {
                "more of what is missing: 20 RTT of sending, and of losses ten in three events after start-up"
            }
        }
    }
}

impl Verdict {
    /// The class with the figures that go with it: `policer 20.1 Mbit/s 98 kB`.
    pub fn headline(&self) -> String {
        let mut parts = vec![self.class.as_str().to_owned()];
        if let Some(bps) = self.rate_bps {
            parts.push(units::rate(bps));
        }
        if let Some(beta) = self.buffer_bdp {
            parts.push(format!("{beta:.2} BDP"));
        }
        if let Some(bytes) = self.depth_bytes {
            parts.push(units::size(bytes));
        }
        if let Some(share) = self.random_loss {
            let plus = if self.class == Class::RandomLoss {
                ""
            } else {
                "+ random "
            };
            parts.push(format!("{plus}{:.2} %", share * 100.0));
        }
        parts.join(" ")
    }

    /// `85 %`.
    pub fn sure(&self) -> String {
        format!("{:.0} %", self.confidence * 100.0)
    }
}

/// What a field engineer would do about `class`.
pub fn advice(
    class: Class,
    bbr: bool,
    rate_bps: Option<u64>,
    buffer_bdp: Option<f64>,
) -> Vec<Advice> {
    let pacing = "tc qdisc replace dev DEV root fq";
    match class {
        Class::Policer => policer(rate_bps),
        Class::QueueShallow => shallow(bbr, buffer_bdp),
        Class::Queue => vec![Advice::new(
            "the queue is deep enough; more throughput only by losing less of it at each overflow",
            "sysctl -w net.ipv4.tcp_congestion_control=bbr",
            "'observer compare' of recordings of both shows throughput up or retransmits down",
        )],
        Class::QueueDeep => vec![
            Advice::new(
                "where the bottleneck is yours, an AQM keeps its queue short",
                "tc qdisc replace dev DEV root fq_codel",
                "srtt falls towards min RTT while throughput stays",
            ),
            Advice::new(
                "where it is not, a sender that keeps little in flight",
                "sysctl -w net.ipv4.tcp_congestion_control=bbr",
                "queueing delay falls below the min RTT",
            ),
        ],
        Class::QueueStartup => vec![Advice::new(
            "nothing for long flows; for many short ones, pace the start",
            pacing,
            "retransmits of slow_start are fewer",
        )],
        Class::RandomLoss => vec![
            Advice::new(
                "look for the lossy hop: radio, optics, cable, duplex",
                "ethtool -S DEV",
                "a counter of errors or drops there rises with the retransmits",
            ),
            Advice::new(
                "until it is mended: BBR goes on at full rate under some per cent of it, loss-based control does not",
                if bbr {
                    ""
                } else {
                    "sysctl -w net.ipv4.tcp_congestion_control=bbr"
                },
                "throughput rises while the retransmit rate stays",
            ),
        ],
        Class::BurstyLoss => vec![Advice::new(
            "see when they come: bursts that repeat by the clock are a box that is busy or a route that flaps; show their times",
            "observer record -o bursts.mcap -t 600",
            "'observer report' lists bursts whose times fit what the other side logs",
        )],
        Class::None | Class::Insufficient => Vec::new(),
    }
}

fn policer(rate_bps: Option<u64>) -> Vec<Advice> {
    // A little below, in kbit: at the rate itself the bucket never fills again.
    let rate = rate_bps.map_or_else(
        || "RATE".to_owned(),
        |bps| format!("{}kbit", bps / 100 * 95 / 1000),
    );
    vec![
        Advice::new(
            "send below that rate",
            &format!("tc qdisc replace dev DEV root fq maxrate {rate}"),
            "retransmits go to nothing and throughput stays",
        ),
        Advice::new(
            "ask who polices (contract, carrier, cloud instance) with the rate, the depth and a recording",
            "observer record -o evidence.mcap -t 60",
            "after a change of the contract the verdict's rate is the new one",
        ),
    ]
}

fn shallow(bbr: bool, buffer_bdp: Option<f64>) -> Vec<Advice> {
    let now = buffer_bdp.map_or_else(String::new, |beta| format!(" (it is {beta:.2} now)"));
    let own = Advice::new(
        &format!("where the buffer is yours, make it at least 1 BDP{now}"),
        "tc -s qdisc show dev DEV",
        "the RTT before losses rises to twice the base, and losses are fewer",
    );
    let sender = if bbr {
        Advice::new(
            "BBRv1 overfills so small a buffer at every probe: BBRv3, or a pacing limit a little under the path's rate, loses less",
            "tc qdisc replace dev DEV root fq maxrate RATE",
            "the retransmit rate falls and throughput stays",
        )
    } else {
        Advice::new(
            "a window cut by 30 % keeps the link busy from 0.43 BDP of buffer on: below, BBR or pacing gets along with less",
            "sysctl -w net.ipv4.tcp_congestion_control=bbr",
            "throughput comes nearer to the path's rate",
        )
    };
    vec![sender, own]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_has_advice_with_a_command_and_a_check() {
        for class in CLASSES {
            for bbr in [false, true] {
                let given = advice(class, bbr, Some(1_000_000), Some(0.2));
                assert_eq!(given.is_empty(), !class.is_finding(), "{class:?}");
                let whole = |advice: &&Advice| advice.command.is_some() && advice.check.is_some();
                assert!(
                    given.is_empty() || given.iter().any(|a| whole(&a)),
                    "{class:?}"
                );
            }
            assert!(!class.about().is_empty() && !class.changes().is_empty());
            assert!(
                class
                    .confused_with()
                    .iter()
                    .all(|(other, _)| *other != class)
            );
        }
    }

    #[test]
    fn the_rate_and_the_device_are_put_in() {
        let given = advice(Class::Policer, false, Some(20_000_000), None);
        let on = given[0].on(Some("eth0"));
        assert_eq!(
            on.command.as_deref(),
            Some("tc qdisc replace dev eth0 root fq maxrate 19000kbit")
        );
        let text = on.to_string();
        assert!(text.contains("19000kbit'; it helped if"), "{text}");
    }
}
