//! Messages of flows.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use super::super::proto;
use super::super::quantity::{from_number, to_number};
use super::host::{device_id, from_device_id};
use crate::event::{
    Attributes, CaStateChange, FlowId, Opened, Process, Retransmit, StateChange, Wscale,
};
use crate::units::Limit;

pub fn id(flow: FlowId) -> proto::Flow {
    proto::Flow {
        cookie: flow.cookie,
        netns: flow.netns,
    }
}

fn endpoint(address: SocketAddr) -> proto::Endpoint {
    let (flowinfo, scope_id) = match address {
        SocketAddr::V4(_) => (0, 0),
        SocketAddr::V6(v6) => (v6.flowinfo(), v6.scope_id()),
    };
    proto::Endpoint {
        address: match address.ip() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        },
        port: u32::from(address.port()),
        flowinfo,
        scope_id,
    }
}

fn from_endpoint(endpoint: Option<&proto::Endpoint>) -> Option<SocketAddr> {
    let endpoint = endpoint?;
    let port = u16::try_from(endpoint.port).ok()?;
    if let Ok(v4) = <[u8; 4]>::try_from(endpoint.address.as_slice()) {
        return Some(SocketAddr::from((Ipv4Addr::from(v4), port)));
    }
    let v6 = <[u8; 16]>::try_from(endpoint.address.as_slice()).ok()?;
    let (flowinfo, scope_id) = (endpoint.flowinfo, endpoint.scope_id);
    Some(SocketAddrV6::new(Ipv6Addr::from(v6), port, flowinfo, scope_id).into())
}

fn limit<T: Into<u64>>(limit: Limit<T>) -> proto::Limit {
    match limit {
        Limit::Unlimited => proto::Limit {
            unlimited: true,
            value: 0,
        },
        Limit::Finite(value) => proto::Limit {
            unlimited: false,
            value: value.into(),
        },
    }
}

fn from_limit<T: TryFrom<u64>>(limit: proto::Limit) -> Option<Limit<T>> {
    if limit.unlimited {
        Some(Limit::Unlimited)
    } else {
        T::try_from(limit.value).ok().map(Limit::Finite)
    }
}

/// `Some(None)` where the message has no such field; `None` = a value that does not fit.
#[expect(clippy::option_option, reason = "damaged, absent, or a value")]
fn narrow<T: TryFrom<u32>>(value: Option<u32>) -> Option<Option<T>> {
    value
        .map(|value| T::try_from(value).ok())
        .map_or(Some(None), |v| v.map(Some))
}

pub fn opened(flow: Option<proto::Flow>, opened: &Opened) -> proto::Opened {
    proto::Opened {
        flow,
        from_start: opened.from_start,
        state: to_number(opened.state),
        local: Some(endpoint(opened.local)),
        remote: Some(endpoint(opened.remote)),
    }
}

pub fn from_opened(m: &proto::Opened) -> Option<Opened> {
    Some(Opened {
        from_start: m.from_start,
        state: from_number(m.state)?,
        local: from_endpoint(m.local.as_ref())?,
        remote: from_endpoint(m.remote.as_ref())?,
    })
}

pub fn attributes(flow: Option<proto::Flow>, a: &Attributes) -> proto::Attributes {
    proto::Attributes {
        flow,
        local: Some(endpoint(a.local)),
        remote: Some(endpoint(a.remote)),
        cc_name: a.cc_name.clone(),
        cc_version: a.cc_version.clone(),
        cc_module: a.cc_module.clone(),
        max_pacing_rate_bytes_per_s: a.max_pacing_rate.map(limit),
        cgroup_id: a.cgroup_id,
        cgroup: a.cgroup.clone(),
        device: a.device.map(device_id),
        cwnd_clamp: a.cwnd_clamp.map(limit),
        notsent_lowat: a.notsent_lowat,
        pmtu: a.pmtu,
        mss_clamp: a.mss_clamp.map(u32::from),
        user_mss: a.user_mss.map(u32::from),
        advmss: a.advmss.map(u32::from),
        rcv_mss: a.rcv_mss.map(u32::from),
        user_locks: a.user_locks.map(u32::from),
        wscale: a.wscale.map(|scale| proto::WindowScale {
            agreed: scale.is_some(),
            snd: scale.map_or(0, |scale| u32::from(scale.snd)),
            rcv: scale.map_or(0, |scale| u32::from(scale.rcv)),
        }),
        sack: a.sack,
        timestamps: a.timestamps,
        ecn: a.ecn,
    }
}

