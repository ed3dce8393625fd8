//! What each hook does: decide, read, hand over. One function a hook.

use aya_ebpf::helpers::generated;
use observer_common::flow::{AF_INET, AF_INET6};
use observer_common::layout::Field;
use observer_common::outcome::{Outcome, Program};
use observer_common::wire::{
    CongState, Full, Header, Owner, RecordKind, Retransmit, State, SynAck, flags,
};

use observer_common::config::Control;

use crate::emit::{self, flow_state, header, is_listener, jiffies, submit, tcp_sock};
use crate::filter::{self, is_wanted, is_wanted_netns};
use crate::kind::classify;
use crate::maps::{CONTROL, FlowState, LISTENER, SEEN, SLOT, SLOTS, SWEEP_RECORD, Slot};
use crate::pace::is_due;
use crate::reader::{self, Kernel, argument, object};
use crate::{sock, task, tcp};

const IPPROTO_TCP: u16 = 6;
const SYN_SENT: u8 = 2;
const SYN_RECV: u8 = 3;
const CLOSE: u8 = 7;
const LISTEN: u8 = 10;

/// The slot of a socket in front of its storage.
#[inline(always)]
fn slot(sk: Kernel) -> *mut Slot {
    let index = sk.u32(Field::Hash) as usize & (SLOTS - 1);
    // SAFETY: the index is masked to the array.
    unsafe { (&raw mut SLOT).cast::<Slot>().add(index) }
}

/// `tcp_probe(sk, skb)`: an incoming segment in ESTABLISHED, before it is processed. Most end here; what follows is
/// out of line so that this needs little stack and few registers.
#[inline(always)]
pub fn probe(context: *const u64) -> Outcome {
    let Some(sk) = object(context, 0) else {
        return Outcome::Failed;
    };
    let Some(tp) = tcp_sock(sk) else {
        return Outcome::Filtered;
    };
    let slot = slot(sk);
    // SAFETY: inside the array; a torn reading costs one sample more or less.
    let (owner, due) = unsafe { ((*slot).sk, (*slot).due_us) };
    // Comparing and storing the pointer is all the verifier allows, and all that is needed.
    if owner == sk.as_ptr() as u64 && !is_due(tp.u64(Field::Mstamp), due) {
        return Outcome::Suppressed;
    }
    decide(context)
}

/// [`probe`] of a socket that has no slot or is due: socket storage decides. The slot is taken for a while.
#[inline(never)]
fn decide(context: *const u64) -> Outcome {
    let Some(sk) = object(context, 0) else {
        return Outcome::Failed;
    };
    let Some(tp) = tcp_sock(sk) else {
        return Outcome::Filtered;
    };
    let (netns, state) = match flow_state(sk, false) {
        // Reported before, so asked for.
        Some(state) if state.flags & SEEN != 0 => (state.netns, state),
        _ => {
            let netns = sock::netns(tp);
            if !is_wanted_netns(netns) {
                return Outcome::Filtered;
            }
            let Some(state) = flow_state(sk, true) else {
                return Outcome::Failed;
            };
            (netns, state)
        }
    };
    let Some(control) = CONTROL.get(0) else {
        return Outcome::Failed;
    };
    let now = tp.u64(Field::Mstamp);
    let slot = slot(sk);
    if !is_wanted(tp, netns, state) {
        // Not to be asked at every segment.
        take(slot, sk, now + SLOT_US);
        return Outcome::Filtered;
    }
    let closely = !is_due(now, state.lossy_until_us) || is_looked_at(control, state.cookie);
    let interval = if closely {
        state.due_us = state.due_us.min(now + control.close_us);
        control.close_us
    } else {
        control.interval_us
    };
    if state.flags & SEEN != 0 && !is_due(now, state.due_us) {
        // Not from a flow that has it: flows that share a slot would write it at every segment.
        // SAFETY: inside the array.
        let (owner, until) = unsafe { ((*slot).sk, (*slot).due_us) };
        if owner == sk.as_ptr() as u64 || is_due(now, until) {
            take(slot, sk, state.due_us.min(now + SLOT_US));
        }
        return Outcome::Suppressed;
    }
    state.due_us = now + interval;
    // What is due at once needs no slot to say so.
    if interval != 0 {
        take(slot, sk, now + interval.min(SLOT_US));
    }
    // A socket that got another algorithm is read whole, because its private words have another layout.
    if now.wrapping_sub(state.whole_us) < control.whole_us
        && state.ca_ops == tp.address(Field::CaOps)
    {
        emit::brief(Program::Probe, sk, tp, netns, state)
    } else {
        emit::sample(Program::Probe, sk, tp, netns, state, false)
    }
}

