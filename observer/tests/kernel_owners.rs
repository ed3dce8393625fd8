//! Whose a flow is, against what the test knows: each end made by a process of its own, uninvolved busy ones beside
//! them (TRAPS 5, 22).

mod common;
#[path = "common/procs.rs"]
mod procs;
#[path = "common/sender.rs"]
mod sender;
#[path = "common/ss.rs"]
mod ss;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use common::{Netns, needs};
use observer::event::Payload;
use observer::kernel::clock;
use observer::kernel::load::Options;
use observer::source::Source as _;
use observer::source::live::{Handle, Live, LiveOptions};
use procs::{Cgroup, Line, Proc};
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sockopt,
};
use sender::{Stream, cookie};
use serde_json::{Value, json};

const LOOPBACK: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// A socket that changes hands, or was accepted, has its new owner after this long (README: ten seconds).
const PASSED_ON: Duration = Duration::from_secs(11);
const PROCESSES: &str = r#""processes":["#;

/// (PID, comm), in the order of PIDs.
type Named = BTreeSet<(u64, String)>;

fn named(processes: &Value) -> Named {
    let all = processes.as_array().into_iter().flatten();
    all.map(|process| {
        let pid = process["pid"].as_u64().expect("a number");
        (pid, process["comm"].as_str().expect("text").to_owned())
    })
    .collect()
}

fn these(procs: &[&Proc]) -> Named {
    procs
        .iter()
        .map(|proc| (u64::from(proc.pid), proc.name.clone()))
        .collect()
}

/// Waits until the last that was told of a flow's owners is this.
fn wait_owners(stream: &Stream, cookie: u64, expected: &Named, limit: Duration) {
    let mut owners = Named::new();
    let mut seen = 0;
    let start = clock::now();
    while owners != *expected {
        let since = Duration::from_nanos(clock::now().since(start));
        assert!(
            since < limit,
            "after {since:?} flow {cookie} is {owners:?}'s, not {expected:?}'s"
        );
        thread::sleep(Duration::from_millis(10));
        let lines = stream.since(seen);
        seen += lines.len();
        if let Some(line) = lines
            .iter()
            .rfind(|line| line["kind"] == "owners" && line["flow"]["cookie"] == cookie)
        {
            owners = named(&line["processes"]);
        }
    }
}

/// Every set of owners that was told of a flow, in order.
fn history(lines: &[Value], cookie: u64) -> Vec<Named> {
    let mut all: Vec<Named> = lines
        .iter()
        .filter(|line| line["flow"]["cookie"] == cookie && line["processes"].is_array())
        .map(|line| named(&line["processes"]))
        .collect();
    all.dedup();
    all
}

/// Processes that send over their own sockets as fast as they can, one a CPU: whom softirq interrupts.
struct Busy {
    procs: Vec<Proc>,
    cookies: HashMap<u64, u32>,
}

impl Busy {
    fn start(ns: &Netns) -> Self {
        let mut procs: Vec<Proc> = (0..2)
            .map(|_| Proc::fork_in(ns, "o-busy", &[], busy))
            .collect();
        let cookies = procs
            .iter_mut()
            .flat_map(|proc| [(proc.hear(), proc.pid), (proc.hear(), proc.pid)])
            .collect();
        Self { procs, cookies }
    }

    /// No flow but theirs was ever said to be theirs; theirs were.
    fn check(&self, lines: &[Value]) {
        let theirs: HashSet<u64> = self.procs.iter().map(|p| u64::from(p.pid)).collect();
        let mut right = HashSet::new();
        for line in lines {
            let Some(cookie) = line["flow"]["cookie"].as_u64() else {
                continue;
            };
            for (pid, _) in named(&line["processes"]) {
                if let Some(owner) = self.cookies.get(&cookie) {
                    assert_eq!(pid, u64::from(*owner), "{line}");
                    right.insert(cookie);
                } else {
                    assert!(!theirs.contains(&pid), "not theirs: {line}");
                }
            }
        }
        assert_eq!(right.len(), self.cookies.len());
    }
}

