#!/bin/bash
# boot.sh [-s DIR] [-m MB] [-c CPUS] [-t SECONDS] [-i [SHIFT]] [-a kvm|tcg] [-v] KERNEL -- command args...
# Boot KERNEL in QEMU, run the command as root in the guest, print its output, exit with its exit code.
#   KERNEL   a name under $LAB/kernels (as get-kernels.sh makes them), or a path to such a folder
#            (vmlinuz-* or bzImage in it, and lib/modules or usr/lib/modules when it has modules)
#   -s DIR   host folder shared read-write at /host (the command starts there); default: current folder
#   -i N     virtual time: QEMU icount with shift N (1 = 2 ns per guest instruction). One vCPU.
#            Guest time is then independent of host load: use it for throughput and RTT measurements.
#   -a ACCEL tcg (default) or kvm;  -v: kernel log on stderr
# Guest root: $LAB/rootfs read-only by 9p under a tmpfs overlay. Kernel log: $LAB/log/last.kmsg
set -euo pipefail
LAB=${LAB:?the directory of kernels and the root of the guests}
share=$PWD mem=1536 cpus=2 tmo=600 icount= accel=tcg verbose= cpu=${VM_CPU:-max,la57=off}
while getopts s:m:c:t:i:a:v o; do case $o in
  s) share=$(realpath "$OPTARG");; m) mem=$OPTARG;; c) cpus=$OPTARG;; t) tmo=$OPTARG;;
  i) icount=$OPTARG;; a) accel=$OPTARG;; v) verbose=1;; *) exit 2;; esac; done
shift $((OPTIND-1))
kern=${1:?usage: boot.sh [options] KERNEL -- command}; shift; [ "${1:-}" = -- ] && shift
[ $# -gt 0 ] || { echo "guest: no command" >&2; exit 2; }
kdir=$kern; [ -d "$kdir" ] || kdir=$LAB/kernels/$kern
[ -d "$kdir" ] || { echo "guest: no kernel $kern" >&2; exit 2; }
img=$(find "$kdir" -maxdepth 6 \( -name 'vmlinuz*' -o -name bzImage \) -type f | head -1)
mods=$(find "$kdir" -maxdepth 4 -type d -path '*lib/modules/*' -prune | head -1)
rel=${mods:+$(basename "$mods")}
ird=$LAB/img/$(basename "$kdir").cpio
if [ ! -s "$ird" ] || [ "$ird" -ot "$0" ]; then   # initramfs: busybox + the modules that mount the root
  w=$(mktemp -d); mkdir -p "$w"/{bin,mods,proc,sys,dev,ro,rw,newroot}
  cp /bin/busybox "$w/bin/busybox"; ln -s busybox "$w/bin/sh"
  if [ -n "$rel" ]; then
    base=${mods%/lib/modules/*}
    [ -s "$mods/modules.dep" ] || depmod -b "$base" "$rel"
    n=100
    for m in virtio_pci virtio_console 9pnet_virtio 9p overlay virtio_rng; do
      modprobe -d "$base" -S "$rel" --show-depends "$m" 2>/dev/null | sed -n 's/^insmod \([^ ]*\).*/\1/p'
    done | awk '!s[$0]++' | while read -r f; do
      o=$w/mods/$n-$(basename "${f%.ko*}").ko; n=$((n+1))
      case $f in *.xz) xz -dc "$f" >"$o";; *.zst) zstd -qdc "$f" >"$o";; *) cp "$f" "$o";; esac
    done
  fi
  cat > "$w/init" <<'I'
