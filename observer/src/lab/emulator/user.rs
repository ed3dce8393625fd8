//! A relay between the router's two devices, in a thread of this process: frames come in by packet sockets, the cells say
//! when each leaves or why it is lost, and it leaves then.
//!
//! What happens to a frame is computed from when it arrived, which the kernel has stamped, not from when the thread ran. And
//! what answers a frame that left late is dated back by as much (`Answers`): a thread that was kept away sends several frames at
//! once, whose answers come at once, but would not have.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send, sockopt};

use super::answers::Answers;
use super::cells::{Back, Cause, Fate, Forward};
use super::truth::{Counts, Drop as Lost};
use super::{Emulator, Kind, frame};
use crate::lab::clock::{now_ns, wall_ahead_ns};
use crate::lab::namespaces::{Namespaces, ROUTER_TO_RECEIVER, ROUTER_TO_SENDER};
use crate::lab::path::Path;
use crate::lab::{LabError, Tried as _, sys};

/// Frames taken from one side before the other has its turn.
const TURN: usize = 64;
/// Bytes a packet socket holds while the thread is away: 0.2 s at 1 Gbit/s, headers of the kernel's included.
const SOCKET_BYTES: usize = 64 << 20;
/// Longer frames than this are not made where offloads are off; they would be cut, and are lost with a count instead.
const FRAME_BYTES: usize = 65_536;
/// How long the thread sleeps at most before it looks whether it shall end.
const LOOK_NS: u64 = 50_000_000;
/// Lost packets that are kept one by one: more are counted only.
const LOG: usize = 2_000_000;

/// The thread, told to end when dropped.
pub struct Relay {
    shared: Arc<Shared>,
    /// Whether the kernel lets the thread run before others.
    before_others: bool,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    begin: AtomicBool,
    account: Mutex<Account>,
}

/// What happened since the beginning.
#[derive(Default)]
struct Account {
    counts: Counts,
    losses: Vec<Lost>,
    /// The thread's last word.
    failed: Option<std::io::Error>,
}

impl Relay {
    pub fn make(namespaces: &Namespaces, path: &Path) -> Result<Self, LabError> {
        namespaces.forward(false)?;
        let (from_sender, from_receiver) = namespaces.in_router(|| {
            let open = |device: &str| -> Result<OwnedFd, LabError> {
                let index = device_index(device)?;
                let socket = sys::packet_socket(index).tried("cannot open a packet socket")?;
                sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BYTES)
                    .tried("cannot enlarge a packet socket")?;
                sys::stamp_arrivals(&socket).tried("cannot have frames stamped")?;
                Ok(socket)
            };
            Ok::<_, LabError>((open(ROUTER_TO_SENDER)?, open(ROUTER_TO_RECEIVER)?))
        })??;
        let shared = Arc::new(Shared::default());
        let mut work = Work {
            forward: Way::new(from_sender),
            back: Way::new(from_receiver),
            ahead: Forward::new(path),
            behind: Back::new(path),
            shared: Arc::clone(&shared),
            buffer: vec![0; FRAME_BYTES],
            spare: Vec::new(),
            overrun_due_ns: 0,
        };
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("observer-lab-relay".to_owned())
            .spawn(move || {
                // It has its namesake's end: nobody waits for more than this.
                let _ = tell.send(sys::before_others().is_ok());
                work.run();
            })
            .tried("cannot start the relay's thread")?;
        Ok(Self {
            shared,
            before_others: told.recv().unwrap_or(false),
            thread: Some(thread),
        })
    }
}

fn device_index(device: &str) -> Result<u32, LabError> {
    let any = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )
    .tried("cannot open a socket")?;
    rustix::net::netdevice::name_to_index(&any, device).tried("cannot find the router's device")
}

impl Emulator for Relay {
    fn kind(&self) -> Kind {
        Kind::User
    }

    fn description(&self) -> String {
        let priority = if self.before_others {
            "a real-time priority"
        } else {
            "an ordinary priority (no right to another)"
        };
        format!("a relay in user space on the router at {priority}, with a log of every loss")
    }