/// A slot holds no longer than this: who begins to look at a flow is heard by then.
const SLOT_US: u64 = 10_000;

#[inline(always)]
fn take(slot: *mut Slot, sk: Kernel, due_us: u64) {
    // SAFETY: inside the array.
    unsafe {
        (*slot).sk = sk.as_ptr() as u64;
        (*slot).due_us = due_us;
    }
}

/// Whether somebody looks at the flow with this cookie.
#[inline(always)]
fn is_looked_at(control: &Control, cookie: u64) -> bool {
    let f = &control.focus;
    control.focused != 0
        && cookie != 0
        && ((cookie == f[0])
            | (cookie == f[1])
            | (cookie == f[2])
            | (cookie == f[3])
            | (cookie == f[4])
            | (cookie == f[5])
            | (cookie == f[6])
            | (cookie == f[7]))
}

/// How much the socket's totals rose since a record last looked (TRAPS 3).
#[inline(always)]
fn rise(state: &mut FlowState, tp: Kernel, gso_segs: u32, skb_len: u32) -> (u32, u64) {
    let total = tp.u32(Field::TotalRetrans);
    let bytes = tp.u64(Field::BytesRetrans);
    let (segments, sent) = if state.flags & SEEN == 0 {
        // Nothing was seen of this socket before: the buffer is all there is to go by.
        let segments = if gso_segs == 0 { 1 } else { gso_segs };
        (segments.min(total), u64::from(skb_len).min(bytes))
    } else {
        (
            total.wrapping_sub(state.total_retrans),
            bytes.wrapping_sub(state.bytes_retrans),
        )
    };
    state.total_retrans = total;
    state.bytes_retrans = bytes;
    (segments, sent)
}

/// `tcp_retransmit_skb(sk, skb[, err])`: after the attempt; totals are already raised, `retrans_out` is not.
#[inline(always)]
pub fn retransmit(context: *const u64) -> Outcome {
    let (Some(sk), Some(skb)) = (object(context, 0), object(context, 1)) else {
        return Outcome::Failed;
    };
    let Some(tp) = tcp_sock(sk) else {
        return Outcome::Filtered;
    };
    let netns = sock::netns(tp);
    if !is_wanted_netns(netns) {
        return Outcome::Filtered;
    }
    let Some(state) = flow_state(sk, true) else {
        return Outcome::Failed;
    };
    if !is_wanted(tp, netns, state) {
        return Outcome::Filtered;
    }
    let gso_segs = u32::from(skb.in_cb::<u16>(Field::CbGsoSegs));
    let skb_len = skb.u32(Field::SkbLen);
    let (segments, bytes) = rise(state, tp, gso_segs, skb_len);
    let mut header = header(
        Program::Retransmit,
        RecordKind::Retransmit,
        sk,
        tp,
        netns,
        state,
    );
    // Two places in the argument list would need two programs on old kernels; there is one, or none.
    let err = if reader::retransmit_err_arg() == 2 {
        header.flags |= flags::HAS_ERR;
        argument(context, 2) as i32
    } else {
        0
    };
    // The flow has losses: look closely, from its next ACK on.
    // SAFETY: inside the array.
    unsafe { (*slot(tp)).sk = 0 };
    state.due_us = 0;
    state.lossy_until_us = tp.u64(Field::Mstamp) + Control::CLOSE_AFTER_LOSS_US;
    let tcp_flags: u8 = skb.in_cb(Field::CbFlags);
    let pending = tp.bits(Field::Pending);
    submit::<Retransmit>(|record| {
        record.header = header;
        sock::fill_key(&mut record.key, tp, true);
        record.bytes_retrans = state.bytes_retrans;
        record.bytes = bytes;
        record.total_retrans = state.total_retrans;
        record.segments = segments;
        record.seq = skb.in_cb(Field::CbSeq);
        record.end_seq = skb.in_cb(Field::CbEndSeq);
        record.skb_len = skb_len;
        record.gso_segs = gso_segs;
        record.err = err;
        record.snd_una = tp.u32(Field::SndUna);
        record.cwnd = tp.u32(Field::Cwnd);
        record.ssthresh = tp.u32(Field::Ssthresh);
        record.srtt_us8 = tp.u32(Field::Srtt);
        record.min_rtt_us = tp.u32(Field::MinRtt);
        record.rack_rtt_us = tp.u32(Field::RackRtt);
        record.kind = classify(header.state, tcp_flags, header.ca_state, pending) as u8;
        record.pending = pending;
        record.tcp_flags = tcp_flags;
        record.retransmits = tp.bits(Field::Retransmits);
    })
}

