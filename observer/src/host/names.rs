//! Names of addresses, by the system's resolver in the background: who asks is never kept waiting.
//!
//! A resolver may take half a minute to say that it does not know. So [`Names::get`] tells what is known now and has
//! the rest looked up by a few threads, whose queue and memory are bounded. What was found out is kept for a while,
//! failures too. Names are what somebody else wrote into the DNS: escape before showing (TRAPS 30).

#![expect(
    clippy::disallowed_methods,
    reason = "the age of a name is of this host, not of the events"
)]

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Characters of a name at most: what a DNS name may have.
const LONGEST: usize = 253;

/// Bounds.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Look-ups at a time.
    pub threads: usize,
    /// Addresses that wait for one; when as many wait, more are not taken in, and asked for again by who shows them.
    pub queue: usize,
    /// Addresses remembered.
    pub kept: usize,
    /// How long a name holds.
    pub keep: Duration,
    /// How long it holds that there is none.
    pub keep_failure: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 8,
            queue: 1024,
            kept: 65_536,
            keep: Duration::from_mins(10),
            keep_failure: Duration::from_mins(1),
        }
    }
}

type Lookup = dyn Fn(IpAddr) -> Option<String> + Send + Sync;

/// What is known of names. Clones share it; the threads end after the last is gone.
#[derive(Clone)]
pub struct Names(Arc<Owner>);

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").finish_non_exhaustive()
    }
}

/// Ends the threads with the last of [`Names`], not with the last thread.
struct Owner(Arc<Shared>);

struct Shared {
    options: Options,
    lookup: Box<Lookup>,
    state: Mutex<State>,
    /// Something is to be done.
    work: Condvar,
    /// Something was found out.
    answered: Condvar,
}

#[derive(Default)]
struct State {
    known: HashMap<IpAddr, Known>,
    queue: VecDeque<IpAddr>,
    threads: usize,
    /// Threads that look something up.
    busy: usize,
    /// Before then nothing goes stale, so that nothing can be forgotten.
    full_until: Option<Instant>,
    ended: bool,
}

#[derive(Default)]
struct Known {
    name: Option<Arc<str>>,
    /// It is stale then; `None` = was never looked up.
    until: Option<Instant>,
    /// Waits for a look-up, or is being looked up.
    asked: bool,
}

impl Known {
    fn is_fresh(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

impl Names {
    /// By the system's resolver: `/etc/hosts`, DNS and whatever `nsswitch.conf` names, in our own network namespace.
    pub fn system() -> Self {
        Self::with(Options::default(), |address| {
            let flags = libc::NI_NAMEREQD | libc::NI_NUMERICSERV;
            let found = dns_lookup::getnameinfo(&SocketAddr::new(address, 0), flags);
            found.ok().map(|(name, _)| name)
        })
    }

    /// By another look-up. It may take as long as it likes.
    pub fn with(
        options: Options,
        lookup: impl Fn(IpAddr) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Owner(Arc::new(Shared {
            options,
            lookup: Box::new(lookup),
            state: Mutex::default(),
            work: Condvar::new(),
            answered: Condvar::new(),
        }))))
    }

    /// The name of `address` as far as it is known now. What is not, or is stale, is looked up meanwhile.
    pub fn get(&self, address: IpAddr) -> Option<Arc<str>> {
        let shared = &self.0.0;
        let mut state = shared.lock();
        shared.ask(&mut state, address, Instant::now());
        state.known.get(&address)?.name.clone()
    }

