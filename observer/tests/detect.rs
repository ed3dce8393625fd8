//! Verdicts over simulated paths with known truth: the guard rails of DETECTION §2.6, and that causes are found.

mod detect_support;

use detect_support::{Path, Sender, World};
use observer::detect::{Class, Detector, Verdict};
use observer::event::{Event, Payload};
use proptest::prelude::*;

fn detect(events: &[Event]) -> Verdict {
    let mut detector = Detector::default();
    for event in events {
        detector.apply(event);
    }
    let mut verdicts = detector.verdicts();
    assert_eq!(verdicts.len(), 1, "one peer");
    verdicts.remove(0)
}

fn events(path: Path, sender: Sender, flows: usize, seconds: f64) -> Vec<Event> {
    World::new(path, &vec![sender; flows]).run(seconds)
}

/// 20 Mbit/s, 40 ms, a buffer of 4 BDP.
fn path(seed: u64) -> Path {
    Path {
        rate: 20e6,
        rtt_ms: 40.0,
        buffer_bdp: 4.0,
        seed,
        ..Path::default()
    }
}

/// What is told of one run, for a failed assertion.
fn told(verdict: &Verdict) -> String {
    format!(
        "{:?} by {:?}\n  {}",
        verdict.class,
        verdict.rule,
        verdict.evidence.join("\n  ")
    )
}

#[test]
fn random_loss_accuses_nobody() {
    let mut found = 0;
    for sender in [Sender::Aimd, Sender::Bbr] {
        for (flows, loss) in [(1, 0.002), (1, 0.02), (4, 0.005), (4, 0.05), (8, 0.02)] {
            let path = Path {
                loss,
                ..path(flows as u64)
            };
            let verdict = detect(&events(path, sender, flows, 10.0));
            assert!(
                matches!(
                    verdict.class,
                    Class::RandomLoss
                        | Class::BurstyLoss
                        | Class::QueueStartup
                        | Class::Insufficient
                ),
                "{sender:?} {flows} {loss}: {}",
                told(&verdict)
            );
            if verdict.class == Class::RandomLoss {
                found += 1;
                let share = verdict.random_loss.expect("its share");
                assert!((0.6..1.6).contains(&(share / loss)), "{share} of {loss}");
            }
        }
    }
    assert!(found >= 8, "{found} of 10");
}

#[test]
fn bursts_without_a_cause_are_no_policer() {
    for sender in [Sender::Aimd, Sender::Bbr] {
        for (flows, bursts) in [(1, 0.0025), (4, 0.001), (4, 0.0025)] {
            let path = Path { bursts, ..path(5) };
            let verdict = detect(&events(path, sender, flows, 12.0));
            assert!(
                !matches!(verdict.class, Class::Policer) && !verdict.class.is_queue(),
                "{sender:?} {flows} {bursts}: {}",
                told(&verdict)
            );
        }
    }
}

#[test]
fn queues_are_found_with_their_depth() {
    for (flows, buffer_bdp) in [(1, 0.25), (1, 0.5), (4, 0.25), (4, 0.7)] {
        let path = Path {
            buffer_bdp,
            ..path(2)
        };
        let verdict = detect(&events(path, Sender::Aimd, flows, 15.0));
        assert_eq!(
            verdict.class,
            Class::QueueShallow,
            "{flows} {buffer_bdp}: {}",
            told(&verdict)
        );
        let depth = verdict.buffer_bdp.expect("its depth");
        assert!(
            (0.85..1.1).contains(&(depth / buffer_bdp)),
            "{depth} of {buffer_bdp}"
        );
    }
    for buffer_bdp in [1.4, 3.0] {
        let path = Path {
            buffer_bdp,
            ..path(3)
        };
        let verdict = detect(&events(path, Sender::Aimd, 4, 20.0));
        let expected = if buffer_bdp > 2.0 {
            Class::QueueDeep
        } else {
            Class::Queue
        };
        assert_eq!(verdict.class, expected, "{buffer_bdp}: {}", told(&verdict));
    }
}

#[test]
fn policers_are_found_with_their_rate() {
    for (flows, depth) in [(1, 100e3), (1, 300e3), (4, 15e3), (4, 100e3)] {
        let path = Path {
            policer: Some((10e6, depth)),
            ..path(4)
        };
        let verdict = detect(&events(path, Sender::Aimd, flows, 20.0));
        assert_eq!(
            verdict.class,
            Class::Policer,
            "{flows} {depth}: {}",
            told(&verdict)
        );
        let rate = verdict.rate_bps.expect("its rate") as f64;
        assert!(
            (0.93..1.07).contains(&(rate / 10e6)),
            "{rate}: {}",
            told(&verdict)
        );
    }
}