#!/bin/sh
export PATH=/bin; B="busybox"
$B mount -t proc p /proc; $B mount -t sysfs s /sys; $B mount -t devtmpfs d /dev 2>/dev/null
for m in /mods/*.ko; do [ -e "$m" ] && $B insmod "$m"; done
O=trans=virtio,version=9p2000.L,msize=512000
$B mount -t 9p -o $O,ro,cache=loose labroot /ro || $B reboot -f
$B mount -t tmpfs -o size=90% t /rw; $B mkdir /rw/u /rw/w
$B mount -t overlay -o lowerdir=/ro,upperdir=/rw/u,workdir=/rw/w o /newroot || $B reboot -f
$B mkdir -p /newroot/host /newroot/ctl /newroot/lib/modules/$($B uname -r)
$B mount -t 9p -o $O,cache=none labhost /newroot/host
$B mount -t 9p -o $O,cache=none labctl /newroot/ctl
$B grep -q labmods /proc/cmdline && $B mount -t 9p -o $O,ro,cache=loose labmods /newroot/lib/modules/$($B uname -r)
$B mount -t devtmpfs d /newroot/dev; $B umount /proc /sys
exec $B switch_root /newroot /bin/bash /ctl/init
I
  chmod +x "$w/init"; mkdir -p "$LAB/img"
  (cd "$w" && find . | cpio --quiet -o -H newc) > "$ird.tmp.$$" && mv "$ird.tmp.$$" "$ird"; rm -rf "$w"
fi
ctl=$(mktemp -d "$LAB/img/ctl.XXXXXX"); trap 'rm -rf "$ctl"' EXIT; mkdir -p "$LAB/log"
printf '%q ' "$@" > "$ctl/cmd"
cat > "$ctl/init" <<'I'
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=xterm-256color LC_ALL=C.UTF-8 USER=root
mount -t proc p /proc; mount -t sysfs s /sys; mkdir -p /dev/pts /dev/shm
mount -t devpts p /dev/pts; mount -t tmpfs t /dev/shm; mount -t tmpfs t /run; mount -t tmpfs t /tmp
mount -t tracefs t /sys/kernel/tracing; mount -t debugfs d /sys/kernel/debug 2>/dev/null
mount -t bpf b /sys/fs/bpf; mount -t cgroup2 c /sys/fs/cgroup
ln -sf /proc/self/fd /dev/fd; ln -sf fd/0 /dev/stdin; ln -sf fd/1 /dev/stdout; ln -sf fd/2 /dev/stderr
hostname lab; ip link set lo up; ulimit -l unlimited
out=/dev/console; for p in /sys/class/virtio-ports/*; do [ "$(cat $p/name 2>/dev/null)" = lab.out ] && out=/dev/${p##*/}; done
cut -d' ' -f1 /proc/uptime > /ctl/boot
cd /host; bash -c "$(cat /ctl/cmd)" > $out 2>&1 < /dev/null; rc=$?
cut -d' ' -f1 /proc/uptime > /ctl/end; echo $rc > /ctl/rc; sync
echo o > /proc/sysrq-trigger; sleep 5; busybox poweroff -f
I
acc=(-accel tcg,thread=multi,tb-size=512 -cpu "$cpu")
[ "$accel" = kvm ] && acc=(-accel kvm -cpu host)
[ -n "$icount" ] && { acc=(-accel tcg,tb-size=512 -icount "shift=$icount,sleep=off" -rtc clock=vm -cpu "$cpu"); cpus=1; }
V=(-virtfs "local,path=$LAB/rootfs,mount_tag=labroot,security_model=none,readonly=on,multidevs=remap"
   -virtfs "local,path=$share,mount_tag=labhost,security_model=none,multidevs=remap"
   -virtfs "local,path=$ctl,mount_tag=labctl,security_model=none")
lm=; [ -n "$rel" ] && { V+=(-virtfs "local,path=$mods,mount_tag=labmods,security_model=none,readonly=on"); lm=labmods; }
mkfifo "$ctl/out"; cat "$ctl/out" & catpid=$!   # a stdio chardev would close at end of stdin
kmsg=$LAB/log/last.kmsg; t0=$(date +%s.%N)
timeout -k 5 "$tmo" qemu-system-x86_64 -M pc,usb=off,vmport=off "${acc[@]}" -smp "$cpus" -m "$mem" -nodefaults -no-user-config \
  -display none -no-reboot -nic none -kernel "$img" -initrd "$ird" \
  -append "console=ttyS0 quiet panic=-1 nokaslr mitigations=off no5lvl tsc=reliable nowatchdog audit=0 selinux=0 apparmor=0 random.trust_cpu=on $lm ${VM_APPEND:-}" \
  -serial "file:$kmsg" -device virtio-serial-pci -chardev "file,id=o,path=$ctl/out" -device virtserialport,chardev=o,name=lab.out \
  -device virtio-rng-pci "${V[@]}" < /dev/null || qrc=$?
kill -0 $catpid 2>/dev/null && { : > "$ctl/out"; wait $catpid || true; } 2>/dev/null
[ -n "$verbose" ] && cat "$kmsg" >&2
t1=$(date +%s.%N)
if [ -s "$ctl/rc" ]; then rc=$(cat "$ctl/rc"); else echo "guest: guest gave no exit code (qemu ${qrc:-0}); kernel log: $kmsg" >&2; rc=125; fi
awk -v a="$t0" -v b="$t1" -v u="$(cat "$ctl/boot" 2>/dev/null || echo 0)" -v e="$(cat "$ctl/end" 2>/dev/null || echo 0)" -v k="$(basename "$kdir")" -v r="$rc" \
  'BEGIN{printf "guest: kernel %s rc %d wall %.1f s, guest boot %.1f s, command %.1f s (guest clock)\n",k,r,b-a,u,e-u}' >&2
exit "$rc"