pub fn from_attributes(m: proto::Attributes) -> Option<Attributes> {
    let wscale = match m.wscale {
        None => None,
        Some(scale) if !scale.agreed => Some(None),
        Some(scale) => Some(Some(Wscale {
            snd: u8::try_from(scale.snd).ok()?,
            rcv: u8::try_from(scale.rcv).ok()?,
        })),
    };
    let max_pacing_rate = match m.max_pacing_rate_bytes_per_s {
        None => None,
        Some(limit) => Some(from_limit(limit)?),
    };
    let cwnd_clamp = match m.cwnd_clamp {
        None => None,
        Some(limit) => Some(from_limit(limit)?),
    };
    Some(Attributes {
        local: from_endpoint(m.local.as_ref())?,
        remote: from_endpoint(m.remote.as_ref())?,
        cc_name: m.cc_name,
        cc_version: m.cc_version,
        cc_module: m.cc_module,
        max_pacing_rate,
        cgroup_id: m.cgroup_id,
        cgroup: m.cgroup,
        device: m.device.map(from_device_id),
        cwnd_clamp,
        notsent_lowat: m.notsent_lowat,
        pmtu: m.pmtu,
        mss_clamp: narrow(m.mss_clamp)?,
        user_mss: narrow(m.user_mss)?,
        advmss: narrow(m.advmss)?,
        rcv_mss: narrow(m.rcv_mss)?,
        user_locks: narrow(m.user_locks)?,
        wscale,
        sack: m.sack,
        timestamps: m.timestamps,
        ecn: m.ecn,
    })
}

pub fn retransmit(flow: Option<proto::Flow>, r: &Retransmit) -> proto::Retransmit {
    proto::Retransmit {
        flow,
        seq: r.seq,
        end_seq: r.end_seq,
        bytes: r.bytes,
        segments: r.segments,
        kind: to_number(r.kind),
        ca_state: to_number(r.ca_state),
        failed: r.failed,
        rtt_us: r.rtt_us,
        min_rtt_us: r.min_rtt_us,
        cwnd: r.cwnd,
    }
}

pub fn from_retransmit(m: &proto::Retransmit) -> Option<Retransmit> {
    Some(Retransmit {
        seq: m.seq,
        end_seq: m.end_seq,
        bytes: m.bytes,
        segments: m.segments,
        kind: from_number(m.kind)?,
        ca_state: from_number(m.ca_state)?,
        failed: m.failed,
        rtt_us: m.rtt_us,
        min_rtt_us: m.min_rtt_us,
        cwnd: m.cwnd,
    })
}

pub fn state(flow: Option<proto::Flow>, s: &StateChange) -> proto::StateChange {
    proto::StateChange {
        flow,
        old: to_number(s.old),
        new: to_number(s.new),
        local: Some(endpoint(s.local)),
        remote: Some(endpoint(s.remote)),
    }
}

pub fn from_state(m: &proto::StateChange) -> Option<StateChange> {
    Some(StateChange {
        old: from_number(m.old)?,
        new: from_number(m.new)?,
        local: from_endpoint(m.local.as_ref())?,
        remote: from_endpoint(m.remote.as_ref())?,
    })
}

pub fn ca_state(flow: Option<proto::Flow>, c: &CaStateChange) -> proto::CaStateChange {
    proto::CaStateChange {
        flow,
        old: to_number(c.old),
        new: to_number(c.new),
        cwnd: c.cwnd,
        ssthresh: Some(limit(c.ssthresh)),
        lost_out: c.lost_out,
    }
}

pub fn from_ca_state(m: &proto::CaStateChange) -> Option<CaStateChange> {
    Some(CaStateChange {
        old: from_number(m.old)?,
        new: from_number(m.new)?,
        cwnd: m.cwnd,
        ssthresh: from_limit(m.ssthresh?)?,
        lost_out: m.lost_out,
    })
}

pub fn owners(flow: Option<proto::Flow>, owners: &[Process]) -> proto::Owners {
    let processes = owners.iter().map(|process| proto::Process {
        pid: process.pid,
        comm: process.comm.clone(),
    });
    proto::Owners {
        flow,
        processes: processes.collect(),
    }
}

pub fn from_owners(processes: Vec<proto::Process>) -> Vec<Process> {
    let processes = processes.into_iter().map(|process| Process {
        pid: process.pid,
        comm: process.comm,
    });
    processes.collect()
}
