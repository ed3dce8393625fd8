//! Retransmissions: counted exactly as the kernel counts them, named rightly, with the sequence numbers that packets
//! show (TRAPS 3, 4, 42, 43).

mod common;
#[path = "common/sender.rs"]
mod sender;
#[path = "common/ss.rs"]
mod ss;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Netns, needs, run, wait_for};
use sender::{Flow, Make, Over, Path, RCV_V4, SND_V4, Stream, cookie, pair, set, socket};
use serde_json::Value;
use ss::Info;

/// A counter of `/proc/net/snmp` or `/proc/net/netstat` of a namespace.
fn counter(netns: &Netns, group: &str, name: &str) -> u64 {
    let text = netns.enter(|| {
        ["snmp", "netstat"]
            .map(|file| {
                fs::read_to_string(format!("/proc/thread-self/net/{file}")).expect("counters")
            })
            .concat()
    });
    let prefix = format!("{group}: ");
    let lines: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix(&prefix))
        .collect();
    let at = lines[0]
        .split(' ')
        .position(|word| word == name)
        .expect("the counter");
    lines[1]
        .split(' ')
        .nth(at)
        .and_then(|v| v.parse().ok())
        .expect("a number")
}

fn u64_of(value: &Value, key: &str) -> u64 {
    value[key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key} in {value}"))
}

/// `total_retrans` and `bytes_retrans` of a socket by `TCP_INFO`.
fn truth_of(socket: &TcpStream) -> (u64, u64) {
    let info = Info::of(socket);
    let value = |key| {
        info.get(key)
            .and_then(|v| v.as_u64())
            .expect("the kernel tells")
    };
    (value("retrans"), value("bytes_retrans"))
}

/// `retransmit` lines of the flow with this cookie.
fn retransmits(lines: &[Value], cookie: u64) -> Vec<&Value> {
    lines
        .iter()
        .filter(|line| line["type"] == "retransmit" && line["flow"]["cookie"] == cookie)
        .collect()
}

fn sums(events: &[&Value]) -> (u64, u64) {
    events.iter().fold((0, 0), |(segments, bytes), event| {
        (
            segments + u64_of(event, "segments"),
            bytes + u64_of(event, "bytes"),
        )
    })
}

/// Segments by kind.
fn kinds(events: &[&Value]) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for event in events {
        let kind = event["kind"].as_str().expect("a kind").to_owned();
        *kinds.entry(kind).or_default() += u64_of(event, "segments");
    }
    kinds
}

/// Packets on the sender's device, captured until dropped.
struct Capture {
    child: Child,
    file: tempfile::NamedTempFile,
}

impl Capture {
    fn start(netns: &Netns) -> Self {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let child = Command::new("ip")
            .args([
                "netns",
                "exec",
                &netns.name,
                "dumpcap",
                "-q",
                "-i",
                "v",
                "-s",
                "100",
                "-B",
                "64",
                "-w",
            ])
            .arg(file.path())
            .stderr(Stdio::null())
            .spawn()
            .expect("dumpcap runs");
        // It has opened the device once it has written the file's header.
        wait_for("dumpcap", || {
            fs::metadata(file.path())
                .ok()
                .filter(|meta| meta.len() > 0)
                .map(|_| ())
        });
        Self { child, file }
    }

