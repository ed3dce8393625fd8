//! Which container, pod and systemd unit a cgroup's path names, as far as runtimes write it there.
//!
//! The innermost name counts: a container in a container (kind, docker in docker) is the inner one. A path that follows
//! no runtime's custom names none, and the monitor beside a container (`conmon`, `lxc.monitor`) is not in it.

use std::borrow::Cow;
use std::fmt;

/// What a path tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place<'a> {
    pub container: Option<Container<'a>>,
    /// The innermost service or scope; inside the container where there is one.
    pub unit: Option<Cow<'a, str>>,
}

/// A container, or a pod of which the path says no container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container<'a> {
    /// `docker`, `podman`, `containerd`, `cri-o`, `lxc`, `nspawn`, `machined`; `kubernetes` where the path names a pod
    /// and not by which runtime.
    pub runtime: &'static str,
    pub name: Option<Name<'a>>,
    /// UID of the Kubernetes pod, or ID of podman's.
    pub pod: Option<Cow<'a, str>>,
}

/// What the runtime calls the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// Hexadecimal digits.
    Id(&'a str),
    /// Given by a person.
    Name(Cow<'a, str>),
}

/// As runtimes shorten IDs.
const SHORT: usize = 12;

/// `runtime:id` with the ID as short as the runtimes' own lists show it, or `pod:uid`.
impl fmt::Display for Container<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, &self.pod) {
            (Some(Name::Id(id)), _) => {
                write!(f, "{}:{}", self.runtime, id.get(..SHORT).unwrap_or(id))
            }
            (Some(Name::Name(name)), _) => write!(f, "{}:{name}", self.runtime),
            (None, Some(pod)) => write!(f, "pod:{pod}"),
            (None, None) => f.write_str(self.runtime),
        }
    }
}

/// `runtime-ID.scope`, as runtimes name the scope they ask systemd for.
const SCOPES: &[(&str, &str)] = &[
    ("docker-", "docker"),
    ("libpod-", "podman"),
    ("cri-containerd-", "containerd"),
    ("nerdctl-", "containerd"),
    ("crio-", "cri-o"),
];

/// What `path` (below the cgroup v2 mount, as in `/proc/PID/cgroup`) tells.
pub fn place(path: &str) -> Place<'_> {
    let mut place = Place::default();
    let mut pod: Option<Cow<'_, str>> = None;
    let mut parent = Parent::default();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let found = container(part, parent, pod.is_some());
        if let Some(found) = pod_of(part, parent) {
            place.container = Some(Container {
                runtime: if part.contains("libpod_pod_") || parent == Parent::Libpod {
                    "podman"
                } else {
                    "kubernetes"
                },
                name: None,
                pod: Some(found.clone()),
            });
            pod = Some(found);
        }
        if let Some((runtime, name)) = found {
            let pod = pod.take();
            place = Place {
                container: Some(Container {
                    runtime,
                    name: Some(name),
                    pod,
                }),
                unit: None,
            };
        } else if is_unit(part) {
            place.unit = Some(unescape(part));
        }
        parent = Parent::of(part, parent);
    }
    place
}

/// What the directories above make of a name that alone says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Parent {
    #[default]
    Other,
    /// `/docker`.
    Docker,
    /// `/docker/buildkit`.
    Buildkit,
    /// `/libpod_parent` of cgroupfs.
    Libpod,
    /// `/lxc`.
    Lxc,
    /// `/kubepods`, `/kubepods/burstable` of cgroupfs.
    Kubepods,
    /// `/kubepods/burstable/podUID`.
    Pod,
    /// `/machine.slice`.
    Machine,
}

impl Parent {
    fn of(part: &str, above: Self) -> Self {
        match (part, above) {
            ("docker", _) => Self::Docker,
            ("buildkit", Self::Docker) => Self::Buildkit,
            ("libpod_parent", _) => Self::Libpod,
            ("lxc" | "lxc.payload", _) => Self::Lxc,
            ("kubepods", _) | ("burstable" | "besteffort", Self::Kubepods) => Self::Kubepods,
            ("machine.slice", _) => Self::Machine,
            (_, Self::Kubepods) if part.starts_with("pod") => Self::Pod,
            _ => Self::Other,
        }
    }
}

