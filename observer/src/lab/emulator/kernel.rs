//! The kernel's own way, on the router: netem with rate and limit toward the receiver, netem with delay back, police at the
//! entry. As people write it by hand: `tc qdisc replace dev r-rcv root netem rate 100mbit limit 331`.

use std::fmt::Write as _;

use serde_json::Value;

use super::cells::burst_odds;
use super::truth::{Counts, Drop};
use super::{Emulator, Kind};
use crate::lab::namespaces::{Namespaces, ROUTER_TO_RECEIVER, ROUTER_TO_SENDER};
use crate::lab::path::{BURST_LOSS, Path};
use crate::lab::{LabError, shell};

/// Packets on the way back: never the limit.
const BACK_PACKETS: u64 = 1_000_000;

/// The qdiscs go with the router's namespace.
pub struct Kernel {
    router: String,
    policed: bool,
    before: Counts,
}

impl Kernel {
    pub fn make(namespaces: &Namespaces, path: &Path) -> Result<Self, LabError> {
        if path.loss > 0.0 && path.burst_loss > 0.0 {
            return Err(LabError::Unsupported(
                "netem has one model of loss: --loss and --burst-loss together take --emulator user".to_owned(),
            ));
        }
        let router = namespaces.router().to_owned();
        shell::batch("tc", &format!("-n {router}"), &commands(path)).map_err(unsupported)?;
        namespaces.forward(true)?;
        Ok(Self {
            router,
            policed: path.policer.is_some(),
            before: Counts::default(),
        })
    }

    fn total(&self) -> Result<Counts, LabError> {
        let text = shell::run(
            "tc",
            &format!(
                "-n {} -s -j qdisc show dev {ROUTER_TO_RECEIVER}",
                self.router
            ),
        )?;
        let mut counts = Counts::default();
        let (packets, bytes, drops) = of_netem(&text)?;
        counts.offered_packets = packets + drops;
        counts.offered_bytes = bytes;
        // netem has one counter for both.
        counts.lost.insert("random or queue", drops);
        if self.policed {
            let text = shell::run(
                "tc",
                &format!(
                    "-n {} -s -j filter show dev {ROUTER_TO_SENDER} ingress",
                    self.router
                ),
            )?;
            let drops = of_police(&text)?;
            counts.lost.insert("policer", drops);
            counts.offered_packets += drops;
        }
        Ok(counts)
    }
}

/// What a kernel says that has no such qdisc or action.
fn unsupported(error: LabError) -> LabError {
    match error {
        LabError::Command { message, .. } => LabError::Unsupported(format!(
            "the kernel does not make this path ({}): it takes sch_netem, and act_police and cls_matchall for --policer \
             ('modprobe sch_netem' where they are modules); --emulator user does without",
            message.lines().next().unwrap_or("no reason given")
        )),
        other => other,
    }
}

/// Lines for `tc -batch`.
fn commands(path: &Path) -> String {
    let mut forward = format!(
        "qdisc replace dev {ROUTER_TO_RECEIVER} root handle 1: netem limit {} rate {}bit",
        path.limit_packets(),
        path.rate_bps
    );
    let percent = |share: f64| format!("{:.6}%", share * 100.0);
    // One model of loss a netem: with both, the second stands before the first.
    if path.burst_loss > 0.0 {
        let (to_bad, to_good) = burst_odds(path.burst_loss);
        let _ = write!(
            forward,
            " loss gemodel {} {} {} 0%",
            percent(to_bad),
            percent(to_good),
            percent(BURST_LOSS)
        );
    } else if path.loss > 0.0 {
        let _ = write!(forward, " loss random {}", percent(path.loss));
    }
    if path.ecn {
        forward.push_str(" ecn");
    }
    let mut back = format!(
        "qdisc replace dev {ROUTER_TO_SENDER} root handle 2: netem limit {BACK_PACKETS} delay {}us",
        path.rtt.as_micros()
    );
    if !path.jitter.is_zero() {
        let _ = write!(back, " {}us", path.jitter.as_micros());
    }
    if !path.ack_batch.is_zero() {
        let every = path.ack_batch.as_micros();
        let _ = write!(back, " slot {every}us {every}us");
    }
    let mut lines = format!("{forward}\n{back}\n");
    if let Some(policer) = path.policer {
        let _ = write!(
            lines,
            "qdisc add dev {ROUTER_TO_SENDER} handle ffff: ingress\n\
             filter add dev {ROUTER_TO_SENDER} parent ffff: protocol all prio 1 matchall action police rate {}bit burst {} \
             conform-exceed drop\n",
            policer.rate_bps, policer.burst_bytes
        );
    }
    lines
}

