//! `cargo xtask bench kernel`: what the programs cost per event, part by part, and their share of CPU.
//!
//! All programs hang on the same hook at the same time, so that they see the same events; the order of attachment
//! rotates each round. Programs measured one after the other differ twofold between rounds (TECHNIQUES §5). The times
//! are the kernel's own (`bpf_stats`), whose cost is part of the empty program's.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures wall time")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use aya::maps::{Array, Map, MapData, RingBuf};
use aya::programs::BtfTracePoint;
use aya::programs::tp_btf::BtfTracePointLink;
use aya::{Ebpf, EbpfLoader};
use clap::Parser;
use observer::kernel::btf::{Btf, Resolved, SYS_KERNEL_BTF, resolve};
use observer::kernel::load::{Options, Programs};
use observer::kernel::object;
use observer::kernel::patch::patched;
use observer::kernel::shared::{Shared, briefs_per_cpu};
use observer_common::config::{Control, ProbeConfig};
use observer_common::outcome::Program;

use common::{Flows, Summary, bar, run_time};

const HOUR_US: u64 = 3_600_000_000;
const VARIANTS: [(&str, &str); 13] = [
    ("empty", "nothing: the statistics' own cost"),
    ("counters", "the per-CPU counters"),
    ("tick", "the clock of jiffies"),
    ("clock", "bpf_ktime_get_ns"),
    ("cookie", "the socket's cookie"),
    ("cast", "bpf_skc_to_tcp_sock"),
    ("cast_slot", "the cast, decided by the array"),
    ("cast_storage", "the cast, decided by storage"),
    ("cast_loads", "the cast, a sample's loads"),
    ("cast_brief", "the cast, a brief's loads"),
    ("brief", "the cast, storage, a brief handed over"),
    ("cast_attributes", "the cast, the attributes' look"),
    ("ring", "a sample's room in the ring"),
];

#[derive(Debug, Parser)]
struct Args {
    /// The object with the parts
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bpf/bench.o"))]
    variants: PathBuf,
    /// Another object of the observer to compare with the embedded one in the same run (repeatable)
    #[arg(long)]
    object: Vec<PathBuf>,
    /// Only what the observer's objects cost, not the parts
    #[arg(long)]
    no_parts: bool,
    /// Size of every ring
    #[arg(long, default_value_t = Options::default().ring_bytes)]
    ring_bytes: u32,
    /// Rounds at least; more where the order has more places
    #[arg(long, default_value_t = 12)]
    rounds: usize,
    /// Length of a round
    #[arg(long, default_value_t = 700)]
    round_ms: u64,
    /// Rounds of throughput and share of CPU; 0 = none
    #[arg(long, default_value_t = 5)]
    share_rounds: usize,
    /// What `cargo bench` passes
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if !rustix::process::geteuid().is_root() {
        bail!("not root: cargo xtask bench kernel");
    }
    println!("kernel: {}", common::machine());
    common::enter_new_netns().context("no network namespace")?;
    let _statistics = aya::sys::enable_stats(aya::sys::Stats::RunTime)
        .context("the kernel's statistics cannot be switched on")?;
    per_event(&args)?;
    if args.share_rounds > 0 {
        share(args.share_rounds)?;
    }
    Ok(())
}

/// One program on the hook, with the object it came from.
struct Subject {
    name: String,
    what: String,
    ebpf: usize,
    program: String,
    rounds: Vec<f64>,
    events: u64,
}

struct Loader {
    ring_bytes: u32,
    types: aya::Btf,
    resolved: Resolved,
    loaded: Vec<Ebpf>,
    shared: Vec<Shared>,
    subjects: Vec<Subject>,
}

