//! The host room and socket-diag on the running kernel, against `tc`, `ss` and the kernel's own files.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::{Shutdown, TcpListener, TcpStream};

use common::{Netns, connect, needs, run, send, skipped, veth, wait_for};
use observer::event::{
    CcState, Device, Offloads, Payload, Qdisc, TC_H_INGRESS, TC_H_ROOT, TcpState,
};
use observer::host::netns::{census, own, resolve};
use observer::host::{Roots, Watch, process, read_devices, read_host, sysctl};
use observer::kernel::diag::{Diag, Families, Socket, States};
use observer::units::{Limit, Mono};
use serde_json::Value;

const A: &str = "10.77.0.1";
const B: &str = "10.77.0.2";

fn pair() -> (Netns, Netns) {
    let (a, b) = (Netns::new(), Netns::new());
    veth(&a, A, &b, B);
    (a, b)
}

fn devices(netns: &Netns) -> Vec<Device> {
    let inum = netns.inum();
    netns.enter(|| read_devices(inum)).unwrap()
}

fn device(netns: &Netns, name: &str) -> Device {
    let all = devices(netns);
    all.into_iter().find(|d| d.name == name).unwrap()
}

fn tc(netns: &Netns) -> Vec<Value> {
    serde_json::from_str(&netns.run("tc", "-s -j qdisc show")).unwrap()
}

/// `8001:4` or `8001:` or `:4` as `tc` writes handles.
fn handle(text: &str) -> u32 {
    let (major, minor) = text.split_once(':').unwrap();
    let part = |text: &str| u32::from_str_radix(if text.is_empty() { "0" } else { text }, 16);
    part(major).unwrap() << 16 | part(minor).unwrap()
}

/// What `tc` says of a device, as ours; without the kind's own counters.
fn tc_qdisc(row: &Value) -> Qdisc {
    let number = |name: &str| row[name].as_u64().unwrap();
    let parent = match row["parent"].as_str() {
        Some("ffff:fff1") => TC_H_INGRESS,
        Some(parent) => handle(parent),
        None => TC_H_ROOT,
    };
    Qdisc {
        kind: row["kind"].as_str().unwrap().to_owned(),
        handle: handle(row["handle"].as_str().unwrap()),
        parent,
        bytes: number("bytes"),
        packets: number("packets"),
        drops: number("drops"),
        overlimits: number("overlimits"),
        requeues: number("requeues"),
        backlog_bytes: number("backlog"),
        backlog_packets: number("qlen"),
        ..Qdisc::default()
    }
}

/// Ours and `tc`'s, read when nothing moved: `tc` said the same before and after.
fn at_rest(netns: &Netns) -> (Vec<Device>, Vec<Value>) {
    wait_for("rest", || {
        let before = tc(netns);
        let ours = devices(netns);
        (before == tc(netns)).then_some((ours, before))
    })
}

/// Every qdisc of ours is one of `tc`'s, in its order, and none is missing.
fn assert_equal_to_tc(netns: &Netns) {
    let (ours, rows) = at_rest(netns);
    let mut count = 0;
    for device in ours {
        let theirs: Vec<Qdisc> = rows
            .iter()
            .filter(|row| row["dev"] == device.name)
            .map(tc_qdisc)
            .collect();
        let ours: Vec<Qdisc> = device
            .qdiscs
            .iter()
            .map(|q| Qdisc {
                extra: BTreeMap::new(),
                options: Vec::new(),
                ..q.clone()
            })
            .collect();
        assert_eq!(ours, theirs, "{}", device.name);
        count += ours.len();
    }
    assert_eq!(count, rows.len());
}