fn unreadable(what: &str) -> LabError {
    LabError::Command {
        command: "tc -s -j".to_owned(),
        message: format!("its output has no {what}: iproute2 is too old, or too new"),
    }
}

/// Packets and bytes that left, packets lost.
fn of_netem(text: &str) -> Result<(u64, u64, u64), LabError> {
    let value: Value = serde_json::from_str(text).map_err(|_| unreadable("JSON"))?;
    let qdiscs = value.as_array().ok_or_else(|| unreadable("list"))?;
    let netem = qdiscs
        .iter()
        .find(|qdisc| qdisc["kind"] == "netem")
        .ok_or_else(|| unreadable("netem"))?;
    let number = |key: &str| netem[key].as_u64().ok_or_else(|| unreadable(key));
    Ok((number("packets")?, number("bytes")?, number("drops")?))
}

fn of_police(text: &str) -> Result<u64, LabError> {
    let value: Value = serde_json::from_str(text).map_err(|_| unreadable("JSON"))?;
    let filters = value.as_array().ok_or_else(|| unreadable("list"))?;
    let actions = filters
        .iter()
        .filter_map(|filter| filter["options"]["actions"].as_array())
        .flatten();
    actions
        .filter(|action| action["kind"] == "police")
        .find_map(|action| action["stats"]["drops"].as_u64())
        .ok_or_else(|| unreadable("drops of the policer"))
}

impl Emulator for Kernel {
    fn kind(&self) -> Kind {
        Kind::Kernel
    }

    fn description(&self) -> String {
        let police = if self.policed { " and police" } else { "" };
        format!("the kernel's netem{police} on the router")
    }

    fn begin(&mut self) -> Result<(), LabError> {
        self.before = self.total()?;
        Ok(())
    }

    fn counts(&mut self) -> Result<Counts, LabError> {
        let mut counts = self.total()?;
        counts.offered_packets -= self.before.offered_packets.min(counts.offered_packets);
        counts.offered_bytes -= self.before.offered_bytes.min(counts.offered_bytes);
        for (cause, lost) in &mut counts.lost {
            *lost -= self.before.lost.get(cause).copied().unwrap_or(0).min(*lost);
        }
        Ok(counts)
    }

    fn losses(&mut self) -> Option<Vec<Drop>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::path::{Buffer, policer};
    use std::time::Duration;

    #[test]
    fn the_published_lines() {
        let mut path = Path {
            rate_bps: 100_000_000,
            rtt: Duration::from_millis(40),
            buffer: Buffer::Packets(331),
            loss: 0.0,
            burst_loss: 0.0,
            jitter: Duration::ZERO,
            policer: None,
            ack_batch: Duration::ZERO,
            ecn: false,
            seed: 1,
        };
        assert_eq!(
            commands(&path),
            "qdisc replace dev r-rcv root handle 1: netem limit 331 rate 100000000bit\n\
             qdisc replace dev r-snd root handle 2: netem limit 1000000 delay 40000us\n"
        );
        path.loss = 0.01;
        path.policer = Some(policer("10mbit/100k").unwrap());
        path.ack_batch = Duration::from_millis(4);
        let lines = commands(&path);
        assert!(lines.contains(" loss random 1.000000%\n"), "{lines}");
        assert!(lines.contains("slot 4000us 4000us\n"), "{lines}");
        assert!(lines.contains("police rate 10000000bit burst 102400 conform-exceed drop\n"));
        (path.loss, path.burst_loss) = (0.0, 0.01);
        assert!(commands(&path).contains("loss gemodel 0.362319% 25.000000% 70.000000% 0%"));
    }

    #[test]
    fn counters_of_tc_are_read_or_refused() {
        let text = r#"[{"kind":"netem","handle":"1:","bytes":151400,"packets":100,"drops":7}]"#;
        assert_eq!(of_netem(text).unwrap(), (100, 151_400, 7));
        for wrong in ["", "{}", "[]", r#"[{"kind":"netem","bytes":1}]"#] {
            assert!(of_netem(wrong).is_err(), "{wrong}");
        }
        let text = r#"[{"kind":"matchall"},{"kind":"matchall","options":{"actions":[{"kind":"police","stats":{"drops":9}}]}}]"#;
        assert_eq!(of_police(text).unwrap(), 9);
        assert!(of_police("[]").is_err());
    }
}