    /// Ranges of sequence numbers that left from `port`, in the order of the wire.
    fn finish(mut self, port: u16) -> Vec<(u32, u32)> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("our own child");
        self.child.wait().expect("it ends");
        let fields = run(
            "tshark",
            &format!(
                "-r {} -o tcp.relative_sequence_numbers:FALSE -o tcp.analyze_sequence_numbers:FALSE \
                 -Y tcp.len>0&&tcp.srcport=={port} -T fields -e tcp.seq -e tcp.len",
                self.file.path().display()
            ),
        );
        fields
            .lines()
            .map(|line| {
                let (seq, len) = line.split_once('\t').expect("two fields");
                let (seq, len): (u32, u32) = (seq.parse().expect("seq"), len.parse().expect("len"));
                (seq, seq.wrapping_add(len))
            })
            .collect()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How often the byte `seq` left.
fn times_sent(ranges: &[(u32, u32)], seq: u32) -> usize {
    ranges
        .iter()
        .filter(|(start, end)| seq.wrapping_sub(*start) < end.wrapping_sub(*start))
        .count()
}

/// Two bulk flows through a queue that is far too small.
#[test]
fn trap_03_sums_are_the_kernels_and_sequence_numbers_are_on_the_wire() {
    needs!("ip", "tc", "tshark", "dumpcap");
    let path = Path::new("50mbit", "30000");
    let capture = Capture::start(&path.snd);
    let stream = Stream::start(&path.snd, "");
    let flows = ["bbr", "cubic"].map(|cc| Flow::start(&path, Make::new(cc, Over::V4)));
    wait_for("losses of both", || {
        flows
            .iter()
            .all(|flow| truth_of(&flow.sender).0 >= 150)
            .then_some(())
    });
    let ports = flows
        .each_ref()
        .map(|flow| flow.sender.local_addr().expect("bound").port());
    let cookies = flows.each_ref().map(|flow| cookie(&flow.sender));
    for flow in &flows {
        flow.pause();
    }
    sender::wait_for_rest(&[&flows[0].sender, &flows[1].sender]);
    let truth = flows.each_ref().map(|flow| truth_of(&flow.sender));
    let of_namespace = counter(&path.snd, "Tcp", "RetransSegs");
    drop(flows);
    let lines = {
        stream.wait_line("the end of both", |line| {
            line["type"] == "closed" && line["flow"]["cookie"] == cookies[1]
        });
        stream.finish()
    };
    let ranges = capture.finish(ports[0]);
    for (cookie, truth) in cookies.into_iter().zip(truth) {
        let events = retransmits(&lines, cookie);
        assert_eq!(sums(&events), truth, "{:?}", kinds(&events));
        assert!(kinds(&events).contains_key("fast"));
    }
    assert_eq!(truth[0].0 + truth[1].0, of_namespace);
    let mut checked = 0;
    for event in retransmits(&lines, cookies[0]) {
        if event["failed"] == true || event["seq"].is_null() {
            continue;
        }
        let seq = u32::try_from(u64_of(event, "seq")).expect("32 bits");
        assert!(times_sent(&ranges, seq) >= 2, "{event}");
        checked += 1;
    }
    assert!(
        checked > 50,
        "only {checked} retransmissions with a sequence number"
    );
    assert_eq!(lines.iter().filter(|line| line["type"] == "gap").count(), 0);
}

/// Nothing passes the router while this lives.
struct Hole<'a>(&'a Path);

impl<'a> Hole<'a> {
    fn new(path: &'a Path) -> Self {
        set(&path.rtr, "ipv4/ip_forward", "0");
        Self(path)
    }
}

impl Drop for Hole<'_> {
    fn drop(&mut self) {
        set(&self.0.rtr, "ipv4/ip_forward", "1");
    }
}

/// Waits for a retransmission of this kind.
fn wait_kind(stream: &Stream, kind: &str) -> Value {
    stream.wait_line(kind, |line| {
        line["type"] == "retransmit" && line["kind"] == kind
    })
}

/// Connects on a thread of its own; the answer comes when the path lets it.
fn connecting(path: &Path, to: SocketAddr) -> std::thread::JoinHandle<TcpStream> {
    let socket = path.snd.enter(|| socket("cubic", (SND_V4, 0).into()));
    std::thread::spawn(move || {
        rustix::net::connect(&socket, &to).expect("connect");
        TcpStream::from(socket)
    })
}