#[test]
fn trap_12_the_attached_qdisc_is_shown_not_the_default() {
    needs!("ip", "tc");
    let (a, _b) = pair();
    a.run(
        "tc",
        "qdisc replace dev v root tbf rate 50mbit burst 10kb limit 30000",
    );
    let inum = a.inum();
    let host = a.enter(|| read_host(&Roots::default(), inum));
    let v = device(&a, "v");
    assert_eq!(v.egress().unwrap().kind, "tbf");
    assert_ne!(host.default_qdisc.as_deref(), Some("tbf"));
    assert_eq!(v.kind.as_deref(), Some("veth"));
    assert_eq!((v.mtu, v.up, v.tx_queues), (1500, true, 4));
    assert_eq!(device(&a, "lo").egress().unwrap().kind, "noqueue");
    assert_equal_to_tc(&a);
    a.run("ip", "link set v down mtu 1400");
    let v = device(&a, "v");
    assert_eq!((v.mtu, v.up), (1400, false));
}

#[test]
fn offloads_are_those_of_ethtool() {
    needs!("ip", "ethtool");
    let (a, _b) = pair();
    let mut watch = Watch::new(a.inum());
    let mut read = |at: u64| -> Option<Offloads> {
        let events = a.enter(|| watch.poll_devices(Mono(at))).unwrap();
        events.into_iter().find_map(|event| match event.payload {
            Payload::Device(device) if device.name == "v" => Some(device.offloads.unwrap()),
            _ => None,
        })
    };
    let first = read(1).expect("told");
    let text = a.run("ethtool", "-k v");
    let on = |name: &str| text.contains(&format!("{name}: on"));
    assert_eq!(first.tso, on("tcp-segmentation-offload"));
    assert_eq!(first.gso, on("generic-segmentation-offload"));
    assert_eq!(first.gro, on("generic-receive-offload"));
    assert_eq!(first.lro, on("large-receive-offload"));
    assert!(first.tso && first.gso);
    a.run("ethtool", "-K v tso off gso off");
    assert_eq!(read(2), None, "they are not read every second");
    let later = read(10_000_000_001).expect("a change is told");
    assert!(!later.tso && !later.gso && later.gro == first.gro);
}

#[test]
fn trap_23_every_counter_equals_tc_and_the_backlog_is_a_level() {
    needs!("ip", "tc");
    let (a, b) = pair();
    a.run(
        "tc",
        "qdisc replace dev v root tbf rate 50mbit burst 10kb limit 30000",
    );
    let (client, server) = connect(&a, &b, B);
    let highest = std::thread::scope(|scope| {
        let sender = scope.spawn(|| send(&client, &server, 4_000_000));
        let mut highest = 0;
        while !sender.is_finished() {
            let backlog = device(&a, "v").egress().unwrap().backlog_bytes;
            highest = highest.max(backlog);
        }
        highest
    });
    assert!(highest > 0 && highest <= 30_000, "{highest}");
    let root = wait_for("empty queue", || {
        let root = device(&a, "v").egress().unwrap();
        (root.backlog_bytes == 0).then_some(root)
    });
    assert!(root.bytes > 4_000_000 && root.packets > 2_000, "{root:?}");
    assert!(root.drops > 0 && root.overlimits > 0, "{root:?}");
    assert_equal_to_tc(&a);
    assert_equal_to_tc(&b);
}

#[test]
fn trap_12_the_children_of_mq_are_summed() {
    needs!("ip", "tc");
    let (a, b) = pair();
    if let Err(reason) = a.try_run("tc", "qdisc replace dev v handle 5: root mq") {
        return skipped(&reason);
    }
    a.run(
        "tc",
        "qdisc replace dev v parent 5:2 handle 20: pfifo limit 200",
    );
    for _ in 0..8 {
        let (client, server) = connect(&a, &b, B);
        send(&client, &server, 100_000);
    }
    assert_equal_to_tc(&a);
    let (ours, rows) = at_rest(&a);
    let sum = |name: &str| -> u64 {
        let children = rows
            .iter()
            .filter(|row| row["dev"] == "v" && row["kind"] != "mq");
        children.map(|row| row[name].as_u64().unwrap()).sum()
    };
    let egress = ours
        .iter()
        .find(|d| d.name == "v")
        .unwrap()
        .egress()
        .unwrap();
    assert_eq!(egress.handle_text(), "5:");
    assert!(egress.bytes > 800_000, "{egress:?}");
    assert_eq!(
        (egress.bytes, egress.packets),
        (sum("bytes"), sum("packets"))
    );
}