fn busy(line: &mut Line) {
    // What is tested gets on, too.
    // SAFETY: passes no memory.
    unsafe { libc::nice(19) };
    let listener = listen();
    let to = listener.local_addr().expect("bound");
    let mut from = TcpStream::connect(to).expect("connect");
    let (mut into, _) = listener.accept().expect("accept");
    line.tell(cookie(&from));
    line.tell(cookie(&into));
    let mut buffer = [0; 512];
    while !line.is_called() {
        for _ in 0..500 {
            from.write_all(&[1; 512]).expect("write");
            into.read_exact(&mut buffer).expect("read");
        }
    }
}

fn listen() -> TcpListener {
    TcpListener::bind((LOOPBACK, 0)).expect("bind")
}

/// Listens, tells its port, and at each step accepts one connection and tells its cookie.
fn serve(line: &mut Line) {
    let listener = listen();
    line.tell(listener.local_addr().expect("bound").port().into());
    accept_each(&listener, line);
}

fn accept_each(listener: &TcpListener, line: &mut Line) {
    let mut held = Vec::new();
    loop {
        line.wait();
        let (socket, _) = listener.accept().expect("accept");
        line.tell(cookie(&socket));
        held.push(socket);
    }
}

/// Connects, tells the cookie and its port, and holds the socket until the next step.
fn ask(port: u64) -> impl FnOnce(&mut Line) + Send {
    move |line| {
        let socket = TcpStream::connect(to(port)).expect("connect");
        line.tell(cookie(&socket));
        line.tell(socket.local_addr().expect("bound").port().into());
        line.wait();
    }
}

fn to(port: u64) -> SocketAddr {
    (LOOPBACK, u16::try_from(port).expect("a port")).into()
}

/// A client of a listening process, and the cookies of both ends.
fn connected(ns: &Netns, server: &mut Proc, port: u64) -> (Proc, [u64; 2]) {
    ns.enter(|| connected_here(server, port))
}

#[test]
fn client_and_server_are_named_before_start_and_after() {
    needs!("ip");
    let ns = Netns::new();
    let busy = Busy::start(&ns);
    let mut server = Proc::fork_in(&ns, "o-server", &[], serve);
    let port = server.hear();
    let (old, of_old) = connected(&ns, &mut server, port);
    let stream = Stream::start(&ns, "");
    let (new, of_new) = connected(&ns, &mut server, port);
    for (client, cookies) in [(&old, of_old), (&new, of_new)] {
        for (cookie, owner) in cookies.into_iter().zip([client, &server]) {
            wait_owners(&stream, cookie, &these(&[owner]), PASSED_ON);
        }
    }
    let rows = sender::list(&ns, "200ms");
    for (client, cookies) in [(&old, of_old), (&new, of_new)] {
        for (cookie, owner) in cookies.into_iter().zip([client, &server]) {
            let row = sender::row_of(&rows, cookie).expect("listed");
            assert_eq!(named(&row["processes"]), these(&[owner]), "{row}");
        }
    }
    let lines = stream.finish_with(&[PROCESSES]);
    busy.check(&lines);
    // Nobody else on the way there.
    for (client, cookies) in [(&old, of_old), (&new, of_new)] {
        for (cookie, owner) in cookies.into_iter().zip([client, &server]) {
            assert_eq!(history(&lines, cookie), [these(&[owner])]);
        }
    }
}

/// The name is the process's, as `ss` and `ps` show it, not that of the thread that connected.
#[test]
fn a_thread_connects_for_its_process() {
    needs!("ip");
    let ns = Netns::new();
    let mut server = Proc::fork_in(&ns, "o-server", &[], serve);
    let port = server.hear();
    let stream = Stream::start(&ns, "");
    let mut client = Proc::fork_in(&ns, "o-client", &[], move |line| {
        let of_thread = thread::Builder::new().name("o-thread".to_owned());
        let connecting = of_thread.spawn(move || TcpStream::connect(to(port)).expect("connect"));
        let socket = connecting.expect("a thread").join().expect("it ends well");
        line.tell(cookie(&socket));
        line.wait();
    });
    let cookie = client.hear();
    let expected = these(&[&client]);
    wait_owners(&stream, cookie, &expected, PASSED_ON);
    let lines = stream.finish_with(&[PROCESSES]);
    assert_eq!(history(&lines, cookie), [expected]);
}

