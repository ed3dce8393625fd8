//! Three network namespaces and the devices between them: made, named after this process, and removed, also those that a
//! killed lab left. Nothing outside them is touched.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use super::{LabError, Tried as _, shell, sys};
use crate::host::Roots;
use crate::host::netns::{self, Namespace};

pub const SENDER_DEVICE: &str = "snd0";
pub const ROUTER_TO_SENDER: &str = "r-snd";
pub const ROUTER_TO_RECEIVER: &str = "r-rcv";
pub const RECEIVER_DEVICE: &str = "rcv0";

/// How every namespace of a lab begins; the number of its process and the role follow.
const PREFIX: &str = "observer-lab-";
/// Where the locks are that tell which labs live, and recordings that nobody asked to keep.
const STATE: &str = "/run/observer";
/// Locally administered, so nobody's.
const MAC: [(&str, &str); 4] = [
    (SENDER_DEVICE, "02:00:00:00:00:01"),
    (ROUTER_TO_SENDER, "02:00:00:00:00:11"),
    (ROUTER_TO_RECEIVER, "02:00:00:00:00:12"),
    (RECEIVER_DEVICE, "02:00:00:00:00:02"),
];

/// Who is where: documentation's addresses (RFC 5737, RFC 3849), the same in every lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub sender: IpAddr,
    pub receiver: IpAddr,
    /// Of cross traffic: another host to whoever groups flows by peer.
    pub other_receiver: IpAddr,
}

impl Addresses {
    pub fn new(ipv6: bool) -> Self {
        let of = |last: u8| -> IpAddr {
            if ipv6 {
                Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(last)).into()
            } else {
                Ipv4Addr::new(192, 0, 2, last).into()
            }
        };
        Self {
            sender: of(1),
            receiver: of(2),
            other_receiver: of(3),
        }
    }
}

/// What is set inside.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub ipv6: bool,
    /// Bytes that one flow may have to keep in flight.
    pub window_bytes: u64,
    /// Both ends ask for ECN.
    pub ecn: bool,
    pub sysctls: Vec<(String, String)>,
}

/// The namespaces of a lab, gone when dropped.
#[derive(Debug)]
pub struct Namespaces {
    id: u32,
    lock: Option<File>,
    names: [String; 3],
    found: Vec<Namespace>,
    ipv6: bool,
    pub addresses: Addresses,
}

impl Namespaces {
    /// Removes what killed labs left, then makes this process's.
    pub fn make(settings: &Settings) -> Result<Self, LabError> {
        if !rustix::process::geteuid().is_root() {
            return Err(LabError::Unsupported(
                "the lab makes network namespaces and devices: run it as root (sudo)".to_owned(),
            ));
        }
        let state = Path::new(STATE);
        fs::create_dir_all(state).map_err(|error| LabError::File(state.to_owned(), error))?;
        remove_stale()?;
        let id = std::process::id();
        let mut made = Self {
            id,
            lock: Some(locked(id)?),
            names: ["sender", "router", "receiver"].map(|role| name(id, role)),
            found: Vec::new(),
            ipv6: settings.ipv6,
            addresses: Addresses::new(settings.ipv6),
        };
        made.devices()?;
        made.set(settings)?;
        Ok(made)
    }

    fn devices(&mut self) -> Result<(), LabError> {
        let [sender, router, receiver] = &self.names;
        let end = |device: &str, netns: &str| {
            let mac = mac(device);
            // More queues would need more qdiscs.
            format!("name {device} address {mac} numtxqueues 1 numrxqueues 1 netns {netns}")
        };
        let link = |a: (&str, &String), b: (&str, &String)| {
            format!(
                "link add {} type veth peer {}\n",
                end(a.0, a.1),
                end(b.0, b.1)
            )
        };
        let lines = format!(
            "netns add {sender}\nnetns add {router}\nnetns add {receiver}\n{}{}",
            link((SENDER_DEVICE, sender), (ROUTER_TO_SENDER, router)),
            link((ROUTER_TO_RECEIVER, router), (RECEIVER_DEVICE, receiver)),
        );
        shell::batch("ip", "", &lines)?;
        for name in &self.names {
            let found = netns::resolve(&Roots::default(), name)?;
            self.found.extend(found.into_iter().next());
        }
        let devices: [&[&str]; 3] = [
            &[SENDER_DEVICE],
            &[ROUTER_TO_SENDER, ROUTER_TO_RECEIVER],
            &[RECEIVER_DEVICE],
        ];
        for (namespace, devices) in self.found.iter().zip(devices) {
            enter(namespace, || {
                let mut off = devices.iter().map(|device| sys::offloads_off(device));
                off.try_for_each(|off| off.tried("cannot switch a device's offloads off"))
            })??;
        }
        Ok(())
    }