/// `tcp_retransmit_synack(sk, req)`: one segment. The request's cookie goes to the accepted socket, its number comes
/// from the listener.
#[inline(always)]
pub fn synack(context: *const u64) -> Outcome {
    let (Some(sk), Some(req)) = (object(context, 0), object(context, 1)) else {
        return Outcome::Failed;
    };
    let Some(tp) = tcp_sock(sk) else {
        return Outcome::Filtered;
    };
    let netns = sock::netns(tp);
    if !is_wanted_netns(netns) {
        return Outcome::Filtered;
    }
    if !filter::is_wanted_request(req, netns) {
        return Outcome::Filtered;
    }
    let Some(state) = flow_state(sk, true) else {
        return Outcome::Failed;
    };
    if tp.u8(Field::State) == LISTEN {
        state.flags |= LISTENER;
    }
    let listener = header(
        Program::RetransmitSynack,
        RecordKind::SynAck,
        sk,
        tp,
        netns,
        state,
    );
    let header = Header {
        // SAFETY: a request starts with the same `sock_common` as a socket.
        cookie: unsafe { generated::bpf_get_socket_cookie(req.as_ptr()) },
        state: SYN_RECV,
        flags: 0,
        ..listener
    };
    submit::<SynAck>(|record| {
        record.header = header;
        sock::fill_key(&mut record.key, req, false);
        record.listener = listener.cookie;
        record.num_retrans = req.bits(Field::ReqNumRetrans);
        record.num_timeout = req.bits(Field::ReqNumTimeout);
        record.reserved = [0; 6];
    })
}

/// `inet_sock_set_state(sk, old, new)`.
#[inline(always)]
pub fn set_state(context: *const u64) -> Outcome {
    let Some(sk) = object(context, 0) else {
        return Outcome::Failed;
    };
    let (old, new) = (argument(context, 1) as u8, argument(context, 2) as u8);
    let Some(tp) = tcp_sock(sk) else {
        return Outcome::Filtered;
    };
    if old == LISTEN && new == SYN_RECV {
        // The clone of a listener: its cookie is overwritten later, so a record now would invent a flow. The next
        // change tells.
        return Outcome::Suppressed;
    }
    if old == LISTEN || new == LISTEN {
        return Outcome::Filtered;
    }
    let netns = sock::netns(tp);
    if !is_wanted_netns(netns) {
        return Outcome::Filtered;
    }
    let Some(state) = flow_state(sk, true) else {
        return Outcome::Failed;
    };
    let connecting = old == CLOSE && new == SYN_SENT;
    let (mut pid, mut comm) = (0, [0; 16]);
    if connecting {
        task::fill_current(&mut pid, &mut comm);
    }
    if connecting
        && filter::names_processes()
        && let Some(control) = CONTROL.get(0)
    {
        filter::note_holder(tp, control.walk, pid);
    }
    if !is_wanted(tp, netns, state) {
        return Outcome::Filtered;
    }
    if new == CLOSE {
        return emit::ended(sk, tp, netns, state);
    }
    let header = header(Program::SetState, RecordKind::State, sk, tp, netns, state);
    submit::<State>(|record| {
        record.header = header;
        sock::fill_key(&mut record.key, tp, true);
        record.old = old;
        record.new = new;
        record.reserved = [0; 2];
        record.total_retrans = tp.u32(Field::TotalRetrans);
        record.bytes_retrans = tp.u64(Field::BytesRetrans);
        record.comm = comm;
        record.pid = pid;
        record.reserved2 = 0;
    })
}

