//! What stands in a cell.

use std::borrow::Cow;

use super::{Column, SPIKE, trend};
use crate::detect::Class;
use crate::event::{CcState, Sample, TcpState};
use crate::model::container::{Place, place};
use crate::model::{Figures, Flow, LimitedBy, Model};
use crate::tui::address::Addresses;
use crate::tui::format::{cut_address, known};
use crate::tui::theme::Marker;
use crate::units::{self, Limit, UNKNOWN, UNLIMITED};

/// A flow with its figures.
#[derive(Debug)]
pub struct Row<'a> {
    pub model: &'a Model,
    pub flow: &'a Flow,
    pub figures: Figures,
    pub marker: Marker,
    pub addresses: &'a Addresses,
}

impl<'a> Row<'a> {
    pub fn new(model: &'a Model, flow: &'a Flow, marker: Marker, addresses: &'a Addresses) -> Self {
        Self {
            model,
            flow,
            figures: model.figures(flow),
            marker,
            addresses,
        }
    }

    fn sample(&self) -> Option<&Sample> {
        self.flow.sample()
    }
}

impl Column {
    /// What the cell says.
    pub fn cell(self, row: &Row, width: usize) -> String {
        let text = |text: Option<Cow<str>>| known(text.map(Cow::into_owned));
        let figures = &row.figures;
        match self {
            Self::State => state(row.flow).to_owned(),
            Self::Local => cut_address(&row.addresses.text(row.flow.local()), width),
            Self::Remote => cut_address(&row.addresses.text(row.flow.remote()), width),
            Self::Process => known(process(row.flow)),
            Self::Container => known(container(row.flow)),
            Self::Unit => text(unit(row.flow)),
            Self::Cc => text(algorithm(row.flow)),
            Self::Phase => text(phase(row.flow)),
            Self::Qdisc => known(row.model.qdisc_of(row.flow).map(|qdisc| qdisc.kind)),
            Self::Dev => known(row.model.device_of(row.flow).map(|d| d.name.clone())),
            Self::Throughput => known(figures.throughput_bps.map(units::rate)),
            Self::Trend => {
                let seconds = row.model.seconds(row.flow, width);
                drawn(trend::own_scale(seconds.map(|s| s.acked), row.marker))
            }
            Self::Cwnd => known(row.sample().and_then(|s| s.cwnd).map(|n| n.to_string())),
            Self::Inflight => known(figures.inflight_bytes.map(units::size)),
            Self::Fill => known(figures.bdp_fill.map(fill)),
            Self::Pacing => known(row.sample().and_then(|s| s.pacing_rate).map(
                |rate| match rate {
                    Limit::Finite(rate) => units::rate(units::bits(rate)),
                    Limit::Unlimited => UNLIMITED.to_owned(),
                },
            )),
            Self::BtlBw => known(figures.btlbw.map(|b| {
                let rate = units::rate(units::bits(b.bytes_per_s));
                // Room for the mark also where there is none: rates stand under each other.
                if b.estimated {
                    format!("{rate} est")
                } else {
                    format!("{rate}    ")
                }
            })),
            Self::Rtt => rtt(row.flow),
            Self::RetransRate => {
                let rate = known(figures.retrans_rate.map(units::percent));
                // One narrower: at 60 columns it makes room for cwnd.
                let rate = rate.replace("<0.", "<.");
                let spike = row.model.is_spike(row.flow);
                // As above.
                format!("{rate}{}", if spike { SPIKE } else { ' ' })
            }
            Self::RetransTrend => {
                let seconds = row.model.seconds(row.flow, width);
                drawn(trend::shares(seconds.map(|s| s.retrans_rate), row.marker))
            }
            Self::Retrans => known(row.sample().map(|s| s.retrans.to_string())),
            Self::Limit => match figures.limit {
                LimitedBy::Unknown => UNKNOWN.to_owned(),
                limit => limit.as_str().to_owned(),
            },
            Self::Verdict => {
                let class = row
                    .flow
                    .judgement()
                    .map(|judgement| judgement.verdict.class);
                class.map_or(UNKNOWN, Class::as_str).to_owned()
            }
        }
    }
}

/// In per cent; where a queue holds many times the BDP, so many times.
fn fill(share: f64) -> String {
    if share < 9.995 {
        units::percent(share)
    } else {
        format!("{share:.0}×")
    }
}

fn drawn(trend: String) -> String {
    known((!trend.is_empty()).then_some(trend))
}

pub(super) fn state(flow: &Flow) -> &'static str {
    match flow.state() {
        _ if flow.is_closed() => "closed",
        // Its first event was lost.
        TcpState::Unknown(_) => UNKNOWN,
        state => state.as_str(),
    }
}

fn process(flow: &Flow) -> Option<String> {
    let owners = flow.owners()?;
    let first = owners.first()?;
    Some(match owners.len() {
        1 => format!("{}/{}", first.comm, first.pid),
        more => format!("{}/{}+{}", first.comm, first.pid, more - 1),
    })
}

fn placed(flow: &Flow) -> Option<Place<'_>> {
    Some(place(flow.attributes()?.cgroup.as_deref()?))
}

/// What its cgroup's path says of a container, or a pod.
pub(in crate::tui) fn container(flow: &Flow) -> Option<String> {
    Some(placed(flow)?.container?.to_string())
}

/// What the same path says of systemd's service or scope.
pub(super) fn unit(flow: &Flow) -> Option<Cow<'_, str>> {
    placed(flow)?.unit
}

pub(super) fn algorithm(flow: &Flow) -> Option<Cow<'_, str>> {
    let attributes = flow.attributes().filter(|a| !a.cc_name.is_empty())?;
    Some(match &attributes.cc_version {
        Some(version) => Cow::Owned(format!("{}/{version}", attributes.cc_name)),
        None => Cow::Borrowed(&attributes.cc_name),
    })
}

pub(super) fn phase(flow: &Flow) -> Option<Cow<'_, str>> {
    match flow.sample()?.cc.as_ref()? {
        CcState::Bbr(bbr) => {
            let phase = bbr.phase?.as_str();
            Some(match bbr.sub_phase {
                Some(sub) => Cow::Owned(format!("{phase}:{}", sub.as_str())),
                None => Cow::Borrowed(phase),
            })
        }
        CcState::Cubic(_) | CcState::Dctcp(_) => None,
    }
}

fn rtt(flow: &Flow) -> String {
    let ms = |us: Option<u32>| known(us.map(|us| units::ms(us.into())));
    match flow.sample().map(|s| (s.srtt_us, s.min_rtt_us)) {
        None | Some((None, None)) => UNKNOWN.to_owned(),
        Some((srtt, min)) => format!("{}/{}", ms(srtt), ms(min)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_on_a_short_path_is_told_in_multiples() {
        assert_eq!(fill(0.42), "42.0%");
        assert_eq!(fill(9.99), "999%");
        assert_eq!(fill(2316.8), "2317×");
    }
}