    /// Has all of `addresses` looked up, waiting for that no longer than `patience` in all.
    pub fn resolve(&self, addresses: impl IntoIterator<Item = IpAddr>, patience: Duration) {
        let shared = &self.0.0;
        let end = Instant::now() + patience;
        let mut state = shared.lock();
        for address in addresses {
            while !shared.ask(&mut state, address, Instant::now()) {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return;
                }
                state = shared.wait(state, left);
            }
        }
        while !state.queue.is_empty() || state.busy > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = shared.wait(state, left);
        }
    }

    /// Addresses that wait for a look-up.
    pub fn waiting(&self) -> usize {
        self.0.0.lock().queue.len()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The threads are not waited for: one may be in the resolver for long.
        self.0.lock().ended = true;
        self.0.work.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, left: Duration) -> MutexGuard<'a, State> {
        let (state, _) = self
            .answered
            .wait_timeout(state, left)
            .unwrap_or_else(PoisonError::into_inner);
        state
    }

    /// Queues `address` unless it is known or asked for. False = there is no room in the queue now.
    fn ask(self: &Arc<Self>, state: &mut State, address: IpAddr, now: Instant) -> bool {
        let known = state.known.get(&address);
        if known.is_some_and(|known| known.asked || known.is_fresh(now)) {
            return true;
        }
        if state.queue.len() >= self.options.queue {
            return false;
        }
        if known.is_none() && !self.make_room(state, now) {
            // Nor will there be by waiting.
            return true;
        }
        state.known.entry(address).or_default().asked = true;
        state.queue.push_back(address);
        if state.busy + state.queue.len() > state.threads && state.threads < self.options.threads {
            self.start_thread(state);
        }
        self.work.notify_one();
        true
    }

    /// Whether one more address can be remembered, stale ones forgotten if need be.
    fn make_room(&self, state: &mut State, now: Instant) -> bool {
        if state.known.len() < self.options.kept {
            return true;
        }
        if state.full_until.is_some_and(|until| now < until) {
            return false;
        }
        state
            .known
            .retain(|_, known| known.asked || known.is_fresh(now));
        let first = state.known.values().filter_map(|known| known.until).min();
        // Looking through all of them is not for every call.
        let pause = now + Duration::from_secs(1);
        state.full_until = Some(first.map_or(pause, |first| first.max(pause)));
        state.known.len() < self.options.kept
    }

    fn start_thread(self: &Arc<Self>, state: &mut State) {
        let shared = Arc::clone(self);
        let started = thread::Builder::new()
            .name("observer-names".to_owned())
            .spawn(move || shared.run());
        // Where the system gives no thread, addresses stay without names.
        state.threads += usize::from(started.is_ok());
    }

    fn run(&self) {
        let mut state = self.lock();
        while !state.ended {
            let Some(address) = state.queue.pop_front() else {
                state = self
                    .work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.busy += 1;
            drop(state);
            let name = (self.lookup)(address).and_then(|name| accepted(&name));
            let now = Instant::now();
            state = self.lock();
            state.busy -= 1;
            let keep = match name {
                Some(_) => self.options.keep,
                None => self.options.keep_failure,
            };
            let known = Known {
                name,
                until: Some(now + keep),
                asked: false,
            };
            state.known.insert(address, known);
            self.answered.notify_all();
        }
    }
}

