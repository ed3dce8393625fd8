#!/bin/bash
# make-rootfs.sh   The guest's root folder: Debian trixie (iproute2 6.15, iperf3 3.18, bpftool 7.5, tmux 3.5a, bpftrace) by debootstrap.
# About 2 minutes, 620 MB. Needs debootstrap (and the mirror that apt already uses).
set -euo pipefail
LAB=${LAB:?the directory of kernels and the root of the guests}; uri=$(awk '/^URIs:/{print $2; exit}' /etc/apt/sources.list.d/debian.sources)
[ -e "$LAB/rootfs/usr/bin/iperf3" ] && exit 0; mkdir -p "$LAB"
nice debootstrap --variant=minbase --include=iproute2,iperf3,tmux,bpftool,ethtool,kmod,udev,busybox-static,jq,procps,strace,tcpdump,iputils-ping,netcat-openbsd,bpftrace,python3-minimal,socat,psmisc "${SUITE:-trixie}" "$LAB/rootfs" "$uri"
