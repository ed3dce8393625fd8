//! Paths as runtimes write them.

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