#[test]
fn trap_43_tail_losses_are_tlp_then_rto_then_slow_start() {
    needs!("ip", "tc");
    let path = Path::new("50mbit", "300000");
    let stream = Stream::start(&path.snd, "");
    let (mut sender, _receiver) = pair(&path, &Make::new("cubic", Over::V4));
    sender.set_nodelay(true).expect("TCP_NODELAY");
    sender.write_all(&vec![1; 50_000]).expect("write");
    sender::wait_for_rest(&[&sender]);
    {
        let hole = Hole::new(&path);
        sender.write_all(&[2; 3 * 1448]).expect("write");
        wait_kind(&stream, "tlp");
        wait_kind(&stream, "rto");
        drop(hole);
    }
    sender::wait_for_rest(&[&sender]);
    let truth = truth_of(&sender);
    let of_kernel = |name| counter(&path.snd, "TcpExt", name);
    let lines = stream.finish();
    let events = retransmits(&lines, cookie(&sender));
    assert_eq!(sums(&events), truth);
    let kinds = kinds(&events);
    assert_eq!(kinds.get("rto"), Some(&of_kernel("TCPTimeouts")));
    assert_eq!(
        kinds.get("slow_start").copied().unwrap_or(0),
        of_kernel("TCPSlowStartRetrans")
    );
    assert_eq!(
        kinds.get("fast").copied().unwrap_or(0),
        of_kernel("TCPFastRetrans")
    );
    // Probes that send new data are counted by the kernel too.
    assert!(kinds["tlp"] <= of_kernel("TCPLossProbes"));
}

#[test]
fn trap_04_syn_and_synack() {
    needs!("ip", "tc");
    let path = Path::new("50mbit", "300000");
    let listener = path
        .rcv
        .enter(|| std::net::TcpListener::bind((RCV_V4, 0)))
        .expect("bind");
    let to = listener.local_addr().expect("bound");

    let client = Stream::start(&path.snd, "");
    let hole = Hole::new(&path);
    let connect = connecting(&path, to);
    wait_kind(&client, "syn");
    drop(hole);
    let sender = connect.join().expect("connected");
    let cookie_of = cookie(&sender);
    let lines = client.finish();
    let events = retransmits(&lines, cookie_of);
    assert_eq!(kinds(&events).keys().collect::<Vec<_>>(), ["syn"]);
    assert_eq!(sums(&events).0, truth_of(&sender).0);
    assert_eq!(
        sums(&events).0,
        counter(&path.snd, "TcpExt", "TCPSynRetrans")
    );

    // The SYN passes, its answer does not.
    let server = Stream::start(&path.rcv, "");
    let back = format!("-n {} route add blackhole {SND_V4}/32", path.rtr.name);
    run("ip", &back);
    let before = counter(&path.rcv, "Tcp", "RetransSegs");
    let connect = connecting(&path, to);
    wait_kind(&server, "synack");
    run("ip", &back.replace(" add ", " del "));
    let _sender = connect.join().expect("connected");
    let (first, _) = listener.accept().expect("accept");
    let (accepted, _) = listener.accept().expect("accept");
    let _ = first;
    let lines = server.finish();
    let synacks: Vec<&Value> = lines
        .iter()
        .filter(|line| line["type"] == "retransmit" && line["kind"] == "synack")
        .collect();
    assert_eq!(
        sums(&synacks).0,
        counter(&path.rcv, "Tcp", "RetransSegs") - before
    );
    // The request's cookie is the accepted socket's, which starts from these retransmissions: none is charged twice.
    let events = retransmits(&lines, cookie(&accepted));
    assert_eq!(sums(&events).0, truth_of(&accepted).0);
    assert_eq!(kinds(&events).keys().collect::<Vec<_>>(), ["synack"]);
}

/// Says so when dropped.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A queue on the sender's own device.
fn local_queue(path: &Path, what: &str) {
    let name = &path.snd.name;
    run(
        "ip",
        &format!("netns exec {name} tc qdisc replace dev v root {what}"),
    );
}

