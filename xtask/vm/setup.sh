#!/bin/bash
# setup.sh   All that boot.sh needs, on Debian 12 (root).
# qemu-utils may be there already from bookworm-backports; then qemu-system-x86 must come from there too
# (plain `apt-get install qemu-system-x86` fails: "qemu-utils Breaks qemu-system-common").
set -euo pipefail
LAB=${LAB:?the directory of kernels and the root of the guests}; here=$(dirname "$(realpath "$0")"); export DEBIAN_FRONTEND=noninteractive
apt-get -qq update; L="-o DPkg::Lock::Timeout=400"
apt-get $L -y -qq install --no-install-recommends busybox-static debootstrap cpio zstd xz-utils kmod
if ! command -v qemu-system-x86_64 >/dev/null && ! apt-get $L -y -qq install --no-install-recommends qemu-system-x86; then
  d=$LAB/apt/hostbpo; mkdir -p "$d"/{etc/apt.conf.d,etc/preferences.d,etc/trusted.gpg.d,state/lists/partial,cache/archives/partial}
  uri=$(awk '/^URIs:/{print $2; exit}' /etc/apt/sources.list.d/debian.sources); key=/usr/share/keyrings/debian-archive-keyring.gpg
  for s in bookworm bookworm-updates bookworm-backports; do echo "deb [signed-by=$key] $uri $s main"; done > "$d/etc/sources.list"
  O="-o Dir::Etc=$d/etc -o Dir::Etc::sourcelist=$d/etc/sources.list -o Dir::Etc::sourceparts=/dev/null -o Dir::State=$d/state -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache=$d/cache"
  apt-get $O -qq update; apt-get $O $L -y -qq install --no-install-recommends -t bookworm-backports qemu-system-x86
fi
"$here/make-rootfs.sh"; "$here/get-kernels.sh"