    fn set(&self, settings: &Settings) -> Result<(), LabError> {
        let window = settings.window_bytes.clamp(16 << 20, 1 << 30);
        let buffers = format!("4096 131072 {window}");
        let mut common = vec![
            ("net.ipv4.tcp_no_metrics_save", "1"),
            ("net.ipv4.tcp_rmem", buffers.as_str()),
            ("net.ipv4.tcp_wmem", buffers.as_str()),
        ];
        if settings.ecn {
            common.push(("net.ipv4.tcp_ecn", "1"));
        }
        for namespace in &self.found {
            // Neighbours and routes are all told: nothing is to be found out over the path.
            let _ = enter(namespace, || {
                write_sysctl("net.ipv6.conf.all.accept_dad", "0")
            })?;
            let _ = enter(namespace, || {
                write_sysctl("net.ipv6.conf.default.accept_dad", "0")
            })?;
            if !settings.ipv6 {
                // Where there is no IPv6 it is off.
                let _ = enter(namespace, || {
                    write_sysctl("net.ipv6.conf.all.disable_ipv6", "1")
                })?;
            }
        }
        let asked = settings.sysctls.iter();
        let asked: Vec<_> = asked
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        for namespace in [self.of(0)?, self.of(2)?] {
            for (key, value) in common.iter().chain(&asked) {
                enter(namespace, || write_sysctl(key, value))??;
            }
        }
        let Addresses {
            sender,
            receiver,
            other_receiver,
        } = self.addresses;
        let up = |device: &str| format!("link set lo up\nlink set {device} up\n");
        let bits = if settings.ipv6 { "128 nodad" } else { "32" };
        let address = |address: IpAddr, device: &str| {
            let (length, dad) = bits.split_once(' ').unwrap_or((bits, ""));
            format!("addr add {address}/{length} dev {device} {dad}\n")
        };
        let route = |to: IpAddr, device: &str| format!("route add {to} dev {device}\n");
        let [a, b, c] = &self.names;
        let sides = [
            (
                a,
                up(SENDER_DEVICE)
                    + &address(sender, SENDER_DEVICE)
                    + &route(receiver, SENDER_DEVICE)
                    + &route(other_receiver, SENDER_DEVICE),
            ),
            (
                b,
                up(ROUTER_TO_SENDER)
                    + &up(ROUTER_TO_RECEIVER)
                    + &route(sender, ROUTER_TO_SENDER)
                    + &route(receiver, ROUTER_TO_RECEIVER)
                    + &route(other_receiver, ROUTER_TO_RECEIVER),
            ),
            (
                c,
                up(RECEIVER_DEVICE)
                    + &address(receiver, RECEIVER_DEVICE)
                    + &address(other_receiver, RECEIVER_DEVICE)
                    + &route(sender, RECEIVER_DEVICE),
            ),
        ];
        for (name, lines) in sides {
            shell::batch("ip", &format!("-n {name}"), &lines)?;
        }
        Ok(())
    }

    /// Who passes frames on: the router's kernel, or a relay that has the ends speak to each other past it.
    pub fn forward(&self, by_kernel: bool) -> Result<(), LabError> {
        let key = if self.ipv6 {
            "net.ipv6.conf.all.forwarding"
        } else {
            "net.ipv4.ip_forward"
        };
        enter(self.of(1)?, || {
            write_sysctl(key, if by_kernel { "1" } else { "0" })
        })??;
        let (to_receiver, to_sender) = if by_kernel {
            (ROUTER_TO_SENDER, ROUTER_TO_RECEIVER)
        } else {
            (RECEIVER_DEVICE, SENDER_DEVICE)
        };
        let Addresses {
            sender,
            receiver,
            other_receiver,
        } = self.addresses;
        let neighbours = |addresses: &[IpAddr], device: &str, at: &str| -> String {
            let mac = mac(at);
            let line = |address| {
                format!("neigh replace {address} lladdr {mac} dev {device} nud permanent\n")
            };
            addresses.iter().map(line).collect()
        };
        let receivers = [receiver, other_receiver];
        let [a, b, c] = &self.names;
        let sides = [
            (a, neighbours(&receivers, SENDER_DEVICE, to_receiver)),
            (
                b,
                neighbours(&receivers, ROUTER_TO_RECEIVER, RECEIVER_DEVICE)
                    + &neighbours(&[sender], ROUTER_TO_SENDER, SENDER_DEVICE),
            ),
            (c, neighbours(&[sender], RECEIVER_DEVICE, to_sender)),
        ];
        for (name, lines) in sides {
            shell::batch("ip", &format!("-n {name}"), &lines)?;
        }
        Ok(())
    }

