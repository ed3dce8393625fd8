//! The last minute of a flow: what falls into which second, and what stands out.

use std::fmt::Write as _;

use observer::model::Model;
use observer::source::script;

fn fold(text: &str) -> Model {
    let mut model = Model::default();
    for event in script::parse(text).expect("a script") {
        model.apply(&event);
    }
    model
}

fn acked(model: &Model, count: usize) -> Vec<Option<u64>> {
    let flow = model.flows().next().expect("a flow");
    model.seconds(flow, count).map(|s| s.acked).collect()
}

#[test]
fn bytes_fall_into_their_seconds() {
    let model = fold(
        "@10s opened 1\n+0 sample 1 bytes_acked=0 bytes_sent=0 bytes_retrans=0\n\
         +500ms sample 1 bytes_acked=500 bytes_sent=500\n+1s sample 1 bytes_acked=1500\n\
         +1s sample 1 bytes_acked=1600\n+600ms tick\n",
    );
    // Half of the thousand before 11 s and half after; half of the hundred before 12 s.
    // 550 is kept to half a per cent; the beginning of the first second is not known.
    assert_eq!(acked(&model, 4), [None, None, Some(548), Some(50)]);
}

#[test]
fn silence_is_nothing_and_the_time_before_is_unknown() {
    let model = fold(
        "@10s opened 1\n+0 sample 1 bytes_acked=7000 bytes_sent=0 bytes_retrans=0\n+5s tick\n",
    );
    assert_eq!(
        acked(&model, 6),
        [None, None, Some(0), Some(0), Some(0), Some(0)]
    );
    // What comes after a long silence came in its last second.
    let model = fold(
        "@10s opened 1\n+0 sample 1 bytes_acked=0 bytes_sent=0 bytes_retrans=0\n\
         +100s sample 1 bytes_acked=64\n+1s tick\n",
    );
    assert_eq!(acked(&model, 3), [Some(0), Some(64), Some(0)]);
}

#[test]
fn a_spike_stands_out_from_the_usual() {
    let steady = |rate: u32, seconds: u32| {
        let mut text =
            "@10s opened 1\n+0 sample 1 bytes_acked=0 bytes_sent=0 bytes_retrans=0\n".to_owned();
        for n in 1..=seconds {
            let sent = n * 100_000;
            writeln!(
                text,
                "+1s sample 1 bytes_sent={sent} bytes_retrans={}",
                n * rate
            )
            .expect("text");
        }
        text
    };
    let spike = |text: &str| {
        let model = fold(text);
        let flow = model.flows().next().expect("a flow");
        model.is_spike(flow)
    };
    let burst = |sent: u32, retrans: u32| {
        format!("+1s sample 1 bytes_sent={sent} bytes_retrans={retrans}\n")
    };
    assert!(!spike(&steady(2000, 20)), "2 % as ever");
    assert!(
        spike(&(steady(0, 20) + &burst(2_100_000, 1000))),
        "1 % after nothing"
    );
    assert!(!spike(&(steady(0, 20) + &burst(2_100_000, 900))), "0.9 %");
    assert!(
        spike(&(steady(1000, 20) + &burst(2_100_000, 23_100))),
        "3.1 % after 1 %"
    );
    assert!(
        !spike(&(steady(1000, 20) + &burst(2_100_000, 22_500))),
        "2.5 % after 1 %"
    );
    assert!(!spike(&steady(50_000, 1)), "nothing to compare with");
    let over = steady(0, 20) + &burst(2_100_000, 5000) + "+3s tick\n";
    assert!(!spike(&over), "it is over");
}

#[test]
fn a_reading_from_before_the_flow_was_told_of_does_no_harm() {
    let mut events = script::parse(
        "@5s opened 1 birth=yes\n+0 sample 1 bytes_acked=10 bytes_sent=10 bytes_retrans=0\n+3s tick\n",
    )
    .expect("a script");
    events[1].time.0 = 2_500_000_000;
    let mut model = Model::default();
    for event in &events {
        model.apply(event);
    }
    let known = acked(&model, 8).into_iter().flatten().sum::<u64>();
    assert_eq!(known, 10);
}