#[test]
fn of_workers_that_share_a_listener_the_one_that_accepted_is_named() {
    needs!("ip");
    let ns = Netns::new();
    let busy = Busy::start(&ns);
    let listener = ns.enter(listen);
    let port = u64::from(listener.local_addr().expect("bound").port());
    let mut workers: Vec<Proc> = (0..3)
        .map(|at| {
            let name = format!("o-worker{at}");
            Proc::fork_in(&ns, &name, &[listener.as_raw_fd()], |line| {
                accept_each(&listener, line);
            })
        })
        .collect();
    drop(listener);
    let stream = Stream::start(&ns, "");
    let all = these(&workers.iter().collect::<Vec<_>>());

    // Before it is accepted it may be called the listener's.
    let mut first = Proc::fork_in(&ns, "o-client", &[], ask(port));
    first.hear();
    let remote = format!("{LOOPBACK}:{}", first.hear());
    let queued = stream.wait_line("owners of what waits to be accepted", |line| {
        line["kind"] == "owners" && line["flow"]["remote"] == remote.as_str()
    });
    assert_eq!(named(&queued["processes"]), all);

    let mut clients = vec![first];
    let mut accepted = Vec::new();
    for (at, worker) in workers.iter_mut().enumerate() {
        if at > 0 {
            clients.push(Proc::fork_in(&ns, "o-client", &[], ask(port)));
            clients[at].hear();
        }
        worker.step();
        accepted.push(worker.hear());
    }
    assert_eq!(queued["flow"]["cookie"], accepted[0]);
    for (worker, cookie) in workers.iter().zip(&accepted) {
        wait_owners(&stream, *cookie, &these(&[worker]), PASSED_ON);
    }
    let lines = stream.finish_with(&[PROCESSES]);
    busy.check(&lines);
    for (worker, cookie) in workers.iter().zip(&accepted) {
        let history = history(&lines, *cookie);
        let (last, before) = history.split_last().expect("named");
        assert_eq!(*last, these(&[worker]));
        assert!(before.iter().all(|named| *named == all), "{before:?}");
    }
}