#[test]
fn a_lone_flow_in_two_bdp_is_no_policer() {
    let path = Path {
        buffer_bdp: 2.0,
        ..path(6)
    };
    let verdict = detect(&events(path, Sender::Aimd, 1, 20.0));
    assert_ne!(verdict.class, Class::Policer, "{}", told(&verdict));
}

#[test]
fn nothing_lost_is_no_verdict_on_loss() {
    let verdict = detect(&events(path(7), Sender::App(2e6), 1, 10.0));
    assert_eq!(verdict.class, Class::None, "{}", told(&verdict));
    let short = detect(&events(path(7), Sender::Aimd, 1, 0.7));
    assert!(
        matches!(short.class, Class::Insufficient | Class::QueueStartup),
        "{}",
        told(&short)
    );
}

/// Sampled at half of the ACKs, the same is found.
#[test]
fn every_second_sample_is_enough() {
    let paths = [
        Path {
            buffer_bdp: 0.5,
            ..path(8)
        },
        Path {
            loss: 0.01,
            ..path(8)
        },
        Path {
            policer: Some((10e6, 100e3)),
            ..path(8)
        },
    ];
    for path in paths {
        let all = events(path, Sender::Aimd, 2, 15.0);
        let mut odd = false;
        let half: Vec<Event> = all
            .iter()
            .filter(|event| {
                odd ^= matches!(event.payload, Payload::Sample(_));
                odd || !matches!(event.payload, Payload::Sample(_))
            })
            .cloned()
            .collect();
        let (all, half) = (detect(&all), detect(&half));
        assert_eq!(all.class, half.class, "{}\n{}", told(&all), told(&half));
    }
}

/// Judged twice a second, as a live user does.
fn live(events: &[Event]) -> (Detector, Vec<Verdict>) {
    let mut detector = Detector::default();
    let mut told = Vec::new();
    let mut due = 0;
    for event in events {
        if event.time.0 >= due {
            due = event.time.0 + 500_000_000;
            told.extend(detector.judge(event.time));
        }
        detector.apply(event);
    }
    (detector, told)
}

/// Found twice before it holds, and from then on without a word of anything else.
#[test]
fn a_live_verdict_settles_and_stays() {
    let path = Path {
        policer: Some((10e6, 100e3)),
        ..path(4)
    };
    let events = events(path, Sender::Aimd, 2, 10.0);
    let (detector, told) = live(&events);
    let first = told
        .iter()
        .position(|verdict| verdict.class == Class::Policer)
        .expect("found");
    assert!(
        told[first..].iter().all(|v| v.class == Class::Policer),
        "{:?}",
        told.iter().map(|v| v.class).collect::<Vec<_>>()
    );
    let held = detector.holds(told[0].peer).expect("it holds");
    assert_eq!(held.class, detect(&events).class, "as over the recording");
}

/// What held at the end of a recording no longer than the window is what its replay says at once.
#[test]
fn live_at_the_end_and_the_whole_recording_agree() {
    let paths = [
        Path {
            buffer_bdp: 0.5,
            ..path(11)
        },
        Path {
            loss: 0.01,
            ..path(12)
        },
        Path {
            bursts: 0.0025,
            ..path(13)
        },
        Path {
            policer: Some((8e6, 60e3)),
            ..path(14)
        },
    ];
    for path in paths {
        for sender in [Sender::Aimd, Sender::Bbr] {
            let events = events(path, sender, 2, 9.0);
            let whole = detect(&events);
            let (detector, told) = live(&events);
            let held = detector.holds(whole.peer).expect("something holds");
            let at_end = told.iter().rev().take(4).map(|verdict| verdict.class);
            // Right after a change the old one still holds.
            if whole.confidence >= 0.7 && at_end.clone().all(|class| class == held.class) {
                assert_eq!(
                    held.class,
                    whole.class,
                    "{path:?} {sender:?}: {}",
                    told_of(&told)
                );
            }
        }
    }
}

fn told_of(told: &[Verdict]) -> String {
    let words: Vec<&str> = told.iter().map(|verdict| verdict.class.as_str()).collect();
    words.join(" ")
}