impl Loader {
    fn load(&mut self, bytes: &[u8], interval_us: u64) -> Result<usize> {
        let cpus = u32::try_from(
            aya::util::nr_cpus().map_err(|(what, e)| anyhow::anyhow!("{what}: {e}"))?,
        )?;
        let room = briefs_per_cpu(self.ring_bytes, cpus);
        let config = ProbeConfig {
            briefs_per_cpu: room,
            ca_words: self.resolved.ca_words,
            retransmit_err_arg: self.resolved.retransmit_err_arg,
            ..ProbeConfig::DEFAULT
        };
        let mut ebpf = EbpfLoader::new()
            .btf(Some(&self.types))
            .override_global("LAYOUT", &self.resolved.layout, true)
            .override_global("CONFIG", &config, true)
            .map_max_entries("EVENTS", self.ring_bytes)
            .map_max_entries("CPUS", cpus)
            .map_max_entries("BRIEFS", cpus * room)
            .load(&patched(bytes, &self.resolved.layout)?)?;
        let control = Control {
            interval_us,
            close_us: interval_us,
            whole_us: 10_000,
            walk: 1,
            ..Control::default()
        };
        Array::<_, Control>::try_from(ebpf.map_mut("CONTROL").context("no control")?)?
            .set(0, control, 0)?;
        let mut array = |name| match ebpf.take_map(name) {
            Some(Map::Array(data)) => Ok(data),
            _ => bail!("no array {name}"),
        };
        self.shared
            .push(Shared::new(array("CPUS")?, array("BRIEFS")?, cpus, room)?);
        self.loaded.push(ebpf);
        Ok(self.loaded.len() - 1)
    }

    fn add(&mut self, ebpf: usize, program: &str, name: String, what: &str) -> Result<()> {
        self.tracepoint(ebpf, program)?
            .load("tcp_probe", &aya::Btf::from_sys_fs()?)
            .with_context(|| format!("{name} does not load"))?;
        self.subjects.push(Subject {
            name,
            what: what.to_owned(),
            ebpf,
            program: program.to_owned(),
            rounds: Vec::new(),
            events: 0,
        });
        Ok(())
    }

    fn take_ring(&mut self, ebpf: usize) -> Result<RingBuf<MapData>> {
        let ring = self.loaded[ebpf].take_map("EVENTS").context("no ring")?;
        Ok(RingBuf::try_from(ring)?)
    }

    fn tracepoint(&mut self, ebpf: usize, program: &str) -> Result<&mut BtfTracePoint> {
        let program = self.loaded[ebpf]
            .program_mut(program)
            .with_context(|| format!("the object has no program {program}"))?;
        Ok(program.try_into()?)
    }

    fn attach(&mut self, subject: usize) -> Result<BtfTracePointLink> {
        let Subject { ebpf, program, .. } = &self.subjects[subject];
        let (ebpf, program) = (*ebpf, program.clone());
        let program = self.tracepoint(ebpf, &program)?;
        let link = program.attach()?;
        Ok(program.take_link(link)?)
    }

    fn run_times(&self) -> Result<Vec<(u64, u64)>> {
        self.subjects
            .iter()
            .map(|subject| {
                let program = self.loaded[subject.ebpf].program(&subject.program);
                run_time(program.context("loaded before")?.fd()?)
            })
            .collect()
    }
}

