//! Reads who a socket is and what of it changes rarely: tuple, namespace, path, owner's cgroup, negotiated options.

use observer_common::flow::{AF_INET, FlowKey};
use observer_common::layout::Field;
use observer_common::wire::Attributes;

use crate::pace::mix;
use crate::reader::Kernel;

/// `TCP_ECN_OK`: the other bits of `ecn_flags` come and go.
const ECN_OK: u8 = 1;

/// Inode number of the socket's network namespace.
#[inline(always)]
pub fn netns(sk: Kernel) -> u32 {
    match sk.follow(Field::Net) {
        Some(net) => net.u32(Field::NetInum),
        None => 0,
    }
}

#[inline(always)]
fn put_v4(out: &mut [u8; 16], address: u32) {
    let words: &mut [u32; 4] = words(out);
    words[0] = 0;
    words[1] = 0;
    words[2] = u32::from_ne_bytes([0, 0, 0xff, 0xff]);
    words[3] = address;
}

#[inline(always)]
fn put_v6(out: &mut [u8; 16], sk: Kernel, field: Field) {
    let words = words(out);
    words[0] = sk.u32_at(field, 0);
    words[1] = sk.u32_at(field, 1);
    words[2] = sk.u32_at(field, 2);
    words[3] = sk.u32_at(field, 3);
}

#[inline(always)]
fn words(bytes: &mut [u8; 16]) -> &mut [u32; 4] {
    // SAFETY: same size; the key starts at a multiple of 8 in every record.
    unsafe { &mut *bytes.as_mut_ptr().cast() }
}

/// The tuple. Also of a request socket, which starts with the same `sock_common`.
#[inline(always)]
pub fn fill_key(key: &mut FlowKey, sk: Kernel, full_socket: bool) {
    let family = sk.u16(Field::Family);
    // Before the branch: two loads in its two arms would become one at an offset in a register, which is no stand-in.
    let (local, remote) = (sk.u32(Field::LocalV4), sk.u32(Field::RemoteV4));
    if family == AF_INET {
        put_v4(&mut key.local, local);
        put_v4(&mut key.remote, remote);
    } else {
        put_v6(&mut key.local, sk, Field::LocalV6);
        put_v6(&mut key.remote, sk, Field::RemoteV6);
    }
    let mut local_port = sk.u16(Field::LocalPort);
    if local_port == 0 && full_socket {
        // The port was given back: the source port in the header template stays.
        local_port = u16::from_be(sk.u16(Field::SourcePort));
    }
    key.local_port = local_port;
    key.remote_port = u16::from_be(sk.u16(Field::RemotePort));
    key.family = family;
    key.reserved = 0;
}

/// Egress device: index and namespace of the cached route's device.
#[inline(always)]
fn device(sk: Kernel) -> (u32, u32) {
    if let Some(dst) = sk.follow(Field::DstCache)
        && let Some(dev) = dst.follow(Field::DstDev)
    {
        let netns = match dev.follow(Field::DevNet) {
            Some(net) => net.u32(Field::NetInum),
            None => 0,
        };
        return (dev.u32(Field::DevIfindex), netns);
    }
    (0, 0)
}

/// Id of the socket's cgroup; 0 = unknown.
#[inline(always)]
pub fn cgroup(sk: Kernel) -> u64 {
    if let Some(cgroup) = sk.follow(Field::Cgroup)
        && let Some(node) = cgroup.follow(Field::CgroupNode)
    {
        return node.u64(Field::NodeId);
    }
    0
}

/// Differs when an attribute that is worth a new record has changed. The algorithm is compared by its ops pointer,
/// which cannot be mixed: pointers are no numbers to the verifier.
#[inline(always)]
pub fn attributes_signature(sk: Kernel) -> u64 {
    let mut s = 1;
    s = mix(
        s,
        u64::from(sk.u32(Field::LocalV4)) << 16 | u64::from(sk.u16(Field::SourcePort)),
    );
    s = mix(s, sk.u64(Field::MaxPacingRate));
    let (ifindex, dev_netns) = device(sk);
    s = mix(s, u64::from(ifindex) << 32 | u64::from(dev_netns));
    s = mix(s, cgroup(sk));
    s = mix(
        s,
        u64::from(sk.u32(Field::CwndClamp)) << 32 | u64::from(sk.u32(Field::NotsentLowat)),
    );
    s = mix(
        s,
        u64::from(sk.u32(Field::Pmtu)) << 32
            | u64::from(sk.u16(Field::MssClamp)) << 16
            | u64::from(sk.u16(Field::Advmss)),
    );
    s = mix(
        s,
        u64::from(sk.bits(Field::UserLocks)) << 48
            | u64::from(sk.bits(Field::WscaleOk)) << 40
            | u64::from(sk.bits(Field::SndWscale)) << 32
            | u64::from(sk.bits(Field::RcvWscale)) << 24
            | u64::from(sk.bits(Field::SackOk)) << 16
            | u64::from(sk.bits(Field::TstampOk)) << 8
            | u64::from(sk.bits(Field::EcnFlags) & ECN_OK),
    );
    // 0 stands for «never handed over».
    s | 1
}

/// Everything that changes rarely.
#[inline(always)]
pub fn fill_attributes(out: &mut Attributes, sk: Kernel) {
    fill_key(&mut out.key, sk, true);
    fill_algorithm(out, sk);
    out.max_pacing_rate = sk.u64(Field::MaxPacingRate);
    out.cgroup = cgroup(sk);
    let (ifindex, dev_netns) = device(sk);
    out.ifindex = ifindex;
    out.dev_netns = dev_netns;
    out.cwnd_clamp = sk.u32(Field::CwndClamp);
    out.notsent_lowat = sk.u32(Field::NotsentLowat);
    out.pmtu = sk.u32(Field::Pmtu);
    out.mss_clamp = sk.u16(Field::MssClamp);
    out.user_mss = sk.u16(Field::UserMss);
    out.advmss = sk.u16(Field::Advmss);
    out.rcv_mss = sk.u16(Field::RcvMss);
    out.user_locks = sk.bits(Field::UserLocks);
    out.wscale_ok = sk.bits(Field::WscaleOk);
    out.snd_wscale = sk.bits(Field::SndWscale);
    out.rcv_wscale = sk.bits(Field::RcvWscale);
    out.sack_ok = sk.bits(Field::SackOk);
    out.tstamp_ok = sk.bits(Field::TstampOk);
    out.ecn_flags = sk.bits(Field::EcnFlags);
    out.reserved = 0;
}

/// Name and home of the congestion control: which code's layout its private words have.
#[inline(always)]
fn fill_algorithm(out: &mut Attributes, sk: Kernel) {
    // SAFETY: same sizes; both arrays start at a multiple of 8.
    let name: &mut [u64; 2] = unsafe { &mut *out.ca_name.as_mut_ptr().cast() };
    // SAFETY: as above.
    let module: &mut [u64; 4] = unsafe { &mut *out.ca_module.as_mut_ptr().cast() };
    *name = [0; 2];
    *module = [0; 4];
    out.ca_ops = sk.address(Field::CaOps);
    let Some(ops) = sk.follow(Field::CaOps) else {
        return;
    };
    name[0] = ops.u64_at(Field::CaName, 0);
    name[1] = ops.u64_at(Field::CaName, 1);
    if let Some(owner) = ops.follow(Field::CaOwner) {
        module[0] = owner.u64_at(Field::ModuleName, 0);
        module[1] = owner.u64_at(Field::ModuleName, 1);
        module[2] = owner.u64_at(Field::ModuleName, 2);
        module[3] = owner.u64_at(Field::ModuleName, 3);
    }
}
