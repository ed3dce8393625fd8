//! Loads the programs: rights, BTF, object, globals, verifier, hooks. Each failure says what to do next.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use aya::maps::{Array, Map, MapData, MapError, RingBuf};
use aya::programs::tp_btf::BtfTracePointLink;
use aya::programs::{BtfTracePoint, Iter, ProgramError, ProgramFd};
use aya::{Btf as AyaBtf, Ebpf, EbpfError, EbpfLoader};
use observer_common::config::{Control, FOCUS, ProbeConfig};
use observer_common::filter::FilterProgram;
use observer_common::layout::Layout;
use observer_common::outcome::Program;

use super::btf::{self, Btf, HookFit};
use super::patch::{PatchError, patched};
use super::shared::{Shared, briefs_per_cpu};
use super::{caps, clock, counters, object, task};
use crate::event::Counters;

/// Where this program is, for a command to copy.
fn own_path() -> String {
    std::env::current_exe()
        .map_or_else(|_| "observer".to_owned(), |path| path.display().to_string())
}

/// Longest time between two whole samples of a flow that is sampled more often.
const WHOLE_US: u64 = 10_000;

/// What the user asked of the kernel side.
#[derive(Clone, Debug)]
pub struct Options {
    /// At least this long between two samples of a flow; 0 = every ACK.
    pub interval_ns: u64,
    /// Only this network namespace; `None` = all.
    pub netns: Option<u32>,
    /// Only flows that this may pass.
    pub filter: Box<FilterProgram>,
    /// Bytes of the ring; rounded up to a power of two of pages. As many again for the samples between whole ones.
    pub ring_bytes: u32,
    /// Where the kernel shows its type information, its own and its modules'.
    pub btf: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interval_ns: 10_000_000,
            netns: None,
            filter: Box::new(FilterProgram::EVERYTHING),
            ring_bytes: 8 << 20,
            btf: PathBuf::from(btf::SYS_KERNEL_BTF),
        }
    }
}

/// Why the programs are not running. All are «not permitted or not supported here» (exit code 3).
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(
        "this binary was built without the kernel programs; build it with them: cargo xtask build --release"
    )]
    Stub,
    #[error(
        "not permitted: {} missing. Run it as root (sudo observer …), or grant the rights once: \
         sudo setcap cap_bpf,cap_perfmon,cap_net_admin,cap_sys_ptrace+ep {}",
        .missing.join(" and "), own_path()
    )]
    NotPermitted { missing: Vec<&'static str> },
    #[error("{0} (zgrep BTF /proc/config.gz tells); '--source diag' works without the programs")]
    NoBtf(btf::BtfError),
    #[error("{0}")]
    Resolve(#[from] btf::ResolveError),
    #[error(
        "the object with the kernel programs does not fit: {0}; build it anew: cargo xtask build"
    )]
    Patch(#[from] PatchError),
    #[error("the object with the kernel programs does not load: {}", chain(.0))]
    Object(#[from] EbpfError),
    /// Of any of the steps.
    #[error(
        "only {limit} files may be open (ulimit -n), and the kernel programs with their maps take some forty: \
         raise it: ulimit -n 1024"
    )]
    Files { limit: u64 },
    #[error("the kernel's type information does not parse: {0}")]
    AyaBtf(#[from] aya::BtfError),
    #[error(
        "the kernel refused the program {program} ({io}). Its last words:\n{tail}\nThe whole log: {log}"
    )]
    Verifier {
        program: &'static str,
        io: std::io::Error,
        tail: String,
        log: String,
    },
    #[error(
        "the program {program} cannot be loaded or attached at {hook}: {}",
        chain(source)
    )]
    Program {
        program: &'static str,
        hook: &'static str,
        source: Box<ProgramError>,
    },
    #[error("the map {map} cannot be used: {source}")]
    Map { map: &'static str, source: MapError },
    #[error("the memory shared with the programs cannot be mapped: {0}")]
    Shared(std::io::Error),
    #[error("the kernel side's thread cannot be started: {0}")]
    Thread(std::io::Error),
    #[error("the walk over sockets or files failed: {0}")]
    Iterator(std::io::Error),
}

