//! `observer list` as text: the plain list made without a model says what the model's says; the flags of names, ports
//! and processes.

#![expect(
    clippy::disallowed_methods,
    reason = "how long a person waits is wall time"
)]

mod common;

use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Netns, connect, needs, send, try_run, wait_for};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

const OBSERVER: &str = env!("CARGO_BIN_EXE_observer");
/// All that `list` shows, said as a filter: the answer is made by a model then.
const BY_MODEL: &str = "state connected";

fn list(netns: &Netns, arguments: &str) -> String {
    let output = Command::new(OBSERVER)
        .args(["list", "--window", "0", "-N", &netns.name])
        .args(arguments.split_whitespace())
        .output()
        .expect("the program starts");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{messages}");
    String::from_utf8(output.stdout).expect("text")
}

/// The same on a terminal of so many columns.
fn list_on_terminal(netns: &Netns, columns: u16, arguments: &str) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&master).expect("granted");
    unlockpt(&master).expect("unlocked");
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&master, size).expect("its size");
    let name = ptsname(&master, Vec::new()).expect("its name");
    let slave = File::options()
        .read(true)
        .write(true)
        .open(name.to_str().expect("a path"))
        .expect("its other end");
    let mut command = Command::new(OBSERVER);
    command
        .args(["list", "--window", "0", "-N", &netns.name])
        .args(arguments.split_whitespace())
        .stdin(Stdio::null())
        .stdout(slave);
    let mut child = command.spawn().expect("the program starts");
    // The last of our copies of the other end goes here: reading ends with the program.
    drop(command);
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        let mut buffer = [0; 4096];
        let mut master = File::from(master);
        while let Ok(read @ 1..) = master.read(&mut buffer) {
            text.extend_from_slice(&buffer[..read]);
        }
        String::from_utf8(text).expect("text")
    });
    assert!(child.wait().expect("it ends").success());
    reader.join().expect("read")
}

/// The cell of every row under this heading of a piped table.
fn column<'a>(table: &'a str, key: &str) -> Vec<&'a str> {
    let mut lines = table.lines().map(|line| line.split('\t'));
    let at = lines
        .next()
        .and_then(|mut keys| keys.position(|k| k == key))
        .unwrap_or_else(|| panic!("no {key}: {table}"));
    lines
        .map(|mut cells| cells.nth(at).expect("a cell"))
        .collect()
}

/// A connection of an IPv6 socket over IPv4.
fn connect_mapped(netns: &Netns) -> (TcpStream, TcpStream) {
    netns.enter(|| {
        let listener = TcpListener::bind("[::]:0").expect("bound");
        let port = listener.local_addr().expect("its address").port();
        let to = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let client = TcpStream::connect(to).expect("connected");
        let (server, _) = listener.accept().expect("accepted");
        (client, server)
    })
}

#[test]
fn the_plain_list_says_what_the_model_says() {
    needs!("ip");
    let netns = Netns::new();
    let mut held = vec![
        connect(&netns, &netns, "127.0.0.1"),
        connect(&netns, &netns, "::1"),
        connect(&netns, &netns, "127.0.0.1"),
        connect_mapped(&netns),
    ];
    for (client, server) in &held[1..] {
        send(client, server, 1 << 20);
    }
    // Data that nobody reads: the receiver's window shuts, and the figures stand still.
    let (client, _server) = &held[2];
    client.set_nonblocking(true).expect("set");
    while std::io::Write::write(&mut &*client, &[0; 8192]).is_ok() {}
    // One end shut, the other not: FIN-WAIT-2 and CLOSE-WAIT.
    let (client, _server) = &held[0];
    client
        .shutdown(std::net::Shutdown::Write)
        .expect("shut down");
    // Of sockets that stand still: what was the same before and after was the same in between.
    let both = |make: &dyn Fn(&str) -> String, flags: &str| {
        wait_for("sockets that stand still", || {
            let quick = make(flags);
            let by_model = make(&format!("{flags} {BY_MODEL}"));
            (make(flags) == quick).then_some((quick, by_model))
        })
    };
    for flags in ["", "-4", "-6"] {
        let (quick, by_model) = both(&|arguments| list(&netns, arguments), flags);
        assert_eq!(quick, by_model, "{flags}");
        let rows = match flags {
            "" => 8,
            "-4" => 6,
            _ => 2,
        };
        assert_eq!(column(&quick, "state").len(), rows, "{quick}");
        let (wide, by_model) = both(&|arguments| list_on_terminal(&netns, 0, arguments), flags);
        assert_eq!(wide, by_model, "{flags}");
    }
    let table = list(&netns, "");
    let states = column(&table, "state");
    for state in ["ESTAB", "FIN-WAIT-2", "CLOSE-WAIT"] {
        assert!(states.contains(&state), "{table}");
    }
    held.clear();
}