fn per_event(args: &Args) -> Result<()> {
    let mut loader = Loader {
        ring_bytes: args.ring_bytes,
        types: aya::Btf::from_sys_fs()?,
        resolved: resolve(&*Btf::vmlinux(SYS_KERNEL_BTF.as_ref())?)?,
        loaded: Vec::new(),
        shared: Vec::new(),
        subjects: Vec::new(),
    };
    let parts = fs::read(&args.variants)
        .with_context(|| format!("no parts at {}", args.variants.display()))?;
    let ebpf = loader.load(&parts, HOUR_US)?;
    let mut rings = vec![loader.take_ring(ebpf)?];
    let count = if args.no_parts { 1 } else { VARIANTS.len() };
    for (name, what) in &VARIANTS[..count] {
        loader.add(ebpf, name, (*name).to_owned(), what)?;
    }
    let mut objects = Vec::new();
    if let Some(embedded) = object::object() {
        objects.push((String::new(), embedded.to_vec()));
    }
    for path in &args.object {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        objects.push((format!(" {stem}"), fs::read(path)?));
    }
    if objects.is_empty() {
        bail!("no object: cargo xtask build --release");
    }
    let mut emitting = Vec::new();
    for (label, bytes) in &objects {
        let program = Program::Probe.name();
        let suppressed = loader.load(bytes, HOUR_US)?;
        let name = format!("suppressed{label}");
        loader.add(suppressed, program, name, "on_probe at --interval 1h")?;
        let emitted = loader.load(bytes, 0)?;
        let name = format!("emitted{label}");
        loader.add(emitted, program, name, "on_probe at --interval 0")?;
        for ebpf in [suppressed, emitted] {
            rings.push(loader.take_ring(ebpf)?);
        }
        emitting.push(emitted);
    }

    let shared = std::mem::take(&mut loader.shared);
    let drain = Drain::start(rings, shared, Duration::from_millis(5));
    let flows = Flows::start(4)?;
    let subjects = loader.subjects.len();
    // Every program stands on every place equally often.
    let rounds = args.rounds.next_multiple_of(subjects);
    for round in 0..rounds {
        let links = (0..subjects)
            .map(|place| loader.attach((place + round) % subjects))
            .collect::<Result<Vec<_>>>()?;
        // Caches, storage and first samples.
        thread::sleep(Duration::from_millis(100));
        let before = loader.run_times()?;
        thread::sleep(Duration::from_millis(args.round_ms));
        let after = loader.run_times()?;
        drop(links);
        for (subject, (before, after)) in loader.subjects.iter_mut().zip(before.iter().zip(&after))
        {
            let (time, runs) = (after.0 - before.0, after.1 - before.1);
            if runs == 0 {
                bail!("{} saw no event", subject.name);
            }
            subject.rounds.push(time as f64 / runs as f64);
            subject.events += runs;
        }
    }
    drop(flows);
    let shared = drain.stop().shared;
    print_table(&loader.subjects, rounds);
    for ebpf in emitting {
        check_accounts(&shared[ebpf])?;
    }
    for (subject, most) in [("suppressed", 2.0), ("emitted", 5.0)] {
        for subject in loader
            .subjects
            .iter()
            .filter(|s| s.name.starts_with(subject))
        {
            let ratio = ratio(subject, &loader.subjects[0]).median;
            bar(&format!("{} per event", subject.name), ratio, most, " ×");
        }
    }
    Ok(())
}

fn ratio(subject: &Subject, empty: &Subject) -> Summary {
    let pairs = subject.rounds.iter().zip(&empty.rounds);
    Summary::of(pairs.map(|(own, empty)| own / empty))
}

fn print_table(subjects: &[Subject], rounds: usize) {
    let empty = &subjects[0];
    println!(
        "\nns per event, median of {rounds} rounds, {} events; all programs on the same events",
        empty.events
    );
    println!(
        "{:<20} {:>8}  {:<14} {:>8}  {:<14} {:>7}",
        "program", "median", "min–max", "above", "min–max", "ratio"
    );
    for subject in subjects {
        let own = Summary::of(subject.rounds.iter().copied());
        let pairs = subject.rounds.iter().zip(&empty.rounds);
        let above = Summary::of(pairs.map(|(own, empty)| own - empty));
        let ratio = ratio(subject, empty).median;
        println!(
            "{:<20} {own} {above} {ratio:>7.2}  {}",
            subject.name, subject.what
        );
    }
    println!();
}

/// The emitted program has to have emitted, and every run to have one outcome.
fn check_accounts(shared: &Shared) -> Result<()> {
    let own = shared.counters().program[Program::Probe as usize];
    let [kept, suppressed, filtered, failed, dropped] = own.outcome;
    println!(
        "emitted: {} attempted = {kept} kept + {suppressed} suppressed + {filtered} filtered + {failed} failed + {dropped} dropped",
        own.attempted
    );
    if own.attempted != own.outcome.iter().sum::<u64>() {
        bail!("the accounts do not add up");
    }
    if dropped * 100 > own.attempted {
        println!("NOTE     more than 1 % was dropped: the emitted figure is too low");
    }
    Ok(())
}

/// A thread that takes records out of rings and forgets them.
struct Drain {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Drained>,
}

/// What the thread had.
#[derive(Default)]
struct Drained {
    rings: Vec<RingBuf<MapData>>,
    shared: Vec<Shared>,
}