fn send_socket(over: &UnixStream, socket: &TcpStream) {
    let fds = [socket.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    net::sendmsg(
        over,
        &[IoSlice::new(&[1])],
        &mut control,
        SendFlags::empty(),
    )
    .expect("sent");
}

fn take_socket(over: &UnixStream) -> TcpStream {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    net::recvmsg(
        over,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        RecvFlags::empty(),
    )
    .expect("received");
    let message = control.drain().next();
    let Some(RecvAncillaryMessage::ScmRights(mut fds)) = message else {
        panic!("no descriptor came");
    };
    fds.next().expect("one").into()
}

#[test]
fn a_socket_that_is_passed_on_has_its_holders_names() {
    needs!("ip");
    let ns = Netns::new();
    let busy = Busy::start(&ns);
    let mut server = Proc::fork_in(&ns, "o-server", &[], serve);
    let port = server.hear();
    let (gives, takes) = UnixStream::pair().expect("a pair");
    let mut giver = Proc::fork_in(&ns, "o-giver", &[gives.as_raw_fd()], |line| {
        let socket = TcpStream::connect(to(port)).expect("connect");
        line.tell(cookie(&socket));
        line.wait();
        send_socket(&gives, &socket);
        line.wait();
        drop(socket);
        line.tell(0);
        line.wait();
    });
    let mut taker = Proc::fork_in(&ns, "o-taker", &[takes.as_raw_fd()], |line| {
        let socket = take_socket(&takes);
        line.tell(cookie(&socket));
        line.wait();
    });
    drop((gives, takes));
    let cookie = giver.hear();
    let before = Stream::start(&ns, "");
    wait_owners(&before, cookie, &these(&[&giver]), PASSED_ON);
    giver.step();
    assert_eq!(taker.hear(), cookie);
    // Both hold it now: whoever looks sees both.
    let stream = Stream::start(&ns, "");
    let both = these(&[&giver, &taker]);
    wait_owners(&stream, cookie, &both, PASSED_ON);
    giver.step();
    giver.hear();
    let start = clock::now();
    wait_owners(&stream, cookie, &these(&[&taker]), PASSED_ON);
    wait_owners(&before, cookie, &these(&[&taker]), PASSED_ON);
    println!(
        "passed on: named after {:.1} s",
        clock::now().since(start) as f64 / 1e9
    );
    let lines = stream.finish_with(&[PROCESSES]);
    busy.check(&lines);
    assert_eq!(history(&lines, cookie), [both, these(&[&taker])]);
    busy.check(&before.finish_with(&[PROCESSES]));
}

/// What a process leaves behind is not somebody else's, whoever listens at that port then.
#[test]
fn a_flow_outlives_its_owner() {
    needs!("ip");
    let ns = Netns::new();
    let busy = Busy::start(&ns);
    let mut server = Proc::fork_in(&ns, "o-server", &[], serve);
    let port = server.hear();
    let first = Stream::start(&ns, "");
    let mut client = Proc::fork_in(&ns, "o-client", &[], |line| {
        let socket = reusable();
        net::connect(&socket, &to(port)).expect("connect");
        let mut socket = TcpStream::from(socket);
        line.tell(cookie(&socket));
        line.tell(socket.local_addr().expect("bound").port().into());
        line.wait();
        // The other end does not read: what is in the buffer keeps the socket in FIN-WAIT-1.
        socket.set_nonblocking(true).expect("nonblocking");
        while socket.write(&[1; 4096]).is_ok() {}
    });
    let (left, its_port) = (client.hear(), client.hear());
    server.step();
    server.hear();
    let owner = these(&[&client]);
    wait_owners(&first, left, &owner, PASSED_ON);
    client.step();
    client.finish();
    first.wait_line("FIN-WAIT-1", |line| {
        line["flow"]["cookie"] == left && line["new"] == "FIN-WAIT-1"
    });
    // Another takes the port.
    let mut usurper = Proc::fork_in(&ns, "o-usurper", &[], |line| {
        let socket = reusable_at(its_port);
        net::listen(&socket, 16).expect("listen");
        line.tell(0);
        accept_each(&TcpListener::from(socket), line);
    });
    usurper.hear();
    let second = Stream::start(&ns, "");
    let (other, of_other) = connected(&ns, &mut usurper, its_port);
    // Both have looked at who holds what since.
    for stream in [&first, &second] {
        wait_owners(stream, of_other[1], &these(&[&usurper]), PASSED_ON);
    }
    let rows = sender::list(&ns, "200ms");
    let row = sender::row_of(&rows, left).expect("still there");
    assert_eq!(row["state"], "FIN-WAIT-1");
    assert_eq!(row["processes"], Value::Null, "{row}");
    let (first, second) = (
        first.finish_with(&[PROCESSES]),
        second.finish_with(&[PROCESSES]),
    );
    busy.check(&first);
    busy.check(&second);
    assert_eq!(history(&first, left), [owner]);
    assert_eq!(history(&second, left), [] as [Named; 0]);
    assert_eq!(history(&second, of_other[0]), [these(&[&other])]);
}

/// A socket that lets others use its port.
fn reusable() -> rustix::fd::OwnedFd {
    reusable_at(0)
}

fn reusable_at(port: u64) -> rustix::fd::OwnedFd {
    let socket = net::socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .expect("socket");
    sockopt::set_socket_reuseaddr(&socket, true).expect("reuse");
    net::bind(&socket, &to(port)).expect("bind");
    socket
}

const CLIENTS: u64 = 4;
const PER_SECOND: u64 = 1000;
const SECONDS: u64 = 10;
const BRIEF: u64 = 200;

/// Accepts, reads to the end and closes, until it is ended.
fn serve_all(line: &mut Line) {
    let socket = reusable();
    // Room for all that come while this process waits for a CPU.
    net::listen(&socket, 4096).expect("listen");
    let listener = TcpListener::from(socket);
    line.tell(listener.local_addr().expect("bound").port().into());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let (mut socket, _) = listener.accept().expect("accept");
                    let _ = socket.read_to_end(&mut Vec::new());
                }
            });
        }
    });
}