/// `tcp_destroy_sock(sk)`: the flow's last record, with its final counters.
#[inline(always)]
pub fn destroy(context: *const u64) -> Outcome {
    let Some(sk) = object(context, 0) else {
        return Outcome::Failed;
    };
    let Some(tp) = tcp_sock(sk) else {
        return Outcome::Filtered;
    };
    let netns = sock::netns(tp);
    if !is_wanted_netns(netns) {
        return Outcome::Filtered;
    }
    let slot = slot(tp);
    // SAFETY: inside the array. The memory may be another socket's soon.
    unsafe {
        if (*slot).sk == sk.as_ptr() as u64 {
            (*slot).sk = 0;
        }
    }
    let outcome = destroyed(sk, tp, netns);
    filter::forget_holders(tp);
    outcome
}

#[inline(always)]
fn destroyed(sk: Kernel, tp: Kernel, netns: u32) -> Outcome {
    let connected = tp.u16(Field::RemotePort) != 0;
    // A socket that was never connected has no state here and is no flow.
    let Some(state) = flow_state(sk, connected) else {
        return if connected {
            Outcome::Failed
        } else {
            Outcome::Filtered
        };
    };
    if is_listener(state) {
        return Outcome::Filtered;
    }
    if !is_wanted(tp, netns, state) {
        return Outcome::Filtered;
    }
    emit::sample(Program::Destroy, sk, tp, netns, state, true)
}

/// `tcp_cong_state_set(sk, ca_state)`: before the change.
#[inline(always)]
pub fn cong_state(context: *const u64) -> Outcome {
    let Some(sk) = object(context, 0) else {
        return Outcome::Failed;
    };
    let new = argument(context, 1) as u8;
    let Some(tp) = tcp_sock(sk) else {
        return Outcome::Filtered;
    };
    let netns = sock::netns(tp);
    if !is_wanted_netns(netns) {
        return Outcome::Filtered;
    }
    if tp.bits(Field::CaState) == new {
        // Set again to what it is.
        return Outcome::Suppressed;
    }
    let Some(state) = flow_state(sk, true) else {
        return Outcome::Failed;
    };
    if !is_wanted(tp, netns, state) {
        return Outcome::Filtered;
    }
    let header = header(
        Program::CongState,
        RecordKind::CongState,
        sk,
        tp,
        netns,
        state,
    );
    submit::<CongState>(|record| {
        record.header = header;
        record.new = new;
        record.reserved = [0; 3];
        record.cwnd = tp.u32(Field::Cwnd);
        record.ssthresh = tp.u32(Field::Ssthresh);
        record.lost_out = tp.u32(Field::LostOut);
    })
}