    fn of(&self, index: usize) -> Result<&Namespace, LabError> {
        self.found
            .get(index)
            .ok_or_else(|| LabError::Unsupported("a namespace of the lab is gone".to_owned()))
    }

    pub fn sender(&self) -> &str {
        &self.names[0]
    }

    pub fn router(&self) -> &str {
        &self.names[1]
    }

    pub fn receiver(&self) -> &str {
        &self.names[2]
    }

    pub fn in_sender<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        enter(self.of(0)?, f)
    }

    pub fn in_router<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        enter(self.of(1)?, f)
    }

    pub fn in_receiver<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        enter(self.of(2)?, f)
    }

    /// A file that goes when the lab does.
    pub fn scratch(&self) -> PathBuf {
        scratch(self.id)
    }

    /// The qdisc of the sender's device: `fq`, `pfifo limit 100`.
    pub fn set_qdisc(&self, qdisc: &str) -> Result<(), LabError> {
        let arguments = format!(
            "-n {} qdisc replace dev {SENDER_DEVICE} root {qdisc}",
            self.sender()
        );
        shell::run("tc", &arguments).map(|_| ()).map_err(|error| match error {
            LabError::Command { message, .. } => LabError::Unsupported(format!(
                "the sender's device cannot have the qdisc «{qdisc}» ({}): 'modprobe sch_{}' where it is a module",
                message.lines().next().unwrap_or("no reason given"),
                qdisc.split_whitespace().next().unwrap_or("NAME")
            )),
            other => other,
        })
    }

    /// Whether the sender's device can have it; it has none again afterwards.
    pub fn check_qdisc(&self, qdisc: &str) -> Result<(), LabError> {
        self.set_qdisc(qdisc)?;
        let arguments = format!("-n {} qdisc del dev {SENDER_DEVICE} root", self.sender());
        // Of `noqueue` there is nothing to delete.
        let _ = shell::run("tc", &arguments);
        Ok(())
    }

    /// What commands in the sender's namespace use by default.
    pub fn set_default_algorithm(&self, algorithm: &str) -> Result<(), LabError> {
        let key = "net.ipv4.tcp_congestion_control";
        let set = self.in_sender(|| write_sysctl(key, algorithm))?;
        set.map_err(|error| match error {
            LabError::File(_, error)
                if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) =>
            {
                not_allowed("the kernel lets no namespace use it by default", algorithm)
            }
            LabError::File(_, error) if error.kind() == std::io::ErrorKind::NotFound => {
                unknown_algorithm(algorithm)
            }
            other => other,
        })
    }
}

/// The kernel has no such algorithm.
pub fn unknown_algorithm(algorithm: &str) -> LabError {
    let there = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let there = there.unwrap_or_default();
    LabError::Unsupported(format!(
        "this kernel has no congestion control «{algorithm}» (it has: {}): 'modprobe tcp_{algorithm}' where it is a module",
        there.trim()
    ))
}

/// What is allowed on the host does not have the algorithm; what to write there, which takes nothing away.
pub fn not_allowed(what: &str, algorithm: &str) -> LabError {
    let allowed = fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    let allowed = allowed.unwrap_or_default();
    LabError::Unsupported(format!(
        "{algorithm}: {what}: add it on the host, \
         'sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{} {algorithm}\"'",
        allowed.trim()
    ))
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        self.found.clear();
        // What cannot be removed now, the next run removes.
        let _ = remove(self.id);
        self.lock = None;
    }
}

impl From<netns::NetnsError> for LabError {
    fn from(error: netns::NetnsError) -> Self {
        Self::Unsupported(error.to_string())
    }
}

fn enter<T: Send>(namespace: &Namespace, f: impl FnOnce() -> T + Send) -> Result<T, LabError> {
    Ok(netns::enter(namespace, f)?)
}

fn mac(device: &str) -> &'static str {
    MAC.iter()
        .find(|(name, _)| *name == device)
        .map_or("", |(_, mac)| mac)
}

fn name(id: u32, role: &str) -> String {
    format!("{PREFIX}{id}-{role}")
}

/// The lab that a namespace belongs to.
fn id_of(name: &str) -> Option<u32> {
    let (id, role) = name.strip_prefix(PREFIX)?.split_once('-')?;
    ["sender", "router", "receiver"]
        .contains(&role)
        .then_some(())?;
    id.parse().ok()
}