    fn begin(&mut self) -> Result<(), LabError> {
        self.shared.begin.store(true, Ordering::SeqCst);
        // The thread takes it up at its next turn.
        while self.shared.begin.load(Ordering::SeqCst) {
            if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                return self.counts().map(|_| ());
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Ok(())
    }

    fn counts(&mut self) -> Result<Counts, LabError> {
        let mut account = lock(&self.shared);
        match account.failed.take() {
            Some(error) => Err(LabError::System("the relay stopped", error)),
            None => Ok(account.counts.clone()),
        }
    }

    fn losses(&mut self) -> Option<Vec<Lost>> {
        Some(std::mem::take(&mut lock(&self.shared).losses))
    }
}

fn lock(shared: &Shared) -> std::sync::MutexGuard<'_, Account> {
    shared
        .account
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // A panic in there has been printed; the namespaces have to go all the same.
            let _ = thread.join();
        }
    }
}

/// A direction: where frames come in, and those on their way, in the order in which they leave.
struct Way {
    socket: OwnedFd,
    travelling: VecDeque<(u64, Vec<u8>)>,
    /// To what comes in here.
    answers: Answers,
}

impl Way {
    fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            travelling: VecDeque::new(),
            answers: Answers::default(),
        }
    }
}

struct Work {
    forward: Way,
    back: Way,
    ahead: Forward,
    behind: Back,
    shared: Arc<Shared>,
    buffer: Vec<u8>,
    spare: Vec<Vec<u8>>,
    overrun_due_ns: u64,
}

