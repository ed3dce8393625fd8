//! What the detectors cost at many flows: CPU time ÷ the events' time.

use anyhow::{Result, bail};
use observer::detect::Detector;
use observer::event::{Event, FlowId, Payload};
use observer::source::script;
use observer::units::Mono;
use rustix::time::{ClockId, clock_gettime};

use crate::common::bar;

const FLOWS: u64 = 20_000;
/// Samples a second of all flows together (SPEC §9), and for how long.
const SAMPLES: u64 = 100_000;
const SECONDS: u64 = 20;
/// Of a flow's samples one in so many brings a retransmission, for one flow in `LOSSY`.
const EACH: u64 = 10;
const LOSSY: u64 = 10;

pub fn measure() -> Result<()> {
    let text = "opened 1 local=10.0.0.1:5201 remote=10.0.0.2:40000\n\
                sample 1 cause=ack mss=1448 rtt=40ms min_rtt=40ms\n\
                retransmit 1 segments=1 bytes=1448 kind=fast";
    let blank = script::parse(text)?;
    let [opened, sample, retransmit] = blank.as_slice() else {
        bail!("a script of three lines gave {} events", blank.len());
    };
    let mut detector = Detector::default();
    for flow in 0..FLOWS {
        let mut event = of(opened, flow, 0);
        if let Payload::Opened(opened) = &mut event.payload {
            let [high, low] = [(flow / 250) as u8, (flow % 250) as u8];
            opened.remote.set_ip([10, 1, high, low].into());
        }
        detector.apply(&event);
    }
    let began = cpu_seconds();
    let mut told = 0;
    let total = SAMPLES * SECONDS;
    for number in 0..total {
        let flow = number % FLOWS;
        let round = number / FLOWS;
        let time = number * 1_000_000_000 / SAMPLES;
        let mut event = of(sample, flow, time);
        if let Payload::Sample(sample) = &mut event.payload {
            let una = (round as u32).wrapping_mul(14_480);
            sample.snd_una = Some(una);
            sample.snd_nxt = Some(una.wrapping_add(100_000));
            sample.delivered = Some(round as u32);
        }
        detector.apply(&event);
        if flow.is_multiple_of(LOSSY) && (round + flow / LOSSY).is_multiple_of(EACH) {
            let mut event = of(retransmit, flow, time);
            if let Payload::Retransmit(retransmit) = &mut event.payload {
                let seq = (round as u32).wrapping_mul(14_480);
                (retransmit.seq, retransmit.end_seq) = (Some(seq), Some(seq.wrapping_add(1448)));
            }
            detector.apply(&event);
        }
        if number.is_multiple_of(SAMPLES / 2) {
            told += detector.judge(Mono(time)).len();
        }
    }
    let share = (cpu_seconds() - began) / SECONDS as f64 * 100.0;
    println!(
        "\ncost: {FLOWS} flows, {SAMPLES} samples/s, {} of them with losses; {told} verdicts told, {} points kept",
        FLOWS / LOSSY,
        detector.points()
    );
    bar("detectors, share of one core", share, 30.0, " %");
    Ok(())
}

fn of(event: &Event, flow: u64, time: u64) -> Event {
    let mut event = event.clone();
    event.time = Mono(time);
    event.flow = event.flow.map(|id| FlowId {
        cookie: flow + 1,
        ..id
    });
    event
}

/// CPU time of this thread: other work on the machine does not count.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
