//! From flags to what is observed: namespaces, the source, which flows are shown.

use std::path::Path;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use observer_common::filter::FilterProgram;

use crate::cli::{Common, SourceChoice};
use crate::commands::{Failure, verbose};
use crate::event::{Event, FlowId};
use crate::filter::{self, Facts, Filter, Needs};
use crate::host::Roots;
use crate::host::cgroup::Cgroups;
use crate::host::netns::{self, Namespace};
use crate::kernel::load::{LoadError, Options};
use crate::model::{Flow, Model};
use crate::source::diag::{self, Polled, PolledOptions};
use crate::source::facts::Wanted;
use crate::source::live::{Handle, Live, LiveOptions};
use crate::source::script::Script;
use crate::source::synthetic::{self, Synthetic};
use crate::source::{Info, Source, SourceError};
use crate::tui::Place;
use crate::units::Mono;

/// The namespaces asked for, the one we run in without `-N`.
pub fn namespaces(common: &Common) -> Result<Vec<Namespace>, Failure> {
    if let (Some(dev), None) = (&common.dev, &common.netns)
        && !is_device(dev)
    {
        return Err(Failure::Usage(format!(
            "no device '{dev}' in this network namespace: 'ip -brief link' lists them"
        )));
    }
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

/// Whether this namespace has a device of this name; true where that cannot be asked.
fn is_device(name: &str) -> bool {
    use rustix::net::{AddressFamily, SocketType, netdevice, socket};
    let Ok(any) = socket(AddressFamily::INET, SocketType::DGRAM, None) else {
        return true;
    };
    netdevice::name_to_index(any, name) != Err(rustix::io::Errno::NODEV)
}

/// What the live source is to do.
fn live_options(common: &Common, choice: &Choice) -> Result<LiveOptions, Failure> {
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
            filter: Box::new(choice.kernel_part()),
            ring_bytes: common.ring,
            btf: common.btf.clone(),
        },
        namespaces,
        everywhere: common.netns.as_deref() == Some("all"),
        max_cpu_ppm: (common.max_cpu * 10_000.0) as u64,
        ..LiveOptions::default()
    })
}

/// The source asked for, of the flows that `choice` may show, or, left to us and without what the programs need,
/// polling. `sweeping` = whether the programs' source looks at all sockets by itself every second.
pub fn source(common: &Common, choice: &Choice, sweeping: bool) -> Result<Observed, Failure> {
    source_and_refusal(common, choice, sweeping).map(|(source, _)| source)
}

/// The same, with why the programs do not run where polling had to do.
pub fn source_and_refusal(
    common: &Common,
    choice: &Choice,
    sweeping: bool,
) -> Result<(Observed, Option<LoadError>), Failure> {
    if let Some(path) = &common.script {
        return script(path, common.at).map(|script| (Observed::Script(script), None));
    }
    if let Some(options) = common.synthetic {
        let made_up = Synthetic::start(options).map_err(anyhow::Error::from)?;
        return Ok((Observed::Synthetic(made_up), None));
    }
    let mut options = live_options(common, choice)?;
    if !sweeping {
        options.sweep_every_ns = 0;
    }
    let refused = match common.source {
        SourceChoice::Diag => None,
        SourceChoice::Auto | SourceChoice::Ebpf => match Live::start(&options) {
            Ok(live) => {
                verbose::source(common, &options, None, true);
                return Ok((Observed::Live(live), None));
            }
            Err(error) if common.source == SourceChoice::Auto && is_want(&error) => Some(error),
            Err(error) => return Err(error.into()),
        },
    };
    verbose::source(common, &options, refused.as_ref(), false);
    let polled = Polled::start(PolledOptions {
        namespaces: options.namespaces,
        everywhere: options.everywhere,
        reason: refused.as_ref().map(reason),
    });
    let polled = polled.map_err(anyhow::Error::from)?;
    Ok((Observed::Polled(polled), refused))
}

/// Whether this host, this kernel or our rights want something, so that polling is the next best. A binary built without
/// the programs is nobody's limitation but the build's: that is to be mended, not worked around.
fn is_want(error: &LoadError) -> bool {
    !matches!(error, LoadError::Stub | LoadError::Thread(_))
}