/// An error with its causes: the libraries' own texts leave out what the kernel said.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut at = error.source();
    while let Some(cause) = at {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        at = cause.source();
    }
    text
}

/// Whether it came of too many open files.
fn out_of_files(error: &LoadError) -> bool {
    let text = chain(error);
    [libc::EMFILE, libc::ENFILE]
        .into_iter()
        .any(|errno| text.contains(&format!("(os error {errno})")))
}

/// The programs, loaded; dropping it detaches and unloads them.
pub struct Programs {
    // Before `ebpf`: hooks go first.
    links: Vec<BtfTracePointLink>,
    ebpf: Ebpf,
    loaded: Vec<Program>,
    degraded: Vec<String>,
    types: Arc<Btf>,
    resolved: btf::Resolved,
    hz: u32,
    shared: Shared,
    control: Control,
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Programs")
            .field("loaded", &self.loaded)
            .finish_non_exhaustive()
    }
}

impl Programs {
    /// Loads all programs; none is attached yet.
    pub fn load(options: &Options) -> Result<Self, LoadError> {
        Self::load_all(options).map_err(|error| match error {
            error if out_of_files(&error) => LoadError::Files {
                limit: rustix::process::getrlimit(rustix::process::Resource::Nofile)
                    .current
                    .unwrap_or(u64::MAX),
            },
            error => error,
        })
    }

    fn load_all(options: &Options) -> Result<Self, LoadError> {
        let bytes = object::object().ok_or(LoadError::Stub)?;
        let missing = caps::missing();
        if !missing.is_empty() {
            return Err(LoadError::NotPermitted { missing });
        }
        let kernel = Btf::vmlinux(&options.btf).map_err(LoadError::NoBtf)?;
        let resolved = btf::resolve(&kernel)?;
        let cpus = aya::util::nr_cpus()
            .map_or(1, |cpus| u32::try_from(cpus).unwrap_or(u32::MAX))
            .max(1);
        let room = briefs_per_cpu(options.ring_bytes, cpus);
        let config = ProbeConfig {
            netns: options.netns.unwrap_or(0),
            ca_words: resolved.ca_words,
            retransmit_err_arg: resolved.retransmit_err_arg,
            briefs_per_cpu: room,
            task: task::places(&kernel),
        };
        let types = AyaBtf::from_sys_fs()?;
        let mut ebpf = EbpfLoader::new()
            .btf(Some(&types))
            .override_global("LAYOUT", &resolved.layout, true)
            .override_global("CONFIG", &config, true)
            .override_global("FILTER", &*options.filter, true)
            .map_max_entries("CPUS", cpus)
            .map_max_entries("BRIEFS", cpus.saturating_mul(room))
            .map_max_entries("EVENTS", options.ring_bytes.max(4096).next_power_of_two())
            .load(&patched(bytes, &resolved.layout)?)?;
        let mut loaded = Vec::new();
        let mut degraded = Vec::new();
        if config.task.known == 0 {
            degraded.push(task::UNKNOWN.to_owned());
        }
        for program in Program::ALL {
            if !program.required() && resolved.hook(program).fit != HookFit::Fits {
                degraded.push(format!("without {}", resolved.hook(program)));
                continue;
            }
            match load_one(&mut ebpf, program, &types) {
                Ok(()) => loaded.push(program),
                Err(error) if !program.required() => degraded.push(error.to_string()),
                Err(error) => return Err(error),
            }
        }
        let shared = Shared::new(
            array(&mut ebpf, "CPUS")?,
            array(&mut ebpf, "BRIEFS")?,
            cpus,
            room,
        )
        .map_err(LoadError::Shared)?;
        let mut programs = Self {
            links: Vec::new(),
            ebpf,
            loaded,
            degraded,
            types: kernel,
            resolved,
            hz: clock::hz(),
            shared,
            control: Control {
                walk: 1,
                ..Control::default()
            },
        };
        programs.pace(options.interval_ns, 0)?;
        Ok(programs)
    }

