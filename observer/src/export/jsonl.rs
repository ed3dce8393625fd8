//! JSON Lines: one object per line, keys as SPEC §4 lists them (`schema` 1).
//!
//! [`flow_object`] is the object of `list --json` and `stream --every`; [`event_line`] and [`derived_line`] are the
//! lines of `stream`. Integers stay integers (TRAPS 21), unknown is `null` or absent, never 0 (TRAPS 24), without a
//! limit is `"unlimited"`. Rates `_bps` are bits per second, times `_us` microseconds, windows segments unless
//! `_bytes`.
//!
//! Keys beyond SPEC §4's:
//!
//! | key | of | is |
//! |---|---|---|
//! | `source` | flow, sample | `ebpf` and `diag`, and `capture`: imported from packets |
//! | `from_start`, `opened_mono_ns`, `closed_mono_ns` | flow | birth seen; when it came into view; when it ended |
//! | `flow.local_name`, `flow.remote_name` | all of a flow | names of the hosts, only with `-r`, and absent while unknown; not escaped |
//! | `cgroup_id`, `ifindex` | flow | inode of the cgroup; index of the egress device |
//! | `container` | flow, note `attributes` | what `cgroup` names: `runtime` (`docker podman containerd cri-o lxc nspawn machined`, or `kubernetes` where only the pod is told), `id` or `name`, `pod`; absent where it names none |
//! | `unit` | flow, note `attributes` | the innermost systemd service or scope in `cgroup`; absent where there is none |
//! | `cause` | flow, sample | `ack`, `sweep`, `close`: at `ack` the state is that *before* the ACK (TRAPS 33) |
//! | `inflight`, `packets_out` | flow, sample | segments: in flight by SPEC §3; sent and not cumulatively acknowledged |
//! | `snd_una`, `snd_nxt`, `write_seq`, `rcv_nxt` | flow, sample | sequence numbers, 32 bits |
//! | `max_window_bytes`, `rcv_rtt_us`, `reordering`, `backoff`, `rcv_ooopack`, `cwnd_limited` | flow, sample | the kernel's fields |
//! | `rate_app_limited` | flow, sample | the stored delivery rate was app-limited; `app_limited` is this where the kernel does not tell more |
//! | `pacing_status` | flow, sample | `none`, `internal` (the socket's timer), `fq` |
//! | `segs_in`, `data_segs_in` | flow, sample | totals |
//! | `sndbuf_bytes`, `rcvbuf_bytes`, `wmem_queued_bytes` | flow, sample | buffers |
//! | `cwnd_clamp`, `notsent_lowat`, `pmtu`, `mss_clamp`, `user_mss`, `advmss`, `rcv_mss`, `user_locks`, `wscale_ok`, `wscale`, `sack`, `timestamps`, `ecn` | flow, note `attributes` | what changes rarely |
//! | `measured_us`, `received_bps`, `retrans_rate_segments`, `retrans_rate_life`, `queueing_delay_us` | flow | what the rates were measured over; the other direction; retransmit rate by segments; since birth; srtt − min RTT |
//! | `limit_shares` | flow | `window_us` and shares of it: `idle app rwnd sndbuf cwnd pacing recovery queued` |
//! | `retrans_by_kind`, `retrans_failed`, `gaps` | flow | segments seen retransmitted, by kind; not on the wire; records missing. `null` under `source` `diag` |
//! | `cc.module`, `cc.full_bw_reached`, `cc.lt_use_bw`, `cc.extra_acked`, `cc.last_max_cwnd`, `cc.last_cwnd`, `cc.origin_point`, `cc.k`, `cc.delay_min_us`, `cc.hystart_found`, `cc.alpha`, `cc.ce_state`, `cc.loss_cwnd` | flow, sample | where the algorithm has them |
//! | `of` | state | `tcp` or `ca`: whose `old` and `new` these are |
//! | `old_phase`, `old_sub_phase`, `lasted_us` | phase | what was left, and how long it had been seen |
//! | `end_seq`, `rtt_us`, `min_rtt_us`, `cwnd` | retransmit | at the retransmission |
//! | `start`, `start_mono_ns`, `end`, `end_mono_ns`, `segments`, `bytes`, `by_kind`, `failed`, `rtt_above_min_us` | burst | told when it has ended |
//! | `verdict.since_mono_ns` | flow, verdict | since when its class holds |
//! | `old_class`, `flows` | verdict | what it was before, null where nothing was said; the `flow.id` of all flows that it is of (`flow` is the first) |
//! | `dev`, `ifindex`, `netns`, `mtu`, `up`, `dev_kind`, `tx_queues`, `offloads` (what is on: `tso`, `gso`, `gro`, `gro_hw`, `lro`), `gone`, `qdiscs` | qdisc | a device with all its qdiscs: these with `parent`, and `options` by `tc`'s names with the unit behind them (`limit_packets`, `quantum_bytes`, `rate_bps`, `target_ns`) |
//! | `kind`, `text` | note | `attempt`, `degraded`, `info`; or `attributes`, `owners`, `counters`, `elsewhere` (flows in other namespaces), `source` (`old_source`: this flow's samples come from elsewhere now; nothing is measured across it) with keys of their own |

mod cc;
mod flow;
mod keys;
mod lines;
mod options;
mod place;
mod rows;
mod sample;
mod verdict;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Serialize, Serializer};