/// One socket of the `tcp` iterator, locked by the kernel while we look. Listeners, requests and TIME-WAIT are no
/// flows; a flow whose figures are as the sweep last handed them over is left out.
#[inline(always)]
pub fn sweep(context: *const u64) -> Outcome {
    let Some(meta) = object(context, 0) else {
        return Outcome::Failed;
    };
    // The observer itself runs here.
    task::remember_own();
    // The end of the dump.
    let Some(sk) = object(context, 1) else {
        return Outcome::Filtered;
    };
    let Some(tp) = tcp_sock(sk) else {
        return Outcome::Filtered;
    };
    let tcp_state = tp.u8(Field::State);
    if tcp_state == LISTEN || (tcp_state == CLOSE && tp.u16(Field::RemotePort) == 0) {
        return Outcome::Filtered;
    }
    let netns = sock::netns(tp);
    if !is_wanted_netns(netns) {
        return Outcome::Filtered;
    }
    let Some(state) = flow_state(sk, true) else {
        return Outcome::Failed;
    };
    if !is_wanted(tp, netns, state) {
        return Outcome::Filtered;
    }
    let signature = tcp::signature(tp, jiffies());
    let attributes = sock::attributes_signature(tp);
    let ca_ops = tp.address(Field::CaOps);
    let all = CONTROL.get(0).is_some_and(|control| control.sweep_all != 0);
    if !all && signature == state.swept && attributes == state.attributes && ca_ops == state.ca_ops
    {
        return Outcome::Suppressed;
    }
    let before = (state.number, state.flags);
    let header = header(Program::Sweep, RecordKind::Full, sk, tp, netns, state);
    let record: *mut Full = &raw mut SWEEP_RECORD;
    // SAFETY: one iterator runs at a time; the buffer has no other user.
    let record = unsafe { &mut *record };
    record.header = header;
    tcp::fill_body(&mut record.body, tp);
    sock::fill_attributes(&mut record.attributes, tp);
    if !write(meta, record) {
        (state.number, state.flags) = before;
        return Outcome::Suppressed;
    }
    state.swept = signature;
    state.attributes = attributes;
    state.ca_ops = ca_ops;
    state.whole_us = tp.u64(Field::Mstamp);
    state.total_retrans = record.body.total_retrans;
    state.bytes_retrans = record.body.bytes_retrans;
    Outcome::Kept
}

/// One open file of one task: who holds which TCP socket. Tasks that share their files with their leader are left out
/// by the kernel.
#[inline(always)]
pub fn owners(context: *const u64) -> Outcome {
    let (Some(meta), Some(task), Some(file)) =
        (object(context, 0), object(context, 1), object(context, 3))
    else {
        return Outcome::Filtered;
    };
    // SAFETY: the verifier knows `file` for a file.
    let socket = unsafe { generated::bpf_sock_from_file(file.as_ptr().cast()) };
    // Newer kernels (6.18.44) do not trust what is found through a file: it can be read as a `struct sock`, and neither
    // cast nor given to a helper. A socket in a file is a full one.
    let Some(sk) =
        Kernel::new(socket as *const u8).and_then(|socket| socket.follow(Field::SocketSk))
    else {
        return Outcome::Filtered;
    };
    let family = sk.u16(Field::Family);
    if sk.u16(Field::Protocol) != IPPROTO_TCP || (family != AF_INET && family != AF_INET6) {
        return Outcome::Filtered;
    }
    let netns = sock::netns(sk);
    if !is_wanted_netns(netns) {
        return Outcome::Filtered;
    }
    let record: *mut Owner = &raw mut crate::maps::OWNER_RECORD;
    // SAFETY: one iterator runs at a time; the buffer has no other user.
    let record = unsafe { &mut *record };
    record.header = Header {
        cookie: sk.u64(Field::Cookie),
        netns,
        kind: RecordKind::Owner as u8,
        program: Program::Owners as u8,
        state: sk.u8(Field::State),
        ..Header::default()
    };
    // `inet_sport` lies behind `struct sock`.
    sock::fill_key(&mut record.key, sk, false);
    let tgid = task.u32(Field::TaskTgid);
    if reader::task().known != 0 {
        let address = task.as_ptr() as u64;
        task::fill(address, tgid, &mut record.pid, &mut record.comm);
    } else {
        record.pid = tgid;
        task.copy_16(Field::TaskComm, &mut record.comm);
    }
    if filter::names_processes()
        && sk.u8(Field::State) != LISTEN
        && let Some(control) = CONTROL.get(0)
    {
        filter::note_holder(sk, control.walk, record.pid);
    }
    if write(meta, record) {
        Outcome::Kept
    } else {
        Outcome::Suppressed
    }
}

/// Appends a record to what the iterator's reader gets; without room the kernel calls again for the same object.
#[inline(always)]
fn write<T>(meta: Kernel, record: &T) -> bool {
    // SAFETY: the first word of the iterator's meta is its seq_file.
    let seq = unsafe {
        core::ptr::read_volatile(meta.as_ptr().cast::<*mut aya_ebpf::bindings::seq_file>())
    };
    // SAFETY: a buffer of that size.
    unsafe {
        generated::bpf_seq_write(
            seq,
            core::ptr::from_ref(record).cast(),
            size_of::<T>() as u32,
        ) == 0
    }
}