impl Drain {
    fn start(mut rings: Vec<RingBuf<MapData>>, mut shared: Vec<Shared>, every: Duration) -> Self {
        let stop: Arc<AtomicBool> = Arc::default();
        let thread = thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                let mut bytes = 0;
                while !stop.load(Ordering::Relaxed) {
                    for ring in &mut rings {
                        while let Some(record) = ring.next() {
                            bytes += record.len() as u64;
                        }
                    }
                    for shared in &mut shared {
                        shared.drain(u64::MAX, |brief| bytes += brief.bytes_acked & 1);
                    }
                    thread::sleep(every);
                }
                std::hint::black_box(bytes);
                Drained { rings, shared }
            }
        });
        Self { stop, thread }
    }

    fn stop(self) -> Drained {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

const PHASE: Duration = Duration::from_millis(1500);

/// Gbit/s, over one phase.
fn throughput(flows: &Flows, during: impl FnOnce() -> Result<()>) -> Result<f64> {
    let (start, before) = (Instant::now(), flows.received());
    during()?;
    let (bytes, seconds) = (flows.received() - before, start.elapsed().as_secs_f64());
    Ok(bytes as f64 * 8.0 / 1e9 / seconds)
}

/// All programs as the tool loads them by default, with a sweep a second; beside it throughput without, with, and with
/// `ss -tin` every 200 ms, taken in turns.
fn share(rounds: usize) -> Result<()> {
    let mut programs = Programs::load(&Options::default())?;
    let mut rings = vec![programs.take_ring()?];
    let flows = Flows::start(4)?;
    let mut records = Vec::new();
    let mut shares = Vec::new();
    let mut rates: [Vec<f64>; 3] = Default::default();
    let mut by_program: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    thread::sleep(Duration::from_millis(500));
    for _ in 0..rounds {
        rates[0].push(throughput(&flows, || {
            thread::sleep(PHASE);
            Ok(())
        })?);
        programs.attach()?;
        let drain = Drain::start(rings, Vec::new(), Duration::from_millis(10));
        let (before, start) = (times(&programs)?, Instant::now());
        rates[1].push(throughput(&flows, || {
            programs.sweep(false, &mut records)?;
            thread::sleep(PHASE.saturating_sub(start.elapsed()));
            Ok(())
        })?);
        let available = start.elapsed().as_nanos() as f64 * common::cores() as f64;
        let mut sum = 0.0;
        for ((program, before), (_, after)) in before.iter().zip(times(&programs)?) {
            let share = (after.0 - before.0) as f64 / available * 100.0;
            sum += share;
            by_program.entry(program.name()).or_default().push(share);
        }
        shares.push(sum);
        programs.detach();
        rings = drain.stop().rings;
        rates[2].push(throughput(&flows, || watch_by_ss(PHASE))?);
    }
    drop(flows);

    println!(
        "\n4 loopback flows saturating, --interval 10ms, {rounds} rounds of {PHASE:?} each way"
    );
    let names = [
        "Gbit/s without",
        "Gbit/s with the programs",
        "Gbit/s with ss -tin every 200 ms",
    ];
    for (name, rates) in names.iter().zip(rates) {
        println!("{name:<34} {:.1}", Summary::of(rates));
    }
    for (program, shares) in by_program {
        println!("% of CPU, {program:<24} {:.3}", Summary::of(shares));
    }
    let shares = Summary::of(shares);
    println!("% of CPU, {:<24} {shares:.3}", "all programs");
    bar("share of CPU", shares.median, 0.5, " %");
    Ok(())
}

fn times(programs: &Programs) -> Result<Vec<(Program, (u64, u64))>> {
    programs
        .loaded()
        .iter()
        .map(|program| {
            let fd = programs.fd(*program).context("loaded")?;
            Ok((*program, run_time(fd)?))
        })
        .collect()
}

fn watch_by_ss(length: Duration) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < length {
        Command::new("ss")
            .arg("-tin")
            .stdout(Stdio::null())
            .status()
            .context("ss does not start")?;
        thread::sleep(Duration::from_millis(200).min(length.saturating_sub(start.elapsed())));
    }
    Ok(())
}
