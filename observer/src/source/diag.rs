//! The reduced source: socket-diag, polled. The same events as the programs give, as far as polling can tell.
//!
//! What is missing is [`MISSING`]: flows and retransmissions between two polls are seen late or not at all,
//! retransmissions have no kind and no sequence number, a flow's last figures are those of the last poll (TRAPS 17).

mod poller;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tokio::sync::mpsc;

use super::{Info, Source, SourceError, SourceKind};
use crate::event::{Event, Origin};
use crate::host::netns::Namespace;
use crate::kernel::clock;
use poller::Poller;

const MAX_BATCHES: usize = 8;

/// What polling cannot tell, said once at the start.
pub const MISSING: &str = "socket-diag is polled, every 200 ms: without a sample per ACK, the latest unsmoothed RTT, \
                           kinds, sequence numbers and failures of retransmissions, events and flows between two \
                           polls, the last figures of a flow that ends, and the phase and version of BBRv1";

/// Why some flows have no owner.
pub const OWNERS_DENIED: &str =
    "the owners of other users' sockets are not visible: run as root, or with CAP_SYS_PTRACE";

/// What to poll.
#[derive(Clone, Debug, Default)]
pub struct PolledOptions {
    pub namespaces: Vec<Namespace>,
    /// These are all: none is elsewhere.
    pub everywhere: bool,
    /// Why this source was taken, where that was not asked for.
    pub reason: Option<String>,
}

/// Steers a running source from elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Handle {
    stop: Arc<AtomicBool>,
    poll: Arc<AtomicBool>,
}

impl Handle {
    /// Ends the source; after one more poll if that was asked for before.
    pub fn stop(&self) {
        // After what was asked for before.
        self.stop.store(true, Ordering::Release);
    }

    /// Poll now.
    pub fn poll(&self) {
        self.poll.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn is_asked(&self) -> bool {
        self.poll.load(Ordering::Relaxed)
    }
}

/// The host's flows by polling.
#[derive(Debug)]
pub struct Polled {
    info: Info,
    handle: Handle,
    batches: mpsc::Receiver<Vec<Event>>,
    thread: Option<JoinHandle<()>>,
}

impl Polled {
    /// Starts polling.
    pub fn start(options: PolledOptions) -> std::io::Result<Self> {
        let handle = Handle::default();
        let (sender, batches) = mpsc::channel(MAX_BATCHES);
        let poller = Poller::new(options);
        let its = handle.clone();
        let thread = std::thread::Builder::new()
            .name("observer-diag".to_owned())
            .spawn(move || poller.run(&its, &sender))?;
        Ok(Self {
            info: Info {
                kind: SourceKind::Live,
                origin: Some(Origin::Diag),
                name: "socket-diag".to_owned(),
                wall_offset_ns: i64::try_from(clock::wall_offset_ns()).ok(),
            },
            handle,
            batches,
            thread: Some(thread),
        })
    }

    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        self.handle.stop();
        self.batches.close();
        while self.batches.try_recv().is_ok() {}
        if let Some(thread) = self.thread.take() {
            // A panic over there was reported by its own hook.
            let _ = thread.join();
        }
    }
}

impl Source for Polled {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn next(&mut self) -> Result<Option<Vec<Event>>, SourceError> {
        Ok(self.batches.recv().await)
    }
}