impl Work {
    fn run(&mut self) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            if let Err(error) = self.turn() {
                lock(&self.shared).failed = Some(error.into());
                return;
            }
        }
    }

    fn turn(&mut self) -> Result<(), Errno> {
        if self.shared.begin.load(Ordering::SeqCst) {
            self.ahead.refill();
            sys::overrun(&self.forward.socket);
            sys::overrun(&self.back.socket);
            *lock(&self.shared) = Account::default();
            self.shared.begin.store(false, Ordering::SeqCst);
        }
        self.wait()?;
        let shared = Arc::clone(&self.shared);
        let mut account = lock(&shared);
        self.take_forward(&mut account)?;
        self.take_back(&mut account)?;
        let Self {
            forward,
            back,
            spare,
            ..
        } = self;
        release(forward, back, spare, &mut account)?;
        release(back, forward, spare, &mut account)?;
        let now = now_ns();
        if now >= self.overrun_due_ns {
            self.overrun_due_ns = now + LOOK_NS;
            account.counts.overrun +=
                sys::overrun(&self.forward.socket) + sys::overrun(&self.back.socket);
        }
        Ok(())
    }

    /// Until a frame comes in or the next is due.
    fn wait(&self) -> Result<(), Errno> {
        let due = |way: &Way| way.travelling.front().map(|(due, _)| *due);
        let now = now_ns();
        let next = [due(&self.forward), due(&self.back), Some(now + LOOK_NS)];
        let wait = next.into_iter().flatten().min().unwrap_or(now);
        let wait = wait.saturating_sub(now);
        let mut sockets = [
            PollFd::new(&self.forward.socket, PollFlags::IN),
            PollFd::new(&self.back.socket, PollFlags::IN),
        ];
        let timeout = Timespec {
            tv_sec: (wait / 1_000_000_000) as i64,
            tv_nsec: (wait % 1_000_000_000) as _,
        };
        match poll(&mut sockets, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn take_forward(&mut self, account: &mut Account) -> Result<(), Errno> {
        let ahead_ns = wall_ahead_ns();
        for _ in 0..TURN {
            let taken = take(&mut self.forward, &mut self.buffer, ahead_ns, account)?;
            let Some((length, now)) = taken else {
                return Ok(());
            };
            let frame = &mut self.buffer[..length];
            if !frame::is_ip(frame) {
                let copy = copied(frame, &mut self.spare);
                let due = self.forward.travelling.back().map_or(now, |(due, _)| *due);
                self.forward.travelling.push_back((due, copy));
                continue;
            }
            let bytes = length as u64;
            account.counts.offered_packets += 1;
            account.counts.offered_bytes += bytes;
            match self.ahead.offer(now, bytes, frame::can_be_marked(frame)) {
                Fate::Leaves { at_ns, marked } => {
                    if marked {
                        frame::mark(frame);
                    }
                    *account.counts.marked.get_or_insert(0) += u64::from(marked);
                    let copy = copied(frame, &mut self.spare);
                    self.forward.travelling.push_back((at_ns, copy));
                }
                Fate::Lost(cause) => lose(account, now, cause, frame),
            }
        }
        Ok(())
    }

    fn take_back(&mut self, account: &mut Account) -> Result<(), Errno> {
        let ahead_ns = wall_ahead_ns();
        for _ in 0..TURN {
            let taken = take(&mut self.back, &mut self.buffer, ahead_ns, account)?;
            let Some((length, now)) = taken else {
                return Ok(());
            };
            let due = self.behind.offer(now);
            let copy = copied(&self.buffer[..length], &mut self.spare);
            self.back.travelling.push_back((due, copy));
        }
        Ok(())
    }
}

fn lose(account: &mut Account, time_ns: u64, cause: Cause, frame: &[u8]) {
    *account.counts.lost.entry(cause.name()).or_insert(0) += 1;
    if account.losses.len() < LOG {
        account.losses.push(Lost {
            time_ns,
            cause,
            bytes: frame.len() as u64,
            segment: frame::segment(frame),
        });
    }
}

/// A frame's length and when it arrived, to the clock of the path; `None` = there is none now.
fn take(
    way: &mut Way,
    buffer: &mut [u8],
    wall_ahead_ns: u64,
    account: &mut Account,
) -> Result<Option<(usize, u64)>, Errno> {
    loop {
        let (length, stamp) = match sys::receive(&way.socket, buffer) {
            Ok(taken) => taken,
            Err(error) => match Errno::from_io_error(&error) {
                // Without a device nothing comes, either.
                Some(Errno::AGAIN | Errno::NETDOWN) => return Ok(None),
                Some(Errno::INTR) => continue,
                other => return Err(other.unwrap_or(Errno::IO)),
            },
        };
        if length > buffer.len() {
            account.counts.overrun += 1;
            continue;
        }
        let now = now_ns();
        // A clock that was set meanwhile makes no frame come from the future.
        let arrived = stamp.map_or(now, |stamp| stamp.saturating_sub(wall_ahead_ns).min(now));
        return Ok(Some((length, way.answers.date(arrived))));
    }
}

/// In memory that an earlier frame needed.
fn copied(frame: &[u8], spare: &mut Vec<Vec<u8>>) -> Vec<u8> {
    let mut copy = spare.pop().unwrap_or_default();
    copy.clear();
    copy.extend_from_slice(frame);
    copy
}

/// Sends what is due out by the device where answers to it come in.
fn release(
    from: &mut Way,
    to: &mut Way,
    spare: &mut Vec<Vec<u8>>,
    account: &mut Account,
) -> Result<(), Errno> {
    while let Some((due, _)) = from.travelling.front() {
        let now = now_ns();
        let Some(late) = now.checked_sub(*due) else {
            break;
        };
        let Some((_, frame)) = from.travelling.pop_front() else {
            break;
        };
        let counts = &mut account.counts;
        counts.late.add(late / 1000);
        to.answers.left(now, late);
        match send(&to.socket, &frame, SendFlags::DONTWAIT) {
            Ok(_) => {}
            // No room where there is no queue of ours: the machine's limit, not the path's.
            Err(Errno::NOBUFS | Errno::AGAIN | Errno::NETDOWN) => counts.overrun += 1,
            Err(error) => return Err(error),
        }
        spare.push(frame);
    }
    Ok(())
}