/// A setting of the network of the calling thread's namespace.
fn write_sysctl(key: &str, value: &str) -> Result<(), LabError> {
    let path = sysctl_path(key).map_err(LabError::Unsupported)?;
    fs::write(&path, value).map_err(|error| LabError::File(path, error))
}

/// Settings of the network only: others are the whole host's.
pub fn sysctl_path(key: &str) -> Result<PathBuf, String> {
    let plain = key.starts_with("net.")
        && !key.contains("..")
        && key
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    if !plain {
        return Err(format!(
            "'{key}' is no setting of a network namespace: they begin with net., such as net.ipv4.tcp_wmem"
        ));
    }
    Ok(Path::new("/proc/sys").join(key.replace('.', "/")))
}

fn lock_path(id: u32) -> PathBuf {
    Path::new(STATE).join(format!("lab-{id}.lock"))
}

fn scratch(id: u32) -> PathBuf {
    Path::new(STATE).join(format!("lab-{id}.mcap"))
}

/// The lock of a lab that lives: the kernel lets go of it whatever ends the process.
fn locked(id: u32) -> Result<File, LabError> {
    let path = lock_path(id);
    loop {
        let file = open(&path).map_err(|error| LabError::File(path.clone(), error))?;
        flock(&file, FlockOperation::LockExclusive).tried("cannot lock the lab's file")?;
        // Somebody who cleans up may have taken the file for a dead lab's and removed it.
        let ours = file.metadata().map(|meta| meta.ino());
        let there = fs::metadata(&path).map(|meta| meta.ino());
        if let (Ok(ours), Ok(there)) = (ours, there)
            && ours == there
        {
            return Ok(file);
        }
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(0o600).open(path)
}

/// Removes what labs left whose process is gone.
fn remove_stale() -> Result<(), LabError> {
    let mut ids = BTreeSet::new();
    for dir in Roots::default().netns {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        ids.extend(entries.filter_map(|entry| id_of(entry.file_name().to_str()?)));
    }
    let entries = fs::read_dir(STATE).into_iter().flatten().flatten();
    ids.extend(entries.filter_map(|entry| {
        let name = entry.file_name();
        let (id, _) = name.to_str()?.strip_prefix("lab-")?.split_once('.')?;
        id.parse::<u32>().ok()
    }));
    for id in ids {
        let path = lock_path(id);
        let file = open(&path).map_err(|error| LabError::File(path, error))?;
        // It lives, then.
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove(id)?;
        }
    }
    Ok(())
}

/// Ends what runs in a lab's namespaces, and removes them and its files.
fn remove(id: u32) -> Result<(), LabError> {
    let mut result = Ok(());
    for role in ["sender", "router", "receiver"] {
        let name = name(id, role);
        let mut dirs = Roots::default().netns.into_iter();
        if !dirs.any(|dir| dir.join(&name).exists()) {
            continue;
        }
        let pids = shell::run("ip", &format!("netns pids {name}")).unwrap_or_default();
        let own = std::process::id();
        for pid in pids
            .split_whitespace()
            .filter_map(|pid| pid.parse::<i32>().ok())
        {
            if pid.cast_unsigned() != own
                && let Some(pid) = Pid::from_raw(pid)
            {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        result = result.and(shell::run("ip", &format!("netns del {name}")).map(|_| ()));
    }
    let _ = fs::remove_file(scratch(id));
    // Last: whoever sees it gone, sees nothing else of this lab either.
    let _ = fs::remove_file(lock_path(id));
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_labs_are_taken_for_labs() {
        assert_eq!(id_of("observer-lab-12-router"), Some(12));
        for other in [
            "observer-12-0",
            "observer-lab-12",
            "observer-lab-x-router",
            "observer-lab-12-bridge",
            "lab",
        ] {
            assert_eq!(id_of(other), None, "{other}");
        }
    }

    #[test]
    fn settings_of_the_host_are_refused() {
        let path = sysctl_path("net.ipv4.tcp_wmem").unwrap();
        assert_eq!(path, Path::new("/proc/sys/net/ipv4/tcp_wmem"));
        for wrong in [
            "kernel.panic",
            "vm.swappiness",
            "net.../kernel/panic",
            "net..ipv4",
            "net/ipv4/x",
            "",
            "netx.y",
        ] {
            assert!(sysctl_path(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_are_of_one_family() {
        assert_eq!(Addresses::new(false).receiver.to_string(), "192.0.2.2");
        assert_eq!(
            Addresses::new(true).other_receiver.to_string(),
            "2001:db8::3"
        );
    }
}