/// The container that this part of a path names.
fn container(part: &str, parent: Parent, in_pod: bool) -> Option<(&'static str, Name<'_>)> {
    if let Some(scope) = part.strip_suffix(".scope") {
        let found = SCOPES.iter().find_map(|(prefix, runtime)| {
            let id = scope.strip_prefix(prefix)?;
            is_id(id).then_some((*runtime, Name::Id(id)))
        });
        return found.or_else(|| {
            let name = scope.strip_prefix("machine-")?;
            (parent == Parent::Machine && !name.is_empty())
                .then(|| ("machined", Name::Name(unescape(name))))
        });
    }
    if let Some(name) = part
        .strip_prefix("systemd-nspawn@")
        .and_then(|rest| rest.strip_suffix(".service"))
    {
        return (!name.is_empty()).then(|| ("nspawn", Name::Name(unescape(name))));
    }
    // The systemd form of a name, written by a runtime that was told to use the file system itself.
    if let Some((_, id)) = part.split_once(":cri-containerd:") {
        return is_id(id).then_some(("containerd", Name::Id(id)));
    }
    if let Some(id) = part
        .strip_prefix("libpod-payload-")
        .or_else(|| part.strip_prefix("libpod-"))
    {
        return is_id(id).then_some(("podman", Name::Id(id)));
    }
    if let Some(id) = part.strip_prefix("crio-") {
        return is_id(id).then_some(("cri-o", Name::Id(id)));
    }
    if let Some(name) = part.strip_prefix("lxc.payload.") {
        return (!name.is_empty()).then_some(("lxc", Name::Name(Cow::Borrowed(name))));
    }
    match parent {
        Parent::Docker if is_id(part) => Some(("docker", Name::Id(part))),
        Parent::Buildkit => Some(("docker", Name::Id(part))),
        Parent::Pod if in_pod && is_id(part) => Some(("kubernetes", Name::Id(part))),
        Parent::Lxc => Some(("lxc", Name::Name(Cow::Borrowed(part)))),
        _ => None,
    }
}

/// The pod that this part of a path names.
fn pod_of(part: &str, parent: Parent) -> Option<Cow<'_, str>> {
    // `kubepods-burstable-podUID.slice`, also `kubelet-kubepods-…` (kind) and before `:cri-containerd:`.
    let slice = part.split(':').next().unwrap_or(part);
    if let Some(name) = slice.strip_suffix(".slice") {
        if let Some((_, id)) = name.split_once("-libpod_pod_") {
            return is_id(id).then_some(Cow::Borrowed(id));
        }
        let (class, uid) = name.rsplit_once("-pod")?;
        return (class.contains("kubepods") && is_uid(uid))
            .then(|| Cow::Owned(uid.replace('_', "-")));
    }
    match parent {
        Parent::Kubepods => {
            let uid = part.strip_prefix("pod")?;
            is_uid(uid).then(|| Cow::Borrowed(uid))
        }
        Parent::Libpod => is_id(part).then_some(Cow::Borrowed(part)),
        _ => None,
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes()
        .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// 32 random bytes.
fn is_id(text: &str) -> bool {
    text.len() == 64 && is_hex(text)
}

/// A UUID with either separator, or the hash that stands for it in static pods.
fn is_uid(text: &str) -> bool {
    match text.len() {
        32 => is_hex(text),
        36 => text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => matches!(byte, b'-' | b'_'),
            _ => byte.is_ascii_hexdigit(),
        }),
        _ => false,
    }
}

fn is_unit(part: &str) -> bool {
    [".service", ".scope"].iter().any(|suffix| {
        part.strip_suffix(suffix)
            .is_some_and(|name| !name.is_empty())
    })
}