fn visit(port: u64) -> u64 {
    let mut socket = TcpStream::connect(to(port)).expect("connect");
    socket.write_all(b"here I am").expect("write");
    cookie(&socket)
}

/// Its part of the connections, at its part of the rate; tells the cookies when all are done.
fn visit_often(port: u64) -> impl FnOnce(&mut Line) + Send {
    move |line| {
        line.wait();
        let start = clock::now().0;
        let cookies: Vec<u64> = (0..PER_SECOND * SECONDS / CLIENTS)
            .map(|n| {
                let due = start + n * 1_000_000_000 * CLIENTS / PER_SECOND;
                let left = due.saturating_sub(clock::now().0);
                thread::sleep(Duration::from_nanos(left));
                visit(port)
            })
            .collect();
        line.tell(clock::now().0 - start);
        for cookie in cookies {
            line.tell(cookie);
        }
        line.wait();
    }
}

/// Processes that live for one connection; tells the PID and the cookie of each.
fn visit_in_passing(port: u64) -> impl FnOnce(&mut Line) + Send {
    move |line| {
        line.wait();
        for _ in 0..BRIEF {
            let mut brief = Proc::fork("o-brief", &[], |line| line.tell(visit(port)));
            line.tell(brief.pid.into());
            line.tell(brief.hear());
            brief.finish();
        }
        line.wait();
    }
}

#[test]
fn a_thousand_short_connections_a_second_are_their_clients() {
    needs!("ip");
    let ns = Netns::new();
    sender::set(&ns, "ipv4/ip_local_port_range", "1024 65535");
    let busy = Busy::start(&ns);
    let mut server = Proc::fork_in(&ns, "o-server", &[], serve_all);
    let port = server.hear();
    let mut clients: Vec<Proc> = (0..CLIENTS)
        .map(|_| Proc::fork_in(&ns, "o-client", &[], visit_often(port)))
        .collect();
    let mut passing = Proc::fork_in(&ns, "o-passing", &[], visit_in_passing(port));
    let watching = Watching::start(&ns);
    for client in &mut clients {
        client.step();
    }
    passing.step();
    let mut truth: HashMap<u64, Named> = HashMap::new();
    for _ in 0..BRIEF {
        let (pid, cookie) = (passing.hear(), passing.hear());
        truth.insert(cookie, [(pid, "o-brief".to_owned())].into());
    }
    let mut slowest = 0;
    for client in &mut clients {
        slowest = slowest.max(client.hear());
        for _ in 0..PER_SECOND * SECONDS / CLIENTS {
            truth.insert(client.hear(), these(&[client]));
        }
    }
    assert_eq!(truth.len() as u64, PER_SECOND * SECONDS + BRIEF);
    let told = watching.finish(2 * truth.len());
    let its = these(&[&server]);
    let (mut asked, mut answered) = (Tally::default(), Tally::default());
    for (cookie, (owners, _)) in told.iter().filter(|(_, (_, closed))| *closed) {
        match truth.get(cookie) {
            Some(client) => asked.count(owners, client),
            None => answered.count(owners, &its),
        }
    }
    println!(
        "{} connections in {:.2} s: clients {asked:?}, their other ends {answered:?}",
        truth.len(),
        slowest as f64 / 1e9
    );
    for (cookie, (owners, _)) in &told {
        if let Some(busy) = busy.cookies.get(cookie) {
            let expected = [(u64::from(*busy), "o-busy".to_owned())].into();
            assert_eq!(*owners, vec![expected]);
        }
    }
    assert!(slowest < (SECONDS + 5) * 1_000_000_000, "{slowest} ns");
    assert_eq!((asked.wrong, answered.wrong), (0, 0));
    assert_eq!(asked.right + asked.unknown, truth.len());
    assert!(asked.right * 100 >= truth.len() * 99, "{asked:?}");
}