#[test]
fn nested_ingress_and_clsact_qdiscs_equal_tc() {
    needs!("ip", "tc");
    let (a, b) = pair();
    a.run("tc", "qdisc replace dev v root handle 1: htb default 0");
    a.run("tc", "qdisc add dev v clsact");
    b.run("tc", "qdisc replace dev v root handle 1: htb default 10");
    b.run(
        "tc",
        "class add dev v parent 1: classid 1:10 htb rate 100mbit",
    );
    b.run(
        "tc",
        "qdisc add dev v parent 1:10 handle 10: bfifo limit 100000",
    );
    b.run("tc", "qdisc add dev v ingress");
    let (client, server) = connect(&a, &b, B);
    send(&client, &server, 500_000);
    send(&server, &client, 500_000);
    assert_equal_to_tc(&a);
    assert_equal_to_tc(&b);
    let (ours, rows) = at_rest(&a);
    let htb = rows.iter().find(|row| row["kind"] == "htb").unwrap();
    let direct = htb["options"]["direct_packets_stat"].as_u64().unwrap();
    let v = ours.iter().find(|d| d.name == "v").unwrap();
    assert!(direct > 0);
    assert_eq!(v.egress().unwrap().extra["direct_packets_stat"], direct);
    assert_eq!(v.qdiscs[0].parent, TC_H_ROOT);
    assert!(v.qdiscs.iter().any(|q| q.parent == TC_H_INGRESS));
}

#[test]
fn a_watch_says_what_changed_and_what_is_gone() {
    needs!("ip", "tc");
    let (a, _b) = pair();
    let mut watch = Watch::new(a.inum());
    let roots = Roots::default();
    wait_for("rest", || {
        let events = a.enter(|| watch.poll(Mono(1), &roots)).unwrap();
        events.is_empty().then_some(())
    });
    a.run(
        "tc",
        "qdisc replace dev v root tbf rate 9mbit burst 10kb limit 30000",
    );
    let events = a.enter(|| watch.poll_devices(Mono(2))).unwrap();
    let [event] = &events[..] else {
        panic!("{events:?}")
    };
    let Payload::Device(device) = &event.payload else {
        panic!("{event:?}")
    };
    assert_eq!(device.egress().unwrap().kind, "tbf");
    let id = device.id;
    a.run("ip", "link del v");
    let events = a.enter(|| watch.poll_devices(Mono(3))).unwrap();
    assert!(events.iter().any(|e| e.payload == Payload::DeviceGone(id)));
}

#[test]
fn trap_41_hz_is_the_kernel_s() {
    needs!();
    let read = || -> Option<(u64, u64)> {
        let text = fs::read_to_string("/proc/timer_list").ok()?;
        let number = |mark: &str| -> Option<u64> {
            let after = text.split_once(mark)?.1;
            after.split_whitespace().next()?.parse().ok()
        };
        Some((number("now at ")?, number("\njiffies: ")?))
    };
    let Some((ns, jiffies)) = read() else {
        return skipped("no jiffies in /proc/timer_list");
    };
    let (ns, jiffies) = wait_for("100 ticks", || {
        let (later_ns, later) = read()?;
        (later >= jiffies + 100).then(|| (later_ns - ns, later - jiffies))
    });
    let measured = jiffies as f64 * 1e9 / ns as f64;
    let hz = read_host(&Roots::default(), 0).hz.unwrap();
    assert!(
        (measured / f64::from(hz) - 1.0).abs() < 0.1,
        "{measured} {hz}"
    );
}

