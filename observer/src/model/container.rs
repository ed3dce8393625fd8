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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Container<'a> {
    /// `docker`, `podman`, `containerd`, `cri-o`, `lxc`, `nspawn`, `machined`; `kubernetes` where the path names a pod
    /// and not by which runtime.
    pub runtime: &'static str,
    pub name: Option<Name<'a>>,
    /// UID of the Kubernetes pod, or ID of podman's.
    pub pod: Option<Cow<'a, str>>,
}

/// What the runtime calls the container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
            is_uid(uid).then_some(Cow::Borrowed(uid))
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
mod tests;