/// `\x2d` back to `-` (`systemd-escape(1)`). What is no such sequence stays.
fn unescape(name: &str) -> Cow<'_, str> {
    if !name.contains("\\x") {
        return Cow::Borrowed(name);
    }
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let [first, after @ ..] = rest {
        if let [b'\\', b'x', high, low, after @ ..] = rest
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            bytes.push(high << 4 | low);
            rest = after;
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "3f1c0b9a8d7e6f5a4b3c2d1e0f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c4d3e2f10";
    const POD: &str = "a1b2c3d4-0001-4a5b-8c6d-0123456789ab";

    /// Path → (runtime, id or name, pod, unit, short form); empty = none. `ID`, `POD` and `P_D` (with `_`) stand for
    /// their values.
    const PATHS: &[(&str, [&str; 5])] = &[
        // Docker: systemd, with systemd inside, rootless, cgroupfs, docker in docker, buildkit.
        (
            "/system.slice/docker-ID.scope",
            ["docker", "ID", "", "", "docker:3f1c0b9a8d7e"],
        ),
        (
            "/system.slice/docker-ID.scope/init.scope",
            ["docker", "ID", "", "init.scope", "docker:3f1c0b9a8d7e"],
        ),
        (
            "/system.slice/docker-ID.scope/system.slice/nginx.service",
            ["docker", "ID", "", "nginx.service", "docker:3f1c0b9a8d7e"],
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-ID.scope",
            ["docker", "ID", "", "", "docker:3f1c0b9a8d7e"],
        ),
        (
            "/docker/ID",
            ["docker", "ID", "", "", "docker:3f1c0b9a8d7e"],
        ),
        (
            "/docker/ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff/docker/ID",
            ["docker", "ID", "", "", "docker:3f1c0b9a8d7e"],
        ),
        (
            "/docker/buildkit/s8xqfi2btn59w8hhb0sp2ln4k",
            [
                "docker",
                "s8xqfi2btn59w8hhb0sp2ln4k",
                "",
                "",
                "docker:s8xqfi2btn59",
            ],
        ),
        // Podman: root, crun's own level below, rootless, pods, cgroupfs, split (quadlet); the monitor is outside.
        (
            "/machine.slice/libpod-ID.scope",
            ["podman", "ID", "", "", "podman:3f1c0b9a8d7e"],
        ),
        (
            "/machine.slice/libpod-ID.scope/container",
            ["podman", "ID", "", "", "podman:3f1c0b9a8d7e"],
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope/container",
            ["podman", "ID", "", "", "podman:3f1c0b9a8d7e"],
        ),
        (
            "/machine.slice/machine-libpod_pod_ID.slice/libpod-ID.scope/container",
            ["podman", "ID", "ID", "", "podman:3f1c0b9a8d7e"],
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service/user.slice/user-libpod_pod_ID.slice/libpod-ID.scope",
            ["podman", "ID", "ID", "", "podman:3f1c0b9a8d7e"],
        ),
        (
            "/libpod_parent/libpod-ID",
            ["podman", "ID", "", "", "podman:3f1c0b9a8d7e"],
        ),
        (
            "/libpod_parent/ID/libpod-ID",
            ["podman", "ID", "ID", "", "podman:3f1c0b9a8d7e"],
        ),
        (
            "/system.slice/web.service/libpod-payload-ID",
            ["podman", "ID", "", "", "podman:3f1c0b9a8d7e"],
        ),
        (
            "/machine.slice/libpod-conmon-ID.scope",
            ["", "", "", "libpod-conmon-ID.scope", ""],
        ),
        // Kubernetes: containerd by systemd and by cgroupfs, a static pod, the mixed form, kind, cri-o, docker.
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podP_D.slice/cri-containerd-ID.scope",
            ["containerd", "ID", "POD", "", "containerd:3f1c0b9a8d7e"],
        ),
        (
            "/kubepods.slice/kubepods-podP_D.slice/cri-containerd-ID.scope",
            ["containerd", "ID", "POD", "", "containerd:3f1c0b9a8d7e"],
        ),
        (
            "/kubepods/burstable/podPOD/ID",
            ["kubernetes", "ID", "POD", "", "kubernetes:3f1c0b9a8d7e"],
        ),
        (
            "/kubepods/podPOD/ID",
            ["kubernetes", "ID", "POD", "", "kubernetes:3f1c0b9a8d7e"],
        ),
        (
            "/kubepods/burstable/pod0123456789abcdef0123456789abcdef/ID",
            [
                "kubernetes",
                "ID",
                "0123456789abcdef0123456789abcdef",
                "",
                "kubernetes:3f1c0b9a8d7e",
            ],
        ),
        (
            "/system.slice/containerd.service/kubepods-besteffort-podP_D.slice:cri-containerd:ID",
            ["containerd", "ID", "POD", "", "containerd:3f1c0b9a8d7e"],
        ),
        (
            "/system.slice/docker-ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-podP_D.slice/cri-containerd-ID.scope",
            ["containerd", "ID", "POD", "", "containerd:3f1c0b9a8d7e"],
        ),
        (
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podP_D.slice/crio-ID.scope",
            ["cri-o", "ID", "POD", "", "cri-o:3f1c0b9a8d7e"],
        ),
        (
            "/kubepods/besteffort/podPOD/crio-ID",
            ["cri-o", "ID", "POD", "", "cri-o:3f1c0b9a8d7e"],
        ),
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podP_D.slice/docker-ID.scope",
            ["docker", "ID", "POD", "", "docker:3f1c0b9a8d7e"],
        ),
        (
            "/kubepods.slice/kubepods-podP_D.slice",
            ["kubernetes", "", "POD", "", "pod:POD"],
        ),
        (
            "/kubepods/burstable/podPOD",
            ["kubernetes", "", "POD", "", "pod:POD"],
        ),
        (
            "/kubepods.slice/kubepods-podP_D.slice/crio-conmon-ID.scope",
            ["kubernetes", "", "POD", "crio-conmon-ID.scope", "pod:POD"],
        ),
        (
            "/kubepods.slice/kubepods-burstable.slice",
            ["", "", "", "", ""],
        ),
        (
            "/system.slice/nerdctl-ID.scope",
            ["containerd", "ID", "", "", "containerd:3f1c0b9a8d7e"],
        ),
        // LXC, LXD, Incus, Proxmox.
        ("/lxc/web1", ["lxc", "web1", "", "", "lxc:web1"]),
        (
            "/lxc/101/ns/system.slice/sshd.service",
            ["lxc", "101", "", "sshd.service", "lxc:101"],
        ),
        (
            "/lxc.payload.web-1/system.slice/nginx.service",
            ["lxc", "web-1", "", "nginx.service", "lxc:web-1"],
        ),
        ("/lxc.payload/web1", ["lxc", "web1", "", "", "lxc:web1"]),
        ("/lxc.monitor.web1", ["", "", "", "", ""]),
        // Machines.
        (
            r"/machine.slice/machine-my\x2dbox.scope/payload/system.slice/nginx.service",
            ["machined", "my-box", "", "nginx.service", "machined:my-box"],
        ),
        (
            r"/machine.slice/systemd-nspawn@my\x2dbox.service/payload",
            ["nspawn", "my-box", "", "", "nspawn:my-box"],
        ),
        (
            r"/machine.slice/machine-qemu\x2d1\x2dvm1.scope/libvirt/emulator",
            ["machined", "qemu-1-vm1", "", "", "machined:qemu-1-vm1"],
        ),
        // No container.
        ("/", ["", "", "", "", ""]),
        (
            "/system.slice/nginx.service",
            ["", "", "", "nginx.service", ""],
        ),
        (
            r"/system.slice/system-getty.slice/getty@tty1.service",
            ["", "", "", "getty@tty1.service", ""],
        ),
        (
            "/user.slice/user-1000.slice/session-3.scope",
            ["", "", "", "session-3.scope", ""],
        ),
        (
            r"/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome\x2dterm-77.scope",
            ["", "", "", "app-gnome-term-77.scope", ""],
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/firefox.service",
            ["", "", "", "firefox.service", ""],
        ),
        // Nearly.
        (
            "/system.slice/docker.service",
            ["", "", "", "docker.service", ""],
        ),
        (
            "/system.slice/docker-compose.scope",
            ["", "", "", "docker-compose.scope", ""],
        ),
        ("/mine/ID", ["", "", "", "", ""]),
        ("/docker", ["", "", "", "", ""]),
        (
            "/user.slice/machine-x.scope",
            ["", "", "", "machine-x.scope", ""],
        ),
        (
            "/my-podcast.slice/kubepods-podcast.slice",
            ["", "", "", "", ""],
        ),
    ];

    fn filled(text: &str) -> String {
        text.replace("P_D", &POD.replace('-', "_"))
            .replace("POD", POD)
            .replace("ID", ID)
    }

    #[test]
    fn paths_as_runtimes_write_them() {
        for (path, expected) in PATHS {
            let path = filled(path);
            let place = place(&path);
            let container = place.container.as_ref();
            let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
            let found = [
                text(container.map(|c| c.runtime)),
                text(
                    container
                        .and_then(|c| c.name.as_ref())
                        .map(|name| match name {
                            Name::Id(id) => id,
                            Name::Name(name) => name.as_ref(),
                        }),
                ),
                text(container.and_then(|c| c.pod.as_deref())),
                text(place.unit.as_deref()),
                container.map(ToString::to_string).unwrap_or_default(),
            ];
            assert_eq!(found, expected.map(filled), "{path}");
        }
    }

    #[test]
    fn escapes_that_are_none_stay() {
        assert_eq!(unescape(r"a\x2db\x2"), r"a-b\x2");
        assert_eq!(unescape(r"\x"), r"\x");
        assert_eq!(unescape(r"\xzz\x41"), r"\xzzA");
        assert_eq!(unescape(r"\xff"), "\u{fffd}");
    }

    proptest! {
        #[test]
        fn any_path_is_taken(path in any::<String>()) {
            let _ = place(&path).container.map(|c| c.to_string());
        }

        /// Pieces of what runtimes write, put together in any way.
        #[test]
        fn any_pieces_are_taken(pieces in prop::collection::vec(prop::sample::select(vec![
            "/", "docker", "docker-", "libpod_parent", "libpod-", "-libpod_pod_", "kubepods", "burstable", "pod", "-pod",
            ".slice", ".scope", ".service", "machine-", "machine.slice", "lxc", "lxc.payload.", ":cri-containerd:",
            "buildkit", r"\x2d", r"\x", "é", ID, POD, "systemd-nspawn@",
        ]), 0..12)) {
            let path = pieces.concat();
            let place = place(&path);
            if let Some(container) = place.container {
                prop_assert!(container.name.is_some() || container.pod.is_some());
                prop_assert!(!container.to_string().ends_with(':'));
            }
        }
    }
}