#[test]
fn addresses_and_ports_are_numbers_by_default() {
    needs!("ip");
    let netns = Netns::new();
    let (client, _server) = connect(&netns, &netns, "127.0.0.1");
    let table = list(&netns, "");
    assert_eq!(table, list(&netns, "-n"));
    assert_eq!(table, list(&netns, "--numeric"));
    let local = client.local_addr().expect("its address").to_string();
    assert!(column(&table, "local").contains(&local.as_str()), "{table}");
}

#[test]
fn names_stand_beside_addresses_for_machines_and_in_their_place_for_people() {
    needs!("ip");
    let netns = Netns::new();
    let service = netns.enter(|| TcpListener::bind("127.0.0.1:443").expect("bound"));
    let to = service.local_addr().expect("its address");
    let client = netns.enter(|| TcpStream::connect(to).expect("connected"));
    let _server = service.accept().expect("accepted");
    let port = client.local_addr().expect("its address").port();
    // Whatever this host calls its loopback; nothing, where it has no name for it.
    let name = try_run("getent", "hosts 127.0.0.1")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1).map(str::to_owned));
    let cell = name.clone().unwrap_or_default();

    let table = list(&netns, "-r");
    assert_eq!(column(&table, "remote_name"), [cell.as_str(); 2], "{table}");
    assert_eq!(column(&table, "local_name"), [cell.as_str(); 2], "{table}");
    assert!(column(&table, "remote").contains(&"127.0.0.1:443"));
    assert!(
        !list(&netns, "").contains("remote_name"),
        "only with --resolve"
    );

    for line in list(&netns, "--resolve --json").lines() {
        let object: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(object["flow"]["local_name"].as_str(), name.as_deref());
        let local = object["flow"]["local"].as_str().expect("an address");
        assert!(local.starts_with("127.0.0.1:"), "{local}");
    }

    let host = name.unwrap_or_else(|| "127.0.0.1".to_owned());
    let services = std::fs::read_to_string("/etc/services").unwrap_or_default();
    let https = services
        .lines()
        .find(|line| line.split_whitespace().nth(1) == Some("443/tcp"))
        .and_then(|line| line.split_whitespace().next())
        .unwrap_or("443");
    let screen = list_on_terminal(&netns, 0, "-r");
    assert!(screen.contains(&format!("{host}:{https} ")), "{screen}");
    // `-n` with `-r`: as in ss, for the port alone.
    let screen = list_on_terminal(&netns, 0, "-rn");
    assert!(screen.contains(&format!("{host}:443 ")), "{screen}");
    assert!(screen.contains(&format!("{host}:{port} ")), "{screen}");
    let screen = list_on_terminal(&netns, 0, "");
    assert!(screen.contains("127.0.0.1:443 "), "{screen}");
}

#[test]
fn a_list_with_names_is_not_kept_waiting_by_a_resolver() {
    needs!("ip");
    let netns = Netns::new();
    // Addresses of a network for documentation: nobody has names for them, and who is asked may never answer.
    netns.run("ip", "addr add 192.0.2.1/24 dev lo");
    let held: Vec<_> = (0..40)
        .map(|n| {
            netns.run("ip", &format!("addr add 192.0.2.{}/32 dev lo", n + 2));
            connect(&netns, &netns, &format!("192.0.2.{}", n + 2))
        })
        .collect();
    let begun = Instant::now();
    let table = list(&netns, "-r");
    let took = begun.elapsed();
    assert_eq!(column(&table, "remote").len(), held.len() * 2);
    // A second is what it waits for names; the rest is for a busy machine.
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn processes_are_looked_for_when_asked_for() {
    needs!("ip");
    let netns = Netns::new();
    let (_client, _server) = connect(&netns, &netns, "127.0.0.1");
    let table = list(&netns, "");
    assert_eq!(column(&table, "processes"), ["", ""], "{table}");
    let me = format!("/{}", std::process::id());
    for arguments in ["-p", "--processes", "-p -n"] {
        let table = list(&netns, arguments);
        let holders = column(&table, "processes");
        assert_eq!(holders.len(), 2, "{table}");
        assert!(holders.iter().all(|who| who.ends_with(&me)), "{table}");
    }
    let line = list(&netns, "-p --json");
    let object: serde_json::Value =
        serde_json::from_str(line.lines().next().expect("a flow")).expect("JSON");
    assert_eq!(object["processes"][0]["pid"], std::process::id());
    // On a narrow terminal other columns go first.
    let narrow = list_on_terminal(&netns, 80, "-p");
    assert!(
        narrow.contains("Process") && narrow.contains(&me),
        "{narrow}"
    );
    assert!(!list_on_terminal(&netns, 80, "").contains("Process"));
}