/// Why the programs do not run, and what would make them: in a line.
fn reason(error: &LoadError) -> String {
    let text = match error {
        // Without the hint to what we do already.
        LoadError::NoBtf(error) => format!("{error} (zgrep BTF /proc/config.gz tells)"),
        LoadError::Verifier {
            program, io, log, ..
        } => format!(
            "the kernel refused the program {program} ({io}); what its verifier says: {log}"
        ),
        other => other.to_string(),
    };
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The script at `path`, `-` = standard input, up to `at`.
fn script(path: &Path, at: Option<Place>) -> Result<Script, Failure> {
    let name = path.display().to_string();
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.map_err(|error| Failure::Usage(format!("{name}: {error}")))?;
    let script = Script::new(&name, &text);
    let script = script.map_err(|error| Failure::Usage(format!("{name}: {error}")))?;
    Ok(match at {
        Some(Place::After(ns)) => script.until(Mono(ns)),
        Some(_) => {
            let text = "--at of a script is seconds from 0: write 12.5s";
            return Err(Failure::Usage(text.to_owned()));
        }
        None => script,
    })
}

/// Any source, as one.
#[derive(Debug)]
pub enum Observed {
    Script(Script),
    Synthetic(Synthetic),
    Live(Live),
    Polled(Polled),
}

/// What ends a source from elsewhere.
#[derive(Clone, Debug)]
pub enum Stopper {
    /// A script ends by itself.
    Script,
    Synthetic(synthetic::Handle),
    Live(Handle),
    Polled(diag::Handle),
}

impl Stopper {
    /// Whether it looks at all flows when it is told to.
    pub fn looks(&self) -> bool {
        !matches!(self, Self::Script)
    }

    /// Has all flows looked at now.
    pub fn look(&self) {
        match self {
            // A script says what it says; made-up flows are swept every second.
            Self::Script | Self::Synthetic(_) => {}
            Self::Live(handle) => handle.sweep(),
            Self::Polled(handle) => handle.poll(),
        }
    }

    /// Has these flows looked at closely, and no others.
    pub fn focus(&self, flows: &[FlowId]) {
        // Polls look at all flows alike.
        if let Self::Live(handle) = self {
            handle.focus(flows.iter().map(|flow| flow.cookie).collect());
        }
    }

    /// Ends the source; with `last_look`, after all flows have been looked at once more.
    pub fn stop(&self, last_look: bool) {
        if last_look {
            self.look();
        }
        match self {
            Self::Script => {}
            Self::Synthetic(handle) => handle.stop(),
            Self::Live(handle) => handle.stop(),
            Self::Polled(handle) => handle.stop(),
        }
    }
}

impl Observed {
    /// Does not end by itself.
    pub fn hold(&mut self) {
        if let Self::Script(script) = self {
            script.hold();
        }
    }

    pub fn stopper(&self) -> Stopper {
        match self {
            Self::Script(_) => Stopper::Script,
            Self::Synthetic(made_up) => Stopper::Synthetic(made_up.handle()),
            Self::Live(live) => Stopper::Live(live.handle()),
            Self::Polled(polled) => Stopper::Polled(polled.handle()),
        }
    }
}

impl Source for Observed {
    fn info(&self) -> &Info {
        match self {
            Self::Script(script) => script.info(),
            Self::Synthetic(made_up) => made_up.info(),
            Self::Live(live) => live.info(),
            Self::Polled(polled) => polled.info(),
        }
    }

    async fn next(&mut self) -> Result<Option<Vec<Event>>, SourceError> {
        match self {
            Self::Script(script) => script.next().await,
            Self::Synthetic(made_up) => made_up.next().await,
            Self::Live(live) => live.next().await,
            Self::Polled(polled) => polled.next().await,
        }
    }
}

/// Numbers of named things, as this system has them now.
struct SystemNumbers {
    roots: Roots,
}

impl filter::Numbers for SystemNumbers {
    fn cgroup(&self, path: &str) -> Option<u64> {
        Cgroups::new(&self.roots.proc.join("self/mountinfo")).id(path)
    }

    fn netns(&self, name: &str) -> Option<u32> {
        match netns::resolve(&self.roots, name).ok()?.as_slice() {
            [one] => Some(one.inum),
            _ => None,
        }
    }
}

/// Which flows are shown.
#[derive(Debug)]
pub struct Choice {
    filter: Filter,
    needs: Needs,
    ipv4: bool,
    ipv6: bool,
    dev: Option<String>,
    /// Of namespaces by inode number, looked up when a flow of one is first met.
    netns_names: RefCell<BTreeMap<u32, Rc<[String]>>>,
}

impl Choice {
    pub fn new(common: &Common, words: &[String]) -> Result<Self, Failure> {
        let filter = filter::parse(words).map_err(|error| Failure::Usage(error.to_string()))?;
        let mut needs = filter.needs();
        needs.device |= common.dev.is_some();
        Ok(Self {
            filter,
            needs,
            ipv4: common.ipv4,
            ipv6: common.ipv6,
            dev: common.dev.clone(),
            netns_names: RefCell::default(),
        })
    }

    /// The same, narrowed by what was typed on the screen.
    pub fn narrowed(&self, typed: Option<&Filter>) -> Self {
        let filter = match typed {
            Some(typed) => self.filter.clone().and(typed.clone()),
            None => self.filter.clone(),
        };
        let mut needs = filter.needs();
        needs.device |= self.dev.is_some();
        Self {
            filter,
            needs,
            ipv4: self.ipv4,
            ipv6: self.ipv6,
            dev: self.dev.clone(),
            netns_names: RefCell::default(),
        }
    }

    /// The filter's canonical text; `None` = there is none.
    pub fn text(&self) -> Option<String> {
        (!self.filter.is_empty()).then(|| self.filter.to_string())
    }

    /// What of it the kernel programs can decide.
    fn kernel_part(&self) -> FilterProgram {
        let family = match (self.ipv4, self.ipv6) {
            (true, false) => Some(filter::Family::V4),
            (false, true) => Some(filter::Family::V6),
            _ => None,
        };
        let roots = Roots::default();
        self.filter.kernel_part(family, &SystemNumbers { roots })
    }

    /// Whether all flows are asked for.
    pub fn is_everything(&self) -> bool {
        self.filter.is_empty() && !self.ipv4 && !self.ipv6 && self.dev.is_none()
    }

    /// What a plain dump of the sockets has to have looked up for this choice.
    pub fn wanted(&self) -> Wanted {
        Wanted {
            owners: self.needs.owners,
            device: self.needs.device,
            cgroup: self.needs.cgroup,
        }
    }

    /// Whether this flow is listed: in one of the states asked for (without a word on states, those of `ss` without `-a`).
    pub fn shows(&self, model: &Model, flow: &Flow) -> bool {
        self.filter.states().contains(flow.state()) && self.shows_in_any_state(model, flow)
    }

    /// Whether events of this flow are asked for: also while it is in a state that is not listed.
    pub fn shows_event(&self, model: &Model, flow: &Flow) -> bool {
        if self.filter.names_states() {
            self.shows(model, flow)
        } else {
            self.shows_in_any_state(model, flow)
        }
    }

    /// Whether this flow is on the screen: listed, or closed a moment ago.
    pub fn shows_live(&self, model: &Model, flow: &Flow) -> bool {
        if flow.is_closed() {
            self.shows_in_any_state(model, flow)
        } else {
            self.shows(model, flow)
        }
    }

    /// Asked of every flow for every frame: without a filter nothing is gathered for it.
    fn shows_in_any_state(&self, model: &Model, flow: &Flow) -> bool {
        let asks = self.filter.expr().is_some();
        self.fits(model, flow) && (!asks || self.ask(model, flow, Filter::matches_in_any_state))
    }

    /// How many flows are left out only because what is asked of them is not known, and what that is; `None` = none.
    pub fn left_out(&self, model: &Model) -> Option<String> {
        let undecided: Vec<&Flow> = model
            .flows()
            .filter(|flow| !flow.is_closed() && self.is_undecided(model, flow))
            .collect();
        let unknown = |is: &dyn Fn(&Flow) -> bool| undecided.iter().filter(|flow| is(flow)).count();
        let owner = "owner (that of other users' sockets takes root or CAP_SYS_PTRACE)";
        let parts: [(bool, &str, usize); 3] = [
            (
                self.needs.owners,
                owner,
                unknown(&|flow| flow.owners().is_none()),
            ),
            (
                self.needs.device,
                "device",
                unknown(&|flow| model.device_of(flow).is_none()),
            ),
            (
                self.needs.cgroup,
                "cgroup",
                unknown(&|flow| flow.attributes().is_none_or(|a| a.cgroup.is_none())),
            ),
        ];
        let named: Vec<&str> = parts
            .iter()
            .filter(|(needed, _, count)| *needed && *count > 0)
            .map(|(_, name, _)| *name)
            .collect();
        let count = undecided.len();
        let flows = if count == 1 { "flow" } else { "flows" };
        let what = if named.is_empty() {
            "what is asked of them".to_owned()
        } else {
            named.join(", ")
        };
        (count > 0).then(|| format!("{count} {flows} left out, not known: {what}"))
    }

    fn is_undecided(&self, model: &Model, flow: &Flow) -> bool {
        if !self.fits_family(flow) {
            return false;
        }
        let dev = self.dev_is(model, flow);
        let filter = self.ask(model, flow, Filter::decide);
        // Where one says no, the other does not matter.
        dev != Some(false) && filter != Some(false) && (dev.is_none() || filter.is_none())
    }

    /// What the filter says of the flow, with all that is known of it.
    fn ask<T>(&self, model: &Model, flow: &Flow, question: fn(&Filter, &Facts<'_>) -> T) -> T {
        let names = self.netns_names(flow.id().netns);
        let facts = Facts {
            netns_names: names.as_deref(),
            ..Facts::of(model, flow)
        };
        question(&self.filter, &facts)
    }

    /// `None` where no filter asks.
    fn netns_names(&self, netns: u32) -> Option<Rc<[String]>> {
        if !self.needs.netns_names {
            return None;
        }
        let mut known = self.netns_names.borrow_mut();
        let names = known.entry(netns).or_insert_with(|| {
            let mut all = netns::names(&Roots::default());
            all.remove(&netns).unwrap_or_default().into()
        });
        Some(Rc::clone(names))
    }

    /// The flags beside the filter.
    fn fits(&self, model: &Model, flow: &Flow) -> bool {
        self.fits_family(flow) && self.dev_is(model, flow) == Some(true)
    }

    fn fits_family(&self, flow: &Flow) -> bool {
        let remote = flow.remote();
        (remote.is_ipv4() || !self.ipv4) && (remote.is_ipv6() || !self.ipv6)
    }

    /// Whether the flow leaves by the device asked for; `None` = not known.
    fn dev_is(&self, model: &Model, flow: &Flow) -> Option<bool> {
        let Some(wanted) = self.dev.as_deref() else {
            return Some(true);
        };
        Some(model.device_of(flow)?.name == wanted)
    }
}