/// After the losses have stopped it is kept for half a minute, and then no more.
#[test]
fn a_verdict_ends_when_losses_have_stopped() {
    let lossy = Path {
        loss: 0.02,
        ..path(3)
    };
    let mut events = events(lossy, Sender::Aimd, 1, 10.0);
    let end = events.last().expect("events").clone();
    let (mut detector, told) = live(&events);
    let class = told.last().expect("a verdict").class;
    assert_eq!(class, Class::RandomLoss);
    let Payload::Sample(last) = events
        .iter_mut()
        .rev()
        .find_map(|event| matches!(event.payload, Payload::Sample(_)).then_some(&mut event.payload))
        .expect("a sample")
    else {
        unreachable!()
    };
    let mut classes = Vec::new();
    for half in 1..120_u64 {
        let mut event = end.clone();
        event.time = observer::units::Mono(end.time.0 + half * 500_000_000);
        let mut sample = last.clone();
        sample.snd_una = sample
            .snd_una
            .map(|una| una.wrapping_add(half as u32 * 1448));
        sample.snd_nxt = sample
            .snd_nxt
            .map(|nxt| nxt.wrapping_add(half as u32 * 1448));
        event.payload = Payload::Sample(sample);
        detector.apply(&event);
        let told = detector.judge(event.time);
        classes.extend(told.into_iter().map(|verdict| (half / 2, verdict.class)));
    }
    let ended = classes
        .iter()
        .find(|(_, class)| *class != Class::RandomLoss)
        .expect("it ends");
    assert!((25..=45).contains(&ended.0), "after {} s", ended.0);
}

/// Where each address of a /24 lost too little for a verdict, all of them together may not have.
#[test]
fn neighbours_are_judged_together_where_one_lost_too_little() {
    let path = Path {
        policer: Some((10e6, 100e3)),
        ..path(4)
    };
    let mut events = events(path, Sender::Aimd, 8, 6.0);
    for event in &mut events {
        let number = event.flow.map_or(0, |id| id.cookie as u8);
        let addresses = match &mut event.payload {
            Payload::Opened(opened) => &mut opened.remote,
            Payload::Attributes(attributes) => &mut attributes.remote,
            _ => continue,
        };
        addresses.set_ip([198, 51, 100, number].into());
    }
    let mut detector = Detector::default();
    for event in &events {
        detector.apply(event);
    }
    let verdicts = detector.verdicts();
    assert_eq!(verdicts.len(), 8, "one a peer");
    let together: Vec<_> = verdicts.iter().filter(|v| v.group.is_net()).collect();
    assert!(!together.is_empty(), "{verdicts:#?}");
    for verdict in together {
        assert_eq!(verdict.group.to_string(), "198.51.100.0/24");
        assert_eq!(verdict.flows.len(), 1, "it is about the flow of its peer");
        assert_eq!(verdict.class, Class::Policer, "{}", told(verdict));
    }
}

/// Many flows take no more room than few.
#[test]
fn memory_is_shared_out() {
    let path = Path {
        loss: 0.02,
        ..path(3)
    };
    let events = events(path, Sender::Aimd, 1, 4.0);
    let mut detector = Detector::default();
    for number in 0..3000_u64 {
        for event in events.iter().take(400) {
            let mut event = event.clone();
            event.flow = event.flow.map(|id| observer::event::FlowId {
                cookie: number + 1,
                ..id
            });
            detector.apply(&event);
        }
        if number % 100 == 0 {
            detector.judge(events[399].time);
        }
    }
    assert!(
        detector.points() <= 800_000,
        "{} points are kept",
        detector.points()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Events in any order, with any numbers, give a verdict or none, and no panic.
    #[test]
    fn nonsense_is_survived(steps in prop::collection::vec((any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>(), 0..4_u8), 0..200)) {
        let blank = detect_support::blank();
        let mut detector = Detector::default();
        let mut opened = World::new(path(1), &[Sender::Bbr]).run(0.0);
        for (time, a, b, c, what) in steps {
            let payload = match what {
                0 => Payload::Closed,
                1 => {
                    let mut sample = blank.clone();
                    sample.snd_una = Some(a);
                    sample.snd_nxt = Some(b);
                    sample.rtt_us = Some(c);
                    sample.dsack_dups = Some(a ^ c);
                    sample.mss = c % 3 * 700;
                    Payload::Sample(Box::new(sample))
                }
                _ => Payload::Retransmit(detect_support::lost(a, b, c)),
            };
            let mut event = opened[0].clone();
            event.time = observer::units::Mono(time);
            event.payload = payload;
            opened.push(event);
        }
        for event in &opened {
            detector.apply(event);
        }
        for verdict in detector.judge(observer::units::Mono(u64::MAX)) {
            prop_assert!((0.0..=0.99).contains(&verdict.confidence));
        }
        for verdict in detector.verdicts() {
            prop_assert!((0.0..=0.99).contains(&verdict.confidence));
        }
    }
}