/// Ends it, lets everything through, and holds the sums against the kernel's.
fn sums_agree(path: &Path, flow: &Flow, stream: Stream) {
    run(
        "ip",
        &format!("netns exec {} tc qdisc del dev v root", path.snd.name),
    );
    flow.pause();
    sender::wait_for_rest(&[&flow.sender]);
    let lines = stream.finish();
    assert_eq!(
        sums(&retransmits(&lines, cookie(&flow.sender))),
        truth_of(&flow.sender)
    );
}

/// Dropped by the local queue: counted, never on the wire.
#[test]
fn trap_42_what_the_local_queue_drops_is_failed() {
    needs!("ip", "tc");
    let path = Path::new("50mbit", "300000");
    let stream = Stream::start(&path.snd, "");
    let flow = Flow::start(&path, Make::new("cubic", Over::V4));
    // What is in flight is lost, so the timer has something to send again …
    let hole = Hole::new(&path);
    wait_kind(&stream, "rto");
    let udp = path
        .snd
        .enter(|| std::net::UdpSocket::bind((SND_V4, 0)))
        .expect("bind");
    // … into a queue that others keep full.
    local_queue(&path, "tbf rate 100kbit burst 1600 limit 3200");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = udp.send_to(&[0; 1400], (RCV_V4, 9));
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        // Also when nothing comes and this panics.
        let _stop = Stop(&stop);
        stream.wait_line("a failed one", |line| {
            line["type"] == "retransmit" && line["failed"] == true
        });
    });
    drop(hole);
    sums_agree(&path, &flow, stream);
}

/// Still in the local queue when the timer comes: tried, not counted.
#[test]
fn trap_42_what_is_still_in_the_local_queue_is_no_retransmission() {
    needs!("ip", "tc");
    let path = Path::new("50mbit", "300000");
    let stream = Stream::start(&path.snd, "");
    // Some 0.8 s for a segment: longer than the first timeout.
    local_queue(&path, "tbf rate 15kbit burst 1600 limit 400000");
    let flow = Flow::start(&path, Make::new("cubic", Over::V4));
    let note = stream.wait_line("an uncounted one", |line| {
        line["type"] == "note" && line["kind"] == "attempt"
    });
    assert!(
        note["text"]
            .as_str()
            .is_some_and(|text| text.contains("err -16")),
        "{note}"
    );
    sums_agree(&path, &flow, stream);
}

/// Two connections with the same four-tuple are two flows.
#[test]
fn trap_18_a_tuple_used_again_is_another_flow() {
    needs!("ip");
    let ns = Netns::new();
    let stream = Stream::start(&ns, "");
    let listener = ns
        .enter(|| std::net::TcpListener::bind(("127.0.0.1", 0)))
        .expect("bind");
    let to = listener.local_addr().expect("bound");
    let mut cookies = HashMap::new();
    let mut from: SocketAddr = ([127, 0, 0, 1], 0).into();
    for round in 0..2 {
        let client = ns.enter(|| {
            let socket = socket("reno", from);
            rustix::net::connect(&socket, &to).expect("connect");
            TcpStream::from(socket)
        });
        from = client.local_addr().expect("bound");
        let (server, _) = listener.accept().expect("accept");
        // Reset: no TIME-WAIT holds the tuple.
        rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).expect("SO_LINGER");
        cookies.insert(cookie(&client), round);
        let id = cookie(&client);
        drop((client, server));
        stream.wait_line("its end", |line| {
            line["type"] == "closed" && line["flow"]["cookie"] == id
        });
    }
    let lines = stream.finish();
    assert_eq!(cookies.len(), 2);
    for cookie in cookies.keys() {
        for what in ["opened", "closed"] {
            let count = lines
                .iter()
                .filter(|line| line["type"] == what && line["flow"]["cookie"] == *cookie)
                .count();
            assert_eq!(count, 1, "{what}");
        }
    }
}