/// Of each flow by its cookie: every set of owners that was told, and whether it has ended.
type Told = HashMap<u64, (Vec<Named>, bool)>;

/// The source without the lines of JSON that a debug build takes long to write.
struct Watching {
    handle: Handle,
    closed: Arc<AtomicUsize>,
    thread: thread::JoinHandle<Told>,
}

impl Watching {
    fn start(ns: &Netns) -> Self {
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
        let closed = Arc::new(AtomicUsize::new(0));
        let (sender, first) = std::sync::mpsc::channel();
        let its = Arc::clone(&closed);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .expect("a runtime");
            let mut told = Told::new();
            while let Some(batch) = runtime.block_on(live.next()).expect("live does not fail") {
                // The first batch comes when the hooks are on.
                let _ = sender.send(());
                for event in batch {
                    let Some(flow) = event.flow else { continue };
                    let (owners, end) = told.entry(flow.cookie).or_default();
                    match event.payload {
                        Payload::Owners(now) => owners.push(
                            now.into_iter()
                                .map(|process| (process.pid.into(), process.comm))
                                .collect(),
                        ),
                        Payload::Closed => {
                            *end = true;
                            its.fetch_add(1, Ordering::Relaxed);
                        }
                        _ => {}
                    }
                }
            }
            told
        });
        first
            .recv_timeout(Duration::from_secs(10))
            .expect("it starts");
        Self {
            handle,
            closed,
            thread,
        }
    }

    /// Waits until so many flows have ended.
    fn finish(self, flows: usize) -> Told {
        let start = clock::now();
        while self.closed.load(Ordering::Relaxed) < flows {
            let since = clock::now().since(start);
            assert!(since < 30_000_000_000, "{:?} of {flows}", self.closed);
            thread::sleep(Duration::from_millis(10));
        }
        self.handle.stop();
        self.thread.join().expect("the gatherer ends well")
    }
}

#[derive(Debug, Default)]
struct Tally {
    right: usize,
    unknown: usize,
    wrong: usize,
}

impl Tally {
    /// Right is only who was never called anything else.
    fn count(&mut self, told: &[Named], truth: &Named) {
        match told {
            [] => self.unknown += 1,
            [one] if one == truth => self.right += 1,
            _ => self.wrong += 1,
        }
    }
}

/// Both ends in other namespaces: the PIDs are those of the observer's own.
#[test]
fn another_network_and_pid_namespace() {
    needs!("ip");
    let ns = Netns::new();
    let busy = Busy::start(&ns);
    let mut server = Proc::fork_in_pidns(&ns, "o-server", serve);
    let port = server.hear();
    let ask_inside = |line: &mut Line| {
        assert_eq!(std::process::id(), 1);
        ask(port)(line);
    };
    let mut old = Proc::fork_in_pidns(&ns, "o-client", ask_inside);
    let mut expected = vec![(old.hear(), these(&[&old]))];
    server.step();
    expected.push((server.hear(), these(&[&server])));
    let stream = Stream::start(&ns, "");
    let mut new = Proc::fork_in_pidns(&ns, "o-client", ask_inside);
    expected.push((new.hear(), these(&[&new])));
    server.step();
    expected.push((server.hear(), these(&[&server])));
    for (cookie, owners) in &expected {
        assert!(owners.iter().all(|(pid, _)| *pid != 1));
        wait_owners(&stream, *cookie, owners, PASSED_ON);
    }
    let lines = stream.finish_with(&[PROCESSES]);
    busy.check(&lines);
    for (cookie, owners) in expected {
        assert_eq!(history(&lines, cookie), [owners]);
    }
}