/// A name as it is shown: without the root's dot, cut to a sane length. One that reads as an address is none: who owns
/// an address decides on its name, and could pass for another.
fn accepted(name: &str) -> Option<Arc<str>> {
    let name = name.trim_end_matches('.');
    if name.is_empty() || name.parse::<IpAddr>().is_ok() {
        return None;
    }
    Some(name.chars().take(LONGEST).collect::<String>().into())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn address(n: u32) -> IpAddr {
        IpAddr::V4((0x0a00_0000 + n).into())
    }

    /// A resolver that answers only what is let through, and how often it was asked.
    fn gated(options: Options) -> (Names, mpsc::Sender<Option<String>>, Arc<AtomicUsize>) {
        let (gate, answers) = mpsc::channel();
        let answers = Mutex::new(answers);
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let names = Names::with(options, move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            answers.lock().unwrap().recv().unwrap_or(None)
        });
        (names, gate, asked)
    }

    #[test]
    fn a_resolver_that_hangs_keeps_nobody_waiting_and_its_queue_is_bounded() {
        let options = Options {
            threads: 2,
            queue: 10,
            ..Options::default()
        };
        let (names, gate, asked) = gated(options);
        let begun = Instant::now();
        for _ in 0..3 {
            for n in 0..10_000 {
                assert_eq!(names.get(address(n)), None);
            }
        }
        assert!(names.waiting() <= 10);
        // 30,000 answers although none came; a look-up that hangs would have held them for ever.
        assert!(begun.elapsed() < PATIENCE);
        names.resolve((0..10_000).map(address), Duration::from_millis(50));
        assert!(begun.elapsed() < PATIENCE);
        assert!(asked.load(Ordering::SeqCst) <= 2, "a look-up per thread");
        drop(gate);
    }

    #[test]
    fn what_was_found_out_is_told_and_kept() {
        let (names, gate, asked) = gated(Options {
            threads: 1,
            ..Options::default()
        });
        assert_eq!(names.get(address(1)), None);
        gate.send(Some("one.example.".to_owned())).unwrap();
        names.resolve([address(1)], PATIENCE);
        assert_eq!(names.get(address(1)).as_deref(), Some("one.example"));
        // A failure is kept, too.
        gate.send(None).unwrap();
        names.resolve([address(2)], PATIENCE);
        for _ in 0..100 {
            assert_eq!(names.get(address(2)), None);
            assert!(names.get(address(1)).is_some());
        }
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        assert_eq!(names.waiting(), 0);
    }

    #[test]
    fn what_is_stale_is_told_until_it_was_looked_up_again() {
        let (names, gate, asked) = gated(Options {
            threads: 1,
            keep: Duration::ZERO,
            ..Options::default()
        });
        gate.send(Some("old".to_owned())).unwrap();
        names.resolve([address(1)], PATIENCE);
        assert_eq!(names.get(address(1)).as_deref(), Some("old"));
        gate.send(Some("new".to_owned())).unwrap();
        names.resolve([address(2)], Duration::ZERO);
        // The look-up asked for by `get` was let through.
        let begun = Instant::now();
        while names.get(address(1)).as_deref() != Some("new") {
            assert!(begun.elapsed() < PATIENCE, "never looked up again");
            thread::yield_now();
        }
        assert!(asked.load(Ordering::SeqCst) >= 2);
    }

    #[test]
    fn memory_is_bounded_and_what_is_stale_makes_room() {
        let options = Options {
            kept: 4,
            keep: Duration::ZERO,
            ..Options::default()
        };
        let names = Names::with(options, |address| Some(format!("host-{address}")));
        for n in 0..1000 {
            names.resolve([address(n)], PATIENCE);
            assert!(names.0.0.lock().known.len() <= 4);
        }
        let kept = Options {
            keep: PATIENCE,
            ..options
        };
        let names = Names::with(kept, |address| Some(format!("host-{address}")));
        names.resolve((0..8).map(address), PATIENCE);
        assert!(names.get(address(0)).is_some());
        assert_eq!(names.get(address(7)), None, "no room while all are fresh");
    }

    #[test]
    fn all_that_is_asked_for_is_found_although_the_queue_is_short() {
        let options = Options {
            threads: 3,
            queue: 2,
            ..Options::default()
        };
        let names = Names::with(options, |address| Some(format!("host-{address}")));
        names.resolve((0..500).map(address), PATIENCE);
        for n in 0..500 {
            let expected = format!("host-{}", address(n));
            assert_eq!(names.get(address(n)).as_deref(), Some(expected.as_str()));
        }
    }

    #[test]
    fn no_name_passes_for_an_address_or_has_no_end() {
        assert_eq!(accepted("192.0.2.1"), None);
        assert_eq!(accepted("2001:db8::1."), None);
        assert_eq!(accepted("."), None);
        let long = "x".repeat(70_000);
        assert_eq!(accepted(&long).map(|name| name.len()), Some(LONGEST));
    }

    #[test]
    fn the_system_knows_the_loopback_or_says_that_it_does_not() {
        let names = Names::system();
        names.resolve([IpAddr::from([127, 0, 0, 1])], PATIENCE);
        let name = names.get(IpAddr::from([127, 0, 0, 1]));
        assert!(name.is_none_or(|name| !name.is_empty()));
    }
}