    /// How closely to look from now on: nanoseconds between two samples of a flow, and the same for flows looked at or
    /// with losses; 0 = every ACK.
    pub fn pace(&mut self, interval_ns: u64, close_ns: u64) -> Result<(), LoadError> {
        let us = |ns: u64| ns.div_ceil(1000).min(Control::LONGEST_US);
        self.control.interval_us = us(interval_ns);
        self.control.close_us = us(close_ns.min(interval_ns));
        self.control.whole_us = WHOLE_US;
        self.steer()
    }

    /// Looks closely at these flows, by their cookies; at most [`FOCUS`] of them.
    pub fn focus(&mut self, cookies: &[u64]) -> Result<(), LoadError> {
        let mut focus = [0; FOCUS];
        for (place, cookie) in focus.iter_mut().zip(cookies) {
            *place = *cookie;
        }
        if self.control.focus == focus {
            return Ok(());
        }
        self.control.focus = focus;
        self.control.focused = u32::from(focus[0] != 0);
        self.steer()
    }

    fn steer(&mut self) -> Result<(), LoadError> {
        let map = self
            .ebpf
            .map_mut("CONTROL")
            .ok_or_else(|| missing("CONTROL"))?;
        Array::<_, Control>::try_from(map)
            .and_then(|mut map| map.set(0, self.control, 0))
            .map_err(|source| LoadError::Map {
                map: "CONTROL",
                source,
            })
    }

    /// The counters and briefs that are shared with the programs.
    pub fn shared(&mut self) -> &mut Shared {
        &mut self.shared
    }

    /// Attaches the programs to their hooks. The sweep needs none.
    pub fn attach(&mut self) -> Result<(), LoadError> {
        for program in self.loaded.clone() {
            if !program.is_iterator() {
                let hooked = tracepoint(&mut self.ebpf, program)?;
                let link = hooked
                    .attach()
                    .and_then(|id| hooked.take_link(id))
                    .map_err(|source| refused(program, source))?;
                self.links.push(link);
            }
        }
        Ok(())
    }

    /// Takes the programs off their hooks; counters and ring stay readable.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    pub fn layout(&self) -> &Layout {
        &self.resolved.layout
    }

    /// The kernel's type information.
    pub fn types(&self) -> Arc<Btf> {
        Arc::clone(&self.types)
    }

    pub fn resolved(&self) -> &btf::Resolved {
        &self.resolved
    }

    /// Ticks per second.
    pub fn hz(&self) -> u32 {
        self.hz
    }

    /// What this kernel cannot do, a line each.
    pub fn degraded(&self) -> Vec<String> {
        let absent = self
            .resolved
            .absent
            .iter()
            .map(|absent| format!("this kernel has no {absent}"));
        self.degraded.iter().cloned().chain(absent).collect()
    }

    pub fn loaded(&self) -> &[Program] {
        &self.loaded
    }

    /// The program's descriptor.
    pub fn fd(&self, program: Program) -> Option<&ProgramFd> {
        self.ebpf.program(program.name())?.fd().ok()
    }

    /// The ring, once.
    pub fn take_ring(&mut self) -> Result<RingBuf<MapData>, LoadError> {
        let map = self
            .ebpf
            .take_map("EVENTS")
            .ok_or_else(|| missing("EVENTS"))?;
        RingBuf::try_from(map).map_err(|source| LoadError::Map {
            map: "EVENTS",
            source,
        })
    }

    /// What became of the runs so far.
    pub fn counters(&self) -> Counters {
        let own = self.shared.counters();
        let loaded = self
            .loaded
            .iter()
            .filter_map(|program| Some((*program, self.fd(*program)?)));
        counters::all(&own, loaded)
    }

    /// Reads the sockets of the calling thread's network namespace through the `tcp` iterator into `buffer` (whole
    /// [`observer_common::wire::Full`] records); with `all`, unchanged flows too.
    pub fn sweep(&mut self, all: bool, buffer: &mut Vec<u8>) -> Result<(), LoadError> {
        if self.control.sweep_all != u32::from(all) {
            self.control.sweep_all = u32::from(all);
            self.steer()?;
        }
        self.read_iterator(Program::Sweep, buffer)
    }

    /// Reads who holds which TCP socket, all namespaces asked for, into `buffer` (whole
    /// [`observer_common::wire::Owner`] records). Nothing where this kernel cannot tell.
    pub fn owners(&mut self, buffer: &mut Vec<u8>) -> Result<(), LoadError> {
        if self.loaded.contains(&Program::Owners) {
            self.control.walk = self.control.walk.checked_add(1).unwrap_or(1);
            self.steer()?;
            self.read_iterator(Program::Owners, buffer)?;
        }
        Ok(())
    }

    fn read_iterator(&mut self, program: Program, buffer: &mut Vec<u8>) -> Result<(), LoadError> {
        let iter: &mut Iter = self
            .ebpf
            .program_mut(program.name())
            .ok_or_else(|| missing(program.name()))?
            .try_into()
            .map_err(|source| refused(program, source))?;
        let id = iter.attach().map_err(|source| refused(program, source))?;
        let link = iter
            .take_link(id)
            .map_err(|source| refused(program, source))?;
        let mut file = link
            .into_file()
            .map_err(|source| LoadError::Iterator(std::io::Error::other(chain(&source))))?;
        file.read_to_end(buffer).map_err(LoadError::Iterator)?;
        Ok(())
    }
}

