//! Standing at moments of a recording: however one came to a moment, the model is the fold of the file up to there.

mod record_support;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use observer::event::{Event, Payload};
use observer::model::{Fold, Mark, MarkKind, Model};
use observer::playback::{Player, Span};
use observer::record::{How, Reader};
use observer::units::Mono;
use proptest::prelude::*;
use record_support::{Draw, written};

/// As many events as are folded at once on the screen, about.
const SLICE: usize = 37;

fn file(dir: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join("a.mcap");
    std::fs::write(&path, bytes).expect("written");
    path
}

fn events(path: &Path) -> Vec<Event> {
    let mut reader = Reader::open(path).expect("a recording");
    let mut events = Vec::new();
    while let Some(batch) = reader.batch().expect("read") {
        events.extend(batch);
    }
    events
}

/// The fold of the events up to `time`.
fn fold(events: &[Event], time: Mono) -> Model {
    let mut fold = Fold::default();
    for event in events.iter().take_while(|event| event.time <= time) {
        fold.apply(event);
    }
    fold.judge_until(time);
    let mut model = fold.into_model();
    drop(model.take_derived());
    model
}

fn go(player: &mut Player, to: Mono) {
    player.seek(to).expect("sought");
    while !player.forward(to, SLICE).expect("read") {}
    // What was not judged yet is taken in later, and put in its place by the next seek.
    wait_scanned(player);
    assert!(player.forward(to, SLICE).expect("read"));
    player.seek(to).expect("sought");
    while !player.forward(to, SLICE).expect("read") {}
}

/// Everything that a model knows, its past too.
fn all(model: &Model) -> String {
    format!("{model:?}")
}

fn wait_scanned(player: &Player) {
    while player.found().ending.is_none() {
        thread::sleep(Duration::from_millis(1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_seek_is_the_fold_up_to_there(
        seed in any::<u64>(),
        count in 1_usize..600,
        step in 1_000_000_u64..40_000_000,
        places in proptest::collection::vec(0_u64..=1000, 1..12),
        scanned in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().expect("a place");
        let path = file(&dir, &written(&Draw::new(seed).events(count, step)));
        let events = events(&path);
        let mut player = Player::open(&path).expect("opened");
        if scanned {
            wait_scanned(&player);
        }
        let Span { first, last } = player.span();
        for place in places {
            let time = Mono(first.0 + (last.0 - first.0) / 1000 * place);
            go(&mut player, time);
            prop_assert_eq!(all(player.model()), all(&fold(&events, time)));
        }
        go(&mut player, last);
        prop_assert_eq!(all(player.model()), all(&fold(&events, last)));
    }
}

/// A tick per millisecond, and losses told at some of them: long enough for many models to be kept.
fn long(count: u64) -> Vec<Event> {
    let mut draw = Draw::new(7);
    (1..=count)
        .map(|n| {
            let time = Mono(n * 1_000_000);
            if n.is_multiple_of(10_000) {
                let gap = observer::event::Gap { missing: 3 };
                let payload = Payload::Gap(gap);
                return Event {
                    time,
                    flow: None,
                    payload,
                };
            }
            if n.is_multiple_of(500) {
                return draw.event(time);
            }
            Event {
                time,
                flow: None,
                payload: Payload::Tick,
            }
        })
        .collect()
}

#[test]
fn seeks_from_kept_models_are_folds_too() {
    let dir = tempfile::tempdir().expect("a place");
    let events = long(120_000);
    let path = file(&dir, &written(&events));
    for budget in [usize::MAX, 4 << 20, 0] {
        let mut player = Player::within(&path, budget).expect("opened");
        wait_scanned(&player);
        let (kept, weight) = player.found().keyframes.size();
        assert!(weight <= budget);
        assert_eq!(kept > 0, budget > 0, "{budget}");
        for second in [90, 20, 119, 30, 31, 0, 70, 120] {
            let time = Mono(second * 1_000_000_000);
            go(&mut player, time);
            assert_eq!(all(player.model()), all(&fold(&events, time)), "{second}");
        }
    }
}

#[test]
fn moments_are_found_in_the_whole_file() {
    let dir = tempfile::tempdir().expect("a place");
    let path = file(&dir, &written(&long(100_000)));
    let player = Player::open(&path).expect("opened");
    wait_scanned(&player);
    let found = player.found();
    let losses = found.marks.of_kind(MarkKind::Loss);
    // One soon after another is part of it: the moment is where it began.
    for gap in (1..=10).map(|n| n * 10_000_000_000) {
        let begun = gap - 10_000_000_000;
        let told = |mark: &&Mark| mark.flow.is_none() && (begun + 1..=gap).contains(&mark.time.0);
        assert!(losses.iter().any(|mark| told(&mark)), "{gap}: {losses:?}");
    }
    assert!(found.ending.as_ref().is_some_and(|ending| {
        ending
            .as_ref()
            .is_ok_and(observer::record::Ending::is_complete)
    }));
}

#[test]
fn a_torn_file_is_played_as_far_as_it_goes() {
    let dir = tempfile::tempdir().expect("a place");
    let whole = written(&long(20_000));
    for part in [2, 3, 5] {
        let path = file(&dir, &whole[..whole.len() / part]);
        let mut player = Player::open(&path).expect("opened");
        wait_scanned(&player);
        assert!(!player.is_indexed());
        let ending = player.found().ending.clone().expect("done").expect("read");
        assert!(matches!(ending.how, How::Truncated { .. }));
        let last = player.span().last;
        let events = events(&path);
        assert_eq!(Some(last), events.last().map(|event| event.time));
        go(&mut player, Mono(u64::MAX));
        assert!(player.is_at_end());
        assert_eq!(player.model().now(), last);
    }
}

#[test]
fn a_file_without_events_is_opened() {
    let dir = tempfile::tempdir().expect("a place");
    let path = file(&dir, &written(&[]));
    let mut player = Player::open(&path).expect("opened");
    assert_eq!(player.span(), Span::default());
    go(&mut player, Mono(5));
    assert!(player.is_at_end());
}
