//! A filter against what is known of one flow.

use std::net::SocketAddr;

use super::expr::{Amount, Expr, Host, Named, Op, Pattern, Side, Subject, Test};
use crate::event::{Process, TcpState};
use crate::model::{Flow, Model};

/// What is known of a flow. `None` = unknown.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub state: TcpState,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub dev: Option<&'a str>,
    pub ifindex: Option<u32>,
    /// Path below the cgroup v2 mount.
    pub cgroup: Option<&'a str>,
    pub cgroup_id: Option<u64>,
    pub cc: Option<&'a str>,
    /// Empty = nobody holds it.
    pub owners: Option<&'a [Process]>,
    /// Inode number of the network namespace.
    pub netns: u32,
    /// The names that `ip netns` has for it, empty = none: not the model's to know.
    pub netns_names: Option<&'a [String]>,
    /// Segments retransmitted since birth.
    pub retrans: Option<u64>,
    /// Bytes retransmitted ÷ bytes sent since birth.
    pub retrans_rate: Option<f64>,
}

impl<'a> Facts<'a> {
    /// All that the model knows.
    pub fn of(model: &'a Model, flow: &'a Flow) -> Self {
        let attributes = flow.attributes();
        let sample = flow.sample();
        Self {
            state: flow.state(),
            local: flow.local(),
            remote: flow.remote(),
            dev: model.device_of(flow).map(|device| device.name.as_str()),
            ifindex: attributes.and_then(|a| a.device).map(|d| d.ifindex),
            cgroup: attributes.and_then(|a| a.cgroup.as_deref()),
            cgroup_id: attributes.and_then(|a| a.cgroup_id),
            cc: attributes
                .map(|a| a.cc_name.as_str())
                .filter(|name| !name.is_empty()),
            owners: flow.owners(),
            netns: flow.id().netns,
            netns_names: None,
            retrans: sample.map(|s| u64::from(s.retrans)),
            retrans_rate: flow.retrans_rate_life(),
        }
    }

    fn end(&self, side: Side) -> SocketAddr {
        match side {
            Side::Local => self.local,
            Side::Remote => self.remote,
        }
    }

    /// The local port of a connect is not known at first (`Opened::local`), nor always its address.
    fn port(&self, side: Side) -> Option<u16> {
        let port = self.end(side).port();
        (side == Side::Remote || port != 0).then_some(port)
    }
}

impl Expr {
    /// `None` = it depends on what is unknown.
    pub fn eval(&self, facts: &Facts<'_>) -> Option<bool> {
        match self {
            Self::All(parts) => conjunction(parts.iter().map(|part| part.eval(facts))),
            Self::Any(parts) => {
                conjunction(parts.iter().map(|part| part.eval(facts).map(|is| !is))).map(|is| !is)
            }
            Self::Not(inner) => inner.eval(facts).map(|is| !is),
            Self::Test(test) => test.eval(facts),
        }
    }
}

/// One that is false decides, whatever is unknown.
fn conjunction(parts: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut all = Some(true);
    for part in parts {
        match part {
            Some(true) => {}
            Some(false) => return Some(false),
            None => all = None,
        }
    }
    all
}

impl Test {
    fn eval(&self, facts: &Facts<'_>) -> Option<bool> {
        let is = match &self.subject {
            Subject::Port(side, port) => {
                return facts.port(*side).map(|actual| self.op.holds(&actual, port));
            }
            Subject::Retrans(Amount::Segments(segments)) => {
                return facts.retrans.map(|actual| self.op.holds(&actual, segments));
            }
            Subject::Retrans(Amount::Share(millionths)) => {
                let share = f64::from(*millionths) / f64::from(Amount::WHOLE);
                return facts
                    .retrans_rate
                    .map(|actual| self.op.holds(&actual, &share));
            }
            Subject::Host(side, host) => host.is(facts, *side),
            Subject::Dev(named) => named.is(facts.dev, facts.ifindex.map(u64::from)),
            Subject::Cgroup(named) => named.is(facts.cgroup, facts.cgroup_id),
            Subject::Cc(name) => facts.cc.map(|cc| name.matches(cc)),
            Subject::Pid(pid) => facts.owners.map(|all| all.iter().any(|p| p.pid == *pid)),
            Subject::Comm(name) => facts
                .owners
                .map(|all| all.iter().any(|p| name.matches_comm(&p.comm))),
            Subject::Netns(named) => named.is_any(facts.netns_names, u64::from(facts.netns)),
        };
        is.map(|is| is != (self.op == Op::Ne))
    }
}

impl Op {
    fn holds<T: PartialOrd>(self, actual: &T, wanted: &T) -> bool {
        match self {
            Self::Eq => actual == wanted,
            Self::Ne => actual != wanted,
            Self::Lt => actual < wanted,
            Self::Le => actual <= wanted,
            Self::Gt => actual > wanted,
            Self::Ge => actual >= wanted,
        }
    }
}

impl Host {
    fn is(&self, facts: &Facts<'_>, side: Side) -> Option<bool> {
        let end = facts.end(side);
        let port = facts.port(side);
        let has_net = match self.net {
            None => Some(true),
            Some(_) if port.is_none() && end.ip().is_unspecified() => None,
            Some(net) => Some(net.contains(end.ip())),
        };
        let has_port = match self.port {
            None => Some(true),
            Some(wanted) => port.map(|port| port == wanted),
        };
        conjunction([has_net, has_port].into_iter())
    }
}

impl Named {
    /// Digits are a number where one is known, and a name as well.
    fn is(&self, name: Option<&str>, number: Option<u64>) -> Option<bool> {
        let by_name = name.map(|name| self.pattern().matches(name));
        let by_number = self.number().and_then(|n| number.map(|number| number == n));
        match (by_number, by_name) {
            (Some(number), name) => Some(number || name == Some(true)),
            (None, name) => name,
        }
    }
}

impl Named {
    /// The same where there may be several names, or none.
    fn is_any(&self, names: Option<&[String]>, number: u64) -> Option<bool> {
        if self.number() == Some(number) {
            return Some(true);
        }
        // As inode numbers are no names of `ip netns`, digits without a name decide.
        let by_name = names.map(|all| all.iter().any(|name| self.pattern().matches(name)));
        by_name.or(self.number().map(|_| false))
    }
}

impl Pattern {
    /// The kernel keeps 15 bytes of a process's name.
    fn matches_comm(&self, comm: &str) -> bool {
        const KEPT: usize = 15;
        self.matches(comm)
            || (self.text.len() > KEPT && comm.len() == KEPT && self.text.starts_with(comm))
    }
}
