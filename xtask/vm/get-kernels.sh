#!/bin/bash
# get-kernels.sh [-l] [NAME=SUITE:PACKAGE ...]   Fetch Debian kernels into $LAB/kernels without installing them.
# Default set: 6.1 and 6.12 (suite of this machine), 7.3 (trixie-backports; its image is split in base/binary/modules).
#   -l SUITE   list the suite's kernel packages.   Suites tried and reachable: bookworm, bookworm-backports, trixie,
#              trixie-backports, forky, sid, experimental. This machine's own apt configuration stays untouched.
# "KVER" in PACKAGE stands for the newest version there, for example 6.1=host:linux-image-6.1.0-*-amd64
set -euo pipefail
LAB=${LAB:?the directory of kernels and the root of the guests}; mkdir -p "$LAB"/{debs,kernels,apt}
uri=$(awk '/^URIs:/{print $2; exit}' /etc/apt/sources.list.d/debian.sources)     # the mirror that apt already uses
key=/usr/share/keyrings/debian-archive-keyring.gpg
aptopts() {   # aptopts SUITE -> options for a separate apt state ("host": this machine's own)
  [ "$1" = host ] && return 0
  local d=$LAB/apt/$1; mkdir -p "$d"/{etc/apt.conf.d,etc/preferences.d,etc/trusted.gpg.d,state/lists/partial,cache/archives/partial}
  echo "deb [signed-by=$key] $uri $1 main" > "$d/etc/sources.list"; touch "$d/state/status"
  echo "-o Dir::Etc=$d/etc -o Dir::Etc::sourcelist=$d/etc/sources.list -o Dir::Etc::sourceparts=/dev/null -o Dir::State=$d/state -o Dir::State::status=$d/state/status -o Dir::Cache=$d/cache -o APT::Sandbox::User=root"
}
if [ "${1:-}" = -l ]; then o=$(aptopts "$2"); apt-get $o -qq update; apt-cache $o pkgnames | grep -E '^linux-(image|binary|modules|base)-[0-9].*amd64$' | sort -V; exit; fi
[ $# -gt 0 ] || set -- '6.1=host:linux-image-6.1.0-[0-9]+-amd64' '6.12=host:linux-image-6.12.[0-9]+.deb12-amd64' '7.3=trixie-backports:linux-(base|binary|modules)-7.3[0-9.]*.deb13-amd64'
for spec; do
  name=${spec%%=*}; rest=${spec#*=}; suite=${rest%%:*}; pat=${rest#*:}; o=$(aptopts "$suite")
  apt-get $o -qq update
  pk=$(apt-cache $o pkgnames | grep -xE "$pat" | sort -V)
  case $pk in *linux-image*) pk=$(tail -1 <<<"$pk");;      # newest only
    *) v=$(sed -E 's/linux-(base|binary|modules)-//' <<<"$pk" | sort -V | uniq | tail -1); pk=$(grep -F -- "-$v" <<<"$pk");; esac
  [ -n "$pk" ] || { echo "no package $pat in $suite" >&2; exit 1; }
  (cd "$LAB/debs" && apt-get $o -qq -o APT::Sandbox::User=root download $pk)
  mkdir -p "$LAB/kernels/$name"
  for p in $pk; do nice dpkg -x "$(ls -t "$LAB"/debs/"$p"_*.deb | head -1)" "$LAB/kernels/$name"; done
  m=$(find "$LAB/kernels/$name" -maxdepth 4 -type d -path '*lib/modules/*' -prune | head -1)
  nice depmod -b "${m%/lib/modules/*}" "$(basename "$m")"     # the packages carry no modules.dep
  echo "$name: $(basename "$m") from $(echo $pk)"
done