#[test]
fn the_host_and_trap_32_sysctls_are_the_kernel_s() {
    needs!("ip", "sysctl");
    let netns = Netns::new();
    netns.run("sysctl", "-qw net.ipv4.tcp_notsent_lowat=131072");
    let inum = netns.inum();
    let inside = netns.enter(|| read_host(&Roots::default(), inum));
    let value = |name: &str| inside.sysctls[name].clone();
    assert_eq!(
        value("net.ipv4.tcp_notsent_lowat").as_deref(),
        Some("131072")
    );
    let outside = read_host(&Roots::default(), 0);
    assert_ne!(
        outside.sysctls["net.ipv4.tcp_notsent_lowat"].as_deref(),
        Some("131072")
    );
    for name in sysctl::NAMES {
        let theirs = netns.try_run("sysctl", &format!("-n {name}")).ok();
        let theirs = theirs.map(|t| t.split_whitespace().collect::<Vec<_>>().join(" "));
        assert_eq!(value(name), theirs, "{name}");
    }
    let root = Roots::default().proc.join("sys");
    assert_eq!(sysctl::read(&root, "net.ipv4.tcp_bbr_pacing_gain"), None);
    assert_eq!(outside.kernel, run("uname", "-r").trim());
    assert_eq!(outside.hostname, run("uname", "-n").trim());
    let cpus = run("getconf", "_NPROCESSORS_ONLN");
    assert_eq!(outside.cpus.to_string(), cpus.trim());
    assert!(outside.available_cc.contains(&"reno".to_owned()));
}

