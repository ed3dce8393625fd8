//! Events on their way from a source's thread to the fold: so many at most, whatever the size of a batch.

use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::event::Event;

/// A batch of more events goes in parts …
const PART: usize = 8192;
/// … of which so many may wait: 10,000 connections that come and go at once (160,000 events), some 100 MB if all are
/// samples. When the fold is further behind, the thread blocks, the ring is not drained, and the programs count what they drop.
const PARTS: usize = 32;

pub type Events = Vec<Event>;

pub fn queue() -> (Sender<Events>, Receiver<Events>) {
    mpsc::channel(PARTS)
}

/// Waits until there is room. An error when nobody takes them any more.
pub fn send(sender: &Sender<Events>, batch: Events) -> Result<(), ()> {
    let send = |part| sender.blocking_send(part).map_err(|_| ());
    if batch.len() <= PART {
        return send(batch);
    }
    let mut rest = batch.into_iter();
    while rest.len() > 0 {
        send(rest.by_ref().take(PART).collect())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Payload;
    use crate::units::Mono;

    #[test]
    fn a_large_batch_goes_in_parts_and_in_order() {
        let event = |n| Event {
            time: Mono(n),
            flow: None,
            payload: Payload::Tick,
        };
        let most = PART * PARTS;
        let (sender, mut receiver) = queue();
        let count = most as u64 + 5;
        let thread = std::thread::spawn(move || send(&sender, (0..count).map(event).collect()));
        let mut times = Vec::new();
        while let Some(part) = receiver.blocking_recv() {
            assert!(part.len() <= PART && receiver.len() <= PARTS);
            times.extend(part.iter().map(|event| event.time.0));
        }
        assert_eq!(thread.join().unwrap(), Ok(()));
        assert_eq!(times, (0..count).collect::<Vec<_>>());
        drop(receiver);
    }

    #[test]
    fn nobody_to_take_them_is_told() {
        let (sender, receiver) = queue();
        drop(receiver);
        assert_eq!(send(&sender, Vec::new()), Err(()));
    }
}