pub use flow::{FlowObject, flow_object};
pub use keys::Line;
pub use lines::{derived_line, device_object, event_line, host_object};
pub use verdict::VerdictKeys;

use super::table::{Cell, Column, Field, Kind, fields, joined, json_fields};
use crate::event::{KINDS, Origin, Qdisc};
use crate::model::RetransmitSums;
use crate::units::{Limit, Mono};

/// `schema`.
pub const SCHEMA: u32 = 1;

/// What lines need beside the model.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// Nanoseconds since 1970 at moment 0 of the events' clock; `None` = `time` is null.
    pub wall_offset_ns: Option<i64>,
    /// Names of hosts, where they were asked for.
    pub names: Option<Namer>,
}

/// Tells the name of an address as far as it is known now.
#[derive(Clone)]
pub struct Namer(pub Arc<dyn Fn(IpAddr) -> Option<Arc<str>> + Send + Sync>);

impl fmt::Debug for Namer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Namer").finish_non_exhaustive()
    }
}

impl Context {
    /// The wall clock's time at `mono`.
    pub fn time(&self, mono: Mono) -> Time {
        let wall = self
            .wall_offset_ns
            .map(|offset| i128::from(offset) + i128::from(mono.0));
        Time(wall.and_then(|ns| jiff::Timestamp::from_nanosecond(ns).ok()))
    }
}

/// RFC 3339 in UTC with microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Time(pub Option<jiff::Timestamp>);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(time) => serializer.collect_str(&format_args!("{time:.6}")),
            None => serializer.serialize_none(),
        }
    }
}

/// The first keys of every line.
#[derive(Clone, Copy, Debug, Serialize)]
struct Head {
    schema: u32,
    r#type: &'static str,
    time: Time,
    mono_ns: u64,
}

impl Head {
    fn new(r#type: &'static str, mono: Mono, context: &Context) -> Self {
        Self {
            schema: SCHEMA,
            r#type,
            time: context.time(mono),
            mono_ns: mono.0,
        }
    }
}

fields!(Head: time, mono_ns; skip schema, r#type);

impl Field for Time {
    fn columns(name: &str, out: &mut Vec<Column>) {
        out.push(Column::new(name, Kind::Time));
    }

    fn cells<'c>(&'c self, out: &mut Vec<Cell<'c>>) {
        out.push(self.0.map_or(Cell::Unknown, Cell::Time));
    }
}

/// A bound, or `"unlimited"`.
#[derive(Clone, Copy, Debug)]
struct Bound<T>(Limit<T>);

impl<T: Serialize + Copy> Serialize for Bound<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Limit::Finite(value) => value.serialize(serializer),
            Limit::Unlimited => serializer.serialize_str("unlimited"),
        }
    }
}

impl<T: Field> Field for Bound<T> {
    fn columns(name: &str, out: &mut Vec<Column>) {
        T::columns(name, out);
        if let Some(column) = out.last_mut() {
            column.bounded = true;
        }
    }

    fn cells<'c>(&'c self, out: &mut Vec<Cell<'c>>) {
        match &self.0 {
            Limit::Finite(value) => value.cells(out),
            Limit::Unlimited => out.push(Cell::Unlimited),
        }
    }
}

/// Bytes per second as bits per second.
fn bps(rate: Limit<u64>) -> Bound<u64> {
    Bound(rate.map(crate::units::bits))
}

/// Segments by kind, all kinds.
#[derive(Clone, Copy, Debug)]
struct Kinds(RetransmitSums);

impl Serialize for Kinds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            KINDS.map(|kind| (crate::event::retransmit_kind(kind), self.0.of_kind(kind))),
        )
    }
}

impl Field for Kinds {
    fn columns(name: &str, out: &mut Vec<Column>) {
        for kind in KINDS {
            u32::columns(&joined(name, crate::event::retransmit_kind(kind)), out);
        }
    }

    fn cells<'c>(&'c self, out: &mut Vec<Cell<'c>>) {
        out.extend(KINDS.map(|kind| Cell::Unsigned(self.0.of_kind(kind).into())));
    }

    fn unknown(out: &mut Vec<Cell<'_>>) {
        out.extend(KINDS.map(|_| Cell::Unknown));
    }
}

#[derive(Clone, Debug, Serialize)]
struct QdiscKeys {
    kind: String,
    handle: String,
    drops: u64,
    backlog_bytes: u64,
    backlog_packets: u64,
    bytes: u64,
    packets: u64,
    overlimits: u64,
    requeues: u64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, u64>,
}

fields!(QdiscKeys: kind, handle, drops, backlog_bytes, backlog_packets, bytes, packets, overlimits, requeues, extra);
json_fields!(BTreeMap<String, u64>);

impl From<Qdisc> for QdiscKeys {
    fn from(qdisc: Qdisc) -> Self {
        Self {
            handle: qdisc.handle_text(),
            kind: qdisc.kind,
            drops: qdisc.drops,
            backlog_bytes: qdisc.backlog_bytes,
            backlog_packets: qdisc.backlog_packets,
            bytes: qdisc.bytes,
            packets: qdisc.packets,
            overlimits: qdisc.overlimits,
            requeues: qdisc.requeues,
            extra: qdisc.extra,
        }
    }
}

fn source(origin: Option<Origin>) -> Option<&'static str> {
    origin.map(Origin::as_str)
}
