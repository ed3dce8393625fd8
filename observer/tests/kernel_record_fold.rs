//! A recording of real flows tells what was seen while it was made: to the letter what the live fold told, and between its
//! samples what other programs read meanwhile.

mod common;
#[path = "common/sender.rs"]
mod sender;
#[path = "common/ss.rs"]
mod ss;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Netns, needs};
use observer::event::{Event, Payload};
use observer::export::jsonl::{Context, flow_object};
use observer::kernel::load::Options;
use observer::model::Model;
use observer::record::{Environment, Files, Reader, Target};
use observer::source::Source as _;
use observer::source::live::{Live, LiveOptions};
use sender::{Flow, Make, Over};
use serde_json::Value;

/// All that is told of all flows.
fn told(model: &Model) -> Vec<String> {
    let context = Context::default();
    let flows = model.flows();
    flows
        .map(|flow| serde_json::to_string(&flow_object(model, flow, &context)).expect("JSON"))
        .collect()
}

/// What the live fold told after so many events.
struct Moment {
    events: u64,
    told: Vec<String>,
}

/// Records and folds until told to stop; what was told on the way.
fn live(ns: &Netns, path: &std::path::Path, stop: &AtomicBool) -> Vec<Moment> {
    let options = LiveOptions {
        kernel: Options {
            netns: Some(ns.inum()),
            ..Options::default()
        },
        namespaces: vec![ns.namespace()],
        ..LiveOptions::default()
    };
    let mut live = Live::start(&options).expect("the programs load");
    let handle = live.handle();
    let mut files = Files::create(Target {
        path: path.to_owned(),
        dir: None,
        force: false,
        owner: None,
        max_size: None,
        environment: Environment::default(),
    })
    .expect("a file");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let (mut model, mut moments, mut events) = (Model::default(), Vec::new(), 0);
    let mut batches = 0;
    while let Some(batch) = runtime.block_on(live.next()).expect("live does not fail") {
        for event in &batch {
            model.apply(event);
            files.push(event).expect("written");
        }
        events += batch.len() as u64;
        batches += 1;
        if batches % 4 == 0 {
            let told = told(&model);
            moments.push(Moment { events, told });
        }
        if stop.load(Ordering::Relaxed) {
            handle.stop();
        }
    }
    let told = told(&model);
    moments.push(Moment { events, told });
    files.finish().expect("closed");
    moments
}

/// `bytes_acked` of the sender's socket as the recording has it: moment and value.
fn acked(events: &[Event], cookie: u64) -> Vec<(u64, u64)> {
    let of_it = events
        .iter()
        .filter(|event| event.flow.is_some_and(|flow| flow.cookie == cookie));
    of_it
        .filter_map(|event| match &event.payload {
            Payload::Sample(sample) => Some((event.time.0, sample.bytes_acked?)),
            _ => None,
        })
        .collect()
}

#[test]
fn the_fold_of_the_recording_is_the_live_one_while_others_look_too() {
    needs!("ip", "tc");
    // Shallow: it loses.
    let path_between = sender::Path::new("50mbit", "30000");
    let ns = &path_between.snd;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.mcap");
    let stop = AtomicBool::new(false);
    let (moments, polls, cookies) = std::thread::scope(|scope| {
        let recorder = scope.spawn(|| live(ns, &path, &stop));
        std::thread::sleep(Duration::from_millis(300));
        let mut cookies = Vec::new();
        let mut polls: Vec<Value> = Vec::new();
        let flows: Vec<_> = ["cubic", "reno"]
            .into_iter()
            .map(|cc| Flow::start(&path_between, Make::new(cc, Over::V4)))
            .collect();
        cookies.extend(flows.iter().map(|flow| flow.cookies()[0]));
        for _ in 0..20 {
            polls.extend(sender::list(ns, "0"));
            std::thread::sleep(Duration::from_millis(100));
        }
        drop(flows);
        std::thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        let moments = recorder.join().expect("no panic");
        (moments, polls, cookies)
    });
    assert!(moments.len() > 10);

    let mut reader = Reader::open(&path).expect("a recording");
    let (mut model, mut events) = (Model::default(), Vec::new());
    let mut rest = moments.iter().peekable();
    while let Some(batch) = reader.batch().expect("readable") {
        for event in batch {
            model.apply(&event);
            events.push(event);
            let count = events.len() as u64;
            // Several moments at the same count: batches may be empty.
            while let Some(moment) = rest.next_if(|moment| moment.events == count) {
                assert_eq!(told(&model), moment.told, "after {count} events");
            }
        }
    }
    assert!(reader.ending().expect("the end").is_complete());
    assert!(rest.next().is_none(), "all moments came");
    assert!(
        events
            .iter()
            .any(|e| matches!(e.payload, Payload::Retransmit(_)))
    );

    // What `list --json` read lies between the samples before and after it.
    let mut compared = 0;
    for cookie in cookies {
        let samples = acked(&events, cookie);
        for row in polls.iter().filter(|row| row["flow"]["cookie"] == cookie) {
            let (at, value) = (row["mono_ns"].as_u64(), row["bytes_acked"].as_u64());
            let (Some(at), Some(value)) = (at, value) else {
                continue;
            };
            // The dump's moment is that of its end.
            let before = samples.iter().rfind(|(time, _)| *time + 50_000_000 < at);
            let after = samples.iter().find(|(time, _)| *time > at);
            if let (Some((_, least)), Some((_, most))) = (before, after) {
                assert!((least..=most).contains(&&value), "{least} {value} {most}");
                compared += 1;
            }
        }
    }
    assert!(compared > 10, "{compared} readings");
}