/// An observer in a PID namespace of its own shows the PIDs of that one, and none of a process it cannot see.
#[test]
fn an_observer_in_a_pid_namespace() {
    needs!("ip");
    let ns = Netns::new();
    let its = ManuallyDrop::new(Netns {
        name: ns.name.clone(),
    });
    let mut inside = Proc::fork_in_pidns(&ns, "o-init", move |line| {
        let mut server = Proc::fork("o-server", &[], serve);
        let port = server.hear();
        let (old, of_old) = connected_here(&mut server, port);
        let stream = Stream::start(&its, "");
        let (new, of_new) = connected_here(&mut server, port);
        line.tell(port);
        line.wait();
        // The one from outside waits to be accepted.
        server.step();
        let from_outside = server.hear();
        for (cookie, owner) in [
            (of_old[0], &old),
            (of_old[1], &server),
            (of_new[0], &new),
            (of_new[1], &server),
            (from_outside, &server),
        ] {
            assert!(owner.pid < 100, "{}", owner.pid);
            wait_owners(&stream, cookie, &these(&[owner]), PASSED_ON);
        }
        let visible = these(&[&old, &new, &server]);
        let opened = r#""type":"opened""#;
        let lines = stream.finish_with(&[PROCESSES, opened]);
        let flows = lines.iter().filter(|line| line["type"] == "opened").count();
        assert_eq!(flows, 6);
        for line in &lines {
            assert!(named(&line["processes"]).is_subset(&visible), "{line}");
        }
        let rows = sender::list(&its, "200ms");
        assert_eq!(
            rows.iter().filter(|row| row["processes"].is_null()).count(),
            1
        );
    });
    let port = inside.hear();
    let mut outside = Proc::fork_in(&ns, "o-outside", &[], ask(port));
    outside.hear();
    inside.step();
    inside.finish();
}

/// As [`connected`], in the caller's own namespaces.
fn connected_here(server: &mut Proc, port: u64) -> (Proc, [u64; 2]) {
    let mut client = Proc::fork("o-client", &[], ask(port));
    let its = client.hear();
    client.hear();
    server.step();
    let cookies = [its, server.hear()];
    (client, cookies)
}

/// Both ends of a flow in cgroups named as runtimes name them; what is accepted is where its listener is.
#[test]
fn containers_are_named_by_their_cgroups() {
    needs!("ip");
    if procs::cgroup_mount().is_none() {
        common::skipped("no cgroup v2");
        return;
    }
    let ns = Netns::new();
    let slice = format!("observer-{}.slice", std::process::id());
    let (docker, cri) = ("d0c".repeat(21) + "0", "c41".repeat(21) + "1");
    let uid = "01234567-89ab-cdef-0123-456789abcdef";
    let in_docker = Cgroup::new(&format!("{slice}/docker-{docker}.scope"));
    let in_pod = Cgroup::new(&format!(
        "{slice}/kubepods-burstable-pod{}.slice/cri-containerd-{cri}.scope",
        uid.replace('-', "_")
    ));
    let plain = Cgroup::new(&format!("{slice}/web.service"));
    let mut server = Proc::fork_in(&ns, "o-server", &[], |line| {
        in_pod.join();
        serve(line);
    });
    let port = server.hear();
    let ask_in = |cgroup: &Cgroup| {
        Proc::fork_in(&ns, "o-client", &[], |line| {
            cgroup.join();
            ask(port)(line);
        })
    };
    let (mut client, mut other) = (ask_in(&in_docker), ask_in(&plain));
    let expected = [
        (
            client.hear(),
            &in_docker,
            json!({"runtime": "docker", "id": docker}),
            Value::Null,
        ),
        (other.hear(), &plain, Value::Null, json!("web.service")),
        (
            {
                server.step();
                server.hear()
            },
            &in_pod,
            json!({"runtime": "containerd", "id": cri, "pod": uid}),
            Value::Null,
        ),
    ];
    let rows = sender::list(&ns, "200ms");
    for (cookie, cgroup, container, unit) in &expected {
        let row = sender::row_of(&rows, *cookie).expect("listed");
        assert_eq!(row["cgroup"], cgroup.path.as_str(), "{row}");
        assert_eq!(row["container"], *container, "{row}");
        assert_eq!(row["unit"], *unit, "{row}");
        assert_eq!(row.get("container").is_some(), !container.is_null());
    }
    // Before the directories go.
    for proc in [client, other, server] {
        proc.kill();
    }
}
