//! What is said of one peer: class, figures, evidence, advice.

use std::fmt;
use std::net::IpAddr;

use super::features::Features;
use super::guide::Advice;
use super::rules::{self, Class, Rule, Signs};
use super::{guide, words};
use crate::event::FlowId;

/// J from which a bucket's depth is told.
const SURE_OF_DEPTH: f64 = 0.75;

/// Whose verdict it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One flow was all there was to that peer.
    Flow,
    /// Several flows to one peer, judged together.
    Group,
}

impl Scope {
    /// The word of SPEC §4.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::Group => "group",
        }
    }
}

/// Addresses whose flows were judged together: one, or a /24 or /48 where one alone had lost too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    address: IpAddr,
    /// Leading bits that count; `None` = all.
    bits: Option<u8>,
}

impl Group {
    pub fn of_one(address: IpAddr) -> Self {
        Self {
            address,
            bits: None,
        }
    }

    /// The /24 or /48 of an address.
    pub(super) fn around(address: IpAddr) -> Self {
        let (address, bits) = match address {
            IpAddr::V4(v4) => ((u32::from(v4) & !0xff).to_be_bytes().into(), 24),
            IpAddr::V6(v6) => {
                let kept = u128::from(v6) & !(u128::MAX >> 48);
                (kept.to_be_bytes().into(), 48)
            }
        };
        Self {
            address,
            bits: Some(bits),
        }
    }

    /// Its lowest address.
    pub(super) fn first(self) -> IpAddr {
        self.address
    }

    /// Its highest.
    pub(super) fn last(self) -> IpAddr {
        let host = |length: u32| self.bits.map_or(0, |bits| length - u32::from(bits));
        match self.address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shr(32 - host(32)).unwrap_or(0);
                (u32::from(v4) | mask).to_be_bytes().into()
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shr(128 - host(128)).unwrap_or(0);
                (u128::from(v6) | mask).to_be_bytes().into()
            }
        }
    }

    /// More than one address.
    pub fn is_net(self) -> bool {
        self.bits.is_some()
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bits {
            Some(bits) => write!(f, "{}/{bits}", self.address),
            None => write!(f, "{}", self.address),
        }
    }
}

/// One verdict on the way to one peer.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub class: Class,
    /// 0 to 0.99, in steps of 0.05: an evidence score.
    pub confidence: f64,
    /// The policer's rate, Ethernet frames as `tc` counts them.
    pub rate_bps: Option<u64>,
    /// The bucket's or the queue's depth, counted in the same way.
    pub depth_bytes: Option<u64>,
    /// The queue's depth in BDP.
    pub buffer_bdp: Option<f64>,
    /// Share of the packets that is lost whatever the load.
    pub random_loss: Option<f64>,
    pub scope: Scope,
    /// What it rests on.
    pub group: Group,
    /// Whose flows it is about.
    pub peer: IpAddr,
    pub flows: Vec<FlowId>,
    pub rule: Rule,
    pub evidence: Vec<String>,
    pub advice: Vec<Advice>,
}

impl Verdict {
    pub(super) fn of(f: &Features, group: Group, peer: IpAddr, flows: Vec<FlowId>) -> Self {
        let signs = Signs::of(f);
        let (class, rule) = rules::decide(f, &signs);
        let confidence = rules::confidence(f, &signs, class, rule);
        let (mut rate_bps, mut depth_bytes) = (None, None);
        let (mut buffer_bdp, mut random_loss) = (None, None);
        match class {
            Class::Policer => {
                // A poor fit says that it is a bucket, and not which.
                let fit = signs.fit.filter(|_| signs.very_tok);
                let rate = fit.map_or(f.goodput, |fit| fit.rate);
                rate_bps = Some((rate * 8.0).round() as u64);
                let known = fit.filter(|fit| fit.anchored && fit.j >= SURE_OF_DEPTH);
                depth_bytes = known.map(|fit| fit.depth.round() as u64);
            }
            Class::QueueShallow | Class::Queue | Class::QueueDeep => {
                let standing = f.delay_p95.map(|delay| delay / f.base_rtt);
                buffer_bdp = signs.beta.or(standing);
                depth_bytes = f
                    .depth_delay()
                    .filter(|_| f.goodput > 0.0)
                    .map(|excess| (excess * f.goodput).round() as u64);
                // What is lost without pushing.
                random_loss = signs
                    .dose
                    .filter(|dose| dose.low >= 0.2 * f.rate)
                    .map(|dose| dose.low);
            }
            Class::QueueStartup => buffer_bdp = f.excess_startup.map(|excess| excess / f.base_rtt),
            Class::RandomLoss => random_loss = Some(f.rate),
            Class::BurstyLoss | Class::None | Class::Insufficient => {}
        }
        Self {
            class,
            confidence,
            rate_bps,
            depth_bytes,
            buffer_bdp,
            random_loss,
            scope: if f.flows > 1 {
                Scope::Group
            } else {
                Scope::Flow
            },
            group,
            peer,
            flows,
            rule,
            evidence: words::evidence(f, &signs, class, rule),
            advice: guide::advice(class, f.bbr, rate_bps, buffer_bdp),
        }
    }
}
