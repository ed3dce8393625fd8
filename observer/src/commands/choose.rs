//! From flags to what is observed: namespaces, the source, which flows are shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cli::{Common, SourceChoice};
use crate::commands::Failure;
use crate::event::Event;
use crate::filter::{self, Facts, Filter};
use crate::host::Roots;
use crate::host::netns::{self, Namespace};
use crate::kernel::load::Options;
use crate::model::{Flow, Model};
use crate::source::diag::Polled;
use crate::source::live::{Handle, Live, LiveOptions};
use crate::source::{Info, Source, SourceError};

/// The namespaces asked for, the one we run in without `-N`.
pub fn namespaces(common: &Common) -> Result<Vec<Namespace>, Failure> {
    let roots = Roots::default();
    let found = match &common.netns {
        None => netns::own(&roots).map(|own| vec![own]),
        Some(wanted) => netns::resolve(&roots, wanted),
    };
    found.map_err(|error| {
        if error.is_usage() {
            Failure::Usage(error.to_string())
        } else {
            Failure::Unsupported(error.to_string())
        }
    })
}

/// What the live source is to do.
fn live_options(common: &Common) -> Result<LiveOptions, Failure> {
    let namespaces = namespaces(common)?;
    let netns = match (common.netns.as_deref(), namespaces.as_slice()) {
        (Some("all"), _) => None,
        (_, [one]) => Some(one.inum),
        _ => None,
    };
    let interval_ns = u64::try_from(common.interval.as_nanos()).unwrap_or(u64::MAX);
    Ok(LiveOptions {
        kernel: Options {
            interval_ns,
            netns,
            ring_bytes: common.ring,
            btf: common.btf.clone(),
        },
        namespaces,
        everywhere: common.netns.as_deref() == Some("all"),
        ..LiveOptions::default()
    })
}

/// The source asked for. `sweeping` = whether the programs' source looks at all sockets by itself every second.
pub fn source(common: &Common, sweeping: bool) -> Result<Observed, Failure> {
    let mut options = live_options(common)?;
    if !sweeping {
        options.sweep_every_ns = 0;
    }
    match common.source {
        SourceChoice::Auto | SourceChoice::Ebpf => Ok(Observed::Live(Live::start(&options)?)),
        SourceChoice::Diag => {
            let polled = Polled::start(options.namespaces, options.everywhere, None)
                .map_err(anyhow::Error::from)?;
            Ok(Observed::Polled(polled))
        }
    }
}

/// Either source, as one.
#[derive(Debug)]
pub enum Observed {
    Live(Live),
    Polled(Polled),
}

/// What ends a source from elsewhere.
#[derive(Clone, Debug)]
pub enum Stopper {
    Live(Handle),
    Polled(Arc<AtomicBool>),
}

impl Stopper {
    /// Has all flows looked at now.
    pub fn look(&self) {
        if let Self::Live(handle) = self {
            handle.sweep();
        }
    }

    /// Ends the source; with `last_look`, after all flows have been looked at once more.
    pub fn stop(&self, last_look: bool) {
        match self {
            Self::Live(handle) => {
                if last_look {
                    handle.sweep();
                }
                handle.stop();
            }
            // Every poll looks at all flows.
            Self::Polled(stop) => stop.store(true, Ordering::Relaxed),
        }
    }
}

impl Observed {
    pub fn stopper(&self) -> Stopper {
        match self {
            Self::Live(live) => Stopper::Live(live.handle()),
            Self::Polled(polled) => Stopper::Polled(polled.stopper()),
        }
    }
}

impl Source for Observed {
    fn info(&self) -> &Info {
        match self {
            Self::Live(live) => live.info(),
            Self::Polled(polled) => polled.info(),
        }
    }

    async fn next(&mut self) -> Result<Option<Vec<Event>>, SourceError> {
        match self {
            Self::Live(live) => live.next().await,
            Self::Polled(polled) => polled.next().await,
        }
    }
}

/// Which flows are shown.
#[derive(Debug)]
pub struct Choice {
    filter: Filter,
    ipv4: bool,
    ipv6: bool,
    dev: Option<String>,
}

impl Choice {
    pub fn new(common: &Common, words: &[String]) -> Result<Self, Failure> {
        let filter = filter::parse(words).map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(Self {
            filter,
            ipv4: common.ipv4,
            ipv6: common.ipv6,
            dev: common.dev.clone(),
        })
    }

    /// Whether all flows are asked for.
    pub fn is_everything(&self) -> bool {
        self.filter.is_empty() && !self.ipv4 && !self.ipv6 && self.dev.is_none()
    }

    /// Whether this flow is listed: in one of the states asked for (without a word on states, those of `ss` without `-a`).
    pub fn shows(&self, model: &Model, flow: &Flow) -> bool {
        self.fits(model, flow) && self.filter.matches(&Facts::of(model, flow))
    }

    /// Whether events of this flow are asked for: also while it is in a state that is not listed.
    pub fn shows_event(&self, model: &Model, flow: &Flow) -> bool {
        let facts = Facts::of(model, flow);
        let wanted = if self.filter.names_states() {
            self.filter.matches(&facts)
        } else {
            self.filter.matches_in_any_state(&facts)
        };
        wanted && self.fits(model, flow)
    }

    /// Whether this flow is on the screen: listed, or closed a moment ago.
    pub fn shows_live(&self, model: &Model, flow: &Flow) -> bool {
        if flow.is_closed() {
            self.fits(model, flow) && self.filter.matches_in_any_state(&Facts::of(model, flow))
        } else {
            self.shows(model, flow)
        }
    }

    /// The flags beside the filter.
    fn fits(&self, model: &Model, flow: &Flow) -> bool {
        let remote = flow.remote();
        let family = (remote.is_ipv4() || !self.ipv4) && (remote.is_ipv6() || !self.ipv6);
        let dev = self.dev.as_deref().is_none_or(|wanted| {
            model
                .device_of(flow)
                .is_some_and(|device| device.name == wanted)
        });
        family && dev
    }
}