/// An array, out of the object.
fn array(ebpf: &mut Ebpf, map: &'static str) -> Result<MapData, LoadError> {
    match ebpf.take_map(map) {
        Some(Map::Array(data)) => Ok(data),
        _ => Err(missing(map)),
    }
}

fn missing(map: &'static str) -> LoadError {
    LoadError::Map {
        map,
        source: MapError::InvalidName {
            name: map.to_owned(),
        },
    }
}

fn tracepoint(ebpf: &mut Ebpf, program: Program) -> Result<&mut BtfTracePoint, LoadError> {
    ebpf.program_mut(program.name())
        .ok_or_else(|| missing(program.name()))?
        .try_into()
        .map_err(|source| refused(program, source))
}

fn load_one(ebpf: &mut Ebpf, program: Program, types: &AyaBtf) -> Result<(), LoadError> {
    let result = if program.is_iterator() {
        let iter: &mut Iter = ebpf
            .program_mut(program.name())
            .ok_or_else(|| missing(program.name()))?
            .try_into()
            .map_err(|source| refused(program, source))?;
        iter.load(program.hook(), types)
    } else {
        tracepoint(ebpf, program)?.load(program.hook(), types)
    };
    result.map_err(|source| refused(program, source))
}

fn refused(program: Program, source: ProgramError) -> LoadError {
    match source {
        ProgramError::LoadError {
            io_error,
            verifier_log,
        } => {
            let whole = verifier_log.to_string();
            let tail = last_lines(&whole, 12);
            LoadError::Verifier {
                program: program.name(),
                io: io_error,
                tail,
                log: keep_log(program, &whole),
            }
        }
        source => LoadError::Program {
            program: program.name(),
            hook: program.hook(),
            source: Box::new(source),
        },
    }
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Leaves the whole log beside the temporary files; says why when it cannot.
fn keep_log(program: Program, log: &str) -> String {
    let path = std::env::temp_dir().join(format!(
        "observer-verifier-{}-{}.log",
        program.name(),
        std::process::id()
    ));
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)
        .and_then(|mut file| std::io::Write::write_all(&mut file, log.as_bytes()));
    match written {
        Ok(()) => path.display().to_string(),
        Err(error) => format!("not kept ({}: {error})", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_a_log() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
        assert_eq!(last_lines("", 2), "");
    }
}