#[test]
fn trap_22_namespaces_and_owners_are_found_everywhere() {
    needs!("ip");
    let netns = Netns::new();
    let roots = Roots::default();
    let named = netns.namespace();
    let all = census(&roots).unwrap().namespaces;
    assert_eq!(all[0].inum, own(&roots).unwrap().inum);
    assert_eq!(all.iter().filter(|n| **n == named).count(), 1);
    let error = resolve(&roots, "observer-no-such").unwrap_err();
    assert!(error.is_usage() && error.to_string().contains(&netns.name));

    let listener = netns.enter(|| TcpListener::bind("127.0.0.1:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    let sockets = sockets(&netns, States::ALL);
    let socket = sockets.iter().find(|s| s.local.port() == port).unwrap();
    let owners = process::owners_by_inode(&roots.proc);
    let owner = &owners.by_inode[&socket.inode];
    let comm = fs::read_to_string("/proc/self/comm").unwrap();
    assert_eq!(owner.len(), 1);
    assert_eq!(owner[0].pid, std::process::id());
    assert_eq!(owner[0].comm, comm.trim_end());
}

fn sockets(netns: &Netns, states: States) -> Vec<Socket> {
    let mut sockets = Vec::new();
    let inum = netns.inum();
    let mut diag = netns.enter(|| Diag::open(inum)).unwrap();
    diag.dump(states, Families::BOTH, |socket| sockets.push(socket))
        .unwrap();
    sockets
}

/// One row of `ss -tinHOem`: its words by name.
struct Row(String);

impl Row {
    /// The value of `name:value`.
    fn text(&self, name: &str) -> Option<&str> {
        let mut words = self.0.split([' ', '(', ')', ',', '\t']);
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix(':'))
    }

    fn number(&self, name: &str) -> Option<u64> {
        let text = self.text(name)?;
        text.trim_end_matches("bps")
            .trim_end_matches("ms")
            .parse()
            .ok()
    }

    /// Milliseconds with decimals, in µs.
    fn us(&self, name: &str) -> Option<u64> {
        us(self.text(name)?)
    }

    /// The value of `name valuebps`, in bytes per second.
    fn rate(&self, name: &str) -> Option<u64> {
        let mut words = self.0.split_whitespace();
        words.find(|word| *word == name)?;
        let bits: u64 = words.next()?.strip_suffix("bps")?.parse().ok()?;
        Some(bits / 8)
    }
}

fn us(ms: &str) -> Option<u64> {
    let ms: f64 = ms.trim_end_matches("ms").parse().ok()?;
    Some((ms * 1000.0).round() as u64)
}

fn ss(netns: &Netns) -> BTreeMap<u64, Row> {
    let text = netns.run("ss", "-tinHOem");
    let rows = text.lines().map(|line| Row(line.to_owned()));
    rows.map(|row| {
        (
            u64::from_str_radix(row.text("sk").unwrap(), 16).unwrap(),
            row,
        )
    })
    .collect()
}

/// `ss` and ours while nothing moves.
fn ss_at_rest(netns: &Netns) -> (BTreeMap<u64, Row>, Vec<Socket>) {
    // The `last…` ages move all the time.
    let still = |rows: &BTreeMap<u64, Row>| -> Vec<String> {
        let words = rows.values().flat_map(|row| row.0.split_whitespace());
        let words = words.filter(|word| !word.starts_with("last"));
        words.map(str::to_owned).collect()
    };
    wait_for("rest", || {
        let before = ss(netns);
        let ours = sockets(netns, States::CONNECTED);
        (still(&before) == still(&ss(netns))).then_some((before, ours))
    })
}

/// What `ss` leaves out when it is 0.
fn or_zero(value: Option<u64>) -> Option<u64> {
    value.or(Some(0))
}

fn assert_equal_to_ss(socket: &Socket, row: &Row) {
    let s = socket.sample.as_ref().unwrap();
    let a = socket.attributes.as_ref().unwrap();
    let wide = |value: Option<u32>| value.map(u64::from);
    let line = &row.0;
    assert!(line.starts_with(socket.state.as_str()), "{line}");
    assert_eq!(Some(u64::from(socket.inode)), row.number("ino"), "{line}");
    assert!(line.contains(&format!(" {} ", a.cc_name)), "{line}");
    assert_eq!(s.cwnd.map(u64::from), row.number("cwnd"), "{line}");
    assert_eq!(
        s.ssthresh.and_then(Limit::finite).map(u64::from),
        row.number("ssthresh"),
        "{line}"
    );
    assert_eq!(Some(u64::from(s.mss)), row.number("mss"), "{line}");
    assert_eq!(wide(a.pmtu), row.number("pmtu"), "{line}");
    assert_eq!(a.rcv_mss.map(u64::from), row.number("rcvmss"), "{line}");
    assert_eq!(a.advmss.map(u64::from), row.number("advmss"), "{line}");
    let (srtt, rttvar) = row.text("rtt").unwrap().split_once('/').unwrap();
    assert_eq!(wide(s.srtt_us), us(srtt), "{line}");
    assert_eq!(wide(s.rttvar_us), us(rttvar), "{line}");
    assert_eq!(wide(s.min_rtt_us), row.us("minrtt"), "{line}");
    assert_eq!(wide(s.rcv_rtt_us), row.us("rcv_rtt"), "{line}");
    assert_eq!(s.rto_us, row.us("rto"), "{line}");
    assert_eq!(s.bytes_sent, or_zero(row.number("bytes_sent")), "{line}");
    assert_eq!(s.bytes_acked, or_zero(row.number("bytes_acked")), "{line}");
    assert_eq!(
        s.bytes_retrans,
        or_zero(row.number("bytes_retrans")),
        "{line}"
    );
    assert_eq!(
        s.bytes_received,
        or_zero(row.number("bytes_received")),
        "{line}"
    );
    assert_eq!(wide(s.segs_out), or_zero(row.number("segs_out")), "{line}");
    assert_eq!(wide(s.segs_in), or_zero(row.number("segs_in")), "{line}");
    assert_eq!(
        wide(s.data_segs_out),
        or_zero(row.number("data_segs_out")),
        "{line}"
    );
    assert_eq!(
        wide(s.data_segs_in),
        or_zero(row.number("data_segs_in")),
        "{line}"
    );
    assert_eq!(
        wide(s.delivered),
        or_zero(row.number("delivered")),
        "{line}"
    );
    assert_eq!(
        wide(s.dsack_dups),
        or_zero(row.number("dsack_dups")),
        "{line}"
    );
    assert_eq!(wide(s.snd_wnd_bytes), row.number("snd_wnd"), "{line}");
    assert_eq!(
        s.pacing_rate.and_then(Limit::finite),
        row.rate("pacing_rate"),
        "{line}"
    );
    assert_eq!(s.delivery_rate, row.rate("delivery_rate"), "{line}");
    assert_eq!(s.rate_app_limited, line.contains(" app_limited"), "{line}");
    assert_eq!(
        u64::from(s.packets_out),
        row.number("unacked").unwrap_or(0),
        "{line}"
    );
    let retrans = row
        .text("retrans")
        .unwrap_or("0/0")
        .split_once('/')
        .unwrap();
    assert_eq!(
        (s.retrans_out.to_string(), s.retrans.to_string()),
        (retrans.0.to_owned(), retrans.1.to_owned()),
        "{line}"
    );
    let busy = s.clocks.unwrap().busy_us;
    assert_eq!(Some(busy / 1000), or_zero(row.number("busy")), "{line}");
    assert_eq!(wide(s.rcvbuf_bytes), skmem(row, "rb"), "{line}");
    assert_eq!(wide(s.sndbuf_bytes), skmem(row, "tb"), "{line}");
    assert_eq!(wide(s.wmem_queued_bytes), skmem(row, "w"), "{line}");
    let shifts = a
        .wscale
        .unwrap()
        .map(|w| format!("wscale:{},{}", w.snd, w.rcv));
    assert!(line.contains(&shifts.unwrap()), "{line}");
    assert_eq!(a.sack, Some(line.contains(" sack ")), "{line}");
    assert_eq!(a.timestamps, Some(line.contains(" ts ")), "{line}");
}

/// A word of `skmem:(r0,rb131072,t0,tb3939840,…)`.
fn skmem(row: &Row, name: &str) -> Option<u64> {
    let (_, memory) = row.0.split_once("skmem:(")?;
    let (memory, _) = memory.split_once(')')?;
    let mut words = memory.split(',');
    words.find_map(|word| word.strip_prefix(name)?.parse().ok())
}

fn flow(algorithm: &str) -> (Netns, Netns, TcpStream, TcpStream) {
    let (a, b) = pair();
    a.run(
        "tc",
        "qdisc replace dev v root tbf rate 50mbit burst 10kb limit 30000",
    );
    let (client, server) = connect(&a, &b, B);
    rustix::net::sockopt::set_tcp_congestion(&client, algorithm).unwrap();
    assert_eq!(
        rustix::net::sockopt::tcp_congestion(&client).unwrap(),
        algorithm
    );
    send(&client, &server, 2_000_000);
    send(&server, &client, 10_000);
    (a, b, client, server)
}

#[test]
fn trap_01_diag_equals_ss_at_rest() {
    needs!("ip", "tc", "ss");
    let (a, b, client, server) = flow("cubic");
    let mut retransmitted = 0;
    for netns in [&a, &b] {
        let (rows, ours) = ss_at_rest(netns);
        assert_eq!((rows.len(), ours.len()), (1, 1));
        let socket = &ours[0];
        assert_equal_to_ss(socket, &rows[&socket.id.cookie]);
        assert_eq!(socket.id.netns, netns.inum());
        retransmitted += socket.sample.as_ref().unwrap().retrans;
    }
    assert!(retransmitted > 0);
    drop((client, server));
}

#[test]
fn trap_13_and_14_bbr_s_bandwidth_is_that_of_ss() {
    needs!("ip", "tc", "ss");
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    if !available.unwrap().split_whitespace().any(|cc| cc == "bbr") {
        return skipped("no bbr here");
    }
    let (a, _b, client, server) = flow("bbr");
    let (rows, ours) = ss_at_rest(&a);
    let row = &rows[&ours[0].id.cookie];
    assert_equal_to_ss(&ours[0], row);
    let sample = ours[0].sample.as_ref().unwrap();
    let Some(CcState::Bbr(bbr)) = &sample.cc else {
        panic!("{sample:?}");
    };
    assert_eq!(bbr.btlbw.map(|bw| bw * 8), row.number("bw"));
    assert!(bbr.btlbw > Some(0));
    assert_eq!(bbr.min_rtt_us.map(u64::from), row.us("mrtt"));
    let gain = |name| row.text(name).unwrap().parse::<f64>().unwrap();
    assert!((f64::from(bbr.pacing_gain_256.unwrap()) / 256.0 - gain("pacing_gain")).abs() < 1e-4);
    assert!((f64::from(bbr.cwnd_gain_256.unwrap()) / 256.0 - gain("cwnd_gain")).abs() < 1e-4);
    drop((client, server));
}

#[test]
fn trap_16_a_v4_mapped_socket_is_one_ipv4_flow() {
    needs!("ip");
    let netns = Netns::new();
    let listener = netns.enter(|| TcpListener::bind("[::]:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = netns
        .enter(|| TcpStream::connect(("127.0.0.1", port)))
        .unwrap();
    let (server, _) = listener.accept().unwrap();
    let ours = sockets(&netns, States::CONNECTED);
    assert_eq!(ours.len(), 2);
    let client_at = client.local_addr().unwrap();
    assert!(ours.iter().all(|s| s.local.is_ipv4() && s.remote.is_ipv4()));
    assert!(ours.iter().any(|s| s.local == client_at));
    assert!(
        ours.iter()
            .any(|s| s.remote == client_at && s.local.port() == port)
    );
    drop(server);
}

#[test]
fn trap_31_listeners_and_time_wait_have_no_sample() {
    needs!("ip");
    let netns = Netns::new();
    let listener = netns.enter(|| TcpListener::bind("127.0.0.1:0")).unwrap();
    let to = listener.local_addr().unwrap();
    let client = netns.enter(|| TcpStream::connect(to)).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let from = client.local_addr().unwrap();
    client.shutdown(Shutdown::Both).unwrap();
    server.read_to_end(&mut Vec::new()).unwrap();
    drop((server, client));
    let ours = wait_for("TIME-WAIT", || {
        let ours = sockets(&netns, States::ALL);
        let waits = |s: &Socket| s.state == TcpState::TimeWait;
        ours.iter().any(waits).then_some(ours)
    });
    let wait = ours.iter().find(|s| s.local == from).unwrap();
    assert_eq!(wait.state, TcpState::TimeWait);
    assert_eq!((&wait.attributes, &wait.sample), (&None, &None));
    let listen = ours.iter().find(|s| s.state == TcpState::Listen).unwrap();
    assert_eq!(listen.local, to);
    assert_eq!(listen.sample, None);
    assert!(!listen.attributes.as_ref().unwrap().cc_name.is_empty());
    assert_eq!(sockets(&netns, States::CONNECTED), []);
}

#[test]
fn trap_24_a_connect_under_way_has_measured_nothing() {
    needs!("ip");
    let (a, b) = pair();
    // Nobody answers: the neighbour is known, its end is down.
    b.run("ip", "link set v down");
    a.run(
        "ip",
        &format!("neigh replace {B} lladdr 02:00:00:00:00:01 dev v nud permanent"),
    );
    a.enter(|| {
        std::thread::scope(|scope| {
            let to = format!("{B}:9").parse().unwrap();
            let limit = std::time::Duration::from_millis(500);
            scope.spawn(move || TcpStream::connect_timeout(&to, limit));
            let sample = wait_for("SYN-SENT", || {
                let ours = sockets(&a, States::CONNECTED);
                let syn = ours.into_iter().find(|s| s.state == TcpState::SynSent)?;
                assert_eq!(syn.attributes.unwrap().sack, None);
                syn.sample
            });
            assert_eq!((sample.srtt_us, sample.min_rtt_us), (None, None));
            assert_eq!(sample.delivery_rate, None);
            assert_eq!(sample.ssthresh, Some(Limit::Unlimited));
        });
    });
}
