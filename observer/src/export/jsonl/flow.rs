//! The flow object of SPEC §4.

use std::net::SocketAddr;

use serde::Serialize;

use super::cc::CcKeys;
use super::place::PlaceKeys;
use super::sample::SampleKeys;
use super::verdict::VerdictKeys;
use super::{Bound, Context, Head, Kinds, QdiscKeys, bps, source};
use crate::event::{Attributes, CaState, FlowId, Origin, Process, family};
use crate::export::table::{Subject, fields, json_fields};
use crate::model::{Figures, Flow, Judgement, LimitShares, Model};
use crate::units::bits;

/// `flow` of every line that is of one. Its ends are null when it is not in view.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FlowKeys {
    id: String,
    cookie: u64,
    netns: u32,
    family: Option<&'static str>,
    local: Option<String>,
    remote: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    local_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remote_name: Option<String>,
}

impl FlowKeys {
    /// The flow by its ends, as far as they are known.
    pub fn subject(&self) -> Subject {
        Subject {
            name: match (&self.local, &self.remote) {
                (Some(local), Some(remote)) => format!("{local}-{remote}"),
                _ => self.id.clone(),
            },
            id: self.id.clone(),
        }
    }
}

fields!(FlowKeys: id, cookie, netns, family, local, remote; skip local_name, remote_name);

impl FlowKeys {
    pub fn of(id: FlowId, flow: Option<&Flow>, context: &Context) -> Self {
        let name = |end: fn(&Flow) -> SocketAddr| {
            let names = context.names.as_ref()?;
            names.0(end(flow?).ip()).map(|name| name.to_string())
        };
        Self {
            id: id.to_string(),
            cookie: id.cookie,
            netns: id.netns,
            family: flow.map(|f| family(&f.remote())),
            local: flow.map(|f| f.local().to_string()),
            remote: flow.map(|f| f.remote().to_string()),
            local_name: name(Flow::local),
            remote_name: name(Flow::remote),
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ProcessKeys<'a> {
    pid: u32,
    comm: &'a str,
}
fields!(ProcessKeys<'_>: pid, comm);
json_fields!(Vec<ProcessKeys<'_>>);

pub(super) fn processes(owners: &[Process]) -> Vec<ProcessKeys<'_>> {
    owners
        .iter()
        .map(|Process { pid, comm }| ProcessKeys { pid: *pid, comm })
        .collect()
}

/// Shifts.
#[derive(Clone, Copy, Debug, Serialize)]
struct WscaleKeys {
    snd: u8,
    rcv: u8,
}
fields!(WscaleKeys: snd, rcv);

/// What changes rarely.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct AttributeKeys {
    max_pacing_rate_bps: Option<Bound<u64>>,
    cgroup_id: Option<u64>,
    ifindex: Option<u32>,
    cwnd_clamp: Option<Bound<u32>>,
    notsent_lowat: Option<u32>,
    pmtu: Option<u32>,
    mss_clamp: Option<u16>,
    user_mss: Option<u16>,
    advmss: Option<u16>,
    rcv_mss: Option<u16>,
    user_locks: Option<u8>,
    wscale_ok: Option<bool>,
    wscale: Option<WscaleKeys>,
    sack: Option<bool>,
    timestamps: Option<bool>,
    ecn: Option<bool>,
}
fields!(AttributeKeys: max_pacing_rate_bps, cgroup_id, ifindex, cwnd_clamp, notsent_lowat, pmtu, mss_clamp, user_mss, advmss, rcv_mss, user_locks, wscale_ok, wscale, sack, timestamps, ecn);

impl From<&Attributes> for AttributeKeys {
    fn from(a: &Attributes) -> Self {
        Self {
            max_pacing_rate_bps: a.max_pacing_rate.map(bps),
            cgroup_id: a.cgroup_id,
            ifindex: a.device.map(|d| d.ifindex),
            cwnd_clamp: a.cwnd_clamp.map(Bound),
            notsent_lowat: a.notsent_lowat,
            pmtu: a.pmtu,
            mss_clamp: a.mss_clamp,
            user_mss: a.user_mss,
            advmss: a.advmss,
            rcv_mss: a.rcv_mss,
            user_locks: a.user_locks,
            wscale_ok: a.wscale.map(|agreed| agreed.is_some()),
            wscale: a.wscale.flatten().map(|w| WscaleKeys {
                snd: w.snd,
                rcv: w.rcv,
            }),
            sack: a.sack,
            timestamps: a.timestamps,
            ecn: a.ecn,
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
struct ShareKeys {
    window_us: u64,
    idle: f64,
    app: f64,
    rwnd: f64,
    sndbuf: f64,
    cwnd: f64,
    pacing: f64,
    recovery: f64,
    queued: f64,
}
fields!(ShareKeys: window_us, idle, app, rwnd, sndbuf, cwnd, pacing, recovery, queued);

impl From<LimitShares> for ShareKeys {
    fn from(s: LimitShares) -> Self {
        Self {
            window_us: s.window_ns / 1000,
            idle: s.idle,
            app: s.app,
            rwnd: s.rwnd,
            sndbuf: s.sndbuf,
            cwnd: s.cwnd,
            pacing: s.pacing,
            recovery: s.recovery,
            queued: s.queued,
        }
    }
}

/// What the model derives.
#[derive(Clone, Copy, Debug, Serialize)]
struct FigureKeys {
    btlbw_bps: Option<u64>,
    btlbw_estimated: Option<bool>,
    throughput_bps: Option<u64>,
    received_bps: Option<u64>,
    measured_us: Option<u64>,
    retrans_rate: Option<f64>,
    retrans_rate_segments: Option<f64>,
    retrans_rate_life: Option<f64>,
    bdp_bytes: Option<u64>,
    bdp_fill: Option<f64>,
    utilisation: Option<f64>,
    queueing_delay_us: Option<u32>,
    limit_shares: Option<ShareKeys>,
    limit: &'static str,
}
fields!(FigureKeys: btlbw_bps, btlbw_estimated, throughput_bps, received_bps, measured_us, retrans_rate, retrans_rate_segments, retrans_rate_life, bdp_bytes, bdp_fill, utilisation, queueing_delay_us, limit_shares, limit);

impl From<&Figures> for FigureKeys {
    fn from(f: &Figures) -> Self {
        Self {
            btlbw_bps: f.btlbw.map(|bw| bits(bw.bytes_per_s)),
            btlbw_estimated: f.btlbw.map(|bw| bw.estimated),
            throughput_bps: f.throughput_bps,
            received_bps: f.received_bps,
            measured_us: f.measured_ns.map(|ns| ns / 1000),
            retrans_rate: f.retrans_rate,
            retrans_rate_segments: f.retrans_rate_segments,
            retrans_rate_life: f.retrans_rate_life,
            bdp_bytes: f.bdp_bytes,
            bdp_fill: f.bdp_fill,
            utilisation: f.utilisation,
            queueing_delay_us: f.queueing_delay_us,
            limit_shares: f.limit_shares.map(ShareKeys::from),
            limit: f.limit.as_str(),
        }
    }
}

/// The flow object; made by [`flow_object`].
#[derive(Clone, Debug, Serialize)]
pub struct FlowObject<'a> {
    #[serde(flatten)]
    head: Head,
    source: Option<&'static str>,
    sample_age_us: Option<u64>,
    flow: FlowKeys,
    from_start: bool,
    opened_mono_ns: u64,
    closed_mono_ns: Option<u64>,
    state: &'static str,
    processes: Option<Vec<ProcessKeys<'a>>>,
    cgroup: Option<&'a str>,
    #[serde(flatten)]
    place: PlaceKeys,
    dev: Option<&'a str>,
    cc: CcKeys<'a>,
    qdisc: Option<QdiscKeys>,
    #[serde(flatten)]
    attributes: AttributeKeys,
    #[serde(flatten)]
    sample: SampleKeys,
    #[serde(flatten)]
    figures: FigureKeys,
    retrans_by_kind: Option<Kinds>,
    retrans_failed: Option<u64>,
    gaps: Option<u64>,
    verdict: Option<VerdictKeys>,
}
fields!(FlowObject<'_>: source, sample_age_us, flow, from_start, opened_mono_ns, closed_mono_ns, state, processes, cgroup, dev, cc, qdisc, retrans_by_kind, retrans_failed, gaps, verdict; flat place, attributes, sample, figures; skip head);

impl FlowObject<'_> {
    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    pub(super) fn flow(&self) -> &FlowKeys {
        &self.flow
    }

    /// With this verdict in place of the one that holds now.
    #[must_use]
    pub fn judged(mut self, judgement: Option<&Judgement>, context: &Context) -> Self {
        self.verdict = judgement.map(|judgement| VerdictKeys::of(judgement, self.dev, context));
        self
    }
}

/// The flow object of `type` `flow`, as of [`Model::now`].
pub fn flow_object<'a>(model: &'a Model, flow: &'a Flow, context: &'a Context) -> FlowObject<'a> {
    object("flow", model, flow, context)
}

/// The same under another `type`.
pub(super) fn object<'a>(
    r#type: &'static str,
    model: &'a Model,
    flow: &'a Flow,
    context: &'a Context,
) -> FlowObject<'a> {
    let attributes = flow.attributes();
    let figures = model.figures(flow);
    let device = model.device_of(flow).map(|device| device.name.as_str());
    let mut sample = flow.sample().map(SampleKeys::from).unwrap_or_default();
    // A change may have been told since the sample.
    sample.ca_state = flow.ca_state().and_then(CaState::known);
    // Polling tells how many were retransmitted, nothing of each, and numbers nothing: that is unknown, not none.
    let told = flow.origin() != Some(Origin::Diag);
    FlowObject {
        head: Head::new(r#type, model.now(), context),
        source: source(flow.origin()),
        sample_age_us: figures.sample_age_us,
        flow: FlowKeys::of(flow.id(), Some(flow), context),
        from_start: flow.from_start(),
        opened_mono_ns: flow.opened_at().0,
        closed_mono_ns: flow.closed_at().map(|at| at.0),
        state: flow.state().as_str(),
        processes: flow.owners().map(processes),
        cgroup: attributes.and_then(|a| a.cgroup.as_deref()),
        place: PlaceKeys::of(attributes.and_then(|a| a.cgroup.as_deref())),
        dev: device,
        cc: CcKeys::of(attributes, flow.sample()),
        qdisc: model.qdisc_of(flow).map(QdiscKeys::from),
        attributes: attributes.map(AttributeKeys::from).unwrap_or_default(),
        sample,
        figures: FigureKeys::from(&figures),
        retrans_by_kind: told.then(|| Kinds(*flow.retransmits())),
        retrans_failed: told.then(|| flow.retransmits().failed),
        gaps: told.then(|| flow.gaps()),
        verdict: flow
            .judgement()
            .map(|judgement| VerdictKeys::of(judgement, device, context)),
    }
}
